"""Declared rates, the theorems that declare them, and the samples they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from swapcal.bounds.batch import (
    dsmcal1,
    dsmcal2,
    dsomni,
    paper_dsmcal1,
    paper_dsmcal2,
    paper_dsomni,
    paper_saerr,
    saerr,
)
from swapcal.bounds.bound import Bound, require_choice, require_dim, require_positive, require_probability
from swapcal.bounds.online import (
    paper_smcal1,
    paper_smcal2,
    paper_somni,
    paper_sreg,
    smcal1,
    smcal2,
    somni,
    sreg,
)
from swapcal.bounds.pseudo import paper_psreg, psreg

__all__ = ["RATES", "SYSTEMS", "THEOREMS", "sample_complexity"]

SYSTEMS = ("paper", "ours", "previous")

_ROWS: dict[str, tuple[float, float, float]] = {
    "PSReg": (1 / 3, 1 / 3, 3 / 4),
    "PSMCal_2": (1 / 3, 1 / 3, 3 / 4),
    "SMCal_2": (1 / 3, 1 / 3, 3 / 4),
    "SMCal_1": (2 / 3, 2 / 3, 7 / 8),
    "SOmni": (2 / 3, 2 / 3, 7 / 8),
    "SReg": (3 / 5, 1 / 3, 3 / 4),
    "SAErr": (-2 / 5, -2 / 3, -1 / 5),
    "DSMCal_2": (-2 / 5, -2 / 3, -1 / 5),
    "DSMCal_1": (-1 / 5, -1 / 3, -1 / 10),
    "DSOmni": (-1 / 3, -1 / 3, -1 / 10),
}

RATES: Mapping[tuple[str, str], float] = MappingProxyType(
    {
        (quantity, system): exponent
        for quantity, row in _ROWS.items()
        for system, exponent in zip(SYSTEMS, row, strict=True)
    }
)
"""Exponent of T in the upper bound on a quantity: (quantity, system) → exponent, logarithms ignored."""

THEOREMS: Mapping[tuple[str, str], Callable[[float, int, float], Bound]] = MappingProxyType(
    {
        ("PSReg", "paper"): lambda horizon, dim, delta: paper_psreg(horizon, dim),
        ("PSReg", "ours"): lambda horizon, dim, delta: psreg(horizon, dim),
        ("PSMCal_2", "paper"): lambda horizon, dim, delta: paper_psreg(horizon, dim),
        ("PSMCal_2", "ours"): lambda horizon, dim, delta: psreg(horizon, dim, distance2=4.0),
        ("SMCal_2", "paper"): paper_smcal2,
        ("SMCal_2", "ours"): smcal2,
        ("SMCal_1", "paper"): paper_smcal1,
        ("SMCal_1", "ours"): smcal1,
        ("SOmni", "paper"): paper_somni,
        ("SOmni", "ours"): somni,
        ("SReg", "paper"): paper_sreg,
        ("SReg", "ours"): sreg,
        ("SAErr", "paper"): paper_saerr,
        ("SAErr", "ours"): saerr,
        ("DSMCal_2", "paper"): paper_dsmcal2,
        ("DSMCal_2", "ours"): dsmcal2,
        ("DSMCal_1", "paper"): paper_dsmcal1,
        ("DSMCal_1", "ours"): dsmcal1,
        ("DSOmni", "paper"): paper_dsomni,
        ("DSOmni", "ours"): dsomni,
    }
)
"""The bound behind each rate, as a function of (horizon, dim, delta); pseudo errors ignore delta."""

_BATCH = {"agnostic": "SAErr", "smcal-2": "DSMCal_2", "smcal-1": "DSMCal_1", "omni": "DSOmni"}


def sample_complexity(
    epsilon: float, dim: int, target: str = "omni", delta: float = 0.05, system: str = "ours"
) -> Bound:
    """Count the samples after which the batch theorem guarantees an error of at most ε, w.p. 1 − δ.

    The value is a T at which the explicit bound is at most ε, found by doubling and bisection; `exponent` is
    the power of ε: paper −3 (omni), −2.5 (agnostic, smcal-2), −5 (smcal-1); ours −3, −1.5, −1.5, −3. The
    constants are worst case: far fewer samples do in practice.

    Parameters
    ----------
    epsilon
        Error wanted.
    dim
        Dimension d.
    target
        ``"omni"`` (DSOmni), ``"agnostic"`` (SAErr), ``"smcal-2"`` or ``"smcal-1"``.
    delta
        Failure probability.
    system
        ``"ours"`` or ``"paper"``.

    Examples
    --------
    >>> ours, paper = (sample_complexity(0.1, 5, "agnostic", system=who) for who in ("ours", "paper"))
    >>> ours.exponent, paper.exponent, float(ours) < float(paper)
    (-1.5, -2.5, True)
    """
    require_positive("epsilon", epsilon)
    require_dim(dim)
    require_probability("delta", delta)
    require_choice("target", target, _BATCH)
    require_choice("system", system, ("ours", "paper"))
    key = (_BATCH[target], system)
    theorem = THEOREMS[key]
    samples = _first_below(lambda horizon: float(theorem(horizon, dim, delta)), epsilon)
    citation = f"samples for {theorem(samples, dim, delta).citation}"
    return Bound(samples, round(1 / RATES[key], 6), citation)


def _first_below(error: Callable[[float], float], epsilon: float) -> float:
    """Return a T with error(T) ≤ ε, within 0.1 % of the last T found to fail."""
    high = 2.0
    while error(high) > epsilon:
        high *= 2
    low = high / 2
    while high / low > 1.001 and high - low > 1:
        middle = float(round((low + high) / 2))
        low, high = (low, middle) if error(middle) <= epsilon else (middle, high)
    return high
