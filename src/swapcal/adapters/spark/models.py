"""Batch work on a Spark data frame: audit, monitor, fit on a hashed sample, and scores of a fitted model."""

import pickle
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, types
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
    Batches,
    ColumnRule,
    Faults,
    add_up,
    added,
    any_pandas,
    map_in_arrow,
    settled,
    unpickled,
)
from swapcal.archive import packed, unpacked
from swapcal.arrays import Array, Places
from swapcal.audit import Audit
from swapcal.audit.audit import AuditOptions
from swapcal.audit.rows import Encoder
from swapcal.features.encoder import Scales
from swapcal.kernels.tally import log_losses
from swapcal.live import Live
from swapcal.live.state import FILE as LIVE_FILE
from swapcal.monitor import Monitor
from swapcal.monitor.state import FILE as MONITOR_FILE
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
                part = [(key[0].as_py(), packed(MONITOR_FILE, entered.to_state()))]
        return pa.table({PART: [pickle.dumps((faults, part))]})

    read = dict.fromkeys([prob, target, *empty.columns()])
    window_of = sql.when(sql.abs(clock) < np.inf, sql.floor(clock / width))  # nothing for what is no finite time
    rows = df.select(*map(parts.column, read), clock.alias(CLOCK), window_of.alias(WINDOW))
    with any_pandas():
        collected = rows.groupBy(WINDOW).applyInArrow(run, f"{PART} binary").collect()
    windows = settled(reduce(added, map(unpickled, collected), NOTHING))
    return reduce(Monitor.then, (Monitor.from_state(unpacked(content, MONITOR_FILE)) for _, content in sorted(windows)))


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


if TYPE_CHECKING:
    from swapcal.adapters.sklearn import SwapClassifier

# Scores of a Spark data frame: a fitted model over Arrow batches.


def score(df: DataFrame, model: Any, *, features: Sequence[str] | None = None, prefix: str = "") -> DataFrame:
    """Return the data frame with the model's probabilities as new columns; a stream stays a stream.

    For a `SwapClassifier` of two classes the new column is `p`, the probability of the second, by the model's `mode`;
    for more classes there is one column for each, `p_` and its name; for a `SwapRegressor` it is `prediction`. A `Live`
    does not learn here: the new columns are `p`, the level it would issue, and `mean`. A row's probabilities depend on
    its values alone, not on the partitioning (except in mode "sample", which draws at every call).

    The model is broadcast: every executor fetches it once, every Python worker unpacks it once.

    Parameters
    ----------
    df : a batch data frame or a stream
    model : a fitted `SwapClassifier` or `SwapRegressor`, or a `Live`
    features : columns that make up a row for a model that was fitted on arrays, in their order; or, for a `Live`, its
        record, by default all columns
    prefix : put before the names of the new columns
    """
    parts.require_classic(df)
    scorer = _live_scorer(model, df, features) if isinstance(model, Live) else _fitted_scorer(model, features)
    parts.require(df, scorer.columns)
    names = [prefix + name for name in scorer.names]
    for name in names:
        if name in df.columns:
            raise ValueError(f"column {name!r}: given already, expected a new name; see prefix")
    shared = df.sparkSession.sparkContext.broadcast(scorer)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            answers = shared.value.answers(pa.Table.from_batches([batch]).select(shared.value.columns))
            added = [pa.array(np.ascontiguousarray(column), pa.float64()) for column in answers.T]
            yield pa.RecordBatch.from_arrays([*batch.columns, *added], names=[*batch.schema.names, *names])

    fields = [types.StructField(name, types.DoubleType()) for name in names]
    return map_in_arrow(df, run, types.StructType([*df.schema.fields, *fields]))


class FittedScorer:
    """A fitted estimator, which reads a table or, if it was fitted on arrays, a matrix."""

    def __init__(self, model: Any, features: Sequence[str], named: bool) -> None:
        self.model, self.columns, self._named = model, list(features), named
        classes = getattr(model, "classes_", None)
        self._binary = classes is not None and len(classes) == 2
        if classes is None:
            self.names = ["prediction"]
        else:
            self.names = ["p"] if self._binary else [f"p_{name}" for name in classes]

    def answers(self, rows: pa.Table) -> Array:
        """Return (rows, names)."""
        predictions = self._predict(self._given(rows))
        return np.asarray(predictions[:, 1:] if self._binary else predictions.reshape(len(rows), -1), np.float64)

    def _given(self, rows: pa.Table) -> Any:
        if not self._named:
            return np.column_stack([column.to_numpy().astype(np.float64) for column in rows.columns])
        return rows if self.model.estimator is None else rows.to_pandas()  # what an estimator inside can read

    def _predict(self, rows: Any) -> Array:
        predictions: Array = (self.model.predict if self.names == ["prediction"] else self.model.predict_proba)(rows)
        return predictions


class LiveScorer:
    """A `Live` that forecasts without learning."""

    names = ("p", "mean")

    def __init__(self, content: bytes, features: Sequence[str]) -> None:
        self.columns = list(features)
        self._content = content
        self._live: Live | None = None

    def __reduce__(self) -> Any:
        return LiveScorer, (self._content, self.columns)

    def answers(self, rows: pa.Table) -> Array:
        """Return (rows, 2): issued levels and means."""
        if self._live is None:
            self._live = Live.from_state(unpacked(self._content, LIVE_FILE))
        forecasts = self._live.preview(rows)
        return np.column_stack([forecasts.p, forecasts.mean])


def _fitted_scorer(model: Any, features: Sequence[str] | None) -> FittedScorer:
    if not hasattr(model, "models_"):
        raise TypeError(
            f"model: given {type(model).__name__}, expected a fitted SwapClassifier or SwapRegressor, or a Live"
        )
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return FittedScorer(model, names.tolist(), True)
    if features is None or len(features) != model.n_features_in_:
        given = "none" if features is None else f"{len(features)}"
        raise ValueError(f"features: given {given}, expected the {model.n_features_in_} columns of the fitted array")
    return FittedScorer(model, features, False)


def _live_scorer(live: Live, df: DataFrame, features: Sequence[str] | None) -> LiveScorer:
    if live.models:
        raise ValueError(f"model: given a Live with models {list(live.models)}, expected one without: they stay behind")
    return LiveScorer(packed(LIVE_FILE, live.to_state()), df.columns if features is None else features)


# Fit on a hashed sample of a Spark data frame, with the error as a function of the number of rows.

ROWS, HELD_OUT = 1_000_000, 100_000
FACTOR = 4
"""Ratio of the rows of successive samples of the curve."""
FEWEST = 500
MOST_APART = 0.2
PLACES = 1 << 40
PLACE = "__place"


class Point(NamedTuple):
    """Mean errors on the held-out rows, of a model fitted on `rows` rows."""

    rows: int
    log_loss: float
    brier: float
    gain: float | None
    """decrease of the log loss since the previous point; None at the first"""
    gain_error: float | None
    """standard error of the gain, over the held-out rows"""


@dataclass(frozen=True)
class Fitted:
    """A model, and its error as a function of the number of training rows."""

    model: "SwapClassifier"
    curve: tuple[Point, ...]
    available: int
    """rows that could have been used"""
    held_out: int

    def __str__(self) -> str:
        lines = [f"{'rows':>12}  log loss  Brier score  gain"]
        for point in self.curve:
            gain = "" if point.gain is None else f"{point.gain:+.5f} ± {2 * (point.gain_error or 0.0):.5f}"
            lines.append(f"{point.rows:12,}  {point.log_loss:.5f}   {point.brier:.5f}      {gain}".rstrip())
        used = f"fitted on {self.curve[-1].rows:,} of {self.available:,} rows"
        return "\n".join([*lines, f"{used}; errors on {self.held_out:,} others"])


def fit(
    df: DataFrame,
    *,
    id: str,
    target: str,
    features: Sequence[str] | None = None,
    groups: Sequence[str] = (),
    rows: int = ROWS,
    held_out: int = HELD_OUT,
    seed: int = 0,
    **settings: Any,
) -> Fitted:
    """Fit a `SwapClassifier` on the driver, on a sample chosen by hash; `score` then applies it everywhere.

    The sample is the same for any partitioning. Other rows, also chosen by hash, are held out, and models
    are also fitted on a sixteenth and a quarter of the sample: the errors of these nested samples on the held-out rows
    show the gain from more rows.

    The sample is collected: it must fit into the driver's memory several times, and within
    ``spark.driver.maxResultSize``.

    Parameters
    ----------
    df : a batch data frame
    id : column that identifies a row, by whose hash rows are chosen. (A hash of all values would choose equal rows
        together, which is not a random sample.)
    target : column of outcomes, 0 and 1 (or false and true)
    features : columns to use, by default all others
    groups : columns whose categories must be calibrated; see `SwapClassifier`
    rows, held_out : largest numbers of rows to fit and to hold out; at most a fifth is held out
    seed : of the hash, and of the fit
    settings : of `SwapClassifier`
    """
    parts.require_batch(df)
    names = [name for name in df.columns if name not in (target, id)] if features is None else list(features)
    names += [name for name in groups if name not in names]
    parts.require(df, [id, *names])
    parts.require_numbers(df, [target])
    total = _labelled_rows(df, target)
    apart = min(MOST_APART, held_out / total)
    last = min(1.0, apart + rows / total)
    place = _place(id, seed)
    chosen = df.select(*map(parts.column, [target, *names]), place.alias(PLACE)).where(f"{PLACE} < {last!r}")
    with any_pandas():
        collected = chosen.toArrow()
    taken = collected.sort_by(PLACE)  # an order independent of partitions
    kept = int(np.sum(taken[PLACE].to_numpy() < apart))
    curve = _Curve(taken.slice(0, kept), target, names)
    known = {"groups": list(groups), "random_state": seed, **settings}
    sample = taken.slice(kept)
    for count in _sizes(len(sample)):
        curve.fit(sample.slice(0, count), known)
    return Fitted(curve.model, tuple(curve.points), total - kept, kept)


class _Curve:
    """Fits models on more and more rows, and scores each on the held-out rows."""

    def __init__(self, apart: pa.Table, target: str, names: list[str]) -> None:
        self._target, self._names = target, names
        self._apart, self._y = apart, self._outcomes(apart)
        self._losses: Array | None = None
        self.points: list[Point] = []

    def fit(self, rows: pa.Table, settings: dict[str, Any]) -> None:
        frame = settings.get("estimator") is not None
        from swapcal.adapters.sklearn import SwapClassifier  # slow to import, and not needed on workers

        self.model = SwapClassifier(**settings).fit(self._read(rows, frame), self._outcomes(rows))
        p = self.model.predict_proba(self._read(self._apart, frame))[:, 1]
        losses = log_losses(p, self._y)
        gain = gain_error = None
        if self._losses is not None:
            saved = self._losses - losses
            gain, gain_error = float(saved.mean()), float(saved.std() / np.sqrt(len(saved)))
        self._losses = losses
        brier = float(np.mean((p - self._y) ** 2))
        self.points.append(Point(len(rows), float(losses.mean()), brier, gain, gain_error))

    def _outcomes(self, rows: pa.Table) -> Array:
        return Table(rows).numbers(self._target)

    def _read(self, rows: pa.Table, frame: bool) -> Any:
        """Return the features, as an estimator inside can read them."""
        return rows.select(self._names).to_pandas() if frame else rows.select(self._names)


def _labelled_rows(df: DataFrame, target: str) -> int:
    """Return the number of rows. Raises ValueError if a row has no outcome of 0 or 1, or there are too few."""
    y = parts.column(target).cast("double")
    lost, strange = (
        sql.count_if(y.isNull() | sql.isnan(y)),
        sql.count_if(y.isNotNull() & ~sql.isnan(y) & ~y.isin(0.0, 1.0)),
    )
    counts = df.agg(sql.count(sql.lit(1)), lost, strange, sql.sum(y)).collect()[0]
    for given, count in (("nothing", counts[1]), ("a number between or beyond", counts[2])):
        if count:
            where = f"in {count:,} of {counts[0]:,} rows"
            raise ValueError(f"column {target!r}: given {given} {where}, expected 0 or 1; leave such rows out")
    if counts[0] < FEWEST or not 0 < counts[3] < counts[0]:
        given = f"{counts[0]:,} rows, {counts[3] or 0:,.0f} of them with outcome 1"
        raise ValueError(f"rows: given {given}, expected at least {FEWEST}, and both outcomes")
    return int(counts[0])


def _place(id: str, seed: int) -> Column:
    """Return a number in [0, 1) determined by a row's id."""
    hashed = sql.xxhash64(sql.lit(seed), parts.column(id))
    return sql.pmod(hashed, sql.lit(PLACES)) / float(PLACES)


def _sizes(rows: int) -> list[int]:
    """Return the sizes of nested samples, in increasing order."""
    return [size for size in (rows // FACTOR**2, rows // FACTOR) if size >= FEWEST] + [rows]
