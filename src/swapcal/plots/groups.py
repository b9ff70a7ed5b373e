"""Groups: the gap of each, with its interval."""

from collections.abc import Sequence
from typing import Any

from swapcal.plots.canvas import BLUE, GREY, VERMILION, axes, dressed, name
from swapcal.report.schema import GroupEntry

ROW = 0.26
"""Inches per group."""


def groups(
    entries: Sequence[GroupEntry], tolerance: float, title: str = "Gap of each group", *, most: int = 20, ax: Any = None
) -> Any:
    """Draw gaps (observed minus forecast, in points) with their simultaneous 95 % intervals, the first on top.

    Parameters
    ----------
    entries : the group table of an audit's findings, the most doubtful first
    tolerance : gaps up to this size are called small; shaded
    most : groups drawn
    """
    shown = [entry for entry in entries if entry["gap"] is not None][:most]
    if not shown:
        raise ValueError("groups: given none, expected an audit with groups or categorical features")
    ax = axes(ax, 6.8, 1.3 + ROW * len(shown))
    ax.axvspan(-100 * tolerance, 100 * tolerance, color=GREY, alpha=0.2, linewidth=0, label="tolerance")
    ax.axvline(0.0, color=GREY, linewidth=1.0)
    for wrong, colour, mark, said in ((False, BLUE, "o", "95 % interval"), (True, VERMILION, "D", "miscalibrated")):
        rows = [k for k, entry in enumerate(shown) if (entry["verdict"] == "miscalibrated") == wrong]
        if rows:
            gaps = [100 * _number(shown[k]["gap"]) for k in rows]
            below = [gap - 100 * _number(shown[k]["low"]) for k, gap in zip(rows, gaps, strict=True)]
            above = [100 * _number(shown[k]["high"]) - gap for k, gap in zip(rows, gaps, strict=True)]
            errors = [[max(0.0, b) for b in below], [max(0.0, a) for a in above]]
            ax.errorbar(gaps, rows, xerr=errors, fmt=mark, color=colour, markersize=5, elinewidth=1.6, label=said)
    half = 1.08 * max(abs(100 * end) for entry in _narrow(shown) for end in _ends(entry))
    ax.set_xlim(-half, half)
    ax.set_yticks(
        range(len(shown)),
        [f"{name(entry.get('title', entry['name']))}  ({entry['n']:,.0f})" for entry in shown],
        fontsize="small",
    )
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.legend(loc="best", fontsize="small")
    return dressed(ax, name(title), "observed minus forecast, in percentage points", "")


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _ends(entry: GroupEntry) -> list[float]:
    return [end for end in (entry["gap"], entry["low"], entry["high"]) if end is not None]


def _narrow(shown: Sequence[GroupEntry]) -> list[GroupEntry]:
    """Return the groups that decide the axis: those large enough to be tested, if any is; others are cut off."""
    return [entry for entry in shown if not entry["small"]] or list(shown)
