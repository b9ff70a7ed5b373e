"""What others would watch the same residuals with: repeated z-tests, CUSUM, ADWIN, and another e-detector."""

from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.stats import norm

from monitoring_streams import Stream

Array = NDArray[np.float64]
NEVER = np.inf

CUSUM_STAKE = 0.33
"""The CUSUM's one stake: best for a gap of about eight points."""


def members(stream: Stream) -> NDArray[np.int64]:
    """Return the numbers of every row's groups, without `all rows`."""
    columns, offset = [], 0
    for column in stream.records.values():
        names, codes = np.unique(column, return_inverse=True)
        columns.append(codes + offset)
        offset += len(names)
    return np.stack(columns, axis=1)


def z_test(stream: Stream, every: int = 1000, alpha: float = 0.05) -> float:
    """First row at which a Bonferroni z-test over all groups, read every so often, rejects."""
    groups = members(stream)
    count = int(groups.max()) + 1
    blocks = -(-len(stream.p) // every)
    block = np.arange(len(stream.p)) // every
    total, variance = np.zeros((blocks, count)), np.zeros((blocks, count))
    for column in groups.T:
        np.add.at(total, (block, column), stream.y - stream.p)
        np.add.at(variance, (block, column), stream.p * (1 - stream.p))
    z = np.abs(total.cumsum(0)) / np.sqrt(np.maximum(variance.cumsum(0), 1e-12))
    rejected = (z > norm.isf(alpha / (2 * count))).any(axis=1)
    return float((np.argmax(rejected) + 1) * every) if rejected.any() else NEVER


@njit(cache=True)
def _cusum(groups: NDArray[np.int64], p: Array, y: Array, k: float, limit: float, reset: bool, times: Array) -> int:
    """Write the rows of alarms; after each, start anew or stop."""
    high = np.ones((2, groups.max() + 1))
    found = 0
    for t in range(len(p)):
        up = 1 + k / (1 + k * p[t]) * (y[t] - p[t])
        down = 1 + k / (1 + k * (1 - p[t])) * (p[t] - y[t])
        best = 0.0
        for j in range(groups.shape[1]):
            g = groups[t, j]
            high[0, g] = max(1.0, high[0, g]) * up
            high[1, g] = max(1.0, high[1, g]) * down
            best = max(best, high[0, g], high[1, g])
        if best >= limit:
            if found < len(times):
                times[found] = t + 1
            found += 1
            if not reset:
                return found
            high[:] = 1.0
    return found


@cache
def cusum_limit(run_length: int, rows: int = 20_000_000) -> float:
    """Limit at which a CUSUM over forty groups has this mean run length, by simulation of honest uniform forecasts."""
    rng = np.random.default_rng(12345)
    groups = np.stack([rng.integers(0, 10, rows) + 10 * j for j in range(4)], axis=1)
    p = rng.uniform(0.05, 0.8, rows)
    y = (rng.random(rows) < p).astype(float)
    low, high = 0.0, 30.0
    for _ in range(14):
        middle = (low + high) / 2
        alarms = _cusum(groups, p, y, CUSUM_STAKE, np.exp(middle), True, np.zeros(0))
        low, high = (middle, high) if alarms > rows / run_length else (low, middle)
    return float(np.exp(high))


def cusum(stream: Stream, run_length: int) -> float:
    """First alarm of the tuned CUSUM."""
    times = np.full(1, NEVER)
    _cusum(members(stream), stream.p, stream.y, CUSUM_STAKE, cusum_limit(run_length), False, times)
    return float(times[0])


def adwin(stream: Stream, delta: float = 0.002) -> float:
    """First drift that river's ADWIN reports in the residuals of any group, at its default confidence."""
    from river.drift import ADWIN

    groups, residual = members(stream), (stream.y - stream.p).tolist()
    watchers = [ADWIN(delta=delta) for _ in range(int(groups.max()) + 1)]
    for t, row in enumerate(groups.tolist()):
        for g in row:
            watchers[g].update(residual[t])
            if watchers[g].drift_detected:
                return t + 1.0
    return NEVER


def validanytime(residual: Array, rows: NDArray[np.intp], budget: float) -> float:
    """First alarm of validanytime-detectors' e-detector on one group's residuals, both directions."""
    from validanytime_detectors.monitors import compile_monitor

    first = NEVER
    for sign in (1.0, -1.0):
        watcher: Any = compile_monitor(
            {"kind": "e_detector", "arl_target": budget, "null_mean": 0.0, "lo": -1.0, "hi": 1.0}
        )
        state = watcher.init
        for t in rows.tolist():
            state, _, alarm = watcher.step(state, sign * float(residual[t]))
            if alarm:
                first = min(first, t + 1.0)
                break
    return first
