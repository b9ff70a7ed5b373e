"""From results to figures and tables."""

from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from swapcal import bounds
from swapcal.cli.rating.figure import Line, Panel, figure
from swapcal.cli.rating.plan import BATCH, ONLINE, QUANTITIES, SYSTEMS
from swapcal.cli.rating.slopes import Slope, fit

Row = dict[str, Any]

COLOURS = {
    "engine": "#0b62a4",
    "engine-uniform": "#58b4e5",
    "paper": "#d1495b",
    "paper-sreg": "#e8a0a9",
    "paper-ridge": "#8f5bb5",
    "garg-ito": "#6b8e23",
    "lsboost": "#b07a1e",
    "hkrr": "#555555",
}
DELTA = 0.05
FIGURE_DIM = 5
TAIL_FROM = 10**5
"""Slopes are also fitted from this horizon on, where constants matter less."""

DIMENSION_RATES = {
    "PSReg": "2/3",
    "PSMCal_2": "2/3",
    "SMCal_2": "2/3",
    "SMCal_1": "1/3",
    "SReg": "2/3 ours, 2/5 paper",
    "SOmni": "1/3",
}


def chosen(rows: Iterable[Row], **fields: Any) -> list[Row]:
    """Return the rows with the given fields.

    Examples
    --------
    >>> chosen([{"dim": 2}, {"dim": 5}], dim=5)
    [{'dim': 5}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in fields.items())]


def medians(rows: list[Row], quantity: str, by: str = "rounds") -> list[tuple[float, float]]:
    """Return (horizon, median over seeds) in order.

    Examples
    --------
    >>> medians([{"rounds": 10, "q": 1.0}, {"rounds": 10, "q": 3.0}, {"rounds": 5, "q": None}], "q")
    [(10, 2.0)]
    """
    values: dict[float, list[float]] = {}
    for row in rows:
        if row.get(quantity) is not None:
            values.setdefault(row[by], []).append(row[quantity])
    return [(key, median(found)) for key, found in sorted(values.items())]


def present(rows: list[Row], field: str) -> list[Any]:
    """Return the distinct values of a field, in order of first appearance in the plan."""
    return list(dict.fromkeys(row[field] for row in rows))


def systems(rows: list[Row]) -> list[str]:
    """Return the systems that have rows, in the order of the legend."""
    found = set(present(rows, "system"))
    return [name for name in COLOURS if name in found]


def label(system: str) -> str:
    """Return the words for a system."""
    return SYSTEMS[system].label


def write_figures(rows: list[Row], folder: Path) -> list[str]:
    """Write one figure per quantity, and one on dimension; return their file names."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, str] = {}
    online = chosen(rows, kind=ONLINE)
    dim = FIGURE_DIM if FIGURE_DIM in present(online, "dim") else max(present(online, "dim"))
    for quantity in QUANTITIES[ONLINE]:
        panels = [
            Panel(f"{quantity}, {stream}, d = {dim}", _curves(chosen(online, stream=stream, dim=dim), quantity, dim))
            for stream in present(online, "stream")
        ]
        drawn[f"rates-{quantity.lower().replace('_', '')}.svg"] = figure(panels, 3, "T")
    drawn["rates-dimension.svg"] = figure(_dimension_panels(online), 3, "d")
    if batch := chosen(rows, kind=BATCH):
        drawn["rates-batch.svg"] = figure(_batch_panels(batch), 2, "samples")
    for name, drawing in drawn.items():
        (folder / name).write_text(drawing, encoding="utf-8")
    return list(drawn)


def _curves(rows: list[Row], quantity: str, dim: int) -> list[Line]:
    lines = [
        Line(label(name), COLOURS[name], medians(chosen(rows, system=name), quantity))
        for name in systems(rows)
        if quantity == "SReg" or name != "paper-sreg"
    ]
    if quantity in ("PSReg", "PSMCal_2"):
        for name in ("engine", "paper"):
            certificate = medians(chosen(rows, system=name), "certificate")
            lines.append(Line(f"certificate of the {name}", COLOURS[name], certificate, "2 3"))
    horizons = [T for T, _ in medians(rows, quantity)]
    for family, colour in (("ours", COLOURS["engine"]), ("paper", COLOURS["paper"])):
        theorem = bounds.THEOREMS[quantity, family]
        points = [(T, float(theorem(T, dim, DELTA))) for T in horizons]
        lines.append(Line(f"theorem, {family}", colour, points, "8 4"))
    return lines


def _batch_panels(rows: list[Row]) -> list[Panel]:
    dim = FIGURE_DIM if FIGURE_DIM in present(rows, "dim") else max(present(rows, "dim"))
    panels = []
    for quantity in QUANTITIES[BATCH]:
        for stream in present(rows, "stream"):
            part = chosen(rows, stream=stream, dim=dim)
            curves = [Line(label(s), COLOURS[s], medians(chosen(part, system=s), quantity)) for s in systems(part)]
            panels.append(Panel(f"{quantity}, {stream}, d = {dim}", curves))
    return panels


def _dimension_panels(rows: list[Row]) -> list[Panel]:
    longest = common_horizon(rows)
    return [
        Panel(
            f"SMCal_2, {stream}, T = {longest:,}",
            [
                Line(
                    label(name),
                    COLOURS[name],
                    medians(chosen(rows, stream=stream, system=name, rounds=longest), "SMCal_2", "dim"),
                )
                for name in systems(rows)
            ],
        )
        for stream in present(rows, "stream")
    ]


def common_horizon(rows: list[Row]) -> int:
    """Return the longest horizon at which every system was run."""
    per_system = [set(present(chosen(rows, system=name), "rounds")) for name in systems(rows)]
    return int(max(set.intersection(*per_system)))


def slope_table(rows: list[Row], kind: str) -> list[list[str]]:
    """Return rows (quantity, stream, d, system, slope, tail slope, theory, verdict), first the heading."""
    table = [["quantity", "stream", "d", "system", "slope [95 %]", "slope from 10^5", "theory", "verdict"]]
    for quantity in QUANTITIES[kind]:
        for system in systems(rows):
            if (system == "paper-sreg") != (quantity in ("SReg", "SAErr") and system == "paper-sreg"):
                continue
            for stream in present(rows, "stream"):
                for dim in present(rows, "dim"):
                    part = chosen(rows, system=system, stream=stream, dim=dim)
                    table.append([quantity, stream, str(dim), system, *_verdict(part, quantity, system)])
    return table


def _verdict(rows: list[Row], quantity: str, system: str) -> list[str]:
    points = medians(rows, quantity)
    slope, tail = (fit(*zip(*part, strict=True)) if part else fit([], []) for part in (points, _tail(points)))
    rate = bounds.RATES[quantity, SYSTEMS[system].family]
    return [words(slope), words(tail), f"{rate:.3f}", slope.verdict(rate)]


def _tail(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(T, value) for T, value in points if T >= TAIL_FROM]


def words(slope: Slope) -> str:
    """Return a slope as text.

    Examples
    --------
    >>> words(Slope(0.3333, 0.3, 0.36, 7)), words(Slope(float("nan"), 0, 0, 1))
    ('0.33 [0.30, 0.36]', '–')
    """
    return "–" if slope.value != slope.value else f"{slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]"


def value_table(rows: list[Row], quantity: str, rounds: int, dim: int) -> list[list[str]]:
    """Return medians at one horizon and dimension: a row per stream, a column per system."""
    names = systems(rows)
    table = [["stream", *names]]
    for stream in present(rows, "stream"):
        part = chosen(rows, stream=stream, rounds=rounds, dim=dim)
        found = [medians(chosen(part, system=name), quantity) for name in names]
        table.append([stream, *(f"{cell[0][1]:.4g}" if cell else "–" for cell in found)])
    return table


def dimension_table(rows: list[Row], quantities: Iterable[str] = ("PSReg", "SMCal_2", "SMCal_1")) -> list[list[str]]:
    """Return the log-log slope in d at the longest common horizon, median over streams, beside the theorem's power."""
    longest, names = common_horizon(rows), systems(rows)
    table = [["quantity", "theory", *names]]
    for quantity in quantities:
        cells = [quantity, DIMENSION_RATES[quantity]]
        for name in names:
            slopes = []
            for stream in present(rows, "stream"):
                points = medians(chosen(rows, stream=stream, system=name, rounds=longest), quantity, "dim")
                slopes.append(fit(*zip(*points, strict=True)).value)
            finite = [slope for slope in slopes if slope == slope]
            cells.append(f"{median(finite):.2f} ({min(finite):.2f} … {max(finite):.2f})" if finite else "–")
        table.append(cells)
    return table


def certified(rows: list[Row]) -> tuple[int, int]:
    """Return how many runs have a certificate, and how many of them hold."""
    with_proof = [row for row in rows if row.get("certified") is not None]
    return len(with_proof), sum(bool(row["certified"]) for row in with_proof)


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


def summary(rows: list[Row], command: str, render: Callable[[list[list[str]]], str] = markdown) -> str:
    """Return the measured part of the page: values, slopes, dimension, certificates."""
    online, batch = chosen(rows, kind=ONLINE), chosen(rows, kind=BATCH)
    longest = common_horizon(online)
    dim = FIGURE_DIM if FIGURE_DIM in present(online, "dim") else max(present(online, "dim"))
    total, holding = certified(online)
    parts = [
        f"`{command}`; {len(rows):,} runs; certificates hold on {holding:,} of {total:,} runs that have one.",
        f"## Errors at T = {longest:,}, d = {dim} (median over seeds)",
    ]
    for quantity in QUANTITIES[ONLINE]:
        parts += [f"### {quantity}", render(value_table(online, quantity, longest, dim))]
    parts += [f"## Power of d at T = {longest:,} (median over streams, smallest … largest)"]
    parts += [render(dimension_table(online))]
    if batch:
        top = common_horizon(batch)
        parts.append(f"## Fitted on {top:,} samples, d = {dim}, judged on fresh contexts")
        for quantity in QUANTITIES[BATCH]:
            parts += [f"### {quantity}", render(value_table(batch, quantity, top, dim))]
        parts += ["## Slopes, batch", render(slope_table(batch, BATCH))]
    parts += ["## Slopes, online", render(slope_table(online, ONLINE))]
    return "\n\n".join(parts) + "\n"
