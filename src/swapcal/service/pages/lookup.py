"""Lookup: one forecast by its id, with what each loss would decide."""

from typing import Any, NamedTuple

from swapcal.service.http.endpoint import Call
from swapcal.service.http.messages import DecisionOut, ForecastShown
from swapcal.service.http.reading import decided, shown
from swapcal.service.refusal import Refusal
from swapcal.service.ward import Ward

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


class LookedUp(NamedTuple):
    """What the page says about one id."""

    id: str
    loss: str
    shown: ForecastShown | None = None
    explanation: dict[str, Any] | None = None
    """of the forecast while it is open; of what the record would be forecast now, afterwards"""
    decisions: tuple[tuple[DecisionOut, str], ...] = ()
    trouble: str = ""

    @property
    def largest(self) -> float:
        """The largest contribution, which the others are drawn beside."""
        terms = self.explanation["terms"] if self.explanation else ()
        return max((abs(term["amount"]) for term in terms), default=0.0)


async def look_up(call: Call) -> LookedUp | None:
    """Return what was asked for in the address; None if nothing was."""
    query = call.request.query_params
    id, loss = query.get("id", ""), query.get("loss", "").strip()
    if not id:
        return None
    try:
        found = await shown(call, id)
    except Refusal as refusal:
        return LookedUp(id, loss, trouble=refusal.detail)
    if found.record is None:
        return LookedUp(id, loss, found)
    explanation = found.explanation or await _explained_now(call, found.record)
    decisions, trouble = _decisions(found, loss)
    return LookedUp(id, loss, found, explanation, decisions, trouble)


async def _explained_now(call: Call, record: dict[str, Any]) -> dict[str, Any] | None:
    """Explain what a record would be forecast now; none if the forecaster cannot be asked."""
    try:
        found: dict[str, Any] = await call.office.ask(call.forecaster, lambda ward: _preview(ward, record))
    except Refusal:
        return None
    return found


def _preview(ward: Ward, record: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = ward.live.preview([record]).explain().to_dict()
    return found


def _decisions(found: ForecastShown, loss: str) -> tuple[tuple[tuple[DecisionOut, str], ...], str]:
    """Return what each loss would decide, and why not for the one that was given."""
    wanted = {loss: "the loss you gave", **LOSSES} if loss else LOSSES
    decisions, trouble = [], ""
    for text, words in wanted.items():
        try:
            decisions.append((decided(found.id, text, found.record or {}, found), words))
        except Refusal as refusal:
            trouble = refusal.detail
    return tuple(decisions), trouble
