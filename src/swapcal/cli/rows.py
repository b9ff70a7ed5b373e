"""Rows of a file as the commands want them: judged columns, model columns, pieces, a hashed sample."""

import heapq
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from shlex import quote
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import expit, ndtri

from swapcal._validate import refuse_swapped
from swapcal.arrays import Array, Integers, Keys
from swapcal.audit.evidence import constant, stretches
from swapcal.audit.intervals import gap_intervals
from swapcal.audit.levels import Timeline
from swapcal.cli.progress import ForecastScore, GroupGap, Run, bar, base_rate_alone
from swapcal.cli.stream_table import Roles, StreamTable
from swapcal.kernels import tally
from swapcal.kernels.draw import row_marks
from swapcal.live import Trace
from swapcal.tables.delimited import Piece, in_order
from swapcal.tables.dialect import Dialect, Sample
from swapcal.tables.formats import Source
from swapcal.tables.frame import JudgedColumns
from swapcal.tables.outcomes import (
    Positive,
    ReadAs,
    checked_outcomes,
    floats,
    is_number,
    is_text,
    moments,
    probabilities,
    timed,
    within,
)
from swapcal.tables.output import table_writer
from swapcal.tables.sources import InputError
from swapcal.tables.values import are_dates, as_times, text_key

LEAST_SWAPPED = 20
"""Rows of a piece from which on hard forecasts of fractional outcomes are taken for swapped columns."""

# Columns that are judged: what `audit` and `monitor` read of forecasts and outcomes, checked row by row.


def kinds(columns: JudgedColumns, second: str | None = None) -> dict[str, ReadAs]:
    """Return what each column is read as, that of a second predictor too; numbers that are also groups stay numbers."""
    types = dict.fromkeys(columns.groups, ReadAs.text) | dict.fromkeys(columns.features, ReadAs.any)
    types |= {columns.clusters: ReadAs.text} if columns.clusters and columns.clusters not in types else {}
    types |= {columns.time: ReadAs.time} if columns.time else {}
    types |= {name: ReadAs.number for name in (columns.weights, *(columns.issued or ())) if name}
    return {**types, columns.target: ReadAs.raw, **dict.fromkeys(_probs(columns, second), ReadAs.number)}


def _probs(columns: JudgedColumns, second: str | None) -> list[str]:
    return [columns.prob] if second is None else [columns.prob, second]


def with_outcomes(
    piece: Piece, columns: JudgedColumns, positive: Positive | None, dialect: Dialect, second: str | None = None
) -> pa.Table:
    """Return the rows that have an outcome, their values checked while the rows' numbers are known."""
    table, first, target, probs = piece.table, piece.first, columns.target, _probs(columns, second)
    y = checked_outcomes(table[target], target, first, positive, dialect.decimal)
    needed = ~np.isnan(y)
    for name in (*probs, *(columns.issued or ())):
        values = probabilities(table[name], name, first, needed)
        if name in probs:
            refuse_swapped(values, y, (f"column {name!r}", f"column {target!r}"), LEAST_SWAPPED)
    for name in columns.features:
        if pa.types.is_floating(table[name].type):
            values = floats(table[name])
            within(values, name, first, "a finite number", ~np.isinf(values))
    if columns.weights:
        weights = floats(table[columns.weights])
        fits = (weights > 0.0) & np.isfinite(weights) | ~needed
        within(weights, columns.weights, first, "a positive number", fits)
    if columns.time:
        times = timed(table[columns.time], columns.time, first, dialect.dates)
        timeless = times.is_null().to_numpy(zero_copy_only=False) & needed
        if timeless.any():
            row = first + int(timeless.argmax())
            raise InputError(f"row {row}: column {columns.time!r}: given nothing, expected a time")
        table = table.set_column(table.column_names.index(columns.time), columns.time, times)
    if target not in probs:
        table = table.set_column(table.column_names.index(target), target, pa.array(y))
    return table.filter(pa.array(needed))


class OutcomeTimes:
    """Outcomes in order of time, for the audit's warning of periods with one outcome only."""

    def __init__(self) -> None:
        self._timeline, self._rows, self._predicted = Timeline(), 0, False

    def add(self, y: Array, time: Any = None, p: Array | None = None) -> None:
        """Add rows, those without an outcome too; without times they count from 1 in the order of the file.

        Predictions that have learned from the outcomes would explain any period: such are not given.
        """
        self._predicted = p is not None
        p = np.full(len(y), 0.5) if p is None else p
        known = ~np.isnan(y)
        rows = 1.0 + self._rows + np.arange(len(y), dtype=np.float64)
        when: Array = rows if time is None else as_times("time", time)
        known &= ~np.isnan(when)
        self._rows += len(y)
        dated = time is not None and bool(are_dates("time", time))
        self._timeline.add(when[known], dated, p[known], y[known], np.ones(int(known.sum())))

    def say(self, run: Run) -> None:
        """Print the warnings, if there are any."""
        if self._timeline.span is not None:
            for one in stretches(self._timeline, predicted=self._predicted):
                run.say(f"Warning: {constant(one, self._rows)}", "red")


# `OutcomeWindows`: what rows are scored against where silence is an outcome.


class HeldPiece(NamedTuple):
    """Rows whose windows have not all ended, with what was forecast for them."""

    end: float
    """of their last window"""
    number: int
    ends: Array
    """of each window; minus infinity without a window"""
    stream: StreamTable
    trace: Trace
    read: StreamTable
    """all rows that were read with them"""


class OutcomeWindows:
    """Rows that are scored when their windows have ended, against the outcome reported, or else silence.

    If reports counted as they come, those of the last windows would count without the silence of the same windows.
    Where silence has no meaning, rows count at once.
    """

    def __init__(self, window: float | None = None, silence: float | None = None) -> None:
        self._window, self._silence, self._latest = window, silence, -math.inf
        self._held: list[HeldPiece] = []
        self._number = 0
        self._places: dict[Any, tuple[HeldPiece, int]] = {}

    def ended(self, stream: StreamTable, trace: Trace, read: StreamTable) -> Iterator[HeldPiece]:
        """Add rows; yield those that can be scored now, with their outcomes."""
        piece = HeldPiece(-math.inf, self._number, np.full(len(stream.y), -math.inf), stream, trace, read)
        if self._silence is None or stream.time is None:
            yield piece
            return
        ends = self._ends(stream, stream.time)
        copied = replace(stream, y=stream.y.copy())
        piece = piece._replace(end=float(ends.max()), ends=ends, stream=copied)
        heapq.heappush(self._held, piece)
        self._places |= {id: (piece, row) for row, id in enumerate(stream.ids or ())}
        self._number, self._latest = self._number + 1, float(stream.time[-1])
        while self._held and self._held[0].end < self._latest:
            yield self._settled(heapq.heappop(self._held))

    def label(self, id: Any, y: float) -> None:
        """Enter an outcome that is reported in a row of its own."""
        if id in self._places:
            piece, row = self._places[id]
            piece.stream.y[row] = y

    def remaining(self) -> Iterator[HeldPiece]:
        """Yield the rows left at the end of the file: those whose window has not ended have no outcome."""
        while self._held:
            yield self._settled(heapq.heappop(self._held))

    def _ends(self, stream: StreamTable, time: Array) -> Array:
        own = np.full(len(stream.y), math.nan) if stream.matures is None else stream.matures
        later = math.nan if self._window is None else time + self._window
        ends = np.where(np.isnan(own), later, own)
        return np.where(np.isnan(ends), -math.inf, ends)

    def _settled(self, piece: HeldPiece) -> HeldPiece:
        for id in piece.stream.ids or ():
            self._places.pop(id, None)
        silent = np.isnan(piece.stream.y) & np.isfinite(piece.ends)
        y = np.where(silent, math.nan if self._silence is None else self._silence, piece.stream.y)
        return piece._replace(stream=replace(piece.stream, y=np.where(piece.ends < self._latest, y, math.nan)))


# What `fit` and `predict` share: columns as the model wants them, and the notes in a model file.

SCORE, SCORE_KIND, TYPES, GROUPS, TARGET = "score", "score_kind", "types", "groups", "target"
POSITIVE, SPELT = "positive", "spelt"
"""Keys of a model's notes: the column of scores, what they are, each column's type in the file, the groups, the labels'
column, the value of it that counts as 1, and the columns of percentages and amounts."""


def numbers_or_text(table: pa.Table) -> pa.Table:
    """Return the columns as numbers or text: times become seconds, truth values and dictionaries text."""
    for place, name in enumerate(table.column_names):
        column = table[name]
        if pa.types.is_time(column.type) or pa.types.is_duration(column.type):
            hint = f"--categorical {quote(name)} reads it as text, --drop {quote(name)} leaves it out"
            raise InputError(
                f"column {name!r}: given {column.type}, expected numbers, text, truth values or dates; {hint}"
            )
        if pa.types.is_temporal(column.type):
            micros = pc.cast(pc.cast(column, pa.timestamp("us")), pa.int64())
            column = pc.divide(pc.cast(micros, pa.float64()), 1e6)
        elif pa.types.is_boolean(column.type) or pa.types.is_dictionary(column.type):
            column = pc.cast(column, pa.string())
        elif pa.types.is_null(column.type):
            column = pc.cast(column, pa.float64())
        table = table.set_column(place, name, column)
    return table


def types_of(table: pa.Table) -> dict[str, str]:
    """Return each column's type by name; whole numbers may turn out to have been fractions in another file."""
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null, pa.types.is_decimal)
    return {
        field.name: "double" if any(test(field.type) for test in numbers) else str(field.type) for field in table.schema
    }


def kind_of(noted: str) -> ReadAs:
    """Return what to read a column as, given its type in the file that was fitted.

    Examples
    --------
    >>> [kind_of(noted).value for noted in ("double", "timestamp[us, tz=UTC]", "bool", "string")]
    ['number', 'time', 'truth', 'text']
    """
    if noted.startswith(("timestamp", "date", "time")):
        return ReadAs.time
    return {"double": ReadAs.number, "bool": ReadAs.truth}.get(noted, ReadAs.text)


def columns_used(roles: Roles, types: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the columns that are learned from, given their types in the file, and the others that have a role.

    Examples
    --------
    >>> columns_used(Roles("sold", groups=("shop",)), {"shop": "string", "price": "double", "day": "date32[day]"})
    {'target': ['sold'], 'groups': ['shop'], 'numbers': ['price'], 'dates': ['day']}
    """
    moments = {role.replace("_", " "): [name] for role, name in roles.moments().items()}
    used: dict[str, list[str]] = {
        "target": [roles.target] if roles.target else [],
        **moments,
        "id": [roles.id] if roles.id else [],
    }
    used |= {"score": [*roles.scores], "groups": [*roles.groups], "numbers": [], "categories": [], "dates": []}
    for name, noted in types.items():
        kind = {ReadAs.number: "numbers", ReadAs.time: "dates"}.get(kind_of(noted), "categories")
        if name not in roles.groups and name not in roles.scores:
            used[kind].append(name)
    return {role: names for role, names in used.items() if names}


def scores_of(column: Any, name: str, kind: str, first: int) -> Array:
    """Return a column of probabilities, or of logits, as probabilities."""
    if kind == "probability":
        return probabilities(column, name, first)
    logits = floats(column)
    scores: Array = expit(within(logits, name, first, "a logit", np.isfinite(logits)))
    return scores


def all_scores(column: Any, name: str, kind: str, rows: Integers) -> Array:
    """Return a column of scores as probabilities, none of them missing; its rows have these numbers in the file."""
    missing = np.isnan(floats(column))
    if missing.any():
        raise InputError(f"row {rows[missing][0]}: column {name!r}: given nothing, expected a {kind}")
    return scores_of(column, name, kind, 1)


# Columns in doubt: known only after the outcome, names of rows, dates that no --time orders.

LEAK_SKILL = 0.5
"""A column that alone explains this part of the outcomes' variance, on rows it was not fitted to, is a likely leak."""
LEAK_SHARE, LEAK_ROWS, LOG_CHANCE = 0.1, 20, float(np.log(1e-6))
"""So is one with a value whose rows all have the rarer outcome: this share of that outcome or more, beyond chance."""
LEAK_BINS = 32
ID_SHARE, TEXT_SHARE, FEWEST_WORDS = 0.9, 0.5, 3
"""Distinct values, as a share of the rows, of a text that names them, and of free text, which has so many words."""
ID_NAMES = re.compile(r"(^|[_\W])(id|uuid|guid|key|rownum|index|mrn)$", re.IGNORECASE)
FEWEST_IDS = 100
ONE_VALUE = "one value"


class ColumnDoubts(NamedTuple):
    """Columns that should probably not be used: leaks with a sentence each, columns without information, and dates."""

    leaks: dict[str, str]
    unused: dict[str, str]
    """columns to leave out, and what they look like"""
    dates: list[str]

    @classmethod
    def of(cls, table: pa.Table, y: Array, named: Collection[str] = ()) -> "ColumnDoubts":
        """Examine each column by itself; those `named` in an option are not left out."""
        unused = unused_columns(table, named)
        leaks = {name: _leak(name, table[name], y) for name in table.column_names if name not in unused}
        dates = [name for name in table.column_names if pa.types.is_temporal(table[name].type)]
        return cls({name: text for name, text in leaks.items() if text}, unused, dates)


def unused_columns(table: pa.Table, named: Collection[str] = (), is_whole: bool = True) -> dict[str, str]:
    """Return the columns from which nothing can be learned, and what they look like; `named` ones are used.

    Unless the table `is_whole`, later rows may bring a column of one value another.

    Examples
    --------
    >>> unused_columns(pa.table({"land": ["DE"] * 200, "order": [f"o-{k}" for k in range(200)], "x": [1, 2] * 100}))
    {'land': 'one value', 'order': 'an id'}
    """
    likes = {name: _looks_like(name, _countable(table[name])) for name in table.column_names if name not in named}
    return {name: like for name, like in likes.items() if like and (is_whole or like != ONE_VALUE)}


def _spelt_as_text(column: pa.ChunkedArray) -> str:
    """Return what texts spell that hardly repeat for that reason; nothing if they name rows."""
    if not is_text(column.type):
        return ""
    signs = {"percent": "percentages as text", "currency": "amounts of money as text"}
    is_time = not moments(column, "iso")[1].any()
    return "times as text" if is_time else signs.get(Sample.of(column.to_pylist()).sign, "")


def _looks_like(name: str, column: pa.ChunkedArray) -> str:
    if len(column) >= FEWEST_IDS and _is_constant(column):
        return ONE_VALUE
    is_id, is_free = looks_like_id(name, column), is_free_text(column)
    spelt = _spelt_as_text(column.drop_null().slice(0, FEWEST_IDS)) if is_id else ""
    return spelt or ("free text" if is_free else "an id" if is_id else "")


def _countable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in a type whose values Arrow counts: categories as their values, lists as texts."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_nested(kind):
        return pa.chunked_array([[*map(str, column.to_pylist())]], pa.large_string())
    return column.cast(pa.large_string() if is_text(kind) else kind)


def _is_constant(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_null(column.type) or pc.count_distinct(column, mode="all").as_py() <= 1)


def is_free_text(column: pa.ChunkedArray) -> bool:
    """Return whether a column holds sentences: texts of several words, most of them different."""
    known = len(column) - column.null_count
    if known < FEWEST_IDS or not is_text(column.type):
        return False
    words = pc.mean(pc.add(pc.count_substring(pc.utf8_trim_whitespace(column), " "), 1)).as_py()
    return bool(words >= FEWEST_WORDS and pc.count_distinct(column).as_py() >= TEXT_SHARE * known)


def looks_like_id(name: str, column: pa.ChunkedArray) -> bool:
    """Return whether a column names rows: texts that hardly repeat, or whole numbers that count them or are called id.

    Examples
    --------
    >>> looks_like_id("order", pa.chunked_array([[f"o-{k}" for k in range(200)]]))
    True
    >>> looks_like_id("order", pa.chunked_array([[7000 + k // 20 * 19 + k % 20 for k in range(200)]]))
    True
    >>> looks_like_id("income", pa.chunked_array([[k % 70 for k in range(200)]]))
    False
    """
    known = len(column) - column.null_count
    whole, texts = pa.types.is_integer(column.type), is_text(column.type)
    if pa.types.is_floating(column.type):  # as whole numbers are stored beside missing ones
        column = column.drop_null()
        whole = bool(pc.all(pc.equal(pc.floor(column), column)).as_py()) if len(column) else False
    if known < FEWEST_IDS or not (whole or texts):
        return False
    share = pc.count_distinct(column).as_py() / known
    if ID_NAMES.search(name) or texts:
        return bool(share >= (TEXT_SHARE if ID_NAMES.search(name) else ID_SHARE))
    return bool(share >= ID_SHARE and _counts_rows(column.drop_null().to_numpy()))


def _counts_rows(values: Integers) -> bool:
    """Return whether whole numbers that hardly repeat never fall or leave few gaps, unlike counts of other things."""
    return bool((np.diff(values) >= 0).all() or int(values.max()) - int(values.min()) < 2 * len(values))


def _leak(name: str, column: pa.ChunkedArray, y: Array) -> str:
    """Return why a column is probably known only after the outcome; nothing if it does not look so."""
    codes, spelt = _codes(column)
    skill = explained(codes, y)
    if skill >= LEAK_SKILL:
        return (
            f"Column {name!r} alone explains {100 * skill:.0f} % of the outcomes' variance: it is probably known only "
            f"after the outcome, and then any gain is an artefact (--drop {name})."
        )
    filled = _pure(name, (codes > 0).astype(np.int64), lambda k: "filled in" if k else "missing", y)
    return _pure(name, codes, spelt, y) or filled


def _pure(name: str, codes: Integers, spelt: Callable[[int], str], y: Array) -> str:
    """Return that all rows of a value have the rarer outcome, if they are too many for chance."""
    rarer = float(y.mean() <= 0.5)
    rows, hits = np.bincount(codes), np.bincount(codes, weights=y == rarer)
    pure = (hits == rows) & (rows >= LEAK_ROWS) & (hits >= LEAK_SHARE * hits.sum())
    pure &= rows * np.log(max(hits.sum() / len(y), 1e-300)) + np.log(len(rows)) < LOG_CHANCE
    if not pure.any():
        return ""
    place = int(np.flatnonzero(pure)[np.argmax(rows[pure])])
    return (
        f"Column {name!r}: all {rows[place]:,} rows where it is {spelt(place)} have outcome {rarer:g}, as if it was "
        f"filled in after the outcome; then any gain is an artefact (--drop {name})."
    )


def explained(codes: Integers, y: Array) -> float:
    """Return the part of the outcomes' variance that the mean outcome of each code explains, fitted on other rows.

    Examples
    --------
    >>> explained(np.tile([0, 1], 200), np.tile([0.0, 1.0], 200)) > 0.99
    True
    """
    half, rate = np.arange(len(y)) // 2 % 2, float(y.mean())
    error = 0.0
    for part in (0, 1):
        learn, judge = half != part, half == part
        rows, sums = (np.bincount(codes[learn], w, codes.max(initial=0) + 1) for w in (None, y[learn]))
        error += float(np.sum((((sums + rate) / (rows + 1.0))[codes[judge]] - y[judge]) ** 2))
    return 1.0 - error / max(len(y) * rate * (1.0 - rate), 1e-300)


def _codes(column: pa.ChunkedArray) -> tuple[Integers, Callable[[int], str]]:
    """Return the rows' codes, of texts or of ranges of numbers, 0 for missing values, and the name of each code."""
    if is_number(column.type) or pa.types.is_temporal(column.type):
        values = floats(column if is_number(column.type) else pc.cast(column.cast(pa.timestamp("us")), pa.int64()))
        known = values[np.isfinite(values)]
        edges = np.unique(np.quantile(known, np.linspace(0, 1, LEAK_BINS + 1)[1:-1])) if len(known) else np.zeros(0)
        codes = np.where(np.isfinite(values), 1 + np.searchsorted(edges, values, side="right"), 0)
        return codes.astype(np.int64), lambda k: "missing" if k == 0 else _range(edges, k - 1)
    coded = pc.dictionary_encode(column.cast(pa.string())).combine_chunks()
    names = coded.dictionary.to_pylist()
    positions = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    return positions, lambda k: "missing" if k == 0 else repr(names[k - 1])


def _range(edges: Array, place: int) -> str:
    low = f"{edges[place - 1]:.6g} or more" if place else ""
    high = f"below {edges[place]:.6g}" if place < len(edges) else ""
    return " and ".join(filter(None, [low, high])) or "known"


# Pieces: a file is answered piece by piece, so that it may be larger than memory.


def beside(kept: Mapping[str, Any], made: Mapping[str, Any]) -> pa.Table:
    """Return columns of the file and columns of the answer as one table; no name may be in both."""
    for name in kept:
        if name in made:
            raise InputError(
                f"--keep: given {name!r}, expected none of the columns that are written: {', '.join(made)}"
            )
    return pa.table({**kept, **made})


def answer_pieces(
    source: Source,
    kinds: Mapping[str, ReadAs],
    out: str,
    doing: str,
    run: Run,
    answer: Callable[[Piece], pa.Table],
    jobs: int = 1,
    judge: Callable[[Piece, pa.Table], None] | None = None,
) -> int:
    """Write the answer to each piece of the file; return the number of rows.

    With several jobs, threads answer several pieces at once; they are written, and passed to `judge`, in order.
    """
    rows = 0
    with bar(run.console, doing) as shown, table_writer(out) as write:
        for piece, answered in in_order(lambda piece: (piece, answer(piece)), source.pieces(kinds, jobs), jobs):
            write(answered)
            if judge is not None:
                judge(piece, answered)
            rows += len(piece.table)
            shown.to(rows, piece.share)
            run.kept = f"{rows:,} rows were written" if out == "-" else f"{out} was not written"
    return rows


# `GroupGaps`: how far forecasts are off in each group, in bounded memory.

MOST_CATEGORIES = 40
"""Values of a text column, among the first rows, up to which it is a natural grouping."""
FEWEST_ROWS, OFTEN_WRONG, MOST_EXAMINED = 20, 0.05, 1000
"""Rows from which on a group is examined; how often any interval may miss; groups of a column that is examined."""


class GroupGaps:
    """Observed minus predicted rate of every group, with intervals that hold for all of them at once."""

    def __init__(self, groups: Collection[str] = ()) -> None:
        self._named = tuple(groups)
        self._sums: dict[str, dict[str | None, Array]] | None = None
        self.labelled, self._ones, self._squares, self._losses = 0, 0.0, 0.0, np.zeros(2)

    def add(self, features: pa.Table, p: Array, y: Array) -> None:
        """Add rows; those without an outcome are left out."""
        known = ~np.isnan(y)
        p, y = p[known], y[known]
        self.labelled, self._ones = self.labelled + len(y), self._ones + float(y.sum())
        self._squares += float(y @ y)
        self._losses += np.array([np.sum((p - y) ** 2), np.sum(tally.log_losses(np.ascontiguousarray(p), y))])
        if self._sums is None:
            few = (name for name in features.column_names if _is_grouping(features[name]))
            self._sums = {name: {} for name in self._named or few}
        made = np.zeros((tally.SCALARS, len(y)))
        made[[tally.MASS, tally.MASS2, tally.ROWS]] = 1.0
        made[[tally.PREDICTED, tally.OBSERVED, tally.RESIDUAL]] = p, y, y - p
        made[[tally.VARIANCE, tally.SQUARED]] = p * (1 - p), (y - p) ** 2
        for name, known_sums in [*self._sums.items()]:
            coded = pc.dictionary_encode(features[name].cast(pa.string()).filter(pa.array(known))).combine_chunks()
            values = [*coded.dictionary.to_pylist(), None]
            if len({*known_sums, *values}) > MOST_EXAMINED:
                del self._sums[name]
                continue
            codes = coded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
            sums = np.column_stack([np.bincount(codes, column, len(values)) for column in made])
            for value, own in zip(values, sums, strict=True):
                known_sums[value] = known_sums.get(value, 0.0) + own

    @property
    def base_rate(self) -> float:
        """Mean outcome; NaN without any."""
        return self._ones / self.labelled if self.labelled else math.nan

    def scored(self, name: str) -> list[ForecastScore]:
        """Return the mean losses of the forecasts, and of the base rate."""
        if not self.labelled:
            return []
        brier, log_loss = (self._losses / self.labelled).tolist()
        return [ForecastScore(name, brier, log_loss), base_rate_alone(self.base_rate, self._squares / self.labelled)]

    def small(self) -> int:
        """Return the number of groups with too few rows."""
        return sum(bool(0 < own[tally.ROWS] < FEWEST_ROWS) for _, _, own in self._every())

    def _every(self) -> Iterator[tuple[str, str | None, Array]]:
        for name, column in (self._sums or {}).items():
            for value, own in column.items():
                yield name, value, own

    def largest_first(self) -> list[GroupGap]:
        """Return all groups of enough rows, the largest gap first; all intervals hold at once (Bonferroni)."""
        known = {
            f"{name} is missing" if value is None else f"{name} = {value}": own
            for name, value, own in self._every()
            if own[tally.ROWS] >= FEWEST_ROWS
        }
        if not known:
            return []
        sums = np.array([*known.values()])
        reach = np.full(len(sums), ndtri(1 - OFTEN_WRONG / 2 / len(sums)))
        gap, low, high, _, _ = gap_intervals(sums, reach)
        n = sums[:, tally.ROWS]
        rates = sums[:, tally.OBSERVED] / n, sums[:, tally.PREDICTED] / n
        columns = [each.tolist() for each in (n.astype(int), *rates, gap, low, high)]
        made = [GroupGap(*figures) for figures in zip(known, *columns, strict=True)]
        return sorted(made, key=lambda one: -abs(one.gap))


def _is_grouping(column: pa.ChunkedArray) -> bool:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return (is_text(kind) or pa.types.is_boolean(kind)) and len(pc.unique(column)) <= MOST_CATEGORIES


# `HashSample`: of many rows a random sample that is the same whatever the pieces they come in.


class HashSample:
    """At most so many rows: all, or those whose numbers have the smallest hashes, in their order."""

    def __init__(self, most: int, seed: int) -> None:
        self.seen = 0
        self._most, self._salt = most, np.array([text_key("sample", str(seed))], np.uint64)
        self._kept: list[tuple[StreamTable, Keys]] = []
        self._bound = np.uint64(2**64 - 1)

    def add(self, stream: StreamTable) -> None:
        """Add rows."""
        self.seen += len(stream.y)
        self._keep(stream, self._marks(stream.rows))
        if sum(len(marks) for _, marks in self._kept) > 2 * self._most:
            self._prune()

    def rows(self) -> StreamTable:
        """Return the rows that are kept."""
        if self.seen > self._most:
            self._prune()
        first, *others = (stream for stream, _ in self._kept)
        return replace(first, shown={}).joined(*others)

    def _marks(self, rows: Integers) -> Keys:
        nothing = np.zeros(1, np.uint64)
        return row_marks(rows.astype(np.float64)[:, None], self._salt, np.zeros((len(rows), 1), np.uint64), nothing)

    def _keep(self, stream: StreamTable, marks: Keys) -> None:
        some = marks <= self._bound
        if some.any():
            whole = bool(some.all())
            self._kept.append((stream if whole else stream.where(some), marks if whole else marks[some]))

    def _prune(self) -> None:
        every = np.concatenate([marks for _, marks in self._kept])
        if len(every) > self._most:
            self._bound = np.partition(every, self._most - 1)[self._most - 1]
        kept, self._kept = self._kept, []
        for stream, marks in kept:
            self._keep(stream, marks)
