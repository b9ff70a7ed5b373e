"""Certificate: what the forecaster that issued the predictions guarantees about them."""

from collections.abc import Sequence

from swapcal.report.formats import clip, count, figure, finite, percent
from swapcal.report.layout import exhibit, facts, prose, section, table
from swapcal.report.markup import Html, join, tag
from swapcal.report.schema import CertificatePiece, Findings, ForecasterEntry

MOST_PIECES = 20
"""Summands shown at most."""


def certificate(findings: Findings) -> Html:
    """Write the certificate of the forecaster that made the predictions."""
    forecaster = findings["forecaster"]
    assert forecaster is not None
    pairs = [(name, count(forecaster[key])) for name, key in _SIZES]  # type: ignore[literal-required]
    pieces = forecaster["pieces"][:MOST_PIECES]
    parts = [_lead(forecaster), facts(pairs, "compact"), _bars(forecaster), _pieces(pieces)]
    return section("certificate", "The forecaster’s certificate", *parts)


_SIZES = (("Levels", "levels"), ("Dimensions", "dims"), ("Labels learned from", "rounds"))


def _lead(forecaster: ForecasterEntry) -> Html:
    citation = forecaster.get("citation")
    text = (
        "These predictions were issued by a forecaster that bounds its own error as it runs. The "
        "certificate holds for this very sequence, whatever produced the outcomes; it is a computed "
        "number, not a rate."
    )
    return prose(text + (f" Its a-priori counterpart: {clip(citation, 200)}." if citation else ""))


def _bars(forecaster: ForecasterEntry) -> Html:
    named = [
        ("Observed", forecaster.get("observed"), "observed"),
        ("Certificate", forecaster["certificate"], "promised"),
        ("Theorem’s bound", forecaster.get("bound"), "promised"),
    ]
    known = [(name, x, style) for name, value, style in named if (x := finite(value)) is not None and x >= 0]
    longest = max((x for _, x, _ in known), default=0.0)
    if longest <= 0:
        return Html("")
    rows = [_bar(name, x, x / longest, style) for name, x, style in known]
    return exhibit("Observed error and what was guaranteed", tag("div", *rows, class_="bars"))


def _bar(name: str, value: float, share: float, style: str) -> Html:
    bar = tag("rect", width=f"{max(0.2, 100 * share):.2f}%", height="100%", class_=f"length {style}")
    picture = tag("svg", bar, class_="track", aria_hidden="true")
    return join([tag("span", name), picture, tag("span", figure(value), class_="number")])


def _pieces(pieces: Sequence[CertificatePiece]) -> Html:
    if not pieces:
        return Html("")
    total = sum(x for p in pieces if (x := finite(p["value"])) is not None)
    columns = [("Piece", "name"), ("Amount", "number"), ("Share", "number")]
    rows = [[clip(p["name"], 200), figure(p["value"]), _share(p["value"], total)] for p in pieces]
    return table("What the certificate is made of.", columns, rows, style="pieces")


def _share(value: float | None, total: float) -> str:
    x = finite(value)
    return percent(None if x is None or total <= 0 else x / total, 0)
