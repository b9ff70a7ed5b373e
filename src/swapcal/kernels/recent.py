"""Learners with a short memory: ridge regressions whose past fades by e^(-1/window) with every label.

What fades must not take the penalty with it, or directions that the data no longer visit would swing freely.
Coordinates get their λ back in turn, all of them once in a window, as if told once more where the learner started: the
regularised loss they minimise is Σ γ^(T-t) α (⟨θ,x⟩ - y)² + Σ_j f_j (θ_j - θ_0j)², λ/e² < f_j ≤ λ (see
`swapcal.bounds.discounted`).
"""

import numpy as np

from swapcal.arrays import Array
from swapcal.kernels.jit import inlined
from swapcal.kernels.linalg import absorb
from swapcal.kernels.simd import row_axpy, row_dot
from swapcal.kernels.state import RIDGE, UPDATES, WINDOW, Memory, Scratch

# After so many windows without a label nothing is left that double precision could tell from nothing.
FORGOTTEN = 36.0


@inlined
def observe(state: Memory, row: int, x: Array, y: float, alpha: float, scratch: Scratch) -> None:
    """Move a learner to its new solution with one more observation."""
    r = row_dot(state.recent, row, x)
    g = absorb(state.recent_factor[row], state.recent_scale[row], x, alpha, scratch.u)
    row_axpy(state.recent, row, alpha * (y - r) / g, scratch.u)


@inlined
def restart(state: Memory, row: int) -> None:
    """Let a learner start again."""
    prior, ridge = min(row, 1), state.knobs[RIDGE]
    for i in range(state.recent_factor.shape[1]):
        state.recent_factor[row, i] = 0.0
    for i in range(state.recent.shape[1]):
        state.recent[row, i] = state.recent_prior[prior, i]
        state.recent_scale[row, i] = 1.0 / ridge
        state.recent_pull[row, i] = ridge
    state.recent_excess[row] = 0.0


@inlined
def refill(state: Memory, row: int, coordinate: int, scratch: Scratch) -> None:
    """Pull a coordinate towards the learner's start with all of λ again."""
    scratch.unit[coordinate] = 1.0
    lacking = state.knobs[RIDGE] - state.recent_pull[row, coordinate]
    observe(state, row, scratch.unit, state.recent_prior[min(row, 1), coordinate], lacking, scratch)
    state.recent_pull[row, coordinate] = state.knobs[RIDGE]
    scratch.unit[coordinate] = 0.0


@inlined
def fade(state: Memory, row: int, scratch: Scratch) -> None:
    """Bring a learner up to date: let its past fade, and refill the coordinates whose turn has come meanwhile."""
    window, now, width = state.knobs[WINDOW], state.counts[UPDATES], state.recent.shape[1]
    before = state.recent_clock[row]
    state.recent_clock[row] = now
    if now - before > FORGOTTEN * window:
        restart(state, row)
    elif now > before:
        kept = np.exp((before - now) / window)
        for i in range(width):
            state.recent_scale[row, i] /= kept
            state.recent_pull[row, i] *= kept
        state.recent_excess[row] *= kept
        first, last = int(width * (before / window)), int(width * (now / window))
        for turn in range(max(first, last - width), last):
            refill(state, row, turn % width, scratch)


@inlined
def learn_recent(state: Memory, row: int, x: Array, y: float, alpha: float, scratch: Scratch) -> None:
    """Enter (x, y) with weight α into a learner with a short memory."""
    if alpha > 0.0:
        fade(state, row, scratch)
        observe(state, row, x, y, alpha, scratch)
