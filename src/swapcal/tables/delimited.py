"""Delimited text: CSV, TSV and their relatives, in batches or whole."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv

from swapcal.tables.clock import formats
from swapcal.tables.dialect import Dialect, InputError
from swapcal.tables.kinds import ReadAs, not_a
from swapcal.tables.opened import Opened

BLOCK = 1 << 24
SAMPLE_BYTES, SAMPLE_RECORDS = 1 << 16, 50
CANDIDATES = ",;\t|"
RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
UNREADABLE = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\w+).*?: invalid value '(.*)'", re.S
)
TYPES = {
    ReadAs.number: pa.float64(),
    ReadAs.text: pa.string(),
    ReadAs.raw: pa.string(),
    ReadAs.truth: pa.bool_(),
}


class Ragged(NamedTuple):
    """A row, numbered from 1 without the header, that has another number of fields than the header."""

    row: int
    given: int
    expected: int


class Delimited:
    """A delimited file: its columns, and its rows as Arrow tables."""

    def __init__(self, opened: Opened, dialect: Dialect, again: Callable[[], Opened] | None) -> None:
        self._opened, self._dialect, self._again = opened, dialect, again
        text = opened.head.decode(errors="ignore")
        tabbed = opened.name.removesuffix(".gz").endswith((".tsv", ".tab"))
        self.delimiter = dialect.delimiter or detected(text, "\t" if tabbed else ",")
        if self.delimiter == dialect.decimal:
            raise InputError(f"--decimal: given {dialect.decimal!r}, but {opened.name} is separated by it too")
        self.columns = next(_records(text, self.delimiter), [])

    def parts(self, kinds: Mapping[str, ReadAs]) -> Iterator[tuple[pa.Table, float | None]]:
        """Yield tables of the named columns; types not asked for are those of the first mebibyte."""
        convert = self._convert({**self._guessed(kinds), **_declared(kinds)}, list(kinds))
        try:
            reading = pacsv.ReadOptions(block_size=BLOCK, use_threads=False)  # only then do errors tell the row
            source = pacsv.open_csv(pa.PythonFile(self._opened.stream(), mode="r"), reading, self._parse(), convert)
            for batch in source:
                yield pa.Table.from_batches([batch]), self._opened.share()
            self._refuse_open_quote()
        except pa.ArrowException as error:
            raise self._explained(error) from None

    def whole(self, kinds: Mapping[str, ReadAs], ragged: list[Ragged]) -> pa.Table:
        """Return all rows of the right width, the others going to `ragged`; types are those of all values."""
        declared = {name: kind for name, kind in _declared(kinds).items() if kinds[name] is not ReadAs.raw}

        def handle(row: Any) -> str:
            ragged.append(Ragged(int(row.number) - 1, row.actual_columns, row.expected_columns))
            return "skip"

        reading = pacsv.ReadOptions(use_threads=False)
        convert = self._convert(declared, None)
        try:
            source = pa.PythonFile(self._opened.stream(), mode="r")
            table = pacsv.read_csv(source, reading, self._parse(handle), convert)
        except pa.ArrowException as error:
            raise self._explained(error) from None
        self._refuse_open_quote()
        return table

    def complaint(self, misfit: Ragged) -> str:
        """Say where a row has another width than the header."""
        given = f"given {misfit.given} fields, expected {misfit.expected} as in the header"
        return f"{self._opened.name}: {self._place(misfit.row)}{given}"

    def _parse(self, handle: Any = None) -> Any:
        quoted = b'"' in self._opened.head  # a newline inside quotes would otherwise end a block
        return pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=quoted, invalid_row_handler=handle)

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
        head = self._opened.head
        if not self._opened.is_whole:
            head = head[: head.rindex(b"\n") + 1] if b"\n" in head else head
        try:
            found = pacsv.read_csv(
                io.BytesIO(head), pacsv.ReadOptions(use_threads=False, block_size=len(head) + 1),
                self._parse(lambda row: "skip"), self._convert({}, list(kinds)),
            )  # fmt: skip
        except pa.ArrowException as error:
            raise self._explained(error) from None
        return {field.name: _widened(field.type) for field in found.schema}

    def _explained(self, error: Exception) -> InputError:
        name, text = self._opened.name, str(error)
        if "Empty CSV" in text:
            return InputError(f"{name} has no rows")
        if ragged := RAGGED.search(text):
            place, expected, given = (int(found or 0) for found in ragged.groups())
            return InputError(self.complaint(Ragged(place - 1, given, expected)))
        if unreadable := UNREADABLE.search(text):
            column, number, kind, value = unreadable.groups()
            wanted = _KINDS.get(kind, ReadAs.any)
            return InputError(
                f"{self._place(int(number or 0) - 1)}column {self.columns[int(column)]!r}: {not_a(wanted, value)}"
            )
        return InputError(f"{name}: cannot be read ({text})")

    def _place(self, row: int) -> str:
        line = self._line(row) if row > 0 else None
        return "" if row < 1 else f"row {row}: " if line is None else f"row {row} (line {line}): "

    def _refuse_open_quote(self) -> None:
        """Refuse a quote that is never closed: it would swallow all rows after it without a word."""
        if self._opened.quotes % 2:  # a lone quote inside a field is harmless, so look closely
            scan = self._scan(lambda seen: False)
            if scan is not None and not scan.closed:
                raise InputError(f"{self._opened.name}: line {scan.line}: given a quote that is never closed")

    def _line(self, row: int) -> int | None:
        """Return the line on which a row begins, if the file can be read once more."""
        scan = self._scan(lambda seen: seen == row)
        return None if scan is None or not scan.closed else scan.line

    def _scan(self, stop: Callable[[int], bool]) -> "Scan | None":
        """Read once more, if that is possible, until `stop` says so of the number of a row."""
        if self._opened.is_whole:
            return _scanned(io.BytesIO(self._opened.head), self.delimiter, stop)
        if self._again is None:
            return None
        with self._again() as again:
            return _scanned(again.stream(), self.delimiter, stop)


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


def _declared(kinds: Mapping[str, ReadAs]) -> dict[str, Any]:
    return {name: TYPES[kind] for name, kind in kinds.items() if kind in TYPES}


def _widened(kind: Any) -> Any:
    if pa.types.is_integer(kind):
        return pa.float64()
    if pa.types.is_date(kind):
        return pa.timestamp("us")
    return pa.string() if pa.types.is_boolean(kind) or pa.types.is_null(kind) or pa.types.is_binary(kind) else kind
