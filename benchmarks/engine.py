"""Speed of the engine against peers and against its own theory: medians, ratios, one process, one data set.

    make bench

Every comparison alternates the contestants on the same rows and reports medians of processor time.
"""

import ctypes
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from swapcal import Forecaster

console = Console()
REPEATS = 7


def stream(rows: int, dim: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return contexts in X and labels from a clipped linear probability."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, dim))
    X[:, 1:] *= 0.8 / np.linalg.norm(X[:, 1:], axis=1, keepdims=True)
    X[:, 0] = 0.5
    p = np.clip(0.5 + 0.3 * X[:, 1:] @ rng.normal(size=dim - 1), 0, 1)
    return X, (rng.random(rows) < p).astype(float)


def per_row(action: Callable[[], object], rows: int) -> float:
    """Return microseconds of processor time per row."""
    start = time.process_time()
    action()
    return (time.process_time() - start) / rows * 1e6


def medians(contestants: dict[str, Callable[[], float]], repeats: int = REPEATS) -> dict[str, float]:
    """Return each contestant's median, taking turns so that a busy moment hits them all."""
    for contestant in contestants.values():
        contestant()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    with Progress(console=console, transient=True) as progress:
        for _ in progress.track(range(repeats), description="taking turns"):
            for name, contestant in contestants.items():
                times[name].append(contestant())
    return {name: statistics.median(values) for name, values in times.items()}


def engine(dim: int, rows: int, **settings: object) -> Callable[[], float]:
    X, y = stream(rows, dim)
    return lambda: per_row(lambda: Forecaster(dim, **settings).run(X, y), rows)


def river(dim: int, rows: int) -> Callable[[], float]:
    from river import linear_model, preprocessing

    X, y = stream(rows, dim)
    records = [dict(enumerate(row)) for row in X.tolist()]
    labels = [bool(value) for value in y]

    def learn() -> None:
        model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        for x, label in zip(records, labels, strict=True):
            model.predict_proba_one(x)
            model.learn_one(x, label)

    return lambda: per_row(learn, rows)


def vowpal(dim: int, rows: int, *, prepared: bool) -> Callable[[], float]:
    from vowpalwabbit import Workspace

    X, y = stream(rows, dim)
    records, labels = X.tolist(), y.tolist()

    def line(x: list[float], label: float) -> str:
        return f"{1 if label else -1} | " + " ".join(f"{i}:{value:.6f}" for i, value in enumerate(x))

    lines = [line(x, label) for x, label in zip(records, labels, strict=True)]

    def learn() -> None:
        model = Workspace("--loss_function logistic --link logistic --quiet")
        for x, label, text in zip(records, labels, lines, strict=True):
            example = model.parse(text if prepared else line(x, label))
            model.predict(example)
            model.learn(example)
            model.finish_example(example)

    return lambda: per_row(learn, rows)


def against_peers() -> None:
    contestants = {"swapcal, 21 levels": engine(20, 200_000, levels=20), "swapcal, adaptive": engine(20, 200_000)}
    for name, make in {
        "river StandardScaler | LogisticRegression": lambda: river(20, 5_000),
        "Vowpal Wabbit, lines formatted beforehand": lambda: vowpal(20, 5_000, prepared=True),
        "Vowpal Wabbit, from Python floats": lambda: vowpal(20, 5_000, prepared=False),
    }.items():
        try:
            contestants[name] = make()
        except ModuleNotFoundError as error:
            console.print(f"{name}: not installed ({error.name})")
    results = medians(contestants)
    base = results["swapcal, 21 levels"]
    table = Table("predict then learn, d = 20", "µs/row", "rows/s", "times swapcal", title="Against peers")
    for name, value in results.items():
        table.add_row(name, f"{value:.3f}", f"{1e6 / value:,.0f}", f"{value / base:.1f}×")
    console.print(table)


FLAGS = ("-O3", "-O3 -march=native", "-O3 -march=native -ffast-math")
LEVELS = 20


def compiled(flags: str, folder: str) -> Callable[..., None]:
    """Return the plain loop of engine.c as the system's gcc compiles it."""
    source, library = Path(__file__).with_name("engine.c"), f"{folder}/engine{flags.replace(' ', '')}.so"
    subprocess.run(["gcc", *flags.split(), "-fPIC", "-shared", "-o", library, str(source), "-lm"], check=True)
    loop = ctypes.CDLL(library).run
    loop.restype = None
    return loop  # type: ignore[no-any-return]


def plain(loop: Callable[..., None], X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the p and the means that a plain loop issues."""
    (rows, dim), slots = X.shape, LEVELS + 1
    theta = np.zeros((slots, dim))
    theta[:, 0] = 2 * np.arange(slots) / LEVELS
    P, g, sums = np.tile(np.eye(dim), (slots, 1, 1)), np.zeros((slots, dim)), np.zeros((slots, 3))
    u, p, mean = np.zeros(dim), np.empty(rows), np.empty(rows)
    seed = ctypes.c_uint64(int(Forecaster(dim).to_state().arrays["seed"][0]))
    arrays = [ctypes.c_void_p(a.ctypes.data) for a in (X, y, theta, P, g, sums, u, p, mean)]
    loop(ctypes.c_long(rows), dim, LEVELS, *arrays[:2], seed, *arrays[2:])
    return p, mean


def against_c(folder: str) -> None:
    """Compare with the same algorithm in plain C: above 1 the engine is faster."""
    if shutil.which("gcc") is None:
        console.print("Against plain C: gcc is not installed, skipped")
        return
    loops = {flags: compiled(flags, folder) for flags in FLAGS}
    table = Table("d", "swapcal µs/row", *(f"gcc {flags}" for flags in FLAGS), "with a window", title="Against plain C")
    for dim in (5, 10, 20, 50, 100):
        rows = min(200_000, max(4_000, 20_000_000 // dim**2))
        X, y = stream(rows, dim)
        ours, (p, mean) = Forecaster(dim, levels=LEVELS).run(X, y), plain(loops["-O3"], X, y)
        assert np.mean(ours.p == p) > 0.999, "not the same algorithm"
        np.testing.assert_allclose(ours.mean, mean, atol=1e-6)
        contestants = {
            "swapcal": engine(dim, rows, levels=LEVELS),
            "window": engine(dim, rows, levels=LEVELS, window=2_000),
        }
        for flags, loop in loops.items():
            contestants[flags] = lambda loop=loop, X=X, y=y: per_row(lambda: plain(loop, X, y), len(y))
        results = medians(contestants, 5)
        base = results.pop("swapcal")
        window = results.pop("window")
        ratios = (f"{value / base:.2f}×" for value in results.values())
        table.add_row(str(dim), f"{base:.3f}", *ratios, f"{window / base:.2f}×")
    console.print(table)


def slope(xs: list[float], ys: list[float]) -> float:
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


def growth() -> None:
    table = Table("what grows", *["it", "µs/row"], "law", title="Growth of cost")
    dims = [10, 20, 40, 80, 150, 300]
    by_dim = medians({str(d): engine(d, max(2_000, 4_000_000 // d**2), levels=20) for d in dims}, 5)
    table.add_row(
        "dimension d", ", ".join(map(str, dims)), ", ".join(f"{v:.2f}" for v in by_dim.values()),
        f"slope {slope(dims, list(by_dim.values())):.2f} (theory ≤ 2)",
    )  # fmt: skip
    levels = [16, 64, 256, 1024]
    by_level = medians({str(n): engine(20, 200_000, levels=n) for n in levels}, 5)
    per_doubling = (by_level["1024"] - by_level["16"]) / 6
    table.add_row(
        "levels", ", ".join(map(str, levels)), ", ".join(f"{v:.2f}" for v in by_level.values()),
        f"{per_doubling:+.3f} µs per doubling (theory: logarithmic)",
    )  # fmt: skip
    X, y = stream(1_600_000, 20)
    forecaster, parts = Forecaster(20, levels=20), []
    forecaster.run(X[:1000], y[:1000])
    for start in range(0, len(y), len(y) // 8):
        part = slice(start, start + len(y) // 8)
        parts.append(per_row(lambda part=part: forecaster.run(X[part], y[part]), len(y) // 8))
    table.add_row(
        "time t (eighths of 1.6 M rows)", "1 … 8", ", ".join(f"{v:.2f}" for v in parts),
        f"last half over first half {sum(parts[4:]) / sum(parts[:4]):.2f} (theory 1)",
    )  # fmt: skip
    console.print(table)


def dense_stationary(Q: np.ndarray) -> np.ndarray:
    """Solve Qp = p, Σp = 1 over all levels at once, as the paper states it."""
    n = len(Q)
    system = np.vstack([Q - np.eye(n), np.ones(n)])
    return np.linalg.lstsq(system, np.r_[np.zeros(n), 1.0], rcond=None)[0]


def mixing() -> None:
    rows, n = 20_000, 40
    rng = np.random.default_rng(0)
    Q = np.zeros((n + 1, n + 1))
    for i, w in enumerate(rng.random(n + 1) * n):
        low = min(int(w), n - 1)
        Q[low, i], Q[low + 1, i] = 1 - (w - low), w - low
    results = medians(
        {
            "hedge × ridge": engine(20, rows, levels=n),
            "blum-mansour × ridge (closed class, GTH)": engine(20, rows, levels=n, mixing="blum-mansour"),
            "blum-mansour × ons (the paper)": engine(20, rows, levels=n, mixing="blum-mansour", learner="ons"),
            "a dense stationary solve alone": lambda: per_row(lambda: [dense_stationary(Q) for _ in range(50)], 50),
        },
        5,
    )
    base = results["hedge × ridge"]
    table = Table("N = 40, d = 20", "µs/round", "times hedge", title="Mixing")
    for name, value in results.items():
        table.add_row(name, f"{value:.2f}", f"{value / base:.1f}×")
    console.print(table)


def single_row() -> None:
    forecaster = Forecaster(20, levels=20)
    X, y = stream(5_000, 20)
    predict, update = [], []
    for x, label in zip(X, y, strict=True):
        start = time.perf_counter()
        forecast = forecaster.predict(x)
        middle = time.perf_counter()
        forecaster.update(forecast, label)
        predict.append(middle - start)
        update.append(time.perf_counter() - middle)
    p, u = statistics.median(predict) * 1e6, statistics.median(update) * 1e6
    console.print(
        f"Single row through Python, d = 20: predict {p:.1f} µs + update {u:.1f} µs = {p + u:.1f} µs (median)"
    )


def in_new_process(code: str, cache: str | None = None) -> float:
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(output.stdout)


CLOCKED = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
FIRST = "from swapcal import Forecaster; Forecaster(2).predict([0.5, 0.1])"


def start_up() -> None:
    imports = statistics.median(in_new_process(CLOCKED.format("import swapcal")) for _ in range(REPEATS))
    engine_import = statistics.median(
        in_new_process(CLOCKED.format("from swapcal import Forecaster")) for _ in range(REPEATS)
    )
    first = statistics.median(in_new_process(CLOCKED.format(FIRST)) for _ in range(REPEATS))
    with tempfile.TemporaryDirectory() as empty:
        cold = in_new_process(CLOCKED.format(FIRST).replace("perf_counter", "process_time"), cache=empty)
    console.print(
        f"Start-up: import swapcal {imports:.3f} s; with the engine {engine_import:.2f} s; first forecast in a new "
        f"process {first:.2f} s (warm cache), {cold:.1f} s of processor time (cold: compiles everything)"
    )


MEMORY = """
import tracemalloc
import numpy as np
from swapcal import Forecaster
Forecaster(2).predict([0.5, 0.1])
X = np.zeros((2000, {dim}))
X[:, 0] = 0.5
X[np.arange(2000), 1 + np.arange(2000) % ({dim} - 1)] = 0.8
y = np.arange(2000) % 2.0
tracemalloc.start()
Forecaster({dim}, levels={levels}).run(X, y)
print(tracemalloc.get_traced_memory()[1])
"""


def memory() -> None:
    table = Table("d", "levels", "peak growth", "levels × d² doubles", "ratio", title="Memory of a forecaster")
    for dim, levels in ((50, 200), (200, 50), (500, 40)):
        used, unit = in_new_process(MEMORY.format(dim=dim, levels=levels)), 8.0 * (levels + 1) * dim**2
        table.add_row(
            str(dim), str(levels + 1), f"{used / 2**20:.1f} MiB", f"{unit / 2**20:.1f} MiB", f"{used / unit:.2f}"
        )
    console.print(table)


def main() -> None:
    load = os.getloadavg()[0]
    if load > 0.5 * (os.cpu_count() or 1):
        console.print(f"[yellow]The machine is busy (load {load:.1f}): read ratios, not times.[/yellow]")
    against_peers()
    with tempfile.TemporaryDirectory() as folder:
        against_c(folder)
    single_row()
    start_up()
    mixing()
    growth()
    memory()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"Peak memory of this benchmark {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
