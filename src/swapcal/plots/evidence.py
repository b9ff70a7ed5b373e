"""Evidence: what a monitor holds against each group, over time, beside the line where an alarm is raised."""

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any

from swapcal.plots.canvas import GREY, LINES, axes, dressed, in_thousands, name
from swapcal.report.formats import all_finite
from swapcal.report.svg import spread

LEAST = -1.0
"""Evidence below a tenth is drawn as a tenth: there is none."""


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
    """Write times below the axis where they are more than row numbers; return what the axis shows."""
    times = entry["times"]
    if all(time.startswith("row ") for time in times):
        in_thousands(ax.xaxis)
        return "rows entered"
    picks = spread(len(times), 5)
    ax.set_xticks([entry["rows"][i] for i in picks], [name(times[i]) for i in picks], fontsize="small")
    return "time"
