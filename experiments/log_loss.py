"""Log loss on rare events: `Forecaster.log_loss` and the squared engine on the same experts.

    SWAPCAL_DATA=directory python experiments/log_loss.py [stream ...]

The experts are those of `Live`, as they forecast each row before its outcome. The squared engine gets them as
coordinates, `Live` the whole record besides. Calibration is of the mean forecasts, over twenty ranges with equally many
rows, KL with the rule that keeps log loss finite.
"""

import sys
import time

import numpy as np

from streams import load, log_loss
from swapcal import Forecaster
from swapcal.arrays import Array
from swapcal.live import Live

RANGES = 20


def constant(p: float, y: Array) -> float:
    """Return the log loss of one forecast for all rows."""
    return log_loss(np.full(len(y), p), y)


def calibration(p: Array, y: Array) -> tuple[float, float]:
    """Return mean |observed - forecast| in points, and Σ n KL(observed ‖ forecast) in nats."""
    cells = np.array_split(np.argsort(p, kind="stable"), RANGES)
    gaps = [len(cell) * abs(y[cell].mean() - p[cell].mean()) for cell in cells]
    kl = [len(cell) * (constant(p[cell].mean(), y[cell]) - constant(y[cell].mean(), y[cell])) for cell in cells]
    return 100 * sum(gaps) / len(p), sum(kl)


def row(name: str, p: Array, y: Array, seconds: float, extra: str = "") -> None:
    gap, kl = calibration(p, y)
    brier = np.mean((p - y) ** 2)
    print(
        f"| {name} | {log_loss(p, y):.5f} | {brier:.5f} | {gap:.3f} | {kl:.0f} | {seconds:.2f} | {extra} |", flush=True
    )


def compare(name: str) -> None:
    """Print one table."""
    data = load(name)
    start = time.process_time()
    trace = Live(scores=data.scores).trace(data.frame, data.y)
    spent, y, experts = time.process_time() - start, data.y, np.ascontiguousarray(trace.experts)
    print(f"\n{name}: {len(y):,} rows, {100 * y.mean():.2f} % happened, {experts.shape[1]} experts\n")
    print("| forecasts | log loss | Brier | calibration, points | KL, nats | seconds | log loss of p, bound per row |")
    print("|---|--:|--:|--:|--:|--:|---|")
    row("Live", trace.forecast.mean, y, spent, f"{log_loss(trace.forecast.p, y):.5f}")
    row("best expert", experts[:, np.argmin([log_loss(e, y) for e in experts.T])], y, 0.0)
    unit = np.sqrt(0.75 / experts.shape[1])
    X = np.hstack([np.full((len(y), 1), 0.5), unit * (2 * experts - 1)])
    for levels in (32, 64, 128):
        log = Forecaster.log_loss(experts.shape[1], levels=levels)
        log.predict(experts[0])
        start = time.process_time()
        found = log.run(experts, y)
        spent, proof = time.process_time() - start, log.certificate()
        assert proof.holds()
        extra = f"{proof.loss / len(y):.5f}, {proof.bound / len(y):.5f}"
        row(f"log engine, N = {levels}", found.mean, y, spent, extra)
    squared = Forecaster(X.shape[1])
    squared.predict(X[0])
    start = time.process_time()
    found = squared.run(X, y)
    row("squared engine", found.mean, y, time.process_time() - start, f"{log_loss(found.p, y):.5f}")


if __name__ == "__main__":
    for stream in sys.argv[1:] or ["obd_clicks"]:
        compare(stream)
