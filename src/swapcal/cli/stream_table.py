"""A file of records as a checked table: types inferred, labels binary, times in order, bad rows named."""

import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
from numpy.typing import NDArray

from swapcal.live.times import as_times

Array = NDArray[np.float64]

TRUE, FALSE = {"1", "true", "yes", "t", "y"}, {"0", "false", "no", "f", "n"}
MOSTLY = 0.5  # a text column of which more than this share are numbers was meant to be numeric


class InputError(ValueError):
    """Something about the file that the user must decide."""


@dataclass(frozen=True)
class Roles:
    """Which columns of the file play which part."""

    target: str
    time: str | None = None
    id: str | None = None
    label_time: str | None = None
    scores: dict[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    def special(self) -> list[str]:
        """Return the columns that are no features."""
        return [name for name in (self.target, self.time, self.id, self.label_time) if name]

    def named(self) -> list[str]:
        """Return every column named by the user that must exist."""
        return [*self.special(), *self.scores, *self.groups, *self.numeric, *self.categorical, *self.drop]


@dataclass
class Bad:
    """Rows that cannot be used, by reason; the first one decides the message."""

    total: int
    keep: NDArray[np.bool_]
    reasons: dict[str, int] = field(default_factory=dict)

    def mark(self, rows: NDArray[np.bool_], reason: str, example: Any, stop: bool) -> None:
        """Drop rows, or stop at the first of them."""
        fresh = rows & self.keep
        if not fresh.any():
            return
        row = int(np.flatnonzero(fresh)[0])
        if stop:
            raise InputError(f"row {row + 1}: {reason.format(example(row))}; --on-bad-row=skip leaves such rows out")
        self.keep &= ~rows
        self.reasons[reason.format("…")] = int(fresh.sum())


@dataclass(frozen=True)
class Stream:
    """Usable rows in order."""

    features: pa.Table
    rows: NDArray[np.int64]
    """1-based numbers of the rows in the file"""
    y: Array
    ids: list[Any] | None
    time: Array | None
    label_time: Array | None
    shown: dict[str, Any]
    """columns copied to the output"""
    skipped: dict[str, int]


def read_stream(file: str, roles: Roles, *, skip: bool) -> Stream:
    """Read and check a whole file."""
    malformed: list[str] = []
    table = _read(file, roles, malformed, skip=skip)
    _check_columns(table, roles, file)
    if len(table) == 0:
        raise InputError(f"{file} has no rows")
    bad = Bad(len(table), np.ones(len(table), dtype=bool))
    table = _numbers_where_meant(table, roles, bad, skip=skip)
    y = _labels(table[roles.target], roles.target, bad, skip=skip)
    time = _moments(table, roles.time, bad, skip=skip)
    label_time = _moments(table, roles.label_time, bad, skip=skip)
    _check_clock(time, label_time, bad, skip=skip)
    _check_scores(table, roles, bad, skip=skip)
    if malformed:
        bad.reasons["wrong number of fields"] = len(malformed)
    return _kept(table, roles, bad, y, time, label_time)


def _kept(table: pa.Table, roles: Roles, bad: Bad, y: Array, time: Array | None, label_time: Array | None) -> Stream:
    keep = bad.keep
    if not keep.all():
        table = table.filter(pa.array(keep))
    shown = {name: table[name] for name in roles.special()}
    features = table.drop_columns([*dict.fromkeys([*roles.special(), *roles.drop])])
    return Stream(
        features,
        1 + np.flatnonzero(keep),
        y[keep],
        None if roles.id is None else table[roles.id].to_pylist(),
        None if time is None else time[keep],
        None if label_time is None else label_time[keep],
        shown,
        bad.reasons,
    )


def _read(file: str, roles: Roles, malformed: list[str], *, skip: bool) -> pa.Table:
    try:
        if file.endswith((".parquet", ".pq")):
            return papq.read_table(file)
        if file == "-":
            return _read_csv(pa.PythonFile(sys.stdin.buffer, mode="r"), roles, malformed, skip=skip)
        with pa.input_stream(file, compression="gzip" if file.endswith(".gz") else None) as stream:
            return _read_csv(stream, roles, malformed, skip=skip)
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read ({error})") from None


def _read_csv(stream: Any, roles: Roles, malformed: list[str], *, skip: bool) -> pa.Table:
    def handle(row: Any) -> str:
        malformed.append(str(row.text))
        return "skip" if skip else "error"

    texts = [*roles.groups, *roles.categorical, *([roles.id] if roles.id else [])]
    convert = pacsv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string()), strings_can_be_null=True)
    return pacsv.read_csv(stream, parse_options=pacsv.ParseOptions(invalid_row_handler=handle), convert_options=convert)


def _check_columns(table: pa.Table, roles: Roles, file: str) -> None:
    for name in roles.named():
        if name not in table.column_names:
            raise InputError(f"column {name!r} is not in {file}: {', '.join(table.column_names)}")


def _numbers_where_meant(table: pa.Table, roles: Roles, bad: Bad, *, skip: bool) -> pa.Table:
    """Turn text columns that are mostly numbers into numbers; the rows that are not are bad."""
    exempt = {*roles.special(), *roles.groups, *roles.categorical, *roles.drop}
    for position, name in enumerate(table.column_names):
        column = table[name]
        if name in exempt or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        numbers, wrong = _parsed(column)
        present = len(column) - column.null_count
        declared = name in roles.numeric or name in roles.scores
        if not declared and not 0 < wrong.sum() < MOSTLY * present:
            continue
        bad.mark(wrong, f"column {name!r} has text {{!r}} among numbers (--categorical {name} to allow it)",
                 lambda row, column=column: column[row].as_py(), not skip)  # fmt: skip
        table = table.set_column(position, name, pa.array(numbers, from_pandas=True))
    return table


def _parsed(column: Any) -> tuple[Array, NDArray[np.bool_]]:
    """Return (numbers, which values are no numbers), parsing each distinct text once."""
    encoded = column.combine_chunks()
    encoded = (encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded).dictionary_encode()
    distinct = [_float(text) for text in encoded.dictionary.to_pylist()]
    values = np.array([*(np.nan if v is None else v for v in distinct), np.nan])
    failed = np.array([*(v is None for v in distinct), False])
    indices = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    return values[indices], failed[indices]


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _labels(column: Any, target: str, bad: Bad, *, skip: bool) -> Array:
    """Return labels as 0, 1 or NaN (no label yet)."""
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        y = np.array(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
    else:
        words = {text: _binary(text) for text in pc.unique(column).to_pylist()}
        y = np.array([words[text] for text in column.to_pylist()], dtype=np.float64)
    wrong = ~(np.isnan(y) | (y == 0.0) | (y == 1.0))
    bad.mark(wrong, f"label {{!r}} in column {target!r}, expected 0 or 1", lambda row: column[row].as_py(), not skip)
    return np.where(wrong, np.nan, y)


def _binary(text: Any) -> float:
    if text is None:
        return float("nan")
    word = str(text).strip().lower()
    return 1.0 if word in TRUE else 0.0 if word in FALSE else 2.0


def _moments(table: pa.Table, name: str | None, bad: Bad, *, skip: bool) -> Array | None:
    if name is None:
        return None
    column = table[name]
    if pa.types.is_temporal(column.type):
        column = pc.cast(pc.cast(column, pa.timestamp("us")), pa.int64())
        return np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)) / 1e6
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    found = {text: _moment(text) for text in pc.unique(column).to_pylist()}
    times = np.array([found[text] for text in column.to_pylist()])
    wrong = np.isinf(times)
    bad.mark(wrong, f"time {{!r}} in column {name!r}, expected a number or an ISO date or time",
             lambda row: column[row].as_py(), not skip)  # fmt: skip
    return np.where(wrong, np.nan, times)


def _moment(text: Any) -> float:
    try:
        return float(as_times("time", [text])[0])
    except ValueError:
        return float("inf")


def _check_clock(time: Array | None, label_time: Array | None, bad: Bad, *, skip: bool) -> None:
    if time is None:
        return
    bad.mark(np.isnan(time), "no time{}", lambda row: "", not skip)
    latest = np.maximum.accumulate(np.where(bad.keep, time, -np.inf))
    bad.mark(time < latest, "time {} comes before that of an earlier row", lambda row: f"{time[row]:.12g}", not skip)
    if label_time is not None:
        early = label_time < time
        bad.mark(early, "label time {} is before its forecast", lambda row: f"{label_time[row]:.12g}", not skip)


def _check_scores(table: pa.Table, roles: Roles, bad: Bad, *, skip: bool) -> None:
    for name, kind in roles.scores.items():
        values = np.array(pc.cast(table[name], pa.float64()).to_numpy(zero_copy_only=False))
        wrong = np.isinf(values) | ((kind == "probability") & ((values < 0.0) | (values > 1.0)))
        reason = f"score {{}} in column {name!r}, expected a probability in [0, 1] (--score {name}:logit for logits)"
        bad.mark(wrong, reason, lambda row, values=values: f"{values[row]:g}", not skip)
    for name in table.column_names:
        if pa.types.is_floating(table[name].type) and name not in (*roles.special(), *roles.drop):
            infinite = np.isinf(table[name].to_numpy())
            bad.mark(infinite, f"infinite number{{}} in column {name!r}", lambda row: "", not skip)
