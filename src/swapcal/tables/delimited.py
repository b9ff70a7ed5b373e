"""Delimited text: CSV, TSV and their relatives, cut into blocks between records."""

import csv
import io
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from swapcal.arrays import Integers
from swapcal.kernels.packing import record_ends
from swapcal.tables.dialect import Detected, Dialect, Sample, detect
from swapcal.tables.outcomes import ColumnTypes, Misfit
from swapcal.tables.sources import InputError, Opened
from swapcal.tables.values import formats

# Blocks: text cut between records, so that each block can be read on its own, and several at once.

LONGEST = 1 << 26
"""A record longer than this is an unclosed quote, which would otherwise hide the rest of the file silently."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Block(NamedTuple):
    """Whole records, the number of the line on which they begin, and the share of the file read so far if known."""

    text: bytes
    line: int
    share: float | None
    last: bool


class Cutter:
    r"""Cuts pieces of text into blocks of whole records of about the requested length.

    An empty piece means that no more text is available yet: whole records are then returned at once. `quoted` is the
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
        """Yield the blocks; the first may be longer, because column types follow from it."""
        length, gathered = size if first is None else first, [b""]
        for piece in pieces:
            gathered.append(piece)
            if piece and sum(map(len, gathered)) < length:
                continue
            self._held = b"".join(gathered)
            while text := self._ready(length, idle=not piece):
                yield self._block(text, last=False)
                length = size
            gathered = [self._held]
        self._held = b"".join(gathered)
        yield from self._end()

    def _ready(self, length: int, *, idle: bool) -> bytes:
        """Return the records to yield now, possibly none."""
        if len(self._held) < length and not idle:
            return b""
        return self._ended_records(self._held[:length]) or self._ended_records(self._held)

    def _end(self) -> Iterator[Block]:
        """Yield the remaining records; only complete ones if the stream was stopped by `until`."""
        text = self._ended_records(self._held) if self._stopped() else self._held
        if text is self._held and (opened := self._open(text)) >= 0:
            self._refuse(opened)
        if text.strip():
            yield self._block(text, last=True)

    def _block(self, text: bytes, *, last: bool) -> Block:
        block = Block(text, self._line, self._share(), last)
        self._held = self._held[len(text) :]
        self._line += text.count(b"\n")
        return block

    def _ended_records(self, text: bytes) -> bytes:
        """Return the complete records at the beginning of a text."""
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


# Delimited text: CSV, TSV and their relatives.

BLOCK = 1 << 23
FIRST = 1 << 26  # the first block where all columns are read, each as what it looks like there
SAMPLE_BYTES, SAMPLE_RECORDS = 1 << 16, 50
CANDIDATES = ",;\t|"
EXAMINED, FEWEST_EXAMINED = 100_000, 100
"""Fields examined for the dialect, and the least number of rows."""
TOTALS = {"total", "totals", "grand total", "sum", "summe", "gesamt", "gesamtsumme", "somme", "totale", "totaal"}
NOTE = re.compile(r"[^\W\d_]{2,}\W+[^\W\d_]{2,}")
"""Two words side by side; a row that was cut off in its first field has rarely more than one."""
FEWEST_NOTED = 3
"""Columns of a file below whose rows notes are looked for: in a narrower one a row may look like one."""
NULLS = pacsv.ConvertOptions().null_values
LOG = logging.getLogger("swapcal.tables")
UNREADABLE = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error")


class Piece(NamedTuple):
    """Some rows of a file in order, and the share of the file that was read so far, if known."""

    table: pa.Table
    first: int
    """the number of the first row, from 1"""
    share: float | None
    last: bool
    ragged: Sequence[int] = ()
    """rows of the piece, from 1, with another number of fields than the header; they are not in the table"""
    complaint: str = ""
    """the error of the first of these"""
    misfits: tuple[Misfit, ...] = ()

    @property
    def total(self) -> int:
        """The number of rows, those left out included."""
        return len(self.table) + len(self.ragged)

    @property
    def rows(self) -> Integers:
        """The number of each row of the table."""
        return np.delete(np.arange(self.first, self.first + self.total), np.array(self.ragged, np.int64) - 1)

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of the file."""
        return self.last and self.first == 1


Ragged = list[tuple[int, str]]
"""Rows of a block, numbered from 1, with another number of fields than the header, and the error of each."""


class Delimited:
    """A delimited file: its columns, and its rows as Arrow tables."""

    def __init__(self, opened: Opened, dialect: Dialect) -> None:
        self._opened = opened
        text = opened.head.decode(errors="ignore")
        tabbed = opened.name.removesuffix(".gz").endswith((".tsv", ".tab"))
        self.delimiter = dialect.delimiter or detected(text, "\t" if tabbed else ",")
        if self.delimiter == dialect.decimal:
            raise InputError(
                f"--decimal: given {dialect.decimal!r}, which separates {opened.name} too, expected another"
            )
        self._fields, self._header, above = _header(text, self.delimiter, titled=not opened.follows)
        self.columns, self._blank = self._fields, ""
        own = replace(dialect, delimiter=self.delimiter, encoding=opened.encoding)
        self.detected = Detected(own.settled())
        if not opened.follows:
            sampled = self._sampled(text[len(self._header.decode()) :])
            self._leave_out_blanks(sampled)
            if dialect.is_open:
                self.detected = detect(dict(zip(self._fields, sampled, strict=False)), own)
        notes = (f"{above} line{'s' * (above > 1)} above the header left out" if above else "", self._blank)
        self.detected = replace(self.detected, notes=tuple(filter(None, notes)))
        self._dialect, self._is_noted = self.detected.dialect, dialect.is_open

    def _leave_out_blanks(self, sampled: list[list[str]]) -> None:
        """Leave out the columns without a name or values, with which spreadsheets fill lines up."""
        blank = [place for place, texts in enumerate(sampled) if not self._fields[place].strip() and texts == [""]]
        self._fields = [f"\0{place}" if place in blank else name for place, name in enumerate(self._fields)]
        self.columns = [name for place, name in enumerate(self._fields) if place not in blank]
        self._blank = f"{len(blank)} columns without a name or values left out" if blank else ""

    def _sampled(self, text: str) -> list[list[str]]:
        """Return some fields of each column, from the first rows."""
        rows = max(FEWEST_EXAMINED, EXAMINED // max(1, len(self._fields)))
        complete = text if self._opened.is_whole else text[: text.rfind("\n") + 1]
        records = list(islice(_records(complete, self.delimiter), rows))
        fields = zip(*(record for record in records if len(record) == len(self._fields)), strict=True)
        return [[*dict.fromkeys(column)] for column in fields]

    def pieces(self, types: ColumnTypes, jobs: int = 1, first: int = 1) -> Iterator[Piece]:
        """Yield the rows; a column comes as text where a value does not fit its type."""
        names = types.names(self.columns)

        def read(block: Block) -> tuple[Block, pa.Table, Ragged]:
            return block, *self._read(block, names, types.of_text())

        blocks = self._blocks(BLOCK if types.unnamed is None else FIRST)
        alone = islice(blocks, 0 if types.of_text().keys() >= {*names} else 1)  # column types follow from the first
        for block, table, ragged in chain(map(read, alone), in_order(read, blocks, jobs)):
            if types.learn(table, final=block.last and first == 1, text=True):
                _, table, ragged = read(block)
            complaint = self._complaint(*ragged[0], block, first) if ragged else ""
            piece = Piece(table, first, block.share, block.last, [row for row, _ in ragged], complaint)
            yield piece
            first += piece.total

    def _blocks(self, first: int) -> Iterator[Block]:
        opened, header = self._opened, self._header
        cutter = Cutter(opened.name, self.delimiter, opened.share, 1 + header.count(b"\n"), opened.stopped)
        for block in cutter.blocks(opened.pieces(len(header)), BLOCK, first):
            yield self._without_foot(block) if block.last and not opened.follows else block

    def _without_foot(self, block: Block) -> Block:
        """Return the last block without totals and notes below the rows."""
        text, below = block.text, 0
        while foot := foot_of(text, self.delimiter, len(self._fields)):
            text, below = text[: len(text.rstrip()) - len(foot)], below + 1
        if below and self._is_noted:
            note = foot_of(block.text, self.delimiter, len(self._fields)).decode(errors="replace")
            LOG.info("%s: %d line%s below the rows left out: %r", self._opened.name, below, "s" * (below > 1), note)
        return block._replace(text=text) if below else block

    def _read(self, block: Block, names: list[str], known: Mapping[str, Any]) -> tuple[pa.Table, Ragged]:
        """Return a block as a table, with columns that do not fit their type as text, and the rows of another width."""
        types = dict(known)
        size = max(len(block.text) + 1, 1 << 16) if types else None
        reading = pacsv.ReadOptions(use_threads=False, column_names=self._fields, block_size=size)
        while True:
            ragged: Ragged = []
            try:
                parse, convert = self._parse(block.text, ragged), self._convert(types, names)
                return pacsv.read_csv(pa.BufferReader(block.text), reading, parse, convert), ragged
            except pa.ArrowException as error:
                if "Empty CSV" in str(error):
                    return pa.table({name: pa.nulls(0, types.get(name)) for name in names}), ragged
                unreadable = UNREADABLE.search(str(error))
                name = self._fields[int(unreadable[1])] if unreadable else None
                if name is None or types.get(name) == pa.string():
                    raise InputError(f"{self._opened.name}: cannot be read ({error})") from None
                types[name] = pa.string()

    def _parse(self, text: bytes, ragged: Ragged) -> Any:
        def skip(row: Any) -> str:
            given = f"given {row.actual_columns} fields, expected {row.expected_columns} as in the header"
            ragged.append((int(row.number), given))
            return "skip"

        return pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=b'"' in text, invalid_row_handler=skip)

    def _convert(self, types: Mapping[str, Any], names: list[str]) -> Any:
        order = self._dialect.dates
        return pacsv.ConvertOptions(
            column_types=types,
            include_columns=names,
            strings_can_be_null=True,
            null_values=[*NULLS, *(self._dialect.missing or ())],
            decimal_point=self._dialect.decimal,
            timestamp_parsers=None if order == "iso" else [*formats(order), pacsv.ISO8601],
        )

    def _complaint(self, row: int, given: str, block: Block, first: int) -> str:
        line = _line_of(row, block.text, self.delimiter)
        place = f"row {first - 1 + row}" + ("" if line is None else f" (line {block.line - 1 + line})")
        return f"{self._opened.name}: {place}: {given}"


def foot_of(text: bytes, delimiter: str, width: int) -> bytes:
    r"""Return the last line if it is no row: a note in one field, or totals with a third of the fields empty.

    Examples
    --------
    >>> [foot_of(text, ",", 4) for text in (b"1,2,3,4\nTotal,,,4\n", b"1,2,3,4\nprinted by hand", b"1,2,3,4\n5,,,\n")]
    [b'Total,,,4', b'printed by hand', b'']
    >>> foot_of(b"a-1,2,3,4\na-2", ",", 4)  # a row that was cut off: refused when it is read
    b''
    """
    line = text.rstrip()[text.rstrip().rfind(b"\n") + 1 :]
    if width < FEWEST_NOTED or not line.strip() or line.count(b'"') % 2:  # else it may be the end of a quoted text
        return b""
    fields = next(_records(line.decode(errors="replace"), delimiter), [])
    filled = [field.strip() for field in fields if field.strip()]
    is_note = len(fields) == 1 and b'"' not in line and NOTE.search(fields[0]) is not None
    is_total = bool(filled) and filled[0].rstrip(":").lower() in TOTALS and 3 * len(filled) <= 2 * width
    return line if is_note or is_total else b""


def _line_of(row: int, text: bytes, delimiter: str) -> int | None:
    """Return the line on which a row begins; None if it is unknown."""
    lines = io.TextIOWrapper(io.BytesIO(text), encoding="utf-8", errors="replace", newline="")
    reader, begins, seen = csv.reader(lines, delimiter=delimiter, strict=True), 1, 0
    try:
        for record in reader:
            seen += bool(record)
            if seen == row:
                return begins
            begins = reader.line_num + 1
    except csv.Error:
        pass
    return None


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
        records = list(islice(_records(sample, candidate), SAMPLE_RECORDS))
        widths = [len(record) for record in records[titles(records) :]]
        if widths and widths[0] > 1:
            best = max(best, (sum(width == widths[0] for width in widths) / len(widths), widths[0], candidate))
    return best[2]


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    try:
        yield from filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return


def titles(records: Sequence[Sequence[str]]) -> int:
    """Return how many records are titles above the header: of each, at most one field has text.

    The header then is the first record with more. Its fields are different words, and the next record has as many.

    Examples
    --------
    >>> titles([["Week 7", ""], ["", ""], ["day", "sold"], ["1/2/2024", "3"]]), titles([["sold"], ["1", "0"]])
    (2, 0)
    """
    above = next((place for place, record in enumerate(records) if sum(map(bool, map(str.strip, record))) > 1), 0)
    if not above or above + 1 == len(records) or len(records[above + 1]) != len(records[above]):
        return 0
    names = [name for name in records[above] if name.strip()]
    sample = Sample.of(names)
    return above if len(set(names)) == len(names) and not sample.numbers and not sample.dates else 0


def _header(text: str, delimiter: str, *, titled: bool) -> tuple[list[str], bytes, int]:
    """Return the names of the columns, the text up to the first row, and the number of lines above the names.

    Lines above them are looked for if `titled`.
    """
    records = list(islice(_records(text, delimiter), SAMPLE_RECORDS)) if titled else []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    names, above = list[str](), 0
    try:
        for _ in range(titles(records) + 1):
            above, names = reader.line_num, next(filter(None, reader), [])
    except csv.Error:
        names = []
    begins = "".join(line for line, _ in zip(io.StringIO(text, newline=""), range(reader.line_num), strict=False))
    return names, begins.encode(), above
