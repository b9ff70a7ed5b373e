"""Seven recorded streams, one setting, against what one would use instead.

    SWAPCAL_DATA=directory python experiments/streams.py [--data elec2 ...] [--quick]

Every method sees the rows in recorded order and forecasts each before it learns it. Slow methods see a prefix; our
figures on the same prefixes stand beside theirs. Run on all data it writes the measured part of docs/streams.md and
its picture docs/streams.svg.
"""

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from swapcal import Forecaster
from swapcal.arrays import Array
from swapcal.audit import Audit
from swapcal.baselines import ONLINE
from swapcal.live import Live, Trace

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARKS = ("<!-- measured: begin -->", "<!-- measured: end -->")
STREAMS = ("elec2", "bank_marketing", "rain_australia", "hotel_bookings", "nycflights", "fte_games", "obd_clicks")
NUMERIC_ELEC2 = ["date", "day", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer"]
PEER_ROWS, TREE_ROWS, FOREST_ROWS = 100_000, 40_000, 4_000
GROUP_ROWS = 500
BINS = 15
SPEED_ROWS = 5_000
FLOOR = 1e-6


@dataclass(frozen=True)
class Data:
    """One recorded stream."""

    name: str
    frame: pd.DataFrame
    y: Array
    scores: list[str]
    groups: dict[str, Any]
    time: Any
    label_time: Any


@dataclass(frozen=True)
class Score:
    """How one method did on one stream."""

    stream: str
    method: str
    rows: int
    brier: float
    log_loss: float
    smcal: float
    null: float
    group_ece: float


# ---------------------------------------------------------------- data


def load(name: str) -> Data:
    """Read a stream; its time columns are no features."""
    folder = os.environ.get("SWAPCAL_DATA")
    if not folder or not Path(folder, f"{name}.csv.gz").exists():
        sys.exit(f"set SWAPCAL_DATA to the directory that holds {name}.csv.gz")
    frame = pd.read_csv(Path(folder) / f"{name}.csv.gz")
    about = json.loads((Path(folder) / "manifest.json").read_text())[name]
    groups = {column: frame[column].astype(str).to_numpy() for column in about["groups"]}
    times = {column: frame.pop(column) for column in ("t", "t_label") if column in frame}
    y = frame.pop("y").to_numpy(dtype=np.float64)
    published = about["forecast_col"]
    return Data(name, frame, y, [published] if published else [], groups, times.get("t"), times.get("t_label"))


# ---------------------------------------------------------------- measures


def log_loss(p: Array, y: Array) -> float:
    inside = np.clip(p, FLOOR, 1 - FLOOR)
    return float(-np.mean(y * np.log(inside) + (1 - y) * np.log(1 - inside)))


def calibration_error(p: Array, y: Array) -> float:
    """Return the expected calibration error over equal-width bins."""
    cell = np.minimum((p * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(cell, y - p, BINS)).sum() / len(p))


def worst_group(p: Array, y: Array, groups: dict[str, Any]) -> float:
    """Return the largest calibration error among the natural groups with enough rows."""
    worst = 0.0
    for labels in groups.values():
        codes, names = pd.factorize(labels[: len(p)])
        for code in range(len(names)):
            rows = codes == code
            if rows.sum() >= GROUP_ROWS:
                worst = max(worst, calibration_error(p[rows], y[rows]))
    return worst


def judge(data: Data, method: str, p: Array, x: Array) -> Score:
    """Measure forecasts of the first len(p) rows, all methods against the same contexts."""
    n = len(p)
    y = data.y[:n]
    noise = Audit(p, y, x[:n]).theory.noise("smcal", 2)
    brier = float(np.mean((p - y) ** 2))
    group = worst_group(p, y, data.groups)
    return Score(data.name, method, n, brier, log_loss(p, y), noise.value, noise.mean, group)


# ---------------------------------------------------------------- methods


def ours(data: Data, frame: pd.DataFrame | None = None) -> tuple[Live, Trace]:
    """Run swapcal with its defaults."""
    live = Live(scores=data.scores)
    return live, live.trace(data.frame if frame is None else frame, data.y)


def at_booking(data: Data) -> tuple[Data, Array, Array]:
    """Return the bookings in the order they were made, with the days of booking and of the outcome."""
    booked = pd.to_datetime(data.time) - pd.to_timedelta(data.frame["lead_time"], unit="D")
    order = np.argsort(booked.to_numpy(), kind="stable")
    known = np.maximum(pd.to_datetime(data.label_time).to_numpy(), booked.to_numpy())
    groups = {name: labels[order] for name, labels in data.groups.items()}
    frame = data.frame.iloc[order].reset_index(drop=True)
    moved = Data(data.name, frame, data.y[order], data.scores, groups, None, None)
    return moved, booked.to_numpy()[order], known[order]


def at_check_out(data: Data) -> tuple[Data, dict[str, Any]]:
    """Return bookings as they were made, when their labels came, and when these would have come whatever they were."""
    moved, booked, known = at_booking(data)
    arrival = booked + pd.to_timedelta(moved.frame["lead_time"], unit="D").to_numpy()
    nights = moved.frame["stays_in_weekend_nights"] + moved.frame["stays_in_week_nights"]
    leaves = np.maximum(arrival + pd.to_timedelta(nights, unit="D").to_numpy(), known)
    return moved, {"time": booked, "label_time": known, "matures": leaves}


def ours_late(data: Data) -> Iterator[Score]:
    """Forecast each booking when it is made; learn its outcome at check-out, when it is known, or at once."""
    moved, matured = at_check_out(data)
    as_known = {name: times for name, times in matured.items() if name != "matures"}
    for method, when in (("labels at check-out", matured), ("labels when known", as_known), ("labels at once", {})):
        live = Live()
        trace = live.trace(moved.frame, moved.y, **when)
        yield judge(moved, f"at booking, {method}: swapcal, mean", trace.forecast.mean, trace.x)
        brier = ((trace.experts - moved.y[:, None]) ** 2).mean(axis=0)
        best = 1 + int(np.argmin(brier[1:]))
        said = trace.experts[:, best]
        yield judge(moved, f"at booking, {method}: best single expert ({live.experts[best]})", said, trace.x)


def refitted(frame: pd.DataFrame, y: Array, known: Array | None = None) -> Array:
    """Return forecasts of LightGBM with its defaults, fitted at every tenth of the stream on the labels known by then.

    known : the row before which each label is known; by default labels come at once. One half before the first fit.
    """
    from lightgbm import LGBMClassifier

    n = len(y)
    known = np.arange(n) + 0.5 if known is None else known
    table = frame.copy()
    for name in table.columns:
        if not pd.api.types.is_numeric_dtype(table[name]):
            table[name] = table[name].astype("category")
    p = np.full(n, 0.5)
    for a, b in itertools.pairwise([n * k // 10 for k in range(1, 11)]):
        rows = np.flatnonzero(known[:a] < a)
        if len(rows) and 0.0 < y[rows].mean() < 1.0:
            trees = LGBMClassifier(n_jobs=1, random_state=0, verbose=-1).fit(table.iloc[rows], y[rows])
            p[a:b] = trees.predict_proba(table.iloc[a:b])[:, 1]
    return p


def scored(data: Data) -> dict[str, Array]:
    """Return scores that one might add: refitted trees, and some that are worth nothing, or cease to be."""
    n, rng = len(data.y), np.random.default_rng(0)
    expert = Live(scores=data.scores).trace(data.frame, data.y).experts[:, 2]
    noise, early = rng.uniform(size=n), np.arange(n) < n // 2
    return {
        "LightGBM refitted": refitted(data.frame, data.y),
        "noise": noise,
        "constant": np.full(n, 0.9),
        "stale": np.append(np.full(min(n, 2000), 0.5), expert)[:n],
        "inverted": 1.0 - expert,
        "leaked, then broken": np.where(early, np.where(data.y > 0.5, 0.99, 0.01), noise),
    }


def score_rows(name: str) -> list[tuple[str, str, float, float]]:
    """Return (stream, score, Brier, Brier of the second half), without a score first."""
    data, found = load(name), []
    half = len(data.y) // 2
    for kind, score in [("none", None), *scored(data).items()]:
        frame = data.frame if score is None else data.frame.assign(added_score=score)
        live = Live(scores=data.scores if score is None else [*data.scores, "added_score"])
        squares = (np.asarray(live.trace(frame, data.y).forecast.mean) - data.y) ** 2
        found.append((name, kind, float(squares.mean()), float(squares[half:].mean())))
    return found


def group_rows(name: str) -> list[tuple[str, str, float, float]]:
    """Return (stream, groups, Brier, worst group's calibration error), undeclared and declared."""
    data, found = load(name), []
    for title, groups in (("undeclared", []), ("declared", [*data.groups])):
        live = Live(scores=data.scores, groups=[g for g in groups if g in data.frame and g not in data.scores])
        mean = np.asarray(live.trace(data.frame, data.y).forecast.mean)
        found.append((name, title, float(np.mean((mean - data.y) ** 2)), worst_group(mean, data.y, data.groups)))
    return found


def records(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Return rows as mappings without missing values."""
    for row in frame.to_dict("records"):
        yield {name: value for name, value in row.items() if value == value}


def river_model(kind: str) -> Any:
    """Return a river pipeline: one-hot categories, standardised numbers, a classifier with its defaults."""
    from river import compose, forest, linear_model, preprocessing, tree

    encode = (compose.SelectType(str) | preprocessing.OneHotEncoder()) + (
        compose.SelectType((int, float)) | preprocessing.StandardScaler()
    )
    if kind == "logistic":
        return encode | linear_model.LogisticRegression()
    return tree.HoeffdingAdaptiveTreeClassifier(seed=0) if kind == "tree" else forest.ARFClassifier(seed=0)


def run_river(data: Data, kind: str, rows: int) -> Array:
    model, y = river_model(kind), data.y[:rows].astype(bool).tolist()
    p = np.zeros(len(y))
    for k, record in enumerate(records(data.frame[:rows])):
        p[k] = model.predict_proba_one(record).get(True, 0.5 if k == 0 else 0.0)
        model.learn_one(record, y[k])
    return p


def run_vowpal(data: Data, rows: int) -> Array:
    """Vowpal Wabbit's adaptive, normalised logistic regression on all features and their pairs."""
    from vowpalwabbit import Workspace

    model = Workspace("--loss_function logistic --link logistic -q :: --quiet")
    p = np.zeros(min(rows, len(data.y)))
    names = {name: "".join(c if c.isalnum() else "_" for c in name) for name in data.frame.columns}
    for k, record in enumerate(records(data.frame[:rows])):
        parts = [
            f"{names[n]}={str(v).replace(' ', '_').replace(':', '_').replace('|', '_')}" if isinstance(v, str)
            else f"{names[n]}:{v}"
            for n, v in record.items()
        ]  # fmt: skip
        text = "|f " + " ".join(parts)
        p[k] = model.predict(text)
        model.learn(f"{2 * int(data.y[k]) - 1} {text}")
    model.finish()
    return np.clip(p, 0, 1)


def run_groups(data: Data) -> Array:
    """Online multicalibration over the natural groups, listed one by one."""
    columns = []
    for labels in data.groups.values():
        codes, names = pd.factorize(labels)
        columns += [codes == code for code in range(min(len(names), 30))]
    member = np.column_stack(columns)
    x = np.hstack([np.full((len(member), 1), 0.5), member * (0.8 / np.sqrt(len(data.groups)))])
    everyone = lambda X: np.hstack([np.ones((len(X), 1)), X[:, 1:] > 0])  # noqa: E731
    forecaster = ONLINE["groups"](x.shape[1], horizon=len(x), groups=everyone)
    return np.asarray(forecaster.run(x, data.y).p)


# ---------------------------------------------------------------- one stream


def measure_ours(name: str) -> list[Score]:
    """Run swapcal on one stream, and measure it also on the prefixes that slow methods see."""
    data = load(name)
    live, trace = ours(data)
    x, made, n = trace.x, trace.forecast, len(data.y)
    scores = [judge(data, "swapcal, issued p", made.p, x), judge(data, "swapcal, mean", made.mean, x)]
    said = {expert: trace.experts[:, k] for k, expert in enumerate(live.experts) if expert != live.experts[0]}
    said |= {column: data.frame[column].to_numpy(dtype=np.float64) for column in data.scores}
    best = min(said, key=lambda expert: float(np.mean((said[expert] - data.y) ** 2)))
    scores.append(judge(data, f"best single expert ({best})", said[best], x))
    for rows in (PEER_ROWS, TREE_ROWS, FOREST_ROWS):
        if rows < n:
            scores.append(judge(data, f"swapcal, mean, first {rows:,} rows", made.mean[:rows], x))
    if data.label_time is not None:
        scores += ours_late(data)
    if name == "elec2":
        _, few = ours(data, data.frame[NUMERIC_ELEC2])
        scores.append(judge(data, "swapcal, mean, eight numeric columns", few.forecast.mean, few.x))
    return scores


def peers(data: Data) -> dict[str, Callable[[], Array]]:
    """Return everything else, ready to run."""
    return {
        "LightGBM, refitted at every tenth": lambda: refitted(data.frame, data.y),
        "listed groups only (Gupta et al.)": lambda: run_groups(data),
        "river logistic regression": lambda: run_river(data, "logistic", PEER_ROWS),
        "Vowpal Wabbit, pairs": lambda: run_vowpal(data, PEER_ROWS),
        "river adaptive tree": lambda: run_river(data, "tree", TREE_ROWS),
        "river ARF": lambda: run_river(data, "forest", FOREST_ROWS),
    }


def measure_peers(name: str) -> list[Score]:
    """Run everything else on one stream."""
    data = load(name)
    x = ours(data)[1].x
    return [judge(data, method, run(), x) for method, run in peers(data).items()]


def speeds(name: str) -> dict[str, float]:
    """Return rows per second of processor time over a prefix, each method after a warm-up."""
    whole, found = load(name), {}
    for rows in (100, SPEED_ROWS):
        data = Data(name, whole.frame[:rows], whole.y[:rows], whole.scores, first_rows(whole.groups, rows), None, None)
        for method, run in {"swapcal": lambda data=data: ours(data), **peers(data)}.items():
            if method != "river ARF":
                start = time.process_time()
                run()
                found[method] = rows / (time.process_time() - start)
    return found


def first_rows(groups: dict[str, Any], rows: int) -> dict[str, Any]:
    return {name: labels[:rows] for name, labels in groups.items()}


# ---------------------------------------------------------------- drift


def drifting(kind: str, n: int = 60_000, seed: int = 0) -> tuple[pd.DataFrame, Array, list[int]]:
    """Return a synthetic stream whose concept changes: records, labels, and the rows where it changes."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4))
    shop = rng.choice(list("abcd"), n)
    a, b = np.array([1.5, -1.0, 0.5, 0.0]), np.array([-1.5, 1.0, 0.0, 1.0])
    t = np.arange(n) / n
    share = {
        "abrupt": (t > 0.5).astype(float),
        "gradual": np.clip((t - 0.25) / 0.5, 0, 1),
        "recurring": (np.floor(t * 8) % 2).astype(float),
    }[kind]
    margin = ((1 - share)[:, None] * a + share[:, None] * b) @ np.eye(4) * 1.0
    chance = 1 / (1 + np.exp(-(margin * z).sum(axis=1) - 0.5 * (shop == "a")))
    frame = pd.DataFrame(z, columns=[f"z{k}" for k in range(4)]).assign(shop=shop)
    changes = {
        "abrupt": [n // 2],
        "gradual": [n // 4, n // 2, 3 * n // 4],
        "recurring": [n * k // 8 for k in range(1, 8)],
    }
    return frame, (rng.random(n) < chance).astype(float), changes[kind]


def restarted(x: Array, y: Array, changes: list[int]) -> Array:
    """Return the mean forecasts of an engine that forgets everything at the given rows."""
    stretches = itertools.pairwise([0, *changes, len(y)])
    return np.concatenate([Forecaster(x.shape[1]).run(x[a:b], y[a:b]).mean for a, b in stretches])


def drift_rows() -> list[tuple[str, float, float, float, float]]:
    """Compare the engine with one that restarts where the concept changes, told by an oracle, and with experts."""
    found = []
    for kind in ("abrupt", "gradual", "recurring", "elec2", "bank_marketing"):
        if kind in STREAMS:
            data = load(kind)
            frame, y, changes = data.frame, data.y, [len(data.y) * k // 4 for k in (1, 2, 3)]
        else:
            frame, y, changes = drifting(kind)
        live = Live()
        trace = live.trace(frame, y)
        brier = [float(np.mean((trace.experts[:, k] - y) ** 2)) for k in range(1, trace.experts.shape[1])]
        slow = float(np.mean((trace.experts[:, live.experts.index("logistic (shrinking steps of 0.1)")] - y) ** 2))
        mean = float(np.mean((trace.forecast.mean - y) ** 2))
        found.append((kind, mean, float(np.mean((restarted(trace.x, y, changes) - y) ** 2)), min(brier), slow))
    return found


# ---------------------------------------------------------------- writing


def table_of(scores: list[Score], speed_of: dict[str, dict[str, float]]) -> str:
    lines = []
    for stream in dict.fromkeys(score.stream for score in scores):
        ranked = [score for score in scores if score.stream == stream]
        fast = ", ".join(f"{method} {speed:,.0f}" for method, speed in speed_of[stream].items())
        lines += [f"### {stream}, {ranked[0].rows:,} rows", "", f"Rows per second of processor time: {fast}.", ""]
        lines += ["| method | rows | Brier | log loss | SMCal₂ (null mean) | worst group ECE |"]
        lines += ["|---|--:|--:|--:|--:|--:|"]
        for s in ranked:
            digits = 5 if s.brier < 0.01 else 4
            lines.append(
                f"| {s.method} | {s.rows:,} | {s.brier:.{digits}f} | {s.log_loss:.4f} | {s.smcal:.1f} ({s.null:.1f}) | "
                f"{s.group_ece:.4f} |"
            )
        lines.append("")
    return "\n".join(lines)


def share(value: float, base: float) -> str:
    return f"{value:.{5 if base < 0.01 else 4}f} ({100 * (value / base - 1):+.2f} %)"


def score_table(rows: list[Any]) -> str:
    lines = ["### A score that is added", "", "| stream | score | Brier | second half |", "|---|---|--:|--:|"]
    for stream, kind, brier, later in rows:
        base = next(row for row in rows if [*row[:2]] == [stream, "none"])
        lines.append(f"| {stream} | {kind} | {share(brier, base[2])} | {share(later, base[3])} |")
    return "\n".join([*lines, ""])


def group_table(rows: list[Any]) -> str:
    lines = ["### Declared groups", "", "| stream | groups | Brier | worst group ECE |", "|---|---|--:|--:|"]
    lines += [f"| {r[0]} | {r[1]} | {r[2]:.{5 if r[2] < 0.01 else 4}f} | {r[3]:.4f} |" for r in rows]
    return "\n".join([*lines, ""])


def drift_table(rows: list[Any]) -> str:
    lines = [
        "### Drift",
        "",
        "| stream | swapcal, mean | engine restarted at the changes | best single expert "
        "| logistic (shrinking steps of 0.1) |",
    ]
    lines += ["|---|--:|--:|--:|--:|"]
    return "\n".join([*lines, *(f"| {r[0]} | {r[1]:.4f} | {r[2]:.4f} | {r[3]:.4f} | {r[4]:.4f} |" for r in rows)])


COLOURS = {"swapcal, mean": "#0b6e4f", "best single expert": "#d08c00", "river logistic regression": "#7a7a7a",
           "Vowpal Wabbit, pairs": "#3b5b92", "listed groups only (Gupta et al.)": "#a33b6a"}  # fmt: skip


def picture(scores: list[Score]) -> str:
    """Draw, for each stream, how much of the base rate's Brier score each method removes."""
    width, left, row = 760, 150, 46
    streams = [s for s in STREAMS if any(score.stream == s for score in scores)]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {60 + row * len(streams)}" '
             'font-family="sans-serif" font-size="13">',
             '<title>Share of the base rate\'s Brier score removed, by stream and method</title>']  # fmt: skip
    for k, name in enumerate(COLOURS):
        at = 20 + 148 * k
        parts.append(f'<circle cx="{at}" cy="18" r="5" fill="{COLOURS[name]}"/>')
        parts.append(f'<text x="{at + 9}" y="22" font-size="11">{name.replace(" (Gupta et al.)", "")}</text>')
    for k, stream in enumerate(streams):
        y = 60 + row * k
        rate = float(np.mean(load(stream).y))
        base = rate * (1 - rate)
        found = {c: next((s for s in scores if s.stream == stream and s.method.startswith(c)), None) for c in COLOURS}
        skill = {c: 1 - s.brier / base for c, s in found.items() if s is not None}
        low, high = min(0.0, *skill.values()), max(skill.values())
        place = lambda v, low=low, high=high: left + (v - low) / (high - low) * (width - left - 60)  # noqa: E731
        parts.append(f'<text x="8" y="{y + 4}">{stream}</text>')
        parts.append(f'<line x1="{place(0.0):.1f}" x2="{place(high):.1f}" y1="{y}" y2="{y}" stroke="#ccc"/>')
        for c, v in skill.items():
            parts.append(f'<circle cx="{place(v):.1f}" cy="{y}" r="6" fill="{COLOURS[c]}" fill-opacity="0.8"/>')
        ours_at = skill["swapcal, mean"]
        parts.append(f'<text x="{place(ours_at) + 9:.1f}" y="{y - 9}" font-size="11">{100 * ours_at:.1f} %</text>')
    return "\n".join([*parts, "</svg>"])


def write(scores: list[Score], speed_of: dict[str, dict[str, float]], tables: list[str]) -> None:
    page = DOCS / "streams.md"
    text = page.read_text(encoding="utf-8")
    begin, end = (text.index(mark) for mark in MARKS)
    joined = "\n".join(tables)
    measured = f"{MARKS[0]}\n\n{table_of(scores, speed_of)}\n{joined}\n\n"
    page.write_text(text[:begin] + measured + text[end:], encoding="utf-8")
    (DOCS / "streams.svg").write_text(picture(scores), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=[*STREAMS], choices=STREAMS)
    parser.add_argument("--quick", action="store_true", help="only swapcal and its experts")
    parser.add_argument("--keep", type=Path, help="directory of finished parts, to go on after an interruption")
    options = parser.parse_args()
    scores: list[Score] = []
    speed_of: dict[str, dict[str, float]] = {}
    for name in options.data:
        parts = {"ours": measure_ours} if options.quick else {"ours": measure_ours, "peers": measure_peers}
        for part, measure in parts.items():
            entries = kept(options.keep, f"{name}.{part}", lambda m=measure, n=name: [asdict(s) for s in m(n)])
            scores += [Score(**entry) for entry in entries]
        speed_of[name] = {} if options.quick else kept(options.keep, f"{name}.speed", lambda n=name: speeds(n))
        print(table_of([score for score in scores if score.stream == name], speed_of), flush=True)
    tables = []
    for part, rows_of, table in (("groups", group_rows, group_table), ("scores", score_rows, score_table)):
        rows = [kept(options.keep, f"{name}.{part}", lambda n=name, of=rows_of: of(n)) for name in options.data]
        tables.append(table([*itertools.chain(*rows)]))
        print(tables[-1], flush=True)
    tables.append(drift_table(kept(options.keep, "drift", drift_rows)))
    print(tables[-1])
    if set(options.data) == set(STREAMS) and not options.quick:
        write(scores, speed_of, tables)


def kept(folder: Path | None, name: str, make: Callable[[], Any]) -> Any:
    """Return results of a former run, or make and keep them."""
    if folder is None:
        return make()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    if not path.exists():
        path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


if __name__ == "__main__":
    main()
