"""Forecasters that look only at past forecasts and labels: Foster-Vohra, Foster-Hart, Fishelson et al., Luo et al."""

from swapcal.arrays import Array
from swapcal.kernels.baseline_cells import FISHELSON, BaselineScratch, BaselineState, write_pair
from swapcal.kernels.jit import inlined, shared
from swapcal.kernels.mixing import hedge_weight, round_to_levels, stationary, write_mixture


@inlined
def issue_foster_vohra(cells: BaselineState, draw: float, ticket: Array) -> None:
    """Play a cell whose gap is within tolerance, else hedge two neighbours by what exceeds it."""
    n, e, z = cells.seen[:, 0], cells.total[:, 0], cells.z
    tolerance = 0.5 * z[1]
    for i in range(z.shape[0]):
        if abs(e[i]) <= n[i] * tolerance:
            write_pair(ticket, i, i, z[i], z[i], 0.0, draw)
            return
    i = 0
    while e[i + 1] > 0.0:
        i += 1
    above = e[i] - n[i] * tolerance
    below = -e[i + 1] - n[i + 1] * tolerance
    write_pair(ticket, i, i + 1, z[i], z[i + 1], above / (above + below), draw)


@inlined
def issue_foster_hart(cells: BaselineState, draw: float, ticket: Array) -> None:
    """Hedge two neighbours whose mean gaps point at each other, found by bisection."""
    n, e, z = cells.seen[:, 0], cells.total[:, 0], cells.z
    lo, hi = 0, z.shape[0] - 1
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if e[middle] >= 0.0:
            lo = middle
        else:
            hi = middle
    weight = hedge_weight(e[lo] / max(n[lo], 1.0), -e[hi] / max(n[hi], 1.0))
    write_pair(ticket, lo, hi, z[lo], z[hi], weight, draw)


@inlined
def learn_gap(cells: BaselineState, slot: int, p: float, y: float) -> None:
    """Enter a label into the count and the gap Σ(y - p) of the cell that was played."""
    cells.seen[slot, 0] += 1.0
    cells.total[slot, 0] += y - p


@shared
def kl_rounding(w: float, low: float, high: float) -> float:
    """Return the probability of `high`: its odds are (w - low)/(low(1 - low)) to (high - w)/(high(1 - high))."""
    up = max(0.0, w - low) / (low * (1.0 - low))
    down = max(0.0, high - w) / (high * (1.0 - high))
    return up / (up + down)


@inlined
def issue_stationary_means(cells: BaselineState, draw: float, ticket: Array, mix: Array, room: BaselineScratch) -> None:
    """Play the stationary distribution of the levels' rounded running means; `mix` receives it."""
    z, up, base = cells.z, room.chain[1], room.base
    for i in range(z.shape[0]):
        if cells.codes[0] == FISHELSON:
            base[i], up[i] = round_to_levels((0.5 + cells.total[i, 0]) / (1.0 + cells.seen[i, 0]), z)
        else:
            w = (1.0 + cells.total[i, 0]) / (2.0 + cells.seen[i, 0])
            w = min(z[-1], max(z[0], w))
            base[i], _ = round_to_levels(w, z)
            up[i] = kl_rounding(w, z[base[i]], z[base[i] + 1])
    stationary(base, up, mix, room.walk, room.matrix)
    write_mixture(ticket, z, mix, draw)


@inlined
def learn_shares(cells: BaselineState, mix: Array, y: float) -> None:
    """Enter a label into every level with the probability it was played with."""
    for i in range(mix.shape[0]):
        cells.seen[i, 0] += mix[i]
        cells.total[i, 0] += mix[i] * y
