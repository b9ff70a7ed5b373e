"""PSMCal_2 ≤ PSReg ≤ certificate ≤ theorem, against everybody, for every combination."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal import Forecaster, bounds, errors
from swapcal._validate import NO_EVENT
from swapcal.engine import state as memory
from swapcal.engine.certificate import Certificate, level_terms
from swapcal.kernels.state import START, STEP, T_GAP, T_P, RunOptions
from tests.adversaries import RULES, contexts, rules
from tests.checks import COMBINATIONS, NAMES, build, stream
from tests.golden import saved
from tests.reference import issued_errors

SLACK = 1e-9
every_combination = pytest.mark.parametrize("combination", COMBINATIONS, ids=NAMES)


def assert_chain(certificate: Certificate, slack: float = SLACK) -> None:
    """Each pair up to a slack relative to its own two numbers: beside a large bound a small error is still checked."""

    def at_most(low: float, high: float | None) -> None:
        assert high is not None
        assert low <= high + slack * max(abs(low), abs(high))

    assert certificate.psmcal_2 >= 0
    at_most(certificate.psmcal_2, certificate.psreg)
    at_most(certificate.psreg, certificate.tight)
    at_most(certificate.tight or 0.0, certificate.bound)
    at_most(certificate.psmcal_1, float(np.sqrt(certificate.rounds * certificate.psmcal_2)))
    assert certificate.bound == pytest.approx(certificate.rounding + certificate.learning + certificate.prior)
    if certificate.late == 0:
        at_most(certificate.bound, certificate.theorem)
        at_most(certificate.psmcal_2, certificate.theorem_psmcal)
        at_most(certificate.theorem_psmcal or 0.0, certificate.theorem)
    assert certificate.holds()


@every_combination
@pytest.mark.parametrize("rule", RULES)
def test_the_chain_of_inequalities_against_adversaries(combination, rule):
    rng = np.random.default_rng(1)
    X, label = contexts(rng, 150, 3), rules(rng, 150, 3)[rule]
    if rule == "oppose the mean":
        X = np.tile(X[:3], (50, 1))
    forecaster = build(combination, 3)
    assert_chain(forecaster.certificate())
    for t, x in enumerate(X):
        ticket = forecaster.predict(x)
        width = np.max(np.diff(forecaster.levels)) if forecaster._mixing != "hedge" else ticket.high - ticket.low
        assert ticket._tickets[0, T_GAP] <= width**2 / 4 + 1e-15
        forecaster.update(ticket, label(t, x, ticket))
        if t in (0, 1, 30):
            assert_chain(forecaster.certificate())
    assert_chain(forecaster.certificate())


@every_combination
@pytest.mark.parametrize("ridge", [1e-12, 1e8])
@pytest.mark.parametrize("rule", RULES)
def test_the_chain_of_inequalities_at_the_ends_of_the_ridge(combination, ridge, rule):
    rng = np.random.default_rng(1)
    X, label = contexts(rng, 60, 3), rules(rng, 60, 3)[rule]
    forecaster = build(combination, 3, ridge=ridge)
    for t, x in enumerate(X):
        ticket = forecaster.predict(x)
        forecaster.update(ticket, label(t, x, ticket))
        if t in (0, 1, 30):
            assert_chain(forecaster.certificate(), 1e-6)
    assert_chain(forecaster.certificate(), 1e-6)


@pytest.mark.parametrize("ridge", [1e-12, 1e8])
@pytest.mark.parametrize("window", [1.0, 30.0])
@pytest.mark.parametrize("dim", [1, 3])
def test_the_chain_of_inequalities_at_the_ends_of_the_ridge_with_a_window(ridge, window, dim):
    for rule in RULES:
        rng = np.random.default_rng(1)
        X, label = contexts(rng, 60, dim), rules(rng, 60, dim)[rule]
        forecaster = Forecaster(dim, ridge=ridge, window=window, kappa=0.01)
        for t, x in enumerate(X):
            ticket = forecaster.predict(x)
            forecaster.update(ticket, label(t, x, ticket))
        assert_chain(forecaster.certificate(), 1e-6)
        assert forecaster.certificate(window=window).holds()


@pytest.mark.parametrize("ridge", [1.0, 1e8])
def test_swap_regret_at_a_large_ridge_is_that_of_the_rows(ridge):
    """Computed from the issued weights and the rows themselves, which know nothing of the ridge."""
    X, y = stream(400, 3)
    forecaster = Forecaster(3, ridge=ridge, levels=8)
    issued = forecaster.run(X, y)
    share = np.array(
        [
            np.where(issued.low == v, 1 - issued.weight, 0)
            + np.where(issued.high == v, issued.weight, 0) * (issued.high > issued.low)
            for v in forecaster.levels
        ]
    )
    v = forecaster.levels
    g = np.array([(s * (y - level)) @ X for s, level in zip(share, v, strict=True)])
    G = np.array([(X * s[:, None]).T @ X for s in share])
    assert forecaster.certificate().psreg == pytest.approx(float(errors.swap_regret(v, g, G)[0].sum()), rel=1e-6)


@settings(max_examples=60)
@given(
    st.sampled_from(COMBINATIONS),
    st.integers(1, 8),
    st.floats(0.01, 100),
    st.floats(0.001, 10),
    st.integers(0, 10**6),
    st.sampled_from(["noise", "rare", "tiny", "one-hot", "constant"]),
)
def test_the_chain_of_inequalities_on_arbitrary_streams(combination, dim, ridge, kappa, seed, kind):
    rng = np.random.default_rng(seed)
    X = contexts(rng, 200, dim)
    if kind == "tiny":
        X[:, 1:] *= 1e-8
    elif kind == "constant":
        X[:] = X[0]
    elif kind == "one-hot" and dim > 1:
        X[:, 1:] = 0.8 * np.eye(dim - 1)[rng.integers(dim - 1, size=200)]
    y = (rng.random(200) < (0.01 if kind == "rare" else 0.5 + 0.4 * np.sin(5 * X[:, -1]))).astype(float)
    forecaster = build(combination, dim, ridge=ridge, kappa=kappa)
    forecaster.run(X, y)
    assert_chain(forecaster.certificate())


@pytest.mark.parametrize("levels", ["adaptive", 20])
@pytest.mark.parametrize("learner", ["ridge", "vaw"])
def test_the_chain_of_inequalities_after_many_rounds(levels, learner):
    rng = np.random.default_rng(2)
    X = contexts(rng, 100_000, 4)
    y = (rng.random(100_000) < np.clip(0.5 + np.sin(np.arange(100_000) / 9000) * X[:, 1], 0, 1)).astype(float)
    forecaster = Forecaster(4, levels=levels, learner=learner)
    forecaster.run(X, y)
    certificate = forecaster.certificate()
    assert_chain(certificate)
    assert certificate.theorem is not None
    assert certificate.theorem < 100_000 / 4, "worth more than the trivial bound"


@every_combination
def test_the_implied_gram_matrix_is_the_accumulated_one(combination):
    """Swap regret needs G = Σ α x xᵀ; ridge and VAW recover it from the factor instead of keeping it."""
    X, y = stream(3000, 5)
    forecaster = build(combination, 5)
    state = forecaster._state
    G = {}
    for x, label in zip(X[:400], y[:400], strict=True):
        ticket = forecaster.predict(x)
        row, mix = ticket._tickets[0], ticket._mixes[0]
        shares = {int(row[8]): 1 - row[4], int(row[9]): row[4]}
        if mix.size:
            shares = dict(enumerate(mix[: len(mix) // 2]))
        for slot, weight in shares.items():
            G[slot] = G.get(slot, np.zeros((5, 5))) + weight * np.outer(x, x)
        forecaster.update(ticket, label)
    state = forecaster._state
    for slot, expected in G.items():
        np.testing.assert_allclose(
            memory.gram(state, slot, 5), expected, rtol=0, atol=1e-9 * np.trace(expected) + 1e-14, err_msg=str(slot)
        )


@pytest.mark.parametrize("learner", bounds.LEARNERS)
@pytest.mark.parametrize("rule", ["random", "drifting", "oppose the mean", "along the witness"])
def test_the_theorem_on_self_refining_levels_was_known_before_any_data(learner, rule):
    rng = np.random.default_rng(4)
    X, label = contexts(rng, 120, 3), rules(rng, 120, 3)[rule]
    forecaster = Forecaster(3, learner=learner, ridge=0.3, kappa=0.01)
    for t, x in enumerate(X):
        ticket = forecaster.predict(x)
        forecaster.update(ticket, label(t, x, ticket))
    certificate = forecaster.certificate()
    assert certificate.theorem == float(bounds.adaptive_psreg(120, 3, 0.01, 0.3, learner=learner))
    assert certificate.theorem_psmcal == float(bounds.adaptive_psreg(120, 3, 0.01, 0.3, 36.0, learner=learner))
    assert_chain(certificate)


@pytest.mark.parametrize(
    ("prior", "reach"), [([1.0, 3.0, 4.0], 5.0), ([-3.0, 3.0, 0.0], 5.0), ([1.0, 1.0, 2.0], 3.0), (None, 3.0)]
)
def test_a_distant_prior_is_paid_for_in_the_theorem_from_the_start(prior, reach):
    X, y = stream(300, 3)
    forecaster = Forecaster(3, prior=prior, kappa=0.001)
    forecaster.run(X, y)
    certificate = forecaster.certificate()
    assert certificate.theorem == float(bounds.adaptive_psreg(300, 3, 0.001, 1.0, (5 + reach) ** 2))
    assert certificate.theorem_psmcal == float(bounds.adaptive_psreg(300, 3, 0.001, 1.0, (3 + reach) ** 2))
    assert certificate.levels > 17
    assert_chain(certificate)


def test_the_theorem_after_growing_keeps_the_split_floor_of_the_start():
    X, y = stream(200, 200)
    forecaster = Forecaster(100, kappa=0.01)
    X[:100, 100:] = 0.0
    forecaster.run(X[:100, :100], y[:100])
    forecaster.grow(200)
    forecaster.run(X[100:], y[100:])
    certificate = forecaster.certificate()
    assert certificate.theorem == float(bounds.adaptive_psreg(200, 200, 0.01, floor=bounds.split_floor(100)))
    assert_chain(certificate)


@pytest.mark.parametrize("learner", ["ridge", "vaw"])
def test_realised_excess_needs_no_second_bound(learner):
    """What the learners lost is at most their potential, with labels on time; the bound is the smaller one."""
    X, y = stream(400, 4)
    forecaster = Forecaster(4, learner=learner)
    forecaster.run(X, y)
    certificate, state = forecaster.certificate(), forecaster._state
    assert certificate.learning <= float(np.sum(state.potential)) + SLACK


@pytest.mark.parametrize("ridge", [1.0, 1000.0])
def test_newton_steps_report_the_smaller_of_their_two_bounds(ridge):
    """The regret of Online Newton Step has the prior at weight βω/2 = 1/100, the realised excess at λ."""
    X, y = stream(300, 3)
    forecaster = Forecaster(3, learner="ons-fast", levels=4, ridge=ridge)
    forecaster.run(X, y)
    certificate, state = forecaster.certificate(), forecaster._state
    terms = np.array([level_terms(state, slot, 3, ridge) for slot in range(5)]).sum(axis=0)
    realised, newton = terms[1] + ridge * terms[2], np.sum(state.potential) + terms[2] / 100
    assert certificate.learning + certificate.prior == pytest.approx(min(realised, newton), rel=1e-9)
    assert certificate.prior == pytest.approx((ridge if realised < newton else 0.01) * terms[2], rel=1e-9)


def test_a_fresh_certificate_is_empty_and_speaks():
    certificate = Forecaster(3).certificate()
    assert certificate.psreg == certificate.psmcal_1 == certificate.psmcal_2 == certificate.bound == 0
    assert certificate.rounds == certificate.late == 0
    assert "worst-case theorem" in str(certificate)
    assert all(sentence.endswith(".") for sentence in certificate.sentences())
    late = Forecaster(3, levels=4)
    late.update(late.predict_many(np.tile([0.5, 0.1, 0.1], (3, 1))), [0, 1, 1])
    assert "not claimed (late labels" in str(late.certificate())


def test_the_sentence_speaks_of_bounded_rules_only_because_others_save_more():
    rng = np.random.default_rng(0)
    X, forecaster = contexts(rng, 60, 4), Forecaster(4)
    X[:, 1:] *= 1e-3  # only weights in the hundreds can read these
    forecaster.run(X, (X[:, 1] > 0).astype(float))
    state = forecaster._state
    slots = [slot for slot in memory.slots_in_order(state) if state.mass[slot] > 0]
    unbounded = sum(
        state.residual[slot, :4] @ np.linalg.pinv(memory.gram(state, slot, 4)) @ state.residual[slot, :4]
        for slot in slots
    )
    certificate = forecaster.certificate()
    assert unbounded > 1.2 * certificate.psreg
    assert "with weights of bounded size" in certificate.sentences()[0]
    assert "over the one label learned" in replace(certificate, rounds=1).sentences()[0]


def test_holds_can_fail():
    good = Forecaster(2).certificate().as_dict()
    assert Certificate(**good).holds()  # type: ignore[arg-type]
    assert not Certificate(**(good | {"psreg": 1e-3})).holds()  # type: ignore[arg-type]
    assert not Certificate(**(good | {"psmcal_2": 1e-3})).holds()  # type: ignore[arg-type]
    assert not Certificate(**(good | {"bound": 1e6, "psreg": 0.0})).holds()  # type: ignore[arg-type]
    assert not Certificate(1, 109, 0, 1e16, 1e17, 1e17, 1, 1, 1, 10, 0, 2, 2, None, 1e16).holds()
    assert not Certificate(1, 5, 6, 8, 1e12, 4, 1, 1, 1, 10, 0, 2, 2, None, 7).holds()


def test_perfect_calibration_has_no_regret_left():
    """Labels equal to a level that is played surely: nothing to gain."""
    X = np.tile([0.5, 0.3], (500, 1))
    forecaster = Forecaster(2, levels=4)
    forecaster.run(X, np.full(500, 0.25))
    certificate = forecaster.certificate()
    assert certificate.psmcal_2 < 0.1
    assert certificate.psreg < 0.2


def extreme_points(dim, centre, constant, tail):
    """Extreme points of a comparator class: two on the constant's axis, and many of the tail sphere around it."""
    rng = np.random.default_rng(0)
    directions = np.vstack([np.eye(dim - 1), -np.eye(dim - 1), rng.standard_normal((50, dim - 1))])
    sphere = tail * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    points = np.column_stack([np.zeros(len(sphere)), sphere])
    points = np.vstack([points, constant * np.eye(dim)[:1], -constant * np.eye(dim)[:1]])
    return points + centre * np.eye(dim)[0]


def test_the_theorem_allows_for_the_farthest_comparator():
    """Its prior term is λB², B the distance from a level's first weights 2v e_1 to the farthest of the class."""
    dim, levels = 3, 4
    forecaster = Forecaster(dim, levels=levels, learner="ridge", ridge=50.0)
    X, y = stream(300, dim)
    forecaster.run(X[:300], y[:300])
    certificate = forecaster.certificate()
    values = np.linspace(0, 1, levels + 1)
    for claimed, own, constant in ((certificate.theorem, 0.0, 4.0), (certificate.theorem_psmcal, 2.0, 2.0)):
        farthest = max(
            np.sum((theta - 2 * v * np.eye(dim)[0]) ** 2)
            for v in values
            for theta in extreme_points(dim, own * v, constant, constant / np.sqrt(3))
        )
        plain = bounds.psreg(300, dim, levels, learner="ridge", ridge=50.0, distance2=farthest)
        assert claimed == pytest.approx(float(plain))


def test_the_newton_bound_pays_for_the_distance_from_the_prior():
    """Online Newton Step's regret holds βω/2·‖θ - θ_0‖²; half of that would be no theorem."""
    dim = 3
    forecaster = Forecaster(dim, levels=4, learner="ons", ridge=1e6)
    X, y = stream(400, dim)
    forecaster.run(X[:400], y[:400])
    state, certificate = forecaster._state, forecaster.certificate()
    slots = [s for s in memory.slots_in_order(state) if state.mass[s] > 0]
    v, g, prior = state.z[slots], state.residual[slots, :dim], state.prior[slots, :dim]
    _, comparators = errors.swap_regret(v, g, np.array([memory.gram(state, s, dim) for s in slots]))
    distance2 = np.sum((comparators - prior) ** 2)
    assert certificate.prior == pytest.approx(0.5 * state.knobs[STEP] * state.knobs[START] * distance2, rel=1e-3)


@pytest.mark.parametrize("prior", [None, [1.0, 0.4, 0.0]], ids=["level", "fitted"])
def test_the_tight_bound_is_near_the_error_where_the_start_makes_the_other_loose(prior):
    rng = np.random.default_rng(5)
    forecaster = Forecaster(dim=3, ridge=50.0, prior=prior)
    X = contexts(rng, 3000, 3)
    forecaster.run(X, rng.random(3000) < 0.5 + 0.3 * X[:, 1])
    certificate = forecaster.certificate()
    assert certificate.prior > 0.8 * certificate.bound > 5.0 * certificate.psreg
    assert certificate.psreg <= certificate.tight < 1.5 * certificate.psreg


def test_the_tight_bound_covers_every_rule_as_near_to_the_start_as_the_best_one():
    """Against rules that the exact error does not search: any linear function in the ball, however large on X."""
    rng = np.random.default_rng(7)
    forecaster = Forecaster(dim=3, levels=[0.0, 0.5, 1.0], ridge=0.3)
    X, y = contexts(rng, 60, 3), (rng.random(60) < 0.4).astype(float)
    issued = forecaster.run(X, y)
    state = forecaster._state
    best = 0.0
    for slot, v in enumerate(state.z[:3].tolist()):
        share = np.where(issued.low == v, 1 - issued.weight, 0) + np.where(issued.high == v, issued.weight, 0)
        distance2 = level_terms(state, slot, 3, 0.3)[2]
        around = rng.normal(size=(4000, 3))
        around *= (np.sqrt(distance2) * rng.random(4000) ** (1 / 3) / np.linalg.norm(around, axis=1))[:, None]
        theta = np.vstack(
            [state.prior[slot, :3] + around, _nearest_best(X, y, share, state.prior[slot, :3], distance2)]
        )
        saved = share @ ((v - y)[:, None] ** 2 - (X @ theta.T - y[:, None]) ** 2)
        best += saved.max()
    certificate = forecaster.certificate()
    assert 0.9 * certificate.tight < best <= certificate.tight + 1e-9


def _nearest_best(X, y, share, start, distance2):
    """Return the least-squares rule within the ball around the start, by bisection on its multiplier."""
    G, u = (X * share[:, None]).T @ X, (X * share[:, None]).T @ (y - X @ start)
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = 0.5 * (low + high)
        move = np.linalg.solve(G + (middle + 1e-12) * np.eye(3), u)
        low, high = (middle, high) if move @ move > distance2 else (low, middle)
    return start + np.linalg.solve(G + (high + 1e-12) * np.eye(3), u)


def test_sentences_tell_loose_bounds_and_empty_promises_apart():
    loose = Certificate(50, 3, 5, 290, 900, 900, 2, 8, 280, 3000, 0, 17, 3, None, 6.0)
    saved, moved, bounded, promised = loose.sentences()
    assert "could have saved more than 0.0017 squared error per forecast over the 3,000 labels" in saved
    assert "at most 4.1 points" in moved
    assert "is 0.0020 per forecast" in bounded
    assert "58 times the error: that charge, set by the ridge before the rows come, is 97 % of it" in bounded
    assert "promises nothing yet" in promised
    assert "0.30" not in promised
    close = Certificate(50, 3, 5, 6, 90, 90, 2, 3, 1, 3000, 0, 17, 3, None, 6.0)
    assert "times the error" not in close.sentences()[2]
    assert close.sentences()[3] == (
        "The worst-case theorem about the distributions had promised at most 0.030 per forecast before the first label."
    )
    assert Forecaster(dim=2).certificate().sentences() == [
        "No label has been learned yet, so there is nothing to certify."
    ]
    recent = Forecaster(dim=2, window=50)
    recent.run(np.full((200, 2), 0.5), np.arange(200) % 2)
    assert "over about the last 50 of 200 labels learned" in recent.certificate(window=50).sentences()[0]


# The levels as they were drawn.


def assert_issued(certificate: Certificate, expected: dict[str, float], labels: int) -> None:
    assert certificate.issued is not None
    assert certificate.issued.labels == labels
    for name, value in expected.items():
        assert getattr(certificate.issued, name) == pytest.approx(value, rel=1e-9, abs=1e-9), name


@every_combination
@pytest.mark.parametrize("rule", ["oppose the issued level", "along the witness", "real-valued"])
def test_the_errors_of_issued_levels_are_those_of_the_draws(combination, rule):
    """With late labels in an order of their own; adaptive levels split meanwhile."""
    rng = np.random.default_rng(3)
    X, label = contexts(rng, 200, 3), rules(rng, 200, 3)[rule]
    forecaster = build(combination, 3, kappa=1e-4, ridge=0.1)
    assert_issued(forecaster.certificate(), issued_errors(np.zeros(0), np.zeros(0), np.zeros((0, 3))), 0)
    waiting, p, y, seen = [], [], [], []
    before = len(forecaster.levels)
    for t, x in enumerate(X):
        ticket = forecaster.predict(x)
        waiting.append((ticket, label(t, x, ticket), x))
        if t % 3 == 2:
            for late, outcome, context in [waiting.pop(int(rng.integers(len(waiting)))) for _ in range(2)]:
                forecaster.update(late, outcome)
                p.append(late.p)
                y.append(outcome)
                seen.append(context)
        if t in (2, 100):
            assert_issued(forecaster.certificate(), issued_errors(np.array(p), np.array(y), np.array(seen)), len(p))
    if combination == ("ridge", "hedge", "adaptive") and rule == "real-valued":
        assert len(forecaster.levels) > before
    assert len(set(p)) >= 2
    assert_issued(forecaster.certificate(), issued_errors(np.array(p), np.array(y), np.array(seen)), len(p))


@pytest.mark.parametrize("window", [None, 40.0])
def test_issued_levels_with_weights_growth_and_windows(window):
    X, y = stream(240, 9)
    X[:120, 2:] = 0.0
    weight = np.random.default_rng(2).integers(0, 4, 240).astype(float)
    forecaster = Forecaster(2, window=window, kappa=0.01)
    tickets = []
    for part, dim in ((slice(0, 120), 2), (slice(120, 240), 9)):
        forecaster.grow(dim)
        blank = memory.blank_tickets(120)
        X_part, mixes = np.ascontiguousarray(X[part, :dim]), forecaster._blank_mixes(1)
        options = RunOptions(weights=weight[part].copy())
        forecaster._advance(X_part, y[part].copy(), NO_EVENT, blank, mixes, options)
        tickets.append(blank)
    p = np.concatenate(tickets)[:, T_P]
    expected = issued_errors(p, y, X, weight)
    assert_issued(forecaster.certificate(), expected, 240)
    if window:
        recent = forecaster.certificate(window=window)
        assert_issued(recent, expected, 240)
        assert "over all labels learned" in recent.sentences()[-1], "the window is of the distributions' errors alone"


def test_issued_levels_run_like_a_loop_and_survive_saving(tmp_path):
    X, y = stream(300, 4)
    whole, loop = Forecaster(4, kappa=0.01), Forecaster(4, kappa=0.01)
    whole.run(X, y)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        loop.update(loop.predict(x), label)
        if t == 150:
            loop.save(tmp_path / "state")
            loop = Forecaster.load(tmp_path / "state")
    assert whole.certificate().issued == loop.certificate().issued
    np.testing.assert_array_equal(whole._state.drawn_residual, loop._state.drawn_residual)
    assert "None of this is about the mean forecast." in whole.certificate().sentences()[-1]
    assert "issued levels, as drawn, over 300 labels" in str(whole.certificate())


def test_a_state_of_an_earlier_release_knows_the_issued_levels_since_it_was_loaded(tmp_path):
    X, y = stream(260, 3)
    with saved.unpacked("forecaster") as path:
        forecaster = Forecaster.load(path)
    assert forecaster.rounds == 200
    assert_issued(forecaster.certificate(), issued_errors(np.zeros(0), np.zeros(0), np.zeros((0, 3))), 0)
    assert "Of the issued levels nothing is known" in forecaster.certificate().sentences()[-1]
    p = forecaster.run(X[:30], y[:30]).p
    forecaster.save(tmp_path / "again")
    forecaster = Forecaster.load(tmp_path / "again")
    p = np.concatenate([p, forecaster.run(X[30:60], y[30:60]).p])
    assert_issued(forecaster.certificate(), issued_errors(p, y[:60], X[:60]), 60)
    assert "over the 60 labels since the state was loaded" in forecaster.certificate().sentences()[-1]


def test_who_sees_the_draw_spoils_the_issued_levels_and_not_the_distributions():
    """1 exactly where the lower level was drawn: the theorem is about P, and what it does not cover is large."""
    rng = np.random.default_rng(0)
    forecaster = Forecaster(3, levels=8)
    for x in contexts(rng, 3000, 3):
        ticket = forecaster.predict(x)
        forecaster.update(ticket, float(ticket.p == ticket.low < ticket.high))
    certificate = forecaster.certificate()
    assert_chain(certificate)
    assert certificate.psreg < 0.02 * certificate.rounds
    assert certificate.issued is not None
    assert certificate.issued.cal > 0.4 * certificate.rounds


def test_a_move_is_rounded_up_and_is_that_of_the_best_rules():
    """Root of 0.00103 is 3.209 points, which to two digits is 3.2: "at most" needs 3.3."""
    moved = Certificate(1, 0.5, 1.03, 3, 4, 4, 1, 1, 1, 1000, 0, 17, 2).sentences()[1]
    assert moved.startswith("The best such rules")
    assert "at most 3.3 points" in moved


def test_omniprediction_of_issued_levels_is_claimed_for_outcomes_0_and_1_only():
    """All outcomes ½: the sums are those of 0s and 1s, and the best response to |a - y| loses ½ a row."""
    forecaster = Forecaster(2, levels=2)
    for _ in range(20):
        forecaster.update(forecaster.predict([0.5, 0.0]), 0.5)
    certificate = forecaster.certificate()
    assert certificate.issued is not None
    assert certificate.issued.somni == 0.0
    for sentence in (certificate.sentences()[-1], certificate.issued.short()):
        before, _, _ = sentence.partition("no convex loss")
        assert before.endswith("for outcomes 0 and 1 ")
