"""Losses written as text: on a command line, or as tables of a TOML file."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

# `LossError`: an invalid decision problem.


class LossError(ValueError):
    """An invalid loss, action or probability; the message names the point."""

    row: int | None = None
    """The invalid row, counted from 1, or None."""
    _parts: tuple[str, object, str]

    @classmethod
    def of(cls, name: str, given: object, expected: str, row: int | None = None) -> LossError:
        """Return the error "name: given …, expected …", with the row if there is one.

        >>> str(LossError.of("weight", -1.0, "a number at least 0", row=3))
        'weight: given -1.0 in row 3, expected a number at least 0'
        """
        error = cls(f"{name}: given {given}{'' if row is None else f' in row {row}'}, expected {expected}")
        error.row, error._parts = row, (name, given, expected)
        return error

    def after(self, rows: int) -> LossError:
        """Return the same error with `rows` added to its row number."""
        return self if self.row is None else LossError.of(*self._parts, row=self.row + rows)


Builder = TypeVar("Builder", bound=Callable[..., Any])

BUILDERS: dict[str, Callable[..., Any]] = {}
"""Constructor of each kind of loss; the catalogue registers itself here."""


def kind(name: str) -> Callable[[Builder], Builder]:
    """Register a function as the constructor of a kind of loss."""

    def entered(builder: Builder) -> Builder:
        BUILDERS[name] = builder
        return builder

    return entered


@dataclass(frozen=True)
class Specification:
    """A loss by name and arguments; an argument ``"@column"`` is filled in from a table's column."""

    name: str
    kind: str
    arguments: Mapping[str, Any]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that `build` needs."""
        return tuple(value[1:] for value in self.arguments.values() if _is_column(value))

    def build(self, columns: Mapping[str, ArrayLike] | None = None) -> Any:
        """Make the `Loss`, taking the columns' values as per-row parameters."""
        filled = {key: self._fill(key, value, columns or {}) for key, value in self.arguments.items()}
        return replace(BUILDERS[self.kind](**filled), name=self.name)

    def _fill(self, key: str, value: Any, columns: Mapping[str, ArrayLike]) -> Any:
        if not _is_column(value):
            return value
        if value[1:] not in columns:
            known = f"one of {', '.join(columns)}" if columns else "a number, as there are no columns"
            raise LossError.of(f"{key} of {self.name}", f"column {value[1:]!r}", known)
        return np.asarray(columns[value[1:]], dtype=float)


def specify(text: str) -> Specification:
    """Split ``kind:value,key=value,key=@column`` into its parts.

    Examples
    --------
    >>> specify("newsvendor:3,over=@cost").arguments
    {'under': 3.0, 'over': '@cost'}
    """
    kind, _, arguments = text.strip().partition(":")
    names = _arguments_of(kind, text)
    given: dict[str, Any] = {}
    for position, part in enumerate(filter(None, arguments.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            key, value = (names[position] if position < len(names) else "", part)
        _store(given, key.strip(), _number(value.strip(), text), names, text)
    return _complete(Specification(text.strip(), kind, given))


def read_toml(path: str | Path) -> list[Specification]:
    """Losses of a TOML file.

    Each table ``[[loss]]`` has a `kind` of the catalogue, an optional `name`, and that kind's arguments:

        [[loss]]
        kind = "newsvendor"
        under = 3.0
        over = "@storage_cost"      # one value per row, from that column

        [[loss]]
        name = "triage"
        kind = "matrix"
        actions = ["send home", "observe", "admit"]
        costs = [[0, 10], [1, 4], [3, 0]]      # at outcome 0, at outcome 1
    """
    with open(path, "rb") as file:
        try:
            content = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise LossError.of(str(path), error, "TOML") from None
    tables = content.get("loss")
    if not isinstance(tables, list) or not tables:
        raise LossError.of(str(path), ", ".join(content) or "nothing", "[[loss]] tables")
    return [_from_table(table, f"{path}, loss {number}") for number, table in enumerate(tables, start=1)]


def _from_table(table: Any, where: str) -> Specification:
    if not isinstance(table, dict) or not isinstance(table.get("kind"), str):
        raise LossError.of(where, repr(table), f'a table with kind = "…", one of {", ".join(BUILDERS)}')
    kind, name = table["kind"], str(table.get("name", table["kind"]))
    names = _arguments_of(kind, where)
    given: dict[str, Any] = {}
    for key in table.keys() - {"kind", "name"}:
        _store(given, key, table[key], names, where)
    return _complete(Specification(name, kind, given))


def _arguments_of(kind: str, where: str) -> list[str]:
    if kind not in BUILDERS:
        raise LossError.of(where, f"loss {kind!r}", f"one of {', '.join(BUILDERS)}")
    return [name for name in inspect.signature(BUILDERS[kind]).parameters if name != "name"]


def _store(given: dict[str, Any], key: str, value: Any, names: list[str], where: str) -> None:
    if key not in names or key in given:
        again = " again" if key in given else ""
        raise LossError.of(where, f"argument {key!r}{again}", f"{', '.join(names) or 'none'}, each once")
    given[key] = value


def _complete(specification: Specification) -> Specification:
    parameters = inspect.signature(BUILDERS[specification.kind]).parameters
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in specification.arguments:
            raise LossError.of(specification.name, f"{specification.kind} without {name}", f"{name}=…")
    return specification


def _number(text: str, where: str) -> float | str:
    if _is_column(text):
        return text
    try:
        return float(text)
    except ValueError:
        raise LossError.of(where, repr(text), "a number or @column") from None


def _is_column(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("@")
