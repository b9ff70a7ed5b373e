"""One forecaster for every loss, against a model trained for each loss.

    SWAPCAL_DATA=directory python experiments/decisions.py [--blocks 8] [--data rain_australia]

Every method sees the rows in recorded order and decides before it learns; swapcal learns a label only once it was
known. Boosted trees are refitted on all past rows at the start of each block; the first block only warms up. Run
on all data it writes the measured part of docs/decisions.md and its picture docs/decisions.svg.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.isotonic import IsotonicRegression

from swapcal.arrays import Array
from swapcal.live import Live, Trace
from swapcal.losses import Loss, cost_matrix, log, newsvendor, pinball, squared, swap_omniprediction, zero_one

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARKS = ("<!-- measured: begin -->", "<!-- measured: end -->")
SCORE = "p_trees"
SPAN = 0.999


# ---------------------------------------------------------------- data


@dataclass(frozen=True)
class Stream:
    """A data set in recorded order: a frame of features, outcomes, and the decisions people face on it."""

    name: str
    frame: pd.DataFrame
    y: Array
    time: Array
    """Day of the decision; never decreases."""
    label_time: Array
    """Day at whose end the outcome is known."""
    losses: dict[str, Loss]

    def __len__(self) -> int:
        return len(self.y)


ANYWHERE = {
    "squared": squared(),
    "log": log(),
    "0-1": zero_one(),
    "miss costs 9×": zero_one(1.0, 9.0),
    "false alarm costs 5×": zero_one(5.0, 1.0),
    "pinball 0.8": pinball(0.8),
}
"""Losses asked of every stream."""


def rain(folder: Path) -> Stream:
    """Will it rain tomorrow? Known at the end of tomorrow."""
    frame, y, day = _read(folder, "rain_australia")
    losses = ANYWHERE | {
        "go / postpone / cancel": cost_matrix([[0, 10], [1, 4], [3, 1]], ["go", "postpone", "cancel"]),
    }
    return Stream("rain_australia", frame.drop(columns="t"), y, day, day + 1.0, losses)


def hotel(folder: Path) -> Stream:
    """Will the booking be cancelled? Known on the day of arrival if so, else when the guest leaves."""
    frame, y, day = _read(folder, "hotel_bookings")
    known = np.maximum(_days(frame["t_label"]), day)
    price = frame["adr"].to_numpy(float).clip(20.0, 400.0) / 100.0
    losses = ANYWHERE | {
        "keep / remind / resell": cost_matrix([[0.0, 4.0], [0.5, 2.0], [6.0, 0.0]], ["keep", "remind", "resell"]),
        "room's own price": newsvendor(under=price, over=1.0),
    }
    return Stream("hotel_bookings", frame.drop(columns=["t", "t_label", "country_top"]), y, day, known, losses)


STREAMS: dict[str, Callable[[Path], Stream]] = {"rain_australia": rain, "hotel_bookings": hotel}


def _read(folder: Path, name: str) -> tuple[pd.DataFrame, Array, Array]:
    frame = pd.read_csv(folder / f"{name}.csv.gz", low_memory=False)
    return frame.drop(columns="y"), frame["y"].to_numpy(float), _days(frame["t"])


def _days(dates: pd.Series) -> Array:
    return pd.to_datetime(dates).to_numpy("datetime64[D]").astype(float)


# ---------------------------------------------------------------- features


def codes_for_trees(frame: pd.DataFrame) -> Array:
    """Numbers as they are, categories as integer codes; trees take missing values."""
    columns = [frame[c] if _is_number(frame[c]) else frame[c].astype("category").cat.codes for c in frame]
    return np.column_stack([np.asarray(column, dtype=float) for column in columns])


def _is_number(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column))


# ---------------------------------------------------------------- models


def swapcal_trace(stream: Stream, scores: Array | None) -> Trace:
    """One forecaster over the stream, with or without somebody's score as a further column."""
    frame = stream.frame if scores is None else stream.frame.assign(**{SCORE: scores})
    live = Live(scores=[] if scores is None else [SCORE])
    return live.trace(frame, stream.y, time=stream.time, label_time=stream.label_time)


def boosted() -> HistGradientBoostingClassifier:
    """Boosted trees as one would use them without tuning."""
    return HistGradientBoostingClassifier(max_iter=150, learning_rate=0.08, early_stopping=False, random_state=0)


def fit_for(loss: Loss, trees: Array, y: Array) -> Callable[[Array], Array]:
    """Train boosted trees for one loss alone, on the rows given; return features → actions."""
    if loss.name == "squared":
        model = HistGradientBoostingRegressor(max_iter=150, learning_rate=0.08, early_stopping=False, random_state=0)
        model.fit(trees, y)
        return lambda rows: np.clip(model.predict(rows), 0.0, 1.0)
    if loss.name == "log":
        return _probabilities(boosted().fit(trees, y))
    if loss.finite_actions is not None:
        steps = [_weighted(pair, trees, y) for pair in _adjacent(np.asarray(loss.parameters["costs"]))]
        return lambda rows: np.sum([step(rows) for step in steps], axis=0)
    under, over = loss.parameters["under"], loss.parameters["over"]
    return _weighted((np.broadcast_to(over, len(y)), np.broadcast_to(under, len(y))), trees, y)


def _adjacent(costs: Array) -> Iterator[tuple[float, float]]:
    """Yield what moving one action up costs at outcome 0 and saves at outcome 1."""
    for lower, upper in pairwise(costs):
        yield float(upper[0] - lower[0]), float(lower[1] - upper[1])


def _weighted(costs: tuple[Array | float, Array | float], trees: Array, y: Array) -> Callable[[Array], Array]:
    model = boosted().fit(trees, y, sample_weight=np.where(y == 1.0, costs[1], costs[0]))
    return lambda rows: (model.predict_proba(rows)[:, 1] >= 0.5).astype(float)


def _probabilities(model: HistGradientBoostingClassifier) -> Callable[[Array], Array]:
    return lambda rows: np.asarray(model.predict_proba(rows)[:, 1])


# ---------------------------------------------------------------- the comparison


@dataclass
class Costs:
    """Row costs of each method under each loss (rows after the first block)."""

    rows: dict[tuple[str, str], Array] = field(default_factory=dict)
    somni: dict[str, float] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Rows that were decided."""
        return len(next(iter(self.rows.values())))

    def mean(self, method: str, loss: str) -> float:
        """Mean cost per row."""
        return float(self.rows[method, loss].mean())

    def difference(self, method: str, other: str, loss: str, chunks: int = 50) -> tuple[float, float]:
        """Mean cost difference; standard error over contiguous chunks, which keep dependence inside."""
        gap = self.rows[method, loss] - self.rows[other, loss]
        means = np.array([part.mean() for part in np.array_split(gap, chunks)])
        return float(gap.mean()), float(means.std(ddof=1) / np.sqrt(chunks))


OURS, OURS_ALONE = "swapcal around trees", "swapcal alone"
PER_LOSS, CALIBRATED, RAW = "trees per loss", "trees + isotonic", "trees"
OFTEN, EXPERT = "trees, refitted 4× as often", "best online expert"
FORECASTS = (OURS, OURS_ALONE, CALIBRATED, RAW, OFTEN, EXPERT)


def compare(stream: Stream, blocks: int) -> Costs:
    """Run every method over the stream."""
    edges = np.linspace(0, len(stream), blocks + 1).astype(int)
    trees = codes_for_trees(stream.frame)
    raw, calibrated, actions = refitted_trees(stream, trees, edges)
    often = refitted_often(stream, trees, np.linspace(edges[1], len(stream), 4 * (blocks - 1) + 1).astype(int))
    ours, alone = (swapcal_trace(stream, scores) for scores in (raw, None))
    say(f"{stream.name}: forecasters done")
    first = slice(int(edges[1]), None)
    forecasts = {OURS: ours.forecast.p, OURS_ALONE: alone.forecast.p, CALIBRATED: calibrated, RAW: raw}
    forecasts[OFTEN] = often
    forecasts[EXPERT] = best_expert(alone.experts, stream.y)
    return collect(stream, forecasts, actions, ours.x, first)


def best_expert(bank: Array, y: Array) -> Array:
    """Pick the expert inside swapcal that turned out best: hindsight."""
    losses = log()(np.clip(bank, 1e-6, 1.0 - 1e-6), y[:, None]).mean(axis=0)
    return np.asarray(bank[:, int(np.argmin(losses))])


def refitted_trees(stream: Stream, trees: Array, edges: NDArray[np.int_]) -> tuple[Array, Array, dict[str, Array]]:
    """Forecasts of trees, of trees calibrated on the last fifth of the past, and actions of trees per loss."""
    raw, calibrated = np.full(len(stream), np.nan), np.full(len(stream), np.nan)
    actions = {name: np.zeros(len(stream)) for name in stream.losses}
    for start, stop in pairwise(edges[1:]):
        past, held, now = slice(0, start), slice(int(0.8 * start), start), slice(start, stop)
        raw[now] = _probabilities(boosted().fit(trees[past], stream.y[past]))(trees[now])
        calibrated[now] = _isotonic(trees, stream.y, held, now)
        for name, loss in stream.losses.items():
            actions[name][now] = fit_for(loss.take(past), trees[past], stream.y[past])(trees[now])
        say(f"{stream.name}: trees for rows {start:,} to {stop:,}")
    return raw, calibrated, actions


def refitted_often(stream: Stream, trees: Array, edges: NDArray[np.int_]) -> Array:
    """Forecasts of trees, refitted on all past rows at each of the edges."""
    p = np.full(len(stream), np.nan)
    for start, stop in pairwise(edges):
        p[start:stop] = _probabilities(boosted().fit(trees[:start], stream.y[:start]))(trees[start:stop])
    return p


def _isotonic(trees: Array, y: Array, held: slice, now: slice) -> Array:
    model = _probabilities(boosted().fit(trees[: held.start], y[: held.start]))
    curve = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0)
    curve.fit(model(trees[held]), y[held])
    return np.asarray(curve.predict(model(trees[now])))


def collect(stream: Stream, forecasts: dict[str, Array], actions: dict[str, Array], X: Array, rows: slice) -> Costs:
    """Cost of every row; forecasts keep 0.1 % away from certainty so that no log loss is infinite."""
    costs, y = Costs(), stream.y[rows]
    for name, loss in stream.losses.items():
        part = loss.take(np.arange(len(stream))[rows])
        for method, p in forecasts.items():
            costs.rows[method, name] = part.induced(_inside(p[rows]), y)
        taken = actions[name][rows]
        costs.rows[PER_LOSS, name] = part(_inside(taken) if name == "log" else taken, y)
    for method, p in forecasts.items():
        # Continuous forecasts are put on hundredths: with one row per level there is nothing to average.
        levels = p[rows] if len(np.unique(p[rows])) < 1000 else np.rint(100.0 * p[rows]) / 100.0
        costs.somni[method] = swap_omniprediction(levels, y, X[rows], rules="restricted").total / len(y)
    return costs


def _inside(p: Array) -> Array:
    return np.clip(p, 1.0 - SPAN, SPAN)


# ---------------------------------------------------------------- what is written


def table(stream: Stream, costs: Costs) -> list[str]:
    """Markdown table of mean costs; the last column compares ours with the model trained for the loss."""
    methods = (PER_LOSS, *FORECASTS)
    lines = [
        f"**{stream.name}**, mean cost per row over {costs.count:,} decisions:",
        "",
        "| loss | " + " | ".join(methods) + f" | {OURS} − {PER_LOSS} |",
        "|---|" + "---|" * (len(methods) + 1),
    ]
    for loss in stream.losses:
        means = [costs.mean(method, loss) for method in methods]
        cells = [f"**{mean:.4f}**" if mean == min(means) else f"{mean:.4f}" for mean in means]
        gap, error = costs.difference(OURS, PER_LOSS, loss)
        lines.append(f"| {loss} | " + " | ".join(cells) + f" | {gap:+.4f} ± {2 * error:.4f} |")
    somni = ["–", *(f"{costs.somni[method]:.4f}" for method in FORECASTS), ""]
    lines.append("| *SOmni per row* | " + " | ".join(somni) + " |")
    return [*lines, "", *verdict(stream, costs), ""]


def verdict(stream: Stream, costs: Costs) -> list[str]:
    """Where ours loses, in one sentence per opponent."""
    lines = []
    duels = [(OURS, other) for other in (PER_LOSS, CALIBRATED, RAW, OFTEN)]
    duels += [(OURS_ALONE, other) for other in (PER_LOSS, OFTEN, EXPERT)]
    for ours, other in duels:
        gaps = {loss: costs.difference(ours, other, loss) for loss in stream.losses}
        lost = [f"{loss} ({gap:+.4f} ± {2 * error:.4f})" for loss, (gap, error) in gaps.items() if gap > 0.0]
        clear = sum(gap > 2 * error for gap, error in gaps.values())
        won = sum(gap < -2 * error for gap, error in gaps.values())
        lines.append(
            f"- *{ours}* against *{other}*: cheaper beyond two standard errors on {won} of {len(gaps)} losses, "
            f"dearer on {clear}. " + (f"Dearer at all: {', '.join(lost)}." if lost else "Nowhere dearer.")
        )
    return lines


COLOURS = {OURS: "#1b6ca8", OURS_ALONE: "#7fb2d9", CALIBRATED: "#c0392b", OFTEN: "#b8860b"}


LEFT, WIDTH, ROW, HEAD = 190, 460, 26, 84


def picture(results: list[tuple[Stream, Costs]]) -> str:
    """Dots: cost relative to the model trained for the loss; each stream has its own axis."""
    body, top = legend(), HEAD
    for stream, costs in results:
        body += panel(stream, costs, top)
        top += ROW * (len(stream.losses) + 3)
    style = 'font-family="system-ui, sans-serif" font-size="13"'
    box = f'viewBox="0 0 {LEFT + WIDTH + 40} {top}" width="{LEFT + WIDTH + 40}" height="{top}"'
    page = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {box} {style}>', page, *body, "</svg>"]) + "\n"


def legend() -> list[str]:
    """Colours of the methods, and what the axis means."""
    parts = ['<text x="12" y="68" fill="#555">cost relative to trees trained for that loss; left is cheaper</text>']
    for place, (method, colour) in enumerate(COLOURS.items()):
        x, y = 20 + 240 * (place % 2), 20 + 20 * (place // 2)
        parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/><text x="{x + 10}" y="{y + 4}">{method}</text>')
    return parts


def panel(stream: Stream, costs: Costs, top: int) -> list[str]:
    """One stream: a line per loss, a dot per method, a dashed line at equality."""
    ratio = {(m, loss): costs.mean(m, loss) / costs.mean(PER_LOSS, loss) for m in COLOURS for loss in stream.losses}
    spread = max(ratio.values()) - min(ratio.values())
    low, high = min(*ratio.values(), 1.0) - 0.05 * spread, max(*ratio.values(), 1.0) + 0.05 * spread

    def x(value: float) -> float:
        return LEFT + WIDTH * (value - low) / (high - low)

    bottom = top + ROW * (len(stream.losses) + 1)
    parts = [f'<text x="12" y="{top + 16}" font-weight="bold">{stream.name}</text>']
    parts.append(f'<path d="M{x(1):.1f} {top + 12}V{bottom}" stroke="#333" stroke-dasharray="3 3"/>')
    for place, loss in enumerate(stream.losses, start=1):
        y = top + ROW * place + 12
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{_escaped(loss)}</text>')
        parts.append(f'<path d="M{LEFT} {y}h{WIDTH}" stroke="#eee"/>')
        for method, colour in reversed(COLOURS.items()):
            title = f"{method}: {ratio[method, loss]:.3f}"
            dot = f'<circle cx="{x(ratio[method, loss]):.1f}" cy="{y}" r="5" fill="{colour}" fill-opacity="0.85">'
            parts.append(f"{dot}<title>{title}</title></circle>")
    step = 0.02 if spread < 0.15 else 0.2
    for tick in np.arange(np.ceil(low / step), high / step) * step:
        parts.append(f'<text x="{x(tick):.1f}" y="{bottom + 14}" text-anchor="middle" fill="#555">{tick:.2f}</text>')
    return parts


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def publish(results: list[tuple[Stream, Costs]], docs: Path) -> None:
    """Replace the measured part of decisions.md and its picture."""
    (docs / "decisions.svg").write_text(picture(results))
    page = docs / "decisions.md"
    before, _, rest = page.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    lines = [line for stream, costs in results for line in table(stream, costs)]
    page.write_text(f"{before}{MARKS[0]}\n" + "\n".join(lines) + f"\n{MARKS[1]}{after}")


def say(text: str) -> None:
    """Progress, with the time since the start."""
    print(f"[{time.perf_counter() - STARTED:6.0f} s] {text}", file=sys.stderr, flush=True)


STARTED = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--data", nargs="+", choices=list(STREAMS), default=list(STREAMS))
    chosen = parser.parse_args()
    if "SWAPCAL_DATA" not in os.environ:
        raise SystemExit("set SWAPCAL_DATA to the directory with rain_australia.csv.gz and hotel_bookings.csv.gz")
    folder = Path(os.environ["SWAPCAL_DATA"])
    results = [(stream, compare(stream, chosen.blocks)) for stream in (STREAMS[name](folder) for name in chosen.data)]
    for stream, costs in results:
        print("\n".join(table(stream, costs)))
    if set(chosen.data) == set(STREAMS):
        publish(results, DOCS)


if __name__ == "__main__":
    main()
