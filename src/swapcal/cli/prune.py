"""`swapcal prune`: delete old events of a log."""

import time
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer

from swapcal.cli import options
from swapcal.cli.progress import Run, bar, running
from swapcal.service.retention import Pruning, all_but, plan, seconds, withdraw
from swapcal.service.retention import older_than as first_since
from swapcal.service.store import Occupied, Store, open_store

NOT_CONFIRMED = 1
LOST = (
    "Deleted forecasts can no longer be looked up, exported, audited, corrected or replayed; an id that comes again "
    "counts as new. The learned state does not change."
)


def prune(
    store: options.Store,
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
    with running("prune") as run, closing(open_store(store)) as opened:
        if (older_than is None) == (keep is None):
            raise ValueError("--older-than, --keep: given both or none, expected one of them")
        plans = [
            plan(opened, name, _boundary(opened, name, older_than, keep), waiting=waiting)
            for name in options.chosen(forecaster, opened.forecasters())
        ]
        for one in plans:
            run.say(_summary(one))
        planned = [one for one in plans if one.loss.events]
        if not planned:
            run.say("Nothing to remove.")
            return
        run.say(LOST)
        if not yes:
            run.say("Nothing was removed. Use --yes to remove it.")
            raise typer.Exit(NOT_CONFIRMED)
        if waiting:
            _withdraw(store, planned, run)
        removed = sum(_pruned(opened, one, waiting, run) for one in planned)
        run.say("Freeing the space…")
        opened.shrink()
        run.say(f"{removed:,} events were removed.")


def _withdraw(url: str, planned: list[Pruning], run: Run) -> None:
    """Give up the open forecasts that are to be deleted, in the state too; not beside a service, which has its own."""
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
