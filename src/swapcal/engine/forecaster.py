"""The online engine: contexts in, calibrated probabilities out, labels whenever they come."""

import os
import secrets
from dataclasses import replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate, archive, bounds
from swapcal._display import display
from swapcal._locking import CopyableLock, locked
from swapcal.archive import MOST_COUNT, TEXT, TRUTH, Fields, Settings, Shapes, State, addition, one_of, whole
from swapcal.arrays import Array, Keys
from swapcal.engine import grid
from swapcal.engine import state as memory
from swapcal.engine.certificate import Certificate, IssuedErrors, certify, certify_recent, issued_errors
from swapcal.engine.forecast import Forecast, Player
from swapcal.engine.log_loss import LogForecaster
from swapcal.engine.sparse import SparseForecaster
from swapcal.kernels.jit import DirectCall
from swapcal.kernels.learners import ONS_RADIUS, replace_ridge
from swapcal.kernels.loop import advance
from swapcal.kernels.state import (
    BLUM_MANSOUR,
    CODES_ADAPTIVE,
    FIXED,
    HEDGE,
    INNER,
    LEVELS,
    ONS_LEARNER,
    RECENT_COORDINATES,
    RIDGE,
    RIDGE_LEARNER,
    STEP,
    T_HIGH,
    T_ISSUED,
    T_LOW,
    T_SLOT_HIGH,
    T_SLOT_LOW,
    T_W_HIGH,
    T_W_LOW,
    T_WEIGHT,
    UPDATES,
    VAW_LEARNER,
    WINDOW,
    Memory,
    RunOptions,
    Scratch,
    all_known,
)

Levels = str | int | ArrayLike

KIND, VERSION = "forecaster", 3

# learner: (code, β, ω); the paper's ω is 1/(4β²)
LEARNERS = {
    "ridge": (RIDGE_LEARNER, 0.0, None),
    "ons": (ONS_LEARNER, 1 / 640, 640**2 / 4),
    "ons-fast": (ONS_LEARNER, 1 / 50, 1.0),
    "vaw": (VAW_LEARNER, 0.0, None),
}
MIXINGS = {"hedge": HEDGE, "blum-mansour": BLUM_MANSOUR}
MOST_DIM = 1 << 20
"""Largest dimension of a forecaster in a file: a learner's factor has dim²/2 numbers."""
RULES = {
    "dim": whole(1, MOST_DIM),
    "learner": one_of(*LEARNERS),
    "mixing": one_of(*MIXINGS),
    "uniform": TRUTH,
    "owner": TEXT,
    "drawn_from": addition(whole(0, MOST_COUNT)),
}

SPARE_SLOTS = 6
NO_MIX = np.zeros((1, 0))


def entry(scratch: Scratch, with_options: bool) -> DirectCall:
    """Return the direct call of the engine for forecasters of one kind, whose arguments are of the same types."""
    lacks = scratch.leverage is None, scratch.ball is None, scratch.unit is None, scratch.chain is None
    return _entry(lacks, with_options)


@cache
def _entry(_lacks: tuple[bool, ...], _with_options: bool) -> DirectCall:
    return DirectCall(advance)


def fields(settings: Settings, shapes: Shapes) -> Fields:
    """Return the arrays of a state from `Forecaster.to_state`, of this or an earlier release."""
    arrays = memory.fields(settings["dim"], LEARNERS[settings["learner"]][0], MIXINGS[settings["mixing"]], shapes)
    return arrays if "drawn_from" in settings else memory.without_drawn(arrays)


FILE = archive.Kind(KIND, VERSION, RULES, fields)


class Forecaster(Player):
    """Issue probabilities that are swap multicalibrated against linear functions, whatever the labels do.

    Each level keeps a regression of the outcome on the context over the rounds that played it. A forecast plays two
    neighbouring levels, mixed so that their mean equals the mean of what their regressions wish. For any sequence,
    even one chosen by an adversary who sees the mixture, the pseudo swap regret is Õ(T^{1/3} d^{2/3}), and
    `certificate` computes what it is.

    Parameters
    ----------
    dim : number of coordinates d of a context; x_1 = ½ and ‖x‖ ≤ 1.
    levels : "adaptive" (self-refining, no horizon needed), "inner" (the same, with no level and no mean issued that is
        less than 1/(labels + 2) from 0 or 1), an integer N (uniform i/N), "sine" or "sine:N", or an
        increasing array from 0 to 1.
    learner : "ridge" (constant 1 in the regret), "vaw" (constant ¼, a little slower), "ons" (the paper's Online Newton
        Step), "ons-fast" (the same with β = 1/50, ω = 1, for which the proof still holds).
    mixing : "hedge" (two neighbouring levels, O(log L) learners looked at) or "blum-mansour" (stationary distribution
        over all levels, as in the paper).
    ridge : λ from 1e-12 to 1e8, how strongly regressions hold on to their start; also the λ of the certificate.
    kappa : self-refining levels split when rounding costs more than this share of learning.
    seed : of the draws between the two levels.
    prior : (dim,) weights θ_0 from which every level's learner starts, for contexts in which a good forecast is already
        linear; by default each starts from its own level. Guarantees hold for any θ_0 and are best near a good one.
    window : for drift: further regressions remember about so many labels (a label's share falls to 1/e), and the
        levels' regressions start from their predictions. The guarantees are over all rounds as before, and
        `certificate(window=…)` covers recent rows. With ridge learners and hedging.

    Examples
    --------
    >>> import numpy as np
    >>> from swapcal import Forecaster
    >>> forecaster = Forecaster(dim=2)
    >>> forecast = forecaster.predict([0.5, 0.3])
    >>> forecaster.update(forecast, 1)
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.full(5000, 0.5), rng.uniform(-0.8, 0.8, 5000)])
    >>> y = rng.random(5000) < 0.5 + 0.5 * X[:, 1]
    >>> forecasts = forecaster.run(X, y)
    >>> bool(abs(forecasts.p.mean() - y.mean()) < 0.02)
    True
    >>> forecaster.certificate().holds()
    True
    """

    def __init__(
        self,
        dim: int,
        *,
        levels: Levels = "adaptive",
        learner: str = "ridge",
        mixing: str = "hedge",
        ridge: float = 1.0,
        kappa: float = 0.2,
        seed: int = 0,
        prior: ArrayLike | None = None,
        window: float | None = None,
    ) -> None:
        self._dim = _validate.dimension(dim)
        z, adaptive = grid.starting(levels)
        check_combination(learner, mixing, adaptive != FIXED)
        if adaptive == INNER and (learner, mixing) != ("ridge", "hedge"):
            raise ValueError(f'levels: given "inner" with {learner!r} and {mixing!r}, expected "ridge" and "hedge"')
        self._window = 0.0 if window is None else _checked_window(window, learner, mixing)
        code, beta, omega = LEARNERS[learner]
        ridge = _validate.ridge(ridge)
        self._learner = learner
        self._mixing = mixing
        self._uniform = not adaptive and isinstance(levels, (int, np.integer))
        self._owner = secrets.token_hex(8)
        self._drawn_from = 0
        self._state = memory.allocate(
            z,
            self._dim,
            len(z) + (SPARE_SLOTS if adaptive else 0),
            codes=[code, MIXINGS[mixing], adaptive],
            knobs=[ridge, _validate.positive("kappa", kappa), beta, ridge if omega is None else omega],
            seed=_validate.event_key(_validate.seed(seed)),
            start=None
            if prior is None
            else _validate.weights(prior, self._dim, ONS_RADIUS if code == ONS_LEARNER else None),
            window=self._window,
        )
        self._scratch = memory.scratch(self._state)
        self._lock = CopyableLock()

    @classmethod
    def paper(cls, dim: int, horizon: int, target: str = "smcal", *, seed: int = 0) -> Self:
        """Return Algorithms 1–5 of the paper with N chosen by its theorem for `target` after `horizon` rounds.

        Parameters
        ----------
        target : "smcal" (swap multicalibration), "sreg" (contextual swap regret) or "omni" (swap omniprediction).

        Examples
        --------
        >>> Forecaster.paper(dim=3, horizon=10_000)
        Forecaster(dim=3, levels=7, learner='ons', mixing='blum-mansour', rounds=0)
        """
        if target not in ("smcal", "sreg", "omni"):
            raise ValueError(f'target: given {target!r}, expected "smcal", "sreg" or "omni"')
        n = bounds.default_levels(horizon, _validate.dimension(dim), target)
        return cls(dim, levels=n, learner="ons", mixing="blum-mansour", seed=seed)

    @staticmethod
    def sparse(columns: int, *, scores: int = 0, levels: Levels = 16, seed: int = 0) -> SparseForecaster:
        """Return the engine for 10⁴ to 10⁶ groups, which are the values of columns; see `SparseForecaster`.

        Examples
        --------
        >>> Forecaster.sparse(columns=3, scores=1)
        SparseForecaster(columns=3, scores=1, levels=16, groups=1, rounds=0)
        """
        return SparseForecaster(columns, scores=scores, levels=levels, seed=seed)

    @staticmethod
    def log_loss(experts: int, *, levels: int = 32, seed: int = 0) -> LogForecaster:
        """Return the engine for log loss over experts of yours; see `LogForecaster`.

        Examples
        --------
        >>> Forecaster.log_loss(experts=3)
        LogForecaster(experts=3, levels=32, rounds=0)
        """
        return LogForecaster(experts, levels=levels, seed=seed)

    @property
    def levels(self) -> Array:
        """The levels in use, increasing from 0 to 1."""
        return self._state.z[memory.slots_in_order(self._state)]

    @property
    def rounds(self) -> int:
        """Number of labels learned."""
        return int(self._state.counts[UPDATES])

    @locked
    def grow(self, dim: int) -> None:
        """Append coordinates: contexts have `dim` of them from now on, the earlier ones in their old places.

        Every learner treats a new coordinate as if it had always been 0, so certificates go on. Open forecasts stay
        valid.
        """
        if _validate.dimension(dim) < self._dim:
            raise ValueError(f"dim: given {dim}, expected at least the present {self._dim}; coordinates never go away")
        self._state = memory.with_width(self._state, dim)
        self._scratch = memory.scratch(self._state)
        self._dim = int(dim)

    @locked
    def set_ridge(self, ridge: float) -> None:
        """Set another λ, as if constructed with it; levels refine as before.

        After the first label only ridge learners can: they become the solutions with this λ on all that they learned.
        Certificates are then about it, and the worst-case theorem adds 1 for each label learned before, which is what
        such a label can cost at most. Raises ValueError for other learners.

        Examples
        --------
        >>> forecaster = Forecaster(dim=2)
        >>> forecaster.set_ridge(100.0)
        >>> forecaster.certificate().rounds
        0
        """
        ridge = _validate.ridge(ridge)
        if not self.rounds:
            self._state = memory.with_ridge(self._state, ridge)
            return
        if self._learner != "ridge":
            raise ValueError(f"ridge: given after {self.rounds} labels, expected before the first")
        replace_ridge(self._state, ridge, self._scratch.u, np.zeros(self._state.theta.shape[1]))
        self._state.knobs[STEP] = self.rounds

    @property
    def ridge(self) -> float:
        """λ, as it is now."""
        return float(self._state.knobs[RIDGE])

    @property
    def rounds_before_ridge(self) -> int:
        """Number of labels that had been learned when λ last changed; 0 if it never has since the first."""
        return int(self._state.knobs[STEP]) if self._learner == "ridge" else 0

    def play(self, X: Array, y: Array, events: Keys, tickets: Array, weights: Array | None = None) -> None:
        """Issue the rows whose tickets are blank and learn those that have a label, in order, filling in `tickets`.

        For callers that keep tickets in arrays of their own and let one thread at a time call; nothing is checked. With
        weights, which count each label that many times, use `weighted_certificate`.
        """
        options = None if weights is None else RunOptions(weights=weights)
        self._advance(X, y, events, tickets, self._blank_mixes(len(X)), options)

    def play_one(self, x: Array, y: Array, event: Keys, ticket: Array) -> None:
        """Play one row, when hedging, as `play`; see `DirectCall` for what the arrays must be."""
        call = entry(self._scratch, False).call
        while not call(self._state, self._scratch, x, y, event, ticket, NO_MIX, 0, None, None):
            self._make_room()

    def distribution(self, forecast: Forecast) -> tuple[Array, Array]:
        """Return levels (L,), increasing, and the probability (n, L) with which each could have been issued.

        `Audit(…, issued=…)` takes them. With "blum-mansour" `run` keeps the distributions of no row, `predict` of each.

        Examples
        --------
        >>> forecaster = Forecaster(2, levels=4, mixing="blum-mansour")
        >>> levels, P = forecaster.distribution(forecaster.predict([0.5, 0.1]))
        >>> levels.shape, P.shape, float(P.sum())
        ((5,), (1, 5), 1.0)
        """
        low, high, weight = forecast._tickets[:, [T_LOW, T_HIGH, T_WEIGHT]].T
        if self._mixing != "blum-mansour":
            levels = np.unique(np.concatenate([low, high]))
            P, rows = np.zeros((len(low), len(levels))), np.arange(len(low))
            np.add.at(P, (rows, np.searchsorted(levels, low)), 1.0 - weight)
            np.add.at(P, (rows, np.searchsorted(levels, high)), weight)
            return levels, P
        if len(forecast._mixes) != len(low):
            raise ValueError("forecast: given one of `run`, expected one of `predict`: runs keep no distributions")
        return self.levels, forecast._mixes[:, memory.slots_in_order(self._state)]

    def behind(self, ticket: Array, x: Array) -> tuple[Array, float]:
        """Return (θ, c) with mean = ⟨θ, x⟩ + c as the ticket's two learners are now, c being what clipping adds.

        The learners may have moved since the ticket was issued, and then so has the mean.
        """
        slots = ticket[[T_SLOT_LOW, T_SLOT_HIGH]].astype(np.int64).tolist()
        shares = np.array([1.0 - ticket[T_WEIGHT], ticket[T_WEIGHT]])
        theta = np.array([memory.linear_weights(self._state, slot, len(x)) for slot in slots])
        wishes = np.array([memory.wish(self._state, slot, x) for slot in slots])
        if self._state.codes[CODES_ADAPTIVE] == INNER and ticket[T_ISSUED] == self.rounds:
            wishes = ticket[[T_W_LOW, T_W_HIGH]]  # as clipped to the inner levels of that round
        return shares @ theta, float(shares @ (wishes - theta @ x))

    @property
    def owner(self) -> str:
        """The id that forecasts of this forecaster carry."""
        return self._owner

    @locked
    def certificate(self, window: float | None = None) -> Certificate:
        """Return the exact pseudo errors so far, with the data-dependent and the worst-case bound beside them.

        Parameters
        ----------
        window : that of the forecaster, for recent errors: a label's share falls to 1/e after so many labels.

        Examples
        --------
        >>> forecaster = Forecaster(dim=2, window=500)
        >>> X = np.column_stack([np.full(4000, 0.5), np.tile([-0.8, 0.8], 2000)])
        >>> forecasts = forecaster.run(X, np.arange(4000) % 4 == 0)
        >>> recent = forecaster.certificate(window=500)
        >>> recent.holds(), recent.psreg < recent.bound < forecaster.certificate().bound
        (True, True)
        """
        if window is not None:
            expected = f"{self._window:g}, the window" if self._window else "none: it was made without a window"
            if window != self._window:
                raise ValueError(f"window: given {window!r}, expected {expected} of this forecaster")
            return certify_recent(self._state, self._dim, self._drawn_from)
        return certify(self._state, self._dim, self._learner, self._drawn_from, uniform=self._uniform)

    def weighted_certificate(self, window: float | None = None) -> Certificate:
        """Return the certificate of labels that count by weights: of the weighted sums, without worst-case theorem."""
        certificate, inner = self.certificate(window), self._dim + RECENT_COORDINATES
        slots = memory.slots_in_order(self._state)
        recent = [] if window is None else [memory.recent_sums(self._state, slot, inner).mass for slot in slots]
        total = float(np.sum(self._state.mass[slots]) if window is None else np.sum(recent))
        return replace(certificate, theorem=None, theorem_psmcal=None, total=total)

    @locked
    def issued_errors(self) -> IssuedErrors:
        """Return the exact errors of the levels issued so far: `certificate().issued`, without the rest of it.

        Examples
        --------
        >>> forecaster = Forecaster(dim=1)
        >>> _ = forecaster.run(np.full((400, 1), 0.5), np.arange(400) % 4 == 0)
        >>> forecaster.issued_errors() == forecaster.certificate().issued
        True
        """
        return issued_errors(self._state, self._dim, self._drawn_from)

    @locked
    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the whole state to one file, atomically; `load` continues bit for bit.

        The file is read back before it takes its place; see `swapcal.archive.replacing` for what a crash can leave.
        """
        archive.write(path, FILE, *self.to_state())

    @classmethod
    def load(cls, path: "str | os.PathLike[str]") -> Self:
        """Return the forecaster saved at `path`; a damaged, inconsistent or foreign file raises `ArchiveError`."""
        return archive.load(path, FILE, cls.from_state)

    def to_state(self) -> State:
        """Return the state as `save` writes it."""
        settings = {
            "dim": self._dim,
            "learner": self._learner,
            "mixing": self._mixing,
            "uniform": self._uniform,
            "owner": self._owner,
            "drawn_from": self._drawn_from,
        }
        return State(self._state._asdict(), settings)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from `to_state`; the state must have been checked."""
        self, settings = cls.__new__(cls), state.manifest
        self._state = Memory(**memory.with_drawn(state.arrays))
        self._scratch = memory.scratch(self._state)
        self._dim, self._learner, self._mixing = settings["dim"], settings["learner"], settings["mixing"]
        self._uniform, self._owner = settings["uniform"], settings["owner"]
        self._drawn_from = settings.get("drawn_from", self.rounds)
        self._window = float(self._state.knobs[WINDOW])
        self._lock = CopyableLock()
        return self

    def _placed(self, forecast: Forecast, X: Array) -> Array:
        if X.shape[1] > self._dim or not all_known(forecast._tickets, self._state.z, self._state.counts[LEVELS]):
            raise ValueError(
                "forecast: given one issued after the saved state that this forecaster was loaded from, for levels or "
                "coordinates that are not the same here; expected one whose levels and coordinates exist here"
            )
        return np.hstack([X, np.zeros((len(X), self._dim - X.shape[1]))]) if X.shape[1] < self._dim else X

    def _advance(
        self, X: Array, y: Array, events: Keys, tickets: Array, mixes: Array, options: RunOptions | None = None
    ) -> None:
        """Run the kernel over all rows, making room for new levels when the kernel requests it.

        The worst-case theorem does not cover weights other than 1: callers with such weights must not claim it.
        """
        done = 0
        while (done := advance(self._state, self._scratch, X, y, events, tickets, mixes, done, options, None)) < len(X):
            self._make_room()

    def _make_room(self) -> None:
        """Make room for new levels."""
        roomier = int(self._state.counts[LEVELS]) * 3 // 2 + SPARE_SLOTS
        self._state = memory.with_slots(self._state, roomier)

    def _blank_mixes(self, rows: int) -> Array:
        """Return room for whole distributions, which only Blum-Mansour needs."""
        per_row = 2 * int(self._state.counts[LEVELS]) if self._mixing == "blum-mansour" else 0
        return np.zeros((max(rows, 1), per_row))

    def __repr__(self) -> str:
        fixed = str(int(self._state.counts[LEVELS]) - 1)
        levels = (fixed, "'adaptive'", "'inner'")[self._state.codes[CODES_ADAPTIVE]]
        return (
            f"{type(self).__name__}(dim={self._dim}, levels={levels}, learner={self._learner!r}, "
            f"mixing={self._mixing!r}, rounds={self.rounds})"
        )

    def _repr_html_(self) -> str:
        window = {"remembers about": f"{self._window:,.6g} labels"} if self._window else {}
        facts = {"levels": len(self.levels), "coordinates": self._dim, "learner": self._learner, "mixing": self._mixing}
        return display(type(self).__name__, f"after {self.rounds:,} labels", facts | window)


def _checked_window(window: Any, learner: str, mixing: str) -> float:
    if (learner, mixing) != ("ridge", "hedge"):
        raise ValueError(f'window: given with {learner!r} and {mixing!r}, expected "ridge" and "hedge"')
    return _validate.window(window)


def check_combination(learner: str, mixing: str, adaptive: bool) -> None:
    """Raise ValueError for an unknown learner or mixing, or for ones that do not go together."""
    if learner not in tuple(LEARNERS):
        raise ValueError(f"learner: given {learner!r}, expected one of {', '.join(LEARNERS)}")
    if mixing not in tuple(MIXINGS):
        raise ValueError(f"mixing: given {mixing!r}, expected one of {', '.join(MIXINGS)}")
    if mixing == "blum-mansour" and adaptive:
        raise ValueError(
            'levels: given "adaptive" with mixing "blum-mansour", expected fixed levels; a split is decided by the '
            "rounding loss of the one interval in play, and a stationary distribution plays many"
        )
    if mixing == "blum-mansour" and learner == "vaw":
        raise ValueError(
            'learner: given "vaw" with mixing "blum-mansour", expected "ridge", "ons" or "ons-fast"; a VAW forecast '
            "depends on its own weight, so the whole chain would depend on its own stationary distribution"
        )
