"""Inputs of the recorded cases.

They are computed with additions, products and comparisons of PCG64 uniforms only, so every processor and every version
of numpy gives the same bits.
"""

from typing import Any, NamedTuple

import numpy as np

CITIES = ("Rome", "Bari", "Oslo", "Lima", "Bern")


class Rows(NamedTuple):
    X: Any
    y: Any


class Events(NamedTuple):
    records: list[dict[str, Any]]
    y: Any
    time: Any
    label_time: Any
    matures: Any


def uniforms(seed: int, *shape: int) -> Any:
    """Return numbers in [0, 1)."""
    return np.random.Generator(np.random.PCG64(seed)).random(shape)


def contexts(seed: int, rows: int, dim: int) -> Rows:
    """Return contexts with x_1 = ½ and norm at most 1, and labels that depend on two coordinates."""
    u = uniforms(seed, rows, dim + 1)
    X = (2.0 * u[:, :dim] - 1.0) * (0.8 / dim)
    X[:, 0] = 0.5
    chance = 0.45 + 0.3 * dim * X[:, 1] - 0.2 * dim * X[:, -1]
    return Rows(X, (u[:, dim] < chance).astype(np.float64))


def events(seed: int, rows: int) -> Events:
    """Return records of numbers, texts, truth values, missing values, two scores and a column that comes late."""
    u = uniforms(seed, rows, 16)
    records = [_record(k, rows, row) for k, row in enumerate(u.tolist())]
    base = 0.25 + 0.3 * u[:, 0] + 0.2 * (u[:, 2] < 0.3) - 0.15 * (u[:, 3] > 0.7)
    y = (u[:, 13] < base).astype(np.float64)
    time = np.floor(np.cumsum(0.5 + u[:, 14]) * 64.0) / 64.0
    label_time = time + np.floor(u[:, 15] * 20.0 * 64.0) / 64.0
    return Events(records, y, time, label_time, label_time + 3.0)


def _record(k: int, rows: int, u: list[float]) -> dict[str, Any]:
    record: dict[str, Any] = {
        "price": round(100.0 * u[0], 3),
        "age": int(18 + 60 * u[1]),
        "city": CITIES[int(5 * u[2] * u[2])],
        "channel": None if u[3] > 0.9 else ("web", "shop", "phone")[int(3 * u[3])],
        "weight": None if u[4] < 0.1 else round(u[4] * u[5] * 1000.0, 2),
        "member": u[6] < 0.4,
        "code": f"c{int(40 * u[7])}",
        "score": round(0.02 + 0.9 * u[0] * u[8] + 0.05 * (u[2] < 0.3), 4),
        "logit": round(4.0 * u[0] - 2.5 + u[9], 4),
        "hour": int(24 * u[10]),
        "ratio": round(u[11] / (0.1 + u[12]), 4),
        "flat": 1.0,
    }
    if 2 * k >= rows:
        record["late"] = round(u[12], 3)
    return record


def columns(records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the records as columns, with None where a record lacks one."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return {name: [record.get(name) for record in records] for name in names}


def predictions(seed: int, rows: int) -> dict[str, Any]:
    """Return two columns of predictions, one of them wrong for a group, with outcomes, features and groups."""
    u = uniforms(seed, rows, 9)
    night = u[:, 1] < 0.3
    truth = 0.15 + 0.6 * u[:, 0] + 0.1 * (u[:, 2] < 0.5)
    off = truth - 0.12 * night
    return {
        "p": np.round(off, 3),
        "q": np.round(0.9 * truth + 0.05, 3),
        "y": (u[:, 3] < truth).astype(np.float64),
        "features": {
            "age": np.floor(18 + 60 * u[:, 4]),
            "income": np.round(1000.0 * u[:, 5] * u[:, 5], 1),
            "city": np.array(CITIES)[(5 * u[:, 6]).astype(int)],
        },
        "groups": {
            "shift": np.where(night, "night", "day"),
            "region": np.array(["north", "south", "west"])[(3 * u[:, 7]).astype(int)],
        },
        "time": np.arange(rows) * 3600.0,
        "weights": np.round(0.5 + u[:, 8], 2),
        "low": np.floor(8.0 * off) / 8.0,
        "high": (np.floor(8.0 * off) + 1.0) / 8.0,
        "share": 8.0 * off - np.floor(8.0 * off),
    }
