"""`swapcal audit`: a file of predictions and outcomes in, a verdict, a report and an exit code out."""

import json as codec
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from swapcal.audit import Audit
from swapcal.audit.verdict import TOLERANCE
from swapcal.frames import UnknownColumnError
from swapcal.report import Findings, render

BATCH_ROWS = 1 << 17
CSV_BLOCK = 1 << 24
READ_BUFFER = 1 << 20
FAILED, COULD_NOT_RUN, UNDECIDED = 1, 2, 3

Batches = Iterator[tuple[pa.Table, float]]


def audit(
    file: Annotated[str, typer.Argument(help="CSV (also .gz) or Parquet; - reads CSV from standard input.")],
    prob: Annotated[str, typer.Option(help="Column of predicted probabilities.")],
    target: Annotated[str, typer.Option(help="Column of outcomes in [0, 1].")],
    features: Annotated[list[str] | None, typer.Option(help="Feature columns, comma-separated; repeatable.")] = None,
    groups: Annotated[list[str] | None, typer.Option(help="Group columns, comma-separated; repeatable.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of times: numbers or dates.")] = None,
    weights: Annotated[str | None, typer.Option(help="Column of positive row weights.")] = None,
    issued: Annotated[str | None, typer.Option(help="Columns low,high,weight of the issued distribution.")] = None,
    levels: Annotated[int | None, typer.Option(help="Number of equal intervals of predictions.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the report here, as one HTML file.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report's JSON twin here.")] = None,
    loss: Annotated[
        list[str] | None, typer.Option(help="Price decisions under this loss, e.g. pinball:0.9; repeatable.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="Largest error called small, as a difference of probabilities: 0.01 is one point.")
    ] = TOLERANCE,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if miscalibrated, with 3 if undecided.")
    ] = False,
    fail_above: Annotated[
        float | None,
        typer.Option(help="Use this tolerance, and exit with 1 if miscalibrated: surely wrong by more than this."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the report; default: the file's name.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated noise floor.")] = 0,
) -> None:
    """Audit predicted probabilities: exact errors, the worst groups, and what chance alone would give.

    The file is read in batches, so it may be larger than memory; features are scaled by the first batch.
    The verdict is "miscalibrated" if the worst error is beyond chance and surely above the tolerance, "small" if it is
    beyond chance and surely within it, "no error found" if nothing is beyond chance, and else "undecided".
    Exit code 0: no gate given, or no error found, or small; 1: miscalibrated, under --strict or --fail-above;
    2: could not run; 3: undecided, under --strict.
    """
    console = Console(stderr=True)
    names: dict[str, Any] = {
        "prob": prob,
        "target": target,
        "features": _listed(features),
        "groups": _listed(groups),
        "time": time,
        "weights": weights,
    }
    try:
        names["issued"] = _three(issued)
        found = _read(file, names, levels, title or _name(file), seed, console)
        findings = _save(found, loss or [], out, json, tolerance if fail_above is None else fail_above)
    except (ValueError, TypeError, OSError, pa.ArrowException) as error:
        console.print(f"swapcal audit: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(COULD_NOT_RUN) from None
    _show(findings, Console())
    verdict = findings["headline"]["verdict"]
    if verdict == "miscalibrated" and (strict or fail_above is not None):
        raise typer.Exit(FAILED)
    if verdict == "undecided" and strict:
        raise typer.Exit(UNDECIDED)


def _read(file: str, names: dict[str, Any], levels: int | None, title: str, seed: int, console: Console) -> Audit:
    columns = [names["prob"], names["target"], *names["features"], *names["groups"]]
    columns += [name for name in (names["time"], names["weights"], *(names["issued"] or ())) if name]
    found: Audit | None = None
    rows = 0
    with _progress(console) as step:
        for batch, share in _batches(file, list(dict.fromkeys(columns))):
            try:
                if found is None:
                    found = Audit.from_frame(batch, **names, levels=levels, title=title, seed=seed)
                else:
                    found.add(batch)
            except (ValueError, TypeError) as error:
                place = f"rows {rows + 1} to {rows + len(batch)}: " if rows else ""
                raise type(error)(f"{place}{error}") from None
            rows += len(batch)
            step(rows, share)
    if found is None:
        raise ValueError(f"{file} has no rows")
    return found


def _save(found: Audit, losses: Sequence[str], out: Path | None, json: Path | None, tolerance: float) -> Findings:
    """Compute the findings once, and write the files asked for."""
    created = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = found.to_json(losses=losses, created_at=created, tolerance=tolerance)
    findings: Findings = codec.loads(text)
    if json is not None:
        json.write_text(text, encoding="utf-8")
    if out is not None:
        out.write_text(render(findings), encoding="utf-8")
    return findings


def _show(findings: Findings, console: Console) -> None:
    show_headline(findings, console)
    for witness in (findings.get("witnesses") or [])[:5]:
        if witness.get("p_value") is not None:
            console.print(f"  {witness['sentence']}", markup=False, highlight=False)
    table = Table("quantity", "against", "value", "by chance", "95 % band", "p")
    for entry in findings.get("quantities") or []:
        band = f"{_number(entry['null_low'])} to {_number(entry['null_high'])}"
        cells = [_number(entry[key]) for key in ("value", "null_mean")]
        table.add_row(entry["name"], entry["against"], *cells, band, _number(entry["p_value"]))
    console.print(table)


def show_headline(findings: Findings, console: Console) -> None:
    """Print the verdict with its sentences and warnings."""
    headline = findings["headline"]
    style = {"no error found": "green", "small": "green", "miscalibrated": "red"}.get(headline["verdict"], "yellow")
    console.print(f"{headline['verdict']}: {headline['sentence']}", style=style, markup=False, highlight=False)
    console.print(headline.get("detail", ""), markup=False, highlight=False)
    for text in headline.get("warnings") or []:
        console.print(f"Warning: {text}", style="red", markup=False, highlight=False)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _listed(values: Sequence[str] | None) -> list[str]:
    """Columns from options that may be repeated and comma-separated."""
    return [name.strip() for value in values or () for name in value.split(",") if name.strip()]


def _three(issued: str | None) -> tuple[str, str, str] | None:
    if issued is None:
        return None
    names = _listed([issued])
    if len(names) != 3:
        raise ValueError(f"--issued needs three columns low,high,weight, got {issued!r}")
    return names[0], names[1], names[2]


def _name(file: str) -> str:
    return "standard input" if file == "-" else Path(file).name


def _batches(file: str, columns: list[str]) -> Batches:
    """Batches of the named columns, each with the share of the file read so far."""
    if file != "-" and not Path(file).is_file():
        raise FileNotFoundError(f"no file {file}")
    return _parquet(file, columns) if file.endswith((".parquet", ".pq")) else _csv(file, columns)


def _parquet(file: str, columns: list[str]) -> Batches:
    # Buffering ahead would keep every column read so far; a small buffer bounds memory by the batch.
    with papq.ParquetFile(file, buffer_size=READ_BUFFER, pre_buffer=False) as source:
        _require(columns, source.schema_arrow.names)
        total, seen = max(1, source.metadata.num_rows), 0
        for batch in source.iter_batches(batch_size=BATCH_ROWS, columns=columns):
            seen += len(batch)
            if len(batch):
                yield pa.Table.from_batches([batch]), seen / total


def _csv(file: str, columns: list[str]) -> Batches:
    reading = pacsv.ReadOptions(block_size=CSV_BLOCK)
    source: Any = sys.stdin.buffer
    if file != "-":
        with pacsv.open_csv(file, read_options=reading) as peek:
            _require(columns, peek.schema.names)
        source = file
    keep = pacsv.ConvertOptions(include_columns=columns if file != "-" else None, strings_can_be_null=True)
    with pacsv.open_csv(source, read_options=reading, convert_options=keep) as reader:
        _require(columns, reader.schema.names)
        size = Path(file).stat().st_size if file != "-" else 0
        seen = 0
        for batch in reader:
            seen += batch.nbytes
            if len(batch):
                # Bytes in memory against bytes on disk: a rough share, held below one until the end.
                yield pa.Table.from_batches([batch]).select(columns), min(0.99, seen / max(1, 8 * size))


def _require(columns: list[str], present: Sequence[str]) -> None:
    for name in columns:
        if name not in present:
            raise UnknownColumnError(name, list(present))


@contextmanager
def _progress(console: Console) -> Iterator[Any]:
    bar = Progress(
        TextColumn("{task.fields[rows]:,} rows"),
        BarColumn(),
        TextColumn("{task.fields[rate]:,.0f} rows/s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task("reading", total=1.0, rows=0, rate=0.0)

        def step(rows: int, share: float) -> None:
            elapsed = bar.tasks[0].elapsed or 1e-9
            bar.update(task, completed=share, rows=rows, rate=rows / elapsed)

        yield step
