"""Timeline: scores and rates over the labels learned."""

from collections.abc import Sequence
from math import sqrt
from typing import Any, Protocol

from swapcal.plots.canvas import BLUE, GREY, VERMILION, axes, dressed, in_percent, in_thousands

CHANCE = 1.959963984540054
"""Standard errors within which 95 % of rates fall."""


class Stretch(Protocol):
    """Some labels in a row: how many, the last one's number, and sums over them."""

    last: int
    n: int
    y: float
    mean: float
    variance: float
    """Σ of mean(1 − mean)"""
    error: float
    """Σ of (mean − y)²"""
    base_error: float
    """the same of the base rate known at the time"""


def score(stretches: Sequence[Stretch], *, ax: Any = None) -> Any:
    """Draw the mean squared error of the forecasts over time beside that of the base rate known at the time."""
    ax, x = _time(stretches, ax)
    own = [one.error / one.n for one in stretches]
    base = [one.base_error / one.n for one in stretches]
    mark = "o" if len(x) == 1 else None
    ax.plot(x, base, color=GREY, linestyle="--", marker=mark, label="base rate known at the time")
    ax.plot(x, own, color=BLUE, marker=mark, label="forecasts (mean)")
    ax.set_ylim(0.0, 1.15 * max([*own, *base, 1e-9]))
    ax.legend(loc="best", frameon=False, fontsize="small")
    total = sum(one.n for one in stretches)
    overall, plain = sum(one.error for one in stretches) / total, sum(one.base_error for one in stretches) / total
    title = f"Squared error over time: {overall:.3g} per forecast, base rate {plain:.3g}"
    return dressed(ax, title, "labels learned", "squared error (Brier score)")


def rates(stretches: Sequence[Stretch], *, ax: Any = None) -> Any:
    """Draw the mean forecast and the observed rate over time, with the band in which chance leaves the latter."""
    ax, x = _time(stretches, ax)
    forecast, observed = ([getattr(one, part) / one.n for one in stretches] for part in ("mean", "y"))
    half = [CHANCE * sqrt(max(0.0, one.variance)) / one.n for one in stretches]
    low = [max(0.0, p - h) for p, h in zip(forecast, half, strict=True)]
    high = [min(1.0, p + h) for p, h in zip(forecast, half, strict=True)]
    ax.fill_between(x, low, high, color=GREY, alpha=0.35, linewidth=0, label="95 % by chance")
    ax.plot(x, forecast, color=BLUE, label="mean forecast", marker="o" if len(x) == 1 else None)
    ax.plot(x, observed, color=VERMILION, linestyle="--", marker=".", label="observed rate")
    values = [*low, *high, *observed]
    room = 0.08 * (max(values) - min(values)) + 1e-4
    ax.set_ylim(max(0.0, min(values) - room), min(1.0, max(values) + room))
    in_percent(ax.yaxis)
    ax.legend(loc="best", frameon=False, fontsize="small")
    return dressed(ax, "Forecast and observed rate over time", "labels learned", "rate")


def _time(stretches: Sequence[Stretch], ax: Any) -> tuple[Any, list[int]]:
    if not stretches:
        raise ValueError("plot: given no labels since this object was made or loaded, expected at least one")
    ax = axes(ax, 7.2, 3.8)
    in_thousands(ax.xaxis)
    return ax, [one.last for one in stretches]
