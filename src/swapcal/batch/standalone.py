"""Predict with a model exported by swapcal, which writes a copy of this script beside it; needs numpy, nothing else.

    model = load("model.npz")
    predict(model, {"age": [31.0, None], "shop": ["north", "south"]})     # columns by name, or an array

Give `scores=` if the model corrects those of another; an array of one column per class if there are more than two.
Missing numbers are None or NaN, missing texts None; dates are text: "2024-02-29", or "2024-02-29T12:00:00" in UTC.
"""

import json
from typing import Any

import numpy as np


def load(path: Any) -> Any:
    """Return the exported model: what all classes share, and in "parts" what each class needs, or the only one."""
    with np.load(path) as file:
        model = json.loads(str(file["manifest"]))
        if model["version"] != 2:
            raise ValueError(f"{path}: given version {model['version']}, expected 2: use the script exported with it")
        for k, part in enumerate(model["parts"]):
            part.update({name.split(".")[1]: file[name] for name in file.files if name.startswith(f"{k}.")})
    return model


def predict(model: Any, columns: Any, scores: Any = None, block: int = 512) -> Any:
    """Return each row's probability of the second class, of every class if there are more, or its expected outcome."""
    columns = dict(enumerate(columns.T)) if isinstance(columns, np.ndarray) else columns
    if missing := [name for name in model["columns"] if name not in columns]:
        raise ValueError(f"columns: given no {missing[0]!r}, expected all of {model['columns']}")
    if (scores is None) == model["scored"]:
        raise ValueError(f"scores: given {'none' if scores is None else 'some'}, expected the opposite of this model")
    shape = len(next(iter(columns.values()))), len(model["parts"])
    p = np.full(shape, 0.5) if scores is None else np.array(scores, float).reshape(shape)
    for k, part in enumerate(model["parts"]):
        raw = np.column_stack([np.ones(len(p)), *(_numbers(column, columns) for column in part["columns"])])
        if np.isinf(raw[:, part["numbers"]]).any():
            raise ValueError("columns: given an infinite number, expected finite ones")
        for start in range(0, len(p), block):
            p[start : start + block, k] = _mean(part, raw[start : start + block], p[start : start + block, k])
    return _to_simplex(p) if len(model["parts"]) > 1 else model["low"] + model["span"] * p[:, 0]


def _to_simplex(p: Any) -> Any:
    """Multiply all odds of a row by one number such that its probabilities sum to 1; see swapcal.batch.simplex."""
    odds = p / (1.0 - p) / np.sum(p / (1.0 - p), axis=1, keepdims=True)
    for _ in range(64):
        q = odds / (1.0 + odds)
        odds *= 1.0 + (1.0 - q.sum(axis=1, keepdims=True)) / (q * (1.0 - q)).sum(axis=1, keepdims=True)
    return q / q.sum(axis=1, keepdims=True)


def _numbers(column: Any, columns: Any) -> Any:
    """Return a column of numbers as it is, one of texts as the numbers the model has for them."""
    values, known = columns[column["name"]], dict(column["texts"])
    return [known.get(_spelt(value), column["other"]) for value in values] if known else np.asarray(values, float)


def _spelt(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, int | float | np.number) and float(value).is_integer():
        return str(int(float(value)))
    return str(value) if value == value else None


def _mean(part: Any, raw: Any, score: Any) -> Any:
    """Return the mean forecast: the score corrected three times, then a mixture of forecasters that look at it."""
    inside = (raw[:, part["looked_at"]] >= part["at_least"]) & (raw[:, part["looked_at"]] <= part["at_most"])
    Z = np.nan_to_num(np.clip((raw[:, part["numbers"]] - part["centre"]) / part["spread"], -3.0, 3.0))
    F = np.column_stack([Z, np.isnan(raw[:, part["flagged"]]), inside, inside[:, part["pairs"]].all(axis=1)])
    with np.errstate(divide="ignore"):
        log_odds = np.clip(np.log(score) - np.log1p(-score), -part["logit_limit"], part["logit_limit"])
    given = _corrected(part, 0, log_odds, F)
    better = _corrected(part, 1, given, F) + _trees(part, np.column_stack([given, raw, inside @ part["sets"]]))
    centred = np.tanh(np.column_stack([_corrected(part, 2, better, F), given]) / 2.0)  # 2p - 1
    x = F[:, : len(part["placed"])] @ part["placed"] + centred @ part["scores_placed"]
    return np.clip(_mixture(part, x @ part["pool"].T), part["least"], 1.0 - part["least"])


def _corrected(part: Any, stage: int, log_odds: Any, F: Any) -> Any:
    bends = np.maximum(0.0, log_odds[:, None] - part["knots"][stage]) @ part["hinges"][stage]
    return F @ part["offsets"][stage] + log_odds * (F @ part["slopes"][stage]) + bends


def _trees(part: Any, inputs: Any) -> Any:
    """Return the sum of the leaves every row comes to; a leaf is its own child, and missing numbers go left."""
    place, row = np.tile(part["root"], (len(inputs), 1)), np.arange(len(inputs))[:, None]
    for _ in range(part["depth"]):
        right = inputs[row, part["asked"][place]] > part["threshold"][place]
        place = part["child"][2 * place + right]
    return part["leaf"][place].sum(axis=1)


def _mixture(part: Any, wish: Any) -> Any:
    """Return the mean over forecasters, each between the two levels where its learners' wishes cross them.

    The search is the one that was played: from where the middle learner points, walking, every third step halving.
    """
    z, member, middle, row = part["z"], part["member"], part["middle"], np.arange(len(wish))[:, None]
    w = np.clip(wish[row, member[middle]], 0.0, 1.0)
    above = w >= z[middle]
    lo, hi = np.where(above, middle, part["first"]), np.where(above, part["last"], middle)
    pointed_at = lo + ((w - z[lo]) / (z[hi] - z[lo]) * (hi - lo)).astype(int)
    k, turn, moving = np.minimum(pointed_at, hi - 1), 0, np.True_
    while moving.any():
        rungs, turn = np.array([k, k + 1]), turn + 1
        low, high = np.clip(wish[row, member[rungs]], 0.0, 1.0) - z[rungs]
        down, up = low < 0.0, (low >= 0.0) & (high > 0.0)
        lo, hi, moving = np.where(up, k + 1, lo), np.where(down, k, hi), up | down
        k = np.where(moving & (turn % 3 == 0), (lo + hi) // 2, k + up - down)
    return (z[k] + low / np.maximum(low - high, 1e-323) * (z[k + 1] - z[k])).mean(axis=1)  # z[k] if both gaps are 0
