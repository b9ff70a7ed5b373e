"""Monitor of a Spark data frame: one monitor for each stretch of time, where its rows are, then one after the other."""

import pickle
from collections.abc import Sequence
from copy import deepcopy
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from swapcal.adapters.spark import columns
from swapcal.adapters.spark.arrow import any_pandas
from swapcal.adapters.spark.faults import PROBABILITY, Faults
from swapcal.adapters.spark.parts import NOTHING, PART, added, settled, unpickled
from swapcal.archive.container import packed, unpacked
from swapcal.arrays import Places
from swapcal.inputs import positive
from swapcal.monitor import Monitor
from swapcal.monitor.file import FILE
from swapcal.tables.table import Table

WINDOW, CLOCK = "__window", "__clock"


def monitor(
    df: DataFrame,
    *,
    prob: str,
    target: str,
    time: str,
    window: float = 86_400.0,
    groups: Sequence[str] = (),
    seed: int = 0,
    **settings: Any,
) -> Monitor:
    """Return the monitor of all rows in order of time, made by stretches of time side by side.

    A monitor bets row after row, so it cannot be made of arbitrary parts; but one that starts fresh in every window is
    made where the window's rows are, and `Monitor.then` puts them one after the other. Wealth, counts, gaps and
    intervals are those of one pass over all rows, up to rounding, and both promises hold: looking at the joined
    evidence at the ends of windows is looking less often. What differs from one pass: an alarm to which earlier
    windows contributed is seen only if it lasts to the end of its window, and `wealth` has no history but of the first.

    Rows of one time are put in an order drawn by `seed`: an order must not depend on outcomes, and that of the
    partitions is nobody's. So the result does not depend on the partitioning.

    Parameters
    ----------
    df : a batch data frame
    prob, target : columns of mean forecasts and outcomes in [0, 1]
    time : column by which the label of a row was bound to be known: numbers, dates or timestamps
    window : length of a stretch, in the unit of the times, seconds for dates; the rows of one must fit into a worker's
        memory
    groups, settings : as in `Monitor`
    """
    columns.require_batch(df)
    empty = Monitor(groups, **settings)
    columns.require_numbers(df, [prob, target])
    columns.require(df, empty.columns())
    clock, width = columns.seconds(df, time), positive("window", window)
    dated = not columns.is_numeric(df, time)

    def run(key: Any, rows: pa.Table) -> pa.Table:
        faults, part, table = Faults(), None, Table(rows)
        with faults.caught():
            faults.look(table, {prob: PROBABILITY, target: PROBABILITY})
            if key[0].as_py() is None:
                faults.refusals.append(f"column {time!r}: given no finite time in {len(rows):,} rows, expected one")
            if not faults:
                entered = _entered(empty, rows.take(_order(table, prob, target, seed)), prob, target, dated)
                part = [(key[0].as_py(), packed(FILE, entered.to_state()))]
        return pa.table({PART: [pickle.dumps((faults, part))]})

    read = dict.fromkeys([prob, target, *empty.columns()])
    window_of = sql.when(sql.abs(clock) < np.inf, sql.floor(clock / width))  # nothing for what is no finite time
    rows = df.select(*map(columns.column, read), clock.alias(CLOCK), window_of.alias(WINDOW))
    with any_pandas():
        parts = rows.groupBy(WINDOW).applyInArrow(run, f"{PART} binary").collect()
    windows = settled(reduce(added, map(unpickled, parts), NOTHING))
    return reduce(Monitor.then, (Monitor.from_state(unpacked(content, FILE)) for _, content in sorted(windows)))


def _order(rows: Table, prob: str, target: str, seed: int) -> Places:
    """Return the rows in order of time; those of one time as the seed draws, whatever order they came in.

    They are first sorted by all they hold, which forgets that order; the draw then forgets the sorting, so that
    outcomes, which took part in it, decide nothing.
    """
    others = [name for name in rows.columns if name not in (prob, target, CLOCK, WINDOW)]
    clock = rows.numbers(CLOCK)
    keys: list[Any] = [
        rows.numbers(target),
        rows.numbers(prob),
        *(rows.categories(name).codes for name in others),
        clock,
    ]
    sorted_rows = np.lexsort(keys)
    drawn = np.random.default_rng(seed).permutation(len(clock))
    return sorted_rows[np.lexsort((drawn, clock[sorted_rows]))]


def _entered(empty: Monitor, rows: pa.Table, prob: str, target: str, dated: bool) -> Monitor:
    table = Table(rows)
    clock = table.numbers(CLOCK)
    times = np.round(clock * 1e6).astype("datetime64[us]") if dated else clock
    return deepcopy(empty).add(rows, table.numbers(prob), table.numbers(target), times)
