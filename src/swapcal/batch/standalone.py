"""Predict with a model exported by swapcal, which writes a copy of this script beside it; needs numpy, nothing else.

    model = load("model.npz")
    predict(model, {"age": [31.0, None], "shop": ["north", "south"]})     # columns by name, or an array

Give `scores=` if the model corrects those of another; an array of one column per class if there are more than two.
Missing numbers are None or NaN, missing texts None; dates are ISO text.
"""

import json
from typing import Any

import numpy as np


def load(path: Any) -> Any:
    """Return the exported model: what each part needs, and what all share."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    model = json.loads(str(arrays.pop("manifest")))
    for number, part in enumerate(model["parts"]):
        part.update({name.split(".", 1)[1]: a for name, a in arrays.items() if name.startswith(f"{number}.")})
    return model


def predict(model: Any, columns: Any, scores: Any = None, block: int = 512) -> Any:
    """Return each row's probability of the second class, of every class if there are more, or its expected outcome."""
    columns = dict(enumerate(columns.T)) if isinstance(columns, np.ndarray) else columns
    rows = len(next(iter(columns.values())))
    given = None if scores is None else np.asarray(scores, float).reshape(rows, len(model["parts"]))
    out = np.empty((rows, len(model["parts"])))
    for start in range(0, rows, block):
        taken = slice(start, start + block)
        for k, part in enumerate(model["parts"]):
            out[taken, k] = _one(part, columns, taken, None if given is None else given[taken, k])
    if model["classes"] is not None and len(model["classes"]) > 2:
        return _to_simplex(out)
    low, high = model["range"]
    return low + (high - low) * out[:, 0]


def _to_simplex(p: Any) -> Any:
    """Shift all log-odds of a row by one number such that its probabilities sum to 1; see swapcal.batch.simplex."""
    odds = p / (1.0 - p)
    t = 1.0 / odds.sum(axis=1, keepdims=True)
    for _ in range(64):
        q = odds * t / (1.0 + odds * t)
        gap = np.maximum(1.0 - q.sum(axis=1, keepdims=True), 0.0)
        t = t * (1.0 + gap / (q * (1.0 - q)).sum(axis=1, keepdims=True))
    return q / q.sum(axis=1, keepdims=True)


def _one(part: Any, columns: Any, taken: slice, score: Any) -> Any:
    Z, H, raw, codes = _encode(part, columns, taken)
    if (score is None) == part["scored"]:
        raise ValueError(f"scores: given {'none' if score is None else 'some'}, expected the opposite of this model")
    if part["scored"]:
        with np.errstate(divide="ignore"):
            given = np.clip(np.log(score) - np.log1p(-score), -part["logit_limit"], part["logit_limit"])
    else:
        given = _regress(part, "scorer", np.full(len(Z), part["base"]), Z, H)
    if part["opened"]:
        given = _regress(part, "opening", given, Z, H)
    x = Z @ part["place_numbers"] + H @ part["place_codes"]
    x[:, 0] = 0.5
    better = given
    if part["trees"]:
        better = _regress(part, "first", given, Z, H) + _trees(part, given, raw, codes)
    for place, log_odds in ((1, _regress(part, "correction", better, Z, H)), (2, given)):
        x[:, place] = part["score_sizes"][place - 1] * np.tanh(log_odds / 2)  # 2p - 1
    mean = _mixture(part, np.clip(x @ part["pool"].T, 0.0, 1.0))
    return np.clip(mean, part["least"], 1.0 - part["least"])


def _encode(part: Any, columns: Any, taken: slice) -> Any:
    wanted = [*part["numbers"], *(column["name"] for column in [*part["rated"], *part["categories"]])]
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise ValueError(f"columns: given no {missing[0]!r}, expected all of {wanted}")
    rows = len(next(iter(columns.values()))[taken])
    raw = np.array([np.asarray(columns[name][taken], float) for name in part["numbers"]])
    raw = raw.reshape(len(part["numbers"]), rows).T
    rated = [[r["offsets"].get(_spelt(v), 0.0) for v in columns[r["name"]][taken]] for r in part["rated"]]
    scaled = np.column_stack([raw, *rated])
    if np.isinf(raw).any():
        raise ValueError("columns: given an infinite number, expected finite ones")
    Z = np.nan_to_num(np.clip((scaled - part["centre"]) / part["spread"], -3.0, 3.0))
    Z = np.column_stack([Z, 3.0 * np.isnan(raw[:, part["flagged"]])])
    H, first, found = np.zeros((rows, len(part["place_codes"]))), 0, []
    for category in part["categories"]:
        codes = _codes(category, columns[category["name"]][taken])
        known = np.flatnonzero(codes >= 0)
        H[known, first + codes[known]] = 1.0
        first += category["size"]
        found.append(codes)
    return Z, H, raw, np.array(found).reshape(len(found), rows).T


def _codes(category: Any, values: Any) -> Any:
    if category["texts"]:
        code_of = {text: code for code, text in enumerate(category["texts"])}
        return np.array([code_of.get(_spelt(value), category["other"]) for value in values], int)
    values = np.asarray(values, float)
    if category["edges"]:
        return np.where(np.isnan(values), -1, np.searchsorted(category["edges"], values))
    known = np.array([*category["numbers"], np.inf])
    place = np.searchsorted(known, values)
    return np.where(known[np.minimum(place, len(known) - 1)] == values, place, category["other"])


def _spelt(value: Any) -> str:
    if value is None or value != value:
        return "(missing)"
    if isinstance(value, str):  # a text that reads like the word for a missing one is quoted
        return f'"{value}"' if value.strip('"') in ("(missing)", "(other)") else value
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    return str(int(value)) if isinstance(value, int | float | np.number) and value == int(value) else str(value)


def _regress(part: Any, name: str, logit: Any, Z: Any, H: Any) -> Any:
    """Return corrected log-odds: an affine function of bends of the logit, numbers, codes and pairs of codes."""
    constant, slope, centre = part[f"{name}.line"]
    out = constant + slope * logit + np.maximum(0.0, logit[:, None] - part[f"{name}.knots"]) @ part[f"{name}.hinges"]
    out += Z @ part[f"{name}.numbers"] + H @ part[f"{name}.codes"] + (logit - centre) * (H @ part[f"{name}.slopes"])
    return out + ((H @ part[f"{name}.pairs"]) * H).sum(axis=1)


def _trees(part: Any, given: Any, raw: Any, codes: Any) -> Any:
    """Return the sum of the leaves every row comes to; a leaf is its own child."""
    column, which, child, value = (part[f"forest.{name}"] for name in ("column", "which", "child", "value"))
    inputs = np.column_stack([given, np.where(np.isnan(raw), part["least_number"], raw), codes])
    last = part["forest.sets"].shape[1] - 1
    bits = np.full(inputs.shape, last)
    bits[:, 1 + raw.shape[1] :] = np.where((codes >= 0) & (codes < last), codes, last)
    place, row = np.tile(part["forest.root"], (len(raw), 1)), np.arange(len(raw))[:, None]
    for _ in range(int(part["forest.depth"])):
        seen = column[place]
        left = inputs[row, seen] <= part["forest.threshold"][place]
        place = child[2 * place + (left | part["forest.sets"][which[place], bits[row, seen]])]
    return value[place].sum(axis=1)


def _mixture(part: Any, wish: Any) -> Any:
    """Return the mean over forecasters, each between the two levels where its learners' wishes cross them.

    The search is the one that was played: from where the middle learner points, walking, every third step halving.
    """
    z, members, snapshots = part["z"], part["members"], np.arange(len(part["z"]))
    row, last = np.arange(len(wish))[:, None], np.broadcast_to(part["counts"] - 1, (len(wish), len(z)))

    def at(k: Any) -> Any:
        return wish[row, members[snapshots, k]], z[snapshots, k]

    middle = last // 2
    w, level = at(middle)
    above = w >= level
    lo, hi = np.where(above, middle, 0), np.where(above, last, middle)
    share = np.where(above, w - level, w) / np.where(above, 1.0 - level, level)
    k, turn, moving = np.minimum(hi - 1, lo + (share * (hi - lo)).astype(int)), 0, np.True_
    while moving.any():
        (w_low, z_low), (w_high, z_high) = at(k), at(k + 1)
        down = (w_low < z_low) & (k > lo)
        up = ~down & (w_high > z_high) & (k + 1 < hi)
        lo, hi, moving, turn = np.where(up, k + 1, lo), np.where(down, k, hi), up | down, turn + 1
        step = np.minimum((lo + hi) // 2, hi - 1) if turn % 3 == 0 else np.where(down, hi - 1, lo)
        k = np.where(moving, step, k)
    u, v = w_low - z_low, z_high - w_high
    share = np.where(u > 0.0, u / np.where(u > 0.0, u + v, 1.0), 0.0)
    return (z_low + share * (z_high - z_low)).mean(axis=1)
