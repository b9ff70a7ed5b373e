"""Python functions on Arrow batches of a Spark data frame."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

Batches = Iterator[pa.RecordBatch]


@contextmanager
def any_pandas() -> Iterator[None]:
    """Silence Spark's remark on pandas 3: what is done here is tested with it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def map_in_arrow(df: DataFrame, run: Callable[[Batches], Batches], schema: Any) -> DataFrame:
    """Return what a function makes of the batches of every partition, whatever characters the columns' names have.

    Spark looks names up unquoted there, and takes a dot for a field of a structure.
    """
    names = df.columns

    def named(batches: Batches) -> Batches:
        return run(pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)

    with any_pandas():
        return df.toDF(*(f"c{place}" for place in range(len(names)))).mapInArrow(named, schema)
