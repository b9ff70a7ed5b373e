"""Files of every format: JSON lines, Parquet, folders of files, and one way to open them all."""

import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as papq

from swapcal.tables.delimited import Cutter, Delimited, Piece
from swapcal.tables.dialect import WORDS, Detected, Dialect, advice, spelt
from swapcal.tables.frame import UnknownColumnError
from swapcal.tables.outcomes import ColumnTypes, ReadAs, is_text, not_a
from swapcal.tables.sources import AUTO, InputError, Opened


class Format(Protocol):
    """The interface of every format: the names of the columns, and the rows as Arrow tables, once."""

    columns: list[str]

    def pieces(self, types: ColumnTypes, jobs: int = 1, first: int = 1) -> Iterator[Piece]:
        """Yield the rows in order, the first of which has this number; several threads may read them."""


# JSON lines: one object per line.

JSON_ROWS = 1 << 16
SAMPLED_ROWS = 1000
BLOCK = 1 << 22

Rows = list[tuple[int, dict[str, Any]]]


class Chunk(NamedTuple):
    """Some rows with the lines they stand on, and how much of the file was read by then."""

    rows: Rows
    share: float | None
    last: bool


class JsonLines:
    """A file of JSON objects: the keys of its first rows, and its rows as Arrow tables."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._chunks = self._some()
        self._first = next(self._chunks, Chunk([], None, last=True))
        self.columns = _json_keys(self._first.rows)

    def pieces(self, types: ColumnTypes, jobs: int = 1, first: int = 1) -> Iterator[Piece]:
        """Yield the rows over all keys seen so far; a key that is absent is a missing value."""
        columns = self.columns
        for chunk in chain([self._first], self._chunks):
            columns = list(dict.fromkeys([*columns, *_json_keys(chunk.rows)]))
            if chunk.rows:
                table = pa.table({name: self._column(name, chunk.rows) for name in types.names(columns)})
                yield Piece(table, first, chunk.share, chunk.last)
            first += len(chunk.rows)

    def _some(self) -> Iterator["Chunk"]:
        """Yield rows in chunks; of a growing file, as they come."""
        cutter = Cutter(self._opened.name, None, self._opened.share, stopped=self._opened.stopped)
        held: Rows = []
        for block in cutter.blocks(self._opened.pieces(), BLOCK):
            for number, line in enumerate(block.text.split(b"\n"), block.line):
                if line.strip():
                    held.append((number, self._object(number, line)))
                if len(held) == JSON_ROWS:
                    yield Chunk(held, block.share, last=False)
                    held = []
            if self._opened.follows:
                yield Chunk(held, block.share, last=False)
                held = []
        yield Chunk(held, 1.0, last=True)

    def _object(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line.strip(), object_pairs_hook=_flat)
        except InputError as error:
            raise InputError(f"{self._opened.name}: line {number}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{self._opened.name}: line {number}: given no JSON object ({error}), expected one per line"
            ) from None
        if not isinstance(value, dict):
            raise InputError(
                f"{self._opened.name}: line {number}: given a JSON {type(value).__name__}, expected one object per line"
            )
        return value

    def _column(self, name: str, rows: Rows) -> Any:
        values = [row.get(name) for _, row in rows]
        kinds = {type(value) for value in values if value is not None}
        if kinds <= {int, float}:
            exact = all(value is None or abs(value) < 2**63 for value in values)
            return pa.array(values if exact and kinds == {int} else _floats(values), from_pandas=True)
        if kinds <= {int, float, str} and not kinds <= {str}:  # some numbers are quoted
            numbers = [_unquoted(value) if isinstance(value, str) else value for value in values]
            if numbers.count(None) == values.count(None):
                return pa.array(_floats(numbers), from_pandas=True)
        return pa.array(values if len(kinds) == 1 and list not in kinds else _texts(values))

    def words(self) -> set[str]:
        """Return the words for missing values that stand among numbers in the first rows."""
        found: dict[str, set[str]] = {}
        numeric = set[str]()
        for _, row in self._first.rows[:SAMPLED_ROWS]:
            for name, value in row.items():
                if isinstance(value, str) and value.strip().lower() in WORDS:
                    found.setdefault(name, set()).add(value.strip())
                elif isinstance(value, int | float) and not isinstance(value, bool):
                    numeric.add(name)
        return {word for name, words in found.items() if name in numeric for word in words}


def _json_keys(rows: Rows) -> list[str]:
    return list(dict.fromkeys(name for _, row in rows for name in row))


def _flat(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object with the values of an object inside it under both names: {"user": {"age": 3}} has user.age."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        inner = {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
        if twice := inner.keys() & values.keys():
            raise InputError(f"given two values called {min(twice)!r}, expected different names")
        values |= inner
    return values


def _unquoted(text: str) -> float | None:
    """Return the number that a text spells; None for other texts, and for codes with leading zeros."""
    return None if text.isdecimal() and len(text) > 1 and text.startswith("0") else spelt(text, ".", "")


def _floats(values: list[Any]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]


def _texts(values: list[Any]) -> list[str | None]:
    """Return a mixture of types as text, which is what the same column of a CSV file would be."""
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


# Parquet: columns as they are stored.

PARQUET_ROWS = 1 << 17
BUFFER = 1 << 20


class Parquet:
    """A Parquet file: its columns, and its rows as Arrow tables."""

    def __init__(self, opened: Opened) -> None:
        self._name = opened.name
        try:
            # Buffering ahead would keep every column read so far; a small buffer bounds memory by the batch.
            self._file = papq.ParquetFile(opened.seekable(), buffer_size=BUFFER, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{opened.name}: given Parquet that cannot be read ({error}), expected it whole") from None
        self.columns = _flattened(self._file.schema_arrow.empty_table()).column_names

    def pieces(self, types: ColumnTypes, jobs: int = 1, first: int = 1) -> Iterator[Piece]:
        """Yield the rows; each column has the type it is stored as, which is that of all its rows."""
        names, total, seen = types.names(self.columns), self._file.metadata.num_rows, 0
        try:
            for batch in self._file.iter_batches(batch_size=PARQUET_ROWS, columns=names):
                table = _computable(_flattened(pa.Table.from_batches([batch])).select(names))
                types.learn(table, final=True)
                yield Piece(table, first + seen, (seen + len(batch)) / total, seen + len(batch) == total)
                seen += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self._name}: given Parquet that cannot be read ({error}), expected it whole") from None


def _flattened(table: pa.Table) -> pa.Table:
    """Return a table with the fields of a struct as columns, called as in JSON lines: user.age."""
    while any(pa.types.is_struct(column.type) for column in table.schema):
        table = table.flatten()
    return table


def _computable(table: pa.Table) -> pa.Table:
    """Return views of texts as texts, with which Arrow computes little otherwise, and lengths of time as seconds.

    Lists are texts, as in JSON lines.
    """
    for place, column in enumerate(table.schema):
        if pa.types.is_string_view(column.type):
            table = table.set_column(place, column.name, table[place].cast(pa.large_string()))
        elif pa.types.is_duration(column.type):
            micros = table[place].cast(pa.duration("us"), safe=False).cast(pa.int64())
            table = table.set_column(place, column.name, pc.divide(micros.cast(pa.float64()), 1e6))
        elif pa.types.is_nested(column.type):
            texts = [None if value is None else json.dumps(value, default=str) for value in table[place].to_pylist()]
            table = table.set_column(place, column.name, pa.array(texts, pa.large_string()))
    return table


# Folder: the files of one table, in order of their names; folders called key=value are a column.

NOTHING = "__HIVE_DEFAULT_PARTITION__"
ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".jsonl", ".ndjson", ".parquet", ".pq")


class Folder:
    """A data set: the columns of its first file and of its partitions, and its rows as Arrow tables."""

    def __init__(self, path: str, dialect: Dialect) -> None:
        self._files = files_of(Path(path))
        self._sizes = [file.stat().st_size for file in self._files]
        self._keys = _folder_keys(Path(path), self._files)
        with Opened(str(self._files[0]), dialect.encoding) as opened:
            first = _format(opened, dialect)
        columns, self.detected = first.columns, _detected(first, opened, dialect)
        self._dialect = replace(self.detected.dialect, delimiter=dialect.delimiter)
        self.columns = [*columns, *(key for key in self._keys if key not in columns)]

    def pieces(self, types: ColumnTypes, jobs: int = 1, first: int = 1) -> Iterator[Piece]:
        """Yield the rows of one file after the other."""
        done, total, names = 0, sum(self._sizes), types.names(self.columns)
        for k, (file, size) in enumerate(zip(self._files, self._sizes, strict=True)):
            with Opened(str(file), self._dialect.encoding) as opened:
                rows = _format(opened, self._dialect)
                self._check_like(file, rows.columns)
                for piece in rows.pieces(types, jobs, first):
                    share = (done + size * (1.0 if piece.share is None else piece.share)) / total
                    yield piece._replace(table=self._completed(k, piece.table, names), share=share,
                                         last=piece.last and k + 1 == len(self._files))  # fmt: skip
                    first = piece.first + piece.total
            done += size

    def _check_like(self, file: Path, columns: list[str]) -> None:
        needed = [name for name in self.columns if name not in self._keys]
        missing = [name for name in needed if name not in columns]
        if missing:
            raise InputError(f"{file}: given no column {missing[0]!r}, expected those of {self._files[0]}")

    def _completed(self, k: int, table: pa.Table, names: list[str]) -> pa.Table:
        values = {name: pa.repeat(each[k], len(table)) for name, each in self._keys.items()}
        return pa.table({name: values[name] if name in values else table[name] for name in names})


def files_of(path: Path) -> list[Path]:
    """Return the files of a data set in order of their paths; names that begin with _ or . are left out."""
    files: list[Path] = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        own = (name for name in names if not name.startswith(("_", ".")))
        files += [Path(folder) / name for name in own if name.lower().removesuffix(".gz").endswith(ENDINGS)]
    files = [file for file in sorted(files) if file.stat().st_size]
    if not files:
        raise InputError(f"{path}: given a folder without tables, expected files that end in {', '.join(ENDINGS)}")
    return files


def _folder_keys(path: Path, files: list[Path]) -> dict[str, Any]:
    """Return the value of every partition's key in each file, as an Arrow array."""
    keys: dict[str, list[Any]] = {}
    for file in files:
        pairs = [part.split("=", 1) for part in file.relative_to(path).parts[:-1] if "=" in part]
        for key, value in pairs:
            keys.setdefault(unquote(key), []).append(None if value == NOTHING else unquote(value))
    for key, values in keys.items():
        if len(values) != len(files):
            raise InputError(f"{path}: given {len(values)} of {len(files)} files below a folder {key}=…, expected all")
    return {key: pa.array(_numbers(values)) for key, values in keys.items()}


def _numbers(values: list[Any]) -> list[Any]:
    """Return integers as int, if all values are; a value with leading zeros is a name."""
    is_int = all(value is None or (value.lstrip("-").isdecimal() and str(int(value)) == value) for value in values)
    return [None if value is None else int(value) for value in values] if is_int else values


# Source: an open file of any format; its columns are known, its rows not read yet.

COMMAS = re.compile(r"\s*[+-]?\d[\d.]*,[\d,]*\d*(\.\d+)?\s*")
LOOKED_AT = 1000  # values of a text column examined for numbers in another spelling
NUMBERS, INFERRED = (ReadAs.number, ReadAs.numeric), (ReadAs.feature, ReadAs.any)
LOG = logging.getLogger("swapcal.tables")
SEEM = {
    "percent": "looks like percentages and is read as text; --percent {} reads numbers",
    "currency": "looks like amounts of money and is read as text; --currency {} reads numbers",
    "dates": "holds dates of unclear order and is read as text; --dates dmy or mdy reads them",
    "zeros": "has values with leading zeros and is read as text; --numeric {} reads numbers",
    "limits": "has limits such as 90+ or <5, which are read as 90 and 5; --categorical {} reads text",
}
"""The suggestion for a column that seems to need an option."""
READ_AS = {
    "percent": "percentages, 12.5 % is read as 0.125",
    "currency": "amounts, read without the currency's sign",
    "limits": "limits such as 90+ or <5 are read as 90 and 5",
}
"""How a column is read that must be numbers."""


@dataclass(frozen=True)
class Source:
    """The columns of an open file; its rows can be read once, piece by piece."""

    name: str
    columns: list[str]
    dialect: Dialect
    _format: Format
    follows: bool = False
    """whether reading continues while the file grows"""
    seem: Mapping[str, str] = field(default_factory=dict)
    """columns that seem to need an option, and which"""

    def require(self, names: Sequence[str]) -> None:
        """Raise InputError if a name is not that of exactly one column."""
        for name in names:
            if name not in self.columns:
                raise UnknownColumnError(name, self.columns)
            if self.columns.count(name) > 1:
                raise InputError(f"{self.name}: given two columns called {name!r}, expected different names")

    def pieces(self, kinds: Mapping[str, ReadAs], jobs: int = 1, *, unnamed: ReadAs | None = None) -> Iterator[Piece]:
        """Yield the named columns, each as its kind, some rows at a time: the file may be larger than memory.

        Raises InputError for a row that does not fit. With `unnamed`, the columns that are not in `kinds` are read as
        that kind, and rows that do not fit are in the pieces' `ragged` and `misfits`. The cuts do not depend on `jobs`.
        """
        self.require([*kinds, *(self.columns if unnamed else ()), *self.dialect.percent, *self.dialect.currency])
        self._suggest(kinds, unnamed)
        coded = {name for name, option in self.seem.items() if option == "zeros"}
        kinds = {**kinds, **{name: ReadAs.text for name in coded if kinds.get(name, unnamed) in INFERRED}}
        dialect = self.as_numbers(kinds)
        types = ColumnTypes(kinds, unnamed, dialect, grows=self.follows or isinstance(self._format, Folder))
        judged, rows = set[str](), 0
        for piece in self._format.pieces(types, jobs):
            if not piece.total:
                continue
            if unnamed is None and piece.ragged:
                raise InputError(piece.complaint)
            types.learn(piece.table, final=piece.is_whole)
            self._refuse_commas(piece.table, types, judged, piece.first)
            table, misfits = types.fit(piece.table)
            for misfit in misfits if unnamed is None else ():
                row = int(misfit.wrong.argmax())
                given = not_a(misfit.expected, misfit.column[row].as_py(), misfit.name, dialect)
                raise InputError(f"row {piece.first + row}: column {misfit.name!r}: {given}")
            yield piece._replace(table=table, misfits=misfits)
            rows += piece.total
        if not rows and not self.follows:
            raise InputError(f"{self.name}: given no rows, expected some")

    def as_numbers(self, kinds: Mapping[str, ReadAs]) -> Dialect:
        """Return the dialect with those columns as percentages and amounts that look so and must be numbers."""
        numbers = {name: option for name, option in self.seem.items() if kinds.get(name) in NUMBERS}
        spelt: dict[str, Any] = {
            sign: (*getattr(self.dialect, sign), *(name for name, option in numbers.items() if option == sign))
            for sign in ("percent", "currency")
        }
        return replace(self.dialect, **spelt)

    def _suggest(self, kinds: Mapping[str, ReadAs], unnamed: ReadAs | None) -> None:
        """Log the columns whose type is inferred and that seem to need an option, and how others are read."""
        for name, option in self.seem.items():
            if kinds.get(name, unnamed) in INFERRED:
                LOG.warning("column %r %s", name, SEEM[option].format(quote(name)))
            elif kinds.get(name) in NUMBERS and option in READ_AS:
                LOG.info("column %r: %s", name, READ_AS[option])

    def _refuse_commas(self, table: pa.Table, types: ColumnTypes, judged: set[str], first: int) -> None:
        """Raise InputError for text that begins mostly with numbers in another spelling: they are no categories."""
        for name in table.column_names:
            has_values, kind = table[name].null_count < len(table), types.kind(name)
            if name in judged or not has_values or kind not in (ReadAs.any, ReadAs.feature, ReadAs.numeric):
                continue
            judged.add(name)
            values = table[name].slice(0, LOOKED_AT).to_pylist() if is_text(table[name].type) else []
            texts = [text for text in values if text is not None]
            like = [text for text in texts if COMMAS.fullmatch(text) and self.dialect.number(text) is None]
            if 2 * len(like) > len(texts) and (hint := advice(like[0], name, self.dialect)):
                row = values.index(like[0])
                raise InputError(
                    f"{self.name}: row {first + row}: column {name!r}: given {like[0]!r}, expected a number with "
                    f"{'a decimal comma' if self.dialect.decimal == ',' else 'a decimal point'}; {hint}, "
                    f"--categorical {quote(name)} takes such values as text"
                )


@contextmanager
def open_source(
    file: str, dialect: Dialect | None = None, until: Callable[[], bool] | None = None, *, follow: bool = False
) -> Iterator[Source]:
    """Open a CSV, TSV, JSONL or Parquet file, text also gzipped; "-" is standard input. The content gives the format.

    A folder is opened as one table, whose partitions, if any, are columns. With `follow`, a text file is read for as
    long as it grows, until `until` returns True; `until` also ends the reading of standard input.
    """
    dialect = dialect or Dialect()
    if file != "-" and os.path.isdir(file):
        if follow:
            raise InputError(f"{file}: given a folder with --follow, expected a file or -")
        folder = Folder(file, dialect)
        _log(file, dialect, folder.detected)
        yield Source(file, folder.columns, folder.detected.dialect, folder, seem=folder.detected.seem)
        return
    if follow and dialect.encoding not in ("utf-8", AUTO):
        raise InputError(f"--encoding: given {dialect.encoding} with --follow, expected utf-8")
    with Opened(file, dialect.encoding, until, follow=follow) as opened:
        rows = _format(opened, dialect)
        detected = _detected(rows, opened, dialect)
        _log(opened.name, dialect, detected)
        yield Source(opened.name, rows.columns, detected.dialect, rows, follow, detected.seem)


def _detected(rows: Format, opened: Opened, dialect: Dialect) -> Detected:
    if isinstance(rows, Delimited):
        return rows.detected
    words = tuple(sorted(rows.words())) if isinstance(rows, JsonLines) and dialect.missing is None else dialect.missing
    return Detected(replace(dialect, encoding=opened.encoding, missing=words).settled())


def _log(name: str, given: Dialect, detected: Detected) -> None:
    """Log how the file is read if that was detected; a delimiter alone is not logged."""
    for note in detected.notes if given.is_open else ():
        LOG.info("%s: %s", name, note)
    if detected.dialect != replace(given, delimiter=detected.dialect.delimiter).settled():
        LOG.info("%s: read with %s", name, detected.dialect.as_written())


def _format(opened: Opened, dialect: Dialect) -> Format:
    if opened.is_parquet:
        return Parquet(opened)
    start = opened.head.lstrip()[:2]
    if start.startswith(b"{"):
        return JsonLines(opened)
    if start in (b"[{", b"[\n", b"[\r", b"[ "):
        raise InputError(f"{opened.name}: given a JSON list, expected one object per line")
    return Delimited(opened, dialect)
