"""What an audit concludes: each finding, and the verdict: beyond chance or not, how large, against which tolerance."""

from typing import Literal, NamedTuple

from swapcal.faces import face, points

Word = Literal["miscalibrated", "small", "no error found", "undecided"]

ALPHA = 0.05
"""Level of the one simultaneous test, and of every interval that belongs to it."""

TOLERANCE = 0.01
"""Errors up to one percentage point are called small unless the caller says otherwise."""


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

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Finding({self.name}, forecasts {low:.3g} to {high:.3g}: {self.size})"

    @property
    def size(self) -> str:
        """The gap with its interval, its rows and how likely chance gives as much."""
        per = "" if self.is_group else " per standard deviation"
        ends = f"{points(self.low)} to {points(self.high)}"
        return f"gap {points(self.gap)} points{per} ({ends}), {self.n:,.0f} rows, p = {self.p_value:.2g}"

    def _repr_html_(self) -> str:
        low, high = self.interval
        return face(self.name, self.size, {"forecasts": f"{low:.3g} to {high:.3g}"})


class Verdict(NamedTuple):
    """What the audit concludes, once: headline, marker, exit code and JSON all read it from here.

    Attributes
    ----------
    word : see `judged`
    beyond : whether chance is refuted as the explanation, at level `ALPHA`, by one test over everything examined
    p_value : of that test
    low, high : 95 % interval of the worst error, simultaneous over everything examined, 0.01 being one point
    tolerance : largest error called small
    detectable : smallest error over all rows that would have been found with probability 80 %; None if none would
    unresolved : groups too small to tell their error from the tolerance; `high` does not speak for them
    warnings : what a reader must know before trusting any of this
    """

    word: Word
    beyond: bool
    p_value: float
    low: float
    high: float
    tolerance: float
    detectable: float | None
    unresolved: int
    warnings: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The verdict in one line."""
        if not self.beyond:
            noticed = "" if self.detectable is None else f"; {100 * self.detectable:.2g} points would have been noticed"
            return f"{self.word} (p = {self.p_value:.2g}{noticed})"
        ends = f"{100 * self.low:.2g} to {100 * self.high:.2g} points"
        return (
            f"{self.word}: the worst error is {ends}, the tolerance {100 * self.tolerance:.2g} (p = {self.p_value:.2g})"
        )

    def __repr__(self) -> str:
        return f"Verdict({self.sentence})"

    def _repr_html_(self) -> str:
        return face("Verdict", self.sentence, {f"warning {k}": text for k, text in enumerate(self.warnings, 1)})


def judged(beyond: bool, low: float, high: float, tolerance: float, *, tested: bool = True) -> Word:
    """Return the word for an error whose size lies between `low` and `high`.

    Examples
    --------
    >>> judged(True, 0.02, 0.05, 0.01), judged(True, 0.001, 0.004, 0.01)
    ('miscalibrated', 'small')
    >>> judged(True, 0.004, 0.03, 0.01), judged(False, 0.0, 0.03, 0.01), judged(False, 0.0, 1.0, 0.01, tested=False)
    ('undecided', 'no error found', 'undecided')
    """
    if not beyond:
        return "no error found" if tested else "undecided"
    if low > tolerance:
        return "miscalibrated"
    return "small" if high <= tolerance else "undecided"


def checked_tolerance(tolerance: float) -> float:
    """Return the tolerance if it is a size of error.

    Examples
    --------
    >>> checked_tolerance(5)
    Traceback (most recent call last):
    ValueError: tolerance: given 5, expected a difference of probabilities in [0, 1), such as 0.01 for one point
    """
    if not 0.0 <= tolerance < 1.0:
        expected = "a difference of probabilities in [0, 1), such as 0.01 for one point"
        raise ValueError(f"tolerance: given {tolerance:g}, expected {expected}")
    return float(tolerance)
