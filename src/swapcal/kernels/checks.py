"""Fast refusal of contexts that are not in X."""

from swapcal.arrays import Array
from swapcal.kernels.jit import lean
from swapcal.kernels.state import T_HIGH, T_LOW, T_SLOT_HIGH, T_SLOT_LOW

# Contexts come out of divisions and square roots: this much beyond the unit ball is rounding, not a mistake.
ROUNDING = 1e-9


@lean
def first_bad_context(X: Array) -> int:
    """Return the first row with x_1 ≠ ½, ‖x‖ > 1 or a value that is not finite; -1 if there is none."""
    for row in range(X.shape[0]):
        square = 0.0
        for i in range(X.shape[1]):
            square += X[row, i] * X[row, i]
        # Comparisons with NaN are false, so it is caught here too.
        if not (abs(X[row, 0] - 0.5) <= ROUNDING and square <= 1.0 + 2.0 * ROUNDING):
            return row
    return -1


@lean
def all_known(tickets: Array, z: Array, levels: int) -> bool:
    """Say whether every ticket's two levels are where the memory keeps them, in slots below `levels`."""
    for row in range(tickets.shape[0]):
        low, high = int(tickets[row, T_SLOT_LOW]), int(tickets[row, T_SLOT_HIGH])
        if low >= levels or high >= levels:
            return False
        if z[low] != tickets[row, T_LOW] or z[high] != tickets[row, T_HIGH]:
            return False
    return True
