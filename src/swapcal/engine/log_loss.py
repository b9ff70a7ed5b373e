"""`LogForecaster`: the engine for log loss, over experts of yours."""

import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate, archive, bounds
from swapcal._display import display
from swapcal._locking import CopyableLock, locked
from swapcal.archive import TEXT, Fields, Settings, Shapes, State, counts, floats, keys, whole
from swapcal.arrays import Array, Keys
from swapcal.engine import grid
from swapcal.engine.certificate import rated
from swapcal.engine.forecast import FixedLevelsPlayer, Forecast
from swapcal.kernels import log_loss as kernel
from swapcal.kernels.log_loss import LogMemory, LogScratch
from swapcal.kernels.state import RunOptions
from swapcal.kernels.tally import FLOOR

KIND, VERSION = "log-loss", 1
MOST_EXPERTS = 1 << 16
NO_OPTIONS = RunOptions()
RULES = {"experts": whole(1, MOST_EXPERTS), "owner": TEXT}


def fields(settings: Settings, shapes: Shapes) -> Fields:
    """Return the arrays of a file."""
    levels, experts = max(2, shapes["z"][0]), settings["experts"]
    names = ("mass", "ones", "drawn_mass", "drawn_ones", "lost")
    return {name: floats(levels) for name in names} | {
        "z": floats(levels, least=0, most=1, rises=True),
        "loss": floats(levels, experts),
        "weight": floats(levels, experts + 1, least=0, most=1),
        "totals": floats(2),
        "counts": counts(3),
        "seed": keys(1),
    }


FILE = archive.Kind(KIND, VERSION, RULES, fields)


@dataclass(frozen=True, slots=True, repr=False)
class LogCertificate:
    """Log losses of the issued distributions on the outcomes learned, and their bounds; in nats, sums over rounds.

    Attributes
    ----------
    loss : log loss of the issued distributions.
    psreg : pseudo swap regret, exact: what could have been saved by choosing for each level one expert or one constant.
    against_experts : the same over experts alone; it may be negative.
    klcal : pseudo KL calibration, exact: Σ_v n_v KL(mean outcome of level v ‖ v), which constants could have saved.
    rounding, clipping : Σ D_t, fixed when forecasts are issued, and what wishes lost by being held between the lowest
        and the highest level.
    learning : psreg = rounding + clipping + learning, what the mixtures lost to the best rule of their level.
    bound : on psreg: rounding + clipping + the price of each level's best rule, and 1e-6 a row for wishes nearer to 0
        or 1 than that; None once an outcome came late or a row had a weight other than 1.
    theorem : on psreg, from the number of rounds, levels and experts only (`bounds.log_psreg`); None likewise.
    drawn_klcal : KL calibration of the levels p as they were drawn.
    rounds, late, levels, experts, weight : outcomes learned, late ones among them, levels, experts, and the rounds,
        each as often as it counts.
    """

    loss: float
    psreg: float
    against_experts: float
    klcal: float
    rounding: float
    clipping: float
    learning: float
    bound: float | None
    theorem: float | None
    drawn_klcal: float
    rounds: int
    late: int
    levels: int
    experts: int
    weight: float

    def holds(self, tolerance: float = 1e-6) -> bool:
        """Return whether klcal ≤ psreg ≤ bound ≤ theorem, up to `tolerance` times the rounds."""
        slack = tolerance * max(self.weight, 1.0)
        chain = [value for value in (self.klcal, self.psreg, self.bound, self.theorem) if value is not None]
        return all(a <= b + slack for a, b in pairwise(chain))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)

    def sentences(self) -> list[str]:
        """Return what the numbers mean, most important first."""
        if not self.rounds:
            return ["No outcome has been learned yet, so there is nothing to certify."]
        saved = (
            f"No expert and no constant, one of them for each of the {self.levels} levels, could have saved more than "
            f"{rated(self.psreg / self.weight)} nats per forecast over the {self.rounds:,} outcomes learned, "
            "averaged over the issued distributions: computed, not estimated."
        )
        if self.bound is None or self.theorem is None:
            return [saved, "The worst-case theorem is not claimed: outcomes came late or rows had weights."]
        bound, theorem = rated(self.bound / self.weight), rated(self.theorem / self.weight)
        return [saved, f"The bound computed beside it is {bound} per forecast; for any outcomes it is {theorem}."]

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        return f"LogCertificate(loss={self.loss:.4g}, psreg={self.psreg:.4g}, rounds={self.rounds})"


class LogForecaster(FixedLevelsPlayer):
    """Issue probabilities whose log loss no expert beats on any level, and which are KL calibrated.

    Each level keeps a Bayes mixture of your experts and of all constants. A forecast plays two neighbouring levels
    whose mean logit is that of their wishes. For any sequence of outcomes, also of an adversary who sees the
    distribution, the pseudo swap regret in nats is at most Σ D_t, of order T/L², plus what the mixtures cost, L ln 2M
    or L ln 2n: of order T^{1/3} in all (`bounds.log_psreg`).

    Parameters
    ----------
    experts : number M of probabilities that come with each row. They are held 1e-6 away from 0 and 1, as everywhere in
        swapcal where a logarithm is taken.
    levels : N, for the N + 1 levels sin²(π(2i + 1)/(4(N + 1))), dense near 0 and 1. The lowest is about 0.62/(N + 1)²:
        no forecast is below it, so rare events need more levels.
    seed : of the draws between the two levels.

    Examples
    --------
    >>> import numpy as np
    >>> from swapcal import Forecaster
    >>> forecaster = Forecaster.log_loss(experts=2)
    >>> forecast = forecaster.predict([0.1, 0.3])
    >>> forecaster.update(forecast, 0)
    >>> rng = np.random.default_rng(0)
    >>> chance = rng.beta(1, 9, 5000)
    >>> X = np.column_stack([chance, rng.random(5000)])
    >>> forecasts = forecaster.run(X, rng.random(5000) < chance)
    >>> forecaster.certificate().holds()
    True
    """

    _file = FILE

    def __init__(self, experts: int, *, levels: int = 32, seed: int = 0) -> None:
        self._dim = _validate.count("experts", experts)
        self._owner = secrets.token_hex(8)
        self._lock = CopyableLock()
        self._memory = _blank(grid.inner_sine(levels), self._dim, _validate.event_key(_validate.seed(seed)))
        self._scratch = _scratch(self._memory)

    @property
    def rounds(self) -> int:
        """Number of outcomes learned."""
        return int(self._memory.counts[kernel.UPDATES])

    @locked
    def run(
        self,
        X: ArrayLike,
        y: ArrayLike,
        events: "list[object] | None" = None,
        progress: "Callable[[int], object] | None" = None,
        *,
        weights: ArrayLike | None = None,
    ) -> Forecast:
        """Forecast, then learn, row by row: the loop of predict and update, bit for bit, at kernel speed.

        Parameters
        ----------
        X : (n, experts) probabilities
        y : (n,) outcomes in [0, 1]
        events, progress : as in `Forecaster.run`
        weights : (n,) how often each row counts; by default once
        """
        rows = self._rows(X, copy=False)
        return self._run(rows, y, events, progress, _validate.weight_rows(weights, len(rows)))

    @locked
    def certificate(self) -> LogCertificate:
        """Return the exact log losses so far, with their bounds."""
        return _certify(self._memory)

    def to_state(self) -> State:
        """Return the state as `save` writes it."""
        return State(self._memory._asdict(), {"experts": self._dim, "owner": self._owner})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from `to_state`; the state must have been checked."""
        self = cls.__new__(cls)
        self._dim, self._owner = state.manifest["experts"], state.manifest["owner"]
        self._lock = CopyableLock()
        self._memory = LogMemory(**{name: np.array(array, order="C") for name, array in state.arrays.items()})
        self._scratch = _scratch(self._memory)
        return self

    def _rows(self, X: Any, *, single: bool = False, copy: bool = True) -> Array:
        return _validate.probability_rows("experts", [X] if single else X, self._dim, copy=copy)

    def _advance(
        self, X: Array, y: Array, events: Keys, tickets: Array, mixes: Array, options: RunOptions | None = None
    ) -> None:
        given = NO_OPTIONS if options is None else options
        kernel.advance_log(self._memory, self._scratch, X, y, events, tickets, given)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(experts={self._dim}, levels={len(self._memory.z) - 1}, rounds={self.rounds})"

    def _repr_html_(self) -> str:
        facts = {"levels": len(self._memory.z), "experts": self._dim}
        return display(type(self).__name__, f"after {self.rounds:,} outcomes", facts)


def _blank(z: Array, experts: int, seed: int) -> LogMemory:
    levels = len(z)
    return LogMemory(
        z=z,
        **{name: np.zeros(levels) for name in ("mass", "ones", "drawn_mass", "drawn_ones", "lost")},
        loss=np.zeros((levels, experts)),
        weight=np.hstack([np.full((levels, experts), 0.5 / experts), np.full((levels, 1), 0.5)]),
        totals=np.zeros(2),
        counts=np.zeros(3, np.int64),
        seed=np.array([seed], np.uint64),
    )


def _scratch(state: LogMemory) -> LogScratch:
    return LogScratch(logit=np.log(state.z / (1.0 - state.z)), row=np.zeros(state.loss.shape[1]))


def _certify(state: LogMemory) -> LogCertificate:
    played = state.mass > 0
    n, ones, z = state.mass[played], state.ones[played], state.z[played]
    own, constant = _loss_of(z, n, ones), _loss_of(ones / n, n, ones)
    expert = state.loss[played].min(axis=1, initial=np.inf)
    best = np.minimum(expert, constant)
    rounds, late = int(state.counts[kernel.UPDATES]), int(state.counts[kernel.LATE])
    experts, psreg = state.loss.shape[1], float(np.sum(own - best))
    rounding, clipping = float(state.totals[kernel.GAP]), float(state.totals[kernel.CLIPPED])
    claimed = rounds > 0 and late == 0 and int(state.counts[kernel.WEIGHTED]) == 0
    price = np.where(expert <= constant, np.log(2 * experts), np.log(2 * (n + 1)))
    drawn = state.drawn_mass > 0
    d, hits = state.drawn_mass[drawn], state.drawn_ones[drawn]
    return LogCertificate(
        loss=float(own.sum()),
        psreg=psreg,
        against_experts=float(np.sum(own - expert)),
        klcal=float(np.sum(own - constant)),
        rounding=rounding,
        clipping=clipping,
        learning=float(np.sum(state.lost[played] - best)) - clipping,
        bound=rounding + clipping + float(price.sum()) + FLOOR * float(n.sum()) if claimed else None,
        theorem=float(bounds.log_psreg(rounds, experts, len(state.z) - 1)) if claimed else None,
        drawn_klcal=float(np.sum(_loss_of(state.z[drawn], d, hits) - _loss_of(hits / d, d, hits))),
        rounds=rounds,
        late=late,
        levels=len(state.z),
        experts=experts,
        weight=float(n.sum()),
    )


def _loss_of(p: Array, n: Array, ones: Array) -> Array:
    """Return the log loss of one forecast for n rounds with these outcomes; 0 ln 0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        hit, miss = ones * np.log(p), (n - ones) * np.log1p(-p)
    return -np.where(ones > 0, hit, 0.0) - np.where(n > ones, miss, 0.0)
