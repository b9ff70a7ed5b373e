"""Files of every format: JSON lines, Parquet, folders of files, and one way to open them all."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq

from swapcal.arrays import Integers
from swapcal.tables.delimited import Cutter, Delimited, Piece, widened
from swapcal.tables.frame import UnknownColumnError
from swapcal.tables.outcomes import COMMAS, ReadAs, is_text, settled
from swapcal.tables.sources import Dialect, InputError, Opened

# JSON lines: one object per line, in batches or whole.

JSON_ROWS = 1 << 16
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

    def parts(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[tuple[pa.Table, float | None]]:
        """Yield tables of the named columns; a key that is absent is a missing value."""
        for chunk in chain([self._first], self._chunks):
            if chunk.rows:
                yield self._table(chunk.rows, list(kinds)), chunk.share

    def pieces(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[Piece]:
        """Yield tables over all keys seen so far."""
        names: list[str] = []
        for chunk in chain([self._first], self._chunks):
            names = list(dict.fromkeys([*names, *_json_keys(chunk.rows)]))
            table = self._table(chunk.rows, names)
            if table.num_rows:
                yield Piece(table if chunk.last and not self._opened.follows else widened(table), [], "",
                            chunk.share, chunk.last)  # fmt: skip

    def _some(self) -> Iterator["Chunk"]:
        """Yield rows, so many at a time; what grows is given out as it comes."""
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
            found = json.loads(line.strip(), object_pairs_hook=_distinct)
        except InputError as error:
            raise InputError(f"{self._opened.name}: line {number}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{self._opened.name}: line {number}: given no JSON object ({error}), expected one per line"
            ) from None
        if not isinstance(found, dict):
            raise InputError(
                f"{self._opened.name}: line {number}: given a JSON {type(found).__name__}, expected one object per line"
            )
        return found

    def _table(self, rows: Rows, names: list[str]) -> pa.Table:
        return pa.table({name: self._column(name, rows) for name in names})

    def _column(self, name: str, rows: Rows) -> Any:
        values = [row.get(name) for _, row in rows]
        for (number, _), value in zip(rows, values, strict=True):
            if isinstance(value, dict | list):
                place = f"{self._opened.name}: line {number}: column {name!r}"
                raise InputError(f"{place}: given a nested value, expected text or a number")
        kinds = {type(value) for value in values if value is not None}
        if kinds <= {int, float}:
            exact = all(value is None or abs(value) < 2**63 for value in values)
            return pa.array(values if exact and kinds == {int} else _floats(values), from_pandas=True)
        return pa.array(values if len(kinds) == 1 else _texts(values))


def _json_keys(rows: Rows) -> list[str]:
    return list(dict.fromkeys(name for _, row in rows for name in row))


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"given two values called {twice!r}, expected different names")
    return found


def _floats(values: list[Any]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]


def _texts(values: list[Any]) -> list[str | None]:
    """Return a mixture of types as text, which is what the same column of a CSV file would be."""
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


# Parquet: columns as they are stored, in batches or whole.

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
        self.columns = list(self._file.schema_arrow.names)

    def parts(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[tuple[pa.Table, float | None]]:
        """Yield tables of the named columns."""
        total, seen = max(1, self._file.metadata.num_rows), 0
        try:
            for batch in self._file.iter_batches(batch_size=PARQUET_ROWS, columns=list(kinds)):
                seen += len(batch)
                yield pa.Table.from_batches([batch]).select(list(kinds)), seen / total
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self._name}: given Parquet that cannot be read ({error}), expected it whole") from None

    def pieces(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[Piece]:
        """Yield tables of all columns; each has the type it is stored as."""
        for table, share in self.parts(dict.fromkeys(self.columns, ReadAs.any), jobs):
            yield Piece(table, [], "", share, share == 1.0)


# Folder: the files of one table, in order of their names; folders called key=value are a column.

NOTHING = "__HIVE_DEFAULT_PARTITION__"
ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".jsonl", ".ndjson", ".parquet", ".pq")

Open = Callable[[str, int], AbstractContextManager[Any]]
"""Open one file, given how many rows came before it."""


class Folder:
    """A data set: the columns of its first file and of its partitions, and its rows as Arrow tables."""

    def __init__(self, path: str, open_one: Open) -> None:
        self._path, self._open = path, open_one
        self._files = files_of(Path(path))
        self._sizes = [file.stat().st_size for file in self._files]
        self._keys = _folder_keys(Path(path), self._files)
        with open_one(str(self._files[0]), 0) as first:
            self.columns = [*first.columns, *(key for key in self._keys if key not in first.columns)]

    def parts(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[tuple[pa.Table, float | None]]:
        """Yield tables of the named columns."""
        own = {name: kind for name, kind in kinds.items() if name not in self._keys}
        for k, found, share in self._each(lambda opened: opened.parts(own or _any_one(opened), jobs)):
            yield self._completed(k, found[0], list(kinds)), share

    def pieces(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[Piece]:
        """Yield all columns."""
        own = {name: kind for name, kind in kinds.items() if name not in self._keys}
        for k, found, share in self._each(lambda opened: opened.pieces(own, jobs)):
            table = self._completed(k, found.table, self.columns)
            yield found._replace(table=widened(table), share=share, last=share == 1.0 and found.last)

    def _each(self, read: Callable[[Any], Iterator[Any]]) -> Iterator[tuple[int, Any, float | None]]:
        rows, done, total = 0, 0, max(1, sum(self._sizes))
        for k, (file, size) in enumerate(zip(self._files, self._sizes, strict=True)):
            with self._open(str(file), rows) as opened:
                self._check_like(file, opened.columns)
                for found in read(opened):
                    rows += len(found[0]) + (len(found.ragged) if isinstance(found, Piece) else 0)
                    own = found.share if isinstance(found, Piece) else found[1]
                    yield k, found, (done + size * (1.0 if own is None else own)) / total
            done += size

    def _check_like(self, file: Path, columns: list[str]) -> None:
        needed = [name for name in self.columns if name not in self._keys]
        missing = [name for name in needed if name not in columns]
        if missing:
            raise InputError(f"{file}: given no column {missing[0]!r}, expected those of {self._files[0]}")

    def _completed(self, k: int, table: pa.Table, names: list[str]) -> pa.Table:
        values = {name: pa.array([each[k]] * len(table), _type(each)) for name, each in self._keys.items()}
        return pa.table({name: values[name] if name in values else table[name] for name in names})


def files_of(path: Path) -> list[Path]:
    """Return the files of a data set in order of their paths; names with _ or . in front are other programs' notes."""
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        plain = (name for name in names if not name.startswith(("_", ".")))
        found += [Path(folder) / name for name in plain if name.lower().removesuffix(".gz").endswith(ENDINGS)]
    kept = [file for file in sorted(found) if file.stat().st_size]
    if not kept:
        raise InputError(f"{path}: given a folder without tables, expected files that end in {', '.join(ENDINGS)}")
    return kept


def _folder_keys(path: Path, files: list[Path]) -> dict[str, list[Any]]:
    """Return the value of every partition's key in each file."""
    found: dict[str, list[Any]] = {}
    for file in files:
        pairs = [part.split("=", 1) for part in file.relative_to(path).parts[:-1] if "=" in part]
        for key, value in pairs:
            found.setdefault(unquote(key), []).append(None if value == NOTHING else unquote(value))
    for key, values in found.items():
        if len(values) != len(files):
            raise InputError(f"{path}: given {len(values)} of {len(files)} files below a folder {key}=…, expected all")
    return {key: _numbers(values) for key, values in found.items()}


def _numbers(values: list[Any]) -> list[Any]:
    """Return whole numbers as such; what has leading zeros is a name."""
    plain = all(value is None or (value.lstrip("-").isdecimal() and str(int(value)) == value) for value in values)
    return [None if value is None else int(value) for value in values] if plain else values


def _type(values: list[Any]) -> Any:
    return pa.int64() if all(value is None or isinstance(value, int) for value in values) else pa.string()


def _any_one(opened: Any) -> dict[str, ReadAs]:
    return {opened.columns[0]: ReadAs.raw}


# Source: a file of any format, opened, its columns known, its rows waiting.

LOOKED_AT = 1000  # values of a text column examined for decimal commas


class FilePart(NamedTuple):
    """Some rows of a file in order: a table, the number of its first row (from 1), the share read so far if known."""

    table: pa.Table
    first: int
    share: float | None


class WholePart(NamedTuple):
    """Some rows of a file, all columns, the number of each row (from 1), and what is wrong with those left out."""

    table: pa.Table
    rows: Integers
    ragged: int
    complaint: str
    share: float | None
    whole: bool
    """whether this is all there is"""


@dataclass(frozen=True)
class Source:
    """The columns of an open file; its rows can be read once, the named columns in parts or all in stretches."""

    name: str
    columns: list[str]
    dialect: Dialect
    _format: Any
    follows: bool = False
    """whether its rows go on for as long as it grows"""

    def require(self, names: Sequence[str]) -> None:
        """Refuse names that are no column, or more than one."""
        for name in names:
            if name not in self.columns:
                raise UnknownColumnError(name, self.columns)
            if self.columns.count(name) > 1:
                raise InputError(f"{self.name}: given two columns called {name!r}, expected different names")

    def parts(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[FilePart]:
        """Yield the named columns, each as its kind, some rows at a time: the file may be larger than memory.

        Where the cuts are does not depend on how many threads read.
        """
        self.require(list(kinds))
        first, unseen = 1, [name for name, kind in kinds.items() if kind is ReadAs.any]
        for table, share in self._format.parts(kinds, jobs):
            if not len(table):
                continue
            columns = {name: settled(table[name], name, kind, first) for name, kind in kinds.items()}
            part = FilePart(pa.table(columns), first, share)
            unseen = self._refuse_commas(part.table, unseen)
            yield part
            first += len(table)
        if first == 1:
            raise InputError(f"{self.name}: given no rows, expected some")

    def stretches(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[WholePart]:
        """Yield all columns, some rows at a time; those named as their kind, the others as what they look like.

        That is seen from the first stretch, 64 MiB of text; a later value that does not fit makes its column text
        there, and the reader of the stretch has to say so.
        """
        self.require([*kinds, *self.columns])
        before, judged = 0, set[str]()
        for piece in self._format.pieces(kinds, jobs):
            count = len(piece.table) + len(piece.ragged)
            if not count:
                continue
            rows = before + np.delete(np.arange(1, 1 + count), np.array(piece.ragged, np.int64) - 1)
            wanted = [name for name in piece.table.column_names if kinds.get(name, ReadAs.any) is ReadAs.any]
            unseen = self._refuse_commas(piece.table, [name for name in wanted if name not in judged])
            judged.update(name for name in wanted if name not in unseen)
            whole = piece.last and not before
            yield WholePart(piece.table, rows, len(piece.ragged), piece.complaint, piece.share, whole)
            before += count
        if not before and not self.follows:
            raise InputError(f"{self.name}: given no rows, expected some")

    def _refuse_commas(self, table: pa.Table, names: Sequence[str]) -> list[str]:
        """Refuse text that begins mostly with numbers with commas: as categories they would mean nothing.

        Return the columns that have no value to judge them by.
        """
        for name in names:
            if is_text(table[name].type):
                seen = [text for text in table[name].slice(0, LOOKED_AT).to_pylist() if text is not None]
                like = [text for text in seen if COMMAS.fullmatch(text)]
                if 2 * len(like) > len(seen):
                    raise InputError(
                        f"{self.name}: column {name!r}: given numbers with commas such as {like[0]!r}, expected a "
                        f"point; --decimal , reads decimal commas, --categorical {name} takes them as text"
                    )
        return [name for name in names if table[name].null_count == len(table)]


@contextmanager
def open_source(
    file: str, dialect: Dialect | None = None, until: Callable[[], bool] | None = None, *, follow: bool = False
) -> Iterator[Source]:
    """Open a CSV, TSV, JSONL or Parquet file, text also gzipped; "-" is standard input. The format is seen inside.

    A folder is opened as one table, whose partitions, if any, are columns. With `follow` the rows of a text go on for
    as long as it grows, until `until` says so; standard input is left at `until` too.
    """
    dialect = dialect or Dialect()
    if file != "-" and os.path.isdir(file):
        if follow:
            raise InputError(f"{file}: given a folder with --follow, expected a file or -")
        folder = Folder(file, lambda name, before: _opened(name, dialect, before))
        yield Source(file, folder.columns, dialect, folder)
        return
    if follow and dialect.encoding != "utf-8":
        raise InputError(f"--encoding: given {dialect.encoding} with --follow, expected utf-8")
    with Opened(file, dialect.encoding, until, follow=follow) as opened:
        found = _format(opened, dialect)
        yield Source(opened.name, found.columns, dialect, found, follow)


@contextmanager
def _opened(file: str, dialect: Dialect, before: int) -> Iterator[Any]:
    with Opened(file, dialect.encoding) as opened:
        yield _format(opened, dialect, before)


def _format(opened: Opened, dialect: Dialect, before: int = 0) -> Any:
    if opened.is_parquet:
        return Parquet(opened)
    start = opened.head.lstrip()[:2]
    if start.startswith(b"{"):
        return JsonLines(opened)
    if start in (b"[{", b"[\n", b"[\r", b"[ "):
        raise InputError(f"{opened.name}: given a JSON list, expected one object per line")
    return Delimited(opened, dialect, before)
