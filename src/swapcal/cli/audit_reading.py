"""Reading: a file of predictions and outcomes on its way into an audit, in batches that threads prepare."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, NamedTuple

import pyarrow as pa

from swapcal.audit import Audit, Comparison
from swapcal.audit.encoder import Encoder
from swapcal.cli.judged_columns import kinds, with_outcomes
from swapcal.cli.progress import bar
from swapcal.cli.running import Run
from swapcal.features.number import Number
from swapcal.features.scales import Scale, Scales
from swapcal.tables.blocks import in_order
from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import ReadAs
from swapcal.tables.positive import Positive
from swapcal.tables.source import FilePart, Source, open_source
from swapcal.tables.table import Table


class KnownRows(NamedTuple):
    """Rows that have an outcome, and where they were in the file."""

    table: pa.Table
    first: int
    rows: int
    share: float | None


class Reading:
    """A file on its way into an audit; threads prepare its parts, which are added in their order."""

    def __init__(
        self,
        file: str,
        names: dict[str, Any],
        positive: Positive | None,
        jobs: int,
        run: Run,
        categorical: Sequence[str] = (),
    ) -> None:
        self._file, self._names, self._positive, self._jobs, self._run = file, names, positive, jobs, run
        for name in categorical:
            if name not in names["features"]:
                raise InputError(f"--categorical: given {name!r}, expected one of --features")
        self._kinds = kinds(names) | dict.fromkeys(categorical, ReadAs.text)

    def audit(self, source: Source, encoder: Encoder | None, settings: dict[str, Any]) -> Audit | Comparison:
        """Audit the file: in one go if it is small, else encoded by the scales of all of it."""
        parts = self._parts(source)
        ahead = list(islice(parts, 2))
        if encoder is None and self._names["features"] and len(ahead) > 1:
            if self._file != "-":
                encoder = self._learned(chain(ahead, parts))
                with open_source(self._file, source.dialect) as again:
                    return self._added(self._parts(again), encoder, settings)
            self._run.say(
                f"features are scaled by the first {len(ahead[0].table):,} rows: standard input is read only once",
                "yellow",
            )
        return self._added(chain(ahead, parts), encoder, settings)

    def _parts(self, source: Source) -> Iterator[KnownRows]:
        def checked(part: FilePart) -> KnownRows:
            table = with_outcomes(part, self._names, self._positive, source.dialect)
            return KnownRows(table, part.first, len(part.table), part.share)

        return in_order(checked, source.parts(self._kinds, self._jobs), self._jobs)

    def _learned(self, parts: Iterator[KnownRows]) -> Encoder:
        """Return the encoding of the features by all rows."""
        rows, scales = 0, Scales({name: Scale() for name in self._names["features"]})
        with bar(self._run.console, "learning scales") as shown:
            for found, part in in_order(self._scaled, parts, self._jobs):
                with _placed(part):
                    scales.merge(found)
                rows += part.rows
                shown.to(rows, part.share)
        return Encoder.of(scales)

    def _scaled(self, part: KnownRows) -> tuple[Scales, KnownRows]:
        with _placed(part):
            return Scales.of(Table(part.table), self._names["features"]), part

    def _added(
        self, parts: Iterator[KnownRows], encoder: Encoder | None, settings: dict[str, Any]
    ) -> Audit | Comparison:
        begun: list[Audit | Comparison] = []
        rows = used = 0

        def prepared(part: KnownRows) -> tuple[KnownRows, Any]:
            if not begun or not len(part.table):
                return part, part.table
            with _placed(part):
                return part, begun[0].read(_fitting(part.table, begun[0].encoder))

        with bar(self._run.console, "reading") as shown:
            for part in parts:
                rows, used = rows + part.rows, used + len(part.table)
                if len(part.table):
                    with _placed(part):
                        begun.append(_begun(part.table, self._names, settings | {"like": encoder}))
                    break
            for part, batch in in_order(prepared, parts, self._jobs):
                if len(part.table):
                    with _placed(part):
                        begun[0].add(batch)
                rows, used = rows + part.rows, used + len(part.table)
                shown.to(rows, part.share)
        if not begun:
            raise InputError(f"column {self._names['target']!r}: given no outcome in {rows:,} rows, expected some")
        if self._positive is not None:
            self._positive.require()
        self._run.say_unlabelled(rows, used)
        return begun[0]


@contextmanager
def _placed(part: KnownRows) -> Iterator[None]:
    """Say in which rows something went wrong."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(f"rows {part.first} to {part.first + part.rows - 1}: {error}") from None


def _fitting(table: pa.Table, encoder: Encoder) -> pa.Table:
    """Return columns without any value as the type that they have elsewhere."""
    for column in encoder.columns:
        place = table.column_names.index(str(column.name))
        if pa.types.is_null(table.schema.field(place).type):
            kind = pa.float64() if isinstance(column, Number) else pa.string()
            table = table.set_column(place, str(column.name), table[place].cast(kind))
    return table


def _begun(batch: pa.Table, names: dict[str, Any], settings: dict[str, Any]) -> Audit | Comparison:
    """Return the audit of one predictor, or the comparison of two, of the first rows."""
    if len(names["probs"]) == 2:
        return Comparison.from_frame(batch, **{key: names[key] for key in names if key != "issued"}, **settings)
    (prob,) = names["probs"]
    return Audit.from_frame(batch, prob=prob, **{key: names[key] for key in names if key != "probs"}, **settings)
