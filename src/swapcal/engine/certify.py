"""Certifying: exact errors, a data-dependent bound and the theorem, from a forecaster's memory."""

import numpy as np

from swapcal import bounds, errors
from swapcal.arrays import Array, Integers
from swapcal.engine import state as memory
from swapcal.engine.certificate import Certificate
from swapcal.kernels.state import (
    FLOOR,
    GAP,
    KAPPA,
    LATE,
    REACH,
    RECENT_COORDINATES,
    RECENT_GAP,
    RIDGE,
    START,
    STEP,
    UPDATES,
    WINDOW,
    Memory,
)

NEWTON = ("ons", "ons-fast")


def certify(state: Memory, dim: int, learner: str, *, uniform: bool, adaptive: bool) -> Certificate:
    """Return the certificate of the present state.

    The learners' part of the bound is their realised excess R_v = Σα(w_issued - y)² - min_θ[Σα(⟨θ,x⟩ - y)² +
    λ‖θ - θ_0‖²], which is exact however late labels come and whoever issued the wishes. Online Newton Step has a bound
    with a prior of its own weight besides, which needs every wish to be its learner's at the time of learning; while
    that held, the smaller sum is reported. (For ridge and VAW that other bound is never smaller than R_v.)
    """
    slots = memory.slots_in_order(state)
    at = memory.places(dim, float(state.knobs[WINDOW]))
    n, g = state.mass[slots], state.residual[np.ix_(slots, at)]
    ridge, late = float(state.knobs[RIDGE]), int(state.counts[LATE])
    per_level = np.array([_level_terms(state, slot, dim, ridge) for slot in slots])
    gain, excess, distance2, tight = per_level.sum(axis=0).tolist()
    parts = [(excess, ridge * distance2)]
    if late == 0 and learner in NEWTON:
        weight = 0.5 * float(state.knobs[STEP]) * float(state.knobs[START])
        parts.append((float(np.sum(state.potential[slots])), weight * distance2))
    learning, prior = min(parts, key=sum)
    bound = float(state.totals[GAP]) + learning + prior
    theorem, theorem_psmcal = None, None
    if late == 0:
        theorem, theorem_psmcal = (
            _theorem(state, dim, learner, target, uniform=uniform, adaptive=adaptive) for target in ("sreg", "smcal")
        )
    return Certificate(
        psmcal_1=errors.smcal_linear(n, g, 1),
        psmcal_2=errors.smcal_linear(n, g, 2),
        psreg=gain,
        bound=bound,
        theorem=theorem,
        theorem_psmcal=theorem_psmcal,
        rounding=float(state.totals[GAP]),
        learning=learning,
        prior=prior,
        rounds=int(state.counts[UPDATES]),
        late=late,
        levels=len(slots),
        dim=dim,
        tight=min(bound, float(state.totals[GAP]) + tight),
    )


def certify_recent(state: Memory, dim: int) -> Certificate:
    """Return the certificate of the sums with a short memory.

    With α_t γ^{T-t} for α_t, everything that `certify` says of the realised excess holds as it stands: no property of
    the learners is used. `bounds.discounted_psreg` is about learners that fade as the sums do; the levels' do not.
    """
    slots, ridge, window = memory.slots_in_order(state), float(state.knobs[RIDGE]), float(state.knobs[WINDOW])
    inner, at = dim + RECENT_COORDINATES, memory.places(dim, window)
    sums = [memory.recent_sums(state, slot, inner) for slot in slots]
    n, g = np.array([s.mass for s in sums]), np.array([s.residual[at] for s in sums])
    seen = n > FADED
    prior = state.recent_prior[1, :inner]
    terms = [_terms(state.z[slot], *s, prior, at, ridge) for slot, s in zip(slots, sums, strict=True) if s.mass > FADED]
    gain, learning, distance2, tight = np.array(terms).reshape(-1, 4).sum(axis=0).tolist()
    gap = float(state.totals[RECENT_GAP])
    bound = gap + learning + ridge * distance2
    return Certificate(
        psmcal_1=errors.smcal_linear(n[seen], g[seen], 1),
        psmcal_2=errors.smcal_linear(n[seen], g[seen], 2),
        psreg=gain,
        bound=bound,
        theorem=None,
        theorem_psmcal=None,
        rounding=gap,
        learning=learning,
        prior=ridge * distance2,
        rounds=int(state.counts[UPDATES]),
        late=int(state.counts[LATE]),
        levels=len(slots),
        dim=dim,
        window=window,
        tight=min(bound, gap + tight),
    )


def _level_terms(state: Memory, slot: int, dim: int, ridge: float) -> tuple[float, float, float, float]:
    """Return one level's swap regret, realised excess R_v, ‖θ_v - θ_0‖² and tight bound; θ_v attains the regret."""
    if state.mass[slot] == 0.0:
        return 0.0, 0.0, 0.0, 0.0
    window = float(state.knobs[WINDOW])
    inner, at = dim + (RECENT_COORDINATES if window else 0), memory.places(dim, window)
    G, g = memory.gram(state, slot, inner), state.residual[slot, :inner]
    return _terms(state.z[slot], G, g, float(state.excess[slot]), state.prior[slot, :inner], at, ridge)


def _terms(
    v: float, G: Array, g: Array, excess: float, prior: Array, at: Integers, ridge: float
) -> tuple[float, float, float, float]:
    """Return swap regret, realised excess, ‖θ_v - θ_0‖² and tight bound of sums over a learner's coordinates.

    Comparators see only the coordinates `at`. Few rows leave many comparators equally good. The one nearest to θ_0
    counts, the only one that does not hang on rounding: θ_v maximises the regret less ε‖θ - θ_0‖², and εB² is added for
    what that may miss.
    """
    level, own, seen, gram = np.array([v]), prior[None, at], g[None, at], G[None, at[:, None], at]
    gain, _ = errors.swap_regret(level, seen, gram)
    away = own.copy()
    away[:, 0] -= 2.0 * v
    near = NEARNESS * min(1.0, ridge)
    _, comparator = errors.swap_regret(level, seen + near * away, gram + near * np.eye(len(at)))
    penalised, _ = errors.ridge_regret(level, g[None], G[None], ridge, prior[None])
    missed = PAID * float(np.linalg.norm(prior) + MOST_COMPARATOR) ** 2
    elsewhere = float(np.sum(prior**2) - np.sum(own**2))
    distance2 = float(np.sum((comparator - own) ** 2)) + elsewhere + missed
    tight = excess + _saved_near(v, G, g, prior, distance2)
    return float(gain[0]), excess + float(penalised[0]), distance2, tight + missed * min(1.0, ridge)


def _saved_near(v: float, G: Array, g: Array, start: Array, distance2: float) -> float:
    """Bound what any rule within `distance2` of the start saves over the level's own value."""
    away = start.copy()
    away[0] -= 2.0 * v
    pushed = G @ away
    values, basis = np.linalg.eigh(G)
    at_start = float(2.0 * g @ away - away @ pushed)
    return at_start + float(bounds.ball_regret(values, (g - pushed) @ basis, distance2))


# What has faded to this is nothing, and its residuals are rounding.
FADED = 1e-9
# Weight of the pull towards θ_0, what is paid for it per λ (or per Online Newton Step's βω/2 ≥ 0.01), and the largest
# norm of a comparator in 2Θ_1.
NEARNESS, PAID = 1e-8, 1e-6
MOST_COMPARATOR = 4.0

# How far comparators reach along the constant and along the rest, and whether they are centred on the level's own
# value: 2Θ_1 around 0 for swap regret, 2v e_1 + Θ_1 for multicalibration.
_REACH = {"sreg": (4.0, 4.0 / np.sqrt(3.0), 0.0), "smcal": (2.0, 2.0 / np.sqrt(3.0), 1.0)}


def _distance2(state: Memory, dim: int, target: str) -> float:
    """Return B² of fixed levels, the largest ‖θ - θ_0‖² over levels and comparators; attained at an extreme point."""
    first, rest, centred = _REACH[target]
    slots, at = memory.slots_in_order(state), memory.places(dim, float(state.knobs[WINDOW]))
    prior = state.prior[slots].copy()
    elsewhere = np.sum(np.delete(prior, at, axis=1) ** 2, axis=1)
    prior = prior[:, at]
    prior[:, 0] -= centred * 2.0 * state.z[slots]
    head, tail = np.abs(prior[:, 0]), np.linalg.norm(prior[:, 1:], axis=1)
    farthest = np.maximum((first + head) ** 2 + tail**2, head**2 + (rest + tail) ** 2)
    return float(np.max(farthest + elsewhere))


def _theorem(state: Memory, dim: int, learner: str, target: str, *, uniform: bool, adaptive: bool) -> float:
    """Return the worst-case bound on pseudo swap regret for the levels this forecaster plays on.

    Every number in it was known before the first label: T, d, λ, κ, the first levels and the prior. With a window the
    learners' contexts have two more coordinates, each in [-½, ½]; over their largest norm they are contexts again,
    under λ over its square.
    """
    rounds = max(int(state.counts[UPDATES]), 1)
    ridge, kappa, floor, reach = (float(state.knobs[knob]) for knob in (RIDGE, KAPPA, FLOOR, REACH))
    norm2, inner = 1.0, dim
    if state.knobs[WINDOW]:
        norm2, inner = 1.0 + RECENT_COORDINATES / 4.0, dim + RECENT_COORDINATES
    ridge /= norm2
    if adaptive:
        distance2 = norm2 * bounds.adaptive_distance2(target, reach)
        return float(bounds.adaptive_psreg(rounds, inner, kappa, ridge, distance2, learner=learner, floor=floor))
    slots, distance2 = memory.slots_in_order(state), norm2 * _distance2(state, dim, target)
    if uniform:
        return float(bounds.psreg(rounds, inner, len(slots) - 1, learner=learner, ridge=ridge, distance2=distance2))
    points = state.z[slots].tolist()
    return float(bounds.psreg_grid(points, rounds, inner, learner=learner, ridge=ridge, distance2=distance2))
