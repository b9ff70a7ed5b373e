"""Results on disk, and the pool that fills them: interrupt and run again, only what is missing is run."""

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as papq

from rates.measure import measure
from rates.plan import Task
from rates.results import Result

KEY = ("kind", "system", "stream", "dim", "rounds", "seed")
SAVE_EVERY = 5.0
"""Seconds between writes; what an interruption can lose."""


def read(path: Path) -> list[Result]:
    """Return all results so far."""
    return papq.read_table(path).to_pylist() if path.exists() else []


def write(path: Path, rows: list[Result]) -> None:
    """Replace the file by all results, in one step."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    fresh = path.with_suffix(".part")
    papq.write_table(table, fresh)
    os.replace(fresh, path)


def belonging(rows: list[Result], tasks: Iterable[Task]) -> list[Result]:
    """Return the rows of the given tasks; a cache may hold those of other plans too."""
    wanted = {tuple(task.as_dict().values()) for task in tasks}
    return [row for row in rows if tuple(row[name] for name in KEY) in wanted]


def missing(tasks: Iterable[Task], rows: list[Result]) -> list[Task]:
    """Return the tasks without a result, cheapest first."""
    done = {tuple(row[name] for name in KEY) for row in rows}
    return sorted((t for t in tasks if tuple(t.as_dict().values()) not in done), key=lambda t: t.cost)


def complete(tasks: Iterable[Task], path: Path, jobs: int, progress: Callable[[Task], object]) -> list[Result]:
    """Run what is missing on `jobs` processes, saving along the way; return all rows of the file."""
    rows = read(path)
    todo = missing(tasks, rows)
    if not todo:
        return rows
    saved = time.monotonic()
    try:
        for task, row in _results(todo, jobs):
            rows.append(row)
            progress(task)
            if time.monotonic() - saved > SAVE_EVERY:
                write(path, rows)
                saved = time.monotonic()
    finally:
        write(path, rows)
    return rows


def _results(tasks: list[Task], jobs: int) -> Iterable[tuple[Task, Result]]:
    if jobs == 1:
        yield from ((task, measure(task)) for task in tasks)
        return
    # Spawned, not forked: compiled code and its locks do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting: dict[Future[Result], Task] = {}
        queue = iter(tasks)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                for task in queue:
                    waiting[pool.submit(measure, task)] = task
                    if len(waiting) > jobs:
                        break
                if not waiting:
                    return
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        for future in waiting:
            future.cancel()
        raise KeyboardInterrupt
