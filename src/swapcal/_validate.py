"""Validation of arguments; messages read "name: given …, expected …"."""

import hashlib
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array, Keys
from swapcal.kernels.state import ROUNDING, first_bad_context

NO_EVENT = np.zeros(1, np.uint64)
NO_LABEL = np.full(1, np.nan)


def context_rows(X: ArrayLike, dim: int, *, single: bool = False, copy: bool = True) -> Array:
    """Return C-ordered contexts, shape (n, dim). Raises ValueError with the first row that is not in X.

    Contexts have x_1 = ½ and ‖x‖ ≤ 1. With `single`, one context of shape (dim,) becomes one row. With `copy` the
    result is a private copy, so that a ticket keeps its context.
    """
    rows = _floats("context", X, copy=copy)
    if rows.ndim != (1 if single else 2):
        expected = f"({dim},)" if single else f"(rows, {dim})"
        raise ValueError(f"context: given shape {rows.shape}, expected {expected}")
    if rows.shape[-1] != dim:
        hint = "; grow(dim) appends coordinates" if rows.shape[-1] > dim else ""
        raise ValueError(f"context: given {rows.shape[-1]} coordinates, expected {dim}{hint}")
    if single:
        rows = rows.reshape(1, dim)
    row = first_bad_context(_frozen(rows))
    if row >= 0:
        raise ValueError(_complaint(rows[row], "" if single else f" in row {row + 1}"))
    return rows


def _frozen(rows: Array) -> Array:
    """Return a read-only view of the rows: a kernel that only reads is then compiled once."""
    seen = rows.view()
    seen.flags.writeable = False
    return seen


def _floats(name: str, values: ArrayLike, *, copy: bool) -> Array:
    """Return a C-ordered array of floats; text is not read as numbers."""
    refuse_masked(name, values)
    try:
        raw = np.asarray(values)
        if raw.dtype.kind not in "biufO":
            raise TypeError(f"entries of type {raw.dtype}")
        return np.array(raw, dtype=np.float64, order="C", copy=True if copy else None)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name}: given {type(values).__name__} that is not numeric, expected floats ({error})"
        ) from None


def refuse_masked(name: str, values: object) -> None:
    """Raise ValueError for masked entries: numpy would read the values under the mask."""
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):  # others may have an attribute _mask
        raise ValueError(f"{name}: given a masked array with entries missing, expected every entry")


def _complaint(x: Array, where: str) -> str:
    bad = np.flatnonzero(~np.isfinite(x))
    if bad.size:
        return f"context{where}: given {x[bad[0]]} at coordinate {bad[0]}, expected finite numbers"
    if abs(x[0] - 0.5) > ROUNDING:
        return f"context{where}: given first coordinate {x[0]}, expected 0.5 (the constant coordinate)"
    return f"context{where}: given norm {math.hypot(*x):.10g}, expected at most 1"


def weights(theta: ArrayLike, dim: int, radius: float | None = None) -> Array:
    """Return linear weights of shape (dim,), finite, and of norm at most `radius` if one is given."""
    values = _floats("prior", theta, copy=True)
    if values.shape != (dim,) or not np.all(np.isfinite(values)):
        raise ValueError(f"prior: given shape {values.shape}, expected ({dim},) finite numbers")
    if radius is not None and float(np.linalg.norm(values)) > radius:
        raise ValueError(
            f"prior: given norm {np.linalg.norm(values):.6g}, expected at most {radius:g} for this learner"
        )
    return values


def in_row(row: int, error: Exception) -> Exception:
    """Return the same error with the row, which counts from 0 here, in its message."""
    return type(error)(f"row {row + 1}: {error}")


def after_rows(done: int, error: Exception) -> Exception:
    """Return the same error with the number of rows before those that its message counts."""
    return type(error)(f"after {done:,} rows: {error}") if done else error


Numbers = TypeVar("Numbers", float, Array)


class Span(NamedTuple):
    """A range [low, high] of outcomes, and the affine map between it and [0, 1], in which everything computes.

    Squared errors on the scale of the outcomes are those in [0, 1] times width², others times width. Of the range
    [0, 1] the map is the identity, bit for bit; of one whose ends are 0 and a power of two it rounds nothing.

    Examples
    --------
    >>> span = Span(-10.0, 30.0)
    >>> span.share(20.0), span.value(0.75), str(span)
    (0.75, 20.0, '[-10, 30]')
    """

    low: float = 0.0
    high: float = 1.0

    @property
    def width(self) -> float:
        """High - low."""
        return self.high - self.low

    def share(self, value: Numbers) -> Numbers:
        """Return values of the range as shares of it, in [0, 1]."""
        return (value - self.low) / self.width

    def value(self, share: float) -> float:
        """Return the value at a share of the range; rounding does not leave the range."""
        return min(max(self.low + self.width * share, self.low), self.high)

    def values(self, shares: Array) -> Array:
        """Return the values at many shares of the range."""
        return np.clip(self.low + self.width * shares, self.low, self.high)

    def clipped(self, value: Any) -> float:
        """Return a number as a share of the range, clipped to [0, 1]; ½ if it is not a number."""
        return self.share(min(max(float(value), self.low), self.high)) if value == value else 0.5

    def shares(self, name: str, values: Array) -> Array:
        """Return values as shares of the range; NaN stays. Raises ValueError with the first row outside."""
        bad = np.flatnonzero((values < self.low) | (values > self.high))
        if bad.size:
            raise ValueError(
                f"{name}: given {values[bad[0]]:g} in row {bad[0] + 1}, expected a number in {self} or NaN"
            )
        return values if self == UNIT else self.share(values)

    def __str__(self) -> str:
        return f"[{self.low:.10g}, {self.high:.10g}]"


UNIT = Span()


def span(low: Any, high: Any) -> Span:
    """Return a range of outcomes. Raises ValueError if its ends are not finite, in order and apart."""
    try:
        interval = Span(float(low), float(high))
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"low, high: given {low!r} and {high!r}, expected numbers") from None
    if not (math.isfinite(interval.low) and interval.low < interval.high and math.isfinite(interval.width)):
        raise ValueError(
            f"low, high: given {low!r} and {high!r}, expected numbers in increasing order, a finite distance apart"
        )
    return UNIT if interval == UNIT else interval  # labels look for this very object


def label(y: Any, name: str = "label", span: Span = UNIT) -> float:
    """Return one label, or another number called `name`, as a share of its range: a float in [0, 1]."""
    if (type(y) is float or type(y) is int) and span.low <= y <= span.high:  # the fast path of most labels
        return float(y) if span is UNIT else span.share(float(y))
    refuse_masked(name, y)
    try:
        if isinstance(y, (str, bytes)):
            raise TypeError
        value = float(y)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name}: given {y!r}, expected a number in {span}") from None
    if not span.low <= value <= span.high:
        raise ValueError(f"{name}: given {y!r}, expected a number in {span}")
    return span.share(value)


def label_rows(y: ArrayLike, rows: int) -> Array:
    """Return labels of shape (rows,), all in [0, 1]."""
    values = _floats("labels", y, copy=False)
    if values.shape != (rows,):
        raise ValueError(f"labels: given shape {values.shape}, expected ({rows},), one per context")
    return _all_rates("labels", values)


def rates(name: str, values: ArrayLike) -> Array:
    """Return numbers in [0, 1], one per row. Raises ValueError with the first row outside.

    Examples
    --------
    >>> rates("p", [0.25, 1])
    array([0.25, 1.  ])
    """
    numbers = _floats(name, values, copy=False)
    if numbers.ndim != 1:
        raise ValueError(f"{name}: given shape {numbers.shape}, expected one number per row")
    return _all_rates(name, numbers)


def _all_rates(name: str, values: Array) -> Array:
    bad = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
    if bad.size:
        mistake = likely_mistake(values) if name == "p" else ""
        raise ValueError(f"{name}: given {values[bad[0]]} in row {bad[0] + 1}, expected numbers in [0, 1]{mistake}")
    return values


def likely_mistake(scores: Array) -> str:
    """Return a hint for a message on numbers that are not probabilities, such as percentages; "" if it is unclear.

    Examples
    --------
    >>> likely_mistake(np.array([12.0, 0.0, 85.5]))
    '; they look like percentages, divide them by 100'
    >>> likely_mistake(np.array([-2.1, 0.3, 1.7]))
    '; they look like logits (log-odds), use 1 / (1 + exp(−score))'
    >>> likely_mistake(np.array([0.2, 1.2]))
    ''
    """
    low, high = float(np.nanmin(scores, initial=np.inf)), float(np.nanmax(scores, initial=-np.inf))
    if low >= 0.0 and 2.0 <= high <= 100.0:
        return "; they look like percentages, divide them by 100"
    if -100.0 <= low < -0.5 and high <= 100.0:
        return "; they look like logits (log-odds), use 1 / (1 + exp(−score))"
    return ""


def refuse_swapped(p: Array, y: Array, names: tuple[str, str] = ("p", "y"), least: int = 2) -> None:
    """Raise ValueError if predictions are all 0 or 1 while outcomes lie between: the two were swapped.

    Fewer than `least` rows are not checked.

    Examples
    --------
    >>> refuse_swapped(np.array([0.0, 1.0]), np.array([0.3, 0.8]))
    Traceback (most recent call last):
    ValueError: p: given only 0 and 1 where y is 0.3 in row 1, expected predictions as p; p and y seem to be swapped
    """
    if len(p) < least or not np.all((p == 0.0) | (p == 1.0)):
        return
    between = np.flatnonzero((y > 0.0) & (y < 1.0))
    if between.size:
        seen = f"{names[1]} is {y[between[0]]:.6g} in row {between[0] + 1}"
        swapped = f"{names[0]} and {names[1]} seem to be swapped"
        raise ValueError(f"{names[0]}: given only 0 and 1 where {seen}, expected predictions as {names[0]}; {swapped}")


def probability_rows(name: str, values: Any, columns: int, *, copy: bool = True, gaps: bool = False) -> Array:
    """Return numbers in [0, 1] of shape (n, columns); with `gaps` NaN is one too, and one column may be (n,)."""
    numbers = _floats(name, values, copy=copy)
    if gaps and columns == 1 and numbers.ndim == 1:
        numbers = numbers[:, None]
    if numbers.ndim != 2 or numbers.shape[1] != columns:
        raise ValueError(f"{name}: given shape {numbers.shape}, expected (rows, {columns})")
    bad = ~((numbers >= 0.0) & (numbers <= 1.0)) & ~(np.isnan(numbers) & gaps)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        expected = "numbers in [0, 1] or NaN" if gaps else "numbers in [0, 1]"
        raise ValueError(f"{name}: given {numbers[row, column]} in row {row + 1}, expected {expected}")
    return numbers


def weight_rows(weights: "ArrayLike | None", rows: int) -> "Array | None":
    """Return positive weights of shape (rows,), or None for once each."""
    if weights is None:
        return None
    numbers = _floats("weights", weights, copy=True)
    if numbers.shape != (rows,):
        raise ValueError(f"weights: given shape {numbers.shape}, expected ({rows},), one per row")
    bad = np.flatnonzero(~((numbers > 0.0) & np.isfinite(numbers)))
    if bad.size:
        raise ValueError(f"weights: given {numbers[bad[0]]} in row {bad[0] + 1}, expected positive finite numbers")
    return numbers


EMPTY_KEY = hashlib.blake2b(digest_size=8)


def digest_of(content: bytes, start: "hashlib.blake2b") -> int:
    """Return the digest of a content behind what was hashed at the start; a copy takes half as long as a new hash."""
    digest = start.copy()
    digest.update(content)
    return int.from_bytes(digest.digest(), "little")


def event_key(event: object) -> int:
    """Return the 64-bit key of an event id (any int, str or bytes); never 0, which means "not named"."""
    if type(event) is not str and (isinstance(event, bool) or not isinstance(event, (int, np.integer, str, bytes))):
        raise TypeError(f"event: given {type(event).__name__}, expected an int, str or bytes id")
    digest = EMPTY_KEY.copy()
    digest.update(event if isinstance(event, bytes) else _letters(event).encode())
    return int.from_bytes(digest.digest(), "little") or 1


def _letters(event: Any) -> str:
    """Return an id as text; for an Enum its value, not its name."""
    return str.__str__(event) if isinstance(event, str) else str(int(event))


@dataclass(frozen=True)
class EventKeys:
    """Precomputed keys of events: one per row, all nonzero."""

    values: Keys

    def __len__(self) -> int:
        return len(self.values)


def event_keys(events: "list[object] | EventKeys | None", rows: int) -> Keys:
    """Return the keys of one id per row, or `NO_EVENT` for all of them."""
    if events is None:
        return NO_EVENT
    if len(events) != rows:
        raise ValueError(f"events: given {len(events)}, expected {rows}, one per context")
    if isinstance(events, EventKeys):
        return events.values
    return np.array([*map(event_key, events)], np.uint64)


def positive(name: str, value: float) -> float:
    """Return a finite positive float."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name}: given {value!r}, expected a positive finite number")
    return number


LEAST_RIDGE, MOST_RIDGE = 1e-12, 1e8
"""A level's sums are P⁻¹ - λI, rounded to λ·2e-16: at 1e8 some eight digits of an error are left, at 1e16 none."""


def ridge(value: float) -> float:
    """Return a λ that leaves certificates enough digits."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not LEAST_RIDGE <= number <= MOST_RIDGE:
        raise ValueError(f"ridge: given {value!r}, expected a number from {LEAST_RIDGE:g} to {MOST_RIDGE:g}")
    return number


def window(value: float) -> float:
    """Return a number of labels to remember, at least 1."""
    labels = positive("window", value)
    if labels < 1.0:
        raise ValueError(f"window: given {value!r}, expected at least 1 label")
    return labels


def count(name: str, value: Any, least: int = 1) -> int:
    """Return an integer of at least `least` that fits 64 bits."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value < 2**63:
        raise ValueError(f"{name}: given {value!r}, expected an integer of at least {least}")
    return int(value)


def dimension(dim: Any) -> int:
    """Return a dimension of at least 1."""
    return count("dim", dim)


def seed(value: Any) -> int:
    """Return a seed that fits 64 bits."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < 2**64:
        raise ValueError(f"seed: given {value!r}, expected an integer in [0, 2^64)")
    return int(value)
