"""Level and power of `Audit(search="trees")`: `python experiments/audit_search.py 500`.

Prints, for each design, how often the audit with and without the search rejects, and how often the first finding is the
planted region: an error where three conditions meet, which no declared group names. `none` is the level: right
predictions. `parity` has an error without any trace in single columns or pairs, which greedy trees are not made for.
"""

import sys
from typing import Any

import numpy as np

from swapcal import Audit
from swapcal.arrays import Array, Flags
from swapcal.audit.verdict import ALPHA

DESIGNS = {
    "none": 0.0,
    "rare, none": 0.0,
    "three-way 8": 0.08,
    "three-way 12": 0.12,
    "three-way 16": 0.16,
    "parity": 0.08,
}
ROWS = 6_000


def features(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return three numbers and three columns of categories."""
    return {
        "age": rng.uniform(18, 80, rows),
        "income": rng.lognormal(3, 0.5, rows),
        "hours": rng.normal(40, 8, rows),
        "sex": rng.choice(["f", "m"], rows),
        "town": rng.choice(list("abcdef"), rows),
        "kind": rng.choice(["x", "y", "z"], rows),
    }


def region(columns: dict[str, Any]) -> Flags:
    """Return which rows the planted error is in."""
    return np.asarray((columns["age"] >= 50) & (columns["sex"] == "f") & (columns["kind"] == "x"))


def shift(design: str, columns: dict[str, Any]) -> Array:
    """Return the true chance less the prediction, before clipping."""
    if design == "parity":
        odd = (columns["age"] >= 49).astype(int) + (columns["sex"] == "f") + (columns["income"] >= np.exp(3))
        return np.asarray(DESIGNS[design] * (2.0 * (odd % 2) - 1.0))
    return np.asarray(DESIGNS[design] * region(columns))


def trial(design: str, seed: int, rows: int = ROWS) -> tuple[bool, bool, bool]:
    """Return whether the audit rejects with and without the search, and whether the region is named first."""
    rng = np.random.default_rng([seed, rows])
    columns = features(rows, rng)
    p = rng.beta(1, 30, rows) if design.startswith("rare") else rng.beta(2, 3, rows)
    y = (rng.random(rows) < np.clip(p + shift(design, columns), 0, 1)).astype(float)
    found = Audit.from_features(p, y, columns, search="trees", seed=seed)
    plain = Audit.from_features(p, y, columns, seed=seed)
    first = found.findings(1)[0]
    named = all(word in first.name for word in ("searched", "age ≥", "sex = f", "kind = x"))
    return found.test().p_value <= ALPHA, plain.test().p_value <= ALPHA, named and first.p_value <= ALPHA


if __name__ == "__main__":
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for design in DESIGNS:
        searched, plain, named = zip(*(trial(design, seed) for seed in range(runs)), strict=True)
        rates = f"rejected {np.mean(searched):.3f}  without search {np.mean(plain):.3f}"
        print(f"{design:12}  {rates}  region named {np.mean(named):.3f}", flush=True)
