"""Simulated streams for `experiments/monitoring.py`: honest forecasts in several guises, and invalid orders."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapcal import Forecaster

Array = NDArray[np.float64]
Rng = np.random.Generator

COLUMNS, CATEGORIES = 4, 10
"""Forty groups: four columns of ten categories; every row is in four groups."""


class Stream(NamedTuple):
    records: dict[str, NDArray[Any]]
    p: Array
    y: Array

    def take(self, rows: NDArray[np.intp]) -> "Stream":
        return Stream({name: column[rows] for name, column in self.records.items()}, self.p[rows], self.y[rows])


def forty(rng: Rng, rows: int) -> dict[str, NDArray[np.int64]]:
    return {f"g{j}": rng.integers(0, CATEGORIES, rows) for j in range(COLUMNS)}


def tossed(rng: Rng, records: dict[str, NDArray[np.int64]], p: Array, truth: Array | None = None) -> Stream:
    return Stream(records, p, (rng.random(len(p)) < (p if truth is None else truth)).astype(float))


def independent(rng: Rng, rows: int) -> Stream:
    """Forecasts uniform on [0, 1], forty groups, labels independent."""
    return tossed(rng, forty(rng, rows), rng.random(rows))


def rare(rng: Rng, rows: int) -> Stream:
    """Rare events: forecasts between 0.1 % and 2 %."""
    return tossed(rng, forty(rng, rows), 0.001 * 20.0 ** rng.random(rows))


def small_groups(rng: Rng, rows: int) -> Stream:
    """One column of 300 categories whose sizes fall like 1/k."""
    share = 1.0 / np.arange(1, 301)
    return tossed(rng, {"g": rng.choice(300, rows, p=share / share.sum())}, rng.random(rows))


def at_the_tolerance(rng: Rng, rows: int) -> Stream:
    """Every forecast off by exactly 0.01, up or down by the parity of a category: sound, but only just."""
    records, p = forty(rng, rows), rng.uniform(0.05, 0.95, rows)
    return tossed(rng, records, p, p + np.where(records["g0"] % 2 == 0, 0.01, -0.01))


def engine(rng: Rng, rows: int, block: int = 16) -> tuple[Stream, Array]:
    """Our own forecaster, learning all the time, with labels drawn from its mean; also the levels it issued."""
    records = forty(rng, rows)
    X = np.column_stack([np.full(rows, 0.5), rng.uniform(-0.4, 0.4, (rows, 3)), (records["g0"] == 3) * 0.3])
    prior = [1.0, 0.6, -0.4, 0.3, 0.5]  # without it the first forecasts, all 0, would prove themselves right
    forecaster = Forecaster(5, seed=int(rng.integers(2**31)), prior=prior)
    p, level, y = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    for start in range(0, rows, block):
        part = slice(start, start + block)
        ticket = forecaster.predict_many(X[part])
        p[part], level[part] = ticket.mean, ticket.p
        y[part] = rng.random(len(p[part])) < p[part]
        forecaster.update(ticket, y[part])
    return Stream(records, np.clip(p, 0, 1), y), np.clip(level, 0, 1)


def engine_means(rng: Rng, rows: int) -> Stream:
    """As `engine`, judged by its mean forecasts."""
    return engine(rng, rows)[0]


def engine_levels(rng: Rng, rows: int) -> Stream:
    """As `engine`, judged by the levels it drew: rounded on purpose, so not honest one by one."""
    stream, level = engine(rng, rows)
    return stream._replace(p=level)


def bookings(rng: Rng, rows: int) -> tuple[Stream, Array, Array]:
    """Rows with the times of maturity and of arrival: an event is known half-way, its absence only at the end."""
    stream = independent(rng, rows)
    length = 200.0 * (1 + stream.records["g0"])
    maturity = np.arange(rows) + length
    return stream, maturity, np.where(stream.y == 1, maturity - length / 2, maturity)


def by_maturity(rng: Rng, rows: int) -> Stream:
    """Titles 200 to 2,000 rows late, entered at the time by which they were bound to be known."""
    stream, maturity, _ = bookings(rng, rows)
    return stream.take(np.argsort(maturity, kind="stable"))


def by_arrival(rng: Rng, rows: int) -> Stream:
    """Enter the same labels when they arrived."""
    stream, _, arrival = bookings(rng, rows)
    return stream.take(np.argsort(arrival, kind="stable"))


def shared_shocks(rng: Rng, rows: int) -> Stream:
    """Days of 100 rows with a common shock that no forecast could know: right on average, but not given each other."""
    records, p = forty(rng, rows), rng.uniform(0.2, 0.8, rows)
    return tossed(rng, records, p, p + np.repeat(rng.choice([-0.15, 0.15], -(-rows // 100)), 100)[:rows])


def daily_means(rng: Rng, rows: int) -> Stream:
    """Enter each such day as one row: its mean forecast and its mean outcome."""
    stream = shared_shocks(rng, rows)
    days = [column[: rows // 100 * 100].reshape(-1, 100).mean(axis=1) for column in (stream.p, stream.y)]
    return Stream({f"g{j}": np.zeros(len(days[0]), np.int64) for j in range(COLUMNS)}, days[0], days[1])


def patients(rng: Rng, rows: int, each: int) -> Stream:
    """Draw right forecasts of patients with `each` rows at random times, whose unknown fate is shared: ±25 points."""
    patient = rng.permutation(np.repeat(np.arange(-(-rows // each)), each)[:rows])
    p = rng.uniform(0.3, 0.7, rows)
    fate = rng.choice([-0.25, 0.25], -(-rows // each))
    return tossed(rng, {"g": rng.integers(0, 3, rows), "patient": patient}, p, p + fate[patient])


def chosen(rng: Rng, rows: int) -> Stream:
    """Draw right forecasts whose outcomes are obtained by a sign that they do not know; `weight` is 1/π."""
    p, sign = rng.uniform(0.3, 0.7, rows), rng.choice([-1, 1], rows)
    often = sign > 0
    records = {"g": rng.integers(0, 3, rows), "weight": np.where(often, 1.25, 5.0)}
    known = rng.random(rows) < np.where(often, 0.8, 0.2)
    return tossed(rng, records, p, p + 0.25 * sign).take(np.flatnonzero(known))


Maker = Callable[[Rng, int], Stream]


def changed(rng: Rng, rows: int, at: int, gap: float, share: float) -> tuple[Stream, NDArray[np.bool_]]:
    """Forty groups, one of size `share`, where from row `at` on events are more frequent by `gap` than forecast."""
    records, p = forty(rng, rows), rng.uniform(0.05, 0.8, rows)
    hit = rng.random(rows) < share
    records["g0"] = np.where(hit, 99, records["g0"])
    late = hit & (np.arange(rows) >= at)
    return tossed(rng, records, p, p + gap * late), hit
