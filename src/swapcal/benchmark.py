"""Benchmark: your forecasts against recalibrations and swapcal, on the same rows.

`Benchmark` compares any forecasts; `in_time_order` and `cross_validated` make those of the usual methods.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from swapcal._display import changes, counted, display
from swapcal.archive import written
from swapcal.arrays import Array, Integers
from swapcal.audit import Audit, Comparison
from swapcal.audit.evidence import constant, data_warnings, stretches
from swapcal.audit.rows import Encoder, memberships
from swapcal.audit.verdict import TOLERANCE, checked_tolerance
from swapcal.baselines.batch import Isotonic, LogisticRegression, Sigmoid
from swapcal.batch.model import Model
from swapcal.batch.settings import FitSettings
from swapcal.kernels.tally import FLOOR
from swapcal.live import Live
from swapcal.report import Findings, render
from swapcal.report.findings import ContestEntry, ContestMethod, Difference, Word
from swapcal.tables.frame import Table, cluster_ids
from swapcal.tables.values import as_times

__all__ = [
    "Benchmark",
    "Method",
    "cross_validated",
    "in_time_order",
]

# Method: one entry of a benchmark.


class Method(NamedTuple):
    """One method: its scores, worst group and verdict, and paired tests against your scores; lower is better."""

    name: str
    brier: float
    log_loss: float
    worst_group: str | None
    worst_gap: float | None
    """observed minus forecast, of the group with the largest among those large enough to be tested"""
    verdict: Word
    squared: Difference | None
    """Brier score against yours; None for yours"""
    logged: Difference | None
    """log loss against yours"""

    @property
    def better(self) -> bool:
        """Whether the squared error is lower than yours beyond chance, and the log loss not higher."""
        return _word(self.squared) == "better" and _word(self.logged) != "worse"

    def plain(self) -> ContestMethod:
        """Return the method as a record of findings."""
        squared, logged = self.squared, self.logged
        return ContestMethod(
            name=self.name,
            brier=self.brier,
            log_loss=self.log_loss,
            worst_group=self.worst_group,
            worst_gap=self.worst_gap,
            verdict=self.verdict,
            brier_change=None if squared is None else squared.difference,
            brier_low=None if squared is None else squared.low,
            brier_high=None if squared is None else squared.high,
            word=None if squared is None else squared.word,
            log_loss_change=None if logged is None else logged.difference,
            log_loss_low=None if logged is None else logged.low,
            log_loss_high=None if logged is None else logged.high,
        )


def _word(difference: Difference | None) -> str:
    return "" if difference is None else difference.word


# Out-of-sample forecasts of every row by isotonic regression, a sigmoid, logistic regression and swapcal.

MINE, ISOTONIC, SIGMOID, LOGISTIC, SWAPCAL = "mine", "isotonic", "sigmoid", "logistic", "swapcal"
SIMPLE: Mapping[str, Callable[[], Any]] = {ISOTONIC: Isotonic, SIGMOID: Sigmoid}
FIRST, GROWTH = 200, 1.2
"""Outcomes known when recalibrations are first fitted, and the factor from one fit to the next."""

Progress = Callable[[int], object]


def in_time_order(
    records: Any,
    y: Array,
    mine: Array,
    *,
    score: str,
    kind: str = "probability",
    groups: Sequence[str] = (),
    time: Any = None,
    label_time: Any = None,
    seed: int = 0,
) -> dict[str, Array]:
    """Return the forecasts of all methods, each made from rows whose outcomes were known by then.

    Recalibrations and the logistic regression are fitted at 200, 240, 288, … outcomes known, on all of them; before
    that they return the score as it is.

    Parameters
    ----------
    records : (n rows) a frame with the column `score`, in order of time
    y, mine : (n,) outcomes, and the score as probabilities
    time : (n,) numbers that do not decrease. Without them a row's outcome is known before the next row
    label_time : (n,) when outcomes are known; by default at the time of the row, hence before all later times
    """
    live = Live(groups=groups, scores={score: kind}, seed=seed)
    if time is not None and label_time is None and (np.diff(time) > 0).all():
        time = None  # each outcome is known before the next row: the fast way
    due = label_time if label_time is not None else time
    forecast = live.run(records, y, time=time, label_time=due)
    forecasts = {MINE: mine, **{name: mine.copy() for name in (*SIMPLE, LOGISTIC)}, SWAPCAL: np.array(forecast.mean)}
    for start, stop, known in _stretches(len(y), time, due):
        rows = np.arange(start, stop)
        for name, make in SIMPLE.items():
            forecasts[name][rows] = make().fit(mine[known], y[known]).predict(mine[rows])
        forecasts[LOGISTIC][rows] = _logistic(records, y, mine, known, rows, without=(score,))
    return forecasts


def _logistic(table: Any, y: Array, scores: Array, learn: Any, judge: Any, without: Sequence[str] = ()) -> Array:
    """Return forecasts of the rows `judge` by a logistic regression on the score and columns, fitted on `learn`."""
    known, judged = _rows(table, learn), _rows(table, judge)
    columns_read = [name for name in known.columns if name not in without]
    encoder = Encoder.learn(known, columns_read or list(without))  # without other columns the score's own
    columns, judged_columns = (encoder.encode(rows)[:, 1:] / encoder.share for rows in (known, judged))
    return LogisticRegression().fit(scores[learn], columns, y[learn]).predict(scores[judge], judged_columns)


def _stretches(n: int, time: Any, due: Any) -> list[tuple[int, int, Any]]:
    """Return (first row, end, rows known at the first) for every fit."""
    order = np.arange(n) if due is None else np.argsort(due, kind="stable")
    seen = np.arange(n) if due is None else np.searchsorted(np.asarray(due)[order], time, side="left")
    starts: list[int] = []
    least = FIRST
    while len(at := np.flatnonzero(seen >= least)):
        starts.append(int(at[0]))
        least = int(np.ceil(GROWTH * seen[at[0]]))
    return [(a, b, order[: seen[a]]) for a, b in pairwise([*starts, n])]


def cross_validated(
    table: Any,
    y: Array,
    mine: Array,
    *,
    groups: Sequence[str] = (),
    folds: int = 5,
    seed: int = 0,
    clusters: Any = None,
    progress: Progress | None = None,
) -> dict[str, Array]:
    """Return the forecasts of all methods of each fold after learning from the others; all use the same folds.

    Parameters
    ----------
    table : (n rows) the columns other than the score, as numbers or text
    y, mine : (n,) outcomes, and the score as probabilities
    clusters : (n,) ids of what rows belong to, such as patients: no cluster is split, neither between these folds nor
        between those that swapcal makes of the rows it learns from
    progress : called with numbers of rows forecast
    """
    belongs = None if clusters is None else cluster_ids("clusters", clusters, len(y)).codes
    units, noun = (len(y), "rows") if belongs is None else (int(belongs.max(initial=-1)) + 1, "clusters")
    if not 2 <= folds <= units:
        raise ValueError(f"folds: given {folds}, expected from 2 to {units}, the number of {noun}")
    fold = folds_of(units, folds, seed) if belongs is None else folds_of(units, folds, seed)[belongs]
    forecasts = {MINE: mine, **{name: np.empty(len(y)) for name in (*SIMPLE, LOGISTIC, SWAPCAL)}}
    for k in range(folds):
        learn, judge = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if y[learn].min() == y[learn].max():
            raise ValueError(
                f"y: given {len(y):,} outcomes of which a fold leaves one kind, expected both in every fold"
            )
        for name, make in SIMPLE.items():
            forecasts[name][judge] = make().fit(mine[learn], y[learn]).predict(mine[judge])
        forecasts[LOGISTIC][judge] = _logistic(table, y, mine, learn, judge)
        model = Model.fit(
            _rows(table, learn),
            y[learn],
            mine[learn],
            groups=list(groups),
            settings=FitSettings(seed=seed),
            clusters=None if belongs is None else np.unique(belongs[learn], return_inverse=True)[1],
        )
        forecasts[SWAPCAL][judge] = model.mean(_rows(table, judge), mine[judge])
        if progress is not None:
            progress(len(judge))
    return forecasts


def folds_of(n: int, folds: int, seed: int) -> Integers:
    """Return the fold of each row or cluster: equally many in each, at random.

    Examples
    --------
    >>> np.bincount(folds_of(10, 5, 0)).tolist()
    [2, 2, 2, 2, 2]
    """
    return np.random.default_rng([seed, n, folds]).permutation(np.arange(n) % folds)


def _rows(table: Any, rows: Integers) -> Table:
    return Table(table).take(rows)


# The benchmark in a sentence: the gain and its method, or that the present forecasts are as good.

SOUND = ("no error found", "small")
"""Verdicts without an error worth correcting."""

TOO_GOOD = 0.5
"""A squared error below this share of yours, and of that of the base rate, gets a warning."""


def gain(
    own: Method, swap: Method, simple: Method | None, beyond: Difference | None, columns: Difference | None = None
) -> str:
    """Return a sentence on what there is to gain.

    Parameters
    ----------
    simple : the best recalibration that is better than yours, if one is
    beyond : the squared error of swapcal against that of `simple`
    columns : the squared error of swapcal against that of logistic regression on the same columns, if that was fitted
    """
    if simple is not None and (not swap.better or beyond is None or beyond.word != "better"):
        enough = f"A simple recalibration is enough: {simple.name} lowers the squared error {_by(simple)}"
        return f"{enough}; {_swapcal_beside_simple(simple, swap)}."
    if swap.better:
        best = "No recalibration of the score alone does."
        if simple is not None:
            best = f"The best recalibration of the score alone, {simple.name}, reaches {simple.brier:.4g}."
        best += _same_columns(columns)
        return f"You would gain: swapcal lowers the squared error {_by(swap)}. {best}{_verdicts(own, swap)}"
    if own.verdict == "miscalibrated" and swap.verdict in SOUND:
        return (
            f"The squared error would not change beyond chance ({_interval(swap.squared)}), but your forecasts are "
            f"miscalibrated; verdict on swapcal's: {swap.verdict}. Worth it if groups matter to you."
        )
    if _worse(swap):
        return f"Nothing to gain: keep yours. swapcal would do worse: squared error {_interval(swap.squared)}."
    chance = f"No method lowers the squared error beyond chance (swapcal: {_interval(swap.squared)})."
    return f"Nothing to gain: keep yours. {chance}"


def _same_columns(columns: Difference | None) -> str:
    """Return a sentence on how much of a gain comes from reading more columns."""
    if columns is None:
        return ""
    reached = f" Logistic regression on the same columns reaches {columns.before:.4g}"
    if columns.word == "better":
        return f"{reached}; swapcal lowers that too ({_interval(columns)})."
    return f"{reached}, and swapcal does no better than that: the gain is that of reading more columns."


def _worse(entry: Method) -> bool:
    return entry.squared is not None and entry.squared.word == "worse"


def _by(entry: Method) -> str:
    change = entry.squared
    assert change is not None, "yours is not compared with itself"
    share = f"{100 * (change.before - change.after) / change.before:.2g} %" if change.before > 0 else "nothing"
    return f"from {change.before:.4g} to {change.after:.4g}, by {share} ({_interval(change)})"


def _interval(change: Difference | None) -> str:
    if change is None:
        return "not compared"
    difference, low, high = changes(change.difference, change.low, change.high)
    return f"{difference}, 95 % from {low} to {high}"


def _swapcal_beside_simple(simple: Method, swap: Method) -> str:
    """Return what swapcal would do where a recalibration is as good."""
    if not swap.better:
        return "swapcal would do worse than yours" if _worse(swap) else "swapcal lowers it by nothing beyond chance"
    text = f"swapcal does no better than that ({swap.brier:.4g})"
    if simple.verdict == "miscalibrated" and swap.verdict in SOUND:
        return f"{text}, but {simple.name} is still miscalibrated; verdict on swapcal's: {swap.verdict}"
    return text


def _verdicts(own: Method, swap: Method) -> str:
    return f" Verdict on yours: {own.verdict}; on swapcal's: {swap.verdict}."


# `Benchmark`: forecasts of several methods for the same rows, each audited, each tested against yours.


class Benchmark:
    """Compare the forecasts of several methods on the same rows, with a sentence on what you would gain.

    Parameters
    ----------
    y : (rows,) outcomes in [0, 1]
    forecasts : (rows,) forecasts by name; "mine" is compared with all others, "swapcal" is what the report is about
    groups : labels per row: a mapping or table of categorical columns, or one column
    time : (rows,) numbers or dates
    clusters : (rows,) ids of what rows belong to, such as patients; intervals and verdicts are then by cluster
    how : how the forecasts were made, a sentence for the report
    title, seed : of the report, and of the simulated noise floor
    warnings : known reasons to distrust a gain, such as a column that is probably known only after the outcome

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth, night = rng.uniform(0.2, 0.8, 4000), rng.random(4000) < 0.3
    >>> forecasts = {"mine": truth - 0.15 * night, "swapcal": truth}
    >>> contest = Benchmark(rng.random(4000) < truth, forecasts, groups={"night": night})
    >>> [(entry.name, entry.verdict) for entry in contest.entries]
    [('mine', 'miscalibrated'), ('swapcal', 'no error found')]
    >>> contest.sentence()[:16]
    'You would gain: '
    """

    def __init__(
        self,
        y: Any,
        forecasts: Mapping[str, Any],
        *,
        groups: Any = None,
        time: Any = None,
        clusters: Any = None,
        how: str = "",
        tolerance: float = TOLERANCE,
        title: str = "What would I gain?",
        seed: int = 0,
        warnings: Sequence[str] = (),
    ) -> None:
        if MINE not in forecasts or SWAPCAL not in forecasts:
            given = ", ".join(forecasts) or "none"
            raise ValueError(f'forecasts: given {given}, expected "{MINE}" and "{SWAPCAL}" among them')
        self.y, self.forecasts, self.how, self.title = y, dict(forecasts), how, title
        belongs = None if clusters is None else cluster_ids("clusters", clusters, len(y))
        self._rows: dict[str, Any] = {"groups": groups, "time": time, "clusters": belongs, "title": title, "seed": seed}
        self.tolerance = checked_tolerance(tolerance)
        self._given_warnings = tuple(warnings)

    def comparison(self, before: str, after: str) -> Comparison:
        """Return two of the methods compared."""
        one, other = self.forecasts[before], self.forecasts[after]
        return Comparison(one, other, self.y, names=(before, after), **self._rows)

    @cached_property
    def _comparisons(self) -> dict[str, Comparison]:
        return {name: self.comparison(MINE, name) for name in self.forecasts if name != MINE}

    @cached_property
    def entries(self) -> list[Method]:
        """Every method, yours first."""
        own = self._entry(MINE, self._comparisons[SWAPCAL].before, None)
        return [own, *(self._entry(name, one.after, one) for name, one in self._comparisons.items())]

    def _entry(self, name: str, audit: Audit, beside: Comparison | None) -> Method:
        tested = [row for row in audit.group_table(self.tolerance) if not row.small]
        worst = max(tested, key=lambda row: abs(row.gap), default=None)
        scores = {} if beside is None else {one.name: one for one in beside.differences()}
        return Method(
            name,
            audit.brier(),
            audit.log_loss(),
            None if worst is None else worst.name,
            None if worst is None else worst.gap,
            audit.verdict(self.tolerance).word,
            scores.get("Brier score"),
            scores.get("log loss"),
        )

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the gain: those given, those of the audit, and one if the gain is implausibly large."""
        warnings = [*self._given_warnings, *data_warnings(self._comparisons[SWAPCAL].before.sums, 0.0)]
        own, swap, rate = self.entries[0], self[SWAPCAL], float(np.mean(self.y))
        if swap.brier < TOO_GOOD * min(own.brier, rate * (1.0 - rate)):
            warnings.append(
                f"The squared error of swapcal, {swap.brier:.3g}, is less than half of yours: too good to be likely. "
                "Check that no column is known only after the outcome."
            )
        return tuple(warnings)

    @cached_property
    def without_stretches(self) -> "Benchmark | None":
        """The same without the periods in which every outcome is the same; None if there are no such periods.

        Forecasts stay as they are, also those that were made after such a period.
        """
        timeline = self._comparisons[SWAPCAL].before.sums.timeline
        windows = [] if timeline is None else [one.window for one in stretches(timeline)]
        if not windows:
            return None
        time, y = as_times("time", self._rows["time"]), np.asarray(self.y)
        keep = np.all([(time < first) | (time > last) for first, last in windows], axis=0)
        if not keep.any() or np.ptp(y[keep].astype(float)) == 0:
            return None
        groups = memberships(self._rows["groups"], len(y))
        named = {name: np.array(members.names, dtype=object)[members.codes][keep] for name, members in groups.items()}
        forecasts = {name: np.asarray(p)[keep] for name, p in self.forecasts.items()}
        belongs = None if self._rows["clusters"] is None else np.array(self._rows["clusters"].codes)[keep]
        settings = {"tolerance": self.tolerance, "title": self.title, "seed": self._rows["seed"], "how": self.how}
        return Benchmark(y[keep], forecasts, groups=named or None, clusters=belongs, **settings)

    def sentence(self) -> str:
        """Return the warnings, then what you would gain, or that there is nothing to gain."""
        cleaned = self.without_stretches
        if not self.warnings:
            return self._gain()
        start = f"If that is in order: {self._gain()}"
        if cleaned is not None:
            start = f"Without these rows: {cleaned._gain()}"
        return f"Before anything else: {' '.join(self.warnings)} {start}"

    def _gain(self) -> str:
        simple = min((one for one in self._simple() if one.better), key=lambda one: one.brier, default=None)
        beyond = None if simple is None else self.comparison(simple.name, SWAPCAL).differences()[0]
        columns = self.comparison(LOGISTIC, SWAPCAL).differences()[0] if LOGISTIC in self.forecasts else None
        return gain(self.entries[0], self[SWAPCAL], simple, beyond, columns)

    def _simple(self) -> Sequence[Method]:
        return [one for one in self.entries if one.name not in (MINE, LOGISTIC, SWAPCAL)]

    def __getitem__(self, name: str) -> Method:
        """Return a method's entry."""
        return next(one for one in self.entries if one.name == name)

    def to_findings(self, *, created_at: str = "") -> Findings:
        """Return the findings of swapcal's forecasts against yours, with a section "contest" on all methods."""
        findings = self._comparisons[SWAPCAL].to_findings(created_at=created_at, tolerance=self.tolerance)
        methods, headline = tuple(one.plain() for one in self.entries), findings.headline
        sentence = f"The forecasts of {SWAPCAL}, audited: {headline.sentence}"
        after = self._comparisons[SWAPCAL].after.sums
        shown = [] if after.timeline is None else [constant(one, after.rows) for one in stretches(after.timeline)]
        warnings = tuple(dict.fromkeys([*self.warnings, *(one for one in headline.warnings if one not in shown)]))
        return replace(
            findings,
            headline=replace(headline, sentence=sentence, warnings=warnings),
            contest=ContestEntry(sentence=self.sentence(), how=self.how, methods=methods),
        )

    def to_dict(self, *, created_at: str = "") -> dict[str, Any]:
        """Return `to_findings` as plain data: dicts, lists, text, numbers and None."""
        return self.to_findings(created_at=created_at).to_dict()

    def to_json(self, path: str | PathLike[str] | None = None, *, created_at: str = "") -> str:
        """Return `to_dict` as JSON, and write it if a path is given."""
        return written(self.to_findings(created_at=created_at).to_json(), path)

    def to_html(self, path: str | PathLike[str] | None = None, *, created_at: str = "") -> str:
        """Return the report as one self-contained HTML page, and write it if a path is given."""
        return written(render(self.to_findings(created_at=created_at)), path)

    def __repr__(self) -> str:
        return f"Benchmark({counted(len(self.y), 'row')}: {', '.join(self.forecasts)})"

    def _repr_html_(self) -> str:
        scores = {
            one.name: f"Brier {one.brier:.4g}, log loss {one.log_loss:.4g} (kept {FLOOR:g} from 0 and 1), {one.verdict}"
            for one in self.entries
        }
        return display(self.title, self.sentence(), scores)
