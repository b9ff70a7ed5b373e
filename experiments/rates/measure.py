"""One run: play the stream, or fit on samples, and measure every error."""

import time
from typing import Any

import numpy as np

from rates.plan import BATCH, SYSTEMS, Task
from rates.statistics import LevelSums
from swapcal import _validate
from swapcal.arrays import Array
from swapcal.baselines.contextual import halves
from swapcal.datasets import Stream, Tosses, play
from swapcal.engine import state as memory
from swapcal.engine.forecaster import Forecaster
from swapcal.kernels.state import T_P

HELD_OUT = 200_000
"""Fresh contexts on which a fitted predictor is judged. Their chances are known, so only contexts are sampled."""


def measure(task: Task) -> dict[str, Any]:
    """Return the task's fields and what was measured: errors, certificate, seconds, levels.

    Examples
    --------
    >>> found = measure(Task("online", "engine", "linear", 2, 1000, 0))
    >>> found["certified"], found["SMCal_2"] < found["SReg"] < found["certificate"] + 20
    (True, True)
    """
    found = _batch(task) if task.kind == BATCH else _online(task)
    return task.as_dict() | found


def _online(task: Task) -> dict[str, Any]:
    stream = Stream(task.stream, task.dim, task.rounds, task.seed)
    make = SYSTEMS[task.system].online
    assert make is not None, "only systems with an online form are streamed"
    forecaster = make(task.dim, task.rounds, task.seed)
    realised, pseudo = LevelSums(task.dim), LevelSums(task.dim)
    seconds, start = 0.0, time.perf_counter()
    for part in play(forecaster, stream):
        seconds += time.perf_counter() - start
        realised.add(part.forecast.p, part.X, part.y)
        if not isinstance(forecaster, Forecaster):
            _add_pseudo(pseudo, forecaster.levels, part)
        start = time.perf_counter()
    return realised.errors() | _pseudo(forecaster, pseudo) | {"seconds": seconds, "levels": len(forecaster.levels)}


def _add_pseudo(sums: LevelSums, levels: Array, part: Any) -> None:
    """Add rounds with the probabilities that were issued: whole distributions, or two levels."""
    if part.forecast._mixes.shape[1]:
        sums.add_mixture(levels, part.forecast._mixes, part.X, part.y)
        return
    for value, share in ((part.forecast.low, 1.0 - part.forecast.weight), (part.forecast.high, part.forecast.weight)):
        rows = np.flatnonzero(share)
        sums.add(value[rows], part.X[rows], part.y[rows], share[rows])


def _pseudo(forecaster: Any, sums: LevelSums) -> dict[str, Any]:
    """Return pseudo errors, from the forecaster's own certificate where it has one."""
    if not isinstance(forecaster, Forecaster):
        found = sums.errors()
        return {"PSReg": found["SReg"], "PSMCal_2": found["SMCal_2"]}
    proof = forecaster.certificate()
    return {
        "PSReg": proof.psreg,
        "PSMCal_2": proof.psmcal_2,
        "certificate": proof.bound,
        "theorem": proof.theorem,
        "certified": proof.holds(),
    }


def _batch(task: Task) -> dict[str, Any]:
    """Fit on T samples, and judge the predictor on fresh contexts whose chances are known."""
    stream = Stream(task.stream, task.dim, task.rounds + HELD_OUT, task.seed)
    rows, y = stream.rows(0, stream.rounds), stream.labels(0, task.rounds)
    start = time.perf_counter()
    p, X, chance, levels = (_table if SYSTEMS[task.system].table else _mixture)(task, rows, y)
    seconds = time.perf_counter() - start
    sums = LevelSums(task.dim)
    sums.add(p, X, chance)
    names = {"SReg": "SAErr", "SMCal_2": "DSMCal_2", "SMCal_1": "DSMCal_1", "SOmni": "DSOmni"}
    found = {names[name]: value / HELD_OUT for name, value in sums.errors().items()}
    return found | {"seconds": seconds, "levels": levels}


def _mixture(task: Task, rows: Tosses, y: Array) -> tuple[Array, Array, Array, int]:
    """Judge the uniform mixture of the T frozen forecasters, exactly.

    Every held-out row is shown to the forecaster of a uniformly random round, without its label: rows to learn and
    rows to judge run through one loop, in one pass.
    """
    make = SYSTEMS[task.system].batch
    assert make is not None, "only systems with a batch form are fitted"
    meets = np.random.default_rng([task.seed, task.rounds]).integers(0, task.rounds, HELD_OUT)
    order = np.argsort(np.concatenate([np.arange(task.rounds) + 0.5, meets]), kind="stable")
    X, labels = rows.X[order], np.concatenate([y, np.full(HELD_OUT, np.nan)])[order]
    forecaster = make(task.dim, task.rounds, task.seed)
    p = _issued(forecaster, X, labels)
    judged = np.isnan(labels)
    return p[judged], X[judged], rows.chance[order][judged], len(forecaster.levels)


def _table(task: Task, rows: Tosses, y: Array) -> tuple[Array, Array, Array, int]:
    """Judge a model that post-processes a base model, here the constant ½."""
    make = SYSTEMS[task.system].table
    assert make is not None, "only systems with a table form come here"
    X = halves(rows.X) if task.system == "hkrr" else rows.X[:, 1:]
    base = np.full(len(X), 0.5)
    model = make(task.dim, task.rounds).fit(base[: task.rounds], X[: task.rounds], y)
    p = model.predict(base[task.rounds :], X[task.rounds :])
    return p, rows.X[task.rounds :], rows.chance[task.rounds :], len(np.unique(p))


def _issued(forecaster: Any, X: Array, y: Array) -> Array:
    """Return the levels issued row by row; rows whose label is NaN are forecast and not learned."""
    tickets = memory.blank_tickets(len(X))
    forecaster._advance(np.ascontiguousarray(X), y, _validate.NO_EVENT, tickets, forecaster._blank_mixes(1))
    return tickets[:, T_P]
