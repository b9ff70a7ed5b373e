"""`Status`: label coverage and delay."""

from typing import NamedTuple

from swapcal.faces import counted, face, share


class Status(NamedTuple):
    """Label coverage and delay. Delays count forecasts issued meanwhile, and time where times were given."""

    forecasts: int
    labels: int
    open: int
    coverage: float
    """labels / forecasts; NaN before the first forecast"""
    mean_delay: float
    """mean number of later forecasts issued before a label was learned"""
    mean_wait: float
    """mean time from forecast to label, or to its maturity if that is later, in the unit of the times given; NaN
    without times"""
    oldest_open: float
    """number of forecasts issued since the oldest one still open"""
    expired: int = 0
    """forecasts given up unlabelled: forecasts = labels + open + expired"""
    held: int = 0
    """open forecasts whose label has come, and waits for its maturity or for its turn"""

    def _repr_html_(self) -> str:
        said = f"{counted(self.forecasts, 'forecast')}, {counted(self.labels, 'label')}, {self.open:,} open"
        facts = {"labels that came": share(self.coverage), "mean delay": f"{self.mean_delay:,.4g} forecasts"}
        return face("Status", said, facts | {"expired": self.expired, "held": self.held})
