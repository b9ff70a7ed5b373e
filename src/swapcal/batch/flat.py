"""Flat: a fitted model as plain matrices over standard scores and indicators of categories, for use elsewhere.

With H the indicators of all categories side by side, a design's regressors are Z, H, H × logit and H ⊗ H, and a context
is an affine function of Z, H and the two scores: products of matrices, which any system can compute.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from swapcal.arrays import Array
from swapcal.batch.correction import LOGIT_LIMIT, Correction, Scorer
from swapcal.batch.mixture import Mixture
from swapcal.batch.trees import Boost
from swapcal.features.frozen import Frozen
from swapcal.features.number import Number
from swapcal.features.rated import Rated
from swapcal.kernels.batch_design import CATEGORY, CENTRE, HINGE, NUMBER, PAIR, SLOPE, Placement
from swapcal.kernels.trees import LAST_BIT, MISSING


class Fitted(Protocol):
    """What is read of a `Model`."""

    features: Frozen
    scorer: Scorer | None
    correction: Correction
    layout: Placement
    boost: Boost | None
    opening: Correction | None

    @property
    def mixture(self) -> Mixture:
        """The snapshots."""

    @property
    def least(self) -> float:
        """How near to 0 and 1 a probability may come."""


@dataclass(frozen=True)
class Flat:
    """Arrays and JSON-able values that give the mean of a model's mixture."""

    arrays: dict[str, Array]
    manifest: dict[str, Any]

    @classmethod
    def of(cls, model: Fitted) -> "Flat":
        """Flatten a model."""
        features, mixture = model.features, model.mixture
        scaled: list[Number | Rated] = [*features.numbers, *features.rated]
        sizes = [category.size for category in features.categories]
        scorer = {} if model.scorer is None else _design("scorer", model.scorer.correction, sizes)
        opening = {} if model.opening is None else _design("opening", model.opening, sizes)
        arrays = {
            "centre": np.array([number.centre for number in scaled]),
            "spread": np.array([number.spread for number in scaled]),
            "flagged": np.flatnonzero([number.missing for number in features.numbers]),
            **scorer,
            **opening,
            **_design("correction", model.correction, sizes),
            **_trees(model, sizes),
            **_places(model, sizes),
            "score_sizes": model.layout.score_sizes,
            **{name: getattr(mixture, name) for name in ("pool", "members", "z", "counts")},
        }
        manifest = {
            "numbers": [number.name for number in features.numbers],
            "categories": [
                {name: getattr(category, name) for name in ("name", "texts", "numbers", "edges", "other", "size")}
                for category in features.categories
            ],
            "rated": [{"name": rated.name, "offsets": rated.offsets} for rated in features.rated],
            "scored": model.scorer is None,
            "opened": model.opening is not None,
            "base": None if model.scorer is None else model.scorer.base,
            "logit_limit": LOGIT_LIMIT,
            "least_number": MISSING,
            "least": model.least,
            "trees": 0 if model.boost is None else len(model.boost),
        }
        return cls(arrays, manifest)


def _trees(model: Fitted, sizes: list[int]) -> dict[str, Array]:
    """Return the trees' nodes; a set of codes that go left is a row of truth values, the first row of none."""
    if model.boost is None:
        return {}
    first, forest = model.boost.first, model.boost.forest
    sets, which = np.unique(np.append(forest.codes, np.uint64(0)), return_inverse=True)
    bits = np.arange(LAST_BIT + 1, dtype=np.uint64)
    found = {
        "root": forest.root.astype(np.int64),
        "depth": forest.depth.max(initial=0),
        "column": forest.column.astype(np.int64),
        "threshold": forest.threshold,
        "which": which[:-1],
        "sets": ((sets[:, None] >> bits) & np.uint64(1)).astype(bool),
        "child": forest.child.astype(np.int64),
        "value": forest.value,
    }
    return _design("first", first, sizes) | {f"forest.{name}": np.asarray(value) for name, value in found.items()}


def _design(name: str, correction: Correction, sizes: list[int]) -> dict[str, Array]:
    """Return a regression's coefficients, each times the scale of its regressor."""
    design, scales = correction.design, correction.design.scales
    b = np.append(correction.coefficients, 0.0)  # place -1 is nowhere, and counts for nothing
    pairs = np.zeros((sum(sizes), sum(sizes)))
    first = np.cumsum([0, *sizes])
    for left, right, places in zip(design.left, design.right, design.pair, strict=True):
        rows, columns = slice(first[left], first[left + 1]), slice(first[right], first[right + 1])
        pairs[rows, columns] += scales[PAIR] * b[places[: sizes[left], : sizes[right]]]
    found = {
        "line": np.array([b[0], b[1], scales[CENTRE]]),
        "knots": design.knots,
        "hinges": scales[HINGE] * b[2 : 2 + len(design.knots)],
        "numbers": scales[NUMBER] * b[design.numeric],
        "codes": scales[CATEGORY] * b[_side_by_side(design.category, sizes)],
        "slopes": scales[SLOPE] * b[_side_by_side(design.slope, sizes)],
        "pairs": pairs,
    }
    return {f"{name}.{key}": value for key, value in found.items()}


def _places(model: Fitted, sizes: list[int]) -> dict[str, Array]:
    """Return the matrices that put standard scores and indicators where a context has them."""
    layout, width = model.layout, model.mixture.pool.shape[1]
    numbers, codes = np.zeros((len(layout.numeric), width)), np.zeros((sum(sizes), width))
    for row, place in _placed(layout.numeric):
        numbers[row, place] = layout.number_size
    values = np.repeat(layout.sizes, sizes)
    for row, place in _placed(_side_by_side(layout.category, sizes)):
        codes[row, place] = values[row]
    return {"place_numbers": numbers, "place_codes": codes}


def _placed(places: Any) -> Iterator[tuple[int, int]]:
    return ((row, int(place)) for row, place in enumerate(places) if place >= 0)


def _side_by_side(places: Any, sizes: list[int]) -> Any:
    """Return the codes' places, column after column, without the room a column has no codes for."""
    found = [row[:size] for row, size in zip(places, sizes, strict=True)]
    return np.concatenate([np.empty(0, np.int64), *found])
