"""Validation: findings are checked against their schema once, before anything is drawn."""

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from swapcal.report.schema import SCHEMA_VERSION, Findings


def validate(findings: object) -> None:
    """Check findings against `swapcal.report.schema.Findings`.

    Raises
    ------
    ValueError
        Naming the path, what was found there and what is expected. Keys the schema does not know are let
        through, so that findings written by a later swapcal of the same schema version still render.

    Examples
    --------
    >>> validate({"headline": {}})
    Traceback (most recent call last):
    ...
    ValueError: findings.identity: given nothing, expected Identity
    """
    _check(findings, Findings, "findings")
    version = findings["identity"]["schema_version"]  # type: ignore[index]
    if version > SCHEMA_VERSION:
        raise ValueError(f"findings.identity.schema_version: given {version}, expected at most {SCHEMA_VERSION}")


def _check(value: object, expected: Any, path: str) -> None:
    origin = get_origin(expected)
    if is_typeddict(expected):
        _check_fields(value, expected, path)
    elif origin is list:
        _check_items(value, get_args(expected)[0], path)
    elif origin is dict:
        _check_entries(value, get_args(expected)[1], path)
    elif origin in (Union, UnionType):
        _check_union(value, get_args(expected), path)
    elif origin is Literal:
        _require(value in get_args(expected), value, " or ".join(map(repr, get_args(expected))), path)
    else:
        _check_plain(value, expected, path)


def _require(holds: bool, value: object, expected: str, path: str) -> None:
    if not holds:
        raise ValueError(f"{path}: given {value!r:.60} ({type(value).__name__}), expected {expected}")


@cache
def _fields(schema: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(schema, include_extras=True)
    return tuple(
        (key, get_args(hint)[0] if get_origin(hint) is NotRequired else hint, key in schema.__required_keys__)
        for key, hint in hints.items()
    )


def _check_fields(value: object, schema: Any, path: str) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{path}: given a {type(value).__name__}, expected a mapping as in {schema.__name__}")
    for key, hint, required in _fields(schema):
        if key in value:
            _check(value[key], hint, f"{path}.{key}")
        elif required:
            raise ValueError(f"{path}.{key}: given nothing, expected {_name(hint)}")


def _check_items(value: object, item: Any, path: str) -> None:
    if not isinstance(value, list):
        raise ValueError(f"{path}: given a {type(value).__name__}, expected a list of {_name(item)}")
    for i, entry in enumerate(value):
        _check(entry, item, f"{path}[{i}]")


def _check_entries(value: object, item: Any, path: str) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{path}: given a {type(value).__name__}, expected a mapping to {_name(item)}")
    for key, entry in value.items():
        _check(entry, item, f"{path}[{key!r}]")


def _check_union(value: object, options: tuple[Any, ...], path: str) -> None:
    if value is None and NoneType in options:
        return
    _check(value, next(option for option in options if option is not NoneType), path)


def _check_plain(value: object, expected: Any, path: str) -> None:
    allowed = (int, float) if expected is float else expected
    is_bool_as_number = isinstance(value, bool) and expected is not bool
    _require(isinstance(value, allowed) and not is_bool_as_number, value, _name(expected), path)


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)
