"""Online to batch: errors of the uniform mixture of the T forecasters, declared rates and sample sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log, sqrt
from types import MappingProxyType

from swapcal.bounds.bound import (
    Bound,
    rate,
    require_choice,
    require_dim,
    require_horizon,
    require_levels,
    require_nonnegative,
    require_positive,
    require_probability,
    resolve_levels,
)
from swapcal.bounds.online import (
    paper_psreg,
    paper_smcal1,
    paper_smcal2,
    paper_somni,
    paper_sreg,
    psreg,
    smcal1,
    smcal2,
    somni,
    sreg,
)
from swapcal.bounds.realised import log_cover_size, variance_scales

__all__ = [
    "RATES",
    "SYSTEMS",
    "THEOREMS",
    "action_deviation",
    "dsmcal1",
    "dsmcal2",
    "dsomni",
    "paper_action_deviation",
    "paper_comparator_deviation",
    "paper_comparator_deviation_linear",
    "paper_dsmcal1",
    "paper_dsmcal2",
    "paper_dsomni",
    "paper_saerr",
    "paper_squared_deviation",
    "paper_squared_deviation_linear",
    "population_from_psreg",
    "saerr",
    "sample_complexity",
]

# Online to batch: errors of the uniform mixture of the T online forecasters under the sampling distribution.
#
# All errors are averages, at most 1 or 2, and pool each level over (x, y) and the mixture before any square.
# Functions named ``paper_*`` follow the paper's route (deviation between batch and online errors); the
# others go from the pseudo swap regret to the population in one step.


def paper_action_deviation(horizon: float, levels: int, delta: float) -> Bound:
    """Deviation T_1 of the learners' own losses, via V-shaped losses: O(T/N + √(NT ln(N/δ))).

    4T/N + 9√((N+1)TL) + 5(N+1)L with L = ln(2K(N+1)²/δ), K = ``variance_scales(T)``: the constants 9/2 and
    5/2 of the paper's proof, doubled because the V-shaped weights integrate to at most 2. The mixture
    omits an affine term in y, but the value also exceeds `action_deviation`, which is proved without it.

    Examples
    --------
    >>> float(action_deviation(10**6, 50, 0.01)) < float(paper_action_deviation(10**6, 50, 0.01))
    True
    """
    depth = _depth(horizon, levels, delta, events=2 * (levels + 1))
    count = levels + 1
    value = 4 * horizon / levels + 9 * sqrt(count * horizon * depth) + 5 * count * depth
    return Bound(value, None, "Lemma 8 (deviation of the learners' losses), constants ours", levels=levels)


def action_deviation(horizon: float, levels: int, delta: float) -> Bound:
    """Deviation T_1 without discretisation error: 3√(2(N+1)TL) + 4(N+1)L, L = ln(4K(N+1)/δ).

    *Proof.* The supremum is taken level by level, and on a fixed level v the loss ℓ(k_ℓ(v), y) is a
    function of y alone: (1 − y)a + yb with |a|, |b| ≤ 1. So T_1 is at most the sum over levels and labels
    of the deviations of the counts 1[p_t(x_t) = v, y_t = y], each at most 3√(nL) + 2L
    (`freedman_uniform`); use Cauchy–Schwarz.

    Examples
    --------
    >>> float(action_deviation(10**4, 10, 0.05)) > 0
    True
    """
    depth = _depth(horizon, levels, delta, events=4)
    count = levels + 1
    value = 3 * sqrt(2 * count * horizon * depth) + 4 * count * depth
    return Bound(value, None, "ours: deviation of the learners' losses", levels=levels)


def paper_comparator_deviation(horizon: float, levels: int, log_size: float, delta: float) -> Bound:
    """Deviation T_2 of the comparators' losses, finite class in [0, 1]: O(T/N + √(NT ln(N|F|/δ))).

    T/N + 12√(2(N+1)TL) + 16(N+1)L with L = ln(4K(N+1)²|F|/δ). The paper's basis of L^cvx has an
    unpublished constant; the hinge basis (`convex_basis_size` at ε = 1/(2N)) has N + 1 members and
    coefficient norm 4, which costs only a logarithm.

    Examples
    --------
    >>> float(paper_comparator_deviation(10**6, 50, 0.0, 0.01)) > 10**6 / 50
    True
    """
    require_nonnegative("log_size", log_size)
    depth = _depth(horizon, levels, delta, events=4 * (levels + 1)) + log_size
    count = levels + 1
    value = horizon / levels + 12 * sqrt(2 * count * horizon * depth) + 16 * count * depth
    return Bound(value, None, "Lemma 10 (deviation of the comparators), constants ours", levels=levels)


def paper_comparator_deviation_linear(horizon: float, levels: int, dim: int, delta: float) -> Bound:
    """Deviation T_2 for F_res^aff: O(T/N + √(dNT ln(N/δ))), from a 1/N-cover of (1 + N)^d members.

    Examples
    --------
    >>> bound = paper_comparator_deviation_linear(10**6, 50, 3, 0.01)
    >>> float(bound) > float(paper_comparator_deviation(10**6, 50, 0.0, 0.01))
    True
    """
    require_levels(levels)
    cover = float(log_cover_size(dim, 1 / levels, radius=0.5))
    value = float(paper_comparator_deviation(horizon, levels, cover, delta)) + 2 * horizon / levels
    return Bound(value, None, "Lemma 11 (deviation, affine comparators), constants ours", levels=levels)


def paper_dsomni(horizon: float, dim: int, delta: float = 0.05, levels: int | None = None) -> Bound:
    """DSOmni over L^cvx × F_res^aff by the paper's route: Õ((d/T)^{1/3}), so Õ(d ε⁻³) samples.

    (T_1 + T_2 + SOmni)/T, each at failure probability δ/3.

    Examples
    --------
    >>> paper_dsomni(10**6, 5).exponent == -1 / 3
    True
    """
    n = resolve_levels(levels, horizon, dim, "batch-omni")
    require_probability("delta", delta)
    value = (
        float(paper_action_deviation(horizon, n, delta / 3))
        + float(paper_comparator_deviation_linear(horizon, n, dim, delta / 3))
        + float(paper_somni(horizon, dim, delta / 3, n))
    )
    citation = "Theorem 4 (batch swap omniprediction), constants ours"
    return Bound(value / horizon, rate(-1 / 3, levels), citation, levels=n)


def paper_squared_deviation(horizon: float, levels: int, log_size: float, delta: float, reach: float = 1.0) -> Bound:
    """Deviation Δ between swap agnostic error and swap regret per round, finite class |f| ≤ reach.

    [3B√((N+1)TL) + 2(B + 1)(N+1)L]/T with B = (1 + reach)² and L = ln(2K(N+1)|F|/δ).

    Examples
    --------
    >>> float(paper_squared_deviation(10**8, 20, 0.0, 0.01)) < 0.03
    True
    """
    require_nonnegative("log_size", log_size)
    depth = _depth(horizon, levels, delta, events=2) + log_size
    spread, count = (1 + reach) ** 2, levels + 1
    total = 3 * spread * sqrt(count * horizon * depth) + 2 * (spread + 1) * count * depth
    return Bound(total / horizon, None, "Lemma 12 (swap agnostic deviation), constants ours", levels=levels)


def paper_squared_deviation_linear(horizon: float, levels: int, dim: int, delta: float) -> Bound:
    """Deviation Δ for F_4^lin: O(1/N² + √(dN/T · ln(N/δ))), from a 1/N²-cover, which costs 12/N².

    Examples
    --------
    >>> float(paper_squared_deviation_linear(10**8, 20, 3, 0.01)) > 12 / 400
    True
    """
    require_levels(levels)
    cover = float(log_cover_size(dim, levels**-2, radius=2.0))
    finite = paper_squared_deviation(horizon, levels, cover, delta, reach=2.0)
    value = float(finite) + 12 / levels**2
    return Bound(value, None, "Lemma 13 (swap agnostic deviation, linear), constants ours", levels=levels)


def paper_saerr(horizon: float, dim: int, delta: float = 0.05, levels: int | None = None) -> Bound:
    """SAErr against F_4^lin by the paper's route: Õ((d/T)^{2/5}), so Õ(d ε^{−2.5}) samples.

    Δ + SReg/T, each at failure probability δ/2.

    Examples
    --------
    >>> paper_saerr(10**6, 5).exponent
    -0.4
    """
    n = resolve_levels(levels, horizon, dim, "batch-agnostic")
    require_probability("delta", delta)
    deviation = float(paper_squared_deviation_linear(horizon, n, dim, delta / 2))
    value = deviation + float(paper_sreg(horizon, dim, delta / 2, n)) / horizon
    citation = "Theorem 5 (swap agnostic learning), constants ours"
    return Bound(value, rate(-2 / 5, levels), citation, levels=n)


def paper_dsmcal2(horizon: float, dim: int, delta: float = 0.05, levels: int | None = None) -> Bound:
    """DSMCal_2 against F_1^lin by the paper's route, at most SAErr: Õ((d/T)^{2/5}).

    Examples
    --------
    >>> float(paper_dsmcal2(10**6, 5)) == float(paper_saerr(10**6, 5))
    True
    """
    error = paper_saerr(horizon, dim, delta, levels)
    citation = "Theorem 6 (batch ℓ2 swap multicalibration), constants ours"
    return Bound(float(error), error.exponent, citation, levels=error.levels)


def paper_dsmcal1(horizon: float, dim: int, delta: float = 0.05, levels: int | None = None) -> Bound:
    """DSMCal_1 against F_1^lin by the paper's route, at most √DSMCal_2: Õ((d/T)^{1/5}), so Õ(d ε⁻⁵) samples.

    Examples
    --------
    >>> paper_dsmcal1(10**6, 5).exponent
    -0.2
    """
    square = paper_dsmcal2(horizon, dim, delta, levels)
    citation = "Theorem 6 (batch ℓ1 swap multicalibration), constants ours"
    return Bound(sqrt(float(square)), rate(-1 / 5, levels), citation, levels=square.levels)


def population_from_psreg(
    psreg: float, horizon: float, levels: int, log_size: float, delta: float, target: str = "sreg"
) -> Bound:
    """Bound the mixture's swap agnostic error by [2·PSReg + c(N+1)L]/T, L = ln(2(N+1)|C|/δ), w.p. 1 − δ.

    c = 64 for a convex class |f| ≤ 2 (``target="sreg"``; add 18ε for an ε-cover), c = 36 for v + F_1
    (``target="smcal"``; add 10ε), where the left side also bounds DSMCal_2.

    *Proof.* On level v let f maximise the population regret r(f) = Σ_t E[P_t(x)(v)((v − y)² − (f(x) −
    y)²)] over a convex class containing v. First-order optimality under that measure gives r(f) ≥ Q, the
    same sum of (v − f)². The pseudo regret on the sample has conditional mean r, terms at most 9 (3),
    deviations at most 10 (4), and squares at most 16(v − f)² (9(v − f)²). Freedman with μ = 1/32 (1/18)
    gives r ≤ r̂ + Q/2 + 32L (18L), so r ≤ 2r̂ + 64L (36L). No draw of p_t enters.

    Examples
    --------
    >>> float(population_from_psreg(100.0, 10**6, 20, 0.0, 0.05)) < 0.02
    True
    """
    require_horizon(horizon)
    require_levels(levels)
    require_nonnegative("psreg", psreg)
    require_nonnegative("log_size", log_size)
    require_probability("delta", delta)
    require_choice("target", target, ("sreg", "smcal"))
    depth = log(2 * (levels + 1) / delta) + log_size
    total = 2 * psreg + (64 if target == "sreg" else 36) * (levels + 1) * depth
    return Bound(total / horizon, None, "ours: population from pseudo swap regret", levels=levels)


def saerr(
    horizon: float,
    dim: int,
    delta: float = 0.05,
    levels: int | None = None,
    *,
    ridge: float = 1.0,
    distance2: float = 36.0,
) -> Bound:
    """SAErr against F_4^lin of ridge × hedge: Õ(T^{−2/3}), so Õ(ε^{−1.5}) samples (the paper: ε^{−2.5}).

    Examples
    --------
    >>> saerr(10**6, 5).exponent == -2 / 3
    True
    """
    n = resolve_levels(levels, horizon, dim, "smcal")
    pseudo = float(psreg(horizon, dim, n, ridge=ridge, distance2=distance2))
    cover = float(log_cover_size(dim, 1 / horizon, radius=2.0))
    value = float(population_from_psreg(pseudo, horizon, n, cover, delta)) + 18 / horizon
    return Bound(value, rate(-2 / 3, levels), "ours: swap agnostic learning", levels=n)


def dsmcal2(
    horizon: float,
    dim: int,
    delta: float = 0.05,
    levels: int | None = None,
    *,
    ridge: float = 1.0,
    distance2: float = 4.0,
) -> Bound:
    """DSMCal_2 against F_1^lin of ridge × hedge: Õ(T^{−2/3}), so Õ(ε^{−1.5}) samples.

    Examples
    --------
    >>> float(dsmcal2(10**6, 5)) < float(saerr(10**6, 5)) < float(paper_saerr(10**6, 5))
    True
    """
    n = resolve_levels(levels, horizon, dim, "smcal")
    pseudo = float(psreg(horizon, dim, n, ridge=ridge, distance2=distance2))
    cover = float(log_cover_size(dim, 1 / horizon))
    value = float(population_from_psreg(pseudo, horizon, n, cover, delta, "smcal")) + 10 / horizon
    return Bound(value, rate(-2 / 3, levels), "ours: batch ℓ2 swap multicalibration", levels=n)


def dsmcal1(
    horizon: float,
    dim: int,
    delta: float = 0.05,
    levels: int | None = None,
    *,
    ridge: float = 1.0,
    distance2: float = 4.0,
) -> Bound:
    """DSMCal_1 against F_1^lin of ridge × hedge, at most √DSMCal_2: Õ(T^{−1/3}), so Õ(ε⁻³) samples.

    Examples
    --------
    >>> dsmcal1(10**6, 5).exponent == -1 / 3
    True
    """
    square = dsmcal2(horizon, dim, delta, levels, ridge=ridge, distance2=distance2)
    citation = "ours: batch ℓ1 swap multicalibration"
    return Bound(sqrt(float(square)), rate(-1 / 3, levels), citation, levels=square.levels)


def dsomni(
    horizon: float,
    dim: int,
    delta: float = 0.05,
    levels: int | None = None,
    *,
    ridge: float = 1.0,
    distance2: float = 4.0,
) -> Bound:
    """DSOmni over L^cvx × F_res^aff of ridge × hedge: at most 2·DSMCal_1, so Õ(ε⁻³) samples.

    The exact formula behind `somni_from_smcal1` holds under any measure, so no basis of losses is needed.

    Examples
    --------
    >>> float(dsomni(10**6, 5)) < float(paper_dsomni(10**6, 5))
    True
    """
    first = dsmcal1(horizon, dim, delta, levels, ridge=ridge, distance2=distance2)
    return Bound(2 * float(first), first.exponent, "ours: batch swap omniprediction", levels=first.levels)


def _depth(horizon: float, levels: int, delta: float, events: int) -> float:
    """Return ln(events·K·(N+1)/δ), the union bound over levels, dyadic scales and further events."""
    require_levels(levels)
    require_probability("delta", delta)
    return log(events * variance_scales(horizon) * (levels + 1) / delta)


# Declared rates, the theorems that declare them, and the sample sizes they need.

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
        Largest error allowed.
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
    samples = first_below(lambda horizon: float(theorem(horizon, dim, delta)), epsilon)
    citation = f"samples for {theorem(samples, dim, delta).citation}"
    return Bound(samples, round(1 / RATES[key], 6), citation)


def first_below(error: Callable[[float], float], epsilon: float) -> float:
    """Return a T with error(T) ≤ ε, within 0.1 % of the last T found to fail."""
    high = 2.0
    while error(high) > epsilon:
        high *= 2
    low = high / 2
    while high / low > 1.001 and high - low > 1:
        middle = float(round((low + high) / 2))
        low, high = (low, middle) if error(middle) <= epsilon else (middle, high)
    return high
