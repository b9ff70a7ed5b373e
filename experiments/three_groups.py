"""ℓ1 multicalibration over three disjoint groups that depend on the forecast, where T^{2/3} is the best order possible.

python experiments/three_groups.py
"""

import numpy as np

from swapcal import Forecaster
from swapcal.arrays import Array
from swapcal.datasets import Stream, played, prediction_groups

HORIZONS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
SEEDS = 5


def worst_group(p: Array, y: Array, chance: Array) -> float:
    """Return the largest Σ_v |Σ g·1[p = v](y − v)| of the groups above, below and at the revealed probability."""
    above, below, everyone = prediction_groups(p, chance).T
    groups = np.column_stack([above, below, everyone - above - below])
    levels, index = np.unique(p, return_inverse=True)
    sums = np.zeros((len(levels), 3))
    np.add.at(sums, index, groups * (y - p)[:, None])
    return float(np.abs(sums).sum(axis=0).max())


def medians(horizon: int) -> Array:
    """Return the median errors of the issued levels and of the true probabilities."""
    errors = []
    for seed in range(SEEDS):
        part = played(Forecaster(dim=2, seed=seed), Stream("revealed", 2, horizon, seed))
        errors.append([worst_group(p, part.y, part.chance) for p in (part.forecast.p, part.chance)])
    return np.median(errors, axis=0)


def main() -> None:
    rows = np.array([medians(horizon) for horizon in HORIZONS])
    for horizon, errors in zip(HORIZONS, rows, strict=True):
        print(f"{horizon:>9,} rounds: " + ", ".join(f"{e:6.0f} = {e / horizon ** (2 / 3):.3f} T^(2/3)" for e in errors))
    slopes = np.polyfit(np.log(HORIZONS), np.log(rows), 1)[0]
    print("slopes: issued levels {:.3f}, true probabilities {:.3f}".format(*slopes))


if __name__ == "__main__":
    main()
