"""`swapcal replay` and `swapcal alarms`: recompute every forecast and compare; which forecasters are off."""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from swapcal.cli import options
from swapcal.cli.progress import Run, bar, running
from swapcal.service.store import Store, open_store

if TYPE_CHECKING:
    from swapcal.service.replay import Mismatch

SAME, DIFFERENT = 0, 1
MOST_SHOWN = 5


def replay(store: options.Store, forecaster: options.Forecaster = None) -> None:
    """Recompute every forecast from a service's log, and compare it bit for bit with the issued one.

    Starts at the first event or, if the log was pruned, at the oldest snapshot; later snapshots are compared
    with the recomputed state. The service may be running. Bits agree on the machine that issued the forecasts; another
    processor may round differently.
    Exit code 0: no difference; 1: a difference; 2: could not run.
    """
    with running("replay") as run, closing(open_store(store)) as opened:
        run.kept = "no difference was found until then"
        names = options.chosen(forecaster, opened.forecasters())
        if not names:
            run.say("There are no forecasters in this store.")
        different = [_replayed(opened, name, run) for name in names]
    raise typer.Exit(DIFFERENT if any(different) else SAME)


def _replayed(store: Store, name: str, run: Run) -> int:
    """Replay one forecaster, print a summary, and return the number of differences."""
    from swapcal.service.replay import first_replayed, replay

    began, first, last = time.perf_counter(), first_replayed(store, name), store.last(name)
    found: list[Mismatch] = []
    count = forecasts = snapshots = 0
    with bar(run.console, f"replaying {name}", "events") as shown:
        for progress in replay(store, name):
            forecasts, snapshots = progress.forecasts, progress.snapshots
            count += len(progress.differences)
            found += progress.differences[: MOST_SHOWN - len(found)]
            shown.to(progress.seq - first, (progress.seq - first) / max(last - first, 1))
    seconds = time.perf_counter() - began
    where = f" after the snapshot at event {first:,}" if first else ""
    run.say(
        f"{name}: {last - first:,} events{where}, {forecasts:,} forecasts and {snapshots:,} snapshots recomputed "
        f"in {seconds:.1f} s: {f'{count:,} differ' if count else 'no difference'}.",
        "red" if count else None,
    )
    for each in found:
        run.say(f"  {_text(each)}")
    return count


def alarms(
    store: options.Store,
    q: Annotated[
        float, typer.Option("--q", min=0.0, max=1.0, help="Largest expected share of sound ones among those listed.")
    ] = 0.1,
    json: Annotated[bool, typer.Option("--json", help="Print all forecasters as JSON instead.")] = False,
) -> None:
    """List the forecasters of a service's store that are off, the strongest evidence first.

    By e-BH on the lifetime wealth of each: at most a share q of such a list is sound on average, whenever you look and
    however the forecasters depend on each other. Their states are read from snapshots and later events; the service
    may be running.
    Exit code 0: none is off; 1: at least one is; 2: could not run.
    """
    with running("alarms") as run, closing(open_store(store)) as opened:
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
        found = fleet(standings, q)
        if json:
            print(msgspec.json.encode(found).decode())
        else:
            for one in found.forecasters[: found.off]:
                print(f"{one.name}: {one.sentence}")
        run.say(found.sentence)
    raise typer.Exit(DIFFERENT if found.off else SAME)


def _text(difference: "Mismatch") -> str:
    if difference.issued is None or difference.computed is None:
        return f"event {difference.seq}: the snapshot differs from the recomputed state"
    issued, computed = difference.issued, difference.computed
    return f"event {difference.seq}, id {difference.id!r}: issued {issued}, computed {computed}"
