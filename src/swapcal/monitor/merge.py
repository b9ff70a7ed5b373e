"""Merging: two monitors as one, for consecutive or parallel rows."""

import numpy as np

from swapcal.arrays import Array
from swapcal.kernels.wealth import (
    AT,
    BEFORE,
    CEILING,
    CELL,
    CHANGE_AT,
    CHANGE_PEAK,
    CUSUM,
    END,
    ENDED,
    FIELDS,
    FIRST,
    FORECAST,
    GAIN,
    LANES,
    LIFE_AT,
    LIFE_PEAK,
    LOG,
    MARKS,
    NOTES,
    RAISED,
    RESIDUAL,
    ROWS,
    SINCE,
    SQUARE,
    START,
    SUM,
    TOTAL,
    TOTAL_SQUARE,
    VISITS,
    BetState,
    blank_bet_state,
)
from swapcal.monitor import alarms, state
from swapcal.monitor.settings import GroupIndex
from swapcal.monitor.state import Bets, EvidenceHistory

SEGMENT = [START, ROWS, RESIDUAL, SQUARE]
ADDED = [VISITS, FORECAST, TOTAL, TOTAL_SQUARE]
RUN_CLOCKS = np.isin(np.arange(state.RUN), [state.BEGAN, state.LASTED])


def after(first: Bets, later: Bets) -> Bets:
    """Return the monitor of the first one's rows followed by those of the later one, which started empty."""
    _require_kin(first, later)
    if first.clock_kind not in (None, alarms.ROW_NUMBERS) and later.rows and later.first_clock < first.last_clock:
        raise ValueError("then: given a monitor whose rows begin before this one's end, expected a later one")
    joined = _empty(first, later)
    joined.shards = max(first.shards, later.shards)
    joined.pooled_peak = first.pooled_peak
    _admit_after(joined.group_index, first.group_index, later.group_index)
    shift = float(first.rows) if later.clock_kind == alarms.ROW_NUMBERS else 0.0
    joined.first_clock = first.first_clock if first.rows else later.first_clock
    joined.last_clock = later.last_clock + shift if later.rows else first.last_clock
    joined.make_room()
    joined.bet_state = consecutive(_aligned(joined, first, 0.0), _aligned(joined, later, shift))
    joined.note_ended(np.concatenate([_logged(joined, first, 0.0), _logged(joined, later, shift)]))
    moved = later.runs + shift * RUN_CLOCKS
    joined.keep_runs(np.concatenate([first.runs, first.current[None], moved]))
    joined.current = later.current + shift * RUN_CLOCKS if later.rows else first.current
    past = first.history
    joined.history = EvidenceHistory(past.stride, list(past.rows), list(past.clock), list(past.figures))
    _notice(joined)
    return joined


def beside(one: Bets, other: Bets) -> Bets:
    """Return one monitor for the rows of two parallel ones."""
    _require_kin(one, other)
    joined = _empty(one, other)
    joined.shards = one.shards + other.shards
    _admit_beside(joined.group_index, one.group_index, other.group_index)
    joined.first_clock = min((m.first_clock for m in (one, other) if m.rows), default=-np.inf)
    joined.last_clock = max(one.last_clock, other.last_clock)
    if joined.clock_kind == alarms.ROW_NUMBERS:
        joined.last_clock = float(joined.rows)
    joined.make_room()
    joined.bet_state = parallel(_aligned(joined, one, 0.0), _aligned(joined, other, 0.0))
    joined.keep_runs(np.concatenate([one.runs, one.current[None], other.runs, other.current[None]]))
    both = np.concatenate([_logged(joined, one, 0.0), _logged(joined, other, 0.0)])
    joined.note_ended(both[np.argsort(both[:, ENDED], kind="stable")])
    _notice(joined)
    return joined


def _require_kin(one: Bets, other: Bets) -> None:
    if one.settings != other.settings:
        raise ValueError("monitors: given different settings, expected equal ones")
    kinds = {monitor.clock_kind for monitor in (one, other)} - {None}
    if len(kinds) > 1:
        raise ValueError(f"monitors: given clocks of {' and '.join(sorted(map(str, kinds)))}, expected one kind")
    sources = [monitor.group_index for monitor in (one, other) if monitor.rows]
    if len(sources) == 2 and any(index.learning or index.bins != sources[0].bins for index in sources):
        raise ValueError(
            "monitors: given different learned edges of numbers, expected the same: learn them once, and "
            "give every part bins=monitor.edges"
        )
    if shared := len(one.clusters & other.clusters):
        raise ValueError(f"monitors: given {shared:,} clusters in both, expected none (a cluster bets once)")


def _empty(one: Bets, other: Bets) -> Bets:
    joined, source = Bets(one.settings), (one if one.rows else other).group_index
    joined.group_index.bins = dict(source.bins)
    joined.group_index.learning = {name: [*values] for name, values in source.learning.items()}
    joined.rows = one.rows + other.rows
    joined.clock_kind = one.clock_kind or other.clock_kind
    joined.dropped, joined.repeated = one.dropped + other.dropped, one.repeated + other.repeated
    joined.clusters = one.clusters | other.clusters
    joined.ones = one.ones + other.ones
    return joined


def _admit_after(joined: GroupIndex, first: GroupIndex, later: GroupIndex) -> None:
    """Admit groups as one pass over all rows would: shares of the first, then by order of appearance."""
    for group in first.groups:
        joined.admit([(joined.columns.index(group.column), group.category)], group.share)
    for group in later.groups:
        position = joined.columns.index(group.column)
        if group.category not in joined.seen[position]:
            joined.admit([(position, group.category)])


def _admit_beside(joined: GroupIndex, one: GroupIndex, other: GroupIndex) -> None:
    """Admit the groups of both, each with the smaller of its two shares."""
    for group in [*one.groups, *other.groups]:
        position = joined.columns.index(group.column)
        if group.category not in joined.seen[position]:
            known = [group_index.seen[position].get(group.category) for group_index in (one, other)]
            shares = [r.groups[n].share for r, n in zip((one, other), known, strict=True) if n is not None]
            joined.admit([(position, group.category)], min(shares))


def _aligned(joined: Bets, source: Bets, shift: float) -> BetState:
    """Return the source's bets in the joined monitor's cells, with its clock moved by `shift`."""
    nodes, room, places = joined.settings.ranges.nodes, len(joined.life_limits), _places(joined, source)
    bet_state, known = blank_bet_state(room * nodes), source.live_bet_state()
    bets = bet_state.bets.reshape(room, nodes, FIELDS, LANES)
    notes = bet_state.notes.reshape(room, nodes, NOTES)
    marks = bet_state.marks.reshape(room, nodes, 2, MARKS)
    bets[places] = known.bets.reshape(-1, nodes, FIELDS, LANES)
    notes[places] = known.notes.reshape(-1, nodes, NOTES)
    marks[places] = known.marks.reshape(-1, nodes, 2, MARKS)
    bets[:, :, START] += shift
    marks[..., [AT, SINCE]] += shift
    for clocks in (slice(CHANGE_AT, CHANGE_PEAK), slice(LIFE_AT, LIFE_PEAK), slice(FIRST, FIRST + 1)):
        notes[:, :, clocks] += shift
    return bet_state


def _places(joined: Bets, source: Bets) -> list[int]:
    """Return the number in the joined monitor of each of the source's groups."""
    seen, columns = joined.group_index.seen, joined.group_index.columns
    return [seen[columns.index(group.column)][group.category] for group in source.group_index.groups]


def _logged(joined: Bets, source: Bets, shift: float) -> Array:
    """Return the source's log with the joined monitor's cells, with its clock moved by `shift`."""
    log, nodes = source.log.copy(), joined.settings.ranges.nodes
    group, node = np.divmod(log[:, CELL].astype(np.int64), nodes)
    log[:, CELL] = np.array([*_places(joined, source), 0])[group] * nodes + node
    log[:, [RAISED, ENDED, ENDED + 1 + AT, ENDED + 1 + SINCE]] += shift
    return log


def _notice(joined: Bets) -> None:
    """Raise alarms that only the joined bets raise, and end those that the joined bets end."""
    bet_state, before = joined.live_bet_state(), joined.open_alarms()
    peaks = bet_state.notes[:, CHANGE_PEAK : CHANGE_PEAK + 2].copy()
    for at, values, limit in (
        (CHANGE_AT, state.sums(bet_state, joined.terms), float(joined.terms.limits[1])),
        (LIFE_AT, joined.log_wealth(), joined.limits()),
    ):
        raised, peak = bet_state.notes[:, at : at + 2], bet_state.notes[:, at + 2 : at + 4]
        raised[np.isnan(raised) & (values >= limit)] = joined.last_clock
        np.maximum(peak, values, out=peak)
    sums = state.sums(bet_state, joined.terms)
    state.mark(joined, joined.open_alarms() & (~before | (sums > peaks)))
    joined.end(before & (sums < END * peaks))


def consecutive(first: BetState, second: BetState) -> BetState:
    """Return the bets of one monitor on the rows of both, one after the other.

    Wealth multiplies. The sums are affine in where they start, so S = S₂ + S₁·W₂, and the cumulative sum is
    max(C₁·W₂, C₂). Alarms raised within the second part because of the first are seen only if they last to its end.
    """
    bets = first.bets.copy()
    growth = np.exp(np.minimum(state.lane_log_wealth(second), 230.0))
    carried = np.minimum(first.bets[:, CUSUM] * growth, CEILING)
    older = carried > second.bets[:, CUSUM]
    bets[:, SUM] = np.minimum(second.bets[:, SUM] + first.bets[:, SUM] * growth, CEILING)
    bets[:, CUSUM] = np.where(older, carried, second.bets[:, CUSUM])
    extended = first.bets[:, SEGMENT].copy()
    for row, field in ((1, VISITS), (2, TOTAL), (3, TOTAL_SQUARE)):
        extended[:, row] += second.notes[:, field, None]
    bets[:, SEGMENT] = np.where(older[:, None], extended, second.bets[:, SEGMENT])
    marks = _marked(first, second, 0.0)
    return BetState(_multiplied(bets, first, second), _noted(first, second), marks)


def parallel(first: BetState, second: BetState) -> BetState:
    """Return the bets of one monitor on the rows of two parallel ones.

    Wealth multiplies, in whatever order the rows are interleaved. Sums add: S₁ + S₂ grows by at most one per row of
    either, so the mean run length counts the rows of both. The estimated start is that of the stronger one.
    """
    bets = first.bets.copy()
    older = first.bets[:, CUSUM] > second.bets[:, CUSUM]
    bets[:, SUM] = np.minimum(first.bets[:, SUM] + second.bets[:, SUM], CEILING)
    bets[:, CUSUM] = np.where(older, first.bets[:, CUSUM], second.bets[:, CUSUM])
    bets[:, SEGMENT] = np.where(older[:, None], first.bets[:, SEGMENT], second.bets[:, SEGMENT])
    notes = _noted(first, second)
    notes[:, LIFE_AT:LIFE_PEAK] = np.nan  # neither part's lifetime wealth is that of the whole at any earlier time
    notes[:, LIFE_PEAK:FIRST] = 0.0
    return BetState(_multiplied(bets, first, second), notes, _marked(first, second, 1.0))


def _multiplied(bets: Array, first: BetState, second: BetState) -> Array:
    bets[:, LOG] = state.lane_log_wealth(first) + state.lane_log_wealth(second)
    bets[:, GAIN] = 1.0
    return bets


def _marked(first: BetState, second: BetState, beside: float) -> Array:
    """Return the marks of the stronger alarm; rows of the other before (or parallel to) its start count as earlier.

    More rows before a start make its interval wider, never narrower.
    """
    peak = slice(CHANGE_PEAK, LIFE_AT)
    marks, later = first.marks.copy(), second.marks.copy()
    marks[..., BEFORE] += beside * second.notes[:, VISITS, None]
    later[..., BEFORE] += first.notes[:, VISITS, None]
    return np.where((second.notes[:, peak] > first.notes[:, peak])[..., None], later, marks)


def _noted(first: BetState, second: BetState) -> Array:
    """Add the counts; of each change alarm keep the earlier time and the larger peak.

    Lifetime peaks of the first stay, as its rows begin the joined rows. Those of the second belong to another bet.
    """
    notes = first.notes.copy()
    notes[:, ADDED] += second.notes[:, ADDED]
    notes[:, FIRST] = np.fmin(notes[:, FIRST], second.notes[:, FIRST])
    at, peak = slice(CHANGE_AT, CHANGE_PEAK), slice(CHANGE_PEAK, LIFE_AT)
    notes[:, at] = np.fmin(notes[:, at], second.notes[:, at])
    notes[:, peak] = np.maximum(notes[:, peak], second.notes[:, peak])
    return notes
