"""One loop for all online baselines: as the engine's, a row without a ticket is issued one, a labelled row is learned.

`run`, `predict`, `update` and duels against an opponent execute this same machine code.
"""

import numpy as np

from swapcal.arrays import Array, Keys
from swapcal.kernels.baseline_calibration import (
    issue_foster_hart,
    issue_foster_vohra,
    issue_stationary_means,
    learn_gap,
    learn_shares,
)
from swapcal.kernels.baseline_cells import (
    FISHELSON,
    FOSTER_HART,
    FOSTER_VOHRA,
    GARG_ITO,
    GROUPS,
    LUO_KL,
    UPDATES,
    BaselineScratch,
    BaselineState,
)
from swapcal.kernels.baseline_contextual import (
    issue_garg_ito,
    issue_groups,
    issue_okoroafor,
    learn_garg_ito,
    learn_groups,
    learn_okoroafor,
)
from swapcal.kernels.draw import event_draw
from swapcal.kernels.jit import inlined, lean
from swapcal.kernels.opponents import Opponent, answer
from swapcal.kernels.state import T_ISSUED, T_MEAN, T_P, T_SLOT_LOW


@inlined
def issue_baseline(
    cells: BaselineState, x: Array, draw: float, ticket: Array, mix: Array, room: BaselineScratch
) -> None:
    """Fill in a ticket by the system's own rule."""
    system = cells.codes[0]
    if system == FOSTER_VOHRA:
        issue_foster_vohra(cells, draw, ticket)
    elif system == FOSTER_HART:
        issue_foster_hart(cells, draw, ticket)
    elif system in (FISHELSON, LUO_KL):
        issue_stationary_means(cells, draw, ticket, mix, room)
    elif system == GARG_ITO:
        issue_garg_ito(cells, x, draw, ticket, mix, room)
    elif system == GROUPS:
        issue_groups(cells, x, draw, ticket)
    else:
        issue_okoroafor(cells, x, draw, ticket)


@inlined
def learn_baseline(cells: BaselineState, x: Array, y: float, ticket: Array, mix: Array, room: BaselineScratch) -> None:
    """Learn a label by the system's own rule."""
    system = cells.codes[0]
    if system in (FOSTER_VOHRA, FOSTER_HART):
        learn_gap(cells, int(ticket[T_SLOT_LOW]), ticket[T_P], y)
    elif system in (FISHELSON, LUO_KL):
        learn_shares(cells, mix, y)
    elif system == GARG_ITO:
        learn_garg_ito(cells, x, y, ticket, room)
    elif system == GROUPS:
        learn_groups(cells, x, y, ticket)
    else:
        learn_okoroafor(cells, x, y, ticket)
    cells.counts[UPDATES] += 1


@lean
def advance_baseline(
    cells: BaselineState,
    room: BaselineScratch,
    features: Array,
    X: Array,
    y: Array,
    events: Keys,
    tickets: Array,
    mixes: Array,
    opponent: Opponent,
) -> None:
    """Process all rows as the engine's loop does; their labels are y unless an opponent chooses them.

    `features` are what the system reads (contexts, memberships or tests, padded to its width); X are the contexts that
    the opponent reads.
    """
    x, opposed = room.x, len(opponent.labels) > 0
    for row in range(len(features)):
        for i in range(features.shape[1]):
            x[i] = features[row, i]
        mix, ticket = mixes[row % mixes.shape[0]], tickets[row]
        if ticket[T_SLOT_LOW] < 0.0:
            updates, event = cells.counts[UPDATES], events[row % events.shape[0]]
            ticket[T_ISSUED] = updates
            issue_baseline(cells, x, event_draw(cells.seed[0], event, x, updates), ticket, mix, room)
        label = answer(opponent, row, ticket[T_MEAN], X[row]) if opposed else y[row]
        if not np.isnan(label):
            learn_baseline(cells, x, label, ticket, mix, room)
