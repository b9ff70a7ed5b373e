"""Making, enlarging and unpacking the forecaster's arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapcal import bounds
from swapcal.arrays import Array
from swapcal.kernels.linalg import factor_size, padded, unpack
from swapcal.kernels.state import (
    BLUM_MANSOUR,
    CODES_LEARNER,
    CODES_MIXING,
    LEVELS,
    NEWBORN_REACH,
    ONS_LEARNER,
    RIDGE,
    START,
    T_SLOT_LOW,
    TICKET,
    Scratch,
    State,
)

PER_SLOT = State._fields[: State._fields.index("totals")]


def allocate(
    levels: Array, dim: int, slots: int, codes: list[int], knobs: list[float], seed: int, start: Array | None = None
) -> State:
    """Return the memory of a forecaster that has seen nothing; learners start from `start`, or the constant z.

    `knobs` are the first four; the others follow from λ, the dimension and the prior.
    """
    width, n = padded(dim), len(levels)
    gram = width * (width + 1) // 2 if codes[CODES_LEARNER] == ONS_LEARNER else 0
    z = np.zeros(slots)
    z[:n] = levels
    prior = np.zeros((slots, width))
    prior[:n, 0] = 2.0 * levels
    if start is not None:
        prior[:n, :dim] = start
    return State(
        z=z,
        order=np.arange(slots),
        right=np.where(np.arange(slots) < n - 1, np.arange(slots) + 1, -1),
        theta=prior.copy(),
        prior=prior,
        factor=np.zeros((slots, factor_size(dim))),
        scale=np.full((slots, width), 1.0 / knobs[START]),
        residual=np.zeros((slots, width)),
        gram=np.zeros((slots, gram)),
        mass=np.zeros(slots),
        excess=np.zeros(slots),
        potential=np.zeros(slots),
        slack=np.zeros(slots),
        totals=np.zeros(1),
        counts=np.array([n, 0, 0]),
        knobs=np.array([*knobs, bounds.split_floor(dim, knobs[RIDGE]), _newborn_reach(start)]),
        codes=np.array(codes),
        seed=np.array([seed], np.uint64),
    )


def _newborn_reach(start: Array | None) -> float:
    """Return how far from e_1 newborns may start: as far as the prior does, if that is farther than usual."""
    if start is None:
        return NEWBORN_REACH
    return max(NEWBORN_REACH, float(np.hypot(start[0] - 1.0, np.linalg.norm(start[1:]))))


def with_slots(state: State, slots: int) -> State:
    """Return the same memory with room for `slots` levels."""
    extra = slots - len(state.z)
    fill = {"scale": 1.0 / state.knobs[START], "right": -1}
    grown: dict[str, Any] = {name: _longer(getattr(state, name), extra, fill.get(name, 0)) for name in PER_SLOT}
    return state._replace(**grown)


def _longer(array: NDArray[np.generic], extra: int, fill: float) -> NDArray[np.generic]:
    tail = np.full((extra, *array.shape[1:]), fill, array.dtype)
    return np.concatenate([array, tail])


def with_width(state: State, dim: int) -> State:
    """Return the same memory with `dim` coordinates; earlier ones keep their places, new ones start from nothing."""
    width = padded(dim)
    extra = width - state.theta.shape[1]
    if extra <= 0:
        return state
    gram = width * (width + 1) // 2 if state.gram.shape[1] else 0
    size = {"factor": factor_size(dim) - state.factor.shape[1], "gram": gram - state.gram.shape[1]}
    wide: dict[str, Any] = {name: _wider(getattr(state, name), extra, 0.0) for name in ("theta", "prior", "residual")}
    wide |= {name: _wider(getattr(state, name), size[name], 0.0) for name in size}
    return state._replace(scale=_wider(state.scale, extra, 1.0 / state.knobs[START]), **wide)


def with_ridge(state: State, ridge: float) -> State:
    """Return memory that has learned nothing as if allocated with another λ; levels refine as before.

    A larger λ must not hold the levels back too: rounding costs what it costs, however slowly the learners move.
    """
    knobs = state.knobs.copy()
    knobs[RIDGE] = ridge
    if state.codes[CODES_LEARNER] != ONS_LEARNER:
        knobs[START] = ridge
    return state._replace(knobs=knobs, scale=np.full_like(state.scale, 1.0 / knobs[START]))


def _wider(array: Array, extra: int, fill: float) -> Array:
    return np.hstack([array, np.full((len(array), extra), fill)])


def scratch(state: State) -> Scratch:
    """Return working room for the kernels on this state."""
    width = state.theta.shape[1]
    side = width if state.codes[CODES_LEARNER] == ONS_LEARNER else 0
    n = len(state.z) if state.codes[CODES_MIXING] == BLUM_MANSOUR else 0
    return Scratch(
        x=np.zeros(width),
        u=np.zeros(width),
        ball=np.zeros((3, side, side)),
        chain=np.zeros((3, n)),
        base=np.zeros(n, np.int64),
        walk=np.zeros((5, n), np.int64),
        matrix=np.zeros((n, n)),
    )


def blank_tickets(rows: int) -> Array:
    """Return tickets yet to be issued."""
    tickets = np.empty((rows, TICKET))
    tickets[:, T_SLOT_LOW] = -1.0
    return tickets


def slots_in_order(state: State) -> NDArray[np.int64]:
    """Return the slots in use, sorted by level."""
    return state.order[: state.counts[LEVELS]]


def inverse(state: State, slot: int, dim: int) -> Array:
    """Return P = U D Uᵀ of one learner, shape (dim, dim)."""
    U = unpack(state.factor[slot], state.scale.shape[1])
    P: Array = (U * state.scale[slot]) @ U.T
    return P[:dim, :dim]


def gram(state: State, slot: int, dim: int) -> Array:
    """Return G = Σ α x xᵀ of one level: kept explicitly for ONS, implied by P⁻¹ = λI + G otherwise."""
    width = state.scale.shape[1]
    if state.gram.shape[1]:
        G = np.zeros((width, width))
        G[np.tril_indices(width)] = state.gram[slot]
        return (G + np.tril(G, -1).T)[:dim, :dim]
    U = unpack(state.factor[slot], width)
    V = np.linalg.inv(U)
    A: Array = (V.T / state.scale[slot]) @ V
    return A[:dim, :dim] - float(state.knobs[RIDGE]) * np.eye(dim)
