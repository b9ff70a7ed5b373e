"""`swapcal demo`: the engine against a drifting world and against an adversary, with its certificate."""

import time
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from swapcal.datasets.playing import play
from swapcal.datasets.synthetic import Stream
from swapcal.forecaster import Forecaster


def demo(
    rows: Annotated[int, typer.Option(help="Rounds per stream.", min=1000)] = 500_000,
    dim: Annotated[int, typer.Option(help="Coordinates of a context.", min=2)] = 5,
    seed: Annotated[int, typer.Option(help="Seed of streams and draws.", min=0)] = 0,
) -> None:
    """Play a drifting source and an adversary that sees each forecast before it chooses the outcome."""
    console = Console()
    table = Table(
        "stream", "rows/s", "levels", "ℓ2 multicalibration", "bound", "theorem", title="Pseudo errors, summed"
    )
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[speed]}"), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        for kind in ("drifting", "adaptive"):
            forecaster, start = Forecaster(dim, seed=seed), time.perf_counter()
            task = progress.add_task(f"{kind:10}", total=rows, speed="")
            for part in play(forecaster, Stream(kind, dim, rows, seed=seed)):
                speed = forecaster.rounds / (time.perf_counter() - start)
                progress.update(task, advance=len(part.y), speed=f"{speed:,.0f} rows/s")
            found = forecaster.certificate()
            table.add_row(
                kind, f"{speed:,.0f}", str(found.levels), f"{found.psmcal_2:.3g}", f"{found.bound:.3g}",
                f"{found.theorem or float('nan'):.3g}",
            )  # fmt: skip
    console.print(table)
    console.print("Each error is at most its bound, and each bound at most its theorem, for any outcomes whatever.")
