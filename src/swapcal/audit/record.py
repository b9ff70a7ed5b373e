"""Record: the additive state of an audit, how rows enter it and how parts are merged."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from typing import Any, Self

import numpy as np

from swapcal import archive
from swapcal.audit import file
from swapcal.audit.batch import Batch
from swapcal.audit.encode import Coordinate, Encoder
from swapcal.audit.levels import Levels
from swapcal.audit.reader import Reader
from swapcal.audit.sketch import Sketch
from swapcal.audit.spectrum import Spectrum
from swapcal.audit.tallies import Tally
from swapcal.audit.timeline import Timeline
from swapcal.kernels import tally as kernel
from swapcal.tables.table import Table, is_table


class Record:
    """Sums over rows: per level, per group, per time; a sketch of rows; and the settings that shaped them."""

    def __init__(
        self,
        p: Any,
        y: Any,
        X: Any = None,
        *,
        groups: Any = None,
        weights: Any = None,
        low: Any = None,
        high: Any = None,
        weight: Any = None,
        time: Any = None,
        names: Sequence[str] | None = None,
        levels: int | Sequence[float] | None = None,
        title: str = "Audit",
        seed: int = 0,
    ) -> None:
        batch = Batch.check(p, y, X, groups=groups, weights=weights, low=low, high=high, weight=weight, time=time)
        self._begin(batch, _named(names, batch.X.shape[1]), levels, title, seed)

    def _begin(
        self,
        batch: Batch,
        coordinates: tuple[Coordinate, ...],
        levels: int | Sequence[float] | None,
        title: str,
        seed: int,
        reader: Reader | None = None,
    ) -> None:
        if not len(batch):
            raise ValueError("an audit needs at least one row, got none")
        d = batch.X.shape[1]
        self.title, self.seed = title, seed
        self.coordinates = coordinates
        self.reader = reader
        self._tally = Tally(Levels.declare(levels), d)
        self._issued = Tally(Levels.declare(levels), d) if batch.pseudo is not None else None
        self._sketch, self._spectrum = Sketch(d), Spectrum()
        self._timeline = Timeline() if batch.time is not None else None
        self._group_columns = tuple(batch.groups)
        self._memory: dict[Any, Any] = {}
        self._absorb(batch)

    @classmethod
    def from_features(
        cls,
        p: Any,
        y: Any,
        features: Any,
        *,
        groups: Any = None,
        weights: Any = None,
        low: Any = None,
        high: Any = None,
        weight: Any = None,
        time: Any = None,
        names: Sequence[str] | None = None,
        levels: int | Sequence[float] | None = None,
        title: str = "Audit",
        seed: int = 0,
        like: "Record | None" = None,
    ) -> Self:
        """Audit over raw features: a table, a mapping of columns, or a matrix with `names`.

        Numbers are standardised, categories become indicators, and both are scaled into the context set
        (see `Encoder`); witnesses speak of the features in their own units. Categorical features are also examined as
        groups. `like` reuses another audit's encoding, which makes the two addable.

        Examples
        --------
        >>> from swapcal import Audit
        >>> audit = Audit.from_features([0.1, 0.9], [0, 1], {"age": [30, 50], "city": ["Rome", "Bari"]})
        >>> [c.name for c in audit.coordinates]
        ['constant', 'age', 'city = Bari', 'city = Rome']
        """
        table = Table(features if is_table(features) else _matrix(features, names))
        encoder = Encoder.learn(table, table.columns) if like is None else like.encoder
        merged = {name: table.raw(name) for name in encoder.categorical()}
        merged.update(_columns(groups))
        batch = Batch.check(
            p,
            y,
            encoder.encode(table),
            groups=merged,
            weights=weights,
            low=low,
            high=high,
            weight=weight,
            time=time,
            marks=encoder.marks(table),
        )
        self = cls.__new__(cls)
        reader = Reader("p", "y", tuple(table.columns), tuple(_columns(groups)), encoder=encoder)
        self._begin(batch, tuple(encoder.coordinates), levels, title, seed, reader)
        return self

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        prob: str,
        target: str,
        features: Sequence[str] = (),
        groups: Sequence[str] = (),
        weights: str | None = None,
        time: str | None = None,
        issued: tuple[str, str, str] | None = None,
        levels: int | Sequence[float] | None = None,
        title: str = "Audit",
        seed: int = 0,
        like: "Record | None" = None,
    ) -> Self:
        """Audit the named columns of a pandas, polars or pyarrow table, or of a duckdb relation.

        `issued` names the columns low, high and weight of the issued distribution. More tables with the same
        columns go in through `add`.

        Examples
        --------
        >>> from swapcal import Audit
        >>> frame = {"score": [0.1, 0.9], "bought": [0, 1], "age": [30, 50]}
        >>> audit = Audit.from_frame(frame, prob="score", target="bought", features=["age"])
        >>> audit.add(frame)
        >>> audit.n
        4.0
        """
        table = Table(frame)
        reader = Reader(prob, target, tuple(features), tuple(groups), weights, time, issued)
        reader = reader.learn(table) if like is None else reader.like(like.encoder)
        self = cls.__new__(cls)
        assert reader.encoder is not None
        self._begin(reader.read(table), tuple(reader.encoder.coordinates), levels, title, seed, reader)
        return self

    @property
    def encoder(self) -> Encoder:
        """The encoding of raw features; only audits made from features have one."""
        if self.reader is None or self.reader.encoder is None:
            raise ValueError("this audit was made from contexts, not from features: it has no encoding to share")
        return self.reader.encoder

    def add(self, batch: Any = None, /, **columns: Any) -> None:
        """Add rows: a table with the columns of `from_frame`, or arrays by name as in the constructor.

        A rejected batch leaves the audit as it was.

        Examples
        --------
        >>> from swapcal import Audit
        >>> audit = Audit([0.3], [0])
        >>> audit.add(p=[0.6], y=[1])
        >>> audit.n
        2.0
        """
        if batch is not None and not isinstance(batch, Batch):
            if self.reader is None:
                raise TypeError("this audit was made from arrays: add(p=…, y=…, X=…)")
            batch = self.reader.read(Table(batch))
        elif batch is None:
            batch = self._from_columns(columns)
        self._compatible(batch)
        if len(batch):
            self._absorb(batch)

    def _from_columns(self, columns: dict[str, Any]) -> Batch:
        if "features" in columns:
            table = Table(columns.pop("features"))
            columns |= {"X": self.encoder.encode(table), "marks": self.encoder.marks(table)}
            merged = {name: table.raw(name) for name in self.encoder.categorical()}
            merged.update(_columns(columns.get("groups")))
            columns["groups"] = merged
        return Batch.check(**columns)

    def _compatible(self, batch: Batch) -> None:
        d = self._tally.g.shape[1]
        if batch.X.shape[1] != d:
            raise ValueError(f"X must have {d} columns like the rows before, got {batch.X.shape[1]}")
        if set(batch.groups) != set(self._group_columns):
            expected, given = sorted(self._group_columns), sorted(batch.groups)
            raise ValueError(f"groups must be {expected} like the rows before, got {given}")
        if (batch.time is None) != (self._timeline is None):
            raise ValueError("time must be given for all rows or for none")
        if self._timeline is not None and self._timeline.dated != batch.dated and len(batch):
            raise ValueError("time must be dates for all rows or numbers for all rows")
        if (batch.pseudo is None) != (self._issued is None):
            raise ValueError("the issued distribution must be given for all rows or for none")

    def _absorb(self, batch: Batch) -> None:
        self._memory.clear()
        groups = {name: batch.groups[name] for name in self._group_columns}
        self._tally.add(batch.p, batch.y, batch.weights, batch.X, groups)
        self._sketch.add(batch)
        self._spectrum.add(batch.p, batch.y, batch.weights)
        if self._timeline is not None and batch.time is not None:
            self._timeline.add(batch.time, batch.dated, batch.p, batch.y, batch.weights)
        if self._issued is not None and batch.pseudo is not None:
            for level, share in (
                (batch.pseudo.low, 1.0 - batch.pseudo.weight),
                (batch.pseudo.high, batch.pseudo.weight),
            ):
                some = share > 0
                self._issued.add(level[some], batch.y[some], (share * batch.weights)[some], batch.X[some], {})

    def __add__(self, other: "Record") -> Self:
        """Return the audit of both sets of rows together."""
        if not isinstance(other, Record):
            return NotImplemented
        self._mergeable(other)
        whole = self.copy()
        whole._tally += other._tally
        whole._sketch.merge(other._sketch)
        whole._spectrum.merge(other._spectrum)
        if whole._timeline is not None and other._timeline is not None:
            whole._timeline.merge(other._timeline)
        if whole._issued is not None and other._issued is not None:
            whole._issued += other._issued
        return whole

    def _mergeable(self, other: "Record") -> None:
        if self.coordinates != other.coordinates:
            raise ValueError(
                "audits with different contexts cannot be added; make the second with like=, to share the encoding"
            )
        if self._tally.levels.edges != other._tally.levels.edges:
            raise ValueError("audits with different levels= cannot be added")
        if set(self._group_columns) != set(other._group_columns):
            mine, theirs = sorted(self._group_columns), sorted(other._group_columns)
            raise ValueError(f"audits over different groups cannot be added: {mine} and {theirs}")
        if (self._timeline is None, self._issued is None) != (other._timeline is None, other._issued is None):
            raise ValueError("audits cannot be added when only one has times or issued distributions")
        if self._timeline is not None and other._timeline is not None and self._timeline.dated != other._timeline.dated:
            raise ValueError("audits cannot be added when the times of one are dates and of the other numbers")

    def save(self, path: str | PathLike[str]) -> None:
        """Write the whole audit to one file, atomically; what is loaded adds up and reports as this one does.

        Examples
        --------
        >>> import tempfile
        >>> from swapcal import Audit
        >>> shards = [Audit([0.3, 0.6], [0, 1], groups=["a", "b"]), Audit([0.3], [1], groups=["b"])]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     shards[0].save(f"{folder}/first.audit")
        ...     whole = Audit.load(f"{folder}/first.audit") + shards[1]
        >>> whole.n
        3.0
        """
        archive.write(path, file.FILE, *self._state())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return the audit saved at `path`; a damaged, inconsistent or foreign file raises `ArchiveError`."""
        arrays, settings = archive.read(path, file.FILE)
        self = cls.__new__(cls)
        self.title, self.seed = settings["title"], settings["seed"]
        self.coordinates = tuple(Coordinate(*one) for one in settings["coordinates"])
        self.reader = None if settings["reader"] is None else file.reader_of(settings["reader"])
        self._tally = file.tally_of(arrays, "tally", settings["levels"], settings["groups"])
        issued, timeline = settings["issued"], settings["timeline"]
        self._issued = None if issued is None else file.tally_of(arrays, "issued", issued, [])
        self._sketch, self._spectrum = file.sketch_of(arrays, settings), file.spectrum_of(arrays, settings)
        self._timeline = None if timeline is None else file.timeline_of(arrays, timeline)
        self._group_columns = tuple(self._tally.groups)
        self._memory = {}
        return self

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays = file.tally_state(self._tally, "tally") | file.sketch_state(self._sketch, self._tally.groups)
        arrays["spectrum.bins"] = self._spectrum.bins
        arrays |= {} if self._issued is None else file.tally_state(self._issued, "issued")
        times: tuple[dict[str, Any], Any] = ({}, None)
        if self._timeline is not None:
            times = file.timeline_state(self._timeline)
        return arrays | times[0], {
            "title": self.title,
            "seed": int(self.seed),
            "coordinates": [list(one) for one in self.coordinates],
            "reader": file.reader_state(self.reader),
            "groups": file.group_state(self._tally),
            "levels": asdict(self._tally.levels),
            "issued": None if self._issued is None else asdict(self._issued.levels),
            "complete": self._sketch.complete,
            "log_loss": self._spectrum.log_loss,
            "impossible": self._spectrum.impossible,
            "timeline": times[1],
        }

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._tally, twin._sketch = self._tally.copy(), self._sketch.copy()
        twin._spectrum = self._spectrum.copy()
        twin._timeline = None if self._timeline is None else self._timeline.copy()
        twin._issued = None if self._issued is None else self._issued.copy()
        twin._memory = {}
        return twin

    @property
    def n(self) -> float:
        """Total weight of the rows."""
        return float(self._tally.n.sum())

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self._tally.table[:, kernel.ROWS].sum())

    @property
    def levels(self) -> Levels:
        """The levelling rule in force."""
        return self._tally.levels


def _named(names: Sequence[str] | None, d: int) -> tuple[Coordinate, ...]:
    """Coordinates of contexts given as such: they are their own unit."""
    tail = [f"x{j}" for j in range(2, d + 1)] if names is None else list(names)
    if len(tail) == d:
        tail = tail[1:]
    if len(tail) != d - 1:
        raise ValueError(f"names must name the {d} coordinates of X, or all but the constant; got {len(tail)}")
    return (Coordinate("constant", 0.5, 0.0, None), *(Coordinate(name, 1.0, 0.0, None) for name in tail))


def _matrix(features: Any, names: Sequence[str] | None) -> dict[str, Any]:
    array = np.asarray(features)
    if array.ndim != 2:
        raise ValueError(f"features must be a table or a (rows, columns) matrix, got shape {array.shape}")
    found = [f"feature {j}" for j in range(array.shape[1])] if names is None else list(names)
    if len(found) != array.shape[1]:
        raise ValueError(f"names must name the {array.shape[1]} features, got {len(found)}")
    return dict(zip(found, array.T, strict=True))


def _columns(groups: Any) -> dict[str, Any]:
    """Group columns by name, whatever form they came in."""
    if groups is None:
        return {}
    if isinstance(groups, Mapping):
        return dict(groups)
    if is_table(groups):
        table = Table(groups)
        return {name: table.raw(name) for name in table.columns}
    return {"group": groups}
