"""Sections on the verdict, its warnings, key figures, identity of the audit, and how to read it."""

from collections.abc import Sequence

from swapcal.report.findings import Findings, Headline, Identity, Scores
from swapcal.report.html import (
    NAME_LENGTH,
    SENTENCE_LENGTH,
    Html,
    all_finite,
    badge,
    clip,
    count,
    decimals,
    facts,
    figure,
    finite,
    folded,
    given,
    join,
    legend,
    named,
    p_value,
    percent,
    points,
    prose,
    section,
    sentences,
    symbol,
    tag,
)
from swapcal.report.svg import Axis, Plot, drawing

# Headline: the verdict, its sentences and warnings, one strip that shows it, and the key figures.

MOST_WARNINGS = 5
"""Warnings shown at most."""


def headline(findings: Findings) -> Html:
    """Write the verdict, its sentences and warnings."""
    answer = findings.headline
    detail = answer.detail
    parts = [
        prose(badge(answer.verdict), _subject(findings), style="kicker"),
        prose(clip(answer.sentence, SENTENCE_LENGTH), style="sentence"),
        prose(clip(detail, 2 * SENTENCE_LENGTH), style="detail") if detail else "",
        *(
            prose(tag("strong", "Warning: "), clip(text, SENTENCE_LENGTH), style="warning")
            for text in answer.warnings[:MOST_WARNINGS]
        ),
        strip(answer),
    ]
    return tag("div", *parts, class_="headline")


def _subject(findings: Findings) -> Html:
    """Name the predictor of the verdict, if there are two."""
    if findings.comparison is None:
        return Html("")
    after = findings.comparison.predictors[1]
    return join([": the audit of ", named(after.name, after.title)])


def strip(answer: Headline) -> Html:
    """Draw the interval of the worst error and the tolerance on one line from zero; empty without an interval."""
    low, high, tolerance = (finite(value) for value in (answer.low, answer.high, answer.tolerance))
    if low is None or high is None or tolerance is None:
        return Html("")
    plot = Plot(Axis(0.0, 1.08 * max(high, 2.0 * tolerance, 1e-6)), Axis(0.0, 1.0))
    style = "beyond" if answer.verdict == "miscalibrated" else "observed"
    edge = plot.across(min(low, high))
    width = f"{max(0.3, 100 * (plot.x.at(high) - plot.x.at(low))):.2f}%"
    bar = tag("rect", x=edge, width=width, y="36%", height="28%", class_=f"worst {style}")
    shapes = [
        plot.segment(0.0, 0.5, plot.x.high, 0.5, "axis"),
        plot.segment(0.0, 0.3, 0.0, 0.7, "limit"),
        bar,
        plot.segment(tolerance, 0.1, tolerance, 0.9, "promise"),
    ]
    first, last = (points(max(end, 0.0), _places(high)).lstrip("+") for end in (low, high))
    ends = f"{first if low > 0.0 else '0'} to {last if high > 0.0 else '0'} points"
    allowed = f"tolerance, {points(tolerance, _places(tolerance)).lstrip('+')} points"
    text = f"The worst error lies between {ends} (95 % confidence); {allowed}."
    picture = drawing("strip", "Worst error against the tolerance", text, *shapes, style="strip")
    key = legend((style, f"worst error, {ends}"), ("promise", allowed))
    meaning = (
        "Worst error: the largest difference between observed and predicted rate in any group or range of predictions, "
        "or per standard deviation of a feature, with a 95\u202f% interval that holds for all of them at once. It "
        "covers groups and ranges with 5\u202f% of the rows or more, and every error beyond chance."
    )
    return tag("figure", picture, key, tag("figcaption", meaning), class_="headline-strip")


def _places(size: float) -> int:
    return max(1, decimals([size]))


def key_figures(findings: Findings) -> Html:
    """Write the familiar scores, each with a note on how to read it."""
    cells = [*_sizes(findings), *_scores(findings.scores)]
    return section("figures", "Key figures", facts(cells, "figures"))


def _sizes(findings: Findings) -> list[tuple[str, str]]:
    identity = findings.identity
    weight, n = identity.total_weight, identity.n
    note = f"total weight {count(weight)}" if weight != n else "predictions with their outcomes"
    cells: list[tuple[str, str]] = [("Rows", _cell(count(n), note))]
    p = findings.headline.p_value
    if finite(p) is not None:
        cells.append(("p-value", _cell(p_value(p), "of the verdict; small means not by chance")))
    return cells


def _scores(scores: Scores | None) -> list[tuple[str, str]]:
    if not scores:
        return []
    split = f"{figure(scores.brier_calibration)} calibration + {figure(scores.brier_refinement)} refinement"
    known = all_finite([scores.brier_calibration, scores.brier_refinement])
    entries = [
        ("Brier score", scores.brier, split if len(known) == 2 else "mean squared error"),
        ("Log loss", scores.log_loss, "in nats; probabilities kept 10⁻⁶ from 0 and 1"),
        ("AUC", scores.auc, "ranking; ½ is guessing, 1 perfect"),
        ("ECE", scores.ece, "mean gap over levels; includes noise"),
        ("Smooth ECE", scores.smooth_ece, "mean gap, smoothed; includes noise"),
    ]
    shown: list[tuple[str, str]]
    shown = [(name, _cell(figure(value), note)) for name, value, note in entries if finite(value) is not None]
    return [*_means(scores), *shown]


def _means(scores: Scores) -> list[tuple[str, str]]:
    p, y = finite(scores.mean_p), finite(scores.mean_y)
    if p is None or y is None:
        return []
    places = decimals([p, y])
    note = f"mean predicted {percent(p, places)}; difference {points(y - p, places + 1)} points"
    return [("Observed rate", _cell(percent(y, places), note))]


def _cell(value: str, note: str) -> Html:
    return join([tag("span", value, class_="value"), tag("span", note, class_="note")])


# Identity: data, versions and settings, to repeat the audit.

MOST_FEATURES, MOST_SETTINGS = 60, 40
"""Entries of each list shown at most."""


def identity(findings: Findings) -> Html:
    """Write data, versions and settings, to repeat the audit."""
    subject = findings.identity
    parts = [facts(_pairs(subject), "identity"), _settings(subject)]
    twin = "The JSON version has every figure of this page. The page holds aggregates only, no rows of data."
    return section("identity", "Identity of this audit", *parts, prose(twin, style="note"))


def window(subject: Identity) -> str:
    """Write the time window in words."""
    first, last = subject.first_time, subject.last_time
    if first is None and last is None:
        return "no time column given"
    return f"{clip(first or 'unknown', 40)} to {clip(last or 'unknown', 40)}"


def _pairs(subject: Identity) -> list[tuple[str, str]]:
    weight = subject.total_weight
    pairs = [
        ("Predictions", _column(subject, subject.prediction)),
        ("Outcomes", _column(subject, subject.label)),
        (
            "Rows",
            count(subject.n) + (f" (total weight {count(weight)})" if weight != subject.n else ""),
        ),
        ("Window", window(subject)),
        *_optional(subject),
        ("Data hash", _code(subject.data_hash)),
        ("Settings hash", _code(subject.settings_hash)),
        ("Made", clip(subject.created_at, 60)),
        ("Made by", _versions(subject)),
    ]
    return [(name, value) for name, value in pairs if value]


def _versions(subject: Identity) -> str:
    swapcal, python, numpy = (
        clip(text, 40) for text in (subject.swapcal_version, subject.python_version, subject.numpy_version)
    )
    return f"swapcal {swapcal} (schema {subject.schema_version}), Python {python}, NumPy {numpy}"


def _optional(subject: Identity) -> list[tuple[str, str]]:
    levels = subject.n_levels
    rule = clip(subject.levelling, 400)
    return [
        ("Features", _features(subject, subject.features)),
        ("Levels", ". ".join(part for part in (count(levels) if levels else "", rule) if part)),
    ]


def _features(subject: Identity, names: Sequence[str]) -> Html:
    shown = [_column(subject, name, 60) for name in names[:MOST_FEATURES]]
    more = [f"and {count(len(names) - len(shown))} more"] if len(names) > len(shown) else []
    items = [piece for name in [*shown, *more] for piece in (", ", name)]
    return join(items[1:])


def _column(subject: Identity, name: str, length: int = NAME_LENGTH) -> Html:
    """Write a column's title, followed by its name."""
    title = (subject.titles or {}).get(name)
    return given(name, length) if title is None else join([given(title, length), " (", given(name, length), ")"])


def _code(text: str) -> Html:
    return tag("code", clip(text, NAME_LENGTH))


def _settings(subject: Identity) -> Html:
    settings = subject.settings
    pairs = [(clip(name, 60), symbol(clip(value, 200))) for name, value in list(settings.items())[:MOST_SETTINGS]]
    return folded("Settings", facts(pairs, "identity")) if pairs else Html("")


# How to read the page, and its limitations.

READING = (
    (
        "Calibrated",
        "Among the cases given a probability, that share comes true: of the days with “30\u202f% rain”, about"
        " 30 in 100 are wet.",
    ),
    (
        "Level",
        "A value of the forecast. Forecasts that take many values are grouped into narrow levels.",
    ),
    (
        "Multicalibrated",
        "Calibrated not only overall but within every subgroup and along every combination of the features examined.",
    ),
    (
        "Noise band",
        "The range in which a figure falls in 95 of 100 cases if every forecast is exactly right. It is "
        "simulated from the forecasts themselves, so it fits this number of rows and these features.",
    ),
    (
        "p-value",
        "The probability that chance alone gives an error at least this large somewhere, among all groups, features "
        "and ranges of predictions examined, if every forecast is right. Under “Errors against chance” each row is a "
        "separate test.",
    ),
    (
        "Gap",
        "Observed minus predicted, in percentage points. Positive: it happens more often than forecast.",
    ),
    (
        "Worst rule on the features",
        "The combination of features, and the rows, on which an error is largest. Recomputing the error there gives "
        "the reported value exactly.",
    ),
    (
        "Certificate",
        "An upper limit on the error that the forecaster computed itself, valid for this sequence.",
    ),
)

ALWAYS = (
    "The audit covers only the rows it was given. If these rows do not represent the cases of interest, "
    "neither does the verdict.",
    "“No error found” means that no error was significant with this many rows and these features, not "
    "that there is none. Errors smaller than the detectable ones may be present.",
    "A group, feature or interaction that is not among the features cannot be tested.",
    "The noise floor assumes that outcomes are independent given the forecasts. Clustered or repeated "
    "outcomes make chance errors larger than shown.",
    "The errors shown here are differences between forecasts and outcomes; their causes are not examined.",
)


def reading(findings: Findings) -> Html:
    """Explain the terms used above, and only those."""
    promised = any(q.certificate is not None for q in findings.quantities)
    unused = set() if findings.witnesses else {"Worst rule on the features"}
    unused |= set() if promised or findings.forecaster else {"Certificate"}
    terms = [(term, words) for term, words in READING if term not in unused]
    return section("reading", "How to read this", facts(terms, "glossary"))


def limitations(findings: Findings) -> Html:
    """Write the limitations, those of this audit first."""
    return section("limitations", "Limitations", sentences(findings.notes), sentences(ALWAYS))
