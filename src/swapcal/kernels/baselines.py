"""What a baseline does in a round of the engine's loop: each system's own way to issue a forecast and learn a label."""

import numpy as np

from swapcal.arrays import Array
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
    Baseline,
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
from swapcal.kernels.jit import inlined
from swapcal.kernels.state import T_ISSUED, T_P, T_SLOT_LOW


@inlined
def enter_baseline(baseline: Baseline, row: int) -> None:
    """Copy what the system reads of a row into working room."""
    for i in range(baseline.features.shape[1]):
        baseline.room.x[i] = baseline.features[row, i]


@inlined
def issue_baseline(baseline: Baseline, event: np.uint64, ticket: Array, mix: Array) -> None:
    """Fill in the ticket of the row that was entered by the system's own rule."""
    cells, room, x = baseline.cells, baseline.room, baseline.room.x
    updates, system = cells.counts[UPDATES], cells.codes[0]
    draw = event_draw(cells.seed[0], event, x, updates)
    ticket[T_ISSUED] = updates
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
def learn_baseline(baseline: Baseline, y: float, ticket: Array, mix: Array) -> None:
    """Learn the label of the row that was entered by the system's own rule."""
    cells, room, x = baseline.cells, baseline.room, baseline.room.x
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
