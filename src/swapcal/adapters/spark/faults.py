"""Faults: what is wrong with the columns of a distributed table, counted where the rows are."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Flags
from swapcal.audit.batch import LEAST_WEIGHT, MOST_WEIGHT
from swapcal.tables.clock import as_times
from swapcal.tables.table import Table


class ColumnRule(NamedTuple):
    """What every value of a column must be, and a way to read the column as numbers."""

    expected: str
    holds: Callable[[Array], Flags]
    numbers: Callable[[Table, str], Array] = Table.numbers


def _times(table: Table, name: str) -> Array:
    return as_times(f"column {name!r}", table.raw(name))


def _is_probability(values: Array) -> Flags:
    return np.asarray((values >= 0.0) & (values <= 1.0))


def _is_weight(values: Array) -> Flags:
    return np.asarray((values >= LEAST_WEIGHT) & (values <= MOST_WEIGHT))


def _is_known(values: Array) -> Flags:
    return ~np.isnan(values)


def _is_not_infinite(values: Array) -> Flags:
    return ~np.isinf(values)


PROBABILITY = ColumnRule("a number in [0, 1]", _is_probability)
WEIGHT = ColumnRule(f"a positive number, from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}", _is_weight)
TIME = ColumnRule("a number, date or time", _is_known, _times)
NOT_INFINITE = ColumnRule("a finite number, or nothing", _is_not_infinite)


class Fault(NamedTuple):
    """How many rows of a column break its rule, and the smallest value that does."""

    rows: int
    given: float
    expected: str

    def __add__(self, other: object) -> "Fault":
        assert isinstance(other, Fault)
        return Fault(self.rows + other.rows, float(np.fmin(self.given, other.given)), self.expected)


@dataclass
class Faults:
    """Rows seen and the faults in them, by column; those of parts add up."""

    rows: int = 0
    columns: dict[str, Fault] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    """what was raised instead of an answer"""

    def __bool__(self) -> bool:
        return bool(self.columns or self.refusals)

    def look(self, table: Table, rules: Mapping[str, ColumnRule]) -> None:
        """Count the rows of a table that break the rules."""
        self.rows += len(table)
        for name, rule in rules.items():
            values = rule.numbers(table, name)
            broken = values[~rule.holds(values)]
            if broken.size:
                fault = Fault(broken.size, float(np.fmin.reduce(broken)), rule.expected)
                self.columns[name] = self.columns[name] + fault if name in self.columns else fault

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Note what is raised instead of raising it among the rows, where it would drown in traces."""
        try:
            yield
        except (TypeError, ValueError) as error:
            self.refusals.append(str(error))

    def __add__(self, other: "Faults") -> "Faults":
        columns = dict(self.columns)
        for name, fault in other.columns.items():
            columns[name] = columns[name] + fault if name in columns else fault
        return Faults(self.rows + other.rows, columns, self.refusals + other.refusals)

    def raise_any(self) -> None:
        """Raise the first fault, in alphabetical order of columns."""
        for name, fault in sorted(self.columns.items()):
            given = "nothing" if np.isnan(fault.given) else f"{fault.given:g}"
            rest = "; leave such rows out with df.where(…)" if np.isnan(fault.given) else ""
            where = f"in {fault.rows:,} of {self.rows:,} rows"
            raise ValueError(f"column {name!r}: given {given} {where}, expected {fault.expected}{rest}")
        if self.refusals:
            raise ValueError(min(self.refusals))
