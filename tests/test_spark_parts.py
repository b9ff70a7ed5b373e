"""What the Spark adapter does on one worker, without a cluster."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")

import pandas as pd
import pyarrow as pa

from swapcal import Live
from swapcal.adapters.spark.events import MATURES, TIME, Roles
from swapcal.adapters.spark.faults import PROBABILITY, Faults
from swapcal.adapters.spark.keyed import Keyed
from swapcal.adapters.spark.monitoring import CLOCK, _order
from swapcal.audit.encode import Encoder
from swapcal.features.number import Number
from swapcal.features.scales import Scales
from swapcal.tables.table import Table
from tests.systems import spark_events


def test_scales_of_parts_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    n = 999
    columns = {
        "date": 1.7e9 + rng.integers(0, 10**6, n),
        "huge": rng.choice([1e300, 3e300], n),
        "same": np.full(n, 0.1),
        "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
        "empty": np.full(n, np.nan),
        "text": pa.array(rng.choice([f"c{k}" for k in range(50)] + [None], n).tolist()),
        "truth": rng.random(n) < 0.5,
    }
    table = pa.table(columns)
    names = list(columns)
    cuts = [0, 1, 17, 500, n]
    parts = [Scales.of(Table(table.slice(a, b - a)), names) for a, b in pairwise(cuts)]
    found, whole = Encoder.of(sum(parts[1:], parts[0])), Encoder.learn(Table(table), names)
    for one, other in zip(found.columns, whole.columns, strict=True):
        if isinstance(one, Number) and isinstance(other, Number):
            assert (one.name, one.missing) == (other.name, other.missing)
            assert (one.centre, one.spread) == pytest.approx((other.centre, other.spread), rel=1e-12)
        else:
            assert one == other


def test_faults_of_parts_add_up() -> None:
    faults = [Faults(), Faults()]
    faults[0].look(Table({"p": [0.5, np.nan]}), {"p": PROBABILITY})
    faults[1].look(Table({"p": [1.5, -2.0, 1.0]}), {"p": PROBABILITY})
    with pytest.raises(ValueError, match=r"^column 'p': given -2 in 3 of 5 rows, expected a number in \[0, 1\]$"):
        (faults[0] + faults[1]).raise_any()


@pytest.mark.parametrize("batches", [1, 3, 40])
def test_a_keyed_stream_is_one_live_whatever_its_batches(batches: int) -> None:
    rows = spark_events.events(150)
    given = rows[rows["shop"] == "a"].copy()
    given[TIME], given[MATURES] = (given[name].map(pd.Timestamp.timestamp) for name in ("at", "known"))
    given["id"] = given["id"].astype(str)
    roles = Roles("id", "y", ("price", "colour"), matures=True, numbered=True)
    keyed = Keyed(Live(**spark_events.SETTINGS), -np.inf, roles)
    parts = [given.iloc[part] for part in np.array_split(np.arange(len(given)), batches)]
    answers = pd.concat([keyed.play(part.sample(frac=1.0, random_state=0)) for part in parts])
    issued = answers[answers["event"] == "forecast"]
    expected = spark_events.expected(rows[rows["shop"] == "a"])
    assert dict(zip(issued["id"], zip(issued["p"], issued["mean"], strict=True), strict=True)) == expected
    assert set(answers["event"]) == {"forecast", "learned"}


@pytest.mark.parametrize("batches", [2, 40])
def test_rows_with_their_outcomes_are_one_run_whatever_their_batches(batches: int) -> None:
    rng = np.random.default_rng(0)
    n = 120
    columns = {"price": rng.normal(size=n), "colour": rng.choice(["red", "blue"], n), "y": rng.integers(0, 2, n) * 1.0}
    rows = pd.DataFrame({"id": np.arange(n).astype(str), TIME: np.arange(float(n)), **columns})
    roles = Roles("id", "y", ("price", "colour"), matures=False, numbered=True)
    keyed = Keyed(Live(), -np.inf, roles)
    parts = [rows.iloc[part] for part in np.array_split(np.arange(n), batches)]
    answers = pd.concat([keyed.play(part) for part in parts])
    expected = Live().run(rows[["price", "colour"]], rows["y"], ids=[*range(n)], time=rows[TIME])
    assert answers["id"].tolist() == [*range(n)]
    np.testing.assert_array_equal(answers["p"], expected.p)
    np.testing.assert_array_equal(answers["mean"], expected.mean)
    np.testing.assert_array_equal(answers["y"], rows["y"])


def test_a_late_record_counts_as_of_now() -> None:
    keyed = Keyed(Live(), -np.inf, Roles("id", "y", ("price",), matures=False, numbered=False))
    first = keyed.play(pd.DataFrame({"id": ["b"], TIME: [5.0], "price": [1.0], "y": [np.nan]}))
    late = keyed.play(pd.DataFrame({"id": ["a"], TIME: [3.0], "price": [1.0], "y": [np.nan]}))
    assert [*first["event"], *late["event"]] == ["forecast", "forecast"]
    assert (late["time"].tolist(), keyed.clock) == ([3.0], 5.0)


def test_rows_of_one_time_are_ordered_by_the_seed_alone() -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"p": np.full(400, 0.5), "y": np.arange(400.0) % 2, CLOCK: np.sort(rng.integers(0, 4, 400))})
    shuffled = table.take(rng.permutation(400))
    one, other = (rows.take(_order(Table(rows), "p", "y", 0)) for rows in (table, shuffled))
    assert one.equals(other)
    y = one["y"].to_numpy()
    assert abs(np.corrcoef(y[1:], y[:-1])[0, 1]) < 0.15, "outcomes took part in the order"
