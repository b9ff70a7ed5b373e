"""`swapcal forecast`: a file of records in, a calibrated forecast per row out, learned as it goes."""

import json
import math
import time as clock
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from swapcal.archive import ArchiveError
from swapcal.cli.output import writer
from swapcal.cli.stream_table import InputError, Roles, Stream, read_stream
from swapcal.contexts import Encoded
from swapcal.kernels.logloss import log_losses
from swapcal.live import Live, Trace

Array = NDArray[np.float64]

PIECE = 16_384
BAD_INPUT = 2
GROUPS_SHOWN = 40  # a column with more categories is no natural grouping


class OnBadRow(StrEnum):
    """What to do with a row that cannot be used."""

    stop = "stop"
    skip = "skip"


def forecast(
    file: Annotated[str, typer.Argument(help="CSV (also .gz) or Parquet; - reads CSV from standard input.")],
    target: Annotated[str, typer.Option(help="Column of 0/1 labels; empty where there is none yet.")],
    time: Annotated[str | None, typer.Option(help="Column with the time of each forecast; must not go back.")] = None,
    id: Annotated[str | None, typer.Option(help="Column that names each row; ids determine the draws.")] = None,
    label_time: Annotated[str | None, typer.Option(help="Column with the time each label became known.")] = None,
    groups: Annotated[list[str] | None, typer.Option(help="Column to be calibrated by category; repeatable.")] = None,
    score: Annotated[
        list[str] | None, typer.Option(help="Column with a model's probability (name:logit for logits); repeatable.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to ignore; repeatable.")] = None,
    numeric: Annotated[list[str] | None, typer.Option(help="Column to read as numbers; repeatable.")] = None,
    categorical: Annotated[list[str] | None, typer.Option(help="Column to read as categories; repeatable.")] = None,
    out: Annotated[str | None, typer.Option(help="CSV or Parquet of p, mean, low, high, weight; - writes CSV.")] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report of the forecasts' calibration.")] = None,
    state: Annotated[Path | None, typer.Option(help="Continue from this file if it exists; save to it.")] = None,
    on_bad_row: Annotated[OnBadRow, typer.Option(help="Stop at an unusable row, or skip it.")] = OnBadRow.stop,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
) -> None:
    """Forecast each row, then learn its label, in the order of the file.

    Writes for each row the issued probability p, the mean forecast, and the two levels it was drawn from. With
    --time and --label-time a label is learned only once it is known. Exit code 0 on success, 2 on bad input.
    """
    console = Console(stderr=True)
    try:
        roles = Roles(
            target, time, id, label_time, _scores(score), tuple(groups or ()), tuple(numeric or ()),
            tuple(categorical or ()), tuple(drop or ()),
        )  # fmt: skip
        if label_time and not time:
            raise InputError("--label-time needs --time")
        live = open_live(roles, state, seed)
        stream = read_stream(file, roles, skip=on_bad_row is OnBadRow.skip)
        tally = run_stream(live, stream, out, console, keep=report is not None)
        if state is not None:
            live.save(state)
        if report is not None:
            write_report(report, live, stream, tally, roles, file)
    except (ValueError, TypeError, OSError, pa.ArrowException) as error:
        console.print(f"swapcal forecast: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(BAD_INPUT) from None
    show_summary(console, live, stream, tally)


@dataclass
class Tally:
    """Sums over the labelled rows so far, and what a report needs."""

    names: tuple[str, ...]
    rows: int = 0
    labelled: int = 0
    squares: Array = field(default_factory=lambda: np.zeros(0))
    logs: Array = field(default_factory=lambda: np.zeros(0))
    seconds: float = 0.0
    kept: list[tuple[Array, Array]] = field(default_factory=list)

    def add(self, trace: Trace, y: Array, *, keep: bool) -> None:
        """Add one piece: issued, mean, then every expert."""
        p = np.column_stack([trace.forecast.p, trace.forecast.mean, trace.experts])
        known = ~np.isnan(y)
        squares, logs = losses(p[known], y[known])
        self.squares = squares if not self.rows else self.squares + squares
        self.logs = logs if not self.rows else self.logs + logs
        self.rows += len(y)
        self.labelled += int(known.sum())
        if keep:
            made = trace.forecast
            self.kept.append((np.column_stack([made.p, made.low, made.high, made.weight]), trace.x))

    def brier(self) -> Array:
        """Mean squared errors."""
        return self.squares / max(self.labelled, 1)

    def log_loss(self) -> Array:
        """Mean logarithmic losses."""
        return self.logs / max(self.labelled, 1)


def losses(p: Array, y: Array) -> tuple[Array, Array]:
    """Return the summed squared and logarithmic losses of each column of p."""
    logs = np.array([log_losses(np.ascontiguousarray(column), y).sum() for column in p.T])
    return ((p - y[:, None]) ** 2).sum(axis=0), logs


def open_live(roles: Roles, state: Path | None, seed: int) -> Live:
    """Return a new `Live`, or the one saved at `state` if its settings are these."""
    fresh = Live(
        groups=roles.groups,
        scores=roles.scores,
        numeric=roles.numeric,
        categorical=roles.categorical,
        drop=[*dict.fromkeys([*roles.special(), *roles.drop])],
        seed=seed,
    )
    if state is None or not state.exists():
        return fresh
    live = Live.load(state)
    ours, theirs = (json.loads(json.dumps(each.settings)) for each in (fresh, live))
    for name in ours:
        if ours[name] != theirs.get(name):
            raise ArchiveError(f"{state}: saved with {name} = {theirs.get(name)}, but now {name} = {ours[name]}")
    return live


def run_stream(live: Live, stream: Stream, out: str | None, console: Console, *, keep: bool) -> Tally:
    """Forecast and learn piece by piece, writing as it goes."""
    tally, start = Tally(("issued", "mean", *live.experts)), clock.perf_counter()
    progress = Progress(
        TextColumn("forecasting"), BarColumn(), TextColumn("{task.fields[news]}"), TimeElapsedColumn(),
        TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    with progress, _output(out) as write:
        task = progress.add_task("", total=len(stream.y), news="")
        for first, encoded in _encoded_ahead(live, stream):
            cut = slice(first, first + PIECE)
            trace = live.trace(
                encoded, stream.y[cut], ids=None if stream.ids is None else stream.ids[cut],
                time=None if stream.time is None else stream.time[cut],
                label_time=None if stream.label_time is None else stream.label_time[cut],
            )  # fmt: skip
            tally.add(trace, stream.y[cut], keep=keep)
            write(_rows(stream, trace, cut))
            tally.seconds = clock.perf_counter() - start
            progress.update(task, completed=tally.rows, news=_news(tally))
    return tally


def _encoded_ahead(live: Live, stream: Stream) -> Iterator[tuple[int, Encoded]]:
    """Encode each piece while the one before it is being learned: encoding needs no labels, and kernels no lock."""
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(live.contexts.encode, stream.features.slice(0, PIECE))
        for first in range(0, len(stream.y), PIECE):
            encoded = ahead.result()
            if first + PIECE < len(stream.y):
                ahead = pool.submit(live.contexts.encode, stream.features.slice(first + PIECE, PIECE))
            yield first, encoded


def _news(tally: Tally) -> str:
    return f"{tally.rows:,} rows, {tally.rows / tally.seconds:,.0f} rows/s, Brier {tally.brier()[1]:.4f}"


def _output(out: str | None) -> Any:
    return writer(out) if out is not None else _Nowhere()


class _Nowhere:
    def __enter__(self) -> Any:
        return lambda table: None

    def __exit__(self, *error: object) -> None:
        return None


def _rows(stream: Stream, trace: Trace, cut: slice) -> pa.Table:
    shown = {name: column.slice(cut.start, len(trace)) for name, column in stream.shown.items()}
    made = {name: getattr(trace.forecast, name) for name in ("p", "mean", "low", "high", "weight")}
    return pa.table({"row": stream.rows[cut], **shown, **{name: np.ascontiguousarray(v) for name, v in made.items()}})


def write_report(path: Path, live: Live, stream: Stream, tally: Tally, roles: Roles, file: str) -> None:
    """Audit the issued forecasts over every coordinate and group, and render the findings."""
    from swapcal.audit import Audit  # half the time of importing this command, and only reports need it

    known = ~np.isnan(stream.y)
    if not known.any():
        raise InputError(f"{path}: a report needs labels, and {file} has none")
    issued, x = (_stacked([each[part] for each in tally.kept])[known] for part in (0, 1))
    p, low, high, weight = issued.T
    audit = Audit(
        p, stream.y[known], x, groups=_group_columns(live, stream, roles, known), low=low, high=high, weight=weight,
        time=_times(stream, roles, known), names=live.names,
        title=f"Forecasts of {roles.target} in {Path(file).name}",
    )  # fmt: skip
    audit.to_html(path, certificate=live.certificate().as_dict())


def _times(stream: Stream, roles: Roles, known: NDArray[np.bool_]) -> Any:
    """Return the times as they were given: numbers as numbers, dates as dates rather than seconds since 1970."""
    if stream.time is None or roles.time is None:
        return None
    times, given = stream.time[known], stream.shown[roles.time].type
    numbers = pa.types.is_integer(given) or pa.types.is_floating(given)
    return times if numbers else np.round(times * 1e6).astype("datetime64[us]")


def _stacked(parts: list[Array]) -> Array:
    """Stack pieces whose later ones may have more coordinates."""
    width = max(part.shape[1] for part in parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])


def _group_columns(live: Live, stream: Stream, roles: Roles, known: NDArray[np.bool_]) -> dict[str, Any] | None:
    """Return the declared groups, or else every categorical column with few categories."""
    names = roles.groups or [
        name for name in live.contexts.categorical if len(pc.unique(stream.features[name])) <= GROUPS_SHOWN
    ]
    keep = pa.array(known)
    groups = {name: stream.features[name].filter(keep).cast(pa.string()).to_pylist() for name in names}
    return groups or None


def _scores(given: list[str] | None) -> dict[str, str]:
    scores = {}
    for text in given or []:
        name, _, kind = text.rpartition(":") if text.endswith((":logit", ":probability")) else (text, "", "probability")
        scores[name] = kind
    return scores


def show_summary(console: Console, live: Live, stream: Stream, tally: Tally) -> None:
    """Print what was done, how good it was, and what was left out."""
    brier, logs = tally.brier(), tally.log_loss()
    best = 2 + int(np.argmin(brier[3:])) + 1
    table = Table(title=f"{tally.rows:,} rows, {tally.rows / max(tally.seconds, 1e-9):,.0f} rows/s")
    for heading in ("forecast", "Brier", "log loss"):
        table.add_column(heading, justify="left" if heading == "forecast" else "right")
    for name, k in (("issued p", 0), ("mean", 1), (f"best single expert ({tally.names[best]})", best)):
        table.add_row(name, f"{brier[k]:.5f}", f"{logs[k]:.5f}")
    if tally.labelled:
        console.print(table)
    status = live.status()
    wait = "" if math.isnan(status.mean_wait) else f", mean wait {status.mean_wait:,.6g}"
    late = f"mean delay {status.mean_delay:,.1f} forecasts{wait}" if status.labels else "no label yet"
    console.print(f"labels: {status.labels:,} of {status.forecasts:,} ({status.open:,} open); {late}", highlight=False)
    for reason, count in stream.skipped.items():
        console.print(
            f"skipped {count:,} rows: {reason}", style="yellow", markup=False, highlight=False, soft_wrap=True
        )
