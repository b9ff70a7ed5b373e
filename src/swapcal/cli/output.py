"""Tables out: a CSV or Parquet file, whole or not at all, or standard output."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq


@contextmanager
def writer(output: str) -> Iterator[Callable[[pa.Table], None]]:
    """Write tables to a file that appears only once it is complete, or to standard output."""
    if output == "-":
        with _sink(sys.stdout.buffer, parquet=False) as write:
            yield write
        return
    unfinished = Path(f"{output}.unfinished")
    try:
        with open(unfinished, "wb") as raw, _sink(raw, parquet=output.endswith((".parquet", ".pq"))) as write:
            yield write
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _sink(raw: BinaryIO, *, parquet: bool) -> Iterator[Callable[[pa.Table], None]]:
    writer: Any = None

    def write(table: pa.Table) -> None:
        nonlocal writer
        if writer is None:
            writer = (papq.ParquetWriter if parquet else pacsv.CSVWriter)(raw, table.schema)
        writer.write_table(table)

    yield write
    if writer is not None:
        writer.close()
