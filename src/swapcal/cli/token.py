"""`swapcal token`: access tokens of a service."""

from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from swapcal.cli import options
from swapcal.cli.options import listed
from swapcal.cli.progress import Output, running
from swapcal.service.auth import SCOPES, create_token, revoke_token
from swapcal.service.sql import TokenRow
from swapcal.service.store import open_store

token = typer.Typer(no_args_is_help=True, help="Create, list and revoke the tokens of a service.")


@token.command()
def create(
    store: options.Store,
    scope: Annotated[list[str], typer.Option(help=f"Scopes, comma-separated: {', '.join(SCOPES)}.")],
    name: Annotated[str | None, typer.Option(help="Name of the token; default: generated.")] = None,
) -> None:
    """Create a token and print it once: the store keeps only its digest. Creates the store if it does not exist.

    Scopes: forecast issues forecasts, outcome delivers outcomes, read reads everything, admin creates forecasters and
    corrects outcomes. New and revoked tokens take effect in a running service within seconds.
    """
    with running("token create") as run, closing(open_store(store, create=True)) as opened:
        called, secret = create_token(opened, listed(scope), name)
        run.say(f"Token {called}, for {', '.join(listed(scope))}. Keep it: it is not shown again.")
        print(secret)


@token.command("list")
def list_(store: options.Store) -> None:
    """List the tokens by name, with their scopes and the times of creation and revocation."""
    with running("token list"), closing(open_store(store)) as opened:
        rows = opened.tokens()
        Output().print(_table(rows) if rows else "No tokens.")


@token.command()
def revoke(
    name: Annotated[str, typer.Argument(help="Name of the token, as listed.", metavar="NAME")], store: options.Store
) -> None:
    """Revoke a token permanently."""
    with running("token revoke") as run, closing(open_store(store)) as opened:
        revoke_token(opened, name)
        run.say(f"Token {name} is revoked.")


def _table(rows: list[TokenRow]) -> Table:
    table = Table("name", "scopes", "created", "revoked", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row.name, row.scopes, _day(row.created), "" if row.revoked is None else _day(row.revoked))
    return table


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
