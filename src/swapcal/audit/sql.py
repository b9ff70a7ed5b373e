"""Audits by SQL, for rows that may not leave a database: queries for sums, and the sums of their answers."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from swapcal._display import counted
from swapcal.arrays import Array, Flags, Places
from swapcal.audit.levels import DEFAULT_LEVELS, MOST_VALUES, Histogram, Levels
from swapcal.audit.rows import LEAST_WEIGHT, MOST_WEIGHT, AuditColumns, Encoder
from swapcal.audit.sums import Groups, RowSample, Sums, Tally
from swapcal.features.sources import Number, numbered, shortest
from swapcal.kernels import tally as kernel
from swapcal.tables.frame import JudgedColumns, Table
from swapcal.tables.values import MISSING, group_name

DIALECTS = ("duckdb", "postgres", "snowflake", "bigquery", "spark")
FORMAT = 1

# What the query adds up, by the column of the answer.

SCALARS = {
    "weight": "w",
    "predicted": "w * p",
    "observed": "w * y",
    "residual": "r",
    "variance": "v",
    "squared": "r * (y - p)",
    "weight2": "w * w",
    "n": "1",
    "weight3": "w * w * w",
    "spread": "r * r",
    "fractional": "CASE WHEN y > 0 AND y < 1 THEN 1 ELSE 0 END",
}
"""The scalar sums, in the order of `kernels.tally`."""

EVEN = {"weight": "n", "weight2": "n", "weight3": "n", "spread": "squared"}
"""Which of them is equal to which other if there are no weights."""

INSIDE = f"LEAST(GREATEST(p, {kernel.FLOOR!r}), {1 - kernel.FLOOR!r})"
LEVEL_SUMS = {
    "log_loss": f"-w * (y * LN({INSIDE}) + (1 - y) * LN(1 - {INSIDE}))",
    "impossible": "CASE WHEN (p <= 0 AND y > 0) OR (p >= 1 AND y < 1) THEN 1 ELSE 0 END",
}
"""Sums per level only."""

TEXTS = ("part", "name", "category")
NUMBERS = ("level", *SCALARS, *LEVEL_SUMS)

USABLE = {
    "outcomes": "y >= 0 AND y <= 1",
    "predictions": "p >= 0 AND p <= 1",
    "weights": f"w >= {LEAST_WEIGHT!r} AND w <= {MOST_WEIGHT!r}",
    "features": "infinite = 0",
}
"""Conditions on a row with an outcome, by the name of what is wrong otherwise; NULL and NaN are wrong.

All but the last, which costs a pass over all features, also select rows: an answer with invalid rows is not used.
"""

COUNTS = ("rows", "unlabelled", *USABLE, "distinct")
"""Counts of rows, and of distinct predictions up to one more than have levels of their own."""

LARGEST = "1e308"
"""Numbers beyond this count as infinite. Comparing with it also detects NaN in every dialect."""

RANKS = tuple(8 * k + side for k in range(1, kernel.CUTS + 1) for side in (-1, 1))
"""Between which 64ths of the rows each cut lies, as in `Quantiles.cuts`."""

SHARES = ", ".join(f"{rank / 64 + 1e-12:.12f}" for rank in RANKS)
"""Shares of the rows below them. Between two rows the upper one is taken, as by `Quantiles`: hence a little more."""

QUANTILES = {
    "duckdb": f"SELECT {{picked}} FROM (SELECT QUANTILE_DISC(f, [{SHARES}]) AS q FROM {{source}}) AS a",
    "postgres": f"SELECT {{picked}} FROM (SELECT PERCENTILE_DISC(ARRAY[{SHARES}]) WITHIN GROUP (ORDER BY f) AS q "
    "FROM {source}) AS a",
    "snowflake": "SELECT {picked} FROM {source}",
    "bigquery": "SELECT {picked} FROM (SELECT APPROX_QUANTILES(f, 64) AS q FROM {source}) AS a",
    "spark": f"SELECT {{picked}} FROM (SELECT PERCENTILE_APPROX(f, ARRAY({SHARES}), 10000) AS q FROM {{source}}) AS a",
}
PICKED = {
    "duckdb": "q[{place}]",
    "postgres": "q[{place}]",
    "snowflake": "PERCENTILE_DISC({share}) WITHIN GROUP (ORDER BY f)",
    "bigquery": "q[OFFSET({rank})]",
    "spark": "ELEMENT_AT(q, {place})",
}
"""Quantiles as every dialect has them: BigQuery's and Spark's are approximate."""

SOURCE = "swapcal_source"
"""Placeholder of the table in the query."""


@dataclass(frozen=True)
class SqlAudit:
    """An audit by SQL: the dialect, the table, its columns and the smallest cell that the answer may contain.

    Parameters
    ----------
    columns : features are numbers, groups any columns that the database can convert to text
    positive : value of the target, as text, that counts as 1; None for a target of numbers
    levels : number of equal intervals of predictions; by default the rule of `Audit`
    min_cell : cells of fewer rows are left out of the answer
    """

    dialect: str
    table: str
    columns: JudgedColumns
    positive: str | None = None
    levels: int | None = None
    min_cell: int = 0

    def __post_init__(self) -> None:
        if self.dialect not in DIALECTS:
            raise ValueError(f"sql: given {self.dialect!r}, expected one of {', '.join(DIALECTS)}")
        if self.min_cell < 0:
            raise ValueError(f"min_cell: given {self.min_cell}, expected 0 or more rows")
        for name in ("time", "issued", "clusters"):
            if getattr(self.columns, name) is not None:
                raise ValueError(f"{name}: given with sql, expected none: the query has no sums of it")
        both = {*self.columns.features} & {*self.columns.groups}
        if both:
            raise ValueError(f"column {min(both)!r}: given as a feature and as a group, expected one of the two")
        self.columns.check_roles()
        Levels.declare(self.levels)

    def scales_query(self) -> str:
        """Return the query for mean, standard deviation and quantiles of every feature: one row each."""
        if not self.columns.features:
            raise ValueError("features: given none, expected some: without features no scales are needed")
        parts, known = [], f"{_name(self.columns.target)} IS NOT NULL"
        for j, name in enumerate(self.columns.features):
            own = "COUNT(f) AS n, AVG(f) AS centre, STDDEV_POP(f) AS spread, SUM(infinite) AS infinite"
            numbers = ", ".join(f"CAST(s.{one} AS DOUBLE) AS {one}" for one in ("n", "centre", "spread", "infinite"))
            ranked = ", ".join(f"CAST(r.q{rank} AS DOUBLE) AS q{rank}" for rank in RANKS)
            parts.append(
                f"SELECT {_text(name)} AS name, {numbers}, {ranked} FROM (SELECT {own} FROM feature{j}) AS s "
                f"CROSS JOIN quantiles{j} AS r"
            )
        columns = ", ".join(
            f"feature{j} AS (SELECT {_finite(name)} AS f, {_infinite([name])} AS infinite FROM {SOURCE} WHERE {known})"
            for j, name in enumerate(self.columns.features)
        )
        return self._written(f"WITH {columns} {' UNION ALL '.join(parts)}")

    def query(self, encoder: Encoder | None = None) -> str:
        """Return the query for the sums; `encoder` has the scales of the features, by their query or of an audit."""
        encoder = bare(encoder or Encoder(()))
        names = tuple(str(column.name) for column in encoder.columns)
        if names != self.columns.features:
            raise ValueError(f"features: given {list(self.columns.features)}, expected {list(names)} as in the scales")
        cells = [*(f"g{k}" for k in range(len(self.columns.groups))), *(f"b{j}" for j in range(len(names))), "s"]
        parts = [self._settings(encoder), self._checks(), self._levels(encoder), self._cells(cells)]
        return self._written(f"WITH {self._source()}, {self._rows(encoder)} {' UNION ALL '.join(parts)}")

    def _source(self) -> str:
        """Return the columns under short names, the rows that are audited, and how many predictions differ."""
        columns, target = self.columns, _name(self.columns.target)
        outcome = _double(columns.target)
        if self.positive is not None:
            happened = f"CAST({target} AS TEXT) = {_text(self.positive)}"
            outcome = f"CASE WHEN {target} IS NULL THEN NULL WHEN {happened} THEN 1.0e0 ELSE 0.0e0 END"
        chosen = [f"{_double(columns.prob)} AS p", f"{outcome} AS y"]
        chosen.append(f"{'1.0e0' if columns.weights is None else _double(columns.weights)} AS w")
        chosen.append(f"{_infinite(columns.features)} AS infinite")
        chosen += [f"{_finite(name)} AS x{j}" for j, name in enumerate(columns.features)]
        chosen += [f"{_name(name)} AS g{k}" for k, name in enumerate(columns.groups)]
        few = f"SELECT COUNT(*) AS distinct_p FROM (SELECT DISTINCT p FROM usable LIMIT {MOST_VALUES + 1}) AS d"
        return (
            f"source AS (SELECT {', '.join(chosen)} FROM {SOURCE}), "
            f"usable AS (SELECT * FROM source WHERE {' AND '.join(list(USABLE.values())[:-1])}), few AS ({few})"
        )

    def _rows(self, encoder: Encoder) -> str:
        """Return every row with its level, residual r, variance v, contexts z, bins b, and place s in the histogram."""
        count = DEFAULT_LEVELS if self.levels is None else self.levels
        interval, few = f"LEAST(FLOOR(p * {count}), {count - 1})", f"few.distinct_p <= {MOST_VALUES}"
        scale = _real(kernel.SPECTRUM_BINS * 2.0 / np.pi)
        place = f"CAST(LEAST(FLOOR({scale} * ASIN(SQRT(p))), {kernel.SPECTRUM_BINS - 1}) AS INT)"
        if self.levels is None:
            interval, place = f"CASE WHEN {few} THEN p ELSE {interval} END", f"CASE WHEN {few} THEN -1 ELSE {place} END"
        chosen = [f"{interval} AS level", f"{'-1' if self.min_cell else place} AS s"]
        once, twice = ("", "") if self.columns.weights is None else ("w * ", "w * w * ")
        chosen += [f"{once}(y - p) AS r", f"{twice}p * (1 - p) AS v"]
        for j, cuts in enumerate(encoder.cuts.values()):
            meaning, bound = encoder.coordinates[j + 1], _real(encoder.share)
            z = f"LEAST(GREATEST({_real(meaning.factor)} * (x{j} - {_real(meaning.centre)}), -{bound}), {bound})"
            chosen.append(f"CASE WHEN x{j} IS NULL THEN 0.0e0 ELSE {z} END AS z{j}")
            steps = " ".join(f"WHEN x{j} >= {_real(cuts[k])} THEN {k + 1}" for k in reversed(range(kernel.CUTS)))
            chosen.append(f"CASE WHEN x{j} IS NULL THEN {kernel.BINS - 1} {steps} ELSE 0 END AS b{j}")
        return f"cells AS (SELECT usable.*, {', '.join(chosen)} FROM usable CROSS JOIN few)"

    def _settings(self, encoder: Encoder) -> str:
        columns = self.columns
        numbers = [
            {"name": one.name, "centre": one.centre, "spread": None if np.isinf(one.spread) else one.spread,
             "cuts": encoder.cuts[str(one.name)]}
            for one in encoder.columns if isinstance(one, Number)
        ]  # fmt: skip
        settings = {
            "format": FORMAT, "table": self.table, "prob": columns.prob, "target": columns.target,
            "weights": columns.weights, "groups": columns.groups, "features": numbers, "levels": self.levels,
            "min_cell": self.min_cell,
        }  # fmt: skip
        text = _text(json.dumps(settings, ensure_ascii=False))
        return f"SELECT {_row({'part': _text('settings'), 'name': _text('swapcal'), 'category': text})}"

    def _checks(self) -> str:
        """Return counts of rows: all, those without an outcome, and those that an audit refuses."""
        wrong = [f"y IS NOT NULL AND ({rule}) IS NOT TRUE" for rule in USABLE.values()]
        counts = [f"SUM(CASE WHEN {rule} THEN 1 ELSE 0 END) AS c{k}" for k, rule in enumerate(["y IS NULL", *wrong], 1)]
        values = [f"t.c{k}" for k in range(len(COUNTS) - 1)]
        row = {"part": _text("check"), "name": "k.name", "n": _by_k([*values, "few.distinct_p"])}
        return (
            f"SELECT {_row(row)} FROM (SELECT COUNT(*) AS c0, {', '.join(counts)} FROM source) AS t "
            f"CROSS JOIN few CROSS JOIN {_listed([(name, '') for name in COUNTS])}"
        )

    def _levels(self, encoder: Encoder) -> str:
        """Return the scalar sums of every level (k = 0), then g, G and H of every feature and pair of features."""
        pairs = [(i, j) for i in range(len(encoder.cuts)) for j in range(-1, i + 1)]
        sums = [*self._sums(), *(f"SUM({sql}) AS {name}" for name, sql in LEVEL_SUMS.items())]
        weight = "" if self.columns.weights is None else "w * "
        for k, (i, j) in enumerate(pairs, 1):
            product = f"z{i} * z{j}" if j >= 0 else f"0.5e0 * z{i}"
            sums += [f"SUM({weight}{product}) AS g{k}", f"SUM(v * {product}) AS h{k}"]
            sums += [f"SUM(r * z{i}) AS r{k}"] if j < 0 else []
        names, trends = list(encoder.cuts), [f"m.r{k}" if j < 0 else "NULL" for k, (_, j) in enumerate(pairs, 1)]
        listed = [("", ""), *((names[i], "" if j < 0 else names[j]) for i, j in pairs)]
        row = {name: f"CASE WHEN k.k = 0 THEN m.{self._same(name)} END" for name in NUMBERS}
        row |= {"part": "CASE WHEN k.k = 0 THEN 'level' ELSE 'product' END", "name": "k.name", "category": "k.category"}
        row |= {
            "level": "m.level",
            "weight": _by_k([f"m.{self._same('weight')}", *(f"m.g{k}" for k in range(1, len(listed)))]),
            "variance": _by_k(["m.variance", *(f"m.h{k}" for k in range(1, len(listed)))]),
            "residual": _by_k(["m.residual", *trends]),
        }
        inner = f"SELECT level, {', '.join(sums)} FROM cells GROUP BY level {self._having()}"
        return f"SELECT {_row(row)} FROM ({inner}) AS m CROSS JOIN {_listed(listed)}"

    def _cells(self, cells: Sequence[str]) -> str:
        """Return the scalar sums of every level and group, level and bin, and place in the histogram."""
        names = [*self.columns.groups, *self.columns.features, ""]
        groups = len(self.columns.groups)
        here = [f"i{k} = 0" if k < groups else f"{cell} IS NOT NULL" for k, cell in enumerate(cells)]
        texts = [f"CASE WHEN {cell} IS NULL THEN '0' ELSE '1' || CAST({cell} AS TEXT) END" for cell in cells[:groups]]
        texts += [f"CAST({cell} AS TEXT)" for cell in cells[groups:]]
        kinds = {"g": _text("group"), "b": _text("bin"), "s": _text("histogram")}
        row = {
            "part": _when(here, [kinds[cell[0]] for cell in cells]),
            "name": _when(here, [_text(name) for name in names]),
            "category": _when(here, texts),
            "level": "c.level",
        } | {name: f"c.{self._same(name)}" for name in SCALARS}
        sets = ", ".join(f"({'' if cell == 's' else 'level, '}{cell})" for cell in cells)
        chosen = ["level" if len(cells) > 1 else "NULL AS level", *cells, *self._sums()]
        chosen += [f"GROUPING({cell}) AS i{k}" for k, cell in enumerate(cells[:groups])]
        inner = f"SELECT {', '.join(chosen)} FROM cells GROUP BY GROUPING SETS ({sets})"
        return f"SELECT {_row(row)} FROM ({inner} {self._having()}) AS c"

    def _same(self, name: str) -> str:
        """Return the sum that one is equal to: without weights some are equal, and added up once."""
        return EVEN.get(name, name) if self.columns.weights is None else name

    def _sums(self) -> list[str]:
        weightless = {"w * p": "p", "w * y": "y", "r * (y - p)": "r * r"} if self.columns.weights is None else {}
        return [
            f"{_sum(weightless.get(sql, sql))} AS {name}" for name, sql in SCALARS.items() if name == self._same(name)
        ]

    def _having(self) -> str:
        return f"HAVING COUNT(*) >= {self.min_cell}" if self.min_cell else ""

    def _written(self, text: str) -> str:
        """Return SQL, composed as DuckDB's, in the dialect. Raises ValueError if a name cannot be quoted in it."""
        sqlglot, exp = _sqlglot()
        tree = sqlglot.parse_one(text, read="duckdb")
        stand_ins = {SOURCE: self._table()} | {f"quantiles{j}": j for j in range(len(self.columns.features))}
        for node in list(tree.find_all(exp.Table)):
            stand_in = stand_ins.get(node.name)
            if isinstance(stand_in, int):
                node.replace(self._quantiles(stand_in).subquery("r"))
            elif stand_in is not None:
                node.replace(stand_in.copy())
        for node in tree.find_all(exp.CTE):
            if self.dialect in ("duckdb", "postgres") and node.alias != "few":
                node.set("materialized", False)  # otherwise both would materialise the wide rows, which are read twice
        written: str = tree.sql(dialect=self.dialect, pretty=True)
        again = sqlglot.parse(written, read=self.dialect)
        if len(again) != 1 or _words(again[0]) != _words(tree):
            raise ValueError(f"columns: given a name that cannot be quoted in {self.dialect}, expected another")
        return written

    def _table(self) -> Any:
        """Return the table, every part of its name quoted."""
        sqlglot, exp = _sqlglot()
        try:
            table = exp.to_table(self.table, dialect=self.dialect)
        except sqlglot.errors.SqlglotError:
            table = None
        if not isinstance(table, exp.Table) or not all(isinstance(part, exp.Identifier) for part in table.parts):
            raise ValueError(f"table: given {self.table!r}, expected a name such as scores or schema.scores")
        if set(table.args) - {"this", "db", "catalog", "only"} and any(
            value for name, value in table.args.items() if name not in ("this", "db", "catalog")
        ):
            raise ValueError(f"table: given {self.table!r}, expected a name such as scores or schema.scores")
        return exp.Table(**{
            name: exp.to_identifier(part.name, quoted=True)
            for name, part in table.args.items() if isinstance(part, exp.Identifier)
        })  # fmt: skip

    def _quantiles(self, j: int) -> Any:
        """Return the query for the quantiles of feature j."""
        sqlglot, _ = _sqlglot()
        shares = SHARES.split(", ")
        picked = ", ".join(
            PICKED[self.dialect].format(place=place + 1, share=shares[place], rank=rank) + f" AS q{rank}"
            for place, rank in enumerate(RANKS)
        )
        text = QUANTILES[self.dialect].format(picked=picked, source=f"feature{j}")
        return sqlglot.parse_one(text, read=self.dialect)


def bare(encoder: Encoder) -> Encoder:
    """Return the encoding that a query can sum: numbers whose missing values have a bin, but no coordinate."""
    if encoder.categorical():
        raise ValueError(f"features: given categories in {encoder.categorical()[0]!r}, expected numbers: use groups")
    return Encoder(
        tuple(one._replace(missing=False) for one in encoder.columns if isinstance(one, Number)), encoder.cuts
    )


def _sqlglot() -> tuple[Any, Any]:
    import sqlglot
    from sqlglot import exp

    return sqlglot, exp


def _words(tree: Any) -> tuple[list[str], list[str]]:
    """Return the texts and quoted names in a query: an injected name would change them."""
    _, exp = _sqlglot()
    texts = [node.name for node in tree.find_all(exp.Literal) if node.is_string]
    names = [node.name for node in tree.find_all(exp.Identifier) if node.quoted]
    return sorted(texts), sorted(names)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _real(value: float) -> str:
    """Return a number as a floating-point literal: without an exponent it would be a decimal."""
    return f"{value!r}" if "e" in f"{value!r}" else f"{value!r}e0"


def _double(name: str) -> str:
    return f"CAST({_name(name)} AS DOUBLE)"


def _finite(name: str) -> str:
    return f"CASE WHEN {_double(name)} >= -{LARGEST} AND {_double(name)} <= {LARGEST} THEN {_double(name)} END"


def _infinite(names: Sequence[str]) -> str:
    """Return 1 where one of some columns is infinite; NaN lies on the same side of all numbers as its negative."""
    rules = [f"{_double(name)} < -{LARGEST} OR -{_double(name)} < -{LARGEST}" for name in names]
    return f"CASE WHEN {' OR '.join(rules)} THEN 1 ELSE 0 END" if rules else "0"


def _sum(sql: str) -> str:
    return "COUNT(*)" if sql == "1" else f"SUM({sql})"


def _row(given: Mapping[str, str]) -> str:
    texts = [f"CAST({given.get(name, 'NULL')} AS TEXT) AS {_name(name)}" for name in TEXTS]
    return ", ".join([*texts, *(f"CAST({given.get(name, 'NULL')} AS DOUBLE) AS {_name(name)}" for name in NUMBERS)])


def _by_k(values: Sequence[str]) -> str:
    return f"CASE k.k {' '.join(f'WHEN {k} THEN {value}' for k, value in enumerate(values))} END"


def _when(rules: Sequence[str], values: Sequence[str]) -> str:
    return f"CASE {' '.join(f'WHEN {rule} THEN {value}' for rule, value in zip(rules, values, strict=True))} END"


def _listed(named: Sequence[tuple[str, str]]) -> str:
    rows = ", ".join(f"({k}, {_text(name)}, {_text(category)})" for k, (name, category) in enumerate(named))
    return f"(VALUES {rows}) AS k(k, name, category)"


# The answers of the queries, read and checked: the scales of features, and the sums of an audit.

SLACK = 1e-6
"""Sums that a database adds up in another order agree to this part of the weight that they are sums over."""


def read_scales(answer: Any, features: Sequence[str]) -> Encoder:
    """Return the encoding of features by the answer of `SqlAudit.scales_query`.

    Examples
    --------
    >>> row = {"name": ["age"], "n": [64.0], "centre": [40.0], "spread": [10.0], "infinite": [0.0]}
    >>> read_scales(row | {f"q{rank}": [20.0 + rank] for rank in RANKS}, ["age"]).cuts
    {'age': (28.0, 36.0, 44.0, 52.0, 60.0, 68.0, 76.0)}
    """
    table = Table(answer)
    wanted = ("name", "n", "centre", "spread", "infinite", *(f"q{rank}" for rank in RANKS))
    _require(table, wanted, "scales", "the answer of the first query, which --sql prints for --features")
    names = _texts(table, "name")
    if sorted(names) != sorted(features):
        raise ValueError(f"scales: given features {names}, expected {list(features)}")
    numbers = {name: table.numbers(name) for name in wanted[1:]}
    columns, cuts = [], {}
    for name in features:
        n, centre, spread, infinite, *ends = (float(numbers[one][names.index(name)]) for one in wanted[1:])
        if infinite > 0:
            raise ValueError(f"column {name!r}: given {infinite:,.0f} infinite values, expected finite numbers")
        if n == 0:
            centre, spread, ends = 0.0, 0.0, [0.0] * len(RANKS)
        if not np.isfinite([n, centre, spread, *ends]).all() or n < 0 or spread < 0 or sorted(ends) != ends:
            raise ValueError(f"scales of {name!r}: given numbers that no column has, expected finite and in order")
        columns.append(numbered(name, centre, spread, missing=False))
        cuts[name] = tuple(map(shortest, ends[::2], ends[1::2]))
    return Encoder(tuple(columns), cuts)


COLUMNS = (*NUMBERS, "n", "centre", "spread", "infinite", *(f"q{rank}" for rank in RANKS))
"""Columns of numbers in either answer."""


class AnswerPart(NamedTuple):
    """Rows of one part of the answer: names, categories, levels and the numbers by column."""

    name: list[str]
    category: list[str]
    numbers: Mapping[str, Array]

    @property
    def scalars(self) -> Array:
        """The scalar sums in the order of `kernels.tally`, (rows, SCALARS)."""
        return np.column_stack([self.numbers[name] for name in SCALARS])


class Answer:
    """The answer of `SqlAudit.query`: its settings and its parts."""

    def __init__(self, answer: Any) -> None:
        table = Table(answer)
        query = "the answer of the query that --sql prints"
        if "q7" in table.columns:
            raise ValueError("sums: given scales of features, expected sums: --scales takes these")
        _require(table, (*TEXTS, *NUMBERS), "sums", query)
        self._texts = {name: _texts(table, name) for name in TEXTS}
        self._numbers = {name: table.numbers(name) for name in NUMBERS}
        self._parts = np.array(self._texts["part"], dtype=object)
        self.settings = self._settings()

    def _settings(self) -> Mapping[str, Any]:
        texts = [self._texts["category"][row] for row in np.flatnonzero(self._parts == "settings")]
        if len(texts) != 1:
            raise ValueError(f"sums: given {len(texts)} rows of settings, expected 1: the answer of one whole query")
        try:
            settings = json.loads(texts[0])
            wrong = settings["format"] != FORMAT
        except (ValueError, TypeError, KeyError):
            raise ValueError("sums: given settings that cannot be read, expected the answer unchanged") from None
        if wrong:
            raise ValueError(f"sums: given format {settings['format']!r}, expected {FORMAT}, as this version queries")
        return dict(settings)

    def part(self, name: str) -> AnswerPart:
        """Return the rows of one part."""
        rows = np.flatnonzero(self._parts == name)
        names, categories = ([self._texts[one][row] for row in rows] for one in ("name", "category"))
        return AnswerPart(names, categories, {one: values[rows] for one, values in self._numbers.items()})

    @property
    def digest(self) -> tuple[int, int]:
        """Two words that fingerprint the answer, whatever the order of its rows."""
        columns = [*self._texts.values(), *(values.tolist() for values in self._numbers.values())]
        rows = sorted(map(repr, zip(*columns, strict=True)))
        digest = hashlib.blake2b("\n".join(rows).encode(), digest_size=16).digest()
        return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def sums_of_answer(frame: Any) -> Sums:
    """Return the sums of an audit of the rows, without the sample of rows; checked for consistency."""
    answer = Answer(frame)
    settings = answer.settings
    encoder, reader = _columns(settings)
    counts = _counts(answer.part("check"))
    cells = answer.part("level")
    _check_cells("level", cells, settings)
    levels, level = _levels(cells, settings["levels"], counts["distinct"] <= MOST_VALUES)
    tally = Tally(levels, 1 + len(encoder.columns), len(encoder.columns))
    tally.table[level] = cells.scalars
    _fill_products(tally, answer.part("product"), encoder)
    lost = _fill_cells(tally, answer, encoder, settings)
    lost = {"level": counts["rows"] - counts["unlabelled"] - tally.table[:, kernel.ROWS].sum()} | lost
    if lost["level"] < 0 or (lost["level"] and not settings["min_cell"]):
        raise ValueError(f"sums: given {-lost['level']:+,.0f} rows in levels beyond those counted, expected none")
    sample = RowSample.without_rows(len(encoder.coordinates), reader.group_columns, len(encoder.cuts), answer.digest)
    histogram = _histogram(tally, answer.part("histogram"), cells)
    made = Sums(tuple(encoder.coordinates), reader, tally, None, sample, histogram, None)
    made.limits = tuple(_limits(settings, counts, lost))
    return made


def _columns(settings: Mapping[str, Any]) -> tuple[Encoder, AuditColumns]:
    try:
        numbers = settings["features"]
        encoder = Encoder(
            tuple(
                Number(
                    str(one["name"]),
                    float(one["centre"]),
                    np.inf if one["spread"] is None else float(one["spread"]),
                    False,
                )
                for one in numbers
            ),
            {str(one["name"]): tuple(map(float, one["cuts"])) for one in numbers},
        )
        prob, target = (str(settings[name]) for name in ("prob", "target"))
        groups, weights = tuple(map(str, settings["groups"])), settings["weights"]
        int(settings["min_cell"]), str(settings["table"]), Levels.declare(settings["levels"])
    except (KeyError, TypeError, ValueError):
        raise ValueError("sums: given settings that cannot be read, expected the answer unchanged") from None
    if any(len(cuts) != kernel.CUTS or list(cuts) != sorted(cuts) for cuts in encoder.cuts.values()):
        raise ValueError("sums: given cuts of a feature that are not seven in order, expected the answer unchanged")
    names = tuple(str(one.name) for one in encoder.columns)
    return encoder, AuditColumns(prob, target, names, groups, weights, encoder=encoder)


def _counts(cells: AnswerPart) -> dict[str, float]:
    """Return the counts of rows. Raises ValueError if there are rows that an audit refuses."""
    counts = dict(zip(cells.name, cells.numbers["n"].tolist(), strict=True))
    if sorted(cells.name) != sorted(COUNTS):
        raise ValueError(f"sums: given counts of {sorted(counts)}, expected of {sorted(COUNTS)}")
    if counts["rows"] == 0 or np.isnan(counts["rows"]):
        raise ValueError("rows: given none, expected at least one")
    for name, expected in {
        "outcomes": "numbers in [0, 1], or NULL where unknown",
        "predictions": "numbers in [0, 1]",
        "weights": f"numbers from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}",
        "features": "finite numbers",
    }.items():
        if counts[name] != 0:
            raise ValueError(f"{name}: given {counts[name]:,.0f} rows with others or none, expected {expected}")
    if not 0 <= counts["unlabelled"] < counts["rows"]:
        raise ValueError(f"outcomes: given none in {counts['rows']:,.0f} rows, expected some")
    return counts


def _check_cells(part: str, cells: AnswerPart, settings: Mapping[str, Any]) -> None:
    """Raise ValueError for impossible sums: not finite, no weight, means or moments out of their range."""
    sums = {name: cells.numbers[name] for name in SCALARS}
    n, weight, weight2, weight3 = (sums[name] for name in ("n", "weight", "weight2", "weight3"))
    slack = SLACK * weight
    even = settings["weights"] is None
    rules: dict[str, Flags] = {
        "an impossible number of rows": (n >= max(1, settings["min_cell"])) & (n == np.floor(n)),
        "impossible weights": (weight > 0) & (weight2 > 0) & (weight3 > 0)
        & (weight**2 <= n * weight2 * (1 + SLACK)) & (weight2 <= weight**2 * (1 + SLACK))
        & (weight2**2 <= weight * weight3 * (1 + SLACK))
        & ((np.abs(weight - n) <= SLACK * n) if even else True),
        "predictions out of [0, 1]": (sums["predicted"] >= -slack) & (sums["predicted"] <= weight + slack),
        "outcomes out of [0, 1]": (sums["observed"] >= -slack) & (sums["observed"] <= weight + slack),
        "residuals that are not outcomes minus predictions": np.abs(
            sums["observed"] - sums["predicted"] - sums["residual"]
        ) <= slack,
        "variances out of their range": (sums["variance"] >= 0) & (sums["variance"] <= weight2 * (0.25 + SLACK))
        & (sums["squared"] >= 0) & (sums["squared"] <= weight + slack)
        & (sums["spread"] >= 0) & (sums["spread"] <= weight2 * (1 + SLACK)),
        "an impossible number of fractional outcomes": (sums["fractional"] >= 0) & (sums["fractional"] <= n),
    }  # fmt: skip
    finite = np.isfinite(cells.scalars).all(axis=1) if len(n) else np.zeros(0, bool)
    for what, holds in {"numbers that are missing or infinite": finite, **rules}.items():
        bad = np.flatnonzero(~np.asarray(holds))
        if bad.size:
            place = (
                f"{part} {cells.name[bad[0]]!r} {cells.category[bad[0]]!r} at level {cells.numbers['level'][bad[0]]:g}"
            )
            raise ValueError(f"sums: given {what} ({place.strip()}), expected the answer unchanged")
    keys = set(zip(cells.name, cells.category, cells.numbers["level"].tolist(), strict=True))
    if part != "histogram" and len(keys) < len(n):
        raise ValueError(f"sums: given a {part} twice, expected each once: the answer of one query, not of several")


def _levels(cells: AnswerPart, declared: int | None, few: bool) -> tuple[Levels, Places]:
    """Return the levels, and which of them each row of the answer is."""
    values, mass = cells.numbers["level"], cells.numbers["weight"]
    if not len(values):
        raise ValueError("rows: given none in any level, expected some: with fewer than --min-cell rows none leave")
    levels, mean = Levels.declare(declared), cells.numbers["predicted"] / mass
    if declared is None and few:
        levels = levels.join(sorted(values.tolist()))
        low = high = values
    else:
        levels = Levels(levels.edges, None)
        if not np.isin(values, np.arange(len(levels))).all():
            raise ValueError("sums: given intervals of predictions that there are not, expected the answer unchanged")
        low, high = (np.array(levels.edges)[values.astype(np.intp) + end] for end in (0, 1))
    if (
        ((mean < low - SLACK) | (mean > high + SLACK)).any()
        or values.min() < 0
        or (few and declared is None and values.max() > 1)
    ):
        raise ValueError("sums: given predictions outside of their level, expected the answer unchanged")
    return levels, _level_of(levels, cells)


def _fill_products(tally: Tally, cells: AnswerPart, encoder: Encoder) -> None:
    place = {name: j for j, name in enumerate(encoder.cuts, 1)}
    tally.g[:, 0] = 0.5 * tally.A
    tally.lower_G[:, 0, 0] = 0.25 * tally.n
    tally.lower_H[:, 0, 0] = 0.25 * tally.table[:, kernel.VARIANCE]
    d = len(place)
    _known("feature", {*cells.name, *cells.category}, {*place, ""})
    level = _level_of(tally.levels, cells)
    i, j = (np.array([place.get(one, 0) for one in names], dtype=np.intp) for names in (cells.name, cells.category))
    G, H, g = (cells.numbers[name] for name in ("weight", "variance", "residual"))
    seen = np.zeros((len(tally.n), d + 1, d + 1), int)
    np.add.at(seen, (level, i, j), 1)
    wanted = np.tril(np.ones((d + 1, d + 1), int))
    wanted[0] = 0
    if (seen[tally.n > 0] != wanted).any():
        raise ValueError("sums: given products of features that are missing or twice, expected each pair once a level")
    tally.lower_G[level, i, j], tally.lower_H[level, i, j] = G, H
    first = j == 0
    tally.g[level[first], i[first]] = g[first]
    share, mass, variance = encoder.share, tally.n[:, None], tally.table[:, kernel.VARIANCE][:, None]
    diagonals = [np.diagonal(one, axis1=1, axis2=2)[:, 1:] for one in (tally.lower_G, tally.lower_H)]
    bounded = [
        (one >= 0) & (one <= share**2 * most * (1 + SLACK))
        for one, most in zip(diagonals, (mass, variance), strict=True)
    ]
    bounded.append(np.abs(tally.g[:, 1:]) <= share * mass * (1 + SLACK))
    for one in (tally.G, tally.H):
        squares = np.einsum("lii->li", one)
        bounded.append(one**2 <= squares[:, :, None] * squares[:, None, :] * (1 + SLACK) + 1e-300)
    if not all(one.all() for one in bounded):
        raise ValueError("sums: given products of features that no rows have, expected the answer unchanged")


def _level_of(levels: Levels, cells: AnswerPart) -> Places:
    """Return the level of every cell. Raises ValueError for one that no level has."""
    known = np.arange(len(levels)) if levels.values is None else np.array(levels.values)
    values = cells.numbers["level"]
    level = np.minimum(np.searchsorted(known, values), len(known) - 1)
    if (known[level] != values).any():
        raise ValueError("sums: given cells of a level without rows, expected the levels of one answer")
    return level


def _fill_cells(tally: Tally, answer: Answer, encoder: Encoder, settings: Mapping[str, Any]) -> dict[str, float]:
    """Add the sums of groups and bins; return how many rows are in no cell that left, by column."""
    lost = {}
    groups, bins = answer.part("group"), answer.part("bin")
    for part, cells, names in (("group", groups, settings["groups"]), ("bin", bins, encoder.cuts)):
        _check_cells(part, cells, settings)
        _known(part, set(cells.name), set(names))
    codes = [int(one) if one in DIGITS else -1 for one in bins.category]
    if min(codes, default=0) < 0:
        raise ValueError(f"sums: given a bin {bins.category[codes.index(-1)]!r}, expected {DIGITS[0]} to {DIGITS[-1]}")
    place = {name: j for j, name in enumerate(encoder.cuts)}
    tally.bins[_level_of(tally.levels, bins), [place[name] for name in bins.name], codes] = bins.scalars
    for name, j in place.items():
        lost[name] = _left(tally, name, tally.bins[:, j].sum(axis=1), settings)[:, kernel.ROWS].sum()
    for name in settings["groups"]:
        rows = np.array([k for k, one in enumerate(groups.name) if one == name], dtype=np.intp)
        tally.groups[name] = group = Groups(len(tally.n))
        texts = [_category(groups.category[k]) for k in rows]
        group.codes(list(dict.fromkeys(texts)))  # opens room for each once
        group.table[_level_of(tally.levels, groups)[rows], group.codes(texts)] = groups.scalars[rows]
        left = _left(tally, name, group.table.sum(axis=1), settings)
        lost[name] = left[:, kernel.ROWS].sum()
        if lost[name]:
            (place_left,) = group.codes([f"(cells of fewer than {settings['min_cell']} rows)"])
            group.table[:, place_left] += left
    return lost


DIGITS = [str(code) for code in range(kernel.BINS)]


def _category(text: str) -> str:
    if text[:1] not in ("0", "1") or (text[:1] == "0" and text != "0"):
        raise ValueError(f"sums: given category {text!r}, expected the answer unchanged")
    return MISSING if text == "0" else group_name(text[1:])


def _left(tally: Tally, name: str, inside: Array, settings: Mapping[str, Any]) -> Array:
    """Return the sums of rows in no cell of a column: those of suppressed cells, else none."""
    left = tally.table - inside
    unsigned = np.arange(kernel.SCALARS) != kernel.RESIDUAL
    slack, rows = SLACK * np.maximum(np.abs(tally.table), tally.n[:, None]), left[:, kernel.ROWS]
    wrong = np.where(unsigned, left < -slack, False) if settings["min_cell"] else np.abs(left) > slack
    if wrong.any() or (rows < 0).any():
        raise ValueError(
            f"sums of {name!r}: given cells that do not add up to their levels, expected the answer unchanged"
        )
    return np.where((rows > 0)[:, None], np.where(unsigned, np.maximum(left, 0.0), left), 0.0)


def _known(part: str, given: set[str], expected: set[str]) -> None:
    if given - expected:
        raise ValueError(f"sums: given {part} {min(given - expected)!r}, expected of {sorted(expected)}")


def _histogram(tally: Tally, cells: AnswerPart, levels: AnswerPart) -> Histogram:
    """Return the fine histogram, each level at its mean prediction where the answer has no finer places."""
    histogram = Histogram()
    fine = np.array([one != "-1" for one in cells.category], dtype=bool)
    if fine.any():
        if not fine.all() or not all(one.isdigit() and int(one) < kernel.SPECTRUM_BINS for one in cells.category):
            raise ValueError("sums: given places in the histogram that there are not, expected the answer unchanged")
        columns = [cells.numbers[name] for name in ("weight", "predicted", "observed")]
        histogram.bins[[int(one) for one in cells.category]] = np.column_stack(columns)
        if (np.abs(histogram.bins.sum(axis=0) - tally.table[:, :3].sum(axis=0)) > SLACK * tally.n.sum()).any():
            raise ValueError("sums: given a histogram of other rows, expected the answer unchanged")
    else:
        used = tally.n > 0
        mass, predicted, observed = tally.table[used, :3].T
        kernel.add_spectrum(np.clip(predicted / mass, 0, 1), np.clip(observed / mass, 0, 1), mass, histogram.bins)
    loss, impossible = (levels.numbers[name] for name in LEVEL_SUMS)
    if not (
        np.isfinite(loss).all()
        and (loss >= 0).all()
        and (impossible >= 0).all()
        and (impossible <= levels.numbers["n"]).all()
    ):
        raise ValueError(
            "sums: given log losses or contradicted predictions that no rows have, expected the answer unchanged"
        )
    histogram.log_loss, histogram.impossible = float(loss.sum()), int(impossible.sum())
    return histogram


def _limits(settings: Mapping[str, Any], counts: Mapping[str, float], lost: Mapping[str, float]) -> list[str]:
    """Return the limitations of these sums, as sentences."""
    sentences = [
        f"These sums come from a query on the table {settings['table']!r}; no rows were read. Results that need rows "
        "are left out: intervals of Brier score and log loss, curves along features, likenesses, prices of decisions."
    ]
    if counts["unlabelled"]:
        sentences.append(f"{counted(int(counts['unlabelled']), 'row')} without an outcome were left out.")
    if settings["min_cell"]:
        total = counts["rows"] - counts["unlabelled"]
        parts = [f"{rows:,.0f} of column {name!r}" for name, rows in lost.items() if rows and name != "level"]
        sentences.append(
            f"The query left out cells of fewer than {settings['min_cell']} rows: {lost['level']:,.0f} of {total:,.0f} "
            f"rows are not counted at all. Counted in all rows, but in no cell: {', '.join(parts) or 'none'}."
        )
    return sentences


def _require(table: Table, names: Sequence[str], what: str, expected: str) -> None:
    lacking = [name for name in names if name not in table.columns]
    if lacking:
        raise ValueError(f"{what}: given no column {lacking[0]!r}, expected {expected}")


def _texts(table: Table, name: str) -> list[str]:
    """Return a column as texts, missing ones empty."""
    column = table.categories(name)
    texts = ["" if value is None else str(value) for value in column.values]
    return [texts[code] for code in column.codes]
