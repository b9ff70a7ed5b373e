"""The command line as Markdown, from the help that typer prints."""

from collections.abc import Iterator
from typing import Any

import typer

from swapcal import cli


def markdown() -> str:
    """Return a section for each command."""
    group = typer.main.get_command(cli._app())
    inside = typer.Context(group, info_name="swapcal")
    return "\n\n".join(part for name in cli.COMMANDS for part in _command(name, group.commands[name], inside))


def _command(name: str, command: Any, parent: typer.Context, depth: int = 2) -> Iterator[str]:
    context = typer.Context(command, info_name=name, parent=parent)
    yield f"{'#' * depth} {context.command_path}"
    yield _plain(command.help)
    inner = getattr(command, "commands", None)
    if inner is not None:
        for each in inner:
            yield from _command(each, inner[each], context, depth + 1)
        return
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```"
    for record in filter(None, (option.get_help_record(context) for option in command.params)):
        yield f"`{record[0]}`\n: {_plain(record[1]) or '–'}"


def _plain(text: str) -> str:
    """Keep Markdown from reading more than backticks into words for a terminal."""
    text = text.replace("\\[", "[")  # rich's escape
    for sign in "<*_[":
        text = text.replace(sign, f"\\{sign}")
    parts = text.split("`")
    return "`".join(part.replace("\\", "") if k % 2 else part for k, part in enumerate(parts))
