"""JSON lines: one object per line, in batches or whole."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import ReadAs
from swapcal.tables.opened import Opened

ROWS = 1 << 16


class JsonLines:
    """A file of JSON objects: the keys of its first rows, and its rows as Arrow tables."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._lines = enumerate(opened.stream(), 1)
        self._first = self._some()
        self.columns = _keys(self._first)

    def parts(self, kinds: Mapping[str, ReadAs]) -> Iterator[tuple[pa.Table, float | None]]:
        """Yield tables of the named columns; a key that is absent is a missing value."""
        rows = self._first
        while rows:
            yield self._table(rows, list(kinds)), self._opened.share()
            rows = self._some()

    def whole(self, kinds: Mapping[str, ReadAs], ragged: list[Any]) -> pa.Table:
        """Return all rows, over all keys."""
        rows = self._first
        while more := self._some():
            rows += more
        return self._table(rows, _keys(rows))

    def _some(self) -> list[tuple[int, dict[str, Any]]]:
        return list(islice(self._objects(), ROWS))

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in self._lines:
            if line.strip():
                yield number, self._object(number, line)

    def _object(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line.strip(), object_pairs_hook=_distinct)
        except InputError as error:
            raise InputError(f"{self._opened.name}: line {number}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self._opened.name}: line {number}: given no JSON object ({error})") from None
        if not isinstance(found, dict):
            raise InputError(
                f"{self._opened.name}: line {number}: given a JSON {type(found).__name__}, expected one object per line"
            )
        return found

    def _table(self, rows: list[tuple[int, dict[str, Any]]], names: list[str]) -> pa.Table:
        return pa.table({name: self._column(name, rows) for name in names})

    def _column(self, name: str, rows: list[tuple[int, dict[str, Any]]]) -> Any:
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


def _keys(rows: Iterable[tuple[int, dict[str, Any]]]) -> list[str]:
    return list(dict.fromkeys(name for _, row in rows for name in row))


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two values are called {twice!r}, expected different names")
    return found


def _floats(values: list[Any]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]


def _texts(values: list[Any]) -> list[str | None]:
    """Return a mixture of types as text, which is what the same column of a CSV file would be."""
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
