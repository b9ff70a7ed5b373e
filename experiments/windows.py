"""Outcomes whose delay depends on them: what is forecast with nothing named, and with the window, silence and a prior.

    SWAPCAL_DATA=directory python experiments/windows.py [--data elec2 ...] [--rows 40000]
    SWAPCAL_DATA=directory python experiments/windows.py --named

Delays are made, in rows: fixed (5,000), fair (exponential, mean 3,000), positives earlier (means 500 and 5,000) and
later, windows (positives at any time in 10,000 rows, negatives at the end) and positives only (mean 500; negatives are
never reported). Each line compares `unseen="fair"`, which is how outcomes were learned before there was a choice, with
the default, and prints the change of the Brier score of the mean. With --named: hotel_bookings at booking, obd_clicks
and bank_marketing with windows of 10,000 rows; only positives are reported, and learned as they come, with `matures`,
with `silence` and with `prior`, the base rate of these rows in hindsight. That table goes into docs/streams.md;
nothing was chosen on it. The settings of "auto" were chosen on elec2, bank_marketing, rain_australia and obd_clicks.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from late import figures, printed, write
from streams import STREAMS, Array, Data, at_check_out, load
from swapcal.live import Live

WINDOW = 10_000.0
HEAD = "| stream | delays | today | default | change |\n|---|---|--:|--:|--:|"
NAMED = ("hotel_bookings", "obd_clicks", "bank_marketing")
NAMED_ROWS = 200_000
NAMED_HEAD = "| stream | learned | whole stream | second half | before the first window ends |\n|---|---|--:|--:|--:|"
MARKS = ("<!-- windows: begin -->", "<!-- windows: end -->")


def designs(y: Array, rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Yield made delays by name; infinite where an outcome is never reported."""
    n, happened = len(y), y > 0.5
    waits = rng.exponential(size=n)
    yield "fixed", np.full(n, 5_000.0)
    yield "fair", 3_000.0 * waits
    yield "positives earlier", np.where(happened, 500.0, 5_000.0) * waits
    yield "positives later", np.where(happened, 5_000.0, 500.0) * waits
    yield "windows", np.where(happened, rng.uniform(0.0, WINDOW, n), WINDOW)
    yield "positives only", np.where(happened, 500.0 * waits, np.inf)


def means(data: Data, given: dict[str, Any], **settings: Any) -> Array:
    """Return the mean forecasts."""
    n = len(given["y"])
    return np.asarray(Live(scores=data.scores, **settings).trace(data.frame[:n], **given).forecast.mean)


def reported(y: Array, delay: Array) -> dict[str, Any]:
    """Return outcomes and times as `trace` takes them."""
    time, comes = np.arange(len(y), dtype=np.float64), np.isfinite(delay)
    label_time = np.where(comes, time + np.floor(np.where(comes, delay, 0.0)), np.nan)
    return {"y": np.where(comes, y, np.nan), "time": time, "label_time": label_time}


def compare(data: Data, rows: int) -> None:
    """Print what the default changes."""
    y = data.y[:rows]
    for title, delay in designs(y, np.random.default_rng(1)):
        given = reported(y, delay)
        today, default = (np.mean((mean - y) ** 2) for mean in (means(data, given, unseen="fair"), means(data, given)))
        change = 100.0 * (default / today - 1.0)
        print(f"| {data.name} | {title} | {today:.4f} | {default:.4f} | {change:+.2f} % |", flush=True)


def name_facts(data: Data, y: Array, given: dict[str, Any], matures: Any) -> Iterator[str]:
    """Yield lines on what naming the window, silence and a prior changes; `matures` is for all, or one for each row."""
    each = {} if np.ndim(matures) == 0 else {"matures": matures}
    common = {"matures": matures} if np.ndim(matures) == 0 else {}
    rate, ends = float(y.mean()), given["time"] + matures if np.ndim(matures) == 0 else matures
    first = int(np.searchsorted(given["time"], np.min(ends), side="right"))
    ways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        'as they come, unseen="fair"': ({}, {"unseen": "fair"}),
        "as they come": ({}, {}),
        "matures": (each, common),
        "matures, silence": (each, {**common, "silence": 0}),
        "matures, silence, prior": (each, {**common, "silence": 0, "prior": rate}),
    }
    forecasts = ((title, means(data, {**given, **more}, **settings)) for title, (more, settings) in ways.items())
    parts = slice(None), slice(len(y) // 2, None), slice(None, first)
    for title, mean in (*forecasts, ("base rate of these rows in hindsight", np.full(len(y), rate))):
        cells = (figures(mean[part], y[part]) for part in parts)
        yield printed(f"| {data.name} | {title} | {' | '.join(cells)} |")


def named(name: str) -> Iterator[str]:
    """Yield the lines of one stream of which only positives are reported."""
    data, rng = load(name), np.random.default_rng(1)
    if name == "hotel_bookings":
        data, moments = at_check_out(data)
        seconds = {key: np.asarray(each[:NAMED_ROWS], "datetime64[s]").astype(float) for key, each in moments.items()}
        y, matures = data.y[:NAMED_ROWS], seconds.pop("matures")
        yield from name_facts(data, y, {"y": np.where(y > 0.5, y, np.nan), **seconds}, matures)
    else:
        y = data.y[:NAMED_ROWS]
        delay = np.where(y > 0.5, rng.uniform(0.0, WINDOW, len(y)), np.inf)
        yield from name_facts(data, y, reported(y, delay), WINDOW)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=[*STREAMS])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--named", action="store_true", help="compare what can be named, on positives reported alone")
    chosen = parser.parse_args()
    if chosen.named:
        lines = [printed(NAMED_HEAD)]
        for name in NAMED:
            lines += named(name)
        write(lines, MARKS)
        return
    print(HEAD)
    for name in chosen.data:
        compare(load(name), chosen.rows)


if __name__ == "__main__":
    main()
