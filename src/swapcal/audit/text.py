"""Findings in sentences, and the titles a user gives to columns and values."""

import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

from swapcal.audit.levels import range_name
from swapcal.audit.rows import halves, intersections_of
from swapcal.audit.search import is_region
from swapcal.audit.sums import Sums
from swapcal.audit.verdict import ALPHA, COVERED_SHARE, Finding, Verdict, Witness
from swapcal.report.findings import Term

# Findings in sentences for readers without statistics.

CONSTANT = "constant"
"""Name of the first coordinate of every context."""

COVERED = f"over every group and range with {100 * COVERED_SHARE:g} % of the rows or more"
"""Scope of the far end of the worst error's interval, in addition to all errors beyond chance."""

MOST_NAMED = 3
"""Terms of a direction named in a sentence."""


def percentage_points(gap: float) -> str:
    """Write the size of a gap of probability in percentage points.

    Examples
    --------
    >>> percentage_points(-0.0475), percentage_points(0.01), percentage_points(0.00031)
    ('4.8 percentage points', '1.0 percentage point', '0.031 percentage points')
    """
    text = number(gap)
    return f"{text} percentage point" + ("" if text == "1.0" else "s")


def at_least(gap: float) -> str:
    """Write a lower end in percentage points, never more than it is.

    Examples
    --------
    >>> at_least(0.0478), at_least(0.011), at_least(0.00317)
    ('at least 4.7 percentage points', 'at least 1.1 percentage points', 'at least 0.31 percentage points')
    """
    size = 100 * gap
    text = f"{math.floor(round(10 * size, 6)) / 10:.1f}" if size >= 0.995 else rounded(gap, up=False)
    return f"at least {text} percentage point" + ("" if text == "1.0" else "s")


def number(gap: float) -> str:
    """Write the size of a gap in points without its unit: one decimal, more for tiny ones.

    Examples
    --------
    >>> number(0.123), number(0.0004), number(1e-9)
    ('12.3', '0.04', '0.0')
    """
    size = 100 * abs(gap) if abs(gap) >= 5e-6 else 0.0
    if size == 0 or size >= 0.995:
        return f"{size:.1f}"
    return f"{size:.2f}" if size >= 0.0995 else f"{size:.2g}"


def rounded(gap: float, *, up: bool) -> str:
    """Write a size in points without its unit, rounded up or down to two decimals, more for tiny ones.

    Examples
    --------
    >>> rounded(0.0809, up=True), rounded(0.0809, up=False), rounded(0.00123, up=True), rounded(0.011, up=True)
    ('8.09', '8.09', '0.13', '1.10')
    """
    size = 100 * gap
    digits = 2 if size >= 0.0995 else 4
    steps = round(size * 10**digits, 6)  # a last bit of rounding must not cost a whole step
    return f"{(math.ceil(steps) if up else math.floor(steps)) / 10**digits:.{digits}f}"


def span(low: float, high: float) -> str:
    """Write an interval of sizes.

    Examples
    --------
    >>> span(0.012, 0.034), span(0.0, 0.0042)
    ('between 1.2 and 3.4 percentage points', 'at most 0.42 percentage points')
    """
    return f"between {number(low)} and {percentage_points(high)}" if low > 0 else f"at most {percentage_points(high)}"


def chance(p_value: float) -> str:
    """Write a p-value.

    Examples
    --------
    >>> chance(0.001), chance(0.2), chance(0.0)
    ('p ≤ 0.001', 'p = 0.20', 'impossible by chance')
    """
    if p_value == 0:
        return "impossible by chance"
    if p_value <= 0.001:
        return f"p ≤ {p_value:.3f}"
    return f"p = {p_value:.2g}" if p_value < 0.1 else f"p = {p_value:.2f}"


def where(finding: Finding, whole: bool) -> str:
    """Return the rows of a finding in words; `whole` means all levels.

    Examples
    --------
    >>> where(Finding("sex = f", (0, 2), (0.1, 0.3), 9, 0.1, 5, 0.001, True, 0.02, 0.18), whole=False)
    'where sex = f and the prediction is between 0.1 and 0.3'
    """
    anyone = finding.name == "all rows" or not finding.is_group
    low, high = finding.interval
    at = f"the prediction is {low:.3g}" if low == high else f"the prediction is between {low:.2g} and {high:.2g}"
    parts = [] if anyone else [place_of(finding.name).removeprefix("where ")]
    parts += [] if whole else [at]
    return f"where {' and '.join(parts)}" if parts else "overall"


def more(gap: float) -> str:
    """Return the sign of observed − predicted as "more" or "less"."""
    return "more" if gap > 0 else "less"


def error(finding: Finding) -> str:
    """Return the error of a finding in words, with its sign and size.

    Examples
    --------
    >>> error(Finding("age", (0, 2), (0.0, 1.0), 9, -0.1, -5, 0.001, False, -0.18, -0.02, 13.0))
    'outcomes happen less and less often than predicted as age rises: by 7.7 percentage points for every 10 of age'
    """
    if finding.is_group:
        return f"outcomes happen {percentage_points(finding.gap)} {more(finding.gap)} often than predicted"
    if is_indicator(finding.name):
        return (
            f"outcomes happen {more(finding.gap)} often than predicted {place_of(finding.name)} than elsewhere, "
            f"by {percentage_points(finding.gap)} per standard deviation"
        )
    step = (
        "per standard deviation"
        if finding.deviation is None
        else f"for every {_step(finding)[0]:,.6g} of {finding.name}"
    )
    return (
        f"outcomes happen {more(finding.gap)} and {more(finding.gap)} often than predicted as {finding.name} rises: "
        f"by {percentage_points(finding.gap * _step(finding)[1])} {step}"
    )


def _step(finding: Finding) -> tuple[float, float]:
    """Return a round step of a finding's number, near its standard deviation, and that step in standard deviations.

    Examples
    --------
    >>> trend = Finding("age", (0, 2), (0.0, 1.0), 9, -0.1, -5, 0.001, False, -0.18, -0.02, 8.0)
    >>> _step(trend), _step(trend._replace(deviation=0.03))[0], _step(trend._replace(deviation=None))
    ((10.0, 1.25), 0.02, (1.0, 1.0))
    """
    deviation = finding.deviation
    if deviation is None:
        return 1.0, 1.0
    power = 10.0 ** math.floor(math.log10(deviation))
    step = min((power, 2 * power, 5 * power, 10 * power), key=lambda one: abs(math.log(one / deviation)))
    return step, step / deviation


def finding(one: Finding, whole: bool, unit: str = "rows") -> str:
    """Return a finding as a sentence; `whole` means that it spans all levels.

    Examples
    --------
    >>> finding(Finding("m = f", (0, 2), (0.1, 0.3), 9, 0.1, 5, 0.6, True, -0.02, 0.18), whole=True)
    'Where m = f, outcomes happen 10.0 percentage points more often than predicted (9 rows, p = 0.60, not significant).'
    """
    place = where(one, whole)
    note = "" if one.p_value <= ALPHA else ", not significant"
    return f"{place[0].upper()}{place[1:]}, {error(one)} ({one.n:,.0f} {unit}, {chance(one.p_value)}{note})."


def hedged(sentence: str, p_value: float) -> str:
    """Return a sentence on an error, with a note if the error is not significant.

    Examples
    --------
    >>> hedged("Outcomes happen more often than predicted.", 0.4)
    'Outcomes happen more often than predicted. An error this large is not significant (p = 0.40).'
    """
    return sentence if p_value <= ALPHA else f"{sentence} An error this large is not significant ({chance(p_value)})."


def headline(
    verdict: Verdict, worst: Finding | None, whole: bool, total: float, unit: str = "rows", looked: str = ""
) -> str:
    """Return the verdict as one sentence; `looked` is where errors were looked for, in words."""
    if verdict.word == "undecided" and not verdict.beyond:
        return f"There are too few data ({total:,.0f} {unit}) to judge the predictions."
    if verdict.word == "no error found":
        return (
            f"No error beyond chance was found {looked or 'in all rows together'}, at any range of predictions "
            f"({chance(verdict.p_value)})."
        )
    if worst is not None and worst.p_value <= ALPHA:
        near, far = sorted(_step(worst)[1] * abs(end) for end in (worst.low, worst.high))
        interval = f"95 % interval {number(near)} to {number(far)}, {worst.n:,.0f} of {total:,.0f} {unit}"
        place = f"{where(worst, whole)}, {error(worst)} ({interval})"
    else:
        place = "somewhere, but in no single group or range that can be named"
    start = {
        "miscalibrated": "The predictions are wrong beyond chance",
        "small": "The predictions are wrong beyond chance, but only a little",
        "undecided": "The predictions are off by more than chance, but these data leave open whether by much",
    }
    return f"{start[verdict.word]}: {place}."


def size(verdict: Verdict, place: str, widest: str, mean: float) -> str:
    """Return sentences on the size of the worst error against the tolerance, or on the detectable error.

    `place` is where the largest certain error is, in words, empty if the headline has it; `widest` where an error may
    be largest, if the data do not decide; `mean` is the ECE.
    """
    allowed = f"the tolerance of {percentage_points(verdict.tolerance)}"
    if verdict.word == "no error found" or (verdict.detectable is None and not verdict.beyond):
        if verdict.detectable is None:
            return "These are too few rows to detect even an error common to all of them reliably."
        return (
            f"An error of {percentage_points(verdict.detectable)} over all rows would have been detected with 80 % "
            "probability; smaller errors, or errors of small groups, may have been missed."
        )
    how = {
        "miscalibrated": f"above {allowed}",
        "small": f"within {allowed}",
        "undecided": f"on both sides of {allowed}, so the data do not decide",
    }[verdict.word]
    size = at_least(verdict.low) if verdict.word == "miscalibrated" else span(verdict.low, verdict.high)
    usual = f"On average over the levels the error is {percentage_points(mean)}, noise included."
    open_end = f" It may reach {percentage_points(verdict.high)} {widest}." if widest else ""
    return f"The worst error is {size} with 95 % confidence{place}: {how}.{open_end} {turning(verdict)} {usual}"


def turning(verdict: Verdict) -> str:
    """Return a sentence on the tolerances at which a verdict beyond chance would change.

    Examples
    --------
    >>> turning(Verdict("undecided", True, 0.001, 0.018, 0.081, 0.05, 0.01, 3, ())).split(" (over")[0]
    'A tolerance of 8.10 points or more would make the verdict "small", one below 1.80 points "miscalibrated"'
    >>> turning(Verdict("small", True, 0.001, 0.0, 0.004, 0.05, 0.01, 3, ())).partition("undecided")[2]
    '" (over every group and range with 5 % of the rows or more).'
    >>> turning(Verdict("undecided", True, 0.001, 0.018, math.inf, 0.05, 0.01, 3, ())).split(",")[0]
    'No tolerance would make the verdict "small"'
    """
    far, near = rounded(min(verdict.high, 1.0), up=True), rounded(verdict.low, up=False)  # unbounded if y is constant
    small = ("small", f"of {far} points or more" if float(far) < 100 else "")
    failed = [("miscalibrated", f"below {near} points")] if float(near) > 0 else []
    (first, size), *others = {
        "undecided": [small, *failed],
        "small": [("undecided", f"below {far} points"), *failed],
        "miscalibrated": [("undecided", f"of {rounded(verdict.low, up=True)} points or more"), small],
    }[verdict.word]
    turns = [f'{f"A tolerance {size}" if size else "No tolerance"} would make the verdict "{first}"']
    turns += [f'{f"one {size}" if size else "none"} "{word}"' for word, size in others]
    return f"{', '.join(turns)} ({COVERED})."


def is_indicator(name: str) -> bool:
    """Return whether a coordinate is an indicator rather than a number.

    Examples
    --------
    >>> is_indicator("town = Rome"), is_indicator("age missing"), is_indicator("age")
    (True, True, False)
    """
    return " = " in name or name.endswith(" missing")


def place_of(name: str) -> str:
    """Return the rows that an indicator marks, in words.

    Examples
    --------
    >>> place_of("age missing"), place_of("town = Rome")
    ('where age is missing', 'where town = Rome')
    """
    if name == CONSTANT:
        return "overall"
    return f"where {name.removesuffix(' missing')} is missing" if name.endswith(" missing") else f"where {name}"


def direction(witness: Witness, named: Sequence[Term], pooled: bool = False, unit: str = "rows") -> str:
    """Return a sentence on a witness at its worst level; `named` are the terms to name, each with its own sign."""
    level = witness.worst
    near = f"near {witness.v[level]:.2f} ({witness.n[level]:,.0f} {unit})"
    at = f"One direction for all levels; at its worst, {near}" if pooled else f"At predictions {near}"
    sign = witness.orientation(level)
    terms = named[:MOST_NAMED]
    if not terms:
        return f"{at}, the error follows a mixture of features, none of them alone."
    if witness.form == "regret":
        saved = f"would have lowered the sum of squared errors by {witness.contributions[level]:.3g}"
        return f"{at}, predictions {split(terms, sign, 'raised', 'lowered')} {saved}."
    return f"{at}, outcomes happen {split(terms, sign, 'more often than predicted', 'less often')}."


def split(terms: Sequence[Term], sign: float, raised: str, lowered: str) -> str:
    """Return where a direction is positive and where negative, in words, each term with its own sign.

    Examples
    --------
    >>> terms = [Term("age", -0.2, None), Term("town = Rome", 0.3, None), Term("income missing", -0.1, None)]
    >>> split(terms, 1.0, "more often than predicted", "less often")
    'more often than predicted with lower age and where town = Rome, and less often where income is missing'
    """
    up: list[str] = []
    down: list[str] = []
    for term in terms:
        positive = sign * term.coefficient > 0
        if is_indicator(term.name) or term.name == CONSTANT:
            (up if positive else down).append(place_of(term.name))
        else:
            up.append(f"with {'higher' if positive else 'lower'} {term.name}")
    if not up:
        return f"{raised.replace('more', 'less') if 'more' in raised else lowered} {listed(down)}"
    return f"{raised} {listed(up)}" + (f", and {lowered} {listed(down)}" if down else "")


def listed(names: Sequence[str]) -> str:
    """Join names with commas and a final "and".

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else ""


# Titles: names of columns and values for readers, given by the user.

MOST_LISTED = 20
"""Names listed in a message."""


@dataclass(frozen=True)
class Titles:
    """Titles of columns, and of the values of each column.

    Examples
    --------
    >>> titles = Titles.of({"columns": {"sex": "Sex"}, "values": {"sex": {"1": "men", "2": "women"}}})
    >>> titles.group("sex", "2")
    'Sex = women'
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    source: str = "titles"

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """Return the titles of a TOML file with the tables `columns` and `values.COLUMN`."""
        name = Path(path).name
        try:
            return cls.of(tomllib.loads(Path(path).read_text(encoding="utf-8")), name)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{name}: given no TOML ({error}), expected tables columns and values.COLUMN") from None

    @classmethod
    def of(cls, given: Any, source: str = "titles") -> Self:
        """Return titles given as `Titles`, as a path, as the mapping that a file holds, or not at all.

        Examples
        --------
        >>> Titles.of({"titles": {"sex": "Sex"}})
        Traceback (most recent call last):
        ValueError: titles: given 'titles', expected columns and values
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, str | PathLike):
            return cls.read(given)
        given = {} if given is None else given
        for name in given:
            if name not in ("columns", "values"):
                raise ValueError(f"{source}: given {name!r}, expected columns and values")
        values = _table(f"{source}: values", given.get("values", {}))
        return cls(
            _titles(f"{source}: columns", given.get("columns", {})),
            {name: _titles(f"{source}: values.{name}", titles) for name, titles in values.items()},
            source,
        )

    def check(self, columns: Collection[str], categories: Mapping[str, Collection[str]]) -> None:
        """Raise ValueError for titles of columns, or of values of the given columns, that do not occur."""
        _known(f"{self.source}: columns", self.columns, columns)
        _known(f"{self.source}: values", self.values, columns)
        for column, titles in self.values.items():
            if column in categories:
                _known(f"{self.source}: values.{column}", titles, categories[column])

    def among(self, columns: Collection[str]) -> Self:
        """Return the titles of some columns only."""
        titles = {name: title for name, title in self.columns.items() if name in columns}
        return replace(self, columns=titles, values={name: v for name, v in self.values.items() if name in columns})

    def column(self, name: str) -> str:
        """Return the title of a column, its name if it has none."""
        return self.columns.get(name, name)

    def group(self, column: str, category: str) -> str:
        """Return the title of a category, with that of its column."""
        return f"{self.column(column)} = {self.values.get(column, {}).get(category, category)}"


def _table(name: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{name}: given {given!r:.60}, expected a table")
    return {str(key): value for key, value in given.items()}


def _titles(name: str, given: Any) -> dict[str, str]:
    titles = _table(name, given)
    for key, title in titles.items():
        if not isinstance(title, str) or not title.strip() or " = " in title or title.endswith(" missing"):
            raise ValueError(
                f"{name}.{key}: given {title!r:.60}, expected a title: text without ' = ', not ending in ' missing'"
            )
    return titles


def _known(name: str, given: Collection[str], known: Collection[str]) -> None:
    unknown = [one for one in given if one not in known]
    if unknown:
        named = sorted(known)
        more = f" and {len(named) - MOST_LISTED} more" if len(named) > MOST_LISTED else ""
        raise ValueError(f"{name}: given {unknown[0]!r}, expected one of {', '.join(named[:MOST_LISTED])}{more}")


class TitleIndex:
    """Titles of all names in an audit: groups, their intersections, features, columns."""

    def __init__(self, sums: Sums, titles: Titles, others: Sequence[str] = ()) -> None:
        columns = {name: categories for name, categories, _ in sums.tally.columns()}
        read = sums.reader.columns if sums.reader else []
        coordinates = [c.name for c in sums.coordinates]
        titles.check({*columns, *read, *coordinates, *others}, columns)
        self.columns = {name: titles.column(name) for name in [*columns, *read] if titles.column(name) != name}
        known = {name: titles.column(name) for name in [*coordinates, *columns, *read]}
        known |= {f"{name} missing": f"{titles.column(name)} missing" for name in coordinates}
        for name, cuts in sums.cuts.items():
            ends = [(low, high) for low in (None, *cuts) for high in (*cuts, None) if low != high]
            known |= {range_name(name, *pair): range_name(titles.column(name), *pair) for pair in ends}
        for name in [*columns, *read]:
            known |= {f"{name} = {k}": titles.group(name, k) for k in _categories(name, columns, coordinates)}
        for region in filter(is_region, columns):
            known |= {f"{region} = {described}": described for described in columns[region]}
        for pair in intersections_of(columns):
            cells = {category: halves(category, *(columns[name] for name in pair)) for category in columns[pair.name]}
            known |= {
                f"{pair.name} = {category}": " and ".join(map(titles.group, pair, pair_of_categories))
                for category, pair_of_categories in cells.items()
                if pair_of_categories is not None
            }
            known[pair.name] = " and ".join(map(titles.column, pair))
        self._known = {name: title for name, title in known.items() if title != name}

    def __call__(self, name: str) -> str:
        """Return the title of a name, the name itself if it has none."""
        return self._known.get(name, name)

    def title(self, name: str) -> str | None:
        """Return the title of a name; None if it has none."""
        return self._known.get(name)

    def finding(self, one: Finding) -> Finding:
        """Return a finding with its title as name."""
        return one._replace(name=self(one.name))

    def term(self, term: Term) -> Term:
        """Return a term with its title as name."""
        unit = None if term.unit is None else term.unit.replace(term.name, self(term.name))
        return replace(term, name=self(term.name), unit=unit)


def _categories(name: str, columns: Mapping[str, Sequence[str]], coordinates: Sequence[str]) -> list[str]:
    start = f"{name} = "
    return [*columns.get(name, ()), *(one.removeprefix(start) for one in coordinates if one.startswith(start))]
