"""Contest: several methods on the same rows, and what would be gained."""

from swapcal.faces import changes
from swapcal.report.formats import DASH, all_finite, clip, decimals, figure, minus, points
from swapcal.report.layout import SENTENCE_LENGTH, badge, given, prose, section, table
from swapcal.report.markup import Html, join
from swapcal.report.schema import ContestMethod, Findings

MOST_METHODS = 20
"""Rows shown at most."""


def contest(findings: Findings) -> Html:
    """Write the answer and one row per method."""
    entry = findings["contest"]
    if entry is None or not entry["methods"]:
        return Html("")
    columns = [
        ("Method", "name"),
        ("Brier score", "number"),
        ("Log loss", "number"),
        ("Worst group gap (points)", ""),
        ("Verdict", "verdicts"),
        ("Brier score against the first (95 %)", "number"),
        ("Tested", ""),
    ]
    shown = entry["methods"][:MOST_METHODS]
    places = decimals([one["worst_gap"] for one in shown])
    rows = [_row(one, places) for one in shown]
    caption = "Every method on the same rows; lower scores are better. The gap is observed minus forecast."
    said = prose(clip(entry["sentence"], SENTENCE_LENGTH), style="lead")
    how = prose(clip(entry["how"], SENTENCE_LENGTH)) if entry["how"] else ""
    return section("contest", "What would I gain?", said, how, table(caption, columns, rows))


def _row(one: ContestMethod, places: int) -> list[str]:
    name = one["worst_group"]
    worst = DASH if name is None else join([points(one["worst_gap"], places), " where ", given(name, 60)])
    found = all_finite([one["brier_change"], one["brier_low"], one["brier_high"]])
    change = "{} ({} to {})".format(*map(minus, changes(*found))) if len(found) == 3 else DASH
    scores = [figure(one["brier"], 4), figure(one["log_loss"], 4)]
    return [given(one["name"], 60), *scores, worst, badge(one["verdict"]), change, one["word"] or DASH]
