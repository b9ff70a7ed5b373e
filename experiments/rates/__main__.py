"""Measure the rates of the theorems on streams, adversaries included.

    PYTHONPATH=experiments python -m rates --small --out build/rates     # two minutes
    PYTHONPATH=experiments python -m rates --full --docs                 # docs/rates.md; an hour or two the first time

Results are cached in the folder of ``--out``: interrupt at will, run again, and only what is missing is run.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rates import drawing, page, plan, store
from rates.plan import Task
from rates.results import Result, certified
from swapcal.archive import put_text
from swapcal.cli.progress import bar, running
from swapcal.tables.output import protect

DOCS = Path(__file__).resolve().parents[2] / "docs"
MARKS = ("<!-- measured: begin -->", "<!-- measured: end -->")


def rates(
    full: Annotated[
        bool, typer.Option("--full/--small", help="The plan behind docs/rates.md, or two minutes.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for results.parquet, figures, slopes.csv and rates.md.")] = Path(
        "rates"
    ),
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    docs: Annotated[bool, typer.Option("--docs", help="Write docs/rates.md and its figures too.")] = False,
) -> None:
    """Measure how errors grow with the rows, for every method and stream, beside what the theorems promise.

    Exit code 0 on success, 1 if a certificate failed to hold.
    """
    with running("rates") as run:
        protect([], {"--out": out / "results.parquet"} if out.is_dir() else {})
        out.mkdir(parents=True, exist_ok=True)
        run.kept = f"the results so far are in {out / 'results.parquet'}; run it again to go on"
        tasks = plan.full() if full else plan.small()
        rows = measured(tasks, out / "results.parquet", jobs, run.console)
        command = f"make rates PLAN={'--full' if full else '--small'}"
        names = drawing.write_figures(rows, out / "figures")
        page.write_slopes(rows, out / "slopes.csv")
        put_text(out / "rates.md", page.summary(rows, command))
        if docs:
            write_docs(rows, command)
        total, holding = certified(rows)
        run.say(f"{len(rows):,} runs, certificates hold on {holding:,} of {total:,}")
        run.say(f"{out / 'rates.md'}, {len(names)} figures in {out / 'figures'}")
    if holding < total:
        raise typer.Exit(1)


def write_docs(rows: list[Result], command: str) -> None:
    """Write the figures and the part of docs/rates.md between its marks."""
    drawing.write_figures(rows, DOCS / "figures")
    page.write_slopes(rows, DOCS / "figures" / "rates-slopes.csv")
    target = DOCS / "rates.md"
    before, _, rest = target.read_text(encoding="utf-8").partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    target.write_text(f"{before}{MARKS[0]}\n\n{page.summary(rows, command)}\n{MARKS[1]}{after}", encoding="utf-8")


def measured(tasks: list[Task], path: Path, jobs: int, console: Console) -> list[Result]:
    """Return the results of the tasks, running those that are not in the cache at `path` yet, with progress."""
    todo = store.missing(tasks, store.read(path))
    total = max(sum(task.cost for task in todo), 1e-9)
    with bar(console, f"{len(todo)} runs", unit="runs") as shown:
        done, cost = 0, 0.0

        def step(task: Task) -> None:
            nonlocal done, cost
            done, cost = done + 1, cost + task.cost
            shown.to(done, cost / total)

        return store.belonging(store.complete(tasks, path, jobs, step), tasks)


if __name__ == "__main__":
    typer.run(rates)
