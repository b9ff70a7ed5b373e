"""Findings: the results of an audit as frozen records, and as plain data for JSON."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from swapcal._display import display, points, share

# Findings: made by an audit, read by the report, the card, the pictures and the commands, written as JSON.
#
# They hold aggregates only: counts, means, intervals and sentences, never a row of data. A figure that does not exist
# is None or NaN, and null in JSON. A field whose default is None is left out of the JSON while it is None; all
# others are always written, in the order of the fields. Fields are only ever added, with a default; a change of meaning
# raises `SCHEMA_VERSION`.

SCHEMA_VERSION = 2
"""Version of the layout below; stored in `Identity` and shown on the page."""

Word = Literal["miscalibrated", "small", "no error found", "undecided"]
"""The verdict: a significant error, certainly above the tolerance; one certainly below it; no significant error; or
the data do not decide. There is no verdict "calibrated": no error found does not mean that there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Data, program versions and settings of an audit: enough to repeat it."""

    title: str
    """Heading of the page, for example the name of the file or of the model."""
    swapcal_version: str
    """Version of swapcal that computed the findings."""
    schema_version: int
    """`SCHEMA_VERSION` at the time of writing."""
    data_hash: str
    """Hex digest of predictions, labels, contexts and weights."""
    settings_hash: str
    """Hex digest of every setting that can change a figure."""
    python_version: str
    """For example ``3.12.4``."""
    numpy_version: str
    """For example ``2.1.0``."""
    n: int
    """Number of rows audited."""
    total_weight: float
    """Sum of the row weights; equals `n` when no weights were given."""
    first_time: str | None
    """First time of the window, already formatted, or None without a time column."""
    last_time: str | None
    """Last time of the window, already formatted, or None without a time column."""
    created_at: str
    """When the findings were made, passed in by the caller so that equal inputs give equal pages."""
    prediction: str
    """Name of the column (or argument) holding the predictions."""
    label: str
    """Name of the column (or argument) holding the outcomes."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings behind `settings_hash`, readable: name to value, both as text."""
    features: tuple[str, ...] = ()
    """Names of the features the errors were searched over."""
    n_levels: int | None = None
    """Number of levels the predictions fall on after levelling."""
    levelling: str = ""
    """One sentence: how predictions were put on levels."""
    titles: Mapping[str, str] | None = None
    """Titles of columns that have one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """The verdict with its sentences, at the top of the page."""

    verdict: Word
    """One of the words of `Word`."""
    sentence: str
    """The verdict as a sentence for readers without statistics, with the figure that decides it."""
    detail: str = ""
    """A second sentence: the size of the worst error, or the detectable error."""
    warnings: tuple[str, ...] = ()
    """Warnings to read before relying on the figures, one sentence each; shown with the verdict."""
    beyond_chance: bool = True
    """Whether the errors are significant, by one simultaneous test."""
    p_value: float | None = None
    """Simultaneous p-value of that test."""
    alpha: float | None = None
    """Level of the test behind the verdict, usually 0.05."""
    low: float | None = None
    """Lower end of the worst error's 95 % interval, as a difference of probabilities."""
    high: float | None = None
    """Upper end of the same interval."""
    tolerance: float | None = None
    """Largest error called small."""
    detectable: float | None
    """Smallest error over all rows that is detected with probability 80 %."""
    groups_unresolved: int | None = None
    """Groups with less than 5 % of the rows and no error beyond chance, which `high` does not cover."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuantityEntry:
    """One error of the theory, with its noise floor on the same rows."""

    name: str
    """Symbol, for example ``SMCal_2``; the part after the underscore is set as a subscript."""
    against: str
    """Class of functions the supremum runs over, for example ``F_1^lin`` or ``12 groups``."""
    meaning: str
    """Meaning of the quantity, in words."""
    value: float | None
    """Observed value, unnormalised as in the theorems."""
    mean_value: float | None
    """Observed value divided by the total weight."""
    null_mean: float | None
    """Mean of the value under "the predictions are the truth"."""
    null_low: float | None
    """2.5 % quantile of the value under the same null."""
    null_high: float | None
    """97.5 % quantile of the value under the same null."""
    p_value: float | None
    """Probability under the null of a value at least as large."""
    minimum_detectable: float | None
    """Smallest value the test would reject with the stated power on data of this size."""
    bound: float | None
    """Theorem's a-priori bound where a forecaster supplied one."""
    certificate: float | None
    """Forecaster's computed, pathwise bound where it supplied one."""
    citation: str | None = None
    """Theorem or section the quantity and its bound come from."""
    upper_value: float | None = None
    """Upper end where only an interval is known; `value` is then the lower end (MCal_1)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """Familiar scores, for orientation only; none of them enters the verdict."""

    brier_low: float | None = None
    """Lower end of the Brier score's 95 % interval, rows being independent."""
    brier_high: float | None = None
    """Upper end of the same interval."""
    log_loss_low: float | None = None
    """Lower end of the log loss's 95 % interval."""
    log_loss_high: float | None = None
    """Upper end of the same interval."""
    auc_low: float | None = None
    """Lower end of the AUC's 95 % interval (Hanley and McNeil 1982)."""
    auc_high: float | None = None
    """Upper end of the same interval."""
    ece_low: float | None = None
    """Lower end of the 95 % band of the ECE if the predictions are right."""
    ece_high: float | None = None
    """Upper end of the same band."""
    brier: float | None
    """Mean squared error of the predictions."""
    brier_calibration: float | None
    """Calibration part of the Brier score (lower is better)."""
    brier_refinement: float | None
    """Refinement part of the Brier score (lower is better)."""
    log_loss: float | None
    """Mean negative log likelihood, in nats, of probabilities kept 10⁻⁶ away from 0 and 1."""
    auc: float | None
    """Area under the ROC curve; None with one class only."""
    ece: float | None
    """Expected calibration error over the levels."""
    smooth_ece: float | None
    """Smooth expected calibration error."""
    mean_p: float | None = None
    """Mean prediction."""
    mean_y: float | None = None
    """Base rate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """One point of the reliability curve."""

    v: float
    """The level."""
    n: float
    """Rows (or weight) on the level."""
    mean_p: float | None
    """Mean prediction of these rows."""
    mean_y: float | None
    """Observed frequency of these rows."""
    band_low: float | None
    """Lower end of where `mean_y` falls by chance if the predictions are right."""
    band_high: float | None
    """Upper end of the same band."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Density:
    """Histogram of the predictions on [0, 1]."""

    edges: tuple[float, ...]
    """Bin edges, increasing, one more than `counts`."""
    counts: tuple[float, ...]
    """Rows (or weight) in each bin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Period:
    """One stretch of time; the error is recomputed within it."""

    label: str
    """Name of the stretch, for example ``2021-03``."""
    n: float
    """Rows (or weight) in it."""
    mean_p: float | None
    """Mean prediction in it."""
    mean_y: float | None
    """Observed frequency in it."""
    error: float | None
    """Error within the stretch; `Findings.timeline_error` is its name and unit."""
    null_low: float | None
    """Lower end of the error's 95 % band under the null."""
    null_high: float | None
    """Upper end of the error's 95 % band under the null."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group over all predictions.

    `gap` is observed − predicted, with the ends of its simultaneous interval; `p_value` is simultaneous over everything
    examined, None for a group too small to be tested; `detectable` is the smallest error that is detected with
    probability 80 %.
    """

    name: str
    """Name of the group, for example ``league = NBA``."""
    n: float
    """Rows (or weight) in it."""
    mean_p: float
    """Mean prediction in it."""
    mean_y: float
    """Observed frequency in it."""
    gap: float
    """`mean_y` − `mean_p`: positive when outcomes happen more often than predicted."""
    low: float
    """Lower end of the gap's 95 % interval, simultaneous over all groups and ranges examined."""
    high: float
    """Upper end of the same interval."""
    small: bool
    """True when the group is too small to be tested."""
    p_value: float | None
    """p-value of the group's gap, simultaneous over everything examined."""
    detectable: float | None
    """Smallest error of the group that is detected with probability 80 %."""
    verdict: Word
    """Verdict for the group, from the same intervals as the headline's."""
    title: str | None = None
    """Title of the group, if it has one."""
    clusters: int | None = None
    """How many clusters its rows belong to, where they are fewer than 30, so that it is not tested."""

    @property
    def untested(self) -> bool:
        """Whether it is too small to be tested and no prediction of 0 or 1 was contradicted."""
        return self.small and self.verdict != "miscalibrated"

    def __repr__(self) -> str:
        return f"GroupRow({self.name}: {self._size()})"

    def _size(self) -> str:
        ends = f"{points(self.low)} to {points(self.high)}"
        return f"{self.verdict}, gap {points(self.gap)} points ({ends}), {self.n:,.0f} rows"

    def _repr_html_(self) -> str:
        return display(self.name, self._size(), {"mean forecast": share(self.mean_p), "observed": share(self.mean_y)})


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberCurve:
    """The gap along one number: its ranges in order, each with about an eighth of the rows, except for ties."""

    name: str
    """Name of the column."""
    edges: tuple[float, ...]
    """The values between the ranges, in order; a range holds its lower edge."""
    ranges: tuple[GroupRow, ...]
    """One row per range, in increasing order of the number; missing values come last, if there are any."""
    p_value: float | None = None
    """The smallest p-value of its trend, halves, quarters and eighths, simultaneous over everything examined."""
    title: str | None = None
    """Title of the column, if it has one."""


@dataclass(frozen=True, slots=True)
class Term:
    """One summand of a direction: coefficient per unit of the named feature, or of the indicator."""

    name: str
    """Feature name."""
    coefficient: float
    """Weight of the feature in the direction."""
    unit: str | None
    """Unit the coefficient is per, for example ``per unit of age``; None for indicators."""
    title: str | None = None
    """Title of the feature, if it has one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resemblance:
    """A group that resembles the witness's direction."""

    group: str
    """Name of the group."""
    title: str | None = None
    """Title of the group, if it has one."""
    correlation: float
    """Weighted correlation of the direction's score with the group's indicator."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CurvePoint:
    """Predicted and observed rate in one bin of the direction's score."""

    score: float
    """Mean score of the bin's rows along the direction."""
    mean_p: float | None
    """Mean prediction in the bin."""
    mean_y: float | None
    """Observed frequency in the bin."""
    n: float
    """Rows (or weight) in the bin."""
    band_low: float | None = None
    """Lower end of where `mean_y` falls by chance if the predictions are right."""
    band_high: float | None = None
    """Upper end of the same band."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WitnessEntry:
    """A cell or direction with a large error; recomputing the error on the direction gives the reported supremum."""

    quantity: str
    """Name of the quantity it attains, as in `QuantityEntry.name`."""
    levels: tuple[float, ...]
    """Its level or levels; empty means all levels."""
    direction: tuple[Term, ...]
    """The direction, largest coefficients first."""
    gap: float | None
    """Signed gap: mean of (outcome − prediction) along the direction on these rows; None for a trend."""
    n: float
    """Rows (or weight) of the error."""
    share: float | None
    """Share of the quantity's value contributed by this witness, in [0, 1]."""
    resembles: tuple[Resemblance, ...]
    """Groups the direction resembles, most similar first."""
    sentence: str
    """The finding in words."""
    curve: tuple[CurvePoint, ...]
    """Predicted against observed along the direction, in increasing score; empty when rows are not kept."""
    group: str | None = None
    """Name of the group, when the witness is one; the direction then has one coefficient."""
    p_value: float | None = None
    """Simultaneous p-value of this witness, adjusted over all levels and groups searched."""
    gap_low: float | None = None
    """Lower end of the 95 % interval of its gap (or trend), simultaneous in the same sense."""
    gap_high: float | None = None
    """Upper end of the same interval."""
    interval: tuple[float, ...] | None = None
    """Its range [low, high] of predictions, when it is a window of levels."""
    axis: str | None = None
    """Title of the curve's score; default "score along the direction"."""
    group_title: str | None = None
    """Title of the group, if it has one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionEntry:
    """Cost of acting on the predictions under one loss."""

    loss: str
    """Name of the loss, for example ``newsvendor 3:1``."""
    cost: float | None
    """Mean loss of acting on the predictions."""
    regret: float | None
    """Mean loss above the best alternative."""
    certificate: float | None
    """Guaranteed upper bound on the regret, where one exists."""
    alternative: str | None
    """The best alternative rule, in words."""
    alternative_cost: float | None = None
    """Mean loss of that alternative."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificatePiece:
    """One summand of a forecaster's certificate."""

    name: str
    """Source of the error that the piece bounds, for example ``rounding`` or ``learning``."""
    value: float | None
    """Its amount; the pieces add up to `Forecaster.certificate`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IssuedEntry:
    """Errors of the drawn levels, per outcome: not of their distributions, nor of the mean forecasts."""

    labels: int
    """Outcomes that the sums are over."""
    smcal_1: float | None
    """Swap multicalibration error SMCal_1."""
    smcal_2: float | None
    """SMCal_2."""
    somni: float | None
    """Swap omniprediction error."""
    cal: float | None
    """Calibration error Cal_1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecasterEntry:
    """The certificate of a swapcal forecaster for the predictions it issued.

    Certificate, pieces, observed and bound are about the distributions that levels were drawn from.
    """

    levels: int
    """Levels in use."""
    dims: int
    """Dimension of the contexts."""
    rounds: int
    """Outcomes learned from."""
    certificate: float | None
    """Computed bound on the pseudo swap regret."""
    pieces: tuple[CertificatePiece, ...]
    """Summands of the certificate."""
    observed: float | None
    """The observed quantity the certificate bounds."""
    bound: float | None
    """The theorem's a-priori bound at these levels, dims and rounds."""
    citation: str | None = None
    """Theorem behind the bound."""
    issued: IssuedEntry | None = None
    """Errors of the levels that were drawn, if the forecaster kept them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedPredictor:
    """One of two predictors of the same rows."""

    name: str
    """Name of its column, or its own."""
    title: str | None = None
    """Its title, if it has one."""
    verdict: Word
    """Its own verdict, from its own audit."""
    sentence: str
    """The verdict in one sentence."""
    low: float | None
    """Lower end of its worst error's 95 % interval, as a difference of probabilities."""
    high: float | None
    """Upper end of the same interval."""
    p_value: float | None
    """Simultaneous p-value of its audit."""
    scores: Scores | None
    """Its familiar scores."""
    reliability: tuple[Level, ...] = ()
    """Its reliability curve."""


Change = Literal["better", "worse", "no difference found"]
"""Change of a figure from the first predictor to the second; "no difference found" means not significant."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One score of two predictors, tested on the same rows: lower is better."""

    name: str
    """Name of the score."""
    meaning: str
    """Meaning of the score, in words."""
    before: float
    """Of the first predictor."""
    after: float
    """Of the second."""
    difference: float
    """`after` − `before`."""
    low: float
    """Lower end of the difference's 95 % interval."""
    high: float
    """Upper end of the same interval."""
    p_value: float
    """Two-sided p-value of the difference."""
    word: Change
    """The result of the test."""
    title: str | None = None
    """Title of the score, if it has one."""
    sentence: str = ""
    """The difference in words; empty outside of findings."""


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """One group under two predictors; intervals and p-values allow for everything tested of all groups.

    A group too small to be tested has no intervals and p-values.
    """

    name: str
    """Name of the group."""
    n: float
    """Rows (or weight) in it."""
    mean_y: float
    """Observed frequency in it."""
    gap_before: float
    """Observed − predicted by the first predictor."""
    gap_after: float
    """The same by the second."""
    gap_change: float
    """Difference of the sizes |gap|, after − before."""
    gap_low: float | None
    """Lower end of its simultaneous 95 % interval."""
    gap_high: float | None
    """Upper end of the same interval."""
    gap_p: float | None
    """Its p-value, adjusted for all groups."""
    ece_before: float
    """Mean size of the gaps over ranges of forecasts, noise included, of the first predictor."""
    ece_after: float
    """The same of the second."""
    loss_before: float
    """Calibration loss of the first predictor in the group, noise removed: it can be below 0."""
    loss_after: float
    """The same of the second."""
    loss_change: float
    """`loss_after` − `loss_before`."""
    loss_low: float | None
    """Lower end of its simultaneous 95 % interval."""
    loss_high: float | None
    """Upper end of the same interval."""
    loss_p: float | None
    """Its p-value, adjusted for all groups."""
    small: bool
    """True when the group is too small to be tested."""
    word: Change
    """Joint result of the two tests."""
    title: str | None = None
    """Title of the group, if it has one."""
    clusters: int | None = None
    """How many clusters its rows belong to, where they are fewer than 30, so that it is not tested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonEntry:
    """Two predictors of the same rows; all other findings are those of the second."""

    sentence: str
    """Which is better, in words."""
    predictors: tuple[ComparedPredictor, ...]
    """The first, before, and the second, after."""
    scores: tuple[Difference, ...]
    """Every score with its difference."""
    groups: tuple[GroupDifference, ...] = ()
    """Groups, the most significant differences first."""
    groups_sentence: str = ""
    """How many are better or worse, in words."""
    groups_examined: int | None = None
    """How many groups were tested; `groups` holds only the most significant differences."""
    groups_small: int | None = None
    """How many more groups are too small to be tested."""
    method: str
    """How the differences were tested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContestMethod:
    """One method of a contest; changes are against the first, lower is better."""

    name: str
    """Of the method."""
    brier: float | None
    """Mean squared error."""
    log_loss: float | None
    """Mean log loss."""
    worst_group: str | None
    """Group with the largest gap among those large enough to be tested."""
    worst_gap: float | None
    """Its gap, observed minus forecast."""
    verdict: Word
    """Of the method's own audit."""
    brier_change: float | None
    """Brier score less that of the first method; None for the first."""
    brier_low: float | None
    """Lower end of its 95 % interval."""
    brier_high: float | None
    """Upper end of the same interval."""
    word: Change | None
    """Result of the paired test of the Brier scores."""
    log_loss_change: float | None
    """Log loss less that of the first method."""
    log_loss_low: float | None
    """Lower end of its 95 % interval."""
    log_loss_high: float | None
    """Upper end of the same interval."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContestEntry:
    """Several methods on the same rows, and the gain by each."""

    sentence: str
    """The possible gain, in words."""
    how: str
    """How the forecasts were made."""
    methods: tuple[ContestMethod, ...]
    """The methods; the others are compared with the first."""


@dataclass(frozen=True, slots=True)
class NetBenefitPoint:
    """One point of the decision curve: acting on rows whose prediction is at least the threshold."""

    threshold: float
    """The prediction from which one acts."""
    benefit: float
    """True positives per row, less false positives per row times the threshold's odds."""
    low: float
    """Lower end of the 95 % interval of `benefit`."""
    high: float
    """Upper end of the same interval."""
    everyone: float
    """The same when acting on every row; it is 0 when acting on none."""


@dataclass(frozen=True, slots=True)
class IsotonicPoint:
    """One point of the isotonic reliability curve."""

    p: float
    """Prediction."""
    rate: float
    """Observed rate, by isotonic regression on the predictions."""
    low: float
    """Lower end of where `rate` lies by chance if the predictions are right, pointwise 95 %."""
    high: float
    """Upper end of the same band."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConventionalEntry:
    """Measures that fields report, for orientation; none of them enters the verdict. Triples: value, low, high."""

    slope: tuple[float, ...] | None = None
    """Calibration slope: b of logit P(y) = a + b·logit p."""
    intercept: tuple[float, ...] | None = None
    """Calibration in the large: a of logit P(y) = a + logit p."""
    observed_expected: tuple[float, ...] | None = None
    """Observed over expected number of outcomes."""
    debiased_ece: float | None
    """Root mean square gap over the levels, corrected for noise."""
    miscalibration: float | None
    """Part of the Brier score that isotonic recalibration saves (MCB)."""
    discrimination: float | None
    """Part that the recalibrated predictions save over the base rate (DSC)."""
    uncertainty: float | None
    """Brier score of the base rate (UNC); the score is MCB − DSC + UNC."""
    two_bin: float | None
    """Averaged two-bin error (ATB), whose mean is smallest for the true probabilities."""
    two_bin_expected: float | None
    """Its mean if the predictions are right."""
    cutoff: float | None
    """Cutoff calibration error: the largest residual sum over an interval of predictions, per row."""
    cutoff_chance: float | None
    """Its 97.5 % quantile if the predictions are right."""
    isotonic: tuple[IsotonicPoint, ...] = ()
    """Isotonic reliability curve, at some of its points."""
    net_benefit: tuple[NetBenefitPoint, ...] = ()
    """Decision curve."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """The whole audit. Only `identity` and `headline` are needed to render a page."""

    identity: Identity
    """Data, program versions and settings."""
    headline: Headline
    """The verdict."""
    quantities: tuple[QuantityEntry, ...] = ()
    """Errors of the theory with their noise floors."""
    scores: Scores | None = None
    """Familiar scores."""
    reliability: tuple[Level, ...] = ()
    """Reliability curve, in increasing level."""
    density: Density | None = None
    """Histogram of the predictions."""
    groups: tuple[GroupRow, ...] = ()
    """Group table, in the order to be shown."""
    groups_examined: int | None = None
    """How many groups were tested; `groups` holds only the most significant."""
    groups_small: int | None = None
    """How many more groups are too small to be tested; they are the last of `groups`, as far as it holds them."""
    numbers: tuple[NumberCurve, ...] | None = None
    """The gap along every number, the most significant first."""
    witnesses: tuple[WitnessEntry, ...] = ()
    """Worst witnesses, worst first."""
    notes: tuple[str, ...] = ()
    """Limitations and remarks, one sentence each."""
    timeline: tuple[Period, ...] | None = None
    """Error over time, in order."""
    timeline_error: str | None = None
    """Name of `Period.error`, for example ``SMCal_2 per row``; default "error"."""
    forecaster: ForecasterEntry | None = None
    """Certificate of the forecaster that issued the predictions."""
    decisions: tuple[DecisionEntry, ...] | None = None
    """Costs of acting on the predictions."""
    comparison: ComparisonEntry | None = None
    """Comparison of the predictor with another one of the same rows."""
    contest: ContestEntry | None = None
    """Comparison of several methods on the same rows."""
    conventional: ConventionalEntry | None = None
    """Measures that fields report: calibration slope, O:E, decision curve, isotonic reliability."""

    def warned(self, sentences: Iterable[str]) -> "Findings":
        """Return these findings with more warnings."""
        return replace(self, headline=replace(self.headline, warnings=(*self.headline.warnings, *sentences)))

    def detailed(self, sentences: Iterable[str]) -> "Findings":
        """Return these findings with more sentences below the verdict."""
        return replace(self, headline=replace(self.headline, detail=" ".join([self.headline.detail, *sentences])))

    @classmethod
    def of(cls, findings: "Findings | Mapping[str, Any]") -> "Findings":
        """Return `findings` unchanged, or read from plain data such as those of `to_dict` or a JSON file.

        Examples
        --------
        >>> Findings.of({"headline": {}})
        Traceback (most recent call last):
        ValueError: findings.identity: given nothing, expected Identity
        """
        record = from_dict(cls, findings, "findings")
        version = record.identity.schema_version
        if version > SCHEMA_VERSION:
            raise ValueError(f"findings.identity.schema_version: given {version}, expected at most {SCHEMA_VERSION}")
        return record

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain data."""
        data: dict[str, Any] = as_dict(self)
        return data

    def to_json(self) -> str:
        """Return the findings as JSON, with the same content as the report."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False)


# Records as plain data, and back: one function each way, by the fields and their annotations.

Record = TypeVar("Record")


def as_dict(record: Any) -> Any:
    """Return records as plain data: dicts, lists, Python's own scalars, None for non-finite numbers, zero without sign.

    Examples
    --------
    >>> as_dict(Resemblance(group="town = Rome", correlation=math.nan))
    {'group': 'town = Rome', 'correlation': None}
    """
    if is_dataclass(record):
        values = ((each, getattr(record, each.name)) for each in fields(record))
        return {each.name: as_dict(value) for each, value in values if value is not None or each.default is not None}
    if isinstance(record, Mapping):
        return {str(key): as_dict(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [as_dict(value) for value in record]
    value = record.item() if isinstance(record, np.generic) else record
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None
    return value


def from_dict(kind: type[Record], value: object, path: str) -> Record:
    """Return the record read from plain data, checked against the annotations of its fields.

    Keys without a field are ignored, so that findings written by a later swapcal of the same schema version still
    render. Missing or null values become the field's default, None where the field allows it, or else NaN.

    Raises
    ------
    ValueError
        If a value has another type; the message names its path, the value and the expected type.

    Examples
    --------
    >>> from_dict(Density, {"edges": [0.0, 1.0], "counts": [3]}, "density")
    Density(edges=(0.0, 1.0), counts=(3,))
    >>> from_dict(Density, {"edges": [0.0, "one"]}, "density")
    Traceback (most recent call last):
    ValueError: density.edges[1]: given 'one' (str), expected float
    """
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"{path}: given a {type(value).__name__}, expected a mapping as in {kind.__name__}")
    known: tuple[tuple[str, Any, Any], ...] = _fields(kind)  # type: ignore[arg-type]
    return kind(
        **{name: _field(value.get(name, MISSING), hint, default, f"{path}.{name}") for name, hint, default in known}
    )


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, Any], ...]:
    """Return the name, type and default of every field."""
    hints = get_type_hints(kind)
    made = ((each, each.default_factory) for each in fields(kind))
    return tuple((each.name, hints[each.name], each.default if make is MISSING else make()) for each, make in made)


def _field(value: object, expected: Any, default: Any, path: str) -> Any:
    if value is not MISSING and value is not None:
        return _value(value, expected, path)
    if default is not MISSING:
        return default
    if NoneType in get_args(expected):
        return None
    if value is MISSING:
        raise ValueError(f"{path}: given nothing, expected {_name(expected)}")
    return _value(value, expected, path)


def _value(value: object, expected: Any, path: str) -> Any:
    origin, inside = get_origin(expected), get_args(expected)
    if is_dataclass(expected):
        return from_dict(expected, value, path)  # type: ignore[arg-type]
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{path}: given a {type(value).__name__}, expected a list of {_name(inside[0])}")
        return tuple(_value(item, inside[0], f"{path}[{i}]") for i, item in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise ValueError(f"{path}: given a {type(value).__name__}, expected a mapping to {_name(inside[1])}")
        return {key: _value(item, inside[1], f"{path}[{key!r}]") for key, item in value.items()}
    if origin in (Union, UnionType):
        return _value(value, next(option for option in inside if option is not NoneType), path)
    if origin is Literal:
        return _scalar(value, value in inside, " or ".join(map(repr, inside)), path)
    if expected is float and value is None:
        return math.nan
    allowed = isinstance(value, (int, float) if expected is float else expected)
    return _scalar(value, allowed and (expected is bool or not isinstance(value, bool)), _name(expected), path)


def _scalar(value: object, holds: bool, expected: str, path: str) -> object:
    if not holds:
        raise ValueError(f"{path}: given {value!r:.60} ({type(value).__name__}), expected {expected}")
    return value


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)
