"""Delays of outcomes, and π, the share of outcomes that cannot have been seen yet."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from swapcal._validate import EMPTY_KEY, UNIT, Span, digest_of, event_key
from swapcal.archive import ArchiveError
from swapcal.arrays import AnyArray, Array, Integers
from swapcal.tables.values import NUMBERS

# `OutcomeDelays`: the delays of outcomes, and π.

FINE = 6  # delays are distinguished to one part in 2**FINE


def delay_class(delay: int) -> int:
    """Return the class of a delay: its own below 2 · 2**FINE, then 2**FINE classes for each doubling.

    Examples
    --------
    >>> [delay_class(delay) for delay in (0, 127, 128, 129, 130, 1 << 20)]
    [0, 127, 128, 128, 129, 960]
    """
    shift = max(delay.bit_length() - FINE - 1, 0)
    return (shift << FINE) + (delay >> shift)


OWN = 2 << FINE  # delays below have classes of their own


class OutcomeDelays:
    """Counts of outcomes by the number of forecasts issued between theirs and the moment they were learned.

    Examples
    --------
    >>> delays = OutcomeDelays()
    >>> delays.unseen(np.arange(10))  # nothing is known of ten forecasts
    1.0
    >>> delays.add(3, 40)  # every outcome comes three forecasts late
    >>> round(delays.unseen(np.arange(3)), 3)
    0.024
    """

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.lost: list[int] = []
        self.longest: list[int] = []
        """the longest delay seen in each class"""

    def add(self, delay: int, outcomes: int = 1) -> None:
        """Count outcomes that were learned after a delay."""
        k = delay if delay < OWN and delay < len(self.seen) else self._room(delay)
        self.seen[k] += outcomes
        if delay > self.longest[k]:
            self.longest[k] = delay

    def lose(self, age: int) -> None:
        """Count a forecast that expired at an age without an outcome."""
        self.lost[self._room(age)] += 1

    def _room(self, delay: int) -> int:
        k = delay_class(delay)
        missing = k + 1 - len(self.seen)
        if missing > 0:
            for column in (self.seen, self.lost, self.longest):
                column.extend([0] * missing)
        return k

    def unseen(self, ages: Integers) -> float:
        """Return the share π of outcomes that take longer than any that was seen, given the ages of open forecasts.

        The Kaplan–Meier estimate Π (1 - e/(r + 1)) over the delays seen, smoothed by one: e outcomes came after a delay
        that r forecasts had reached without one. The outcomes seen carry no information on later ones (Manski 1990). 1
        before the first outcome; 0 if there is one and every forecast has its own.

        ages : (open forecasts,) numbers of forecasts issued since, not increasing
        """
        seen, lost = np.array(self.seen, np.int64), np.array(self.lost, np.int64)
        if not seen.any():
            return 1.0
        if not len(ages) and not lost.any():
            return 0.0
        classes = np.flatnonzero(seen)
        reached = np.cumsum((seen + lost)[::-1])[::-1][classes]
        older = np.searchsorted(-np.asarray(ages), -np.array(self.longest)[classes], side="right")
        return float(np.prod(1.0 - seen[classes] / (reached + older + 1.0)))

    def to_arrays(self) -> dict[str, AnyArray]:
        """Return the counts as arrays."""
        return {name: np.array(getattr(self, name), np.int64) for name in ("seen", "lost", "longest")}

    @classmethod
    def from_arrays(cls, arrays: "dict[str, AnyArray]") -> "OutcomeDelays":
        """Rebuild from `to_arrays`."""
        delays = cls()
        for name in ("seen", "lost", "longest"):
            setattr(delays, name, arrays[name].tolist())
        return delays


# `ArrivalOrder`: whether outcomes of one kind come earlier than those of the other.


class ArrivalOrder:
    """Of neighbouring forecasts with different outcomes, how often the 1 came after the shorter delay.

    Where delays do not depend on outcomes this is a fair coin, tossed whenever the second outcome of a pair is learned;
    pairs with equal delays are left out. Forecasts 0 and 1 are a pair, 2 and 3, and so on.

    Examples
    --------
    >>> order = ArrivalOrder()
    >>> order.learn(0, 5, 0.0)
    >>> order.learn(1, 2, 1.0)
    >>> order.earlier, order.later
    (1, 0)
    """

    def __init__(self) -> None:
        self.earlier, self.later = 0, 0
        self.halves: dict[int, tuple[int, float]] = {}
        """delay and outcome of pairs of which one is known; an outcome of NaN if the forecast expired"""

    def learn(self, number: int, delay: int, y: float) -> None:
        """Enter the outcome of a forecast, or NaN if none will come."""
        pair = number >> 1
        other = self.halves.pop(pair, None)
        if other is None:
            self.halves[pair] = delay, y
        elif delay != other[0] and {y, other[1]} == {0.0, 1.0}:
            first = y if delay < other[0] else other[1]
            self.earlier += first == 1.0
            self.later += first == 0.0

    def learn_at_once(self, number: int, y: Sequence[float]) -> None:
        """Enter the outcomes of forecasts in a row that came at once: whole pairs among them carry no information."""
        last = number + len(y) - 1
        if number & 1:
            self.learn(number, 0, y[0])
        if not last & 1:
            self.learn(last, 0, y[-1])

    def to_array(self) -> AnyArray:
        """Return the pairs of which one is known (n, 3)."""
        return np.array([(pair, *half) for pair, half in self.halves.items()], np.float64).reshape(-1, 3)

    def restore(self, halves: AnyArray) -> None:
        """Restore the state that `to_array` returned."""
        self.halves = {int(pair): (int(delay), float(y)) for pair, delay, y in halves.tolist()}
        if len(self.halves) != len(halves):
            raise ArchiveError("pairs.halves: given a pair twice, expected each once")


# `Unseen`: how forecasts allow for outcomes that cannot have been seen.

ANYTHING, FAIR, AUTO = "anything", "fair", "auto"
FEW = 30.0  # with k outcomes of the rarer kind known, odds may differ by a factor of 1 + FEW/k
MOST_RARE = 1.5  # and by no more than this factor where 1 is the rarer kind: most events are rare, and reported
NEGLIGIBLE = 1.01  # a factor that changes almost nothing


class Unseen(NamedTuple):
    """The factor by which the odds of unseen outcomes may differ from those of the outcomes seen, and their prior.

    A share π of the outcomes takes longer than any that was seen, and the data have no information about them. With q
    for their mean the forecast is (1 - π)·mean + π·q. Its squared bias is at most π²/4 for q = ½; that of the mean
    alone may be π².
    """

    rule: "str | float" = AUTO
    """"anything", "fair", "auto", or the largest factor Λ between the odds of outcomes seen and not seen"""
    prior: float | None = None
    """a base rate; None for one half"""
    score: int | None = None
    """index of the user's score that is the prior, in place of a base rate"""
    named: bool = False
    """whether a prior was given, which is the forecast before any label is known"""

    def factor(self, zeros: float, ones: float) -> float:
        """Return Λ, given the numbers of known outcomes; before the first, infinity with a prior, else 1."""
        if not zeros + ones:
            return math.inf if self.named else 1.0
        if not isinstance(self.rule, str):
            return self.rule
        if self.rule != AUTO:
            return math.inf if self.rule == ANYTHING else 1.0
        rarer = min(zeros, ones)
        factor = 1.0 + FEW / rarer if rarer > 0.0 else math.inf
        factor = min(factor, MOST_RARE) if ones <= zeros else factor
        return factor if factor >= NEGLIGIBLE else 1.0

    def believed(self, scores: Array) -> float | None:
        """Return the prior probability of a row with these scores; None without a prior."""
        if self.score is None:
            return self.prior
        given = float(scores[self.score])
        return None if given != given else given

    def moved(self, mean: float, share: float, factor: float, belief: float | None) -> tuple[float, float]:
        """Return the forecast that allows for a share of unseen outcomes, and the mean q of these.

        Examples
        --------
        >>> Unseen().moved(0.9, 0.5, math.inf, None)
        (0.7, 0.5)
        >>> Unseen().moved(0.5, 1.0, 3.0, 0.9)
        (0.75, 0.75)
        """
        if factor == math.inf:
            other = 0.5 if belief is None else belief
        else:
            low, high = mean / (mean + (1.0 - mean) * factor), mean * factor / (mean * factor + 1.0 - mean)
            other = 0.5 * (low + high) if belief is None else min(max(belief, low), high)
        return (1.0 - share) * mean + share * other, other

    def moved_many(self, means: Array, shares: Array, factors: Array, scores: Array) -> Array:
        """Return the forecasts of rows with these scores, as `moved` one by one."""
        none = math.nan if self.prior is None else self.prior
        beliefs = np.full(len(means), none) if self.score is None else scores[:, self.score]
        with np.errstate(invalid="ignore"):  # of infinite factors
            low, high = means / (means + (1.0 - means) * factors), means * factors / (means * factors + 1.0 - means)
            within = np.where(np.isnan(beliefs), 0.5 * (low + high), np.minimum(np.maximum(beliefs, low), high))
        others = np.where(factors == math.inf, np.where(np.isnan(beliefs), 0.5, beliefs), within)
        return (1.0 - shares) * means + shares * others


def read_unseen(unseen: Any, prior: Any, scores: Sequence[str], span: Span = UNIT) -> Unseen:
    """Return how to allow for unseen outcomes. Raises ValueError for an invalid argument."""
    rule = unseen
    if isinstance(unseen, bool) or not (unseen in (ANYTHING, FAIR, AUTO) or isinstance(unseen, int | float)):
        raise ValueError(f'unseen: given {unseen!r}, expected "auto", "anything", "fair" or a number of at least 1')
    if not isinstance(unseen, str):
        rule = float(unseen)
        if not rule >= 1.0:
            raise ValueError(f"unseen: given {unseen!r}, expected a number of at least 1")
    ends = f"{span.low:.10g} and {span.high:.10g}"
    if isinstance(prior, str):
        if prior not in scores:
            raise ValueError(f"prior: given {prior!r}, expected a number between {ends}, or one of the scores")
        return Unseen(rule, None, [*scores].index(prior), named=True)
    if prior is None:
        return Unseen(rule, None, 0 if len(scores) == 1 else None)
    if isinstance(prior, bool) or not isinstance(prior, NUMBERS) or not span.low < float(prior) < span.high:
        raise ValueError(f"prior: given {prior!r}, expected a number between {ends}, or one of the scores")
    return Unseen(rule, span.share(float(prior)), named=True)


def coin(seed: int, event: int) -> float:
    """Return a number in [0, 1) determined by (seed, event), other than the one that draws between levels.

    Examples
    --------
    >>> 0.0 <= coin(0, 17) < 1.0
    True
    """
    return event_key(f"unseen {seed} {event}") * 2.0**-64


def coins(seed: int, events: Sequence[int]) -> list[float]:
    """Return `coin` of several events.

    Examples
    --------
    >>> coins(0, [17, 18]) == [coin(0, 17), coin(0, 18)]
    True
    """
    start = EMPTY_KEY.copy()
    start.update(b"unseen %d " % seed)
    return [(digest_of(b"%d" % event, start) or 1) * 2.0**-64 for event in events]


def neighbouring_level(levels: Array, value: float, draw: float) -> float:
    """Return one of the two levels around a value, drawn so that their mean is the value.

    Examples
    --------
    >>> neighbouring_level(np.array([0.0, 0.5, 1.0]), 0.6, 0.1), neighbouring_level(np.array([0.0, 0.5, 1.0]), 0.6, 0.3)
    (1.0, 0.5)
    """
    k = min(max(int(np.searchsorted(levels, value, side="right")), 1), len(levels) - 1)
    low, high = float(levels[k - 1]), float(levels[k])
    return high if draw < (value - low) / (high - low) else low
