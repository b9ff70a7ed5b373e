"""Folder: the files of one table, in order of their names; folders called key=value are a column."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from swapcal.tables.delimited import Piece, widened
from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import ReadAs

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
        self._keys = _keys(Path(path), self._files)
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


def _keys(path: Path, files: list[Path]) -> dict[str, list[Any]]:
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
