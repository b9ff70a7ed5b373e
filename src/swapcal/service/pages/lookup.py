"""Lookup: one forecast by its id, with what each loss would decide."""

from typing import Any, NamedTuple

from swapcal.service.http.endpoint import Call
from swapcal.service.http.messages import DecisionOut, ForecastShown
from swapcal.service.http.reading import decided, shown
from swapcal.service.refusal import Refusal

LOSSES = {
    "zero_one": "yes or no, both mistakes equally bad",
    "zero_one:1,10": "yes or no, missing one is ten times as bad as a false alarm",
    "newsvendor:3,1": "stock of 0 to 1, too little costs three times too much",
    "pinball:0.1": "a cautious low value (10 % quantile)",
    "pinball:0.9": "a cautious high value (90 % quantile)",
    "absolute": "the nearest value (absolute error)",
    "squared": "a probability (squared error, Brier)",
    "log": "a probability (logarithmic score)",
    "huber": "a value, large errors count linearly",
    "logistic": "log-odds",
    "exponential": "a margin, as boosting uses",
    "v_shaped:0.5": "which side of one half",
}
"""Losses by name, and what they decide, in words."""


class Lookup(NamedTuple):
    """What the page says about one id."""

    id: str
    loss: str
    shown: ForecastShown | None = None
    decisions: "list[tuple[DecisionOut, str]]" = []  # noqa: RUF012 (a tuple's field)
    trouble: str = ""


async def look_up(call: Call) -> Lookup | None:
    """Return what was asked for in the address; None if nothing was."""
    query = call.request.query_params
    id, loss = query.get("id", ""), query.get("loss", "").strip()
    if not id:
        return None
    try:
        found = await shown(call, id)
    except Refusal as refusal:
        return Lookup(id, loss, trouble=refusal.detail)
    if found.record is None:
        return Lookup(id, loss, found)
    wanted = {loss: "the loss you gave", **LOSSES} if loss else LOSSES
    decisions, trouble = [], ""
    for text, words in wanted.items():
        try:
            decisions.append((decided(id, text, found.record, found), words))
        except Refusal as refusal:
            trouble = refusal.detail
    return Lookup(id, loss, found, decisions, trouble)


def largest_term(explanation: Any) -> float:
    """Return the largest contribution, which the others are drawn beside."""
    return max((abs(term["amount"]) for term in explanation["terms"]), default=0.0)
