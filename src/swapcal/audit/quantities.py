"""The catalogue of quantities: how each is computed from residuals, and what it means in plain words."""

from typing import Literal, NamedTuple

from swapcal.audit import scene as measures
from swapcal.audit.scene import Measure

Against = Literal["linear", "linear4", "affine", "groups"]

CLASSES: dict[str, str] = {
    "linear": "F_1^lin",
    "linear4": "F_4^lin",
    "affine": "F_res^aff",
    "groups": "groups",
    "constant": "constant",
}
"""How each class is written in the theorems."""


class Quantity(NamedTuple):
    """One error: its measure, whether it is cheap to simulate, its symbol, its class and its meaning."""

    measure: Measure
    cheap: bool
    symbol: str
    against: str
    meaning: str
    citation: str


SWAP = "Each level of prediction accused by its own worst function: {}."
ONE = "All levels accused by one worst function: {}."

QUANTITIES: dict[tuple[str, int, str], Quantity] = {}


def _enter(
    name: str, q: int, against: str, measure: Measure, cheap: bool, symbol: str, meaning: str, citation: str
) -> None:
    QUANTITIES[name, q, against] = Quantity(measure, cheap, symbol, CLASSES[against], meaning, citation)


_SUM = {1: "sum of absolute gaps", 2: "sum of squared gaps, weighted by rows"}
_DEFINITION = "definition of swap multicalibration"

for _q in (2, 1):
    _enter(
        "smcal",
        _q,
        "linear",
        measures.smcal_linear(_q),
        True,
        f"SMCal_{_q}",
        SWAP.format(_SUM[_q]),
        _DEFINITION,
    )
    _enter(
        "smcal",
        _q,
        "groups",
        measures.smcal_groups(_q),
        True,
        f"SMCal_{_q}",
        SWAP.format(_SUM[_q]),
        _DEFINITION,
    )
    _enter(
        "smcal",
        _q,
        "affine",
        measures.smcal_affine(_q),
        True,
        f"SMCal_{_q}",
        SWAP.format(_SUM[_q]),
        _DEFINITION,
    )
_enter(
    "sreg",
    2,
    "linear4",
    measures.sreg,
    False,
    "SReg",
    "Squared loss a separate linear correction of every level would have saved.",
    "definition of contextual swap regret",
)
_enter(
    "somni",
    1,
    "affine",
    measures.somni,
    True,
    "SOmni",
    "Most that any decision maker with a convex loss could have saved by a separate rule for every level.",
    "definition of swap omniprediction",
)
_DEFINITION_ONE = "definition of multicalibration"
_enter("mcal", 2, "linear", measures.mcal2_linear, True, "MCal_2", ONE.format(_SUM[2]), _DEFINITION_ONE)
_enter("mcal", 1, "linear", measures.mcal1_linear, False, "MCal_1", ONE.format(_SUM[1]), _DEFINITION_ONE)
for _q in (2, 1):
    _enter(
        "mcal",
        _q,
        "groups",
        measures.mcal_groups(_q),
        True,
        f"MCal_{_q}",
        ONE.format(_SUM[_q]),
        _DEFINITION_ONE,
    )
_enter("mcal", 2, "affine", measures.mcal2_affine, False, "MCal_2", ONE.format(_SUM[2]), _DEFINITION_ONE)
_enter("mcal", 1, "affine", measures.mcal1_affine, False, "MCal_1", ONE.format(_SUM[1]), _DEFINITION_ONE)
for _q in (2, 1):
    _enter(
        "cal",
        _q,
        "constant",
        measures.cal(_q),
        True,
        f"Cal_{_q}",
        f"Plain calibration, blind to features and groups: {_SUM[_q]}.",
        "definition of calibration",
    )
