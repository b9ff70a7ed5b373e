"""`swapcal label`: a saved state learns the outcomes of earlier forecasts, by id."""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from swapcal.cli import options
from swapcal.cli.follow import holding
from swapcal.cli.forecast import say_labels
from swapcal.cli.forecasting import load_live, save_live
from swapcal.cli.options import OnBadRow
from swapcal.cli.progress import Run, running
from swapcal.live import ConflictingLabelError, ExpiredIdError, Live, UnknownIdError
from swapcal.live.validation import Id
from swapcal.tables.delimited import Piece
from swapcal.tables.outcomes import Positive, ReadAs, checked_outcomes, floats, outcomes
from swapcal.tables.output import protect
from swapcal.tables.sources import InputError


class NamelessError(InputError):
    """A row without an id."""


REASONS = {
    ExpiredIdError: "whose forecast has expired",
    UnknownIdError: "of no forecast",
    ConflictingLabelError: "labelled otherwise before",
    NamelessError: "without an id",
}
NO_OUTCOME = "with something else than an outcome"
WHOLE = re.compile(r"-?\d{1,76}")  # numbers of this length fit into an id


@options.reads_text
def label(
    state: Annotated[
        Path, typer.Argument(help="State saved by `swapcal forecast --state` or `Live.save`.", metavar="STATE")
    ],
    file: options.File,
    text: options.DatedText,
    printing: options.Printing,
    target: options.Target,
    id: Annotated[str, typer.Option(help="Column with the ids of the forecasts.")],
    time: Annotated[str | None, typer.Option(help="Column with the time at which each outcome became known.")] = None,
    weight: Annotated[
        str | None,
        typer.Option(
            help="Column of weights: one over the known probability with which an outcome was obtained, where only "
            "a part was chosen."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Then learn as silence what was not reported in a window that ended before this time."),
    ] = None,
    on_bad_row: options.BadRow = OnBadRow.stop,
    positive: options.Positive = None,
) -> None:
    """Learn outcomes of earlier forecasts, by id, at any later time; the state file is replaced when all are learned.

    Rows without an outcome stay open. Repeated outcomes are ignored, so the same file may be given again. Windows and
    the meaning of silence are those of the state (`swapcal forecast --matures --silence`): an outcome that comes later
    and differs from silence is a correction, which is counted and not learned.
    Exit code 0 on success, 2 on bad input, with the state unchanged.
    """
    with running("label", printing) as run, text.open(file) as source:
        protect([state, file], {"--json": printing.json_file})
        if not state.exists():
            raise InputError(f"{state}: given no such state, expected one made by `swapcal forecast --state`")
        with holding(state, "its labels"):
            live, counts = load_live(state), Counter[str]()
            positive_value = options.positive_in(target, positive, source)
            wanted = dict.fromkeys([id, target], ReadAs.raw) | ({time: ReadAs.time} if time else {})
            for piece in source.pieces(wanted | ({weight: ReadAs.number} if weight else {})):
                y = _outcomes(piece, target, positive_value, source.dialect.decimal, on_bad_row)
                times = piece.table[time].to_pylist() if time else [None] * len(y)
                weights = floats(piece.table[weight]).tolist() if weight else [None] * len(y)
                _learn(live, piece, piece.table[id].to_pylist(), y, times, weights, on_bad_row, counts)
            if until is not None:
                live.settle(_moment(until))
            save_live(live, state)
        status = live.status()
        run.write(json.dumps({"command": "label", "rows": dict(counts), "learned": status.labels, "open": status.open}))
        _say(run, counts)
        say_labels(run, status)
        run.say_unmatched(positive_value)
        run.say(f"state: {state}")


def _moment(text: str) -> float | str:
    """Return a time as the forecasts have theirs: a number, or a date as text."""
    try:
        return float(text)
    except ValueError:
        return text


def _outcomes(piece: Piece, target: str, positive: Positive | None, decimal: str, on_bad_row: OnBadRow) -> list[float]:
    """Return outcomes, NaN if missing; other values raise InputError, or become infinite if bad rows are skipped."""
    column = piece.table[target]
    if on_bad_row is OnBadRow.stop:
        y = checked_outcomes(column, target, piece.first, positive, decimal)
    else:
        y, wrong = outcomes(column, positive, decimal)
        y = np.where(wrong, np.inf, y)
    listed: list[float] = y.tolist()
    return listed


def _learn(
    live: Live,
    piece: Piece,
    ids: list[Any],
    y: list[float],
    times: list[Any],
    weights: list[Any],
    on_bad_row: OnBadRow,
    counts: Counter[str],
) -> None:
    for row, (given, value, when, weight) in enumerate(zip(ids, y, times, weights, strict=True), piece.first):
        if not math.isfinite(value):
            counts["without an outcome" if math.isnan(value) else NO_OUTCOME] += 1
            continue
        try:
            counts[live.label_many([_named(live, given)], [value], time=when, weight=weight)[0]] += 1
        except (TypeError, ValueError) as error:
            reason = next((words for kind, words in REASONS.items() if isinstance(error, kind)), None)
            if on_bad_row is OnBadRow.stop or reason is None:
                raise InputError(f"row {row}: {str(error).removeprefix('row 1: ')}") from None
            counts[reason] += 1


def _named(live: Live, given: Any) -> Id:
    """Return an id as the forecast has it: "17" in a file may be the number or the text."""
    if given is None:
        raise NamelessError("id: given nothing, expected the id of a forecast")
    for name in (given, str(given), *([int(given)] if WHOLE.fullmatch(str(given).strip()) else [])):
        if isinstance(name, int | str) and live.knows(name):
            return name
    return given if isinstance(given, int | str) else str(given)


def _say(run: Run, counts: Counter[str]) -> None:
    left_out = (*REASONS.values(), NO_OUTCOME)
    for reason in ("learned", "held", "repeated", "corrected", "without an outcome", *left_out):
        if counts[reason]:
            run.say(f"{counts[reason]:,} {reason}", "yellow" if reason in left_out else None)
