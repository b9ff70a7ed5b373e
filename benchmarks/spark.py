"""Spark: the audit against Spark's own SQL, keyed forecasts against river's models, scores against MCGrad's.

Run as ``python benchmarks/spark.py [--rows 200000]``: one session, files in a temporary folder, every contest in the
same operator of the same session; each contender runs once to warm up, then they take turns, three times, and medians
are told, of the clock and of the processor seconds of all processes (driver, executors, Python workers), which mean
something on a busy machine too.

Keyed forecasts: 13 columns, 4 of them categories, in micro-batches of 500 records of each of 40 keys. Outcomes come by
themselves, 500 to 1,000 records of their key later, in the next micro-batch or the one after it; in another contest,
with their records. River's peer is a standardised and one-hot encoded logistic regression for each key that keeps the
records which wait for their outcome, pickled between micro-batches. Told are the whole stream, and what comes after the
first micro-batch, in which keys are new and workers start.

Many keys: the same columns, outcomes with their records, two micro-batches of three records of each key, the small
`Live`; each contender plays the stream once, river's models both key by key and in groups of keys as ours are. Told are
the state of a key in the store's files, and the most memory that all processes had together. 100,000 keys:
``--only many-keys --keys 100000 --alone --master "local[2]"``.

Spark SQL computes per level Σ1, Σp, Σy, g = Σ(y − p)x and the
upper triangles of G = Σxxᵀ and H = Σp(1 − p)xxᵀ: the sums the audit keeps, of features as they are. The audit also
standardises the features, which is a pass of its own, fingerprints the rows, keeps its sample and the fine histogram.
"""

import argparse
import os
import pickle
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as papq
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor

from swapcal import SwapClassifier
from swapcal.adapters.spark import audit, forecast, score
from swapcal.adapters.spark.forecasting import GROUPS, ROCKSDB, STORE

ROUNDS, BESIDE = 3, 40
NUMBERS, CATEGORIES = [f"x{j}" for j in range(9)], {"c0": 3, "c1": 7, "c2": 12, "c3": 30}
LATE = (500, 1000)
CONTENDERS = RIVER, FULL, SMALL, NONE = (
    "river, scaled and one-hot LogisticRegression",
    "swapcal",
    "swapcal, small",
    "no model, a kilobyte of state",
)
RIVER_GROUPS = "river, keys in groups as ours are"
ANSWER = "key bigint, id bigint, p double"
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Shape(NamedTuple):
    """A keyed stream: in each micro-batch so many records of each key."""

    keys: int
    per_key: int
    triggers: int


USUAL = Shape(keys=40, per_key=500, triggers=4)


class Spent(NamedTuple):
    """Seconds of the clock, and of the processors."""

    clock: float
    processors: float

    def since(self, start: "Spent") -> "Spent":
        return Spent(self.clock - start.clock, self.processors - start.processors)


def family() -> dict[int, list[str]]:
    """Return what the system tells of this process and of all below it."""
    told: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:  # it ended while we looked
            continue
        if fields:
            told[int(entry.name)] = fields
    own = {os.getpid()}
    while below := {child for child, fields in told.items() if int(fields[1]) in own and child not in own}:
        own |= below
    return {process: told[process] for process in own if process in told}


def now() -> Spent:
    """Return the clock, and the processor time of this process and of all below it so far."""
    used = sum(sum(map(int, fields[11:15])) for fields in family().values())  # their own, and of children that ended
    return Spent(time.perf_counter(), used / TICKS)


@contextmanager
def most_memory() -> Iterator[list[int]]:
    """Keep the most bytes that all processes had together, looked at every second; shared pages count for each."""
    most, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(1.0):
            most[0] = max(most[0], PAGE * sum(int(fields[21]) for fields in family().values()))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        ended.set()
        looking.join()


def session(folder: Path, master: str) -> Any:
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
        STORE: ROCKSDB,
    }
    builder = SparkSession.builder.master(master).appName("swapcal benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Played(NamedTuple):
    """A stream: the moment after its first micro-batch, and what the state store then kept."""

    first: Spent
    keys: int
    nbytes: int


class Timed(NamedTuple):
    """What a contender spent on all rows, and on those after its first micro-batch."""

    whole: Spent
    steady: Spent | None = None
    played: Played | None = None


def timed(work: Callable[[], Any]) -> Timed:
    start = now()
    played = work()
    end = now()
    if isinstance(played, Played):
        return Timed(end.since(start), end.since(played.first), played)
    return Timed(end.since(start))


def table(rows: int, features: int) -> pa.Table:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((features, rows))
    p = 1.0 / (1.0 + np.exp(-X[0] - 0.5 * X[1]))
    columns = {"p": p, "y": (rng.random(rows) < p).astype(float)}
    return pa.table(columns | {f"x{j}": X[j] for j in range(features)})


def sql_sums(spark: Any, features: int) -> list[Any]:
    x = ["0.5D", *(f"x{j}" for j in range(features))]
    sums = ["count(*)", "sum(p)", "sum(y)", *(f"sum((y - p) * {a})" for a in x)]
    for i, a in enumerate(x):
        sums += [f"sum({a} * {b})" for b in x[: i + 1]]
        sums += [f"sum(p * (1 - p) * {a} * {b})" for b in x[: i + 1]]
    query = f"select least(floor(p * 51), 50) as level, {', '.join(sums)} from rows group by 1"
    found: list[Any] = spark.sql(query).collect()
    return found


def audits(spark: Any, folder: Path, rows: int, features: int) -> None:
    path = str(folder / "rows.parquet")
    papq.write_table(table(rows, features), path, row_group_size=rows // 8)
    df = spark.read.parquet(path)
    df.createOrReplaceTempView("rows")
    names = {"prob": "p", "target": "y", "features": [f"x{j}" for j in range(features)]}
    known = audit(df, **names)
    contest(
        f"audit: {rows:,} rows × {features} features from Parquet",
        rows,
        {
            "Spark SQL, the same sums": lambda: sql_sums(spark, features),
            "audit, two passes": lambda: audit(df, **names),
            "audit, encoding given": lambda: audit(df, **names, like=known),
        },
    )


class RiverModels(StatefulProcessor):
    """A logistic regression of river for each key, pickled between micro-batches with the records that wait."""

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("model", "content binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        kept = self._state.get()
        model, waiting = pickle.loads(bytes(kept[0])) if kept else (self._fresh(), {})
        batch = pd.concat(list(rows), ignore_index=True).sort_values(["at", "id"])
        records = batch[[*NUMBERS, *CATEGORIES]].to_dict("records")
        p = []
        for record, id, y in zip(records, batch["id"].tolist(), batch["y"].tolist(), strict=True):
            asks = id not in waiting
            if asks:
                waiting[id] = record
            p.append(model.predict_proba_one(record).get(True, 0.5) if asks else np.nan)
            if y == y:
                model.learn_one(waiting.pop(id), bool(y))
        self._state.update((pickle.dumps((model, waiting)),))
        yield pd.DataFrame({"key": key[0], "id": batch["id"], "p": p})

    def _fresh(self) -> Any:
        from river import compose, linear_model, preprocessing

        numbers = compose.Select(*NUMBERS) | preprocessing.StandardScaler()
        categories = compose.Select(*CATEGORIES) | preprocessing.OneHotEncoder()
        return (numbers + categories) | linear_model.LogisticRegression()

    def close(self) -> None:
        pass


class RiverGroups(RiverModels):
    """The same models for groups of keys, whose outcomes come with their records: one frame in and out for each."""

    def init(self, handle: Any) -> None:
        self._state = handle.getMapState("models", "key bigint", "content binary")

    def handleInputRows(self, group: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        batch = pd.concat(list(rows), ignore_index=True).sort_values(["key", "at", "id"], ignore_index=True)
        records = batch[[*NUMBERS, *CATEGORIES]].to_dict("records")
        p = []
        for key, own in groupby(zip(batch["key"].tolist(), records, batch["y"].tolist(), strict=True), itemgetter(0)):
            kept = self._state.getValue((key,))
            model = pickle.loads(bytes(kept[0])) if kept else self._fresh()
            for _, record, y in own:
                p.append(model.predict_proba_one(record).get(True, 0.5))
                model.learn_one(record, bool(y))
            self._state.updateValue((key,), (pickle.dumps(model),))
        yield pd.DataFrame({"key": batch["key"], "id": batch["id"], "p": p})


class NoModel(StatefulProcessor):
    """What the operator costs by itself: a kilobyte is read and written for each key, and one half is forecast."""

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("model", "content binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        self._state.get()
        batch = pd.concat(list(rows), ignore_index=True)
        self._state.update((bytes(1_000),))
        yield pd.DataFrame({"key": key[0], "id": batch["id"], "p": 0.5})

    def close(self) -> None:
        pass


def events(shape: Shape, late: bool) -> pd.DataFrame:
    """Return rows of a keyed stream in order of time, whose unit is one record of every key."""
    rng, n = np.random.default_rng(0), shape.keys * shape.per_key * shape.triggers
    records = pd.DataFrame(rng.standard_normal((n, len(NUMBERS))), columns=NUMBERS)
    for name, size in CATEGORIES.items():
        records[name] = np.array([f"{name} {k}" for k in range(size)], object)[rng.integers(0, size, n)]
    chance = 1.0 / (1.0 + np.exp(0.5 - records["x0"] - 0.5 * records["x1"] - (records["c0"] == "c0 1")))
    number = np.arange(n)
    records = records.assign(key=number % shape.keys, id=number, at=(number // shape.keys).astype(float))
    y = (rng.random(n) < chance).astype(float)
    if not late:
        return records.assign(y=y)
    outcomes = records[["key", "id", "at"]].assign(y=y)
    outcomes["at"] += rng.integers(*LATE, n) + 0.5
    return pd.concat([records, outcomes]).sort_values("at", kind="stable")


def keyed(
    spark: Any,
    folder: Path,
    late: bool,
    shape: Shape = USUAL,
    names: tuple[str, ...] = CONTENDERS,
    rounds: int = ROUNDS,
) -> None:
    rows = events(shape, late)
    rows = rows[rows["at"] < shape.triggers * shape.per_key]
    folder = folder / f"{shape.keys} keys, {'late' if late else 'at once'}"
    (folder / "events").mkdir(parents=True)
    for number, part in rows.groupby((rows["at"] // shape.per_key).astype(int)):
        path = folder / "events" / f"{number}.parquet"
        papq.write_table(pa.Table.from_pandas(part, preserve_index=False), path)
        os.utime(path, (1e9 + number, 1e9 + number))  # files are read in this order
    schema = spark.read.parquet(str(folder / "events")).schema

    def run(answers: Callable[[Any], Any]) -> Played:
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "events"))
        with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
            writing = answers(stream).writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writing.trigger(availableNow=True).start()
            while query.isActive and query.lastProgress is None:
                time.sleep(0.02)
            first = now()
            query.awaitTermination()
            kept = query.lastProgress["stateOperators"][0]
        return Played(first, shape.keys, int(kept["customMetrics"]["rocksdbSstFileSize"]))

    def river(stream: Any) -> Any:
        return stream.groupBy("key").transformWithStateInPandas(RiverModels(), ANSWER, "append", "none")

    def nothing(stream: Any) -> Any:
        return stream.groupBy("key").transformWithStateInPandas(NoModel(), ANSWER, "append", "none")

    def swapcal(stream: Any, size: str) -> Any:
        return forecast(stream, key="key", id="id", target="y", time="at", beside=min(shape.keys, BESIDE), size=size)

    def river_groups(stream: Any) -> Any:
        grouped = stream.withColumn("group", sql.pmod(sql.xxhash64("key"), sql.lit(GROUPS))).groupBy("group")
        return grouped.transformWithStateInPandas(RiverGroups(), ANSWER, "append", "none")

    contenders = {
        RIVER: lambda: run(river),
        RIVER_GROUPS: lambda: run(river_groups),
        FULL: lambda: run(lambda stream: swapcal(stream, "full")),
        SMALL: lambda: run(lambda stream: swapcal(stream, "small")),
        NONE: lambda: run(nothing),
    }
    outcomes = "late" if late else "at once"
    contest(
        f"keyed forecasts: {len(rows):,} rows of 13 columns, outcomes {outcomes}, {shape.keys:,} keys",
        len(rows),
        {name: contenders[name] for name in names},
        steady=int(np.sum(rows["at"] >= shape.per_key)),
        rounds=rounds,
    )


def scores(spark: Any, folder: Path, rows: int, features: int) -> None:
    path = str(folder / "scored.parquet")
    data = table(rows, features)
    biased = 1.0 / (1.0 + np.exp(-data["x0"].to_numpy()))  # knows nothing of x1: there is something to correct
    data = data.set_column(0, "p", pa.array(biased))
    papq.write_table(data, path, row_group_size=rows // 4)
    df, names = spark.read.parquet(path), [f"x{j}" for j in range(features)]
    small = data.slice(0, 20_000)
    model = SwapClassifier(random_state=0).fit(small.select(names), small["y"].to_numpy())

    def swapcal() -> None:
        score(df.drop("p"), model).write.format("noop").mode("overwrite").save()

    peer = _mcgrad(df, small.to_pandas(), names) if find_spec("mcgrad") else None
    if peer is None:
        print("MCGrad is not installed (pip install torch mcgrad): no contest of scores")
    contenders = {} if peer is None else {"MCGrad predict": peer}
    contest(f"scores: {rows:,} rows × {features} features", rows, contenders | {"swapcal score": swapcal})


def _mcgrad(df: Any, small: pd.DataFrame, names: list[str]) -> Callable[[], None]:
    from mcgrad import methods

    model = methods.MCGrad()
    model.fit(df_train=small, prediction_column_name="p", label_column_name="y", numerical_feature_column_names=names)
    shared = df.sparkSession.sparkContext.broadcast(model.serialize())  # it cannot be pickled

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = methods.MCGrad.deserialize(shared.value)
        for batch in batches:
            p = read.predict(batch.to_pandas(), "p", numerical_feature_column_names=names)
            yield pa.RecordBatch.from_pydict({"q": p})

    return lambda: df.mapInArrow(run, "q double").write.format("noop").mode("overwrite").save()


def contest(
    title: str, rows: int, contenders: dict[str, Callable[[], Any]], steady: int = 0, rounds: int = ROUNDS
) -> None:
    """Time each in turn; the first is the peer. If there is one round, the stream is too long for a warm-up."""
    with most_memory() as most:
        for work in contenders.values() if rounds > 1 else ():
            work()
        found = [{name: timed(work) for name, work in contenders.items()} for _ in range(rounds)]
    print(f"{title}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; at most {most[0] / 1e6:,.0f} MB")
    tell(rows, [{name: one.whole for name, one in each.items()} for each in found])
    if steady:
        print(f"  the {steady:,} rows after the first micro-batch:")
        tell(steady, [{name: one.steady or one.whole for name, one in each.items()} for each in found])
    for name, one in found[-1].items():
        if one.played:
            print(f"  {name:46}{one.played.nbytes / one.played.keys / 1e3:7.1f} kB of state a key", flush=True)


def tell(rows: int, rounds: list[dict[str, Spent]]) -> None:
    peer = next(iter(rounds[0]))
    for name in rounds[0]:
        clock, processors = (median(one[name][k] for one in rounds) for k in range(2))
        ratios = [median(one[peer][k] / one[name][k] for one in rounds) for k in range(2)]
        beside = "" if name == peer else f"; {ratios[0]:.2f} × the first, {ratios[1]:.2f} × by processor"
        rates = f"{rows / clock:10,.0f} rows/s, {rows / processors:10,.0f} a processor second"
        print(f"  {name:46}{clock:7.2f} s, {processors:7.2f} of processors: {rates}{beside}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--only", choices=["audit", "keyed", "keyed-at-once", "many-keys", "scores"])
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--alone", action="store_true", help="many keys without river and without no model")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(folder, options.master)
        if options.only in (None, "audit"):
            audits(spark, folder, options.rows, options.features)
        if options.only in (None, "keyed"):
            keyed(spark, folder, late=True)
        if options.only in (None, "keyed-at-once"):
            keyed(spark, folder, late=False)
        if options.only in (None, "many-keys"):
            names = (SMALL,) if options.alone else (RIVER, RIVER_GROUPS, SMALL, NONE)
            keyed(spark, folder, False, Shape(options.keys, per_key=3, triggers=2), names, rounds=1)
        if options.only in (None, "scores"):
            scores(spark, folder, options.rows, options.features)
        spark.stop()


if __name__ == "__main__":
    main()
