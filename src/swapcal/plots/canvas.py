"""Canvas: axes to draw on, and what every picture has in common."""

from typing import Any

BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7"
GREY = "#888888"
LINES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (PURPLE, ":"), (ORANGE, "-"), (SKY, "--"))
"""Colour and dashes of the first, second, … line: either alone tells them apart."""
LONGEST_NAME = 40


def axes(ax: Any, width: float = 6.4, height: float = 4.2) -> Any:
    """Return the axes given, or those of a new figure; say what to install where matplotlib is missing."""
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
    """Name picture and axes, quieten the frame, and return the axes."""
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
    kept = text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
    return kept.replace("$", r"\$")
