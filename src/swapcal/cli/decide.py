"""`swapcal decide`: a column of probabilities in, actions for every loss out."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.table import Table

from swapcal.arrays import Array
from swapcal.cli import options
from swapcal.cli.options import listed
from swapcal.cli.progress import Run, running
from swapcal.cli.rows import answer_pieces, beside
from swapcal.losses import LossError
from swapcal.losses import decide as decide_rows
from swapcal.losses.loss import Specification, read_toml, specify
from swapcal.tables.delimited import Piece
from swapcal.tables.formats import Source
from swapcal.tables.outcomes import Positive, ReadAs, checked_outcomes, floats, probabilities
from swapcal.tables.output import protect
from swapcal.tables.sources import InputError


@options.reads_text
def decide(
    file: options.File,
    text: options.Text,
    printing: options.Printing,
    prob: options.Prob,
    loss: Annotated[
        list[str] | None, typer.Option(help="Such as pinball:0.9 or newsvendor:under=3,over=@cost; repeatable.")
    ] = None,
    loss_file: Annotated[Path | None, typer.Option(help=r"TOML file with \[\[loss]] tables.")] = None,
    target: Annotated[str | None, typer.Option(help="Column of outcomes; adds realised costs to the summary.")] = None,
    keep: options.Keep = None,
    out: options.Rows = "-",
    positive: options.Positive = None,
    label: Annotated[str | None, typer.Option(hidden=True)] = None,
    output: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Choose the action of least expected cost for each row, from its probability and the costs of errors (losses).

    For each loss the output has its action and expected cost; a summary goes to standard error. @NAME in a loss is
    the row's value of that column. Rows in messages count from 1, without the header. Exit code 0 on success, 2 on bad
    input.
    """
    with running("decide", printing) as run, text.open(file) as source:
        target, out = target or label, output or out
        protect([file, loss_file], {"--out": out, "--json": printing.json_file}, tables=["--out"])
        printing.refuse_two(out)
        specifications = [specify(text) for text in loss or []]
        specifications += read_toml(loss_file) if loss_file else []
        if not specifications:
            raise LossError.of("--loss", "none", "one such as --loss pinball:0.9 or --loss-file costs.toml")
        if positive is not None and target is None:
            raise InputError("--positive: given without --target, expected both")
        positive_value = options.positive_in(target, positive, source)
        columns = DecisionColumns(
            prob, target, tuple(listed(keep, source.columns)), positive_value, source.dialect.decimal
        )
        totals = _run(source, out, columns, _distinct(specifications), run)
        costs = _costs(specifications, totals)
        run.write(json.dumps({"command": "decide", "rows": totals.rows, "with_outcome": totals.known, "losses": costs}))
        if not printing.prints_json:
            run.console.print(_summary(costs, totals))
        run.say_unmatched(positive_value)
        if out != "-":
            run.say(f"actions: {out}")


@dataclass(frozen=True)
class DecisionColumns:
    """Which columns of the file play which role."""

    prob: str
    target: str | None
    keep: tuple[str, ...]
    positive: Positive | None = None
    decimal: str = "."

    def kinds(self, specifications: list[Specification]) -> dict[str, ReadAs]:
        """Return the type of each column."""
        referred = [name for specification in specifications for name in specification.columns]
        raw = dict.fromkeys([*self.keep, *([self.target] if self.target else [])], ReadAs.raw)
        return {**raw, **dict.fromkeys([*referred, self.prob], ReadAs.number)}


@dataclass
class Totals:
    """Sums over the rows so far, per loss; realised costs over those with an outcome."""

    expected: Array
    realised: Array
    rows: int = 0
    known: int = 0


def _run(source: Source, out: str, columns: DecisionColumns, specifications: list[Specification], run: Run) -> Totals:
    totals = Totals(np.zeros(len(specifications)), np.zeros(len(specifications)))

    def answer(piece: Piece) -> pa.Table:
        try:
            return _decide_piece(piece, columns, specifications, totals)
        except LossError as error:
            raise error.after(piece.first - 1) from None

    totals.rows = answer_pieces(source, columns.kinds(specifications), out, "deciding", run, answer)
    return totals


def _decide_piece(
    piece: Piece, columns: DecisionColumns, specifications: list[Specification], totals: Totals
) -> pa.Table:
    table = piece.table
    p = probabilities(table[columns.prob], columns.prob, piece.first)
    y = _outcomes(piece, columns)
    known = ~np.isnan(y)
    totals.known += int(known.sum())
    kept, made = {name: table[name] for name in dict.fromkeys((*columns.keep, columns.prob))}, {}
    for index, specification in enumerate(specifications):
        rule = specification.build({name: floats(table[name]) for name in specification.columns})
        decision = decide_rows(p, rule)
        actions = decision.label if decision.label is not None else decision.action
        made[f"action[{specification.name}]"] = pa.array(actions)
        made[f"expected_cost[{specification.name}]"] = pa.array(decision.expected_cost)
        totals.expected[index] += decision.expected_cost.sum()
        totals.realised[index] += rule(decision.action, np.where(known, y, 0.0))[known].sum()
    return beside(kept, made)


def _outcomes(piece: Piece, columns: DecisionColumns) -> Array:
    if columns.target is None:
        return np.full(len(piece.table), np.nan)
    column = piece.table[columns.target]
    return checked_outcomes(column, columns.target, piece.first, columns.positive, columns.decimal)


def _costs(specifications: list[Specification], totals: Totals) -> list[dict[str, Any]]:
    """Return the mean costs of each loss, realised ones if there are outcomes."""
    costs: list[dict[str, Any]] = []
    for index, specification in enumerate(specifications):
        realised = float(totals.realised[index]) / totals.known + 0.0 if totals.known else None
        expected = float(totals.expected[index]) / totals.rows + 0.0
        costs.append({"loss": specification.name, "mean_expected_cost": expected, "mean_realised_cost": realised})
    return costs


def _summary(costs: list[dict[str, Any]], totals: Totals) -> Table:
    labelled = "" if totals.known in (0, totals.rows) else f", {totals.known:,} with an outcome"
    table = Table(title=f"{totals.rows:,} rows{labelled}")
    for heading in ("loss", "mean expected cost", *(["mean realised cost"] if totals.known else [])):
        table.add_column(heading, justify="left" if heading == "loss" else "right")
    for name, *means in (one.values() for one in costs):
        table.add_row(name, *(f"{mean:.6g}" for mean in means if mean is not None))
    return table


def _distinct(specifications: list[Specification]) -> list[Specification]:
    names = [specification.name for specification in specifications]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise LossError.of("--loss", f"{twice!r} twice", "each loss with a name of its own")
    return specifications
