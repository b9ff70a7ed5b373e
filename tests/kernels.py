"""`python -m tests.kernels`: compile what tests run, once and in two processes, before every worker would.

A kind that is missing here is compiled by every worker that comes to it; nothing else depends on this list.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from swapcal import Audit, Forecaster
from swapcal.baselines import FosterVohra, HuLuo
from swapcal.batch import SnapshotRun
from swapcal.cli import compile as compilation
from swapcal.datasets import Stream, played

ROWS = 40


def sample() -> tuple[Any, Any]:
    """Return contexts and labels."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(ROWS, 0.5), rng.uniform(-0.5, 0.5, ROWS)])
    return X, (rng.random(ROWS) < 0.5).astype(float)


def run(forecaster: Any) -> None:
    X, y = sample()
    forecaster.update(forecaster.predict(X[0]), y[0])
    forecaster.run(X, y)


def run_sparse() -> None:
    rng = np.random.default_rng(0)
    Forecaster.sparse(2, scores=1).run(rng.integers(0, 9, (ROWS, 2)), sample()[1], scores=rng.random((ROWS, 1)))


def duel(forecaster: Any) -> None:
    played(forecaster, Stream("linear", 2, ROWS, 0))


def log_snapshots() -> None:
    X, y = sample()
    logged = SnapshotRun(2, log=True)
    logged.run(X, y)
    history = logged.history()
    history.shares(X)
    history.mean(X)
    history.issue(X, np.arange(ROWS, dtype=np.uint64))


def audit_whole_distributions() -> None:
    X, y = sample()
    rng = np.random.default_rng(0)
    Audit([0.2] * ROWS, y, X, issued=([0.2, 0.6], np.tile([1.0, 0.0], (ROWS, 1)))).to_dict()
    p, group = rng.random(ROWS), rng.choice(["a", "b"], ROWS)
    Audit(p, y, X, weights=rng.random(ROWS) + 1, groups={"g": group}).to_dict()


GROUPS: dict[str, tuple[Callable[[], None], ...]] = {
    "engines": (
        compilation.compile_engine,
        lambda: run(Forecaster(2, levels=4, learner="ons", mixing="blum-mansour")),
        lambda: run(Forecaster(2, learner="ons")),
        lambda: run(Forecaster(2, levels=4, mixing="blum-mansour")),
        lambda: run(Forecaster(2, learner="vaw")),
        lambda: run(Forecaster(2, window=20.0)),
        log_snapshots,
        lambda: duel(Forecaster(2, levels=4, learner="ons", mixing="blum-mansour")),
        lambda: duel(Forecaster(2, levels=4, mixing="blum-mansour")),
        lambda: run(FosterVohra(2, horizon=ROWS)),
        lambda: duel(HuLuo(2, horizon=ROWS)),
    ),
    "others": (
        compilation.compile_experts,
        compilation.compile_open_rows,
        compilation.compile_audit,
        audit_whole_distributions,
        compilation.compile_monitor,
        run_sparse,
        lambda: Forecaster.log_loss(2).run(np.full((ROWS, 2), 0.5), sample()[1]),
    ),
}
"""Groups take about as long. Two processes that save the same kernel at the same time could mix up its files, so kinds
of one kernel are in one group."""


def main() -> None:
    """Compile all groups side by side, or the one that is named."""
    if len(sys.argv) > 1:
        for compile_one in GROUPS[sys.argv[1]]:
            compile_one()
        return
    processes = [subprocess.Popen([sys.executable, "-m", "tests.kernels", group]) for group in GROUPS]
    codes = [process.wait() for process in processes]
    sys.exit(any(codes))


if __name__ == "__main__":
    main()
