"""The measured part of docs/batch.md and its picture, from the table of results."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARKS = ("<!-- measured: begin -->", "<!-- measured: end -->")
OURS, BASE, PATCHING = "swapcal mean", "base model", "HKRR"
EXACT = "true probabilities"
DIFFERENCES = {
    False: (OURS, ("MCGrad", "MCGrad groups", PATCHING)),
    True: ("swapcal alone", ("LightGBM", "swapcal around LightGBM")),
}
"""Whose worst groups are compared, around a base model and without one."""
DIGITS = {
    "log loss": 4,
    "Brier": 4,
    "ECE": 4,
    "worst-group ECE": 3,
    "mean-group ECE": 4,
    "SMCal_1": 4,
    "SMCal_1 null": 4,
    "SMCal_2": 5,
    "SMCal_2 null": 5,
    "SOmni": 4,
    "fit s": 2,
    "µs/row": 1,
    "single µs": 0,
}
COLOURS = {
    BASE: "#9a9a9a",
    "isotonic": "#c9a227",
    PATCHING: "#b2432f",
    "LSBoost linear": "#7a5c99",
    "LSBoost tree": "#b08fd0",
    "swapcal hash": "#7fb3a8",
    OURS: "#12705f",
}


def write_page(results: pd.DataFrame, speed: dict[str, float]) -> None:
    """Replace the measured part of the page and draw the picture."""
    keys = ["task", "base", "method"]
    mean = results.groupby(keys, sort=False)[list(DIGITS)].mean()
    seeds = results.groupby(keys, sort=False)["seed"].nunique()
    page = DOCS / "batch.md"
    before, rest = page.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    parts = [
        _verdict(mean),
        _counts(seeds),
        _speed(speed),
        *(_pivot(mean, name) for name in ("log loss", "worst-group ECE", "Brier")),
    ]
    page.write_text(before + "\n\n".join([MARKS[0], *parts, _everything(mean), MARKS[1]]) + after)
    (DOCS / "figures").mkdir(exist_ok=True)
    (DOCS / "figures" / "batch.svg").write_text(_picture(mean))


def _verdict(mean: pd.DataFrame) -> str:
    """Return what the numbers say about the two promises: no harm, and less group error than patching."""
    wide = mean.unstack("method")
    loss, brier, worst = (wide[name] for name in ("log loss", "Brier", "worst-group ECE"))
    harmed = [_where(index) for index in wide.index if _worse(loss.loc[index]) or _worse(brier.loc[index])]
    beaten = (worst[OURS] <= worst[PATCHING]) & (loss[OURS] < loss[PATCHING])
    tasks = beaten.groupby(level="task", sort=False).all()
    lines = [
        f"Of {len(wide)} tables × base models, `swapcal mean` has a higher log loss or Brier score than the base model "
        + (f"on {len(harmed)}: {', '.join(harmed)}." if harmed else "on none."),
        f"Its worst-group ECE is at most {PATCHING}'s and its log loss lower on {int(beaten.sum())} of them; for both "
        f"base models on {', '.join(tasks.index[tasks]) or 'no table'}.",
    ]
    missed = [_where(index) for index in wide.index[~beaten]]
    return " ".join(lines) + (f" Not on {', '.join(missed)}." if missed else "")


def _speed(speed: dict[str, float]) -> str:
    size = f"{speed['rows']:,} rows, {speed['coordinates']} coordinates, 32 snapshots of up to {speed['levels']} levels"
    bulk, alone = f"{speed['µs/row']:.1f} µs per row in bulk", f"{speed['single µs']:.0f} µs for a row alone"
    return f"`SwapClassifier` on an array of {size}: fit {speed['fit s']:.2f} s, {bulk}, {alone}."


def _worse(row: "pd.Series[float]") -> bool:
    return bool(row[OURS] > row[BASE])


def _where(index: tuple[str, str]) -> str:
    return f"{index[0]} ({index[1]})"


def _counts(seeds: "pd.Series[int]") -> str:
    low, high = seeds.min(), seeds.max()
    return f"Means over {high} seed(s)." if low == high else f"Means over {low} to {high} seeds."


def _pivot(mean: pd.DataFrame, name: str) -> str:
    wide = mean[name].unstack("method")[[m for m in dict.fromkeys(mean.index.get_level_values("method")) if m != EXACT]]
    heads = ["table", "base model's kind", *wide.columns]
    rows = []
    for (task, base), values in wide.iterrows():
        best = values.min()
        shown = [_bold(f"{value:.{DIGITS[name]}f}", value <= best) for value in values]
        rows.append([task, base, *shown])
    return f"### {name[0].upper()}{name[1:]}\n\n" + _table(heads, rows)


def _everything(mean: pd.DataFrame) -> str:
    blocks = []
    for (task, base), block in mean.groupby(level=["task", "base"], sort=False):
        rows = [
            [index[2], *(f"{row[name]:.{digits}f}" for name, digits in DIGITS.items())]
            for index, row in block.iterrows()
        ]
        blocks.append(f"**{task}, {base}**\n\n" + _table(["method", *DIGITS], rows))
    return "<details><summary>Every measure</summary>\n\n" + "\n\n".join(blocks) + "\n\n</details>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _bold(text: str, best: bool) -> str:
    return f"**{text}**" if best else text


# ---------------------------------------------------------------- picture

WIDTH, LEFT, GAP, TOP, STEP = 960, 210, 40, 58, 24
PANELS = (("worst-group ECE", False), ("log loss minus the base model's", True))


def _picture(mean: pd.DataFrame) -> str:
    """Return two dot plots side by side, one line per table and base model."""
    lines = list(dict.fromkeys(zip(mean.index.get_level_values(0), mean.index.get_level_values(1), strict=True)))
    height = TOP + STEP * len(lines) + 40
    size = (WIDTH - LEFT - 2 * GAP) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img">',
        "<title>Worst-group calibration error and log loss of post-processing methods</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        *_legend(),
    ]
    for row, (task, base) in enumerate(lines):
        y = TOP + STEP * row + STEP / 2
        kind = "LR" if base.startswith("logistic") else "GB"
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end" fill="#333">{task}, {kind}</text>')
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - GAP}" y1="{y}" y2="{y}" stroke="#eee"/>')
    for number, (title, relative) in enumerate(PANELS):
        parts += _panel(mean, lines, LEFT + number * (size + GAP), size, title, relative, height)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend() -> list[str]:
    parts, x = [], LEFT
    for method, colour in COLOURS.items():
        parts.append(f'<circle cx="{x}" cy="14" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x + 9}" y="18" fill="#333">{method}</text>')
        x += 36 + round(6.5 * len(method))
    return parts


def _panel(
    mean: pd.DataFrame, lines: list[tuple[str, str]], left: float, size: float, title: str, relative: bool, height: int
) -> list[str]:
    name = "log loss" if relative else "worst-group ECE"
    values = {
        (line, method): float(mean.loc[(*line, method), name] - (mean.loc[(*line, BASE), name] if relative else 0.0))
        for line in lines
        for method in COLOURS
        if (*line, method) in mean.index
    }
    low, high = (-0.12, 0.06) if relative else (0.0, 0.22)
    ticks = (-0.12, -0.08, -0.04, 0.0, 0.04) if relative else (0.0, 0.05, 0.1, 0.15, 0.2)

    def place(value: float) -> float:
        return left + size * (min(max(value, low), high) - low) / (high - low)

    bottom = height - 34
    parts = [f'<text x="{left}" y="{TOP - 14}" fill="#111" font-weight="600">{title}</text>']
    for tick in ticks:
        x = place(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#666">{tick:g}</text>')
    for (line, method), value in values.items():
        y = TOP + STEP * lines.index(line) + STEP / 2
        beyond = "" if low <= value <= high else ' stroke="#000" stroke-dasharray="2 1"'
        parts.append(
            f'<circle cx="{place(value):.1f}" cy="{y}" r="5" fill="{COLOURS[method]}" fill-opacity="0.85"{beyond}>'
            f"<title>{line[0]}, {line[1]}, {method}: {value:.4f}</title></circle>"
        )
    return parts
