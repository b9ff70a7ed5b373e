"""Settings of a model: how it is fitted, which coordinates its contexts have, and what its file holds."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from swapcal import _validate, bounds
from swapcal.archive import (
    ANY_TEXT,
    OBJECT,
    TEXTS,
    TRUTH,
    Children,
    Field,
    Kind,
    RowsSorted,
    Rule,
    Settings,
    Shapes,
    addition,
    below,
    check,
    floats,
    inside,
    integers,
    is_text,
    keys,
    listed,
    optional,
    parted,
    real,
    whole,
)
from swapcal.arrays import Array, Integers
from swapcal.batch.trees import installed
from swapcal.bounds.batch import first_below
from swapcal.features.encoder import EncodedTable, FittedEncoder
from swapcal.features.sources import Category
from swapcal.kernels.batch import SCALES, Placement

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
    """Whether all rounds are kept, in addition to the snapshots that `mean` averages."""

    def __post_init__(self) -> None:
        if self.correction not in CORRECTIONS:
            raise ValueError(f"correction: given {self.correction!r}, expected one of {', '.join(CORRECTIONS)}")
        if self.target not in TARGETS:
            raise ValueError(f"target: given {self.target!r}, expected one of {', '.join(TARGETS)}")
        for name in ("snapshots", "passes"):
            _validate.count(name, getattr(self, name))
        if not isinstance(self.log, bool):
            raise ValueError(f"log: given {self.log!r}, expected True or False")
        if self.log and self.passes > 1:
            raise ValueError(f"log: given with {self.passes} passes, expected one: no theorem covers more")
        if isinstance(self.ridge, str) and self.ridge != "auto":
            raise ValueError(f'ridge: given {self.ridge!r}, expected a positive number or "auto"')
        if self.epsilon is not None and self.target == "adaptive":
            raise ValueError(
                'epsilon: given with target "adaptive", expected a target with an error of its own: '
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


NAME = Rule("a column's name or number", lambda v: is_text(v) or whole().holds(v))
SPREAD = optional(real(0, above=True))
OFFSETS = Rule("a number for each text", lambda v: isinstance(v, dict) and all(map(real().holds, v.values())))
FEATURES = {
    "numeric": listed(NAME),
    "centre": listed(real()),
    "spread": listed(SPREAD),
    "flag": listed(whole(-1)),
    "rated": addition(listed(parted({"name": ANY_TEXT, "offsets": OFFSETS, "centre": real(), "spread": SPREAD}))),
    "categories": listed(
        parted(
            {
                "name": NAME,
                "is_group": TRUTH,
                "texts": TEXTS,
                "numbers": listed(real()),
                "edges": listed(real()),
                "other": whole(-1),
            }
        )
    ),
}
RULES = {
    "features": parted(FEATURES),
    "base": optional(real()),
    "trees": whole(0),
    "rows": whole(0),
    "settings": OBJECT,
    "notes": OBJECT,
    "certificate": OBJECT,
    "opened": addition(TRUTH),
}


def fields(settings: Settings, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays of a model: with a scorer if it was fitted without scores, with trees if it has some."""
    features = settings["features"]
    n, rated = len(features["numeric"]), len(features.get("rated", ()))
    same = {name: whole(n, n) for name in ("centre", "spread", "flag")}
    check(same, {name: len(features[name]) for name in same})
    for entry in features["categories"]:
        check({"other": whole(-1, len(entry["texts"]))}, {"other": entry["other"]})
    sizes = [Category(**entry).size for entry in features["categories"]]
    numbers = n + rated + sum(place >= 0 for place in features["flag"])
    columns, codes = len(sizes), max(sizes, default=0)
    designs = ["correction", *(["scorer"] if settings["base"] is not None else [])]
    designs += (["opening"] if settings.get("opened") else []) + (["first"] if settings["trees"] else [])
    parts = {name: _design(inside(name, shapes), numbers, columns, codes) for name in designs}
    if settings["trees"]:
        parts["forest"] = _forest(inside("forest", shapes), settings["trees"], 1 + n + columns)
    width = shapes["mixture.pool"][1]
    wide = max(codes, shapes["layout.category"][1])
    parts["layout"] = {
        "numeric": integers(numbers, least=-1, most=width - 1),
        "category": integers(columns, wide, least=-1, most=width - 1),
        "number_size": floats(),
        "sizes": floats(columns),
        "score_sizes": floats(2),
    }
    snapshots, levels = max(1, shapes["mixture.counts"][0]), shapes["mixture.z"][1]
    parts["mixture"] = {
        "pool": floats("vectors", width),
        "members": integers(snapshots, levels, least=0, most="vectors"),
        "z": floats(snapshots, levels, least=0, most=1, link=RowsSorted("counts")),
        "counts": integers(snapshots, least=2, most=levels),
    }
    if settings["settings"].get("log"):
        parts["history"] = _history(shapes["history.row"][0], settings["rows"])
    return {name: field for prefix, part in parts.items() for name, field in below(prefix, part).items()}


def _design(shapes: dict[str, Any], numbers: int, columns: int, codes: int) -> dict[str, Field]:
    """Return the arrays of a linear correction; numbers take the places after the constant, the logit and its knots."""
    knots, wide = shapes["knots"][0], max(codes, shapes["category"][1])
    regressors = max(2 + knots + numbers, shapes["coefficients"][0])
    last = regressors - 1
    return {
        "knots": floats(knots),
        "numeric": integers(numbers, least=0, most=last),
        "category": integers(columns, wide, least=-1, most=last),
        "slope": integers(columns, wide, least=-1, most=last),
        "left": integers("pairs", least=0, most=columns - 1),
        "right": integers("pairs", least=0, most=columns - 1),
        "pair": integers("pairs", wide, wide, least=-1, most=last),
        "scales": floats(SCALES),
        "coefficients": floats(regressors),
    }


def _history(changes: int, rows: int) -> dict[str, Field]:
    """Return the arrays of the log of all rounds; each row changed a learner at least."""
    check({"rows": whole(1, changes)}, {"rows": rows})
    return {
        "theta": floats(changes, "coordinates"),
        "slot": integers(changes, least=0, most="slots"),
        "row": integers(changes, least=-1, most=rows - 1, ordered=True),
        "z": floats("slots", least=0, most=1),
    }


def _forest(shapes: dict[str, Any], trees: int, inputs: int) -> dict[str, Field]:
    nodes = shapes["value"][0]
    return {
        "root": keys(trees, most=nodes - 1),
        "depth": integers(trees, least=0, most=nodes - 1),
        "column": keys(nodes, most=inputs - 1),
        "threshold": floats(nodes),
        "codes": keys(nodes),
        "child": keys(2 * nodes, most=nodes - 1, link=Children("root", "depth")),
        "value": floats(nodes),
    }


FILE = Kind("batch-model", 2, RULES, fields)
