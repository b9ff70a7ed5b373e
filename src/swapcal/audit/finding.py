"""Finding: one group or feature in one range of predictions, and how wrong the predictions are there."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One cell of the scan: a group or feature and a range of predictions, with its simultaneous p-value.

    `gap` is the mean of y − p over the group; for a numeric feature, the change of y − p per standard deviation of it.
    `low` and `high` are the ends of its interval, which holds for all cells at once and leaves 0 out exactly when the
    p-value is at most 0.05.
    """

    name: str
    levels: tuple[int, int]
    interval: tuple[float, float]
    n: float
    gap: float
    z: float
    p_value: float
    is_group: bool
    low: float
    high: float
