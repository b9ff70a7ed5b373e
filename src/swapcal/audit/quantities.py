"""The catalogue of quantities: how each is computed from residuals, and what it means in plain words."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from swapcal import errors
from swapcal.audit.design import FixedDesign, Residuals

Against = Literal["linear", "linear4", "affine", "groups"]

CLASSES: dict[str, str] = {
    "linear": "F_1^lin",
    "linear4": "F_4^lin",
    "affine": "F_res^aff",
    "groups": "groups",
    "constant": "constant",
}
"""How each class is written in the theorems."""

CLASS_MEANINGS: dict[str, str] = {
    "F_1^lin": "Linear functions of the features, between −1 and 1.",
    "F_4^lin": "Linear functions of the features, between −2 and 2.",
    "F_res^aff": "Linear functions of the features, between 0 and 1.",
    "constant": "One function: 1 for every row.",
}
"""What each class is, for readers who have not met the theorems."""

Measure = Callable[[FixedDesign, Residuals], Any]
"""The error of every draw, (B,)."""


class Quantity(NamedTuple):
    """One error: its measure, whether it is cheap to simulate, its symbol, its class and its meaning."""

    measure: Measure
    cheap: bool
    symbol: str
    against: str
    meaning: str
    citation: str


def _accusation(against: str, cheap: bool, measure: Measure, q: int, *, swap: bool) -> Quantity:
    """Return SMCal_q if every level is accused by a function of its own, else MCal_q."""
    gaps = {1: "sum of absolute gaps", 2: "sum of squared gaps, weighted by rows"}[q]
    if swap:
        meaning = f"Each level of prediction accused by its own worst function: {gaps}."
        return Quantity(measure, cheap, f"SMCal_{q}", CLASSES[against], meaning, "definition of swap multicalibration")
    meaning = f"All levels accused by one worst function: {gaps}."
    return Quantity(measure, cheap, f"MCal_{q}", CLASSES[against], meaning, "definition of multicalibration")


def _plain(q: int) -> Quantity:
    gaps = {1: "sum of absolute gaps", 2: "sum of squared gaps, weighted by rows"}[q]
    meaning = f"Plain calibration, blind to features and groups: {gaps}."
    return Quantity(
        lambda s, r: errors.cal(s.n, r.A, q), True, f"Cal_{q}", "constant", meaning, "definition of calibration"
    )


def _swapped(q: int) -> dict[tuple[str, int, str], Quantity]:
    measures: dict[str, Measure] = {
        "linear": lambda s, r: errors.smcal_linear(s.n, r.g, q),
        "groups": lambda s, r: errors.smcal_groups(s.n, r.S, q),
        "affine": lambda s, r: errors.smcal_affine(s.n, r.A, r.g, q),
    }
    return {("smcal", q, c): _accusation(c, True, measure, q, swap=True) for c, measure in measures.items()}


def _pooled(q: int) -> dict[tuple[str, int, str], Quantity]:
    linear = errors.mcal2_linear_total if q == 2 else lambda n, g: errors.mcal1_linear(n, g).lower
    affine = errors.mcal2_affine if q == 2 else errors.mcal1_affine
    measures: dict[str, tuple[bool, Measure]] = {
        "linear": (q == 2, lambda s, r: linear(s.n, r.g)),
        "groups": (True, lambda s, r: errors.mcal_groups(s.n, r.S, q)[0]),
        "affine": (False, lambda s, r: affine(s.n, r.A, r.g)[0]),
    }
    return {("mcal", q, c): _accusation(c, *measure, q, swap=False) for c, measure in measures.items()}


QUANTITIES: dict[tuple[str, int, str], Quantity] = {
    **_swapped(2),
    **_swapped(1),
    ("sreg", 2, "linear4"): Quantity(
        lambda s, r: errors.swap_regret(s.v, r.g, s.G)[0].sum(axis=-1),
        False,
        "SReg",
        CLASSES["linear4"],
        "Squared loss a separate linear correction of every level would have saved.",
        "definition of contextual swap regret",
    ),
    ("somni", 1, "affine"): Quantity(
        lambda s, r: errors.somni_levels(s.v, r.A, r.g).sum(axis=-1),
        True,
        "SOmni",
        CLASSES["affine"],
        "Most that any decision maker with a convex loss could have saved by a separate rule for every level.",
        "definition of swap omniprediction",
    ),
    **_pooled(2),
    **_pooled(1),
    ("cal", 2, "constant"): _plain(2),
    ("cal", 1, "constant"): _plain(1),
}
