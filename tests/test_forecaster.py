"""The forecaster's promises: purity, run ≡ loop, late labels, growth, replay."""

from __future__ import annotations

import base64
import pickle
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal import Forecaster
from swapcal.engine import state as memory
from swapcal.kernels.loop import advance
from swapcal.kernels.state import first_bad_context
from tests.adversaries import contexts
from tests.checks import COMBINATIONS, NAMES, assert_same, build, fields, looped, snapshot, stream

DIMS = (1, 2, 3, 4, 5, 7, 8, 20, 33)
every_combination = pytest.mark.parametrize("combination", COMBINATIONS, ids=NAMES)


def assert_equal_state(left: Forecaster, right: Forecaster) -> None:
    """Compare what is in use, bit for bit; spare room may differ."""
    used = int(left._state.counts[0])
    for name, array in left._state._asdict().items():
        other = getattr(right._state, name)
        if name in memory.PER_SLOT:
            array, other = array[:used], other[:used]
        assert array.tobytes() == other.tobytes(), name


@every_combination
def test_predict_changes_nothing(combination):
    """State bytes stay the same also where the levels have just filled their slots."""
    X, y = stream(60, 3)
    forecaster = build(combination, 3, kappa=0.005)
    for x, label in zip(X, y, strict=True):
        before = snapshot(forecaster)
        ticket = forecaster.predict(x)
        assert ticket == forecaster.predict(x)
        forecaster.predict_many(X[:5])
        assert snapshot(forecaster) == before
        forecaster.update(ticket, label)
    before = snapshot(forecaster)
    forecaster.certificate()
    assert snapshot(forecaster) == before


@every_combination
@pytest.mark.parametrize("dim", DIMS)
def test_run_is_the_loop_bit_for_bit(combination, dim):
    X, y = stream(90, dim, seed=dim)
    ran, stepped, pieces = (build(combination, dim, kappa=0.05) for _ in range(3))
    expected = looped(stepped, X, y)
    assert_same(fields(ran.run(X, y)), expected)
    parts = [fields(pieces.run(X[a:b], y[a:b])) for a, b in ((0, 40), (40, 41), (41, 90))]
    assert_same({name: np.concatenate([part[name] for part in parts]) for name in expected}, expected)
    assert_equal_state(ran, stepped)
    assert_equal_state(ran, pieces)
    assert ran.rounds == 90


def test_run_in_several_chunks_with_progress_and_events():
    X, y = stream(20_000, 2)
    events: list[object] = list(range(20_000))
    steps: list[int] = []
    ran, stepped = Forecaster(2), Forecaster(2)
    got = ran.run(X, y, events=events, progress=steps.append)
    assert sum(steps) == 20_000
    assert len(steps) > 1
    first = stepped.run(X[:9000], y[:9000], events=events[:9000])
    second = stepped.run(X[9000:], y[9000:], events=events[9000:])
    np.testing.assert_array_equal(got.p, np.concatenate([first.p, second.p]))
    assert_equal_state(ran, stepped)


def test_run_accepts_any_layout_and_label_type():
    X, y = stream(60, 4)
    plain = fields(Forecaster(4).run(X, y))
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    for rows, labels in (
        (np.asfortranarray(X), y),
        (wide, y.astype(bool)),
        (X.tolist(), y.astype(int).tolist()),
        (X, y.astype(np.float32)),
    ):
        assert_same(fields(Forecaster(4).run(rows, labels)), plain)


def test_read_only_arrays_are_played_by_the_same_machine_code():
    X, y = stream(60, 4)
    plain, late = Forecaster(4), Forecaster(4)
    told = fields(plain.run(X, y))
    late.update(late.predict_many(X), y)
    before = len(advance.signatures), len(first_bad_context.signatures)
    X.flags.writeable = y.flags.writeable = False
    assert_same(fields(Forecaster(4).run(X, y)), told)
    late.update(late.predict_many(X), y)
    assert (len(advance.signatures), len(first_bad_context.signatures)) == before


def test_forecasts_from_read_only_memory_are_learned():
    X, y = stream(60, 4)
    forecaster = Forecaster(4)
    buffers: list[Any] = []
    octets = pickle.dumps(forecaster.predict_many(X), protocol=5, buffer_callback=buffers.append)
    forecaster.update(pickle.loads(octets, buffers=[bytes(buffer) for buffer in buffers]), y)
    assert forecaster.rounds == 60


PICKLED = (
    "c-n<fO-sW-5Z!*a_(3n~UuZo93W^Fs3k44rbLhq6vQ0NlXtD{L4Q&oWJy;vqTgQX`6aS6)M|3wac&YdXc81wEk2kZbzMwM7AWxzN2`%Co"
    "l+9d54Ljh}B9Q>uyeY~pbRWTdfR1coD`0{yMFjGg#eSF=s>7+_$DVKr=Oh8SkJVhjBEe%z56fD{1leHIoU(-xdV*nT0?#mp&ZwlKyauNw"
    "Yg3VgR1cNyOGr2Qe?^wA!8Fa=FNN$GApw(g*v_~3=)b*cy!S!1Wexj;&%r^mdZ&xRzifDva7L$)Mr*~ZW8YoU2%M&~rwus=zjlzabCeEI"
    "CRoS8f>92#ebt)~+rA){P0xG1Gomzc<g%GZVI!MZxYnGC-HL~~Vpv$-oj-qafxr5lL7q<s=pSSoRPn+|^hGN7j=q0)46!<a@eNJQrZx"
)
"""A forecast of level 1/2 that version 0.2.0 issued, pickled, compressed and written as text."""


def test_a_forecast_pickled_by_an_earlier_version_is_learned():
    forecast = pickle.loads(zlib.decompress(base64.b85decode(PICKLED)))
    assert (forecast.p, forecast.mean, forecast.low, forecast.high, forecast.weight) == (0.5, 0.5, 0.5, 0.5625, 0.0)
    forecaster = Forecaster(2)
    forecaster._owner = forecast._owner  # as a file of the forecaster that issued it has
    forecaster.update(forecast, 1)
    assert (forecaster.rounds, forecast.learned) == (1, True)


@every_combination
def test_update_of_many_is_update_of_each(combination):
    X, y = stream(80, 3)
    together, single = (build(combination, 3, kappa=0.05) for _ in range(2))
    for forecaster in (together, single):
        forecaster.run(X[:40], y[:40])
    together.update(together.predict_many(X[40:]), y[40:])
    tickets = [single.predict(x) for x in X[40:]]
    for ticket, label in zip(tickets, y[40:], strict=True):
        single.update(ticket, label)
    assert_equal_state(together, single)
    assert together.certificate().late == 39


@every_combination
def test_predict_many_scores_from_the_frozen_state(combination):
    X, y = stream(60, 3)
    forecaster = build(combination, 3)
    forecaster.run(X[:30], y[:30])
    many = fields(forecaster.predict_many(X[30:]))
    one_by_one = [fields(forecaster.predict(x)) for x in X[30:]]
    assert_same(many, {name: np.array([row[name] for row in one_by_one]) for name in many})
    assert len(forecaster.predict_many(np.empty((0, 3)))) == 0


@settings(max_examples=15)
@given(st.randoms(use_true_random=False), st.sampled_from(COMBINATIONS), st.integers(1, 30))
def test_open_forecasts_may_be_settled_in_any_order(random, combination, most_open):
    X, y = stream(80, 3)
    forecaster = build(combination, 3, kappa=0.05)
    waiting = []
    for x, label in zip(X, y, strict=True):
        waiting.append((forecaster.predict(x), label))
        if len(waiting) > most_open:
            forecaster.update(*waiting.pop(random.randrange(len(waiting))))
    random.shuffle(waiting)
    for ticket, label in waiting:
        forecaster.update(ticket, label)
    certificate = forecaster.certificate()
    assert certificate.rounds == 80
    assert certificate.psmcal_2 <= certificate.psreg + 1e-9
    assert certificate.psreg <= certificate.bound + 1e-9
    assert (certificate.theorem is None) == (certificate.late > 0)


@every_combination
@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 4), (4, 5), (3, 9)])
def test_growing_is_having_had_zeros_all_along(combination, before, after):
    # Large Newton steps multiply rounding from round to round, so there the stream is short.
    rows, at = (24, 12) if combination[0] == "ons-fast" else (120, 60)
    X, y = stream(rows, after)
    X[:at, before:] = 0.0
    grown, wide = build(combination, before, kappa=0.05), build(combination, after, kappa=0.05)
    grown.run(X[: at - 1, :before], y[: at - 1])
    wide.run(X[: at - 1], y[: at - 1])
    open_grown, open_wide = grown.predict(X[at - 1, :before]), wide.predict(X[at - 1])
    grown.grow(after)
    assert grown.dim == after
    for forecaster, ticket in ((grown, open_grown), (wide, open_wide)):
        forecaster.update(ticket, y[at - 1])
    assert_same(fields(grown.run(X[at:], y[at:])), fields(wide.run(X[at:], y[at:])), tolerance=1e-12)
    left, right = grown.certificate().as_dict(), wide.certificate().as_dict()
    for name, value in left.items():
        # While a level has few rows its best comparator is not unique, and `prior` is the distance of one of them.
        if rows > 100 or name not in ("bound", "learning", "prior"):
            assert value == (None if value is None else pytest.approx(right[name], rel=1e-9, abs=1e-9)), name
            assert (value is None) == (right[name] is None)


def test_growing_by_nothing_changes_nothing():
    forecaster = Forecaster(3)
    forecaster.run(*stream(20, 3))
    before = snapshot(forecaster)
    forecaster.grow(3)
    assert snapshot(forecaster) == before


@every_combination
def test_saved_in_midstream_it_goes_on_bit_for_bit(combination, tmp_path):
    X, y = stream(120, 3)
    forecaster = build(combination, 3, kappa=0.05, seed=5)
    forecaster.run(X[:60], y[:60])
    open_, many = forecaster.predict(X[60]), forecaster.predict_many(X[61:65])
    forecaster.save(tmp_path / "state")
    loaded = Forecaster.load(tmp_path / "state")
    assert repr(loaded) == repr(forecaster)
    assert snapshot(loaded) == snapshot(forecaster)
    assert loaded.predict(X[60]) == open_
    twins = forecaster.predict(X[60]), forecaster.predict_many(X[61:65])
    loaded.update(open_, y[60])
    loaded.update(many, y[61:65])
    forecaster.update(twins[0], y[60])
    forecaster.update(twins[1], y[61:65])
    assert_same(fields(loaded.run(X[65:], y[65:])), fields(forecaster.run(X[65:], y[65:])))
    assert_equal_state(loaded, forecaster)
    assert loaded.certificate() == forecaster.certificate()


@pytest.mark.parametrize("grown", [False, True])
def test_a_ticket_newer_than_the_loaded_state_is_refused_or_counted_late(grown, tmp_path):
    """After a restore from an older file, tickets for levels or coordinates unknown there cannot be learned."""
    X, y = stream(400, 3)
    forecaster = Forecaster(3, kappa=0.001)
    forecaster.run(X[:50], y[:50])
    forecaster.save(tmp_path / "state")
    soon = forecaster.predict(X[50])
    forecaster.run(X[50:], y[50:])
    if grown:
        forecaster.grow(9)
    restored = Forecaster.load(tmp_path / "state")
    wide = np.hstack([X, np.zeros((400, forecaster.dim - 3))])
    tickets = [forecaster.predict(x) for x in wide]
    newest = next(ticket for ticket in tickets if grown or ticket.low not in restored.levels)
    before = snapshot(restored)
    with pytest.raises(ValueError, match=r"given one issued after the saved state.*expected"):
        restored.update(newest, 1)
    assert snapshot(restored) == before
    restored.update(soon, y[50])
    assert restored.certificate().late == 0


def test_a_ticket_issued_after_the_loaded_state_on_known_levels_voids_the_theorem(tmp_path):
    X, y = stream(60, 3)
    forecaster = Forecaster(3, levels=5)
    forecaster.run(X[:50], y[:50])
    forecaster.save(tmp_path / "state")
    forecaster.run(X[50:], y[50:])
    restored = Forecaster.load(tmp_path / "state")
    restored.update(forecaster.predict(X[0]), 1)
    assert restored.certificate().late == 1
    assert restored.certificate().theorem is None


def test_the_same_seed_replays_and_state_does_not_depend_on_it():
    X, y = stream(300, 3)
    first, again, other = Forecaster(3, seed=4), Forecaster(3, seed=4), Forecaster(3, seed=5)
    runs = [fields(forecaster.run(X, y)) for forecaster in (first, again, other)]
    assert_same(runs[0], runs[1])
    assert np.any(runs[0]["p"] != runs[2]["p"])
    np.testing.assert_array_equal(runs[0]["mean"], runs[2]["mean"])


def test_real_valued_labels_are_means():
    rng = np.random.default_rng(0)
    X = contexts(rng, 4000, 3)
    y = np.clip(0.4 + 0.3 * X[:, 1] + 0.05 * rng.standard_normal(4000), 0, 1)
    forecasts = Forecaster(3).run(X, y)
    assert np.mean((forecasts.mean[2000:] - y[2000:]) ** 2) < 0.01


@pytest.mark.parametrize("learner", ["ridge", "vaw", "ons", "ons-fast"])
@pytest.mark.parametrize("prior", [None, [0.62, 0.0]])
def test_nothing_is_certain_before_the_first_label(learner, prior):
    forecast = Forecaster(2, learner=learner, prior=prior).predict([0.5, 0.3])
    expected = 0.5 if prior is None else 0.31
    assert 0 < forecast.low <= forecast.p <= forecast.high < 1
    assert forecast.high - forecast.low <= 1 / 16
    # VAW shrinks an uninformed wish towards one half.
    assert learner == "vaw" or forecast.mean == pytest.approx(expected)


def test_adaptive_levels_crowd_where_the_forecasts_are():
    rng = np.random.default_rng(0)
    X = contexts(rng, 30_000, 2)
    forecaster = Forecaster(2)
    forecaster.run(X, (rng.random(30_000) < 0.01).astype(float))
    levels = forecaster.levels
    assert np.all(np.diff(levels) > 0)
    made = np.setdiff1d(levels, Forecaster(2).levels)
    assert len(made) >= 2
    assert np.all(made < 1 / 16)
    assert np.min(np.diff(levels[levels < 0.02])) < 1 / 256


@pytest.mark.parametrize("target", ["smcal", "sreg", "omni"])
def test_the_paper_as_published(target):
    forecaster = Forecaster.paper(3, 5000, target)
    assert forecaster._learner == "ons"
    assert forecaster._mixing == "blum-mansour"
    n = len(forecaster.levels) - 1
    np.testing.assert_array_equal(forecaster.levels, np.arange(n + 1) / n)
    exponent = 1 / 5 if target == "sreg" else 1 / 3
    assert abs(n - (5000 / (3 * np.log(5000))) ** exponent) <= 1
    forecaster.run(*stream(200, 3))
    assert forecaster.certificate().holds()


def test_forecasts_show_and_compare_themselves():
    forecaster = Forecaster(2)
    one, many = forecaster.predict([0.5, 0.1]), forecaster.predict_many([[0.5, 0.1], [0.5, 0.2]])
    assert "weight=" in repr(one)
    assert repr(many).startswith("Forecast(2 rows")
    assert one != many
    assert one != 3
    assert not one.learned
    forecaster.update(one, 1)
    assert one.learned
    options: dict[str, Any] = {"levels": 4}
    assert one != Forecaster(2, **options).predict([0.5, 0.1])


def test_a_prior_is_where_every_learner_starts() -> None:
    prior = np.array([1.0, 0.4, 0.0])
    forecaster = Forecaster(3, levels=10, prior=prior)
    forecast = forecaster.predict([0.5, 0.5, 0.1])
    assert forecast.mean == pytest.approx(0.7)
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(500, 0.5), rng.uniform(-0.6, 0.6, (500, 2))])
    forecaster.run(X, rng.random(500) < X @ prior)
    assert forecaster.certificate().holds()


@pytest.mark.parametrize("prior", [[1.0], [1.0, np.nan], [[1.0, 0.0]], ["a", "b"]])
def test_a_bad_prior_is_refused(prior: object) -> None:
    with pytest.raises((TypeError, ValueError), match="prior: given"):
        Forecaster(2, prior=prior)  # type: ignore[arg-type]


def test_a_prior_outside_the_newton_steps_ball_is_refused() -> None:
    with pytest.raises(ValueError, match="expected at most 4"):
        Forecaster(2, levels=5, learner="ons", prior=[4.0, 3.0])
