"""Audit of a Spark data frame: the sums are made where the rows are, and added up."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from swapcal.adapters.spark import columns
from swapcal.adapters.spark.faults import NOT_INFINITE, PROBABILITY, TIME, WEIGHT, ColumnRule
from swapcal.adapters.spark.parts import add_up
from swapcal.audit import Audit
from swapcal.audit.encoder import Encoder
from swapcal.audit.reader import Reader
from swapcal.features.scales import Scales
from swapcal.tables.table import Table


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
    levels: int | Sequence[float] | None = None,
    title: str = "Audit",
    seed: int = 0,
    like: "Audit | Encoder | None" = None,
) -> Audit:
    """Audit the named columns of a Spark data frame: `Audit.from_frame` of all rows, up to rounding.

    However the rows are partitioned, the sums agree to 10⁻⁹ of their size; the row sample and the fingerprint,
    which go by hashes of the values, are the same. What comes to the driver is one audit: sums, and the sample of at
    most 65,536 distinct encoded rows. With features the data frame is read twice, once for their scales and categories
    (`persist` it where reading is dear); with `like`, which shares another audit's encoding and makes the two
    addable, only once.

    Parameters
    ----------
    df : a batch data frame of a classic session (not Spark Connect)
    prob, target : columns of probabilities and outcomes in [0, 1]; rows without either are an error
    features, groups, weights, time, issued, levels, title, seed, like : as in `Audit.from_frame`
    """
    columns.require_batch(df)
    reader = Reader(prob, target, tuple(features), tuple(groups), weights, time, issued)
    reader.check_roles()
    columns.require(df, reader.columns)
    columns.require_numbers(df, [prob, target, *([weights] if weights else []), *(issued or ())])
    rules = _rules(df, reader)
    encoder = like.encoder if isinstance(like, Audit) else like or _encoder(df, reader, rules)
    named: dict[str, Any] = {
        "prob": prob, "target": target, "features": reader.features, "groups": reader.groups, "weights": weights,
        "time": time, "issued": issued, "levels": levels, "title": title, "seed": seed, "like": encoder,
    }  # fmt: skip

    def work(part: Audit | None, table: pa.Table) -> Audit:
        if part is None:
            return Audit.from_frame(table, **named)
        part.add(table)
        return part

    found: Audit = add_up(df, reader.columns, rules, work)
    return found


def _encoder(df: DataFrame, reader: Reader, rules: dict[str, ColumnRule]) -> Encoder:
    """Return the encoding of the features, from one pass over them; the other columns are checked on the way."""
    if not reader.features:
        return Encoder(())

    def work(part: Scales | None, table: pa.Table) -> Scales:
        found = Scales.of(Table(table), reader.features)
        return found if part is None else part + found

    checked = {name: rule for name, rule in rules.items() if name in reader.features}
    found: Scales = add_up(df, reader.features, checked, work)
    return Encoder.of(found)


def _rules(df: DataFrame, reader: Reader) -> dict[str, ColumnRule]:
    rules = {name: NOT_INFINITE for name in reader.features if columns.is_numeric(df, name)}
    rules |= dict.fromkeys((reader.prob, reader.target, *(reader.issued or ())), PROBABILITY)
    rules |= {} if reader.weights is None else {reader.weights: WEIGHT}
    return rules if reader.time is None else rules | {reader.time: TIME}
