"""Reader: which columns of a table hold what, and how they become a batch."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from swapcal.arrays import Array
from swapcal.audit.batch import Batch, Pseudo, positive, probabilities, times
from swapcal.audit.encoder import Encoder
from swapcal.features.scales import Scales
from swapcal.tables.table import Table


@dataclass(frozen=True)
class Reader:
    """Names of the columns, and the encoding of the features once learned."""

    prob: str
    target: str
    features: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    weights: str | None = None
    time: str | None = None
    issued: tuple[str, str, str] | None = None
    encoder: Encoder | None = None

    @property
    def columns(self) -> list[str]:
        """Every column that is read, once."""
        extra = [name for name in (self.weights, self.time, *(self.issued or ())) if name is not None]
        return list(dict.fromkeys([self.prob, self.target, *self.features, *self.groups, *extra]))

    def learn(self, table: Table) -> "Reader":
        """Return a reader whose encoding is learned from this table."""
        self.check(table)
        return replace(self, encoder=Encoder.learn(table, self.features))

    def scaled(self, tables: Iterable[Table]) -> Encoder | None:
        """Return the encoding by the scales of all rows of several tables; None without a table."""
        scales: Scales | None = None
        for table in tables:
            self.check(table)
            found = Scales.of(table, self.features)
            if scales is None:
                scales = found
            else:
                scales.merge(found)
        return None if scales is None else Encoder.of(scales)

    def check(self, table: Table) -> None:
        """Refuse a table without the columns, and columns with two roles."""
        table.require(self.columns)
        self.check_roles()

    def check_roles(self) -> None:
        """Refuse a column that would be predicted, or judged, by itself."""
        for name in (self.prob, self.target):
            if name in (*self.features, *self.groups):
                raise ValueError(f"column {name!r}: given as a feature or group too, expected one role a column")
        if self.prob == self.target:
            raise ValueError(f"column {self.prob!r}: given as prediction and as outcome, expected two columns")

    def like(self, encoder: Encoder) -> "Reader":
        """Return a reader with a given encoding, which must be of the same features."""
        names = tuple(column.name for column in encoder.columns)
        if names != self.features:
            raise ValueError(f"features: given {list(self.features)}, expected {list(names)} as in the shared encoding")
        return replace(self, encoder=encoder)

    def read(self, table: Table) -> Batch:
        """Return the rows of a table as a checked batch."""
        assert self.encoder is not None
        table.require(self.columns)
        rows = len(table)
        when, dated = times(None if self.time is None else table.raw(self.time), rows)
        weights = None if self.weights is None else table.numbers(self.weights)
        return Batch(
            p=self._probabilities(table, self.prob),
            y=self._probabilities(table, self.target),
            X=self.encoder.encode(table),
            weights=positive(f"column {self.weights!r}", weights, rows),
            groups={name: table.categories(name) for name in self.group_columns},
            time=when,
            dated=dated,
            pseudo=None if self.issued is None else Pseudo(*(self._probabilities(table, c) for c in self.issued)),
            marks=self.encoder.marks(table),
        )

    @property
    def group_columns(self) -> list[str]:
        """Columns examined as groups: those named, and the categorical features."""
        assert self.encoder is not None
        return list(dict.fromkeys([*self.encoder.categorical(), *self.groups]))

    @staticmethod
    def _probabilities(table: Table, name: str) -> Array:
        return probabilities(f"column {name!r}", table.numbers(name))
