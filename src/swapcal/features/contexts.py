"""`Contexts`: raw records to x with x_1 = ½ and ‖x‖ ≤ 1, learned from the stream, or frozen."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from swapcal._display import counted, display, named
from swapcal._locking import CopyableLock, Writable, locked
from swapcal._validate import UNIT, Span, in_row
from swapcal.archive import (
    ANY_TEXT,
    TEXTS,
    TRUTH,
    ArchiveError,
    Field,
    Rule,
    State,
    addition,
    check,
    counts,
    floats,
    is_distinct,
    is_text,
    keys,
    listed,
    one_of,
    parted,
    real,
    whole,
)
from swapcal.archive import NAMES as DISTINCT_TEXTS
from swapcal.arrays import AnyArray, Array, Integers, Keys
from swapcal.features.column import (
    KINDS,
    MISSING,
    NAMES,
    NOWHERE,
    SHARED,
    UNDECIDED,
    UNSEEN,
    VOCABULARY,
    Column,
    Encoded,
    Gaps,
    Layout,
    Product,
    lay_out,
    probabilities,
    spread_over,
    unit,
)
from swapcal.features.records import RecordPlan, RecordReader, ordinary_rows, plan_for
from swapcal.kernels.draw import GOLDEN, row_marks
from swapcal.kernels.encode import (
    BINS,
    CATEGORICAL,
    ENTRIES,
    LOGIT,
    NUMERIC,
    PROBABILITY,
    SAMPLE,
    Past,
    blank_past,
    encode_rows,
    place_rows,
)
from swapcal.tables.frame import Values, columns_of, nearest
from swapcal.tables.values import FEATURE_CATEGORIES, STREAM_GROUP_CATEGORIES, Categories, letters, text_of

FEW = 1024  # most records that are first looked up value by value, which fails if one has a new value
ORDERED = ("reserved", "scores")  # settings whose order is the order of coordinates; a JSON object may lose it


class Contexts(Writable):
    """Encode records as contexts x in X = {x : x_1 = ½, ‖x‖ ≤ 1}, using only earlier records.

    A number becomes its standard score (mean and spread of the past, winsorised, clipped at 3) divided by 3; a
    category one coordinate of its own, or a shared one once `categories` of them are taken; a missing value a
    coordinate of its own; a score p becomes 4/π·asin√p - 1. New columns and categories append coordinates and
    never renumber old ones. All raw features together have squared norm at most 0.16 of a score's weight 1, and all
    declared groups another 0.09. Every record has every declared column, with None where the value is missing.

    Parameters
    ----------
    groups : columns to treat as categories, whatever their type, with up to 64 coordinates each.
    scores : columns that are forecasts: names of probabilities, or {name: "probability" | "logit"}.
    products : pairs of column names; each pair adds the coordinates of its product.
    numeric, categorical : columns of this type; the type of others follows from their first value.
    drop : columns to ignore.
    categories : coordinates per categorical column.
    max_dim : largest number of coordinates; later values share one or have none.
    fourier : number of random Fourier features of the numeric columns.
    reserved : {name: weight} of coordinates that the caller fills with scores in [-1, 1].
    seed : of the Fourier features.

    Examples
    --------
    >>> contexts = Contexts(groups=["shop"])
    >>> x = contexts([{"shop": "a", "price": 3.0}, {"shop": "b", "price": 5.0}, {"shop": "a", "price": None}])
    >>> contexts.names
    ('constant', 'shop = a', 'price', 'shop = b', 'price is missing')
    >>> x.shape, float(x[0, 0]), bool((np.linalg.norm(x, axis=1) <= 1).all())
    ((3, 5), 0.5, True)
    """

    def __init__(
        self,
        *,
        groups: Iterable[str] = (),
        scores: "Iterable[str] | Mapping[str, str]" = (),
        products: Iterable[Sequence[str]] = (),
        numeric: Iterable[str] = (),
        categorical: Iterable[str] = (),
        drop: Iterable[str] = (),
        categories: int = FEATURE_CATEGORIES,
        max_dim: int = 160,
        fourier: int = 0,
        reserved: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        self.settings: dict[str, Any] = {
            "groups": _names("groups", groups),
            "scores": _score_kinds(scores),
            "products": [_pair(pair) for pair in products],
            "numeric": _names("numeric", numeric),
            "categorical": _names("categorical", categorical),
            "drop": _names("drop", drop),
            "categories": int(categories),
            "max_dim": int(max_dim),
            "fourier": int(fourier),
            "reserved": {str(name): float(weight) for name, weight in (reserved or {}).items()},
            "seed": int(seed),
        }
        self._check_roles()
        self.frozen = False
        self.lenient = False
        """whether records may lack declared columns, rename and retype others, as logs of earlier versions do"""
        self.hashed: list[tuple[str, ...]] = []
        """columns, or pairs of them crossed, whose values `Encoded.groups` names by keys, however many there are"""
        self.span = UNIT
        """range of the scores, except logits"""
        self.gaps = Gaps([*self.settings["scores"], *self.settings["groups"]])
        self._declared = frozenset(self._declared_names())
        self._lock = CopyableLock()
        self._columns: dict[str, Column] = {}
        self._products: list[Product] = []
        self._spread = 0.0  # √(columns seen in the first record); 0 before it
        self._past = blank_past(0)
        self._layout: Layout | None = None  # rebuilt for every new column or coordinate
        self._plan: RecordPlan | None = None  # rebuilt for every new column, or change of kind
        self._reader: RecordReader | None = None  # of the present layout, or of an earlier one
        self._ignored = frozenset(self.settings["drop"])
        self.reserved_weights = unit(self.settings) * np.array([*self.settings["reserved"].values()])
        """what each reserved score in [-1, 1] is multiplied with to become its coordinate"""
        self._lay_out_fixed()

    def __call__(self, records: Any) -> Array:
        """Encode records and learn from them; the rows of the result are contexts of `dim` coordinates."""
        return self.encode(records).x

    def transform(self, records: Any) -> Array:
        """Encode records without learning anything."""
        return self.encode(records, learn=False).x

    def freeze(self) -> "Contexts":
        """Stop learning: the map from records to contexts is fixed from now on."""
        self.frozen = True
        return self

    @property
    def dim(self) -> int:
        """Number of coordinates so far."""
        return len(self._names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates."""
        return tuple(self._names)

    @property
    def columns(self) -> tuple[str, ...]:
        """The record columns seen so far, in order of appearance."""
        return tuple(self._columns)

    @property
    def categorical(self) -> tuple[str, ...]:
        """The columns treated as categories."""
        return tuple(name for name, column in self._columns.items() if column.kind == CATEGORICAL)

    @property
    def entries(self) -> int:
        """Number of entries that a row has for the experts so far."""
        return ENTRIES * len(self._columns)

    def __repr__(self) -> str:
        roles = [f"{role} {named(self.settings[role])}" for role in ("groups", "scores") if self.settings[role]]
        roles += ["frozen"] if self.frozen else []
        sizes = f"{counted(len(self._columns), 'column')}, {counted(self.dim, 'coordinate')}"
        return f"Contexts({'; '.join([sizes, *roles])})"

    def _repr_html_(self) -> str:
        roles = {role: named(self.settings[role]) for role in ("groups", "scores") if self.settings[role]}
        facts = {"columns": named(self._columns, 12), "coordinates": self.dim, **roles}
        return display("Contexts", "fixed" if self.frozen else "learning from every record", facts)

    def read_scores_in(self, span: Span) -> None:
        """Read scores as forecasts of outcomes in a range, which are scaled to [0, 1]. A logit has no other range."""
        logits = [name for name, kind in self.settings["scores"].items() if kind == NAMES[LOGIT]]
        if logits and span != UNIT:
            raise ValueError(f"score {logits[0]!r}: given logits, expected forecasts of outcomes in {span}")
        self.span = span

    def was_present(self, column: str) -> bool:
        """Return whether any value of a column so far was not missing."""
        return self._columns[column].was_present

    def places(self, column: str) -> list[int]:
        """Return the coordinates that a column's values have, or had."""
        return sorted({place for place in self._columns[column].at if place >= 0})

    @locked
    def encode(self, records: Any, *, learn: bool = True) -> Encoded:
        """Encode a mapping, a list of mappings or a data frame; see `Encoded`.

        All values are checked before anything is learned: if it raises, nothing has changed. Calls of several threads
        run one after the other.
        """
        learn = learn and not self.frozen
        encoded = self._encode_ordinary(records) if learn else None
        if encoded is not None:
            return encoded
        self._require_in_each(records)
        pieces = [self._encode_piece(given, n, learn) for given, n in self._pieces(records, learn)]
        return pieces[0] if len(pieces) == 1 else _joined(pieces)

    @locked
    def encode_alone(self, record: Mapping[str, Any]) -> Encoded | None:
        """Encode one ordinary record and learn from it: as `encode`, faster, and without a mark.

        The row is valid until the next call, so the contexts of a `Live` are not for others to call this: it keeps the
        row of its last forecast there. Returns None, and learns nothing, if the record needs `encode`.
        """
        if (
            type(record) is not dict
            or self.frozen
            or not self._columns
            or self._layout is None
            or not self._is_simple()
        ):
            return None
        if self._reader is None or self._reader.layout is not self._layout:
            self._reader = RecordReader(self._columns, self._reading(), self._layout, self.dim, self.gaps)
        encoded = self._reader.encode(record, self._past, self._allocate)
        if encoded is not None and self.hashed:
            encoded.groups = self._hash_groups(self._keys_alone(record))
        return encoded

    @locked
    def check(self, records: Any) -> None:
        """Raise what `encode` would raise for the same records, and change nothing."""
        is_ordinary = isinstance(records, dict) and (not self.settings["scores"] or self.span == UNIT)
        if is_ordinary and ordinary_rows([records], self._reading()) is not None:
            return
        self._require_in_each(records)
        self._checked(*columns_of(records, self._ignored), not self.frozen)

    def _encode_ordinary(self, records: Any) -> Encoded | None:
        """Encode a few records without new values; None if they need the general path."""
        few = records if isinstance(records, list) else [records]
        n = len(few)
        if not 1 <= n <= FEW or not self._is_simple():
            return None
        parts = ordinary_rows(few, self._reading())
        if parts is None:
            return None
        encoded = self._place(*parts, np.zeros((n, 0), dtype=np.int64), np.array([self.dim] * n), True)
        encoded.groups = self._hash_groups(parts[1]) if self.hashed else None
        return encoded

    def _is_simple(self) -> bool:
        """Return whether records are read without products and without scores to be scaled."""
        return not self._products and (not self.settings["scores"] or self.span == UNIT)

    def _reading(self) -> RecordPlan:
        if self._plan is None:
            self._plan = plan_for(self._columns, self._ignored, self._declared)
        return self._plan

    def _pieces(self, records: Any, learn: bool) -> Iterator[tuple[dict[str, Values], int]]:
        """Yield columns and numbers of rows of a list of mappings, cut where a new column appears.

        Earlier rows must not see it.
        """
        whole = columns_of(records, self._ignored)
        if not isinstance(records, list | tuple) or len(records) < 2:
            yield whole
            return
        known, cuts = set(self._columns), [0]
        for row, record in enumerate(records):
            if not known.issuperset(record):
                known.update(record)
                cuts.append(row)
        cuts = sorted(set(cuts))
        if len(cuts) == 1:
            yield whole
            return
        self._checked(*whole, learn)  # no piece is learned from if another raises
        for a, b in zip(cuts, [*cuts[1:], len(records)], strict=True):
            yield columns_of(records[a:b], self._ignored)

    def _encode_piece(self, given: dict[str, Values], n: int, learn: bool) -> Encoded:
        columns, checked = self._checked(given, n, learn)
        if learn and n:
            self._admit(columns, checked)
        return self._encode_checked(list(checked.values()), n, learn)

    def _require_in_each(self, records: Any) -> None:
        """Raise ValueError if a record of a list lacks or renames a declared column; frames are checked at once."""
        known = {*self._columns}
        for row, record in enumerate(records if isinstance(records, list | tuple) else ()):
            if not isinstance(record, Mapping) or self._declared <= record.keys() <= known:
                continue
            names = [letters(name) if isinstance(name, str) else str(name) for name in record]
            try:
                self._require(names, known)
            except ValueError as error:
                raise (in_row(row, error) if len(records) > 1 else error) from None
            known.update(names)

    def _require(self, given: Collection[str], known: Collection[str]) -> None:
        """Raise ValueError if a declared column is absent, or a known one has another spelling."""
        if self.lenient and self._columns:
            return
        for name in self._declared_names():
            if name not in given:
                unknown = [other for other in given if other not in known and other not in self._declared]
                has = f"the record has {', '.join(given) or 'none'}{nearest(name, unknown)}"
                raise ValueError(f"column {name!r}: declared but absent, expected in every record (as null); {has}")
        absent = {_spelling(name): name for name in known if name not in given}
        for name in given if absent else ():
            if name not in known and name not in self._ignored and _spelling(name) in absent:
                old = absent[_spelling(name)]
                raise ValueError(f"column {name!r}: given instead of {old!r}, expected the name that it had so far")

    def _checked(self, given: dict[str, Values], n: int, learn: bool) -> tuple[list[Column], dict[str, Any]]:
        """Validate every value and change nothing; return the new columns and all columns' (kind, values)."""
        if n:
            self._require(given.keys(), self._columns)
        new = [self._new_column(name) for name in given if name not in self._columns] if learn else []
        checked: dict[str, Any] = {}
        for column in [*self._columns.values(), *new]:
            values = given.get(column.name)
            checked[column.name] = self._typed(column, np.full(n, np.nan) if values is None else values)
        return new, checked

    def _typed(self, column: Column, values: Values) -> tuple[int, Values]:
        """Return a column's kind and values. Raises TypeError for numbers in a column that was text before."""
        if column.kind == PROBABILITY and self.span != UNIT and isinstance(values, np.ndarray):
            values = self.span.shares(f"score {column.name!r}", values)
        kind, converted = column.checked(values)
        inferred = column.kind == CATEGORICAL and column.name not in self._declared
        if inferred and not self.lenient and isinstance(values, np.ndarray) and not np.isnan(values).all():
            given = f"given the number {values[~np.isnan(values)][0]:g}"
            raise TypeError(f"column {column.name!r}: {given}, expected text as before, or the column as categorical")
        return kind, converted

    def _admit(self, new: list[Column], checked: dict[str, Any]) -> None:
        """Add new columns and the kinds of their values."""
        if new or any(self._columns[name].kind != kind for name, (kind, _) in checked.items()):
            self._layout = self._plan = None
        for column in new:
            self._columns[column.name] = column
        for name, (kind, _) in checked.items():
            self._columns[name].kind = kind
        self._past = _longer_past(self._past, len(self._columns))
        if self._spread == 0.0:
            self._open_budget()
        for index, name in enumerate(self.settings["scores"]):
            self._columns[name].at[SHARED] = 1 + len(self.settings["reserved"]) + index

    def _encode_checked(self, checked: list[tuple[int, Values]], n: int, learn: bool) -> Encoded:
        width = len(checked)
        numbers, symbols = np.full((n, width), np.nan), np.zeros((n, width), dtype=np.uint64)
        codes, unseen = np.zeros((n, width + len(self._products)), dtype=np.int64), []
        for j, (column, (_, values)) in enumerate(zip(self._columns.values(), checked, strict=True)):
            codes[:, j], present = column.codes_of(values, learn)
            symbols[:, j] = np.array(column.keys, dtype=np.uint64)[codes[:, j]]
            if isinstance(values, np.ndarray):
                numbers[:, j] = values
            unseen += _unseen(column, j, codes[:, j], present)
        for k, product in enumerate(self._products):
            left, right = (self._order(side) for side in (product.left, product.right))
            codes[:, width + k], present = product.codes_of(codes[:, left], codes[:, right], learn)
            unseen += _unseen(product.column, width + k, codes[:, width + k], present)
        dims = self._grow(unseen, n) if learn else np.full(n, self.dim)
        encoded = self._assemble(numbers, symbols, codes, dims, learn)
        if self.hashed:
            encoded.groups = self._hash_groups(self._all_keys(symbols, codes, checked))
        return encoded

    def _hash_groups(self, symbols: Keys) -> Keys:
        """Return the keys of the `hashed` columns and crossings; 0 for a crossing with a missing factor."""
        keys = np.zeros((len(symbols), len(self.hashed)), np.uint64)
        order = {name: j for j, name in enumerate(self._columns)}
        for k, names in enumerate(self.hashed):
            if not order.keys() >= {*names}:
                continue
            first, *further = (symbols[:, order[name]] for name in names)
            keys[:, k] = first
            for other in further:
                keys[:, k] = keys[:, k] * GOLDEN + other
            for name in names if further else ():
                keys[symbols[:, order[name]] == np.uint64(self._columns[name].keys[MISSING]), k] = 0
        return keys

    def _all_keys(self, symbols: Keys, codes: Integers, checked: list[tuple[int, Values]]) -> Keys:
        """Return symbols in which the values that the vocabularies had no room for have keys of their own."""
        all_keys = symbols.copy()
        hashed_names = {name for names in self.hashed for name in names}
        for j, (column, (_, values)) in enumerate(zip(self._columns.values(), checked, strict=True)):
            if column.name in hashed_names and isinstance(values, Categories):
                rows = np.flatnonzero(codes[:, j] == SHARED)
                places, row_places = np.unique(values.codes[rows], return_inverse=True)
                keys = [column.key_of(text_of(values.values[place])) for place in places.tolist()]
                all_keys[rows, j] = np.array(keys, np.uint64)[row_places]
        return all_keys

    def _keys_alone(self, record: Mapping[str, Any]) -> Keys:
        """Return the keys of the categories of an ordinary record."""
        keys = np.zeros((1, len(self._columns)), np.uint64)
        hashed_names = {name for names in self.hashed for name in names}
        for j, (name, column) in enumerate(self._columns.items()):
            if name in hashed_names:
                value = record.get(name)
                code = MISSING if value is None else column.codes.get(value)
                keys[0, j] = column.key_of(text_of(value)) if code is None else column.keys[code]
        return keys

    def _grow(self, unseen: list[tuple[int, int, int]], n: int) -> Integers:
        """Assign coordinates to new values in the order of single records; return each row's dim."""
        self._layout = None if unseen else self._layout
        added = np.zeros(n, dtype=np.int64)
        before = start = self.dim
        columns = [*self._columns.values(), *(product.column for product in self._products)]
        for row, index, code in sorted(unseen):
            if columns[index].at[code] == UNSEEN:
                columns[index].locate(code, self._allocate)
            added[row] += self.dim - before
            before = self.dim
        return start + np.cumsum(added)

    def _allocate(self, name: str) -> int:
        if self.dim >= self.settings["max_dim"]:
            return NOWHERE
        self._names.append(name)
        return self.dim - 1

    def _assemble(self, numbers: Array, symbols: Keys, codes: Integers, dims: Integers, learn: bool) -> Encoded:
        place = np.full(codes.shape, NOWHERE, dtype=np.int64)
        columns = [*self._columns.values(), *(product.column for product in self._products)]
        for j, column in enumerate(columns):
            place[:, j] = np.maximum(np.array([*column.at, NOWHERE])[codes[:, j]], NOWHERE)
        width = numbers.shape[1]
        return self._place(numbers, symbols, place[:, :width], place[:, width:], dims, learn)

    def _place(
        self,
        numbers: Array,
        symbols: Keys,
        own: Integers,
        crossed: Integers,
        dims: Integers,
        learn: bool,
    ) -> Encoded:
        """Run the kernels on rows whose values have been looked up."""
        n, width = numbers.shape
        if self._layout is None:
            self._layout = lay_out(self.settings, self._columns, self._products, self._spread)
        at = self._layout
        if learn:
            self.gaps.enter(n, self._missing(numbers, symbols))
        keys, values = np.empty((n, ENTRIES * width), dtype=np.uint64), np.empty((n, ENTRIES * width))
        z, x = np.empty((n, width)), np.empty((n, self.dim))
        encode_rows(numbers, symbols, at.kinds, at.salts, self._past, learn, keys, values, z)
        place_rows(
            z, own, at.value_at, at.weights, at.shares, crossed, at.factors, at.share, at.frequency, at.phase,
            at.wave_scale, at.first, at.budget, dims, x,
        )  # fmt: skip
        marks = row_marks(numbers, at.salts, symbols, at.absent)
        scores = probabilities(numbers, at)
        return Encoded(x, dims, keys, values, scores, marks)

    def _missing(self, numbers: Array, symbols: Keys) -> dict[str, Integers]:
        """Return the rows at which each declared score and group is missing."""
        missing_rows = {}
        for j, (name, column) in enumerate(self._columns.items()):
            if name in self.gaps.counts:
                is_category = column.kind == CATEGORICAL
                gaps = symbols[:, j] == column.keys[MISSING] if is_category else np.isnan(numbers[:, j])
                missing_rows[name] = np.flatnonzero(gaps)
        return missing_rows

    def _open_budget(self) -> None:
        """Share the features' weight among the columns of the first record, products and waves."""
        self._spread = spread_over(self.settings, list(self._columns.values()))
        for left, right in self.settings["products"]:
            product = Product.of(self._columns[left], self._columns[right], STREAM_GROUP_CATEGORIES)
            self._products.append(product)

    def _new_column(self, name: str) -> Column:
        group = name in self.settings["groups"]
        own = STREAM_GROUP_CATEGORIES if group else self.settings["categories"]
        kind = UNDECIDED
        if name in self.settings["scores"]:
            kind = KINDS[self.settings["scores"][name]]
        elif group or name in self.settings["categorical"]:
            kind = CATEGORICAL
        elif name in self.settings["numeric"]:
            kind = NUMERIC
        return Column(name, kind, own)

    def _order(self, column: Column) -> int:
        return list(self._columns).index(column.name)

    def _lay_out_fixed(self) -> None:
        self._names = ["constant", *self.settings["reserved"], *self.settings["scores"]]
        fixed = len(self._names) + self.settings["fourier"]
        if fixed > self.settings["max_dim"]:
            raise ValueError(f"max_dim: given {self.settings['max_dim']}, expected at least {fixed}")
        self._names += [f"wave {k + 1}" for k in range(self.settings["fourier"])]

    def _check_roles(self) -> None:
        roles: dict[str, str] = {}
        for role in ("scores", "groups", "numeric", "categorical", "drop"):
            for name in self.settings[role]:
                clash = roles.setdefault(name, role)
                if clash != role and {clash, role} != {"groups", "categorical"}:
                    raise ValueError(f"column {name!r}: given as both {clash} and {role}, expected one role")

    def _declared_names(self) -> list[str]:
        """Return the declared columns, which every record must have: one that is absent is probably a typo."""
        names = [name for role in ("scores", "groups", "numeric", "categorical") for name in self.settings[role]]
        return names + [name for pair in self.settings["products"] for name in pair]

    @locked
    def to_state(self) -> State:
        """Return the state from which `from_state` rebuilds this object exactly."""
        arrays: dict[str, AnyArray] = {name: array.copy() for name, array in self._past._asdict().items()}
        manifest = {
            "settings": self.settings | {name: [*self.settings[name].items()] for name in ORDERED},
            "columns": [column.manifest() for column in self._columns.values()],
            "products": [product.column.manifest() for product in self._products],
            "names": list(self._names),
            "spread": self._spread,
            "frozen": self.frozen,
            "gaps": self.gaps.manifest(),
        }
        return State(arrays, manifest)

    @classmethod
    def from_state(cls, state: State) -> "Contexts":
        """Rebuild from `to_state`; the state must have been checked."""
        arrays, manifest = state
        settings = dict(manifest["settings"])
        contexts = cls(**settings | {name: dict(settings[name]) for name in ORDERED})
        contexts._columns = {entry["name"]: Column.from_manifest(entry) for entry in manifest["columns"]}
        pairs = zip(contexts.settings["products"], manifest["products"], strict=False)
        contexts._products = [
            Product(contexts._columns[left], contexts._columns[right], Column.from_manifest(entry))
            for (left, right), entry in pairs
        ]
        contexts._names = list(manifest["names"])
        contexts._spread = float(manifest["spread"])
        contexts.frozen = bool(manifest["frozen"])
        contexts.gaps.restore(manifest.get("gaps", contexts.gaps.manifest()))
        contexts._past = Past(**{name: np.array(arrays[name], order="C") for name in Past._fields})
        return contexts


def _longer_past(past: Past, columns: int) -> Past:
    more = blank_past(columns - len(past.seen))
    return Past(*(np.concatenate(pair) for pair in zip(past, more, strict=True)))


def _unseen(column: Column, index: int, codes: Integers, present: list[int]) -> list[tuple[int, int, int]]:
    """Return (first row, column, code) of codes that have no coordinate yet."""
    missing = [code for code in present if column.at[code] == UNSEEN]
    return [(int(np.argmax(codes == code)), index, code) for code in missing]


def _joined(pieces: list[Encoded]) -> Encoded:
    last = pieces[-1]

    def stacked(name: str) -> Any:
        width = getattr(last, name).shape[1]
        parts = [getattr(piece, name) for piece in pieces]
        return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])

    dims = np.concatenate([piece.dims for piece in pieces])
    marks = np.concatenate([piece.marks for piece in pieces])
    groups = None if last.groups is None else stacked("groups")
    return Encoded(stacked("x"), dims, stacked("keys"), stacked("values"), stacked("scores"), marks, groups)


def _spelling(name: str) -> str:
    """Return a name without what differs between spellings of it: case, spaces, punctuation."""
    return "".join(filter(str.isalnum, name.casefold())) or name


def _names(role: str, names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f"{role}: given the string {names!r}, expected a list of column names")
    return [letters(name) for name in names]


def _score_kinds(scores: "Iterable[str] | Mapping[str, str]") -> dict[str, str]:
    kinds = (
        {letters(name): kind for name, kind in scores.items()}
        if isinstance(scores, Mapping)
        else dict.fromkeys(_names("scores", scores), "probability")
    )
    for name, kind in kinds.items():
        if kind not in ("probability", "logit"):
            raise ValueError(f"score {name!r}: given kind {kind!r}, expected 'probability' or 'logit'")
    return kinds


def _pair(pair: Sequence[str]) -> list[str]:
    if isinstance(pair, str) or len(pair) != 2:
        raise ValueError(f"products: given {pair!r}, expected a pair of column names")
    return [letters(pair[0]), letters(pair[1])]


# The saved state of `Contexts`, and the checks that keep its coordinates inside x.

PAIRS = listed(Rule("a pair of names", lambda v: TEXTS.holds(v) and len(v) == 2))
WEIGHT = real(0, above=True)
WEIGHTED = Rule(
    "[name, weight]", lambda v: isinstance(v, list) and len(v) == 2 and is_text(v[0]) and WEIGHT.holds(v[1])
)
COUNTED = Rule(
    "[name, three counts]",
    lambda v: isinstance(v, list) and len(v) == 4 and is_text(v[0]) and all(map(whole(0).holds, v[1:])),
)
SETTINGS = {
    "groups": TEXTS,
    "scores": PAIRS,
    "products": PAIRS,
    "numeric": TEXTS,
    "categorical": TEXTS,
    "drop": TEXTS,
    "categories": whole(),
    "max_dim": whole(1),
    "fourier": whole(),
    "reserved": listed(WEIGHTED),
    "seed": whole(0, 2**64 - 1),
}


def _column(dim: int) -> Rule:
    """Declare a column whose categories have their places among `dim` coordinates."""
    kind, places = one_of(*KINDS, NAMES[UNDECIDED]), listed(whole(UNSEEN, dim - 1), 2, VOCABULARY + 2)
    rule = parted({"name": ANY_TEXT, "kind": kind, "own": whole(), "codes": DISTINCT_TEXTS, "at": places})
    return rule._replace(holds=lambda v: rule.holds(v) and len(v["at"]) == len(v["codes"]) + 2)


def fields(manifest: Mapping[str, Any]) -> dict[str, Field]:
    """Return the arrays of a state from `Contexts.to_state`. Raises ArchiveError if a place lies outside of x."""
    check({"settings": parted(SETTINGS), "names": TEXTS}, {name: manifest[name] for name in ("settings", "names")})
    settings, dim = manifest["settings"], len(manifest["names"])
    fixed = 1 + len(settings["reserved"]) + len(settings["scores"]) + settings["fourier"]
    columns, scores = listed(_column(dim)), {name for name, _ in settings["scores"]}
    rules = {"columns": columns, "products": columns, "spread": real(0), "frozen": TRUTH, "dim": whole(fixed)}
    rules["gaps"] = addition(parted({"rows": whole(0), "counts": listed(COUNTED)}))
    check(rules, {name: manifest[name] for name in rules if name in manifest} | {"dim": dim})
    known = [column["name"] for column in manifest["columns"]]
    if not is_distinct(known) or (known and not scores <= {*known}):
        raise ArchiveError("columns: given one twice, or a score without one, expected each once")
    return {
        "seen": counts(len(known)),
        "mean": floats(len(known)),
        "scatter": floats(len(known)),
        "sample": floats(len(known), SAMPLE),
        "edges": floats(len(known), BINS - 1, finite=False),
        "distinct": counts(len(known)),
        "first": keys(len(known)),
    }
