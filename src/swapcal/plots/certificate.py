"""Certificate: what a better rule could have saved beside what bounds it, part by part."""

from collections.abc import Mapping
from typing import Any

from swapcal.plots.canvas import BLUE, GREEN, GREY, ORANGE, VERMILION, axes, dressed

PARTS = (
    ("rounding", "rounding to levels", GREEN),
    ("learning", "learning", ORANGE),
    ("prior", "distance from the start", GREY),
)
FAR = 4.0
"""A promise of more than this many times the bound is written, not drawn: it would flatten everything else."""


def certificate(found: Mapping[str, Any], weight: float, *, ax: Any = None) -> Any:
    """Draw squared error per forecast: what could have been saved, the bound and its parts, one below the other.

    Parameters
    ----------
    found : fields of a certificate by name, as sums
    weight : what to divide the sums by
    """
    if not weight > 0:
        raise ValueError("certificate: given no labels, expected at least one")
    ax = axes(ax, 7.6, 3.8)
    tight = [] if found.get("tight") is None else [("bound, start as seen by the rows", 0.0, found["tight"], VERMILION)]
    bars = [("could have been saved (exact)", 0.0, found["psreg"], BLUE), *tight]
    reached = 0.0
    for field, said, colour in PARTS:
        bars.append((f"   + {said}", reached, found[field], colour))
        reached += found[field]
    bars.append(("bound", 0.0, found["bound"], VERMILION))
    theorem, promise = found.get("theorem"), ""
    if theorem is not None and theorem <= FAR * found["bound"]:
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
