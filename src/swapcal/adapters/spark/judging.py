"""Audit and monitor of a Spark data frame: computed on the executors, and added up."""

import pickle
from collections.abc import Sequence
from copy import deepcopy
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from swapcal._validate import positive
from swapcal.adapters.spark import parts
from swapcal.adapters.spark.parts import (
    NOT_INFINITE,
    NOTHING,
    PART,
    PROBABILITY,
    TIME,
    WEIGHT,
    ColumnRule,
    Faults,
    add_up,
    added,
    any_pandas,
    settled,
    unpickled,
)
from swapcal.archive import packed, unpacked
from swapcal.arrays import Places
from swapcal.audit import Audit
from swapcal.audit.audit import AuditOptions
from swapcal.audit.rows import Encoder
from swapcal.features.encoder import Scales
from swapcal.monitor import Monitor
from swapcal.monitor.state import FILE
from swapcal.tables.frame import JudgedColumns, Table

# Audit of a Spark data frame: sums are computed on the executors, and added up.


def audit(
    df: DataFrame,
    *,
    prob: str,
    target: str,
    features: Sequence[str] = (),
    groups: Sequence[str] = (),
    weights: str | None = None,
    time: str | None = None,
    issued: tuple[str, str, str] | None = None,
    clusters: str | None = None,
    levels: int | Sequence[float] | None = None,
    title: str = "Audit",
    seed: int = 0,
    like: "Audit | Encoder | None" = None,
) -> Audit:
    """Audit the named columns of a Spark data frame: `Audit.from_frame` of all rows, up to rounding.

    For any partitioning, the sums agree to 10⁻⁹ of their size; the row sample and the fingerprint,
    which depend on hashes of the values, are the same. The driver receives one audit: sums, and the sample of at
    most 65,536 distinct encoded rows. With features the data frame is read twice, once for their scales and categories
    (`persist` it if reading is slow); with `like`, which shares another audit's encoding and makes the two
    addable, only once.

    Parameters
    ----------
    df : a batch data frame of a classic session (not Spark Connect)
    prob, target : columns of probabilities and outcomes in [0, 1]; rows without either are an error
    features, groups, weights, time, issued, clusters, levels, title, seed, like : as in `Audit.from_frame`; rows of a
        cluster may be in different partitions
    """
    parts.require_batch(df)
    columns = JudgedColumns(prob, target, tuple(features), tuple(groups), weights, time, issued, clusters)
    columns.check_roles()
    parts.require(df, columns.columns)
    parts.require_numbers(df, [prob, target, *([weights] if weights else []), *(issued or ())])
    rules = _rules(df, columns)
    encoder = like.encoder if isinstance(like, Audit) else like or _encoder(df, columns, rules)
    given: AuditOptions = {"levels": levels, "title": title, "seed": seed}

    def work(part: Audit | None, table: pa.Table) -> Audit:
        if part is None:
            return Audit.from_frame(table, prob=prob, issued=issued, like=encoder, **columns.shared, **given)
        part.add(table)
        return part

    total: Audit = add_up(df, columns.columns, rules, work)
    return total


def _encoder(df: DataFrame, columns: JudgedColumns, rules: dict[str, ColumnRule]) -> Encoder:
    """Return the encoding of the features, from one pass over them; the other columns are checked on the way."""
    if not columns.features:
        return Encoder(())

    def work(part: Scales | None, table: pa.Table) -> Scales:
        scales = Scales.of(Table(table), columns.features)
        return scales if part is None else part + scales

    checked = {name: rule for name, rule in rules.items() if name in columns.features}
    all_scales: Scales = add_up(df, columns.features, checked, work)
    return Encoder.of(all_scales)


def _rules(df: DataFrame, columns: JudgedColumns) -> dict[str, ColumnRule]:
    rules = {name: NOT_INFINITE for name in columns.features if parts.is_numeric(df, name)}
    rules |= dict.fromkeys((columns.prob, columns.target, *(columns.issued or ())), PROBABILITY)
    rules |= {} if columns.weights is None else {columns.weights: WEIGHT}
    return rules if columns.time is None else rules | {columns.time: TIME}


# Monitor of a Spark data frame: one monitor for each window of time, joined in order.

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
    """Return the monitor of all rows in order of time, computed in parallel over windows of time.

    A monitor bets row after row, so arbitrary parts cannot be added; but every window gets a fresh monitor,
    and `Monitor.then` joins them in order. Wealth, counts, gaps and
    intervals are those of one pass over all rows, up to rounding, and both guarantees hold: checking the joined
    evidence at the ends of windows is checking less often. Two things differ from one pass: an alarm to which earlier
    windows contributed is raised only if it lasts to the end of its window, and `wealth` has only the first window's
    history.

    Rows with equal times are put in an order drawn by `seed`: the order must not depend on outcomes, and that of the
    partitions is arbitrary. So the result does not depend on the partitioning.

    Parameters
    ----------
    df : a batch data frame
    prob, target : columns of mean forecasts and outcomes in [0, 1]
    time : column of times by which a label is known whatever its value: numbers, dates or timestamps
    window : length of a window, in the unit of the times, seconds for dates; the rows of one must fit into a worker's
        memory
    groups, settings : as in `Monitor`
    """
    parts.require_batch(df)
    empty = Monitor(groups, **settings)
    parts.require_numbers(df, [prob, target])
    parts.require(df, empty.columns())
    clock, width = parts.seconds(df, time), positive("window", window)
    dated = not parts.is_numeric(df, time)

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
    rows = df.select(*map(parts.column, read), clock.alias(CLOCK), window_of.alias(WINDOW))
    with any_pandas():
        collected = rows.groupBy(WINDOW).applyInArrow(run, f"{PART} binary").collect()
    windows = settled(reduce(added, map(unpickled, collected), NOTHING))
    return reduce(Monitor.then, (Monitor.from_state(unpacked(content, FILE)) for _, content in sorted(windows)))


def _order(rows: Table, prob: str, target: str, seed: int) -> Places:
    """Return the rows in order of time; rows with equal times in an order drawn by the seed.

    They are first sorted by all their values, which removes the given order; the draw then removes the effect of the
    sorting, which depends on outcomes.
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
