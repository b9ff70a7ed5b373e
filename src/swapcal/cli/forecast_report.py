"""The report of `swapcal forecast`: the issued forecasts audited as they are made, whatever their number."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from swapcal.archive import put_text
from swapcal.arrays import Flags
from swapcal.cli.stream_table import Roles, StreamTable
from swapcal.live import Live, Trace
from swapcal.report import render
from swapcal.tables.dialect import InputError

GROUPS_SHOWN = 40  # a column with more categories is no natural grouping


class ForecastReport:
    """An audit of the issued forecasts over every coordinate and group; coordinates may appear as the stream goes.

    Groups are those declared, or else the categorical columns that have few categories in the rows first read.
    """

    def __init__(self, path: Path, live: Live, roles: Roles, file: str) -> None:
        self._path, self._live, self._roles, self._file = path, live, roles, file
        self._groups: list[str] | None = None
        self._audit: Any = None

    def add(self, stream: StreamTable, trace: Trace, first: StreamTable) -> None:
        """Add forecasts of some rows, which were read together with those of `first`."""
        from swapcal.audit import Audit  # half the time of importing this command, and only reports need it

        if self._groups is None:
            few = (name for name in self._live.contexts.categorical if self._is_grouping(first.features[name]))
            self._groups = list(self._roles.groups or few)
        known = ~np.isnan(stream.y)
        if not known.any():
            return
        made = trace.forecast
        columns = {
            "p": made.p[known], "y": stream.y[known], "X": trace.x[known], "low": made.low[known],
            "high": made.high[known], "weight": made.weight[known], "time": self._times(stream, known),
            "groups": {name: _labels(stream.features[name], known) for name in self._groups} or None,
        }  # fmt: skip
        names = self._live.names[: trace.x.shape[1]]
        if self._audit is None:
            title = f"Forecasts of {self._roles.target} in {Path(self._file).name}"
            self._audit = Audit(**columns, names=names, title=title)
        else:
            self._audit.widen(names)
            self._audit.add(**columns)

    def write(self) -> None:
        """Render the findings."""
        if self._audit is None:
            raise InputError(f"{self._path}: given {self._file} without labels, expected some to report on")
        put_text(self._path, render(self._audit.to_dict(certificate=self._live.certificate().as_dict())))

    def _is_grouping(self, column: Any) -> bool:
        return len(pc.unique(column)) <= GROUPS_SHOWN

    def _times(self, stream: StreamTable, known: Flags) -> Any:
        """Return the times as they were given: numbers as numbers, dates as dates rather than seconds since 1970."""
        if stream.time is None or self._roles.time is None:
            return None
        times, given = stream.time[known], stream.shown[self._roles.time].type
        numbers = pa.types.is_integer(given) or pa.types.is_floating(given)
        return times if numbers else np.round(times * 1e6).astype("datetime64[us]")


def _labels(column: Any, known: Flags) -> Any:
    return column.filter(pa.array(known)).cast(pa.string()).to_pylist()
