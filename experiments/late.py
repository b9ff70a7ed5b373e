"""Labels that come late: what the mean and the issued forecast lose against the experts behind them.

    SWAPCAL_DATA=directory python experiments/late.py [--data elec2 ...] [--late 0 500 5000 20000]

Every label comes the same number of rows late. Bookings are also forecast when they are made: their labels come early
for cancellations and late for stays, and are learned as they come, or at the check-out day at the earliest.
"""

import argparse
from typing import Any

import numpy as np
import pandas as pd

from streams import STREAMS, Array, Data, at_booking, load, log_loss
from swapcal.live import Live

ROWS = 200_000


def figures(p: Array, y: Array) -> str:
    return f"{np.mean((p - y) ** 2):.4f}/{log_loss(p, y):.4f}"


def measure(title: str, data: Data, **when: Any) -> None:
    """Print one line: Brier and logarithmic loss of all rows, those before the first label included."""
    y = data.y[:ROWS]
    live = Live(scores=data.scores)
    trace = live.trace(data.frame[:ROWS], y, **when)
    single = trace.experts[:, 1:]
    best = single[:, np.argmin(np.mean((single - y[:, None]) ** 2, axis=0))]
    columns = (trace.forecast.mean, trace.forecast.p, trace.experts[:, 0], best, np.full(len(y), y.mean()))
    print(f"{title:34}", *(figures(np.asarray(p), y) for p in columns), sep="  ", flush=True)


def at_check_out(data: Data) -> tuple[Data, dict[str, Any]]:
    """Return bookings as they were made, when their labels came, and when these would have come whatever they were."""
    moved, booked, known = at_booking(data)
    arrival = booked + pd.to_timedelta(moved.frame["lead_time"], unit="D").to_numpy()
    nights = moved.frame["stays_in_weekend_nights"] + moved.frame["stays_in_week_nights"]
    leaves = np.maximum(arrival + pd.to_timedelta(nights, unit="D").to_numpy(), known)
    return moved, {"time": booked[:ROWS], "label_time": known[:ROWS], "matures": leaves[:ROWS]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=STREAMS)
    parser.add_argument("--late", nargs="*", type=int, default=[0, 500, 5_000, 20_000])
    chosen = parser.parse_args()
    print(f"{'':34}", *(f"{name:13}" for name in ("mean", "issued", "blend", "best expert", "base rate")), sep="  ")
    for name in chosen.data:
        data = load(name)
        time = np.arange(min(len(data.y), ROWS), dtype=np.float64)
        for late in chosen.late:
            measure(f"{name}, {late} late", data, time=time, label_time=time + late)
        if name == "hotel_bookings":
            moved, when = at_check_out(data)
            measure(f"{name} at booking, matured", moved, **when)
            del when["matures"]
            measure(f"{name} at booking, as they come", moved, **when)


if __name__ == "__main__":
    main()
