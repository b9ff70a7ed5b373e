"""A compiled bank of online logistic regressions, users' own models, and the rows they read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from swapcal._locking import Writable
from swapcal._validate import UNIT, Span
from swapcal.archive import Field, Shapes, State, floats, integers, singles
from swapcal.arrays import AnyArray, Array, Integers, Keys
from swapcal.engine.forecaster import MOST_DIM
from swapcal.kernels.encode import ENTRIES
from swapcal.kernels.experts import (
    COUNTS,
    CROSSED,
    CURVE,
    EXPERTS,
    GIVEN,
    HASHED,
    ISSUED,
    ISSUED_BASE,
    ISSUED_STACK,
    LINEAR,
    LINEAR_ADA,
    LINEAR_ROW,
    LINEAR_SGD,
    LINEAR_SLOTS,
    PAIR_ADA,
    PAIR_SGD,
    PAIR_SLOTS,
    PAIRED,
    PAIRED_ROW,
    PLAIN,
    PRIOR,
    RATES,
    SCORED,
    SMALL_LINEAR_SLOTS,
    SMALL_PAIR_SLOTS,
    START,
    TRUST,
    VARIANCE,
    Bank,
    Single,
    View,
    Workspace,
    run_experts,
    share_blend,
)
from swapcal.kernels.jit import DirectCall
from swapcal.kernels.learners import KEEP, NEWTON, RIDGES, Newton, blank_newton, grown
from swapcal.kernels.linalg import factor_size, padded

__all__ = [
    "ENTRIES",
    "ExpertModel",
    "Experts",
    "as_model",
    "expert_names",
    "expert_weights",
]

# `Rows`: the inputs and outputs of every learner for each row.


@dataclass
class Rows:
    """n rows as arrays."""

    x: Array
    dims: Integers
    """number of coordinates at each row; later ones are 0 there"""
    keys: Keys
    values: Array
    scores: Array
    """the users' and the models' probabilities"""
    draws: Keys
    """keys of the rows for the draws between levels"""
    memory: Array
    """the data that the experts need to learn the label"""
    judged: Array
    """the blend's, the experts' and the models' probabilities"""
    ticket: Array
    groups: Keys
    """keys of the row's groups, for the learner of very many groups; otherwise none"""

    def __len__(self) -> int:
        return len(self.dims)

    def cut(self, a: int, b: int) -> "Rows":
        """Return some of the rows, sharing memory."""
        if (a, b) == (0, len(self.dims)):
            return self
        return Rows(*(getattr(self, name)[a:b] for name in NAMES))

    def copied(self) -> "Rows":
        """Return the rows in memory of their own."""
        return Rows(*(getattr(self, name).copy() for name in NAMES))

    def overwrite(self, source: "Rows", names: tuple[str, ...]) -> None:
        """Copy rows; coordinates and columns that `source` does not have become 0."""
        for name in names:
            old: Any
            new: Any
            old, new = getattr(source, name), getattr(self, name)
            if old.ndim == 1 or old.shape[1] == new.shape[1]:
                new[:] = old
            else:
                width = min(old.shape[1], new.shape[1])
                new[:, :width] = old[:, :width]
                new[:, width:] = 0


class Row(Rows):
    """One row in our own C-ordered arrays, which are used again for the next row."""


NAMES = tuple(field.name for field in fields(Rows))


# `Experts`: a compiled bank of online logistic regressions, and users' own models.

BLEND_WEIGHT, EXPERT_WEIGHT = 1.0, 0.2
TINY = np.float32(1e-8)  # AdaGrad's first sum of squares: no division by zero
TABLES = (("linear", LINEAR), ("paired", PAIRED))
DENSE = ("weights", "covariance", "shares", "merits", "runs", "shortfalls", "counts", "curve", "spread")
NO_FEATURES = View(1, 1.0)
ONCE = np.ones(1)  # the weights of labels that count once each
AT_FIRST = np.array([0.02, 0.08, 0.9])  # trust in the stacks without and with users' scores, and in the scores as given
NEAREST = 1e-4  # to 0 and 1, of what is known beforehand: where the experts clip log-odds
FULL, SMALL = "full", "small"
SLOTS = {FULL: (LINEAR_SLOTS, PAIR_SLOTS), SMALL: (SMALL_LINEAR_SLOTS, SMALL_PAIR_SLOTS)}
"""Rows of the two hashed tables, by the size of a `Live`."""
WIDTH = 1 << 12  # columns of the matrix for an outside partial_fit model
ONLY = np.zeros(1, np.int64)
run_one = DirectCall(run_experts)


def file_fields(scores: int, size: str, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays of a state from `Experts.to_state`; the kernels go through the first `newton.met` weights."""
    linear, paired = SLOTS[size]
    stacks, inputs = 1 + (scores > 0), 1 + EXPERTS + scores
    earlier = scores > 0 and shapes["shares"] == (stacks,)  # the scores as given took no part
    width = padded(min(shapes["newton.weights"][1], MOST_DIM) or 1)
    return {
        "weights": floats(stacks, inputs),
        "covariance": floats(stacks, inputs, inputs),
        "shares": floats(stacks if earlier else len(AT_FIRST) if scores else 1),
        "merits": floats(inputs + 1),
        "runs": floats(inputs + 1),
        "shortfalls": floats(EXPERTS if earlier else EXPERTS + scores),
        "counts": floats(next((n for n in (TRUST, START) if shapes["counts"] == (n,)), COUNTS)),  # earlier: fewer
        "curve": floats(CURVE),
        "spread": floats(CURVE, CURVE),
        "linear_used": integers("linear", least=0, most=linear - 1, rises=True),
        "linear": singles("linear", LINEAR_ROW),
        "paired_used": integers("paired", least=0, most=paired - 1, rises=True),
        "paired": singles("paired", PAIRED_ROW),
        "newton.weights": floats(NEWTON, width),
        "newton.factor": floats(NEWTON, factor_size(width)),
        "newton.scale": floats(NEWTON, width),
        "newton.met": integers(1, least=0, most=width),
    }


def expert_names() -> tuple[str, ...]:
    """Return the names of the bank's forecasts: the blend, then the experts.

    Examples
    --------
    >>> expert_names()[0], expert_names()[3], expert_names()[-1]
    ('blend of experts', 'logistic (steps of 0.3)', 'ridge logistic (last 1,000 outcomes)')
    """
    logistic = [f"logistic ({pace} of {rate:.4g})" for pace, rate in _paces(slice(0, LINEAR), LINEAR_SGD)]
    paired = [f"logistic on pairs ({pace} of {rate:.4g})" for pace, rate in _paces(slice(LINEAR, HASHED), PAIR_SGD)]
    return ("blend of experts", *logistic, *paired, *map(_remembering, KEEP.tolist()))


def _paces(experts: slice, constant: int) -> list[tuple[str, float]]:
    """Return the kind of steps and the rate of hashed experts: constant steps, then those of AdaGrad, which shrink."""
    return [("steps" if e < constant else "shrinking steps", rate) for e, rate in enumerate(RATES[experts].tolist())]


def _remembering(kept: float) -> str:
    """Return the name of a second-order expert that keeps this part of its information at each outcome."""
    return f"ridge logistic ({'all outcomes' if kept == 1.0 else f'last {round(1.0 / (1.0 - kept)):,} outcomes'})"


def expert_keys() -> tuple[str, ...]:
    """Return the names of the bank's forecasts in saved states, which never change."""
    methods = ["SGD"] * LINEAR_SGD + ["AdaGrad"] * LINEAR_ADA + ["pairs SGD"] * PAIR_SGD + ["pairs AdaGrad"] * PAIR_ADA
    hashed = (f"{method} {rate:.4g}" for method, rate in zip(methods, RATES.tolist(), strict=True))
    return ("blend", *hashed, *(f"Newton {ridge:.4g}" for ridge in RIDGES.tolist()))


def expert_weights(size: str = FULL) -> dict[str, float]:
    """Return each forecast's weight as a coordinate: 1 for the blend, 0.2 for an expert; of a small one the blend's.

    A small coordinate needs a large weight, which the ridge penalty makes expensive: so the engine starts from the
    blend and departs from it where the data require it.
    """
    keys = expert_keys()[: 1 if size == SMALL else None]
    return {key: BLEND_WEIGHT if key == "blend" else EXPERT_WEIGHT for key in keys}


class Experts(Writable):
    """Logistic regressions: ten on hashed features, five on their pairs, three on contexts; and a blend of all.

    Each expert minimises Σ log(1 + exp(-(2y-1)⟨w, f⟩)) on rows f of unit norm by stochastic gradient steps of its
    own constant rate (SGD) or by AdaGrad, or on the context with a ridge penalty by second-order steps (Newton). High
    rates follow drift, low ones average noise; the stack, an online second-order logistic regression on all logits,
    weighs them for the stream. No expert reads the users' scores: a second stack does. The two stacks and the scores
    as given are mixed by their recent likelihoods. The blend pools stacks, experts, scores and base rate by their
    likelihoods as issued and by the lag of labels; while labels come at once, a curve with a short memory recalibrates
    it.

    Parameters
    ----------
    scores : number of users' own forecasts that join the blend; it starts from their mean, if there are any.
    view : where in a context the raw features are, and their largest norm.
    models : the number of them, the last ones, that come from models which learn too. The blend starts from the others
        and weighs a model only once its forecasts were good.
    size : "full", or "small" for hashed tables of a hundredth of the rows, which more features share.

    Examples
    --------
    >>> experts = Experts()
    >>> keys, values = np.array([[11, 0, 0]], np.uint64), np.array([[1.0, 0.0, 0.0]])
    >>> for _ in range(200):
    ...     memory, probabilities = experts.forecast(keys, values)
    ...     experts.learn(keys, values, memory, [1.0])
    >>> bool(probabilities[0, 0] > 0.9)
    True
    """

    def __init__(self, scores: int = 0, view: View = NO_FEATURES, models: int = 0, size: str = FULL) -> None:
        n, own = 1 + EXPERTS + scores, 1 + EXPERTS
        weights, covariance = np.zeros((1 + (scores > 0), n)), np.zeros((1 + (scores > 0), n, n))
        covariance[PLAIN, range(own), range(own)] = PRIOR
        if scores:
            weights[SCORED, own : n - models] = 1.0 / max(scores - models, 1)
            covariance[SCORED, range(n), range(n)] = PRIOR
        self.scores = scores
        self.view = view
        given = np.array([scores - models or scores])  # of models alone the first to be believed are these
        self._bank = Bank(
            _table(SLOTS[size][0], LINEAR_ROW, LINEAR),
            _table(SLOTS[size][1], PAIRED_ROW, PAIRED),
            blank_newton(1),
            weights,
            covariance,
            AT_FIRST.copy() if scores else np.ones(1),
            np.zeros(n + 1),
            np.zeros(n + 1),
            np.zeros(EXPERTS + scores),
            np.zeros(COUNTS),
            np.zeros(CURVE),
            VARIANCE * np.eye(CURVE),
            given,
        )
        self._bank.counts[TRUST] = AT_FIRST[GIVEN] if scores else 0.0
        self.nearest = 1.0
        """how near to 0 and 1 forecasts may be, however few labels are known: as near as what experts start from"""
        self._work = _work(0, 1, self.memory_width)
        self._reserved = 0, 0
        """entries and coordinates for which there is room, of a single row"""

    def start_from(self, rate: float) -> None:
        """Let all experts start from a base rate, 10⁻⁴ from 0 and 1 at least, before anything was forecast."""
        rate = min(max(rate, NEAREST), 1.0 - NEAREST)
        self._bank.counts[START] = math.log(rate / (1.0 - rate))
        self.nearest = self._nearest()

    def _nearest(self) -> float:
        start = abs(float(self._bank.counts[START]))
        return max(1.0 / (1.0 + math.exp(start)), NEAREST) if start else 1.0

    @property
    def memory_width(self) -> int:
        """Numbers to keep per open row, besides its features."""
        return 1 + EXPERTS + self.scores + ISSUED

    def forecast(
        self, keys: Keys, values: Array, given: Array | None = None, x: Array | None = None
    ) -> tuple[Array, Array]:
        """Return (memory, probabilities) of n rows: the memory for `learn`, and (n, 19) forecasts, blend first."""
        n = len(keys)
        given = np.full((n, self.scores), np.nan) if given is None else given
        memory, probabilities = np.zeros((n, self.memory_width)), np.zeros((n, 1 + EXPERTS))
        self.step(keys, values, *_contexts(x, n), given, np.arange(n), np.full(n, np.nan), memory, probabilities)
        return memory, probabilities

    def learn(self, keys: Keys, values: Array, memory: Array, y: Any, x: Array | None = None) -> None:
        """Learn the labels of rows that were forecast before, with the features they had then."""
        n, labels = len(keys), np.asarray(y, np.float64)
        given, probabilities = np.zeros((n, self.scores)), np.zeros((n, 1 + EXPERTS))
        self.step(keys, values, *_contexts(x, n), given, np.arange(n), labels, memory, probabilities)

    def step(
        self,
        keys: Keys,
        values: Array,
        x: Array,
        dims: Integers,
        given: Array,
        rows: Integers,
        labels: Array,
        memory: Array,
        probabilities: Array,
        weights: Array = ONCE,
    ) -> None:
        """Forecast and learn in any order of events; see `swapcal.kernels.experts.run_experts`."""
        dim = dims[rows[0]] if len(rows) == 1 else dims[rows].max(initial=0)
        self._reserve(keys.shape[1], int(dim))
        events = rows, labels, weights, memory, probabilities
        run_experts(self._bank, keys, values, x, dims, self.view, given, *events, self._work)

    def step_one(self, row: Row, dim: int, label: Array, weight: Array = ONCE) -> None:
        """Do as `step` with one event about one row, which has `dim` coordinates."""
        entries = row.keys.shape[1]
        if entries > self._reserved[0] or dim > self._reserved[1]:
            self._reserve(entries, dim)
            self._reserved = entries, dim
        features = row.keys, row.values, row.x, row.dims, self.view, row.scores
        run_one.call(self._bank, *features, ONLY, label, weight, row.memory, row.judged, self._work)

    def _reserve(self, entries: int, dim: int) -> None:
        """Make room for rows with this many entries and coordinates."""
        coordinates = 1 + max(dim - self.view.first, 0)
        if coordinates > self._bank.newton.weights.shape[1]:
            self._bank = self._bank._replace(newton=grown(self._bank.newton, coordinates))
        width = self._bank.newton.weights.shape[1]
        if entries > self._work.slots.shape[0] - 1 or width > self._work.context.shape[0]:
            self._work = _work(max(entries, self._work.slots.shape[0] - 1), width, self.memory_width)

    def user_scores(self, memory: Array) -> Array:
        """Return the users' scores, within 10⁻⁴ of 0 and 1; where missing, ½ or what experts start from."""
        return _chance(memory[..., 1 + EXPERTS : 1 + EXPERTS + self.scores])

    @property
    def belief(self) -> float:
        """The trust in the users' scores as given, against everything learned, from 0 to 1."""
        return float(self._bank.counts[TRUST])

    def base_rate(self, memory: Array) -> float:
        """Return the rate of the labels known when a row was forecast; ½ before the first."""
        return float(_chance(memory[self._bank.weights.shape[1] + ISSUED_BASE]))

    def members(self, memory: Array) -> list[tuple[float, float]]:
        """Return the members of the blend: the present share of each, and its probability for a row.

        In order: the stack of all others, the experts, the users' scores, the base rate.
        """
        shares, inputs = np.zeros(len(self._bank.merits)), self._bank.weights.shape[1]
        share_blend(self._bank, shares)
        probabilities = _chance(memory[[inputs + ISSUED_STACK, *range(1, inputs), inputs + ISSUED_BASE]])
        return [*zip(shares.tolist(), probabilities.tolist(), strict=True)]

    def to_state(self) -> State:
        """Return the state; the tables keep only rows that have learned something."""
        arrays: dict[str, AnyArray] = {name: getattr(self._bank, name).copy() for name in DENSE}
        for name, experts in TABLES:
            table = getattr(self._bank, name)
            used = _used(table, experts)
            arrays |= {f"{name}_used": used, name: table[used]}
        arrays |= {f"newton.{name}": array.copy() for name, array in self._bank.newton._asdict().items()}
        return State(arrays, {"scores": self.scores})

    @classmethod
    def from_state(cls, state: State, view: View = NO_FEATURES, size: str = FULL, *, models: int = 0) -> "Experts":
        """Rebuild from `to_state`; the state must have been checked."""
        arrays, manifest = state
        experts = cls(int(manifest["scores"]), view, models, size)
        for name, _ in TABLES:
            getattr(experts._bank, name)[arrays[f"{name}_used"]] = arrays[name]
        for name in DENSE:
            held = getattr(experts._bank, name)
            held[:] = 0.0  # files of earlier releases lack these
            held[tuple(slice(size) for size in arrays[name].shape)] = arrays[name]
        experts.nearest = experts._nearest()
        newton = Newton(*(np.array(arrays[f"newton.{name}"], order="C") for name in Newton._fields))
        experts._bank = experts._bank._replace(newton=newton)
        return experts


def _chance(log_odds: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-np.asarray(log_odds)))


def _contexts(x: Array | None, n: int) -> tuple[Array, Integers]:
    """Return contexts and the number of coordinates of each."""
    x = np.full((n, 1), 0.5) if x is None else x
    return x, np.full(n, x.shape[1])


def _table(slots: int, width: int, experts: int) -> Single:
    """Return a table of zero weights and tiny sums of squares, its rows aligned to cache lines."""
    raw = np.zeros(slots * width + 16, np.float32)
    shift = (-raw.ctypes.data // 4) % 16
    table = raw[shift : shift + slots * width].reshape(slots, width)
    table[:] = _unused(width, experts)
    return table


def _unused(width: int, experts: int) -> Single:
    """Return a row that has learned nothing."""
    row = np.full(width, TINY, np.float32)
    row[:experts] = 0.0
    return row


def _used(table: Single, experts: int) -> Integers:
    """Return the rows that have learned something; bits are compared, many at once, as the tables are large."""
    width = table.shape[1]
    differs = table.view(np.uint64) != _unused(width, experts).view(np.uint64)
    return np.flatnonzero(differs.view(f"u{width // 2}"))


def _work(entries: int, width: int, inputs: int) -> Workspace:
    pairs = CROSSED * (CROSSED - 1) // 2
    total = 1 + entries + pairs
    return Workspace(
        np.zeros(1 + entries, np.int64),
        np.zeros(1 + entries, np.float32),
        np.zeros(total, np.int64),
        np.zeros(1 + entries, np.float32),
        np.zeros(1, np.float32),
        np.zeros(EXPERTS, np.float32),
        np.zeros(EXPERTS, np.float32),
        np.zeros(3, np.int64),
        np.zeros(inputs),
        np.zeros(padded(width)),
        np.zeros(padded(width)),
        np.zeros(inputs),
        np.zeros(inputs),
    )


class ExpertModel(Protocol):
    """A user's own online model: the methods that `Live` calls."""

    def forecast(self, record: Mapping[str, Any], keys: Keys, values: Array) -> float:
        """Return a probability for one record; `keys`, `values` are its hashed features."""
        ...

    def learn(self, record: Mapping[str, Any], keys: Keys, values: Array, y: float) -> None:
        """Learn the record's label."""
        ...


def as_model(model: Any, span: Span = UNIT) -> ExpertModel:
    """Wrap a river classifier or a scikit-learn classifier with `partial_fit`; pass a `ExpertModel` through.

    Of outcomes in another range than [0, 1] regressors are wrapped, which give and learn them on their scale.
    """
    if hasattr(model, "forecast") and hasattr(model, "learn"):
        wrapped: ExpertModel = model
        return wrapped
    if span != UNIT:
        return _regressor(model, span)
    if hasattr(model, "predict_proba_one") and hasattr(model, "learn_one"):
        return _River(model)
    if hasattr(model, "partial_fit") and hasattr(model, "predict_proba"):
        return _PartialFit(model)
    raise TypeError(
        f"model: given {type(model).__name__}, expected predict_proba_one and learn_one (river), or predict_proba "
        "and partial_fit (scikit-learn)"
    )


def _regressor(model: Any, span: Span) -> ExpertModel:
    if hasattr(model, "predict_one") and hasattr(model, "learn_one") and not hasattr(model, "predict_proba_one"):
        return _RiverRegressor(model)
    if hasattr(model, "partial_fit") and hasattr(model, "predict") and not hasattr(model, "predict_proba"):
        return _PartialFitRegressor(model)
    raise TypeError(
        f"model: given {type(model).__name__} with outcomes in {span}, expected a regressor: predict_one and learn_one "
        "(river), or predict and partial_fit (scikit-learn)"
    )


class _RiverRegressor:
    def __init__(self, model: Any) -> None:
        self.model = model

    def forecast(self, record: Mapping[str, Any], keys: Keys, values: Array) -> float:
        return float(self.model.predict_one(dict(record)))

    def learn(self, record: Mapping[str, Any], keys: Keys, values: Array, y: float) -> None:
        self.model.learn_one(dict(record), y)


class _PartialFitRegressor:
    """Feeds hashed features, as `_PartialFit` does; NaN, a missing forecast, before the first label."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.started = hasattr(model, "n_features_in_")

    def forecast(self, record: Mapping[str, Any], keys: Keys, values: Array) -> float:
        return float(self.model.predict(_hashed(keys, values))[0]) if self.started else math.nan

    def learn(self, record: Mapping[str, Any], keys: Keys, values: Array, y: float) -> None:
        self.model.partial_fit(_hashed(keys, values), [y])
        self.started = True


class _River:
    def __init__(self, model: Any) -> None:
        self.model = model

    def forecast(self, record: Mapping[str, Any], keys: Keys, values: Array) -> float:
        proba = self.model.predict_proba_one(dict(record))
        return _probability(proba.get(True, proba.get(1, 0.0)) if proba else 0.5)

    def learn(self, record: Mapping[str, Any], keys: Keys, values: Array, y: float) -> None:
        self.model.learn_one(dict(record), y >= 0.5)


class _PartialFit:
    """Feeds hashed features, whose number never changes, to a model that cannot grow."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.started = hasattr(model, "classes_")

    def forecast(self, record: Mapping[str, Any], keys: Keys, values: Array) -> float:
        if not self.started:
            return 0.5
        classes = [float(c) for c in self.model.classes_]
        return _probability(self.model.predict_proba(_hashed(keys, values))[0][classes.index(1.0)])

    def learn(self, record: Mapping[str, Any], keys: Keys, values: Array, y: float) -> None:
        self.model.partial_fit(_hashed(keys, values), [int(y >= 0.5)], classes=[0, 1])
        self.started = True


def _hashed(keys: Keys, values: Array) -> Array:
    row = np.zeros((1, WIDTH))
    np.add.at(row[0], (keys % np.uint64(WIDTH)).astype(np.int64), values)
    return row / max(float(np.linalg.norm(row)), 1.0)


def _probability(p: Any) -> float:
    """Return a model's forecast in [0, 1]; NaN is a missing forecast."""
    return float(min(max(p, 0.0), 1.0)) if p == p else 0.5
