"""Rivals: what isotonic regression, a sigmoid and swapcal would have said of every row, none knowing its outcome."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.baselines.recalibration import Isotonic, Sigmoid
from swapcal.batch.model import Model
from swapcal.batch.settings import Settings
from swapcal.live import Live
from swapcal.tables.table import Table

MINE, ISOTONIC, SIGMOID, SWAPCAL = "mine", "isotonic", "sigmoid", "swapcal"
SIMPLE: Mapping[str, Callable[[], Any]] = {ISOTONIC: Isotonic, SIGMOID: Sigmoid}
FIRST, GROWTH = 200, 1.2
"""Outcomes known when recalibrations are first fitted, and the factor from one fit to the next."""

Progress = Callable[[int], object]


def in_time_order(
    records: Any,
    y: Array,
    mine: Array,
    *,
    score: str,
    kind: str = "probability",
    groups: Sequence[str] = (),
    time: Any = None,
    label_time: Any = None,
    seed: int = 0,
) -> dict[str, Array]:
    """Return everybody's forecasts, each made from rows whose outcomes were known by then.

    Recalibrations are fitted at 200, 240, 288, … outcomes known, on all of them, and say the score as it is before.

    Parameters
    ----------
    records : (n rows) a frame with the column `score`, in order of time
    y, mine : (n,) outcomes, and the score as probabilities
    time : (n,) numbers that do not decrease. Without them a row's outcome is known before the next row
    label_time : (n,) when outcomes are known; by default at the time of the row, hence before all later times
    """
    live = Live(groups=groups, scores={score: kind}, seed=seed)
    if time is not None and label_time is None and (np.diff(time) > 0).all():
        time = None  # each outcome is known before the next row: the fast way
    due = label_time if label_time is not None else time
    forecast = live.run(records, y, time=time, label_time=due)
    found = {MINE: mine, **{name: mine.copy() for name in SIMPLE}, SWAPCAL: np.array(forecast.mean)}
    for start, stop, known in _stretches(len(y), time, due):
        for name, make in SIMPLE.items():
            found[name][start:stop] = make().fit(mine[known], y[known]).predict(mine[start:stop])
    return found


def _stretches(n: int, time: Any, due: Any) -> list[tuple[int, int, Any]]:
    """Return (first row, end, rows known at the first) for every fit."""
    order = np.arange(n) if due is None else np.argsort(due, kind="stable")
    seen = np.arange(n) if due is None else np.searchsorted(np.asarray(due)[order], time, side="left")
    starts: list[int] = []
    wanted = FIRST
    while len(at := np.flatnonzero(seen >= wanted)):
        starts.append(int(at[0]))
        wanted = int(np.ceil(GROWTH * seen[at[0]]))
    return [(a, b, order[: seen[a]]) for a, b in zip(starts, [*starts[1:], n], strict=True)]


def cross_validated(
    table: Any,
    y: Array,
    mine: Array,
    *,
    groups: Sequence[str] = (),
    folds: int = 5,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Array]:
    """Return everybody's forecasts of each fold after learning from the others; the folds are the same for all.

    Parameters
    ----------
    table : (n rows) the columns beside the score, as numbers or text
    y, mine : (n,) outcomes, and the score as probabilities
    progress : called with numbers of rows forecast
    """
    if not 2 <= folds <= len(y):
        raise ValueError(f"folds: given {folds}, expected from 2 to {len(y)}, the number of rows")
    fold = folds_of(len(y), folds, seed)
    found = {MINE: mine, **{name: np.empty(len(y)) for name in (*SIMPLE, SWAPCAL)}}
    for k in range(folds):
        learn, judge = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if y[learn].min() == y[learn].max():
            raise ValueError(
                f"y: given {len(y):,} outcomes of which a fold leaves one kind, expected both in every fold"
            )
        for name, make in SIMPLE.items():
            found[name][judge] = make().fit(mine[learn], y[learn]).predict(mine[judge])
        model = Model.fit(_rows(table, learn), y[learn], mine[learn], groups=list(groups), settings=Settings(seed=seed))
        found[SWAPCAL][judge] = model.mean(_rows(table, judge), mine[judge])
        if progress is not None:
            progress(len(judge))
    return found


def folds_of(n: int, folds: int, seed: int) -> Integers:
    """Return each row's fold: equally many rows each, at random.

    Examples
    --------
    >>> np.bincount(folds_of(10, 5, 0)).tolist()
    [2, 2, 2, 2, 2]
    """
    return np.random.default_rng([seed, n, folds]).permutation(np.arange(n) % folds)


def _rows(table: Any, rows: Integers) -> Table:
    return Table(table.take(rows) if hasattr(table, "take") else table[rows])
