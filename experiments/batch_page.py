"""The measured part of docs/batch.md and its picture, from the table of results."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t

from batch_tasks import ASIDE

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARKS = ("<!-- measured: begin -->", "<!-- measured: end -->")
OURS, BASE, PATCHING = "swapcal mean", "base model", "HKRR"
EXACT, FRESH, NO_BASE = "true probabilities", "swapcal alone", "none"
KEYS = ["task", "base", "method"]
SEEDS = 3
"""Splits that the tables are about; with more there is one more table, of worst groups."""
ROWS = (BASE, "isotonic", PATCHING, "MCGrad", "MCGrad groups", "swapcal linear", OURS)
"""Shown on the page around a base model; the rest is under "every measure"."""
ALONE = ("logistic regression", "LightGBM", FRESH, "swapcal around LightGBM")
DIFFERENCES = {
    False: (OURS, ("MCGrad", "MCGrad groups", PATCHING)),
    True: (FRESH, ("LightGBM", "swapcal around LightGBM")),
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
TIMES = {"fit s": "Seconds to fit", "µs/row": "Microseconds per row to predict, in bulk"}
COLOURS = {
    BASE: "#9a9a9a",
    "isotonic": "#c9a227",
    PATCHING: "#b2432f",
    "MCGrad": "#7a5c99",
    "MCGrad groups": "#b08fd0",
    "swapcal linear": "#7fb3a8",
    OURS: "#12705f",
}


def write_page(results: pd.DataFrame, differences: pd.DataFrame, times: pd.DataFrame, speed: dict[str, float]) -> None:
    """Replace the measured part of the page and draw the picture; `times`, where there are any, were taken together."""
    every, results = _common(results), _common(results[results["seed"] < SEEDS])
    mean = results.groupby(KEYS, sort=False)[list(DIGITS)].mean()
    if len(times):
        together = times.groupby(KEYS)[list(TIMES)].median()
        mean.update(together)
    around, alone, chance = _split(mean, ROWS), _split(mean, ALONE), _by_chance(differences)
    page = DOCS / "batch.md"
    before, rest = page.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    parts = [
        _counts(results),
        "### Around a base model",
        _verdict(around, differences, chance),
        *(_pivot(around, name) for name in ("log loss", "worst-group ECE")),
        _intervals(differences, OURS),
        _chance(around, chance, ("MCGrad", PATCHING, OURS)),
        _over_splits(every, OURS, ("MCGrad", PATCHING)),
        *(_pivot(around, name) for name in TIMES),
        "### Without a base model",
        _alone_verdict(alone, chance),
        *(_pivot(alone, name) for name in ("log loss", "worst-group ECE", *TIMES)),
        _intervals(differences, FRESH),
        _chance(alone, chance, ("LightGBM", FRESH)),
        _over_splits(every, FRESH, ("LightGBM",)),
        _speed(speed),
        _everything(mean),
    ]
    page.write_text(before + "\n\n".join([MARKS[0], *parts, MARKS[1]]) + after)
    (DOCS / "figures").mkdir(exist_ok=True)
    (DOCS / "figures" / "batch.svg").write_text(_picture(_split(mean, tuple(COLOURS))))


def _common(results: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of those seeds on which both we and the peer that counts were run, for each table and model."""
    kept = []
    for (_, base), block in results.drop_duplicates([*KEYS, "seed"], keep="last").groupby(["task", "base"], sort=False):
        pair = (FRESH, "LightGBM") if base == NO_BASE else (OURS, "MCGrad")
        seeds = set.intersection(*(set(block.loc[block["method"] == method, "seed"]) for method in pair))
        block = block[block["seed"].isin(seeds)]
        kept.append(block[block.groupby("method")["seed"].transform("nunique") == len(seeds)])
    return pd.concat(kept)


def _split(mean: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    return mean[mean.index.get_level_values("method").isin(methods)]


def _by_chance(differences: pd.DataFrame) -> pd.DataFrame:
    """Return mean and 95 % point of the worst-group ECE that each method's forecasts would show if they were true."""
    draws = {}
    for (task, base), block in differences.groupby(["task", "base"], sort=False):
        found = {DIFFERENCES[base == NO_BASE][0]: block.drop_duplicates("seed")["our chance"]}
        found |= {other: part["chance"] for other, part in block.groupby("other", sort=False)}
        for method, lists in found.items():
            means = np.mean(lists.tolist(), axis=0)
            draws[task, base, method] = (means.mean(), np.quantile(means, 0.95))
    return pd.DataFrame(draws, index=["mean", "top"]).T.rename_axis(KEYS)


def _within(mean: pd.DataFrame, chance: pd.DataFrame, method: str) -> "pd.Series[bool]":
    """Tell where a method's worst group shows no more than chance would, in nineteen of twenty cases."""
    worst, top = (frame.unstack("method")[method] for frame in (mean["worst-group ECE"], chance["top"]))
    return worst <= top.reindex(worst.index)


def _verdict(mean: pd.DataFrame, differences: pd.DataFrame, chance: pd.DataFrame) -> str:
    """Return what the numbers say: no harm, and log loss, worst group and times against the peers."""
    wide = mean.unstack("method")
    loss, fit, bulk = (wide[name] for name in ("log loss", "fit s", "µs/row"))
    worst, typical = wide["worst-group ECE"], wide["mean-group ECE"]
    rival = worst[["MCGrad", PATCHING]].min(axis=1)
    noise = differences[(differences["base"] != NO_BASE) & differences["other"].isin(["MCGrad", PATCHING])]
    bounds = noise.groupby(["task", "base", "other"], sort=False)[["low", "high"]].mean()
    lines = [
        _count("a log loss at or below MCGrad's", loss[OURS] <= loss["MCGrad"]),
        _count("a worst-group ECE at or below the better of MCGrad and HKRR", worst[OURS] <= rival),
        _count(
            "a worst-group ECE at or below the better of them, or within what chance alone gives",
            (worst[OURS] <= rival) | _within(mean, chance, OURS),
        ),
        _count(
            "a mean ECE of all groups at or below the better of them",
            typical[OURS] <= typical[["MCGrad", PATCHING]].min(axis=1),
        ),
        _count("a log loss at most 0.1 % above the base model's", loss[OURS] <= 1.001 * loss[BASE]),
        _count("a fit in at most a tenth of MCGrad's time", fit[OURS] <= 0.1 * fit["MCGrad"]),
        _count("predictions in at most 10 µs per row", bulk[OURS] <= 10.0),
    ]
    clear = (
        f"Of {len(bounds)} differences of worst groups to MCGrad and HKRR, resampled, {(bounds['high'] < 0).sum()} are "
        f"clearly in our favour, {(bounds['low'] > 0).sum()} clearly against us, the others within noise."
    )
    inside = ", ".join(f"{method} on {_within(mean, chance, method).sum()}" for method in (OURS, "MCGrad", PATCHING))
    clear += f" Within what chance alone would show, in nineteen of twenty cases, is the worst group of {inside}."
    return f"Of {len(wide)} tables × base models, `{OURS}` has\n\n" + "\n".join(lines) + f"\n\n{clear}"


def _alone_verdict(mean: pd.DataFrame, chance: pd.DataFrame) -> str:
    wide = mean.unstack("method")
    loss, worst, typical = (wide[name] for name in ("log loss", "worst-group ECE", "mean-group ECE"))
    ahead = worst[FRESH] < worst["LightGBM"]
    lines = [
        _count("a log loss at most 0.2 % above LightGBM's", loss[FRESH] <= 1.002 * loss["LightGBM"]),
        _count("a worst-group ECE below LightGBM's", ahead),
        _count(
            "a worst-group ECE below LightGBM's, or within what chance alone gives",
            ahead | _within(mean, chance, FRESH),
        ),
        _count("a mean ECE of all groups below LightGBM's", typical[FRESH] < typical["LightGBM"]),
    ]
    what = f"`{FRESH}` (`SwapClassifier()`, nothing set but the groups)"
    inside = f"LightGBM's worst group is within what chance alone gives on {_within(mean, chance, 'LightGBM').sum()}."
    return f"Of {len(wide)} tables, {what} has\n\n" + "\n".join(lines) + f"\n\n{inside}"


def _count(what: str, holds: "pd.Series[bool]") -> str:
    missed = [_where(index) for index in holds.index[~holds]]
    return f"- {what} on {int(holds.sum())}" + (f" (not on {'; '.join(missed)})" if missed else "")


def _chance(mean: pd.DataFrame, chance: pd.DataFrame, methods: Sequence[str]) -> str:
    """Return the table of what each method's worst group would show if its forecasts were the truth."""
    inside, rows = {method: _within(mean, chance, method) for method in methods}, []
    for task, base in inside[methods[-1]].index:
        shown = [chance.loc[(task, base, method)] for method in methods]
        cells = [
            _bold(f"{one['mean']:.3f} ({one['top']:.3f})", inside[method][task, base])
            for method, one in zip(methods, shown, strict=True)
        ]
        rows.append([_task(task), base, *cells])
    title = (
        "**Worst-group ECE by chance: what the forecasts would show, on average and (in brackets) in one of twenty "
        "cases, if they were the true probabilities; bold where they show no more**"
    )
    return f"{title}\n\n" + _table(["table", "base model's kind", *methods], rows)


def _intervals(differences: pd.DataFrame, ours: str) -> str:
    """Return the table of our worst-group ECE minus others', 5 % to 95 %."""
    block = differences[(differences["base"] == NO_BASE) == (ours == FRESH)]
    bounds = block.groupby(["task", "base", "other"], sort=False)[["low", "high"]].mean()
    others = list(dict.fromkeys(bounds.index.get_level_values("other")))
    rows = [
        [_task(task), base, *(_interval(part, (task, base, other)) for other in others)]
        for (task, base), part in bounds.groupby(level=["task", "base"], sort=False)
    ]
    title = f"**Worst-group ECE of `{ours}` minus that of others, 5 % and 95 % points over resampled test rows**"
    return f"{title}\n\n" + _table(["table", "base model's kind", *others], rows)


def _interval(bounds: pd.DataFrame, index: tuple[str, str, str]) -> str:
    if index not in bounds.index:
        return "–"
    low, high = bounds.loc[index]
    return _bold(f"{low:+.3f} … {high:+.3f}", high < 0)


def _over_splits(results: pd.DataFrame, ours: str, others: Sequence[str]) -> str:
    """Return worst groups over all splits there are, and our mean difference to others with a 90 % interval.

    Differences are paired by split, so that what a split makes hard for all is not noise.
    """
    block = results[(results["base"] == NO_BASE) == (ours == FRESH)]
    worst = block.pivot_table(index=["task", "base", "seed"], columns="method", values="worst-group ECE", sort=False)
    typical = block.pivot_table(index=["task", "base"], columns="method", values="mean-group ECE", sort=False)
    milder = typical[ours] <= typical[list(others)].min(axis=1)
    rows, kept, clear = [], [], []
    for (task, base), part in worst[[*others, ours]].dropna().groupby(level=["task", "base"], sort=False):
        gaps, means = part[list(others)].rsub(part[ours], axis=0), part.mean()
        reach = t.ppf(0.95, len(part) - 1) * gaps.std() / np.sqrt(len(part))
        kept.append(means[ours] <= means[list(others)].min())
        clear += [int(np.sign(gap)) * (abs(gap) > width) for gap, width in zip(gaps.mean(), reach, strict=True)]
        shown = [f"{gap:+.4f} ± {width:.4f}" for gap, width in zip(gaps.mean(), reach, strict=True)]
        cells = [_bold(f"{means[method]:.4f}", means[method] <= means.min()) for method in (*others, ours)]
        rows.append([_task(task), base, str(len(part)), *cells, *shown])
    heads = ["table", "base model's kind", "splits", *others, ours, *(f"ours minus {other}" for other in others)]
    rival = others[0] if len(others) == 1 else "the better of " + " and ".join(others)
    said = (
        f"Over these splits the mean worst group of `{ours}` is at or below {rival} on {sum(kept)} of {len(kept)}; of "
        f"{len(clear)} differences {clear.count(-1)} clearly in our favour, {clear.count(1)} against us. "
        f"The mean ECE of all groups is at or below {rival} on {milder.sum()} of {len(milder)}."
    )
    title = "**Worst-group ECE over more splits: means, and differences with 90 % intervals, paired by split**"
    return f"{title}\n\n{_table(heads, rows)}\n\n{said}"


def _speed(speed: dict[str, float]) -> str:
    size = f"{speed['rows']:,} rows, {speed['coordinates']} coordinates, 16 snapshots of up to {speed['levels']} levels"
    bulk, alone = f"{speed['µs/row']:.1f} µs per row in bulk", f"{speed['single µs']:.0f} µs for a row alone"
    return f"`SwapClassifier` on an array of {size}: fit {speed['fit s']:.2f} s, {bulk}, {alone}."


def _where(index: "tuple[str, str]") -> str:
    return index[0] if index[1] == NO_BASE else f"{index[0]}, {_short(index[1])}"


def _short(base: str) -> str:
    return "".join(word[0].upper() for word in base.split())


def _task(name: str) -> str:
    return f"{name} *" if name in ASIDE else name


def _counts(results: pd.DataFrame) -> str:
    seeds = results.groupby(["task", "base"])["seed"].nunique()  # of the tables, not of the one over more splits
    words = f"{seeds.max()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    return f"Means over {words} seed(s), those on which both sides of a comparison were run. * marks tables kept aside."


def _pivot(mean: pd.DataFrame, name: str) -> str:
    order = [m for m in (*ROWS, *ALONE) if m in set(mean.index.get_level_values("method"))]
    wide = mean[name].unstack("method")[order]
    heads = ["table", "base model's kind", *wide.columns]
    rows = []
    for (task, base), values in wide.iterrows():
        best = values.drop(labels=[BASE], errors="ignore").min()
        shown = ["–" if value != value else _bold(f"{value:.{DIGITS[name]}f}", value <= best) for value in values]
        rows.append([_task(task), base, *shown])
    return f"**{TIMES.get(name, name[0].upper() + name[1:])}**\n\n" + _table(heads, rows)


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
        *_legend([method for method in COLOURS if method in mean.index.get_level_values("method")]),
    ]
    for row, (task, base) in enumerate(lines):
        y = TOP + STEP * row + STEP / 2
        kind = "LR" if base.startswith("logistic") else "GB"
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end" fill="#333">{task}, {kind}</text>')
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - GAP}" y1="{y}" y2="{y}" stroke="#eee"/>')
    for number, (title, relative) in enumerate(PANELS):
        parts += _panel(mean, lines, LEFT + number * (size + GAP), size, title, relative, height)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(methods: list[str]) -> list[str]:
    parts, x = [], LEFT
    for method in methods:
        parts.append(f'<circle cx="{x}" cy="14" r="5" fill="{COLOURS[method]}"/>')
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
