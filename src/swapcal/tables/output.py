"""Output: files that appear whole or not at all, and never in the place of something else."""

import gzip
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq

from swapcal.archive import replacing, sync_folder
from swapcal.tables.sources import InputError

PARQUET = (".parquet", ".pq")
LINES = (".jsonl", ".ndjson")
ENDINGS = (".csv", ".tsv", ".tab", *LINES, ".txt", *PARQUET)

Place = str | Path | None


def protect(inputs: Iterable[Place], outputs: Mapping[str, Place], tables: Iterable[str] = ()) -> None:
    """Raise InputError if an output, by option, would replace an input, another output, or anything but a file.

    The names of tables must end in a known format.

    Examples
    --------
    >>> protect(["data.csv"], {"--out": "./data.csv"})
    Traceback (most recent call last):
    swapcal.tables.sources.InputError: --out: given ./data.csv, which is the input data.csv; expected another file
    """
    taken: dict[str, str | Path] = {}
    read = [place for place in inputs if place is not None and str(place) != "-"]
    for option, place in outputs.items():
        if place is None or place == "-":  # only tables, whose places are text, go to standard output
            continue
        if str(place) == "-":
            raise InputError(f"{option}: given -, expected the name of a file")
        _check_writable(option, Path(place))
        for other in read:
            if _same(place, other):
                raise InputError(f"{option}: given {place}, which is the input {other}; expected another file")
        for earlier, other in taken.items():
            if _same(place, other):
                raise InputError(f"{option}: given {place}, which is that of {earlier} too; expected another file")
        taken[option] = place
    for option in tables:
        if option in taken:
            _check_ending(option, str(taken[option]))


def _check_ending(option: str, place: str) -> None:
    """Raise InputError if a table's name has no known ending: other programs would misread its format."""
    if not place.lower().removesuffix(".gz").endswith(ENDINGS):
        raise InputError(f"{option}: given {place}, expected a name that ends in one of {', '.join(ENDINGS)}, or -")
    if place.lower().endswith(tuple(f"{ending}.gz" for ending in PARQUET)):
        raise InputError(f"{option}: given {place}, though Parquet compresses itself, expected a name without .gz")


def _check_writable(option: str, place: Path) -> None:
    try:
        mode = os.stat(place).st_mode
    except FileNotFoundError:
        folder = Path(os.path.realpath(place)).parent
        if not folder.is_dir():
            raise InputError(f"{option}: given {place}, expected it in a folder that exists, unlike {folder}") from None
        return
    except OSError as error:
        raise InputError(
            f"{option}: given {place}, which cannot be written ({error.strerror}), expected a file that can"
        ) from None
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a device or pipe"
        raise InputError(f"{option}: given {place}, which is {what}; expected a file")


def _same(one: str | Path, other: str | Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


@contextmanager
def table_writer(output: str | None) -> Iterator[Callable[[pa.Table], None]]:
    """Write tables to a file, by its name CSV, TSV, JSONL (also .gz) or Parquet; "-" is CSV to standard output."""
    if output is None:
        yield lambda table: None
    elif output == "-":
        with _sink(sys.stdout.buffer, "") as write:
            yield write
        sys.stdout.buffer.flush()
    else:
        given = output.lower()
        name = given.removesuffix(".gz")
        with replacing(Path(output)) as raw, _packed(raw, given) as file, _sink(file, name) as write:
            yield write


class Appending:
    """A table that grows: rows can be read as soon as they are written, and a resumed run can cut off the last ones.

    Parameters
    ----------
    output : name of a CSV, TSV or JSONL file, - for CSV to standard output, or None for nowhere
    at : size in bytes to which the file is cut before writing continues
    """

    def __init__(self, output: str | None, at: int = 0) -> None:
        name = (output or "").lower()
        if name.endswith((*PARQUET, ".gz")):
            raise InputError(f"--out: given {output} with --follow, expected plain CSV, TSV or JSONL, which can grow")
        self._new = output is not None and not os.path.exists(output)
        self._name, self._raw = name, _growing(output, at)
        self._writer: Any = None

    def write(self, table: pa.Table) -> None:
        """Write rows and flush them, so that readers see them."""
        if self._raw is None:
            return
        if self._name.endswith(LINES):
            self._raw.writelines(_line(row) for row in table.to_pylist())
        else:
            self._writer = self._writer or _writer(self._raw, self._name, table.schema, header=not self.size())
            self._writer.write_table(table)
        self._raw.flush()

    def size(self) -> int:
        """Return the size of the file in bytes; 0 for standard output and None."""
        return self._raw.tell() if self._raw is not None and self._name != "-" else 0

    def sync(self) -> None:
        """Write the rows to the disk, and the name of a new file."""
        if self._raw is not None and self._name != "-":
            os.fsync(self._raw.fileno())
            if self._new:
                sync_folder(Path(self._raw.name).resolve().parent)
                self._new = False

    def close(self) -> None:
        """Write the rows to the disk and close."""
        try:
            self.sync()
        finally:
            if self._raw is not None and self._name != "-":
                self._raw.close()


def _growing(output: str | None, at: int) -> Any:
    if output is None or output == "-":
        return None if output is None else sys.stdout.buffer
    raw = open(output, "ab")  # noqa: SIM115 - closed by `Appending`
    try:
        raw.truncate(min(at, raw.tell()))  # beyond its end it would grow by zeros
        raw.seek(0, os.SEEK_END)
    except BaseException:
        raw.close()
        raise
    return raw


@contextmanager
def _packed(raw: BinaryIO, name: str) -> Iterator[Any]:
    if not name.endswith(".gz"):
        yield raw
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
        yield packed


@contextmanager
def _sink(raw: Any, name: str) -> Iterator[Callable[[pa.Table], None]]:
    if name.endswith(LINES):
        yield lambda table: raw.writelines(_line(row) for row in table.to_pylist())
        return
    writer: Any = None

    def write(table: pa.Table) -> None:
        nonlocal writer
        if writer is None:
            writer = _writer(raw, name, table.schema)
        writer.write_table(table)

    yield write
    if writer is not None:
        writer.close()


def _writer(raw: Any, name: str, schema: Any, *, header: bool = True) -> Any:
    if name.endswith(PARQUET):
        return papq.ParquetWriter(raw, schema)
    delimiter = "\t" if name.endswith((".tsv", ".tab")) else ","
    return pacsv.CSVWriter(raw, schema, write_options=pacsv.WriteOptions(include_header=header, delimiter=delimiter))


def _line(row: dict[str, Any]) -> bytes:
    clean = {name: None if value != value else value for name, value in row.items()}
    return json.dumps(clean, default=str, ensure_ascii=False).encode() + b"\n"
