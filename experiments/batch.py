"""Post-processing a classifier: this package against what one would use instead.

    SWAPCAL_DATA=directory python experiments/batch.py [--seeds 3] [--tasks planted compas] [--page-only]

A base model is fitted on one part of each table, every method post-processes its probabilities on a second part, and
everything is measured on a third. Results go to build/batch.jsonl (finished runs are not repeated); the tables
and the picture of docs/batch.md are written from it.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from batch_page import write_page
from batch_tasks import PLANTED, TABLES, Cells, Task, base_models, load
from swapcal import SwapClassifier, errors
from swapcal.arrays import Array
from swapcal.baselines.batch_registry import BATCH
from swapcal.batch.model import Model, Settings
from swapcal.batch.placement import lay_out
from swapcal.features.frozen import Frozen
from swapcal.kernels.batch_design import fill_contexts
from swapcal.tables.table import Table

Predict = Callable[[slice], Array]

RESULTS = Path(__file__).resolve().parent.parent / "build" / "batch.jsonl"
BINS = 10
SMALLEST_GROUP = 200
PATCHED_GROUPS, PATCHED_ROWS = 400, 100
NULL_DRAWS = 10
TINY = 1e-6


class Scene:
    """One task, base model and seed: scores of both parts, and what each method needs of them."""

    def __init__(self, task: Task, base: Any, seed: int) -> None:
        (X0, y0), (X1, self.y), (X2, self.y_test) = (task.part(i) for i in range(3))
        base.fit(X0[task.base_columns], y0)
        self.p, self.p_test = (base.predict_proba(X[task.base_columns])[:, 1] for X in (X1, X2))
        self.frame, self.frame_test, self.groups, self.seed = X1, X2, task.groups, seed
        cells, self.cells_test = Cells.of([X1, X2], task.groups)
        chosen = cells.at_least(PATCHED_ROWS, PATCHED_GROUPS)
        self.G, self.G_test = cells.memberships(chosen), self.cells_test.memberships(chosen)
        features = Frozen.learn(Table(X1), task.groups)
        rows = features.encode(Table(X1)), features.encode(Table(X2))
        layout = lay_out(features, rows[0])
        self.F, self.F_test = (_contexts(layout, part, np.zeros(len(part.Z))) for part in rows)
        self.contexts = _contexts(layout, rows[1], self.p_test)
        self.truth = None if task.truth is None else task.truth[task.parts[2]]


def _contexts(layout: Any, rows: Any, score: Array) -> Array:
    """Return coordinates that favour no method: the base model's score (or nothing), groups and features."""
    width = int(max(layout.numeric.max(initial=2), layout.category.max(initial=2))) + 1
    X = np.empty((len(score), width))
    fill_contexts(layout, score, np.full(len(score), 0.5), rows.Z, rows.codes, X)
    return np.delete(X, 2, axis=1)


# ---------------------------------------------------------------- methods: fit on a scene, return a predictor


def base_only(scene: Scene) -> Predict:
    return lambda part: scene.p_test[part]


def true_probabilities(scene: Scene) -> Predict:
    assert scene.truth is not None
    truth = scene.truth
    return lambda part: truth[part]


def sigmoid(scene: Scene) -> Predict:
    model = LogisticRegression(C=1e6).fit(_logits(scene.p), scene.y)
    return lambda part: model.predict_proba(_logits(scene.p_test[part]))[:, 1]


def _logits(p: Array) -> Array:
    return np.asarray(logit(np.clip(p, TINY, 1 - TINY)))[:, None]


def isotonic(scene: Scene) -> Predict:
    model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scene.p, scene.y)
    return lambda part: np.asarray(model.predict(scene.p_test[part]))


def venn_abers(scene: Scene) -> Predict:
    from venn_abers import VennAbers

    model = VennAbers()
    model.fit(_two(scene.p), scene.y)
    return lambda part: np.asarray(model.predict_proba(_two(scene.p_test[part]))[0][:, 1])


def _two(p: Array) -> Array:
    return np.column_stack([1 - p, p])


def baseline(name: str) -> Callable[[Scene], Predict]:
    def fitted(scene: Scene) -> Predict:
        train, test = (scene.G, scene.G_test) if name == "hkrr" else (scene.F, scene.F_test)
        model = BATCH[name]().fit(scene.p, train, scene.y)
        return lambda part: np.asarray(model.predict(scene.p_test[part], test[part]))

    return fitted


def swapcal(mode: str) -> Callable[[Scene], Predict]:
    def fitted(scene: Scene) -> Predict:
        settings = Settings(seed=scene.seed)
        model = Model.fit(Table(scene.frame), scene.y, scene.p, groups=scene.groups, settings=settings)
        rng = np.random.default_rng(scene.seed)

        def predict(part: slice) -> Array:
            table, scores = Table(scene.frame_test.iloc[part]), scene.p_test[part]
            if mode == "mean":
                return model.mean(table, scores)
            keys = None if mode == "hash" else rng.integers(0, 2**63, len(scores)).astype(np.uint64)
            return model.issue(table, scores, keys).p

        return predict

    return fitted


METHODS: dict[str, Callable[[Scene], Predict]] = {
    "true probabilities": true_probabilities,
    "base model": base_only,
    "sigmoid": sigmoid,
    "isotonic": isotonic,
    "venn-abers": venn_abers,
    "HKRR": baseline("hkrr"),
    "swap-agnostic": baseline("swap-agnostic"),
    "LSBoost linear": baseline("lsboost-linear"),
    "LSBoost tree": baseline("lsboost-tree"),
    "swapcal sample": swapcal("sample"),
    "swapcal hash": swapcal("hash"),
    "swapcal mean": swapcal("mean"),
}


# ---------------------------------------------------------------- measures


def measure(p: Array, scene: Scene) -> dict[str, float]:
    """Return every error of predictions on the test part."""
    y, q = scene.y_test, np.clip(p, TINY, 1 - TINY)
    groups = group_eces(p, y, scene.cells_test)
    return {
        "log loss": float(-np.mean(y * np.log(q) + (1 - y) * np.log(1 - q))),
        "Brier": float(np.mean((p - y) ** 2)),
        "ECE": float(group_eces(p, y, None)[0]),
        "worst-group ECE": float(groups.max()),
        "mean-group ECE": float(groups.mean()),
        "groups": len(groups),
        **swap_errors(p, y, scene),
    }


def group_eces(p: Array, y: Array, cells: Cells | None) -> Array:
    """Return the expected calibration error, over ten bins, of all rows or of every cell with 200 rows or more."""
    bin_ = np.minimum((p * BINS).astype(int), BINS - 1)
    found = []
    columns = [np.zeros(len(p), int)] if cells is None else cells.codes.T
    for column in columns:
        size = int(column.max()) + 1
        gap = np.bincount(column * BINS + bin_, y - p, minlength=size * BINS).reshape(size, BINS)
        count = np.bincount(column, minlength=size)
        kept = count >= SMALLEST_GROUP if cells is not None else count > 0
        found.append(np.abs(gap).sum(axis=1)[kept] / count[kept])
    return np.concatenate(found)


def swap_errors(p: Array, y: Array, scene: Scene) -> dict[str, float]:
    """Return SMCal_1, SMCal_2 and SOmni per row, and the means of the first two if p were the truth."""
    level, v, n = _levels(p)
    order = np.argsort(level, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(level[order]) > 0])
    X = scene.contexts[order]
    rng = np.random.default_rng(scene.seed)

    def statistics(labels: Array) -> tuple[Array, Array]:
        residual = (labels - p)[order]
        return np.add.reduceat(residual, starts), np.add.reduceat(residual[:, None] * X, starts, axis=0)

    A, g = statistics(y)
    draws = [statistics((rng.random(len(p)) < p).astype(float))[1] for _ in range(NULL_DRAWS)]
    rows = len(p)
    return {
        "SMCal_1": errors.smcal_linear(n, g, 1) / rows,
        "SMCal_1 null": float(np.mean([errors.smcal_linear(n, d, 1) for d in draws])) / rows,
        "SMCal_2": errors.smcal_linear(n, g, 2) / rows,
        "SMCal_2 null": float(np.mean([errors.smcal_linear(n, d, 2) for d in draws])) / rows,
        "SOmni": errors.somni(v, A, g).total / rows,
    }


def _levels(p: Array) -> tuple[NDArray[np.intp], Array, Array]:
    """Return each row's level, and the levels' values and sizes: distinct predictions, or 51 bins if more than 256."""
    distinct, code = np.unique(p, return_inverse=True)
    if len(distinct) > 256:
        _, code = np.unique(np.minimum((p * 51).astype(int), 50), return_inverse=True)
    n = np.bincount(code).astype(float)
    return code, np.bincount(code, p) / n, n


def timed(fit: Callable[[Scene], Predict], scene: Scene) -> tuple[Array, dict[str, float]]:
    """Return test predictions and the processor time of fitting, of a row in bulk and of a row alone."""
    start = time.process_time()
    predict = fit(scene)
    fitted = time.process_time()
    predict(slice(0, 50))  # compiles what needs compiling
    begin = time.process_time()
    p = predict(slice(None))
    bulk = (time.process_time() - begin) / len(p)
    begin, singles = time.process_time(), 50
    for row in range(singles):
        predict(slice(row, row + 1))
    alone = (time.process_time() - begin) / singles
    return p, {"fit s": fitted - start, "µs/row": 1e6 * bulk, "single µs": 1e6 * alone}


# ---------------------------------------------------------------- runs


def runs(tasks: list[str], seeds: int, folder: Path | None, done: set[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    for seed in range(seeds):
        for name in tasks:
            wanted = [base for base in base_models() if (name, base, seed) not in done]
            task = load(name, seed, folder) if wanted else None
            for base in wanted:
                assert task is not None
                scene = Scene(task, base_models()[base], seed)
                for method, fit in METHODS.items():
                    if method == "true probabilities" and scene.truth is None:
                        continue
                    p, seconds = timed(fit, scene)
                    where = {"task": name, "base": base, "seed": seed, "method": method}
                    yield where | measure(p, scene) | seconds


def speed(rows: int = 40_000, columns: int = 72) -> dict[str, float]:
    """Return processor times, best of five, of `SwapClassifier` on an array: fitting, a row in bulk, a row alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    X[:, :3] = rng.integers(0, 4, (rows, 3))
    y = rng.random(rows) < 1 / (1 + np.exp(-0.3 * X[:, 3:] @ rng.normal(size=columns - 3)))
    model = SwapClassifier(groups=[0, 1, 2], random_state=0)
    model.fit(X[:500], y[:500]).predict_proba(X[:1])  # compiles
    fit = min(_seconds(lambda: model.fit(X, y)) for _ in range(5))
    bulk = min(_seconds(lambda: model.predict_proba(X)) for _ in range(5)) / rows
    alone = min(_seconds(lambda: [model.predict_proba(X[:1]) for _ in range(200)]) for _ in range(5)) / 200
    found = {"fit s": fit, "µs/row": 1e6 * bulk, "single µs": 1e6 * alone}
    return found | {"rows": rows, "coordinates": model.model_.dim, "levels": int(model.model_.mixture.counts.max())}


def _seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _say(row: dict[str, Any]) -> None:
    where = f"{row['task']:16s} {row['base']:20s} {row['seed']} {row['method']:20s}"
    print(f"{where} log loss {row['log loss']:.4f}  worst group {row['worst-group ECE']:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", default=[PLANTED, *TABLES], choices=[PLANTED, *TABLES])
    parser.add_argument("--page-only", action="store_true")
    given = parser.parse_args()
    folder = Path(os.environ["SWAPCAL_DATA"]) if os.environ.get("SWAPCAL_DATA") else None
    if folder is None and not given.page_only and given.tasks != [PLANTED]:
        sys.exit(f"SWAPCAL_DATA: not set, expected a directory with NAME.csv.gz; --tasks {PLANTED} needs none")
    table = pd.read_json(RESULTS, lines=True) if RESULTS.exists() else pd.DataFrame()
    last = table[table["method"] == list(METHODS)[-1]] if len(table) else table
    done = {(row["task"], row["base"], row["seed"]) for _, row in last.iterrows()}
    if not given.page_only:
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as file:
            for row in runs(given.tasks, given.seeds, folder, done):
                file.write(json.dumps(row) + "\n")
                file.flush()
                _say(row)
    write_page(pd.read_json(RESULTS, lines=True), speed())


if __name__ == "__main__":
    main()
