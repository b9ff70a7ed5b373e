"""One column of the records: what kind it is, which values it has shown, where they live in x."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.kernels.encode import CATEGORICAL, LOGIT, NUMERIC, PROBABILITY
from swapcal.tables.categories import FEATURE_CATEGORIES, Categories, from_array
from swapcal.tables.columns import Values
from swapcal.tables.values import text_key, text_of

MISSING, SHARED = 0, 1  # codes: a missing value; a number's own value, or the bucket of all other categories
NOWHERE, UNSEEN = -1, -2
VOCABULARY = 1 << 16  # values remembered per column; later ones are "other"
UNDECIDED = -1
LARGEST = 1e100  # of a number: the squares of all that a stream can bring still have a sum

KINDS = {"numeric": NUMERIC, "categorical": CATEGORICAL, "probability": PROBABILITY, "logit": LOGIT}
NAMES = {code: name for name, code in KINDS.items()} | {UNDECIDED: "undecided"}


@dataclass
class Column:
    """A named column. `codes` number its categories, `keys` and `at` give each code's key and coordinate."""

    name: str
    kind: int = UNDECIDED
    own: int = FEATURE_CATEGORIES
    """Categories that get a coordinate of their own; the rest share one."""
    codes: dict[str, int] = field(default_factory=dict)
    keys: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=lambda: [UNSEEN, UNSEEN])

    def __post_init__(self) -> None:
        self.salt = text_key(self.name)
        if not self.keys:
            self.keys = [text_key(self.name, "missing"), text_key(self.name, "other")]

    @property
    def is_score(self) -> bool:
        """Whether the column is somebody's forecast."""
        return self.kind in (PROBABILITY, LOGIT)

    def checked(self, values: Values) -> tuple[int, Values]:
        """Return (kind, values as that kind needs them) without changing anything, or refuse them."""
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
        """Return (each row's code, the codes present), learning new categories in order of appearance."""
        if isinstance(values, Categories):
            return self._category_codes(values, learn)
        missing = np.isnan(values)
        if not missing.any():
            return np.full(len(values), SHARED), [SHARED]
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
        """Return a category's code; a new category is remembered while there is room."""
        if value is None:
            return MISSING
        text = text_of(value)
        code = self.codes.get(text)
        if code is None:
            if not learn or len(self.codes) >= VOCABULARY:
                return SHARED
            code = self.codes[text] = len(self.codes) + 2
            self.keys.append(text_key(self.name, "is", text))
            self.at.append(UNSEEN)
        return code

    def locate(self, code: int, allocate: Callable[[str], int]) -> None:
        """Give a code its coordinate, asking for a new one if it is entitled to it."""
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
        """Return the code in the user's words."""
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
