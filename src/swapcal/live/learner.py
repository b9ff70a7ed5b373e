"""`Learner`: contexts, experts, models and engine as one learner of encoded rows."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from swapcal._validate import MOST_RIDGE, UNIT, event_key, event_keys
from swapcal.archive import State, nested, part
from swapcal.arrays import AnyArray, Array, Flags, Integers, Keys
from swapcal.engine.certificate import Certificate, IssuedErrors
from swapcal.engine.forecast import Forecast
from swapcal.engine.forecaster import MOST_DIM, NO_MIX, Forecaster
from swapcal.engine.groups import GroupCertificate, GroupErrors
from swapcal.engine.sparse import SparseForecaster
from swapcal.features import Contexts, Encoded
from swapcal.features.column import features_norm
from swapcal.kernels.draw import counted
from swapcal.kernels.encode import ENTRIES
from swapcal.kernels.experts import View, put_scores
from swapcal.kernels.jit import DirectCall
from swapcal.kernels.state import ROUNDING, T_MEAN, T_P, T_SLOT_LOW, TICKET
from swapcal.live.experts import FULL, NEAREST, ONCE, ExpertModel, Experts, Row, Rows, expert_names
from swapcal.live.unseen import FAIR, Unseen, coin, coins, neighbouring_level

Allowances = Mapping[int, tuple[float, float]]
"""of some rows, the share of outcomes not seen and the factor of their odds"""
NO_ALLOWANCES: Allowances = MappingProxyType({})
BANK = len(expert_names())
FIRST = np.zeros(1, np.int64)
FIRM = 32.0
"""By how much larger λ is while users' scores are believed: each weight learned costs something, also where they are
the truth, and three quarters of that are each level's own shift."""
BELIEVED = 0.001
"""Belief in the scores as given below which they no longer hold the levels: of true ones it rarely falls so far."""
EVERY = 64
"""Labels after which it is looked at again."""
put_scores_of_one = DirectCall(put_scores)


class Learner:
    """Forecasts and learns encoded rows; ids and clocks are handled elsewhere."""

    def __init__(
        self, contexts: Contexts, models: dict[str, ExpertModel], engine: dict[str, Any], size: str = FULL
    ) -> None:
        self.contexts = contexts
        self.size = size
        self.models = models
        self.unseen = Unseen(FAIR)
        self.span = contexts.span
        """of the outcomes as callers give them; here all are shares of it, but for outside models"""
        self.experts = Experts(len(contexts.settings["scores"]) + len(models), _view(contexts), len(models), size)
        self.forecaster: Forecaster | None = None
        self._engine = engine
        self._row: Row | None = None
        """room for one record, as long as they are encoded in the same arrays"""

    @property
    def reach(self) -> int:
        """Number of coordinates that the engine reads; with size "small" those of the blend and of scores."""
        return MOST_DIM if self.size == FULL else 1 + len(self.contexts.reserved_weights) + self.experts.scores

    @property
    def opinions(self) -> int:
        """Number of probabilities behind a forecast: the blend, the experts, the models."""
        return BANK + len(self.models)

    def rows(self, encoded: Encoded, names: Sequence[object] | None, counts: "Integers | int") -> Rows:
        """Return encoded rows to be forecast; the draws of rows without names follow from their values and counts."""
        n, models = len(encoded), len(self.models)
        draws = counted(encoded.marks, counts) if names is None else event_keys([*names], n)
        scores = np.hstack([encoded.scores, np.full((n, models), np.nan)]) if models else encoded.scores
        blank = np.zeros((n, self.experts.memory_width)), np.zeros((n, self.opinions)), np.zeros((n, TICKET))
        groups = np.zeros((n, 0), np.uint64) if encoded.groups is None else encoded.groups
        return Rows(encoded.x.copy(), encoded.dims, encoded.keys, encoded.values, scores, draws, *blank, groups)

    def row(self, record: Mapping[str, Any], name: object) -> Rows:
        """Return one record encoded, to be forecast; a `Row` is valid until the next call."""
        encoded = None if self.models else self.contexts.encode_alone(record)
        if encoded is None:
            return self.rows(self.contexts.encode(record), [name], 0)
        row = self._row
        if row is None or row.x is not encoded.x:
            blank = np.zeros((1, self.experts.memory_width)), np.zeros((1, self.opinions)), np.zeros((1, TICKET))
            features = encoded.x, encoded.dims, encoded.keys, encoded.values, encoded.scores
            self._row = row = Row(*features, np.zeros(1, np.uint64), *blank, np.zeros((1, 0), np.uint64))
        row.draws[0] = event_key(name)
        return row

    def step(
        self, rows: Rows, order: Integers, labels: Array, weights: Array = ONCE, allowances: Allowances = NO_ALLOWANCES
    ) -> None:
        """Go through events in order: row order[k] is forecast where labels[k] is NaN, and learned elsewhere.

        A row that is forecast here may be learned here as the next event only if its forecast does not allow for
        outcomes not seen, and as a later one only where `learns_later`. Labels count weights[k] times.
        """
        if type(rows) is Row:
            self._step_one(rows, labels, weights)
        elif self.is_firm:
            for a, b in itertools.pairwise([0, *self._looks(labels), len(order)]):
                if a < b:
                    some = weights if len(weights) == 1 else weights[a:b]
                    self._step_many(rows, order[a:b], labels[a:b], some, allowances)
                    self._look()
        else:
            self._step_many(rows, order, labels, weights, allowances)

    learns_later = True
    """Whether `step` may learn a row some events after its forecast."""

    @property
    def is_firm(self) -> bool:
        """Whether λ is larger because users' scores have been trusted so far."""
        if not self.experts.scores or self._first_ridge() == self._engine["ridge"]:
            return False
        engine = self.forecaster
        return engine is None or (not engine.rounds_before_ridge and engine.ridge >= self._first_ridge())

    def _first_ridge(self) -> float:
        """Return the λ that engines start with; at its limit it is not raised."""
        own = float(self._engine["ridge"])
        firm = own * FIRM if self.experts.scores else own
        return firm if firm <= MOST_RIDGE else own

    def _looks(self, labels: Array) -> list[int]:
        """Return the numbers of events, after labels, at which the trust in the scores is checked."""
        known = np.flatnonzero(~np.isnan(labels))
        learned = 0 if self.forecaster is None else self.forecaster.rounds
        return [1 + event for event in known[EVERY - 1 - learned % EVERY :: EVERY].tolist()]

    def _look(self) -> None:
        """Reduce λ to its value without scores, once the trust in these is low.

        The regressions of the levels are then the solutions with that λ on all labels learned.
        """
        engine = self.forecaster
        if engine is None or engine.rounds % EVERY or self.experts.belief >= BELIEVED:
            return
        if self.is_firm and engine.rounds:
            engine.set_ridge(engine.ridge / FIRM)

    def _step_many(self, rows: Rows, order: Integers, labels: Array, weights: Array, allowances: Allowances) -> None:
        features = rows.keys, rows.values, rows.x, rows.dims, rows.scores
        self.experts.step(*features, order, labels, rows.memory, rows.judged, weights)
        self._play(rows, allowances, *_engine_events(order, labels, weights))

    def _play(
        self,
        rows: Rows,
        allowances: Allowances,
        order: Integers,
        y: Array,
        counts: Array | None,
        issuing: Flags,
    ) -> None:
        """Let the engine issue and learn, after the experts."""
        in_order = np.array_equal(order, np.arange(len(rows)))
        fresh: Integers | slice = slice(None) if in_order and issuing.all() else order[issuing]
        if issuing.any():
            x = rows.x[fresh]
            put_scores(rows.judged[fresh], self.contexts.reserved_weights, x)
            if not isinstance(fresh, slice):  # else x is no copy
                rows.x[fresh] = x
            rows.ticket[fresh, T_SLOT_LOW] = -1.0
            rows.ticket[fresh, T_MEAN] = self._allowed(rows.scores[fresh])
        needed = np.minimum(np.maximum.accumulate(np.where(issuing, rows.dims[order], 0)), self.reach)
        moved, others = self._moved(rows, order[issuing], np.flatnonzero(issuing), y, allowances)
        again = [] if in_order else _learned_again(order, issuing, len(rows))
        for a, b in equal_stretches(needed, [*moved, *again]):
            engine, part = self._sized(int(needed[a])), slice(a, b) if in_order else order[a:b]
            tickets = rows.ticket[part]
            engine.play(_padded(rows.x, part, engine.dim), y[a:b], rows.draws[part], tickets, _part(counts, a, b))
            if not in_order:
                rows.ticket[part] = tickets
            for row, draw in moved.get(b, ()):
                self._allow(rows, row, *allowances[row], draw)
            if others is not None and (b == len(y) or b in again):
                others = self._move(rows, b, *others)

    def _move(
        self, rows: Rows, end: int, at: Integers, events: Integers, shares: Array, factors: Array
    ) -> tuple[Integers, Integers, Array, Array]:
        """Let the means of the rows forecast before an event allow for outcomes not seen; return the other rows."""
        n = int(np.searchsorted(events, end))
        some, scores = at[:n], rows.scores[at[:n]]
        rows.ticket[some, T_MEAN] = self.unseen.moved_many(rows.ticket[some, T_MEAN], shares[:n], factors[:n], scores)
        return at[n:], events[n:], shares[n:], factors[n:]

    def _moved(
        self, rows: Rows, fresh: Integers, events: Integers, y: Array, allowances: Allowances
    ) -> "tuple[dict[int, list[tuple[int, float]]], tuple[Integers, Integers, Array, Array] | None]":
        """Return the rows whose level is drawn around the prior, and the others with an allowance.

        The former come with their coins, by the number of events after which it is drawn: a label may split a level,
        so it is drawn before the next label is learned. The latter come with the numbers of their events, shares and
        factors.
        """
        if not allowances:
            return {}, None
        chosen = [k for k, row in enumerate(fresh.tolist()) if row in allowances]
        at, events = fresh[chosen], events[chosen]
        shares, factors = np.array([allowances[row] for row in at.tolist()]).reshape(-1, 2).T
        draws = np.array(coins(self._engine["seed"], rows.draws[at].tolist()))
        drawn = draws < shares
        moved: dict[int, list[tuple[int, float]]] = {}
        labelled = np.append(np.flatnonzero(~np.isnan(y)), len(y))
        ends = labelled[np.searchsorted(labelled, events[drawn], side="right")]
        for end, row, draw in zip(ends.tolist(), at[drawn].tolist(), draws[drawn].tolist(), strict=True):
            moved.setdefault(end, []).append((row, draw))
        return moved, (at[~drawn], events[~drawn], shares[~drawn], factors[~drawn])

    def _allowed(self, scores: Array) -> Array:
        """Return how near to 0 and 1 each row's forecast may be, however few labels are known.

        It may be as near as a score or the prior base rate; like the experts' inputs, scores are kept 10⁻⁴ away.
        """
        given = scores[:, : len(self.contexts.settings["scores"])]
        ends: Array = np.fmin(given, 1.0 - given).min(axis=1, initial=self.experts.nearest, where=~np.isnan(given))
        return np.maximum(ends, NEAREST)

    def _step_one(self, row: Row, label: Array, weight: Array) -> None:
        """Step through one event of one row, faster than `_step_many`."""
        x, dim, engine, y = row.x, row.dims.item(), self.forecaster, label.item()
        self.experts.step_one(row, dim, label, weight)
        if y != y:
            dim = min(dim, self.reach)
            put_scores_of_one.call(row.judged, self.contexts.reserved_weights, x)
            row.ticket[0, T_SLOT_LOW] = -1.0
            row.ticket[0, T_MEAN] = self._allowed(row.scores)[0] if row.scores.shape[1] else self.experts.nearest
            if engine is None or engine.dim < dim:
                engine = self._sized(dim)
        assert engine is not None, "a row is learned after it was forecast"
        if x.shape[1] != engine.dim:
            x = _padded(x, FIRST, engine.dim)
        if weight is ONCE or weight[0] == 1.0:
            engine.play_one(x, label, row.draws, row.ticket)
        else:
            engine.play(x, label, row.draws, row.ticket, weight)
        if self.experts.scores and y == y:
            self._look()

    def allow(self, rows: Rows, row: int, share: float, factor: float) -> None:
        """Let a row's forecast allow for a share of outcomes not seen, with odds that differ by at most a factor.

        With a probability of that share the level issued is one around their mean. The coin does not depend on the
        label, and levels learn the label of the level that they would have issued without it.
        """
        self._allow(rows, row, share, factor, self._coin(rows, row))

    def _coin(self, rows: Rows, row: int) -> float:
        return coin(self._engine["seed"], int(rows.draws[row]))

    def _allow(self, rows: Rows, row: int, share: float, factor: float, draw: float) -> None:
        ticket, unseen = rows.ticket[row], self.unseen
        belief = unseen.believed(rows.scores[row])
        ticket[T_MEAN], other = unseen.moved(float(ticket[T_MEAN]), share, factor, belief)
        if draw < share:
            levels = None if self.forecaster is None else self.forecaster.levels
            ticket[T_P] = other if levels is None else neighbouring_level(levels, other, draw / share)

    def consult(self, rows: Rows, row: int, record: Mapping[str, Any]) -> None:
        """Return the outside models' forecasts of one record."""
        if not self.models:
            return
        for m, model in enumerate(self.models.values()):
            given = model.forecast(record, rows.keys[row], rows.values[row])
            rows.judged[row, BANK + m] = given if self.span == UNIT else self.span.clipped(given)
        rows.scores[row, rows.scores.shape[1] - len(self.models) :] = rows.judged[row, BANK:]

    def teach(self, record: Mapping[str, Any], keys: Keys, values: Array, y: float) -> None:
        """Let the outside models learn one label."""
        for model in self.models.values():
            model.learn(record, keys, values, self.span.value(y))

    def expect_late(self, late: int) -> None:
        """Prepare for labels that come `late` forecasts after theirs, before any label was learned.

        With late labels the same surprise counts many times before anything is learned from it, so the engine starts
        with a larger λ, which keeps it near the experts' blend.
        """
        assert self.forecaster is not None, "a label was forecast"
        self.forecaster.set_ridge(min(self._first_ridge() * (1.0 + late), MOST_RIDGE))

    def preview(self, rows: Rows, share: float, factor: float, *, single: bool = False) -> Forecast:
        """Return forecasts without opening them; they allow for a share of outcomes not seen."""
        engine = self.forecaster
        try:
            self.step(rows, np.arange(len(rows)), np.full(len(rows), np.nan))
            for row in range(len(rows) if share > 0.0 else 0):
                self.allow(rows, row, share, factor)
            return self.forecast(rows.ticket, rows.x, single=single)
        finally:
            if engine is None:  # before the first record there is none, and a preview must not leave one
                self.forecaster = None

    def forecast(self, tickets: Array, x: Array | None = None, *, single: bool = False) -> Forecast:
        """Return tickets as the engine's forecasts; with `single` an open one."""
        owner = "" if self.forecaster is None else self.forecaster.owner
        mixes = NO_MIX if single else np.zeros((len(tickets), 0))
        return Forecast(tickets, x, mixes, owner, single=single, learned=not single, span=self.span)

    def checked(self, encoded: Encoded) -> Encoded:
        """Refuse rows that these contexts did not make of records."""
        contexts = self.contexts
        n, dim, width = len(encoded.dims), contexts.dim, encoded.x.shape[1]
        entries, scores = encoded.keys.shape, (n, len(contexts.settings["scores"]))
        foreign = width > dim or len(entries) != 2 or entries[0] != n or entries[1] % ENTRIES
        shaped = encoded.x.shape == (n, width) and encoded.values.shape == entries and encoded.scores.shape == scores
        if not shaped or foreign or entries[1] > contexts.entries:
            raise ValueError(
                f"records: given encoded rows of other shapes than these contexts make, x {encoded.x.shape}"
            )
        first = 1 + len(contexts.reserved_weights)
        room = 0.75 + ROUNDING - float(np.sum(contexts.reserved_weights**2))
        inside = np.sum(encoded.x[:, first:] ** 2, axis=1) <= room  # false for NaN too
        grown = np.diff(encoded.dims, prepend=first) >= 0
        if not (inside.all() and grown.all() and np.isfinite(encoded.values).all() and (encoded.dims <= width).all()):
            raise ValueError(
                "records: given encoded rows that are no contexts, expected what `contexts.encode` returned"
            )
        return encoded

    def certificate(self, window: float | None = None, *, weighted: bool = False) -> Certificate:
        """Return the engine's certificate; before the first record that of a new engine."""
        engine = self._new_engine(min(self.contexts.dim, self.reach)) if self.forecaster is None else self.forecaster
        result = engine.weighted_certificate(window) if weighted else engine.certificate(window)
        return result if self.span == UNIT else result.scaled(self.span.width)

    def issued_errors(self) -> IssuedErrors | None:
        """Return the errors of the levels issued; None before the first label."""
        if self.forecaster is None or not self.forecaster.rounds:
            return None
        issued = self.forecaster.issued_errors()
        return issued if self.span == UNIT else issued.scaled(self.span.width)

    def _new_engine(self, dim: int) -> Forecaster:
        prior = _blend(dim, float(self.contexts.reserved_weights[0]))
        return Forecaster(dim, levels="inner", **{**self._engine, "ridge": self._first_ridge()}, prior=prior)

    def _sized(self, dim: int) -> Forecaster:
        """Return the engine with at least `dim` coordinates."""
        if self.forecaster is None:
            self.forecaster = self._new_engine(dim)
        elif dim > self.forecaster.dim:
            self.forecaster.grow(dim)
        return self.forecaster

    def to_state(self) -> State:
        """Return all parts."""
        engine = None if self.forecaster is None else self.forecaster.to_state()
        return nested(contexts=self.contexts.to_state(), experts=self.experts.to_state(), forecaster=engine)

    def restore(self, state: State) -> None:
        """Take over a state from `to_state`."""
        self.contexts = Contexts.from_state(part(state, "contexts"))
        self.contexts.span = self.span
        models, view = len(self.models), _view(self.contexts)
        self.experts = Experts.from_state(part(state, "experts"), view, self.size, models=models)
        if state.manifest["forecaster"] is not None:
            self._restore_engine(part(state, "forecaster"))

    def _restore_engine(self, state: State) -> None:
        self.forecaster = Forecaster.from_state(state)


class SparseLearner(Learner):
    """The learner with the engine for very many groups: each value of a hashed column, or pair of values, is one.

    The levels compete with the corrections of single groups, with the blend and with the users' scores and models as
    the experts use them.
    """

    forecaster: SparseForecaster | None  # type: ignore[assignment]
    is_firm = False
    """Exponential weights have no penalty to choose."""
    learns_later = False

    def __init__(
        self,
        contexts: Contexts,
        models: dict[str, ExpertModel],
        engine: dict[str, Any],
        hashed: list[tuple[str, ...]],
        size: str = FULL,
    ) -> None:
        super().__init__(contexts, models, engine, size)
        self.contexts.hashed = hashed

    def row(self, record: Mapping[str, Any], name: object) -> Rows:
        """Return one record encoded, to be forecast."""
        encoded = None if self.models else self.contexts.encode_alone(record)
        return self.rows(self.contexts.encode(record) if encoded is None else _owned(encoded), [name], 0)

    def _play(
        self,
        rows: Rows,
        allowances: Allowances,
        order: Integers,
        y: Array,
        counts: Array | None,
        issuing: Flags,
    ) -> None:
        """Let the engine issue and learn; a row is one event, because its label is learned with its forecast or alone.

        The groups, the blend and the scores are kept with open rows bit for bit, so a label is learned as issued.
        """
        fresh = order[issuing]
        x = rows.x[fresh]
        put_scores(rows.judged[fresh], self.contexts.reserved_weights, x)
        rows.x[fresh] = x
        rows.ticket[fresh, T_SLOT_LOW] = -1.0
        scores = np.column_stack([rows.judged[order, 0], self.experts.user_scores(rows.memory[order])])
        tickets = rows.ticket[order]
        self._engine_of().play(rows.groups[order], scores, y, rows.draws[order], tickets, counts)
        rows.ticket[order] = tickets
        for row in fresh.tolist() if allowances else ():
            if row in allowances:  # levels are never split here, so the moment does not matter
                self.allow(rows, row, *allowances[row])

    def expect_late(self, late: int) -> None:
        """Do nothing: exponential weights have no penalty to choose."""

    def forecast(self, tickets: Array, x: Array | None = None, *, single: bool = False) -> Forecast:
        """Return tickets as forecasts without contexts, which this engine does not read."""
        return Forecast(
            tickets, x, NO_MIX if single else np.zeros((len(tickets), 0)), "", single=single, learned=not single
        )

    def checked(self, encoded: Encoded) -> Encoded:
        """Refuse rows that these contexts did not make of records."""
        expected = len(encoded.dims), len(self.contexts.hashed)
        given = None if encoded.groups is None else encoded.groups.shape
        if given != expected:
            raise ValueError(
                f"records: given encoded rows with groups {given}, expected {expected}, as these contexts make"
            )
        return super().checked(encoded)

    def certificate(self, window: float | None = None, *, weighted: bool = False) -> GroupCertificate:  # type: ignore[override]
        """Return the exact errors over all groups; the engine itself counts weighted labels."""
        if window is not None:
            raise ValueError(
                f'window: given {window!r} with learner "sparse", expected None: its levels weight all labels alike'
            )
        return (self._new_sparse() if self.forecaster is None else self.forecaster).certificate()

    def issued_errors(self) -> GroupErrors | None:  # type: ignore[override]
        """Return the errors of the levels issued; None before the first label."""
        return self.forecaster.certificate().issued if self.forecaster is not None and self.forecaster.rounds else None

    def _engine_of(self) -> SparseForecaster:
        if self.forecaster is None:
            self.forecaster = self._new_sparse()
        return self.forecaster

    def _new_sparse(self) -> SparseForecaster:
        return SparseForecaster(len(self.contexts.hashed), scores=1 + self.experts.scores, seed=self._engine["seed"])

    def restore(self, state: State) -> None:
        """Take over a state from `to_state`."""
        hashed = self.contexts.hashed
        super().restore(state)
        self.contexts.hashed = hashed

    def _restore_engine(self, state: State) -> None:
        self.forecaster = SparseForecaster.from_state(state)


def _owned(encoded: Encoded) -> Encoded:
    """Return a copy of a row that is valid only until the next one."""
    parts = {name: array.copy() for name, array in vars(encoded).items()}
    return Encoded(**parts)


def _view(contexts: Contexts) -> View:
    """Return the position of the raw features in a context."""
    first = 1 + len(contexts.settings["reserved"]) + len(contexts.settings["scores"])
    return View(first, features_norm(contexts.settings))


def _blend(dim: int, weight: float) -> Array:
    """Return θ_0 with ⟨θ_0, x⟩ = the blend's probability.

    Before the first label the mean forecast is then the blend's, and few labels cost little.
    """
    prior = np.zeros(dim)
    prior[:2] = 1.0, 0.5 / weight
    return prior


def _engine_events(order: Integers, labels: Array, weights: Array) -> tuple[Integers, Array, Array | None, Flags]:
    """Return (rows, labels, weights, whether they are forecast), forecast and label in one event if they are next.

    The weights are None if all are 1.
    """
    issuing = np.isnan(labels)
    at_once = np.flatnonzero(issuing[:-1] & ~issuing[1:] & (order[:-1] == order[1:]))
    y = labels.copy()
    y[at_once] = labels[at_once + 1]
    kept = np.ones(len(order), bool)
    kept[at_once + 1] = False
    if (weights == 1.0).all():
        return order[kept], y[kept], None, issuing[kept]
    counts = np.broadcast_to(weights, len(labels)).copy()
    counts[at_once] = counts[at_once + 1]
    return order[kept], y[kept], counts[kept], issuing[kept]


def _learned_again(order: Integers, issuing: Flags, rows: int) -> list[int]:
    """Return the events before which the engine's tickets must be read again: of rows forecast since the last one."""
    forecast = np.full(rows, -1)
    forecast[order[issuing]] = np.flatnonzero(issuing)
    since, cuts = np.where(issuing, -1, forecast[order]), [0]
    for event in np.flatnonzero(since >= 0).tolist():
        if since[event] >= cuts[-1]:
            cuts.append(event)
    return cuts[1:]


def _part(counts: Array | None, a: int, b: int) -> Array | None:
    return None if counts is None else counts[a:b]


def _padded(x: Array, rows: "Integers | slice", dim: int) -> Array:
    """Return rows of x with `dim` coordinates; new ones are 0."""
    if x.shape[1] == dim:
        return x[rows]
    width = min(dim, x.shape[1])
    some = x[rows, :width]
    out = np.zeros((len(some), dim))
    out[:, :width] = some
    return out


def equal_stretches(values: AnyArray, others: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
    """Cut where a value changes, and at other places."""
    cuts = [0, *(1 + np.flatnonzero(np.diff(values))).tolist(), len(values)]
    cuts = sorted([*cuts, *others]) if others else cuts
    return ((a, b) for a, b in itertools.pairwise(cuts) if b > a)
