"""The batch systems the paper is compared with: ``fit(p, X, y)``, then ``predict(p, X)``.

p are a base model's probabilities on rows it was not trained on. X are group memberships (0 or 1) for HKRR, any
numbers for the others.
"""

from collections.abc import Callable
from typing import Any

from swapcal.baselines.gopalan import SwapAgnostic
from swapcal.baselines.hkrr import HKRR
from swapcal.baselines.lsboost import LSBoost

BATCH: dict[str, Callable[[], Any]] = {
    "hkrr": HKRR,
    "swap-agnostic": SwapAgnostic,
    "lsboost-linear": lambda: LSBoost("linear"),
    "lsboost-tree": lambda: LSBoost("tree"),
}
"""Short name to a maker with the default settings.

Examples
--------
>>> sorted(BATCH)
['hkrr', 'lsboost-linear', 'lsboost-tree', 'swap-agnostic']
"""
