"""Headline: the verdict, its sentences and warnings, one strip that shows it, and the key figures."""

from swapcal.report.formats import (
    all_finite,
    clip,
    count,
    decimals,
    figure,
    finite,
    p_value,
    percent,
    points,
)
from swapcal.report.layout import SENTENCE_LENGTH, badge, facts, legend, prose, section
from swapcal.report.markup import Html, join, tag
from swapcal.report.schema import Findings, Headline, Scores
from swapcal.report.svg import Axis, Plot, drawing

MOST_WARNINGS = 5
"""Warnings shown at most."""


def headline(findings: Findings) -> Html:
    """Write the answer a reader without statistics needs."""
    answer = findings["headline"]
    detail = answer.get("detail")
    parts = [
        prose(badge(answer["verdict"]), style="kicker"),
        prose(clip(answer["sentence"], SENTENCE_LENGTH), style="sentence"),
        prose(clip(detail, SENTENCE_LENGTH), style="detail") if detail else "",
        *(
            prose(tag("strong", "Warning: "), clip(text, SENTENCE_LENGTH), style="warning")
            for text in (answer.get("warnings") or [])[:MOST_WARNINGS]
        ),
        strip(answer),
    ]
    return tag("div", *parts, class_="headline")


def strip(answer: Headline) -> Html:
    """Show the interval of the worst error against the tolerance, on one line from zero; nothing without one."""
    low, high, tolerance = (finite(answer.get(key)) for key in ("low", "high", "tolerance"))  # type: ignore[arg-type]
    if low is None or high is None or tolerance is None:
        return Html("")
    plot = Plot(Axis(0.0, 1.08 * max(high, 2.0 * tolerance, 1e-6)), Axis(0.0, 1.0))
    style = "beyond" if answer["verdict"] == "miscalibrated" else "observed"
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
        "or per standard deviation of a feature, with a 95\u202f% interval that holds for all of them at once."
    )
    return tag("figure", picture, key, tag("figcaption", meaning), class_="headline-strip")


def _places(size: float) -> int:
    return max(1, decimals([size]))


def key_figures(findings: Findings) -> Html:
    """List the familiar numbers, each with a word on how to read it."""
    cells = [*_sizes(findings), *_scores(findings.get("scores"))]
    return section("figures", "Key figures", facts(cells, "figures"))


def _sizes(findings: Findings) -> list[tuple[str, str]]:
    identity = findings["identity"]
    weight, n = identity["total_weight"], identity["n"]
    note = f"total weight {count(weight)}" if weight != n else "predictions with their outcomes"
    cells: list[tuple[str, str]] = [("Rows", _cell(count(n), note))]
    p = findings["headline"].get("p_value")
    if finite(p) is not None:
        cells.append(("p-value", _cell(p_value(p), "of the verdict; small speaks against chance")))
    return cells


def _scores(scores: Scores | None) -> list[tuple[str, str]]:
    if not scores:
        return []
    split = f"{figure(scores['brier_calibration'])} calibration + {figure(scores['brier_refinement'])} refinement"
    known = all_finite([scores["brier_calibration"], scores["brier_refinement"]])
    entries = [
        ("Brier score", scores["brier"], split if len(known) == 2 else "mean squared error"),
        ("Log loss", scores["log_loss"], "in nats; probabilities kept 10⁻⁶ from 0 and 1"),
        ("AUC", scores["auc"], "ranking; ½ is guessing, 1 perfect"),
        ("ECE", scores["ece"], "mean gap over levels; includes noise"),
        ("Smooth ECE", scores["smooth_ece"], "mean gap, smoothed; includes noise"),
    ]
    shown: list[tuple[str, str]]
    shown = [(name, _cell(figure(value), note)) for name, value, note in entries if finite(value) is not None]
    return [*_means(scores), *shown]


def _means(scores: Scores) -> list[tuple[str, str]]:
    p, y = finite(scores.get("mean_p")), finite(scores.get("mean_y"))
    if p is None or y is None:
        return []
    places = decimals([p, y])
    note = f"mean predicted {percent(p, places)}; difference {points(y - p, places + 1)} points"
    return [("Observed rate", _cell(percent(y, places), note))]


def _cell(value: str, note: str) -> Html:
    return join([tag("span", value, class_="value"), tag("span", note, class_="note")])
