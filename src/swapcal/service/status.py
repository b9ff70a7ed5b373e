"""`ForecasterStatus`: how a forecaster is doing, in numbers and in a sentence."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from swapcal.engine.certificate import IssuedErrors
from swapcal.engine.forecaster import Forecaster
from swapcal.monitor import Lifetime, e_bh
from swapcal.monitor.alarms import sentence
from swapcal.service.hosted import DELAYS, HostedForecaster

Figure = float | None
"""Null before there is anything to take it of."""


class Brier(msgspec.Struct, frozen=True):
    """Mean squared errors so far; null before the first label."""

    forecast: Figure
    """of the mean forecasts"""
    issued: Figure
    """of the issued levels"""
    best_expert: Figure
    best_expert_name: str
    base_rate: Figure


class Delay(msgspec.Struct, frozen=True):
    """Seconds from a forecast to its outcome, as accepted by the service."""

    mean: Figure
    largest: float
    up_to: list[float]
    counts: list[int]
    """outcomes that took at most so long, each counted once; the last took longer"""


class Missing(msgspec.Struct, frozen=True):
    """How many forecasts had no value of a declared score or group, and whether their share has jumped.

    That is a plain threshold of 20 points between the latest records (at most 255) and those before, not a test.
    """

    column: str
    forecasts: int
    jumped: bool


class GivenScore(msgspec.Struct, frozen=True):
    """A score of the records against the mean forecasts, by the Brier score: `difference` is theirs less its own.

    `low` and `high` are a 95 % interval of the difference at one look, for independent outcomes; null while there are
    fewer than 20 outcomes of either kind. A missing score counts as one half,
    or as the prior rate.
    """

    name: str
    labels: int
    brier: Figure
    difference: Figure
    low: Figure
    high: Figure
    sentence: str


class ForecasterStatus(msgspec.Struct, frozen=True):
    """How a forecaster is doing.

    Forecasts are labelled, open or expired. Held is the part of the open ones whose outcome is here and waits for its
    maturity or its turn. Silent labels were learned as silence at the end of their window, without a report. Parked
    outcomes wait for their forecasts; lapsed ones have waited too long.
    """

    name: str
    seq: int
    time: float
    """of the last event"""
    forecasts: int
    labels: int
    open: int
    held: int
    silent: int
    expired: int
    parked: int
    lapsed: int
    corrections: int
    coverage: Figure
    base_rate: Figure
    mean_forecast: Figure
    brier: Brier
    delay: Delay
    alarms: int
    alarmed: bool
    sentence: str
    early: bool
    """whether there are too few outcomes of either kind to evaluate the forecasts"""
    scores: list[GivenScore]
    missing: list[Missing]
    warnings: list[str]
    """what to look at besides alarms"""
    unseen_share: float
    """share of outcomes that take longer than any seen so far: what they are cannot be known; 1 before the first"""
    outcome_warnings: list[str]
    """what is unusual about the outcomes known, each with the setting that repairs it"""
    reliability: list[dict[str, float]]
    over_time: list[dict[str, float]]
    weighted: int = 0
    """labels whose weight is not 1; rates and Brier scores here, reliability and periods are by weight"""
    issued: IssuedErrors | None = None
    """exact errors of the issued levels p, not of the mean forecasts, as sums over outcomes; null before the first"""


def describe(hosted: HostedForecaster) -> ForecasterStatus:
    """Return a forecaster's status; of the learning thread."""
    live, figures, monitor = hosted.live.status(), hosted.figures, hosted.monitor
    name, best = figures.best_expert()
    alarms, rejected = monitor.alarms(), monitor.test().rejected
    counts, jumps = [int(count) for count in figures.delays], hosted.live.contexts.gaps.jumps()
    return ForecasterStatus(
        name=hosted.name,
        seq=hosted.seq,
        time=hosted.now,
        forecasts=live.forecasts,
        labels=live.labels,
        open=live.open,
        held=live.held,
        silent=live.silent,
        expired=live.expired,
        parked=len(hosted.parked),
        lapsed=hosted.lapsed,
        corrections=hosted.corrections,
        coverage=_known(live.coverage),
        base_rate=_known(figures.base_rate()),
        mean_forecast=_known(figures.mean_forecast()),
        brier=Brier(
            _known(figures.brier()),
            _known(figures.brier_issued()),
            _known(best),
            name,
            _known(figures.brier_base_rate()),
        ),
        delay=Delay(_known(figures.mean_delay()), figures.delay[1], [*DELAYS], counts),
        alarms=len(alarms),
        alarmed=bool(alarms) or rejected,
        sentence=sentence(alarms, rejected, monitor.settings.tolerance, len(monitor.groups()), monitor.rows),
        early=figures.is_early(),
        scores=[GivenScore(*each) for each in live.scores],
        missing=[Missing(column, count, column in jumps) for column, count in live.missing.items()],
        warnings=[*live.warnings],
        unseen_share=live.unseen,
        outcome_warnings=live.sentences(),
        reliability=figures.curve(),
        over_time=figures.over_time(),
        weighted=live.weighted,
        issued=live.issued,
    )


class CollectedFigures(NamedTuple):
    """Figures of a forecaster in the metrics."""

    status: ForecasterStatus
    groups: int
    sizes: list[dict[str, Any]]
    """of some groups, as `Monitor.sizes` returns them"""


def collect(hosted: HostedForecaster, most: int, known: CollectedFigures | None = None) -> CollectedFigures:
    """Return figures for the metrics, with the sizes of at most so many groups; of the learning thread.

    Those that are `known` are returned as they are while nothing has happened since.
    """
    now = hosted.seq, len(hosted.parked), hosted.lapsed  # early outcomes lapse without an event
    if known is not None and now == (known.status.seq, known.status.parked, known.status.lapsed):
        return known
    return CollectedFigures(describe(hosted), len(hosted.monitor.groups()), hosted.monitor.sizes(most))


def _known(value: float) -> Figure:
    return None if math.isnan(value) else value


def alarms(hosted: HostedForecaster) -> dict[str, Any]:
    """Return who is off, since when and by how much; of the learning thread."""
    summary = hosted.monitor.summary(hosted.name)
    return {name: summary[name] for name in ("rows", "alarmed", "sentence", "alarms", "lifetime", "sizes", "history")}


# All forecasters together: which of them are off.


class Standing(msgspec.Struct, frozen=True):
    """One of many forecasters: `off` if e-BH lists it; evidence is log10 of its lifetime wealth, null if unknown."""

    name: str
    off: bool
    evidence: Figure
    labels: int
    alarms: int
    sentence: str


class Fleet(msgspec.Struct, frozen=True):
    """Which of all forecasters are off, the strongest evidence first; of those listed a share q is sound on average."""

    q: float
    off: int
    sentence: str
    forecasters: list[Standing]


def standing(hosted: HostedForecaster) -> Standing:
    """Return how a forecaster stands by itself; of the learning thread."""
    monitor = hosted.monitor
    alarms, test = monitor.alarms(), monitor.test()
    words = sentence(alarms, test.rejected, monitor.settings.tolerance, len(monitor.groups()), monitor.rows)
    return Standing(hosted.name, False, test.log10_wealth, hosted.figures.labels, len(alarms), words)


def unknown_standing(name: str, why: str) -> Standing:
    """Return the standing of a forecaster that is not available: it counts as one without evidence."""
    return Standing(name, False, None, 0, 0, why)


def listed_off(evidence: Mapping[str, Figure], q: float) -> list[str]:
    """Return the forecasters that e-BH lists, by log10 of their lifetime wealth; one that is unknown is not listed.

    It still counts among all: the limits rise with the number of forecasters.

    Examples
    --------
    >>> listed_off({"a": 4.0, "b": 0.2, "c": None}, 0.1)
    ['a']
    """
    tests = {name: -math.inf if wealth is None else wealth for name, wealth in evidence.items()}
    return e_bh({name: Lifetime(wealth, wealth, 1.0, False) for name, wealth in tests.items()}, q)


def fleet(standings: Sequence[Standing], q: float) -> Fleet:
    """Return which of all forecasters are off."""
    named = listed_off({one.name: one.evidence for one in standings}, q)
    rows = [msgspec.structs.replace(one, off=one.name in {*named}) for one in standings]
    rows.sort(key=lambda one: (not one.off, -(-math.inf if one.evidence is None else one.evidence), one.name))
    return Fleet(q, len(named), fleet_sentence(len(named), len(rows), q), rows)


def fleet_sentence(off: int, count: int, q: float) -> str:
    """Return a sentence on how many forecasters are off, with its false-discovery rate.

    Examples
    --------
    >>> fleet_sentence(0, 3, 0.1)
    'None of 3 forecasters is off beyond chance.'
    """
    if not off:
        return f"None of {count:,} forecasters is off beyond chance."
    share = f"at most {100 * q:g} % of such a list are sound on average"
    return f"{off:,} of {count:,} forecasters {'is' if off == 1 else 'are'} off beyond chance: {share}."


def engine(hosted: HostedForecaster) -> Forecaster | None:
    """Return a copy of the engine, None before the first outcome; of the learning thread."""
    engine_ = hosted.live.engine() if hosted.live.status().labels else None
    assert engine_ is None or isinstance(engine_, Forecaster), "no other learner can be set here"
    return engine_


def certificate(engine: Forecaster | None) -> dict[str, Any]:
    """Return the errors of the distributions that levels are drawn from and what bounds them; may take seconds.

    `sentence` is about the distributions, `issued` holds the errors of the levels as drawn, and `words` has both.
    """
    if engine is None:
        words = "No outcome has been learned yet, so there is nothing to certify."
        return {"rounds": 0, "holds": None, "sentence": words, "words": words}
    result = engine.certificate()
    rate, bound = (result.psreg / result.rounds) ** 0.5, (result.bound / result.rounds) ** 0.5
    useful = bound < 0.5  # always forecasting ½ is off by no more
    allows = f"; the guarantee computed along the way allows {100 * bound:.1f} points" if useful else ""
    words = (
        f"After {result.rounds:,} outcomes the best correction of every level by a linear function of the coordinates "
        f"would have changed the forecasts by {100 * rate:.1f} points (root mean square over the distributions that "
        f"levels were drawn from){allows}."
    )
    return {**result.as_dict(), "holds": result.holds(), "sentence": words, "words": str(result)}
