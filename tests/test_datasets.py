"""Streams are reproducible in every piece, valid contexts, and do to labels what they say."""

from itertools import pairwise

import numpy as np
import pytest

from swapcal import Forecaster, _validate, errors
from swapcal.datasets import BLOCK, KINDS, Stream, play, played, prediction_groups
from swapcal.kernels.state import ADAPTIVE, AGE, BUCKETS, EPOCH, LEAVE_AHEAD, PUSH, blank_notes, choose_label
from tests.chance import seeded


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("dim", [2, 3, 20])
def test_contexts_are_valid_and_chances_are_chances(name, dim):
    X, chance, coins = Stream(name, dim, 3000).rows(0, 3000)
    assert _validate.context_rows(X, dim) is not None
    assert ((chance >= 0) & (chance <= 1)).all()
    assert ((coins >= 0) & (coins < 1)).all()


def test_any_part_is_the_same_part():
    stream = Stream("drifting", 3, 2 * BLOCK + 10, seed=7)
    whole = stream.rows(0, stream.rounds)
    for start, stop in ((0, 5), (BLOCK - 3, BLOCK + 3), (2 * BLOCK, 2 * BLOCK + 10), (9, 9)):
        for piece, everything in zip(stream.rows(start, stop), whole, strict=True):
            assert np.array_equal(piece, everything[start:stop])
    assert sum(len(rows.X) for rows in stream.blocks()) == stream.rounds
    assert not np.array_equal(whole.X[:5], Stream("drifting", 3, stream.rounds, seed=8).rows(0, 5).X)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["linear", "nonlinear", "drifting", "rare", "revealed"])
def test_labels_follow_their_chances(name):
    stream = Stream(name, 4, 50_000, seeded(0))
    rows, y = stream.rows(0, 50_000), stream.labels(0, 50_000)
    edges = np.quantile(rows.chance, np.linspace(0, 1, 6))
    for low, high in pairwise(edges):
        inside = (rows.chance >= low) & (rows.chance <= high)
        expected, spread = rows.chance[inside].mean(), np.sqrt(rows.chance[inside].mean() / inside.sum())
        assert abs(y[inside].mean() - expected) < 5 * spread


def test_opposing_labels_are_wrong_side_of_one_half():
    part = played(Forecaster(2), Stream("oppose", 2, 2000))
    assert np.array_equal(part.y, (part.forecast.mean < 0.5).astype(float))


def test_the_adaptive_opponent_lengthens_the_residual_it_remembers():
    rng = np.random.default_rng(0)
    notes = blank_notes(3, 1.0)
    for _ in range(300):
        x = np.array([0.5, *rng.uniform(-0.5, 0.5, 2)])
        mean, coin = float(rng.uniform(0.3, 0.5)), float(rng.random())
        bucket = min(BUCKETS - 1, int(mean * BUCKETS))
        before = notes[bucket, :3].copy()
        lengths = [np.linalg.norm(before + (y - mean) * x) for y in (0, 1)]
        y = choose_label(ADAPTIVE, mean, x, 0.5, coin, notes)
        assert np.allclose(notes[bucket, :3], before + (y - mean) * x)
        if abs(lengths[1] - lengths[0]) > 1e-9:
            assert y == float(coin < 0.5 + (PUSH if lengths[1] > lengths[0] else -PUSH))


def test_leave_ahead_moves_on_when_ahead_or_when_the_epoch_is_over():
    notes = blank_notes(2, 100.0)
    x = np.array([0.5, 0.0])
    for _ in range(19):
        assert choose_label(LEAVE_AHEAD, 0.5, x, 0.5, 0.0, notes) == 1.0
    assert notes[BUCKETS, EPOCH] == 0
    choose_label(LEAVE_AHEAD, 0.5, x, 0.5, 0.0, notes)
    assert (notes[BUCKETS, EPOCH], notes[BUCKETS, AGE]) == (1, 0)
    for k in range(100):
        choose_label(LEAVE_AHEAD, 0.5, x, 0.5, float(k % 2) * 0.999, notes)
    assert notes[BUCKETS, EPOCH] == 2


def test_playing_compiled_is_playing_by_hand():
    class Stepwise:
        def __init__(self, inner):
            self.predict, self.update = inner.predict, inner.update

    for name in ("adaptive", "leave-ahead"):
        stream = Stream(name, 3, 300, seed=2)
        for make in (lambda: Forecaster(3), lambda: Forecaster.paper(3, 300)):
            compiled, looped = played(make(), stream), played(Stepwise(make()), stream)
            assert np.array_equal(compiled.y, looped.y)
            assert np.allclose(compiled.forecast.mean, looped.forecast.mean, atol=1e-12)


def test_a_replay_of_the_labels_gives_the_same_forecasts():
    stream = Stream("adaptive", 3, 5000)
    part = played(Forecaster(3), stream)
    assert np.allclose(Forecaster(3).run(part.X, part.y).mean, part.forecast.mean, atol=1e-9)


@pytest.mark.statistical
def test_groups_that_look_at_the_forecast_catch_who_deviates_from_a_revealed_chance():
    stream = Stream("revealed", 2, 30_000, seeded(0))
    rows, y = stream.rows(0, 30_000), stream.labels(0, 30_000)
    assert len(np.unique(rows.chance.round(12))) == 31

    def error(p):
        v, index = np.unique(p, return_inverse=True)
        sums = np.zeros((len(v), 3))
        np.add.at(sums, index, prediction_groups(p, rows.chance) * (y - p)[:, None])
        return errors.smcal_groups(np.bincount(index).astype(float), sums, 1)

    truth = error(rows.chance)
    noise = np.sqrt(2 / np.pi * 31 * (rows.chance * (1 - rows.chance)).sum())
    assert 0.6 * noise < truth < 1.6 * noise
    assert error(np.round(rows.chance * 4) / 4) > 2 * truth


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("lineal", 3, 10, 0), "one of linear"),
        (("linear", 1, 10, 0), "at least 2"),
        (("linear", 3, 0, 0), "at least 1"),
        (("linear", 3, 10, -1), "seed"),
    ],
)
def test_bad_streams_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Stream(*settings)


def test_misuse_is_refused():
    with pytest.raises(ValueError, match="after seeing forecasts"):
        Stream("oppose", 2, 10).labels(0, 10)
    with pytest.raises(ValueError, match="part of 0 to 10"):
        Stream("linear", 2, 10).rows(5, 11)
    with pytest.raises(ValueError, match="expected the forecaster's 3"):
        next(play(Forecaster(3), Stream("linear", 2, 10)))
