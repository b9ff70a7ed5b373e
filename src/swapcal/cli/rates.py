"""`swapcal rates`: measure the rates of the theorems on streams, adversaries included."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from swapcal.cli.rating import drawing, page, plan, store
from swapcal.cli.rating.plan import Task
from swapcal.cli.rating.rows import Row, certified


def rates(
    full: Annotated[
        bool, typer.Option("--full/--small", help="The plan behind docs/rates.md, or two minutes.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for results.parquet, figures, slopes.csv and rates.md.")] = Path(
        "rates"
    ),
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
) -> None:
    """Run every system against every stream, fit log-log slopes and set them beside the theorems.

    Results are cached: interrupt at will, run again, and only what is missing is run. Exit code 0 on success, 1 if a
    certificate failed to hold.
    """
    console = Console(stderr=True)
    out.mkdir(parents=True, exist_ok=True)
    tasks = plan.full() if full else plan.small()
    rows = measured(tasks, out / "results.parquet", jobs, console)
    names = drawing.write_figures(rows, out / "figures")
    page.write_slopes(rows, out / "slopes.csv")
    command = f"swapcal rates {'--full' if full else '--small'}"
    (out / "rates.md").write_text(page.summary(rows, command), encoding="utf-8")
    total, holding = certified(rows)
    console.print(f"{len(rows):,} runs, certificates hold on {holding:,} of {total:,}", highlight=False)
    console.print(f"{out / 'rates.md'}, {len(names)} figures in {out / 'figures'}", highlight=False)
    if holding < total:
        raise typer.Exit(1)


def measured(tasks: list[Task], path: Path, jobs: int, console: Console) -> list[Row]:
    """Return the results of the tasks, running those that are not in the cache at `path` yet, with progress."""
    todo = store.missing(tasks, store.read(path))
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(f"0 of {len(todo)} runs", total=sum(task.cost for task in todo))
        done = 0

        def step(task: Task) -> None:
            nonlocal done
            done += 1
            progress.update(bar, advance=task.cost, description=f"{done} of {len(todo)} runs")

        return store.belonging(store.complete(tasks, path, jobs, step), tasks)
