"""The command line in this process, as tests use it; needs typer."""

from collections.abc import Callable
from typing import Any

import typer
from typer.testing import CliRunner

from swapcal.cli.options import Command


def runner(*commands: Callable[..., Any]) -> Callable[..., Any]:
    """Return what runs a command, told by its name where there are several; a fault of ours is raised."""
    app = typer.Typer(pretty_exceptions_enable=False)
    for command in commands:
        app.command(command.__name__, cls=Command)(command)

    def run(*arguments: Any, stdin: Any = None, **environment: str) -> Any:
        given = [str(argument) for argument in arguments]
        return CliRunner().invoke(app, given, input=stdin, env=environment, catch_exceptions=False)

    return run


def said(result: Any) -> str:
    """Return what a command said to people, on one line."""
    return " ".join(result.stderr.split())
