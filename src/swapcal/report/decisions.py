"""Decisions: what acting on the forecasts costs, and how much any alternative could save."""

from swapcal.report.formats import figure, finite
from swapcal.report.layout import given, hidden, prose, section, table
from swapcal.report.markup import Html, join, tag
from swapcal.report.schema import DecisionEntry, Findings

MOST_DECISIONS = 30
"""Losses shown at most."""


def decisions(findings: Findings) -> Html:
    """Write the table of losses."""
    everyone = findings.get("decisions") or []
    shown = everyone[:MOST_DECISIONS]
    lead = prose(
        "For each loss, the forecast is turned into the action that is best if the forecast is right. "
        "Regret is the mean cost above the best alternative found; a certificate, where there is one, is "
        "the most that any alternative of its class can save."
    )
    columns = [("Loss", "name"), ("Mean cost", "number"), ("Regret", "number"), ("Certificate", "number")]
    columns.append(("Best alternative", "text"))
    caption = "Decisions. Mean cost per row of acting on the forecasts."
    rest = hidden(len(shown), len(everyone), "loss", "the first come first")
    return section("decisions", "Decisions", lead, table(caption, columns, list(map(_row, shown))), rest)


def _row(decision: DecisionEntry) -> list[str]:
    cost = finite(decision.get("alternative_cost"))
    note = tag("span", f" at {figure(cost)}", class_="note") if cost is not None else ""
    alternative = join([given(decision["alternative"]), note]) if decision["alternative"] else "–"
    costs = [figure(decision["cost"]), figure(decision["regret"]), figure(decision["certificate"])]
    return [given(decision["loss"]), *costs, alternative]
