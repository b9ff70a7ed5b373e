"""Lifetime: the one test over everything since the first row."""

from typing import NamedTuple


class Lifetime(NamedTuple):
    """Verdict on "nobody has ever been off by more than the tolerance", valid at every time at once."""

    log10_wealth: float
    """Logarithm of the pooled wealth now; it started at 0."""
    log10_peak: float
    """The largest it was seen."""
    p_value: float
    """At most this is the probability that honest forecasts would ever have looked so bad."""
    rejected: bool
