"""Audit: exact errors of any predictions, computed from sums over rows, with tests and reports."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, replace
from os import PathLike
from typing import Any, Self, TypedDict, Unpack

import numpy as np

from swapcal import archive, plots
from swapcal._display import counted, display
from swapcal.archive import written
from swapcal.audit import curves, state
from swapcal.audit import state as file
from swapcal.audit.conventional import ConventionalMeasures, ObservedRate, TheoryMeasures, observed_around
from swapcal.audit.evidence import Evidence
from swapcal.audit.findings import AuditSettings, assemble, reliability
from swapcal.audit.findings import groups as group_entries
from swapcal.audit.findings import numbers as number_curves
from swapcal.audit.levels import Levels
from swapcal.audit.null import Noise
from swapcal.audit.rows import (
    AuditColumns,
    AuditRows,
    Coordinate,
    Encoder,
    in_regions,
    intersect,
    pairs_of,
    searched,
)
from swapcal.audit.search import Regions, checked_search
from swapcal.audit.sql import sums_of_answer
from swapcal.audit.sums import Sums
from swapcal.audit.text import TitleIndex, Titles
from swapcal.audit.verdict import ALPHA, TOLERANCE, Finding, Verdict, checked_tolerance
from swapcal.losses import Loss
from swapcal.report import Findings, card, render
from swapcal.report.card import as_page
from swapcal.report.findings import GroupRow, Level, NetBenefitPoint
from swapcal.tables.frame import Table, columns_from, is_table, made_frame


class AuditOptions(TypedDict, total=False):
    """Keyword arguments of `Audit` and `Audit.from_frame` other than the rows, for functions that pass them on."""

    levels: int | Sequence[float] | None
    title: str
    seed: int
    intersections: int | None


class Audit:
    """Exact errors of predictions p for outcomes y, over contexts X and groups; witnesses; noise floor.

    An audit keeps sums over rows, so audits of parts add up to the audit of the whole. Predictions
    with at most 256 distinct values are judged value by value; others fall into 51 intervals of equal width
    (or `levels`). In either case residuals are y − p with the prediction itself: A = Σα(y − p),
    g = Σα(y − p)x. Where a formula needs the level's value v (the comparator set of swap regret, the margin
    of SOmni) it is the level's mean prediction; swap regret is then measured against corrections p + ⟨δ,x⟩
    with 2v e_1 + δ in the class. Both are the theorems' definitions when every level holds one value.

    Parameters
    ----------
    p, y : (rows,) predictions in [0, 1]; outcomes in [0, 1]. By name also `y_prob` and `y_true`, as scikit-learn's
        metrics have them, in any order
    X : (rows, d) contexts with first coordinate ½ and norm at most 1; raw features go through `from_features`
    groups : labels per row: a mapping or table of categorical columns, or one column
    weights : (rows,) positive, default 1
    low, high, weight : the issued distribution of every row, `high` with probability `weight`, else `low`; refused
        where the prediction is neither one of the two nor their mean, as with Blum–Mansour's mixing
    issued : the same as (levels, P): K levels and each row's probabilities of them (rows, K), however many; as
        `Forecaster.distribution` returns them, and `History.shares` for the mixture of all rounds of a batch fit
    time : (rows,) numbers or dates
    clusters : (rows,) ids of what rows belong to, such as patients: rows of one id may depend on each other. Noise
        floor and intervals then come from flipping the signs of whole clusters, whose rows need not come together
    names : names of the coordinates of X
    levels : number of intervals, or their edges from 0 to 1; default as above
    title, seed : heading of the report; seed of the simulated noise floor
    intersections : 2 to examine the intersections of every two columns of `groups` as groups too
    search : "trees" to look for regions that were not declared: half of the rows, at random, propose up to six regions
        of at most three conditions on features and groups; the other half tests them as groups, with everything else.
        Rows added later test the same regions. This constructor and `load` do not keep the rules: there they cannot

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.choice([0.2, 0.5, 0.8], 3000)
    >>> nights = rng.random(3000) < 0.3
    >>> y = rng.random(3000) < p + 0.15 * nights
    >>> audit = Audit(p, y, groups={"shift": np.where(nights, "night", "day")})
    >>> audit.findings()[0].name, audit.test().p_value
    ('shift = night', 0.001)
    >>> Audit(y_true=y, y_prob=p).n
    3000.0
    """

    def __init__(
        self,
        p: Any = None,
        y: Any = None,
        X: Any = None,
        *,
        y_prob: Any = None,
        y_true: Any = None,
        groups: Any = None,
        weights: Any = None,
        low: Any = None,
        high: Any = None,
        weight: Any = None,
        time: Any = None,
        issued: Any = None,
        clusters: Any = None,
        names: Sequence[str] | None = None,
        levels: int | Sequence[float] | None = None,
        title: str = "Audit",
        seed: int = 0,
        intersections: int | None = None,
        search: str | None = None,
    ) -> None:
        p, y = _one_of("p", p, "y_prob", y_prob), _one_of("y", y, "y_true", y_true)
        given = {"weights": weights, "low": low, "high": high, "weight": weight, "time": time, "issued": issued}
        batch = AuditRows.check(p, y, X, groups=groups, clusters=clusters, **given)
        batch = intersect(batch, pairs_of(list(batch.groups), intersections))
        coordinates = _named(names, batch.X.shape[1])
        if checked_search(search):
            numbers = {one.name: batch.X[:, j] for j, one in enumerate(coordinates) if j}
            batch = searched(batch, numbers, seed)[0]
        self._hold(Sums.of(batch, coordinates, Levels.declare(levels), None), title, seed)

    def _hold(self, sums: Sums, title: str, seed: int) -> Self:
        self.sums, self.title, self.seed = sums, title, seed
        self._evidence: Evidence | None = None
        return self

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
        issued: Any = None,
        clusters: Any = None,
        names: Sequence[str] | None = None,
        levels: int | Sequence[float] | None = None,
        title: str = "Audit",
        seed: int = 0,
        like: "Audit | None" = None,
        intersections: int | None = None,
        search: str | None = None,
    ) -> Self:
        """Audit over raw features: a table, a mapping of columns, or a matrix with `names`.

        Numbers are standardised, categories become indicators, and both are scaled into the context set
        (see `Encoder`); witnesses are in the features' own units. Categorical features are also examined as
        groups. `like` reuses another audit's encoding, which makes the two addable.

        Examples
        --------
        >>> audit = Audit.from_features([0.1, 0.9], [0, 1], {"age": [30, 50], "city": ["Rome", "Bari"]})
        >>> [c.name for c in audit.coordinates]
        ['constant', 'age', 'city = Bari', 'city = Rome']
        """
        table = Table(features if is_table(features) else _matrix(features, names))
        encoder = Encoder.learn(table, table.columns) if like is None else like.encoder
        given = {"p": p, "y": y, "groups": groups, "weights": weights, "low": low, "high": high, "weight": weight}
        batch = encoder.batch(table, {**given, "time": time, "issued": issued, "clusters": clusters})
        reader = AuditColumns("p", "y", tuple(table.columns), tuple(batch.groups), encoder=encoder)
        batch = encoder.grouped(intersect(batch, pairs_of(list(batch.groups), intersections)), table)
        if like is not None and like.regions is not None:
            batch, regions = in_regions(batch, like.regions, encoder.numbers(table)), like.regions
            reader = replace(reader, regions=regions)
        elif checked_search(search):
            batch, regions = searched(batch, encoder.numbers(table), seed)
            reader = replace(reader, regions=regions)
        sums = Sums.of(batch, tuple(encoder.coordinates), Levels.declare(levels), reader)
        return cls.__new__(cls)._hold(sums, title, seed)

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
        clusters: str | None = None,
        levels: int | Sequence[float] | None = None,
        title: str = "Audit",
        seed: int = 0,
        like: "Audit | Encoder | None" = None,
        intersections: int | None = None,
        search: str | None = None,
    ) -> Self:
        """Audit the named columns of a pandas, polars or pyarrow table, or of a source larger than memory.

        `issued` names the columns low, high and weight of the issued distribution. More tables with the same
        columns go in through `add`. A duckdb relation, a polars LazyFrame and a pyarrow dataset are read in batches,
        twice: once for the scales of the features, unless `like` has them, and once for the sums. A pyarrow
        RecordBatchReader can be read once only: the scales are those of its first batch.

        Examples
        --------
        >>> frame = {"score": [0.1, 0.9], "bought": [0, 1], "age": [30, 50]}
        >>> audit = Audit.from_frame(frame, prob="score", target="bought", features=["age"])
        >>> audit.add(frame)
        >>> audit.n
        4.0
        """
        reader = AuditColumns(prob, target, tuple(features), tuple(groups), weights, time, issued, clusters)
        encoder = like.encoder if isinstance(like, Audit) else like
        reader = replace(reader, regions=like.regions) if isinstance(like, Audit) else reader
        pairs, proposed_by = pairs_of(groups, intersections), None if checked_search(search) is None else seed
        sums = Sums.of_frame(frame, reader, encoder, Levels.declare(levels), pairs, proposed_by)
        return cls.__new__(cls)._hold(sums, title, seed)

    @classmethod
    def from_sums(cls, answer: Any, *, title: str = "Audit", seed: int = 0) -> Self:
        """Audit rows that stay in a database, by the answer of the query that `swapcal audit --sql` prints.

        The sums are those of `from_frame`, so the two add up if they share the encoding (`like=`). What needs rows is
        left out: intervals of Brier score and log loss, curves along features, likenesses, prices of decisions.

        Parameters
        ----------
        answer : a table with the answer's columns, in any order of rows
        title, seed : as in the constructor

        Examples
        --------
        >>> import duckdb
        >>> from swapcal.audit.sql import SqlAudit
        >>> from swapcal.tables.frame import JudgedColumns
        >>> rows = duckdb.sql("SELECT 0.3 AS p, i % 2 AS y FROM range(100) AS t(i)")
        >>> answer = duckdb.sql(SqlAudit("duckdb", "rows", JudgedColumns("p", "y")).query())
        >>> audit = Audit.from_sums(answer)
        >>> audit.n, round(audit.worst_gap(), 3)
        (100.0, 0.2)
        """
        return cls.__new__(cls)._hold(sums_of_answer(answer), title, seed)

    def add(self, batch: Any = None, /, **columns: Any) -> None:
        """Add rows: a table with the columns of `from_frame`, or arrays by name as in the constructor.

        A rejected batch leaves the audit as it was.

        Examples
        --------
        >>> audit = Audit([0.3], [0])
        >>> audit.add(p=[0.6], y=[1])
        >>> audit.n
        2.0
        """
        if batch is not None and not isinstance(batch, AuditRows):
            batch = self.read(batch)
        elif batch is None:
            batch = self.batch(**columns)
        self.sums.add(batch)
        self._evidence = None

    def widen(self, names: Sequence[str]) -> None:
        """Add coordinates that appear later in a stream, 0 in all rows so far; `names` are those of all coordinates.

        Examples
        --------
        >>> audit = Audit([0.3], [0], [[0.5]])
        >>> audit.widen(["constant", "late"])
        >>> audit.add(p=[0.6], y=[1], X=[[0.5, 0.2]])
        >>> len(audit.coordinates)
        2
        """
        self.sums.widen(_named(names, len(names)))
        self._evidence = None

    def read(self, frame: Any) -> AuditRows:
        """Return the rows of a table as `add` takes them. Adds nothing, so several threads may read at once."""
        if self.sums.reader is None:
            raise TypeError("batch: given a table, expected arrays by name, as this audit was made: add(p=…, y=…, X=…)")
        return self.sums.reader.read(Table(frame))

    def batch(self, **columns: Any) -> AuditRows:
        """Return rows given as arrays, checked and encoded like the rows of this audit."""
        if "features" not in columns:
            return AuditRows.check(**columns)
        table = Table(columns.pop("features"))
        batch = self.encoder.grouped(self.encoder.batch(table, columns), table)
        return batch if self.regions is None else in_regions(batch, self.regions, self.encoder.numbers(table))

    def __add__(self, other: "Audit") -> Self:
        """Return the audit of both sets of rows together."""
        if not isinstance(other, Audit):
            return NotImplemented
        return type(self).__new__(type(self))._hold(self.sums + other.sums, self.title, self.seed)

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self).__new__(type(self))._hold(deepcopy(self.sums), self.title, self.seed)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the audit to one file, atomically; the loaded audit reports the same and can be added to others.

        Examples
        --------
        >>> import tempfile
        >>> shards = [Audit([0.3, 0.6], [0, 1], groups=["a", "b"]), Audit([0.3], [1], groups=["b"])]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     shards[0].save(f"{folder}/first.audit")
        ...     whole = Audit.load(f"{folder}/first.audit") + shards[1]
        >>> whole.n
        3.0
        """
        archive.write(path, file.FILE, *state.state_of(self.sums, self.title, self.seed))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return the audit saved at `path`. Raises ArchiveError if the file is damaged or not that of an audit."""
        return archive.load(path, file.FILE, cls._restored)

    @classmethod
    def _restored(cls, saved: archive.State) -> Self:
        title, seed = saved.manifest["title"], saved.manifest["seed"]
        return cls.__new__(cls)._hold(state.sums_of(*saved), title, seed)

    @property
    def n(self) -> float:
        """Total weight of the rows."""
        return self.sums.n

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.sums.rows

    @property
    def levels(self) -> Levels:
        """The levelling rule in force."""
        return self.sums.levels

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """Meaning of every coordinate of a context."""
        return self.sums.coordinates

    @property
    def reader(self) -> AuditColumns | None:
        """Roles of the columns; None for an audit of arrays."""
        return self.sums.reader

    @property
    def regions(self) -> Regions | None:
        """The regions that a search proposed; None if there was none, or for an audit of arrays or from a file."""
        return None if self.sums.reader is None else self.sums.reader.regions

    @property
    def encoder(self) -> Encoder:
        """The encoding of raw features. Raises ValueError if the audit was made from contexts."""
        if self.sums.reader is None or self.sums.reader.encoder is None:
            raise ValueError("encoding: given an audit made from contexts, expected one made from features")
        return self.sums.reader.encoder

    @property
    def evidence(self) -> Evidence:
        """The sums compared with what chance alone would give."""
        if self._evidence is None:
            self._evidence = Evidence(self.sums, self.seed)
        return self._evidence

    @property
    def theory(self) -> TheoryMeasures:
        """The errors of the theorems: SMCal, MCal, Cal, SReg, SOmni, with witnesses and noise floors.

        Examples
        --------
        >>> Audit([0.5] * 4, [1, 1, 0, 1]).theory.cal(1)
        1.0
        """
        return TheoryMeasures(self.sums, lambda: self.evidence)

    @property
    def conventional(self) -> ConventionalMeasures:
        """Calibration slope and intercept, O:E, net benefit, isotonic reliability, debiased ECE, ATB, cutoff error."""
        return ConventionalMeasures(self.sums, self.seed)

    def ece(self) -> float:
        """Return the expected calibration error over the levels: Cal_1 per row."""
        return curves.ece(self.sums)

    def smooth_ece(self) -> float:
        """Return the smooth calibration error, from the rows if all are kept, else from the histogram."""
        return curves.smooth_ece(self.sums)

    def brier(self) -> float:
        """Return the mean squared error."""
        return curves.brier(self.sums)

    def brier_split(self) -> tuple[float, float]:
        """Return the calibration and the refinement part of the Brier score, which is their sum.

        The calibration part is the improvement from shifting every level by its mean residual.
        """
        return curves.brier_split(self.sums)

    def log_loss(self) -> float:
        """Return the mean log loss in nats, with probabilities kept 10⁻⁶ away from 0 and 1 (`kernels.logloss`)."""
        return curves.log_loss(self.sums)

    def auc(self) -> tuple[float | None, float]:
        """Return the area under the ROC curve, None with one class only, and the largest error due to binning.

        That error is 0 if every distinct prediction is kept.
        """
        return curves.auc(self.sums)

    def test(self) -> Noise:
        """Return the scan statistic: the largest standardised residual over groups, features and prediction ranges.

        Its p-value tests "the predictions are right", simultaneously over everything examined.
        """
        return self.evidence.test()

    def findings(self, most: int = 10) -> list[Finding]:
        """Return the worst cells of the scan, one per group or feature, with simultaneous p-values and intervals.

        The most significant comes first.
        """
        return self.evidence.findings(most)

    def largest(self) -> Finding | None:
        """Return the cell with the largest certain error: the largest lower end of its interval; None if none is."""
        return self.evidence.largest()

    def verdict(self, tolerance: float = TOLERANCE) -> Verdict:
        """Return the verdict: whether errors exceed chance, how large they are, and whether that is tolerable.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> p = rng.random(4000)
        >>> Audit(p, rng.random(4000) < p).verdict().word
        'no error found'
        >>> verdict = Audit(p, rng.random(4000) < p ** 2).verdict()
        >>> verdict.word, 0.1 < verdict.low < 0.25 < verdict.high
        ('miscalibrated', True)
        """
        return self.evidence.verdict(checked_tolerance(tolerance))

    def worst_gap(self, alpha: float = ALPHA) -> float:
        """Return the largest significant |mean of y − p| of a group and prediction range."""
        return self.evidence.sizes.widest_gap(alpha)

    def group_table(self, tolerance: float = TOLERANCE) -> list[GroupRow]:
        """Return every group's size, means, gap, interval and verdict, simultaneous over everything examined."""
        return self.evidence.group_table(checked_tolerance(tolerance))

    def around(self, p: float, groups: Mapping[str, Any] | None = None) -> list[ObservedRate]:
        """Return how often outcomes happened among the rows whose predictions were like p.

        The rates are those of the rows on p's level, of these rows in each of the groups given, and of each group as a
        whole, with separate 95 % intervals for independent rows. Raises ValueError if clusters were named.

        Parameters
        ----------
        p : one prediction
        groups : category by column, for instance of one record; columns that were not audited are ignored

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> p, shift = rng.choice([0.2, 0.5], 4000), rng.choice(["day", "night"], 4000)
        >>> audit = Audit(p, rng.random(4000) < p + 0.1 * (shift == "night"), groups={"shift": shift})
        >>> for rate in audit.around(0.2, {"shift": "night"}):
        ...     print(rate)
        forecasts of 0.2: 25.7 % of 1,971 rows (23.8 to 27.6 %)
        shift = night, forecasts of 0.2: 29.1 % of 945 rows (26.3 to 32.1 %)
        shift = night: 44.3 % of 1,967 rows (42.1 to 46.5 %)
        """
        if self.sums.tally.clusters is not None:
            raise ValueError("around: given an audit with clusters, expected independent rows: its intervals need them")
        return observed_around(self.sums, p, groups or {})

    def to_frame(self, kind: str = "groups", *, backend: str = "pandas", tolerance: float = TOLERANCE) -> Any:
        """Return a table of the audit as a DataFrame.

        Parameters
        ----------
        kind : "groups", as `group_table`; "findings", as `findings`; "reliability", the curve of the report; or
            "net_benefit", the decision curve
        backend : "pandas", "polars", "pyarrow", or "dict" for a dict of lists
        tolerance : largest gap called small, in the verdicts of the groups

        Examples
        --------
        >>> audit = Audit([0.2, 0.7, 0.2], [0, 1, 1], groups={"shift": ["day", "day", "night"]})
        >>> audit.to_frame(backend="dict")["name"]
        ['shift = day', 'shift = night']
        """
        tables: dict[str, tuple[type, Callable[[], Sequence[Any]]]] = {
            "groups": (GroupRow, lambda: self.group_table(tolerance)),
            "findings": (Finding, self.findings),
            "reliability": (Level, lambda: reliability(self.evidence)),
            "net_benefit": (NetBenefitPoint, lambda: self.conventional.net_benefit()),
        }
        if kind not in tables:
            raise ValueError(f"kind: given {kind!r}, expected one of {', '.join(tables)}")
        record, rows = tables[kind]
        names = list(getattr(record, "_fields", None) or (each.name for each in fields(record)))
        return made_frame(columns_from(({n: getattr(row, n) for n in names} for row in rows()), names), backend)

    def to_findings(
        self,
        *,
        certificate: Mapping[str, Any] | None = None,
        losses: Sequence[Loss | str] = (),
        created_at: str = "",
        tolerance: float = TOLERANCE,
        titles: Any = None,
    ) -> Findings:
        """Return all findings as one frozen record (see `swapcal.report.findings`): aggregates only, no rows.

        `to_dict`, `to_json`, `to_html` and `to_card` show the same.

        Parameters
        ----------
        certificate : fields of a forecaster's certificate by name, shown with the observed errors
        losses : costs, as `Loss` or text such as "pinball:0.9", whose decisions are priced and certified
        created_at : when the audit was made; equal inputs give equal findings
        tolerance : largest error called small, as a difference of probabilities; see `verdict`
        titles : what columns and values are called in words: `Titles`, a mapping like its file, or the file's path
        """
        named = TitleIndex(self.sums, Titles.of(titles))
        allowed = checked_tolerance(tolerance)
        return assemble(self.title, self.evidence, certificate, losses, created_at, allowed, named)

    def to_dict(
        self,
        *,
        certificate: Mapping[str, Any] | None = None,
        losses: Sequence[Loss | str] = (),
        created_at: str = "",
        tolerance: float = TOLERANCE,
        titles: Any = None,
    ) -> dict[str, Any]:
        """Return `to_findings` as plain data: dicts, lists, text, numbers and None."""
        return self.to_findings(
            certificate=certificate, losses=losses, created_at=created_at, tolerance=tolerance, titles=titles
        ).to_dict()

    def to_json(self, path: str | PathLike[str] | None = None, **settings: Unpack[AuditSettings]) -> str:
        """Return `to_dict` as JSON, with the same content as the report, and write it if a path is given."""
        return written(self.to_findings(**settings).to_json(), path)

    def to_html(self, path: str | PathLike[str] | None = None, **settings: Unpack[AuditSettings]) -> str:
        """Return the report as one self-contained HTML page, and write it if a path is given; settings of `to_dict`."""
        return written(render(self.to_findings(**settings)), path)

    def to_card(self, path: str | PathLike[str] | None = None, **settings: Unpack[AuditSettings]) -> str:
        """Return the model card as Markdown, and write it if a path is given; as HTML if the path ends in .html.

        `settings` are those of `to_dict`.

        Examples
        --------
        >>> Audit([0.2, 0.7], [0, 1], title="Rain").to_card().splitlines()[2]
        '## Verdict'
        """
        return written(card(self.to_findings(**settings), html=as_page(path)), path)

    def plot(
        self,
        kind: str = "reliability",
        *,
        most: int = 20,
        tolerance: float = TOLERANCE,
        titles: Any = None,
        feature: str | None = None,
        ax: Any = None,
    ) -> Any:
        """Plot forecasts against outcomes, and return the matplotlib axes.

        Parameters
        ----------
        kind : "reliability", the observed frequency of every level against its mean forecast, with the 95 % band of
            chance; "groups", the gap of each group with its simultaneous 95 % interval, the most significant on top;
            or "number", the gap along a number
        most : groups drawn
        titles : titles of columns and values: `Titles`, a mapping like its file, or the file's path
        tolerance : largest gap called small
        feature : the number along which gaps are drawn; by default the most significant
        ax : axes to draw on; by default those of a new figure. Needs matplotlib, the extra ``plot``.
        """
        if kind == "reliability":
            return plots.reliability(reliability(self.evidence), self.title, ax=ax)
        if kind not in ("groups", "number"):
            raise ValueError(f'kind: given {kind!r}, expected "reliability", "groups" or "number"')
        named = TitleIndex(self.sums, Titles.of(titles))
        if kind == "number":
            curves = {one.name: one for one in number_curves(self.evidence, checked_tolerance(tolerance), named)}
            if not curves or (feature is not None and feature not in curves):
                known = ", ".join(curves) or "numeric features, of which this audit has none"
                raise ValueError(f"feature: given {feature!r}, expected one of {known}")
            return plots.number(curves[feature or next(iter(curves))], ax=ax)
        entries = group_entries(self.evidence, checked_tolerance(tolerance), named)
        return plots.groups(entries, tolerance, self.title, most=most, ax=ax)

    def __repr__(self) -> str:
        """Return the numbers of rows, groups and features, and the verdict if its simulation has been run already."""
        groups = sum(len(column.names) for column in self.sums.tally.groups.values())
        counts = {"row": self.rows, "group": groups, "feature": len(self.coordinates) - 1}
        sizes = [counted(number, noun) for noun, number in counts.items() if number or noun == "row"]
        verdict = [] if self._evidence is None else [str(self.verdict().word)]
        return f"Audit({', '.join(sizes + verdict)})"

    def _repr_html_(self) -> str:
        scores = {"Brier score": f"{self.brier():.4g}", "log loss": f"{self.log_loss():.4g}"}
        findings = self.findings(1)
        worst = {"most significant finding": f"{findings[0].name}: {findings[0].size}"} if findings else {}
        return display(self.title, self.verdict().sentence, {"rows": self.rows, **scores, **worst})


def _one_of(name: str, value: Any, other: str, same: Any) -> Any:
    """Return the argument given under one of its two names. Raises TypeError unless exactly one is given."""
    if (value is None) == (same is None):
        given = "nothing" if value is None else f"both {name} and {other}"
        raise TypeError(f"{name}: given {given}, expected {name} or, as scikit-learn calls it, {other}")
    return same if value is None else value


def _named(names: Sequence[str] | None, d: int) -> tuple[Coordinate, ...]:
    """Return the coordinates of contexts that are given directly: their units are their own."""
    tail = [f"x{j}" for j in range(2, d + 1)] if names is None else list(names)
    if len(tail) == d:
        tail = tail[1:]
    if len(tail) != d - 1:
        raise ValueError(
            f"names: given {len(tail)}, expected {d}, one for each coordinate of X, or all but the constant"
        )
    return (Coordinate("constant", 0.5, 0.0, None), *(Coordinate(name, 1.0, 0.0, None) for name in tail))


def _matrix(features: Any, names: Sequence[str] | None) -> dict[str, Any]:
    array = np.asarray(features)
    if array.ndim != 2:
        raise ValueError(f"features: given shape {array.shape}, expected a table or a (rows, columns) matrix")
    columns = [f"feature {j}" for j in range(array.shape[1])] if names is None else list(names)
    if len(columns) != array.shape[1]:
        raise ValueError(f"names: given {len(columns)}, expected one for each of {array.shape[1]} features")
    return dict(zip(columns, array.T, strict=True))
