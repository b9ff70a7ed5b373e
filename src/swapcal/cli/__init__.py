"""Probability forecasts that stay calibrated for every subgroup and every decision."""

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import swapcal

COMMANDS = ("demo", "decide", "forecast", "audit", "monitor", "fit", "predict", "rates", "cite")


def main() -> None:
    """Run the command line; without the `cli` extra, say what to install."""
    if sys.argv[1:] == ["--version"]:
        print(f"swapcal {swapcal.__version__}")
        return
    try:
        import typer
    except ModuleNotFoundError:
        raise SystemExit('the command line needs an extra: pip install "swapcal[cli]"') from None
    app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
    app.callback()(_about)
    for name in _wanted(sys.argv):
        app.command(name)(_command(name))
    try:
        app()
    except SystemExit as stop:
        _leave(stop.code)


def _leave(code: Any) -> None:
    """Exit at once: a CSV reader abandoned half-way can abort or hang the interpreter's orderly shutdown."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _wanted(arguments: list[str]) -> tuple[str, ...]:
    """Return only the command that was named, if one was: the others' imports would cost a second."""
    named = tuple(name for name in arguments[1:2] if name in COMMANDS)
    return named or COMMANDS


def _command(name: str) -> Any:
    return getattr(import_module(f"swapcal.cli.{name}"), name)


def _about() -> None:
    """Probability forecasts that stay calibrated for every subgroup and every decision."""
