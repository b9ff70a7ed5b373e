"""`Live`: records, experts and engine composed; what most users touch first."""

import hashlib
import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from swapcal import archive, inputs
from swapcal.arrays import Array
from swapcal.engine.certificate import Certificate
from swapcal.engine.forecast import Forecast
from swapcal.features import Contexts, Encoded
from swapcal.guard import Guard, guarded
from swapcal.kernels.checks import ROUNDING
from swapcal.kernels.encode import ENTRIES
from swapcal.kernels.state import T_HIGH, T_LOW, T_MEAN, T_P, TICKET
from swapcal.live import keeping
from swapcal.live.experts import EXPERT_WEIGHT, as_model, expert_names, expert_weights
from swapcal.live.file import FILE
from swapcal.live.ids import Id, checked_id
from swapcal.live.learner import Composition, Records
from swapcal.live.ledger import REMEMBERED, ConflictingLabelError, Ledger, Limits, Open, Status, stacked
from swapcal.tables.clock import as_times, check_times, sized
from swapcal.tables.columns import columns_of
from swapcal.tables.values import unmasked

WINDOW = 4096  # rows looked at for the next arrival of a label; a bound on the work, without effect on results
# The ticket before anything is known: one half, surely.
NO_KNOWLEDGE = np.zeros(TICKET)
NO_KNOWLEDGE[[T_P, T_MEAN, T_LOW, T_HIGH]] = 0.5


@dataclass(frozen=True)
class Trace:
    """Everything about a run: the forecasts, the contexts, and what each expert said."""

    forecast: Forecast
    x: Array
    """(n, dim) contexts; coordinates that appeared later are 0 in earlier rows"""
    experts: Array
    """(n, number of experts) probabilities, in the order of `Live.experts`"""

    def __len__(self) -> int:
        return len(self.x)


class Live:
    """Forecast the probability of a binary event for records as they arrive; learn from labels as they come.

    Records are encoded by `Contexts`, judged by the compiled bank of `Experts` (and by models and scores of yours),
    and forecast by `Forecaster`, whose guarantee holds whatever the labels do: on every issued level the forecasts
    are right on average against every linear function of the coordinates. No tuning: one setting for every stream.

    Parameters
    ----------
    groups, scores, products, numeric, categorical, drop, categories, max_dim, fourier : as in `Contexts`.
    models : {name: model} of river classifiers or scikit-learn classifiers with `partial_fit`; each becomes a score.
    ridge, kappa, seed : as in `Forecaster`.
    max_open : forecasts that may wait for a label. One more makes the oldest expire: it counts as unlabelled for good,
        in `status().expired`, and a label for it raises `ExpiredIdError`. Each open forecast takes some 2.5 kB.
    expires : number of later forecasts after which an open one expires; by default never.
    lifetime : time after which an open one expires, in the unit of the times given (seconds, for dates); a forecast
        without a time does not.

    A record, label or batch that is refused leaves everything exactly as it was. Threads may share one object: its
    methods take turns. What a model of yours raises is passed on, and then the record counts as seen by the others.

    Examples
    --------
    >>> live = Live(groups=["shop"])
    >>> forecast = live.forecast({"shop": "a", "price": 3.0}, id="order 1")
    >>> 0 <= forecast.p <= 1
    True
    >>> live.label("order 1", 1)
    True
    >>> live.label("order 1", 1)  # said twice: ignored
    False
    >>> live.status().coverage
    1.0
    """

    def __init__(
        self,
        *,
        groups: Iterable[str] = (),
        scores: "Iterable[str] | Mapping[str, str]" = (),
        products: Iterable[Sequence[str]] = (),
        numeric: Iterable[str] = (),
        categorical: Iterable[str] = (),
        drop: Iterable[str] = (),
        models: "Mapping[str, Any] | None" = None,
        categories: int = 12,
        max_dim: int = 160,
        fourier: int = 0,
        ridge: float = 1.0,
        kappa: float = 0.2,
        seed: int = 0,
        max_open: int = REMEMBERED,
        expires: int | None = None,
        lifetime: float | None = None,
    ) -> None:
        seed = inputs.seed(seed)
        wrapped = {str(name): as_model(model) for name, model in (models or {}).items()}
        contexts = Contexts(
            groups=groups,
            scores=scores,
            products=products,
            numeric=numeric,
            categorical=categorical,
            drop=drop,
            categories=categories,
            max_dim=max_dim,
            fourier=fourier,
            reserved=expert_weights() | dict.fromkeys(wrapped, EXPERT_WEIGHT),
            seed=seed,
        )
        self._engine = {"ridge": inputs.positive("ridge", ridge), "kappa": inputs.positive("kappa", kappa)}
        self._mind = Composition(contexts, wrapped, {**self._engine, "seed": seed})
        self._ledger = Ledger(_limits(max_open, expires, lifetime))
        self._guard = Guard()

    @property
    def settings(self) -> dict[str, Any]:
        """What distinguishes this object from one with other arguments; JSON-able."""
        limits = self._ledger.limits._asdict()
        return {**self.contexts.settings, **self._engine, "models": list(self._mind.models), **limits}

    @property
    def contexts(self) -> Contexts:
        """The map from records to coordinates."""
        return self._mind.contexts

    @property
    def names(self) -> tuple[str, ...]:
        """Each coordinate in the user's words."""
        return self.contexts.names

    @property
    def experts(self) -> tuple[str, ...]:
        """Names of the forecasts behind the forecast: the blend, the experts, then your models."""
        return (*expert_names(), *self._mind.models)

    @guarded
    def status(self) -> Status:
        """Return label coverage and delay."""
        return self._ledger.status()

    @guarded
    def certificate(self) -> Certificate:
        """Return the engine's exact errors so far with their bounds; see `Forecaster.certificate`."""
        if self._mind.forecaster is None:
            raise ValueError("certificate: given no record yet, expected at least one forecast")
        return self._mind.forecaster.certificate()

    @guarded
    def forecast(self, record: Mapping[str, Any], id: Id, time: Any = None) -> Forecast:
        """Issue the forecast of one record; its label may come any time, by `label(id, y)`.

        Asking again with the same id and record while it is open returns the same forecast.

        Parameters
        ----------
        record : a mapping from column names to values
        id : an int or str that names this event
        time : when the forecast is made (number, date, or ISO text); must not go backwards
        """
        if not isinstance(record, Mapping):
            raise TypeError(f"record: given {type(record).__name__}, expected a mapping from names to values")
        name = checked_id(id)
        mark = _fingerprint(record)
        entry = self._issued_before(name, mark)
        if entry is None:
            times, _ = check_times(None if time is None else [time], None, 1, self._ledger.clock)
            encoded = self.contexts.encode(record)
            if times is not None:
                self._learn_due(float(times[0]))
            entry = self._open(encoded, [record], [name], times, None, None, named=True)[0]
            entry.fingerprint = mark
        return self._mind.forecast(entry.ticket[None, :].copy(), entry.x[None, :], single=True, learned=False)

    @guarded
    def preview(self, records: Any) -> Forecast:
        """Forecast records as they would be forecast now, without opening them and without changing anything."""
        encoded = self.contexts.encode(records, learn=False)
        if self._mind.forecaster is None:
            tickets = np.tile(NO_KNOWLEDGE, (len(encoded), 1))
        else:
            rows = _as_mappings(records) if self._mind.models else None
            tickets, _, _ = self._mind.issue(encoded, rows, None, self._ledger.forecasts)
        return self._mind.forecast(tickets, encoded.x, single=False, learned=True)

    @guarded
    def label(self, id: Id, y: float, time: Any = None) -> bool:
        """Learn the label of a forecast. Returns False, and learns nothing, if the same label came before.

        An id that was never forecast raises `UnknownIdError`, a label that contradicts an earlier one
        `ConflictingLabelError`; an id whose forecast has expired raises `ExpiredIdError`, which is an `UnknownIdError`.
        """
        value = inputs.label(y)
        when = math.nan if time is None else float(sized(as_times("time", [time]), "time", 1)[0])
        entry = self._ledger.find(checked_id(id), value, when)
        if entry is None:
            return False
        if when < entry.time:
            raise ValueError(f"label time: given {when:.12g}, before the forecast at {entry.time:.12g}")
        self._learn([entry], np.array([value]), [when])
        return True

    def run(self, records: Any, y: ArrayLike, **how: Any) -> Forecast:
        """Forecast each record, then learn its label, in order; `how` as in `trace`."""
        return self.trace(records, y, **how).forecast

    @guarded
    def trace(
        self,
        records: Any,
        y: ArrayLike,
        *,
        ids: "Sequence[Id] | None" = None,
        time: ArrayLike | None = None,
        label_time: ArrayLike | None = None,
    ) -> Trace:
        """Forecast each record, then learn its label, in order, at kernel speed; the same as one by one.

        Parameters
        ----------
        records : a list of mappings, or a data frame of any library; n rows. Without models also what
            `live.contexts.encode` made of them, perhaps in another thread while earlier rows were learned.
        y : (n,) labels in [0, 1]; NaN where there is none (with ids, `label` can deliver those later)
        ids : names of the rows; they also determine the draws
        time : (n,) when each forecast is made, not decreasing
        label_time : (n,) when each label becomes known, not before `time`. A label is learned just before the first
            forecast made strictly later; labels that are not due at the end wait for later calls.
        """
        n = _rows(records)
        labels = _labels(y, n)
        times, due = check_times(time, label_time, n, self._ledger.clock)
        names = self._new_ids(ids, n)
        encoded = self._checked(records) if isinstance(records, Encoded) else self.contexts.encode(records)
        rows = _as_mappings(records) if self._mind.models else None
        if due is not None and times is not None:
            return self._trace_scheduled(encoded, rows, labels, names, times, due)
        if times is not None and n:
            self._learn_due(float(times[0]))
        return self._trace_at_once(encoded, rows, labels, names, times)

    def _trace_at_once(
        self, encoded: Encoded, rows: Records, y: Array, ids: "list[Id] | None", times: Array | None
    ) -> Trace:
        """Learn each label that exists right after its forecast; rows without one stay open."""
        pieces = []
        for a, b in _runs(np.isnan(y), WINDOW):
            part, names = _cut(encoded, a, b), None if ids is None else ids[a:b]
            records = None if rows is None else rows[a:b]
            moments = None if times is None else times[a:b]
            if math.isnan(y[a]):
                opened = self._open(part, records, names, moments, None, None, named=names is not None)
                pieces.append((stacked(opened, "ticket"), stacked(opened, "judged")))
            else:
                counts = self._ledger.forecasts + np.arange(b - a)
                pieces.append(self._mind.play(part, records, y[a:b], names, counts))
                self._ledger.book(names, y[a:b].tolist(), None if moments is None else moments.tolist())
        return self._traced(pieces, encoded.x)

    def _trace_scheduled(
        self, encoded: Encoded, rows: Records, y: Array, ids: "list[Id] | None", times: Array, due: Array
    ) -> Trace:
        """Go through the rows in stretches between the arrivals of labels."""
        pieces, first = [], 0
        while first < len(y):
            self._learn_due(float(times[first]))
            last = self._stretch_end(first, y, times, due)
            cut = slice(first, last)
            opened = self._open(
                _cut(encoded, first, last), None if rows is None else rows[cut], None if ids is None else ids[cut],
                times[cut], due[cut], y[cut], named=ids is not None,
            )  # fmt: skip
            pieces.append((stacked(opened, "ticket"), stacked(opened, "judged")))
            first = last
        return self._traced(pieces, encoded.x)

    def _stretch_end(self, first: int, y: Array, times: Array, due: Array) -> int:
        """Return the first row that must wait for a label to be learned, or the end of the window looked at."""
        window = slice(first, first + WINDOW)
        arrivals = np.where(np.isnan(y[window]), math.inf, due[window])
        arrivals = np.minimum.accumulate(np.minimum(arrivals, self._ledger.earliest_due()))
        late = np.flatnonzero(times[window][1:] > arrivals[:-1])
        return first + 1 + int(late[0]) if late.size else first + len(arrivals)

    def _open(
        self,
        encoded: Encoded,
        rows: Records,
        ids: "Sequence[Id] | None",
        times: Array | None,
        due: Array | None,
        y: Array | None,
        *,
        named: bool,
    ) -> list[Open]:
        """Issue forecasts and keep what is needed to learn their labels later."""
        count, n = self._ledger.forecasts, len(encoded)
        names: Sequence[Id] = [self._unused(f"row {count + k}") for k in range(n)] if ids is None else ids
        records = rows if self._mind.models else None
        tickets, judged, memory = self._mind.issue(encoded, records, names if named else None, count + np.arange(n))
        unknown = np.full(n, math.nan)
        moments, arrivals = unknown if times is None else times, unknown if due is None or y is None else due
        labels = unknown if y is None else y
        entries = [
            Open(
                names[k], tickets[k], encoded.x[k, : encoded.dims[k]].copy(), encoded.keys[k].copy(),
                encoded.values[k].copy(), memory[k], judged[k], count + k, 0, float(moments[k]),
                math.nan if math.isnan(labels[k]) else float(arrivals[k]), float(labels[k]),
                records[k] if records is not None else None,
            )
            for k in range(n)
        ]  # fmt: skip
        self._ledger.admit(entries)
        return entries

    def _learn(self, entries: list[Open], y: Array, when: Sequence[float]) -> None:
        """Learn labels in the order given, with the features their rows had."""
        keys, values, memory = (stacked(entries, name) for name in ("keys", "values", "memory"))
        self._mind.learn(keys, values, memory, stacked(entries, "x"), stacked(entries, "ticket"), y)
        for entry, label, time in zip(entries, y.tolist(), when, strict=True):
            self._ledger.close(entry, label, time)
        for entry, label in zip(entries, y.tolist(), strict=True):  # last: what a model raises must not undo the rest
            if entry.record is not None:
                self._mind.teach(entry.record, entry.keys, entry.values, label)

    def _learn_due(self, now: float) -> None:
        entries = self._ledger.pop_due(now)
        if entries:
            self._learn(entries, np.array([entry.y for entry in entries]), [entry.due for entry in entries])

    def _unused(self, name: str) -> str:
        """Return a name for a row without one, which nobody has used."""
        while self._ledger.knows(name):
            name += "'"
        return name

    def _checked(self, encoded: Encoded) -> Encoded:
        """Refuse rows that `contexts.encode` did not make of records."""
        n, dim, width = len(encoded.dims), self.contexts.dim, encoded.x.shape[1]
        entries, scores = encoded.keys.shape, (n, len(self.contexts.settings["scores"]))
        shaped = encoded.x.shape == (n, width) and encoded.values.shape == entries and encoded.scores.shape == scores
        if not shaped or len(entries) != 2 or entries[0] != n or entries[1] % ENTRIES or width > dim:
            raise ValueError(
                f"records: given encoded rows of other shapes than these contexts make, x {encoded.x.shape}"
            )
        first = 1 + len(self.contexts.reserved_weights)
        room = 0.75 + ROUNDING - float(np.sum(self.contexts.reserved_weights**2))
        inside = np.sum(encoded.x[:, first:] ** 2, axis=1) <= room  # false for NaN too
        grown = np.diff(encoded.dims, prepend=first) >= 0
        if not (inside.all() and grown.all() and np.isfinite(encoded.values).all() and (encoded.dims <= width).all()):
            raise ValueError(
                "records: given encoded rows that are no contexts, expected what `contexts.encode` returned"
            )
        return encoded

    def _traced(self, pieces: list[tuple[Array, Array]], x: Array) -> Trace:
        tickets = np.concatenate([piece[0] for piece in pieces]) if pieces else np.zeros((0, TICKET))
        judged = np.concatenate([piece[1] for piece in pieces]) if pieces else np.zeros((0, len(self.experts)))
        return Trace(self._mind.forecast(tickets, None, single=False, learned=True), x, judged)

    def _issued_before(self, id: Id, mark: int) -> Open | None:
        """Return the open forecast of this very event; refuse an id that is taken by another."""
        entry = self._ledger.opened.get(id)
        if self._ledger.knows(id) and (entry is None or entry.fingerprint != mark):
            raise ConflictingLabelError(f"id: given {id!r}, which already names another forecast; expected a new one")
        return entry

    def _new_ids(self, ids: "Sequence[Id] | None", n: int) -> "list[Id] | None":
        if ids is None:
            return None
        if isinstance(ids, str | bytes | Mapping) or not isinstance(ids, Iterable):
            raise TypeError(f"ids: given {type(ids).__name__}, expected a list of ids")
        names = list(ids)
        if len(names) != n:
            raise ValueError(f"ids: given {len(names)}, expected {n}, one per record")
        seen: set[Id] = set()
        for row, given in enumerate(names):
            id = names[row] = checked_id(given)
            if id in seen or self._ledger.knows(id):
                raise ConflictingLabelError(f"ids: given {id!r} again in row {row + 1}, expected each id once")
            seen.add(id)
        return names

    @guarded
    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the whole state, open forecasts included, to one file; `load` goes on bit for bit.

        The file is read back and checked before it takes its place; see `swapcal.archive.replacing` for what a crash
        can leave. Outside models are yours to save; hand them to `load` again. Labels of forecasts that were open
        then no longer reach them: the records themselves are not kept.
        """
        arrays, manifest = self._mind.to_state()
        kept, ledger = keeping.to_state(self._ledger)
        limits = self._ledger.limits._asdict()
        own = {"engine": self._engine, "models": list(self._mind.models), "limits": limits, "ledger": ledger}
        archive.write(path, FILE, arrays | kept, own | manifest)

    @classmethod
    def load(cls, path: "str | os.PathLike[str]", models: "Mapping[str, Any] | None" = None) -> Self:
        """Return what `save` wrote; `models` must have the names they had."""
        arrays, manifest = archive.read(path, FILE)
        if sorted(models or {}) != sorted(manifest["models"]):
            given, expected = sorted(models or {}), sorted(manifest["models"])
            raise ValueError(f"models: given {given}, expected those it was saved with: {expected}")
        ordered = {name: (models or {})[name] for name in manifest["models"]}
        seed = manifest["contexts"]["settings"]["seed"]
        live = cls(**manifest["engine"], **manifest["limits"], seed=seed, models=ordered)
        live._mind.restore(arrays, manifest)
        live._ledger = keeping.from_state(arrays, manifest["ledger"], live._ledger.limits)
        return live


def _limits(max_open: Any, expires: Any, lifetime: Any) -> Limits:
    for name, value in (("max_open", max_open), ("expires", 1 if expires is None else expires)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value < 2**63:
            raise ValueError(f"{name}: given {value!r}, expected an integer of at least 1")
    age = None if lifetime is None else inputs.positive("lifetime", lifetime)
    return Limits(int(max_open), None if expires is None else int(expires), age)


def _fingerprint(record: Mapping[str, Any]) -> int:
    text = repr(sorted((str(name), repr(value)) for name, value in record.items()))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "little")


def _rows(records: Any) -> int:
    if isinstance(records, Mapping):
        raise TypeError("records: given one mapping, expected a list of them or a data frame; see `forecast` for one")
    try:
        return len(records)
    except TypeError:
        raise TypeError(f"records: given {type(records).__name__}, expected a list of mappings or a frame") from None


def _labels(y: ArrayLike, n: int) -> Array:
    try:
        raw = np.asarray(unmasked(y))
        if raw.dtype.kind not in "biufO" or any(isinstance(value, str | bytes) for value in _objects(raw)):
            raise TypeError
        labels = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"y: given {type(y).__name__} that is not numeric, expected labels in [0, 1]") from None
    if labels.shape != (n,):
        raise ValueError(f"y: given shape {labels.shape}, expected ({n},), one label per record")
    bad = np.flatnonzero((labels < 0.0) | (labels > 1.0))
    if bad.size:
        raise ValueError(f"y: given {labels[bad[0]]:g} in row {bad[0] + 1}, expected a number in [0, 1] or NaN")
    return labels


def _objects(raw: NDArray[Any]) -> Iterable[Any]:
    """Return the entries of an array of Python objects, which may hide text that reads as a number."""
    return raw.ravel().tolist() if raw.dtype.kind == "O" else ()


def _as_mappings(records: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a frame as mappings, which outside models understand."""
    if isinstance(records, list | tuple):
        return [*records]
    columns, n = columns_of(records)
    lists = {
        name: values.tolist() if isinstance(values, np.ndarray) else [values.values[k] for k in values.codes]
        for name, values in columns.items()
    }
    return [{name: column[k] for name, column in lists.items()} for k in range(n)]


def _cut(encoded: Encoded, a: int, b: int) -> Encoded:
    rows = slice(a, b)
    return Encoded(
        encoded.x[rows], encoded.dims[rows], encoded.keys[rows], encoded.values[rows], encoded.scores[rows],
        encoded.marks[rows],
    )  # fmt: skip


def _runs(flags: NDArray[np.bool_], most: int) -> list[tuple[int, int]]:
    """Return the maximal stretches of equal flags, true ones cut to at most so many rows."""
    cuts = [0, *(1 + np.flatnonzero(np.diff(flags))).tolist(), len(flags)]
    stretches = [(a, b) for a, b in itertools.pairwise(cuts) if b > a]
    return [
        (c, min(c + most, b) if flags[a] else b) for a, b in stretches for c in range(a, b, most if flags[a] else b - a)
    ]
