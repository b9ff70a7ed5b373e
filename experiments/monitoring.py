"""How rare the monitor's false alarms are, and how fast its true ones come.

    python experiments/monitoring.py [--runs 500] [--only delays …] [--quick]

Each part leaves its tables in build/monitoring; when all parts are there, the measured part of docs/monitoring.md is
written. Every stream has its own fixed seed, so the numbers repeat. About fifteen minutes on one core; `--quick` tries
it out.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import monitoring_peers as peers
import monitoring_streams as streams
from rates.figure import Panel, PlottedLine, figure
from swapcal import Monitor
from swapcal.kernels.wealth import LIFE_AT
from swapcal.monitor import Alarm, e_bh, state

Array = NDArray[np.float64]

DOCS = Path(__file__).resolve().parent.parent / "docs"
BUILD = DOCS.parent / "build" / "monitoring"
MARKS = ("<!-- measured: begin -->", "<!-- measured: end -->")
ALPHA, RUN_LENGTH = 0.05, 100_000

SLOW = 50
"""One stream in this many is shown to the slow peers."""

INTRO = {
    "false_alarms": """### False alarms

{runs} streams per design, tolerance 0 unless said (the sharpest test), run length {length}, α = 5 %, level ranges on
unless said. Shares of streams with at least one alarm.""",
    "together": """### Rows that belong together, outcomes of a chosen part, many monitors

{runs} streams per design of right forecasts, 20,000 rows, tolerance 0, three groups, level ranges on. Patients' rows
come at random times and share a fate of ±25 points that the forecasts do not know. Outcomes are obtained with
probability 0.8 or 0.2, by a sign of ±25 points that the forecasts do not know. Shares of streams that the lifetime
test rejects (5 % allowed), and of streams with a change alarm (run length {length}).""",
    "many": """300 monitors of 1,000 rows each, {tenth} times; every tenth forecaster is too low by 7 points.""",
    "run_lengths": """![Share of honest streams rejected](figures/monitoring-rejections.svg)

### Run length

{fewer} honest streams, 40 groups, tolerance 0. A stream without an alarm counts with its whole length, so the means are
too small.""",
    "stakes": """### Stakes

5,000 rows, all off by the gap, one direction, means over {tenth} streams. `stake_regret` allows ln 6 = 1.79 behind the
best of six.""",
    "delays": """### Detection

Forty groups; after 20,000 rows events in one group become more frequent than forecast. Run length {length}; {fewer}
streams ({few} for ADWIN, at its default confidence, and for the validanytime e-detector, which watched the affected
group alone, with our budget for one group). The CUSUM's limit was found by simulating these very forecasts, honest; its
run length holds for them only. Delays count streams not found as infinite, and only streams without an earlier alarm.

![Detection delay](figures/monitoring-delay.svg)""",
}

Design = tuple[str, streams.Maker, int, float]
"""Name, maker, rows and tolerance."""

DESIGNS: dict[str, Design] = {
    "independent": ("independent, 40 groups", streams.independent, 50_000, 0.0),
    "engine": ("our engine's means, labels drawn from them", streams.engine_means, 5_000, 0.0),
    "rare": ("rare events, 0.1 to 2 %", streams.rare, 20_000, 0.0),
    "small": ("300 small groups", streams.small_groups, 20_000, 0.0),
    "maturity": ("late labels in order of maturity", streams.by_maturity, 20_000, 0.0),
    "tolerance": ("every group off by exactly the tolerance, 0.01", streams.at_the_tolerance, 20_000, 0.01),
    "daily": ("days with a common shock, one row per day", streams.daily_means, 50_000, 0.0),
    "arrival": ("**not valid:** late labels in order of arrival", streams.by_arrival, 20_000, 0.0),
    "levels": ("**not valid:** our engine's issued levels instead of means", streams.engine_levels, 5_000, 0.0),
    "shocks": ("**not valid:** days with a common shock, row by row", streams.shared_shocks, 20_000, 0.0),
}
REJECTIONS = [
    "| design | rows | lifetime, 5 % | change alarms | change alarms, no ranges | z-test every 1,000 rows, 5 % |",
    "|---|---:|---:|---:|---:|---:|",
]


def watched(stream: streams.Stream, tolerance: float, ranges: bool = True, run_length: float = RUN_LENGTH) -> Monitor:
    monitor = Monitor(
        list(stream.records), tolerance=tolerance, run_length=run_length, alpha=ALPHA, level_ranges=ranges
    )
    return monitor.add(stream.records, stream.p, stream.y)


def change_alarms(monitor: Monitor) -> list[Alarm]:
    """Return all change alarms in the order in which they were raised, those that have ended too."""
    return [alarm for alarm in monitor.log() if alarm.kind == "change"]


def first_alarms(monitor: Monitor) -> tuple[float, float]:
    """Rows of the first change alarm and of the first lifetime alarm."""
    notes = monitor._bets.live_bet_state().notes
    changes = [float(alarm.raised) for alarm in change_alarms(monitor)]
    return min(changes, default=np.inf), float(np.nanmin(np.append(notes[:, LIFE_AT : LIFE_AT + 2], np.inf)))


def false_alarms(design: Design, runs: int, shorten: int) -> dict[str, Any]:
    """Return the shares of streams with an alarm, and when each method first rejected."""
    name, make, horizon, tolerance = design
    length = horizon // shorten
    counts = np.zeros(4)
    curves: dict[str, list[float]] = {"repeated z-test": [], "lifetime test": [], "change detector": []}
    for seed in range(runs):
        stream = make(np.random.default_rng(seed), length)
        monitor = watched(stream, tolerance)
        change, life = first_alarms(monitor)
        plain, _ = first_alarms(watched(stream, tolerance, ranges=False))
        z = peers.z_test(stream)
        counts += [monitor.test().rejected, change < np.inf, plain < np.inf, z < np.inf]
        for key, value in zip(curves, (z, life, change), strict=True):
            curves[key].append(value)
    shares = " | ".join(f"{100 * count / runs:.1f} %" for count in counts)
    row = f"| {name} | {length:,} | {shares} |"
    print(row, flush=True)
    return {"table": [row], "curves": curves}


def run_lengths(runs: int, shorten: int) -> dict[str, Any]:
    """Return mean rows to the first false alarm; streams without one count with their whole length."""
    rows = ["| run length promised | rows watched | mean rows to a false alarm, at least | streams without one |"]
    rows.append("|---:|---:|---:|---:|")
    horizon = 100_000 // shorten
    for promised in (300, 3_000, 30_000):
        found = []
        for seed in range(runs // 10):
            stream = streams.independent(np.random.default_rng(10_000 + seed), horizon)
            found.append(min(first_alarms(watched(stream, 0.0, run_length=promised))[0], float(horizon)))
        calm = np.mean(np.array(found) >= horizon)
        rows.append(f"| {promised:,} | {horizon:,} | {np.mean(found):,.0f} | {100 * calm:.0f} % |")
        print(rows[-1], flush=True)
    return {"table": rows}


METHODS = ["Monitor", "Monitor, no ranges", "Monitor, tolerance 0.01", "CUSUM, tuned", "validanytime e-detector"]
SLOW_PEERS = ["ADWIN", "repeated z-test"]
COLOURS = ("#0b6e99", "#58a6c9", "#0b3c5d", "#c9a227", "#7a5c99", "#b2432f", "#888888")


def one_delay(seed: int, rows: int, at: int, gap: float, share: float, slow: bool) -> dict[str, tuple[float, bool]]:
    """First alarm after the start, and whether the right group was named first, by method."""
    stream, hit = streams.changed(np.random.default_rng(50_000 + seed), rows, at, gap, share)
    found = {}
    settings = {METHODS[0]: (0.0, True), METHODS[1]: (0.0, False), METHODS[2]: (0.01, True)}
    for name, (tolerance, ranges) in settings.items():
        monitor = watched(stream, tolerance, ranges)
        alarms = change_alarms(monitor)
        found[name] = (float(alarms[0].raised), alarms[0].group == "g0 = 99") if alarms else (np.inf, False)
    found["CUSUM, tuned"] = (peers.cusum(stream, RUN_LENGTH), True)
    if slow:
        budget = RUN_LENGTH * 2 * (streams.COLUMNS + 1)
        found["validanytime e-detector"] = (
            peers.validanytime(stream.y - stream.p, np.flatnonzero(hit), budget),
            True,
        )
        found["ADWIN"] = (peers.adwin(stream), True)
    found["repeated z-test"] = (peers.z_test(stream), True)
    return found


def delays(runs: int, shorten: int) -> dict[str, Any]:
    """Return the delay of detection in rows of the group, beside false alarms before the change."""
    rows = [
        "| group | gap | method | alarm before the change | found within 40,000 rows | median delay, rows of the group "
        "| right group first |",
        "|---:|---:|---|---:|---:|---:|---:|",
    ]
    at, horizon = 20_000 // shorten, 60_000 // shorten
    names = METHODS + SLOW_PEERS
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for share in (0.1, 0.02):
        curves[f"group of {100 * share:.0f} %"] = here = {name: [] for name in names}
        for gap in (0.03, 0.05, 0.1, 0.15):
            results: dict[str, list[tuple[float, bool]]] = {name: [] for name in names}
            for seed in range(runs // 10):
                for name, value in one_delay(seed, horizon, at, gap, share, seed < runs // SLOW).items():
                    results[name].append(value)
            for name, values in results.items():
                line, median = _delay_row(name, values, at, share, gap)
                rows.append(line)
                print(line, flush=True)
                if np.isfinite(median):
                    here[name].append((gap, median))
    return {"table": rows, "curves": curves}


def delay_picture(curves: dict[str, dict[str, list[tuple[float, float]]]]) -> str:
    """Draw the median delay by gap, one panel per size of the group."""
    colours = dict(zip(METHODS + SLOW_PEERS, COLOURS, strict=True))
    panels = [
        Panel(
            f"rows of the group to the alarm, {title}", [PlottedLine(n, colours[n], p) for n, p in lines.items() if p]
        )
        for title, lines in curves.items()
    ]
    return figure(panels, 2, "gap")


def _delay_row(name: str, values: Sequence[tuple[float, bool]], at: int, share: float, gap: float) -> tuple[str, float]:
    first = np.array([value[0] for value in values])
    early = first <= at
    after = first[~early]
    found = np.isfinite(after)
    waits = np.where(found, (after - at) * share, np.inf)
    median = float(np.median(waits)) if len(waits) else np.inf
    named = np.array([value[1] for value in values])[~early][found]
    group = name not in ("CUSUM, tuned", "validanytime e-detector", "ADWIN", "repeated z-test")
    cells = [
        f"{100 * share:.0f} %",
        f"{gap:g}",
        name,
        f"{100 * early.mean():.0f} %",
        f"{100 * found.mean():.0f} %" if len(after) else "–",
        f"{median:,.0f}" if np.isfinite(median) else "–",
        f"{100 * named.mean():.0f} %" if group and len(named) else "",
    ]
    return f"| {' | '.join(cells)} |", median


def stakes(runs: int, _shorten: int) -> dict[str, Any]:
    """Return how far the mean of six stakes lies behind the best of them, and behind the best in hindsight."""
    rows = ["| gap | log-wealth of the mean | behind the best of six | behind the best single stake in hindsight |"]
    rows.append("|---:|---:|---:|---:|")
    grid = np.geomspace(0.005, 3.0, 1000)
    for gap in (0.02, 0.05, 0.1, 0.2):
        kept, behind, hindsight = [], [], []
        for seed in range(runs // 10):
            rng = np.random.default_rng(90_000 + seed)
            p = rng.uniform(0.05, 0.75, 5_000)
            y = (rng.random(5_000) < p + gap).astype(float)
            monitor = Monitor(tolerance=0.0, level_ranges=False).add({}, p, y)
            bet_state = monitor._bets.live_bet_state()
            mean = float(state.log_wealth(bet_state, monitor._bets.terms)[0, 0])
            gains = [np.log1p(k / (1 + k * p) * (y - p)).sum() for k in grid]
            kept.append(mean)
            behind.append(float(state.lane_log_wealth(bet_state)[0, 0::2].max()) - mean)
            hindsight.append(max(gains) - mean)
        rows.append(f"| {gap:g} | {np.mean(kept):.1f} | {np.mean(behind):.2f} | {np.mean(hindsight):.2f} |")
        print(rows[-1], flush=True)
    return {"table": rows}


def together(runs: int, shorten: int) -> dict[str, Any]:
    """Return how often right forecasts of clusters, and with chosen outcomes, are rejected, with and without."""
    rows = [
        "| design | lifetime, with the option | without | change alarms, with | without |",
        "|---|---:|---:|---:|---:|",
    ]
    makers: dict[str, tuple[Callable[..., streams.Stream], dict[str, Any]]] = {
        **{
            f"{each} rows a patient, `clusters=`": (partial(streams.patients, each=each), {"clusters": "patient"})
            for each in (1, 4, 10, 50)
        },
        "outcomes of a chosen part, `weights=`": (streams.chosen, {"max_weight": 5.0}),
    }
    for name, (make, settings) in makers.items():
        counts = np.zeros(4)
        for seed in range(runs):
            stream = make(np.random.default_rng(70_000 + seed), 20_000 // shorten)
            weights = stream.records.get("weight") if "max_weight" in settings else None
            found = []
            for given, own in ((settings, weights), ({}, None)):
                monitor = Monitor(["g"], tolerance=0.0, alpha=ALPHA, run_length=RUN_LENGTH, **given)
                monitor.add(stream.records, stream.p, stream.y, weights=own)
                found.append((monitor.test().rejected, bool(change_alarms(monitor))))
            counts += [found[0][0], found[1][0], found[0][1], found[1][1]]
        rows.append(f"| {name} | " + " | ".join(f"{100 * count / runs:.1f} %" for count in counts) + " |")
        print(rows[-1], flush=True)
    return {"table": rows}


def many(runs: int, _shorten: int) -> dict[str, Any]:
    """Return the share of wrong names that e-BH lists, and what one limit for all monitors lists."""
    rows = [
        "| method, 5 % | wrong among those named | broken ones named | runs with a wrong name |",
        "|---|---:|---:|---:|",
    ]
    figures: dict[str, list[tuple[float, float, bool]]] = {"e-BH": [], "each monitor at 1/α": []}
    for seed in range(runs // 10):
        rng, monitors = np.random.default_rng(80_000 + seed), {}
        for k in range(300):
            p = rng.uniform(0.1, 0.7, 1000)
            y = rng.random(1000) < p + 0.07 * (k % 10 == 0)
            monitors[k] = Monitor(tolerance=0.0, alpha=ALPHA, level_ranges=False).add({}, p, y)
        named = {"e-BH": [int(k) for k in e_bh({str(k): one for k, one in monitors.items()}, ALPHA)]}
        named["each monitor at 1/α"] = [k for k, one in monitors.items() if one.test().rejected]
        for method, chosen in named.items():
            wrong = sum(k % 10 != 0 for k in chosen)
            figures[method].append((wrong / max(1, len(chosen)), (len(chosen) - wrong) / 30, wrong > 0))
    for method, found in figures.items():
        share, power, any_wrong = np.mean(found, axis=0)
        rows.append(f"| {method} | {100 * share:.2f} % | {100 * power:.1f} % | {100 * any_wrong:.0f} % |")
        print(rows[-1], flush=True)
    return {"table": rows}


def rejection_picture(curves: dict[str, list[float]], horizon: int) -> str:
    """Share of honest streams rejected so far, by rows watched."""
    colours = ("#b2432f", "#0b6e99", "#58a6c9")
    grid = np.linspace(0, horizon, 101)
    lines, labels = [], []
    for k, (name, first) in enumerate(curves.items()):
        points = " ".join(f"{60 + 560 * x / horizon:.1f},{230 - 400 * np.mean(np.array(first) <= x):.1f}" for x in grid)
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colours[k]}" stroke-width="2"/>')
        labels.append(f'<text x="{70 + 190 * k}" y="22" fill="{colours[k]}">{name}</text>')
    axes = [
        f'<path d="M60 {230 - 400 * level:.0f}h560" stroke="#ddd"/>'
        f'<text x="54" y="{234 - 400 * level:.0f}" text-anchor="end">{100 * level:.0f} %</text>'
        for level in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    ]
    axes += [
        f'<text x="{60 + 560 * share:.0f}" y="248" text-anchor="middle">{horizon * share:,.0f}</text>'
        for share in (0.0, 0.5, 1.0)
    ]
    nominal = (
        '<path d="M60 210h560" stroke="#222" stroke-dasharray="4 4"/><text x="616" y="206" text-anchor="end">5 %</text>'
    )
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 260" font-family="system-ui, sans-serif" '
        'font-size="12" role="img"><title>Share of honest streams rejected, by rows watched</title>'
        '<rect width="640" height="260" fill="#fff"/>'
    )
    return head + "".join([*axes, nominal, *lines, *labels]) + "</svg>\n"


def write_page(sections: list[tuple[str, list[str]]]) -> None:
    page = DOCS / "monitoring.md"
    text = page.read_text(encoding="utf-8")
    start, stop = (text.index(mark) for mark in MARKS)
    body = "\n\n".join("\n".join([intro, "", *table]) for intro, table in sections)
    page.write_text(f"{text[:start]}{MARKS[0]}\n\n{body}\n\n{text[stop:]}", encoding="utf-8")


PARTS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    **{name: partial(false_alarms, design) for name, design in DESIGNS.items()},
    "together": together,
    "many": many,
    "run_lengths": run_lengths,
    "stakes": stakes,
    "delays": delays,
}


def publish(runs: int) -> None:
    """Write page and pictures from the parts."""
    found = {name: json.loads((BUILD / f"{name}.json").read_text()) for name in PARTS}
    pictures = {
        "rejections": rejection_picture(found["independent"]["curves"], 50_000),
        "delay": delay_picture(found["delays"]["curves"]),
    }
    for name, picture in pictures.items():
        (DOCS / "figures" / f"monitoring-{name}.svg").write_text(picture, encoding="utf-8")
    tables = {name: found[name]["table"] for name in ("together", "many", "run_lengths", "stakes", "delays")}
    rejections = [row for name in DESIGNS for row in found[name]["table"]]
    tables = {"false_alarms": [*REJECTIONS, *rejections], **tables}
    write_page([(INTRO[name].format(**_counts(runs)), table) for name, table in tables.items()])


def _counts(runs: int) -> dict[str, str]:
    return {
        "runs": f"{runs}",
        "fewer": f"{runs // 10}",
        "tenth": f"{runs // 10}",
        "few": f"{runs // SLOW}",
        "length": f"{RUN_LENGTH:,}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--only", choices=list(PARTS), action="append")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows and 25 streams; writes nothing")
    options = parser.parse_args()
    runs, shorten = (25, 10) if options.quick else (options.runs, 1)
    for name in options.only or PARTS:
        began = time.process_time()
        found = PARTS[name](runs, shorten)
        print(f"{name}: {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
        if not options.quick:
            BUILD.mkdir(parents=True, exist_ok=True)
            (BUILD / f"{name}.json").write_text(json.dumps(found))
    if not options.quick and all((BUILD / f"{name}.json").exists() for name in PARTS):
        publish(runs)


if __name__ == "__main__":
    main()
