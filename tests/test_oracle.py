"""Forecasting with learners of one's own: identities against brute force, adversaries, delays, failures, states."""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from swapcal import Forecaster, Oracle, OracleForecaster
from swapcal.arrays import Array
from swapcal.oracles import FiniteClass, Ridge
from tests.adversaries import RULES, contexts, labels, rules

STUMPS = [(j, cut, low, high) for j in (1, 2) for cut in (-0.3, 0.0, 0.3) for low in (0.1, 0.6) for high in (0.2, 0.9)]


def stump(j: int, cut: float, low: float, high: float) -> Callable[[Array], float]:
    return lambda x: high if x[j] > cut else low


FUNCTIONS = [stump(*each) for each in STUMPS] + [lambda x: 0.5, lambda x: 0.0, lambda x: 1.0]


def finite(level: float) -> FiniteClass:
    return FiniteClass(FUNCTIONS)


class Played:
    """What a forecaster did, kept literally: the distributions, the contexts, the labels and the weights."""

    def __init__(self) -> None:
        self.rows: list[tuple[list[tuple[float, float]], Array, float, float]] = []

    def add(self, forecaster: Any, forecast: Any, x: Array, y: float, weight: float = 1.0) -> None:
        if forecaster._mixing == "hedge":
            mix = [(forecast.low, 1 - forecast.weight), (forecast.high, forecast.weight)]
        else:
            mix = [(forecaster._state.z[int(slot)], alpha) for slot, alpha, *_ in forecast._contexts[2]]
        self.rows.append((mix, x, y, weight))

    def psreg(self, functions: list[Callable[[Any], float]]) -> float:
        """Return Σ_v max_f Σ_t α_t(v)[(v - y)² - (f(x) - y)²], by trying every function on every level."""
        gains: dict[float, Array] = defaultdict(lambda: np.zeros(len(functions)))
        for mix, x, y, weight in self.rows:
            values = np.array([f(x) for f in functions])
            for level, alpha in mix:
                gains[level] = gains[level] + weight * alpha * ((level - y) ** 2 - (values - y) ** 2)
        return float(sum(gain.max() for gain in gains.values()))


def duel(forecaster: Any, X: Array, rule: Callable[[int, Array, Any], float]) -> Played:
    played = Played()
    for t, x in enumerate(X):
        forecast = forecaster.predict(x)
        y = rule(t, x, forecast)
        played.add(forecaster, forecast, x, y)
        forecaster.update(forecast, y)
    return played


def same(a: tuple[float, float], b: float, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(a, (b, b), rtol=0, atol=tolerance)


BESIDE = {"alone": (), "ridge": ("ridge",), "three": ("ridge", lambda level: Ridge(level, 3, ridge=0.1))}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mixing", ["hedge", "blum-mansour"])
@pytest.mark.parametrize("beside", BESIDE)
def test_swap_regret_is_rounding_plus_excess_for_any_labels(rule: str, mixing: str, beside: str) -> None:
    rng = np.random.default_rng(3)
    X = contexts(rng, 70, 3)
    forecaster = OracleForecaster(finite, levels=5, beside=BESIDE[beside], mixing=mixing)
    played = duel(forecaster, X, rules(rng, len(X), 3)[rule])
    certificate = forecaster.certificate()
    same(certificate.psreg, played.psreg(FUNCTIONS))
    same(tuple(certificate.rounding + certificate.excess.sum(axis=0)), played.psreg(FUNCTIONS))
    assert certificate.late == 0
    assert certificate.holds()
    assert certificate.psreg[1] <= certificate.bound <= certificate.theorem + 1e-12
    assert np.all(certificate.combining <= 2 * np.log(len(BESIDE[beside]) + 1) + 1e-9)
    assert (certificate.linear is None) == (beside == "alone")


@pytest.mark.parametrize("mixing", ["hedge", "blum-mansour"])
@pytest.mark.parametrize("beside", [(), ("ridge",)])
def test_the_identity_needs_nothing_of_the_learner(mixing: str, beside: tuple[str, ...]) -> None:
    """Wishes at random, anywhere, compared with a class that the learner does not use."""

    class Erratic(FiniteClass):
        def predict(self, x: Any) -> float:
            return float(np.random.default_rng(int(1e6 * abs(x[1]))).normal(0.5, 0.5))

    rng = np.random.default_rng(12)
    X = contexts(rng, 120, 3)
    forecaster = OracleForecaster(lambda v: Erratic(FUNCTIONS), levels=7, beside=beside, mixing=mixing)
    played = duel(forecaster, X, rules(rng, len(X), 3)["along the witness"])
    same(forecaster.certificate().psreg, played.psreg(FUNCTIONS))


@pytest.mark.parametrize("mixing", ["hedge", "blum-mansour"])
@pytest.mark.parametrize("levels", [6, "sine:5", [0, 0.05, 0.3, 0.6, 1]])
def test_ridge_oracles_give_the_certificate_of_the_engine(mixing: str, levels: Any) -> None:
    rng = np.random.default_rng(5)
    X = contexts(rng, 300, 4)
    y, events = labels(rng, X), list(range(300))
    engine = Forecaster(4, levels=levels, mixing=mixing, seed=3)
    forecaster = OracleForecaster(lambda v: Ridge(v, 4), levels=levels, mixing=mixing, beside=(), seed=3)
    expected = engine.run(X, y, events=events)
    got = forecaster.run(X, y, events=events)
    for name in ("p", "mean", "low", "high", "weight"):
        np.testing.assert_allclose(getattr(got, name), getattr(expected, name), rtol=0, atol=1e-13)
    for slot, level in zip(engine._state.order, forecaster.levels, strict=False):
        oracle: Any = forecaster.oracle(level)
        np.testing.assert_allclose(oracle._state.theta[0], engine._state.theta[slot], rtol=0, atol=1e-12)
    ours, theirs = forecaster.certificate(), engine.certificate()
    same(ours.psreg, theirs.psreg, 1e-12)
    assert ours.rounding == pytest.approx(theirs.rounding, abs=1e-12)
    assert ours.bound == pytest.approx(theirs.bound, abs=1e-10)
    assert ours.rounding + ours.excess.sum(axis=0) == pytest.approx(ours.psreg, abs=1e-10)


@pytest.mark.parametrize("mixing", ["hedge", "blum-mansour"])
@pytest.mark.parametrize("beside", BESIDE)
def test_late_labels_and_weights_leave_the_identity_exact(mixing: str, beside: str) -> None:
    """Wishes count as they were issued: with present ones the two sides differ in the second digit."""
    rng = np.random.default_rng(8)
    X, forecaster, played = contexts(rng, 150, 3), None, Played()
    forecaster = OracleForecaster(finite, levels=6, beside=BESIDE[beside], mixing=mixing)
    open_: list[tuple[Any, Array, float]] = []
    for x in X:
        open_.append((forecaster.predict(x), x, float(rng.random() < 0.3)))
        while len(open_) > 1 and rng.random() < 0.7:
            forecast, then, y = open_.pop(int(rng.integers(len(open_))))
            weight = float(rng.choice([0.0, 0.4, 1.0, 2.5]))
            played.add(forecaster, forecast, then, y, weight)
            forecaster.update(forecast, y, weight)
    certificate = forecaster.certificate()
    same(certificate.psreg, played.psreg(FUNCTIONS))
    same(tuple(certificate.rounding + certificate.excess.sum(axis=0)), played.psreg(FUNCTIONS))
    assert certificate.late > 50
    assert certificate.theorem is None
    assert certificate.bound == certificate.psreg[1]
    assert certificate.weight == pytest.approx(sum(row[3] for row in played.rows))
    assert certificate.holds()
    if certificate.linear is not None:
        assert certificate.linear.late == certificate.late
        assert certificate.linear.theorem is None
        assert certificate.linear.psreg <= certificate.linear.bound


def test_theorems_are_claimed_for_labels_on_time_and_weights_up_to_one_only() -> None:
    def certificate(weight: float, late: bool) -> Any:
        forecaster = OracleForecaster(finite, levels=4)
        x = np.array([0.5, 0.1, 0.1])
        first, second = forecaster.predict(x), forecaster.predict(x)
        forecaster.update(first, 1, weight)
        forecaster.update(second if late else forecaster.predict(x), 0)
        return forecaster.certificate()

    for weight, late, claimed in ((1.0, False, True), (0.5, False, True), (1.5, False, False), (1.0, True, False)):
        found = certificate(weight, late)
        assert (found.theorem is not None) == claimed
        assert (found.linear.theorem is not None) == claimed
        assert found.late == late


def test_a_label_for_the_forecast_of_a_copy_that_learned_other_labels_is_late() -> None:
    forecaster = OracleForecaster(finite, levels=4)
    twin = copy.deepcopy(forecaster)
    x = np.array([0.5, 0.1, 0.1])
    forecaster.update(forecaster.predict(x), 1)
    twin.update(twin.predict(x), 0)
    forecaster.update(twin.predict(x), 1)
    assert (forecaster.rounds, forecaster.certificate().late) == (2, 1)


def test_the_bound_with_ridge_beside_is_that_of_the_linear_class() -> None:
    """A useless oracle costs at most 2 ln 2 a level; the engine's certificate holds for the combined wishes."""

    class Contrary:
        def predict(self, x: Any) -> float:
            return float(x[1] < 0)

        def update(self, x: Any, y: float, weight: float) -> None:
            pass

    rng = np.random.default_rng(2)
    X = contexts(rng, 1500, 3)
    y = (rng.random(1500) < np.clip(0.5 + X[:, 1], 0, 1)).astype(float)
    engine, forecaster = Forecaster(3, levels=10), OracleForecaster(lambda level: Contrary(), levels=10)
    engine.run(X, y)
    forecaster.run(X, y)
    alone, joined = engine.certificate(), forecaster.certificate()
    assert joined.linear is not None
    assert joined.linear.holds()
    assert joined.psreg is joined.bound is joined.theorem is None
    assert joined.linear.theorem == pytest.approx(alone.theorem + 11 * 2 * np.log(2))
    assert alone.psreg < joined.linear.psreg < alone.bound + 11 * 2 * np.log(2)
    assert joined.linear.issued is not None
    assert joined.linear.issued.labels == 1500


def test_members_are_combined_by_exponential_weights_of_their_losses_as_issued() -> None:
    """Replayed literally from what was issued, with late labels and weights; two constants and ridge."""
    rng = np.random.default_rng(9)
    forecaster = OracleForecaster(lambda v: Counting(v, 0.2), levels=3, beside=(lambda v: Counting(v, 0.9), "ridge"))
    lost: dict[int, Array] = defaultdict(lambda: np.zeros(4))
    open_: list[Any] = []
    for x in contexts(rng, 120, 2):
        forecast = forecaster.predict(x)
        for slot, _, w, *wishes in forecast._contexts[2]:
            weights = np.exp(-0.5 * lost[int(slot)][1:])
            assert wishes[:2] == [0.2, 0.9]
            assert w == pytest.approx(float(weights @ wishes / weights.sum()), abs=1e-12)
        open_.append(forecast)
        if len(open_) > 3:
            done, y, weight = open_.pop(int(rng.integers(4))), float(rng.random() < 0.6), float(rng.random() * 2)
            forecaster.update(done, y, weight)
            for slot, alpha, *wishes in done._contexts[2]:
                lost[int(slot)] = lost[int(slot)] + weight * alpha * (np.array(wishes) - y) ** 2
    combining = forecaster.certificate().combining
    np.testing.assert_allclose(combining, [lost[k][0] - lost[k][1] for k in range(4)], atol=1e-10)
    assert forecaster.certificate().late > 50


def test_a_forecast_looks_at_logarithmically_many_oracles() -> None:
    """Wishes that agree with their level up to a late crossing would make a walk look at every one of them."""
    asked: list[float] = []

    class Asked(Counting):
        def predict(self, x: Any) -> float:
            asked.append(self.level)
            return self.level + 0.0005 if self.level < x else self.level - 0.0005

    forecaster = OracleForecaster(Asked, levels=1000, beside=())
    for x in (0.03, 0.4, 0.6, 0.97):
        asked.clear()
        forecast = forecaster.predict(x)
        assert forecast.low < x <= forecast.high
        assert len(asked) == len(set(asked)) <= 3 * 10 + 3


# Self-refining levels.


class Newborn(FiniteClass):
    """Remembers how it came to be."""

    how = "fresh"

    def __init__(self, level: float) -> None:
        super().__init__([lambda x: 0.3 + 0.4 * (x[1] > 0), lambda x: 0.5])
        self.born_at, self.copied = level, False

    @property
    def newborn(self) -> str:  # type: ignore[override]
        return self.how

    def __deepcopy__(self, memo: Any) -> Newborn:
        twin = copy.copy(self)
        twin.copied = True
        return twin


@pytest.mark.parametrize("how", ["copy", "fresh"])
@pytest.mark.parametrize("beside", [(), ("ridge",)])
def test_levels_refine_themselves_and_the_oracle_says_how_a_new_one_starts(
    how: str, beside: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Newborn, "how", how)
    monkeypatch.setattr("swapcal.engine.oracle.KAPPA", 0.005)
    rng = np.random.default_rng(1)
    X = contexts(rng, 900, 3)
    forecaster, played = OracleForecaster(Newborn, levels="adaptive", beside=beside), Played()
    before = len(forecaster.levels)
    for x in X:
        forecast = forecaster.predict(x)
        y = float(rng.random() < 0.3 + 0.4 * (x[1] > 0))
        played.add(forecaster, forecast, x, y)
        forecaster.update(forecast, y)
    born = forecaster._mixtures[before:]
    assert len(born) >= 2
    assert np.all(np.diff(forecaster.levels) > 0)
    for mixture in born:
        oracle: Any = mixture.oracles[0]
        assert oracle.copied == (how == "copy")
        assert (oracle.born_at == mixture.level) == (how == "fresh")
    certificate = forecaster.certificate()
    same(certificate.psreg, played.psreg(forecaster.oracle(0.0)._functions))  # type: ignore[attr-defined]
    assert certificate.theorem is None


@pytest.mark.parametrize("wish", [0.26, 0.3])
def test_a_copy_is_made_of_the_neighbour_that_has_learned_more(wish: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swapcal.engine.oracle.KAPPA", 0.01)

    class Copied(Counting):
        newborn = "copy"

    forecaster = OracleForecaster(lambda v: Copied(v, wish), levels="adaptive", beside=())
    low, high = 0.25, 0.3125
    while len(forecaster.levels) == 25:
        forecaster.update(forecaster.predict(None), 0)
    assert forecaster._mixtures[-1].level == (low + high) / 2
    assert forecaster._mixtures[-1].oracles[0].level == (low if wish < (low + high) / 2 else high)  # type: ignore[attr-defined]


def test_levels_wait_for_what_their_oracles_promise_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swapcal.engine.oracle.KAPPA", 0.01)

    def rows_to_a_split(promise: float) -> int:
        class Promising(Counting):
            newborn = "fresh"

            def regret(self, mass: float) -> float:
                return promise

        forecaster = OracleForecaster(lambda v: Promising(v, 0.28), levels="adaptive", beside=())
        while len(forecaster.levels) == 25:
            forecaster.update(forecaster.predict(None), 0)
        return forecaster.rounds

    gap = (0.28 - 0.25) * (0.3125 - 0.28)  # both wish for 0.28
    for promise in (0.5, 3.0):
        assert abs(rows_to_a_split(promise) - 0.01 * (promise + 0.1) / gap) < 2


@pytest.mark.parametrize("place", ["predict", "update"])
@pytest.mark.parametrize("beside", [(), ("ridge",)])
def test_an_oracle_that_writes_into_its_row_fails_before_anything_is_learned(place: str, beside: Any) -> None:
    """In-place scaling is an easy mistake; the row is also what ridge learns and what certificates are about."""

    class Scaling(Counting):
        spoils = False

        def predict(self, x: Any) -> float:
            if self.spoils and place == "predict":
                x -= 1.0
            return 0.4

        def update(self, x: Any, y: float, weight: float) -> None:
            if self.spoils and place == "update":
                x -= 1.0

    x = np.array([0.5, 0.1])
    forecaster = OracleForecaster(Scaling, levels=4, beside=beside)
    forecaster.run([x], [1])
    forecast = forecaster.predict(x)
    before = [array.copy() for array in forecaster._state]
    Scaling.spoils = True
    with pytest.raises(ValueError, match="read-only"):
        forecaster.update(forecast, 1) if place == "update" else forecaster.predict(x)
    Scaling.spoils = False
    for old, new in zip(before, forecaster._state, strict=True):
        np.testing.assert_array_equal(old, new)
    forecaster.update(forecast, 1)
    np.testing.assert_array_equal([row.x for row in forecaster._log or []], [x, x])
    x[1] = 0.2  # the caller's own array stays writeable


def test_an_oracle_may_change_the_dict_it_gets() -> None:
    class Popping(Counting):
        def predict(self, x: Any) -> float:
            return float(x.pop("a"))

        def update(self, x: Any, y: float, weight: float) -> None:
            x.clear()

    forecaster, row = OracleForecaster(Popping, levels=4, beside=()), {"a": 0.4}
    forecaster.run([row, row], [1, 0])
    assert row == {"a": 0.4}
    assert [each.x for each in forecaster._log or []] == [row, row]


def test_promises_are_numbers_and_infinity_promises_nothing() -> None:
    class Promising(Counting):
        def regret(self, mass: float) -> float:
            return self.wish

        def predict(self, x: Any) -> float:
            return 0.3

    def certificate(promise: float) -> Any:
        forecaster = OracleForecaster(lambda v: Promising(v, promise), levels=4, beside=())
        forecaster.run([1], [1])
        return forecaster.certificate()

    assert certificate(float("inf")).theorem is certificate(float("inf")).bound is None
    assert certificate(2.0).theorem is not None
    with pytest.raises(ValueError, match="regret: given nan"):
        certificate(float("nan"))


def test_levels_refine_only_with_oracles_that_say_how() -> None:
    with pytest.raises(TypeError, match=r"levels: given \"adaptive\" with Counting"):
        OracleForecaster(Counting, levels="adaptive")


def test_a_new_level_that_cannot_be_made_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Newborn, "how", "fresh")
    monkeypatch.setattr("swapcal.engine.oracle.KAPPA", 0.005)
    spoiled = False

    def make(level: float) -> Newborn:
        if spoiled:
            raise RuntimeError("no more")
        return Newborn(level)

    rng = np.random.default_rng(1)
    X = contexts(rng, 900, 3)
    y = (rng.random(900) < 0.3 + 0.4 * (X[:, 1] > 0)).astype(float)
    forecaster = OracleForecaster(make, levels="adaptive", beside=())
    spoiled, levels, failed, played = True, forecaster.levels.tolist(), 0, Played()
    for x, label in zip(X, y.tolist(), strict=True):
        forecast = forecaster.predict(x)
        played.add(forecaster, forecast, x, label)
        try:
            forecaster.update(forecast, label)
        except RuntimeError:
            failed += 1
        assert forecast.learned
    assert failed > 1
    assert forecaster.levels.tolist() == levels
    state = forecaster._state
    assert state.order.tolist() == list(range(len(state.order)))
    assert state.right.tolist() == [*range(1, len(levels)), *[-1] * (len(state.right) - len(levels) + 1)]
    same(forecaster.certificate().psreg, played.psreg(forecaster.oracle(0.0)._functions))  # type: ignore[attr-defined]
    spoiled = False
    forecaster.run(X, 1.0 - y)
    assert len(forecaster.levels) > len(levels)
    assert np.all(np.diff(forecaster.levels) > 0)


@pytest.mark.parametrize("rule", RULES)
def test_certificates_on_self_refining_levels_hold_for_any_labels(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swapcal.engine.oracle.KAPPA", 0.02)
    rng = np.random.default_rng(4)
    X = contexts(rng, 120, 3)
    forecaster = OracleForecaster(finite, levels="adaptive")
    played = duel(forecaster, X, rules(rng, len(X), 3)[rule])
    certificate = forecaster.certificate()
    same(certificate.psreg, played.psreg(FUNCTIONS))
    assert certificate.holds()
    assert certificate.linear is not None
    assert certificate.linear.theorem is not None


def test_levels_that_were_never_played_need_no_promise() -> None:
    forecaster = OracleForecaster(lambda v: FiniteClass(lambda x: [0.1, 0.2]), levels=4, beside=())
    assert forecaster.oracle(1.0).regret(0.0) is None  # type: ignore[attr-defined]
    forecaster.run([0, 1], [0, 1])
    certificate = forecaster.certificate()
    assert certificate.theorem == pytest.approx(2 / 64 + 2 * 2 * np.log(2))
    assert certificate.psreg[1] <= certificate.bound <= certificate.theorem


# Oracles that misbehave.


class Counting:
    """Wishes for what it is told to, and counts what it learned."""

    def __init__(self, level: float, wish: Any = 0.3) -> None:
        self.level, self.wish, self.seen = level, wish, 0

    def predict(self, x: Any) -> Any:
        return self.wish

    def update(self, x: Any, y: float, weight: float) -> None:
        self.seen += 1


@pytest.mark.parametrize("wish", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("beside", [(), ("ridge",)])
def test_a_wish_that_is_no_number_is_refused_and_changes_nothing(wish: float, beside: tuple[str, ...]) -> None:
    forecaster = OracleForecaster(lambda v: Counting(v, wish), levels=4, beside=beside)
    with pytest.raises(ValueError, match="oracle: given the wish"):
        forecaster.predict(np.array([0.5]))
    assert forecaster.rounds == 0


@pytest.mark.parametrize(("wish", "clipped"), [(7.0, 1.0), (-3.0, 0.0)])
def test_a_wish_outside_is_clipped_and_charged_as_clipped(wish: float, clipped: float) -> None:
    class Outside(Counting):
        def best(self, X: Any, y: Array, weight: Array) -> tuple[float, float]:
            return 0.0, float(weight.sum())

    forecaster = OracleForecaster(lambda v: Outside(v, wish), levels=4, beside=())
    for y in (1.0, 0.0, 1.0):
        forecast = forecaster.predict("anything")
        assert forecast.mean == clipped
        forecaster.update(forecast, y)
    certificate = forecaster.certificate()
    lost = float(sum((clipped - y) ** 2 for y in (1.0, 0.0, 1.0)))
    assert certificate.rounding == 0.0
    assert certificate.psreg == (lost - 3.0, lost)


def test_an_oracle_that_raises_leaves_the_accounts_as_they_were_and_the_label_can_be_learned_again() -> None:
    class Failing(Counting):
        fails = ()

        def predict(self, x: Any) -> float:
            return 0.375

        def update(self, x: Any, y: float, weight: float) -> None:
            if self.level in self.fails:
                raise RuntimeError("disk full")
            super().update(x, y, weight)

    forecaster = OracleForecaster(Failing, levels=4)
    x = np.array([0.5, 0.2])
    forecaster.update(forecaster.predict(x), 1)
    forecast = forecaster.predict(x)
    assert 0 < forecast.weight < 1
    accounts = pickle.dumps((forecaster._state._asdict(), forecaster._log, forecaster._late, forecaster._history))
    for level, taught in ((forecast.low, 1), (forecast.high, 2)):
        Failing.fails = (level,)  # type: ignore[assignment]
        with pytest.raises(RuntimeError, match="disk full"):
            forecaster.update(forecast, 0)
        assert not forecast.learned
        assert forecaster.rounds == 1
        now = forecaster._state._asdict(), forecaster._log, forecaster._late, forecaster._history
        assert pickle.dumps(now) == accounts
        assert forecaster.oracle(forecast.low).seen == taught  # type: ignore[attr-defined]
    Failing.fails = ()
    forecaster.update(forecast, 0)
    assert [forecaster.oracle(v).seen for v in (forecast.low, forecast.high)] == [2, 2]  # type: ignore[attr-defined]
    assert forecaster.rounds == 2
    with pytest.raises(ValueError, match="already learned"):
        forecaster.update(forecast, 0)


def test_a_failure_in_a_run_names_the_row() -> None:
    def rule(x: float) -> float:
        return 1 / x

    forecaster = OracleForecaster(lambda v: FiniteClass([rule]), beside=())
    with pytest.raises(ZeroDivisionError) as caught:
        forecaster.run([1.0, 2.0, 0.0, 3.0], [0, 1, 0, 1])
    assert "row 3" in caught.value.__notes__[0]
    assert forecaster.rounds == 2


@pytest.mark.parametrize(
    ("make", "options", "error", "words"),
    [
        (3, {}, TypeError, "make: given 3"),
        (lambda v: 3, {}, TypeError, "make: given int at level 0"),
        (lambda v: Counting, {}, TypeError, "make: given type"),
        (finite, {"beside": "ridge"}, TypeError, "beside: given 'ridge'"),
        (finite, {"beside": ("tree",)}, TypeError, "beside: given 'tree'"),
        (finite, {"beside": ("ridge", "ridge")}, ValueError, "beside: given"),
        (finite, {"mixing": "both"}, ValueError, "mixing: given 'both'"),
        (finite, {"mixing": "blum-mansour", "levels": "adaptive"}, ValueError, "levels: given"),
        (finite, {"levels": 0}, ValueError, "levels: given"),
        (finite, {"seed": -1}, ValueError, "seed: given -1"),
    ],
)
def test_bad_arguments_are_refused(make: Any, options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        OracleForecaster(make, **options)


def test_one_oracle_for_all_levels_is_refused() -> None:
    shared = Counting(0.5)
    with pytest.raises(ValueError, match="make: given the same object"):
        OracleForecaster(lambda level: shared)


def test_bad_rows_labels_weights_and_forecasts_are_refused_and_change_nothing() -> None:
    forecaster, other = OracleForecaster(finite, levels=4), OracleForecaster(finite, levels=4)
    x = np.array([0.5, 0.1, 0.2])
    forecaster.run([x], [1])
    forecast = forecaster.predict(x)
    attempts: list[Callable[[], Any]] = [
        lambda: forecaster.predict({"a": 1}),
        lambda: forecaster.predict(x[:2]),
        lambda: forecaster.predict(np.array([0.4, 0.1, 0.2])),
        lambda: forecaster.update(forecast, 2),
        lambda: forecaster.update(forecast, 1, weight=-1.0),
        lambda: forecaster.update(forecast, 1, weight=float("nan")),
        lambda: forecaster.update(forecast, 1, weight=float("inf")),
        lambda: forecaster.update(forecast, 1, weight=1e200),
        lambda: other.update(forecast, 1),
        lambda: forecaster.update(forecaster.run([x, x][:0], []), 1),
        lambda: forecaster.run([x, x], [1]),
        lambda: forecaster.run([x, x], [1, 0], weight=[1.0]),
        lambda: forecaster.run([x, x], [1, 0], events=["a"]),
        lambda: forecaster.oracle(0.3),
    ]
    for attempt in attempts:
        with pytest.raises((ValueError, TypeError)):
            attempt()
    assert forecaster.rounds == 1
    assert not forecast.learned
    with pytest.raises(TypeError, match=r"context: given dict .*; with beside=\(\) x may be anything"):
        forecaster.predict({"a": 1})


def test_contexts_may_have_any_dimension_until_the_first_label() -> None:
    forecaster = OracleForecaster(lambda v: Counting(v), levels=4)
    three, two = forecaster.predict(np.array([0.5, 0.1, 0.2])), forecaster.predict(np.array([0.5, 0.1]))
    forecaster.update(two, 1)
    with pytest.raises(ValueError, match="context: given 3 coordinates, expected 2"):
        forecaster.update(three, 1)
    assert forecaster.rounds == 1


def test_predicting_is_pure_and_keeps_its_own_copy_of_the_row() -> None:
    class Echo(Counting):
        def update(self, x: Any, y: float, weight: float) -> None:
            self.seen = copy.deepcopy(x)

    for row, spoil in (({"a": 1.0}, dict.clear), ([1.0, 2.0], list.clear), (np.ones(2), lambda x: x.fill(0))):
        forecaster = OracleForecaster(Echo, levels=4, beside=())
        before = copy.deepcopy(row)
        forecast = forecaster.predict(row)
        assert forecast == forecaster.predict(row)
        spoil(row)  # type: ignore[operator]
        forecaster.update(forecast, 1)
        np.testing.assert_equal(forecaster.oracle(0.25).seen, before)  # type: ignore[attr-defined]


def test_draws_follow_the_weight_and_depend_on_seed_event_and_row() -> None:
    forecaster = OracleForecaster(lambda v: Counting(v, 0.3), levels=5, beside=())
    drawn = [forecaster.predict(0, event=k) for k in range(2000)]
    share = np.mean([forecast.p == forecast.high for forecast in drawn])
    assert abs(share - drawn[0].weight) < 5 * np.sqrt(0.25 / 2000)
    assert {forecast.p for forecast in drawn} == {drawn[0].low, drawn[0].high}
    again = OracleForecaster(lambda v: Counting(v, 0.3), levels=5, beside=())
    assert len(set(again.run([0] * 40, [1] * 40).p.tolist())) == 2
    unnamed = [forecaster.predict({"row": k}).p for k in range(50)]
    assert len(set(unnamed)) == 2
    assert unnamed == [forecaster.predict({"row": k}).p for k in range(50)]
    other = OracleForecaster(lambda v: Counting(v, 0.3), levels=5, beside=(), seed=1)
    assert [other.predict(0, event=k).p for k in range(50)] != [forecast.p for forecast in drawn[:50]]


def test_rows_may_be_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [20, 60, 30], "town": ["a", "b", "a"]})
    rule = [lambda x: 0.8 if x["town"] == "b" else 0.2]
    forecaster, loop = (OracleForecaster(lambda v: FiniteClass(rule), levels=5, beside=()) for _ in range(2))
    together = forecaster.run(frame, [0, 1, 0])
    for k, x in enumerate([{"age": 20, "town": "a"}, {"age": 60, "town": "b"}, {"age": 30, "town": "a"}]):
        forecast = loop.predict(x)
        assert forecast.p == together.p[k]
        loop.update(forecast, [0, 1, 0][k])


def test_the_certificate_in_words() -> None:
    forecaster = OracleForecaster(finite, levels=4)
    assert "No label" in str(forecaster.certificate())
    forecaster.update(forecaster.predict([0.5, 0.1, 0.1]), 1, weight=0)
    assert "No label" in str(forecaster.certificate())
    forecaster = OracleForecaster(finite, levels=4)
    rng = np.random.default_rng(0)
    X = contexts(rng, 100, 3)
    forecaster.run(X, labels(rng, X))
    certificate = forecaster.certificate()
    text = str(certificate)
    for words in ("not even one for each of the 5 levels", "combining 2 learners", "theorem", "No linear rule"):
        assert words in text
    assert certificate.as_dict()["linear"]["rounds"] == 100
    assert "swap regret" in repr(certificate)
    assert "OracleCertificate" in certificate._repr_html_()
    assert "OracleForecaster(FiniteClass" in repr(forecaster)
    assert "FiniteClass, ridge" in forecaster._repr_html_()
    assert isinstance(forecaster.oracle(0.5), Oracle)


def test_a_broken_promise_shows() -> None:
    class Boastful(FiniteClass):
        def regret(self, mass: float) -> float:
            return -1.0

    forecaster = OracleForecaster(lambda v: Boastful(FUNCTIONS), levels=4, beside=())
    rng = np.random.default_rng(0)
    X = contexts(rng, 50, 3)
    duel(forecaster, X, rules(rng, 50, 3)["oppose the mean"])
    certificate = forecaster.certificate()
    assert not certificate.holds()
    assert "DOES NOT HOLD" in repr(certificate)


def test_an_oracle_that_brackets_wrongly_is_refused() -> None:
    class Reversed(FiniteClass):
        def best(self, X: Any, y: Array, weight: Array) -> tuple[float, float]:
            return 2.0, 1.0

    forecaster = OracleForecaster(lambda v: Reversed(FUNCTIONS), levels=4)
    forecaster.run([np.array([0.5, 0.1, 0.2])], [1])
    with pytest.raises(ValueError, match="best: given"):
        forecaster.certificate()


def test_a_record_that_is_used_again_is_kept_as_it_was():
    rng = np.random.default_rng(0)
    rules = [lambda x: float(x["v"][0]), lambda x: 0.5]
    record = {"v": np.zeros(1)}
    shared, own = (OracleForecaster(lambda level: FiniteClass(rules), levels=4, beside=()) for _ in range(2))
    for t in range(100):
        value = float(rng.random() < 0.5)
        record["v"][0] = value
        for forecaster, x in ((shared, record), (own, {"v": np.array([value])})):
            forecaster.update(forecaster.predict(x), 1 - value if t < 20 else value)
    assert shared.certificate().psreg == own.certificate().psreg


def test_nothing_is_promised_once_only_some_oracles_learned_a_label():
    class Flaky(FiniteClass):
        fails = False

        def __init__(self, level):
            super().__init__([lambda x: 0.0, lambda x: 1.0])
            self.level = level

        def update(self, x, y, weight):
            if Flaky.fails and self.level > 0.5:
                raise RuntimeError
            super().update(x, y, weight)

    forecaster = OracleForecaster(Flaky, levels=1, beside=())
    assert forecaster.certificate().theorem is not None
    for t in range(60):
        forecast = forecaster.predict(t)
        Flaky.fails = True
        with contextlib.suppress(RuntimeError):
            forecaster.update(forecast, 1.0)
        Flaky.fails = False
        if not forecast.learned:
            forecaster.update(forecast, 0.0)
    certificate = forecaster.certificate()
    assert certificate.theorem is None
    assert certificate.holds()
