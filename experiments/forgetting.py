"""What a short memory is worth: calibration of the issued levels on recorded streams and on a turning one.

    SWAPCAL_DATA=directory python experiments/forgetting.py [--data elec2 ...] [--windows 2000 ...] [--halvings 4 ...]

SMCal₂ of the issued p over its null mean, on the whole and on the last quarter, averaged over ten seeds. A seed decides
only the draws between two levels, which nobody learns from, so one run gives the draws of all seeds. Window 0 is an
engine that remembers everything.
"""

import argparse
import time
from typing import Any

import numpy as np

from streams import STREAMS, load, log_loss
from swapcal import Forecaster
from swapcal.arrays import Array
from swapcal.audit import Audit
from swapcal.datasets import Stream
from swapcal.engine import grid
from swapcal.kernels.state import END_HALVINGS
from swapcal.live import Live

SEEDS = 10
WINDOW = 2_000.0  # labels
TURNING = {"name": "drifting", "dim": 5, "rounds": 1_000_000}


def ratio(p: Array, y: Array, x: Array) -> tuple[float, float]:
    """Return SMCal₂ and its null mean, every issued value being a level."""
    noise = Audit(p, y, x).theory.noise("smcal", 2)
    return noise.value, noise.mean


def drawn(forecast: Any, seed: int) -> Array:
    coins = np.random.default_rng(seed).random(len(forecast))
    return np.where(coins < forecast.weight, forecast.high, forecast.low)


def recorded(name: str, window: float, halvings: int) -> str:
    data, grid.END_HALVINGS = load(name), halvings
    live = Live(scores=data.scores, window=window or None)
    start = time.process_time()
    trace = live.trace(data.frame, data.y)
    speed = len(data.y) / (time.process_time() - start)
    made, x, y = trace.forecast, trace.x, data.y
    last = slice(3 * len(y) // 4, None)
    found = []
    for part in (slice(None), last):
        each = np.array([ratio(drawn(made, seed)[part], y[part], x[part]) for seed in range(SEEDS)])
        value, null = each.mean(axis=0)
        found.append(f"{value:.2f} ({null:.2f}) {value / null:.2f}")
    brier = float(np.mean((made.mean - y) ** 2))
    issued = np.mean([log_loss(drawn(made, seed), y) for seed in range(SEEDS)])
    holds = all(live.certificate(w).holds() for w in {None, window or None})
    return (
        f"| {name} | {window:g} | {halvings} | {found[0]} | {found[1]} | {brier:.6f} | {log_loss(made.mean, y):.4f} | "
        f"{issued:.4f} | {live.certificate().levels} | {speed:,.0f} | {'holds' if holds else 'BROKEN'} |"
    )


def turning(window: float, seed: int) -> str:
    stream = Stream(**TURNING, seed=seed)
    X, y = stream.rows(0, stream.rounds).X, stream.labels(0, stream.rounds)
    forecaster = Forecaster(stream.dim, window=window or None, seed=seed)
    start = time.process_time()
    made = forecaster.run(X, y)
    seconds = time.process_time() - start
    levels, index = np.unique(made.p, return_inverse=True)
    g = np.array([np.bincount(index, (y - made.p) * column) for column in X.T])
    worst = np.maximum(4.0 * g[0] ** 2, 4.0 / 3.0 * np.sum(g[1:] ** 2, axis=0))
    smcal, proof = float(np.sum(worst / np.bincount(index))), forecaster.certificate()
    return (
        f"| {window:g} | {seed} | {smcal:.1f} | {proof.psreg:.1f} | {proof.bound:.1f} | {len(levels)} | "
        f"{stream.rounds / seconds:,.0f} | {'holds' if proof.holds() else 'BROKEN'} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=list(STREAMS))
    parser.add_argument("--windows", nargs="*", type=float, default=[0.0, WINDOW])
    parser.add_argument("--halvings", nargs="*", type=int, default=[END_HALVINGS])
    chosen = parser.parse_args()
    columns = [
        "stream",
        "window",
        "halvings",
        "ratio",
        "last",
        "Brier",
        "log-loss",
        "issued",
        "levels",
        "rows/s",
        "certificate",
    ]
    print(f"| {' | '.join(columns)} |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|")
    for name in chosen.data:
        for window in chosen.windows:
            for halvings in chosen.halvings:
                print(recorded(name, window, halvings), flush=True)
    print("\n| window | seed | SMCal₂ | PSReg | bound | levels | rows/s | |\n|--:|--:|--:|--:|--:|--:|--:|---|")
    for window in chosen.windows:
        for seed in range(3):
            print(turning(window, seed), flush=True)


if __name__ == "__main__":
    main()
