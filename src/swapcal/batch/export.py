"""A fitted model as one recipe over plain arrays, for use without swapcal."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from swapcal.archive import put_text, replacing
from swapcal.arrays import AnyArray, Array, Integers
from swapcal.batch import standalone
from swapcal.batch.correction import Correction, Scorer
from swapcal.batch.mixture import Mixture
from swapcal.batch.trees import NO_CODE, Boost
from swapcal.features.encoder import FittedEncoder, TargetEncoding
from swapcal.features.sources import Category, Name, Number
from swapcal.kernels.batch import CATEGORY, CENTRE, HINGE, NUMBER, PAIR, SLOPE, Design, Placement
from swapcal.tables.values import unquoted
from swapcal.version import __version__

# Columns: the columns that exported models read, as rows of one matrix of numbers, the same for all classes.


class Texts(NamedTuple):
    """A column of texts and the number of each, None for a missing one; `other` is the number of all other texts."""

    name: Name
    numbers: dict[str | None, float]
    other: float

    @classmethod
    def of(cls, column: TargetEncoding | Category) -> "Texts":
        """Return offsets or codes, in an order that does not depend on the process."""
        if isinstance(column, TargetEncoding):
            return cls(column.name, {unquoted(text): column.offsets[text] for text in sorted(column.offsets)}, 0.0)
        codes = column.code_of()
        return cls(column.name, {unquoted(text): codes[text] for text in sorted(codes)}, column.other)


@dataclass(frozen=True)
class ExportColumns:
    """Rows of the matrix: numbers, then numbers that are only categories, then texts as their numbers."""

    finite: list[Name]
    """Numbers that must be finite."""
    categories: list[Name]
    texts: list[Texts]

    @classmethod
    def of(cls, encoders: Sequence[FittedEncoder]) -> "ExportColumns":
        """Return the columns that any of the encoders reads, each once."""
        finite = _once(number.name for one in encoders for number in one.numbers)
        numbered = _once(category.name for one in encoders for category in one.categories if not category.texts)
        texts: list[Texts] = []
        for one in encoders:
            columns: list[TargetEncoding | Category] = [*one.rated, *one.categories]
            new_texts = [Texts.of(column) for column in columns if _is_of_texts(column)]
            texts += [column for column in new_texts if column not in texts]
        return cls(finite, [name for name in numbered if name not in finite], texts)

    @property
    def numbers(self) -> list[Name]:
        """Names of the columns of numbers."""
        return [*self.finite, *self.categories]

    @property
    def names(self) -> list[Name]:
        """Names of all columns."""
        return _once([*self.numbers, *(column.name for column in self.texts)])

    def row(self, column: TargetEncoding | Category) -> int:
        """Return where texts or a category's numbers are."""
        if _is_of_texts(column):
            return len(self.numbers) + self.texts.index(Texts.of(column))
        return self.numbers.index(column.name)

    def __len__(self) -> int:
        return len(self.numbers) + len(self.texts)


def _is_of_texts(column: TargetEncoding | Category) -> bool:
    return isinstance(column, TargetEncoding) or bool(column.texts)


def _once(names: Iterable[Name]) -> list[Name]:
    return list(dict.fromkeys(names))


# Splits: trees as comparisons of numbers with thresholds, step by step from node to node or by paths to leaves.

NodePath = list[tuple[int, bool]]
"""Nodes passed, and whether their numbers were above the thresholds."""


class Splits(NamedTuple):
    """Nodes that compare a number with a threshold; leaves are their own children.

    The numbers: the log-odds, then sums over the indicators of categories, one for each set of codes, then the columns.
    """

    root: Integers
    feature: Integers
    """(nodes,) which of the numbers is compared."""
    threshold: Array
    child: Integers
    """(2 · nodes,) of node i, at 2i where to go from numbers up to the threshold, at 2i + 1 from those above it."""
    leaf: Array
    """(nodes,) what a leaf adds, 0 elsewhere."""
    depth: int
    sets: Array
    """(sets, indicators)"""

    @classmethod
    def of(cls, boost: Boost | None, numbers: Integers, sizes: Integers) -> "Splits":
        """Return a forest, given the columns' places and the categories' numbers of codes; none is a leaf of 0."""
        codes = int(sizes.sum())
        if boost is None:
            nothing = np.zeros(1, np.int64)
            return cls(nothing, nothing, np.zeros(1), np.zeros(2, np.int64), np.zeros(1), 0, np.zeros((0, codes)))
        forest, first = boost.forest, 1 + len(numbers)
        column, threshold = forest.column.astype(np.int64), forest.threshold.copy()
        feature, sets = np.zeros(len(column), np.int64), dict[bytes, int]()
        for node in np.flatnonzero(column >= first).tolist():
            weights = _code_weights(sizes, column[node] - first, threshold[node], int(forest.codes[node]))
            feature[node] = 1 + sets.setdefault(weights.tobytes(), len(sets))
            threshold[node] = -0.5 if threshold[node] == NO_CODE else 0.5
        numbered = (column > 0) & (column < first)
        feature[numbered] = 1 + len(sets) + numbers[column[numbered] - 1]
        return cls(
            forest.root.astype(np.int64),
            feature,
            threshold,
            forest.child.reshape(-1, 2)[:, ::-1].ravel().astype(np.int64),
            forest.value,
            int(forest.depth.max(initial=0)),
            np.array([np.frombuffer(key) for key in sets]).reshape(len(sets), codes),
        )

    def by_leaves(self) -> dict[str, AnyArray]:
        """Return the distinct splits, and for each leaf the splits on its path, with the side taken at each.

        Shorter paths end with the first split, whose threshold is infinite.
        """
        paths = [steps for root in self.root.tolist() for steps in self._paths(root, [])]
        places = {(0, np.inf): 0}
        path = np.zeros((max(len(steps) for _, steps in paths), len(paths)), np.int64)
        turns = np.zeros(path.shape, bool)
        for leaf, (_, steps) in enumerate(paths):
            for step, (node, turn) in enumerate(steps):
                split = int(self.feature[node]), float(self.threshold[node])
                path[step, leaf], turns[step, leaf] = places.setdefault(split, len(places)), turn
        feature, threshold = zip(*places, strict=True)
        leaves = self.leaf[[node for node, _ in paths]]
        splits = {"asked": np.array(feature, np.int64), "threshold": np.array(threshold)}
        return splits | {"path": path, "turns": turns, "leaf": leaves, "sets": self.sets}

    def _paths(self, node: int, path: NodePath) -> Iterator[tuple[int, NodePath]]:
        """Yield each leaf below a node and the path to it."""
        below, above = self.child[2 * node : 2 * node + 2].tolist()
        if below == node:
            yield node, path
            return
        yield from self._paths(below, [*path, (node, False)])
        yield from self._paths(above, [*path, (node, True)])


def _code_weights(sizes: Integers, column: int, threshold: float, left: int) -> Array:
    """Return weights of all indicators: -1 for the codes of a set, which go left, or 1 for those above a threshold.

    A row without a code has 0: it is in no set, and below every threshold.
    """
    weights, first = np.zeros(int(sizes.sum())), int(sizes[:column].sum())
    for code in range(sizes[column]):
        weights[first + code] = -(left >> code & 1) if threshold == NO_CODE else code > threshold
    return weights


# Export arrays: a fitted model as one recipe over arrays, the same for every kind of column and model.
#
# A table becomes a matrix of numbers, a row for each column, texts by their codes. The features F come from it: a one,
# standard scores, flags of missing values, categories as intervals in which a number lies, and pairs of categories.
# All other steps are affine in F: what each of three corrections multiplies with the bends of the log-odds, what the
# trees compare, and the learners' wishes. A step that a model does not have is an identity.

FLAG = 3.0
"""Value of a flag of a missing value among standard scores."""


class FittedTable(Protocol):
    """The parts of a `Model` that an export reads."""

    features: FittedEncoder
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
class ExportArrays:
    """Arrays that give the mean of a model's mixture from the rows of `ExportColumns`."""

    arrays: dict[str, AnyArray]
    splits: Splits
    scored: bool
    """Whether the model corrects given scores."""

    @classmethod
    def of(cls, model: FittedTable, columns: ExportColumns) -> "ExportArrays":
        """Flatten a model."""
        regressors = _Regressors.of(model)
        arrays = {
            **_features(model.features, columns),
            "pairs": regressors.pairs.T,
            **_stages(model, regressors),
            **_learners(model, regressors),
            **_ladders(model.mixture),
        }
        numbers = arrays["numbers"][: len(model.features.numbers)]
        return cls(arrays, Splits.of(model.boost, numbers, regressors.sizes), model.scorer is None)


def export_arrays(models: Sequence[FittedTable]) -> tuple[ExportColumns, list[ExportArrays]]:
    """Return the columns that models of one table read, and the arrays of each model."""
    columns = ExportColumns.of([model.features for model in models])
    flats = [ExportArrays.of(model, columns) for model in models]
    if not columns.names and not flats[0].scored:
        raise ValueError("columns: given none, expected at least one; without any the model is a constant")
    return columns, flats


def _features(features: FittedEncoder, columns: ExportColumns) -> dict[str, AnyArray]:
    """Return the arrays for standard scores, flags and indicators of categories."""
    scaled: list[Number | TargetEncoding] = [*features.numbers, *features.rated]
    numbers = [columns.numbers.index(number.name) for number in features.numbers]
    rated = [columns.row(one) for one in features.rated]
    looked_at = [columns.row(category) for category in features.categories]
    intervals = [_intervals(category) for category in features.categories]
    return {
        "numbers": np.array([*numbers, *rated], np.int64),
        "centre": np.array([number.centre for number in scaled]),
        "spread": np.array([number.spread for number in scaled]),
        "flagged": np.array(numbers, np.int64)[[number.missing for number in features.numbers]],
        "looked_at": np.repeat(np.array(looked_at, np.int64), _sizes(features)),
        "at_least": np.concatenate([np.empty(0), *(low for low, _ in intervals)]),
        "at_most": np.concatenate([np.empty(0), *(high for _, high in intervals)]),
    }


def _sizes(features: FittedEncoder) -> Integers:
    return np.array([category.size for category in features.categories], np.int64)


def _intervals(category: Category) -> tuple[Array, Array]:
    """Return the least and the greatest number of each code: a bin's, or twice the number, or the text's code."""
    if category.edges:
        return np.nextafter([-np.inf, *category.edges], np.inf), np.array([*category.edges, np.inf])
    known = np.array(category.numbers or range(category.size), float)
    return known, known


@dataclass(frozen=True)
class _Regressors:
    """Where the features of a design are: a one, standard scores and flags, indicators, pairs of indicators."""

    units: Array
    """Factors of standard scores and flags: among the features a flag is 1."""
    sizes: Integers
    pairs: Integers
    """(pairs, 2) indicators that any design multiplies."""

    @classmethod
    def of(cls, model: FittedTable) -> "_Regressors":
        features, sizes = model.features, _sizes(model.features)
        flags = sum(number.missing for number in features.numbers)
        units = np.repeat([1.0, FLAG], [len(features.numbers) + len(features.rated), flags])
        given = model.opening if model.scorer is None else model.scorer.correction
        first = None if model.boost is None else model.boost.first
        pairs = {
            pair
            for correction in (given, first, model.correction)
            if correction is not None
            for pair in _paired(correction.design, sizes)
        }
        return cls(units, sizes, np.array(sorted(pairs), np.int64).reshape(len(pairs), 2))

    @property
    def singles(self) -> int:
        """Number of features without pairs."""
        return 1 + len(self.units) + int(self.sizes.sum())

    def __len__(self) -> int:
        return self.singles + len(self.pairs)

    def offsets(self, design: Design, b: Array) -> Array:
        """Return the coefficients of the features, without those times log-odds."""
        scales, paired = design.scales, _paired(design, self.sizes)
        numbers = scales[NUMBER] * self.units * b[design.numeric]
        codes = scales[CATEGORY] * b[_side_by_side(design.category, self.sizes)]
        pairs = [scales[PAIR] * b[paired.get((left, right), -1)] for left, right in self.pairs.tolist()]
        return np.concatenate([b[:1], numbers, codes, pairs])

    def slopes(self, design: Design, b: Array) -> Array:
        """Return the coefficients of features times log-odds."""
        codes = design.scales[SLOPE] * b[_side_by_side(design.slope, self.sizes)]
        return np.concatenate([b[1:2], np.zeros(len(self.units)), codes, np.zeros(len(self.pairs))])


def _paired(design: Design, sizes: Integers) -> dict[tuple[int, int], int]:
    """Return the regressor of each pair of indicators that has one."""
    first = np.cumsum([0, *sizes])
    return {
        (int(first[left] + a), int(first[right] + b)): int(places[a, b])
        for left, right, places in zip(design.left, design.right, design.pair, strict=True)
        for a, b in np.argwhere(places >= 0)
    }


@dataclass(frozen=True)
class _Stage:
    """One correction of log-odds, a sum over features and bends: a one, the log-odds, and what they are above knots."""

    weights: Array
    """(2 + knots, features)"""
    knots: Array

    @classmethod
    def of(cls, correction: Correction | None, regressors: _Regressors) -> "_Stage":
        """Return a correction's coefficients, each times the scale of its regressor; without one, the identity."""
        if correction is None:
            return cls(np.eye(2, len(regressors), -1), np.empty(0))
        design, b = correction.design, np.append(correction.coefficients, 0.0)  # place -1 counts for nothing
        slopes = regressors.slopes(design, b)
        offsets = regressors.offsets(design, b) - design.scales[CENTRE] * np.append(0.0, slopes[1:])
        hinges = design.scales[HINGE] * b[2 : 2 + len(design.knots), None] * np.eye(1, len(regressors))
        return cls(np.vstack([offsets, slopes, hinges]), design.knots)

    def at(self, log_odds: float) -> "_Stage":
        """Return the correction of log-odds that are always the same, as one of any log-odds."""
        bends = np.append([1.0, log_odds], np.maximum(0.0, log_odds - self.knots))
        return _Stage(np.vstack([bends @ self.weights, np.zeros(self.weights.shape[1])]), np.empty(0))


def _stages(model: FittedTable, regressors: _Regressors) -> dict[str, AnyArray]:
    """Return the corrections that give the score, the trees' start and the corrected score, with the same bends.

    A bend is the greater of its floor and the log-odds above its knot.
    """
    if model.scorer is None:
        given = _Stage.of(model.opening, regressors)
    else:
        given = _Stage.of(model.scorer.correction, regressors).at(model.scorer.base)
    first = _Stage.of(None if model.boost is None else model.boost.first, regressors)
    stages = given, first, _Stage.of(model.correction, regressors)
    most = max(len(stage.knots) for stage in stages)
    weights = np.zeros((len(stages), 2 + most, len(regressors)))
    knots = np.full((len(stages), 2 + most), np.inf)
    for k, stage in enumerate(stages):
        weights[k, : len(stage.weights)] = stage.weights
        knots[k, 1 : len(stage.weights)] = [0.0, *stage.knots]
    return {"weights": weights, "knots": knots, "floors": np.array([1.0, -np.inf, *[0.0] * most])}


def _learners(model: FittedTable, regressors: _Regressors) -> dict[str, AnyArray]:
    """Return the features that contexts have, and learners that take these and the two scores as 2p - 1."""
    layout, pool = model.layout, model.mixture.pool
    places = np.concatenate([[0], layout.numeric, _side_by_side(layout.category, regressors.sizes)])
    values = np.concatenate([[0.5], layout.number_size * regressors.units, np.repeat(layout.sizes, regressors.sizes)])
    seen = np.flatnonzero(places >= 0)
    return {"seen": seen, "pool": np.hstack([pool[:, places[seen]] * values[seen], pool[:, 1:3] * layout.score_sizes])}


def _ladders(mixture: Mixture) -> dict[str, AnyArray]:
    """Return all forecasters' levels and learners in one line, and where each one's first, middle and last are."""
    used = np.arange(mixture.z.shape[1]) < mixture.counts[:, None]
    last = np.cumsum(mixture.counts) - 1
    first = last + 1 - mixture.counts
    middle = first + (mixture.counts - 1) // 2
    return {"member": mixture.members[used], "z": mixture.z[used], "ends": np.array([first, middle, last])}


def _side_by_side(places: Any, sizes: Integers) -> Any:
    """Return the codes' places, column after column, without the room a column has no codes for."""
    parts = [row[:size] for row, size in zip(places, sizes, strict=True)]
    return np.concatenate([np.empty(0, np.int64), *parts])


# Export: a small file of arrays, and the script that predicts from it with numpy alone.

SCRIPT = "swapcal_predict.py"
"""Name of the copy of `swapcal.batch.standalone` in the folder of an exported file."""

VERSION = 3
"""Version of the file's layout; the script raises for others."""

SCORED = "none, or no probabilities", "those of the model it corrects"
UNSCORED = "some", "none: it was fitted without scores"
"""The scores given and expected, in the error messages."""

UPRIGHT = ("centre", "spread", "at_least", "at_most", "threshold", "turns", "knots", "floors", "ends")
"""Arrays that get a last axis, for the rows of a table."""


def export(
    path: "str | os.PathLike[str]",
    models: Sequence[FittedTable],
    *,
    classes: Sequence[Any] | None = None,
    outcomes: tuple[float, float] = (0.0, 1.0),
) -> Path:
    """Write models of one table, one for each of several classes, to `path`, and `swapcal_predict.py` beside it.

    The same models give the same bytes. The mean of the mixture is what the file predicts; the draws of modes "hash"
    and "sample" stay with swapcal.
    """
    columns, flats = export_arrays(models)
    parts = [_arrays(flat, len(columns) + k) for k, flat in enumerate(flats)]
    manifest = {
        "format": "swapcal-export",
        "version": VERSION,
        "made_by": f"swapcal {__version__}",
        "classes": None if classes is None else [_as_builtin(value) for value in classes],
        "low": outcomes[0],
        "span": outcomes[1] - outcomes[0],
        "range": [models[0].least, 1.0 - models[0].least],
        "scored": flats[0].scored,
        "scores": SCORED if flats[0].scored else UNSCORED,
        "names": columns.names,
        "numbers": columns.numbers,
        "finite": len(columns.finite),
        "texts": [_spelt(texts) for texts in columns.texts],
        "parts": [{name: f"{k}.{name}" for name in part} for k, part in enumerate(parts)],
    }
    arrays = {f"{k}.{name}": array for k, part in enumerate(parts) for name, array in part.items()}
    room = BytesIO()
    np.savez_compressed(room, manifest=np.array(json.dumps(manifest)), **arrays)  # type: ignore[arg-type]
    target = Path(path)
    source = Path(standalone.__file__).read_text(encoding="utf-8")
    with replacing(target) as file:
        file.write(room.getvalue())
    put_text(target.with_name(SCRIPT), source)
    return target


def _arrays(flat: ExportArrays, odds: int) -> dict[str, AnyArray]:
    """Return the arrays of the script; `odds` is the row of the scores' odds, if there are any."""
    arrays = flat.arrays | flat.splits.by_leaves() | {"odds": np.array([odds] if flat.scored else [], np.int64)}
    return {name: array[..., None] if name in UPRIGHT else array for name, array in arrays.items()}


def _spelt(texts: Texts) -> tuple[Any, dict[str, float], float]:
    keys = ("missing" if text is None else f"text {text}" for text in texts.numbers)
    return texts.name, dict(zip(keys, texts.numbers.values(), strict=True)), texts.other


def _as_builtin(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
