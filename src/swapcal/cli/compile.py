"""`swapcal compile`: compile all kernels for this processor once, on every core."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from swapcal.cli.options import Printing, prints, threads
from swapcal.cli.progress import running
from swapcal.kernels import loop, wealth
from swapcal.kernels.encode import encode_rows
from swapcal.kernels.experts import BESIDE, add_beside, put_scores, run_experts
from swapcal.kernels.jit import is_compiled
from swapcal.kernels.packing import pack_rows
from swapcal.kernels.tally import scan_maxima

ROWS = 64
LOOK = 0.2  # seconds between two updates of the progress


def compile_engine() -> None:
    """Run the engine once."""
    from swapcal.engine.forecaster import Forecaster

    x, y = _sample()
    Forecaster(dim=2).run(x, y)


def compile_experts() -> None:
    """Encode records, from a frame and one by one, and run the experts on them."""
    import pyarrow as pa

    from swapcal.features import Contexts
    from swapcal.live.experts import Experts

    table = pa.table({"shop": ["a", "b"] * (ROWS // 2), "price": np.arange(float(ROWS))})
    for records in (table, table.to_pylist(), table.to_pylist()[0]):
        seen = Contexts(groups=["shop"]).encode(records)
        memory, forecasts = Experts().forecast(seen.keys, seen.values)
        Experts().learn(seen.keys, seen.values, memory, np.ones(len(forecasts)))


def compile_open_rows() -> None:
    """Store a record until its label arrives, and read it again."""
    from swapcal.features import Contexts
    from swapcal.live.learner import Learner
    from swapcal.live.open_rows import OpenRows

    contexts, one = Contexts(reserved={"blend": 1.0}), np.zeros(1, np.int64)
    open_rows = OpenRows(Learner(contexts, {}, {}))
    rows = open_rows.blank(1)
    rows.judged = rows.judged[:, :1].copy()
    open_rows.put(rows, one, one, 1)
    open_rows.fill(rows, one)
    add_beside(np.zeros((1, BESIDE)), np.zeros((1, rows.memory.shape[1] + 1)), rows.ticket, np.ones(1), np.ones(1))


def compile_audit() -> None:
    """Audit a few rows, with groups, features and times."""
    import pyarrow as pa

    from swapcal.audit import Audit
    from swapcal.kernels.tally import log_losses

    x, y = _sample()
    p = np.round(x[:, 1] + 0.5, 1)
    log_losses(p, y)
    Audit(p, y, x, groups={"g": ["a", "b"] * (ROWS // 2)}, time=np.arange(float(ROWS))).to_dict()
    columns = {"whole": np.arange(ROWS), "real": x[:, 1].copy(), "missing": [None, *x[1:, 1].tolist()]}
    Audit.from_features(p, y, features=pa.table(columns))


def compile_monitor() -> None:
    """Watch a few rows."""
    from swapcal.monitor import Monitor

    x, y = _sample()
    monitor = Monitor(groups=["g"])
    monitor.add({"g": ["a", "b"] * (ROWS // 2)}, np.round(x[:, 1] + 0.5, 1), y)
    monitor.summary()


PARTS: dict[str, tuple[Callable[[], None], tuple[Any, ...]]] = {
    "engine": (compile_engine, (loop.advance,)),
    "experts": (compile_experts, (encode_rows, run_experts)),
    "open-rows": (compile_open_rows, (pack_rows, put_scores)),
    "audit": (compile_audit, (scan_maxima,)),
    "monitor": (compile_monitor, (wealth.advance,)),
}
"""Parts that are compiled separately, the longest first, each with the kernels that show whether it is compiled."""


@prints
def compile(  # the command's name
    printing: Printing,
    parts: Annotated[
        list[str] | None, typer.Argument(help=f"Which parts: {', '.join(PARTS)}; all by default.", show_default=False)
    ] = None,
) -> None:
    """Compile for this processor now, on every core, so that the first forecast does not wait.

    Needed once per machine, user and version; otherwise the first use of each part compiles it, for up to a minute.
    NUMBA_CACHE_DIR is the folder of the machine code; by default in the package's folders.
    """
    with running("compile", printing) as run:
        wanted = list(PARTS) if parts is None else parts
        for part in wanted:
            if part not in PARTS:
                raise ValueError(f"part: given {part!r}, expected one of {', '.join(PARTS)}")
        if len(wanted) == 1:
            PARTS[wanted[0]][0]()
            return
        console, began = run.output, time.perf_counter()
        with compiling(console, wanted):
            pass
        lacking = [part for part in wanted if not is_ready(part)]
        if lacking:
            raise OSError(
                f"NUMBA_CACHE_DIR: given a folder that did not keep {', '.join(lacking)}, expected a writable one"
            )
        seconds = time.perf_counter() - began
        console.print(f"Compiled and kept: {', '.join(wanted)}; {seconds:.0f} s.", highlight=False)
        run.write(json.dumps({"command": "compile", "parts": wanted, "seconds": seconds}))


def is_ready(part: str) -> bool:
    """Return whether a part is compiled."""
    return all(map(is_compiled, PARTS[part][1]))


@contextmanager
def compiling(console: Console, parts: Sequence[str]) -> Iterator[None]:
    """Compile parts in separate processes while the caller continues; wait for them at the end.

    Separate processes, because compiling holds the interpreter's lock. If one fails, its part is compiled at its
    first use.
    """
    wanted = [part for part in parts if not is_ready(part)]
    if not wanted:
        yield
        return
    cores = threads(None)
    with ThreadPoolExecutor(cores) as pool:
        running = [pool.submit(_apart, part) for part in wanted]
        yield
        _await(console, running, cores)


def _apart(part: str) -> None:
    subprocess.run([sys.executable, "-m", "swapcal", "compile", part], capture_output=True, check=False)


def _await(console: Console, running: "list[Future[None]]", cores: int) -> None:
    began, used = time.perf_counter(), min(cores, len(running))
    cores_used = "one core" if used == 1 else f"{used} cores"
    text = f"Compiling for this processor on {cores_used}, once; the next run starts at once"
    if not console.is_terminal:
        console.print(f"{text} …", highlight=False)
    with console.status(text) as shown:
        while wait(running, LOOK).not_done:
            done = sum(each.done() for each in running)
            shown.update(f"{text}: {done} of {len(running)} parts, {time.perf_counter() - began:.0f} s")


def _sample() -> tuple[Any, Any]:
    """Return contexts whose first coordinate is the constant ½, and outcomes."""
    generator = np.random.default_rng(0)
    x = np.column_stack([np.full(ROWS, 0.5), generator.uniform(-0.5, 0.5, ROWS)])
    return x, (generator.random(ROWS) < 0.5).astype(float)
