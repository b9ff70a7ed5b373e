"""`swapcal export` and `swapcal backup`: a service's log as a table, and a copy of its store."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swapcal.cli import options
from swapcal.cli.progress import Run, bar, running
from swapcal.service.retention import older_than
from swapcal.service.store import Store, open_store
from swapcal.tables.output import protect, table_writer

if TYPE_CHECKING:
    from swapcal.service.history import Exporter


def export(
    store: options.Store,
    out: options.Rows = "-",
    forecaster: Annotated[
        str | None, typer.Option(help="Name of the forecaster; required if several, unless --out is a folder.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only forecasts accepted at this time or later: 2026-05-01, 2026-05-01T12:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only forecasts accepted before this time.")] = None,
) -> None:
    """Write every forecast of a service's log with its outcome as a table, for audits.

    One row per forecast: id, time, p, mean, low, high, weight, outcome, corrected, y (the corrected outcome, empty if
    unknown), and the record's own columns; a column with one of these names becomes record.name. The service
    may be running. Then: swapcal audit FILE --prob mean --target y. If --out is a folder, every forecaster gets a
    Parquet file there.
    """
    with running("export") as run, closing(open_store(store)) as opened:
        from swapcal.service.history import Exporter

        names = options.chosen(None if forecaster is None else [forecaster], opened.forecasters())
        outs = {name: str(Path(out, f"{name}.parquet")) for name in names} if Path(out).is_dir() else {_one(names): out}
        for name, file in outs.items():
            protect([store if "://" not in store else None], {"--out": file})
            first, last = _span(opened, name, since, until)
            _write(run, Exporter(opened, name, first, last), name, file, last)


def _write(run: Run, table: "Exporter", name: str, out: str, last: int) -> None:
    rows = 0
    with bar(run.console, f"reading {name}", "events") as shown:
        for seq in table.survey():
            shown.to(seq, seq / max(last, 1))
    with bar(run.console, f"writing {name}", "events") as shown, table_writer(out) as write:
        for seq, part in table.tables():
            write(part)
            rows += len(part)
            shown.to(seq, seq / max(last, 1))
            run.kept = f"{rows:,} rows were written" if out == "-" else f"{out} was not written"
    if out != "-":
        run.say(f"Wrote {rows:,} forecasts of {name} to {out}.")


def _one(names: list[str]) -> str:
    if len(names) != 1:
        given = ", ".join(names) or "none"
        raise ValueError(f"--forecaster: given a store with {given}, expected the name of one of them")
    return names[0]


def _span(store: Store, name: str, since: str | None, until: str | None) -> tuple[int, int]:
    """Return the numbers of the first and the last event that count."""
    first = 1 if since is None else older_than(store, name, _moment("--since", since))
    last = store.last(name) if until is None else older_than(store, name, _moment("--until", until)) - 1
    return first, last


def _moment(option: str, text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{option}: given {text!r}, expected a date or time such as 2026-05-01T12:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def backup(
    store: options.Store,
    out: Annotated[str, typer.Option("--out", "-o", help="A new file.", metavar="PATH")],
) -> None:
    """Copy the SQLite store of a service while it is running.

    The copy is checked, compacted and on disk when the command ends; to restore it, stop the service and start it with
    the copy. Copying the file by other means misses the write-ahead log. For PostgreSQL use pg_dump.
    """
    with running("backup") as run, closing(open_store(store)) as opened:
        opened.backup(out)
        events = sum(opened.last(name) for name in opened.forecasters())
        run.say(f"Wrote {out}: {len(opened.forecasters()):,} forecasters, {events:,} events.")
