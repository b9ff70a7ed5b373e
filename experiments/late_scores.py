"""Scores under late labels: one that is the truth on made streams, and bad ones on recorded streams.

    python experiments/late_scores.py [--seeds 5]
    SWAPCAL_DATA=directory python experiments/late_scores.py --bad [--data elec2 ...] [--late 5000 ...]

The truth: 30,000 rows, labels 500, 3,000 and 10,000 rows late, or known at the end of each 3,000 rows. Printed are the
root mean squared errors of the mean forecasts by fifths, largest of all seeds and averaged over them, and the change of
the Brier score against the score itself. Bad scores are those of streams.py and constants, on the first 100,000 rows;
printed is the change of the Brier score against no score: all rows, those after the first label, and the second half.
Beside a score that breaks stands what the same forecasts would cost if it were forecast itself for one delay after it
broke, and not used from then on.
"""

import argparse
from typing import Any

import numpy as np
import pandas as pd

from late import printed
from streams import Array, load
from swapcal.live import Live

ROWS, BAD_ROWS, BATCH = 30_000, 100_000, 3_000
DESIGNS = ("uniform", "uniform, groups, noise", "Beta(½, ½), noise", "Beta(1, 9), groups, noise", "from features",
           "drifting features")  # fmt: skip
STREAMS = ("bank_marketing", "elec2", "obd_clicks", "fte_games", "hotel_bookings", "rain_australia")


def made(design: str, seed: int) -> tuple[pd.DataFrame, Array, Array]:
    """Return records with the true probability as the score s, outcomes, and the probabilities."""
    rng, n = np.random.default_rng([seed, 7]), ROWS
    noise = {f"z{j}": rng.normal(size=n) for j in range(3)}
    shops = {"shop": rng.choice(list("abcde"), n)}
    columns: dict[str, Any] = {**noise, **shops}
    if design.startswith("uniform"):
        p, columns = rng.random(n), {} if design == "uniform" else columns
    elif design.startswith("Beta(½"):
        p, columns = rng.beta(0.5, 0.5, n), noise
    elif design.startswith("Beta(1"):
        p = rng.beta(1, 9, n)
    elif design == "from features":
        p = 1 / (1 + np.exp(-(1.2 * noise["z0"] - 0.8 * noise["z1"] + 0.5 * (shops["shop"] == "a"))))
    else:
        p = 1 / (1 + np.exp(-(2 * (1 - 2 * np.arange(n) / n) * noise["z0"] + noise["z1"])))
    return pd.DataFrame({**columns, "s": p}), (rng.random(n) < p).astype(float), p


def truth(design: str, late: int, seeds: int) -> None:
    """Print a line; `late` 0 stands for batches."""
    time = np.arange(ROWS, dtype=np.float64)
    known = time + late if late else np.floor(time / BATCH + 1.0) * BATCH - 0.5
    errors, changes = [], []
    for seed in range(seeds):
        frame, y, p = made(design, seed)
        groups = ["shop"] if "shop" in frame else []
        mean = np.asarray(Live(scores=["s"], groups=groups).run(frame, y, time=time, label_time=known).mean)
        errors.append([np.sqrt(np.mean(part**2)) for part in np.array_split(mean - p, 5)])
        changes.append(100.0 * (np.mean((mean - y) ** 2) / np.mean((p - y) ** 2) - 1.0))
    largest, average = (" ".join(f"{error:.3f}"[1:] for error in of(errors, axis=0)) for of in (np.max, np.mean))
    title = f"{late:,} late" if late else f"batches of {BATCH:,}"
    brier = f"{np.mean(changes):+.2f} % ({max(changes):+.2f} %)"
    printed(f"| {design} | {title} | {largest} | {average} | {brier} |")


def bad_scores(frame: pd.DataFrame, y: Array, given: list[str]) -> dict[str, Array]:
    """Return scores that are worth nothing, or cease to be worth something."""
    n, rng = len(y), np.random.default_rng(0)
    expert = Live(scores=given).trace(frame, y).experts[:, 2]
    noise, early = rng.uniform(size=n), np.arange(n) < n // 2
    return {
        "noise": noise,
        "constant 0": np.zeros(n),
        "constant 1": np.ones(n),
        "constant 0.9": np.full(n, 0.9),
        "stale": np.append(np.full(min(n, 2000), 0.5), expert)[:n],
        "inverted": 1.0 - expert,
        "leaked, then broken": np.where(early, np.where(y > 0.5, 0.99, 0.01), noise),
    }


def bad(name: str, late: int) -> None:
    """Print a line for each score."""
    data = load(name)
    y, frame = data.y[:BAD_ROWS], data.frame[:BAD_ROWS]
    time = np.arange(len(y), dtype=np.float64)

    def squares(score: Array | None) -> Array:
        scores = data.scores if score is None else [*data.scores, "added_score"]
        table = frame if score is None else frame.assign(added_score=score)
        mean = Live(scores=scores).run(table, y, time=time, label_time=time + late).mean
        return (np.asarray(mean) - y) ** 2

    base, parts = squares(None), (slice(None), slice(late, None), slice(len(y) // 2, None))

    def line(kind: str, found: Array) -> None:
        changes = (f"{100.0 * (found[part].mean() / base[part].mean() - 1.0):+.2f} %" for part in parts)
        printed(f"| {name} | {late:,} | {kind} | {' | '.join(changes)} |")

    for kind, score in bad_scores(frame, y, data.scores).items():
        found, half = squares(score), len(y) // 2
        line(kind, found)
        if kind == "leaked, then broken":
            believed = ((score - y) ** 2)[half : half + late]
            line("the same, believed for one delay", np.concatenate([found[:half], believed, base[half + late :]]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--bad", action="store_true")
    parser.add_argument("--data", nargs="*", default=[*STREAMS])
    parser.add_argument("--late", nargs="*", type=int, default=[5_000])
    chosen = parser.parse_args()
    if chosen.bad:
        for name in chosen.data:
            for late in chosen.late:
                bad(name, late)
        return
    for design in DESIGNS:
        for late in (500, 3_000, 10_000, 0):
            truth(design, late, chosen.seeds)


if __name__ == "__main__":
    main()
