"""Trees inside `Live`, against the same trees refitted four times as often as on the page on decisions.

    SWAPCAL_DATA=directory python experiments/trees.py [--data rain_australia] [--growth 1.2]

The trees outside are refitted at 28 points of the stream on all rows before, whose labels they are granted, and are
told which columns are categories. Those inside are refitted each time the labels known have grown by the factor given.
"""

import argparse
import itertools
import os
import time
from pathlib import Path

import numpy as np

from decisions import STREAMS, Costs, Stream, boosted, codes_for_trees, collect
from swapcal.arrays import Array
from swapcal.live import Live, Refit

BLOCKS, OFTEN = 8, 4
OUTSIDE, MEAN, ISSUED = "trees, refitted 28 times", "trees inside, mean", "trees inside, issued p"


def outside(stream: Stream, edges: Array) -> tuple[Array, float]:
    """Return forecasts of trees refitted at each of the edges, and the seconds that took."""
    table, start = codes_for_trees(stream.frame), time.process_time()
    categories = [j for j, name in enumerate(stream.frame) if stream.frame[name].dtype.kind not in "biuf"]
    p = np.full(len(stream), np.nan)
    for a, b in itertools.pairwise(edges):
        trees = boosted().set_params(categorical_features=categories).fit(table[:a], stream.y[:a])
        p[a:b] = trees.predict_proba(table[a:b])[:, 1]
    return p, time.process_time() - start


def inside(stream: Stream, growth: float) -> tuple[dict[str, Array], Refit, Array]:
    """Return the mean and the issued forecasts of `Live` with trees, the trees, and the contexts."""
    refit = Refit(boosted(), growth=growth)
    live = Live(models={"trees": refit})
    trace = live.trace(stream.frame, stream.y, time=stream.time, label_time=stream.label_time)
    return {MEAN: np.asarray(trace.forecast.mean), ISSUED: np.asarray(trace.forecast.p)}, refit, trace.x


def table(stream: Stream, costs: Costs) -> list[str]:
    lines = [f"| loss | {OUTSIDE} | {MEAN} | {ISSUED} | issued − {OUTSIDE} |", "|---|--:|--:|--:|--:|"]
    for loss in stream.losses:
        gap, error = costs.difference(ISSUED, OUTSIDE, loss)
        cells = [f"{costs.mean(method, loss):.4f}" for method in (OUTSIDE, MEAN, ISSUED)]
        lines.append(f"| {loss} | {' | '.join(cells)} | {gap:+.4f} ± {2 * error:.4f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=list(STREAMS), default="rain_australia")
    parser.add_argument("--growth", type=float, default=1.2)
    chosen = parser.parse_args()
    stream = STREAMS[chosen.data](Path(os.environ["SWAPCAL_DATA"]))
    first = len(stream) // BLOCKS
    said, refit, x = inside(stream, chosen.growth)
    print(refit, f"{refit.status().seconds:.0f} s of fitting")
    said[OUTSIDE], seconds = outside(stream, np.linspace(first, len(stream), OFTEN * (BLOCKS - 1) + 1).astype(int))
    print(f"{OUTSIDE}: {seconds:.0f} s")
    never = {loss: np.zeros(len(stream)) for loss in stream.losses}
    print("\n".join(table(stream, collect(stream, said, never, x, slice(first, None)))))


if __name__ == "__main__":
    main()
