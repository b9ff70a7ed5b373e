"""What a kind of state file holds: its settings, its arrays, and what makes them consistent."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import AnyArray

Arrays = Mapping[str, AnyArray]
Settings = Mapping[str, Any]
Shape = tuple[int, ...]

MOST_INTEGER = 2**63 - 1


class ArchiveError(ValueError):
    """A state file that is missing a part, damaged, inconsistent, or of another kind or version."""


class Field(NamedTuple):
    """An array: its type as numpy writes it, and its shape in numbers and in names of sizes that must agree."""

    dtype: str
    shape: tuple[int | str, ...]
    finite: bool = True


class Rule(NamedTuple):
    """What a setting must be."""

    expected: str
    holds: Callable[[Any], bool]
    required: bool = True
    """False for a setting that came later: files without it stay readable"""


Fields = Mapping[str, Field]


def floats(*shape: int | str, finite: bool = True) -> Field:
    """Declare an array of float64; `finite` false admits NaN and infinity."""
    return Field("<f8", shape, finite)


def singles(*shape: int | str) -> Field:
    """Declare an array of float32."""
    return Field("<f4", shape)


def integers(*shape: int | str) -> Field:
    """Declare an array of int64."""
    return Field("<i8", shape)


def keys(*shape: int | str) -> Field:
    """Declare an array of uint64."""
    return Field("<u8", shape)


def octets(*shape: int | str) -> Field:
    """Declare an array of bytes."""
    return Field("|u1", shape)


def whole(least: int = 0, most: int = MOST_INTEGER) -> Rule:
    """Declare a setting that is an integer in a range."""
    words = f"an integer of at least {least}" if most == MOST_INTEGER else f"an integer from {least} to {most}"
    return Rule(words, lambda v: isinstance(v, int) and not isinstance(v, bool) and least <= v <= most)


def real(least: float = -math.inf, *, above: bool = False) -> Rule:
    """Declare a setting that is a finite number of at least (or above) a bound."""
    words = "a finite number" + ("" if least == -math.inf else f" {'above' if above else 'of at least'} {least:g}")
    return Rule(words, lambda v: is_number(v) and (v > least if above else v >= least))


def one_of(*values: str) -> Rule:
    """Declare a setting that is one of some words."""
    return Rule(f"one of {', '.join(values)}", lambda v: isinstance(v, str) and v in values)


def is_number(value: Any) -> bool:
    """Tell whether a value is a finite number and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_text(value: Any) -> bool:
    """Tell whether a value is text without lone surrogates."""
    return isinstance(value, str) and value.encode("utf-8", "replace").decode() == value


def optional(rule: Rule) -> Rule:
    """Declare a setting that may be absent, as null."""
    return Rule(f"{rule.expected}, or nothing", lambda v: v is None or rule.holds(v))


def addition(rule: Rule) -> Rule:
    """Declare a setting that files may lack."""
    return rule._replace(required=False)


TRUTH = Rule("true or false", lambda v: isinstance(v, bool))
TEXT = Rule("text that is not empty", lambda v: is_text(v) and v != "")
TEXTS = Rule("a list of texts", lambda v: isinstance(v, list) and all(map(is_text, v)))
OBJECT = Rule("an object", lambda v: isinstance(v, dict))
LIST = Rule("a list", lambda v: isinstance(v, list))


def no_faults(arrays: Arrays, settings: Settings) -> Iterable[str]:
    """Find nothing wrong."""
    return ()


@dataclass(frozen=True)
class Kind:
    """One kind of state file: checked the same way before it replaces another and after it is read.

    Parameters
    ----------
    name, version : what the manifest must say.
    rules : each setting's rule; settings beyond these are refused.
    fields : settings to the arrays that must be there, no more and no fewer. Sizes are compared with the headers,
        before any data is read.
    faults : (arrays, settings) to complaints, "name: given …, expected …", about how they fit together.
    """

    name: str
    version: int
    rules: Mapping[str, Rule]
    fields: Callable[[Settings], Fields]
    faults: Callable[[Arrays, Settings], Iterable[str]] = no_faults

    def check_settings(self, settings: Any) -> None:
        """Refuse settings with a part missing, unknown, or out of range."""
        for fault in rule_faults(self.rules, settings):
            raise ArchiveError(fault)

    def check_shapes(self, found: Mapping[str, tuple[str, Shape]], settings: Settings) -> None:
        """Refuse arrays with one missing or unknown, of another type, or whose sizes disagree."""
        fields = self.fields(settings)
        for fault in _name_faults("array", found, fields):
            raise ArchiveError(fault)
        sizes: dict[str, int] = {}
        for name, field in fields.items():
            dtype, shape = found[name]
            if dtype != field.dtype or len(shape) != len(field.shape):
                raise ArchiveError(f"{name}: given {dtype} of shape {shape}, expected {field.dtype} of {field.shape}")
            for size, wanted in zip(shape, field.shape, strict=True):
                expected = wanted if isinstance(wanted, int) else sizes.setdefault(wanted, size)
                if size != expected:
                    raise ArchiveError(f"{name}: given shape {shape}, expected {field.shape} with {expected} {wanted}")

    def check_contents(self, arrays: Arrays, settings: Settings) -> None:
        """Refuse numbers that are not finite where they must be, and parts that contradict each other."""
        for name, field in self.fields(settings).items():
            if field.finite and arrays[name].dtype.kind == "f" and not np.isfinite(arrays[name]).all():
                raise ArchiveError(f"{name}: given a number that is not finite, expected finite numbers")
        for fault in self.faults(arrays, settings):
            raise ArchiveError(fault)


def below(prefix: str, fields: Fields) -> dict[str, Field]:
    """Return the arrays of a part under its name; its sizes are its own."""

    def own(size: int | str) -> int | str:
        return f"{prefix}.{size}" if isinstance(size, str) else size

    return {f"{prefix}.{name}": f._replace(shape=tuple(map(own, f.shape))) for name, f in fields.items()}


def rule_faults(rules: Mapping[str, Rule], settings: Any) -> Iterator[str]:
    """Yield which settings are missing, unknown, or not what their rule says."""
    if not isinstance(settings, dict):
        yield f"settings: given {type(settings).__name__}, expected an object"
    expected = {name: rule for name, rule in rules.items() if rule.required or name in settings}
    yield from _name_faults("setting", settings, expected)
    for name, rule in expected.items():
        if not rule.holds(settings[name]):
            yield f"{name}: given {_short(settings[name])}, expected {rule.expected}"


def _name_faults(noun: str, given: Iterable[str], expected: Iterable[str]) -> Iterator[str]:
    given, expected = set(given), set(expected)
    if expected - given:
        yield f"{noun}s: missing {', '.join(sorted(expected - given))}, expected all"
    if given - expected:
        yield f"{noun}s: given {', '.join(sorted(given - expected))}, expected none but the known ones"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
