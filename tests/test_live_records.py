"""One record in any of the shapes people hold it in: the forecast is that of the mapping."""

import datetime as dt

import numpy as np
import pytest

from swapcal import Live

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

RECORDS = [
    {"shop": "a", "price": 3.0, "units": 2, "new": True},
    {"shop": "b", "price": 4.5, "units": 7, "new": False},
    {"shop": None, "price": None, "units": 1, "new": True},
]
SHAPES = {
    "pandas row": lambda k: pd.DataFrame(RECORDS).iloc[k],
    "pandas frame": lambda k: pd.DataFrame(RECORDS).iloc[[k]],
    "polars frame": lambda k: pl.DataFrame(RECORDS)[k],
    "lazy frame": lambda k: pl.DataFrame(RECORDS)[k].lazy(),
    "arrow table": lambda k: pa.Table.from_pylist(RECORDS).slice(k, 1),
}


@pytest.fixture
def live():
    made = Live(groups=["shop"])
    rng = np.random.default_rng(0)
    rows = [RECORDS[k] for k in rng.integers(0, 3, 300)]
    made.run(rows, [float(row["shop"] == "a") for row in rows])
    return made


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("row", range(3))
def test_a_row_of_a_frame_is_forecast_as_its_mapping(live, shape, row):
    given = SHAPES[shape](row)
    live.check(given, id="other")
    expected = live.preview([RECORDS[row]])
    issued = live.forecast(given, id="next")
    assert issued.mean == expected.mean[0]
    assert live.forecast(given, id="next") == issued
    assert live.label("next", 1)


def test_a_row_with_a_date_and_numpy_values_is_read(live):
    row = pd.Series({"shop": "a", "price": np.float32(2.5), "units": np.int64(3), "day": pd.Timestamp("2024-05-01")})
    same = {"shop": "a", "price": 2.5, "units": 3, "day": dt.datetime(2024, 5, 1)}
    assert live.preview([same]).mean[0] == live.forecast(row, id="next").mean


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("library", ["pandas", "arrow in pandas", "polars", "arrow"])
def test_times_in_a_zone_are_read_in_every_library(library, unit):
    moments = pd.DatetimeIndex(["2024-03-31T01:30", "2024-03-31T03:30", None, "2024-10-27T12:00"], tz="Europe/Rome")
    frame = pd.DataFrame({"when": moments.as_unit(unit)})
    table = pa.Table.from_pandas(frame)
    shaped = {
        "pandas": frame,
        "arrow in pandas": table.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": pl.from_arrow(table),
        "arrow": table,
    }[library]
    contexts, expected = Live().contexts, Live().contexts
    mappings = [{"when": None if moment is pd.NaT else moment.to_pydatetime()} for moment in moments]
    assert contexts.encode(shaped).x.tobytes() == expected.encode(mappings).x.tobytes()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (pd.DataFrame(RECORDS), ValueError, "record: given a frame of 3 rows, expected one row; see `forecast_many`"),
        (pl.DataFrame(RECORDS)[:0], ValueError, "record: given a frame of 0 rows, expected one row"),
        (pd.Series([1, 2], index=["a", "a"]), ValueError, "column 'a': given twice, expected each name once"),
        (pl.Series([1, 2]), TypeError, "record: given Series, expected a mapping"),
        (np.ones(3), TypeError, "record: given ndarray, expected a mapping"),
        ("text", TypeError, "record: given str, expected a mapping"),
    ],
)
def test_what_is_no_single_row_is_refused_and_nothing_changes(live, given, error, message):
    before = live.status()
    for ask in (live.forecast, live.check):
        with pytest.raises(error, match=message):
            ask(given, id="next")
    assert live.status() == before
    assert not live.knows("next")


def test_a_preview_of_one_record_gives_numbers_as_a_forecast_does() -> None:
    live = Live()
    live.run([{"v": float(k % 3)} for k in range(50)], [k % 3 == 0 for k in range(50)])
    many, one = live.preview([{"v": 1.0}]), live.preview({"v": 1.0})
    assert (one.p, one.mean, one.low, one.high, one.weight) == tuple(
        float(getattr(many, name)[0]) for name in ("p", "mean", "low", "high", "weight")
    )
    assert type(one.mean) is float
    assert one.explain().mean == one.mean
    assert Live().preview({"v": 1.0}).mean == 0.5
