"""`swapcal serve`: live forecasts over HTTP, with a durable log in a file or a database."""

import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from swapcal.cli import options
from swapcal.cli.compile import PARTS, compiling
from swapcal.cli.progress import Run, running
from swapcal.service.dashboard.pages import dashboard
from swapcal.service.queue import Make
from swapcal.service.server import Server
from swapcal.service.settings import ApiError, JsonLog, Limits, Settings, from_table
from swapcal.service.store import open_store
from swapcal.service.tracing import tracing_to
from swapcal.service.webhook import Webhook, check_url
from swapcal.service.worker import Worker

WAIT = 600.0
"""Seconds to wait until the forecasters of the file are created: the log may have to be replayed first."""


@options.prints
def serve(
    store: options.Store,
    configuration: options.Configuration,
    host: Annotated[
        str, typer.Option(help="Address to listen on; tokens are required unless it is loopback.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 selects a free one.", min=0, max=65535)] = 8000,
    forecasters: Annotated[
        Path | None, typer.Option(help="TOML file with forecasters to create, and optional limits.")
    ] = None,
    tokens: Annotated[
        bool | None,
        typer.Option("--tokens/--no-tokens", help="Require tokens on loopback too, for instance behind a proxy."),
    ] = None,
    snapshot_events: Annotated[int, typer.Option(help="Take a snapshot after this many events.", min=1)] = 20_000,
    snapshot_seconds: Annotated[
        float, typer.Option(help="Take a snapshot after this many seconds with new events.", min=0.1)
    ] = 300.0,
    limit: Annotated[
        list[str] | None, typer.Option(help="name=value; body, rows, columns, open, queue, …; repeatable.")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(help="http(s) address that receives JSON when an alarm appears or ends.")
    ] = None,
    log: Annotated[str, typer.Option(help="JSON lines on standard error: all, notable or none.")] = "notable",
    traces: Annotated[
        str | None,
        typer.Option(help="Make OpenTelemetry spans of requests: otlp sends them (OTEL_… variables), console prints."),
    ] = None,
) -> None:
    """Serve forecasts over HTTP, and learn outcomes at any time.

    A 2xx is sent after the event is on disk; the store is created if it does not exist. The first start on a machine
    compiles (see `swapcal compile`). The service is ready when /readyz answers 200; all endpoints are in /openapi.json.
    The first line on standard output is the address. On SIGTERM or Ctrl-C current requests
    are finished and snapshots taken; exit code 0. Exit code 2: could not start.
    """
    with running("serve") as run:
        run.kept = "everything that was acknowledged is in the store"
        made, limits = _configured(forecasters, limit or [])
        if webhook is not None:
            check_url(webhook)
        tell, tracing = JsonLog(log), None if traces is None else tracing_to(traces)
        with compiling(Console(stderr=True, quiet=not run.console.is_terminal), tuple(PARTS)):
            pass  # otherwise the first requests would get 503
        worker = Worker(
            open_store(store, learner=True, create=True),
            limits=limits,
            every=snapshot_events,
            seconds=snapshot_seconds,
            log=tell,
        )
        try:
            server = Server(worker, host, port, tokens=tokens, log=tell, pages=dashboard(), tracing=tracing)
        except BaseException:
            worker.store.close()
            raise
        print(f"swapcal serves {store_name(store)} on {server.url}", flush=True)
        with tracing or nullcontext(), nullcontext() if webhook is None else Webhook(worker, webhook, tell).at_work():
            server.serve_until_stopped(lambda: _make(worker, made, run))


def _make(worker: Worker, made: list[Settings], run: Run) -> None:
    """Create the forecasters of the file. Raises ValueError if one exists with other settings."""
    for settings in made:
        try:
            worker.call(lambda promise, own=settings: Make(promise, own), WAIT)  # type: ignore[misc]
        except ApiError as refusal:
            raise ValueError(refusal.detail) from None


def store_name(url: str) -> str:
    """Return a store's address without secrets.

    Examples
    --------
    >>> store_name("postgresql://me:secret@host/db"), store_name("forecasts.db")
    ('a PostgreSQL database', 'forecasts.db')
    """
    return "a PostgreSQL database" if "://" in url else url


def _configured(path: Path | None, limit: list[str]) -> tuple[list[Settings], Limits]:
    content: dict[str, Any] = {}
    if path is not None:
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: given invalid TOML ({error}), expected TOML") from None
        if extra := content.keys() - {"forecaster", "limits"}:
            raise ValueError(f"{path}: given {', '.join(sorted(extra))}, expected [[forecaster]] and [limits]")
    tables = content.get("forecaster", [])
    if not isinstance(tables, list):
        raise ValueError(f"{path}: given [forecaster], expected [[forecaster]]")
    made = [from_table(table, f"{path}, forecaster {number}") for number, table in enumerate(tables, 1)]
    return made, _limits({**content.get("limits", {}), **dict(_pair(one) for one in limit)})


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--limit: given {text!r}, expected name=value")
    return name.strip(), value.strip()


def _limits(given: dict[str, Any]) -> Limits:
    try:
        return msgspec.convert(given, Limits, strict=False)
    except msgspec.ValidationError as error:
        known, words = ", ".join(Limits.__struct_fields__), str(error).replace("`", "")
        raise ValueError(f"limits: given {given} ({words}), expected positive numbers for some of {known}") from None
