"""Headline: the verdict, the sentence, one strip that shows error against chance, and the key figures."""

from collections.abc import Sequence

from swapcal.report.layout import SENTENCE_LENGTH, badge, facts, legend, prose, section
from swapcal.report.markup import Html, join, tag
from swapcal.report.schema import Findings, Quantity, Scores
from swapcal.report.svg import Plot, Scale, drawing
from swapcal.report.text import (
    all_finite,
    clip,
    count,
    decimals,
    figure,
    finite,
    p_value,
    percent,
    plain_symbol,
    points,
    symbol,
)


def headline(findings: Findings) -> Html:
    """Write the answer a reader without statistics needs."""
    answer = findings["headline"]
    detail = answer.get("detail")
    parts = [
        prose(badge(answer["verdict"]), style="kicker"),
        prose(clip(answer["sentence"], SENTENCE_LENGTH), style="sentence"),
        prose(clip(detail, SENTENCE_LENGTH), style="detail") if detail else "",
        strip(findings.get("quantities") or []),
    ]
    return tag("div", *parts, class_="headline")


def strip(quantities: Sequence[Quantity]) -> Html:
    """Show the first quantity that has a noise floor against that floor, on one line from zero."""
    for quantity in quantities:
        value, high = finite(quantity["value"]), finite(quantity["null_high"])
        if value is not None and high is not None and high > 0:
            return _strip(quantity, value, finite(quantity["null_low"]) or 0.0, high)
    return Html("")


def _strip(quantity: Quantity, value: float, low: float, high: float) -> Html:
    plot = Plot(Scale(0.0, 1.08 * max(value, high)), Scale(0.0, 1.0))
    band = tag("rect", x=plot.across(low), width=_width(plot, low, high), y="25%", height="50%", class_="band")
    mark = plot.diamond if value > high else plot.dot
    shapes = [
        plot.segment(0.0, 0.5, plot.x.high, 0.5, "axis"),
        plot.segment(0.0, 0.3, 0.0, 0.7, "limit"),
        band,
        mark(value, 0.5, "beyond" if value > high else "observed", radius=6),
    ]
    text = f"Observed {figure(value)}; chance alone gives {figure(low)} to {figure(high)} in 95 of 100 cases."
    picture = drawing("strip", f"{plain_symbol(quantity['name'])} against chance", text, *shapes, style="strip")
    kind = "beyond" if value > high else "observed"
    words = f"observed error {figure(value)}, {_against(value, low, high)}"
    key = legend((kind, words), ("band", f"what chance alone gives, {figure(low)} to {figure(high)}"))
    meaning = join([symbol(quantity["name"]), ": ", clip(quantity["meaning"], 300)])
    return tag("figure", picture, key, tag("figcaption", meaning), class_="headline-strip")


def _against(value: float, low: float, high: float) -> str:
    if value > high:
        return f"{figure(value / high, 2)} times the top of the band"
    return "within the band" if value >= low else "below the band"


def _width(plot: Plot, low: float, high: float) -> str:
    return f"{max(0.3, 100 * (plot.x.at(high) - plot.x.at(low))):.2f}%"


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
        ("Log loss", scores["log_loss"], "in nats; lower is better"),
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
