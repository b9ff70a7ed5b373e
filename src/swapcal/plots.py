"""Pictures of results: plain data in, matplotlib axes out.

`Audit.plot`, `Live.plot`, `Monitor.plot` and `Certificate.plot` call these. matplotlib is the extra ``plot`` and is
imported when something is drawn. Every function draws on `ax`, or on axes of a new figure, and returns them. The
colours are Okabe and Ito's, which colour-blind readers can distinguish; no information is in colour alone.
"""

import math
from collections.abc import Mapping, Sequence
from math import log10, sqrt
from typing import Any, Protocol

from swapcal.report.findings import GroupRow, Level, NumberCurve, from_dict
from swapcal.report.groups import edge_labels
from swapcal.report.html import all_finite, finite
from swapcal.report.reliability import Rate, part_worth_drawing, rates_of
from swapcal.report.svg import spread

__all__ = [
    "certificate",
    "evidence",
    "groups",
    "number",
    "rates",
    "reliability",
    "score",
]

# Canvas: axes to draw on, and the common style of all pictures.

BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7"
GREY = "#888888"
LINES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (PURPLE, ":"), (ORANGE, "-"), (SKY, "--"))
"""Colour and dashes of the first, second, … line; either alone distinguishes them."""
LONGEST_NAME = 40


def axes(ax: Any, width: float = 6.4, height: float = 4.2) -> Any:
    """Return `ax`, or new axes. Raises ModuleNotFoundError with the command that installs matplotlib."""
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
        from matplotlib.pyplot import subplots
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError('plot needs matplotlib: pip install "swapcal[plot]"', name=error.name) from None
    figure, own = subplots(figsize=(width, height), layout="constrained")
    assert isinstance(figure, Figure)
    return own


def dressed(ax: Any, title: str, across: str, up: str) -> Any:
    """Set the titles, hide parts of the frame, and return the axes."""
    ax.set_title(title, loc="left", fontsize="medium")
    ax.set_xlabel(across)
    ax.set_ylabel(up)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color=GREY, alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def in_percent(axis: Any) -> None:
    """Write rates of an axis as percentages, with as many decimals as its ticks have."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{round(100 * value, 6):g} %"))


def in_thousands(axis: Any) -> None:
    """Write counts of an axis with commas."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(6, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def name(text: str) -> str:
    r"""Shorten a name, and keep a dollar sign from being read as mathematics.

    Examples
    --------
    >>> name("price = $"), len(name("x" * 200))
    ('price = \\$', 40)
    """
    short = text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
    return short.replace("$", r"\$")


# Certificate: the saving by a better rule, and its bound, part by part.

PARTS = (
    ("rounding", "rounding to levels", GREEN),
    ("learning", "learning", ORANGE),
    ("prior", "distance from the start", GREY),
)
FAR = 4.0
"""A theorem's value above this many times the bound is written, not drawn: it would flatten all other bars."""


def certificate(fields: Mapping[str, Any], weight: float, *, ax: Any = None) -> Any:
    """Draw squared error per forecast: the possible saving, the bound and its parts, one below the other.

    Parameters
    ----------
    fields : fields of a certificate by name, as sums
    weight : divisor of the sums
    """
    if not weight > 0:
        raise ValueError("certificate: given no labels, expected at least one")
    ax = axes(ax, 7.6, 3.8)
    tight = (
        [] if fields.get("tight") is None else [("bound, start as seen by the rows", 0.0, fields["tight"], VERMILION)]
    )
    bars = [("could have been saved (exact)", 0.0, fields["psreg"], BLUE), *tight]
    reached = 0.0
    for field, label, colour in PARTS:
        bars.append((f"   + {label}", reached, fields[field], colour))
        reached += fields[field]
    bars.append(("bound", 0.0, fields["bound"], VERMILION))
    theorem, promise = fields.get("theorem"), ""
    if theorem is not None and theorem <= FAR * fields["bound"]:
        bars.append(("worst-case theorem", 0.0, theorem, GREY))
    elif theorem is not None:
        promise = f"\n(the worst-case theorem, {theorem / weight:.2g}, is off the picture)"
    edge = max(start + width for _, start, width, _ in bars) / weight
    for row, (_, start, width, colour) in enumerate(bars):
        ax.barh(row, width / weight, left=start / weight, color=colour, height=0.62)
        ax.annotate(f"{width / weight:.3g}", (max(start, start + width) / weight + 0.01 * edge, row), va="center",
                    fontsize="small")  # fmt: skip
    ax.set_yticks(range(len(bars)), [bar[0] for bar in bars])
    ax.invert_yaxis()
    ax.set_xlim(min(0.0, *(start + width for _, start, width, _ in bars)) / weight, 1.12 * edge)
    dressed(
        ax,
        "What a better rule could have saved, and its bound",
        f"squared error per forecast{promise}",
        "",
    )
    ax.grid(False, axis="y")
    return ax


# Evidence: a monitor's evidence against each group over time, and the line where an alarm is raised.

LEAST = -1.0
"""Evidence below a tenth is drawn as a tenth: it is negligible."""


def evidence(history: Sequence[Mapping[str, Any]], run_length: float, *, ax: Any = None) -> Any:
    """Draw the change detector's evidence against each group on a logarithmic scale.

    Parameters
    ----------
    history : mappings with group, rows, times (as text) and change (log10), as in a monitor's summary
    run_length : evidence at which an alarm is raised
    """
    if not any(entry["rows"] for entry in history):
        raise ValueError("history: given no rows, expected some")
    ax, limit = axes(ax, 7.2, 4.0), log10(run_length)
    highest = limit
    for k, entry in enumerate(history):
        values = [LEAST if value is None else max(LEAST, value) for value in entry["change"]]
        highest = max([highest, *all_finite(values)])
        colour, dashes = LINES[k % len(LINES)]
        mark = "o" if len(values) < 2 else None
        ax.plot(entry["rows"], values, color=colour, linestyle=dashes, marker=mark, label=name(entry["group"]))
    ax.axhline(limit, color=GREY, linestyle=(0, (6, 3)), linewidth=1.4, label=f"alarm: {run_length:,.0f}")
    ax.set_ylim(LEAST, 1.08 * highest)
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    ax.yaxis.set_major_locator(MaxNLocator(7, integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: "1" if value == 0 else f"$10^{{{value:.0f}}}$"))
    across = _label_time(ax, max(history, key=lambda entry: len(entry["rows"])))
    ax.legend(loc="upper left", frameon=False, fontsize="small")
    return dressed(ax, "Evidence that forecasts are off, by group", across, "evidence (logarithmic)")


def _label_time(ax: Any, entry: Mapping[str, Any]) -> str:
    """Label the axis with times unless they are row numbers; return the axis title."""
    times = entry["times"]
    if all(time.startswith("row ") for time in times):
        in_thousands(ax.xaxis)
        return "rows entered"
    picks = spread(len(times), 5)
    ax.set_xticks([entry["rows"][i] for i in picks], [name(times[i]) for i in picks], fontsize="small")
    return "time"


# Groups: the gap of each, with its interval.

ROW = 0.26
"""Inches per group."""


def groups(
    entries: Sequence[GroupRow | Mapping[str, Any]],
    tolerance: float,
    title: str = "Gap of each group",
    *,
    most: int = 20,
    ax: Any = None,
) -> Any:
    """Draw gaps (observed minus forecast, in points) with their simultaneous 95 % intervals, the first on top.

    Parameters
    ----------
    entries : the group table of an audit's findings, the most significant first, or the same as plain data
    tolerance : gaps up to this size are called small; shaded
    most : groups drawn
    """
    every = (from_dict(GroupRow, entry, f"groups[{k}]") for k, entry in enumerate(entries))
    shown = [entry for entry in every if finite(entry.gap) is not None][:most]
    if not shown:
        raise ValueError("groups: given none, expected an audit with groups or categorical features")
    ax = axes(ax, 6.8, 1.3 + ROW * len(shown))
    ax.axvspan(-100 * tolerance, 100 * tolerance, color=GREY, alpha=0.2, linewidth=0, label="tolerance")
    ax.axvline(0.0, color=GREY, linewidth=1.0)
    for wrong, colour, mark, label in ((False, BLUE, "o", "95 % interval"), (True, VERMILION, "D", "miscalibrated")):
        rows = [k for k, entry in enumerate(shown) if (entry.verdict == "miscalibrated") == wrong]
        if rows:
            gaps = [100 * shown[k].gap for k in rows]
            below = [gap - 100 * shown[k].low for k, gap in zip(rows, gaps, strict=True)]
            above = [100 * shown[k].high - gap for k, gap in zip(rows, gaps, strict=True)]
            errors = [[max(0.0, b) for b in below], [max(0.0, a) for a in above]]
            ax.errorbar(gaps, rows, xerr=errors, fmt=mark, color=colour, markersize=5, elinewidth=1.6, label=label)
    half = 1.08 * max(abs(100 * end) for entry in _narrow(shown) for end in _ends(entry))
    ax.set_xlim(-half, half)
    ax.set_yticks(
        range(len(shown)),
        [f"{name(entry.title or entry.name)}  ({entry.n:,.0f})" for entry in shown],
        fontsize="small",
    )
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.legend(loc="best", fontsize="small")
    return dressed(ax, name(title), "observed minus forecast, in percentage points", "")


def _ends(entry: GroupRow) -> list[float]:
    return all_finite([entry.gap, entry.low, entry.high])


def _narrow(shown: Sequence[GroupRow]) -> list[GroupRow]:
    """Return the groups that set the axis: those large enough to be tested, if there are any; others are cut off."""
    return [entry for entry in shown if not entry.small] or list(shown)


# Numbers: the gap along one of them.


def number(curve: NumberCurve | Mapping[str, Any], title: str = "", *, ax: Any = None) -> Any:
    """Draw the gap (observed minus forecast, in points) along a number, with its simultaneous 95 % intervals.

    Parameters
    ----------
    curve : one of `numbers` of an audit's findings, or the same as plain data. Its ranges stand side by side, for each
        holds about as many rows; the edges between them are in the number's own unit.
    """
    given = from_dict(NumberCurve, curve, "curve")
    shown = [row for row in given.ranges if len(_ends(row)) == 3]
    if not shown:
        raise ValueError("curve: given none of its ranges with rows, expected some")
    ax = axes(ax)
    ax.axhline(0.0, color=GREY, linewidth=1.0)
    for sure, colour, mark, label in ((False, BLUE, "o", "95 % interval"), (True, VERMILION, "D", "beyond chance")):
        some = [k for k, row in enumerate(shown) if (row.p_value is not None and row.p_value <= 0.05) == sure]
        if some:
            gaps, low, high = ([100 * getattr(shown[k], end) for k in some] for end in ("gap", "low", "high"))
            ax.bar(some, [b - a for a, b in zip(low, high, strict=True)], 0.84, low, color=colour, alpha=0.2)
            ax.plot(some, gaps, mark, color=colour, markersize=6, label=label)
    places: list[tuple[float, str]] = list(edge_labels(given.edges).items())
    places += [(k, "missing") for k in range(len(given.edges) + 1, len(shown))]
    ax.set_xticks([at for at, _ in places], [text for _, text in places])
    ax.legend(loc="best", fontsize="small")
    called = name(given.title or given.name)
    return dressed(ax, name(title) or f"Gap along {called}", called, "observed minus forecast, in percentage points")


# Reliability: observed against forecast rates by level, with the chance band.

LEAST_SHARE = 0.001
"""Levels with fewer of the rows do not decide which part of the axes is drawn."""
CROWDED = 0.1
"""Where half the rows have forecasts below this share of the axis, the axes are logarithmic."""
LARGEST, SMALLEST = 140.0, 12.0
"""Area of a mark, in square points."""


def reliability(
    levels: Sequence[Level | Mapping[str, Any]], title: str = "Forecast and observed", *, ax: Any = None
) -> Any:
    """Draw each level's observed frequency against its mean forecast; right forecasts follow the diagonal.

    Parameters
    ----------
    levels : the reliability curve of an audit's findings, or the same as plain data
    """
    every = [from_dict(Level, level, f"levels[{k}]") for k, level in enumerate(levels)]
    rates = [rate for rate in rates_of(every) if rate.n > 0]
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
    for beyond, colour, mark, label in ((False, BLUE, "o", "within chance"), (True, VERMILION, "D", "beyond chance")):
        some = [rate for rate in rates if rate.beyond == beyond]
        if some:
            sizes = [SMALLEST + (LARGEST - SMALLEST) * rate.n / most for rate in some]
            x, y = [rate.p for rate in some], [rate.y for rate in some]
            ax.scatter(x, y, s=sizes, c=colour, marker=mark, label=label, zorder=3, edgecolors="white", linewidths=0.6)
    _scale(ax, rates, part.low, part.high)
    legend = ax.legend(loc="upper left", frameon=False, fontsize="small")
    for handle in legend.legend_handles:
        if hasattr(handle, "set_sizes"):
            handle.set_sizes([40.0])
    return dressed(ax, name(title), "forecast", "observed frequency (larger marks: more rows)")


def _scale(ax: Any, rates: Sequence[Rate], low: float, high: float) -> None:
    """Set both axes to the range of the forecasts; logarithmic if half the rows are near 0."""
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


# Timeline: scores and rates over the labels learned.

CHANCE = 1.959963984540054
"""Standard errors within which 95 % of rates fall."""


class PlottedPeriod(Protocol):
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


def score(stretches: Sequence[PlottedPeriod], *, ax: Any = None, low: float = 0.0, high: float = 1.0) -> Any:
    """Draw the mean squared error of the forecasts over time with that of the base rate known at the time.

    low, high : range of the outcomes
    """
    ax, x = _time(stretches, ax)
    binary = (low, high) == (0.0, 1.0)
    rate = "base rate" if binary else "mean outcome"
    own = [one.error / one.n for one in stretches]
    base = [one.base_error / one.n for one in stretches]
    mark = "o" if len(x) == 1 else None
    ax.plot(x, base, color=GREY, linestyle="--", marker=mark, label=f"{rate} known at the time")
    ax.plot(x, own, color=BLUE, marker=mark, label="forecasts (mean)")
    ax.set_ylim(0.0, 1.15 * max([*own, *base, 1e-9]))
    ax.legend(loc="best", frameon=False, fontsize="small")
    total = sum(one.n for one in stretches)
    overall, base_mean = sum(one.error for one in stretches) / total, sum(one.base_error for one in stretches) / total
    title = f"Squared error over time: {overall:.3g} per forecast, {rate} {base_mean:.3g}"
    return dressed(ax, title, "labels learned", f"squared error{' (Brier score)' if binary else ''}")


def rates(stretches: Sequence[PlottedPeriod], *, ax: Any = None, low: float = 0.0, high: float = 1.0) -> Any:
    """Draw the mean forecast and the observed rate over time, with the band of chance.

    low, high : range of the outcomes. For outcomes between its ends the band is an upper bound.
    """
    ax, x = _time(stretches, ax)
    rate, chance = ("rate", "95 % by chance") if (low, high) == (0.0, 1.0) else ("mean", "95 % by chance, at most")
    forecast, observed = ([getattr(one, part) / one.n for one in stretches] for part in ("mean", "y"))
    half = [CHANCE * sqrt(max(0.0, one.variance)) / one.n for one in stretches]
    bottom = [max(low, p - h) for p, h in zip(forecast, half, strict=True)]
    top = [min(high, p + h) for p, h in zip(forecast, half, strict=True)]
    ax.fill_between(x, bottom, top, color=GREY, alpha=0.35, linewidth=0, label=chance)
    ax.plot(x, forecast, color=BLUE, label="mean forecast", marker="o" if len(x) == 1 else None)
    ax.plot(x, observed, color=VERMILION, linestyle="--", marker=".", label=f"observed {rate}")
    values = [*bottom, *top, *observed]
    room = 0.08 * (max(values) - min(values)) + 1e-4 * (high - low)
    ax.set_ylim(max(low, min(values) - room), min(high, max(values) + room))
    if rate == "rate":
        in_percent(ax.yaxis)
    ax.legend(loc="best", frameon=False, fontsize="small")
    return dressed(ax, f"Forecast and observed {rate} over time", "labels learned", rate)


def _time(stretches: Sequence[PlottedPeriod], ax: Any) -> tuple[Any, list[int]]:
    if not stretches:
        raise ValueError("plot: given no labels since this object was made or loaded, expected at least one")
    ax = axes(ax, 7.2, 3.8)
    in_thousands(ax.xaxis)
    return ax, [one.last for one in stretches]
