"""How often the intervals of `compare` hold for rows that belong together, and how often it finds a gain that is none.

`python experiments/compare_level.py 500 coverage` compares two fixed forecasts, of which the true difference is known,
and prints how often the 95 % intervals of the Brier score and of the log loss hold it. `… 100 gains` cross-validates
all methods on true forecasts: a gain is false. Columns are constant within a cluster, as a patient's are, so that folds
that split clusters let a method learn the outcomes it is judged by. The numbers in docs/comparing.md come from it.
"""

import sys
from typing import Any

import numpy as np
from scipy.special import ndtr

from swapcal.benchmark import Benchmark, cross_validated
from swapcal.kernels.tally import log_losses

SIZES = {1: 3_000, 4: 750, 10: 300, 50: 100}
"""Rows a cluster, and clusters."""

Rows = dict[str, np.ndarray]


def drawn(rng: np.random.Generator, clusters: int, size: int, rate: float = 0.3) -> Rows:
    """Return true probabilities, and outcomes of clusters that share a Gaussian factor (half the variance)."""
    cluster = np.repeat(np.arange(clusters), size)
    p = 1.0 / (1.0 + np.exp(-rng.normal(np.log(rate / (1.0 - rate)), 0.8, len(cluster))))
    shared, own = rng.normal(size=clusters)[cluster], rng.normal(size=len(cluster))
    age, income = rng.uniform(18, 90, clusters)[cluster], rng.lognormal(3, 0.5, clusters)[cluster]
    y = (ndtr(np.sqrt(0.5) * (shared + own)) < p).astype(float)
    return {"p": p, "y": y, "cluster": cluster, "age": age, "income": income}


def fixed(rows: Rows) -> dict[str, np.ndarray]:
    """Return two forecasts that err by as much or more, for other ages."""
    wave = np.sin(rows["age"] / 5.0)
    return {
        "mine": np.clip(rows["p"] + 0.08 * wave, 0.01, 0.99),
        "swapcal": np.clip(rows["p"] - 0.04 * wave, 0.01, 0.99),
    }


def truth(size: int = 2_000_000) -> dict[str, float]:
    """Return the mean differences of the two in the population."""
    rows = drawn(np.random.default_rng(99), size, 1)
    one, other, p = *fixed(rows).values(), rows["p"]
    zero, full = np.zeros(size), np.ones(size)
    logs = p * (log_losses(other, full) - log_losses(one, full)) + (1 - p) * (
        log_losses(other, zero) - log_losses(one, zero)
    )
    return {"Brier score": float(np.mean((other - p) ** 2 - (one - p) ** 2)), "log loss": float(np.mean(logs))}


def coverage(runs: int) -> None:
    """Print how often the intervals hold the true difference."""
    known = truth()
    for size, clusters in SIZES.items():
        held: dict[tuple[str, bool], list[bool]] = {(name, named): [] for named in (True, False) for name in known}
        for seed in range(runs):
            rows = drawn(np.random.default_rng([41, size, seed]), clusters, size)
            for named in (True, False):
                ids = rows["cluster"] if named else None
                contest = Benchmark(rows["y"], fixed(rows), clusters=ids)
                for one in contest.comparison("mine", "swapcal").differences()[:2]:
                    held[one.name, named].append(one.low <= known[one.name] <= one.high)
        shares = "  ".join(
            f"{name} {'by cluster' if named else 'by row'} {100 * np.mean(found):.1f} %"
            for (name, named), found in held.items()
        )
        print(f"{clusters:5,} clusters of {size:2}: {shares}", flush=True)


def is_gain(rows: Rows, seed: int, ids: Any) -> bool:
    """Tell whether swapcal is called better than true forecasts."""
    table = {name: rows[name] for name in ("age", "income")}
    found = cross_validated(table, rows["y"], rows["p"], seed=seed, clusters=ids)
    return Benchmark(rows["y"], found, clusters=ids)["swapcal"].better


def gains(runs: int) -> None:
    """Print how often a gain over true forecasts is found."""
    for size, clusters in SIZES.items():
        drawn_rows = [drawn(np.random.default_rng([43, size, seed]), clusters, size) for seed in range(runs)]
        named = np.mean([is_gain(rows, seed, rows["cluster"]) for seed, rows in enumerate(drawn_rows)])
        split = np.mean([is_gain(rows, seed, None) for seed, rows in enumerate(drawn_rows)])
        print(
            f"{clusters:5,} clusters of {size:2}: false gain {100 * named:.1f} % whole, {100 * split:.1f} % split",
            flush=True,
        )


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for part in sys.argv[2:] or ["coverage", "gains"]:
        {"coverage": coverage, "gains": gains}[part](count)
