"""Delimited text: CSV, TSV and their relatives, cut into blocks between records."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from swapcal.kernels.packing import record_ends
from swapcal.tables.clock import formats
from swapcal.tables.outcomes import ReadAs, not_a
from swapcal.tables.sources import Dialect, InputError, Opened

# Blocks: text cut between records, so that each block can be read on its own, and several at once.

LONGEST = 1 << 26
"""A record longer than this is taken for a quote that is never closed: it would swallow the file without a word."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Block(NamedTuple):
    """Whole records, the number of the line on which they begin, and the share of the file read so far if known."""

    text: bytes
    line: int
    share: float | None
    last: bool


class Cutter:
    r"""Cuts pieces of text into blocks of whole records, about as long as asked for.

    An empty piece says that no more is there for now: what is whole is then given out at once. `quoted` is the
    delimiter where fields may be quoted, None where every line is a record.

    Examples
    --------
    >>> cutter = Cutter("in.csv", ",", share=lambda: None)
    >>> [block.text for block in cutter.blocks([b'1,"a\n', b'b"\n2', b',c\n3'], 4)]
    [b'1,"a\nb"\n', b'2,c\n', b'3']
    """

    def __init__(
        self,
        name: str,
        quoted: str | None,
        share: Callable[[], float | None],
        line: int = 1,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._name, self._share, self._line, self._stopped = name, share, line, stopped
        self._delimiter = None if quoted is None else ord(quoted)
        self._held = b""

    def blocks(self, pieces: Iterable[bytes], size: int, first: int | None = None) -> Iterator[Block]:
        """Yield the blocks; the first may be longer: all else is judged by it."""
        wanted, gathered = size if first is None else first, [b""]
        for piece in pieces:
            gathered.append(piece)
            if piece and sum(map(len, gathered)) < wanted:
                continue
            self._held = b"".join(gathered)
            while text := self._ready(wanted, idle=not piece):
                yield self._block(text, last=False)
                wanted = size
            gathered = [self._held]
        self._held = b"".join(gathered)
        yield from self._end()

    def _ready(self, wanted: int, *, idle: bool) -> bytes:
        """Return what is to be given out now, if anything."""
        if len(self._held) < wanted and not idle:
            return b""
        return self._whole(self._held[:wanted]) or self._whole(self._held)

    def _end(self) -> Iterator[Block]:
        """Give out what is left; of a stream that was left in the middle, only whole records."""
        rest = self._whole(self._held) if self._stopped() else self._held
        if rest is self._held and (opened := self._open(rest)) >= 0:
            self._refuse(opened)
        if rest.strip():
            yield self._block(rest, last=True)

    def _block(self, text: bytes, *, last: bool) -> Block:
        block = Block(text, self._line, self._share(), last)
        self._held = self._held[len(text) :]
        self._line += text.count(b"\n")
        return block

    def _whole(self, text: bytes) -> bytes:
        """Return the records that have ended."""
        if self._delimiter is None or b'"' not in text:
            return text[: text.rfind(b"\n") + 1]
        end, opened = record_ends(np.frombuffer(text, np.uint8), self._delimiter)
        if not end and len(text) >= LONGEST:
            self._refuse(max(opened, 0))
        return text[:end]

    def _open(self, text: bytes) -> int:
        if self._delimiter is None or b'"' not in text:
            return -1
        return int(record_ends(np.frombuffer(text, np.uint8), self._delimiter)[1])

    def _refuse(self, place: int) -> None:
        line = self._line + self._held[:place].count(b"\n")
        raise InputError(f"{self._name}: line {line}: given a quote that is never closed, expected its end")


def in_order(work: Callable[[Item], Result], items: Iterable[Item], jobs: int) -> Iterator[Result]:
    """Yield the work's results in order, done by so many threads, never more than one item ahead of each.

    Examples
    --------
    >>> list(in_order(lambda x: x * x, range(5), jobs=2))
    [0, 1, 4, 9, 16]
    """
    if jobs < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(jobs) as pool:
        waiting: list[Future[Result]] = []
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > jobs:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()


# Delimited text: CSV, TSV and their relatives, in batches or whole.

BLOCK = 1 << 23
FIRST = 1 << 26  # what a column holds is seen from so many bytes
SAMPLE_BYTES, SAMPLE_RECORDS = 1 << 16, 50
CANDIDATES = ",;\t|"
RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
UNREADABLE = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\w+).*?: [a-z ]+ '(.*?)'(?:$|\. If)", re.S
)
TYPES = {
    ReadAs.number: pa.float64(),
    ReadAs.text: pa.string(),
    ReadAs.raw: pa.string(),
    ReadAs.truth: pa.bool_(),
}


class Piece(NamedTuple):
    """Some rows of a file, which rows of another width were left out (from 1), and what is wrong with the first."""

    table: pa.Table
    ragged: list[int]
    complaint: str
    share: float | None
    last: bool


class Ragged(NamedTuple):
    """A row of a block, numbered from 1, that has another number of fields than the header."""

    row: int
    given: int
    expected: int


class Delimited:
    """A delimited file: its columns, and its rows as Arrow tables."""

    def __init__(self, opened: Opened, dialect: Dialect, before: int = 0) -> None:
        self._opened, self._dialect, self._before = opened, dialect, before
        text = opened.head.decode(errors="ignore")
        tabbed = opened.name.removesuffix(".gz").endswith((".tsv", ".tab"))
        self.delimiter = dialect.delimiter or detected(text, "\t" if tabbed else ",")
        if self.delimiter == dialect.decimal:
            raise InputError(
                f"--decimal: given {dialect.decimal!r}, which separates {opened.name} too, expected another"
            )
        self.columns, self._header = _header(text, self.delimiter)

    def parts(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[tuple[pa.Table, float | None]]:
        """Yield tables of the named columns; types not asked for are those of the first mebibyte that has values."""
        names, types = list(kinds), {**self._guessed(kinds), **_declared(kinds)}

        def read(block: Block) -> tuple[Block, Any]:
            return block, self._read(block, self._convert(types, names))

        for block, found in in_order(read, self._blocks(BLOCK), jobs):
            if not isinstance(found, Exception) and _decided(found, types, _widened):
                found = read(block)[1]
            if isinstance(found, Exception):
                raise self._explained(found, block)
            self._before += len(found)
            yield found, block.share

    def pieces(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[Piece]:
        """Yield all columns; types are those of the first piece, text where a later one does not fit them."""
        declared = {name: kind for name, kind in _declared(kinds).items() if kinds[name] is not ReadAs.raw}
        blocks = self._blocks(BLOCK, FIRST)
        for first in blocks:
            ragged: list[Ragged] = []
            table = self._read(first, self._convert(declared, None), ragged)
            if isinstance(table, Exception):
                raise self._explained(table, first)
            table = table if first.last else widened(table)
            yield self._piece(first, table, ragged)
            types = {field.name: field.type for field in table.schema if not pa.types.is_null(field.type)}
            yield from self._alike(blocks, types | declared, jobs)

    def _alike(self, blocks: Iterator[Block], types: dict[str, Any], jobs: int) -> Iterator[Piece]:
        """Yield the other pieces, as far as they are like the first that had values."""

        def read(block: Block) -> tuple[Block, Any, list[Ragged]]:
            fitting, ragged = dict(types), list[Ragged]()
            found = self._read(block, self._convert(fitting, None), ragged)
            while isinstance(found, Exception) and (unreadable := UNREADABLE.search(str(found))):
                name = self.columns[int(unreadable[1])]
                if fitting[name] == pa.string():
                    break
                fitting[name], ragged = pa.string(), []
                found = self._read(block, self._convert(fitting, None), ragged)
            return block, found, ragged

        for block, found, ragged in in_order(read, blocks, jobs):
            if not isinstance(found, Exception) and _decided(found, types, wider):
                _, found, ragged = read(block)
            if isinstance(found, Exception):
                raise self._explained(found, block)
            yield self._piece(block, found, ragged)

    def _piece(self, block: Block, table: pa.Table, ragged: list[Ragged]) -> Piece:
        complaint = self._complaint(ragged[0], block) if ragged else ""
        self._before += len(table) + len(ragged)
        return Piece(table, [misfit.row for misfit in ragged], complaint, block.share, block.last)

    def _blocks(self, size: int, first: int | None = None) -> Iterator[Block]:
        opened, header = self._opened, self._header
        cutter = Cutter(opened.name, self.delimiter, opened.share, 1 + header.count(b"\n"), opened.stopped)
        return cutter.blocks(opened.pieces(len(header)), size, first)

    def _read(self, block: Block, convert: Any, ragged: list[Ragged] | None = None) -> Any:
        """Return a block as a table, or what Arrow has to say against it; rows of another width go to `ragged`."""

        def handle(row: Any) -> str:
            assert ragged is not None
            ragged.append(Ragged(int(row.number), row.actual_columns, row.expected_columns))
            return "skip"

        size = max(len(block.text) + 1, 1 << 16) if convert.column_types else None
        reading = pacsv.ReadOptions(use_threads=False, column_names=self.columns, block_size=size)
        try:
            parse = self._parse(block.text, None if ragged is None else handle)
            return pacsv.read_csv(pa.BufferReader(block.text), reading, parse, convert)
        except pa.ArrowException as error:
            if "Empty CSV" in str(error):
                kinds, names = convert.column_types, convert.include_columns or self.columns
                return pa.table({name: pa.nulls(0, kinds.get(name)) for name in names})
            return error

    def _complaint(self, misfit: Ragged, block: Block) -> str:
        """Say where a row has another width than the header."""
        given = f"given {misfit.given} fields, expected {misfit.expected} as in the header"
        return f"{self._opened.name}: {self._place(misfit.row, block)}{given}"

    def _parse(self, text: bytes, handle: Any = None) -> Any:
        return pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=b'"' in text, invalid_row_handler=handle)

    def _convert(self, types: Mapping[str, Any], columns: list[str] | None) -> Any:
        order = self._dialect.dates
        return pacsv.ConvertOptions(
            column_types=dict(types),
            include_columns=columns,
            strings_can_be_null=True,
            decimal_point=self._dialect.decimal,
            timestamp_parsers=None if order == "iso" else [*formats(order), pacsv.ISO8601],
        )

    def _guessed(self, kinds: Mapping[str, ReadAs]) -> dict[str, Any]:
        """Return types wide enough for what may follow the first rows."""
        head, line = self._opened.head[len(self._header) :], 1 + self._header.count(b"\n")
        cutter = Cutter(self._opened.name, self.delimiter, lambda: None, line, lambda: not self._opened.is_whole)
        block = next(cutter.blocks([head], len(head)), Block(b"", line, None, last=False))
        found = self._read(block, self._convert({}, list(kinds)), [])
        if isinstance(found, Exception):
            raise self._explained(found, block)
        types: dict[str, Any] = {}
        _decided(found, types, _widened)
        return types

    def _explained(self, error: Exception, block: Block) -> InputError:
        name, text = self._opened.name, str(error)
        if ragged := RAGGED.search(text):
            place, expected, given = (int(found or 0) for found in ragged.groups())
            return InputError(self._complaint(Ragged(place, given, expected), block))
        if unreadable := UNREADABLE.search(text):
            column, number, kind, value = unreadable.groups()
            wanted = _KINDS.get(kind, ReadAs.any)
            where = f"row {self._before + int(number)}: " if number else ""
            return InputError(f"{where}column {self.columns[int(column)]!r}: {not_a(wanted, value)}")
        return InputError(f"{name}: cannot be read ({text})")

    def _place(self, row: int, block: Block) -> str:
        scan = _scanned(io.BytesIO(block.text), self.delimiter, lambda seen: seen == row - 1)
        line = "" if scan is None or not scan.closed else f" (line {block.line - 1 + scan.line})"
        return f"row {self._before + row}{line}: "


class Scan(NamedTuple):
    """The line on which the last row looked at begins, and whether it ended outside quotes."""

    line: int
    closed: bool


def _scanned(stream: Any, delimiter: str, stop: Callable[[int], bool]) -> Scan | None:
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
    reader, begins, seen = csv.reader(text, delimiter=delimiter, strict=True), 1, -1
    try:
        for record in reader:
            seen += bool(record)
            if stop(seen):
                break
            begins = reader.line_num + 1
    except csv.Error as error:
        return Scan(begins, False) if "unexpected end" in str(error) else None
    return Scan(begins, True)


_KINDS = {
    "double": ReadAs.number,
    "int64": ReadAs.number,
    "bool": ReadAs.truth,
    "timestamp": ReadAs.time,
    "date32": ReadAs.time,
}


def detected(text: str, otherwise: str) -> str:
    r"""Return the delimiter that splits the header, and the rows after it most evenly.

    Examples
    --------
    >>> detected("a;b\n1,5;2\n", ","), detected("a\tb\n", ","), detected("p\n0,5\n", ",")
    (';', '\t', ',')
    """
    sample = text if len(text) < SAMPLE_BYTES else text[: text.rfind("\n", 0, SAMPLE_BYTES) + 1]
    best = (0.0, 1, otherwise)
    for candidate in CANDIDATES:
        widths = [len(record) for record, _ in zip(_records(sample, candidate), range(SAMPLE_RECORDS), strict=False)]
        if widths and widths[0] > 1:
            best = max(best, (sum(width == widths[0] for width in widths) / len(widths), widths[0], candidate))
    return best[2]


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    try:
        yield from filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return


def _header(text: str, delimiter: str) -> tuple[list[str], bytes]:
    """Return the names of the columns and the text up to the first row."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        names = next(filter(None, reader), [])
    except csv.Error:
        names = []
    begins = "".join(line for line, _ in zip(io.StringIO(text, newline=""), range(reader.line_num), strict=False))
    return names, begins.encode()


def _decided(table: pa.Table, types: dict[str, Any], wide: Callable[[Any], Any]) -> bool:
    """Note what columns without a type so far hold, if anything; tell whether the table has to be read anew for it."""
    for field in table.schema:
        if field.name not in types and not pa.types.is_null(field.type):
            types[field.name] = wide(field.type)
    return any(types.get(field.name, field.type) != field.type for field in table.schema)


def widened(table: pa.Table) -> pa.Table:
    """Return the columns as types wide enough for what may follow."""
    for place, field in enumerate(table.schema):
        if wider(field.type) != field.type:
            table = table.set_column(place, field.name, table[place].cast(wider(field.type), safe=False))
    return table


def wider(kind: Any) -> Any:
    """Return floats for whole numbers, and microseconds for days and seconds: what follows may be finer."""
    if pa.types.is_integer(kind):
        return pa.float64()
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.unit == "s"):
        return pa.timestamp("us", getattr(kind, "tz", None))
    return kind


def _declared(kinds: Mapping[str, ReadAs]) -> dict[str, Any]:
    return {name: TYPES[kind] for name, kind in kinds.items() if kind in TYPES}


def _widened(kind: Any) -> Any:
    return pa.string() if pa.types.is_boolean(kind) or pa.types.is_binary(kind) else wider(kind)
