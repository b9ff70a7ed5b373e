"""Draw the README's picture: calibration error by airline and airport, before and after, on a year of flights.

python experiments/flights_picture.py [docs/figures/flights.svg]
"""

import sys
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from swapcal import Live
from swapcal.audit.difference import RANGES, calibration_error
from swapcal.datasets.flights import FEATURES, GROUPS, flights, names_of

PLAIN = "logistic (steps of 0.3)"
PIECE, LEAST, DRAWS = 8_192, 2_000, 50
WIDE, LEFT, RIGHT, TOP, ROW = 760, 200, 40, 92, 24

STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.note { font-size: 12px; fill: #59636e } .title { font-size: 17px; font-weight: 600 }
.grid { stroke: #d1d9e0 } .link { stroke: #9aa4af; stroke-width: 2 } .chance { stroke: #59636e; stroke-width: 2 }
.before { fill: #ffffff; stroke: #bc4c00; stroke-width: 2.5 } .after { fill: #0969da }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .note { fill: #9198a1 } .grid { stroke: #3d444d } .link { stroke: #656c76 }
.chance { stroke: #9198a1 } .before { fill: #0d1117; stroke: #f0883e } .after { fill: #58a6ff }
}
"""


def forecasts() -> tuple[Any, Any, Any, Any]:
    """Return the flights, their outcomes, and the forecasts before and after."""
    table = flights()
    y, records, live = table["y"].to_numpy().astype(float), table.select(list(FEATURES)), Live(groups=GROUPS)
    plain, issued = [], []
    for first in range(0, len(y), PIECE):
        trace = live.trace(records.slice(first, PIECE), y[first : first + PIECE])
        plain.append(trace.experts[:, live.experts.index(PLAIN)])
        issued.append(trace.forecast.p)
    return table, y, np.concatenate(plain), np.concatenate(issued)


def error(p: Any, y: Any) -> float:
    """Return the calibration error of the report, in percentage points."""
    return 100.0 * calibration_error(p, y)


def chance(p: Any, generator: Any) -> float:
    """Return what the error would be on average if every forecast were exactly right."""
    return float(np.mean([error(p, generator.random(len(p)) < p) for _ in range(DRAWS)]))


def measured() -> list[tuple[str, int, float, float, float]]:
    """Return name, flights, error before, error after and error by chance of each group, the worst before first."""
    table, y, before, after = forecasts()
    generator, found = np.random.default_rng(0), []
    for column in GROUPS:
        values = np.array(names_of(table[column]))
        for name in sorted(set(values.tolist())):
            rows = values == name
            if rows.sum() >= LEAST:
                errors = error(before[rows], y[rows]), error(after[rows], y[rows]), chance(after[rows], generator)
                found.append((name, int(rows.sum()), *errors))
    return sorted(found, key=lambda row: -row[2])


def drawn(rows: list[tuple[str, int, float, float, float]]) -> str:
    """Return the picture."""
    most = np.ceil(max(max(row[2:]) for row in rows))
    bottom = TOP + ROW * len(rows)

    def across(points: float) -> float:
        return round(LEFT + (WIDE - LEFT - RIGHT) * points / most, 1)

    said = "How far forecasts of late flights are from what happened, by airline and airport: before and after swapcal."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {bottom + 64}" role="img" aria-label="{said}">',
        f"<style>{STYLE}</style>",
        '<text class="title" x="16" y="28">How far off are forecasts of late flights, for each group?</text>',
        '<text class="note" x="16" y="49">336,776 departures from New York in 2013, each forecast before it left. '
        "Mean gap between forecast and</text>",
        f'<text class="note" x="16" y="66">outcome over {RANGES} ranges of the forecast, in percentage points; '
        "0 is perfect.</text>",
    ]
    for points in range(int(most) + 1):
        x = across(points)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP - 8}" y2="{bottom}"/>')
        parts.append(f'<text class="note" x="{x}" y="{bottom + 18}" text-anchor="middle">{points}</text>')
    for k, (name, _, before, after, luck) in enumerate(rows):
        y = TOP + ROW * k + 8
        parts.append(f'<text x="{LEFT - 16}" y="{y + 5}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<line class="link" x1="{across(before)}" x2="{across(after)}" y1="{y}" y2="{y}"/>')
        parts.append(f'<line class="chance" x1="{across(luck)}" x2="{across(luck)}" y1="{y - 8}" y2="{y + 8}"/>')
        parts.append(f'<circle class="before" cx="{across(before)}" cy="{y}" r="5.5"/>')
        parts.append(f'<circle class="after" cx="{across(after)}" cy="{y}" r="6"/>')
    y = bottom + 44
    parts.append(f'<circle class="before" cx="{LEFT}" cy="{y - 5}" r="5.5"/>')
    parts.append(f'<text class="note" x="{LEFT + 12}" y="{y}">before: plain online model</text>')
    parts.append(f'<circle class="after" cx="{LEFT + 190}" cy="{y - 5}" r="6"/>')
    parts.append(f'<text class="note" x="{LEFT + 202}" y="{y}">after: swapcal</text>')
    parts.append(f'<line class="chance" x1="{LEFT + 308}" x2="{LEFT + 308}" y1="{y - 13}" y2="{y + 3}"/>')
    parts.append(f'<text class="note" x="{LEFT + 318}" y="{y}">what chance alone would show</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/flights.svg")
    found = measured()
    for name, count, before, after, luck in found:
        print(f"{name:22}{count:9,}{before:7.2f}{after:7.2f}{luck:7.2f}")
    target.write_text(drawn(found), encoding="utf-8")
