"""Source: a file of any format, opened, its columns known, its rows waiting."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from swapcal.arrays import Integers
from swapcal.tables.delimited import Delimited
from swapcal.tables.dialect import Dialect, InputError
from swapcal.tables.folder import Folder
from swapcal.tables.jsonl import JsonLines
from swapcal.tables.kinds import COMMAS, ReadAs, is_text, settled
from swapcal.tables.opened import Opened
from swapcal.tables.parquet import Parquet
from swapcal.tables.table import UnknownColumnError

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
