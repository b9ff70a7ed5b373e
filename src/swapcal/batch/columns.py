"""Columns: what exported models read of a table, as rows of one matrix of numbers, the same for all classes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from swapcal.features.category import Category
from swapcal.features.frozen import Frozen
from swapcal.features.rated import Rated
from swapcal.features.source import Name
from swapcal.tables.values import unquoted


class Texts(NamedTuple):
    """A column of texts and the number of each, None being a missing one; `other` is the number of all the rest."""

    name: Name
    numbers: dict[str | None, float]
    other: float

    @classmethod
    def of(cls, column: Rated | Category) -> "Texts":
        """Return offsets or codes, in an order that does not hang on the process."""
        if isinstance(column, Rated):
            return cls(column.name, {unquoted(text): column.offsets[text] for text in sorted(column.offsets)}, 0.0)
        codes = column.code_of()
        return cls(column.name, {unquoted(text): codes[text] for text in sorted(codes)}, column.other)


@dataclass(frozen=True)
class Columns:
    """Rows of the matrix: numbers, then numbers that are only categories, then texts as their numbers."""

    finite: list[Name]
    """Numbers, of which infinite ones are refused."""
    categories: list[Name]
    texts: list[Texts]

    @classmethod
    def of(cls, encoders: Sequence[Frozen]) -> "Columns":
        """Return what any of the encoders reads, each column once."""
        finite = _once(number.name for one in encoders for number in one.numbers)
        numbered = _once(category.name for one in encoders for category in one.categories if not category.texts)
        texts: list[Texts] = []
        for one in encoders:
            columns: list[Rated | Category] = [*one.rated, *one.categories]
            found = [Texts.of(column) for column in columns if _is_of_texts(column)]
            texts += [column for column in found if column not in texts]
        return cls(finite, [name for name in numbered if name not in finite], texts)

    @property
    def numbers(self) -> list[Name]:
        """Names of the columns of numbers."""
        return [*self.finite, *self.categories]

    @property
    def names(self) -> list[Name]:
        """Names of all columns."""
        return _once([*self.numbers, *(column.name for column in self.texts)])

    def row(self, column: Rated | Category) -> int:
        """Return where texts or a category's numbers are."""
        if _is_of_texts(column):
            return len(self.numbers) + self.texts.index(Texts.of(column))
        return self.numbers.index(column.name)

    def __len__(self) -> int:
        return len(self.numbers) + len(self.texts)


def _is_of_texts(column: Rated | Category) -> bool:
    return isinstance(column, Rated) or bool(column.texts)


def _once(names: Iterable[Name]) -> list[Name]:
    return list(dict.fromkeys(names))
