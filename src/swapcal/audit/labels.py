"""Labels: what columns and their values are called in words, given by the user."""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

from swapcal.audit.crossing import crossings, halves
from swapcal.audit.sums import Sums
from swapcal.audit.verdict import Finding
from swapcal.audit.witness import Term

MOST_NAMED = 20
"""Names listed in a message."""


@dataclass(frozen=True)
class Labels:
    """Titles of columns, and of the values of each column.

    Examples
    --------
    >>> labels = Labels.of({"columns": {"sex": "Sex"}, "values": {"sex": {"1": "men", "2": "women"}}})
    >>> labels.group("sex", "2")
    'Sex = women'
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    source: str = "labels"

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """Return the labels of a TOML file with the tables `columns` and `values.COLUMN`."""
        name = Path(path).name
        try:
            return cls.of(tomllib.loads(Path(path).read_text(encoding="utf-8")), name)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{name}: given no TOML ({error}), expected tables columns and values.COLUMN") from None

    @classmethod
    def of(cls, given: Any, source: str = "labels") -> Self:
        """Return labels given as `Labels`, as a path, as the mapping that a file holds, or not at all.

        Examples
        --------
        >>> Labels.of({"titles": {"sex": "Sex"}})
        Traceback (most recent call last):
        ValueError: labels: given 'titles', expected columns and values
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, str | PathLike):
            return cls.read(given)
        given = {} if given is None else given
        for name in given:
            if name not in ("columns", "values"):
                raise ValueError(f"{source}: given {name!r}, expected columns and values")
        values = _table(f"{source}: values", given.get("values", {}))
        return cls(
            _titles(f"{source}: columns", given.get("columns", {})),
            {name: _titles(f"{source}: values.{name}", titles) for name, titles in values.items()},
            source,
        )

    def check(self, columns: Collection[str], categories: Mapping[str, Collection[str]]) -> None:
        """Refuse labels of columns, or of values of the given columns, that do not occur."""
        _known(f"{self.source}: columns", self.columns, columns)
        _known(f"{self.source}: values", self.values, columns)
        for column, titles in self.values.items():
            if column in categories:
                _known(f"{self.source}: values.{column}", titles, categories[column])

    def among(self, columns: Collection[str]) -> Self:
        """Return the labels of some columns only."""
        titles = {name: title for name, title in self.columns.items() if name in columns}
        return replace(self, columns=titles, values={name: v for name, v in self.values.items() if name in columns})

    def column(self, name: str) -> str:
        """Return what a column is called."""
        return self.columns.get(name, name)

    def group(self, column: str, category: str) -> str:
        """Return what a category is called, with its column."""
        return f"{self.column(column)} = {self.values.get(column, {}).get(category, category)}"


def _table(name: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{name}: given {given!r:.60}, expected a table")
    return {str(key): value for key, value in given.items()}


def _titles(name: str, given: Any) -> dict[str, str]:
    found = _table(name, given)
    for key, title in found.items():
        if not isinstance(title, str) or not title.strip() or " = " in title or title.endswith(" missing"):
            raise ValueError(
                f"{name}.{key}: given {title!r:.60}, expected a title: text without ' = ', not ending in ' missing'"
            )
    return found


def _known(name: str, given: Collection[str], known: Collection[str]) -> None:
    unknown = [one for one in given if one not in known]
    if unknown:
        named = sorted(known)
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        raise ValueError(f"{name}: given {unknown[0]!r}, expected one of {', '.join(named[:MOST_NAMED])}{more}")


class Titles:
    """What every name that an audit's words can hold is called: groups, their intersections, features, columns."""

    def __init__(self, sums: Sums, labels: Labels, others: Sequence[str] = ()) -> None:
        columns = {name: categories for name, categories, _ in sums.tally.columns()}
        read = sums.reader.columns if sums.reader else []
        coordinates = [c.name for c in sums.coordinates]
        labels.check({*columns, *read, *coordinates, *others}, columns)
        self.columns = {name: labels.column(name) for name in {*columns, *read} if labels.column(name) != name}
        known = {name: labels.column(name) for name in [*coordinates, *columns, *read]}
        known |= {f"{name} missing": f"{labels.column(name)} missing" for name in coordinates}
        for name in [*columns, *read]:
            known |= {f"{name} = {k}": labels.group(name, k) for k in _categories(name, columns, coordinates)}
        for pair in crossings(columns):
            cells = {category: halves(category, *(columns[name] for name in pair)) for category in columns[pair.name]}
            known |= {
                f"{pair.name} = {category}": " and ".join(map(labels.group, pair, found))
                for category, found in cells.items()
                if found is not None
            }
            known[pair.name] = " and ".join(map(labels.column, pair))
        self._known = {name: title for name, title in known.items() if title != name}

    def __call__(self, name: str) -> str:
        """Return what a name is called."""
        return self._known.get(name, name)

    def finding(self, found: Finding) -> Finding:
        """Return a finding called by its title."""
        return found._replace(name=self(found.name))

    def term(self, found: Term) -> Term:
        """Return a term called by its title."""
        unit = None if found.unit is None else found.unit.replace(found.name, self(found.name))
        return found._replace(name=self(found.name), unit=unit)


def _categories(name: str, columns: Mapping[str, Sequence[str]], coordinates: Sequence[str]) -> list[str]:
    start = f"{name} = "
    return [*columns.get(name, ()), *(one.removeprefix(start) for one in coordinates if one.startswith(start))]
