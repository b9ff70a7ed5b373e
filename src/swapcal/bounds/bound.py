"""What a theorem promises: a number, the rate behind it, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

__all__ = ["Bound"]


@dataclass(frozen=True, slots=True)
class Bound:
    """One inequality, evaluated.

    Parameters
    ----------
    value
        The right-hand side. It is never capped at the trivial bound, so that rates stay visible.
    exponent
        The power of the horizon T (of ε for a sample complexity) once logarithms are ignored; ``None`` when
        the statement has no horizon, or when its free parameter N was fixed by the caller.
    citation
        The statement in words: number and name for the paper's, ``ours: …`` for our own.
    explicit
        ``False`` when only the order is known and the constant was set to 1.
    levels
        The number of grid intervals N the value was computed with, if any.
    dim_exponent
        The power of the dimension d once logarithms are ignored; ``None`` where none is stated.

    Examples
    --------
    >>> from swapcal.bounds import rounding_error
    >>> bound = rounding_error(10)
    >>> float(bound), bound.explicit
    (0.01, True)
    """

    value: float
    exponent: float | None
    citation: str
    explicit: bool = True
    levels: int | None = None
    dim_exponent: float | None = None

    def __post_init__(self) -> None:
        # NumPy scalars would make float(bound) warn: __float__ must return an exact float.
        object.__setattr__(self, "value", float(self.value))

    def __float__(self) -> float:
        return self.value


def require_horizon(horizon: float) -> None:
    """Reject a number of rounds below one."""
    require_range("horizon", horizon, low=1.0)


def require_dim(dim: int) -> None:
    """Reject a dimension below one."""
    require_range("dim", dim, low=1)


def require_levels(levels: int) -> None:
    """Reject a grid without an interval."""
    require_range("levels", levels, low=1)


def require_positive(name: str, value: float) -> None:
    """Reject zero, negative, infinite and undefined numbers."""
    if not (isfinite(value) and value > 0):
        raise ValueError(f"{name}: given {value!r}, expected a positive finite number")


def require_nonnegative(name: str, value: float) -> None:
    """Reject negative, infinite and undefined numbers."""
    require_range(name, value, low=0)


def require_range(name: str, value: float, low: float) -> None:
    """Reject a number below `low`, infinite or undefined."""
    if not (isfinite(value) and value >= low):
        raise ValueError(f"{name}: given {value!r}, expected a finite number, at least {low:g}")


def require_probability(name: str, value: float) -> None:
    """Reject a failure probability outside the open unit interval."""
    if not 0 < value < 1:
        raise ValueError(f"{name}: given {value!r}, expected a number strictly between 0 and 1")


def require_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Reject a name that is not among the choices."""
    known = tuple(choices)
    if value not in known:
        raise ValueError(f"{name}: given {value!r}, expected {', '.join(known[:-1])} or {known[-1]}")
