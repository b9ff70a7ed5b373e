"""Reliability: observed against forecast rates, level by level, with what chance allows."""

import math
from collections.abc import Sequence
from typing import Any

from swapcal.plots.canvas import BLUE, GREY, VERMILION, axes, dressed, in_percent, name
from swapcal.report.reliability import Rate, part_worth_drawing, rates_of
from swapcal.report.schema import Level

LEAST_SHARE = 0.001
"""Levels with fewer of the rows do not decide which part of the axes is drawn."""
CROWDED = 0.1
"""Where half the rows have forecasts below this share of the axis, the axes are logarithmic."""
LARGEST, SMALLEST = 140.0, 12.0
"""Area of a mark, in square points."""


def reliability(levels: Sequence[Level], title: str = "Forecast and observed", *, ax: Any = None) -> Any:
    """Draw each level's observed frequency against its mean forecast; right forecasts follow the diagonal.

    Parameters
    ----------
    levels : the reliability curve of an audit's findings
    """
    rates = [rate for rate in rates_of(levels) if rate.n > 0]
    if not rates:
        raise ValueError("levels: given none with rows, expected at least one")
    ax = axes(ax, 5.4, 5.0)
    total, most = sum(rate.n for rate in rates), max(rate.n for rate in rates)
    part = part_worth_drawing([rate for rate in rates if rate.n >= LEAST_SHARE * total])
    diagonal = [0.0, 1e-4, 1e-3, 1e-2, 1.0]
    ax.plot(diagonal, diagonal, color=GREY, linestyle="--", linewidth=1.2, label="forecast = observed", zorder=1)
    bands = [(rate.p, *rate.band) for rate in rates if rate.band]
    if bands:
        p, low, high = zip(*bands, strict=True)
        ax.vlines(p, low, high, color=GREY, alpha=0.45, linewidth=5.0, label="95 % by chance", zorder=2)
    for beyond, colour, mark, said in ((False, BLUE, "o", "within chance"), (True, VERMILION, "D", "beyond chance")):
        some = [rate for rate in rates if rate.beyond == beyond]
        if some:
            sizes = [SMALLEST + (LARGEST - SMALLEST) * rate.n / most for rate in some]
            x, y = [rate.p for rate in some], [rate.y for rate in some]
            ax.scatter(x, y, s=sizes, c=colour, marker=mark, label=said, zorder=3, edgecolors="white", linewidths=0.6)
    _scale(ax, rates, part.low, part.high)
    legend = ax.legend(loc="upper left", frameon=False, fontsize="small")
    for handle in legend.legend_handles:
        if hasattr(handle, "set_sizes"):
            handle.set_sizes([40.0])
    return dressed(ax, name(title), "forecast", "observed frequency (larger marks: more rows)")


def _scale(ax: Any, rates: Sequence[Rate], low: float, high: float) -> None:
    """Show the part of both axes where forecasts are; logarithmically where half the rows crowd near 0."""
    crowded = sum(rate.n for rate in rates if rate.p < CROWDED * high) >= 0.5 * sum(rate.n for rate in rates)
    if low == 0.0 and crowded and any(rate.p > 0 for rate in rates):
        least = 10.0 ** math.floor(math.log10(min(rate.p for rate in rates if rate.p > 0)))
        ax.set_xscale("symlog", linthresh=least, linscale=1.0)  # 0 keeps its place
        ax.set_yscale("symlog", linthresh=least, linscale=1.0)
        ends = -0.05 * least, min(1.0, 1.5 * high)
    else:
        room = 0.02 * (high - low)
        ends = low - room, high + room
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
    ax.set_aspect("equal")
    in_percent(ax.xaxis)
    in_percent(ax.yaxis)
