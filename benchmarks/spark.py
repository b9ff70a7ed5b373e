"""Spark: the audit against Spark's own SQL, keyed forecasts against river's models, scores against MCGrad's.

Run as ``python benchmarks/spark.py [--rows 200000]``: one session, files in a temporary folder, every contest in the
same operator of the same session; each contender runs once to warm up, then they take turns, three times, and medians
are told, beside the load of the machine. Spark SQL computes per level Σ1, Σp, Σy, g = Σ(y − p)x and the
upper triangles of G = Σxxᵀ and H = Σp(1 − p)xxᵀ: the sums the audit keeps, of features as they are. The audit also
standardises the features, which is a pass of its own, fingerprints the rows, keeps its sample and the fine histogram.
"""

import argparse
import os
import pickle
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as papq
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor

from swapcal import SwapClassifier
from swapcal.adapters.spark import audit, forecast, score
from swapcal.adapters.spark.forecasting import ROCKSDB, STORE

KEYS, PER_KEY, TRIGGERS, FEATURES, ROUNDS = 4, 12_500, 2, 8, 3


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


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


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
    """A standardised logistic regression of river for each key, pickled between micro-batches."""

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("model", "content binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        from river import linear_model, preprocessing

        kept = self._state.get()
        fresh = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        model = pickle.loads(bytes(kept[0])) if kept else fresh
        batch = pd.concat(list(rows), ignore_index=True).sort_values(["at", "id"])
        names = [f"x{j}" for j in range(FEATURES)]
        p = []
        for record, y in zip(batch[names].to_dict("records"), batch["y"].tolist(), strict=True):
            p.append(model.predict_proba_one(record).get(True, 0.5))
            model.learn_one(record, bool(y))
        self._state.update((pickle.dumps(model),))
        yield pd.DataFrame({"key": key[0], "id": batch["id"], "p": p})

    def close(self) -> None:
        pass


def keyed(spark: Any, folder: Path) -> None:
    rows = KEYS * PER_KEY * TRIGGERS
    data = table(rows, FEATURES).drop_columns(["p"])
    more = {"key": np.arange(rows) % KEYS, "id": np.arange(rows), "at": np.arange(float(rows))}
    for name, values in more.items():
        data = data.append_column(name, pa.array(values))
    (folder / "events").mkdir()
    part = rows // TRIGGERS
    for number in range(TRIGGERS):
        papq.write_table(data.slice(number * part, part), folder / "events" / f"{number}.parquet")
    schema = spark.read.parquet(str(folder / "events")).schema

    def run(answers: Callable[[Any], Any]) -> None:
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "events"))
        with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
            writing = answers(stream).writeStream.format("noop").option("checkpointLocation", checkpoint)
            writing.trigger(availableNow=True).start().awaitTermination()

    def river(stream: Any) -> Any:
        schema = "key bigint, id bigint, p double"
        return stream.groupBy("key").transformWithStateInPandas(RiverModels(), schema, "append", "none")

    contest(
        f"keyed forecasts: {rows:,} rows of {FEATURES} features, {KEYS} keys, {TRIGGERS} micro-batches",
        rows,
        {
            "river StandardScaler | LogisticRegression": lambda: run(river),
            "swapcal, one Live for each key": lambda: run(
                lambda stream: forecast(stream, key="key", id="id", target="y", time="at")
            ),
        },
    )


def scores(spark: Any, folder: Path, rows: int, features: int) -> None:
    path = str(folder / "scored.parquet")
    data = table(rows, features)
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
    shared = df.sparkSession.sparkContext.broadcast(model)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            p = shared.value.predict(batch.to_pandas(), "p", numerical_feature_column_names=names)
            yield pa.RecordBatch.from_pydict({"q": p})

    return lambda: df.mapInArrow(run, "q double").write.format("noop").mode("overwrite").save()


def contest(title: str, rows: int, contenders: dict[str, Callable[[], Any]]) -> None:
    """Time each in turn; the first is the peer."""
    for work in contenders.values():
        work()
    rounds = [{name: timed(work) for name, work in contenders.items()} for _ in range(ROUNDS)]
    print(f"{title}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    peer = next(iter(contenders))
    for name in contenders:
        spent = median(one[name] for one in rounds)
        ratio = median(one[peer] / one[name] for one in rounds)
        beside = "" if name == peer else f"  {ratio:6.2f} × the speed of {peer}"
        print(f"  {name:44}{spent:8.2f} s {rows / spent:12,.0f} rows/s{beside}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--only", choices=["audit", "keyed", "scores"])
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(folder, options.master)
        if options.only in (None, "audit"):
            audits(spark, folder, options.rows, options.features)
        if options.only in (None, "keyed"):
            keyed(spark, folder)
        if options.only in (None, "scores"):
            scores(spark, folder, options.rows, options.features)
        spark.stop()


if __name__ == "__main__":
    main()
