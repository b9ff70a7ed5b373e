"""Where columns go in x and with which weight: the shares of the room beside x_1 = ½."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.features.column import MISSING, NOWHERE, SHARED, Column
from swapcal.features.product import Product
from swapcal.kernels.encode import CATEGORICAL, NUMERIC

ROOM = 0.75  # squared norm left beside x_1 = ½
FEATURE_WEIGHT = 0.4  # of all raw features together, relative to a score of weight 1
GROUP_WEIGHT = 0.3  # of all declared groups together, beside the other features
WAVES_PER_COLUMN = 8


class Layout(NamedTuple):
    """What the kernels need to know of the columns, as arrays."""

    kinds: Integers
    salts: Keys
    absent: Keys
    """the symbols of missing values"""
    value_at: Integers
    weights: Array
    scores: list[int]
    """positions of the declared scores among the columns"""
    factors: Integers
    share: float
    """weight of a product"""
    shares: Array
    """weight of each column's categories"""
    frequency: Array
    phase: Array
    wave_scale: float
    first: int
    budget: float


def score_weight(settings: Mapping[str, Any]) -> float:
    """Return the weight of a declared score: that of the lightest reserved one, or 1 if it stands alone."""
    return min(settings["reserved"].values(), default=1.0)


def unit(settings: Mapping[str, Any]) -> float:
    """Return what a score of weight 1 is multiplied with, so that scores and features fill the room at most."""
    squares = sum(weight**2 for weight in settings["reserved"].values())
    squares += len(settings["scores"]) * score_weight(settings) ** 2
    return math.sqrt(ROOM / (squares + feature_squares(settings)))


def feature_squares(settings: Mapping[str, Any]) -> float:
    """Return the squared weight of all raw features together."""
    return FEATURE_WEIGHT**2 + (GROUP_WEIGHT**2 if settings["groups"] else 0.0)


def features_norm(settings: Mapping[str, Any]) -> float:
    """Return the most that all raw features of a context have together."""
    return unit(settings) * math.sqrt(feature_squares(settings))


def spread_over(settings: Mapping[str, Any], columns: Sequence[Column]) -> float:
    """Return the root of the number of columns, products and packs of waves that share the features' weight."""
    features = sum(not column.is_score and column.name not in settings["groups"] for column in columns)
    features += len(settings["products"]) + math.ceil(settings["fourier"] / WAVES_PER_COLUMN)
    return math.sqrt(max(features, 1))


def lay_out(settings: Mapping[str, Any], columns: dict[str, Column], products: list[Product], spread: float) -> Layout:
    """Return the arrays for the columns as they are now."""
    one = unit(settings)
    share = one * FEATURE_WEIGHT / spread if spread else 0.0
    order = {name: j for j, name in enumerate(columns)}
    heavy = one * score_weight(settings)
    counted = one * GROUP_WEIGHT / math.sqrt(max(len(settings["groups"]), 1))
    return Layout(
        np.array([c.kind for c in columns.values()], dtype=np.int64),
        np.array([c.salt for c in columns.values()], dtype=np.uint64),
        np.array([c.keys[MISSING] for c in columns.values()], dtype=np.uint64),
        np.array([NOWHERE if c.kind == CATEGORICAL else c.at[SHARED] for c in columns.values()], dtype=np.int64),
        np.array([heavy if c.is_score else share for c in columns.values()], dtype=np.float64),
        [order[name] for name in settings["scores"] if name in order],
        np.array([product.factors(order) for product in products], dtype=np.int64).reshape(-1, 2),
        share,
        np.array([counted if name in settings["groups"] else share for name in columns], dtype=np.float64),
        frequencies(settings, list(columns.values())),
        np.random.default_rng(settings["seed"]).uniform(0.0, 2.0 * np.pi, settings["fourier"]),
        share / math.sqrt(WAVES_PER_COLUMN),
        1 + len(settings["reserved"]) + len(settings["scores"]),
        features_norm(settings) ** 2,
    )


def frequencies(settings: Mapping[str, Any], columns: list[Column]) -> Array:
    """Return each column's wave frequencies: a function of seed and name, so other columns cannot change them."""
    found = np.zeros((len(columns), settings["fourier"]))
    for j, column in enumerate(columns):
        if column.kind == NUMERIC and settings["fourier"]:
            found[j] = np.random.default_rng([settings["seed"], column.salt]).normal(size=settings["fourier"])
    return found
