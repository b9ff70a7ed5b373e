"""Source: a file of any format, opened, its columns known, its rows waiting."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from swapcal.tables.delimited import Delimited, Ragged
from swapcal.tables.dialect import Dialect, InputError
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


class Whole(NamedTuple):
    """All rows of a file, the number of each (from 1), and what is wrong with rows of another width, left out."""

    table: pa.Table
    rows: NDArray[np.int64]
    ragged: int
    complaint: str


@dataclass(frozen=True)
class Source:
    """The columns of an open file; its rows can be read once, in parts or whole."""

    name: str
    columns: list[str]
    dialect: Dialect
    _format: Any

    def require(self, names: Sequence[str]) -> None:
        """Refuse names that are no column, or more than one."""
        for name in names:
            if name not in self.columns:
                raise UnknownColumnError(name, self.columns)
            if self.columns.count(name) > 1:
                raise InputError(f"{self.name}: two columns are called {name!r}, expected different names")

    def parts(self, kinds: Mapping[str, ReadAs]) -> Iterator[FilePart]:
        """Yield the named columns, each as its kind, some rows at a time: the file may be larger than memory."""
        self.require(list(kinds))
        first = 1
        for table, share in self._format.parts(kinds):
            if not len(table):
                continue
            columns = {name: settled(table[name], name, kind, first) for name, kind in kinds.items()}
            part = FilePart(pa.table(columns), first, share)
            self._refuse_commas(part.table, [name for name, kind in kinds.items() if kind is ReadAs.any])
            yield part
            first += len(table)
        if first == 1:
            raise InputError(f"{self.name} has no rows")

    def whole(self, kinds: Mapping[str, ReadAs]) -> Whole:
        """Return all columns; those named as their kind, the others as what their values are."""
        self.require([*kinds, *self.columns])
        ragged: list[Ragged] = []
        table = self._format.whole(kinds, ragged)
        if not len(table) and not ragged:
            raise InputError(f"{self.name} has no rows")
        left_out = np.array([misfit.row for misfit in ragged], np.int64)
        rows = np.delete(np.arange(1, 1 + len(table) + len(left_out)), left_out - 1)
        self._refuse_commas(table, [name for name in table.column_names if kinds.get(name, ReadAs.any) is ReadAs.any])
        return Whole(table, rows, len(ragged), self._format.complaint(ragged[0]) if ragged else "")

    def _refuse_commas(self, table: pa.Table, names: Sequence[str]) -> None:
        """Refuse text that is mostly numbers with commas: as categories they would mean nothing."""
        for name in names:
            if is_text(table[name].type):
                seen = [text for text in table[name].slice(0, LOOKED_AT).to_pylist() if text is not None]
                like = [text for text in seen if COMMAS.fullmatch(text)]
                if 2 * len(like) > len(seen):
                    raise InputError(
                        f"{self.name}: column {name!r}: given numbers with commas such as {like[0]!r}, expected a "
                        f"point; --decimal , reads decimal commas, --categorical {name} takes them as text"
                    )


@contextmanager
def open_source(file: str, dialect: Dialect | None = None) -> Iterator[Source]:
    """Open a CSV, TSV, JSONL or Parquet file, text also gzipped; "-" is standard input. The format is seen inside."""
    dialect = dialect or Dialect()
    with Opened(file, dialect.encoding) as opened:
        again = (lambda: Opened(file, dialect.encoding)) if file != "-" and os.path.isfile(file) else None
        found = _format(opened, dialect, again)
        yield Source(opened.name, found.columns, dialect, found)


def _format(opened: Opened, dialect: Dialect, again: Callable[[], Opened] | None) -> Any:
    if opened.is_parquet:
        return Parquet(opened)
    start = opened.head.lstrip()[:2]
    if start.startswith(b"{"):
        return JsonLines(opened)
    if start in (b"[{", b"[\n", b"[\r", b"[ "):
        raise InputError(f"{opened.name}: cannot be read, given a JSON list, expected one object per line")
    return Delimited(opened, dialect, again)
