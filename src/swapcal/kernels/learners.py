"""What one level's learner does with a labelled context of weight α."""

import numpy as np

from swapcal.arrays import Array
from swapcal.kernels.jit import inlined, shared
from swapcal.kernels.linalg import absorb, add_outer, dot, project_ball
from swapcal.kernels.simd import row_axpy, row_dot
from swapcal.kernels.state import CODES_LEARNER, ONS_LEARNER, STEP, VAW_LEARNER, Memory, Scratch

# F_4^lin lies inside the ball of this radius (paper, Section 2.3).
ONS_RADIUS = 4.0


@shared
def clip(w: float) -> float:
    """Return w forced into [0, 1]."""
    return min(1.0, max(0.0, w))


@inlined
def pull_to_half(theta: Array, reach: float) -> None:
    """Project θ onto the ball of radius `reach` around e_1, the constant ½, in place."""
    theta[0] -= 1.0
    distance2 = dot(theta, theta)
    if distance2 > reach * reach:
        shrink = reach / np.sqrt(distance2)
        for i in range(theta.shape[0]):
            theta[i] *= shrink
    theta[0] += 1.0


@inlined
def step_ridge(state: Memory, slot: int, x: Array, y: float, alpha: float, scratch: Scratch) -> float:
    """Move θ to the new ridge solution; return αq/(1 + αq), the share of the loss that the bound charges."""
    r = row_dot(state.theta, slot, x)
    g = absorb(state.factor[slot], state.scale[slot], x, alpha, scratch.u)
    row_axpy(state.theta, slot, alpha * (y - r) / g, scratch.u)
    return (g - 1.0) / g


@inlined
def step_ons(state: Memory, slot: int, x: Array, y: float, alpha: float, scratch: Scratch) -> float:
    """Take one Online Newton Step on α(⟨θ,x⟩ - y)²; return ∇ᵀA⁻¹∇/(2β), the term of its regret bound.

    A ← A + ∇∇ᵀ and θ ← Π^A(θ - A⁻¹∇/β), with ∇ = 2α(⟨θ,x⟩ - y)x.
    """
    theta = state.theta[slot]
    beta = float(state.knobs[STEP])
    k = 2.0 * alpha * (row_dot(state.theta, slot, x) - y)
    add_outer(state.gram[slot], x, alpha)
    g = absorb(state.factor[slot], state.scale[slot], x, k * k, scratch.u)
    row_axpy(state.theta, slot, -k / (beta * g), scratch.u)
    if dot(theta, theta) > ONS_RADIUS * ONS_RADIUS:
        project_ball(theta, state.factor[slot], state.scale[slot], ONS_RADIUS, scratch.ball)
    return (g - 1.0) / g / (2.0 * beta)


@inlined
def learn_level(state: Memory, slot: int, x: Array, y: float, alpha: float, w: float, scratch: Scratch) -> None:
    """Enter (x, y) with weight α into a level's statistics and its learner; w is the wish issued at prediction."""
    if alpha <= 0.0:
        return
    z = state.z[slot]
    state.mass[slot] += alpha
    state.excess[slot] += alpha * (w - z) * (w + z - 2.0 * y)
    row_axpy(state.residual, slot, alpha * (y - z), x)
    learner = state.codes[CODES_LEARNER]
    if learner == ONS_LEARNER:
        state.potential[slot] += step_ons(state, slot, x, y, alpha, scratch)
    else:
        share = step_ridge(state, slot, x, y, alpha, scratch)
        miss = y - 0.5 if learner == VAW_LEARNER else y - w
        state.potential[slot] += alpha * miss * miss * share
