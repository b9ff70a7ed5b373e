"""The page: values, slopes, dimension, certificates."""

import csv
from pathlib import Path

from rates.plan import BATCH, ONLINE, QUANTITIES
from rates.results import Result, certified, chosen, common_horizon, shown_dim
from rates.tables import all_slopes, dimension_table, markdown, slope_table, value_table


def summary(rows: list[Result], command: str) -> str:
    """Return the measured part of the page, in Markdown."""
    online, batch = chosen(rows, kind=ONLINE), chosen(rows, kind=BATCH)
    total, holding = certified(online)
    count = f"`{command}`; {len(rows):,} runs; certificates hold on {holding:,} of the {total:,} runs that have one."
    parts = [count, *_values(online, ONLINE), *_slopes(online, ONLINE)]
    parts += [f"### Power of d at T = {common_horizon(online):,} (median over streams, smallest … largest)"]
    parts += [markdown(dimension_table(online))]
    if batch:
        parts += [*_values(batch, BATCH), *_slopes(batch, BATCH)]
    return "\n\n".join(parts) + "\n"


def write_slopes(rows: list[Result], path: Path) -> None:
    """Write every fitted slope as CSV."""
    found = [all_slopes(part, kind) for kind in (ONLINE, BATCH) if (part := chosen(rows, kind=kind))]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([found[0][0], *(row for table in found for row in table[1:])])


def _values(rows: list[Result], kind: str) -> list[str]:
    longest, dim = common_horizon(rows), shown_dim(rows)
    parts = [f"### {'Errors' if kind == ONLINE else 'Errors per row after fitting'} at T = {longest:,}, d = {dim}"]
    for quantity in QUANTITIES[kind]:
        parts += [f"**{quantity}**", markdown(value_table(rows, quantity, longest, dim))]
    return parts


def _slopes(rows: list[Result], kind: str) -> list[str]:
    dim = shown_dim(rows)
    return [f"### Slopes against T at d = {dim}", markdown(slope_table(rows, kind, dim))]
