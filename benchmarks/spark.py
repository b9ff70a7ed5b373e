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

Spark SQL computes per level Σ1, Σp, Σy, g = Σ(y − p)x and the
upper triangles of G = Σxxᵀ and H = Σp(1 − p)xxᵀ: the sums the audit keeps, of features as they are. The audit also
standardises the features, which is a pass of its own, fingerprints the rows, keeps its sample and the fine histogram.
"""

import argparse
import os
import pickle
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as papq
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor

from swapcal import SwapClassifier
from swapcal.adapters.spark import audit, forecast, score
from swapcal.adapters.spark.forecasting import ROCKSDB, STORE, Kept
from swapcal.adapters.spark.keyed import TIME, EventRoles

KEYS, PER_KEY, TRIGGERS, ROUNDS = 40, 500, 4, 3
NUMBERS, CATEGORIES = [f"x{j}" for j in range(9)], {"c0": 3, "c1": 7, "c2": 12, "c3": 30}
LATE = (500, 1000)
ANSWER = "key bigint, id bigint, p double"
TICKS = os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """Seconds of the clock, and of the processors."""

    clock: float
    processors: float

    def since(self, start: "Spent") -> "Spent":
        return Spent(self.clock - start.clock, self.processors - start.processors)


def now() -> Spent:
    """Return the clock, and what this process and all below it have used so far."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:  # it ended while we looked
            continue
        if fields:
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS  # its own, and of children that ended
    own = {os.getpid()}
    while below := {child for child, parent in parents.items() if parent in own and child not in own}:
        own |= below
    return Spent(time.perf_counter(), sum(used.get(process, 0.0) for process in own))


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
        STORE: ROCKSDB,
    }
    builder = SparkSession.builder.master(master).appName("swapcal benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Timed(NamedTuple):
    """What a contender spent on all rows, and on those after its first micro-batch."""

    whole: Spent
    steady: Spent | None = None


def timed(work: Callable[[], Any]) -> Timed:
    start = now()
    first = work()
    end = now()
    return Timed(end.since(start), end.since(first) if isinstance(first, Spent) else None)


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


def events(late: bool) -> pd.DataFrame:
    """Return rows of a keyed stream in order of time, whose unit is one record of every key."""
    rng, n = np.random.default_rng(0), KEYS * PER_KEY * TRIGGERS
    records = pd.DataFrame(rng.standard_normal((n, len(NUMBERS))), columns=NUMBERS)
    for name, size in CATEGORIES.items():
        records[name] = np.array([f"{name} {k}" for k in range(size)], object)[rng.integers(0, size, n)]
    chance = 1.0 / (1.0 + np.exp(0.5 - records["x0"] - 0.5 * records["x1"] - (records["c0"] == "c0 1")))
    number = np.arange(n)
    records = records.assign(key=number % KEYS, id=number, at=(number // KEYS).astype(float))
    y = (rng.random(n) < chance).astype(float)
    if not late:
        return records.assign(y=y)
    outcomes = records[["key", "id", "at"]].assign(y=y)
    outcomes["at"] += rng.integers(*LATE, n) + 0.5
    return pd.concat([records, outcomes]).sort_values("at", kind="stable")


def keyed(spark: Any, folder: Path, late: bool) -> None:
    rows = events(late)
    rows = rows[rows["at"] < TRIGGERS * PER_KEY]
    folder = folder / ("late" if late else "at once")
    (folder / "events").mkdir(parents=True)
    for number, part in rows.groupby((rows["at"] // PER_KEY).astype(int)):
        path = folder / "events" / f"{number}.parquet"
        papq.write_table(pa.Table.from_pandas(part, preserve_index=False), path)
        os.utime(path, (1e9 + number, 1e9 + number))  # files are read in this order
    schema = spark.read.parquet(str(folder / "events")).schema

    def run(answers: Callable[[Any], Any]) -> Spent:
        """Answer the stream; return the moment after the first micro-batch."""
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "events"))
        with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
            writing = answers(stream).writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writing.trigger(availableNow=True).start()
            while query.isActive and query.lastProgress is None:
                time.sleep(0.02)
            first = now()
            query.awaitTermination()
        return first

    def river(stream: Any) -> Any:
        return stream.groupBy("key").transformWithStateInPandas(RiverModels(), ANSWER, "append", "none")

    def nothing(stream: Any) -> Any:
        return stream.groupBy("key").transformWithStateInPandas(NoModel(), ANSWER, "append", "none")

    def swapcal(stream: Any, size: str) -> Any:
        return forecast(stream, key="key", id="id", target="y", time="at", beside=KEYS, size=size)

    contest(
        f"keyed forecasts: {len(rows):,} rows of 13 columns, outcomes {'late' if late else 'at once'}, {KEYS} keys",
        len(rows),
        {
            "river, scaled and one-hot LogisticRegression": lambda: run(river),
            "swapcal, keys in the workers' memory": lambda: run(lambda stream: swapcal(stream, "full")),
            "swapcal, small, keys in the workers' memory": lambda: run(lambda stream: swapcal(stream, "small")),
            "no model, a kilobyte of state": lambda: run(nothing),
        },
        steady=int(np.sum(rows["at"] >= PER_KEY)),
    )


class Store:
    """Stands in for Spark's state store: a value, or a list of them, for each key."""

    def __init__(self) -> None:
        self.key = 0
        self.values: dict[tuple[str, int], list[Any]] = {}

    def getValueState(self, name: str, schema: str) -> Any:
        return Held(self, name)

    def getListState(self, name: str, schema: str) -> Any:
        return Held(self, name)

    @property
    def nbytes(self) -> int:
        """Bytes of all contents."""
        values = (value for values in self.values.values() for value in values)
        return sum(len(part) for value in values for part in value if isinstance(part, bytes))


class Held(NamedTuple):
    """One kind of state of the store's present key."""

    store: Store
    name: str

    def get(self) -> Any:
        found = self.store.values.get((self.name, self.store.key), [])
        return iter(found) if self.name == "since" else found[0] if found else None

    def update(self, value: Any) -> None:
        self.store.values[self.name, self.store.key] = [value]

    def appendValue(self, value: Any) -> None:
        self.store.values.setdefault((self.name, self.store.key), []).append(value)

    def clear(self) -> None:
        self.store.values.pop((self.name, self.store.key), None)


def many_keys(keys: int, rows: int) -> None:
    """Tell what a worker spends on very many keys of a few rows each, Spark left out."""
    store, roles = Store(), EventRoles("id", "y", (*NUMBERS, *CATEGORIES), matures=False, numbered=True)
    kept, spent = Kept(store, roles, {"size": "small"}, True, 32), 0.0
    for batch in range(2):
        for store.key in range(keys):
            rng = np.random.default_rng([store.key, batch])
            columns: dict[str, list[Any]] = {name: rng.standard_normal(rows).tolist() for name in NUMBERS}
            columns |= {name: [f"{name} {k}" for k in rng.integers(0, n, rows)] for name, n in CATEGORIES.items()}
            columns |= {"id": [f"{batch}{k}" for k in range(rows)], TIME: [float(batch)] * rows}
            columns["y"] = rng.integers(0, 2, rows).astype(float).tolist()
            start = time.process_time()
            kept.play(columns)
            spent += time.process_time() - start
        done, memory = (batch + 1) * keys, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(f"{keys:,} keys, {done:,} batches of {rows} rows: {1e3 * spent / done:.1f} ms of processor each")
        print(
            f"  {store.nbytes / keys / 1e3:.1f} kB of state a key, at most {memory:,.0f} MB, store included", flush=True
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


def contest(title: str, rows: int, contenders: dict[str, Callable[[], Any]], steady: int = 0) -> None:
    """Time each in turn; the first is the peer."""
    for work in contenders.values():
        work()
    rounds = [{name: timed(work) for name, work in contenders.items()} for _ in range(ROUNDS)]
    print(f"{title}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    tell(rows, [{name: one.whole for name, one in each.items()} for each in rounds])
    if steady:
        print(f"  the {steady:,} rows after the first micro-batch:")
        tell(steady, [{name: one.steady or one.whole for name, one in each.items()} for each in rounds])


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
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    if options.only in (None, "many-keys"):
        many_keys(options.keys, rows=3)
    if options.only == "many-keys":
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(folder, options.master)
        if options.only in (None, "audit"):
            audits(spark, folder, options.rows, options.features)
        if options.only in (None, "keyed"):
            keyed(spark, folder, late=True)
        if options.only in (None, "keyed-at-once"):
            keyed(spark, folder, late=False)
        if options.only in (None, "scores"):
            scores(spark, folder, options.rows, options.features)
        spark.stop()


if __name__ == "__main__":
    main()
