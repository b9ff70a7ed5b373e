"""`swapcal audit`: a file of predictions and outcomes in, a verdict, a report and an exit code out."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from swapcal.archive import put_text
from swapcal.audit import Audit, Comparison
from swapcal.audit.audit import AuditOptions
from swapcal.audit.clusters import looks_clustered
from swapcal.audit.difference import RANGES
from swapcal.audit.measures import CLASS_MEANINGS
from swapcal.audit.rows import Encoder
from swapcal.audit.sql import COLUMNS, DIALECTS, TEXTS, SqlAudit, read_scales
from swapcal.audit.text import Titles
from swapcal.audit.verdict import TOLERANCE
from swapcal.cli import options
from swapcal.cli.options import listed
from swapcal.cli.progress import Facts, ForecastScore, GroupGap, Run, bar, base_rate_alone, running
from swapcal.cli.rows import kinds, with_outcomes
from swapcal.features.encoder import Scale, Scales
from swapcal.features.sources import Number
from swapcal.kernels.tally import FRACTIONAL
from swapcal.report import Findings, render
from swapcal.report import card as written_card
from swapcal.report.card import as_page
from swapcal.report.findings import ComparedPredictor, ComparisonEntry, Difference, GroupDifference, GroupRow
from swapcal.report.html import finite, p_value, points
from swapcal.tables.delimited import Piece, in_order
from swapcal.tables.formats import Source, open_source
from swapcal.tables.frame import JudgedColumns, Table
from swapcal.tables.outcomes import Positive, ReadAs
from swapcal.tables.output import protect
from swapcal.tables.sources import InputError
from swapcal.tables.values import created_at

# Reading: a file of predictions and outcomes on its way into an audit, in batches that threads prepare.


class KnownRows(NamedTuple):
    """Rows that have an outcome, and where they were in the file."""

    table: pa.Table
    first: int
    rows: int
    share: float | None


class Reading:
    """A file on its way into an audit; threads prepare its pieces, which are added in their order."""

    def __init__(
        self,
        file: str,
        columns: JudgedColumns,
        positive: Positive | None,
        jobs: int,
        run: Run,
        categorical: Sequence[str] = (),
        second: str | None = None,
        search: str | None = None,
    ) -> None:
        self._file, self._columns, self._positive, self._jobs, self._run = file, columns, positive, jobs, run
        self._second, self._search = second, search
        for name in categorical:
            if name not in columns.features:
                raise InputError(f"--categorical: given {name!r}, expected one of --features")
        self._kinds = kinds(columns, second) | dict.fromkeys(categorical, ReadAs.text)

    def audit(self, source: Source, encoder: Encoder | None, settings: AuditOptions) -> Audit | Comparison:
        """Audit the file: in one go if it is small, else encoded by the scales of all of it."""
        result = self._audited(source, encoder, settings)
        suspect = self._suspect(source)
        for one in (result,) if isinstance(result, Audit) else (result.before, result.after):
            one.sums.suspect = suspect
        return result

    def _suspect(self, source: Source) -> str | None:
        """Return a column that looks like a cluster id where none was named, by the first rows of the file."""
        if self._file == "-" or self._columns.clusters is not None:
            return None
        others = dict.fromkeys((name for name in source.columns if name not in self._kinds), ReadAs.text)
        try:
            with open_source(self._file, source.dialect) as again:
                piece = next(iter(again.pieces(self._kinds | others, 1)))
                rows = with_outcomes(piece, self._columns, self._positive, source.dialect, self._second)
        except (InputError, StopIteration):  # columns that were not named may be unreadable
            return None
        table, columns = Table(rows), self._columns
        judged = {*kinds(columns, self._second)} - {*columns.features, *columns.groups}
        names = [name for name in table.columns if name not in judged]
        return looks_clustered(table, names, table.numbers(columns.prob), table.numbers(columns.target))

    def _audited(self, source: Source, encoder: Encoder | None, settings: AuditOptions) -> Audit | Comparison:
        pieces = self._pieces(source)
        ahead = list(islice(pieces, 2))
        if encoder is None and self._columns.features and len(ahead) > 1:
            if self._file != "-":
                encoder = self._learned(chain(ahead, pieces))
                with open_source(self._file, source.dialect) as again:
                    return self._added(self._pieces(again), encoder, settings)
            self._run.say(
                f"features are scaled by the first {len(ahead[0].table):,} rows: standard input is read only once",
                "yellow",
            )
        return self._added(chain(ahead, pieces), encoder, settings)

    def _pieces(self, source: Source) -> Iterator[KnownRows]:
        def checked(piece: Piece) -> KnownRows:
            table = with_outcomes(piece, self._columns, self._positive, source.dialect, self._second)
            return KnownRows(table, piece.first, len(piece.table), piece.share)

        return in_order(checked, source.pieces(self._kinds, self._jobs), self._jobs)

    def _learned(self, pieces: Iterator[KnownRows]) -> Encoder:
        """Return the encoding of the features by all rows."""
        rows, scales = 0, Scales({name: Scale() for name in self._columns.features})
        with bar(self._run.console, "learning scales") as shown:
            for scaled, piece in in_order(self._scaled, pieces, self._jobs):
                with _placed(piece):
                    scales.merge(scaled)
                rows += piece.rows
                shown.to(rows, piece.share)
        return Encoder.of(scales)

    def _scaled(self, piece: KnownRows) -> tuple[Scales, KnownRows]:
        with _placed(piece):
            return Scales.of(Table(piece.table), self._columns.features), piece

    def _added(
        self, pieces: Iterator[KnownRows], encoder: Encoder | None, settings: AuditOptions
    ) -> Audit | Comparison:
        begun: list[Audit | Comparison] = []
        rows = used = 0

        def prepared(piece: KnownRows) -> tuple[KnownRows, Any]:
            if not begun or not len(piece.table):
                return piece, piece.table
            with _placed(piece):
                return piece, begun[0].read(_fitting(piece.table, begun[0].encoder))

        with bar(self._run.console, "reading") as shown:
            for piece in pieces:
                rows, used = rows + piece.rows, used + len(piece.table)
                if len(piece.table):
                    with _placed(piece):
                        begun.append(self._begun(piece.table, encoder, settings))
                    break
            for piece, batch in in_order(prepared, pieces, self._jobs):
                if len(piece.table):
                    with _placed(piece):
                        begun[0].add(batch)
                rows, used = rows + piece.rows, used + len(piece.table)
                shown.to(rows, piece.share)
        if not begun:
            raise InputError(f"column {self._columns.target!r}: given no outcome in {rows:,} rows, expected some")
        if self._positive is not None:
            self._positive.require()
        self._run.say_unlabelled(rows, used)
        return begun[0]

    def _begun(self, batch: pa.Table, encoder: Encoder | None, settings: AuditOptions) -> Audit | Comparison:
        """Return the audit of one predictor, or the comparison of two, of the first rows."""
        prob, issued, shared = self._columns.prob, self._columns.issued, self._columns.shared
        if self._second is not None:
            return Comparison.from_frame(batch, probs=[prob, self._second], like=encoder, **shared, **settings)
        searched = {**shared, "search": self._search}
        return Audit.from_frame(batch, prob=prob, issued=issued, like=encoder, **searched, **settings)


@contextmanager
def _placed(piece: KnownRows) -> Iterator[None]:
    """Add the numbers of the rows to an error."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(f"rows {piece.first} to {piece.first + piece.rows - 1}: {error}") from None


def _fitting(table: pa.Table, encoder: Encoder) -> pa.Table:
    """Return columns without any value as the type that they have elsewhere."""
    for column in encoder.columns:
        place = table.column_names.index(str(column.name))
        if pa.types.is_null(table.schema.field(place).type):
            kind = pa.float64() if isinstance(column, Number) else pa.string()
            table = table.set_column(place, str(column.name), table[place].cast(kind))
    return table


FAILED, UNDECIDED = 1, 3
MOST_COMPARED = 12
"""Groups of a comparison shown in the terminal."""


SQL = "Rows that stay in a database"


@options.reads_text
def audit(
    text: options.DatedText,
    printing: options.Printing,
    file: options.OptionalFile = None,
    prob: options.Probs = None,
    target: options.OptionalTarget = None,
    features: Annotated[list[str] | None, typer.Option(help="Feature columns, comma-separated; repeatable.")] = None,
    groups: options.Groups = None,
    categorical: options.Categorical = None,
    time: Annotated[str | None, typer.Option(help="Column of times: numbers or dates.")] = None,
    weights: Annotated[str | None, typer.Option(help="Column of positive row weights.")] = None,
    clusters: options.Clusters = None,
    issued: Annotated[
        str | None, typer.Option(help="Columns low,high,weight between which forecasts were drawn.")
    ] = None,
    levels: Annotated[int | None, typer.Option(help="Audit forecasts in this many equal ranges.")] = None,
    out: options.Report = None,
    card: Annotated[
        Path | None, typer.Option(help="Write a model card here, as Markdown (.md) or one HTML file (.html).")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Write the audit itself here, for `Audit.load`: audits of parts add up.")
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="Encode features as this saved audit does, so that the two can be added.")
    ] = None,
    loss: Annotated[
        list[str] | None, typer.Option(help="Price decisions under this loss, e.g. pinball:0.9; repeatable.")
    ] = None,
    titles: Annotated[
        Path | None, typer.Option(help="TOML file of titles: tables columns and values.COLUMN, used in every word.")
    ] = None,
    intersections: Annotated[
        bool, typer.Option("--intersections", help="Examine the intersections of every two --groups columns too.")
    ] = False,
    search: Annotated[
        bool,
        typer.Option(
            "--search", help="Search regions of up to three conditions: half of the rows propose, the others test."
        ),
    ] = False,
    tolerance: options.Tolerance = TOLERANCE,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if miscalibrated, with 3 if undecided.")
    ] = False,
    fail_above: Annotated[
        float | None,
        typer.Option(help="Use this tolerance, and exit with 1 if the error is significantly larger."),
    ] = None,
    details: Annotated[
        bool,
        typer.Option("--details", help="Print every error by its name in the theory, with its range by chance."),
    ] = False,
    title: options.Title = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulations.")] = 0,
    jobs: options.Jobs = None,
    positive: options.Positive = None,
    sql: Annotated[
        str | None,
        typer.Option(
            help=f"Print a query for the sums of --table instead: {', '.join(DIALECTS)}.",
            metavar="DIALECT",
            rich_help_panel=SQL,
        ),
    ] = None,
    table: Annotated[str | None, typer.Option(help="Table or view that --sql queries.", rich_help_panel=SQL)] = None,
    scales: Annotated[
        str | None,
        typer.Option(
            help="Answer of the first query that --sql prints for --features; the second is printed by it.",
            metavar="FILE",
            rich_help_panel=SQL,
        ),
    ] = None,
    min_cell: Annotated[
        int, typer.Option(min=0, help="Let --sql leave out cells of fewer rows.", rich_help_panel=SQL)
    ] = 0,
    sums: Annotated[
        str | None,
        typer.Option(help="Audit by the answer of the query of sums.", metavar="FILE", rich_help_panel=SQL),
    ] = None,
) -> None:
    """Audit forecasts against outcomes: where they are wrong, by how much, and whether the error is significant.

    The file is read in batches, so it may be larger than memory, and twice if there are features: once for their
    scales, once for the sums. Standard input is read only once: its first batch sets the scales. Rows without an
    outcome are left out and counted. Rows in messages count from 1, without the header.
    The verdict is "miscalibrated" if the worst error is significant and its interval above the tolerance, "small" if it
    is significant and its interval within the tolerance, "no error found" if nothing is significant, else "undecided".
    Exit code 0: no gate given, or no error found, or small; 1: miscalibrated, under --strict or --fail-above;
    2: could not run; 3: undecided, under --strict.
    With two --prob, before and after, the differences are tested, and the report and exit code are about the second.
    Where rows may not move, --sql prints a query whose answer, sums only, is audited by --sums.
    """
    with running("audit", printing) as run:
        rows = {"--time": time, "--issued": issued, "--clusters": clusters, "--categorical": categorical,
                "--search": search or None, "--intersections": intersections or None, "--loss": loss}  # fmt: skip
        named = {"--prob": prob, "--target": target, "--features": features, "--groups": groups, "--weights": weights}
        query = {"--table": table, "--scales": scales, "--min-cell": min_cell or None}
        written = {"--out": out, "--json": printing.json_file, "--card": card, "--state": state}
        if sql is not None:
            _refuse("--sql", {"FILE": file, "--sums": sums, **written, "--json": printing.json} | rows)
            _print_query(sql, named, query, positive, levels, like, run)
            return
        _refuse("a file", query)
        if sums is not None:
            like_rows = {"FILE": file, "--like": like, "--levels": levels, "--positive": positive}
            _refuse("--sums", like_rows | named | rows)
        with (replace(text, **DATABASE) if sums else text).open(file := _needed("FILE", file or sums)) as source:
            protect([file, *(str(path) for path in (like, titles) if path is not None)], written)
            carded = card is not None and as_page(card)
            result: Audit | Comparison
            if sums is not None:
                result = Audit.from_sums(_answer(source), title=options.heading(title, file), seed=seed)
                assert result.sums.reader is not None
                columns: JudgedColumns = result.sums.reader
                known_titles = Titles() if titles is None else Titles.read(titles)
            else:
                single = {"--issued": issued, "--state": state, "--search": search or None}
                first, second = _probs(prob or [], source.columns, single)
                columns = JudgedColumns(
                    prob=first,
                    target=_needed("--target", target),
                    features=tuple(listed(features, source.columns)),
                    groups=tuple(listed(groups, source.columns)),
                    weights=weights,
                    time=time,
                    issued=_three(issued),
                    clusters=clusters,
                )
                settings: AuditOptions = {
                    "levels": levels, "title": options.heading(title, file), "seed": seed,
                    "intersections": 2 if intersections else None,
                }  # fmt: skip
                encoder = None if like is None else Audit.load(like).encoder
                known_titles = _titles(titles, source.columns, kinds(columns, second))
                texts = listed(categorical, source.columns)
                value = options.positive_in(target, positive, source)
                trees = "trees" if search else None
                reading = Reading(file, columns, value, options.threads(jobs), run, texts, second, trees)
                result = reading.audit(source, encoder, settings)
            priced = {"losses": loss or [], "tolerance": tolerance if fail_above is None else fail_above}
            findings = _save(result, out, run, titles=known_titles, **priced)
            if card is not None:
                put_text(card, written_card(findings, html=carded))
            if state is not None and isinstance(result, Audit):
                result.save(state)
            run.kept = "the report is written"
            fractional = isinstance(result, Audit) and result.sums.tally.table[..., FRACTIONAL].any()
            every = result.group_table() if isinstance(result, Audit) else []
            _show(findings, columns, run, details, every, binary=not fractional)
            _list_files(written, run)
    _exit_by(findings.headline.verdict, strict=strict, gated=strict or fail_above is not None)


def _list_files(written: Mapping[str, Any], run: Run) -> None:
    """Print the files that were written, or how to get a report."""
    for what, where in zip(("report", "figures", "card", "state"), written.values(), strict=True):
        if where is not None:
            run.say(f"{what}: {where}")
    if written["--out"] is None:
        run.say("next: the same with --out report.html, for all groups and pictures")


def _exit_by(verdict: str, *, strict: bool, gated: bool) -> None:
    """End with the exit code of a verdict, if it is not 0."""
    if verdict == "miscalibrated" and gated:
        raise typer.Exit(FAILED)
    if verdict == "undecided" and strict:
        raise typer.Exit(UNDECIDED)


DATABASE: dict[str, Any] = {"decimal": ".", "thousands": "none", "missing": ["null,NULL,NaN,\\N"]}
"""How databases write numbers."""


def _needed(name: str, value: str | None) -> str:
    if value is None:
        raise ValueError(f"{name}: given none, expected one; `swapcal audit --help` lists the ways to run it")
    return value


def _refuse(option: str, given: Mapping[str, Any]) -> None:
    """Raise ValueError if options are given that have no meaning with another."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}: given with {option}, expected none")


def _print_query(
    dialect: str,
    named: Mapping[str, Any],
    query: Mapping[str, Any],
    positive: str | None,
    levels: int | None,
    like: Path | None,
    run: Run,
) -> None:
    """Print the query of the sums, or of the scales of features that it needs and that no file has."""
    prob, target, features, groups, weights = named.values()
    if len(prob or []) != 1:
        raise ValueError(f"--prob: given {len(prob or [])} columns, expected one with --sql")
    columns = JudgedColumns(
        prob[0], _needed("--target", target), tuple(listed(features)), tuple(listed(groups)), weights
    )
    table, scales, min_cell = query.values()
    audit = SqlAudit(dialect, _needed("--table", table), columns, positive, levels, min_cell or 0)
    encoder = None if like is None else Audit.load(like).encoder
    if scales is not None:
        with options.Text(**DATABASE).open(scales) as source:
            encoder = read_scales(_answer(source), columns.features)
    if columns.features and encoder is None:
        run.say("this query returns the scales of the features; save its answer and pass it as --scales FILE")
        typer.echo(audit.scales_query() + ";")
        return
    typer.echo(audit.query(encoder) + ";")


def _answer(source: Source) -> pa.Table:
    """Return the answer of a query."""
    types = {
        name: ReadAs.text if name in TEXTS else ReadAs.number for name in source.columns if name in (*TEXTS, *COLUMNS)
    }
    if not types:
        raise InputError(f"{source.name}: given none of the columns of an answer, expected what the database returned")
    return pa.concat_tables([piece.table for piece in source.pieces(types)])


def _probs(given: list[str], columns: Sequence[str], single: dict[str, Any]) -> tuple[str, str | None]:
    """Return the columns of one or two predictors; what only one can have must be absent with two."""
    names = [name for one in given for name in listed([one], columns)]
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        text = ", ".join(names) or "nothing"
        raise ValueError(f"--prob: given {text}, expected one column, or two different ones to be compared")
    for option, value in single.items():
        if len(names) == 2 and value is not None:
            raise ValueError(f"{option}: given with two --prob, expected one")
    return names[0], names[1] if len(names) == 2 else None


def _titles(path: Path | None, columns: Sequence[str], read: Collection[str]) -> Titles:
    """Return the titles of the columns that are read; the file may name others of the table, but no unknown ones."""
    titles = Titles() if path is None else Titles.read(path)
    titles.check(columns, {})
    return titles.among(read)


def _save(result: Audit | Comparison, out: Path | None, run: Run, **settings: Any) -> Findings:
    """Compute the findings once, and write the files that were requested."""
    findings = result.to_findings(created_at=created_at(), **settings)
    if run.printing.json is not None:
        run.write(findings.to_json())
    if out is not None:
        put_text(out, render(findings))
    return findings


def _show(
    findings: Findings, columns: JudgedColumns, run: Run, details: bool, every: Sequence[GroupRow], *, binary: bool
) -> None:
    console = run.output
    if findings.comparison is None:
        _facts(findings, columns, every, binary).show(console)
    show_comparison(findings, console)
    show_headline(findings, console)
    tested = [one for one in findings.witnesses[:5] if one.p_value is not None]
    if tested and not findings.headline.beyond_chance:
        console.print("Largest differences, none significant:")
    for witness in tested:
        console.print(f"  {witness.sentence}", markup=False, highlight=False)
    if details:
        _show_details(findings, console)


def _facts(findings: Findings, columns: JudgedColumns, every: Sequence[GroupRow], binary: bool) -> Facts:
    """Return scores and largest gaps of the forecasts, as other commands print them."""
    scores, rows = findings.scores, findings.identity.n
    roles = {
        "forecast": [columns.prob], "target": [columns.target], "groups": columns.groups, "features": columns.features,
        "time": [columns.time], "weights": [columns.weights], "clusters": [columns.clusters],
    }  # fmt: skip
    facts = Facts("audit", "", rows)
    facts.columns = {role: [name for name in names if name] for role, names in roles.items() if any(names)}
    if scores is not None and scores.brier is not None and scores.log_loss is not None and scores.mean_y is not None:
        facts.base_rate = scores.mean_y
        own = ForecastScore(columns.prob, scores.brier, scores.log_loss)
        facts.scores = [own, *([base_rate_alone(scores.mean_y, scores.mean_y)] if binary else [])]
    titles = {one.name: one.title for one in findings.groups}
    facts.groups = [
        GroupGap(titles.get(one.name) or one.name, round(one.n), one.mean_y, one.mean_p, one.gap, one.low, one.high)
        for one in sorted(every, key=lambda one: -abs(one.gap))
        if not one.small
    ]
    facts.small = findings.groups_small or 0
    facts.unit = "rows" if columns.weights is None else "units of weight"
    return facts


def _show_details(findings: Findings, console: Console) -> None:
    quantities = findings.quantities
    table = RichTable("error", "against", "value", "by chance", "95 % by chance", "p")
    for entry in quantities:
        band = f"{_number(entry.null_low)} to {_number(entry.null_high)}"
        cells = [_number(value) for value in (entry.value, entry.null_mean)]
        table.add_row(entry.name, entry.against, *cells, band, _number(entry.p_value))
    console.print(table)
    console.print(
        "Sums over the rows. By chance: mean and 95 % band if every prediction were exactly right; "
        "p: how often chance alone gives as much."
    )
    meanings = {entry.name: entry.meaning for entry in quantities}
    used = {entry.against for entry in quantities}
    classes = {name: meaning for name, meaning in CLASS_MEANINGS.items() if name in used}
    for name, meaning in (meanings | classes).items():
        console.print(f"  {name}: {meaning}", markup=False, highlight=False)


def show_comparison(findings: Findings, console: Console) -> None:
    """Print two predictors side by side, and the differences; nothing for a single predictor."""
    entry = findings.comparison
    if not entry:
        return
    before, after = map(_called, entry.predictors)
    console.print(entry.sentence, style="bold", markup=False, highlight=False)
    table = RichTable("lower is better", escape(before), escape(after), "difference", "95 % interval", "p", "result")
    for one in entry.scores:
        figures = [_number(value) for value in (one.before, one.after, one.difference)]
        span = f"{_number(one.low)} to {_number(one.high)}"
        table.add_row(escape(_called(one)), *figures, span, p_value(one.p_value), one.word)
    console.print(table)
    _show_groups(entry, console)
    console.print(entry.method, markup=False, highlight=False)
    for predictor in entry.predictors:
        text = f"{_called(predictor)}: {predictor.verdict}. {predictor.sentence}"
        console.print(text, markup=False, highlight=False)
    console.print(f"The audit of {after}:", style="bold", markup=False, highlight=False)


def _show_groups(entry: ComparisonEntry, console: Console) -> None:
    groups = entry.groups
    if not groups:
        return
    before, after = (escape(_called(one)) for one in entry.predictors)
    console.print(entry.groups_sentence, markup=False, highlight=False)
    table = RichTable(
        "group", "rows", f"gap, {before}", f"gap, {after}", "size of gap", "p", "calibration error within", "p",
        "result",
    )  # fmt: skip
    for one in groups[:MOST_COMPARED]:
        table.add_row(*_compared(one))
    console.print(table)
    console.print(
        "Gap: observed minus predicted, in percentage points. Calibration error within: mean size of the gaps over "
        f"{RANGES} ranges of forecasts, before and after, noise included; its p tests the calibration loss. "
        "p allows for all groups."
    )


def _called(entry: ComparedPredictor | Difference | GroupDifference) -> str:
    return entry.title or entry.name


def _compared(group: GroupDifference) -> list[str]:
    within = f"{points(group.ece_before).lstrip('+')} → {points(group.ece_after).lstrip('+')}"
    gaps = [points(gap) for gap in (group.gap_before, group.gap_after, group.gap_change)]
    word = "not tested" if group.small else group.word
    sure = [p_value(p) for p in (group.gap_p, group.loss_p)]
    return [escape(_called(group)), f"{group.n:,.0f}", *gaps, sure[0], within, sure[1], word]


def show_headline(findings: Findings, console: Console) -> None:
    """Print the verdict with its sentences and warnings."""
    headline = findings.headline
    style = {"no error found": "green", "small": "green", "miscalibrated": "red"}.get(headline.verdict, "yellow")
    console.print(f"{headline.verdict}: {headline.sentence}", style=style, markup=False, highlight=False)
    console.print(headline.detail, markup=False, highlight=False)
    for text in headline.warnings:
        console.print(f"Warning: {text}", style="red", markup=False, highlight=False)


def _number(value: float | None) -> str:
    return "–" if finite(value) is None else f"{value:.4g}"


def _three(issued: str | None) -> tuple[str, str, str] | None:
    if issued is None:
        return None
    names = listed([issued])
    if len(names) != 3:
        raise ValueError(f"--issued: given {issued!r}, expected three columns low,high,weight")
    return names[0], names[1], names[2]
