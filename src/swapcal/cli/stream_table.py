"""A file of records as a checked table: types inferred, labels binary, times in order, bad rows named."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa

from swapcal.arrays import Array, Flags, Integers
from swapcal.cli.progress import Run
from swapcal.tables.delimited import Piece
from swapcal.tables.dialect import Dialect, advice
from swapcal.tables.formats import Source
from swapcal.tables.outcomes import (
    Positive,
    ReadAs,
    expected_in,
    floats,
    is_number,
    mistaken,
    moments,
    outcomes,
    time_in,
)
from swapcal.tables.sources import InputError

VALUE = "\0"  # placeholder of the value in a reason; no column's quoted name contains it
NUMBERED = ("rows", "y", "time", "label_time", "matures")


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
    keep: tuple[str, ...] = ()
    """columns that are copied to the output"""
    used: tuple[str, ...] = ()
    """columns that are learned from, whatever they look like"""
    clusters: str | None = field(default=None, kw_only=True)
    """a feature like others, whose ids are text and never missing; the command decides whether it is read as one"""

    def moments(self) -> dict[str, str]:
        """Return the columns of times, by role."""
        given = {"time": self.time, "label_time": self.label_time, "matures": self.matures}
        return {role: name for role, name in given.items() if name}

    def special(self) -> list[str]:
        """Return the columns that are no features."""
        return [name for name in (self.target, self.time, self.id, self.label_time, self.matures) if name]

    def refuse_clashes(self) -> None:
        """Refuse a column of two roles, one of which would hide it from the other."""
        single = {"--time": self.time, "--id": self.id, "--label-time": self.label_time, "--matures": self.matures}
        roles: dict[str, tuple[str, ...]] = {option: (name,) if name else () for option, name in single.items()}
        roles |= {"--target": (self.target,), "--drop": self.drop, "--score": tuple(self.scores)}
        roles |= {"--groups": self.groups, "--clusters": (self.clusters,) if self.clusters else ()}
        roles |= {"--numeric": self.numeric}
        pairs = [("--groups", "--score"), ("--clusters", "--score"), ("--clusters", "--numeric")]
        pairs += [("--target", option) for option in single]
        features = ("--score", "--groups", "--clusters")
        pairs += [(one, other) for one in features for other in (*single, "--target", "--drop")]
        for one, other in pairs:
            for name in roles[one]:
                if name in roles[other]:
                    raise InputError(f"column {name!r}: given as {one} and as {other}, expected one role")

    def named(self) -> list[str]:
        """Return every column named by the user that must exist."""
        clusters = [self.clusters] if self.clusters else []
        features = [*self.chosen(), *self.drop, *clusters]
        return [*self.special(), *features, *self.keep]

    def chosen(self) -> list[str]:
        """Return the features named by the user."""
        return [*self.scores, *self.groups, *self.numeric, *self.categorical, *self.used]

    def shown(self) -> list[str]:
        """Return the columns that are copied to the output."""
        return [*dict.fromkeys([*self.special(), *self.keep])]

    def kinds(self) -> dict[str, ReadAs]:
        """Return what these columns are read as; all others are features."""
        kinds = dict.fromkeys([*self.numeric, *self.scores], ReadAs.numeric)
        kinds |= dict.fromkeys([*self.special(), *self.drop], ReadAs.value)
        kinds |= dict.fromkeys([*self.groups, *self.categorical], ReadAs.text)
        kinds |= {self.clusters: ReadAs.text} if self.clusters else {}
        return kinds | ({self.id: ReadAs.raw} if self.id else {})


@dataclass
class Bad:
    """Rows that cannot be used, by reason; the first one decides the message."""

    rows: Integers
    ragged: int
    complaint: str
    whole: bool = True
    """whether these are all rows of the file"""
    keep: Flags = field(init=False)
    spared: Flags = field(init=False)
    """rows that are left out later for want of an outcome, such as totals: they are not bad"""
    reasons: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keep, self.spared = np.ones(len(self.rows), dtype=bool), np.zeros(len(self.rows), dtype=bool)
        if self.ragged:
            self.reasons["wrong number of fields"] = self.ragged

    def mark(self, wrong: Flags, reason: str, example: Callable[[int], str]) -> None:
        """Drop rows, keeping the number of the first; `example` returns a row's value, for the place of VALUE."""
        fresh = wrong & self.keep & ~self.spared
        if not fresh.any():
            return
        row = int(np.flatnonzero(fresh)[0])
        self.complaint = self.complaint or f"row {self.rows[row]}: {reason.replace(VALUE, example(row))}"
        self.keep &= ~fresh
        self.reasons[reason.replace(VALUE, "…")] = int(fresh.sum())

    def refuse(self) -> None:
        """Stop if there is any such row, saying how many would be lost by going on without them."""
        if self.complaint:
            total, lost = len(self.rows) + self.ragged, self.ragged + int((~self.keep).sum())
            of = f"{total:,} rows" if self.whole else f"the {total:,} rows from row {self.rows[0]:,} on"
            share = f"{lost:,} of {of} ({lost / total:.1%})"
            raise InputError(f"{self.complaint}; --on-bad-row skip would leave out {share}")


@dataclass(frozen=True)
class StreamTable:
    """Usable rows in order."""

    features: pa.Table
    rows: Integers
    """1-based numbers of the rows in the file"""
    y: Array
    ids: list[Any] | None
    time: Array | None
    label_time: Array | None
    matures: Array | None
    shown: dict[str, Any]
    """columns copied to the output"""
    dated: dict[str, bool] = field(default_factory=dict)
    """which of time, label_time and matures are dates"""

    def moments(self, name: str) -> Any:
        """Return times as they were given: numbers as numbers, dates as dates; None if there are no times."""
        times = getattr(self, name)
        if times is None or not self.dated.get(name):
            return times
        known, out = ~np.isnan(times), np.full(len(times), "NaT", "datetime64[us]")
        out[known] = np.round(times[known] * 1e6).astype("datetime64[us]")
        return out

    def cut(self, start: int, stop: int) -> "StreamTable":
        """Return some of the rows."""
        features, ids = self.features.slice(start, stop - start), self.ids and self.ids[start:stop]
        shown = {name: column.slice(start, stop - start) for name, column in self.shown.items()}
        return replace(self, features=features, ids=ids, shown=shown, **_each(lambda column: column[start:stop], self))

    def where(self, some: Flags) -> "StreamTable":
        """Return the rows that are marked, without what is copied to the output."""
        features, ids = self.features.filter(pa.array(some)), self.ids and list(compress(self.ids, some))
        return replace(self, features=features, ids=ids, shown={}, **_each(lambda column: column[some], self))

    def joined(self, *others: "StreamTable") -> "StreamTable":
        """Return these rows and then those of others."""
        if not others:
            return self
        every = [self, *others]
        features = pa.concat_tables([each.features for each in every], promote_options="permissive")
        ids = None if self.ids is None else [id for each in every for id in each.ids or ()]
        shown = {name: pa.chunked_array([each.shown[name] for each in every]) for name in self.shown}
        columns = _each(lambda *parts: np.concatenate(parts), *every)
        return replace(self, features=features, ids=ids, shown=shown, **columns)

    def labelled(self, target: str, run: Run) -> "StreamTable":
        """Return the rows with an outcome; print how many have none. Raises InputError unless both kinds occur."""
        known = ~np.isnan(self.y)
        y = self.y[known]
        if len(y) < 2 or y.min() == y.max():
            raise InputError(f"column {target!r}: given {len(y):,} outcomes of one kind, expected both 0 and 1")
        run.say_unlabelled(len(known), len(y))
        return self if known.all() else self.where(known)

    def after(self, row: int) -> "StreamTable":
        """Return the rows whose numbers are greater."""
        return self.cut(int(np.searchsorted(self.rows, row, side="right")), len(self.y))


def _each(change: Callable[..., Any], *tables: StreamTable) -> dict[str, Any]:
    """Return what a change makes of every column of numbers that there is, given that of each table."""
    columns = {name: [getattr(table, name) for table in tables] for name in NUMBERED}
    return {name: None if parts[0] is None else change(*parts) for name, parts in columns.items()}


class StreamReader:
    """Reads and checks a file, piece by piece."""

    def __init__(
        self,
        source: Source,
        roles: Roles,
        *,
        skip: bool,
        positive: Positive | None = None,
        jobs: int = 1,
        taken: Callable[[Any], bool] | None = None,
        outcomes_only: bool = False,
    ) -> None:
        """`taken` returns whether an id had a row before those of the last piece: with `skip`, each id has one row.

        With `outcomes_only` rows without an outcome are left out later, and may hold anything.
        """
        source.require(roles.named())
        roles.refuse_clashes()
        self.roles = roles
        self.total: int | None = None
        """rows of the file, once that is known"""
        self.seen = 0
        self.share: float | None = None
        """of the file, read so far"""
        self.skipped: Counter[str] = Counter()
        self.skip, self.positive, self.outcomes_only = skip, positive, outcomes_only
        self._source, self._jobs = source, jobs
        self.taken, self._last_ids = taken, set[Any]()
        self._shown_types: dict[str, Any] = {}
        self._latest = -np.inf
        self._ahead: StreamTable | None = None
        self._rows = self._usable()

    def __iter__(self) -> Iterator[StreamTable]:
        """Yield the rows that can be used, once."""
        if self._ahead is not None:
            yield self._ahead
            self._ahead = None
        yield from self._rows

    def peek(self) -> StreamTable:
        """Return the first rows, which are yielded again."""
        self._ahead = next(self._rows) if self._ahead is None else self._ahead
        return self._ahead

    def leave_out(self, names: Sequence[str]) -> None:
        """Learn nothing from some columns."""
        self.roles = replace(self.roles, drop=(*self.roles.drop, *names))
        if self._ahead is not None:
            self._ahead = replace(self._ahead, features=self._ahead.features.drop_columns([*names]))

    def _usable(self) -> Iterator[StreamTable]:
        used, complaint = 0, ""
        for piece in self._source.pieces(self.roles.kinds(), self._jobs, unnamed=ReadAs.feature):
            self.total = piece.total if piece.is_whole else None
            stream, bad = self._checked(piece)
            complaint = complaint or bad.complaint
            self.seen += piece.total
            self.share = piece.share
            self.skipped.update(bad.reasons)
            used += len(stream.y)
            if len(stream.y):
                yield stream
        self.total = self.seen
        if not used and not self._source.follows:
            raise InputError(
                f"{self._source.name}: given no usable row among {self.seen:,}, expected some; {complaint}"
            )

    def _checked(self, piece: Piece) -> tuple[StreamTable, Bad]:
        roles, dialect, table = self.roles, self._source.dialect, piece.table
        bad = Bad(piece.rows, len(piece.ragged), piece.complaint, piece.is_whole)
        y, wrong = outcomes(table[roles.target], self.positive, dialect.decimal)
        if self.outcomes_only:
            bad.spared = np.isnan(y) & ~wrong
        _mark_misfits(piece, roles, bad, dialect)
        _mark_labels(table[roles.target], roles.target, wrong, bad)
        _check_ids(table, roles, bad)
        time = _moments(table, roles.time, bad, dialect.dates)
        label_time = _moments(table, roles.label_time, bad, dialect.dates)
        matures = _moments(table, roles.matures, bad, dialect.dates)
        _check_clock(table, roles, time, bad, self._latest)
        _check_not_before(table, roles, time, roles.label_time, label_time, "label", bad)
        _check_not_before(table, roles, time, roles.matures, matures, "maturity", bad)
        _check_scores(table, roles, bad)
        self._check_repeats(table, bad)
        if not self.skip:
            bad.refuse()
        if time is not None and bad.keep.any():
            self._latest = max(self._latest, float(np.nanmax(time[bad.keep], initial=-np.inf)))
        return self._as_shown(_kept(table, roles, bad, y, [time, label_time, matures])), bad

    def _check_repeats(self, table: pa.Table, bad: Bad) -> None:
        """Leave out rows whose id an earlier one has that can be used."""
        if self.roles.id is None or self.taken is None or not self.skip:
            return
        column, again, new = table[self.roles.id], np.zeros(len(table), bool), set[Any]()
        ids = column.to_pylist()
        for row in np.flatnonzero(bad.keep):
            again[row] = ids[row] in new or ids[row] in self._last_ids or self.taken(ids[row])
            if not again[row]:
                new.add(ids[row])
        self._last_ids = new or self._last_ids  # a piece of which nothing is left is followed by the next at once
        bad.mark(again, f"column {self.roles.id!r}: given {VALUE} again, expected each id once", _spelt(column))

    def _as_shown(self, stream: StreamTable) -> StreamTable:
        """Return the rows with the copied columns as they were in the first: an output has one type a column."""
        shown = {}
        for name, column in stream.shown.items():
            known = self._shown_types.setdefault(name, _shown_type(column.type))
            try:
                shown[name] = column if column.type == known else column.cast(known, safe=False)
            except pa.ArrowException as error:
                expected = "expected values like those in the rows before"
                raise InputError(f"given {column.type} after {known}, {expected}") from error
        return replace(stream, shown=shown)

    def whole(self) -> StreamTable:
        """Return all rows at once, for what cannot be done in pieces."""
        first, *others = self
        return first.joined(*others)

    def say_skipped(self, run: Run) -> None:
        """Print how many rows were left out, and why."""
        for reason, count in self.skipped.items():
            run.say(f"skipped {count:,} of {self.seen:,} rows ({count / self.seen:.1%}): {reason}", "yellow")


def _shown_type(kind: Any) -> Any:
    return pa.string() if pa.types.is_null(kind) else kind


def _mark_misfits(piece: Piece, roles: Roles, bad: Bad, dialect: Dialect) -> None:
    """Mark the rows with a value that is not what its column is."""
    names = [misfit.name for misfit in piece.misfits if misfit.name not in roles.scores]
    for name, column, wrong, expected in piece.misfits:
        ways = [f"--categorical {quote(','.join(names))} reads all as categories"] if name in names else []
        given = f"given {VALUE}, unlike the rows before"
        if expected is ReadAs.number:
            given = f"given text {VALUE} among numbers, expected a number"
            ways.insert(0, advice(str(column[int(wrong.argmax())].as_py()), name, dialect))
        hint = "; ".join(filter(None, ways))
        bad.mark(wrong, f"column {name!r}: {given}{f' ({hint})' if hint else ''}", _spelt(column))


def _kept(table: pa.Table, roles: Roles, bad: Bad, y: Array, moments: list[Array | None]) -> StreamTable:
    keep = bad.keep
    if not keep.all():
        table = table.filter(pa.array(keep))
    shown = {name: table[name] for name in roles.shown()}
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
        {role: not is_number(table[name].type) for role, name in roles.moments().items()},
    )


def _mark_labels(column: Any, target: str, wrong: Flags, bad: Bad) -> None:
    """Mark the rows whose label is neither in [0, 1] nor missing."""
    if wrong.any():
        bad.mark(wrong, f"column {target!r}: given {VALUE}, {expected_in(column)}", _spelt(column))


def _moments(table: pa.Table, name: str | None, bad: Bad, order: str) -> Array | None:
    if name is None:
        return None
    column = table[name]
    times, wrong, _ = moments(column, order)
    bad.mark(wrong, f"column {name!r}: given {VALUE}, expected {time_in(order)}", _spelt(column))
    return times


def _check_clock(table: pa.Table, roles: Roles, time: Array | None, bad: Bad, before: float) -> None:
    if roles.time is None or time is None:
        return
    spelt = _spelt(table[roles.time])
    bad.mark(np.isnan(time), f"column {roles.time!r}: given nothing, expected a time", spelt)
    latest = np.maximum(before, np.maximum.accumulate(np.where(bad.keep & ~np.isnan(time), time, -np.inf)))
    reason = f"column {roles.time!r}: given {VALUE}, before that of an earlier row, expected rows sorted by time"
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
        hint = mistaken(values, name)
        if "percentages" not in hint:
            hint = f" (--score {quote(name)}:logit for logits)"
        expected = f"expected a probability in [0, 1]{hint}"
        bad.mark(wrong, f"column {name!r}: given {VALUE}, {expected}", _spelt(pa.array(values)))
    for name in table.column_names:
        if pa.types.is_floating(table[name].type) and name not in (*roles.special(), *roles.drop):
            infinite = np.isinf(table[name].to_numpy())
            bad.mark(infinite, f"column {name!r}: given an infinite number, expected a finite one", lambda row: "")


def _check_ids(table: pa.Table, roles: Roles, bad: Bad) -> None:
    for name, noun in ((roles.id, "the name of the row"), (roles.clusters, "the id of a cluster")):
        if name is not None:
            nameless = table[name].is_null().to_numpy()
            bad.mark(nameless, f"column {name!r}: given nothing, expected {noun}", lambda row: "")


def _spelt(column: Any) -> Callable[[int], str]:
    """Return how to quote a row's value as the file spells it: text in quotes, dates and numbers bare."""

    def spelt(row: int) -> str:
        value = column[row].as_py()
        return repr(value) if isinstance(value, str) else str(value)

    return spelt
