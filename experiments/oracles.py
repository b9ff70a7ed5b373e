"""What the loop around oracles costs, and what trees and a kernel on every level do on recorded prices.

[SWAPCAL_DATA=directory] python experiments/oracles.py
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from river import tree
from sklearn.tree import DecisionTreeRegressor

from swapcal import Forecaster, OracleForecaster
from swapcal.arrays import Array
from swapcal.oracles import Fourier, Ridge, River, swap_regret

ROWS, FIRST = 8_000, 1_000


class Idle:
    """Costs nothing, so what is measured is the loop."""

    def __init__(self, level: float) -> None:
        self.level = level

    def predict(self, x: Any) -> float:
        return 0.4

    def update(self, x: Any, y: float, weight: float) -> None:
        pass


def overhead(repeats: int = 7, rows: int = 4_000) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(rows, 0.5), rng.uniform(-0.4, 0.4, (rows, 4))])
    y = (rng.random(rows) < 0.4).astype(float)
    for mixing in ("hedge", "blum-mansour"):
        for beside in ((), ("ridge",)):
            spent = []
            for _ in range(repeats):
                forecaster = OracleForecaster(Idle, beside=beside, mixing=mixing)
                forecaster.run(X[:100], y[:100])
                start = time.process_time()
                forecaster.run(X[100:], y[100:])
                spent.append((time.process_time() - start) / (rows - 100))
            print(f"{mixing}, beside {beside}: {1e6 * np.median(spent):.1f} µs of processor time a row")


def prices(folder: Path) -> tuple[Array, Array]:
    """Return the first rows of elec2 as contexts, standardised by the very first of them, and the labels."""
    table = pd.read_csv(folder / "elec2.csv.gz", nrows=ROWS)
    values = table.drop(columns="y").select_dtypes("number").to_numpy(float)
    head = values[:FIRST]
    Z = np.clip((values - head.mean(axis=0)) / (head.std(axis=0) + 1e-9), -3, 3)
    Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1) / np.sqrt(0.75)
    return np.column_stack([np.full(ROWS, 0.5), Z]), table["y"].to_numpy(float)


def on_prices(folder: Path) -> None:
    X, y = prices(folder)
    dim, judge = X.shape[1], DecisionTreeRegressor(max_depth=4, min_samples_leaf=50)
    makes = {
        "ridge": lambda level: Ridge(level, dim),
        "Hoeffding tree": lambda v: River(tree.HoeffdingTreeRegressor(grace_period=100, leaf_prediction="mean")),
        "kernel": lambda level: Fourier(level, dim, features=40, bandwidth=0.6),
    }
    engine = Forecaster(dim, levels=16)
    issued = engine.run(X, y)
    against = swap_regret(issued, y, X, judge)
    print(f"engine: Brier {np.mean((issued.mean - y) ** 2):.4f}, {engine.certificate()!r}, {against!r}")
    for name, make in makes.items():
        for beside in ((), ("ridge",)):
            forecaster = OracleForecaster(make, beside=beside)
            start = time.process_time()
            issued = forecaster.run(X, y)
            spent, found = time.process_time() - start, forecaster.certificate()
            linear = (
                "" if found.linear is None else f", linear psreg {found.linear.psreg:.1f} ≤ {found.linear.bound:.1f}"
            )
            print(
                f"{name}, beside {beside}: Brier {np.mean((issued.mean - y) ** 2):.4f}, {found!r}{linear}, "
                f"{found.against(judge)!r}, {1e6 * spent / ROWS:.0f} µs a row"
            )


if __name__ == "__main__":
    overhead()
    if "SWAPCAL_DATA" in os.environ:
        on_prices(Path(os.environ["SWAPCAL_DATA"]))
