"""Commands on a service's store: tokens, alarms, export, backup, replay and pruning."""

import json
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from swapcal.archive import put_text
from swapcal.cli import options
from swapcal.cli.options import listed
from swapcal.cli.progress import Run, bar, running, say
from swapcal.service.auth import SCOPES, create_token, revoke_token
from swapcal.service.history import Pruning, all_but, older_than, plan, seconds, withdraw
from swapcal.service.history import older_than as first_since
from swapcal.service.sql import TokenRow
from swapcal.service.store import Occupied, Store, open_store
from swapcal.tables.output import protect, table_writer
from swapcal.tables.values import created_at

if TYPE_CHECKING:
    from swapcal.service.history import Exporter, Mismatch

# Tokens.

token = typer.Typer(no_args_is_help=True, help="Create, list and revoke the tokens of a service.")


@token.command()
@options.prints
def create(
    store: options.Store,
    printing: options.Spoken,
    scope: Annotated[list[str], typer.Option(help=f"Scopes, comma-separated: {', '.join(SCOPES)}.")],
    name: Annotated[str | None, typer.Option(help="Name of the token; default: generated.")] = None,
) -> None:
    """Create a token and print it once: the store keeps only its digest. Creates the store if it does not exist.

    Scopes: forecast issues forecasts, outcome delivers outcomes, read reads everything, admin creates forecasters and
    corrects outcomes. New and revoked tokens take effect in a running service within seconds.
    """
    with running("token create", printing) as run, closing(open_store(store, create=True)) as opened:
        called, secret = create_token(opened, listed(scope), name)
        run.say(f"Token {called}, for {', '.join(listed(scope))}. Keep it: it is not shown again.")
        run.write(json.dumps({"name": called, "scopes": listed(scope), "token": secret}))
        if not printing.prints_json:
            print(secret)


@token.command("list")
@options.prints
def list_(store: options.Store, printing: options.Spoken) -> None:
    """List the tokens by name, with their scopes and the times of creation and revocation."""
    with running("token list", printing) as run, closing(open_store(store)) as opened:
        rows = opened.tokens()
        shown = [
            {"name": row.name, "scopes": listed([row.scopes]), "created": row.created, "revoked": row.revoked}
            for row in rows
        ]
        run.write(json.dumps({"tokens": shown}))
        run.output.print(_table(rows) if rows else "No tokens.")


@token.command()
@options.prints
def revoke(
    name: Annotated[str, typer.Argument(help="Name of the token, as listed.", metavar="NAME")],
    store: options.Store,
    printing: options.Spoken,
) -> None:
    """Revoke a token permanently."""
    with running("token revoke", printing) as run, closing(open_store(store)) as opened:
        revoke_token(opened, name)
        run.write(json.dumps({"name": name, "revoked": True}))
        run.say(f"Token {name} is revoked.")


def _table(rows: list[TokenRow]) -> Table:
    table = Table("name", "scopes", "created", "revoked", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row.name, row.scopes, _minute(row.created), "" if row.revoked is None else _minute(row.revoked))
    return table


def _minute(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


# Replay, and the alarms of all forecasters.

SAME, DIFFERENT = 0, 1
MOST_SHOWN = 5


@options.prints
def replay(store: options.Store, printing: options.Printing, forecaster: options.Forecaster = None) -> None:
    """Recompute every forecast from a service's log, and compare it bit for bit with the issued one.

    Starts at the first event or, if the log was pruned, at the oldest snapshot; later snapshots are compared
    with the recomputed state. The service may be running. Bits agree on the machine that issued the forecasts; another
    processor may round differently.
    Exit code 0: no difference; 1: a difference; 2: could not run.
    """
    with running("replay", printing) as run, closing(open_store(store)) as opened:
        run.kept = "no difference was found until then"
        names = options.chosen(forecaster, opened.forecasters())
        if not names:
            run.say("There are no forecasters in this store.")
        results = [_replayed(opened, name, run) for name in names]
        run.write(json.dumps({"command": "replay", "forecasters": results}))
    raise typer.Exit(DIFFERENT if any(one["differences"] for one in results) else SAME)


def _replayed(store: Store, name: str, run: Run) -> dict[str, Any]:
    """Replay one forecaster, print a summary, and return what was counted."""
    from swapcal.service.history import first_replayed, replay

    began, first, last = time.perf_counter(), first_replayed(store, name), store.last(name)
    mismatches: list[Mismatch] = []
    count = forecasts = snapshots = 0
    with bar(run.console, f"replaying {name}", "events") as shown:
        for progress in replay(store, name):
            forecasts, snapshots = progress.forecasts, progress.snapshots
            count += len(progress.differences)
            mismatches += progress.differences[: MOST_SHOWN - len(mismatches)]
            shown.to(progress.seq - first, (progress.seq - first) / max(last - first, 1))
    seconds = time.perf_counter() - began
    where = f" after the snapshot at event {first:,}" if first else ""
    run.say(
        f"{name}: {last - first:,} events{where}, {forecasts:,} forecasts and {snapshots:,} snapshots recomputed "
        f"in {seconds:.1f} s: {f'{count:,} differ' if count else 'no difference'}.",
        "red" if count else None,
    )
    for each in mismatches:
        run.say(f"  {_text(each)}")
    return {
        "name": name, "first_event": first, "last_event": last, "forecasts": forecasts, "snapshots": snapshots,
        "differences": count, "seconds": seconds,
    }  # fmt: skip


@options.prints
def alarms(
    store: options.Store,
    printing: options.Printing,
    q: Annotated[
        float, typer.Option("--q", min=0.0, max=1.0, help="Largest expected share of sound ones among those listed.")
    ] = 0.1,
    reports: Annotated[
        Path | None,
        typer.Option(help="Write the audit of every forecaster here too, as NAME.html.", file_okay=False, exists=True),
    ] = None,
) -> None:
    """List the forecasters of a service's store that are off, the strongest evidence first.

    By e-BH on the lifetime wealth of each: at most a share q of such a list is sound on average, whenever you look and
    however the forecasters depend on each other. Their states are read from snapshots and later events; the service
    may be running.
    Exit code 0: none is off; 1: at least one is; 2: could not run.
    """
    with running("alarms", printing) as run, closing(open_store(store)) as opened:
        import msgspec

        from swapcal.service.snapshots import recover
        from swapcal.service.status import fleet, standing

        if not 0.0 < q < 1.0:
            raise ValueError(f"--q: given {q:g}, expected a number between 0 and 1")
        names = [*opened.forecasters()]
        standings = []
        with bar(run.console, "reading", "forecasters") as shown:
            for count, name in enumerate(names, 1):
                standings.append(standing(recover(opened, name).hosted))
                shown.to(count, count / len(names))
        result = fleet(standings, q)
        run.write(msgspec.json.encode(result).decode())
        for one in result.forecasters[: result.off]:
            say(run.output, f"{one.name}: {one.sentence}")
        run.say(result.sentence)
        if reports is not None:
            _audit_all(opened, reports, run)
    raise typer.Exit(DIFFERENT if result.off else SAME)


def _audit_all(store: Store, folder: Path, run: Run) -> None:
    """Write the audit of every forecaster's log as a page, and print its verdict."""
    from swapcal.report import render
    from swapcal.service.history import AuditedPeriod, audit
    from swapcal.service.settings import ApiError, from_body

    for name, body in store.forecasters().items():
        try:
            findings = audit(store, from_body(body), AuditedPeriod()).to_findings(created_at=created_at())
        except ApiError:
            run.say(f"{name}: no outcome is known yet")
            continue
        put_text(folder / f"{name}.html", render(findings))
        run.say(f"{name}: {findings.headline.verdict}: {folder / f'{name}.html'}")


def _text(difference: "Mismatch") -> str:
    if difference.issued is None or difference.computed is None:
        return f"event {difference.seq}: the snapshot differs from the recomputed state"
    from swapcal.service.events import LEVELS

    both = difference.issued, difference.computed
    issued, computed = (", ".join(f"{name}={getattr(forecast, name)}" for name in LEVELS) for forecast in both)
    return f"event {difference.seq}, id {difference.id!r}: issued {issued}, computed {computed}"


# Export and backup.


@options.prints
def export(
    store: options.Store,
    printing: options.Printing,
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
    with running("export", printing) as run, closing(open_store(store)) as opened:
        from swapcal.service.history import Exporter

        printing.refuse_two(out)
        written = []
        names = options.chosen(None if forecaster is None else [forecaster], opened.forecasters())
        outs = {name: str(Path(out, f"{name}.parquet")) for name in names} if Path(out).is_dir() else {_one(names): out}
        for name, file in outs.items():
            protect([store if "://" not in store else None], {"--out": file, "--json": printing.json_file})
            first, last = _span(opened, name, since, until)
            rows = _write(run, Exporter(opened, name, first, last), name, file, last)
            written.append({"name": name, "rows": rows, "file": file})
        run.write(json.dumps({"command": "export", "forecasters": written}))


def _write(run: Run, table: "Exporter", name: str, out: str, last: int) -> int:
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
    return rows


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


@options.prints
def backup(
    store: options.Store,
    printing: options.Printing,
    out: Annotated[str, typer.Option("--out", "-o", help="A new file.", metavar="PATH")],
) -> None:
    """Copy the SQLite store of a service while it is running.

    The copy is checked, compacted and on disk when the command ends; to restore it, stop the service and start it with
    the copy. Copying the file by other means misses the write-ahead log. For PostgreSQL use pg_dump.
    """
    with running("backup", printing) as run, closing(open_store(store)) as opened:
        opened.backup(out)
        events = sum(opened.last(name) for name in opened.forecasters())
        count = len(opened.forecasters())
        run.say(f"Wrote {out}: {count:,} forecasters, {events:,} events.")
        run.write(json.dumps({"command": "backup", "file": out, "forecasters": count, "events": events}))


# Pruning.

NOT_CONFIRMED = 1
LOST = (
    "Deleted forecasts can no longer be looked up, exported, audited, corrected or replayed; an id that comes again "
    "counts as new. The learned state does not change."
)


@options.prints
def prune(
    store: options.Store,
    printing: options.Printing,
    forecaster: options.Forecaster = None,
    older_than: Annotated[
        str | None, typer.Option(help="Delete forecasts settled longer ago than this: 36h, 90d, 52w.", metavar="AGE")
    ] = None,
    keep: Annotated[int | None, typer.Option(help="Delete forecasts settled before the last N events.")] = None,
    waiting: Annotated[
        bool,
        typer.Option("--waiting", help="Also give up and delete forecasts without an outcome; stop the service first."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it, only list what would be deleted.")] = False,
) -> None:
    """Delete old events from a service's log, after listing them.

    Only events covered by a snapshot are deleted; the newest two snapshots stay usable. A forecast is deleted with its
    outcome and corrections, once all of them are old; one that waits for its outcome stays. The service may be running,
    but with --waiting.
    Exit code 0: done, or nothing to do; 1: not confirmed; 2: could not run.
    """
    with running("prune", printing) as run, closing(open_store(store)) as opened:
        if (older_than is None) == (keep is None):
            raise ValueError("--older-than, --keep: given both or none, expected one of them")
        plans = [
            plan(opened, name, _boundary(opened, name, older_than, keep), waiting=waiting)
            for name in options.chosen(forecaster, opened.forecasters())
        ]
        for one in plans:
            run.say(_summary(one))
        planned, removed = [one for one in plans if one.loss.events], 0
        if not planned:
            run.say("Nothing to remove.")
            run.write(_as_json(planned, removed))
            return
        run.say(LOST)
        if not yes:
            run.say("Nothing was removed. Use --yes to remove it.")
            run.write(_as_json(planned, removed))
            raise typer.Exit(NOT_CONFIRMED)
        if waiting:
            _withdraw(store, planned, run)
        removed = sum(_pruned(opened, one, waiting, run) for one in planned)
        run.say("Freeing the space…")
        opened.shrink()
        run.say(f"{removed:,} events were removed.")
        run.write(_as_json(planned, removed))


def _as_json(planned: list[Pruning], removed: int) -> str:
    entries = [{"name": one.forecaster, "events": one.loss.events, "forecasts": one.loss.forecasts} for one in planned]
    return json.dumps({"command": "prune", "planned": entries, "removed": removed})


def _withdraw(url: str, planned: list[Pruning], run: Run) -> None:
    """Withdraw the open forecasts that are to be deleted, in the state too; not while a service uses the store."""
    try:
        with closing(open_store(url, learner=True)) as learner:
            count = sum(withdraw(learner, one.forecaster, one.before) for one in planned)
    except Occupied:
        raise ValueError(
            "--waiting: given while a service learns from this store, expected it to be stopped first: the forecasts "
            "would stay open in its memory"
        ) from None
    run.say(f"{count:,} open forecasts were given up: they count as unlabelled.")


def _boundary(store: Store, name: str, older_than: str | None, keep: int | None) -> int:
    if older_than is not None:
        return first_since(store, name, time.time() - seconds(older_than))
    return all_but(store, name, keep or 0)


def _summary(plan: Pruning) -> str:
    loss, name = plan.loss, plan.forecaster
    limit = f" More would need another snapshot after event {plan.before}." if plan.limited else ""
    if loss.oldest is None or loss.newest is None:
        return f"{name}: nothing to remove.{limit}"
    span = f"{_day(loss.oldest)} to {_day(loss.newest)}"
    stays = f" {loss.waiting:,} that wait for an outcome stay." if loss.waiting else ""
    return f"{name}: {loss.events:,} events of {loss.forecasts:,} forecasts, {span}.{stays}{limit}"


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")


def _pruned(store: Store, plan: Pruning, waiting: bool, run: Run) -> int:
    removed = 0
    with bar(run.console, f"pruning {plan.forecaster}", "events") as shown:
        started = time.monotonic()
        for count in store.prune(plan.forecaster, plan.before, waiting=waiting):
            removed += count
            shown.to(removed, removed / plan.loss.events)
            run.kept = f"{removed:,} events of {plan.forecaster} were removed"
            # A pause as long as the step: a service on the same store keeps at least half its speed.
            time.sleep(min(time.monotonic() - started, 1.0))
            started = time.monotonic()
    return removed
