"""JSON lines: one object per line, in batches or whole."""

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from swapcal.tables.blocks import Cutter
from swapcal.tables.delimited import Piece, widened
from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import ReadAs
from swapcal.tables.opened import Opened

ROWS = 1 << 16
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
        self.columns = _keys(self._first.rows)

    def parts(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[tuple[pa.Table, float | None]]:
        """Yield tables of the named columns; a key that is absent is a missing value."""
        for chunk in chain([self._first], self._chunks):
            if chunk.rows:
                yield self._table(chunk.rows, list(kinds)), chunk.share

    def pieces(self, kinds: Mapping[str, ReadAs], jobs: int = 1) -> Iterator[Piece]:
        """Yield tables over all keys seen so far."""
        names: list[str] = []
        for chunk in chain([self._first], self._chunks):
            names = list(dict.fromkeys([*names, *_keys(chunk.rows)]))
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
                if len(held) == ROWS:
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


def _keys(rows: Rows) -> list[str]:
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
