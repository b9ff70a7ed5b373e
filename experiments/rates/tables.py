"""Tables of values and slopes, as rows of text with their heading first."""

from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from rates.plan import QUANTITIES, SYSTEMS, VARIANTS
from rates.results import Result, chosen, common_horizon, medians, present, systems
from rates.slopes import Slope, fit
from swapcal import bounds

Table = list[list[str]]

DELTA = 0.05
TAIL_FROM = 10**5
"""Slopes are also fitted from this horizon on, where constants matter less."""

DIMENSION_RATES = {"PSReg": "2/3", "SMCal_2": "2/3", "SMCal_1": "1/3"}
ABOVE = " ↑"
"""Marks a slope whose whole interval lies above the declared rate."""


def value_table(rows: list[Result], quantity: str, rounds: int, dim: int) -> list[list[str]]:
    """Return medians at one horizon and dimension: a row per stream, a column per system."""
    names = systems(rows)
    table = [["stream", *names]]
    for stream in present(rows, "stream"):
        part = chosen(rows, stream=stream, rounds=rounds, dim=dim)
        found = [medians(chosen(part, system=name), quantity) for name in names]
        table.append([stream, *(f"{cell[0][1]:.4g}" if cell else "–" for cell in found)])
    return table


def dimension_table(rows: list[Result]) -> list[list[str]]:
    """Return the log-log slope in d at the longest common horizon, median over streams, beside the theorem's power."""
    longest = common_horizon(rows)
    names = [name for name in systems(rows) if name not in VARIANTS]
    table = [["quantity", "theory", *names]]
    for quantity, theory in DIMENSION_RATES.items():
        cells = [quantity, theory]
        for name in names:
            slopes = []
            for stream in present(rows, "stream"):
                points = medians(chosen(rows, stream=stream, system=name, rounds=longest), quantity, "dim")
                slopes.append(fit(points).value)
            finite = [slope for slope in slopes if slope == slope]
            cells.append(f"{median(finite):.2f} ({min(finite):.2f} … {max(finite):.2f})" if finite else "–")
        table.append(cells)
    return table


class Judged(NamedTuple):
    """A slope, the slope of its tail, the declared rate, and the bound's own slope over the same horizons."""

    slope: Slope
    late: Slope
    rate: float
    bound: float

    @property
    def verdict(self) -> str:
        """Whether the slope is consistent with the theorem, whose logarithms bend its line upwards."""
        return self.slope.verdict(max(self.rate, self.bound))


def judged(rows: list[Result], quantity: str, system: str) -> Judged:
    """Fit the rows of one system, stream and dimension, and set the theorem beside them."""
    points, family = medians(rows, quantity), SYSTEMS[system].family
    tail = [(T, value) for T, value in points if T >= TAIL_FROM]
    rate = bounds.RATES[quantity, family]
    theorem = bounds.THEOREMS.get((quantity, family))
    drawn = [(T, float(theorem(T, rows[0]["dim"], DELTA))) for T, _ in points] if theorem else []
    bound = fit(drawn).value
    return Judged(fit(points), fit(tail), rate, bound if bound == bound else rate)


def pairs(rows: list[Result], kind: str) -> Iterator[tuple[str, str]]:
    """Yield (quantity, system); the paper's other choice of N belongs only to swap regret and agnostic error."""
    for quantity in QUANTITIES[kind]:
        for system in systems(rows):
            if system != "paper-sreg" or quantity in ("SReg", "SAErr"):
                yield quantity, system


def slope_table(rows: list[Result], kind: str, dim: int) -> Table:
    """Return slopes at one dimension: a row per quantity and system, a column per stream.

    The theory column has the rate and, in brackets, the slope of the theorem's bound over the horizons measured.
    """
    streams = present(rows, "stream")
    table = [["quantity", "system", "theory", *streams]]
    for quantity, system in pairs(rows, kind):
        found = [judged(chosen(rows, system=system, stream=stream, dim=dim), quantity, system) for stream in streams]
        cells = [words(one.slope) + (ABOVE if one.verdict == "above" else "") for one in found]
        theory = f"{found[0].rate:.2f}" + (f" ({found[0].bound:.2f})" if found[0].bound != found[0].rate else "")
        table.append([quantity, system, theory, *cells])
    return table


def all_slopes(rows: list[Result], kind: str) -> Table:
    """Return every slope with its interval, tail slope and verdict."""
    table = [
        ["quantity", "system", "stream", "d", "slope", "low", "high", "slope from 1e5", "theory", "bound", "verdict"]
    ]
    for quantity, system in pairs(rows, kind):
        for stream in present(rows, "stream"):
            for dim in present(rows, "dim"):
                part = chosen(rows, system=system, stream=stream, dim=dim)
                if part:
                    one = judged(part, quantity, system)
                    values = (*one.slope[:3], one.late.value, one.rate, one.bound)
                    table.append(
                        [quantity, system, stream, str(dim), *(f"{value:.3f}" for value in values), one.verdict]
                    )
    return table


def words(slope: Slope) -> str:
    """Return a slope as text.

    Examples
    --------
    >>> words(Slope(0.3333, 0.3, 0.36, 7)), words(Slope(float("nan"), 0, 0, 1))
    ('0.33 [0.30, 0.36]', '–')
    """
    return "–" if slope.value != slope.value else f"{slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]"


def markdown(table: list[list[str]]) -> str:
    """Return a Markdown table.

    Examples
    --------
    >>> print(markdown([["a", "b"], ["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(row) + " |" for row in table]
    return "\n".join([lines[0], "|" + "---|" * len(table[0]), *lines[1:]])
