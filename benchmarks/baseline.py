"""Speed now against a frozen commit, in alternating processes of the same environment.

Run as ``python benchmarks/baseline.py [--turns 7] [--only live]``. The frozen commit is checked out once, into
build/baseline. In each turn a process of either version runs every workload three times, and the least time counts. The
two keep compiled kernels in folders of their own; the first turn of either compiles and is not counted. Only public
names are used, so the workloads run on both whatever the files are called. A ratio above 1 means that the present
version is faster; two equal versions on a machine that does other things too can be some percent apart.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

COMMIT = "3c46f1daca8ebda09737633875c990cd06958ee8"
ROOT = Path(__file__).resolve().parent.parent
BASELINE = ROOT / "build" / "baseline"
CACHES = ROOT / "build" / "baseline-caches"
REPEATS = 3
VERSIONS = {"baseline": BASELINE / "src", "now": ROOT / "src"}

WORKLOADS: dict[str, Callable[[Any], Any]] = {}


def workload(name: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """List a generator function that prepares its input and yields once; what follows the yield is timed."""

    def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        WORKLOADS[name] = function
        return function

    return register


def contexts(rng: np.random.Generator, rows: int, dim: int) -> tuple[Any, Any]:
    X = rng.uniform(-0.8, 0.8, (rows, dim)) / np.sqrt(dim)
    X[:, 0] = 0.5
    return X, (rng.random(rows) < 0.5 + 0.5 * X[:, 1]).astype(float)


def records(rng: np.random.Generator, rows: int) -> tuple[list[dict[str, Any]], Any]:
    """Return records of 13 columns: nine numbers, four texts."""
    numbers, texts = rng.random((rows, 9)).round(4), rng.integers(0, 12, (rows, 4))
    made = [
        {f"x{j}": value for j, value in enumerate(row)} | {f"c{j}": f"v{code}" for j, code in enumerate(codes)}
        for row, codes in zip(numbers.tolist(), texts.tolist(), strict=True)
    ]
    return made, (rng.random(rows) < 0.2 + 0.5 * numbers[:, 0]).astype(float)


@workload("Forecaster.run, 200,000 rows, d = 20")
def forecaster_run(rng: np.random.Generator) -> Any:
    from swapcal import Forecaster

    X, y = contexts(rng, 200_000, 20)
    forecaster = Forecaster(dim=20)
    yield
    forecaster.run(X, y)


@workload("Forecaster predict + update, 10,000 rows")
def forecaster_single(rng: np.random.Generator) -> Any:
    from swapcal import Forecaster

    X, y = contexts(rng, 10_000, 20)
    forecaster, labels = Forecaster(dim=20), y.tolist()
    yield
    for x, label in zip(X, labels, strict=True):
        forecaster.update(forecaster.predict(x), label)


@workload("Live forecast + label, 5,000 records, 13 columns")
def live_single(rng: np.random.Generator) -> Any:
    from swapcal import Live

    made, y = records(rng, 6_000)
    live, labels = Live(groups=["c0"]), y.tolist()
    live.run(made[:1000], y[:1000])
    yield
    for k in range(1000, 6000):
        live.forecast(made[k], id=k)
        live.label(k, labels[k])


@workload("Live.run, 20,000 rows of a table")
def live_run(rng: np.random.Generator) -> Any:
    import pandas as pd

    from swapcal import Live

    made, y = records(rng, 20_000)
    frame, live = pd.DataFrame(made), Live(groups=["c0"])
    yield
    live.run(frame, y)


@workload("Live late labels, 8,000 rows")
def live_late(rng: np.random.Generator) -> Any:
    from swapcal import Live

    made, y = records(rng, 8_000)
    time_of = np.arange(8_000.0)
    known, live = time_of + rng.integers(1, 500, 8_000), Live(groups=["c0"])
    yield
    live.run(made, y, time=time_of, label_time=known)


@workload("Live forecast_many + label_many, 8,000 rows")
def live_many(rng: np.random.Generator) -> Any:
    from swapcal import Live

    made, y = records(rng, 8_000)
    live = Live(groups=["c0"])
    yield
    for start in range(0, 8_000, 500):
        ids = list(range(start, start + 500))
        live.forecast_many(made[start : start + 500], ids)
        live.label_many(ids, y[start : start + 500])


def table(rng: np.random.Generator) -> tuple[Any, Any]:
    X = np.column_stack([rng.normal(size=(20_000, 10)), rng.integers(0, 6, (20_000, 2))])
    return X, (rng.random(20_000) < 1 / (1 + np.exp(-X[:, 0] - 0.5 * (X[:, 10] == 2)))).astype(int)


@workload("SwapClassifier.fit, 20,000 × 12")
def classifier_fit(rng: np.random.Generator) -> Any:
    from swapcal import SwapClassifier

    X, y = table(rng)
    model = SwapClassifier(groups=[10, 11], correction="linear", random_state=0)
    yield
    model.fit(X, y)


@workload("SwapClassifier.predict_proba, 20,000 × 12, 5 times")
def classifier_predict(rng: np.random.Generator) -> Any:
    from swapcal import SwapClassifier

    X, y = table(rng)
    model = SwapClassifier(groups=[10, 11], correction="linear", random_state=0).fit(X[:4000], y[:4000])
    model.predict_proba(X[:10])
    yield
    for _ in range(5):
        model.predict_proba(X)


@workload("Audit, 1,000,000 rows × 10 columns")
def audit(rng: np.random.Generator) -> Any:
    from swapcal import Audit

    n = 1_000_000
    features = {f"x{j}": rng.random(n) for j in range(8)}
    groups = {f"g{j}": rng.integers(0, 10, n) for j in range(2)}
    p = rng.random(n).round(3)
    y = (rng.random(n) < p).astype(float)
    yield
    Audit.from_features(p, y, features, groups=groups).verdict()


@workload("Monitor.add, 500,000 rows, 4 columns")
def monitor(rng: np.random.Generator) -> Any:
    from swapcal import Monitor

    n = 500_000
    groups = {f"g{j}": rng.integers(0, 10, n) for j in range(4)}
    p = rng.random(n)
    y = (rng.random(n) < p).astype(float)
    yield
    Monitor(list(groups)).add(groups, p, y)


# ---------------------------------------------------------------------------------------------- in a process of its own


def measure(only: str) -> dict[str, float]:
    """Return the seconds of every workload in this process, the least of a few runs: others may use the machine."""
    found = {}
    for name, prepare in WORKLOADS.items():
        if only.lower() in name.lower():
            found[name] = min(timed(prepare) for _ in range(REPEATS))
    return found


def timed(prepare: Callable[[Any], Any]) -> float:
    """Return the seconds from a workload's yield to its end."""
    steps = prepare(np.random.default_rng(0))
    next(steps)
    start = time.perf_counter()
    next(steps, None)
    return time.perf_counter() - start


def environment(version: str) -> dict[str, str]:
    cache = CACHES / version
    cache.mkdir(parents=True, exist_ok=True)
    return {**os.environ, "PYTHONPATH": str(VERSIONS[version]), "NUMBA_CACHE_DIR": str(cache)}


def turn(version: str, only: str, file: Path) -> dict[str, float]:
    """Return the seconds of all workloads under one version, those of commands and imports included."""
    found = json.loads(output(version, __file__, "--measure", "--only", only))
    if only.lower() in COMMAND.lower():
        columns = ",".join(f"x{j}" for j in range(8))
        start = time.perf_counter()
        output(version, "-m", "swapcal", "audit", file, "--prob", "p", "--target", "y", "--features", columns,
               "--groups", "c0,c1")  # fmt: skip
        found[COMMAND] = time.perf_counter() - start
    if only.lower() in IMPORT.lower():
        found[IMPORT] = min(float(output(version, "-c", TIMED_IMPORT)) for _ in range(3))
    return found


COMMAND = "swapcal audit of a CSV file, 200,000 rows"
IMPORT = "import swapcal; from swapcal import Live"
TIMED_IMPORT = """
import time
start = time.perf_counter()
import swapcal
from swapcal import Live
print(time.perf_counter() - start)
"""
MODULES = """
import sys
import swapcal
from swapcal import Live
print(sum(name.partition(".")[0] == "swapcal" for name in sys.modules))
print(swapcal.__file__)
"""


def output(version: str, *arguments: object) -> str:
    """Return what a Python process under one version prints."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=environment(version), cwd=ROOT / "build", capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{version}: {' '.join(command[1:4])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


# ------------------------------------------------------------------------------------------------------------ the table


def check_out() -> None:
    """Make a worktree of the frozen commit, unless there is one."""
    if not (BASELINE / "src").exists():
        BASELINE.parent.mkdir(exist_ok=True)
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        subprocess.run(["git", "worktree", "add", "--detach", str(BASELINE), COMMIT], cwd=ROOT, check=True)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=BASELINE, check=True, capture_output=True, text=True)
    if found.stdout.strip() != COMMIT:
        raise SystemExit(f"build/baseline: given {found.stdout.strip()}, expected {COMMIT}; git worktree remove it")


def write_rows(path: Path) -> None:
    rng, n = np.random.default_rng(0), 200_000
    numbers, texts, p = rng.random((n, 8)).round(4), rng.integers(0, 6, (n, 2)), rng.random(n).round(4)
    y = (rng.random(n) < p).astype(int)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{j}" for j in range(8)), "c0", "c1", "p", "y"])
        writer.writerows([*row, f"v{a}", f"v{b}", q, z] for row, (a, b), q, z in zip(
            numbers.tolist(), texts.tolist(), p.tolist(), y.tolist(), strict=True))  # fmt: skip


def compare(turns: int, only: str) -> None:
    check_out()
    seconds: dict[str, dict[str, list[float]]] = {version: {} for version in VERSIONS}
    modules = {version: output(version, "-c", MODULES).split() for version in VERSIONS}
    for version, (_, home) in modules.items():
        if not Path(home).is_relative_to(VERSIONS[version]):
            raise SystemExit(f"{version}: given swapcal at {home}, expected it in {VERSIONS[version]}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.csv"
        write_rows(file)
        for version in VERSIONS:
            turn(version, only, file)  # compiles
        for k in range(turns):
            for version in list(VERSIONS) if k % 2 else [*VERSIONS][::-1]:
                for name, each in turn(version, only, file).items():
                    seconds[version].setdefault(name, []).append(each)
    print(f"{'workload':<52} {'baseline s':>11} {'now s':>9} {'speed now/baseline':>19} {'of the fastest':>15}")
    for name, before in seconds["baseline"].items():
        after = seconds["now"][name]
        old, new = statistics.median(before), statistics.median(after)
        print(f"{name:<52} {old:11.4f} {new:9.4f} {old / new:19.3f} {min(before) / min(after):15.3f}")
    counts = [int(modules[version][0]) for version in ("baseline", "now")]
    print(f"{'modules of swapcal after from swapcal import Live':<52} {counts[0]:11d} {counts[1]:9d}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", default="", help="part of a workload's name")
    parser.add_argument("--measure", action="store_true", help="measure in this process; for the processes started")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.only)))
    else:
        compare(options.turns, options.only)


if __name__ == "__main__":
    main()
