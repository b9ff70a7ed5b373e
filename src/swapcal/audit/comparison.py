"""Comparison: two predictors of the same rows side by side, and their difference tested."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Self, Unpack

from swapcal.archive import written
from swapcal.audit.audit import Audit
from swapcal.audit.batch import Batch
from swapcal.audit.compared import compared, sentence
from swapcal.audit.crossing import crossings
from swapcal.audit.difference import Difference, GroupDifference, differences, group_differences
from swapcal.audit.encoder import Encoder
from swapcal.audit.findings import ReportSettings, assemble, json_text
from swapcal.audit.labels import Labels, Titles
from swapcal.audit.pairs import Pairs
from swapcal.audit.verdict import TOLERANCE, checked_tolerance
from swapcal.faces import counted, face
from swapcal.losses import Loss
from swapcal.report import Findings, card, render
from swapcal.report.card import as_page

NAMES = ("before", "after")


class Comparison:
    """Two predictors of the same rows, before and after: an `Audit` of each, and paired tests of the differences.

    Scores (Brier, log loss, calibration loss over all rows and within groups) are compared by paired tests with the row
    as the unit: rows are taken to be independent, and weights count as such. Each difference has one p-value and a 95 %
    interval that stands alone; those of single groups allow for all groups (see `swapcal.audit.difference`). Everything
    is kept as sums over rows, so comparisons of parts add up.

    Parameters
    ----------
    before, after : (rows,) predictions in [0, 1]
    y : (rows,) outcomes in [0, 1]
    features : raw features of the rows, as in `Audit.from_features`
    groups, weights, time, levels, title, seed, intersections : as in `Audit`
    names : what the two predictors are called

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth, night = rng.random(4000), rng.random(4000) < 0.3
    >>> y = rng.random(4000) < truth
    >>> found = Comparison(np.clip(truth - 0.2 * night, 0, 1), truth, y, groups={"night": night})
    >>> [(one.name, one.word) for one in found.differences()][:2]
    [('Brier score', 'better'), ('log loss', 'better')]
    >>> [(one.name, one.word) for one in found.groups()]
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
        names: tuple[str, str] = NAMES,
        levels: int | Sequence[float] | None = None,
        title: str = "Comparison",
        seed: int = 0,
        intersections: int | None = None,
    ) -> None:
        rows: dict[str, Any] = {"y": y, "groups": groups, "weights": weights, "time": time}
        given: dict[str, Any] = {"levels": levels, "title": title, "seed": seed, "intersections": intersections}
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

    def _pair(self, before: Batch, after: Batch) -> None:
        groups = self.before.sums.crossed(before).groups
        self.pairs.add(before.p, after.p, before.y, before.weights, groups)

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
        levels: int | Sequence[float] | None = None,
        title: str = "Comparison",
        seed: int = 0,
        like: Audit | Encoder | None = None,
        intersections: int | None = None,
    ) -> Self:
        """Compare two columns of predictions of a table; they are called by their columns' names.

        Examples
        --------
        >>> frame = {"old": [0.1, 0.4], "new": [0.2, 0.9], "y": [0, 1]}
        >>> found = Comparison.from_frame(frame, probs=["old", "new"], target="y")
        >>> found.add(frame)
        >>> found.after.n, found.names
        (4.0, ('old', 'new'))
        """
        first, second = two(probs, "probs")
        for name in (first, second):
            if name in (*features, *groups):
                raise ValueError(f"column {name!r}: given as a feature or group too, expected one role a column")
            if name == target:
                raise ValueError(f"column {name!r}: given as prediction and as outcome, expected two columns")
        shared: dict[str, Any] = {"target": target, "features": features, "groups": groups, "weights": weights}
        shared |= {"time": time, "levels": levels, "title": title, "seed": seed, "intersections": intersections}
        before = Audit.from_frame(frame, prob=first, like=like, **shared)
        after = Audit.from_frame(frame, prob=second, like=before, **shared)
        made = cls.__new__(cls)._hold(before, after, Pairs(), (first, second))
        made._pair(*made.read(frame))
        return made

    def add(self, batch: Any = None, /, **columns: Any) -> None:
        """Add rows: a table with the columns of `from_frame`, or arrays by name as in the constructor.

        A rejected batch leaves the comparison as it was.

        Examples
        --------
        >>> found = Comparison([0.1, 0.4], [0.2, 0.9], [0, 1])
        >>> found.add(before=[0.3], after=[0.2], y=[0])
        >>> found.after.n
        3.0
        """
        before, after = self._batches(columns) if batch is None else self.read(batch)
        self.before.add(before)
        self.after.add(after)
        self._pair(before, after)

    def read(self, frame: Any) -> tuple[Batch, Batch]:
        """Return the rows of a table as `add` takes them: under the first predictor and under the second."""
        if isinstance(frame, tuple):
            return frame
        if self.before.reader is None:
            raise TypeError("batch: given a table, expected arrays by name: add(before=…, after=…, y=…)")
        return self.before.read(frame), self.after.read(frame)

    @property
    def encoder(self) -> Encoder:
        """How features become contexts, for both."""
        return self.before.encoder

    def _batches(self, columns: dict[str, Any]) -> tuple[Batch, Batch]:
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
        made = {pair.name for pair in crossings(self.pairs.columns)}
        return differences(self.pairs, [name for name in sorted(self.pairs.columns) if name not in made])

    def groups(self) -> list[GroupDifference]:
        """Return every group under both; intervals and p-values allow for all groups at once.

        Intersections too small to be tested are left out.
        """
        made = tuple(f"{pair.name} = " for pair in crossings(self.pairs.columns))
        rows = group_differences(self.pairs)
        return [row for row in rows if not (row.small and row.name.startswith(made))] if made else rows

    def sentence(self) -> str:
        """Say which of the two is better, and how sure that is."""
        return sentence(self.names, self.differences())

    def __repr__(self) -> str:
        return f"Comparison({counted(self.after.rows, 'row')}: {self.names[0]} and {self.names[1]})"

    def _repr_html_(self) -> str:
        changed = {one.name: f"{one.before:.4g} → {one.after:.4g}, {one.word}" for one in self.differences()}
        return face(self.before.title, self.sentence(), changed)

    def to_dict(
        self,
        *,
        losses: Sequence[Loss | str] = (),
        created_at: str = "",
        tolerance: float = TOLERANCE,
        labels: Any = None,
    ) -> Findings:
        """Return the findings of `after` with a section "comparison": both predictors, and every difference tested."""
        said = Labels.of(labels)
        titles = [Titles(audit.sums, said, self.names) for audit in (self.before, self.after)]
        allowed = checked_tolerance(tolerance)
        before, found = (
            assemble(audit.title, audit.evidence, None, priced, created_at, allowed, titled)
            for audit, priced, titled in zip((self.before, self.after), ((), losses), titles, strict=True)
        )
        found["comparison"] = compared(self.names, (before, found), self.differences(), self.groups(), titles[1])
        return found

    def to_json(self, path: str | PathLike[str] | None = None, **settings: Unpack[ReportSettings]) -> str:
        """Return `to_dict` as JSON, the exact twin of the report, and write it if a path is given."""
        return written(json_text(self.to_dict(**settings)), path)

    def to_html(self, path: str | PathLike[str] | None = None, **settings: Unpack[ReportSettings]) -> str:
        """Return the report, headed by the comparison, as one HTML page, and write it if a path is given."""
        return written(render(self.to_dict(**settings)), path)

    def to_card(self, path: str | PathLike[str] | None = None, **settings: Unpack[ReportSettings]) -> str:
        """Return the model card of `after`, with the comparison; Markdown, or HTML if the path ends in .html."""
        return written(card(self.to_dict(**settings), html=as_page(path)), path)


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
