"""One column of the records, products of two, and the coordinates of columns in x."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.encode import CATEGORICAL, LOGIT, NUMERIC, PROBABILITY
from swapcal.tables.frame import Values
from swapcal.tables.values import FEATURE_CATEGORIES, Categories, from_array, text_key, text_of

# One column of the records: its kind, its values so far, their coordinates in x.

MISSING, SHARED = 0, 1  # codes: a missing value; a number's own value, or the bucket of all other categories
NOWHERE, UNSEEN = -1, -2
VOCABULARY = 1 << 16  # values remembered per column; later ones are "other"
UNDECIDED = -1
LARGEST = 1e100  # of a number: the squares of any stream's numbers have a finite sum

KINDS = {"numeric": NUMERIC, "categorical": CATEGORICAL, "probability": PROBABILITY, "logit": LOGIT}
NAMES = {code: name for name, code in KINDS.items()} | {UNDECIDED: "undecided"}


@dataclass
class Column:
    """A named column. `codes` number its categories, `keys` and `at` give each code's key and coordinate."""

    name: str
    kind: int = UNDECIDED
    own: int = FEATURE_CATEGORIES
    """Categories that get their own coordinate; the others share one."""
    codes: dict[str, int] = field(default_factory=dict)
    keys: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=lambda: [UNSEEN, UNSEEN])

    def __post_init__(self) -> None:
        self.salt = text_key(self.name)
        if not self.keys:
            self.keys = [text_key(self.name, "missing"), text_key(self.name, "other")]

    @property
    def is_score(self) -> bool:
        """Whether the column is a score: a forecast of another model."""
        return self.kind in (PROBABILITY, LOGIT)

    @property
    def was_present(self) -> bool:
        """Whether any value so far was not missing."""
        return bool(self.codes) or self.at[SHARED] != UNSEEN

    def checked(self, values: Values) -> tuple[int, Values]:
        """Return (kind, values converted to it) without changing anything; raises TypeError or ValueError."""
        if isinstance(values, Categories):
            present = next((v for v in values.values if v is not None), None)
            if present is None:
                return self.kind, np.full(len(values), np.nan)
            if self.kind not in (UNDECIDED, CATEGORICAL):
                raise TypeError(f"column {self.name!r}: given {present!r}, expected a number ({NAMES[self.kind]})")
            return CATEGORICAL, values
        self._check_numbers(values)
        if self.kind == CATEGORICAL:
            return CATEGORICAL, from_array(values)
        if self.kind == UNDECIDED and not np.isnan(values).all():
            return NUMERIC, values
        return self.kind, values

    def _check_numbers(self, values: Array) -> None:
        bad = np.flatnonzero(np.abs(values) > LARGEST)
        if bad.size:
            given = f"given {values[bad[0]]} in row {bad[0] + 1}"
            raise ValueError(f"column {self.name!r}: {given}, expected a finite number, at most {LARGEST:g}")
        if self.kind == PROBABILITY:
            bad = np.flatnonzero((values < 0.0) | (values > 1.0))
            if bad.size:
                given = f"given {values[bad[0]]} in row {bad[0] + 1}"
                raise ValueError(f"score {self.name!r}: {given}, expected a probability in [0, 1]")

    def codes_of(self, values: Values, learn: bool) -> tuple[Integers, list[int]]:
        """Return (each row's code, the codes present), adding new categories in order of appearance."""
        if isinstance(values, Categories):
            return self._category_codes(values, learn)
        missing = np.isnan(values)
        if not missing.any():
            return np.full(len(values), SHARED), [SHARED] if len(values) else []
        codes = np.where(missing, MISSING, SHARED)
        return codes, [MISSING] if missing.all() else [MISSING, SHARED]

    def _category_codes(self, values: Categories, learn: bool) -> tuple[Integers, list[int]]:
        if len(values) == 1:
            code = self.code_of(values.values[values.codes[0]], learn)
            return np.array([code]), [code]
        first = np.full(len(values.values), len(values))
        np.minimum.at(first, values.codes, np.arange(len(values)))
        present = [int(place) for place in np.argsort(first, kind="stable") if first[place] < len(values)]
        table = np.zeros(len(values.values), dtype=np.int64)
        for position in present:
            table[position] = self.code_of(values.values[position], learn)
        return table[values.codes], sorted(set(table[present].tolist()))

    def code_of(self, value: Any, learn: bool = True) -> int:
        """Return a category's code; a new category gets one while the vocabulary has room."""
        if value is None:
            return MISSING
        text = text_of(value)
        code = self.codes.get(text)
        if code is None:
            if not learn or len(self.codes) >= VOCABULARY:
                return SHARED
            code = self.codes[text] = len(self.codes) + 2
            self.keys.append(self.key_of(text))
            self.at.append(UNSEEN)
        return code

    def key_of(self, text: str) -> int:
        """Return the key of a category, also of one that the vocabulary has no room for."""
        return text_key(self.name, "is", text)

    def locate(self, code: int, allocate: Callable[[str], int]) -> None:
        """Assign a coordinate to a code: a new one if one is left for the column, else the shared one."""
        if self.kind == CATEGORICAL and code > self.own + 1:
            if self.at[SHARED] == UNSEEN:
                self.locate(SHARED, allocate)
            self.at[code] = self.at[SHARED]
            return
        place = allocate(self.label(code))
        if place == NOWHERE and code > SHARED:
            place = max(self.at[SHARED], NOWHERE)
        self.at[code] = place

    def label(self, code: int) -> str:
        """Return the name of a code."""
        if code == MISSING:
            return f"{self.name} is missing"
        if self.kind != CATEGORICAL:
            return self.name
        if code == SHARED:
            return f"{self.name} is something else"
        return f"{self.name} = {next(text for text, known in self.codes.items() if known == code)}"

    def manifest(self) -> dict[str, Any]:
        """Return the column as JSON-able values."""
        return {
            "name": self.name,
            "kind": NAMES[self.kind],
            "own": self.own,
            "codes": list(self.codes),
            "at": self.at,
        }

    @classmethod
    def from_manifest(cls, entry: dict[str, Any]) -> "Column":
        """Rebuild a column; the inverse of `manifest`."""
        kind = KINDS.get(entry["kind"], UNDECIDED)
        column = cls(entry["name"], kind, int(entry["own"]))
        for text in entry["codes"]:
            column.code_of(text)
        column.at = [int(place) for place in entry["at"]]
        return column


# Declared products of two columns: group × group, group × score, number × number.

SHIFT = 1 << 20  # more than the codes a column can have


@dataclass
class Product:
    """The product of two columns, with one coordinate per combination of their categories."""

    left: Column
    right: Column
    column: Column

    @classmethod
    def of(cls, left: Column, right: Column, own: int) -> "Product":
        """Declare the product; its kind is known when both factors' kinds are."""
        return cls(left, right, Column(f"{left.name} × {right.name}", UNDECIDED, own))

    def codes_of(self, left: Integers, right: Integers, learn: bool) -> tuple[Integers, list[int]]:
        """Return (each row's code, the codes present); a row with a missing factor has code `NOWHERE`."""
        codes = np.full(len(left), NOWHERE, dtype=np.int64)
        rows = np.flatnonzero((left != MISSING) & (right != MISSING))
        if rows.size == 0:
            return codes, []
        if self.column.kind == UNDECIDED:
            self.column.kind = CATEGORICAL if self._categorical() else NUMERIC
        if self.column.kind == NUMERIC:
            codes[rows] = SHARED
            return codes, [SHARED]
        pairs, first, inverse = np.unique(left[rows] * SHIFT + right[rows], return_index=True, return_inverse=True)
        table = np.zeros(len(pairs), dtype=np.int64)
        for position in np.argsort(first):
            table[position] = self.column.code_of(self._words(int(pairs[position])), learn)
        codes[rows] = table[inverse]
        return codes, sorted(set(table.tolist()))

    def factors(self, order: dict[str, int]) -> list[int]:
        """Return the numeric factors' column numbers, `NOWHERE` for a categorical one."""
        return [NOWHERE if side.kind == CATEGORICAL else order[side.name] for side in (self.left, self.right)]

    def _categorical(self) -> bool:
        return CATEGORICAL in (self.left.kind, self.right.kind)

    def _words(self, pair: int) -> str:
        sides = zip((self.left, self.right), divmod(pair, SHIFT), strict=True)
        return " & ".join(side.label(code) for side, code in sides if side.kind == CATEGORICAL)


# Coordinates and weights of columns in x: the shares of the squared norm beside x_1 = ½.

ROOM = 0.75  # squared norm left beside x_1 = ½
FEATURE_WEIGHT = 0.4  # of all raw features together, relative to a score of weight 1
GROUP_WEIGHT = 0.3  # of all declared groups together, beside the other features
WAVES_PER_COLUMN = 8


class Layout(NamedTuple):
    """The columns as arrays for the kernels."""

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
    """Return the weight of a declared score: that of the lightest reserved one, or 1 without reserved ones."""
    return min(settings["reserved"].values(), default=1.0)


def unit(settings: Mapping[str, Any]) -> float:
    """Return the factor of a score of weight 1, with which scores and features have squared norm at most ¾."""
    squares = sum(weight**2 for weight in settings["reserved"].values())
    squares += len(settings["scores"]) * score_weight(settings) ** 2
    return math.sqrt(ROOM / (squares + feature_squares(settings)))


def feature_squares(settings: Mapping[str, Any]) -> float:
    """Return the squared weight of all raw features together."""
    return FEATURE_WEIGHT**2 + (GROUP_WEIGHT**2 if settings["groups"] else 0.0)


def features_norm(settings: Mapping[str, Any]) -> float:
    """Return the largest norm of all raw features of a context together."""
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
    group_share = one * GROUP_WEIGHT / math.sqrt(max(len(settings["groups"]), 1))
    return Layout(
        np.array([c.kind for c in columns.values()], dtype=np.int64),
        np.array([c.salt for c in columns.values()], dtype=np.uint64),
        np.array([c.keys[MISSING] for c in columns.values()], dtype=np.uint64),
        np.array([NOWHERE if c.kind == CATEGORICAL else c.at[SHARED] for c in columns.values()], dtype=np.int64),
        np.array([heavy if c.is_score else share for c in columns.values()], dtype=np.float64),
        [order[name] for name in settings["scores"] if name in order],
        np.array([product.factors(order) for product in products], dtype=np.int64).reshape(-1, 2),
        share,
        np.array([group_share if name in settings["groups"] else share for name in columns], dtype=np.float64),
        frequencies(settings, list(columns.values())),
        np.random.default_rng(settings["seed"]).uniform(0.0, 2.0 * np.pi, settings["fourier"]),
        share / math.sqrt(WAVES_PER_COLUMN),
        1 + len(settings["reserved"]) + len(settings["scores"]),
        features_norm(settings) ** 2,
    )


def frequencies(settings: Mapping[str, Any], columns: list[Column]) -> Array:
    """Return each column's wave frequencies: a function of seed and name, so other columns cannot change them."""
    waves = np.zeros((len(columns), settings["fourier"]))
    for j, column in enumerate(columns):
        if column.kind == NUMERIC and settings["fourier"]:
            waves[j] = np.random.default_rng([settings["seed"], column.salt]).normal(size=settings["fourier"])
    return waves


# `Encoded`: records as input of the experts and the engine.


@dataclass(eq=False)
class Encoded:
    """n encoded rows. `dims` is the number of coordinates at each row; later ones are 0 there."""

    x: Array
    dims: Integers
    keys: Keys
    values: Array
    scores: Array
    """(n, number of declared scores) the scores as probabilities, NaN where missing."""
    marks: Keys
    """(n,) a hash of each record's values as given; see `swapcal.kernels.draw.row_marks`"""
    groups: Keys | None = None
    """(n, number of `Contexts.hashed`) a key for each row's value of these, 0 if missing; None without such columns"""

    def __len__(self) -> int:
        return len(self.dims)


def probabilities(given: Array, layout: Layout) -> Array:
    """Return the declared scores among all columns' numbers (n, K), those that are logits as probabilities."""
    if not layout.scores:
        return np.zeros((len(given), 0))
    numbers, logit = given[:, layout.scores], layout.kinds[layout.scores] == LOGIT
    if not logit.any():
        return np.ascontiguousarray(numbers)
    with np.errstate(over="ignore"):  # the exponential of a very unlikely score is infinite, and its probability 0
        return np.where(logit[None, :], 1.0 / (1.0 + np.exp(-np.where(logit[None, :], numbers, 0.0))), numbers)


# `Gaps`: how often the declared scores and groups are missing.

BLOCK = 128  # records that are counted together; the latest ones are those of the last whole block and the present one
JUMP = 0.2
"""A share of missing values has jumped if it is so much higher in the latest records than in those before."""
FEWEST = 20  # records on either side before anything is compared


class Gaps:
    """How many values of some columns were missing: in all records, in the last whole block, and in the present one.

    The counts are integers, so that many records at once count as one by one.

    Examples
    --------
    >>> gaps = Gaps(["score"])
    >>> gaps.enter(300, {"score": np.arange(260, 300)})
    >>> gaps.missing(), [round(share, 2) for share in gaps.jumps()["score"]]
    ({'score': 40}, [0.0, 0.23])
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.rows = 0
        self.counts = {name: [0, 0, 0] for name in names}
        """of each column: in all records, in the last whole block, in the present one"""

    def enter_one(self, names: Sequence[str]) -> None:
        """Count one record, in which these columns are missing."""
        for name in names:
            counts = self.counts.get(name)
            if counts is not None:
                counts[0] += 1
                counts[2] += 1
        self.rows += 1
        if self.rows % BLOCK == 0:
            self._turn(1)

    def enter(self, n: int, missing: Mapping[str, Integers]) -> None:
        """Count n records; `missing` are the row numbers at which each column is missing."""
        before, now = self.rows // BLOCK, (self.rows + n) // BLOCK
        blocks = {name: (self.rows + rows) // BLOCK for name, rows in missing.items()}
        for name, block in blocks.items():
            self.counts[name][0] += len(block)
            self.counts[name][2] += int(np.sum(block == before))
        self.rows += n
        if now > before:
            self._turn(now - before)
            for name, block in blocks.items():
                self.counts[name][1] += int(np.sum((block == now - 1) & (block > before)))
                self.counts[name][2] = int(np.sum(block == now))

    def _turn(self, blocks: int) -> None:
        for counts in self.counts.values():
            counts[1:] = counts[2] if blocks == 1 else 0, 0

    def missing(self) -> dict[str, int]:
        """Return how many values of each column were missing in all records."""
        return {name: total for name, (total, _, _) in self.counts.items()}

    def jumps(self) -> dict[str, tuple[float, float]]:
        """Return the columns whose share of missing values has jumped: the shares before, and in the latest records.

        A plain threshold of 20 points, not a test: it has no false-alarm rate.
        """
        latest = self.rows % BLOCK + min(self.rows // BLOCK, 1) * BLOCK
        earlier = self.rows - latest
        if min(latest, earlier) < FEWEST:
            return {}
        shares = {
            name: ((total - last - now) / earlier, (last + now) / latest)
            for name, (total, last, now) in self.counts.items()
        }
        return {name: pair for name, pair in shares.items() if pair[1] > pair[0] + JUMP}

    def sentences(self) -> list[str]:
        """Return the jumps in words."""
        return [
            f"{name!r} is missing in {100 * now:.0f} % of the latest records, {100 * before:.1f} % before: "
            "check where it comes from (a plain threshold of 20 points)."
            for name, (before, now) in self.jumps().items()
        ]

    def manifest(self) -> dict[str, Any]:
        """Return the counts as JSON-able values."""
        return {"rows": self.rows, "counts": [[name, *counts] for name, counts in self.counts.items()]}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Set the counts that `manifest` returned."""
        self.rows = saved["rows"]
        self.counts |= {name: counts for name, *counts in saved["counts"] if name in self.counts}
