"""A stream of records and late outcomes in files, and what one `Live` per key says of it without Spark.

Run as ``python -m tests.systems.spark_events folder master``, it forecasts the stream in a session that may be killed.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from swapcal import Live

ROLES = {"key": "shop", "id": "id", "target": "y", "time": "at", "matures": "known"}
SETTINGS: dict[str, Any] = {"groups": ["colour"], "seed": 3}
SCHEMA = "shop string, id long, at timestamp, known timestamp, price double, colour string, y double"


def events(rows: int = 400) -> pd.DataFrame:
    """Rows in order of time: records; for most of them, outcomes half an hour later; some with both at once."""
    rng = np.random.default_rng(1)
    records = pd.DataFrame(
        {
            "shop": rng.choice(["a", "b"], rows),
            "id": np.arange(rows),
            "at": pd.to_datetime(1.7e9 + 60.0 * np.arange(rows), unit="s", utc=True).astype("datetime64[us, UTC]"),
            "price": rng.normal(size=rows).round(3),
            "colour": rng.choice(["red", "blue", None], rows),
        }
    )
    records["known"] = records["at"] + pd.Timedelta(minutes=20)
    outcomes = (rng.random(rows) < 0.2 + 0.5 * (records["colour"] == "red")).astype(float)
    at_once = rng.random(rows) < 0.2
    late = records.assign(
        at=records["at"] + pd.to_timedelta(rng.integers(5, 40, rows), unit="min"), price=np.nan, colour=None, y=outcomes
    )
    records["y"] = np.where(at_once, outcomes, np.nan)
    late = late[~at_once & (rng.random(rows) < 0.9)]
    return pd.concat([records, late]).sort_values("at", kind="stable", ignore_index=True)


def write(folder: Path, rows: pd.DataFrame, files: int) -> None:
    """Write the rows into files, whose order is that of their times."""
    folder.mkdir(parents=True)
    for number, part in enumerate(np.array_split(np.arange(len(rows)), files)):
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.Table.from_pandas(rows.iloc[part], preserve_index=False), path)
        os.utime(path, (1e9 + number, 1e9 + number))


def expected(rows: pd.DataFrame) -> dict[int, tuple[float, float]]:
    """Forecast row by row, without Spark: the level and the mean of every id."""
    found: dict[int, tuple[float, float]] = {}
    for shop in ("a", "b"):
        live = Live(**SETTINGS)
        own = rows[rows["shop"] == shop].assign(late=lambda own: own["y"].notna())
        for row in own.sort_values(["at", "late", "id"], kind="stable").to_dict("records"):
            if row["id"] not in found:
                record = {"price": row["price"], "colour": row["colour"]}
                issued = live.forecast(record, row["id"], row["at"].timestamp(), row["known"].timestamp())
                found[row["id"]] = float(issued.p), float(issued.mean)
            if row["y"] == row["y"]:
                live.label(row["id"], row["y"], row["at"].timestamp())
    return found


def answers(spark: Any, folder: Path, **options: Any) -> Any:
    """Start the query that answers the files in `folder`/in with files in `folder`/out."""
    from swapcal.adapters.spark import forecast

    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    answered = forecast(stream, **ROLES, **SETTINGS, **options)
    writing = answered.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writing.trigger(availableNow=True).start(str(folder / "out"))


def check(answered: Any, rows: Any) -> None:
    """Compare what a stream answered with what one `Live` per key says."""
    told = answered.to_pylist()
    assert {row["event"] for row in told} == {"forecast", "learned"}, answered["note"]
    forecasts = [row for row in told if row["event"] == "forecast"]
    issued = {row["id"]: (row["p"], row["mean"]) for row in forecasts}
    assert len(issued) == len(forecasts), "a forecast was answered twice"
    assert issued == expected(rows)
    learned = [row["id"] for row in told if row["y"] is not None]
    assert len(set(learned)) == len(learned), "an outcome was learned twice"


def main() -> None:
    from tests.systems.spark_session import start

    folder = Path(sys.argv[1])
    spark = start(folder, master=sys.argv[2])
    answers(spark, folder).awaitTermination()
    pq.write_table(spark.read.parquet(str(folder / "out")).toArrow(), folder / "answers.parquet")
    spark.stop()


if __name__ == "__main__":
    main()
