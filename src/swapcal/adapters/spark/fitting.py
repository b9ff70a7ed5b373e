"""Fit on a hashed sample of a Spark data frame, and a measurement of what more rows would buy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from swapcal.adapters.spark import columns
from swapcal.adapters.spark.arrow import any_pandas
from swapcal.arrays import Array
from swapcal.kernels.logloss import log_losses
from swapcal.tables.table import Table

if TYPE_CHECKING:
    from swapcal.adapters.sklearn import SwapClassifier

ROWS, HELD_OUT = 1_000_000, 100_000
FACTOR = 4
"""Each sample of the curve has so many times the rows of the one before."""
FEWEST = 500
MOST_APART = 0.2
PLACES = 1 << 40
PLACE = "__place"


class Point(NamedTuple):
    """Mean errors on the rows kept apart, of a model fitted on `rows` rows."""

    rows: int
    log_loss: float
    brier: float
    gain: float | None
    """fall of the log loss since the point before; None at the first"""
    gain_error: float | None
    """standard error of the gain, over the rows kept apart"""


@dataclass(frozen=True)
class Fitted:
    """A model and how its error fell with the rows it was fitted on."""

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

    The sample is the same however the rows are partitioned. Other rows, also chosen by hash, are kept apart, and models
    are fitted on a sixteenth and a quarter of the sample too: nested samples whose errors on the rows kept apart show
    what more rows bought, and let one judge what more would buy.

    The sample is collected: it must fit into the driver's memory several times, and within
    ``spark.driver.maxResultSize``.

    Parameters
    ----------
    df : a batch data frame
    id : column that names a row, by whose hash rows are chosen. (By a hash of everything in it, rows that hold the same
        would be chosen together, which is no fair sample.)
    target : column of outcomes, 0 and 1 (or false and true)
    features : columns to look at, by default all others
    groups : columns over whose categories calibration matters most; see `SwapClassifier`
    rows, held_out : to fit on, and to keep apart, at most; about that many are taken, and at most a fifth kept apart
    seed : of the hash, and of the fit
    settings : of `SwapClassifier`
    """
    columns.require_batch(df)
    names = [name for name in df.columns if name not in (target, id)] if features is None else list(features)
    names += [name for name in groups if name not in names]
    columns.require(df, [id, *names])
    columns.require_numbers(df, [target])
    total = _counted(df, target)
    apart = min(MOST_APART, held_out / total)
    last = min(1.0, apart + rows / total)
    place = _place(id, seed)
    chosen = df.select(*map(columns.column, [target, *names]), place.alias(PLACE)).where(f"{PLACE} < {last!r}")
    with any_pandas():
        collected = chosen.toArrow()
    taken = collected.sort_by(PLACE)  # an order that is no partition's
    kept = int(np.sum(taken[PLACE].to_numpy() < apart))
    curve = _Curve(taken.slice(0, kept), target, names)
    known = {"groups": list(groups), "random_state": seed, **settings}
    sample = taken.slice(kept)
    for count in _sizes(len(sample)):
        curve.fit(sample.slice(0, count), known)
    return Fitted(curve.model, tuple(curve.points), total - kept, kept)


class _Curve:
    """Fits models on more and more rows, and measures each on the rows kept apart."""

    def __init__(self, apart: pa.Table, target: str, names: list[str]) -> None:
        self._target, self._names = target, names
        self._apart, self._y = apart, self._outcomes(apart)
        self._losses: Array | None = None
        self.points: list[Point] = []

    def fit(self, rows: pa.Table, settings: dict[str, Any]) -> None:
        frame = settings.get("estimator") is not None
        from swapcal.adapters.sklearn import SwapClassifier  # takes a second, and workers that forecast need none of it

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


def _counted(df: DataFrame, target: str) -> int:
    """Return the number of rows; all of them must have an outcome."""
    y = columns.column(target).cast("double")
    lost, strange = (
        sql.count_if(y.isNull() | sql.isnan(y)),
        sql.count_if(y.isNotNull() & ~sql.isnan(y) & ~y.isin(0.0, 1.0)),
    )
    found = df.agg(sql.count(sql.lit(1)), lost, strange, sql.sum(y)).collect()[0]
    for given, count in (("nothing", found[1]), ("a number between or beyond", found[2])):
        if count:
            where = f"in {count:,} of {found[0]:,} rows"
            raise ValueError(f"column {target!r}: given {given} {where}, expected 0 or 1; leave such rows out")
    if found[0] < FEWEST or not 0 < found[3] < found[0]:
        given = f"{found[0]:,} rows, {found[3] or 0:,.0f} of them with outcome 1"
        raise ValueError(f"rows: given {given}, expected at least {FEWEST}, and both outcomes")
    return int(found[0])


def _place(id: str, seed: int) -> Column:
    """Return a number in [0, 1) that a row's name determines."""
    hashed = sql.xxhash64(sql.lit(seed), columns.column(id))
    return sql.pmod(hashed, sql.lit(PLACES)) / float(PLACES)


def _sizes(rows: int) -> list[int]:
    """Return the sizes of nested samples, in increasing order."""
    return [size for size in (rows // FACTOR**2, rows // FACTOR) if size >= FEWEST] + [rows]
