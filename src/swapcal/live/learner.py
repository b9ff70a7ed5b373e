"""Contexts, experts, models and engine as one learner of encoded rows."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapcal.archive.kind import part
from swapcal.arrays import Array
from swapcal.engine.forecast import Forecast
from swapcal.engine.forecaster import Forecaster
from swapcal.features import Contexts, Encoded
from swapcal.inputs import EventKeys, event_keys
from swapcal.kernels.draw import counted
from swapcal.kernels.experts import put_scores
from swapcal.kernels.state import TICKET
from swapcal.live.experts import Experts, Model, expert_names

Records = Sequence[Mapping[str, Any]] | None
Events = Sequence[object] | None
Counts = NDArray[np.int64] | int

BANK = len(expert_names())
PIECE = 4096  # rows handled at once: enough to amortise calls, few enough to stay in cache


class Composition:
    """What forecasts and learns, given rows that are encoded already; it knows no ids and no clocks."""

    def __init__(self, contexts: Contexts, models: dict[str, Model], engine: dict[str, Any]) -> None:
        self.contexts = contexts
        self.models = models
        self.bank = Experts(len(contexts.settings["scores"]) + len(models))
        self.forecaster: Forecaster | None = None
        self._engine = engine

    def play(self, encoded: Encoded, records: Records, y: Array, events: Events, counts: Counts) -> tuple[Array, Array]:
        """Forecast, then learn, row by row; return tickets (n, TICKET) and experts' probabilities.

        Rows whose events have no name are known to the draws by their values as given and their counts.
        """
        keys = _event_keys(encoded, events, counts)
        probabilities, tickets = np.zeros((len(y), BANK + len(self.models))), np.zeros((len(y), TICKET))
        for start in range(0, len(y), PIECE):
            stop = min(start + PIECE, len(y))
            self._judge_and_learn(encoded, records, y, start, stop, probabilities)
            for a, b in _equal_stretches(encoded.dims, start, stop):
                engine = self._sized(int(encoded.dims[a]))
                drawn: Any = EventKeys(keys[a:b])
                tickets[a:b] = engine.run(encoded.x[a:b, : engine.dim], y[a:b], drawn)._tickets
        return tickets, probabilities

    def issue(self, encoded: Encoded, records: Records, events: Events, counts: Counts) -> tuple[Array, Array, Array]:
        """Forecast rows from the present state; return tickets, experts' probabilities, and the bank's memory."""
        n, keys = len(encoded), _event_keys(encoded, events, counts)
        probabilities, tickets = np.zeros((n, BANK + len(self.models))), np.zeros((n, TICKET))
        for k in range(n if records is not None else 0):
            self._ask(records, encoded, k, probabilities[k, BANK:])
        given = np.hstack([encoded.scores, probabilities[:, BANK:]])
        memory, probabilities[:, :BANK] = self.bank.forecast(encoded.keys, encoded.values, given)
        put_scores(probabilities, self.contexts.reserved_weights, encoded.x)
        for a, b in _equal_stretches(encoded.dims, 0, n):
            engine = self._sized(int(encoded.dims[a]))
            drawn: Any = EventKeys(keys[a:b])
            tickets[a:b] = engine.predict_many(encoded.x[a:b, : engine.dim], drawn)._tickets
        return tickets, probabilities, memory

    def learn(self, keys: NDArray[np.uint64], values: Array, memory: Array, x: Array, tickets: Array, y: Array) -> None:
        """Learn labels of rows that were issued before, in the order given."""
        self.bank.learn(keys, values, memory, y)
        engine = self._sized(x.shape[1])
        engine.update(self.forecast(tickets, x, single=False, learned=False), y)

    def teach(self, record: Mapping[str, Any], keys: NDArray[np.uint64], values: Array, y: float) -> None:
        """Let the outside models learn one label."""
        for model in self.models.values():
            model.learn(record, keys, values, y)

    def forecast(self, tickets: Array, x: Array | None, *, single: bool, learned: bool) -> Forecast:
        """Return tickets as the engine's forecasts."""
        owner = "" if self.forecaster is None else self.forecaster._owner
        return Forecast(tickets, x, np.zeros((len(tickets), 0)), owner, single=single, learned=learned)

    def _judge_and_learn(
        self, encoded: Encoded, records: Records, y: Array, start: int, stop: int, probabilities: Array
    ) -> None:
        """Let models and experts forecast and learn row by row, and write their scores into x."""
        n, part = stop - start, slice(start, stop)
        if records is not None:
            for k in range(start, stop):
                self._ask(records, encoded, k, probabilities[k, BANK:])
                self.teach(records[k], encoded.keys[k], encoded.values[k], y[k])
        given = np.hstack([encoded.scores[part], probabilities[part, BANK:]])
        rows, labels = np.repeat(np.arange(n), 2), np.full(2 * n, np.nan)
        labels[1::2] = y[part]
        memory, judged = np.zeros((n, self.bank.memory_width)), np.zeros((n, BANK))
        self.bank.play(encoded.keys[part], encoded.values[part], given, rows, labels, memory, judged)
        probabilities[part, :BANK] = judged
        put_scores(probabilities[part], self.contexts.reserved_weights, encoded.x[part])

    def _ask(self, records: Any, encoded: Encoded, row: int, out: Array) -> None:
        for m, model in enumerate(self.models.values()):
            out[m] = model.forecast(records[row], encoded.keys[row], encoded.values[row])

    def _sized(self, dim: int) -> Forecaster:
        """Return the engine with at least `dim` coordinates."""
        if self.forecaster is None:
            prior = _blend(dim, float(self.contexts.reserved_weights[0]))
            self.forecaster = Forecaster(dim, **self._engine, prior=prior)
        elif dim > self.forecaster.dim:
            self.forecaster.grow(dim)
        return self.forecaster

    def to_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return (arrays, manifest)."""
        arrays: dict[str, NDArray[Any]] = {}
        manifest: dict[str, Any] = {}
        for name, learner in (("contexts", self.contexts), ("experts", self.bank)):
            found, manifest[name] = learner.to_state()
            arrays |= {f"{name}.{key}": array for key, array in found.items()}
        manifest["forecaster"] = None
        if self.forecaster is not None:
            found, manifest["forecaster"] = self.forecaster.to_state()
            arrays |= {f"forecaster.{key}": array for key, array in found.items()}
        return arrays, manifest

    def restore(self, arrays: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any]) -> None:
        """Take over a state from `to_state`."""
        self.contexts = Contexts.from_state(part("contexts", arrays), manifest["contexts"])
        self.bank = Experts.from_state(part("experts", arrays), manifest["experts"])
        if manifest["forecaster"] is not None:
            self.forecaster = Forecaster.from_state(part("forecaster", arrays), manifest["forecaster"])


def _blend(dim: int, weight: float) -> Array:
    """Return θ_0 with ⟨θ_0, x⟩ = the blend's probability.

    Before the first label the mean forecast is then the blend's, and few labels cost little.
    """
    prior = np.zeros(dim)
    prior[:2] = 1.0, 0.5 / weight
    return prior


def _event_keys(encoded: Encoded, events: Events, counts: Counts) -> NDArray[np.uint64]:
    return counted(encoded.marks, counts) if events is None else event_keys([*events], len(encoded))


def _equal_stretches(dims: NDArray[np.int64], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut rows where coordinates appeared, so that the engine grows exactly there."""
    cuts = [start, *(start + 1 + np.flatnonzero(np.diff(dims[start:stop]))).tolist(), stop]
    return ((a, b) for a, b in itertools.pairwise(cuts) if b > a)
