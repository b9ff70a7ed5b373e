"""Parts: a file is answered part by part, so that it may be larger than memory."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from swapcal.cli.progress import bar
from swapcal.cli.running import Run
from swapcal.tables.blocks import in_order
from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import ReadAs
from swapcal.tables.output import table_writer
from swapcal.tables.source import FilePart, Source


def beside(kept: Mapping[str, Any], made: Mapping[str, Any]) -> pa.Table:
    """Return columns of the file and columns of the answer as one table; no name may be in both."""
    for name in kept:
        if name in made:
            raise InputError(
                f"--keep: given {name!r}, expected none of the columns that are written: {', '.join(made)}"
            )
    return pa.table({**kept, **made})


def answer_parts(
    source: Source,
    kinds: Mapping[str, ReadAs],
    out: str,
    doing: str,
    run: Run,
    answer: Callable[[FilePart], pa.Table],
    jobs: int = 1,
) -> int:
    """Write the answer to each part of the file; return the number of rows.

    With several jobs, threads answer several parts at once; they are written in order all the same.
    """
    rows = 0
    with bar(run.console, doing) as shown, table_writer(out) as write:
        for part, answered in in_order(lambda part: (part, answer(part)), source.parts(kinds, jobs), jobs):
            write(answered)
            rows += len(part.table)
            shown.to(rows, part.share)
            run.kept = f"{rows:,} rows were written" if out == "-" else f"{out} was not written"
    return rows
