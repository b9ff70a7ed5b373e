"""The `swapcal` command: one file per sub-command, registered here."""

from importlib import import_module

COMMANDS = ("demo", "decide", "forecast", "audit")


def main() -> None:
    """Run the command line; without the `cli` extra, say what to install."""
    try:
        import typer
    except ModuleNotFoundError:
        raise SystemExit('the command line needs an extra: pip install "swapcal[cli]"') from None
    app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
    for name in COMMANDS:
        app.command(name)(getattr(import_module(f"swapcal.cli.{name}"), name))
    app()
