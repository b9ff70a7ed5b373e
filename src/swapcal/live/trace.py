"""`Trace`: everything about a run."""

from dataclasses import dataclass

from swapcal.arrays import Array
from swapcal.engine.forecast import Forecast
from swapcal.faces import counted


@dataclass(frozen=True)
class Trace:
    """Everything about a run: the forecasts, the contexts, and what each expert said."""

    forecast: Forecast
    x: Array
    """(n, dim) contexts; coordinates that appeared later are 0 in earlier rows"""
    experts: Array
    """(n, number of experts) probabilities, in the order of `Live.experts`"""

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        sizes = f"{counted(self.x.shape[1], 'coordinate')}, {counted(self.experts.shape[1], 'expert')}"
        return f"Trace({counted(len(self), 'row')}, {sizes})"
