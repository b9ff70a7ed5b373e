"""Sections on two or several predictors of the same rows."""

from collections.abc import Sequence
from statistics import median

from swapcal._display import changes
from swapcal.report.findings import (
    Change,
    ComparedPredictor,
    ComparisonEntry,
    ContestMethod,
    Difference,
    Findings,
    GroupDifference,
)
from swapcal.report.html import (
    DASH,
    SENTENCE_LENGTH,
    GroupCounts,
    Html,
    all_finite,
    badge,
    clip,
    coordinate,
    count,
    counted,
    decimals,
    figure,
    finite,
    folded,
    given,
    hidden,
    join,
    legend,
    minus,
    named,
    p_value,
    points,
    prose,
    section,
    table,
    tag,
)
from swapcal.report.reliability import part_worth_drawing, percent_axis, rates_of
from swapcal.report.svg import Plot, drawing, stretched

# Comparison: two predictors of the same rows side by side, before and after.

MOST_GROUPS = 150
MOST_SCORES = 40
"""Rows shown at most."""

_MARKS = {"better": "▼", "worse": "▲", "no difference found": "="}
"""Signs shown with the words, so that meaning is never in colour alone; lower is better."""


# Gain: the first thing on the page of two predictors, one sentence and one picture.

MOST_BARS = 14
"""Groups drawn at most, the largest."""
GAIN_WIDTH, GAIN_HEIGHT = 300, 16
"""Size of a drawn group in pixels."""


def gain(findings: Findings) -> Html:
    """Write the change from the first predictor to the second: a sentence, and the error within each group."""
    entry = findings.comparison
    if entry is None:
        return Html("")
    parts = [prose(clip(entry.sentence, SENTENCE_LENGTH), style="sentence"), *_gains(entry)]
    return tag("div", *parts, class_="headline gain")


def _gains(entry: ComparisonEntry) -> list[Html]:
    tested = [one for one in entry.groups if not one.small and len(all_finite([one.ece_before, one.ece_after])) == 2]
    if not tested:
        return []
    drawn = sorted(sorted(tested, key=lambda one: -one.n)[:MOST_BARS], key=lambda one: -one.ece_before)
    before, after = (clip(one.title or one.name, 40) for one in entry.predictors)
    scale = 1.04 * max(max(one.ece_before, one.ece_after) for one in drawn) or 1.0
    columns = [("Group", "name"), ("Calibration error within (points)", "glyph"), ("Change", "number")]
    places = decimals([one.ece_before for one in drawn])
    rows = [[named(one.name, one.title), _moved(one, scale), _from_to(one, places)] for one in drawn]
    return [
        prose(_middle(tested, places)),
        legend(("before", before), ("after", after)),
        table("", columns, rows, style="gains"),
        hidden(len(drawn), len(tested), "group", "smaller ones"),
    ]


def _middle(tested: Sequence[GroupDifference], places: int) -> str:
    before, after = (
        points(median(values), places).lstrip("+")
        for values in ([one.ece_before for one in tested], [one.ece_after for one in tested])
    )
    lower = sum(one.ece_after < one.ece_before for one in tested)
    return (
        f"Calibration error within a group (mean size of the gaps over 24 ranges of forecasts, noise included), median "
        f"of {count(len(tested))}: {before} points before, {after} after. It is lower after in "
        f"{count(lower)}, higher or equal in {count(len(tested) - lower)}."
    )


def _moved(one: GroupDifference, scale: float) -> Html:
    start, end = (6 + (GAIN_WIDTH - 12) * value / scale for value in (one.ece_before, one.ece_after))
    middle = GAIN_HEIGHT / 2
    shapes = [
        tag("line", x1=0, x2=GAIN_WIDTH, y1=middle, y2=middle, class_="grid"),
        tag("line", x1=start, x2=end, y1=middle, y2=middle, class_="span observed"),
        tag("circle", cx=start, cy=middle, r=4.5, class_="before-mark"),
        tag("path", d=f"M{coordinate(end)} 2l6 6l-6 6l-6-6Z", class_="after-mark"),
    ]
    box = f"0 0 {GAIN_WIDTH} {GAIN_HEIGHT}"
    return tag("svg", *shapes, width=GAIN_WIDTH, height=GAIN_HEIGHT, viewBox=box, class_="interval", aria_hidden="true")


def _from_to(one: GroupDifference, places: int) -> str:
    before, after = (points(value, places).lstrip("+") for value in (one.ece_before, one.ece_after))
    return f"{before} → {after}"


def comparison(findings: Findings) -> Html:
    """Write both predictors side by side, with tests of their differences."""
    entry = findings.comparison
    assert entry is not None
    before, after = entry.predictors
    parts = [
        prose(clip(entry.sentence, SENTENCE_LENGTH), style="lead"),
        _verdicts(entry.predictors),
        _scores(entry.scores, before, after),
        _curves(before, after),
        *_groups(entry, counted(findings)),
        folded("How the differences were tested", prose(clip(entry.method, SENTENCE_LENGTH))),
        prose("Everything below is about ", named(after.name, after.title), ".", style="hidden-count"),
    ]
    return section("comparison", "Before and after", *parts)


def _verdicts(predictors: Sequence[ComparedPredictor]) -> Html:
    columns = [("Predictor", "name"), ("Verdict", "verdicts"), ("Worst error (points)", "number")]
    sizes = decimals([one.high for one in predictors])
    rows = [[named(one.name, one.title), badge(one.verdict), _worst(one, sizes)] for one in predictors]
    caption = (
        "Each predictor's own audit. The worst error is the largest gap of any group or range of forecasts with "
        "5\u202f% of the rows or more, or significant, as a 95\u202f% interval."
    )
    words = (
        tag("li", tag("strong", named(one.name, one.title), ": "), clip(one.sentence, SENTENCE_LENGTH))
        for one in predictors
    )
    return tag("div", table(caption, columns, rows, style="compared"), tag("ul", *words, class_="sentences"))


def _worst(one: ComparedPredictor, places: int) -> str:
    low, high = finite(one.low), finite(one.high)
    if low is None or high is None:
        return "–"
    return f"{points(low, places).lstrip('+')} to {points(high, places).lstrip('+')}"


def _scores(scores: Sequence[Difference], before: ComparedPredictor, after: ComparedPredictor) -> Html:
    columns = [
        ("Score (lower is better)", "name"),
        ("Result", "change"),
        (named(before.name, before.title, 30), "number"),
        (named(after.name, after.title, 30), "number"),
        ("Difference", "number"),
        ("95\u202f% interval", "number"),
        ("p", "number"),
    ]
    rows = [_score(one) for one in scores[:MOST_SCORES]]
    caption = (
        "Scores of both on the same rows. The difference is the second less the first, with its two-sided p-value."
    )
    note = hidden(len(rows), len(scores), "score", "those of the last group columns")
    return tag("div", table(caption, columns, rows, style="compared"), note)


def _score(one: Difference) -> list[str]:
    low, high = figure(one.low, 2), figure(one.high, 2)
    name = tag("span", _capital(one.title or one.name), tag("span", clip(one.meaning, 200), class_="note"))
    figures = [figure(one.before), figure(one.after), figure(one.difference, 2), f"{low} to {high}"]
    return [name, change(one.word), *figures, p_value(one.p_value)]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def change(word: Change) -> Html:
    """Show the change of a figure as a sign and a word."""
    return tag("span", tag("span", _MARKS[word], aria_hidden="true"), " ", word, class_=f"change {word.split()[0]}")


def _curves(before: ComparedPredictor, after: ComparedPredictor) -> Html:
    drawn = [rates_of(one.reliability) for one in (before, after)]
    if not all(drawn):
        return Html("")
    span = part_worth_drawing([rate for rates in drawn for rate in rates])
    plot, write = Plot(span, span), percent_axis(span)
    marks = [rate for rates in drawn for rate in rates]
    most = max(rate.n for rate in marks) or 1.0
    shapes = [
        plot.x_axis(span.ticks(), write),
        plot.y_axis(span.ticks(), write),
        plot.segment(span.low, span.low, span.high, span.high, "ideal"),
        stretched(plot.line([(r.p, r.y) for r in drawn[0] if r.n >= 0.002 * most], "before-line")),
        stretched(plot.line([(r.p, r.y) for r in drawn[1] if r.n >= 0.002 * most], "after-line")),
        *(plot.dot(r.p, r.y, "before-mark", 2.2) for r in drawn[0]),
        *(plot.diamond(r.p, r.y, "after-mark", 2.2) for r in drawn[1]),
    ]
    text = "Observed frequency against predicted probability, for both predictors; the diagonal is perfect agreement."
    picture = drawing("both", "Reliability of both predictors", text, *shapes, style="square")
    names = (clip(one.title or one.name, 60) for one in (before, after))
    key = legend(*zip(("before", "after"), names, strict=True), ("ideal", "perfect agreement"))
    caption = tag("figcaption", "Observed frequency, by predicted probability: the nearer to the diagonal, the better.")
    return tag("figure", caption, picture, key, class_="single")


def _groups(entry: ComparisonEntry, amount: str) -> list[Html]:
    if not entry.groups:
        return []
    counts = GroupCounts.of(entry)
    groups = [one for one in entry.groups if not (counts.joined and one.small)]
    shown = groups[:MOST_GROUPS]
    names = [one.title or one.name for one in entry.predictors]
    note = hidden(len(shown), len(groups), "group", "those with the least significant differences")
    return [prose(clip(entry.groups_sentence, SENTENCE_LENGTH)), _group_table(shown, names, amount), note]


def _group_table(shown: Sequence[GroupDifference], names: Sequence[str], amount: str) -> Html:
    before, after = (clip(name, 24) for name in names)
    columns = [
        ("Group", "name"),
        ("Result", "change"),
        (f"Gap, {before}", "number"),
        (f"Gap, {after}", "number"),
        ("Change of its size", "number"),
        ("95\u202f% interval", "number"),
        ("p", "number"),
        (f"Calibration error within, {before}", "number"),
        (f"Calibration error within, {after}", "number"),
        ("p", "number"),
        (amount, "number"),
    ]
    places = decimals([value for one in shown for value in (one.gap_before, one.gap_after)]) + 1
    caption = (
        "Groups under both predictors, in percentage points. Gap is observed minus predicted; a negative change means "
        "that the gap became smaller. Calibration error within is the mean size of gaps over the same 24 ranges of "
        "forecasts for both, in the group, noise included; its p tests the calibration loss. † marks groups too "
        "small to be tested."
    )
    return table(caption, columns, [_group(one, places) for one in shown], style="compared")


def _group(one: GroupDifference, places: int) -> list[str]:
    dagger = tag("abbr", "†", title="too few rows to be tested") if one.small else ""
    low, high = one.gap_low, one.gap_high
    interval = "–" if finite(low) is None else f"{points(low, places)} to {points(high, places)}"
    return [
        tag("span", named(one.name, one.title), dagger),
        change(one.word) if not one.small else "not tested",
        points(one.gap_before, places),
        points(one.gap_after, places),
        points(one.gap_change, places),
        interval,
        p_value(one.gap_p),
        points(one.ece_before, places).lstrip("+"),
        points(one.ece_after, places).lstrip("+"),
        p_value(one.loss_p),
        count(one.n),
    ]


# Benchmark: several methods on the same rows.

MOST_METHODS = 20
"""Rows shown at most."""


def contest(findings: Findings) -> Html:
    """Write the result and one row per method."""
    entry = findings.contest
    if entry is None or not entry.methods:
        return Html("")
    columns = [
        ("Method", "name"),
        ("Brier score", "number"),
        ("Log loss (kept 10⁻⁶ from 0 and 1)", "number"),
        ("Worst group gap (points)", ""),
        ("Verdict", "verdicts"),
        ("Brier score against the first (95 %)", "number"),
        ("Tested", ""),
    ]
    shown = entry.methods[:MOST_METHODS]
    places = decimals([one.worst_gap for one in shown])
    rows = [_row(one, places) for one in shown]
    caption = "Every method on the same rows; lower scores are better. The gap is observed minus forecast."
    lead = prose(clip(entry.sentence, 3 * SENTENCE_LENGTH), style="lead")  # warnings come first in it
    how = prose(clip(entry.how, SENTENCE_LENGTH)) if entry.how else ""
    return section("contest", "What would I gain?", lead, how, table(caption, columns, rows))


def _row(one: ContestMethod, places: int) -> list[str]:
    name = one.worst_group
    worst = DASH if name is None else join([points(one.worst_gap, places), " where ", given(name, 60)])
    figures = all_finite([one.brier_change, one.brier_low, one.brier_high])
    change = "{} ({} to {})".format(*map(minus, changes(*figures))) if len(figures) == 3 else DASH
    scores = [figure(one.brier, 4), figure(one.log_loss, 4)]
    return [given(one.name, 60), *scores, worst, badge(one.verdict), change, one.word or DASH]
