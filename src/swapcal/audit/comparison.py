"""Two predictors of the same rows side by side, and their difference in sentences."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Self, Unpack

import numpy as np

from swapcal._display import counted, display, named
from swapcal.archive import written
from swapcal.audit.audit import Audit, AuditOptions
from swapcal.audit.clusters import LEAST_CLUSTERS
from swapcal.audit.difference import LEAST_EVENTS, Pairs, differences, group_differences
from swapcal.audit.findings import ReportSettings, assemble, score_entry
from swapcal.audit.rows import AuditRows, Encoder, intersections_of
from swapcal.audit.text import TitleIndex, Titles, chance, listed
from swapcal.audit.verdict import ALPHA, TOLERANCE, checked_tolerance
from swapcal.losses import Loss
from swapcal.report import Findings, card, render
from swapcal.report.card import as_page
from swapcal.report.findings import ComparedPredictor, ComparisonEntry, Difference, GroupDifference
from swapcal.tables.frame import JudgedColumns, Table, is_table, made_frame

# A comparison as findings, and in sentences for readers without statistics.

MOST_GROUPS = 100

METHOD = (
    "Both predictors are judged on the same rows, so differences are taken row by row, with the {unit} as the unit of "
    "resampling: {meaning}. Intervals and p-values of the scores stand alone; those of single groups allow for all "
    "groups tested at once (Bonferroni). The calibration loss is estimated without the bias that noise gives, over the "
    "same ranges of forecasts for both."
)
BY_ROW = {
    "unit": "row",
    "meaning": "rows are taken to be independent, and a row of weight 2 counts as twice its difference",
}
BY_CLUSTER = {"unit": "cluster", "meaning": "clusters are taken to be independent of each other, their rows are not"}


def compared(
    names: tuple[str, str],
    findings: tuple[Findings, Findings],
    scores: Sequence[Difference],
    groups: Sequence[GroupDifference],
    titles: TitleIndex,
    *,
    clustered: bool = False,
) -> ComparisonEntry:
    """Return the findings of a comparison."""
    shown = sorted(groups, key=_doubt)[:MOST_GROUPS]
    titled = titles(names[0]), titles(names[1])
    called = [_called(one, titles) for one in scores]
    return ComparisonEntry(
        sentence=sentence(titled, called),
        predictors=tuple(_predictor(name, entry, titles) for name, entry in zip(names, findings, strict=True)),
        scores=tuple(_score(titled, one, title) for one, title in zip(scores, called, strict=True)),
        groups=tuple(replace(one, title=titles.title(one.name)) for one in shown),
        groups_sentence=groups_sentence(titled, groups),
        groups_examined=sum(not one.small for one in groups),
        groups_small=sum(one.small for one in groups),
        method=METHOD.format(**BY_CLUSTER if clustered else BY_ROW),
    )


def _doubt(row: GroupDifference) -> tuple[float, float, str]:
    p_values = [p for p in (row.gap_p, row.loss_p) if p is not None]
    return min(p_values, default=2.0), -abs(row.gap_change), row.name


def _called(score: Difference, titles: TitleIndex) -> Difference:
    """Return a score with the title of its column instead of the name."""
    start = "calibration loss within "
    column = score.name.removeprefix(start)
    if column == score.name:
        return score
    meaning = score.meaning.replace(f"group of {column} by", f"group of {titles(column)} by")
    return replace(score, name=start + titles(column), meaning=meaning)


def _predictor(name: str, findings: Findings, titles: TitleIndex) -> ComparedPredictor:
    return ComparedPredictor(
        name=name,
        title=titles.title(name),
        verdict=findings.headline.verdict,
        sentence=findings.headline.sentence,
        low=findings.headline.low,
        high=findings.headline.high,
        p_value=findings.headline.p_value,
        scores=findings.scores,
        reliability=findings.reliability,
    )


def _score(names: tuple[str, str], one: Difference, called: Difference) -> Difference:
    title = None if called.name == one.name else called.name
    return replace(called, name=one.name, title=title, sentence=score_sentence(names, called))


def score_sentence(names: tuple[str, str], one: Difference) -> str:
    """Return a sentence on how two predictors differ by one score.

    Examples
    --------
    >>> score_sentence(("old", "new"), Difference("log loss", "…", 0.5, 0.48, -0.02, -0.03, -0.01, 0.01, "better"))
    'Log loss, new against old: 0.48 against 0.5, 4 % lower (95 % interval 2 to 6 %, p = 0.01).'
    """
    before, after = names
    if one.word == "no difference found":
        span = f"95 % interval of the difference {_signed(one.low)} to {_signed(one.high)}"
        return (
            f"No significant difference in {one.name} between {after} and {before} "
            f"({one.after:.4g} against {one.before:.4g}; {span}, {_chance(one.p_value)})."
        )
    return f"{one.name[0].upper()}{one.name[1:]}, {after} against {before}: {_figures(one)}."


def _figures(one: Difference) -> str:
    """Return both values and their difference, in percent of the first where its size allows.

    An estimate with the noise removed can be below 0: then the difference stands alone.
    """
    near, far = sorted((abs(one.low), abs(one.high)))
    share = one.before > far
    size, low, high = (100.0 * x / one.before if share else x for x in (abs(one.difference), near, far))
    unit, way = " %" if share else "", "lower" if one.difference < 0 else "higher"
    both = f"{one.after:.4g} against {one.before:.4g}, " if min(one.before, one.after) >= 0.0 else ""
    return f"{both}{size:.2g}{unit} {way} (95 % interval {low:.2g} to {high:.2g}{unit}, {_chance(one.p_value)})"


def sentence(names: tuple[str, str], scores: Sequence[Difference]) -> str:
    """Return a sentence on which of two predictors is better, by Brier score and log loss."""
    before, after = names
    brier, log_loss, *calibration = scores
    sure = _sure((brier, log_loss))
    if not sure:
        ends = " and ".join(f"{one.name} {_chance(one.p_value)}" for one in (brier, log_loss))
        start = f"No significant difference between the scores of {after} and {before} ({ends})."
    elif len({one.word for one in sure}) == 2:
        start = (
            f"The scores disagree: {after} is {brier.word} than {before} by the Brier score and {log_loss.word} by the "
            "log loss."
        )
    else:
        start = f"{after} is {sure[0].word} than {before}: {sure[0].name} {_figures(sure[0])}."
    return start + "".join(_calibrations(_sure(calibration), word) for word in ("better", "worse"))


def _sure(scores: Sequence[Difference]) -> list[Difference]:
    """Return the differences that are significant after correction for the number of these scores."""
    return [one for one in scores if one.word != "no difference found" and one.p_value <= ALPHA / len(scores)]


def _calibrations(scores: Sequence[Difference], word: str) -> str:
    scopes = [one.name.removeprefix("calibration loss").strip() or "overall" for one in scores if one.word == word]
    within = [name.removeprefix("within ") for name in scopes if name != "overall"]
    places = (["overall"] if "overall" in scopes else []) + ([f"within {listed(within)}"] if within else [])
    return f" Its calibration is {word} {' and '.join(places)}." if places else ""


def groups_sentence(names: tuple[str, str], groups: Sequence[GroupDifference]) -> str:
    """Return a sentence on how many groups are significantly better or worse."""
    if not groups:
        return ""
    small = sum(one.small for one in groups)
    better, worse = (sum(one.word == word for one in groups) for word in ("better", "worse"))
    few = f"fewer than {LEAST_EVENTS:g} expected outcomes of the rarer kind"
    few += f", or than {LEAST_CLUSTERS} clusters" if any(one.clusters is not None for one in groups) else ""
    left = f"{counted(small, 'group')} {'is' if small == 1 else 'are'} too small to be tested ({few})."
    if small == len(groups):
        return left
    return (
        f"Of {counted(len(groups) - small, 'group')} tested, {better:,} are significantly better under {names[1]} than "
        f"under {names[0]}, {worse:,} worse (corrected for their number, {100 * ALPHA:g} % overall)."
    ) + (f" {left}" if small else "")


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")


def _chance(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else chance(p_value)


# Comparison: two predictors of the same rows side by side, and their difference tested.

NAMES = ("before", "after")


class Comparison:
    """Two predictors of the same rows, before and after: an `Audit` of each, and paired tests of the differences.

    Scores (Brier, log loss, calibration loss over all rows and within groups) are compared by paired tests with the row
    as the unit, or the cluster where there are any: units are taken to be independent, and weights count as such. Each
    difference has one p-value and a 95 % interval that stands alone; those of single groups allow for all groups (see
    `swapcal.audit.difference`). Everything is kept as sums over rows, so comparisons of parts add up.

    Parameters
    ----------
    before, after : (rows,) predictions in [0, 1]
    y : (rows,) outcomes in [0, 1]
    features : raw features of the rows: a table, a mapping of columns, or a matrix
    groups : labels per row: a mapping or table of categorical columns, or one column
    weights : (rows,) positive, default 1
    time : (rows,) numbers or dates
    clusters : (rows,) ids of what rows belong to, such as patients: rows of one id may depend on each other
    levels : number of intervals of predictions, or their edges from 0 to 1; by default each value is a level of its
        own up to 256 values, else 51 intervals
    title, seed : heading of the report; seed of the simulated noise floor
    intersections : 2 to examine the intersections of every two columns of `groups` as groups too
    names : names of the two predictors

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth, night = rng.random(4000), rng.random(4000) < 0.3
    >>> y = rng.random(4000) < truth
    >>> comparison = Comparison(np.clip(truth - 0.2 * night, 0, 1), truth, y, groups={"night": night})
    >>> [(one.name, one.word) for one in comparison.differences()][:2]
    [('Brier score', 'better'), ('log loss', 'better')]
    >>> [(one.name, one.word) for one in comparison.groups()]
    [('night = false', 'no difference found'), ('night = true', 'better')]
    """

    def __init__(
        self,
        before: Any,
        after: Any,
        y: Any,
        *,
        features: Any = None,
        groups: Any = None,
        weights: Any = None,
        time: Any = None,
        clusters: Any = None,
        names: tuple[str, str] = NAMES,
        levels: int | Sequence[float] | None = None,
        title: str = "Comparison",
        seed: int = 0,
        intersections: int | None = None,
    ) -> None:
        rows: dict[str, Any] = {"y": y, "groups": groups, "weights": weights, "time": time, "clusters": clusters}
        given: AuditOptions = {"levels": levels, "title": title, "seed": seed, "intersections": intersections}
        if features is None:
            audits = Audit(before, **rows, **given), Audit(after, **rows, **given)
        else:
            first = Audit.from_features(before, features=features, **rows, **given)
            audits = first, Audit.from_features(after, features=features, like=first, **rows, **given)
        self._hold(*audits, Pairs(), two(names, "names"))
        self._pair(*self._batches({"before": before, "after": after, "features": features, **rows}))

    def _hold(self, before: Audit, after: Audit, pairs: Pairs, names: tuple[str, str]) -> Self:
        self.before, self.after, self.pairs, self.names = before, after, pairs, names
        return self

    def _pair(self, before: AuditRows, after: AuditRows) -> None:
        groups = self.before.sums.crossed(before).groups
        self.pairs.add(before.p, after.p, before.y, before.weights, groups, before.clusters)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        probs: Sequence[str],
        target: str,
        features: Sequence[str] = (),
        groups: Sequence[str] = (),
        weights: str | None = None,
        time: str | None = None,
        clusters: str | None = None,
        levels: int | Sequence[float] | None = None,
        title: str = "Comparison",
        seed: int = 0,
        like: Audit | Encoder | None = None,
        intersections: int | None = None,
    ) -> Self:
        """Compare two columns of predictions of a table; the predictors are named after their columns.

        Examples
        --------
        >>> frame = {"old": [0.1, 0.4], "new": [0.2, 0.9], "y": [0, 1]}
        >>> comparison = Comparison.from_frame(frame, probs=["old", "new"], target="y")
        >>> comparison.add(frame)
        >>> comparison.after.n, comparison.names
        (4.0, ('old', 'new'))
        """
        names = two(probs, "probs")
        columns = JudgedColumns(names[0], target, tuple(features), tuple(groups), weights, time, clusters=clusters)
        for name in names:
            replace(columns, prob=name).check_roles()
        given: AuditOptions = {"levels": levels, "title": title, "seed": seed, "intersections": intersections}
        before = Audit.from_frame(frame, prob=names[0], like=like, **columns.shared, **given)
        after = Audit.from_frame(frame, prob=names[1], like=before, **columns.shared, **given)
        made = cls.__new__(cls)._hold(before, after, Pairs(), names)
        made._pair(*made.read(frame))
        return made

    def add(self, batch: Any = None, /, **columns: Any) -> None:
        """Add rows: a table with the columns of `from_frame`, or arrays by name as in the constructor.

        A rejected batch leaves the comparison as it was.

        Examples
        --------
        >>> comparison = Comparison([0.1, 0.4], [0.2, 0.9], [0, 1])
        >>> comparison.add(before=[0.3], after=[0.2], y=[0])
        >>> comparison.after.n
        3.0
        """
        before, after = self._batches(columns) if batch is None else self.read(batch)
        self.before.add(before)
        self.after.add(after)
        self._pair(before, after)

    def read(self, frame: Any) -> tuple[AuditRows, AuditRows]:
        """Return the rows of a table as `add` takes them: under the first predictor and under the second."""
        if isinstance(frame, tuple):
            return frame
        if self.before.reader is None:
            raise TypeError("batch: given a table, expected arrays by name: add(before=…, after=…, y=…)")
        return self.before.read(frame), self.after.read(frame)

    @property
    def encoder(self) -> Encoder:
        """The encoding of features as contexts, shared by both predictors."""
        return self.before.encoder

    def _batches(self, columns: dict[str, Any]) -> tuple[AuditRows, AuditRows]:
        rows = {name: given for name, given in columns.items() if name not in NAMES and given is not None}
        before, after = (audit.batch(p=columns[name], **rows) for name, audit in self._named())
        return before, after

    def _named(self) -> tuple[tuple[str, Audit], tuple[str, Audit]]:
        return (NAMES[0], self.before), (NAMES[1], self.after)

    def __add__(self, other: "Comparison") -> Self:
        """Return the comparison on both sets of rows together."""
        if not isinstance(other, Comparison):
            return NotImplemented
        if other.names != self.names:
            raise ValueError(f"names: given {other.names}, expected {self.names} like the comparison it is added to")
        audits = self.before + other.before, self.after + other.after
        return type(self).__new__(type(self))._hold(*audits, self.pairs + other.pairs, self.names)

    def differences(self) -> list[Difference]:
        """Return the scores of both, with paired tests: Brier, log loss, calibration loss, and the latter in groups."""
        made = {pair.name for pair in intersections_of(self.pairs.columns)}
        return differences(self.pairs, [name for name in sorted(self.pairs.columns) if name not in made])

    def groups(self) -> list[GroupDifference]:
        """Return every group under both; intervals and p-values allow for all groups at once.

        Intersections too small to be tested are left out.
        """
        made = tuple(f"{pair.name} = " for pair in intersections_of(self.pairs.columns))
        rows = group_differences(self.pairs)
        return [row for row in rows if not (row.small and row.name.startswith(made))] if made else rows

    def sentence(self) -> str:
        """Return a sentence on which of the two is better, with intervals and p-values."""
        return sentence(self.names, self.differences())

    def __repr__(self) -> str:
        return f"Comparison({counted(self.after.rows, 'row')}: {self.names[0]} and {self.names[1]})"

    def _repr_html_(self) -> str:
        changed = {one.name: f"{one.before:.4g} → {one.after:.4g}, {one.word}" for one in self.differences()}
        return display(self.before.title, self.sentence(), changed)

    def to_findings(
        self,
        *,
        losses: Sequence[Loss | str] = (),
        created_at: str = "",
        tolerance: float = TOLERANCE,
        titles: Any = None,
    ) -> Findings:
        """Return the findings of `after` with a section "comparison": both predictors, and every difference tested."""
        checked = Titles.of(titles)
        named = [TitleIndex(audit.sums, checked, self.names) for audit in (self.before, self.after)]
        allowed = checked_tolerance(tolerance)
        before, after = (
            assemble(audit.title, audit.evidence, None, priced, created_at, allowed, titled)
            for audit, priced, titled in zip((self.before, self.after), ((), losses), named, strict=True)
        )
        clustered = self.pairs.clusters is not None
        comparison = compared(
            self.names, (before, after), self.differences(), self.groups(), named[1], clustered=clustered
        )
        return replace(after, comparison=comparison)

    def to_dict(
        self,
        *,
        losses: Sequence[Loss | str] = (),
        created_at: str = "",
        tolerance: float = TOLERANCE,
        titles: Any = None,
    ) -> dict[str, Any]:
        """Return `to_findings` as plain data: dicts, lists, text, numbers and None."""
        return self.to_findings(losses=losses, created_at=created_at, tolerance=tolerance, titles=titles).to_dict()

    def to_json(self, path: str | PathLike[str] | None = None, **settings: Unpack[ReportSettings]) -> str:
        """Return `to_dict` as JSON, with the same content as the report, and write it if a path is given."""
        return written(self.to_findings(**settings).to_json(), path)

    def to_html(self, path: str | PathLike[str] | None = None, **settings: Unpack[ReportSettings]) -> str:
        """Return the report, headed by the comparison, as one HTML page, and write it if a path is given."""
        return written(render(self.to_findings(**settings)), path)

    def to_card(self, path: str | PathLike[str] | None = None, **settings: Unpack[ReportSettings]) -> str:
        """Return the model card of `after`, with the comparison; Markdown, or HTML if the path ends in .html."""
        return written(card(self.to_findings(**settings), html=as_page(path)), path)


def two(names: Sequence[str], argument: str) -> tuple[str, str]:
    """Return two different names.

    Examples
    --------
    >>> two(["old", "old"], "probs")
    Traceback (most recent call last):
    ValueError: probs: given old, old, expected two different names
    """
    if len(names) != 2 or names[0] == names[1] or isinstance(names, str):
        raise ValueError(f"{argument}: given {', '.join(names) or 'none'}, expected two different names")
    return names[0], names[1]


MOST_CLASSES = 50
"""An audit's p-value is at least 0.001: of more classes none can reach 5 % after the correction."""


class ClassAudits:
    """Predictions of several classes: an `Audit` of each class against the rest, and one test over all of them.

    A class's p-value is that of its audit, simultaneous over its groups, features and ranges, then corrected for the
    number of classes (Holm): the probability that a class whose predictions are right is rejected is at most 5 %.
    With more than `MOST_CLASSES` classes none can be rejected, which the sentence states.

    Parameters
    ----------
    P : (rows, classes) predicted probabilities
    y : (rows,) labels
    classes : labels in the order of the columns; by default the names of the columns of a table, else the sorted labels
        that occur
    columns : groups, weights, time, levels, title, seed and so on, as `Audit` takes them

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> P = rng.dirichlet([2, 3, 4], 3000)
    >>> y = np.array(["bus", "car", "walk"])[(rng.random(3000)[:, None] > P.cumsum(axis=1)).sum(axis=1)]
    >>> fair = ClassAudits(P, y)
    >>> fair.condemned(), [(name, round(audit.n)) for name, audit in fair.audits.items()]
    ([], [('bus', 3000), ('car', 3000), ('walk', 3000)])
    >>> swapped = ClassAudits(P[:, [0, 2, 1]], y)
    >>> swapped.condemned()
    ['car', 'walk']
    """

    def __init__(self, P: Any, y: Any, classes: Sequence[Any] | None = None, **columns: Any) -> None:
        given, labels = np.asarray(P, dtype=np.float64), np.asarray(y)
        named_columns = Table(P).columns if is_table(P) else None
        seen = labels.tolist() if labels.ndim == 1 else []
        known = list(dict.fromkeys(named_columns or sorted(set(seen)))) if classes is None else list(classes)
        if given.ndim != 2 or given.shape[1] != len(known):
            raise ValueError(f"P: given shape {given.shape}, expected a column for each of {len(known)} classes")
        if labels.shape != given.shape[:1]:
            raise ValueError(f"y: given shape {labels.shape}, expected ({len(given)},), a label for each row")
        strange = [label for label in dict.fromkeys(seen) if label not in known]
        if strange:
            raise ValueError(f"y: given {strange[0]!r}, expected one of the classes {known[:12]}")
        self.audits = {str(name): Audit(given[:, k], labels == name, **columns) for k, name in enumerate(known)}
        if len(self.audits) < len(known):
            raise ValueError(f"classes: given {known[:12]}, expected different names")

    def p_values(self) -> dict[str, float]:
        """Return the p-value of every class, corrected for the number of classes by Holm's method."""
        raw = {name: audit.verdict().p_value for name, audit in self.audits.items()}
        corrected, largest = {}, 0.0
        for rank, name in enumerate(sorted(raw, key=raw.__getitem__)):
            largest = max(largest, (len(raw) - rank) * raw[name])
            corrected[name] = min(1.0, largest)
        return {name: corrected[name] for name in raw}

    def condemned(self, alpha: float = ALPHA) -> list[str]:
        """Return the classes with significant errors, at level `alpha` over all classes together."""
        return [name for name, p_value in self.p_values().items() if p_value <= alpha]

    @property
    def sentence(self) -> str:
        """The verdict over all classes, as a sentence."""
        wrong, count = self.condemned(), f"{len(self.audits):,} classes (corrected for testing all, 5 % overall)"
        if len(self.audits) > MOST_CLASSES:
            return f"{len(self.audits):,} classes are too many to test: at most {MOST_CLASSES} can be."
        if not wrong:
            return f"No error beyond chance was found for any of {count}."
        return f"Errors beyond chance for {listed(wrong)}, of {count}."

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return class, rows, mean prediction, observed rate, ECE and corrected p-value, one row per class."""
        scores = [score_entry(audit.evidence) for audit in self.audits.values()]
        figures = [(score.mean_p, score.mean_y, score.ece) for score in scores]
        columns = dict(zip(("mean_p", "mean_y", "ece"), map(list, zip(*figures, strict=True)), strict=True))
        first: dict[str, list[Any]]
        first = {"class": list(self.audits), "n": [audit.n for audit in self.audits.values()]}
        return made_frame({**first, **columns, "p_value": list(self.p_values().values())}, backend)

    def __repr__(self) -> str:
        return f"ClassAudits({len(self.audits):,} classes: {named(self.audits, 3)})"
