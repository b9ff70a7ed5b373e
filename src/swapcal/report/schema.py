"""Findings: the plain mapping an audit hands to the report, writes as JSON, and checks before drawing."""

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

# Findings: the plain mapping an audit hands to the report, and writes as its JSON twin.
#
# Everything here is an aggregate: counts, means, intervals and sentences, never a row of data. A `Findings`
# holds only str, int, float, bool, None, lists and string-keyed dicts, so that
# ``json.loads(json.dumps(f)) == f``. A figure that does not exist is None (JSON has no NaN); the renderer also
# accepts NaN and infinities and shows them as a dash.
#
# Keys marked ``NotRequired`` may be absent, and so may every optional section: an absent, None or empty section
# is left out of the page. Fields are only ever added, as ``NotRequired``; a change of meaning raises
# `SCHEMA_VERSION`.

SCHEMA_VERSION = 2
"""Version of the layout below; stored in `Identity` and shown on the page."""

Verdict = Literal["miscalibrated", "small", "no error found", "undecided"]
"""The answer: an error beyond chance, surely above the tolerance; one surely below it; none beyond chance; or the data
do not decide. Nothing is ever called calibrated: not finding an error does not show that there is none."""


class Identity(TypedDict):
    """What was audited, by which program, on which data: enough to repeat the audit."""

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
    titles: NotRequired[dict[str, str]]
    """What columns are called in words, where that differs from their names."""
    settings: NotRequired[dict[str, str]]
    """The settings behind `settings_hash`, readable: name to value, both as text."""
    features: NotRequired[list[str]]
    """Names of the features the errors were searched over."""
    n_levels: NotRequired[int]
    """Number of levels the predictions fall on after levelling."""
    levelling: NotRequired[str]
    """One sentence: how predictions were put on levels."""


class Headline(TypedDict):
    """The answer, first thing on the page."""

    verdict: Verdict
    """One of the words of `Verdict`."""
    sentence: str
    """One sentence a reader without statistics understands, with the figure that decides it."""
    detail: NotRequired[str]
    """A second sentence: how large the worst error is, or what would have been noticed."""
    warnings: NotRequired[list[str]]
    """What must be known before the figures are trusted, one sentence each; shown with the verdict."""
    beyond_chance: NotRequired[bool]
    """Whether chance is refuted as the explanation of the errors, by one simultaneous test."""
    p_value: NotRequired[float | None]
    """Simultaneous p-value of that test."""
    alpha: NotRequired[float]
    """Level of the test behind the verdict, usually 0.05."""
    low: NotRequired[float | None]
    """Lower end of the worst error's 95 % interval, as a difference of probabilities."""
    high: NotRequired[float | None]
    """Upper end of the same interval."""
    tolerance: NotRequired[float | None]
    """Largest error called small."""
    detectable: NotRequired[float | None]
    """Smallest error over all rows that would have been found with probability 80 %."""
    groups_unresolved: NotRequired[int]
    """Groups too small for their error to be told from the tolerance."""


class QuantityEntry(TypedDict):
    """One error of the theory, beside what chance alone would give on the same rows."""

    name: str
    """Symbol, for example ``SMCal_2``; the part after the underscore is set as a subscript."""
    against: str
    """Class of functions the supremum runs over, for example ``F_1^lin`` or ``12 groups``."""
    meaning: str
    """What it measures, in plain words."""
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
    upper_value: NotRequired[float | None]
    """Upper end where only an interval is known; `value` is then the lower end (MCal_1)."""
    citation: NotRequired[str]
    """Theorem or section the quantity and its bound come from."""


class Scores(TypedDict):
    """Familiar scores, for orientation only; none of them enters the verdict."""

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
    brier_low: NotRequired[float | None]
    """Lower end of the Brier score's 95 % interval, rows being independent."""
    brier_high: NotRequired[float | None]
    """Upper end of the same interval."""
    log_loss_low: NotRequired[float | None]
    """Lower end of the log loss's 95 % interval."""
    log_loss_high: NotRequired[float | None]
    """Upper end of the same interval."""
    auc_low: NotRequired[float | None]
    """Lower end of the AUC's 95 % interval (Hanley and McNeil 1982)."""
    auc_high: NotRequired[float | None]
    """Upper end of the same interval."""
    ece_low: NotRequired[float | None]
    """Lower end of the 95 % band of what chance alone gives for the ECE if the predictions are right."""
    ece_high: NotRequired[float | None]
    """Upper end of the same band."""
    mean_p: NotRequired[float | None]
    """Mean prediction."""
    mean_y: NotRequired[float | None]
    """Base rate."""


class Level(TypedDict):
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


class Density(TypedDict):
    """Histogram of the predictions on [0, 1]."""

    edges: list[float]
    """Bin edges, increasing, one more than `counts`."""
    counts: list[float]
    """Rows (or weight) in each bin."""


class Period(TypedDict):
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
    """Error within the stretch; which error, and its unit, is said by `Findings.timeline_error`."""
    null_low: float | None
    """Lower end of the error's 95 % band under the null."""
    null_high: float | None
    """Upper end of the error's 95 % band under the null."""


class GroupEntry(TypedDict):
    """One row of the group table."""

    name: str
    """Name of the group, for example ``league = NBA``."""
    title: NotRequired[str]
    """What the group is called in words, where that differs."""
    n: float
    """Rows (or weight) in it."""
    mean_p: float | None
    """Mean prediction in it."""
    mean_y: float | None
    """Observed frequency in it."""
    gap: float | None
    """`mean_y` − `mean_p`: positive when outcomes happen more often than predicted."""
    low: float | None
    """Lower end of the gap's 95 % interval, simultaneous over all groups and ranges examined."""
    high: float | None
    """Upper end of the same interval."""
    small: bool
    """True when the group is too small to be tested."""
    p_value: float | None
    """p-value of the group's gap, simultaneous over everything examined."""
    detectable: NotRequired[float | None]
    """Smallest error of the group that would have been found with probability 80 %."""
    verdict: Verdict
    """Verdict for the group, from the same intervals as the headline's."""


class Coefficient(TypedDict):
    """One coordinate of a witness's direction, in the user's own feature and unit."""

    name: str
    """Feature name."""
    title: NotRequired[str]
    """What the feature is called in words, where that differs."""
    coefficient: float
    """Weight of the feature in the direction."""
    unit: str | None
    """Unit the coefficient is per, for example ``per year``; None for indicators."""


class Resemblance(TypedDict):
    """A group the witness's direction looks like."""

    group: str
    """Name of the group."""
    title: NotRequired[str]
    """What the group is called in words, where that differs."""
    correlation: float
    """Weighted correlation of the direction's score with the group's indicator."""


class CurvePoint(TypedDict):
    """Predicted and observed rate in one bin of the direction's score."""

    score: float
    """Mean score of the bin's rows along the direction."""
    mean_p: float | None
    """Mean prediction in the bin."""
    mean_y: float | None
    """Observed frequency in the bin."""
    n: float
    """Rows (or weight) in the bin."""
    band_low: NotRequired[float | None]
    """Lower end of where `mean_y` falls by chance if the predictions are right."""
    band_high: NotRequired[float | None]
    """Upper end of the same band."""


class WitnessEntry(TypedDict):
    """Where an error sits: recomputing the error on this direction gives the reported supremum."""

    quantity: str
    """Name of the quantity it attains, as in `Quantity.name`."""
    levels: list[float]
    """Level or levels it lives on; empty means all levels."""
    direction: list[Coefficient]
    """The direction, largest coefficients first."""
    gap: float | None
    """Signed gap: mean of (outcome − prediction) along the direction on these rows; None for a trend."""
    n: float
    """Rows (or weight) that carry it."""
    share: float | None
    """Share of the quantity's value contributed by this witness, in [0, 1]."""
    resembles: list[Resemblance]
    """Groups the direction resembles, most similar first."""
    sentence: str
    """The finding in plain words."""
    curve: list[CurvePoint]
    """Predicted against observed along the direction, in increasing score; empty when rows are not kept."""
    axis: NotRequired[str]
    """What the curve's score is; default "score along the direction"."""
    group_title: NotRequired[str]
    """What the group is called in words, where that differs from `group`."""
    group: NotRequired[str | None]
    """Name of the group, when the witness is one; the direction then has one coefficient."""
    p_value: NotRequired[float | None]
    """Simultaneous p-value of this witness, adjusted over all levels and groups searched."""
    gap_low: NotRequired[float | None]
    """Lower end of the 95 % interval of its gap (or trend), simultaneous in the same sense."""
    gap_high: NotRequired[float | None]
    """Upper end of the same interval."""
    interval: NotRequired[list[float]]
    """Range [low, high] of predictions it lives on, when it is a window of levels."""


class DecisionEntry(TypedDict):
    """What acting on the predictions costs under one loss."""

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
    alternative_cost: NotRequired[float | None]
    """Mean loss of that alternative."""


class CertificatePiece(TypedDict):
    """One summand of a forecaster's certificate."""

    name: str
    """What the piece pays for, for example ``rounding`` or ``learning``."""
    value: float | None
    """Its amount; the pieces add up to `Forecaster.certificate`."""


class ForecasterEntry(TypedDict):
    """What a swapcal forecaster says about the predictions it issued."""

    levels: int
    """Levels in use."""
    dims: int
    """Dimension of the contexts."""
    rounds: int
    """Titles learned from."""
    certificate: float | None
    """Computed bound on the pseudo swap regret."""
    pieces: list[CertificatePiece]
    """Summands of the certificate."""
    observed: NotRequired[float | None]
    """The observed quantity the certificate bounds."""
    bound: NotRequired[float | None]
    """The theorem's a-priori bound at these levels, dims and rounds."""
    citation: NotRequired[str]
    """Theorem behind the bound."""


class ComparedPredictor(TypedDict):
    """One of two predictors of the same rows."""

    name: str
    """Its column, or what it is called."""
    title: NotRequired[str]
    """What it is called in words, where that differs."""
    verdict: Verdict
    """Its own verdict, from its own audit."""
    sentence: str
    """The verdict in one sentence."""
    low: float | None
    """Lower end of its worst error's 95 % interval, as a difference of probabilities."""
    high: float | None
    """Upper end of the same interval."""
    p_value: float | None
    """Simultaneous p-value of its audit."""
    scores: NotRequired[Scores | None]
    """Its familiar scores."""
    reliability: NotRequired[list[Level] | None]
    """Its reliability curve."""


Change = Literal["better", "worse", "no difference found"]
"""What became of a figure from the first predictor to the second; no difference found means none beyond chance."""


class ComparedScore(TypedDict):
    """One score of both predictors, lower being better, and the difference tested on the same rows."""

    name: str
    """Name of the score."""
    title: NotRequired[str]
    """What it is called in words, where that differs."""
    meaning: str
    """What it measures, in plain words."""
    before: float | None
    """Of the first predictor."""
    after: float | None
    """Of the second."""
    difference: float | None
    """`after` − `before`."""
    low: float | None
    """Lower end of the difference's 95 % interval."""
    high: float | None
    """Upper end of the same interval."""
    p_value: float | None
    """How often chance alone gives as large a difference to either side."""
    word: Change
    """What that means."""
    sentence: str
    """The same in words."""


class ComparedGroup(TypedDict):
    """One group under both predictors; intervals and p-values allow for all groups."""

    name: str
    """Name of the group."""
    title: NotRequired[str]
    """What the group is called in words, where that differs."""
    n: float
    """Rows (or weight) in it."""
    mean_y: float | None
    """Observed frequency in it."""
    gap_before: float | None
    """Observed − predicted by the first predictor."""
    gap_after: float | None
    """The same by the second."""
    gap_change: float | None
    """Difference of the sizes |gap|, after − before."""
    gap_low: float | None
    """Lower end of its simultaneous 95 % interval; None for a group too small to be tested."""
    gap_high: float | None
    """Upper end of the same interval."""
    gap_p: float | None
    """Its p-value, adjusted for all groups."""
    ece_before: float | None
    """Mean size of the gaps over ranges of forecasts, noise included, of the first predictor."""
    ece_after: float | None
    """The same of the second."""
    loss_before: float | None
    """Calibration loss of the first predictor in the group, noise removed: it can be below 0."""
    loss_after: float | None
    """The same of the second."""
    loss_change: float | None
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
    """What the two tests say together."""


class ComparisonEntry(TypedDict):
    """Two predictors of the same rows; the rest of the findings is about the second."""

    sentence: str
    """Which is better, in words."""
    predictors: list[ComparedPredictor]
    """The first, before, and the second, after."""
    scores: list[ComparedScore]
    """Every score with its difference."""
    groups: NotRequired[list[ComparedGroup]]
    """Groups, the surest differences first."""
    groups_sentence: NotRequired[str]
    """How many fare better or worse, in words."""
    groups_examined: NotRequired[int]
    """How many there are, when `groups` holds only the first."""
    method: str
    """How the differences were tested."""


class ContestMethod(TypedDict):
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
    verdict: Verdict
    """Of the method's own audit."""
    brier_change: float | None
    """Brier score less that of the first method; None for the first."""
    brier_low: float | None
    """Lower end of its 95 % interval."""
    brier_high: float | None
    """Upper end of the same interval."""
    word: Change | None
    """What the paired test of the Brier scores says."""
    log_loss_change: float | None
    """Log loss less that of the first method."""
    log_loss_low: float | None
    """Lower end of its 95 % interval."""
    log_loss_high: float | None
    """Upper end of the same interval."""


class ContestEntry(TypedDict):
    """Several methods on the same rows: what would be gained by each."""

    sentence: str
    """What there is to gain, in words."""
    how: str
    """How the forecasts were made."""
    methods: list[ContestMethod]
    """The first is what the others are compared with."""


class Findings(TypedDict):
    """The whole audit. Only `identity` and `headline` are needed to render a page."""

    identity: Identity
    """What was audited."""
    headline: Headline
    """The answer."""
    contest: NotRequired[ContestEntry | None]
    """Several methods on the same rows, and what would be gained."""
    comparison: NotRequired[ComparisonEntry | None]
    """The predictor beside another one of the same rows."""
    quantities: NotRequired[list[QuantityEntry] | None]
    """Errors of the theory beside their noise floor; the most telling first."""
    scores: NotRequired[Scores | None]
    """Familiar scores."""
    reliability: NotRequired[list[Level] | None]
    """Reliability curve, in increasing level."""
    density: NotRequired[Density | None]
    """Histogram of the predictions."""
    timeline: NotRequired[list[Period] | None]
    """Error over time, in order."""
    timeline_error: NotRequired[str]
    """What `Period.error` is, for example ``SMCal_2 per row``; default "error"."""
    groups: NotRequired[list[GroupEntry] | None]
    """Group table, in the order to be shown."""
    groups_examined: NotRequired[int]
    """How many groups were tested, when `groups` holds only the most doubtful."""
    witnesses: NotRequired[list[WitnessEntry] | None]
    """Worst witnesses, worst first."""
    decisions: NotRequired[list[DecisionEntry] | None]
    """Costs of acting on the predictions."""
    forecaster: NotRequired[ForecasterEntry | None]
    """Certificate of the forecaster that issued the predictions."""
    notes: NotRequired[list[str] | None]
    """Limitations and remarks, one sentence each."""


# Validation: findings are checked against their schema once, before anything is drawn.


def validate(findings: object) -> None:
    """Check findings against `swapcal.report.schema.Findings`.

    Raises
    ------
    ValueError
        Naming the path, what was found there and what is expected. Keys the schema does not know are let
        through, so that findings written by a later swapcal of the same schema version still render.

    Examples
    --------
    >>> validate({"headline": {}})
    Traceback (most recent call last):
    ...
    ValueError: findings.identity: given nothing, expected Identity
    """
    _check(findings, Findings, "findings")
    version = findings["identity"]["schema_version"]  # type: ignore[index]
    if version > SCHEMA_VERSION:
        raise ValueError(f"findings.identity.schema_version: given {version}, expected at most {SCHEMA_VERSION}")


def _check(value: object, expected: Any, path: str) -> None:
    origin = get_origin(expected)
    if is_typeddict(expected):
        _check_fields(value, expected, path)
    elif origin is list:
        _check_items(value, get_args(expected)[0], path)
    elif origin is dict:
        _check_entries(value, get_args(expected)[1], path)
    elif origin in (Union, UnionType):
        _check_union(value, get_args(expected), path)
    elif origin is Literal:
        _require(value in get_args(expected), value, " or ".join(map(repr, get_args(expected))), path)
    else:
        _check_plain(value, expected, path)


def _require(holds: bool, value: object, expected: str, path: str) -> None:
    if not holds:
        raise ValueError(f"{path}: given {value!r:.60} ({type(value).__name__}), expected {expected}")


@cache
def _fields(schema: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(schema, include_extras=True)
    return tuple(
        (key, get_args(hint)[0] if get_origin(hint) is NotRequired else hint, key in schema.__required_keys__)
        for key, hint in hints.items()
    )


def _check_fields(value: object, schema: Any, path: str) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{path}: given a {type(value).__name__}, expected a mapping as in {schema.__name__}")
    for key, hint, required in _fields(schema):
        if key in value:
            _check(value[key], hint, f"{path}.{key}")
        elif required:
            raise ValueError(f"{path}.{key}: given nothing, expected {_name(hint)}")


def _check_items(value: object, item: Any, path: str) -> None:
    if not isinstance(value, list):
        raise ValueError(f"{path}: given a {type(value).__name__}, expected a list of {_name(item)}")
    for i, entry in enumerate(value):
        _check(entry, item, f"{path}[{i}]")


def _check_entries(value: object, item: Any, path: str) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{path}: given a {type(value).__name__}, expected a mapping to {_name(item)}")
    for key, entry in value.items():
        _check(entry, item, f"{path}[{key!r}]")


def _check_union(value: object, options: tuple[Any, ...], path: str) -> None:
    if value is None and NoneType in options:
        return
    _check(value, next(option for option in options if option is not NoneType), path)


def _check_plain(value: object, expected: Any, path: str) -> None:
    allowed = (int, float) if expected is float else expected
    is_bool_as_number = isinstance(value, bool) and expected is not bool
    _require(isinstance(value, allowed) and not is_bool_as_number, value, _name(expected), path)


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)
