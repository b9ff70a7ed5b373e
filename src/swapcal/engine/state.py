"""Making, enlarging and unpacking the forecaster's arrays, and what they are in files."""

from typing import Any, NamedTuple

import numpy as np

from swapcal import bounds
from swapcal._validate import LEAST_RIDGE, MOST_RIDGE
from swapcal.archive import (
    MOST_COUNT,
    Arrays,
    Field,
    Fields,
    Permutation,
    Shapes,
    Sorted,
    counts,
    floats,
    integers,
    keys,
)
from swapcal.arrays import AnyArray, Array, Integers
from swapcal.kernels.linalg import factor_size, padded, unpack
from swapcal.kernels.state import (
    ALL_ROWS,
    BLUM_MANSOUR,
    CODES_LEARNER,
    CODES_MIXING,
    HEDGE,
    INNER,
    LEVELS,
    NEWBORN_REACH,
    ONS_LEARNER,
    OWN,
    RECENT_COORDINATES,
    RIDGE,
    RIDGE_LEARNER,
    START,
    T_SLOT_LOW,
    TICKET,
    UPDATES,
    VAW_LEARNER,
    WINDOW,
    Chain,
    Memory,
    Scratch,
)

PER_SLOT = Memory._fields[: Memory._fields.index("recent")]
PER_MEMORY = Memory._fields[Memory._fields.index("recent") : Memory._fields.index("recent_prior")]


def allocate(
    levels: Array,
    dim: int,
    slots: int,
    codes: list[int],
    knobs: list[float],
    seed: int,
    start: Array | None = None,
    window: float = 0.0,
) -> Memory:
    """Return the memory of a forecaster before its first row; learners start from `start`, or the constant z.

    `knobs` are the first four; the others follow from λ, the dimension, the prior and the window. With a window,
    the short memory of all rows starts from `start`, or ½; each level's from that, and its learner from the latter.
    """
    inner = dim + (RECENT_COORDINATES if window else 0)
    width, n, ridge = padded(inner), len(levels), knobs[RIDGE]
    gram = width * (width + 1) // 2 if codes[CODES_LEARNER] == ONS_LEARNER else 0
    z = np.zeros(slots)
    z[:n] = levels
    prior = np.zeros((slots, width))
    prior[:n, 0] = 2.0 * levels
    if window:
        prior[:n, 0] = prior[:n, OWN] = 1.0
    elif start is not None:
        prior[:n, :dim] = start
    recents, recent_prior = (1 + slots if window else 0), _recent_prior(width, dim, start, window)
    return Memory(
        z=z,
        order=np.arange(slots),
        right=np.where(np.arange(slots) < n - 1, np.arange(slots) + 1, -1),
        theta=prior.copy(),
        prior=prior,
        factor=np.zeros((slots, factor_size(inner))),
        scale=np.full((slots, width), 1.0 / knobs[START]),
        residual=np.zeros((slots, width)),
        gram=np.zeros((slots, gram)),
        mass=np.zeros(slots),
        excess=np.zeros(slots),
        potential=np.zeros(slots),
        slack=np.zeros(slots),
        drawn_mass=np.zeros(slots),
        drawn_residual=np.zeros((slots, width)),
        recent=recent_prior[np.minimum(np.arange(recents), 1)],
        recent_factor=np.zeros((recents, factor_size(inner) if window else 0)),
        recent_scale=np.full((recents, recent_prior.shape[1]), 1.0 / ridge),
        recent_pull=np.full((recents, recent_prior.shape[1]), ridge),
        recent_excess=np.zeros(recents),
        recent_clock=np.zeros(recents, np.int64),
        recent_prior=recent_prior,
        totals=np.zeros(2),
        counts=np.array([n, 0, 0]),
        knobs=np.array(
            [*knobs, bounds.split_floor(inner, ridge), _newborn_reach(None if window else start), window], np.float64
        ),
        codes=np.array(codes),
        seed=np.array([seed], np.uint64),
    )


def _recent_prior(width: int, dim: int, start: Array | None, window: float) -> Array:
    """Return where the short memories of all rows and of the levels start: `start`, or ½; and that of all rows."""
    prior = np.zeros((2, width if window else 0))
    if window:
        prior[:, 0] = prior[1, ALL_ROWS] = 1.0
        if start is not None:
            prior[0, places(dim, window)] = start
    return prior


def places(dim: int, window: float) -> Integers:
    """Return where the coordinates of a context are among those of the learners."""
    at = np.arange(dim)
    at[1:] += RECENT_COORDINATES if window else 0
    return at


def _newborn_reach(start: Array | None) -> float:
    """Return how far from e_1 newborns may start: as far as the prior does, if that is farther than usual."""
    if start is None:
        return NEWBORN_REACH
    return max(NEWBORN_REACH, float(np.hypot(start[0] - 1.0, np.linalg.norm(start[1:]))))


def with_slots(state: Memory, slots: int) -> Memory:
    """Return the same memory with room for `slots` levels."""
    extra = slots - len(state.z)
    fill = {"scale": 1.0 / state.knobs[START], "right": -1}
    grown: dict[str, Any] = {name: _longer(getattr(state, name), extra, fill.get(name, 0)) for name in PER_SLOT}
    if state.knobs[WINDOW]:
        ridge = float(state.knobs[RIDGE])
        fill = {"recent_scale": 1.0 / ridge, "recent_pull": ridge, "recent": state.recent_prior[1]}
        grown |= {name: _longer(getattr(state, name), extra, fill.get(name, 0)) for name in PER_MEMORY}
    return state._replace(**grown)


def _longer(array: AnyArray, extra: int, fill: float | Array) -> AnyArray:
    tail = np.full((extra, *array.shape[1:]), fill, array.dtype)
    return np.concatenate([array, tail])


def with_width(state: Memory, dim: int) -> Memory:
    """Return the same memory with `dim` coordinates; earlier ones keep their places, new ones start from nothing."""
    inner = dim + (RECENT_COORDINATES if state.knobs[WINDOW] else 0)
    width = padded(inner)
    extra = width - state.theta.shape[1]
    if extra <= 0:
        return state
    gram = width * (width + 1) // 2 if state.gram.shape[1] else 0
    size = {"factor": factor_size(inner) - state.factor.shape[1], "gram": gram - state.gram.shape[1]}
    names = ["theta", "prior", "residual", "drawn_residual"]
    if state.knobs[WINDOW]:
        size["recent_factor"] = size["factor"]
        names += ["recent", "recent_prior"]
    wide: dict[str, Any] = {name: _wider(getattr(state, name), extra, 0.0) for name in names}
    wide |= {name: _wider(getattr(state, name), size[name], 0.0) for name in size}
    if state.knobs[WINDOW]:
        ridge = float(state.knobs[RIDGE])
        wide["recent_scale"] = _wider(state.recent_scale, extra, 1.0 / ridge)
        wide["recent_pull"] = _wider(state.recent_pull, extra, ridge)
    return state._replace(scale=_wider(state.scale, extra, 1.0 / state.knobs[START]), **wide)


def with_ridge(state: Memory, ridge: float) -> Memory:
    """Return memory that has learned nothing as if allocated with another λ; levels refine as before.

    A larger λ must not hold the levels back too: the cost of rounding does not depend on how fast the learners move.
    """
    knobs = state.knobs.copy()
    knobs[RIDGE] = ridge
    if state.codes[CODES_LEARNER] != ONS_LEARNER:
        knobs[START] = ridge
    return state._replace(
        knobs=knobs,
        scale=np.full_like(state.scale, 1.0 / knobs[START]),
        recent_scale=np.full_like(state.recent_scale, 1.0 / ridge),
        recent_pull=np.full_like(state.recent_pull, ridge),
    )


def _wider(array: Array, extra: int, fill: float) -> Array:
    return np.hstack([array, np.full((len(array), extra), fill)])


def scratch(state: Memory) -> Scratch:
    """Return working room for the kernels on this state."""
    width, n, learner = state.theta.shape[1], len(state.z), state.codes[CODES_LEARNER]
    mixes = state.codes[CODES_MIXING] == BLUM_MANSOUR
    integers = np.int64
    return Scratch(
        x=np.zeros(width),
        u=np.zeros(width),
        leverage=np.zeros(0) if learner == VAW_LEARNER else None,
        ball=np.zeros((3, width, width)) if learner == ONS_LEARNER else None,
        unit=np.zeros(width) if state.knobs[WINDOW] else None,
        chain=Chain(np.zeros((3, n)), np.zeros(n, integers), np.zeros((5, n), integers), np.zeros((n, n)))
        if mixes
        else None,
    )


def blank_tickets(rows: int) -> Array:
    """Return tickets that are not issued yet."""
    tickets = np.zeros((rows, TICKET))
    tickets[:, T_SLOT_LOW] = -1.0
    return tickets


def slots_in_order(state: Memory) -> Integers:
    """Return the slots in use, sorted by level."""
    return state.order[: state.counts[LEVELS]]


def inverse(state: Memory, slot: int, dim: int) -> Array:
    """Return P = U D Uᵀ of one learner, shape (dim, dim)."""
    U = unpack(state.factor[slot], state.scale.shape[1])
    P: Array = (U * state.scale[slot]) @ U.T
    return P[:dim, :dim]


def linear_weights(state: Memory, slot: int, dim: int) -> Array:
    """Return θ with ⟨θ, x⟩ = the level's wish for a context x, where nothing it consists of had to be clipped."""
    window = float(state.knobs[WINDOW])
    at = places(dim, window)
    theta: Array = state.theta[slot, at].copy()
    if window:
        of_all, own = state.recent[0, at].copy(), state.recent[1 + slot, at].copy()
        of_all[0] -= 1.0
        own += state.recent[1 + slot, ALL_ROWS] * of_all
        own[0] -= 1.0
        theta += state.theta[slot, ALL_ROWS] * of_all + state.theta[slot, OWN] * own
    return theta


def wish(state: Memory, slot: int, x: Array) -> float:
    """Return a level's wish for a context now; the wish and its parts are clipped to [0, 1]."""
    window = float(state.knobs[WINDOW])
    at = places(len(x), window)
    value = float(state.theta[slot, at] @ x)
    if window:
        of_all = _held(float(state.recent[0, at] @ x)) - 0.5
        own = _held(float(state.recent[1 + slot, at] @ x + state.recent[1 + slot, ALL_ROWS] * of_all)) - 0.5
        value += float(state.theta[slot, ALL_ROWS] * of_all + state.theta[slot, OWN] * own)
    return _held(value)


def _held(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def gram(state: Memory, slot: int, dim: int) -> Array:
    """Return G = Σ α x xᵀ of one level: kept explicitly for ONS, implied by P⁻¹ = λI + G otherwise."""
    width = state.scale.shape[1]
    if state.gram.shape[1]:
        G = np.zeros((width, width))
        G[np.tril_indices(width)] = state.gram[slot]
        return (G + np.tril(G, -1).T)[:dim, :dim]
    A = _inverted(state.factor[slot], state.scale[slot])
    return A[:dim, :dim] - float(state.knobs[RIDGE]) * np.eye(dim)


def _inverted(factor: Array, scale: Array) -> Array:
    """Return A = P⁻¹."""
    V = np.linalg.inv(unpack(factor, len(scale)))
    A: Array = (V.T / scale) @ V
    return A


class Recent(NamedTuple):
    """One level's sums, of which a label's share has fallen to 1/e after a window; over `dim` coordinates."""

    gram: Array
    residual: Array
    excess: float

    @property
    def mass(self) -> float:
        """Σ α: the constant coordinate is ½."""
        return float(4.0 * self.gram[0, 0])


def recent_sums(state: Memory, slot: int, dim: int) -> Recent:
    """Return the sums of a level's short memory at the last label, from A = G + diag f and Aθ = Σαxy + fθ_0."""
    row, v = 1 + slot, state.z[slot]
    age = int(state.counts[UPDATES]) - 1 - int(state.recent_clock[row])
    fade = float(np.exp(-age / state.knobs[WINDOW]))
    pull, prior = state.recent_pull[row], state.recent_prior[1]
    A = _inverted(state.recent_factor[row], state.recent_scale[row])
    moment = A @ state.recent[row] - pull * prior
    G = A - np.diag(pull)
    return Recent(fade * G[:dim, :dim], fade * (moment - 2.0 * v * G[0])[:dim], fade * float(state.recent_excess[row]))


# What a forecaster's arrays must be for the kernels to be safe on them.


def fields(dim: int, learner: int, mixing: int, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays of a forecaster with these settings, whose learners have a short memory if there is any."""
    recalls = shapes["recent"][0] > 0 and (learner, mixing) == (RIDGE_LEARNER, HEDGE)
    inner = dim + (RECENT_COORDINATES if recalls else 0)
    width, packed = padded(inner), factor_size(inner)
    triangle = width * (width + 1) // 2 if learner == ONS_LEARNER else 0
    slots, refines = shapes["z"][0], int(mixing == HEDGE)
    levels = INNER if (learner, mixing) == (RIDGE_LEARNER, HEDGE) else refines
    memories, recent_width, recent_packed = (1 + slots, width, packed) if recalls else (0, 0, 0)
    return {
        "z": floats("slots", least=0, most=1, link=Sorted("order", "levels")),
        "order": integers("slots", least=0, most="slots", link=Permutation("levels")),
        "right": integers("slots"),
        "theta": floats("slots", width),
        "prior": floats("slots", width),
        "factor": floats("slots", packed),
        "scale": floats("slots", width),
        "residual": floats("slots", width),
        "gram": floats("slots", triangle),
        "mass": floats("slots"),
        "excess": floats("slots"),
        "potential": floats("slots"),
        "slack": floats("slots"),
        "drawn_mass": floats("slots"),
        "drawn_residual": floats("slots", width),
        "recent": floats(memories, recent_width),
        "recent_factor": floats(memories, recent_packed),
        "recent_scale": floats(memories, recent_width),
        "recent_pull": floats(memories, recent_width),
        "recent_excess": floats(memories),
        "recent_clock": counts(memories),
        "recent_prior": floats(2, recent_width),
        "totals": floats(2),
        "counts": counts(3, least=[2 if refines else slots, 0, 0], most=[slots, *2 * [MOST_COUNT]], names=("levels",)),
        "knobs": floats(
            7,
            least=[LEAST_RIDGE, *5 * [-np.inf], 1 if recalls else 0],
            most=[MOST_RIDGE, *5 * [np.inf], np.inf if recalls else 0],
        ),
        "codes": integers(3, least=[learner, mixing, 0], most=[learner, mixing, levels]),
        "seed": keys(1),
    }


DRAWN = ("drawn_mass", "drawn_residual")
"""Arrays that files of earlier releases do not have."""


def without_drawn(fields: Fields) -> dict[str, Field]:
    """Return the arrays of a file from before the levels drawn were kept."""
    return {name: field for name, field in fields.items() if name not in DRAWN}


def with_drawn(arrays: Arrays) -> dict[str, AnyArray]:
    """Return the arrays of a file as arrays of memory; levels drawn before they were kept are not known."""
    blank = {"drawn_mass": np.zeros_like(arrays["mass"]), "drawn_residual": np.zeros_like(arrays["residual"])}
    return {name: np.array(array, order="C") for name, array in (blank | dict(arrays)).items()}
