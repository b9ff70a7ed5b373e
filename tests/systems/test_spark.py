"""Audits, monitors, scores, fits and forecasts on a real cluster of two executors."""

import datetime
import sys
from collections.abc import Iterator
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
pytest.importorskip("sklearn")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.streaming import StatefulProcessor

from swapcal import Audit, Live, Monitor, SwapClassifier
from tests.systems import spark_events, spark_session

pytestmark = [
    pytest.mark.systems,
    pytest.mark.skipif(not spark_session.java_is_there(), reason=spark_session.LACKING),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ROWS = 6_000
NAMES: dict[str, Any] = {
    "prob": "p", "target": "y", "features": ["age", "city", "member"], "groups": ["size"], "weights": "w", "time": "at",
}  # fmt: skip


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = spark_session.start(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table() -> Any:
    rng = np.random.default_rng(0)
    p = rng.choice(np.linspace(0.05, 0.95, 400), ROWS)
    city = rng.choice([f"c{k}" for k in range(40)] + ["(missing)"], ROWS).astype(object)
    city[rng.random(ROWS) < 0.1] = None
    age = np.where(rng.random(ROWS) < 0.1, np.nan, rng.normal(40, 10, ROWS).round(1))
    times = (1_700_000_000 + rng.integers(0, 30, ROWS) * 43_200).astype("datetime64[s]").astype("datetime64[us]")
    return pa.table(
        {
            "id": np.arange(ROWS),
            "p": p,
            "y": (rng.random(ROWS) < np.clip(p + 0.1 * (age > 45), 0, 1)).astype(float),
            "age": age,
            "city": pa.array(city.tolist(), pa.string()),
            "member": rng.random(ROWS) < 0.5,
            "size": rng.integers(0, 3, ROWS),
            "w": rng.random(ROWS) + 0.5,
            "at": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture(scope="module")
def df(spark: Any, table: Any) -> Any:
    return spark.createDataFrame(table).repartition(3).cache()


def close(found: Any, expected: Any) -> None:
    """Compare sums to 1e-9 of the size of the largest."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * max(1e-300, np.abs(expected).max(initial=0)))


def same(found: Audit, expected: Audit) -> None:
    """Compare everything two audits keep."""
    one, other = found.sums, expected.sums
    assert (one.sample.digest, one.sample.complete) == (other.sample.digest, other.sample.complete)
    assert np.array_equal(one.kept().hashes, other.kept().hashes)
    assert np.array_equal(one.kept().copies, other.kept().copies)
    close(one.kept().X, other.kept().X)
    assert one.levels == other.levels
    for part in ("table", "g", "lower_G", "lower_H"):
        close(getattr(one.tally, part), getattr(other.tally, part))
    for mine, theirs in zip(one.tally.columns(), other.tally.columns(), strict=True):
        assert mine[:2] == theirs[:2]
        close(mine[2], theirs[2])
    close(one.histogram.bins, other.histogram.bins)
    close(np.array(one.histogram.log_loss), np.array(other.histogram.log_loss))
    assert one.timeline is not None
    assert other.timeline is not None
    assert (one.timeline.span, one.timeline.dated) == (other.timeline.span, other.timeline.dated)
    close(one.timeline.table, other.timeline.table)
    for measure in ("theory.smcal", "theory.sreg", "theory.somni", "ece", "smooth_ece", "brier"):
        assert attrgetter(measure)(found)() == pytest.approx(attrgetter(measure)(expected)(), rel=1e-9)


@pytest.fixture(scope="module")
def judged(df: Any) -> Audit:
    from swapcal.adapters.spark import audit

    return audit(df, **NAMES, title="Shops")


def test_an_audit_on_spark_is_the_local_one(judged: Audit, table: Any) -> None:
    local = Audit.from_frame(table, **NAMES)
    same(judged, local)
    assert [one.name for one in judged.coordinates] == [one.name for one in local.coordinates]


def test_no_partitioning_changes_an_audit(df: Any, judged: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    from swapcal.adapters.spark import audit, parts

    monkeypatch.setattr(parts, "ENOUGH", 0)  # as with very many partitions
    other = audit(df.repartition(5, "city").sortWithinPartitions("y"), **NAMES, like=judged)
    same(other, judged)
    assert (judged + other).rows == 2 * ROWS


def test_names_of_columns_may_have_dots_and_spaces(df: Any) -> None:
    from swapcal.adapters.spark import audit

    odd = df.withColumnRenamed("p", "model.p").withColumnRenamed("city", "home `town`")
    found = audit(odd, prob="model.p", target="y", features=["home `town`"])
    assert found.rows == ROWS
    assert found.encoder.columns[0].name == "home `town`"


def test_faults_are_counted_where_they_are_and_said_in_one_line(df: Any) -> None:
    from pyspark.sql import functions as sql

    from swapcal.adapters.spark import audit, fit

    lost, wrong = (df["id"] % 4 == 0), (df["id"] % 3 == 0)
    with pytest.raises(ValueError, match=r"^column 'p': given nothing in 1,500 of 6,000 rows, expected a number in"):
        audit(df.withColumn("p", sql.when(~lost, df["p"])), prob="p", target="y")
    with pytest.raises(ValueError, match=r"^column 'y': given 7 in 2,000 of 6,000 rows, expected a number in \[0, 1\]"):
        audit(df.withColumn("y", sql.when(wrong, 7.0).otherwise(df["y"])), prob="p", target="y")
    with pytest.raises(ValueError, match=r"^rows: given none"):
        audit(df.where("false"), prob="p", target="y")
    with pytest.raises(ValueError, match=r"^no column 'q'"):
        audit(df, prob="q", target="y")
    with pytest.raises(TypeError, match=r"^column 'city': given string, expected numbers"):
        audit(df, prob="city", target="y")
    with pytest.raises(ValueError, match=r"^column 'y': given nothing in 1,500 of 6,000 rows, expected 0 or 1"):
        fit(df.withColumn("y", sql.when(~lost, df["y"])), id="id", target="y", features=["age"])


HOSTILE = {
    "p": (float("inf"), r"^column 'p': given inf in 1,500 of 6,000 rows, expected a number in \[0, 1\]"),
    "age": (float("inf"), r"^column 'age': given inf in 1,500 of 6,000 rows, expected a finite number"),
    "w": (0.0, r"^column 'w': given 0 in 1,500 of 6,000 rows, expected a positive number"),
    "at": (None, r"^column 'at': given nothing in 1,500 of 6,000 rows, expected a number, date or time"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_values_in_any_role_are_told(df: Any, judged: Audit, name: str) -> None:
    from pyspark.sql import functions as sql

    from swapcal.adapters.spark import audit

    value, message = HOSTILE[name]
    with pytest.raises(ValueError, match=message):
        audit(
            df.withColumn(name, sql.when(df["id"] % 4 == 0, sql.lit(value)).otherwise(df[name])), **NAMES, like=judged
        )


def test_other_types_of_columns_are_audited_as_they_are_locally(df: Any) -> None:
    from pyspark.sql import functions as sql

    from swapcal.adapters.spark import audit

    casts = {"y": "boolean", "age": "decimal(10, 1)", "size": "string", "at": "timestamp_ntz"}
    odd = df.select(*(sql.col(name).cast(casts.get(name, df.schema[name].dataType)) for name in df.columns))
    skewed = odd.repartition(9, sql.when(df["id"] < ROWS - 3, 0).otherwise(df["id"]))  # one giant, most of them empty
    same(audit(skewed, **NAMES), Audit.from_frame(odd.toArrow(), **NAMES))


def test_a_monitor_tells_which_times_it_cannot_place(df: Any) -> None:
    from pyspark.sql import functions as sql

    from swapcal.adapters.spark import monitor

    times = sql.when(df["id"] % 4 == 0, float("inf")).when(df["id"] % 4 == 1, float("nan")).otherwise(df["id"])
    with pytest.raises(ValueError, match=r"^column 'at': given no finite time in 3,000 rows, expected one"):
        monitor(df.withColumn("at", times), prob="p", target="y", time="at", window=3_000.0)


def test_a_category_nobody_knew_is_scored(df: Any, table: Any) -> None:
    from pyspark.sql import functions as sql

    from swapcal.adapters.spark import score

    rows = table.select(["age", "city"])
    model = SwapClassifier(correction="linear", mode="hash", random_state=0).fit(rows, table["y"].to_numpy())
    strange = df.select("id", "age", sql.when(df["id"] % 2 == 0, df["city"]).otherwise("elsewhere").alias("city"))
    scored = score(strange.where("id < 5").repartition(8), model).toArrow().sort_by("id")
    city = [name if k % 2 == 0 else "elsewhere" for k, name in enumerate(table["city"].to_pylist())]
    expected = model.predict_proba(pa.table({"age": table["age"], "city": city}).slice(0, 5))[:, 1]
    np.testing.assert_array_equal(scored["p"].to_numpy(), expected)


def test_a_monitor_by_stretches_is_that_of_all_rows_in_order(df: Any, table: Any) -> None:
    from swapcal.adapters.spark import monitor

    found = monitor(df, prob="p", target="y", time="at", window=2 * 86_400, groups=["size"])
    rows = table.sort_by("at")
    local = Monitor(["size"]).add(rows, *(rows[name].to_numpy() for name in ("p", "y", "at")))
    assert found.rows == ROWS
    assert {one["group"]: one["rows"] for one in found.sizes()} == {one["group"]: one["rows"] for one in local.sizes()}
    gaps = {one["group"]: one["gap"] for one in local.sizes()}
    assert {one["group"]: one["gap"] for one in found.sizes()} == pytest.approx(gaps, rel=1e-9)
    again = monitor(
        df.repartition(4, "y"), prob="p", target="y", time="at", window=86_400, groups=["size"], seed=0
    )  # another order among rows of one time where windows differ, but all of them once
    assert again.rows == ROWS


def test_scores_are_the_models(df: Any, table: Any) -> None:
    from swapcal.adapters.spark import score

    names = ["age", "city", "member"]
    rows = table.select(names)
    model = SwapClassifier(correction="linear", groups=["member"], mode="hash", random_state=0)
    model.fit(rows, table["y"].to_numpy())
    scored = score(df.select("id", *names), model, prefix="model_").toArrow().sort_by("id")
    assert scored.column_names == ["id", *names, "model_p"]
    np.testing.assert_array_equal(scored["model_p"].to_numpy(), model.predict_proba(rows)[:, 1])
    with pytest.raises(ValueError, match=r"^column 'p': given already"):
        score(df, model)
    with pytest.raises(ValueError, match=r"^no column 'member'"):
        score(df.drop("member", "p"), model)


def test_scores_are_those_of_a_live_that_stays_as_it_is(df: Any, table: Any) -> None:
    from swapcal.adapters.spark import score

    rows = table.select(["age", "city"])
    live = Live(groups=["city"])
    live.run(rows, table["y"].to_numpy())
    scored = score(df.select("id", "age", "city"), live, features=["age", "city"]).toArrow().sort_by("id")
    expected = live.preview(rows)
    np.testing.assert_array_equal(scored["p"].to_numpy(), expected.p)
    np.testing.assert_array_equal(scored["mean"].to_numpy(), expected.mean)


def test_a_fit_takes_the_same_rows_from_any_partitioning(df: Any) -> None:
    from swapcal.adapters.spark import fit

    asked: dict[str, Any] = {
        "id": "id", "target": "y", "features": ["age", "p"], "rows": 2_400, "held_out": 600, "correction": "linear",
    }  # fmt: skip
    one, other = fit(df, **asked), fit(df.repartition(5, "y"), **asked)
    assert one.curve == other.curve
    assert 500 < one.held_out < 700
    assert [point.rows for point in one.curve] == [one.curve[-1].rows // 4, one.curve[-1].rows]
    assert one.curve[-1].log_loss < 0.65
    assert "fitted on" in str(one)


def test_forecasts_are_those_of_one_live_for_each_key(spark: Any, tmp_path: Path) -> None:
    from swapcal.adapters.spark import audit

    rows = spark_events.events()
    spark_events.write(tmp_path / "in", rows, files=2)
    spark_events.answers(spark, tmp_path).awaitTermination()
    answered = spark.read.parquet(str(tmp_path / "out"))
    spark_events.check(answered.toArrow(), rows)
    closed = answered.where("y is not null")
    assert audit(closed, prob="mean", target="y").rows == closed.count() > 300


def test_a_row_that_is_refused_says_why_and_changes_nothing(spark: Any) -> None:
    from swapcal.adapters.spark import forecast

    rows = [
        ("a", 1, 1.0, 3.0, None),
        ("a", 1, 1.0, 4.0, None),
        ("a", 2, 2.0, None, 1.0),
        ("a", 3, 3.0, 5.0, 7.0),
        ("a", 4, None, 5.0, None),
        ("a", 1, 4.0, None, 1.0),
        ("a", 1, 5.0, None, 1.0),
        ("a", None, 5.0, 1.0, None),
    ]
    stream = spark.createDataFrame(rows, "shop string, id long, at double, price double, y double")
    found = forecast(stream, key="shop", id="id", target="y", time="at").collect()
    told = [(row["id"], row["event"], (row["note"] or "").partition(":")[0]) for row in found]
    assert told == [
        (1, "forecast", ""),
        (1, "refused", "id"),
        (2, "refused", "label"),
        (3, "refused", "y"),
        (1, "learned", ""),
        (4, "refused", "column 'id' or time"),
        (None, "refused", "column 'id' or time"),
    ]
    with pytest.raises(TypeError, match=r"^column 'price': given double, expected integers or texts"):
        forecast(stream, key="shop", id="price", target="y", time="at")
    with pytest.raises(ValueError, match=r"^models: given some"):
        forecast(stream, key="shop", id="id", target="y", time="at", models={"mine": object()})


def test_keys_of_any_type_come_back_as_they_were(spark: Any) -> None:
    from swapcal.adapters.spark import forecast

    zone = datetime.UTC
    values: dict[str, list[Any]] = {
        "bigint": [2**60 + 1, None, -3],
        "float": [0.1, None, 2.5],
        "double": [0.1, 1e300, float("nan")],
        "decimal(20, 3)": [Decimal("1.500"), None, Decimal("-2.000")],
        "string": ["a", "", 'ü"\\'],
        "boolean": [True, False, None],
        "date": [datetime.date(2024, 1, 1), None, datetime.date(1900, 1, 1)],
        "timestamp": [datetime.datetime(2023, 11, 5, hour, 30, 0, 123456, zone) for hour in (5, 6)] + [None],
        "timestamp_ntz": [datetime.datetime(2023, 11, 5, 1, 30), None, datetime.datetime(1960, 1, 1)],
        "binary": [bytearray(b"\xff\0"), bytearray(b""), None],
    }
    keys = [f"k{j}" for j in range(len(values))]
    schema = ", ".join(f"{name} {kind}" for name, kind in zip(keys, values, strict=True))
    each_key = [*zip(*values.values(), strict=True)]
    rows = [(*key, 3 * time + k, float(time), 1.0, None) for time in (1, 2) for k, key in enumerate(each_key)]
    stream = spark.createDataFrame(rows, f"{schema}, id long, at double, price double, y double")
    found = forecast(stream, key=keys, id="id", target="y", time="at")
    assert [found.schema[name].dataType for name in keys] == [stream.schema[name].dataType for name in keys]
    told, given = ({repr(row) for row in each.select(*keys, "id").collect()} for each in (found, stream))
    assert told == given
    states = found.groupBy(*keys).count().collect()
    assert sorted(row["count"] for row in states) == [2, 2, 2]


class OneValue(StatefulProcessor):  # type: ignore[misc]
    """Keeps a value for each key, as forecasts did up to version 0.3.0."""

    def init(self, handle: Any) -> None:
        self._head = handle.getValueState("head", "stamp binary, since bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        self._head.update((b"stamp", 0))
        yield from ()

    def close(self) -> None:
        pass


def test_a_checkpoint_of_earlier_versions_is_refused(spark: Any, tmp_path: Path) -> None:
    """Else its keys would begin anew without notice."""
    from pyspark import cloudpickle
    from pyspark.errors import StreamingQueryException

    from swapcal.adapters.spark.forecasting import ROCKSDB, STORE

    rows = spark_events.events(40)
    spark_events.write(tmp_path / "in", rows, files=1)
    spark.conf.set(STORE, ROCKSDB)
    stream = spark.readStream.schema(spark_events.SCHEMA).parquet(str(tmp_path / "in"))
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    earlier = stream.groupBy("shop").transformWithStateInPandas(OneValue(), "shop string", "append", "none")
    writing = earlier.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writing.trigger(availableNow=True).start().awaitTermination()
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), tmp_path / "in" / "later.parquet")
    with pytest.raises(StreamingQueryException, match="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"):
        spark_events.answers(spark, tmp_path).awaitTermination()
