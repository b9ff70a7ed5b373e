"""Options shared by several commands."""

import functools
import inspect
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from typer.core import TyperCommand

from swapcal.cli import COMMANDS
from swapcal.tables import outcomes
from swapcal.tables.dialect import Dialect
from swapcal.tables.formats import Source, open_source
from swapcal.tables.frame import nearest
from swapcal.tables.sources import AUTO, InputError
from swapcal.tables.values import duration


class Order(StrEnum):
    """Order of year, month and day."""

    auto = "auto"
    iso = "iso"
    mdy = "mdy"
    dmy = "dmy"


class OnBadRow(StrEnum):
    """What to do with an unusable row."""

    stop = "stop"
    skip = "skip"


READING, PRINTING = "Reading", "Printing"

FILE = typer.Argument(
    help="CSV, TSV, JSONL (also .gz) or Parquet, or a folder of such files; - reads standard input.", metavar="FILE"
)
File = Annotated[str, FILE]
OptionalFile = Annotated[str | None, FILE]
TARGET = typer.Option(help="Column of outcomes: 0/1, true/false, yes/no, fractions in [0, 1]; empty where unknown.")
Target = Annotated[str, TARGET]
OptionalTarget = Annotated[str | None, TARGET]
Prob = Annotated[str, typer.Option(help="Column of predicted probabilities.")]
Probs = Annotated[
    list[str] | None,
    typer.Option(help="Column of predicted probabilities; given twice, the second is compared with the first."),
]
Groups = Annotated[list[str] | None, typer.Option(help="Columns that define groups, comma-separated; repeatable.")]
Clusters = Annotated[
    str | None, typer.Option(help="Column of ids whose rows may depend on each other, such as patients.")
]
Keep = Annotated[list[str] | None, typer.Option(help="Columns to copy to the output, comma-separated; repeatable.")]
Drop = Annotated[list[str] | None, typer.Option(help="Columns to ignore, comma-separated; repeatable.")]
KeepColumn = Annotated[
    list[str] | None,
    typer.Option(help="Columns to use although they look like ids or free text; comma-separated; repeatable."),
]
Numeric = Annotated[list[str] | None, typer.Option(help="Columns to read as numbers, comma-separated; repeatable.")]
Categorical = Annotated[
    list[str] | None, typer.Option(help="Columns to read as categories, comma-separated; repeatable.")
]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Threads; default: one for each processor. The results do not depend on it.")
]
BadRow = Annotated[OnBadRow, typer.Option(help="Stop at an unusable row, or skip it.")]
Rows = Annotated[
    str, typer.Option("--out", "-o", help="CSV, TSV, JSONL (also .gz) or Parquet, by extension; - writes CSV.")
]
Store = Annotated[
    str,
    typer.Option(
        envvar="SWAPCAL_STORE",
        help="Store of the service: a SQLite file, or postgresql://… as libpq reads it.",
        metavar="PATH|URL",
    ),
]
Forecaster = Annotated[
    list[str] | None, typer.Option(help="Names of forecasters, comma-separated; repeatable; default: all.")
]
Positive = Annotated[
    str | None,
    typer.Option(
        help="Value of the target that counts as 1, all others as 0. If no row has it, audit, compare and fit stop; "
        "the others warn at the end.",
        rich_help_panel=READING,
    ),
]
Report = Annotated[
    Path | None, typer.Option("--out", "-o", "--report", help="Write the report here, as one HTML file.")
]
Details = Annotated[
    bool, typer.Option("--details", help="Print also what the theory certifies, and how.", rich_help_panel=PRINTING)
]
Title = Annotated[str | None, typer.Option(help="Heading of the report; default: the file's name.")]
Tolerance = Annotated[
    float, typer.Option(help="Largest error called small, as a difference of probabilities: 0.01 is one point.")
]


Matures = Annotated[
    str | None,
    typer.Option(
        help="When each outcome is known whatever its value: a column of times or, if no column has that name, a "
        "length of time after the forecast, such as 24h, 7d or a number in the unit of --time (seconds, for dates).",
        metavar="COLUMN|DURATION",
    ),
]
Silence = Annotated[
    int | None,
    typer.Option(min=0, max=1, help="Outcome of a row for which none is reported by then; default: it stays open."),
]
Prior = Annotated[
    str | None,
    typer.Option(help="What is forecast before outcomes are known: a base rate, or a column of --score.",
                 metavar="RATE|COLUMN"),
]  # fmt: skip
Unseen = Annotated[
    str | None,
    typer.Option(
        help="What outcomes may be that take longer than any seen: auto (default), anything, fair (delays do not "
        "depend on outcomes), or a largest factor between the odds.",
        metavar="auto|anything|fair|NUMBER",
    ),
]


@dataclass(frozen=True)
class Text:
    """Format of a text file: options of every command that reads one."""

    delimiter: Annotated[
        str | None, typer.Option(help="Delimiter: a character, or tab; default: detected.", rich_help_panel=READING)
    ] = None
    decimal: Annotated[str, typer.Option(help="Decimal point: . or ,", rich_help_panel=READING)] = AUTO
    thousands: Annotated[
        str,
        typer.Option(
            help="Between groups of three digits: . or , or space, apostrophe, none.", rich_help_panel=READING
        ),
    ] = AUTO
    encoding: Annotated[
        str, typer.Option(help="Encoding of text files, such as latin-1 or cp1252.", rich_help_panel=READING)
    ] = AUTO
    missing: Annotated[
        list[str] | None,
        typer.Option(
            help="Words that mean a missing value, comma-separated; repeatable; default: NA, null and their like, and "
            "words such as k.A. that stand among numbers.",
            rich_help_panel=READING,
        ),
    ] = None
    percent: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of percentages: 12.5 % is read as 0.125; comma-separated; repeatable.",
            rich_help_panel=READING,
        ),
    ] = None
    currency: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of amounts with a currency's sign, such as 5 €; comma-separated; repeatable.",
            rich_help_panel=READING,
        ),
    ] = None

    def open(
        self, file: str, until: Callable[[], bool] | None = None, *, follow: bool = False
    ) -> AbstractContextManager[Source]:
        """Open a file of this format."""
        return open_source(file, self._dialect(), until, follow=follow)

    def with_columns(self, percent: Sequence[str] = (), currency: Sequence[str] = ()) -> Self:
        """Return this format with more columns of percentages and amounts."""
        percentages, amounts = [*(self.percent or ()), *percent], [*(self.currency or ()), *currency]
        return replace(self, percent=percentages, currency=amounts)

    def _dialect(self) -> Dialect:
        given = vars(self) | {name: tuple(listed(getattr(self, name))) for name in ("percent", "currency")}
        words = None if self.missing is None else tuple(listed(self.missing))
        return Dialect(**{**given, "missing": words})


@dataclass(frozen=True)
class DatedText(Text):
    """`Text` for commands that read dates."""

    dates: Annotated[
        Order, typer.Option(help="Order of dates that are not ISO; auto: found in the file.", rich_help_panel=READING)
    ] = Order.auto


def _configured(context: typer.Context, path: Path | None) -> Path | None:
    """Read the options that the command line lacks from a TOML file's table of this command."""
    if path is None:
        return None
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path}: given invalid TOML ({error}), expected TOML") from None
    for name, table in tables.items():
        if name not in COMMANDS or not isinstance(table, dict):
            expected = f"a table for each command, such as [{context.command.name}]{nearest(name, COMMANDS)}"
            raise typer.BadParameter(f"{path}: given {name!r}, expected {expected}")
    table = tables.get(str(context.command.name), {})
    undone = context.meta.get(UNDONE, ())
    context.default_map = {name: value for name, value in _defaults(context, table, path) if name not in undone}
    return path


def _defaults(context: typer.Context, table: dict[str, Any], path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the parameters that a table gives, with values as the command line would spell them."""
    command: Any = context.command
    known = {option.removeprefix("--"): one for one in command.params for option in one.opts if _is_long(option)}
    for key, value in table.items():
        place = f"{path}: [{command.name}] {key}"
        if key not in known or key in ("config", "help"):
            raise typer.BadParameter(f"{place}: given no option of this command, expected one{nearest(key, [*known])}")
        parameter = known[key]
        if getattr(parameter, "is_flag", False):
            if not isinstance(value, bool):
                raise typer.BadParameter(f"{place}: given {value!r}, expected true or false")
            yield parameter.name, value
            continue
        values = value if isinstance(value, list) else [value]
        if any(isinstance(one, dict | list | bool) for one in values) or (len(values) != 1 and not parameter.multiple):
            raise typer.BadParameter(f"{place}: given {value!r}, expected text or a number")
        spelt = [*map(str, values)] if parameter.multiple else str(value)
        try:
            parameter.process_value(context, spelt)
        except typer.BadParameter as error:
            raise typer.BadParameter(f"{place}: given {value!r}, expected another value: {error.message}") from None
        yield parameter.name, spelt


def _is_long(option: str) -> bool:
    """Return whether a name is an option's with two hyphens, or an argument's."""
    return option.startswith("--") or not option.startswith("-")


UNDONE = "swapcal.undone"
"""Where a context keeps the flags that --no-NAME undoes."""


class Command(TyperCommand):
    """A command whose --json needs no value, and whose flags in a configuration --no-NAME undoes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Complete --json without a value, and take out --no-NAME."""
        flags = {
            f"--no-{option[2:]}": one.name
            for one in self.params if getattr(one, "is_flag", False) and not one.secondary_opts
            for option in one.opts if option.startswith("--")
        }  # fmt: skip
        ctx.meta[UNDONE] = {flags[arg] for arg in args if arg in flags}
        kept = [arg for arg in args if arg not in flags]
        return super().parse_args(ctx, [*_with_values(kept)])


def _with_values(args: Sequence[str]) -> Iterator[str]:
    """Yield arguments, with - after a --json that has no value.

    Examples
    --------
    >>> [*_with_values(["a.csv", "--json", "--target", "y"])], [*_with_values(["--json", "a.json"])]
    (['a.csv', '--json', '-', '--target', 'y'], ['--json', 'a.json'])
    """
    for arg, after in zip(args, [*args[1:], "--"], strict=False):
        yield arg
        if arg == "--json" and after.startswith("-") and after != "-":
            yield "-"


@dataclass(frozen=True)
class Spoken:
    """Options of printing."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.", rich_help_panel=PRINTING)] = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Print also the steps with their times, and all log records.",
            rich_help_panel=PRINTING,
        ),
    ] = False  # fmt: skip
    json: Annotated[
        Path | None,
        typer.Option(
            help="Write the figures to FILE as one JSON object; without FILE, or with -, print it instead of the text.",
            metavar="[FILE]", rich_help_panel=PRINTING,
        ),
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise typer.BadParameter("--quiet, --verbose: given both, expected at most one")

    def refuse_two(self, out: str | None) -> None:
        """Raise InputError if both a table and figures would be printed on standard output."""
        if out == "-" and self.prints_json:
            raise InputError("--out, --json: given - for both, expected one of them on standard output")

    @property
    def json_file(self) -> Path | None:
        """The file to which figures are written, if it is not standard output."""
        return None if self.prints_json else self.json

    @property
    def prints_json(self) -> bool:
        """Whether standard output gets the figures as JSON."""
        return self.json == Path("-")


@dataclass(frozen=True)
class Configuration:
    """Where options are taken from that the command line lacks."""

    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with a table per command and the options' names as keys; the command line wins, and "
            "--no-NAME undoes a flag.",
            is_eager=True, callback=_configured, rich_help_panel=PRINTING,
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True)
class Printing(Configuration, Spoken):
    """Options of printing, and the configuration file."""


def reads_text(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameters `text`, `printing` and `configuration` by the options that they hold."""
    own = dict(inspect.signature(command).parameters)
    holders = {name: own.pop(name).annotation for name in ("text", "printing", "configuration") if name in own}
    held = {name: inspect.signature(holder).parameters for name, holder in holders.items()}

    @functools.wraps(command)
    def unfolded(**given: Any) -> None:
        made = {
            name: holder(**{each: given.pop(each) for each in held[name] if each in given})
            for name, holder in holders.items()
        }
        command(**made, **given)

    options = inspect.Signature([*own.values(), *(each for one in held.values() for each in one.values())])
    unfolded.__signature__ = options  # type: ignore[attr-defined]
    return unfolded


prints = reads_text
"""The same, of a command that reads no text file."""


def positive_in(column: str | None, value: str | None, source: Source) -> outcomes.Positive | None:
    """Return the value of a column that counts as 1, if one was named."""
    if column is None or value is None:
        return None
    return outcomes.Positive(value, column, source.dialect.decimal)


def heading(title: str | None, file: str) -> str:
    """Return the heading of a report: `title`, or the file's name."""
    return title or ("standard input" if file == "-" else Path(file).name)


def threads(jobs: int | None) -> int:
    """Return the number of threads: `jobs`, or the number of processors that this process may use."""
    if jobs is not None:
        return jobs
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def listed(values: Sequence[str] | None, columns: Sequence[str] = ()) -> list[str]:
    """Return the names in options that may be repeated and comma-separated, each once; a column's own comma stays.

    Examples
    --------
    >>> listed(["age,sex", "sex", "pay, gross"], ["age", "sex", "pay, gross"])
    ['age', 'sex', 'pay, gross']
    """
    names: list[str] = []
    for value in values or ():
        names += [value] if value in columns else [name.strip() for name in value.split(",")]
    return list(dict.fromkeys(name for name in names if name))


def chosen(values: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """Return the forecasters in `values`, or all. Raises ValueError if one is unknown.

    Examples
    --------
    >>> chosen(["flights"], ["flights", "shops"]), chosen(None, ["flights", "shops"])
    (['flights'], ['flights', 'shops'])
    """
    known = list(known)
    for name in listed(values):
        if name not in known:
            raise ValueError(f"--forecaster: given {name!r}, expected one of {', '.join(known) or 'no forecasters'}")
    return listed(values) or known


def maturity(given: str | None, columns: Sequence[str]) -> tuple[str | None, float | str | None]:
    """Return the column of --matures, or its length of time; the name of a column is that column.

    Examples
    --------
    >>> maturity("24h", ["ends"]), maturity("90", ["ends"]), maturity("ends", ["ends"]), maturity("24h", ["24h"])
    ((None, '24h'), (None, 90.0), ('ends', None), ('24h', None))
    """
    if given is None or given in columns:
        return given, None
    length = number_or_text(given)
    try:
        duration("--matures", length)
    except ValueError:
        expected = "a column of the file, or a length of time such as 90s, 24h, 7d or a number"
        raise InputError(f"--matures: given {given!r}, expected {expected}") from None
    return None, length


def outcome_settings(
    window: float | str | None, silence: int | None, prior: str | None, unseen: str | None, scores: Iterable[str]
) -> dict[str, Any]:
    """Return those settings of `Live` about outcomes that are given; the name of a score is that score.

    Examples
    --------
    >>> outcome_settings(60.0, 0, "0.2", None, []), outcome_settings(None, None, "0.2", "fair", ["0.2"])
    ({'matures': 60.0, 'silence': 0, 'prior': 0.2}, {'prior': '0.2', 'unseen': 'fair'})
    """
    belief = prior if prior is None or prior in scores else number_or_text(prior)
    rule = None if unseen is None else number_or_text(unseen)
    named = {"matures": window, "silence": silence, "prior": belief, "unseen": rule}
    return {name: value for name, value in named.items() if value is not None}


def number_or_text(text: str) -> float | str:
    """Return a number if the text is one, else the text."""
    try:
        return float(text)
    except ValueError:
        return text


def scored(values: Sequence[str] | None, columns: Sequence[str] = ()) -> dict[str, str]:
    """Return the kind of each column of scores, written name, name:probability or name:logit.

    Examples
    --------
    >>> scored(["model,old:logit"])
    {'model': 'probability', 'old': 'logit'}
    """
    kinds = {}
    for text in listed(values, columns):
        name, _, kind = text.rpartition(":")
        is_name = text in columns or kind not in ("logit", "probability")
        kinds[text if is_name else name] = "probability" if is_name else kind
    return kinds
