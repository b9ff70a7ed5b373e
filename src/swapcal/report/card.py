"""Model card: data, findings and limitations of an audit, in words, for people who rely on the forecasts.

The card is a list of parts, written as Markdown or as one HTML page.
"""

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

from swapcal.report.findings import Findings, GroupRow, Scores
from swapcal.report.headline import ALWAYS, window
from swapcal.report.html import (
    NAME_LENGTH,
    SENTENCE_LENGTH,
    UNPRINTABLE,
    GroupCounts,
    Html,
    clip,
    count,
    counted,
    decimals,
    document,
    figure,
    finite,
    p_value,
    percent,
    plural,
    points,
    sentences,
    table,
    tag,
)

MOST_GROUPS, MOST_FINDINGS, MOST_NAMES = 30, 5, 40
"""Entries of each list at most."""

VERDICTS = {
    "miscalibrated": "Miscalibrated: there is a significant error, larger than the tolerance with 95 % confidence.",
    "small": "Small error: there is a significant error, within the tolerance with 95 % confidence.",
    "no error found": "No error found: no error is significant.",
    "undecided": "Undecided: these data do not decide whether the worst error is within the tolerance.",
}

OPEN = (
    "Who made the model, on which data it was trained, what it is meant for and what it must not be used for: "
    "an audit uses forecasts and outcomes only. Add this by hand before publishing the card.",
)

_MARKED = re.compile(r"([\\`*_{}\[\]<>|#~])")


class CardPart(NamedTuple):
    """A heading, a paragraph, a list or a table; a table's first row is its head."""

    kind: Literal["heading", "text", "list", "table"]
    text: str = ""
    items: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def card(findings: Findings | Mapping[str, Any], *, html: bool = False) -> str:
    """Return the model card of an audit, as Markdown or as one self-contained HTML page.

    Examples
    --------
    >>> from swapcal import Audit
    >>> text = card(Audit([0.2, 0.7, 0.4], [0, 1, 1], title="Rain").to_dict())
    >>> text.splitlines()[0]
    '# Model card: Rain'
    """
    record = Findings.of(findings)
    title = f"Model card: {clip(record.identity.title, 200)}"
    return _page(title, blocks(record)) if html else _markdown(title, blocks(record))


def as_page(path: str | PathLike[str] | None) -> bool:
    """Return whether a card is written as HTML, by its file's name.

    Examples
    --------
    >>> as_page("card.html"), as_page("card.md"), as_page(None)
    (True, False, False)
    """
    ending = ".md" if path is None else PurePath(path).suffix.lower()
    if ending not in (".md", ".markdown", ".html", ".htm"):
        raise ValueError(f"card: given {str(path)!r}, expected a name ending in .md or .html")
    return ending.startswith(".h")


def blocks(findings: Findings) -> list[CardPart]:
    """Return the card's parts in order."""
    parts = (_verdict, _data, _metrics, _comparison, _groups, _errors, _decisions, _limitations, _method)
    return [block for part in parts for block in part(findings)]


def _verdict(findings: Findings) -> list[CardPart]:
    answer = findings.headline
    warnings = [f"Warning: {text}" for text in answer.warnings]
    return [
        CardPart("heading", "Verdict"),
        CardPart("text", VERDICTS[answer.verdict]),
        CardPart("text", " ".join(filter(None, (answer.sentence, answer.detail)))),
        *([CardPart("list", items=warnings)] if warnings else []),
    ]


def _data(findings: Findings) -> list[CardPart]:
    subject, scores = findings.identity, findings.scores
    weight = subject.total_weight
    rows = f"{plural(subject.n, 'row')}{f', total weight {count(weight)}' if weight != subject.n else ''}"
    columns, counts = subject.settings.get("groups") or "none", GroupCounts.of(findings)
    items = [
        f"Forecasts: {_called(findings, subject.prediction)}; outcomes: {_called(findings, subject.label)}.",
        f"Rows: {rows}.",
        f"Period: {window(subject)}.",
        f"Features examined: {_listed([_called(findings, name) for name in subject.features])}.",
        f"Groups tested: {count(counts.tested)}, of {clip(columns, SENTENCE_LENGTH)}"
        f"{f'; {counts.too_small}' if counts.small else ''}.",
    ]
    if scores and finite(scores.mean_y) is not None:
        places = decimals([scores.mean_y, scores.mean_p])
        items.append(
            f"The outcome happened in {percent(scores.mean_y, places)} of the rows; the mean forecast was "
            f"{percent(scores.mean_p, places)}."
        )
    return [CardPart("heading", "Data"), CardPart("list", items=items)]


def _called(findings: Findings, name: str) -> str:
    title = (findings.identity.titles or {}).get(name)
    return clip(name, NAME_LENGTH) if title is None else f"{clip(title, NAME_LENGTH)} ({clip(name, NAME_LENGTH)})"


def _listed(names: Sequence[str]) -> str:
    more = f" and {count(len(names) - MOST_NAMES)} more" if len(names) > MOST_NAMES else ""
    return (", ".join(names[:MOST_NAMES]) or "none") + more


METRICS = (
    ("Brier score", "brier", "mean squared error; lower is better"),
    (
        "Log loss",
        "log_loss",
        "mean surprise in nats, probabilities kept 10⁻⁶ from 0 and 1; lower is better",
    ),
    ("AUC", "auc", "how well cases are ranked: 0.5 is guessing, 1 is perfect"),
    ("Calibration error (ECE)", "ece", "mean size of the gaps between observed and forecast rates, noise included"),
)


def _metrics(findings: Findings) -> list[CardPart]:
    scores = findings.scores
    answer = findings.headline
    low, high = finite(answer.low), finite(answer.high)
    rows = [_metric(scores, *one) for one in METRICS if scores and finite(getattr(scores, one[1])) is not None]
    if low is not None and high is not None:
        places = max(1, decimals([high]))
        ends = f"{points(low, places).lstrip('+')} to {points(high, places).lstrip('+')} points"
        rows.append(["Worst error", "", ends, "largest gap in any group, range of forecasts or feature covered"])
    if not rows:
        return []
    text = (
        "95 % confidence intervals, with the row as the unit. That of the worst error covers every group, range of "
        "forecasts and feature with 5 % of the rows or more, and every significant error; others may be "
        "larger. For the calibration error it is the range that chance alone gives for exact forecasts."
    )
    head = ["Figure", "Value", "95 % interval", "Meaning"]
    return [CardPart("heading", "Figures"), CardPart("text", text), CardPart("table", rows=[head, *rows])]


def _metric(scores: Scores, name: str, key: str, meaning: str) -> list[str]:
    low, high = finite(getattr(scores, f"{key}_low")), finite(getattr(scores, f"{key}_high"))
    by_chance = " by chance" if key == "ece" else ""
    ends = "–" if low is None or high is None else f"{figure(low)} to {figure(high)}{by_chance}"
    return [name, figure(getattr(scores, key)), ends, meaning]


def _comparison(findings: Findings) -> list[CardPart]:
    entry = findings.comparison
    if not entry:
        return []
    before, after = (clip(one.title or one.name, 60) for one in entry.predictors)
    head = ["Score (lower is better)", before, after, "Difference", "95 % interval", "p", "Result"]
    rows = [
        [
            clip(one.title or one.name, NAME_LENGTH),
            *(figure(value) for value in (one.before, one.after, one.difference)),
            f"{figure(one.low, 2)} to {figure(one.high, 2)}",
            p_value(one.p_value),
            one.word,
        ]
        for one in entry.scores[:MOST_GROUPS]
    ]
    words = [entry.sentence, entry.groups_sentence]
    return [
        CardPart("heading", f"Compared with {before}"),
        *(CardPart("text", text) for text in words if text),
        CardPart("table", rows=[head, *rows]),
        CardPart("text", entry.method),
    ]


def _groups(findings: Findings) -> list[CardPart]:
    counts = GroupCounts.of(findings)
    groups = [group for group in findings.groups if not (counts.joined and group.untested)]
    if not groups:
        return []
    shown = groups[:MOST_GROUPS]
    examined = counts.tested + (0 if counts.joined else counts.small)
    rates = decimals([x for g in shown for x in (g.mean_p, g.mean_y)])
    places = max(rates, decimals([g.gap for g in shown]))
    note = f" The {count(len(shown))} most doubtful of {count(examined)} are listed." if examined > len(shown) else ""
    note += f" {counts.too_small} and not listed." if counts.joined else ""
    text = (
        "The gap is observed minus forecast, in percentage points: positive where outcomes happen more often than "
        f"forecast. All intervals together hold in 95 of 100 audits.{note}"
    )
    head = ["Group", counted(findings), "Forecast", "Observed", "Gap", "95 % interval", "Verdict"]
    rows = [_group(group, rates, places) for group in shown]
    return [CardPart("heading", "Groups"), CardPart("text", text), CardPart("table", rows=[head, *rows])]


def _group(group: GroupRow, rates: int, places: int) -> list[str]:
    return [
        clip(group.title or group.name, NAME_LENGTH),
        count(group.n),
        percent(group.mean_p, rates),
        percent(group.mean_y, rates),
        points(group.gap, places),
        f"{points(group.low, places)} to {points(group.high, places)}",
        "too small to test" if group.untested else group.verdict,
    ]


def _errors(findings: Findings) -> list[CardPart]:
    tested = [one for one in findings.witnesses if finite(one.p_value) is not None]
    if not tested:
        return []
    beyond = findings.headline.beyond_chance
    heading = "Largest errors" if beyond else "Largest differences, none significant"
    return [CardPart("heading", heading), CardPart("list", items=[one.sentence for one in tested[:MOST_FINDINGS]])]


def _decisions(findings: Findings) -> list[CardPart]:
    entries = findings.decisions or ()
    if not entries:
        return []
    head = ["Loss", "Mean cost of acting on the forecasts", "Above the best rule found", "That rule"]
    rows = [
        [clip(one.loss, 60), figure(one.cost), figure(one.regret), clip(one.alternative or "–", 200)]
        for one in entries[:MOST_GROUPS]
    ]
    return [CardPart("heading", "Decisions"), CardPart("table", rows=[head, *rows])]


def _limitations(findings: Findings) -> list[CardPart]:
    return [
        CardPart("heading", "Limitations"),
        CardPart("list", items=[*findings.notes, *ALWAYS]),
        CardPart("heading", "To be added"),
        CardPart("list", items=OPEN),
    ]


def _method(findings: Findings) -> list[CardPart]:
    subject, answer = findings.identity, findings.headline
    tolerance, alpha = finite(answer.tolerance), finite(answer.alpha)
    settings = subject.settings
    items = [
        "One simultaneous test over all groups, features and ranges of forecasts compares the errors with chance"
        f"{f' (level {alpha:g})' if alpha is not None else ''}; its p is {p_value(answer.p_value)}.",
        *([f"Errors up to {points(tolerance, 2).lstrip('+')} points count as small."] if tolerance is not None else []),
        *(f"{clip(name, 60)}: {clip(value, 200)}." for name, value in list(settings.items())[:MOST_NAMES]),
        f"Fingerprints: data {clip(subject.data_hash, 80)}, settings {clip(subject.settings_hash, 80)}.",
        f"Made by swapcal {clip(subject.swapcal_version, 40)}"
        + (f" on {clip(subject.created_at, 60)}." if subject.created_at else "."),
    ]
    return [CardPart("heading", "How it was computed"), CardPart("list", items=items)]


def _markdown(title: str, parts: Sequence[CardPart]) -> str:
    paragraphs = [f"# {_escaped(title)}"]
    for block in parts:
        if block.kind == "heading":
            paragraphs.append(f"## {_escaped(block.text)}")
        elif block.kind == "text":
            paragraphs.append(_escaped(block.text))
        elif block.kind == "list":
            paragraphs.append("\n".join(f"- {_escaped(item)}" for item in block.items))
        else:
            head, *rows = ([_escaped(cell) for cell in row] for row in block.rows)
            lines = [head, ["---"] * len(head), *rows]
            paragraphs.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(paragraphs) + "\n"


def _escaped(text: str) -> str:
    r"""Return text on one line, with Markdown's special characters escaped.

    Examples
    --------
    >>> print(_escaped("a|b <i>"))
    a\|b \<i\>
    """
    return _MARKED.sub(r"\\\1", " ".join(UNPRINTABLE.sub("\ufffd", text).split()))


def _page(title: str, parts: Sequence[CardPart]) -> str:
    return document(title, tag("main", tag("h1", title), *(_element(block) for block in parts)))


def _element(block: CardPart) -> Html:
    if block.kind == "heading":
        return tag("h2", block.text)
    if block.kind == "text":
        return tag("p", clip(block.text, 2 * SENTENCE_LENGTH))
    if block.kind == "list":
        return sentences(block.items, limit=60)
    head, *rows = block.rows
    number = {"Rows", "Value", "Forecast", "Observed", "Gap", "p", "Difference", "95 % interval"}
    columns = [(cell, "name" if not i else "number" if cell in number else "") for i, cell in enumerate(head)]
    return table("", columns, rows)
