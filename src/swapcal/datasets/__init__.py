"""Seeded streams to measure forecasters on: stochastic, drifting, adversarial; and the loop that runs them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from swapcal import _validate
from swapcal.arrays import Array
from swapcal.kernels.state import ADAPTIVE, COIN, LEAVE_AHEAD, OPPOSE, Opponent, blank_notes, choose_label

__all__ = ["KINDS", "Part", "Stream", "judged_answers", "play", "played", "prediction_groups"]

# Every stream has contexts x = (½, 0.6 s, 0.6 u): a signal s uniform on [−1, 1] and, from d = 3 on, a point u uniform
# on the unit sphere of the other coordinates, so that chances spread alike in every dimension. Rows depend only on
# (name, dim, seed, position) and the horizon T, not on the parts in which they are generated.
#
# - linear: a coin of chance ½ + 0.35 s.
# - nonlinear: a coin of chance ½ + 0.4 sin(πs)·cos(2s); no linear function of x is right.
# - drifting: a coin whose dependence on the coordinates turns three times around during the horizon.
# - rare: a coin of chance 0.01 + 0.008 s.
# - oppose: 1 exactly when the mean of the issued distribution is below ½.
# - adaptive: a coin of chance ½ + 0.3 s, moved by ±0.2 in whichever direction lengthens Σ(y − mean)x over the rounds
#   with a similar forecast.
# - leave-ahead, hard for ℓ1 calibration: about T^{1/3} rates; each is tossed until the forecasts are T^{1/3} behind or
#   T^{2/3} rounds have passed, and then left, so that what was lost is hard to win back.
# - revealed: x takes about T^{1/3} values and reveals the chance; audited by groups that depend on the forecast.
#
# The last is the setting in which groups may depend on the prediction (`prediction_groups`): a forecaster that plays
# the revealed chance pays for sampling noise on every level, and a deviation from it is detected by a group.

Chance = Callable[[Array, Array], Array]

BLOCK = 65_536
"""Rows generated together; each block has its own random stream, so any part can be made without the rest."""

SIGNAL, REST = 0.6, 0.6


class Tosses(NamedTuple):
    """Contexts (n, d), the chances an oblivious opponent would toss (n,), and the coins it tosses them with (n,)."""

    X: Array
    chance: Array
    coins: Array


def linear(X: Array, elapsed: Array) -> Array:
    """½ + 0.35 s."""
    return 0.5 + 0.35 * signal(X)


def nonlinear(X: Array, elapsed: Array) -> Array:
    """½ + 0.4 sin(πs) cos(2s)."""
    s = signal(X)
    return np.asarray(0.5 + 0.4 * np.sin(np.pi * s) * np.cos(2.0 * s))


def drifting(X: Array, elapsed: Array) -> Array:
    """½ + 0.35 (s cos φ + s' sin φ), φ turning three times; s' is the third coordinate, or the constant at d = 2."""
    phase = 6.0 * np.pi * elapsed
    other = X[:, 2] / REST if X.shape[1] > 2 else 0.5
    return np.asarray(0.5 + 0.35 * (signal(X) * np.cos(phase) + other * np.sin(phase)))


def rare(X: Array, elapsed: Array) -> Array:
    """0.01 + 0.008 s."""
    return 0.01 + 0.008 * signal(X)


def half(X: Array, elapsed: Array) -> Array:
    """½ everywhere."""
    return np.full(len(X), 0.5)


def tilted(X: Array, elapsed: Array) -> Array:
    """½ + 0.3 s, which leaves the adaptive opponent room to push."""
    return 0.5 + 0.3 * signal(X)


def signal(X: Array) -> Array:
    """Return s in [−1, 1], the part of a context that chances depend on."""
    return X[:, 1] / SIGNAL


class LabelRule(NamedTuple):
    """Label rule of a stream: a rule of `swapcal.kernels.state` and its initial chances."""

    rule: int
    chance: Chance


KINDS: dict[str, LabelRule] = {
    "linear": LabelRule(COIN, linear),
    "nonlinear": LabelRule(COIN, nonlinear),
    "drifting": LabelRule(COIN, drifting),
    "rare": LabelRule(COIN, rare),
    "oppose": LabelRule(OPPOSE, half),
    "adaptive": LabelRule(ADAPTIVE, tilted),
    "leave-ahead": LabelRule(LEAVE_AHEAD, half),
    "revealed": LabelRule(COIN, linear),
}


@dataclass(frozen=True)
class Stream:
    """A stream of contexts and the rule by which labels follow; see the module for the names.

    Parameters
    ----------
    name : one of `KINDS`
    dim : d ≥ 2
    rounds : the horizon T
    seed : of contexts and coins

    Examples
    --------
    >>> stream = Stream("linear", dim=3, rounds=1000)
    >>> X, chance, coins = stream.rows(0, 1000)
    >>> X.shape, bool((chance > 0.1).all()), stream.reads_forecasts
    ((1000, 3), True, False)
    >>> y = stream.labels(0, 1000)
    >>> bool(abs(y.mean() - 0.5) < 0.05)
    True
    """

    name: str
    dim: int
    rounds: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise ValueError(f"stream: given {self.name!r}, expected one of {', '.join(KINDS)}")
        if _validate.dimension(self.dim) < 2:
            raise ValueError(f"dim: given {self.dim}, expected at least 2 (the constant and the signal)")
        if self.rounds < 1:
            raise ValueError(f"rounds: given {self.rounds}, expected at least 1")
        _validate.seed(self.seed)

    @property
    def rule(self) -> int:
        """The code of the label rule."""
        return KINDS[self.name].rule

    @property
    def reads_forecasts(self) -> bool:
        """Whether labels depend on the forecasts."""
        return self.rule != COIN

    @property
    def longest_epoch(self) -> float:
        """T^{2/3}, for "leave-ahead"."""
        return float(np.cbrt(float(self.rounds) ** 2))

    def rows(self, start: int, stop: int) -> Tosses:
        """Return the rounds start … stop − 1."""
        if not 0 <= start <= stop <= self.rounds:
            raise ValueError(f"rows: given {start} to {stop}, expected a part of 0 to {self.rounds}")
        blocks = [self._block(b) for b in range(start // BLOCK, -(-stop // BLOCK))] or [self._block(0)]
        offset = start // BLOCK * BLOCK
        part = slice(start - offset, stop - offset)
        X, coins = (np.concatenate(pieces)[part] for pieces in zip(*blocks, strict=True))
        elapsed = np.arange(start, stop) / self.rounds
        return Tosses(X, KINDS[self.name].chance(X, elapsed), coins)

    def blocks(self) -> Iterator[Tosses]:
        """Yield all rounds in pieces of at most `BLOCK`."""
        for start in range(0, self.rounds, BLOCK):
            yield self.rows(start, min(start + BLOCK, self.rounds))

    def labels(self, start: int, stop: int) -> Array:
        """Return the labels of a stream that does not read forecasts."""
        if self.reads_forecasts:
            raise ValueError(
                f"labels: given {self.name!r}, which chooses them after seeing forecasts, expected another stream, "
                "or play(forecaster, stream)"
            )
        rows = self.rows(start, stop)
        return (rows.coins < rows.chance).astype(np.float64)

    def _block(self, index: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, self.dim, index]))
        s = rng.uniform(-1.0, 1.0, BLOCK)
        if self.name == "revealed":
            values = max(2, round(self.rounds ** (1 / 3)))
            s = (np.floor((s + 1.0) / 2.0 * values) + 0.5) / values * 2.0 - 1.0
        X = np.full((BLOCK, self.dim), 0.5)
        X[:, 1] = SIGNAL * s
        if self.dim > 2:
            u = rng.standard_normal((BLOCK, self.dim - 2))
            X[:, 2:] = REST * u / np.linalg.norm(u, axis=1, keepdims=True)
        return X, rng.random(BLOCK)


def prediction_groups(p: Array, chance: Array) -> Array:
    """Return the membership, shape (n, 3), in groups that depend on the forecast: above the chance, below it, all.

    Examples
    --------
    >>> prediction_groups(np.array([0.3, 0.6]), np.array([0.5, 0.5]))
    array([[0., 1., 1.],
           [1., 0., 1.]])
    """
    return np.column_stack([p > chance, p < chance, np.ones(len(p))]).astype(np.float64)


# Playing a stream against a forecaster, compiled where the forecaster allows it.


class OnlineForecaster(Protocol):
    """A forecaster with `predict` and `update`; its tickets have `p` and `mean`."""

    def predict(self, x: Any) -> Any:
        """Return a ticket for one context."""

    def update(self, forecast: Any, y: Any) -> None:
        """Learn the label of a ticket."""


@runtime_checkable
class HasDuel(Protocol):
    """A forecaster with a compiled loop against opponents: a `Forecaster` or a baseline."""

    def duel(self, X: Array, opponent: Opponent) -> Any:
        """Return the forecasts, and let the opponent write its labels."""


class Part(NamedTuple):
    """Some consecutive rounds as they were played. `forecast` has arrays p and mean (and more, if compiled)."""

    X: Array
    y: Array
    chance: Array
    forecast: Any


class TicketForecasts(NamedTuple):
    """Forecasts of a forecaster with its own kind of ticket."""

    p: Array
    mean: Array


def play(forecaster: OnlineForecaster, stream: Stream) -> Iterator[Part]:
    """Yield the rounds of a stream played against a forecaster, in pieces.

    The opponent sees the mean of the distribution P_t before it chooses y_t; it never sees the draw.

    Parameters
    ----------
    forecaster : a `Forecaster` or a baseline (compiled), or anything with predict and update
    stream : of the same dimension

    Examples
    --------
    >>> from swapcal import Forecaster
    >>> parts = list(play(Forecaster(dim=2), Stream("oppose", dim=2, rounds=500)))
    >>> len(parts), bool(abs(parts[0].forecast.mean[-100:].mean() - 0.5) < 0.1)
    (1, True)
    """
    dim = getattr(forecaster, "dim", stream.dim)
    if dim != stream.dim:
        raise ValueError(f"stream: given {stream.dim} coordinates, expected the forecaster's {dim}")
    notes = blank_notes(stream.dim, stream.longest_epoch)
    for X, chance, coins in stream.blocks():
        opponent = Opponent(stream.rule, chance, coins, notes, np.zeros(len(X)))
        forecast = forecaster.duel(X, opponent) if isinstance(forecaster, HasDuel) else _loop(forecaster, X, opponent)
        yield Part(X, opponent.labels, chance, forecast)


def played(forecaster: OnlineForecaster, stream: Stream) -> Part:
    """Return all rounds of a stream at once; for streams that fit in memory.

    Examples
    --------
    >>> from swapcal import Forecaster
    >>> part = played(Forecaster(dim=2), Stream("linear", dim=2, rounds=2000))
    >>> bool(np.mean((part.forecast.p - part.y) ** 2) < 0.25)
    True
    """
    parts = list(play(forecaster, stream))
    X, y, chance = (np.concatenate([part[k] for part in parts]) for k in range(3))
    p, mean = (np.concatenate([getattr(part.forecast, name) for part in parts]) for name in ("p", "mean"))
    return Part(X, y, chance, TicketForecasts(p, mean))


def _loop(forecaster: OnlineForecaster, X: Array, opponent: Opponent) -> TicketForecasts:
    seen = np.empty((2, len(X)))
    rule, chance, coins, notes, labels = opponent
    for t, x in enumerate(X):
        ticket = forecaster.predict(x)
        labels[t] = choose_label(rule, float(ticket.mean), x, float(chance[t]), float(coins[t]), notes)
        forecaster.update(ticket, labels[t])
        seen[:, t] = ticket.p, ticket.mean
    return TicketForecasts(*seen)


# Answers of a language model, judged by another: a table with known truth.

TASKS = ("maths", "sql", "summary", "translation")
LANGUAGES = ("en", "de", "hi")
SKILL = {"maths": 0.2, "sql": 0.9, "summary": 1.6, "translation": 1.2, "en": 0.4, "de": 0.0, "hi": -0.7}
JUDGE_BIAS = {"maths": 0.9, "sql": 0.2, "summary": -0.3, "translation": 0.0, "en": 0.0, "de": 0.1, "hi": 0.6}
"""Bias of the judge's log-odds: overconfident in mathematics, and in a language with little training data."""


def judged_answers(n: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return n simulated answers of a language model, with a judge's confidence in each and whether each is right.

    The judge sees half of the log-odds, is overconfident in some tasks and languages, and rounds to twentieths, as
    confidences stated in words are.

    Returns
    -------
    Columns task, language, length (tokens), judge, correct (0 or 1) and truth, the probability that it is right.

    Examples
    --------
    >>> answers = judged_answers(10_000)
    >>> print(answers["judge"].mean().round(2), answers["correct"].mean().round(2))
    0.84 0.69
    """
    if n < 1:
        raise ValueError(f"n: given {n}, expected at least 1")
    rng = np.random.default_rng(_validate.seed(seed))
    task, language = rng.choice(TASKS, n), rng.choice(LANGUAGES, n, p=(0.6, 0.25, 0.15))
    length = np.exp(rng.normal(5.5, 0.8, n)).astype(np.int64) + 10
    ease = rng.normal(0.0, 1.2, n)
    known = np.array([SKILL[one] + SKILL[other] for one, other in zip(task, language, strict=True)])
    odds = known + ease - 0.4 * (np.log(length) - 5.5)
    bias = np.array([JUDGE_BIAS[one] + JUDGE_BIAS[other] for one, other in zip(task, language, strict=True)])
    stated = 1.0 + 0.5 * odds + bias + rng.normal(0.0, 0.5, n)
    truth = 1.0 / (1.0 + np.exp(-odds))
    judge = np.clip(np.round(20.0 / (1.0 + np.exp(-stated))) / 20.0, 0.05, 0.95)
    correct = (rng.random(n) < truth).astype(np.int64)
    return {"task": task, "language": language, "length": length, "judge": judge, "correct": correct, "truth": truth}
