"""How often the audit condemns true forecasts, and how often it finds an error along a number or despite clusters.

`python experiments/audit_level.py 500` prints the share of files with p ≤ 0.05 in every design; some designs only with
`python experiments/audit_level.py 500 numbers`. The numbers in docs/findings.md come from it.
"""

import sys
from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import ndtr

from swapcal import Audit

Rng = np.random.Generator


def forecasts(rng: Rng, rows: int, rate: float) -> np.ndarray:
    """Return probabilities with about the given mean."""
    return 1.0 / (1.0 + np.exp(-rng.normal(np.log(rate / (1.0 - rate)), 0.8, rows)))


def table(rng: Rng, rows: int) -> dict[str, np.ndarray]:
    """Return features: even, skewed, with few values, mostly 0, with missing values, constant; and a category."""
    age = rng.uniform(18, 90, rows)
    return {
        "age": age,
        "income": rng.lognormal(10, 1, rows),
        "children": rng.poisson(0.8, rows).astype(float),
        "visits": np.where(rng.random(rows) < 0.7, 0.0, rng.exponential(3, rows)),
        "score": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows)),
        "constant": np.ones(rows),
        "town": rng.choice(list("abcdefgh"), rows),
    }


def along_numbers(rows: int, rate: float, bend: float = 0.0) -> Callable[[Rng], float]:
    """Return a design of independent rows, whose outcomes may be off by ±`bend` in a U along age."""

    def drawn(rng: Rng) -> float:
        p, features = forecasts(rng, rows, rate), table(rng, rows)
        off = bend * (2.0 * np.abs(features["age"] - 54.0) / 36.0 - 1.0)
        y = rng.random(rows) < np.clip(p + off, 0.0, 1.0)
        return Audit.from_features(p, y, features, seed=int(rng.integers(2**31))).test().p_value

    return drawn


NUMBERS = {
    "true, 2,000 rows, rate 30 %": along_numbers(2_000, 0.3),
    "true, 2,000 rows, rate 3 %": along_numbers(2_000, 0.03),
    "true, 20,000 rows, rate 10 %": along_numbers(20_000, 0.1),
    "true, 100,000 rows (sums), rate 10 %": along_numbers(100_000, 0.1),
    "U of 8 points, 20,000 rows": along_numbers(20_000, 0.4, 0.08),
    "U of 4 points, 20,000 rows": along_numbers(20_000, 0.4, 0.04),
    "U of 8 points, 5,000 rows": along_numbers(5_000, 0.4, 0.08),
}


def in_clusters(
    clusters: int, size: int, rate: float = 0.3, gap: float = 0.0, *, named: bool = True
) -> Callable[[Rng], float]:
    """Return a design of clusters whose rows share a Gaussian factor (half the variance), in 8 groups.

    Every row's outcome has its predicted probability, except that of one group, which may be off by `gap`.
    """

    def drawn(rng: Rng) -> float:
        cluster = np.repeat(np.arange(clusters), size)
        p = forecasts(rng, len(cluster), rate)
        shared, own = rng.normal(size=clusters)[cluster], rng.normal(size=len(cluster))
        group = rng.integers(0, 8, clusters)[cluster]
        truth = np.clip(p + gap * (group == 3), 0.0, 1.0)
        y = ndtr(np.sqrt(0.5) * (shared + own)) < truth
        features = {"age": rng.uniform(18, 90, clusters)[cluster], "value": rng.normal(size=len(cluster))}
        ids = cluster if named else None
        return Audit.from_features(p, y, features, groups={"ward": group}, clusters=ids).test().p_value

    return drawn


CLUSTERS = {
    "true, 5,000 clusters of 1": in_clusters(5_000, 1),
    "true, 1,250 clusters of 4": in_clusters(1_250, 4),
    "true, 1,000 clusters of 10": in_clusters(1_000, 10),
    "true, 400 clusters of 50": in_clusters(400, 50),
    "true, 1,000 clusters of 10, rate 5 %": in_clusters(1_000, 10, 0.05),
    "true, 5,000 clusters of 1, rate 5 %": in_clusters(5_000, 1, 0.05),
    "true, 400 clusters of 50, rate 10 %": in_clusters(400, 50, 0.1),
    "one group 8 points off, 1,000 clusters of 10": in_clusters(1_000, 10, 0.3, 0.08),
    "one group 8 points off, 1,000 clusters of 1": in_clusters(1_000, 1, 0.3, 0.08),
    "true, 1,250 clusters of 4, clusters not named": in_clusters(1_250, 4, named=False),
    "true, 1,000 clusters of 10, clusters not named": in_clusters(1_000, 10, named=False),
}

DESIGNS = {"numbers": NUMBERS, "clusters": CLUSTERS}


def rates(designs: dict[str, Callable[[Rng], float]], runs: int) -> Iterator[tuple[str, float]]:
    """Yield the share of runs of every design with p ≤ 0.05."""
    for name, drawn in designs.items():
        yield name, float(np.mean([drawn(np.random.default_rng([17, k])) <= 0.05 for k in range(runs)]))


def main() -> None:
    """Print a table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    for part in sys.argv[2:] or DESIGNS:
        for name, rate in rates(DESIGNS[part], runs):
            print(f"{name:44} {100 * rate:5.1f} %", flush=True)


if __name__ == "__main__":
    main()
