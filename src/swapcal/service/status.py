"""`ForecasterStatus`: how a forecaster is doing, in numbers and in a sentence."""

import math
from typing import Any

import msgspec

from swapcal.engine.certificate import IssuedErrors
from swapcal.engine.forecaster import Forecaster
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
    """A score of the records beside the mean forecasts, by the Brier score: `difference` is theirs less its own.

    `low` and `high` are a 95 % interval of the difference at one look, for independent outcomes; null while there are
    fewer than 20 outcomes of either kind. A missing score counts as one half.
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
    """whether there are too few outcomes of either kind to say how good the forecasts are"""
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
        scores=[GivenScore(*each) for each in figures.beside()],
        missing=[Missing(column, count, column in jumps) for column, count in live.missing.items()],
        warnings=[*live.warnings],
        unseen_share=live.unseen,
        outcome_warnings=live.sentences(),
        reliability=figures.curve(),
        over_time=figures.over_time(),
        issued=live.issued,
    )


def _known(value: float) -> Figure:
    return None if math.isnan(value) else value


def alarms(hosted: HostedForecaster) -> dict[str, Any]:
    """Return who is off, since when and by how much; of the learning thread."""
    found = hosted.monitor.summary(hosted.name)
    return {name: found[name] for name in ("rows", "alarmed", "sentence", "alarms", "lifetime", "sizes", "history")}


def engine(hosted: HostedForecaster) -> Forecaster | None:
    """Return a copy of the engine, None before the first outcome; of the learning thread."""
    found = hosted.live.engine() if hosted.live.status().labels else None
    assert found is None or isinstance(found, Forecaster), "no other learner can be set here"
    return found


def certificate(engine: Forecaster | None) -> dict[str, Any]:
    """Return the errors of the distributions that levels are drawn from and what bounds them; may take seconds.

    `sentence` is about the distributions, `issued` holds the errors of the levels as drawn, and `words` says both.
    """
    if engine is None:
        words = "No outcome has been learned yet, so there is nothing to certify."
        return {"rounds": 0, "holds": None, "sentence": words, "words": words}
    found = engine.certificate()
    rate, bound = (found.psreg / found.rounds) ** 0.5, (found.bound / found.rounds) ** 0.5
    told = bound < 0.5  # always forecasting ½ is off by no more
    allows = f"; the guarantee computed along the way allows {100 * bound:.1f} points" if told else ""
    words = (
        f"After {found.rounds:,} outcomes the best correction of every level by a linear function of the coordinates "
        f"would have changed the forecasts by {100 * rate:.1f} points (root mean square over the distributions that "
        f"levels were drawn from){allows}."
    )
    return {**found.as_dict(), "holds": found.holds(), "sentence": words, "words": str(found)}
