"""Regenerate the measured part of docs/rates.md and its figures.

    python experiments/rates.py [--results rates] [--jobs 2] [--as-is]

Runs what is missing of `swapcal rates --full` in the results folder (an hour or two the first time, seconds after
that), then writes docs/figures/rates-*.svg, docs/figures/rates-slopes.csv and the text between the marks in
docs/rates.md. With --as-is nothing is run and the page shows what there is.
"""

import argparse
from pathlib import Path

from rich.console import Console

from swapcal.cli.rates import measured
from swapcal.rates import drawing, page, plan, store

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARKS = ("<!-- measured: begin -->", "<!-- measured: end -->")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("rates"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--as-is", action="store_true")
    given = parser.parse_args()
    given.results.mkdir(parents=True, exist_ok=True)
    cache = given.results / "results.parquet"
    if given.as_is:
        rows = store.belonging(store.read(cache), plan.full())
    else:
        rows = measured(plan.full(), cache, given.jobs, Console(stderr=True))
    drawing.write_figures(rows, DOCS / "figures")
    page.write_slopes(rows, DOCS / "figures" / "rates-slopes.csv")
    target = DOCS / "rates.md"
    target.write_text(between_marks(target.read_text(encoding="utf-8"), page.summary(rows, "swapcal rates --full")))


def between_marks(text: str, measured_part: str) -> str:
    before, _, rest = text.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    return f"{before}{MARKS[0]}\n\n{measured_part}\n{MARKS[1]}{after}"


if __name__ == "__main__":
    main()
