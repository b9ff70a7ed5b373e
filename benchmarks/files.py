"""Files larger than memory: peak memory and speed of the commands as the file grows.

Run as ``python benchmarks/files.py [--rows 1,4,16] [--folder DIR] [--jobs 1,2]``; rows in millions. A CSV file of 20
features, a score and an outcome is generated in a temporary folder, every command is run on it in a process of its
own, and its peak resident memory is what the operating system says. Several numbers of threads are compared on the
smallest file only. ``--gigabytes 20 --letters 500 --only audit`` makes one file of that size, with two texts of so many
letters in each row that no command is told to use.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq

MILLION = 1_000_000
PIECE = 250_000
NUMBERS, TEXTS, CITIES = 18, 2, 3
FEATURES = [*(f"x{j}" for j in range(NUMBERS)), *(f"c{j}" for j in range(TEXTS))]
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz ,.0123456789", np.uint8)


def unused(rng: np.random.Generator, rows: int, letters: int) -> Any:
    """Return texts of so many letters."""
    offsets = np.arange(rows + 1, dtype=np.int32) * letters
    drawn = LETTERS[rng.integers(0, len(LETTERS), rows * letters, dtype=np.uint8)]
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(drawn))


def piece(rng: np.random.Generator, rows: int) -> Any:
    """Return rows of 18 numbers, 2 categories, a score that is wrong for one of them, and an outcome."""
    X = rng.standard_normal((NUMBERS, rows)).round(3)
    codes = rng.integers(0, CITIES, (TEXTS, rows))
    logit = 0.8 * X[0] - 0.5 * X[1] + 0.3 * (codes[0] == 2)
    p = (1 / (1 + np.exp(-logit + 0.3 * (codes[0] == 2)))).round(4)
    y = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.int8)
    words = pa.array([f"city {k}" for k in range(CITIES)])
    texts = [pa.DictionaryArray.from_arrays(pa.array(code, pa.int32()), words).cast(pa.string()) for code in codes]
    return pa.table(dict(zip([*FEATURES, "p", "y"], [*X, *texts, p, y], strict=True)))


def generate(path: Path, rows: int, most_bytes: float = float("inf"), letters: int = 0) -> int:
    """Write a CSV or Parquet file; return its rows."""
    rng, done, writer = np.random.default_rng(0), 0, None
    while done < rows and not (writer and path.stat().st_size >= most_bytes):
        table = piece(rng, min(PIECE, rows - done))
        for name in ("request", "answer") if letters else ():
            table = table.append_column(name, unused(rng, len(table), letters))
        if writer is None:
            parquet = path.suffix == ".parquet"
            writer = papq.ParquetWriter(path, table.schema) if parquet else pacsv.CSVWriter(path, table.schema)
        writer.write_table(table)
        done += len(table)
    assert writer is not None
    writer.close()
    return done


def measured(*arguments: object) -> tuple[float, float, float]:
    """Return seconds by the clock, seconds of all processors, and the peak memory in megabytes of a command."""
    command = [sys.executable, "-m", "swapcal", *map(str, arguments)]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(said.decode())
    peak = used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, peak


def commands(path: Path, folder: Path, jobs: int, fit_rows: int | None, letters: int = 0) -> dict[str, list[object]]:
    """Return each command by name."""
    named = ["--prob", "p", "--target", "y", "--features", ",".join(FEATURES)]
    model, out, dropped = folder / "model", folder / "out.csv", ["--drop", "request,answer"] if letters else []
    sampled = [] if fit_rows is None else ["--rows", fit_rows]
    return {
        "audit": ["audit", path, *named, "--jobs", jobs],
        "fit": ["fit", path, "--target", "y", "--score", "p", "--out", model, "--jobs", jobs, *dropped, *sampled],
        "predict": ["predict", model, path, "--out", out, "--jobs", jobs],
        "forecast": ["forecast", path, "--target", "y", "--score", "p", "--out", out, "--jobs", jobs, *dropped],
    }


def row(name: str, rows: int, size: int, jobs: int, seconds: float, cpu: float, peak: float) -> str:
    """Return a line of the table."""
    what = f"| {name} | {rows / MILLION:.3g} M | {size / 1e9:.2f} GB | {jobs} |"
    return f"{what} {seconds:.1f} | {cpu:.1f} | {rows / seconds:,.0f} | {rows / cpu:,.0f} | {peak:,.0f} |"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--rows", default="1,4,16", help="millions of rows, comma-separated")
    asked.add_argument("--gigabytes", type=float, help="one file of this size instead")
    asked.add_argument("--letters", type=int, default=0, help="length of two texts in each row that are not used")
    asked.add_argument("--form", default="csv", choices=["csv", "parquet"])
    asked.add_argument("--jobs", default="1,2")
    asked.add_argument("--only", default="audit,fit,predict,forecast")
    asked.add_argument("--fit-rows", type=int, help="rows of the sample that is fitted")
    asked.add_argument("--folder", type=Path)
    given = asked.parse_args()
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    print("| command | rows | file | threads | seconds | processor s | rows/s | rows/processor s | peak MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    try:
        every = [int(text) for text in given.jobs.split(",")]
        for millions in [1e6] if given.gigabytes else sorted(float(text) for text in given.rows.split(",")):
            path = folder / f"in.{given.form}"
            rows = generate(path, int(millions * MILLION), 1e9 * (given.gigabytes or np.inf), given.letters)
            for jobs in every:
                for name, arguments in commands(path, folder, jobs, given.fit_rows, given.letters).items():
                    if name in given.only.split(","):
                        print(row(name, rows, path.stat().st_size, jobs, *measured(*arguments)), flush=True)
                        (folder / "out.csv").unlink(missing_ok=True)
            every = every[-1:]
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
