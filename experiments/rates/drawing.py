"""Which curves go into which figure."""

from pathlib import Path

from rates.figure import Panel, PlottedLine, figure
from rates.plan import BATCH, ONLINE, QUANTITIES, VARIANTS
from rates.results import Result, chosen, common_horizon, label, medians, present, shown_dim, systems
from swapcal import bounds

COLOURS = {
    "engine": "#0b62a4",
    "engine-recent": "#0a8f8f",
    "engine-uniform": "#58b4e5",
    "paper": "#d1495b",
    "paper-sreg": "#e8a0a9",
    "paper-ridge": "#8f5bb5",
    "garg-ito": "#6b8e23",
    "hu-luo": "#c9a227",
    "lsboost": "#b07a1e",
    "hkrr": "#555555",
}
DELTA = 0.05


def write_figures(rows: list[Result], folder: Path) -> list[str]:
    """Write one figure per quantity, and one on dimension; return their file names."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, str] = {}
    online = chosen(rows, kind=ONLINE)
    dim = shown_dim(online)
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


def _curves(rows: list[Result], quantity: str, dim: int) -> list[PlottedLine]:
    lines = [
        PlottedLine(label(name), COLOURS[name], medians(chosen(rows, system=name), quantity))
        for name in systems(rows)
        if quantity == "SReg" or name != "paper-sreg"
    ]
    if quantity in ("PSReg", "PSMCal_2"):
        for name in ("engine", "paper"):
            certificate = medians(chosen(rows, system=name), "certificate")
            lines.append(PlottedLine(f"certificate of the {name}", COLOURS[name], certificate, "2 3"))
    horizons = [T for T, _ in medians(rows, quantity)]
    for family, colour in (("ours", COLOURS["engine"]), ("paper", COLOURS["paper"])):
        theorem = bounds.THEOREMS[quantity, family]
        points = [(T, float(theorem(T, dim, DELTA))) for T in horizons]
        lines.append(PlottedLine(f"theorem, {family}", colour, points, "8 4"))
    return lines


def _batch_panels(rows: list[Result]) -> list[Panel]:
    dim = shown_dim(rows)
    panels = []
    for quantity in QUANTITIES[BATCH]:
        for stream in present(rows, "stream"):
            part = chosen(rows, stream=stream, dim=dim)
            curves = [
                PlottedLine(label(s), COLOURS[s], medians(chosen(part, system=s), quantity)) for s in systems(part)
            ]
            panels.append(Panel(f"{quantity}, {stream}, d = {dim}", curves))
    return panels


def _dimension_panels(rows: list[Result]) -> list[Panel]:
    longest = common_horizon(rows)
    return [
        Panel(
            f"SMCal_2, {stream}, T = {longest:,}",
            [
                PlottedLine(
                    label(name),
                    COLOURS[name],
                    medians(chosen(rows, stream=stream, system=name, rounds=longest), "SMCal_2", "dim"),
                )
                for name in systems(rows)
                if name not in VARIANTS
            ],
        )
        for stream in present(rows, "stream")
    ]
