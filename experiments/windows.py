"""Outcomes whose delay depends on them: what is forecast with nothing named, and with the window, silence and a prior.

    SWAPCAL_DATA=directory python experiments/windows.py [--data elec2 ...] [--rows 40000] [--named]

Delays are made, in rows: fixed (5,000), fair (exponential, mean 3,000), positives earlier (means 500 and 5,000) and
later, windows (positives at any time in 10,000 rows, negatives at the end) and positives only (mean 500; negatives are
never reported). Each line compares `unseen="fair"`, which is how outcomes were learned before there was a choice, with
the default, and prints the change of the Brier score of the mean. With --named: windows of 10,000 rows of which only
positives are reported, learned as they come, with `matures`, with `silence` and with `prior`; and hotel_bookings at
booking. The settings of "auto" were chosen on elec2, bank_marketing, rain_australia and obd_clicks.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from streams import STREAMS, Array, Data, at_check_out, load
from swapcal.live import Live

WINDOW = 10_000.0
HEAD = "| stream | delays | today | default | change |\n|---|---|--:|--:|--:|"
NAMED_HEAD = "| stream | learned | Brier | second half | before the first outcome is due | base rate in hindsight |\n" \
    "|---|---|--:|--:|--:|--:|"  # fmt: skip


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


def squares(data: Data, y: Array, given: dict[str, Any], **settings: Any) -> Array:
    """Return the squared errors of the mean forecasts."""
    n = len(y)
    mean = Live(scores=data.scores, **settings).trace(data.frame[:n], **given).forecast.mean
    return np.asarray((mean - y) ** 2)


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
        today = squares(data, y, given, unseen="fair").mean()
        default = squares(data, y, given).mean()
        change = 100.0 * (default / today - 1.0)
        print(f"| {data.name} | {title} | {today:.4f} | {default:.4f} | {change:+.2f} % |", flush=True)


def name_facts(data: Data, y: Array, given: dict[str, Any], matures: Any) -> None:
    """Print what naming the window, silence and a prior changes; `matures` is one for all, or one for each row."""
    each = {} if np.ndim(matures) == 0 else {"matures": matures}
    common = {"matures": matures} if np.ndim(matures) == 0 else {}
    rate, ends = float(y.mean()), given["time"] + matures if np.ndim(matures) == 0 else matures
    first = int(np.searchsorted(given["time"], np.min(ends), side="right"))
    ways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        'as they come, unseen="fair"': ({}, {"unseen": "fair"}),
        "as they come": ({}, {}),
        "at maturity": (each, common),
        "at maturity, silence": (each, {**common, "silence": 0}),
        "at maturity, silence, prior": (each, {**common, "silence": 0, "prior": rate}),
    }
    half, base = len(y) // 2, float(np.mean((rate - y) ** 2))
    for title, (more, settings) in ways.items():
        errors = squares(data, y, {**given, **more}, **settings)
        cells = [f"{part.mean():.4f}" if len(part) else "" for part in (errors, errors[half:], errors[:first])]
        print(f"| {data.name} | {title} | {' | '.join(cells)} | {base:.4f} |", flush=True)


def name_all(names: list[str], rows: int) -> None:
    """Print the table of what the facts change."""
    print(NAMED_HEAD)
    for name in names:
        data = load(name)
        if name == "hotel_bookings":
            moved, moments = at_check_out(data)
            seconds = {key: np.asarray(times[:rows], "datetime64[s]").astype(float) for key, times in moments.items()}
            y = moved.y[:rows]
            given = {"y": np.where(y > 0.5, y, np.nan), "time": seconds["time"], "label_time": seconds["label_time"]}
            name_facts(moved, y, given, seconds["matures"])
        else:
            y, rng = data.y[:rows], np.random.default_rng(1)
            delay = np.where(y > 0.5, rng.uniform(0.0, WINDOW, len(y)), np.inf)
            name_facts(data, y, reported(y, delay), WINDOW)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=[*STREAMS])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--named", action="store_true", help="compare what can be named, on positives reported alone")
    chosen = parser.parse_args()
    if chosen.named:
        name_all(chosen.data, chosen.rows)
        return
    print(HEAD)
    for name in chosen.data:
        compare(load(name), chosen.rows)


if __name__ == "__main__":
    main()
