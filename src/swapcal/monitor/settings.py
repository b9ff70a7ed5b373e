"""Settings: what is promised, fixed before the first row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from swapcal.bounds import false_alarm_spacing, ville
from swapcal.inputs import positive
from swapcal.kernels.play import LANES, STAKES
from swapcal.kernels.wealth import Terms
from swapcal.monitor.ranges import Ranges, read_ranges
from swapcal.monitor.roster import Column
from swapcal.tables.values import letters

DEFAULT_STAKES = (0.02, 0.05, 0.13, 0.33, 0.8, 2.0)
"""Stakes, about 2.5 times apart: small ones find small gaps, large ones large gaps and rare events."""


@dataclass(frozen=True)
class MonitorSettings:
    """Checked settings of a monitor and what follows from them."""

    columns: tuple[Column, ...]
    tolerance: float
    run_length: float
    alpha: float
    ranges: Ranges
    stakes: tuple[float, ...]
    most: int

    @property
    def change_weight(self) -> float:
        """Weight of one cell and direction in the change detector: one row plays with total weight 1."""
        return 1.0 / (len(self.columns) * self.ranges.depths * 2)

    def change_limit(self) -> float:
        """Return what a cell's mean sum of one direction must reach for an alarm."""
        return float(false_alarm_spacing(self.run_length)) / self.change_weight

    def log_budget(self) -> Any:
        """Return (nodes,): logarithm of a range's weight in the lifetime test, for one direction of a whole column."""
        return np.log(self.ranges.shares() / (2 * len(self.columns)))

    def log_limit(self) -> float:
        """Logarithm of what a weighted wealth must reach for a lifetime alarm."""
        return float(np.log(float(ville(self.alpha))))

    def terms(self) -> Terms:
        """Return the settings as the kernel takes them."""
        stakes, shares = np.zeros(LANES), np.zeros(LANES)
        stakes[: 2 * len(self.stakes)] = np.repeat(self.stakes, 2)
        shares[: 2 * len(self.stakes)] = 1.0 / len(self.stakes)
        return Terms(stakes, shares, self.ranges.inner(), np.array([self.tolerance, self.change_limit()]))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        return {
            "columns": [list(column) for column in self.columns],
            "tolerance": self.tolerance,
            "run_length": self.run_length,
            "alpha": self.alpha,
            "edges": list(self.ranges.edges),
            "stakes": list(self.stakes),
            "most": self.most,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "MonitorSettings":
        """Return the settings that `to_dict` wrote."""
        return cls(
            tuple(tuple(column) for column in plain["columns"]),
            plain["tolerance"],
            plain["run_length"],
            plain["alpha"],
            Ranges(tuple(plain["edges"])),
            tuple(plain["stakes"]),
            plain["most"],
        )


def read_settings(
    groups: Sequence[str],
    products: Sequence[Sequence[str]],
    tolerance: float,
    run_length: float,
    alpha: float,
    level_ranges: "bool | Sequence[float]",
    stakes: Sequence[float],
    most: int,
) -> MonitorSettings:
    """Return checked settings, or say which one is wrong."""
    if not 0 <= _number("tolerance", tolerance) < 1:
        raise ValueError(f"tolerance: given {tolerance!r}, expected a number of at least 0 and below 1, such as 0.01")
    if not 0 < _number("alpha", alpha) < 1:
        raise ValueError(f"alpha: given {alpha!r}, expected a probability strictly between 0 and 1")
    if positive("run_length", run_length) < 1:
        raise ValueError(f"run_length: given {run_length!r}, expected at least one row")
    if int(_number("most", most)) != most or most < 1:
        raise ValueError(f"most: given {most!r}, expected a number of categories of at least 1")
    return MonitorSettings(
        ((), *_columns(groups), *_pairs(products)),
        float(tolerance),
        float(run_length),
        float(alpha),
        read_ranges(level_ranges),
        _stakes(stakes, float(tolerance)),
        int(most),
    )


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name}: given {value!r}, expected a number")
    return float(value)


def _columns(groups: Sequence[str]) -> list[Column]:
    if isinstance(groups, str):
        raise TypeError(f"groups: given the text {groups!r}, expected a list of column names")
    names: list[Column] = [(letters(name),) for name in groups]
    if len(set(names)) < len(names):
        raise ValueError(f"groups: given {list(groups)}, expected each column once")
    return names


def _pairs(products: Sequence[Sequence[str]]) -> list[Column]:
    pairs: list[Column] = []
    for product in products:
        pair: Column = tuple(map(letters, product))
        if isinstance(product, str) or len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"products: given {product!r}, expected a pair of two column names")
        pairs.append(pair)
    if len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise ValueError(f"products: given {pairs}, expected each pair once")
    return pairs


def _stakes(stakes: Sequence[float], tolerance: float) -> tuple[float, ...]:
    values = tuple(positive("stakes", stake) for stake in stakes)
    if not 1 <= len(values) <= STAKES or len(set(values)) < len(values):
        raise ValueError(f"stakes: given {list(stakes)}, expected 1 to {STAKES} different numbers")
    if max(values) > 3:
        raise ValueError(f"stakes: given {max(values)}, expected at most 3")
    if max(values) * tolerance >= 1:
        raise ValueError(
            f"stakes: given {max(values)} with tolerance {tolerance}, expected a product below 1 (a bet could lose all)"
        )
    return tuple(sorted(values))
