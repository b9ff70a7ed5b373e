"""Quantiles by group: Hu, Luo, Senapati and Sharan (2026) with another residual, beside plain quantile regression.

    SWAPCAL_DATA=directory python experiments/quantiles.py

Their Algorithm 2 needs of a property only its identification function: y - p for means, q - 1[y ≤ p] for the quantile.
Here each of N + 1 levels keeps AdaNormalHedge weights over both signs of every group and a direction of the features;
two neighbouring levels are played where the weighted sum S changes sign. Neither stream has a numeric target of its
own, so a numeric column is one: the price of Electricity (nswprice) and the daily rate of the hotel bookings (adr).
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from swapcal.arrays import Array

ROWS, FIRST, LEVELS = 30_000, 1_000, 31
QUANTILES = (0.1, 0.5, 0.9)
FEWEST = 1_000
MOST = 600.0
"""Largest exponent of a weight."""


class Stream(NamedTuple):
    """Contexts (first coordinate ½, norm at most 1), memberships of groups, everyone first, and a target in [0, 1]."""

    X: Array
    groups: Array
    y: Array


def prices(folder: Path) -> Stream:
    table = pd.read_csv(folder / "elec2.csv.gz", nrows=ROWS + 1)
    before = table["nswprice"].shift(1).iloc[1:].to_numpy()
    table = table.iloc[1:]
    numbers = table[["period", "nswdemand", "vicdemand", "transfer", "vicprice"]].to_numpy(float)
    demand = pd.Series(np.where(table["nswdemand"] > table["nswdemand"].iloc[:FIRST].median(), "high", "low"))
    return stream(np.column_stack([before, numbers]), [table["halfday"], table["day"], demand], table["nswprice"], 0.2)


def bookings(folder: Path) -> Stream:
    table = pd.read_csv(folder / "hotel_bookings.csv.gz", nrows=ROWS)
    names = ["lead_time", "stays_in_weekend_nights", "stays_in_week_nights", "adults", "children", "month"]
    named = [table[name] for name in ("hotel", "market_segment", "customer_type", "meal")]
    return stream(table[names].fillna(0).to_numpy(float), named, table["adr"], 250.0)


def stream(numbers: Array, named: "list[pd.Series]", target: "pd.Series", top: float) -> Stream:
    """Return contexts of numbers and groups; numbers are standardised by the first rows, the target is cut at `top`."""
    groups = np.column_stack([np.ones(len(numbers)), *(pd.get_dummies(each).to_numpy(float) for each in named)])
    head = numbers[:FIRST]
    Z = np.column_stack([np.clip((numbers - head.mean(axis=0)) / (head.std(axis=0) + 1e-9), -3, 3), groups[:, 1:]])
    Z *= np.sqrt(0.75) / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1.0)
    X = np.column_stack([np.full(len(Z), 0.5), Z])
    return Stream(X, groups, np.clip(target.to_numpy(float) / top, 0.0, 1.0))


def regression(given: Stream, q: float) -> Array:
    """Return the forecasts of linear quantile regression by online gradient steps (AdaGrad), started from ½."""
    theta, squares = np.zeros(given.X.shape[1]), np.full(given.X.shape[1], 1e-8)
    theta[0] = 1.0
    found = np.zeros(len(given.y))
    for t, (x, y) in enumerate(zip(given.X, given.y, strict=True)):
        found[t] = np.clip(theta @ x, 0.0, 1.0)
        gradient = (q - (y <= found[t])) * x
        squares += gradient**2
        theta += 0.3 * gradient / np.sqrt(squares)
    return found


def normal_hedge(gain: Array, seen: Array) -> Array:
    """Return AdaNormalHedge's weights of learners with such gains over so much seen."""
    unit = 3.0 * (seen + 1.0)
    above, below = np.maximum(gain + 1.0, 0.0), np.maximum(gain - 1.0, 0.0)
    return 0.5 * (np.exp(np.minimum(above**2 / unit, MOST)) - np.exp(np.minimum(below**2 / unit, MOST)))  # type: ignore[no-any-return]


def multicalibrated(X: Array, given: Stream, q: float, levels: int = LEVELS, seed: int = 0) -> Array:
    """Return the levels drawn by Hu et al.'s rule with residual q - 1[y ≤ p]."""
    rng = np.random.default_rng(seed)
    z = np.arange(levels + 1) / levels
    gain, seen = np.zeros((levels + 1, given.groups.shape[1])), np.zeros((levels + 1, given.groups.shape[1]))
    along, faced = np.zeros(levels + 1), np.zeros(levels + 1)
    G, squares = np.zeros((levels + 1, X.shape[1] - 1)), np.zeros(levels + 1)
    found = np.zeros(len(given.y))
    for t, (x, member, y) in enumerate(zip(X[:, 1:] * 2 / np.sqrt(3), given.groups > 0, given.y, strict=True)):
        length = np.sqrt(np.maximum(np.sum(G**2, axis=1), 2.0 * squares))
        values = np.divide(G @ x, length, out=np.zeros(levels + 1), where=length > 0)
        mine, faces = gain[:, member], seen[:, member]
        S = (normal_hedge(mine, faces) - normal_hedge(-mine, faces)).sum(axis=1) + normal_hedge(along, faced) * values
        k = drawn_level(S, rng.random())
        found[t] = z[k]
        residual = q - (y <= z[k])
        gain[k, member] += residual
        seen[k, member] += abs(residual)
        along[k] += residual * values[k]
        faced[k] += abs(residual * values[k])
        G[k] += residual * x
        squares[k] += residual**2 * float(x @ x)
    return found


def drawn_level(S: Array, draw: float) -> int:
    """Return a level at the first change of sign of S from positive to not, or an end if there is none."""
    if S[0] <= 0.0:
        return 0
    crossed = np.flatnonzero(S <= 0.0)
    if not len(crossed):
        return len(S) - 1
    high = int(crossed[0])
    return high if draw < S[high - 1] / (S[high - 1] - S[high]) else high - 1


def judged(found: Array, given: Stream, q: float) -> tuple[float, float, float, float]:
    """Return pinball loss, and |coverage - q|: overall, of the worst group, of the worst group and third of forecasts.

    Groups with at least 1,000 rows count, and their thirds; equal forecasts are parted by their order in time.
    """
    gap = given.y - found
    covered = (given.y <= found) - q
    groups = [np.flatnonzero(column > 0) for column in given.groups.T if column.sum() >= FEWEST]
    thirds = [rows for group in groups for rows in np.array_split(group[np.argsort(found[group], kind="stable")], 3)]
    worst = max(abs(covered[rows].mean()) for rows in groups)
    parted = max(abs(covered[rows].mean()) for rows in thirds)
    return float(np.mean(np.maximum(q * gap, (q - 1.0) * gap))), abs(float(covered.mean())), float(worst), float(parted)


def made(rows: int) -> Stream:
    """Return a stream with three disjoint groups, whose targets are uniform on intervals of their own."""
    rng = np.random.default_rng(0)
    group = rng.choice(3, rows, p=[0.6, 0.3, 0.1])
    groups = np.column_stack([np.ones(rows), np.eye(3)[group]])
    X = np.column_stack([np.full(rows, 0.5), groups[:, 1:] * np.sqrt(0.75)])
    return Stream(X, groups, np.array([0.1, 0.4, 0.6])[group] + 0.3 * rng.random(rows))


def main(folder: Path) -> None:
    for rows in (2_000, 30_000):
        loss, *gaps = judged(multicalibrated(made(rows).X, made(rows), 0.9), made(rows), 0.9)
        print(f"made stream, {rows:,} rows: " + ", ".join(f"{100 * gap:.2f}" for gap in gaps))
    print("| stream | q | forecasts | pinball | overall | worst group | worst group and third |")
    print("|---|--:|---|--:|--:|--:|--:|")
    for name, given in (("electricity price", prices(folder)), ("hotel rate", bookings(folder))):
        for q in QUANTILES:
            plain = regression(given, q)
            wider = np.column_stack([given.X, plain - 0.5])
            wider[:, 1:] *= np.sqrt(0.75) / np.maximum(
                np.linalg.norm(wider[:, 1:], axis=1, keepdims=True), np.sqrt(0.75)
            )
            rows = {
                "quantile regression": plain,
                "Hu et al.": multicalibrated(given.X, given, q),
                "Hu et al., regression as a feature": multicalibrated(wider, given, q),
            }
            for label, found in rows.items():
                loss, *gaps = judged(found, given, q)
                print(
                    f"| {name} | {q} | {label} | {loss:.4f} | " + " | ".join(f"{100 * gap:.1f}" for gap in gaps) + " |"
                )


if __name__ == "__main__":
    main(Path(os.environ["SWAPCAL_DATA"]))
