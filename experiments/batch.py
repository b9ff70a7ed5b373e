"""Probabilities for a table: this package against what one would use instead.

    SWAPCAL_DATA=directory python experiments/batch.py [--seeds 3] [--tasks compas] [--methods HKRR] [--page-only]

A base model is fitted on one part of each table, every method post-processes its probabilities on a second part, and
everything is measured on a third; methods without a base model fit both parts. The tables are means over the first
three splits; --seeds 12 with the methods that are compared adds worst groups over all of them. Results go to
build/batch.jsonl and predictions to build/batch/ (finished runs are not repeated); the tables and the picture of
docs/batch.md are written from them. With --times, MCGrad and this package are fitted in turns, in the same process, and
the medians replace the times of the runs above, which may have been made at different loads of the machine.
"""

import argparse
import gc
import json
import os

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # before anything reads it: times are of one core, for every method

import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from batch_measures import measure, worst_by_chance, worst_differences  # noqa: E402
from batch_methods import ALONE, AROUND, Method  # noqa: E402
from batch_page import DIFFERENCES, NO_BASE, SEEDS, TIMES, write_page  # noqa: E402
from batch_scene import Scene  # noqa: E402
from batch_tasks import ASIDE, CHOSEN, base_models, load  # noqa: E402
from swapcal import SwapClassifier  # noqa: E402
from swapcal.arrays import Array  # noqa: E402

BUILD = Path(__file__).resolve().parent.parent / "build"
RESULTS, INTERVALS, PREDICTIONS = BUILD / "batch.jsonl", BUILD / "batch-intervals.jsonl", BUILD / "batch"
SIDE_BY_SIDE = BUILD / "batch-times.jsonl"
METHODS: dict[str, dict[str, Method]] = {**dict.fromkeys(base_models(), AROUND), NO_BASE: ALONE}
FEW = 2000
"""Rows of each part for a first call, which loads and compiles."""
MOST_TURNS, LONG = 5, 15.0
"""Turns side by side, and the seconds after which no other is begun."""
Run = tuple[str, str, int, str]


def timed(fit: Method, scene: Scene) -> tuple[Array, dict[str, float]]:
    """Return test predictions and the processor time of fitting, of a row in bulk and of a row alone."""
    gc.collect()
    gc.disable()  # as timeit does: what the libraries of all methods together have loaded would be looked through
    start = time.process_time()
    predict = fit(scene)
    fitted = time.process_time()
    gc.enable()
    predict(slice(0, 50))  # compiles what needs compiling
    begin = time.process_time()
    p = predict(slice(None))
    bulk = (time.process_time() - begin) / len(p)
    begin, singles = time.process_time(), 50
    for row in range(singles):
        predict(slice(row, row + 1))
    alone = (time.process_time() - begin) / singles
    return p, {"fit s": fitted - start, "µs/row": 1e6 * bulk, "single µs": 1e6 * alone}


def wanted(given: argparse.Namespace, done: set[Run]) -> Iterator[tuple[str, str, int, list[str]]]:
    """Yield each table, base model and seed with the methods still to be run on it."""
    for seed in range(given.first_seed, given.seeds):
        for name in given.tasks:
            for base, methods in METHODS.items():
                chosen = [m for m in methods if given.methods is None or m in given.methods]
                left = [m for m in chosen if (name, base, seed, m) not in done]
                if left:
                    yield name, base, seed, left


def runs(given: argparse.Namespace, folder: Path | None, done: set[Run]) -> Iterator[dict[str, Any]]:
    for name, base, seed, methods in wanted(given, done):
        scene = Scene(load(name, seed, folder), base_models().get(base), seed)
        for method in methods:
            if method == "true probabilities" and scene.truth is None:
                continue
            p, seconds = timed(METHODS[base][method], scene)
            np.save(_file(name, base, seed, method), p)
            yield {"task": name, "base": base, "seed": seed, "method": method} | measure(p, scene) | seconds


def side_by_side(given: argparse.Namespace, folder: Path | None, done: set[Run]) -> Iterator[dict[str, Any]]:
    """Yield the times of MCGrad and of ours, turn by turn, once both have been called before."""
    methods = DIFFERENCES[False][0], "MCGrad"
    for name in given.tasks:
        for base, model in base_models().items():
            if (name, base, given.first_seed, methods[-1]) in done:
                continue
            scene = Scene(load(name, given.first_seed, folder), model, given.first_seed)
            small = Scene(load(name, given.first_seed, folder).head(FEW), base_models()[base], given.first_seed)
            for method in methods:
                timed(AROUND[method], small)
            begin = time.process_time()
            for _ in range(MOST_TURNS):
                for method in methods:
                    seconds = timed(AROUND[method], scene)[1]
                    found = {kind: seconds[kind] for kind in TIMES}
                    yield {"task": name, "base": base, "seed": given.first_seed, "method": method} | found
                if time.process_time() - begin > LONG:
                    break


def differences(results: pd.DataFrame, folder: Path | None, done: set[Run]) -> Iterator[dict[str, Any]]:
    """Yield intervals of our worst-group ECE minus others', from the predictions kept of the first splits."""
    results = results[results["seed"] < SEEDS]
    for (seed, name, base), _ in results.groupby(["seed", "task", "base"], sort=False):
        ours, others = DIFFERENCES[base == NO_BASE]
        left = [other for other in others if (name, base, seed, other) not in done]
        p = {m: np.load(_file(name, base, seed, m)) for m in (ours, *left) if _file(name, base, seed, m).exists()}
        if ours not in p or len(p) < 2:
            continue
        scene = Scene(load(name, seed, folder), None, seed)
        chance = {method: worst_by_chance(forecasts, scene) for method, forecasts in p.items()}
        for method, (low, high) in worst_differences(p.pop(ours), p, scene).items():
            found = {"low": low, "high": high, "chance": chance[method], "our chance": chance[ours]}
            yield {"task": name, "base": base, "seed": seed, "other": method} | found


def _file(name: str, base: str, seed: int, method: str) -> Path:
    return PREDICTIONS / f"{name}-{base}-{seed}-{method}.npy".replace(" ", "_")


def speed(rows: int = 40_000, columns: int = 72) -> dict[str, float]:
    """Return processor times, best of several, of `SwapClassifier` on an array: fitting, a row in bulk, a row alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    X[:, :3] = rng.integers(0, 4, (rows, 3))
    y = rng.random(rows) < 1 / (1 + np.exp(-0.3 * X[:, 3:] @ rng.normal(size=columns - 3)))
    model = SwapClassifier(groups=[0, 1, 2], random_state=0)
    model.fit(X[:5000], y[:5000]).predict_proba(X[:1])  # compiles
    fit = min(_seconds(lambda: model.fit(X, y)) for _ in range(2))
    bulk = min(_seconds(lambda: model.predict_proba(X)) for _ in range(5)) / rows
    alone = min(_seconds(lambda: [model.predict_proba(X[:1]) for _ in range(200)]) for _ in range(5)) / 200
    found = {"fit s": fit, "µs/row": 1e6 * bulk, "single µs": 1e6 * alone}
    return found | {"rows": rows, "coordinates": model.model_.dim, "levels": int(model.model_.mixture.counts.max())}


def _seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _say(row: dict[str, Any]) -> None:
    where = f"{row['task']:16s} {row['base']:20s} {row['seed']} {row['method']:24s}"
    figures = f"log loss {row['log loss']:.4f}  worst group {row['worst-group ECE']:.3f}"
    print(f"{where} {figures}  fit {row['fit s']:.1f} s  {row['µs/row']:.1f} µs/row", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--tasks", nargs="+", default=[*CHOSEN, *ASIDE], choices=[*CHOSEN, *ASIDE])
    parser.add_argument("--methods", nargs="+", choices=[*AROUND, *ALONE])
    parser.add_argument("--times", action="store_true", help="time MCGrad and ours side by side, nothing else")
    parser.add_argument("--page-only", action="store_true", help="write the page from what is there")
    parser.add_argument("--no-page", action="store_true", help="measure, and leave the page alone")
    given = parser.parse_args()
    folder = Path(os.environ["SWAPCAL_DATA"]) if os.environ.get("SWAPCAL_DATA") else None
    if folder is None and given.tasks != ["planted"]:
        sys.exit("SWAPCAL_DATA: not set, expected a directory with NAME.csv.gz; --tasks planted needs none")
    PREDICTIONS.mkdir(parents=True, exist_ok=True)
    if given.times:
        for row in _kept(SIDE_BY_SIDE, side_by_side(given, folder, _done(SIDE_BY_SIDE, "method"))):
            print(row, flush=True)
        return
    if not given.page_only:
        for row in _kept(RESULTS, runs(given, folder, _done(RESULTS, "method"))):
            _say(row)
    if not given.no_page:
        results = pd.read_json(RESULTS, lines=True)
        for _ in _kept(INTERVALS, differences(results, folder, _done(INTERVALS, "other"))):
            pass
        times = pd.read_json(SIDE_BY_SIDE, lines=True) if SIDE_BY_SIDE.exists() else pd.DataFrame()
        write_page(results, pd.read_json(INTERVALS, lines=True), times, speed())


def _done(path: Path, method: str) -> set[Run]:
    table = pd.read_json(path, lines=True) if path.exists() and path.stat().st_size else pd.DataFrame()
    return set(table[["task", "base", "seed", method]].itertuples(index=False, name=None)) if len(table) else set()


def _kept(path: Path, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield rows, each after it is written down."""
    with path.open("a") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            file.flush()
            yield row


if __name__ == "__main__":
    main()
