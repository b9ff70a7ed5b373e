"""Log-log figures as plain SVG files: small multiples that share their axes' meaning, not their range."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT, GAP_X, GAP_Y = 300, 210, 62, 58
LEFT, TOP, FOOT = 58, 30, 26
INK, FAINT = "#222222", "#dddddd"


@dataclass(frozen=True)
class PlottedLine:
    """Points of one curve; `dash` is an SVG dash pattern, empty for a solid line with marks."""

    label: str
    colour: str
    points: Sequence[tuple[float, float]]
    dash: str = ""


@dataclass(frozen=True)
class Panel:
    """One plot."""

    title: str
    lines: list[PlottedLine] = field(default_factory=list)


def figure(panels: list[Panel], columns: int, x_label: str) -> str:
    """Return an SVG with one log-log plot per panel and one legend below them.

    Examples
    --------
    >>> drawing = figure([Panel("a", [PlottedLine("one", "#000000", [(10, 1), (100, 10)])])], 1, "T")
    >>> drawing.startswith("<svg") and drawing.count("<circle")
    2
    """
    rows = ceil(len(panels) / columns)
    legend = _legend(panels)
    width = LEFT + columns * (WIDTH + GAP_X)
    height = TOP + rows * (HEIGHT + GAP_Y) + 22 * ceil(len(legend) / 3) + FOOT
    body = [
        _panel(panel, LEFT + (k % columns) * (WIDTH + GAP_X), TOP + (k // columns) * (HEIGHT + GAP_Y), x_label)
        for k, panel in enumerate(panels)
    ]
    body += [_legend_entry(line, k, TOP + rows * (HEIGHT + GAP_Y) + 10, width / 3) for k, line in enumerate(legend)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="12">'
    )
    return head + f'<rect width="{width}" height="{height}" fill="#ffffff"/>' + "".join(body) + "</svg>\n"


def _legend(panels: list[Panel]) -> list[PlottedLine]:
    return list({line.label: line for panel in panels for line in panel.lines}.values())


def _legend_entry(line: PlottedLine, k: int, top: float, width: float) -> str:
    x, y = LEFT + (k % 3) * (width - 10), top + 22 * (k // 3)
    return (
        f'<path d="M{x:.0f} {y:.0f}h28" stroke="{line.colour}" stroke-width="2" stroke-dasharray="{line.dash}"/>'
        f'<text x="{x + 34:.0f}" y="{y + 4:.0f}" fill="{INK}">{escape(line.label)}</text>'
    )


def _panel(panel: Panel, left: int, top: int, x_label: str) -> str:
    points = [point for line in panel.lines for point in line.points if point[0] > 0 and point[1] > 0]
    frame = f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="{INK}"/>'
    title = f'<text x="{left}" y="{top - 8}" fill="{INK}" font-weight="600">{escape(panel.title)}</text>'
    if not points:
        return frame + title
    (x0, x1), (y0, y1) = _span([x for x, _ in points]), _span([y for _, y in points])

    def at(x: float, y: float) -> tuple[float, float]:
        return left + WIDTH * (log10(x) - x0) / (x1 - x0), top + HEIGHT * (1 - (log10(y) - y0) / (y1 - y0))

    parts = [_grid(left, top, (x0, x1), (y0, y1)), frame, title]
    parts += [_curve(line, [at(x, y) for x, y in line.points if x > 0 and y > 0]) for line in panel.lines]
    parts.append(f'<text x="{left + WIDTH}" y="{top + HEIGHT + 32}" text-anchor="end" fill="{INK}">{x_label}</text>')
    return "".join(parts)


def _span(values: list[float]) -> tuple[float, float]:
    low, high = log10(min(values)), log10(max(values))
    margin = max(0.04 * (high - low), 0.1)
    return low - margin, high + margin


def _curve(line: PlottedLine, points: list[tuple[float, float]]) -> str:
    if not points:
        return ""
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    drawn = (
        f'<path d="{path}" fill="none" stroke="{line.colour}" stroke-width="1.8" stroke-dasharray="{line.dash}">'
        f"<title>{escape(line.label)}</title></path>"
    )
    marks = "" if line.dash else "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in points)
    return drawn + (f'<g fill="{line.colour}">{marks}</g>' if marks else "")


def _grid(left: int, top: int, xs: tuple[float, float], ys: tuple[float, float]) -> str:
    parts = []
    for power in _powers(*xs):
        x = left + WIDTH * (power - xs[0]) / (xs[1] - xs[0])
        parts.append(f'<path d="M{x:.1f} {top}v{HEIGHT}" stroke="{FAINT}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{top + HEIGHT + 16}" text-anchor="middle" fill="{INK}">{_ten(power)}</text>'
        )
    for power in _powers(*ys):
        y = top + HEIGHT * (1 - (power - ys[0]) / (ys[1] - ys[0]))
        parts.append(f'<path d="M{left} {y:.1f}h{WIDTH}" stroke="{FAINT}"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" fill="{INK}">{_ten(power)}</text>')
    return "".join(parts)


def _powers(low: float, high: float) -> list[float]:
    """Whole powers of ten inside; a narrow range gets its 1, 2 and 5 marks instead."""
    whole = [float(k) for k in range(ceil(low), floor(high) + 1)]
    if len(whole) >= 2:
        return whole[:: ceil(len(whole) / 7)]
    marks = [k + log10(m) for k in range(floor(low), ceil(high) + 1) for m in (1, 2, 5)]
    return [mark for mark in marks if low <= mark <= high]


def _ten(power: float) -> str:
    if power == int(power) and abs(power) > 3:
        return f'10<tspan dy="-4" font-size="9">{int(power)}</tspan>'
    return f"{10**power:g}"
