"""Lifetime: the one test over everything since the first row."""

from typing import NamedTuple

from swapcal.faces import card


class Lifetime(NamedTuple):
    """Verdict on "nobody has ever been off by more than the tolerance", valid at every time at once."""

    log10_wealth: float
    """Logarithm of the pooled wealth now; it started at 0."""
    log10_peak: float
    """The largest it was seen."""
    p_value: float
    """At most this is the probability that honest forecasts would ever have looked so bad."""
    rejected: bool

    def __repr__(self) -> str:
        return f"Lifetime({self._about()})"

    def _about(self) -> str:
        verdict = "somebody has been off by more than the tolerance" if self.rejected else "nobody surely off so far"
        return f"{verdict}, p = {self.p_value:.2g}"

    def _repr_html_(self) -> str:
        return card("Lifetime test", self._about())
