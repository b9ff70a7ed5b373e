"""`swapcal backup`: a copy of a store in use."""

from contextlib import closing
from typing import Annotated

import typer

from swapcal.cli import options
from swapcal.cli.progress import running
from swapcal.service.store import open_store


def backup(
    store: options.Store,
    out: Annotated[str, typer.Option("--out", "-o", help="A new file.", metavar="PATH")],
) -> None:
    """Copy the SQLite store of a service while it is running.

    The copy is checked, compacted and on disk when the command ends; to restore it, stop the service and start it with
    the copy. Copying the file by other means misses the write-ahead log. For PostgreSQL use pg_dump.
    """
    with running("backup") as run, closing(open_store(store)) as opened:
        opened.backup(out)
        events = sum(opened.last(name) for name in opened.forecasters())
        run.say(f"Wrote {out}: {len(opened.forecasters()):,} forecasters, {events:,} events.")
