"""Audit against DuckDB on the same group-by sums, and against the machine's memory bandwidth.

Run as ``python benchmarks/audit.py [--rows 10000000] [--features 20]``. The Parquet file is made in a temporary
folder. DuckDB computes, per level, Σ1, Σp, Σy, g = Σ(y − p)x, and the upper triangles of G = Σxxᵀ and
H = Σp(1 − p)xxᵀ: the sums the audit keeps, but for those of the bins of numbers and the fine histogram, which a second
query of DuckDB adds. The audit also fingerprints the rows and keeps its sample of them; it has no part left out.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq

from swapcal import Audit
from swapcal.audit.levels import Levels
from swapcal.audit.sql import SqlAudit
from swapcal.audit.sums import Tally
from swapcal.tables.frame import JudgedColumns

BATCH = 1 << 17


def write(path: Path, rows: int, features: int) -> None:
    rng = np.random.default_rng(0)
    names = ["p", "y", *(f"x{j}" for j in range(features))]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with papq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, 1 << 20):
            count = min(1 << 20, rows - start)
            p = rng.random(count)
            columns = [p, (rng.random(count) < p).astype(float), *rng.standard_normal((features, count))]
            writer.write_table(pa.table(dict(zip(names, columns, strict=True)), schema=schema))


def audit_parquet(path: Path, features: int) -> Audit:
    found: Audit | None = None
    names = [f"x{j}" for j in range(features)]
    with papq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as source:
        for batch in source.iter_batches(batch_size=BATCH):
            if found is None:
                found = Audit.from_frame(batch, prob="p", target="y", features=names)
            else:
                found.add(batch)
    assert found is not None
    return found


def duckdb_sums(path: Path, features: int) -> Any:
    x = ["0.5", *(f"x{j}" for j in range(features))]
    sums = ["count(*)", "sum(p)", "sum(y)", *(f"sum((y - p) * {a})" for a in x)]
    for i, a in enumerate(x):
        sums += [f"sum({a} * {b})" for b in x[: i + 1]]
        sums += [f"sum(p * (1 - p) * {a} * {b})" for b in x[: i + 1]]
    connection = duckdb.connect()
    connection.execute("set threads to 2")
    query = f"select least(floor(p * 51), 50) as level, {', '.join(sums)} from '{path}' group by level order by level"
    return connection.execute(query).fetchnumpy()


def duckdb_same_sums(path: Path, audit: Audit) -> Audit:
    """Audit by the answer of `swapcal audit --sql`: the sums above, those of the bins, and the fine histogram."""
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW rows AS SELECT * FROM read_parquet('{path}')")
    names = tuple(str(column.name) for column in audit.encoder.columns)
    query = SqlAudit("duckdb", "rows", JudgedColumns("p", "y", names)).query(audit.encoder)
    return Audit.from_sums(connection.sql(query).df())


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def bandwidth(entries: int = 1 << 25) -> float:
    """Bytes per second of reading a long vector, by summing it."""
    vector = np.ones(entries)
    seconds, _ = timed(vector.sum, 5)
    return vector.nbytes / seconds


def in_memory(rows: int, features: int) -> tuple[float, int]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.1, 0.1, (rows, features + 1))
    X[:, 0] = 0.5
    p = rng.random(rows)
    y, weights = (rng.random(rows) < p).astype(float), np.ones(rows)

    def work() -> None:
        Tally(Levels.declare(51), features + 1).add(p, y, weights, X, {})

    return timed(work, 3)[0], X.nbytes + p.nbytes + y.nbytes + weights.nbytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path, options.rows, options.features)
        audit_parquet_seconds, found = timed(lambda: audit_parquet(path, options.features), options.repeats)
        duck_seconds, sums = timed(lambda: duckdb_sums(path, options.features), options.repeats)
        same_seconds, same = timed(lambda: duckdb_same_sums(path, found), options.repeats)
    np.testing.assert_allclose(same.sums.tally.bins, found.sums.tally.bins, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.sums.tally.table[:, 1], sums["sum(p)"], rtol=1e-9)
    print(f"{options.rows:,} rows × {options.features} features from Parquet, 51 levels, two threads")
    print(f"  swapcal audit  {audit_parquet_seconds:7.2f} s  {options.rows / audit_parquet_seconds:12,.0f} rows/s")
    print(f"  DuckDB sums    {duck_seconds:7.2f} s  {options.rows / duck_seconds:12,.0f} rows/s")
    print(f"  DuckDB, bins too {same_seconds:5.2f} s  {options.rows / same_seconds:12,.0f} rows/s")
    first, second = duck_seconds / audit_parquet_seconds, same_seconds / audit_parquet_seconds
    print(f"  ratio          {first:7.2f} × DuckDB's speed, {second:.2f} × with bins")
    rows = min(options.rows, 2_000_000)
    seconds, size = in_memory(rows, options.features)
    share = size / seconds / bandwidth()
    print(f"in memory, the sums alone: {rows / seconds:,.0f} rows/s, {size / seconds / 1e9:.2f} GB/s,")
    print(f"  {100 * share:.0f} % of the bandwidth of summing a vector with one thread")


if __name__ == "__main__":
    main()
