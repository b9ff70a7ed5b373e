"""`Figures`: how well the forecasts have done so far, as sums that do not depend on how rows were batched."""

import math
from bisect import bisect_left
from typing import Any

import numpy as np

from swapcal.archive.state import State
from swapcal.arrays import Array
from swapcal.live import Learned

BINS = 20
PERIODS = 128
DELAYS = (1.0, 10.0, 60.0, 600.0, 3600.0, 21600.0, 86400.0, 604800.0, 2592000.0)
"""Seconds up to which waits are counted together; the last bin is beyond."""
LABELS, ONES, BRIER_MEAN, BRIER_ISSUED, SUM_MEAN = range(5)
P_LABELS, P_MEAN, P_ONES, P_BRIER, P_FROM, P_TO = range(6)


class Figures:
    """Brier scores of the forecast, of each expert and of the base rate; reliability; the same over time; delays.

    Sums are added one row after the other, so that a log replayed in other batches gives the same bits.

    Examples
    --------
    >>> figures = Figures(("blend",))
    >>> figures.learn(Learned(["a"], np.array([1.0]), np.array([0.5]), np.array([0.6]), np.array([[0.7]])), 0.0)
    >>> round(figures.brier(), 2), figures.best_expert()[0]
    (0.16, 'blend')
    """

    def __init__(self, experts: tuple[str, ...]) -> None:
        self.experts = experts
        self.totals = np.zeros(5)
        self.expert_brier = np.zeros(len(experts))
        self.reliability = np.zeros((BINS, 3))
        """(bins, 3): labels, sum of mean forecasts, sum of outcomes"""
        self.delays = [0.0] * (len(DELAYS) + 1)
        self.delay = [0.0, 0.0]
        """sum and largest, in seconds"""
        self.periods = np.zeros((PERIODS, 6))
        """labels, sum of means, sum of outcomes, sum of squared errors, first and last time"""
        self.stride = 1
        """labels per period; doubles when all periods are full"""

    @property
    def labels(self) -> int:
        """Labels learned."""
        return int(self.totals[LABELS])

    def learn(self, learned: Learned, now: float) -> None:
        """Add labels that are learned now."""
        error = (learned.mean - learned.y) ** 2
        rows = np.stack([np.ones_like(error), learned.y, error, (learned.p - learned.y) ** 2, learned.mean], axis=1)
        before = self.labels
        self.totals = _added(self.totals, rows)
        self.expert_brier = _added(self.expert_brier, (learned.experts - learned.y[:, None]) ** 2)
        bins = np.minimum((learned.mean * BINS).astype(np.int64), BINS - 1)
        np.add.at(self.reliability, bins, rows[:, [LABELS, SUM_MEAN, ONES]])
        self._enter(before, rows[:, [LABELS, SUM_MEAN, ONES, BRIER_MEAN]], now)

    def _enter(self, before: int, rows: Array, now: float) -> None:
        """Add rows to their periods, halving the periods whenever they are full."""
        start = 0
        while start < len(rows):
            if before + start >= PERIODS * self.stride:
                self._halve()
            stop = min(len(rows), PERIODS * self.stride - before)
            at = (before + np.arange(start, stop)) // self.stride
            fresh = at[self.periods[at, P_LABELS] == 0]
            self.periods[fresh, P_FROM] = now
            np.add.at(self.periods[:, :4], at, rows[start:stop])
            self.periods[at, P_TO] = now
            start = stop

    def _halve(self) -> None:
        pairs = self.periods.reshape(-1, 2, 6)
        merged = np.zeros((PERIODS, 6))
        half = PERIODS // 2
        merged[:half, :4] = pairs[:, 0, :4] + pairs[:, 1, :4]
        merged[:half, P_FROM], merged[:half, P_TO] = pairs[:, 0, P_FROM], pairs[:, 1, P_TO]
        self.periods = merged
        self.stride *= 2

    def wait(self, seconds: float) -> None:
        """Add how long an outcome took to come."""
        self.delay[0] += seconds
        self.delay[1] = max(self.delay[1], seconds)
        self.delays[bisect_left(DELAYS, seconds)] += 1

    def brier(self) -> float:
        """Return the mean squared error of the mean forecasts; NaN before the first label."""
        return self._mean(BRIER_MEAN)

    def brier_issued(self) -> float:
        """Return the mean squared error of the issued levels."""
        return self._mean(BRIER_ISSUED)

    def base_rate(self) -> float:
        """Return the mean outcome."""
        return self._mean(ONES)

    def mean_forecast(self) -> float:
        """Return the mean of the mean forecasts whose outcome is learned."""
        return self._mean(SUM_MEAN)

    def brier_base_rate(self) -> float:
        """Return what always forecasting the base rate would have scored, in hindsight."""
        rate = self.base_rate()
        return rate * (1.0 - rate)

    def best_expert(self) -> tuple[str, float]:
        """Return the expert that did best in hindsight, and its Brier score."""
        if not self.labels:
            return "", math.nan
        best = int(np.argmin(self.expert_brier))
        return self.experts[best], float(self.expert_brier[best]) / self.labels

    def mean_delay(self) -> float:
        """Return the mean time from forecast to outcome, in seconds."""
        count = sum(self.delays)
        return self.delay[0] / count if count else math.nan

    def _mean(self, column: int) -> float:
        return float(self.totals[column]) / self.labels if self.labels else math.nan

    def curve(self) -> list[dict[str, float]]:
        """Return the reliability curve: labels, mean forecast and observed rate of each range that has any."""
        found = []
        for k, (labels, forecast, ones) in enumerate(self.reliability.tolist()):
            if labels:
                ends = {"from": k / BINS, "to": (k + 1) / BINS}
                found.append({**ends, "labels": labels, "forecast": forecast / labels, "observed": ones / labels})
        return found

    def over_time(self) -> list[dict[str, float]]:
        """Return the same number of labels per period: mean forecast, observed rate and Brier score."""
        found = []
        for labels, forecast, ones, error, first, last in self.periods.tolist():
            if labels:
                means = {"forecast": forecast / labels, "observed": ones / labels, "brier": error / labels}
                found.append({"from": first, "to": last, "labels": labels, **means})
        return found

    def to_state(self) -> State:
        """Return all sums."""
        names = ("totals", "expert_brier", "reliability", "delays", "delay", "periods")
        arrays: dict[str, Any] = {name: np.array(getattr(self, name)) for name in names}
        return State(arrays, {"stride": self.stride})

    @classmethod
    def from_state(cls, state: State, experts: tuple[str, ...]) -> "Figures":
        """Rebuild from `to_state`."""
        figures = cls(experts)
        for name, values in state.arrays.items():
            setattr(figures, name, values.tolist() if name in ("delay", "delays") else np.array(values))
        figures.stride = state.manifest["stride"]
        return figures


def _added(total: Array, rows: Array) -> Array:
    """Return the total with rows added one after the other."""
    return np.asarray(np.add.accumulate(np.concatenate([total[None], rows]), axis=0)[-1], dtype=np.float64)
