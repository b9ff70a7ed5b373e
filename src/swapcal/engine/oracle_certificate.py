"""Certificates of a forecaster with oracles, and swap regret against any regressor, refitted."""

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate, bounds
from swapcal._display import counted, display
from swapcal.arrays import AnyArray, Array, Integers
from swapcal.engine import state as memory
from swapcal.engine.certificate import NOTHING, TRIVIAL, Certificate, certify, rated, theorem_of
from swapcal.engine.forecast import Forecast
from swapcal.engine.oracle_mixture import LearnedRow, Oracle, OracleMixture, bound_of, regret_of, saved_of, table
from swapcal.kernels.state import GAP, UPDATES, Memory

# Swap regret against a regressor that is fitted anew on the rows of each level.


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SwapRegret:
    """The squared loss that a regressor, fitted in hindsight on the rows of each level, would have saved there.

    Attributes
    ----------
    fitter : the regressor's name
    levels, mass : (L,) the levels, or the lower ends of the cells, that hold rows, and the weight of those rows
    gains : (L,) Σ α[(v - y)² - (f_v(x) - y)²], f_v the regressor fitted on the level's rows with weights α; negative
        where it does worse than the level
    """

    fitter: str
    levels: Array
    mass: Array
    gains: Array

    @property
    def total(self) -> float:
        """Σ of the gains: swap regret against the fitted regressors, hence at most that against their class."""
        return float(np.sum(self.gains))

    def sentences(self) -> list[str]:
        """Return what the numbers mean."""
        if not len(self.levels):
            return [NOTHING]
        weight, what = float(np.sum(self.mass)), "would have saved" if self.total > 0 else "would not have saved"
        least = f" {rated(self.total / weight)}" if self.total > 0 else " any"
        return [
            f"{self.fitter}, fitted in hindsight on the rows of each of {counted(len(self.levels), 'level')}, "
            f"{what}{least} squared error per row. It was fitted and compared on the same rows, so it also fits chance."
        ]

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        return f"SwapRegret({self.fitter}, {len(self.levels)} levels, total {self.total:.6g})"

    def _repr_html_(self) -> str:
        return display("SwapRegret", self.sentences()[0], {"levels": len(self.levels), "total": f"{self.total:,.4g}"})


def swap_regret(
    forecasts: "ArrayLike | Forecast",
    y: ArrayLike,
    X: Any,
    fitter: Any,
    *,
    weight: ArrayLike | None = None,
    levels: int | None = None,
) -> SwapRegret:
    """Return the swap regret of any forecasts against a regressor that is refitted on the rows of each level.

    Parameters
    ----------
    forecasts : (n,) numbers in [0, 1]; of a `Forecast` the issued levels p count.
    y : (n,) outcomes in [0, 1]
    X : n rows as the regressor reads them: an array, a data frame or a list
    fitter : an unfitted regressor of scikit-learn's kind (`fit` with `sample_weight`, `predict`), or a function that
        returns one. A pipeline hands the weights to its last step.
    weight : (n,) how often each row counts; once unless given
    levels : None if each distinct forecast is a level; or an integer N: all forecasts in [i/N, (i + 1)/N) are one.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0]])
    >>> swap_regret([0.5, 0.5, 0.5, 0.5], [0, 1, 0, 1], X, LinearRegression()).total
    1.0
    """
    p = _validate.rates("forecasts", forecasts.p if isinstance(forecasts, Forecast) else forecasts)
    labels = _validate.label_rows(y, len(p))
    counts = np.ones(len(p)) if weight is None else np.asarray(weight, np.float64)
    if counts.shape != p.shape or not (counts >= 0).all():
        raise ValueError(f"weight: given shape {counts.shape}, expected ({len(p)},) numbers of at least 0")
    if hasattr(X, "__len__") and len(X) != len(p):
        raise ValueError(f"X: given {len(X)} rows, expected {len(p)}, one per forecast")
    if levels is not None and levels < 1:
        raise ValueError(f"levels: given {levels}, expected an integer of at least 1")
    cells = p if levels is None else np.minimum(np.floor(p * levels), levels - 1) / levels
    known, cell = np.unique(cells, return_inverse=True)
    if levels is None and len(known) > max(2, len(p) // 2):
        raise ValueError(
            f"forecasts: given {len(known)} different ones in {len(p)} rows, expected levels with several rows each; "
            "levels=N puts forecasts together"
        )
    parts = [np.flatnonzero((cell == k) & (counts > 0)) for k in range(len(known))]
    return _refitted(fitter, known, [(rows, p[rows], counts[rows]) for rows in parts], labels, X)


Part = tuple[Integers, Array, Array]
"""Of one level: its rows, what was forecast there, and their weights α."""


def _refitted(fitter: Any, levels: Array, parts: Sequence[Part], y: Array, X: Any) -> SwapRegret:
    """Fit each level's regressor on the rows of the level, and add up what it saves."""
    used = [k for k, (rows, _, _) in enumerate(parts) if len(rows)]
    gains = [_gain(fitter, y[rows], taken(X, rows), p, alpha) for rows, p, alpha in (parts[k] for k in used)]
    mass = [float(np.sum(parts[k][2])) for k in used]
    name = type(fitter).__name__ if hasattr(fitter, "fit") else getattr(fitter, "__name__", "the regressor")
    return SwapRegret(name, levels[used], np.array(mass), np.array(gains))


def _gain(fitter: Any, y: Array, X: Any, p: Array, alpha: Array) -> float:
    model = copy.deepcopy(fitter) if hasattr(fitter, "fit") and not isinstance(fitter, type) else fitter()
    model.fit(X, y, **_weighing(model, alpha))
    fitted = np.asarray(model.predict(X), np.float64)
    if fitted.shape != y.shape or not np.isfinite(fitted).all():
        raise ValueError(f"fitter: given predictions of shape {fitted.shape}, expected {y.shape} finite numbers")
    return float(alpha @ ((p - fitted) * (p + fitted - 2.0 * y)))


def _weighing(model: Any, alpha: Array) -> dict[str, Array]:
    """Return the argument that gives a regressor, or the last step of a pipeline, the rows' weights."""
    steps = getattr(model, "steps", None)
    prefix, last = (f"{steps[-1][0]}__", steps[-1][1]) if steps else ("", model)
    if "sample_weight" not in inspect.signature(last.fit).parameters:
        raise TypeError(f"fitter: given {type(last).__name__}, whose fit has no sample_weight, expected one with it")
    return {f"{prefix}sample_weight": alpha}


def taken(X: Any, rows: Integers) -> Any:
    """Return some rows of an array, a data frame or a list."""
    if isinstance(X, np.ndarray):
        return X[rows]
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame[rows].to_native() if isinstance(frame, nw.DataFrame) else [X[row] for row in rows]


# The certificate.


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class OracleCertificate:
    """Swap regret of the issued distributions against the class F of the user's oracle, in parts, with bounds.

    All are sums over the labels learned, each as often as it counts; divide by `weight` for means.

    Attributes
    ----------
    psreg : (lower, upper) around PSReg_F = rounding + Σ excess, pathwise, for any labels, weights and delays; equal
        where the oracle solves its class exactly. None if the oracle has no `best`, or rows are not kept.
    rounding : Σ D_t, the price of playing levels instead of wishes: exact.
    excess : (L, 2) around Σ α(w - y)² - inf_F Σ α(f(x) - y)² of each level, w the wishes as issued; NaN where unknown.
    combining : (L,) Σ α(w - y)² - Σ α(w_oracle - y)²: what each level lost by not playing its oracle's own wish, exact;
        0 without learners beside the oracle, negative where they helped.
    bound : at least PSReg_F: rounding + Σ (combining + what the oracle lost at most), where every oracle has `regret`
        or `bound`, labels were on time, no weight exceeded 1 and levels are fixed; else the upper end of `psreg`, or
        None.
    theorem : T·max h²/4 + Σ (the oracle's `regret` at the level's mass + 2 ln M), under the same conditions; else None.
    levels, mass : (L,) the levels and their Σ α.
    rounds, late, weight : labels learned, how many of them for an outdated forecast, and Σ of their weights.
    members : M, the learners of a level.
    linear : the engine's certificate of the same distributions against linear functions of the context; None without
        "ridge" beside the oracle.
    """

    psreg: tuple[float, float] | None
    rounding: float
    excess: Array
    combining: Array
    bound: float | None
    theorem: float | None
    levels: Array
    mass: Array
    rounds: int
    late: int
    weight: float
    members: int
    linear: Certificate | None
    _rows: "Sequence[LearnedRow] | None" = field(default=None)
    _slots: tuple[int, ...] = ()

    def holds(self, tolerance: float = 1e-9) -> bool:
        """Return whether psreg ≤ bound ≤ theorem, as far as they are known, and whether `linear` holds.

        Each pair is compared up to `tolerance` times the larger of its numbers, or 1. False means that an oracle lost
        more than it promised.
        """
        known = [None if self.psreg is None else self.psreg[0], self.bound, self.theorem]
        chain = [value for value in known if value is not None]
        in_order = all(a <= b + tolerance * max(abs(a), abs(b), 1.0) for a, b in pairwise(chain))
        return in_order and (self.linear is None or self.linear.holds())

    def against(self, fitter: Any) -> SwapRegret:
        """Return the swap regret of the same distributions against a regressor that is refitted on each level's rows.

        Parameters
        ----------
        fitter : as in `swap_regret`. It reads the rows as an array if all are arrays of one length, else as a list.
        """
        if self._rows is None:
            raise ValueError("against: given a forecaster made with log=False, expected one that keeps its rows")
        y, X = np.array([row.y for row in self._rows]), table([row.x for row in self._rows])
        plays = level_plays(self._rows, len(self._slots))
        parts = [
            (rows, np.full(len(rows), level), alpha)
            for level, (rows, alpha, _) in zip(self.levels.tolist(), (plays[slot] for slot in self._slots), strict=True)
        ]
        return _refitted(fitter, self.levels, parts, y, X)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers by name, arrays as lists, those of `linear` within it."""
        names = [name for name in self.__slots__ if not name.startswith("_")]
        return {name: _as_json(getattr(self, name)) for name in names}

    def sentences(self) -> list[str]:
        """Return what the numbers mean, most important first."""
        if not self.weight:
            return [NOTHING]
        sentences = [_against_class(self), _rounded(self), _promised(self)]
        return sentences if self.linear is None else [*sentences, self.linear.sentences()[0]]

    def __str__(self) -> str:
        return "\n".join([*self.sentences(), *_details(self)])

    def __repr__(self) -> str:
        holds = "" if self.holds() else ", DOES NOT HOLD"
        known = "unknown" if self.psreg is None else f"{self.psreg[0]:.6g} to {self.psreg[1]:.6g}"
        return f"OracleCertificate({self.rounds:,} labels: swap regret {known}{holds})"

    def _repr_html_(self) -> str:
        sentences = self.sentences()
        return display(
            "OracleCertificate", sentences[0], dict(zip(("rounding", "promise", "linear"), sentences[1:], strict=False))
        )


def _as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.as_dict() if isinstance(value, Certificate) else value


def _against_class(cert: OracleCertificate) -> str:
    if cert.psreg is None:
        return (
            "The oracle does not compute the best functions of its class in hindsight, so the swap regret against that "
            "class is not known; against(fitter) measures it against a regressor."
        )
    lower, upper = (rated(value / cert.weight) for value in cert.psreg)
    least = "" if lower == upper else f" (and some could have saved {lower})"
    return (
        f"No rule of the oracle's class, not even one for each of the {len(cert.levels)} levels, could have saved "
        f"more than {upper} squared error per forecast{least} over the {counted(cert.rounds, 'label')} learned, "
        "averaged over the issued distributions."
    )


def _rounded(cert: OracleCertificate) -> str:
    text = f"Playing levels instead of wishes cost {_signed(cert.rounding / cert.weight)} squared error per forecast"
    if cert.members == 1:
        return f"{text}."
    total = float(np.sum(cert.combining)) / cert.weight
    return f"{text}; combining {cert.members} learners a level instead of the oracle alone cost {_signed(total)}."


def _promised(cert: OracleCertificate) -> str:
    if cert.theorem is not None:
        if cert.theorem / cert.weight >= TRIVIAL:
            return (
                f"Too few forecasts for the theorem: its bound is above {TRIVIAL:g}, the cost of always forecasting ½."
            )
        promise = rated(cert.theorem / cert.weight)
        return f"For any labels, the theorem at these levels' masses gives at most {promise} per forecast."
    return (
        "No theorem is claimed: it needs oracles that know their regret, labels on time, weights of at most 1 and "
        "fixed levels."
    )


def _signed(value: float) -> str:
    return f"{value:.2g}"


def _details(cert: OracleCertificate) -> list[str]:
    known = "not known" if cert.psreg is None else f"{cert.psreg[0]:,.6g} to {cert.psreg[1]:,.6g}"
    bound = "not known" if cert.bound is None else f"{cert.bound:,.4g}"
    theorem = "not claimed" if cert.theorem is None else f"{cert.theorem:,.4g}"
    return [
        f"Details, of the distributions, as sums over {counted(cert.rounds, 'label')} ({cert.late:,} of them late), "
        f"with {len(cert.levels)} levels:",
        f"  pseudo swap regret against the oracle's class: {known}",
        f"  rounding {cert.rounding:,.4g}, combining {float(np.sum(cert.combining)):,.4g}, bound {bound}, theorem "
        f"{theorem}",
    ]


# Certifying.


def level_plays(rows: Sequence[LearnedRow], levels: int) -> list[tuple[Integers, Array, Array]]:
    """Return each slot's rows, their weights α (times the rows' own) and the wishes as issued."""
    by_slot: list[list[tuple[int, float, float]]] = [[] for _ in range(levels)]
    for number, row in enumerate(rows):
        for slot, alpha, w, *_ in row.played:
            if alpha * row.weight > 0.0:
                by_slot[int(slot)].append((number, alpha * row.weight, w))
    return [_columns(plays) for plays in by_slot]


def _columns(plays: "list[tuple[int, float, float]]") -> tuple[Integers, Array, Array]:
    stacked: AnyArray = np.array(plays, np.float64).reshape(-1, 3)
    return stacked[:, 0].astype(np.int64), stacked[:, 1], stacked[:, 2]


class OracleRun(NamedTuple):
    """The state of a forecaster with oracles that its certificate is computed from."""

    state: Memory
    mixtures: Sequence[OracleMixture]
    """By slot."""
    rows: "Sequence[LearnedRow] | None"
    """Those learned; None if they are not kept."""
    late: int
    """Labels of outdated forecasts."""
    heavy: int
    """Labels with a weight above 1, or that only some of their oracles learned."""
    dim: int | None
    """Coordinates that ridge beside the oracles reads; None without it."""
    uniform: bool
    adaptive: bool


def certify_oracles(run: OracleRun) -> OracleCertificate:
    """Return the certificate of the present state."""
    state, slots = run.state, memory.slots_in_order(run.state).tolist()
    in_order = [run.mixtures[slot] for slot in slots]
    mass, rounding = state.mass[slots], float(state.totals[GAP])
    gains = _gains(run, slots)
    combining = np.array([mixture.loss - mixture.losses[0] for mixture in in_order])
    psreg = None if np.isnan(gains).any() else gains.sum(axis=0).tolist()
    bound, theorem = _bounds(run, in_order, mass, rounding + float(combining.sum()))
    return OracleCertificate(
        psreg=None if psreg is None else (psreg[0], psreg[1]),
        rounding=rounding,
        excess=state.excess[slots, None] + gains,
        combining=combining,
        bound=psreg[1] if bound is None and psreg is not None else bound,
        theorem=theorem,
        levels=state.z[slots],
        mass=mass,
        rounds=int(state.counts[UPDATES]),
        late=run.late,
        weight=float(mass.sum()),
        members=len(in_order[0].losses),
        linear=None if run.dim is None else _linear(run, len(in_order[0].losses)),
        _rows=None if run.rows is None else tuple(run.rows),
        _slots=tuple(slots),
    )


def _gains(run: OracleRun, slots: Sequence[int]) -> Array:
    """Return bounds around each level's Σ α(v - y)² - inf_F Σ α(f(x) - y)²; NaN where its oracle has no `best`."""
    if run.rows is None:
        return np.where(run.state.mass[slots] > 0.0, np.nan, 0.0)[:, None].repeat(2, axis=1)
    y, X = np.array([row.y for row in run.rows]), table([row.x for row in run.rows])
    gains = np.zeros((len(slots), 2))
    plays = level_plays(run.rows, len(slots))
    for k, slot in enumerate(slots):
        rows, alpha, _ = plays[slot]
        if len(rows):
            oracle, level = run.mixtures[slot].oracles[0], float(run.state.z[slot])
            around = saved_of(oracle, level, taken(X, rows), y[rows], alpha)
            gains[k] = np.nan if around is None else around
    return gains


def _bounds(
    run: OracleRun, mixtures: Sequence[OracleMixture], mass: Array, spent: float
) -> tuple[float | None, float | None]:
    """Return the bounds on PSReg after the rounds (with `spent`) and before them; None where oracles give none."""
    if run.late or run.heavy or run.adaptive:
        return None, None
    pairs = list(zip((mixture.oracles[0] for mixture in mixtures), mass.tolist(), strict=True))
    known, promised = (_all_known(_lost(promise, *pair) for pair in pairs) for promise in (bound_of, regret_of))
    rounds, z = max(int(run.state.counts[UPDATES]), 1), [mixture.level for mixture in mixtures]
    theorem = None
    if promised is not None:
        theorem = float(bounds.oracle_psreg(z, rounds, promised, members=len(mixtures[0].losses)))
    return None if known is None else spent + sum(known), theorem


def _lost(promise: Callable[[Oracle, float], float | None], oracle: Oracle, mass: float) -> float | None:
    """Return what an oracle lost at most: 0 on a level that was never played."""
    value = promise(oracle, mass)
    return 0.0 if value is None and mass == 0.0 else value


def _all_known(values: Iterable[float | None]) -> list[float] | None:
    """Return the values, or None if one of them is None."""
    known = list(values)
    return None if None in known else [value for value in known if value is not None]


def _linear(run: OracleRun, members: int) -> Certificate:
    """Return the engine's certificate; its theorems, where they hold, include the cost of M learners a level."""
    state, dim = run.state, run.dim or 1
    certificate = certify(state, dim, "ridge", 0, uniform=run.uniform)
    theorems: list[float | None] = [None, None]
    if not (run.late or run.heavy):
        cost = float(certificate.levels * float(bounds.mixture_regret(members)))
        targets = ("sreg", "smcal")
        theorems = [theorem_of(state, dim, "ridge", target, uniform=run.uniform) + cost for target in targets]
    return replace(certificate, late=run.late, theorem=theorems[0], theorem_psmcal=theorems[1])
