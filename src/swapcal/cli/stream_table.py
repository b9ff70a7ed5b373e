"""A file of records as a checked table: types inferred, labels binary, times in order, bad rows named."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from swapcal.arrays import Array
from swapcal.cli.running import Run
from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import TIME, ReadAs, floats, is_text, moments, parsed, settled
from swapcal.tables.outcomes import EXPECTED, outcomes
from swapcal.tables.source import Source

VALUE = "\0"  # stands for the value in a reason; no column's quoted name contains it
MOSTLY = 0.5  # a text column of which more than this share are numbers was meant to be numeric


@dataclass(frozen=True)
class Roles:
    """Which columns of the file play which part."""

    target: str
    time: str | None = None
    id: str | None = None
    label_time: str | None = None
    matures: str | None = None
    scores: dict[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    def moments(self) -> dict[str, str]:
        """Return the columns of times, by role."""
        given = {"time": self.time, "label_time": self.label_time, "matures": self.matures}
        return {role: name for role, name in given.items() if name}

    def special(self) -> list[str]:
        """Return the columns that are no features."""
        return [name for name in (self.target, self.time, self.id, self.label_time, self.matures) if name]

    def named(self) -> list[str]:
        """Return every column named by the user that must exist."""
        return [*self.special(), *self.scores, *self.groups, *self.numeric, *self.categorical, *self.drop]


@dataclass
class Bad:
    """Rows that cannot be used, by reason; the first one decides the message."""

    rows: NDArray[np.int64]
    ragged: int
    complaint: str
    keep: NDArray[np.bool_] = field(init=False)
    reasons: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keep = np.ones(len(self.rows), dtype=bool)
        if self.ragged:
            self.reasons["wrong number of fields"] = self.ragged

    def mark(self, wrong: NDArray[np.bool_], reason: str, example: Callable[[int], str]) -> None:
        """Drop rows, remembering the first of them; `example` tells what a row gives, in the place of VALUE."""
        fresh = wrong & self.keep
        if not fresh.any():
            return
        row = int(np.flatnonzero(fresh)[0])
        self.complaint = self.complaint or f"row {self.rows[row]}: {reason.replace(VALUE, example(row))}"
        self.keep &= ~wrong
        self.reasons[reason.replace(VALUE, "…")] = int(fresh.sum())

    def refuse(self) -> None:
        """Stop if there is any such row, saying how many would be lost by going on without them."""
        if self.complaint:
            total, lost = len(self.rows) + self.ragged, self.ragged + int((~self.keep).sum())
            share = f"{lost:,} of {total:,} rows ({lost / total:.1%})"
            raise InputError(f"{self.complaint}; --on-bad-row skip would leave out {share}")


@dataclass(frozen=True)
class StreamTable:
    """Usable rows in order."""

    features: pa.Table
    rows: NDArray[np.int64]
    """1-based numbers of the rows in the file"""
    y: Array
    ids: list[Any] | None
    time: Array | None
    label_time: Array | None
    matures: Array | None
    shown: dict[str, Any]
    """columns copied to the output"""
    skipped: dict[str, int]
    dated: dict[str, bool] = field(default_factory=dict)
    """which of time, label_time and matures are dates"""

    def moments(self, name: str, rows: slice) -> Any:
        """Return times of some rows as they were given: numbers as numbers, dates as dates; None if there are none."""
        times = getattr(self, name)
        if times is None or not self.dated.get(name):
            return None if times is None else times[rows]
        known, out = ~np.isnan(times[rows]), np.full(len(times[rows]), "NaT", "datetime64[us]")
        out[known] = np.round(times[rows][known] * 1e6).astype("datetime64[us]")
        return out

    def say_skipped(self, run: Run) -> None:
        """Say how many rows were left out, and why."""
        total = len(self.y) + sum(self.skipped.values())
        for reason, count in self.skipped.items():
            run.say(f"skipped {count:,} of {total:,} rows ({count / total:.1%}): {reason}", "yellow")


def read_stream(source: Source, roles: Roles, *, skip: bool, positive: str | None = None) -> StreamTable:
    """Read and check a whole file."""
    source.require(roles.named())
    texts = [*roles.groups, *roles.categorical, *([roles.id] if roles.id else [])]
    kinds = {**dict.fromkeys(roles.special(), ReadAs.raw), **dict.fromkeys(roles.drop, ReadAs.raw)}
    table, rows, ragged, complaint = source.whole({**kinds, **dict.fromkeys(texts, ReadAs.text)})
    for name in dict.fromkeys([*roles.groups, *roles.categorical]):
        column = settled(table[name], name, ReadAs.text, 1)  # categories are text whatever the format of the file
        table = table.set_column(table.column_names.index(name), name, column)
    bad = Bad(rows, ragged, complaint)
    table = _numbers_where_meant(table, roles, bad, source.dialect.decimal)
    y = _labels(table[roles.target], roles.target, bad, positive)
    time = _moments(table, roles.time, bad, source.dialect.dates)
    label_time = _moments(table, roles.label_time, bad, source.dialect.dates)
    matures = _moments(table, roles.matures, bad, source.dialect.dates)
    _check_clock(table, roles, time, bad)
    _check_not_before(table, roles, time, roles.label_time, label_time, "label", bad)
    _check_not_before(table, roles, time, roles.matures, matures, "maturity", bad)
    _check_scores(table, roles, bad)
    if not skip:
        bad.refuse()
    if not bad.keep.any():
        raise InputError(f"{source.name}: none of {len(rows) + ragged:,} rows can be used; {bad.complaint}")
    return _kept(table, roles, bad, y, [time, label_time, matures])


def _kept(table: pa.Table, roles: Roles, bad: Bad, y: Array, moments: list[Array | None]) -> StreamTable:
    keep = bad.keep
    if not keep.all():
        table = table.filter(pa.array(keep))
    shown = {name: table[name] for name in roles.special()}
    time, label_time, matures = (None if each is None else each[keep] for each in moments)
    features = table.drop_columns([*dict.fromkeys([*roles.special(), *roles.drop])])
    return StreamTable(
        features,
        bad.rows[keep],
        y[keep],
        None if roles.id is None else table[roles.id].to_pylist(),
        time,
        label_time,
        matures,
        shown,
        bad.reasons,
        {role: not is_number(table[name].type) for role, name in roles.moments().items()},
    )


def _numbers_where_meant(table: pa.Table, roles: Roles, bad: Bad, decimal: str) -> pa.Table:
    """Turn text columns that are mostly numbers into numbers; the rows that are not are bad."""
    exempt = {*roles.special(), *roles.groups, *roles.categorical, *roles.drop}
    for position, name in enumerate(table.column_names):
        column = table[name]
        if name in exempt or not is_text(column.type):
            continue
        numbers, wrong = parsed(column, decimal)
        present = len(column) - column.null_count
        declared = name in roles.numeric or name in roles.scores
        if not declared and not 0 < wrong.sum() < MOSTLY * present:
            continue
        hint = "" if name in roles.scores else f" (--categorical {name} reads all as categories)"
        bad.mark(wrong, f"column {name!r}: given text {VALUE} among numbers{hint}",
                 _spelt(column))  # fmt: skip
        table = table.set_column(position, name, pa.array(numbers, from_pandas=True))
    return table


def _labels(column: Any, target: str, bad: Bad, positive: str | None) -> Array:
    """Return labels in [0, 1] or NaN (no label yet)."""
    y, wrong = outcomes(column, positive)
    bad.mark(wrong, f"column {target!r}: given {VALUE}, {EXPECTED}", _spelt(column))
    return y


def _moments(table: pa.Table, name: str | None, bad: Bad, order: str) -> Array | None:
    if name is None:
        return None
    column = table[name]
    times, wrong, _ = moments(column, order)
    bad.mark(wrong, f"column {name!r}: given {VALUE}, expected {TIME}", _spelt(column))
    return times


def _check_clock(table: pa.Table, roles: Roles, time: Array | None, bad: Bad) -> None:
    if roles.time is None or time is None:
        return
    spelt = _spelt(table[roles.time])
    bad.mark(np.isnan(time), f"column {roles.time!r}: given nothing, expected a time", spelt)
    latest = np.maximum.accumulate(np.where(bad.keep, time, -np.inf))
    reason = f"column {roles.time!r}: given {VALUE}, before that of an earlier row, expected the order of time"
    bad.mark(time < latest, reason, spelt)


def _check_not_before(
    table: pa.Table, roles: Roles, time: Array | None, name: str | None, moments: Array | None, noun: str, bad: Bad
) -> None:
    if roles.time is None or time is None or name is None or moments is None:
        return
    spelt, later = _spelt(table[roles.time]), _spelt(table[name])
    reason = f"column {name!r}: given {VALUE}, expected no {noun} before its forecast"
    bad.mark(moments < time, reason, lambda row: f"{later(row)} for a forecast at {spelt(row)}")


def _check_scores(table: pa.Table, roles: Roles, bad: Bad) -> None:
    for name, kind in roles.scores.items():
        values = floats(table[name])
        wrong = np.isinf(values) | ((kind == "probability") & ((values < 0.0) | (values > 1.0)))
        expected = f"expected a probability in [0, 1] (--score {name}:logit for logits)"
        bad.mark(wrong, f"column {name!r}: given {VALUE}, {expected}", _spelt(pa.array(values)))
    for name in table.column_names:
        if pa.types.is_floating(table[name].type) and name not in (*roles.special(), *roles.drop):
            infinite = np.isinf(table[name].to_numpy())
            bad.mark(infinite, f"column {name!r}: given an infinite number", lambda row: "")


def is_number(kind: Any) -> bool:
    """Tell whether an Arrow type is one of numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _spelt(column: Any) -> Callable[[int], str]:
    """Return how to quote a row's value as the file spells it: text in quotes, dates and numbers bare."""

    def spelt(row: int) -> str:
        value = column[row].as_py()
        return repr(value) if isinstance(value, str) else str(value)

    return spelt
