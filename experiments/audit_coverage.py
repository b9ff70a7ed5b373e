"""Coverage of the audit's simultaneous intervals on simulated tables: `python experiments/audit_coverage.py 150`.

Prints, for every setting, how often all intervals held their true gaps at once, how often the interval of the worst
error held it, and which verdicts were given.
"""

import sys
from collections import Counter
from typing import Any

import numpy as np

from swapcal import Audit
from swapcal.arrays import Array
from swapcal.audit.verdict import ALPHA, COVERED_SHARE

SETTINGS = ("no error", "groups up", "groups down", "rare", "bent", "overspread", "coins")
ROWS = (600, 3000)


def table(setting: str, rows: int, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
    """Return predictions, true chances and groups."""
    if setting == "rare":
        p = rng.beta(1, 60, rows)
    elif setting == "groups down":
        p = rng.choice([0.1, 0.3, 0.5, 0.7, 0.9], rows)
    else:
        p = rng.beta(2, 3, rows)
    groups = {"g": rng.integers(0, 8, rows).astype(str), "s": rng.choice(["f", "m"], rows, p=[0.2, 0.8])}
    shift = {"groups up": 0.08, "groups down": -0.08, "rare": 0.02}.get(setting, 0.0)
    chance = p + shift * (groups["g"] == "3") + 0.5 * shift * (groups["s"] == "f")
    if setting == "bent":
        chance = p**1.5
    if setting == "overspread":
        chance = np.where(rng.random(rows) < 0.5, 0.9 * p, p + 0.3)
    if setting == "coins":
        p, chance = rng.choice([0.01, 0.99, 0.5], rows), np.full(rows, 0.5)
    return p, np.clip(chance, 0.0, 1.0), groups


def true_gaps(audit: Audit, p: Array, chance: Array, groups: dict[str, Any]) -> Array:
    """Return the true gap of everyone and of every group in every window."""
    level = audit.levels.index(p)
    names = [(column, name) for column, found, _ in audit.evidence.design.columns for name in found]
    members = np.array([np.ones(len(p)), *(groups[column] == name for column, name in names)], dtype=np.float64)
    inside = np.array(
        [(level >= first) & (level <= last) for first, last in audit.evidence.scan.windows], dtype=np.float64
    )
    mass = inside @ members.T
    return np.asarray((inside * (chance - p)) @ members.T / np.maximum(mass, 1e-300))


def trial(setting: str, rows: int, seed: int) -> tuple[bool, bool, str]:
    """Return whether all intervals held, whether the worst error's did, and the verdict."""
    seed = 1000 * seed + rows
    rng = np.random.default_rng(seed)
    p, chance, groups = table(setting, rows, rng)
    y = (rng.random(rows) < chance).astype(np.float64)
    audit = Audit.from_features(p, y, {"noise": rng.normal(size=rows)}, groups=groups, seed=seed)
    truth, verdict = true_gaps(audit, p, chance, groups), audit.verdict()
    held, worst, count = True, abs(truth[-1, 0]), len(audit.evidence.scan.coordinates)
    for gaps, cells in zip(truth, audit.evidence.sizes, strict=True):
        low, high, p_value, share, usable = (
            np.delete(part, range(1, count))
            for part in (cells.low, cells.high, cells.p_value, cells.share, cells.usable)
        )
        held &= bool(((low <= gaps + 1e-12) & (gaps - 1e-12 <= high))[usable].all())
        covered = usable & ((p_value <= ALPHA) | (share >= COVERED_SHARE))
        worst = max(worst, float(np.abs(gaps[covered]).max(initial=0.0)))
    return held, verdict.low <= worst + 1e-12 <= verdict.high + 2e-12, verdict.word


if __name__ == "__main__":
    tables = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    for setting in SETTINGS:
        for rows in ROWS:
            held, worst, verdicts = zip(*(trial(setting, rows, seed) for seed in range(tables)), strict=True)
            shares = f"all {np.mean(held):.3f}  worst {np.mean(worst):.3f}"
            print(f"{setting:12} {rows:5}  {shares}  {dict(Counter(verdicts))}", flush=True)
