"""What would I gain? Forecasts of yours against recalibrations and swapcal, on the same rows.

`Contest` judges any forecasts side by side; `in_time_order` and `cross_validated` make those of the usual rivals.
"""

from swapcal.contest.contest import Contest
from swapcal.contest.entry import Entry
from swapcal.contest.rivals import cross_validated, in_time_order

__all__ = ["Contest", "Entry", "cross_validated", "in_time_order"]
