"""A small `Live` against a full one: recorded streams as a whole, and cut by a key.

    SWAPCAL_DATA=directory python experiments/small.py [--data elec2 ...] [--rows 100000] [--keys 200]

Sizes were chosen on the streams of CHOSEN_ON; the others are reported as they came out. Cut by a key, every key has a
`Live` of its own, as on Spark; keys with fewer than 20 rows are left out, and figures are means over the rows of all.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from streams import STREAMS, Data, load, log_loss
from swapcal.archive import packed
from swapcal.arrays import Array
from swapcal.live import Live
from swapcal.live.state import FILE

CHOSEN_ON = ("elec2", "bank_marketing", "rain_australia", "nycflights")
KEYS = {
    "nycflights": "dest",
    "rain_australia": "Location",
    "bank_marketing": "job",
    "hotel_bookings": "country",
    "fte_games": "league",
    "obd_clicks": "item_id",
}
SIZES = ("full", "small")
FEWEST = 20


def forecasts(data: Data, rows: Array, size: str) -> tuple[Array, int]:
    """Return the mean forecasts of some rows by one `Live`, and the bytes of its file without settled ids."""
    live = Live(scores=data.scores, size=size)
    mean = live.run(data.frame.iloc[rows].reset_index(drop=True), data.y[rows]).mean
    live.release()
    return np.asarray(mean), len(packed(FILE, live.to_state()))


def by_key(data: Data, rows: int, keys: int) -> list[Array]:
    """Return the rows of each key, those with the most rows first."""
    column = data.frame[KEYS[data.name]].astype(str).to_numpy()[:rows]
    found = [np.flatnonzero(column == name) for name in np.unique(column)]
    return sorted((each for each in found if len(each) >= FEWEST), key=len, reverse=True)[:keys]


def compare(title: str, data: Data, parts: list[Array]) -> Iterator[str]:
    """Yield one line: rows, keys, and of each size the Brier score, the log loss and the largest file."""
    y = np.concatenate([data.y[part] for part in parts])
    cells = []
    for size in SIZES:
        means, sizes = zip(*(forecasts(data, part, size) for part in parts), strict=True)
        mean = np.concatenate(means)
        cells.append((float(np.mean((mean - y) ** 2)), log_loss(mean, y), max(sizes)))
    (brier, loss, size), (small_brier, small_loss, small_size) = cells
    chosen = "" if data.name in CHOSEN_ON else " (untouched)"
    yield (
        f"| {title}{chosen} | {len(y):,} | {len(parts)} | {brier:.4f} | {small_brier:.4f} | {loss:.4f} | "
        f"{small_loss:.4f} | {size / 1e3:,.0f} | {small_size / 1e3:,.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=STREAMS, default=STREAMS)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=200)
    options = parser.parse_args()
    print("| stream | rows | keys | Brier, full | small | log loss, full | small | largest file, kB, full | small |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.data:
        data = load(name)
        print(*compare(name, data, [np.arange(min(options.rows, len(data.y)))]), sep="\n", flush=True)
        if name in KEYS:
            parts = by_key(data, options.rows, options.keys)
            print(*compare(f"{name} by {KEYS[name]}", data, parts), sep="\n", flush=True)


if __name__ == "__main__":
    main()
