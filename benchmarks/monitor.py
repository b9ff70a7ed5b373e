"""Monitor against what people do instead, in one run: rows per second, as ratios, and memory.

Run as ``python benchmarks/monitor.py [--rows 1000000]``. Forty groups in four columns of ten categories; the peers see
the same residuals, group by group: a z-test of all groups every 1,000 rows (vectorised sums), river's ADWIN, and the
e-detector of validanytime-detectors. The peers watch no ranges of forecasts.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import norm

from swapcal import Monitor

COLUMNS, CATEGORIES = 4, 10


def stream(rows: int) -> tuple[dict[str, Any], Any, Any]:
    rng = np.random.default_rng(0)
    p = rng.random(rows)
    records = {f"g{j}": rng.integers(0, CATEGORIES, rows) for j in range(COLUMNS)}
    return records, p, (rng.random(rows) < p).astype(float)


def timed(work: Callable[[], Any], repeats: int = 3) -> float:
    """Least processor time of a few runs: other programs on the machine do not count."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def z_test(records: dict[str, Any], p: Any, y: Any, every: int = 1000) -> int:
    limit = norm.isf(0.05 / (2 * COLUMNS * CATEGORIES))
    total, variance, rejected = np.zeros((COLUMNS, CATEGORIES)), np.zeros((COLUMNS, CATEGORIES)), 0
    for start in range(0, len(p), every):
        part = slice(start, start + every)
        residual, spread = y[part] - p[part], p[part] * (1 - p[part])
        for j, column in enumerate(records.values()):
            total[j] += np.bincount(column[part], residual, CATEGORIES)
            variance[j] += np.bincount(column[part], spread, CATEGORIES)
        rejected += bool((np.abs(total) > limit * np.sqrt(variance)).any())
    return rejected


def adwin(records: dict[str, Any], p: Any, y: Any) -> None:
    from river.drift import ADWIN

    watchers = [[ADWIN() for _ in range(CATEGORIES)] for _ in range(COLUMNS)]
    residual = (y - p).tolist()
    for t, row in enumerate(zip(*(column.tolist() for column in records.values()), strict=True)):
        for j, g in enumerate(row):
            watchers[j][g].update(residual[t])


def validanytime(records: dict[str, Any], p: Any, y: Any) -> None:
    from validanytime_detectors.monitors import compile_monitor

    spec = {"kind": "e_detector", "arl_target": 1e6, "null_mean": 0.0, "lo": -1.0, "hi": 1.0}
    watcher = compile_monitor(spec)
    states = [[[watcher.init, watcher.init] for _ in range(CATEGORIES)] for _ in range(COLUMNS)]
    residual = (y - p).tolist()
    for t, row in enumerate(zip(*(column.tolist() for column in records.values()), strict=True)):
        for j, g in enumerate(row):
            pair = states[j][g]
            for side, sign in enumerate((1.0, -1.0)):
                pair[side], _, _ = watcher.step(pair[side], sign * residual[t])


def report(name: str, rows: int, seconds: float, against: float | None = None) -> float:
    speed = rows / seconds
    ratio = "" if against is None else f"  Monitor with ranges is {against / speed:.3g} × as fast"
    print(f"  {name:<46} {speed:12,.0f} rows/s{ratio}")
    return speed


def one_row(rows: int, records: dict[str, Any], p: Any, y: Any) -> float:
    monitor = Monitor(list(records))
    singles = [{name: int(column[t]) for name, column in records.items()} for t in range(rows)]
    chances, outcomes = p[:rows].tolist(), y[:rows].tolist()
    start = time.process_time()
    for t in range(rows):
        monitor.add(singles[t], chances[t], outcomes[t])
    return (time.process_time() - start) / rows


def held(monitor: Monitor) -> int:
    return (
        sum(array.nbytes for array in monitor._bets.bet_state)
        + monitor._bets.history.table(len(monitor.groups())).nbytes
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    rows = options.rows
    records, p, y = stream(rows)
    names = list(records)
    Monitor(names).add({name: column[:100] for name, column in records.items()}, p[:100], y[:100])
    spelled = pa.array([f"c{k}" for k in range(CATEGORIES)])
    words = pa.table({name: spelled.take(column) for name, column in records.items()})
    print(f"{rows:,} rows, {COLUMNS * CATEGORIES} groups, processor time of one core")
    ours = report("Monitor, with ranges of forecasts", rows, timed(lambda: Monitor(names).add(records, p, y)))
    report("Monitor, without ranges", rows, timed(lambda: Monitor(names, level_ranges=False).add(records, p, y)))
    report("Monitor, arrow table of words", rows, timed(lambda: Monitor(names).add(words, p, y)))
    coins = np.random.default_rng(1).integers(0, 2, (40, rows // 10))
    overlapping = {f"b{j}": column for j, column in enumerate(coins)}
    wide = Monitor(list(overlapping), level_ranges=False)
    seconds = timed(lambda: wide.add(overlapping, p[: rows // 10], y[: rows // 10]))
    report("Monitor, 40 columns of two, without ranges", rows // 10, seconds)
    report("z-test of sums every 1,000 rows (not valid)", rows, timed(lambda: z_test(records, p, y)), ours)
    few = {name: column[:20_000] for name, column in records.items()}
    for name, peer, count in (("river ADWIN", adwin, 20_000), ("validanytime e-detector", validanytime, 2_000)):
        part = {key: column[:count] for key, column in few.items()}
        try:
            report(name, count, timed(lambda peer=peer, part=part, n=count: peer(part, p[:n], y[:n]), 1), ours)
        except ModuleNotFoundError as missing:
            print(f"  {name:<46} not installed ({missing.name})")
    print(f"one row at a time: {1e6 * one_row(min(rows, 20_000), records, p, y):.0f} µs a row")
    sizes = [held(Monitor(names).add({n: c[:k] for n, c in records.items()}, p[:k], y[:k])) for k in (rows // 10, rows)]
    print(f"memory held after {rows // 10:,} and {rows:,} rows: {sizes[0] / 1e3:,.0f} and {sizes[1] / 1e3:,.0f} KB")
    monitor = Monitor(names).add(records, p, y)
    tracemalloc.start()
    for t in range(0, 50_000, 1000):
        monitor.add({n: c[t : t + 1000] for n, c in records.items()}, p[t : t + 1000], y[t : t + 1000])
    print(f"growth over 50,000 further rows: {tracemalloc.get_traced_memory()[0] / 1e3:,.0f} KB")


if __name__ == "__main__":
    main()
