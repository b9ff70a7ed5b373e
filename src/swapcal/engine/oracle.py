"""`OracleForecaster`: the engine's levels with a learner of the user's own on each of them."""

import copy
import os
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate, archive
from swapcal._display import counted, display
from swapcal._locking import CopyableLock, Writable, locked
from swapcal.archive import (
    MOST_COUNT,
    MOST_INTEGER,
    TEXT,
    TRUTH,
    Field,
    Rule,
    Settings,
    Shapes,
    State,
    below,
    inside,
    nested,
    one_of,
    optional,
    parted,
    whole,
)
from swapcal.arrays import Array
from swapcal.engine import grid, oracle_mixture
from swapcal.engine import state as memory
from swapcal.engine.forecast import Forecast
from swapcal.engine.forecaster import MIXINGS, MOST_DIM, NO_MIX, SPARE_SLOTS, Levels, check_combination, entry
from swapcal.engine.oracle_certificate import OracleCertificate, OracleRun, certify_oracles
from swapcal.engine.oracle_mixture import (
    LearnedRow,
    Make,
    Oracle,
    OracleMixture,
    check_distinct,
    learners,
    make_oracle,
    oracle_input,
    regret_of,
)
from swapcal.kernels.draw import uniform
from swapcal.kernels.mixing import hedge_gap, hedge_weight, round_to_levels, stationary
from swapcal.kernels.state import (
    CODES_ADAPTIVE,
    FIXED,
    INNER,
    LEVELS,
    RIDGE_LEARNER,
    UPDATES,
    Memory,
    RunOptions,
    all_known,
)

__all__ = ["Oracle", "OracleForecaster"]

RIDGE, KAPPA = 1.0, 0.2
"""λ and κ of the levels, the defaults of `Forecaster`."""
MOST_WEIGHT = 1e100
"""Certificates take squares of sums of weights, which overflow beyond 1e154."""
CONSTANT = np.array([[0.5]])
"""The context of every row where no ridge learner reads contexts."""

OWN_RULES = {
    "mixing": one_of(*MIXINGS),
    "uniform": TRUTH,
    "ridge": TRUTH,
    "dim": optional(whole(1, MOST_DIM)),
    "owner": TEXT,
    "history": whole(-MOST_INTEGER - 1),
    "late": whole(0, MOST_COUNT),
    "heavy": whole(0, MOST_COUNT),
}
RULES: dict[str, Rule] = {"levels": parted(OWN_RULES), "oracles": parted(oracle_mixture.RULES)}


def fields(settings: Settings, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays of a state from `OracleForecaster.save`."""
    own, learners = settings["levels"], settings["oracles"]
    mixing = MIXINGS[own["mixing"]]
    levels = memory.fields(own["dim"] or 1, RIDGE_LEARNER, mixing, inside("levels", shapes))
    return below("levels", levels) | below("oracles", oracle_mixture.fields(learners, inside("oracles", shapes)))


FILE = archive.Kind("oracle forecaster", 1, RULES, fields)


class OracleForecaster(Writable):
    """Issue probabilities with small swap regret against any class that an online regression algorithm can learn.

    Each level has an oracle, a learner that wishes for a probability before the label and gets a weighted squared loss
    after it (`Oracle`). A forecast plays two neighbouring levels, mixed so that their mean equals the mean of what
    their oracles wish. For any oracles, any class F, any labels and any delay

        PSReg_F = Σ_t D_t + Σ_v [Σ α(w - y)² - inf_F Σ α(f(x) - y)²],

    where D_t is known when the forecast is issued and w are the wishes as issued; `certificate` computes it. A row
    costs 2 + log2 of the number of levels in predictions of oracles, and two updates.

    Parameters
    ----------
    make : level → oracle, one of its own for each level; see `swapcal.oracles` for some.
    levels : an integer N (levels i/N), "sine" or "sine:N", an increasing array from 0 to 1, or "adaptive", which
        needs oracles with `newborn`: how the oracle of a new level starts.
    beside : learners that join the oracle on every level: "ridge", the engine's own, for which x must be an array in
        X (first coordinate ½, norm at most 1), and further functions as `make`. Exponential weights combine them, at
        a cost of at most 2 ln M a level for M learners, labels on time and weights up to 1. () for none: then x may be
        anything the oracle reads.
    seed : of the draws between levels.
    mixing : "hedge" (two neighbouring levels) or "blum-mansour" (a stationary distribution over all levels, as in the
        paper; every oracle predicts in every row).
    log : whether to keep the rows learned, which `certificate` needs to compare with the best functions in hindsight.

    Examples
    --------
    >>> import numpy as np
    >>> from swapcal import OracleForecaster
    >>> from swapcal.oracles import FiniteClass
    >>> rules = [lambda x: 0.1 + 0.8 * (x["age"] > 40), lambda x: 0.5, lambda x: 0.3]
    >>> forecaster = OracleForecaster(lambda level: FiniteClass(rules), levels=8, beside=())
    >>> rng = np.random.default_rng(0)
    >>> for age in rng.integers(20, 60, 500).tolist():
    ...     forecast = forecaster.predict({"age": age})
    ...     forecaster.update(forecast, rng.random() < 0.1 + 0.8 * (age > 40))
    >>> certificate = forecaster.certificate()
    >>> lower, upper = certificate.psreg
    >>> bool(lower <= upper <= certificate.bound <= certificate.theorem)
    True
    """

    def __init__(
        self,
        make: Make,
        *,
        levels: Levels = 16,
        beside: "Sequence[str | Make]" = ("ridge",),
        seed: int = 0,
        mixing: str = "hedge",
        log: bool = True,
    ) -> None:
        z, refines = grid.starting(levels)
        if refines == INNER:
            raise ValueError('levels: given "inner", expected "adaptive", "sine", "sine:N", an integer or an array')
        self._adaptive = refines != FIXED
        check_combination("ridge", mixing, self._adaptive)
        self._makes, self._ridge = learners(make, beside)
        self._uniform = not self._adaptive and isinstance(levels, (int, np.integer))
        self._mixing = mixing
        self._seed = np.uint64(_validate.event_key(_validate.seed(seed)))
        self._owner = secrets.token_hex(8)
        self._dim: int | None = None if self._ridge else 1
        self._state = self._allocated(z, 1)
        self._scratch = memory.scratch(self._state)
        self._mixtures = [self._mixture_at(level) for level in z.tolist()]
        check_distinct(self._mixtures, self._adaptive)
        self._sort()
        self._history, self._late, self._heavy = 0, 0, 0
        self._log: list[LearnedRow] | None = [] if log else None
        self._lock = CopyableLock()

    @property
    def levels(self) -> Array:
        """The levels in use, increasing from 0 to 1."""
        return np.array(self._z)

    @property
    def rounds(self) -> int:
        """Number of labels learned."""
        return int(self._state.counts[UPDATES])

    def oracle(self, level: float) -> Oracle:
        """Return the user's oracle of one of the `levels`; change it and certificates stay true, theorems do not.

        Examples
        --------
        >>> from swapcal.oracles import FiniteClass
        >>> OracleForecaster(lambda level: FiniteClass([lambda x: level]), beside=()).oracle(0.25).predict(None)
        0.25
        """
        if level not in self._z:
            raise ValueError(f"level: given {level!r}, expected one of the {len(self._z)} levels")
        return self._mixtures[self._slots[self._z.index(level)]].oracles[0]

    @locked
    def predict(self, x: Any, event: object = None) -> Forecast:
        """Return a forecast for x; nothing changes, and a second call returns an equal forecast.

        Parameters
        ----------
        x : what the oracles read; arrays and collections are copied, anything else must stay as it is for as
            long as the forecaster keeps its rows. Oracles get arrays read-only, and a copy of a dict or list.
        event : an id (int, str or bytes) that determines the draw between the levels; by default the draw depends on
            the number of labels learned and on x, of which arrays, numbers, text and collections of them count.
        """
        context = self._context(x) if self._ridge else _copied(x)
        linear = self._linear(context) if self._ridge else None
        draw = self._draw(context, event)
        issue = self._hedged if self._mixing == "hedge" else self._stationary
        ticket, played = issue(context, linear, draw)
        tickets = np.array([[*ticket, float(self.rounds), 0.0, 0.0, 0.0]])
        # the set of oracles that learned the label, so that a label whose learning failed half-way can be learned again
        given: Any = (context, self._history, played, set())
        return Forecast(tickets, given, NO_MIX, self._owner, single=True, learned=False)

    @locked
    def update(self, forecast: Forecast, y: Any, weight: float = 1.0) -> None:
        """Learn the label of a forecast, in {0, 1} or [0, 1], as if it came `weight` times; at any time, in any order.

        If an oracle raises, the label counts nowhere and the forecast stays open. Oracles of the row that had learned
        it before keep it, and are left out when `update` is called with that forecast again. From then on no bound or
        theorem of the oracles is claimed: their sums no longer equal those of the forecaster.
        """
        Forecast.check_open(forecast, self._owner)
        label, count = _validate.label(y), _weight(weight)
        given: Any = forecast._contexts
        x, history, played, taught = given
        self._check_known(forecast, x)
        try:
            for slot, alpha, *_ in played:
                self._teach(int(slot), x, label, alpha * count, taught)
        except BaseException:
            self._heavy += bool(taught)
            raise
        self._enter(forecast, x, label, count, played)
        self._late += history != self._history
        self._heavy += count > 1.0
        self._history = hash((self._history, label, count, *map(tuple, played)))
        if self._log is not None:
            self._log.append(LearnedRow(x, label, count, played))
        forecast.settle()
        if len(self._mixtures) < self._state.counts[LEVELS]:
            self._add_oracles(int(played[0][0]), int(played[1][0]))

    @locked
    def run(
        self,
        X: Any,
        y: ArrayLike,
        weight: ArrayLike | None = None,
        events: "Sequence[object] | None" = None,
    ) -> Forecast:
        """Forecast, then learn, row by row: the loop of `predict` and `update`.

        Parameters
        ----------
        X : rows: an array (n, d), a sequence of anything, or a data frame, whose rows become dicts
        y : (n,) labels in [0, 1]
        weight : (n,) how often each row counts; once unless given
        events : ids of the rows, as in `predict`
        """
        rows = self._checked_rows(X)
        labels = _validate.label_rows(y, len(rows)).tolist()
        counts = [1.0] * len(rows) if weight is None else [_weight(each) for each in np.asarray(weight).tolist()]
        names: Sequence[object] = [None] * len(rows) if events is None else events
        for argument, given in (("weight", counts), ("events", names)):
            if len(given) != len(rows):
                raise ValueError(f"{argument}: given {len(given)}, expected {len(rows)}, one per row")
        tickets = memory.blank_tickets(len(rows))
        for row, (x, label, count, name) in enumerate(zip(rows, labels, counts, names, strict=True)):
            try:
                forecast = self.predict(x, name)
                self.update(forecast, label, count)
            except Exception as error:
                error.add_note(f"in row {row + 1}; the {counted(row, 'row')} before it were learned")
                raise
            tickets[row] = forecast._tickets[0]
        return Forecast(tickets, None, np.zeros((len(rows), 0)), self._owner, single=False, learned=True)

    @locked
    def certificate(self) -> OracleCertificate:
        """Return the swap regret against the oracle's class as far as it is known, its parts and its bounds."""
        dim = (self._dim or 1) if self._ridge else None
        rules = dim, self._uniform, self._adaptive
        return certify_oracles(OracleRun(self._state, self._mixtures, self._log, self._late, self._heavy, *rules))

    @locked
    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the whole state to one file, atomically; `load` continues bit for bit.

        Oracles are saved through their `to_state` and `restore`. Raises TypeError, and writes nothing, if one has no
        such methods, or if a row kept is neither an array of floats nor plain JSON.
        """
        own = {
            "mixing": self._mixing,
            "uniform": self._uniform,
            "ridge": self._ridge,
            "dim": self._dim,
            "owner": self._owner,
            "history": self._history,
            "late": self._late,
            "heavy": self._heavy,
        }
        levels = State(self._state._asdict(), own)
        archive.write(path, FILE, *nested(levels=levels, oracles=oracle_mixture.to_state(self._mixtures, self._log)))

    @classmethod
    def load(cls, path: "str | os.PathLike[str]", make: Make, *, beside: "Sequence[str | Make]" = ("ridge",)) -> Self:
        """Return the forecaster saved at `path`; `make` and `beside` must be those it was made with.

        A damaged, inconsistent or foreign file raises `ArchiveError`.
        """
        makes, ridge = learners(make, beside)
        return archive.load(path, FILE, lambda state: cls._from_state(state, makes, ridge))

    @classmethod
    def _from_state(cls, state: State, makes: list[Make], ridge: bool) -> Self:
        self, levels = cls.__new__(cls), archive.part(state, "levels")
        own = levels.manifest
        if own["ridge"] != ridge:
            raise archive.ArchiveError(f"beside: given {'with' if ridge else 'without'} ridge, expected as saved")
        self._state = Memory(**memory.with_drawn(levels.arrays))
        self._scratch = memory.scratch(self._state)
        self._seed = self._state.seed[0]
        self._makes, self._ridge, self._lock = makes, ridge, CopyableLock()
        self._mixing, self._uniform = own["mixing"], own["uniform"]
        self._adaptive = bool(self._state.codes[CODES_ADAPTIVE])
        self._owner, self._dim = own["owner"], own["dim"]
        self._history, self._late, self._heavy = own["history"], own["late"], own["heavy"]
        self._sort()
        z = self._state.z[: len(self._slots)].tolist()
        oracles = archive.part(state, "oracles")
        self._mixtures, self._log = oracle_mixture.from_state(oracles, z, makes, len(makes) + ridge)
        return self

    # Issuing.

    def _checked_rows(self, X: Any) -> list[Any]:
        """Return the rows of an array, a sequence or a data frame; beside ridge all of them are contexts, or none."""
        if self._ridge:
            known = np.shape(X)[-1] if self._dim is None and np.ndim(X) == 2 else self._dim or 1
            return list(_validate.context_rows(X, known))
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        return list(frame.iter_rows(named=True) if isinstance(frame, nw.DataFrame) else X)

    def _context(self, x: Any) -> Array:
        """Return x as a context of the engine; before the first label any dimension will do."""
        dim = np.size(x) if self._dim is None else self._dim
        try:
            row: Array = _validate.context_rows(x, dim, single=True)[0]
        except (TypeError, ValueError) as error:
            raise type(error)(f'{error} beside "ridge"; with beside=() x may be anything the oracle reads') from None
        row.flags.writeable = False
        return row

    def _linear(self, x: Array) -> list[float]:
        """Return the wishes of the levels' ridge learners, by slot; each its own level before the first label."""
        dim = self._dim or 1
        wishes = self._state.theta[: len(self._mixtures), :dim] @ x[:dim]
        return np.minimum(np.maximum(wishes, 0.0), 1.0).tolist()  # type: ignore[no-any-return]

    def _wish(self, k: int, x: Any, linear: list[float] | None) -> list[float]:
        slot = self._slots[k]
        return self._mixtures[slot].wish(x, None if linear is None else linear[slot])

    def _hedged(self, x: Any, linear: list[float] | None, draw: float) -> tuple[list[float], list[list[float]]]:
        """Play two adjacent levels so that their mean equals the mean of their wishes."""
        k, low, high = grid.crossing(self._z, lambda k: self._wish(k, x, linear))
        z_low, z_high = self._z[k], self._z[k + 1]
        u, v, width = low[0] - z_low, z_high - high[0], z_high - z_low
        weight = hedge_weight(u, v)
        slots = float(self._slots[k]), float(self._slots[k + 1])
        issued = z_high if draw < weight else z_low
        wishes_and_gap = low[0], high[0], hedge_gap(u, v, width)
        ticket = [issued, z_low + weight * width, z_low, z_high, weight, *wishes_and_gap, *slots]
        return ticket, [[slots[0], 1.0 - weight, *low], [slots[1], weight, *high]]

    def _stationary(self, x: Any, linear: list[float] | None, draw: float) -> tuple[list[float], list[list[float]]]:
        """Play the stationary distribution of the levels' rounded wishes (Blum–Mansour)."""
        z, chain = self._state.z, self._scratch.chain
        assert chain is not None  # mixing decides
        wishes = [self._wish(k, x, linear) for k in range(len(z))]
        up, p = chain.rows[1], chain.rows[2]
        for k, (wish, *_) in enumerate(wishes):
            chain.base[k], up[k] = round_to_levels(wish, z)
        stationary(chain.base, up, p, chain.walk, chain.matrix)
        at = np.flatnonzero(p)
        w = np.array([wishes[k][0] for k in at])
        low, high = z[chain.base[at]], z[chain.base[at] + 1]
        gap = float(p[at] @ ((w - low) * (high - w)))
        drawn = at[min(int(np.searchsorted(np.cumsum(p[at]), draw, side="right")), len(at) - 1)]
        ends, weight = (int(at[0]), int(at[-1])), float(p[at[-1]]) if len(at) > 1 else 0.0
        ticket = [z[drawn], p @ z, z[ends[0]], z[ends[1]], weight, w[0], w[-1], gap, *ends]
        return [float(each) for each in ticket], [[float(k), float(p[k]), *wishes[k]] for k in at]

    def _draw(self, x: Any, event: object) -> float:
        named = b"%d %b" % (self.rounds, _fingerprint(x)) if event is None else event
        return float(uniform(self._seed, np.uint64(_validate.event_key(named))))

    # Learning.

    def _check_known(self, forecast: Forecast, x: Any) -> None:
        if not all_known(forecast._tickets, self._state.z, self._state.counts[LEVELS]):
            raise ValueError("forecast: given one for levels that are not the same here, expected one whose levels are")
        if self._ridge and self._dim not in (None, len(x)):
            raise ValueError(f"context: given {len(x)} coordinates, expected {self._dim}")

    def _teach(self, slot: int, x: Any, y: float, alpha: float, taught: set[tuple[int, int]]) -> None:
        """Update the oracles of a level with a row, except those that were updated before another one raised."""
        for number, oracle in enumerate(self._mixtures[slot].oracles):
            if alpha > 0.0 and (slot, number) not in taught:
                oracle.update(oracle_input(x), y, alpha)
                taught.add((slot, number))

    def _enter(self, forecast: Forecast, x: Any, y: float, count: float, played: list[list[float]]) -> None:
        """Enter a row into the sums of the levels it played, and let their ridge learners learn it."""
        if self._dim is None:
            self._dim = len(x)
            self._state = self._allocated(self._state.z[: len(self._mixtures)], self._dim)
            self._scratch = memory.scratch(self._state)
        if self._adaptive and not self._ridge:
            self._price([int(play[0]) for play in played])
        context = np.array(x, np.float64).reshape(1, -1) if self._ridge else CONSTANT.copy()
        mix = self._distribution(played) if self._mixing == "blum-mansour" else NO_MIX
        options = None if count == 1.0 else RunOptions(weights=np.array([count]))
        label, ticket = np.array([y]), forecast._tickets
        while not entry(self._scratch, count != 1.0).call(
            self._state, self._scratch, context, label, _validate.NO_EVENT, ticket, mix, 0, options, None
        ):
            self._state = memory.with_slots(self._state, len(self._mixtures) * 3 // 2 + SPARE_SLOTS)
        for slot, alpha, w, *wishes in played:
            self._mixtures[int(slot)].charge(w, wishes, y, count * alpha)

    def _distribution(self, played: list[list[float]]) -> Array:
        """Return the distribution as the kernel reads it: each slot's probability, then each slot's wish."""
        n = len(self._mixtures)
        mix = np.zeros((1, 2 * n))
        for slot, alpha, w, *_ in played:
            mix[0, int(slot)], mix[0, n + int(slot)] = alpha, w
        return mix

    def _price(self, slots: Iterable[int]) -> None:
        """Split an interval when rounding costs more than the regret bound of its oracles, where they have one."""
        for slot in slots:
            promised = regret_of(self._mixtures[slot].oracles[0], float(self._state.mass[slot]))
            if promised is not None:
                self._state.potential[slot] = promised

    def _add_oracles(self, low: int, high: int) -> None:
        """Give the newest level oracles, by `newborn` of the neighbour that learned more; if that raises, remove it."""
        new, state = len(self._mixtures), self._state
        parent = low if state.mass[low] >= state.mass[high] else high
        try:
            self._mixtures.append(self._mixtures[parent].newborn(float(state.z[new]), self._makes))
        except Exception:
            place = int(np.flatnonzero(state.order[: new + 1] == new)[0])
            state.order[place:new] = state.order[place + 1 : new + 1].copy()
            state.order[new], state.right[low], state.right[new], state.counts[LEVELS] = new, high, -1, new
            raise
        self._sort()

    # Building.

    def _allocated(self, z: Array, dim: int) -> Memory:
        return memory.allocate(
            z,
            dim,
            len(z) + (SPARE_SLOTS if self._adaptive else 0),
            codes=[RIDGE_LEARNER, MIXINGS[self._mixing], int(self._adaptive)],
            knobs=[RIDGE, KAPPA, 0.0, RIDGE],
            seed=int(self._seed),
        )

    def _mixture_at(self, level: float) -> OracleMixture:
        return OracleMixture(level, [make_oracle(make, level) for make in self._makes], len(self._makes) + self._ridge)

    def _sort(self) -> None:
        """Read the order of the levels."""
        self._slots: list[int] = memory.slots_in_order(self._state).tolist()
        self._z: list[float] = self._state.z[self._slots].tolist()

    def __repr__(self) -> str:
        levels = "'adaptive'" if self._adaptive else str(len(self._z) - 1)
        name = type(self._mixtures[0].oracles[0]).__name__
        return f"OracleForecaster({name}, levels={levels}, mixing={self._mixing!r}, rounds={self.rounds})"

    def _repr_html_(self) -> str:
        names = ", ".join(type(oracle).__name__ for oracle in self._mixtures[0].oracles)
        facts = {"levels": len(self._z), "oracles": names + ", ridge" * self._ridge, "mixing": self._mixing}
        return display("OracleForecaster", f"after {self.rounds:,} labels", facts)


def _weight(value: Any) -> float:
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = -1.0
    if not 0.0 <= weight <= MOST_WEIGHT:
        raise ValueError(f"weight: given {value!r}, expected a number from 0 to {MOST_WEIGHT:g}")
    return weight


def _copied(x: Any) -> Any:
    """Return x as the forecast and the log keep it: arrays and collections are copied, arrays read-only."""
    if isinstance(x, np.ndarray):
        copied = np.array(x)
        copied.flags.writeable = False
        return copied
    return copy.deepcopy(x) if isinstance(x, dict | list | tuple | set) else x


def _fingerprint(x: Any) -> bytes:
    """Return bytes that identify x in every process; of objects without a stable repr, those of the type's name."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        return x.tobytes()
    has_stable_repr = isinstance(x, dict | list | tuple | str | bytes | int | float | np.generic)
    return repr(x).encode("utf-8", "surrogatepass") if has_stable_repr else type(x).__name__.encode()
