"""`Mixed`: records to be forecast and labels of earlier ones, in the order in which they come."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from swapcal import inputs
from swapcal.arrays import Array, Integers
from swapcal.live.given import counted_rows, label_column, listed_ids
from swapcal.live.ids import Id
from swapcal.live.ledger import FREE, Ledger
from swapcal.live.moments import read_arrivals


class Mixed(NamedTuple):
    """n rows, each of which asks for a forecast or brings the label of one."""

    names: list[Id]
    y: Array
    """NaN where there is no label"""
    arrivals: list[float]
    asks: list[bool]

    @property
    def asked(self) -> Integers:
        """Numbers of the rows that ask."""
        return np.flatnonzero(self.asks)

    def labels_before(self, k: int, asked: list[int]) -> "list[tuple[Id, float, float]]":
        """Return the labels that come between a forecast and the one before it; behind the last there is one more."""
        a = asked[k - 1] + 1 if k else 0
        b = asked[k] if k < len(asked) else len(self.names)
        return [(self.names[row], float(self.y[row]), self.arrivals[row]) for row in range(a, b)]

    def check(self, ledger: Ledger) -> None:
        """Raise what is wrong with labels that come by themselves, among forecasts that are new."""
        issued: dict[Id, tuple[float, int]] = {}
        said: dict[Id, float] = {}
        passed = (-math.inf, FREE)  # until when labels have arrived whose time was known beforehand
        for row, (name, y, when, asks) in enumerate(zip(self.names, self.y.tolist(), *self[2:], strict=True)):
            learned = None  # the forecast whose label comes now
            try:
                if asks:
                    passed = max(passed, (when, FREE)) if when == when else passed
                    issued[name] = when, ledger.forecasts + len(issued)
                    learned = issued[name][1] if y == y else None
                elif y != y:
                    raise ValueError(f"y: given nothing for id {name!r}, expected a label in [0, 1]")
                elif name in said:
                    ledger.compare(name, y, said[name])
                elif name not in issued:
                    slot = ledger.find_after(passed, name, y, when)
                    learned = None if slot is None else ledger.issued[slot]
                elif when < issued[name][0]:
                    raise ValueError(f"label time: given {when:.12g}, before the forecast at {issued[name][0]:.12g}")
                else:
                    learned = issued[name][1]
            except ValueError as error:
                raise inputs.in_row(row, error) from None
            if y == y:
                said[name] = y
            if learned is not None and when == when:
                passed = max(passed, (when, learned))


def read_mixed(ledger: Ledger, records: Any, ids: Any, y: ArrayLike, asks: ArrayLike, time: Any) -> Mixed:
    """Return what callers give for rows of both kinds."""
    names = listed_ids(ids)
    n, given = len(names), np.asarray(asks)
    if given.dtype != bool and not all(value in (0, 1) for value in given.ravel().tolist()):
        raise TypeError("asks: given what is neither true nor false, expected one of them for each id")
    asking = given.astype(bool)
    if asking.shape != (n,) or counted_rows(records) != asking.sum():
        expected = f"as many as the {counted_rows(records)} records, and one for each id"
        raise ValueError(f"asks: given {asking.sum()} of {asking.size} rows, expected {expected}")
    return Mixed(names, label_column(y, n), read_arrivals(ledger, time, n), asking.tolist())
