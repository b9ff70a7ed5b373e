"""Labels that come late: what the mean and the issued forecast lose against the experts behind them, and trees.

    SWAPCAL_DATA=directory python experiments/late.py [--data elec2 ...] [--late 0 500 ...] [--no-trees]
    SWAPCAL_DATA=directory python experiments/late.py --bursts | --calibration [--data ...] [--late ...]

Every label comes the same number of rows late. Bookings are also forecast when they are made: their labels come early
for cancellations and late for stays, and are learned as they come, or at the check-out day at the earliest. LightGBM is
refitted at every tenth of the stream on the labels known by then; before it has any, it says one half. On all data the
table goes into docs/streams.md.

With --calibration: SMCal₂ of the issued p over its null mean, of the first 100,000 rows, of those of them that were
forecast before any label was known, of those after, and of those after twice the delay, when labels are known of rows
that were themselves forecast with labels; and of all with the base rate in hindsight as `prior`.
"""

import argparse
from typing import Any

import numpy as np

from streams import DOCS, STREAMS, Array, Data, at_check_out, load, log_loss, refitted
from swapcal.live import Live

ROWS = 200_000
FEWER_ROWS, DRAWS, BURSTS = 100_000, 40, (100, 300, 1_000, 3_000, 5_000)
MARKS = ("<!-- late: begin -->", "<!-- late: end -->")


def figures(p: Array, y: Array) -> str:
    return f"{np.mean((p - y) ** 2):.4f}/{log_loss(p, y):.4f}"


def running_rate(y: Array, known: Array) -> Array:
    """Return the base rate of the labels known at each row, one half before the first."""
    order = np.argsort(known, kind="stable")
    ones, count = np.append(0.0, np.cumsum(y[order])), np.searchsorted(known[order], np.arange(len(y)))
    return np.asarray((ones[count] + 0.5) / (count + 1.0))


def known_at(when: dict[str, Any], n: int) -> Array:
    """Return the row before which each label is known: that of the first forecast made strictly later."""
    if not when:
        return np.arange(n) + 0.5
    learned = when["matures"] if "matures" in when else when["label_time"]
    return np.asarray(np.searchsorted(when["time"], learned, side="right") - 0.5)


def against(p: Array, best: Array, y: Array) -> str:
    brier = np.mean((p - y) ** 2) / np.mean((best - y) ** 2) - 1.0
    return f"{100 * brier:+.1f} %, {100 * (log_loss(p, y) / log_loss(best, y) - 1.0):+.1f} %"


def measure(title: str, data: Data, trees: bool, **when: Any) -> str:
    """Print and return one line: Brier and logarithmic loss of all rows, those before the first label included."""
    y = data.y[:ROWS]
    live = Live(scores=data.scores)
    trace = live.trace(data.frame[:ROWS], y, **when)
    single = trace.experts[:, 1:]
    best = single[:, np.argmin(np.mean((single - y[:, None]) ** 2, axis=0))]
    known, mean = known_at(when, len(y)), np.asarray(trace.forecast.mean)
    columns = [mean, np.asarray(trace.forecast.p), trace.experts[:, 0], best, running_rate(y, known)]
    if trees:
        columns.append(refitted(data.frame[:ROWS], y, known))
    cells = [title, *(figures(p, y) for p in columns), against(mean, best, y)]
    return printed(f"| {' | '.join(cells)} |")


def in_bursts(data: Data, size: int) -> str:
    """Return a line: the Brier score where the labels of so many rows come together, and its change by hashed order."""
    y = data.y[:FEWER_ROWS]
    time = np.arange(len(y), dtype=np.float64)
    together = np.floor(time / size + 1.0) * size - 0.5
    briers = []
    for burst in (None, 1):
        live = Live(scores=data.scores, burst=burst)
        mean = live.run(data.frame[: len(y)], y, time=time, label_time=together).mean
        briers.append(float(np.mean((np.asarray(mean) - y) ** 2)))
    return f"| {data.name} | {size:,} | {briers[0]:.5f} | {100 * (briers[1] / briers[0] - 1):+.2f} % |"


def over_null(p: Array, y: Array, x: Array) -> str:
    """Return SMCal₂ of issued levels over its mean if they were true (in brackets), outcomes drawn `DRAWS` times."""
    if len(p) == 0:
        return ""
    order = np.argsort(p, kind="stable")
    _, first, rows = np.unique(p[order], return_index=True, return_counts=True)
    p, y, x, rng = p[order], y[order], x[order], np.random.default_rng(0)

    def smcal(residuals: Array) -> float:
        squares = np.add.reduceat(residuals[:, None] * x, first, axis=0) ** 2
        return float(np.sum(np.maximum(4.0 * squares[:, 0], 4.0 / 3.0 * squares[:, 1:].sum(axis=1)) / rows))

    null = float(np.mean([smcal((rng.random(len(p)) < p) - p) for _ in range(DRAWS)]))
    return f"{smcal(y - p) / null:.1f} ({null:.1f})"


def calibration(data: Data, late: int) -> str:
    """Return a line on the calibration of the issued p, by what was known then."""
    y = data.y[:FEWER_ROWS]
    time, first = np.arange(len(y), dtype=np.float64), late + 1
    parts = slice(None), slice(None, first), slice(first, None), slice(2 * first, None)
    cells = []
    for prior in (None, float(y.mean())):
        live = Live(scores=data.scores, prior=prior)
        trace = live.trace(data.frame[: len(y)], y, time=time, label_time=time + late)
        cells += [over_null(np.asarray(trace.forecast.p)[part], y[part], trace.x[part]) for part in parts]
        parts = parts[:1]
    return printed(f"| {data.name} | {late:,} | {' | '.join(cells)} |")


def printed(line: str) -> str:
    print(line, flush=True)
    return line


def write(lines: list[str], marks: tuple[str, str] = MARKS) -> None:
    """Put a table into docs/streams.md, between its marks."""
    page = DOCS / "streams.md"
    text = page.read_text(encoding="utf-8")
    begin, end = (text.index(mark) for mark in marks)
    table = "\n".join(lines)
    page.write_text(f"{text[:begin]}{marks[0]}\n\n{table}\n\n{text[end:]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=STREAMS)
    parser.add_argument("--late", nargs="*", type=int, default=[0, 500, 5_000, 20_000])
    parser.add_argument("--no-trees", dest="trees", action="store_false", help="leave LightGBM out")
    parser.add_argument("--bursts", action="store_true", help="only labels that come together, in both orders")
    parser.add_argument("--calibration", action="store_true", help="only SMCal₂ of what was issued")
    chosen = parser.parse_args()
    if chosen.bursts:
        for name in chosen.data:
            data = load(name)
            for size in BURSTS:
                printed(in_bursts(data, size))
        return
    if chosen.calibration:
        parts = "all rows | before the first label | after | after twice the delay | all rows, prior named"
        printed(f"| stream | labels late | {parts} |\n|---|--:|--:|--:|--:|--:|--:|")
        for name in chosen.data:
            data = load(name)
            for late in filter(None, chosen.late):
                calibration(data, late)
        return
    columns = ["mean", "issued", "blend", "best expert", "base rate of known labels"]
    columns += ["LightGBM refitted"] * chosen.trees + ["mean against best expert"]
    lines = [printed(f"| labels | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}")]
    for name in chosen.data:
        data = load(name)
        time = np.arange(min(len(data.y), ROWS), dtype=np.float64)
        for late in chosen.late:
            when = {"time": time, "label_time": time + late} if late else {}
            lines.append(measure(f"{name}, {late:,} late", data, chosen.trees, **when))
        if name == "hotel_bookings":
            moved, moments = at_check_out(data)
            when = {moment: times[:ROWS] for moment, times in moments.items()}
            lines.append(measure(f"{name} at booking, matured", moved, chosen.trees, **when))
            del when["matures"]
            lines.append(measure(f"{name} at booking, as they come", moved, chosen.trees, **when))
    if set(chosen.data) == set(STREAMS) and chosen.trees:
        write(lines)


if __name__ == "__main__":
    main()
