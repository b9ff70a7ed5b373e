"""Category: a column as codes of the texts, numbers or bins it had when it was learned."""

from dataclasses import dataclass, field

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.features.source import Name, Source, is_numeric, numbers_of
from swapcal.tables.table import Table
from swapcal.tables.values import group_name

BINS = 8
"""Parts of equal mass into which a numeric group with many values is cut."""
MANY_VALUES = 16
FEW_ROWS = 256
"""Up to so many, looking texts up one by one is faster than finding the distinct ones first."""


@dataclass(frozen=True)
class Category:
    """A column of categories: known texts, known numbers, or edges of bins; `other` is the code of all the rest."""

    name: Name
    is_group: bool
    texts: list[str] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    other: int = -1

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.texts) + len(self.numbers) + (len(self.edges) + 1 if self.edges else 0) + (self.other >= 0)

    def codes(self, source: Source) -> Integers:
        """Return every row's code."""
        if self.edges or self.numbers:
            return self.codes_of(numbers_of(source, self.name))
        assert isinstance(source, Table)
        code_of = self.code_of()
        if len(source) <= FEW_ROWS:
            values = source.raw(str(self.name)).tolist()
            if all(isinstance(value, str) for value in values):
                return np.array([code_of.get(group_name(value), self.other) for value in values], np.int64)
        found = source.categories(str(self.name))
        table = np.array([code_of.get(text, self.other) for text in found.names], np.int64)
        return table[found.codes] if len(table) else np.zeros(0, np.int64)

    def codes_of(self, values: Array) -> Integers:
        """Return the codes of numbers."""
        if self.edges:
            return np.where(np.isnan(values), -1, np.searchsorted(self.edges, values)).astype(np.int64)
        known = np.array(self.numbers)
        place = np.minimum(np.searchsorted(known, values), len(known) - 1)
        return np.where(known[place] == values, place, self.other).astype(np.int64)

    def code_of(self) -> dict[str, int]:
        """Return the code of each text."""
        code_of = {text: code for code, text in enumerate(self.texts)}
        for text in code_of.keys() & {"True", "False"}:  # so were truth values spelt in files of earlier versions
            code_of.setdefault(text.lower(), code_of[text])
        return code_of

    def labels(self, other: str = "is something else") -> list[str]:
        """Return each code in the user's words."""
        if self.edges:
            parts = [f"≤ {edge:.6g}" for edge in self.edges] + [f"> {self.edges[-1]:.6g}"]
        else:
            parts = [f"= {value}" for value in [*self.texts, *(f"{n:.6g}" for n in self.numbers)]]
        return [f"{self.name} {part}" for part in parts + ([other] if self.other >= 0 else [])]


def learn_group(source: Source, name: Name, most: int, rare: int) -> Category:
    """Learn a column over whose values calibration matters: texts, few numbers, or many numbers in bins."""
    if not is_numeric(source, name):
        return learn_texts(source, name, most, rare, is_group=True)
    values = numbers_of(source, name)
    present = values[np.isfinite(values)]  # infinite numbers have no category, as when a model predicts
    distinct = np.unique(present)
    if len(distinct) <= MANY_VALUES:
        return Category(name, True, numbers=distinct.tolist())
    edges = np.unique(np.quantile(present, np.arange(1, BINS) / BINS))
    return Category(name, True, edges=edges.tolist())


def learn_texts(source: Source, name: Name, most: int, rare: int, is_group: bool = False) -> Category:
    """Learn the most frequent texts, at least one; those seen less than `rare` times are not worth a code."""
    assert isinstance(source, Table)
    found = source.categories(str(name))
    counts = np.bincount(found.codes, minlength=len(found.names))
    return most_frequent(name, found.names, counts, most, rare, is_group)


def most_frequent(
    name: Name, names: list[str], counts: Integers, most: int, rare: int, is_group: bool = False
) -> Category:
    """Return the category of a column's texts, given in alphabetical order with their counts."""
    ranked = np.argsort(-counts, kind="stable")[:most]
    kept = ranked[(counts[ranked] >= rare) | (np.arange(len(ranked)) == 0)]
    texts = [names[i] for i in sorted(kept)]
    return Category(name, is_group, texts=texts, other=len(texts) if len(texts) < len(names) else -1)
