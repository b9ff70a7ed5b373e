"""Validation of arguments: ids, limits, records, outcomes and times, one or one per row."""

import hashlib
import json
import marshal
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate
from swapcal._validate import UNIT, Span
from swapcal.arrays import AnyArray, Array, Bytes
from swapcal.tables.frame import columns_of
from swapcal.tables.values import NUMBERS, duration, has_bytes, letters, unmasked

# The engine: ridge regressions on coordinates, or learners for very many groups.

LEARNERS = ("ridge", "sparse")
SIZES = ("full", "small")


def is_sparse(learner: Any, unused: Mapping[str, Any]) -> bool:
    """Return whether the engine is for very many groups; `unused` are the settings that it does not have.

    Raises ValueError for an unknown learner, and for a setting that it does not have.
    """
    if learner not in LEARNERS:
        raise ValueError(f"learner: given {learner!r}, expected one of {', '.join(LEARNERS)}")
    given = [name for name, value in unused.items() if value is not None] if learner == "sparse" else []
    if given:
        raise ValueError(
            f'{given[0]}: given {unused[given[0]]!r} with learner "sparse", expected none: its outcomes are in [0, 1], '
            "its levels are fixed, its weights have no penalty and weight all labels alike"
        )
    return bool(learner == "sparse")


def check_size(size: Any, unused: Mapping[str, Iterable[str]]) -> None:
    """Raise ValueError for an unknown size of a `Live`, and for settings that a small one does not have."""
    if size not in SIZES:
        raise ValueError(f"size: given {size!r}, expected one of {', '.join(SIZES)}")
    for name, given in unused.items() if size == "small" else ():
        if given:
            other = ', or learner "sparse"' if name == "groups" else ""
            raise ValueError(f'{name}: given {[*given]} with size "small", expected none{other}')


def hashed_groups(settings: Mapping[str, Any], products: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the columns and pairs of columns whose values are groups; `settings` are those of the contexts."""
    columns = dict.fromkeys(settings["groups"])
    categories = {*columns, *settings["categorical"]}
    pairs = []
    for pair in products:
        names = tuple(map(letters, pair)) if not isinstance(pair, str) and len(pair) == 2 else ()
        if not names or not categories >= {*names} or names[0] == names[1]:
            raise ValueError(
                f'products: given {pair!r} with learner "sparse", expected two columns of groups or categorical'
            )
        pairs.append(names)
    if not columns and not pairs:
        raise ValueError('groups: given none with learner "sparse", expected columns whose values are the groups')
    return [*((name,) for name in columns), *dict.fromkeys(pairs)]


# Names of events: integers of any kind, and text.

Id = int | str

MOST_BITS = 256  # of an integer id; a UUID has 128
FEW = 2**63


def checked_id(id: Any) -> Id:
    """Return `id` as Python's int or str. Raises TypeError or ValueError if it is not an id."""
    if type(id) is int and -FEW < id < FEW:  # the usual case, many times a second
        return id
    if isinstance(id, str):
        if has_bytes(id):
            return letters(id)
        raise ValueError(f"id: given {id!r} with a lone surrogate, expected Unicode text")
    if isinstance(id, bool) or not isinstance(id, int | np.integer) or isinstance(id, np.timedelta64):
        raise TypeError(f"id: given {type(id).__name__}, expected an int or str")
    if int(id).bit_length() > MOST_BITS:
        raise ValueError(f"id: given an integer of {int(id).bit_length()} bits, expected at most {MOST_BITS}")
    return int(id)


def is_id(id: Any) -> bool:
    """Return whether `checked_id` would return an id unchanged."""
    try:
        return type(checked_id(id)) is type(id)
    except (TypeError, ValueError):
        return False


def packed(ids: Iterable[Id]) -> Bytes:
    """Return ids as JSON, which distinguishes 1 from "1"."""
    return np.frombuffer(in_json([*ids]), np.uint8)


def in_json(values: Sequence[Any]) -> bytes:
    """Return a list as `json.dumps` writes it, some values at a time, so that other threads run in between."""
    parts = (json.dumps(values[k : k + SOME])[1:-1] for k in range(0, len(values), SOME))
    return f"[{', '.join(parts)}]".encode()


def unpacked(octets: Bytes) -> list[Id]:
    """Return the ids that `packed` wrote."""
    ids: list[Id] = json.loads(octets.tobytes())
    return ids


# `OpenLimits`: how many forecasts may be open, and for how long; the order in which labels are learned.

SOME = 2048  # values written as JSON at once
REMEMBERED = 1_000_000  # labelled ids kept to recognise duplicates, and as many expired ones
ORDERS = ("arrival", "issue")


class OpenLimits(NamedTuple):
    """How many forecasts may be open, and for how long."""

    max_open: int = REMEMBERED
    expires: int | None = None
    """later forecasts after which one expires, from its maturity"""
    lifetime: float | None = None
    """time after which one expires, from its maturity"""


NO_LIMITS = OpenLimits()


class Maturity(NamedTuple):
    """When labels mature by default, the meaning of silence, and the order of learning."""

    matures: float | None = None
    """length of time from a forecast to the maturity of its label; None if only single forecasts have one"""
    silence: float | None = None
    """the label to learn for a mature forecast without one; None if it remains open"""
    burst: int | None = None
    """least number of labels of one time to be learned in an order hashed from ids; None for the order of issue"""
    in_seconds: bool = False
    """whether `matures` was given with a unit, which makes seconds of it"""

    def check_unit(self, time: float) -> None:
        """Raise ValueError if a time, a number, is in a smaller unit than seconds, and the window in seconds."""
        for unit, parts in SMALLER if self.in_seconds else ():
            if self.matures is not None and SINCE_2001 * parts <= time < UNTIL_2100 * parts:
                given = f"given {self.matures:,.0f} seconds, but times are {unit} since 1970"
                raise ValueError(f"matures: {given}, expected {self.matures * parts:.0f}")


SINCE_2001, UNTIL_2100 = 1e9, 4.1e9
"""Seconds since 1970; no other count in use is a thousand, a million or a billion times as large."""
SMALLER = (("milliseconds", 1e3), ("microseconds", 1e6), ("nanoseconds", 1e9))
NO_MATURITY = Maturity()


def read_maturity(matures: Any, silence: Any, burst: Any, span: Span = UNIT) -> Maturity:
    """Return the window of all forecasts, the meaning of silence and a burst. Raises ValueError if one is invalid."""
    if silence is not None and span == UNIT and (isinstance(silence, str) or silence not in (0, 1)):
        raise ValueError(f"silence: given {silence!r}, expected 0 or 1")
    window = None if matures is None else duration("matures", matures)
    label = None if silence is None else _validate.label(silence, "silence", span)
    in_seconds = matures is not None and (isinstance(matures, np.timedelta64) or not isinstance(matures, NUMBERS))
    return Maturity(window, label, None if burst is None else _validate.count("burst", burst), in_seconds)


def read_limits(max_open: Any, expires: Any, lifetime: Any) -> OpenLimits:
    """Return the limits. Raises ValueError if one is invalid."""
    age = None if lifetime is None else _validate.positive("lifetime", lifetime)
    later = None if expires is None else _validate.count("expires", expires)
    return OpenLimits(_validate.count("max_open", max_open), later, age)


def read_patience(order: Any, patience: Any, burst: Any = None) -> int | None:
    """Return the number of later forecasts during which labels wait for one; None if they do not wait."""
    if order not in ORDERS:
        raise ValueError(f"order: given {order!r}, expected one of {', '.join(ORDERS)}")
    if (order == "issue") != (patience is not None):
        expected = "an integer of at least 1" if order == "issue" else 'none: it belongs to order "issue"'
        raise ValueError(f"patience: given {patience!r} with order {order!r}, expected {expected}")
    if order == "issue" and burst is not None:
        raise ValueError(f'burst: given {burst!r} with order "issue", expected none: labels are learned in that order')
    return None if patience is None else _validate.count("patience", patience)


# Arguments for many rows at once: records, ids, labels and times, one per row.


def alone(value: Any) -> list[Any] | None:
    """Return one row's time, if there is one."""
    return None if value is None else [value]


def spread(times: Any, n: int) -> Any:
    """Return one time per row, given as such or once for all."""
    return [times] * n if isinstance(times, str) or np.ndim(times) == 0 else times


def of_fresh(times: Any, n: int, fresh: list[int]) -> Any:
    """Return one time per row; a row with an open forecast has that of a new row, which is not used."""
    given = spread(times, n)
    if len(fresh) == n or len(given) != n:
        return given
    latest = np.full(n, -1)
    latest[fresh] = fresh
    values = [*given]
    return [values[row] for row in np.maximum(np.maximum.accumulate(latest), fresh[0])]


def listed_ids(ids: Any, n: int | None = None) -> "list[Id]":
    """Return ids as a list. Raises ValueError unless there are `n` of them."""
    if isinstance(ids, str | bytes | Mapping) or not isinstance(ids, Iterable):
        raise TypeError(f"ids: given {type(ids).__name__}, expected a list of ids")
    names: list[Id] = []
    try:
        for id in ids:
            names.append(checked_id(id))
    except (TypeError, ValueError) as error:
        raise _validate.in_row(len(names), error) from None
    if n is not None and len(names) != n:
        raise ValueError(f"ids: given {len(names)}, expected {n}, one per record")
    return names


def each_label(y: Any, n: int, span: Span = UNIT) -> list[float]:
    """Return n labels as shares of their range. Raises ValueError that names the first invalid row."""
    if isinstance(y, str | bytes | Mapping) or not isinstance(y, Iterable):
        raise TypeError(f"y: given {type(y).__name__}, expected a list of labels")
    labels: list[float] = []
    if type(y) is np.ndarray and y.dtype == np.float64 and y.ndim == 1:
        y = y.tolist()  # Python's own floats are read faster
    try:
        for value in unmasked(y):
            labels.append(_validate.label(value, span=span))
    except (TypeError, ValueError) as error:
        raise _validate.in_row(len(labels), error) from None
    if len(labels) != n:
        raise ValueError(f"y: given {len(labels)}, expected {n}, one per id")
    return labels


def counted_rows(records: Any) -> int:
    """Return the number of records."""
    if isinstance(records, Mapping):
        raise TypeError("records: given one mapping, expected a list of them or a data frame; see `forecast` for one")
    try:
        return len(records)
    except TypeError:
        raise TypeError(f"records: given {type(records).__name__}, expected a list of mappings or a frame") from None


def label_column(y: ArrayLike, n: int, span: Span = UNIT) -> Array:
    """Return n labels as shares of their range, NaN if missing."""
    try:
        raw = np.asarray(unmasked(y))
        if raw.dtype.kind not in "biufO" or any(isinstance(value, str | bytes) for value in _objects(raw)):
            raise TypeError
        labels = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"y: given {type(y).__name__} that is not numeric, expected labels in {span}") from None
    if labels.shape != (n,):
        raise ValueError(f"y: given shape {labels.shape}, expected ({n},), one label per record")
    return span.shares("y", labels)


def _objects(raw: AnyArray) -> Iterable[Any]:
    """Return the entries of an array of Python objects, which may contain text that looks like a number."""
    return raw.ravel().tolist() if raw.dtype.kind == "O" else ()


# Records as given: mappings, the rows of a frame, or a single row.

PLAIN_FORMAT = 2  # of marshal: the last without references, which depend on who else holds a value


def as_mappings(records: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a frame as mappings, for outside models."""
    if isinstance(records, list | tuple):
        return [*records]
    columns, n = columns_of(records)
    lists = {
        name: values.tolist() if isinstance(values, np.ndarray) else [values.values[k] for k in values.codes]
        for name, values in columns.items()
    }
    return [{name: column[k] for name, column in lists.items()} for k in range(n)]


def record_of(given: Any) -> Any:
    """Return one record as a mapping: of a pandas Series its labels and values, of a frame its only row.

    Anything else is returned unchanged; the encoding checks it.
    """
    if isinstance(given, Mapping):
        return given
    if nw.dependencies.is_pandas_like_series(given):
        return _labelled(given)
    try:
        frame = nw.from_native(given)
    except TypeError:
        return given
    rows = as_mappings(given) if isinstance(frame, nw.DataFrame | nw.LazyFrame) else []
    if len(rows) != 1:
        raise ValueError(f"record: given a frame of {len(rows):,} rows, expected one row; see `forecast_many` for more")
    return rows[0]


def _labelled(series: Any) -> dict[Any, Any]:
    """Return a Series as a dict. Raises ValueError if one of its labels is there twice."""
    names, values = series.index.tolist(), series.tolist()
    record = dict(zip(names, values, strict=True))
    if len(record) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"column {twice!r}: given twice, expected each name once")
    return record


@lru_cache(maxsize=256)
def _sorter(names: tuple[str, ...]) -> Callable[[list[Any]], Iterable[Any]]:
    """Return the function that puts a record's items in the order of their names, mostly those of the record before."""
    order = sorted(range(len(names)), key=names.__getitem__)
    return itemgetter(*order) if len(order) > 1 else list


NO_RECORD = hashlib.blake2b(digest_size=6)


def fingerprint(record: Mapping[str, Any]) -> int:
    """Return a hash of 48 bits that identifies a record."""
    if type(record) is not dict and not isinstance(record, Mapping):
        raise TypeError(f"record: given {type(record).__name__}, expected a mapping from names to values")
    try:
        content = marshal.dumps([*_sorter(tuple(record))([*record.items()])], PLAIN_FORMAT)
    except (TypeError, ValueError):
        content = repr(sorted((str(name), repr(value)) for name, value in record.items())).encode()
    return _validate.digest_of(content, NO_RECORD)


# How often a label counts.

LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6  # further apart, sums of weights would lose the labels that count little


def weight_column(weight: Any, y: "Array | Sequence[float]") -> Array | None:
    """Return how often each label counts, given once for all or one by one; None if each counts once.

    Weights of missing labels, which are NaN, are not checked.
    """
    if weight is None:
        return None
    n = len(y)
    try:
        raw = np.asarray(unmasked(weight))
        if raw.dtype.kind not in "iufO" or any(isinstance(value, str | bytes | bool) for value in _objects(raw)):
            raise TypeError
        weights = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"weight: given {type(weight).__name__} that is no number, expected numbers above 0") from None
    if weights.shape not in ((), (n,)):
        raise ValueError(f"weight: given shape {weights.shape}, expected one number, or ({n},), one per label")
    weights = np.where(np.isnan(y), 1.0, weights)
    bad = np.flatnonzero(~((weights >= LEAST_WEIGHT) & (weights <= MOST_WEIGHT)))
    if bad.size:
        where = f" in row {bad[0] + 1}" if n > 1 else ""
        raise ValueError(
            f"weight: given {weights[bad[0]]:g}{where}, expected one over the probability of obtaining the label, "
            f"from {LEAST_WEIGHT:g} to {MOST_WEIGHT:,.0f}"
        )
    return None if (weights == 1.0).all() else weights
