"""Predict with a model exported by swapcal, which writes a copy of this script beside it; needs numpy, nothing else.

    model = load("model.npz")
    predict(model, {"age": [31.0, None], "shop": ["north", "south"]})     # columns by name, or an array

Give `scores=` if the model corrects those of another; an array of one column per class if there are more than two.
Missing numbers are None or NaN, missing texts None; dates are text: "2024-02-29", or "2024-02-29T12:00:00" in UTC.
"""
# mypy: allow-untyped-defs, allow-untyped-calls

import json

import numpy as np


def load(path):
    """Return the exported model: what all classes share, and in "parts" the arrays of each class, or the only ones."""
    with np.load(path) as file:
        model = json.loads(str(file["manifest"]))
        _require(model["version"] == 3, path, f"version {model['version']}", "3: use the script exported with it")
        return model | {"parts": [{name: file[key] for name, key in part.items()} for part in model["parts"]]}


def predict(model, columns, scores=None, block=256):
    """Return each row's probability of the second class, of every class if there are more, or its expected outcome."""
    columns = dict(enumerate(columns.T)) if isinstance(columns, np.ndarray) else columns
    _require(not (missing := {*model["names"]} - {*columns}), "columns", f"no {missing}", f"all of {model['names']}")
    given = np.array(scores, float)  # None is NaN, and so no probability
    _require(np.all(np.abs(given - 0.5) < 0.500001 if model["scored"] else scores is None), "scores", *model["scores"])
    score = np.clip(given.reshape(-1, len(model["parts"])).T if model["scored"] else np.empty(0), 1e-16, 1.0 - 1e-16)
    texts = [[known.get(_spelt(value), other) for value in columns[name]] for name, known, other in model["texts"]]
    raw = np.array([*(columns[name] for name in model["numbers"]), *texts, *(score / (1.0 - score))], float)
    _require(not np.isinf(raw[: model["finite"]]).any(), "columns", "an infinite number", "finite ones")
    blocks = [raw[:, start : start + block] for start in range(0, max(1, len(raw.T)), block)]
    p = np.clip(np.hstack([[_mean(part, rows) for part in model["parts"]] for rows in blocks]), *model["range"])
    return model["low"] + model["span"] * p[0] if len(p) == 1 else _to_simplex(p / (1.0 - p))


def _require(fine, name, given, expected):
    if not fine:
        raise ValueError(f"{name}: given {given}, expected {expected}")


def _spelt(value):
    """Return what a value of a column of texts is called in the file; whole numbers and truth values are texts, too."""
    value = str(value).lower() if isinstance(value, (bool, np.bool_)) else value
    is_whole = isinstance(value, (int, float, np.number)) and float(value).is_integer()
    return "missing" if value is None or value != value else f"text {int(float(value)) if is_whole else value!s}"


def _to_simplex(odds, divisor=0.0):
    """Divide all odds of a row by the one number with which its probabilities sum to 1; see swapcal.batch.mixture."""
    for _ in range(64):  # Newton climbs to it from below
        divisor += (np.sum(odds / (odds + divisor), axis=0) - 1.0) / np.sum(odds / (odds + divisor) ** 2, axis=0)
    return (odds / (odds + divisor)).T


def _mean(part, raw):
    """Return the mean forecast: the score corrected three times, then a mixture of forecasters that look at it."""
    # features, a row for each: a one, standard scores, flags of missing values, categories, pairs of categories
    inside = (raw[part["looked_at"]] >= part["at_least"]) & (raw[part["looked_at"]] <= part["at_most"])
    Z = np.nan_to_num(np.clip((raw[part["numbers"]] - part["centre"]) / part["spread"], -3.0, 3.0))
    F = np.vstack([np.ones(len(raw.T)), Z, np.isnan(raw[part["flagged"]]), inside, inside[part["pairs"]].all(axis=0)])
    # log-odds, given and corrected; a tree's leaf is reached where all answers on the way to it were given
    given = _corrected(part, 0, np.clip(np.log(raw[part["odds"]]).sum(axis=0), -12.0, 12.0), F)
    right = np.vstack([given, part["sets"] @ inside, np.nan_to_num(raw, nan=-1e300)])[part["asked"]] > part["threshold"]
    better = _corrected(part, 1, given, F) + part["leaf"] @ (right[part["path"]] == part["turns"]).all(axis=0)
    # what learners look at, and what they wish
    x = np.vstack([F[part["seen"]], np.tanh(_corrected(part, 2, better, F) / 2.0), np.tanh(given / 2.0)])
    return _mixture(part, np.clip(part["pool"] @ x, 0.0, 1.0)[part["member"]])


def _corrected(part, stage, log_odds, F):
    """Return log-odds: a sum over features times a one, the log-odds, and what these are above each knot."""
    return np.sum(part["weights"][stage] @ F * np.maximum(part["floors"], log_odds - part["knots"][stage]), axis=0)


def _mixture(part, wish):
    """Return the mean over forecasters, each between the two levels where its learners' wishes cross them.

    The search is the one that was played: from where the middle learner points, walking, every third step halving.
    """
    z, ends, gap, row, turn = part["z"], part["ends"], wish - part["z"][:, None], np.arange(len(wish.T)), 0
    lo, hi = np.where(gap[ends[1], row] >= 0.0, ends[1:], ends[:2])
    k = np.minimum(lo + ((wish[ends[1], row] - z[lo]) / (z[hi] - z[lo]) * (hi - lo)).astype(int), hi - 1)
    while (hi - lo > 1).any():
        low, high, turn = gap[k, row], gap[k + 1, row], turn + 1
        lo, hi = np.where(low < 0.0, lo, k + (high > 0.0)), np.where(low < 0.0, k, np.where(high > 0.0, hi, k + 1))
        k = np.minimum(np.maximum(k, lo), hi - 1) if turn % 3 else (lo + hi) // 2
    return np.mean(z[lo] + gap[lo, row] / np.maximum(gap[lo, row] - gap[hi, row], 1e-323) * (z[hi] - z[lo]), axis=0)
