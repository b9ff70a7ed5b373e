"""From learners' wishes to a distribution over levels: two-point hedge, or a stationary distribution."""

from swapcal.arrays import Array, Integers
from swapcal.kernels.jit import inlined, shared
from swapcal.kernels.state import (
    T_GAP,
    T_HIGH,
    T_LOW,
    T_MEAN,
    T_P,
    T_SLOT_HIGH,
    T_SLOT_LOW,
    T_W_HIGH,
    T_W_LOW,
    T_WEIGHT,
)

# A rounding probability below this is rounding noise of the division that made it; as an edge of the chain it
# could only make two classes look like one.
NEGLIGIBLE = 1e-15
# States reached with less than this probability hold no mass that a double could show beside the others'; going on
# with them would divide by an underflow. Its inverse is where masses are scaled back.
UNREACHED = 1e-100


@shared
def hedge_weight(u: float, v: float) -> float:
    """Return P(high) = u/(u+v) for gaps u = w_low - z_low ≥ 0 and v = z_high - w_high ≥ 0; low surely if both are 0."""
    if u <= 0.0:
        return 0.0
    return u / (u + v)


@shared
def hedge_gap(u: float, v: float, h: float) -> float:
    """Return D = uv(2h/(u+v) - 1) = Var(z) - Var(w), the loss of playing levels instead of wishes; at most h²/4."""
    if u <= 0.0 or v <= 0.0:
        return 0.0
    return u * v * (2.0 * h / (u + v) - 1.0)


@inlined
def write_mixed(
    ticket: Array, z_low: float, z_high: float, w_low: float, w_high: float, weight: float, gap: float, draw: float
) -> None:
    """Fill in a ticket that plays z_high with the given probability and z_low otherwise; the slots are the caller's.

    `loop.issue_hedge` writes its own: compiled with this inside, some of its means would differ in the last bit.
    """
    ticket[T_P] = z_high if draw < weight else z_low
    ticket[T_MEAN] = z_low + weight * (z_high - z_low)
    ticket[T_LOW] = z_low
    ticket[T_HIGH] = z_high
    ticket[T_WEIGHT] = weight
    ticket[T_W_LOW] = w_low
    ticket[T_W_HIGH] = w_high
    ticket[T_GAP] = gap


@inlined
def write_hedge(ticket: Array, z_low: float, z_high: float, w_low: float, w_high: float, draw: float) -> None:
    """Fill in a ticket whose mean equals the mean of the two wishes."""
    u, v = w_low - z_low, z_high - w_high
    write_mixed(ticket, z_low, z_high, w_low, w_high, hedge_weight(u, v), hedge_gap(u, v, z_high - z_low), draw)


@shared
def shrunk(r: float, q: float, a: float) -> float:
    """Return the self-consistent VAW forecast clip(½ + (r - ½)/(1 + a q)) of a learner that will carry weight a."""
    return min(1.0, max(0.0, 0.5 + (r - 0.5) / (1.0 + a * q)))


@shared
def self_consistent_weight(r0: float, q0: float, z0: float, r1: float, q1: float, z1: float) -> float:
    """Return p with (1-p) (w_0(1-p) - z_0) + p (w_1(p) - z_1) = 0, by bisection.

    The left side is ≥ 0 at p = 0 and ≤ 0 at p = 1 because the pair was chosen so with weight 1 on either end.
    """
    lo, hi = 0.0, 1.0
    for _ in range(64):
        p = 0.5 * (lo + hi)
        imbalance = (1.0 - p) * (shrunk(r0, q0, 1.0 - p) - z0) + p * (shrunk(r1, q1, p) - z1)
        if imbalance > 0.0:
            lo = p
        else:
            hi = p
    return 0.5 * (lo + hi)


@shared
def round_to_levels(w: float, z: Array) -> tuple[int, float]:
    """Return RRound(w) on sorted levels: index i and the probability of level i+1 (level i otherwise)."""
    lo, hi = 0, z.shape[0] - 1
    while hi - lo > 1:
        mid = (lo + hi) // 2
        if z[mid] <= w:
            lo = mid
        else:
            hi = mid
    return lo, min(1.0, max(0.0, (w - z[lo]) / (z[hi] - z[lo])))


@inlined
def closed_class(base: Integers, up: Array, walk: Integers) -> tuple[int, int]:
    """Find the states of one closed class of the chain i → base_i w.p. 1-up_i, base_i + 1 w.p. up_i.

    Depth-first search from state 0 (Tarjan); the first strongly connected component completed has no way out. Its
    states are walk[0, first:end] for the returned (first, end). `walk` has shape (5, n).
    """
    stack, index, low, edge, path = walk[0], walk[1], walk[2], walk[3], walk[4]
    index[:] = -1
    edge[:] = 0
    stack[0], path[0], index[0], low[0] = 0, 0, 0, 0
    depth, size, seen = 1, 1, 1
    while True:
        i = path[depth - 1]
        if edge[i] < 2:
            side = edge[i]
            edge[i] += 1
            probability = up[i] if side == 1 else 1.0 - up[i]
            if probability <= NEGLIGIBLE:
                continue
            j = base[i] + side
            if index[j] < 0:
                index[j] = seen
                low[j] = seen
                seen += 1
                path[depth] = j
                depth += 1
                stack[size] = j
                size += 1
            else:
                low[i] = min(low[i], index[j])
        elif low[i] == index[i]:
            first = size - 1
            while stack[first] != i:
                first -= 1
            return first, size
        else:
            depth -= 1
            parent = path[depth - 1]
            low[parent] = min(low[parent], low[i])


@shared
def stationary(base: Integers, up: Array, p: Array, walk: Integers, matrix: Array) -> None:
    """Write p ≥ 0, Σp = 1, Qp = p for the column-stochastic Q whose column i rounds to levels base_i and base_i + 1.

    The chain may be reducible or periodic. Inside a closed class the state-reduction algorithm of Grassmann,
    Taksar and Heyman is exact: it never subtracts, so no cancellation and no singular solve. `walk` has shape
    (5, n), `matrix` (n, n).
    """
    p[:] = 0.0
    first, end = closed_class(base, up, walk)
    m = end - first
    states, place = walk[0, first:end], walk[1]
    for k in range(m):
        place[states[k]] = k
    M = matrix[:m, :m]
    M[:, :] = 0.0
    for k in range(m):
        i = states[k]
        if 1.0 - up[i] > NEGLIGIBLE:
            M[k, place[base[i]]] += 1.0 - up[i]
        if up[i] > NEGLIGIBLE:
            M[k, place[base[i] + 1]] += up[i]
    root = reduce_states(M)
    p[states[root]] = 1.0
    total = 1.0
    for n in range(root + 1, m):
        mass = 0.0
        for i in range(root, n):
            mass += p[states[i]] * M[i, n]
        p[states[n]] = mass
        total += mass
        if total > 1.0 / UNREACHED:
            for i in range(root, n + 1):
                p[states[i]] /= total
            total = 1.0
    for k in range(root, m):
        p[states[k]] /= total


@inlined
def reduce_states(M: Array) -> int:
    """Eliminate states one by one from an irreducible chain; column n keeps what later states owe to n.

    Returns the first state that holds mass: 0 unless the states before it are reached with a vanishing probability.
    """
    for n in range(M.shape[0] - 1, 0, -1):
        out = 0.0
        for j in range(n):
            out += M[n, j]
        if out < UNREACHED:
            return n
        for i in range(n):
            if M[i, n] != 0.0:
                M[i, n] /= out
                for j in range(n):
                    M[i, j] += M[i, n] * M[n, j]
    return 0


@inlined
def write_mixture(ticket: Array, z: Array, p: Array, draw: float) -> tuple[int, int]:
    """Fill in a ticket that plays level i with probability p_i, its slot the issued one; return both ends in play."""
    mean, below = 0.0, 0.0
    lowest, highest, issued = -1, 0, -1
    for i in range(z.shape[0]):
        if p[i] > 0.0:
            mean += p[i] * z[i]
            below += p[i]
            highest = i
            if lowest < 0:
                lowest = i
            if issued < 0 and draw < below:
                issued = i
    if issued < 0:
        issued = highest
    ticket[T_P] = z[issued]
    ticket[T_MEAN] = mean
    ticket[T_LOW] = z[lowest]
    ticket[T_HIGH] = z[highest]
    ticket[T_WEIGHT] = p[highest] if highest > lowest else 0.0
    ticket[T_SLOT_LOW] = issued
    ticket[T_SLOT_HIGH] = highest
    return lowest, highest
