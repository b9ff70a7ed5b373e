"""Cautions: what a reader must know before trusting the figures."""

from swapcal.audit.constancy import Stretch, stretches
from swapcal.audit.sums import Sums
from swapcal.audit.words import points
from swapcal.kernels import tally as kernel

LARGE_PART = 0.2
"""A tolerance above this part of the rate of the rarer outcome calls large errors small."""


def cautions(sums: Sums, tolerated: float) -> tuple[str, ...]:
    """Return the warnings that belong beside the verdict, the gravest first; `tolerated` errors were called small."""
    found = [] if sums.timeline is None else [constant(one, sums.rows) for one in stretches(sums.timeline)]
    impossible = sums.histogram.impossible
    if impossible:
        rows = "1 row was" if impossible == 1 else f"{impossible:,} rows were"
        found.append(f"{rows} given probability 0 for what then happened: no chance explains that.")
    table = sums.tally.table.sum(axis=0)
    rate = float(table[kernel.OBSERVED] / table[kernel.MASS])
    if tolerated > LARGE_PART * min(rate, 1.0 - rate):
        found.append(
            f"Outcomes happen in {100 * rate:.2g} % of the rows, so that errors within the tolerance of "
            f"{points(tolerated)} can be large beside the rate itself; a smaller tolerance would tell."
        )
    return tuple(found)


def constant(stretch: Stretch, rows: int) -> str:
    """Say that outcomes stood still.

    Examples
    --------
    >>> constant(Stretch("2014-04-02", "2014-12-31", 1, 868, 0.47, 0.37), 6172).split(":")[0]
    'From 2014-04-02 to 2014-12-31 all 868 outcomes are 1, where 47.0 % were predicted and 37.0 % are usual'
    """
    if stretch.rows == rows:
        return (
            f"Every outcome is {stretch.outcome}, where {100 * stretch.predicted:.1f} % were predicted. "
            "Check how the outcomes were recorded."
        )
    usual = "" if stretch.usual is None else f" and {100 * stretch.usual:.1f} % are usual"
    return (
        f"From {stretch.first} to {stretch.last} all {stretch.rows:,} outcomes are {stretch.outcome}, where "
        f"{100 * stretch.predicted:.1f} % were predicted{usual}: too many in a row for chance. Check how these "
        "outcomes were recorded; every figure here includes them, so audit again without them."
    )
