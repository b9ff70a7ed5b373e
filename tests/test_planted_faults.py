"""Each statistical test fails on a fault of the kind it is there for, in the assertion that is there for it.

A plant is a function of `monkeypatch` whose docstring names the fault; `@caught_by` says which test must fail on it, in
which line, and with which arguments. Every test marked `statistical` must be caught failing at least once.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from swapcal import Forecaster, Monitor, bounds
from swapcal.audit import difference, evidence, intervals, measures, null, sums
from swapcal.audit.conventional import TheoryMeasures
from swapcal.batch import History, Mixture, Stream, mixture
from swapcal.monitor import ClassMonitors, alarms
from swapcal.monitor.settings import MonitorSettings
from swapcal.monitor.state import Bets
from tests.chance import seeded

Plant = Callable[[pytest.MonkeyPatch], None]


class Fault(NamedTuple):
    """A fault, the test that must fail on it, and a part of the line where it must."""

    plant: Plant
    module: str
    test: str
    line: str
    arguments: dict[str, Any]


FAULTS: list[Fault] = []


def caught_by(test: str, line: str, **arguments: Any) -> Callable[[Plant], Plant]:
    """List the decorated plant as one that `module.test` must fail on."""
    module, name = test.split(".")

    def listed(plant: Plant) -> Plant:
        FAULTS.append(Fault(plant, module, name, line, arguments))
        return plant

    return listed


def scale(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, factor: float) -> None:
    """Multiply what a function returns."""
    right = getattr(where, name)
    monkeypatch.setattr(where, name, lambda *given, **named: factor * right(*given, **named))


def rescale(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, factor: float) -> None:
    """Multiply what a function that returns a bound returns."""
    right = getattr(where, name)
    monkeypatch.setattr(where, name, lambda *given, **named: factor * float(right(*given, **named)))


# The simulated null of an audit

LEVEL = "assert_five_percent(rates, REDRAWS)"


@caught_by(
    "test_audit_null.test_many_small_groups_do_not_condemn_the_truth", LEVEL, rows=6000, chance=0.01, unequal=False
)
@caught_by("test_audit_null.test_a_cell_is_binomial", "np.quantile(tosses, tail)", count=2000, chance=0.004)
@caught_by("test_audit_null.test_unequal_weights_make_the_tail_of_their_heavy_rows", "drawn**3")
def gaussian_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of small cells are drawn as Gaussians."""

    def draw(self: measures.Cells, draws: int, rng: np.random.Generator, _: object) -> Any:
        spread = self.jump * np.sqrt(self.tosses * self.chance * (1 - self.chance))
        return rng.standard_normal((draws, *self.tosses.shape)) * spread

    monkeypatch.setattr(measures.Cells, "draw", draw)


@caught_by("test_audit_null.test_a_cell_is_binomial", "tosses.mean()", count=50, chance=0.5)
def cells_off_centre(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of cells have a mean of 2 % of their standard deviation."""
    right = measures.Cells.draw

    def draw(self: measures.Cells, *given: Any) -> Any:
        return right(self, *given) + 0.02 * self.jump * np.sqrt(self.tosses * self.chance * (1 - self.chance))

    monkeypatch.setattr(measures.Cells, "draw", draw)


@caught_by("test_audit_null.test_a_cell_is_binomial", "tosses.var()", count=50, chance=0.5)
@caught_by("test_audit_null.test_unequal_weights_keep_the_rejection_rate", LEVEL, by_row=False)
def narrow_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of cells are drawn a tenth too narrow."""
    scale(monkeypatch, measures.Cells, "draw", 0.9)


@caught_by("test_audit_null.test_unequal_weights_keep_the_rejection_rate", LEVEL, by_row=True)
@caught_by("test_audit_null.test_null_covariance_squares_the_weights", "np.abs(found - expected)", by_row=True)
def equal_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are redrawn as if they weighed the same."""
    right = null._residuals
    monkeypatch.setattr(
        null,
        "_residuals",
        lambda size, rng, rows, flipped: right(
            size, rng, rows._replace(weights=np.full_like(rows.weights, rows.weights.mean())), flipped
        ),
    )


@caught_by("test_audit_null.test_null_covariance_squares_the_weights", "np.diag(found)", by_row=False)
def lively_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the total, contexts vary by 30 % too much."""
    right = null._given_total

    def given_total(design: Any) -> Any:
        slope, root = right(design)
        return slope, np.sqrt(1.3) * root

    monkeypatch.setattr(null, "_given_total", given_total)


@caught_by("test_audit_null.test_null_covariance_squares_the_weights", 'drawn["S"][:, v, k].var()', by_row=False)
def one_wide_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of the first group vary by 40 % too much."""
    right = measures.Cells.draw

    def draw(self: measures.Cells, *given: Any) -> Any:
        sums = right(self, *given)
        sums[..., 0] *= 1.2
        return sums

    monkeypatch.setattr(measures.Cells, "draw", draw)


@caught_by("test_audit_null.test_two_thousand_tiny_groups_do_not_condemn_the_truth", LEVEL, by_row=False)
def groups_joined_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of what a large group holds is lost where small ones are joined."""
    right = sums.Groups.joined

    def joined(self: Any, which: Any) -> Any:
        whole = right(self, which)
        whole.table[:, 0] *= 0.5
        return whole

    monkeypatch.setattr(sums.Groups, "joined", joined)


@caught_by("test_audit_null.test_contexts_of_a_level_without_events_do_not_vary", "silent.mean()", by_row=True)
def likelier_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes are redrawn half again as often as predicted."""
    right = null._residuals
    monkeypatch.setattr(
        null,
        "_residuals",
        lambda size, rng, rows, flipped: right(size, rng, rows._replace(p=1.5 * rows.p), flipped),
    )


@caught_by("test_audit_null.test_contexts_of_a_level_without_events_do_not_vary", "drawn[silent, 1]", by_row=False)
def contexts_unlike_their_total(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts vary as usual where no row had the event."""
    monkeypatch.setattr(null, "_liveliness", lambda _, total: np.ones_like(total))


@caught_by("test_audit_null.test_a_level_dominated_by_one_row_keeps_the_variance_of_its_contexts", "drawn.var(axis=0)")
def contexts_fixed_by_their_total(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts do not vary, given their total."""
    monkeypatch.setattr(null, "_liveliness", lambda _, total: np.zeros_like(total))


@caught_by("test_audit_null.test_fractional_outcomes_are_judged_by_their_own_spread", LEVEL, by_row=False)
def every_outcome_a_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes between 0 and 1 are given the variance of coins."""
    monkeypatch.setattr(measures, "dispersion", lambda sums: np.ones(sums.shape[:-1]))


@caught_by("test_audit_null.test_fractional_outcomes_are_judged_by_their_own_spread", "p_value <= 0.01", by_row=True)
def half_the_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """Observed residuals, not simulated ones, are halved."""
    right = evidence.observe

    def observe(*given: Any) -> Any:
        design, residuals, groups = right(*given)
        return design, measures.Residuals(residuals.g / 2, residuals.S / 4), groups

    monkeypatch.setattr(evidence, "observe", observe)


@caught_by("test_audit_null.test_fractional_outcomes_are_judged_by_their_own_spread", "findings()[0].name", by_row=True)
def least_sure_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings come in the reverse order."""
    right = intervals.EffectIntervals.surest
    monkeypatch.setattr(intervals.EffectIntervals, "surest", lambda self: right(self)[::-1])


@caught_by("test_audit_null.test_no_outcomes_are_granted_more_than_a_coins_variance", "null.mean()", by_row=True)
def own_spread_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fractional outcomes keep their own spread, however large."""
    monkeypatch.setattr(
        null,
        "_flipped",
        lambda design, rows, level: np.where(design.fractional[level], rows.weights * (rows.y - rows.p), np.nan),
    )


@caught_by("test_audit_null.test_copies_of_fractional_rows_are_flipped_one_by_one", "null.mean()")
def copies_share_a_toss(monkeypatch: pytest.MonkeyPatch) -> None:
    """All copies of a row are redrawn together."""

    def residuals(size: int, rng: np.random.Generator, rows: Any, flipped: Any) -> Any:
        return rows.copies * flipped * rng.choice([-1.0, 1.0], (size, len(flipped)))

    monkeypatch.setattr(null, "_residuals", residuals)


# The noise floor and its intervals


@caught_by("test_audit_noise.test_true_predictions_are_rejected_five_percent_of_the_time", LEVEL, rows_kept=True)
def narrow_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redrawn residuals are a tenth too small."""
    scale(monkeypatch, null, "_residuals", 0.9)


@caught_by("test_audit_noise.test_true_predictions_are_rejected_five_percent_of_the_time", LEVEL, rows_kept=True)
def wide_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redrawn residuals are 15 % too large."""
    scale(monkeypatch, null, "_residuals", 1.15)


@caught_by("test_audit_noise.test_true_predictions_are_rejected_five_percent_of_the_time", LEVEL, rows_kept=False)
def narrow_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of residuals are drawn a tenth too small."""
    scale(monkeypatch, measures.Cells, "draw", 0.9)


@caught_by("test_audit_noise.test_a_planted_bias_is_found_and_named", "rejected >= 55")
def scan_without_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scan's maximum leaves the groups out."""
    right = intervals.ScanStatistic._blocks
    monkeypatch.setattr(intervals.ScanStatistic, "_blocks", lambda self, r: iter([next(right(self, r))]))


@caught_by("test_audit_noise.test_a_planted_bias_is_found_and_named", "named >= 55")
def cells_one_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scan's cells name the next group."""
    right = intervals.ScanStatistic.cells
    monkeypatch.setattr(
        intervals.ScanStatistic,
        "cells",
        lambda self, r: [cell._replace(function=max(3, cell.function - 1)) for cell in right(self, r)],
    )


@caught_by("test_audit_noise.test_a_planted_bias_is_found_and_named", "audit.worst_gap()")
def no_gap_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The widest gap is that of cells whose p-value is 0."""
    right = intervals.EffectIntervals.widest_gap
    monkeypatch.setattr(intervals.EffectIntervals, "widest_gap", lambda self, _: right(self, 0.0))


@caught_by("test_audit_noise.test_slow_quantities_have_a_floor_too", "max(noise.p_value")
def twice_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value is compared with the null of its half."""
    right = evidence.compare
    monkeypatch.setattr(evidence, "compare", lambda value, draws: right(2 * value, draws))


@caught_by("test_audit_noise.test_slow_quantities_have_a_floor_too", "noise.low <=")
def floor_above_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of the null is that of its squares."""
    right = evidence.compare
    monkeypatch.setattr(
        evidence, "compare", lambda value, draws: right(value, draws)._replace(mean=float(np.mean(draws**2)) + 1e3)
    )


@caught_by("test_audit_noise.test_interval_covers_the_true_gap", "<= covered / 3000 <=")
def intervals_of_nine_tenths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are a sixth too short: those of 90 %."""
    from tests import test_audit_noise as module

    right = module.shift_interval
    monkeypatch.setattr(module, "shift_interval", lambda sums: right(sums, np.array([1.645])))


@caught_by("test_audit_noise.test_interval_covers_the_true_gap", "<= covered / 3000 <=")
def intervals_of_999(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are those of 99.9 %."""
    from tests import test_audit_noise as module

    right = module.shift_interval
    monkeypatch.setattr(module, "shift_interval", lambda sums: right(sums, np.array([3.29])))


@caught_by("test_audit_noise.test_group_verdicts_allow_for_the_number_of_groups", "together <= most")
def each_group_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """p-values are those of one group alone."""
    from scipy.special import ndtr

    monkeypatch.setattr(intervals.Null, "p_values", lambda self, scores: 2 * ndtr(-np.abs(scores)))


@caught_by("test_audit_noise.test_group_verdicts_allow_for_the_number_of_groups", "outside <= most")
def each_interval_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups' intervals are those of one group alone."""
    right = evidence.gap_intervals
    monkeypatch.setattr(
        evidence, "gap_intervals", lambda sums, reach, coins=1.0: right(sums, np.full_like(reach, 1.96), coins)
    )


@caught_by("test_audit_noise.test_detectable_errors_are_found_four_times_in_five", "scattered > noise.quantile95")
def detectable_half_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The minimum detectable error is the one found half of the time."""
    monkeypatch.setattr(null, "POWER", 0.5)


PLUG_IN = "test_audit.test_plug_in_errors_of_a_population_are_too_large_on_average"


@caught_by(PLUG_IN, "values.mean() - true > -error")
def half_of_the_residuals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is halved."""
    scale(monkeypatch, TheoryMeasures, "smcal", 0.5)


@caught_by(PLUG_IN, "values.mean() - true < ")
def twice_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is doubled."""
    scale(monkeypatch, TheoryMeasures, "smcal", 2.0)


# Verdicts and warnings


@caught_by(
    "test_audit_verdict.test_intervals_cover_all_true_gaps_and_the_worst_error_at_once", "together >=", shift=0.12
)
def critical_value_of_one_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are half as wide as those that hold for all cells at once."""
    right = intervals.Null.__init__

    def shorter(self: intervals.Null, maxima: Any) -> None:
        right(self, maxima)
        self.critical /= 2

    monkeypatch.setattr(intervals.Null, "__init__", shorter)


@caught_by("test_audit_verdict.test_intervals_cover_all_true_gaps_and_the_worst_error_at_once", "worst >=", shift=0.12)
def worst_error_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict's interval is that of all rows together."""

    def worst(self: intervals.EffectIntervals) -> tuple[float, float]:
        whole = self.window(-1)
        return float(whole.surely[0]), float(whole.at_most[0])

    monkeypatch.setattr(intervals.EffectIntervals, "worst", worst)


@caught_by("test_audit_verdict.test_chance_rare_events_and_short_stretches_are_not_reported", "== []")
def any_stretch_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches of equal outcomes are reported however probable they are."""
    monkeypatch.setattr(evidence, "LEAST_ROWS", 1)
    monkeypatch.setattr(evidence, "LEAST_SHARE", 0.0)
    monkeypatch.setattr(evidence, "LOG_CHANCE", np.inf)


# Two predictors compared


@caught_by("test_comparison.test_equally_good_predictors_are_seldom_called_different", "scores.max() <= MOST")
@caught_by(
    "test_comparison.test_predictors_equally_wrong_to_either_side_are_seldom_called_different", "scores.max() <= MOST"
)
def one_sided_p_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """p-values of scores are a quarter of what they should be."""
    right = difference._judged
    monkeypatch.setattr(
        difference,
        "_judged",
        lambda *given: replace(one := right(*given), p_value=one.p_value / 4),
    )


@caught_by("test_comparison.test_predictors_equally_wrong_to_either_side_are_seldom_called_different", "gaps <= MOST")
def no_allowance_for_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group is tested as if it were the only one."""
    monkeypatch.setattr(difference, "_adjusted", lambda groups: [difference._row(group, 1) for group in groups])


@caught_by("test_comparison.test_equally_good_predictors_are_seldom_called_different", "gaps <= MOST")
def one_contrast_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps differ in size as soon as they differ, each group by itself."""
    monkeypatch.setattr(difference._Group, "p_values", lambda self: (self.apart.p_value() / 30, 1.0))


@caught_by("test_comparison.test_equally_good_predictors_are_seldom_called_different", "losses <= MOST")
@caught_by("test_comparison.test_predictors_equally_wrong_to_either_side_are_seldom_called_different", "losses <= MOST")
def losses_of_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibration losses are tested with errors half as large, each group by itself."""

    def p_values(self: difference._Group) -> tuple[float, float]:
        loss = self.losses[2]
        return 1.0, loss._replace(error=loss.error / 2).p_value() / 30

    monkeypatch.setattr(difference._Group, "p_values", p_values)


@caught_by("test_comparison.test_a_real_difference_is_noticed_where_it_is", "differences(found)[:3]")
def no_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard errors are forty times too large."""
    right = difference.Estimate.p_value
    monkeypatch.setattr(difference.Estimate, "p_value", lambda self: right(self._replace(error=40 * self.error)))


@caught_by("test_comparison.test_a_real_difference_is_noticed_where_it_is", "words.pop(")
def groups_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are tested as if there were 10^90 of them."""
    monkeypatch.setattr(difference, "_adjusted", lambda groups: [difference._row(group, 10**90) for group in groups])


@caught_by("test_comparison.test_few_events_keep_the_level", "found <= ", weights=False)
def errors_of_the_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard error is that of the differences seen, though hardly any event was."""
    monkeypatch.setattr(difference, "_at_least", lambda estimate, _: estimate)


# Monitoring


@caught_by("test_monitor.test_deviation_radius_holds_at_all_times_at_once", "missed <= alpha")
def a_third_of_the_radius(monkeypatch: pytest.MonkeyPatch) -> None:
    """The radius is a third of what holds at all times."""
    rescale(monkeypatch, bounds, "deviation_radius", 1 / 3)


@caught_by("test_monitor.test_deviation_radius_holds_at_all_times_at_once", "(deviation >= 0.35 * radius)")
def three_times_the_radius(monkeypatch: pytest.MonkeyPatch) -> None:
    """The radius holds, but is three times too wide."""
    rescale(monkeypatch, bounds, "deviation_radius", 3.0)


@caught_by("test_monitor.test_detection_delay_is_not_exceeded", "np.mean(delays) <= bound")
def a_third_of_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of the delay is a third of what is proved."""
    rescale(monkeypatch, bounds, "detection_delay", 1 / 3)


@caught_by("test_monitor.test_detection_delay_is_not_exceeded", "np.mean(delays) > 0.3 * bound")
def three_times_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of the delay is three times what is proved."""
    rescale(monkeypatch, bounds, "detection_delay", 3.0)


@caught_by("test_monitor.test_an_alarm_names_group_range_direction_time_and_size", "alarm.low <= 0.25")
def alarms_without_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval of an alarm is a hundredth of its width."""
    rescale(monkeypatch, alarms, "deviation_radius", 0.01)


@caught_by("test_monitor.test_an_alarm_names_group_range_direction_time_and_size", "alarm.since - 12_000")
def since_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """An alarm's start is the first row."""
    from swapcal.monitor import monitor

    right = alarms.since_change
    monkeypatch.setattr(monitor, "since_change", lambda *given: right(*given)._replace(since=1.0))


@caught_by("test_monitor.test_intervals_hold_from_the_chosen_start_for_all_groups_at_all_looks", "missed <= ")
def intervals_of_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are a third as wide as those that hold at all times."""
    rescale(monkeypatch, alarms, "deviation_radius", 1 / 3)


@caught_by("test_monitor.test_intervals_hold_from_the_chosen_start_for_all_groups_at_all_looks", "np.median(widths)")
def intervals_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are half again as wide as need be."""
    rescale(monkeypatch, alarms, "deviation_radius", 1.5)


@caught_by("test_monitor.test_honest_forecasts_are_rarely_rejected_at_tolerance_zero", "lifetime <= 0.2")
def wealth_without_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest wealth of all cells is read as if there were one cell."""
    monkeypatch.setattr(MonitorSettings, "log_budget", lambda self: np.zeros(self.ranges.nodes))


@caught_by("test_monitor.test_honest_forecasts_are_rarely_rejected_at_tolerance_zero", "change <= ")
def detector_without_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of each detector is a fiftieth of what all of them together need."""
    scale(monkeypatch, MonitorSettings, "change_limit", 0.02)


@caught_by("test_monitor.test_an_order_that_depends_on_labels_is_not_valid", "lifetime == 1.0")
def never_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lifetime test never rejects."""
    monkeypatch.setattr(Monitor, "test", lambda _self: alarms.Lifetime(0.0, 0.0, 1.0, False))


# Draws


class Changed:
    """Forecasts some of whose fields were replaced."""

    def __init__(self, forecasts: Any, **fields: Any) -> None:
        self.__dict__ |= fields
        self._forecasts = forecasts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forecasts, name)


def every_tenth_high(right: Callable[..., Any]) -> Callable[..., Changed]:
    """Wrap what returns forecasts."""

    def wrapped(*given: Any, **named: Any) -> Changed:
        forecasts = right(*given, **named)
        return Changed(forecasts, p=np.where(np.arange(len(forecasts.p)) % 10, forecasts.p, forecasts.high))

    return wrapped


@caught_by("test_kernels_draw.test_draws_are_uniform_over_events_and_over_seeds", "kstest(")
def bent_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws are uniform to the power of 1.1."""
    from tests import test_kernels_draw as module

    right = module.uniform
    monkeypatch.setattr(module, "uniform", lambda seed, event: right(seed, event) ** 1.1)


@caught_by("test_kernels_draw.test_draws_are_uniform_over_events_and_over_seeds", "is_plausible(sum(over_seeds)")
@caught_by("test_kernels_draw.test_seeds_change_the_draws", "first != second")
def one_seed_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed does not matter."""
    from tests import test_kernels_draw as module

    right = module.undecided
    monkeypatch.setattr(module, "undecided", lambda dim, seed=0: right(dim, 0))


@caught_by("test_kernels_draw.test_high_is_issued_as_often_as_its_weight_says", "is_plausible", mixing="hedge")
@caught_by("test_kernels_draw.test_high_is_issued_as_often_as_its_weight_says", "is_plausible", mixing="blum-mansour")
def high_one_in_ten_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in ten rows gets the high level whatever its weight."""
    monkeypatch.setattr(Forecaster, "predict_many", every_tenth_high(Forecaster.predict_many))


@caught_by("test_kernels_draw.test_high_is_issued_as_often_as_its_weight_says_along_a_stream", "abs(surprise) < 5")
def high_one_in_ten_too_often_along_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in ten rows of a stream gets the high level whatever its weight."""
    monkeypatch.setattr(Forecaster, "run", every_tenth_high(Forecaster.run))


@caught_by("test_kernels_draw.test_event_ids_determine_the_draw_whatever_was_learned_in_between", "60 < together.sum()")
@caught_by("test_kernels_draw.test_open_forecasts_of_different_contexts_do_not_share_a_draw", "agreement.max()", hot=2)
def one_draw_for_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows share the draw of the first."""
    many, one = Forecaster.predict_many, Forecaster.predict

    def predict_many(self: Forecaster, X: Any, events: Any = None) -> Any:
        return many(self, X, events=["first"] * len(X))

    monkeypatch.setattr(Forecaster, "predict_many", predict_many)
    monkeypatch.setattr(Forecaster, "predict", lambda self, x, event=None: one(self, x, event="first"))


@caught_by("test_kernels_draw.test_learning_changes_the_draw_of_the_same_context", "140 < sum(issued) < 260")
def learning_leaves_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same context gets the same draw after learning."""
    right = Forecaster.predict
    monkeypatch.setattr(Forecaster, "predict", lambda self, x: right(self, x, event=str(x)))


@caught_by("test_kernels_draw.test_learning_changes_the_draw_of_the_same_context", "np.diff(issued)")
def draws_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draw of a context changes at each label."""
    right = Forecaster.predict

    def predict(self: Forecaster, x: Any) -> Any:
        ids = (k for k in range(100) if right(self, x, event=k).p == self.rounds % 2)
        return right(self, x, event=next(ids))

    monkeypatch.setattr(Forecaster, "predict", predict)


# Concentration, and from pseudo to realised errors


@caught_by("test_bounds.test_freedman_fails_no_more_often_than_delta", "<= delta", mu=0.1, rare=False)
def half_of_freedman(monkeypatch: pytest.MonkeyPatch) -> None:
    """Freedman's inequality at a fifth of its bound."""
    rescale(monkeypatch, bounds, "freedman", 0.2)


@caught_by(
    "test_bounds.test_freedman_uniform_holds_for_random_variances_and_exceeds_the_best_fixed_choice",
    "failures <= delta",
)
def freedman_for_a_known_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both inequalities at a tenth of their bounds."""
    rescale(monkeypatch, bounds, "freedman", 0.1)
    rescale(monkeypatch, bounds, "freedman_uniform", 0.1)


REALISED = {
    "test_realised_multicalibration_from_pseudo_multicalibration": "paper_smcal2_from_psmcal2",
    "test_realised_swap_regret_from_pseudo_swap_regret": "sreg_from_psreg",
    "test_realised_multicalibration_from_pseudo_swap_regret": "smcal2_from_psreg",
}


@caught_by("test_bounds.test_realised_multicalibration_from_pseudo_multicalibration", "realised <= ", plays=None)
@caught_by("test_bounds.test_realised_swap_regret_from_pseudo_swap_regret", "realised <= ", plays=None)
@caught_by("test_bounds.test_realised_multicalibration_from_pseudo_swap_regret", "realised <= ", plays=None)
def draws_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Realised errors are bounded by pseudo ones alone."""
    for name in REALISED.values():
        monkeypatch.setattr(bounds, name, lambda pseudo, *_: pseudo)


@caught_by("test_bounds.test_realised_multicalibration_from_pseudo_multicalibration", "needed > 0", plays="soft")
@caught_by("test_bounds.test_realised_swap_regret_from_pseudo_swap_regret", "needed > 0", plays="soft")
def nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plays realise their distributions exactly, so that no bound is needed."""


@caught_by("test_bounds_rates.test_population_swap_regret_from_pseudo_swap_regret", "error / rounds <= float(bound)")
def the_sample_is_the_population(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the population is bounded by 0."""
    monkeypatch.setattr(bounds, "population_from_psreg", lambda *_: -1.0)


@caught_by(
    "test_bounds_rates.test_action_deviation_covers_the_counts_of_levels_and_labels", "failures <= delta * trials"
)
def a_twentieth_of_the_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are bounded by a twentieth of what is proved, which is far above what happens."""
    rescale(monkeypatch, bounds, "action_deviation", 0.05)


# The batch predictor


@caught_by("test_batch.test_snapshots_are_unbiased", "error.max() < ", logged=None)
def late_rounds_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots are taken at the ends of their stretches."""
    monkeypatch.setattr(
        mixture, "stratified", lambda count, rounds, _: ((np.arange(count) + 1) * (rounds / count) - 1).astype(np.int64)
    )


@caught_by("test_batch.test_stratified_rounds_are_uniform", "np.abs(counts / 2400 - 1)")
def rounds_drawn_by_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds are drawn by the square of a uniform number."""
    from tests import test_batch as module

    monkeypatch.setattr(
        module, "stratified", lambda count, rounds, rng: (rng.random(count) ** 2 * rounds).astype(np.int64)
    )


@caught_by("test_batch.test_issued_levels_average_to_the_mean", "mixture.mean(X[:1])[0]", logged=None)
def high_level_issued(monkeypatch: pytest.MonkeyPatch) -> None:
    """The higher level is issued always."""
    right = Mixture.issue
    monkeypatch.setattr(Mixture, "issue", lambda *given, **named: (one := right(*given, **named))._replace(p=one.high))


@caught_by("test_batch.test_issued_levels_average_to_the_mean", "issued.weight * issued.high", logged=None)
def weights_of_the_low_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weight given is that of the lower level."""
    right = Mixture.issue
    monkeypatch.setattr(
        Mixture, "issue", lambda *given, **named: (one := right(*given, **named))._replace(weight=1 - one.weight)
    )


@caught_by("test_batch.test_the_issued_mixture_gets_swap_multicalibrated_as_rows_grow", "found[1] < found[0]")
def rows_beyond_500_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first 500 rows are learned."""
    right = Stream.run

    def run(self: Stream, X: Any, y: Any, *, at: Any) -> Any:
        return right(self, X[:500], y[:500], at=np.unique(at * 500 // len(y)))

    monkeypatch.setattr(Stream, "run", run)


@caught_by("test_batch.test_shares_are_those_of_all_snapshots_and_of_many_draws", "np.abs(often - shares)")
def draws_of_the_low_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lower level is issued always."""
    right = History.issue
    monkeypatch.setattr(History, "issue", lambda *given, **named: (one := right(*given, **named))._replace(p=one.low))


POPULATIONS = "test_batch." + (
    "test_populations_keep_the_theorem_on_self_refining_levels_and_a_forecaster_that_learns_nothing_breaks_it"
)


@caught_by(POPULATIONS, "error(levels, shares, atoms, truth) <= square", scene="any", dim=2)
def one_level_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The predictor always issues the level 0."""
    right = History.shares

    def shares(self: History, X: Any) -> Any:
        levels, found = right(self, X)
        stuck = np.zeros_like(found)
        stuck[:, 0] = 1.0
        return levels, stuck

    monkeypatch.setattr(History, "shares", shares)


@caught_by(POPULATIONS, "agnostic(levels, stuck", scene="any", dim=1)
def a_bound_that_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of the swap agnostic error is 1."""
    monkeypatch.setattr(bounds, "adaptive_saerr", lambda *_: 1.0)


# Streams and other systems


@caught_by("test_datasets.test_labels_follow_their_chances", "< 5 * spread", name="linear")
def labels_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels are 1 by 3 points too often."""
    from swapcal.datasets import Stream as Labelled

    def labels(self: Any, start: int, stop: int) -> Any:
        rows = self.rows(start, stop)
        return (rows.coins < rows.chance + 0.03).astype(float)

    monkeypatch.setattr(Labelled, "labels", labels)


REVEALED = "test_datasets.test_groups_that_look_at_the_forecast_catch_who_deviates_from_a_revealed_chance"


@caught_by(REVEALED, "0.6 * noise < truth")
def labels_double_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels are 1 by 3 points too often."""
    labels_too_often(monkeypatch)


@caught_by(REVEALED, "> 2 * truth")
def groups_that_do_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only group is everyone."""
    from tests import test_datasets as module

    monkeypatch.setattr(module, "prediction_groups", lambda p, _: np.ones((len(p), 3)))


@caught_by("test_baselines.test_foster_vohra_calibrates_in_l1", "mean_over_seeds(cal1)", opponent="linear")
@caught_by("test_baselines.test_foster_hart_calibrates_in_l2", "mean_over_seeds(cal2)", opponent="linear")
@caught_by("test_baselines.test_garg_ito_meets_its_swap_regret", "mean_over_seeds(regret", opponent="linear")
@caught_by(
    "test_baselines.test_okoroafor_passes_all_tests_at_rate_root_t", "mean_over_seeds(worst, 4)", opponent="linear"
)
def forecasts_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems issue a third of p."""
    from tests import test_baselines as module

    right = module.played

    def played(*given: Any) -> Any:
        part = right(*given)
        return part._replace(forecast=Changed(part.forecast, p=part.forecast.p / 3))

    monkeypatch.setattr(module, "played", played)


@caught_by(
    "test_baselines.test_groups_stay_calibrated_in_every_bucket", "mean_over_seeds(worst_cell, 4)", opponent="linear"
)
def sums_of_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's sums of residuals grow with the rounds."""
    from tests import test_baselines as module

    right = module.played

    def played(forecaster: Any, stream: Any) -> Any:
        part = right(forecaster, stream)
        forecaster._cells.total[:] += 0.1 * len(part.y)
        return part

    monkeypatch.setattr(module, "played", played)


@caught_by("test_baselines.test_garg_ito_asks_and_issues_with_the_same_distribution", "np.abs(asked - issued).max()")
def issued_by_another_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the levels issued are the lowest that is possible."""
    from swapcal.baselines import GargIto

    right = GargIto.predict_many

    def predict_many(self: Any, *given: Any, **named: Any) -> Any:
        tickets = right(self, *given, **named)
        return Changed(tickets, p=np.where(np.arange(len(tickets.p)) % 2, tickets.p, tickets.p.min()))

    monkeypatch.setattr(GargIto, "predict_many", predict_many)


@caught_by(
    "test_live.test_the_interval_of_a_score_covers_in_95_percent_of_streams", "abs(np.mean(inside)", design="better"
)
def narrow_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval of a score beside the forecasts is a quarter narrower."""
    from swapcal.live import status

    monkeypatch.setattr(status, "NORMAL", 1.47)


@caught_by(
    "test_monitor_alarms.test_learned_ranges_keep_the_lifetime_level_and_find_an_error_along_a_number", "binom.isf"
)
def ranges_that_know_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that edges are learned from bet too, in a range chosen after their outcome."""
    right = Bets.enter

    def enter(self: Any, placed: Any, p: Any, y: Any, *rest: Any) -> None:
        members = placed.members.copy()
        members[(members < 0) & (y == 1)[:, None]] = members.max()
        right(self, placed._replace(members=members), p, y, *rest)

    monkeypatch.setattr(Bets, "enter", enter)


@caught_by("test_monitor_alarms.test_classes_keep_the_lifetime_level_together", "binom.isf")
def classes_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each class is judged by the forecasts of another."""
    right = ClassMonitors.add
    monkeypatch.setattr(ClassMonitors, "add", lambda self, records, P, y: right(self, records, P[:, ::-1], y))


@caught_by("test_spark_parts.test_rows_of_one_time_are_ordered_by_the_seed_alone", "np.corrcoef")
def outcomes_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one time are in the order of their outcomes."""
    pytest.importorskip("pyspark")
    from tests import test_spark_parts as module

    monkeypatch.setattr(
        module,
        "_order",
        lambda rows, prob, target, seed: np.lexsort((rows.numbers(target), rows.numbers(module.CLOCK))),
    )


# The checks


def _filled(module: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with the fixtures among them made."""
    made = dict(arguments)
    if "logged" in made:
        made["logged"] = module.log_a_stream()
    if "plays" in made:
        plays = module.random_plays()
        made["plays"] = [(P, P, *rest) for P, _, *rest in plays] if made["plays"] == "soft" else plays
    return made


@pytest.mark.parametrize(
    "fault", FAULTS, ids=[f"{one.plant.__name__}-{one.test.removeprefix('test_')}" for one in FAULTS]
)
def test_a_planted_fault_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWAPCAL_SEED", raising=False)
    module = importlib.import_module(f"tests.{fault.module}")
    arguments = _filled(module, fault.arguments)
    fault.plant(monkeypatch)
    with pytest.raises(AssertionError) as caught:
        getattr(module, fault.test)(**arguments)
    (statement,) = [str(entry.statement) for entry in caught.traceback if entry.name == fault.test]
    assert fault.line in statement


def _statistical() -> set[tuple[str, str]]:
    found = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body if "@pytest.mark.statistical" in text else ():
            if isinstance(node, ast.FunctionDef):
                marks = {ast.unparse(decorator) for decorator in node.decorator_list}
                found |= {(path.stem, node.name)} if "pytest.mark.statistical" in marks else set()
    return found


def test_seeds_are_fixed_unless_another_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWAPCAL_SEED", raising=False)
    assert [seeded(k) for k in (0, 7, 12345)] == [0, 7, 12345]
    runs = set()
    for run in ("0", "1", "99"):
        monkeypatch.setenv("SWAPCAL_SEED", run)
        runs |= {seeded(k) for k in range(2000)}
    assert len(runs) == 6000
    assert min(runs) > 12345


def test_every_statistical_test_is_caught_failing() -> None:
    found = _statistical()
    assert len(found) > 50
    assert found == {(fault.module, fault.test) for fault in FAULTS}
