"""How a model is fitted, which coordinates its contexts have, and how its work is spread over threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from swapcal import _validate, bounds
from swapcal.arrays import Array, Integers
from swapcal.batch.trees import installed
from swapcal.bounds.batch import first_below
from swapcal.features.encoder import EncodedTable, FittedEncoder
from swapcal.kernels.batch import Placement

# Which coordinates a batch context has, and how large they are.

SCORE, GIVEN = 0.5, 0.1
"""Sizes of the corrected score's and the given score's coordinates."""
GROUPS, OTHERS = 0.3, 0.3
"""Norms of all group coordinates together and of all others: ¼ + ¼ + 0.01 + 0.09 + 0.09 ≤ 1.

The ridge λ makes a small coordinate expensive to rely on: a group's offset at one level needs some λG/0.09 rows to
count, and until then the pooled correction stands.
"""
MOST_COORDINATES = 128
SCORES = 3


def lay_out(features: FittedEncoder, rows: EncodedTable) -> Placement:
    """Return the layout: groups first, then numbers, then other categories, the most frequent ones if room is short."""
    category = np.full((len(features.categories), max([c.size for c in features.categories], default=1)), -1, np.int64)
    numeric = np.full(rows.Z.shape[1], -1, np.int64)
    groups = features.groups
    other_categories = [j for j in range(len(category)) if j not in groups]
    width = _place_categories(features, rows, groups, category, SCORES)
    width = _place_numbers(numeric, width)
    _place_categories(features, rows, other_categories, category, width)
    n_other = len(features.numbers) + len(features.rated) + len(other_categories)
    sizes = [GROUPS / np.sqrt(len(groups)) if j in groups else OTHERS / np.sqrt(n_other) for j in range(len(category))]
    number_size = OTHERS / (3.0 * np.sqrt(max(n_other, 1)))
    return Placement(numeric, category, float(number_size), np.array(sizes), np.array([SCORE, GIVEN]))


def width_of(layout: Placement) -> int:
    """Return the number of coordinates of a context."""
    return int(max(layout.numeric.max(initial=SCORES - 1), layout.category.max(initial=SCORES - 1))) + 1


def prior_of(layout: Placement) -> Array:
    """Return θ with ⟨θ, x⟩ = the corrected score."""
    prior = np.zeros(width_of(layout))
    prior[0], prior[1] = 1.0, 0.5 / layout.score_sizes[0]
    return prior


def counts_of(codes: Integers, size: int) -> Integers:
    """Return how many rows have each code; -1 marks a missing value."""
    return np.bincount(codes + 1, minlength=size + 1)[1:]


def _place_numbers(numeric: Integers, width: int) -> int:
    room = max(0, min(len(numeric), MOST_COORDINATES - width))
    numeric[:room] = np.arange(width, width + room)
    return width + room


def _place_categories(
    features: FittedEncoder, rows: EncodedTable, columns: list[int], category: Integers, width: int
) -> int:
    entries = [
        (-count, column, code)
        for column in columns
        for code, count in enumerate(counts_of(rows.codes[:, column], features.categories[column].size).tolist())
    ]
    chosen = sorted(entries)[: max(0, MOST_COORDINATES - width)]
    for place, (_, column, code) in enumerate(sorted(chosen, key=lambda entry: entry[1:])):
        category[column, code] = width + place
    return width + len(chosen)


# Threads: the same work on stretches of rows, side by side.

FEWEST_ROWS = 2048
"""Below this a thread costs more than it saves."""
MOST_ROWS = 4096
"""Rows at a time, whose contexts stay near the processor, however many there are."""


def in_threads(
    work: Callable[[EncodedTable, Array | None], Array], rows: EncodedTable, scores: Array | None, jobs: int
) -> list[Array]:
    """Return `work` of consecutive stretches of the rows and their scores; a row's result depends on the row alone."""
    count = len(rows.Z)
    jobs = max(1, min(jobs, count // FEWEST_ROWS))
    edges = np.linspace(0, count, max(jobs, -(-count // MOST_ROWS)) + 1).astype(int)
    stretches = [(rows.take(slice(a, b)), None if scores is None else scores[a:b]) for a, b in pairwise(edges.tolist())]
    if jobs == 1:
        return [work(*stretch) for stretch in stretches]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda stretch: work(*stretch), stretches))


# Settings: how a model is fitted.


class Target(NamedTuple):
    """The error that a grid of levels is chosen for."""

    rule: str
    """Of the number of levels, in `bounds.default_levels`."""
    theorem: Callable[..., bounds.Bound]
    comparators: str
    """How far they are from the start: those of "sreg" or of "smcal"."""


TARGETS = {
    "adaptive": None,
    "multicalibration": Target("smcal", bounds.dsmcal2, "smcal"),
    "omniprediction": Target("batch-omni", bounds.dsomni, "smcal"),
    "agnostic": Target("batch-agnostic", bounds.saerr, "sreg"),
}
CORRECTIONS = ("auto", "linear", "trees", "none")
FEWEST_FOR_TREES = 500
"""Rows below which "auto" grows no trees: a fold would hold out too few rows to measure their benefit."""
RIDGES = (256.0, 16.0, 1.0)
"""Ridges that stay at the corrected score, close to it, or leave it soon; the least squared error decides.

The first is for scores that need no correction: leaving them costs up to 0.3 % in log loss.
"""


@dataclass
class FitSettings:
    """How a model is fitted; see `SwapClassifier` for the meaning of each."""

    target: str = "adaptive"
    snapshots: int = 16
    passes: int = 1
    ridge: float | str = "auto"
    kappa: float = 0.2
    epsilon: float | None = None
    delta: float = 0.05
    seed: int = 0
    correction: str = "auto"
    log: bool = False
    """Whether all rounds are kept, beside the snapshots that `mean` averages."""

    def __post_init__(self) -> None:
        if self.correction not in CORRECTIONS:
            raise ValueError(f"correction: given {self.correction!r}, expected one of {', '.join(CORRECTIONS)}")
        if self.target not in TARGETS:
            raise ValueError(f"target: given {self.target!r}, expected one of {', '.join(TARGETS)}")
        for name in ("snapshots", "passes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name}: given {value!r}, expected an integer of at least 1")
        if not isinstance(self.log, bool):
            raise ValueError(f"log: given {self.log!r}, expected True or False")
        if self.log and self.passes > 1:
            raise ValueError(f"log: given with {self.passes} passes, expected one: no theorem covers more")
        if isinstance(self.ridge, str) and self.ridge != "auto":
            raise ValueError(f'ridge: given {self.ridge!r}, expected a positive number or "auto"')
        if self.epsilon is not None and self.target == "adaptive":
            raise ValueError(
                'epsilon: given with target "adaptive", expected a target that says which error is meant: '
                "multicalibration, omniprediction or agnostic"
            )
        if self.epsilon is not None and (self.correction != "none" or self.passes > 1):
            raise ValueError(
                f"epsilon: given with correction {self.correction!r} and {self.passes} passes, expected correction "
                "'none' and one pass: no theorem covers contexts that were fitted to the labels streamed"
            )

    def resolved(self, rows: int) -> "FitSettings":
        """Return the settings of a fit on this many rows: instead of "auto", "trees" or "linear".

        A fitted model and its file hold these, so that both record which of the two was used.
        """
        if self.correction == "trees" and not installed():
            raise ModuleNotFoundError(
                'correction "trees" needs LightGBM: pip install "swapcal[trees]"; "linear" does without',
                name="lightgbm",
            )
        if self.correction != "auto":
            return self
        return replace(self, correction="trees" if rows >= FEWEST_FOR_TREES and installed() else "linear")

    @property
    def ridges(self) -> tuple[float, ...]:
        """The ridge penalties to choose from."""
        return RIDGES if isinstance(self.ridge, str) else (_validate.ridge(self.ridge),)

    def levels(self, rows: float, dim: int) -> Any:
        """Return the levels the target's theorem chooses for this many rows and coordinates."""
        rule = TARGETS[self.target]
        return "adaptive" if rule is None else bounds.default_levels(rows, dim, rule.rule)

    def promised(self, rows: float, dim: int, distance2: float) -> float:
        """Return the error of the target's theorem on the levels of this fit, at its ridges and the B² of its start.

        One of several ridges is chosen by looking at labels, so each has its share of δ, and the largest error counts.
        """
        target = TARGETS[self.target]
        assert target is not None
        levels, delta = self.levels(rows, dim), self.delta / len(self.ridges)
        return max(
            float(target.theorem(rows, dim, delta, levels, ridge=ridge, distance2=distance2)) for ridge in self.ridges
        )

    def check_rows(self, rows: int, dim: int, distance2: Callable[[str], float]) -> None:
        """Raise ValueError for fewer rows than the theorem needs for `epsilon`; `distance2` is B² by comparators.

        Examples
        --------
        >>> settings = FitSettings("omniprediction", ridge=1.0, epsilon=0.1, correction="none")
        >>> settings.levels(4.16e8, 10), round(settings.promised(4.16e8, 10, 10.0), 2)
        (346, 0.16)
        >>> settings.check_rows(416_000_000, 10, lambda comparators: 10.0)
        Traceback (most recent call last):
        ...
        ValueError: rows: given 416,000,000, expected at least ..., the number the theorem needs for an error ...
        """
        target = TARGETS[self.target]
        if self.epsilon is None or target is None:
            return
        start = distance2(target.comparators)
        if self.promised(rows, dim, start) > self.epsilon:
            needed = first_below(lambda count: self.promised(count, dim, start), self.epsilon)
            raise ValueError(
                f"rows: given {rows:,}, expected at least {needed:,.0f}, the number the theorem needs for an error of "
                f"{self.epsilon} for target {self.target!r} with {dim} coordinates at confidence {1 - self.delta:.3g}; "
                "leave epsilon out to fit without that guarantee"
            )
