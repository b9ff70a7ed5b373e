"""Live with outcomes in [low, high]: as on [0, 1] for outcomes, scores and models that were rescaled by hand."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from swapcal import Live, Monitor
from swapcal._validate import Span
from swapcal.archive import ArchiveError
from swapcal.engine.explanation import Explanation
from swapcal.live import ConflictingLabelError
from swapcal.live.status import Status
from tests.test_live import columns

EXACT = [(0.0, 64.0), (0.0, 0.125), (-32.0, 32.0)]
"""the outcomes below are multiples of 2⁻¹⁰ of a range: on these ranges nothing is rounded"""
SQUARES = ("psmcal_2", "psreg", "bound", "tight", "theorem", "theorem_psmcal", "rounding", "learning", "prior")


@pytest.fixture(scope="module")
def stream() -> Any:
    """Records with a score, and outcomes, as shares of a range."""
    rng = np.random.default_rng(5)
    n = 500
    shop, size = rng.choice(["a", "b", "c"], n), rng.normal(size=n)
    mean = 1 / (1 + np.exp(-0.7 * size - (shop == "b")))
    shares = np.round(1024 * rng.beta(4 * mean, 4 * (1 - mean))) / 1024
    score = np.round(1024 * np.clip(mean + rng.normal(0, 0.1, n), 0.0, 1.0)) / 1024
    return pd.DataFrame({"shop": shop, "size": size, "model": score}), shares


def make(**more: Any) -> Live:
    return Live(groups=["shop"], scores=["model"], **more)


def in_units(stream: Any, low: float, high: float) -> Any:
    """Return what a user has whose outcomes and scores have a range."""
    frame, shares = stream
    return frame.assign(model=low + (high - low) * frame["model"]), low + (high - low) * shares


def literal(forecast: Any, low: float, high: float) -> Any:
    """Return the columns of forecasts on [0, 1] as they are in a range; the last is a probability."""
    shares = columns(forecast)
    return np.column_stack([low + (high - low) * shares[:, :4], shares[:, 4]])


@pytest.mark.parametrize(("low", "high"), EXACT)
def test_a_range_is_a_rescaling_by_hand(stream: Any, low: float, high: float) -> None:
    by_hand, ours, width = make(), make(low=low, high=high), high - low
    expected, found = by_hand.trace(*stream), ours.trace(*in_units(stream, low, high))
    np.testing.assert_array_equal(columns(found.forecast), literal(expected.forecast, low, high))
    np.testing.assert_array_equal(found.experts, low + width * expected.experts)
    np.testing.assert_array_equal(found.x, expected.x)
    one, two = by_hand.certificate(), ours.certificate()
    for name in SQUARES:
        assert getattr(two, name) == width**2 * getattr(one, name), name
    assert two.psmcal_1 == width * one.psmcal_1
    assert one.issued is not None
    assert two.issued is not None
    assert two.issued.smcal_2 == width**2 * one.issued.smcal_2
    assert (two.issued.smcal_1, two.issued.cal) == (width * one.issued.smcal_1, width * one.issued.cal)
    assert (one.rounds, one.levels, one.dim, one.late) == (two.rounds, two.levels, two.dim, two.late)
    assert ours.status().issued == two.issued
    assert ours.status().ones == low * len(stream[1]) + width * by_hand.status().ones


def test_a_range_that_rounds_changes_nothing_but_last_digits(stream: Any) -> None:
    low, high = -3.0, 7.1
    ids = [*range(len(stream[1]))]  # else draws are hashes of the values, whose last digits differ
    found = make(low=low, high=high).run(*in_units(stream, low, high), ids=ids)
    expected = literal(make().run(*stream, ids=ids), low, high)
    np.testing.assert_allclose(found.mean, expected[:, 1], rtol=0, atol=1e-5)
    assert np.mean(found.p == expected[:, 0]) > 0.99


def test_one_by_one_and_many_at_once_equal_a_run(stream: Any) -> None:
    low, high = -3.0, 7.1
    frame, y = in_units(stream, low, high)
    ids, records = [f"event {k}" for k in range(len(y))], frame.to_dict("records")
    run = columns(make(low=low, high=high).run(frame, y, ids=ids))
    alone, followed, many = (make(low=low, high=high) for _ in range(3))
    one_by_one, batches = [], []
    for id, record, label in zip(ids, records, y, strict=True):
        one_by_one.append(columns(alone.forecast(record, id))[0])
        alone.label(id, label)
    np.testing.assert_array_equal(run, np.array(one_by_one))
    np.testing.assert_array_equal(run, columns(followed.follow(frame, ids, y, [True] * len(y))[0]))
    np.testing.assert_array_equal(run, columns(make(low=low, high=high).trace(frame, y, ids=ids).forecast))
    for record, id, label in zip(records, ids, y, strict=True):
        batches.append(columns(many.forecast_many([record], [id]))[0])
        many.label_many([id], [label])
    np.testing.assert_array_equal(run, np.array(batches))


def test_a_preview_and_encoded_records_are_on_the_same_scale(stream: Any) -> None:
    frame, y = in_units(stream, 0.0, 64.0)
    ours, by_hand = make(high=64.0), make()
    ours.trace(ours.contexts.encode(frame), y)
    by_hand.run(*stream)
    found, expected = ours.preview(frame[:5]), by_hand.preview(stream[0][:5])
    np.testing.assert_array_equal(columns(found), literal(expected, 0.0, 64.0))


def test_a_saved_state_goes_on_bit_for_bit(stream: Any, tmp_path: Any) -> None:
    frame, y = in_units(stream, -3.0, 7.1)
    live = make(low=-3.0, high=7.1, prior=2.0, matures=5.0, silence=-1.0)
    times = np.arange(len(y), dtype=float)
    live.run(frame[:300], y[:300], time=times[:300], ids=[*range(300)])
    live.save(tmp_path / "live")
    loaded = Live.load(tmp_path / "live")
    assert loaded.settings == live.settings
    assert (loaded.settings["low"], loaded.settings["high"], loaded.settings["silence"]) == (-3.0, 7.1, -1.0)
    assert loaded.certificate() == live.certificate()
    assert loaded.explain(299) == live.explain(299)
    for each in (live, loaded, copy.deepcopy(live)):
        each.label(299, y[299], time=300.0) if each.is_open(299) else None
    rest = [columns(each.run(frame[300:], y[300:], time=times[300:])) for each in (live, loaded)]
    np.testing.assert_array_equal(*rest)


def test_a_state_on_the_unit_range_has_no_range_and_lies_about_one_are_refused() -> None:
    live = Live(high=5.0)
    live.run([{"a": k % 3} for k in range(50)], [k % 6 for k in range(50)])
    state = live.to_state()
    assert state.manifest["range"] == [0.0, 5.0]
    assert "range" not in Live().to_state().manifest
    for bad in ([5.0, 0.0], [0.0], [0.0, 0.0], ["0", "1"], [-1.7e308, 1.7e308]):
        with pytest.raises(ArchiveError, match="range"):
            _write_and_load(state._replace(manifest=state.manifest | {"range": bad}))


def _write_and_load(state: Any) -> None:
    import io

    from swapcal.archive import pack, unpack
    from swapcal.live.state import FILE

    out = io.BytesIO()
    pack(out, FILE.name, FILE.version, *state)
    Live.from_state(unpack(io.BytesIO(out.getvalue()), FILE))


def test_the_certificate_holds_against_labels_chosen_after_the_forecast() -> None:
    """Labels at the end of the range that is farther from the mean; errors recomputed from what was issued."""
    low, high, n = 20.0, 50.0, 400
    live = Live(groups=["g"], low=low, high=high)
    rng = np.random.default_rng(0)
    rows, y, x = [], np.zeros(n), []
    for k in range(n):
        forecast = live.forecast({"g": "ab"[k % 2], "z": float(rng.normal())}, k)
        y[k] = low if forecast.mean > 0.5 * (low + high) else high
        rows.append([forecast.p, forecast.low, forecast.high, forecast.weight])
        x.append(forecast._contexts[0])
        live.label(k, y[k])
    found, dim = live.certificate(), live.contexts.dim
    X = np.array([np.pad(row, (0, dim - len(row))) for row in x])
    p, lower, upper, weight = np.array(rows).T
    assert ((low <= lower) & (lower <= upper) & (upper <= high)).all()
    drawn = {v: (p == v).astype(float) for v in np.unique(p)}
    played = {v: (lower == v) * (1 - weight) + (upper == v) * weight for v in np.unique([lower, upper])}
    assert found.holds()
    assert found.issued is not None
    issued = found.issued.smcal_1, found.issued.smcal_2, found.issued.cal
    assert issued == pytest.approx(literal_errors(drawn, y, X)[:3])
    first, second, _, constants = literal_errors(played, y, X)
    assert (found.psmcal_1, found.psmcal_2) == pytest.approx((first, second))
    assert 0.01 * (high - low) ** 2 < constants <= found.psreg <= found.bound


def literal_errors(shares: Any, y: Any, X: Any) -> tuple[float, float, float, float]:
    """Return SMCal_1, SMCal_2 and Cal_1, and what the best constant of each level saves; shares α by level."""
    smcal_1 = smcal_2 = cal = saved = 0.0
    for v, own in shares.items():
        mass, g = own.sum(), (own * (y - v)) @ X
        size = max(2 * abs(g[0]), 2 / math.sqrt(3) * float(np.linalg.norm(g[1:])))
        gap = float(own @ (y - v))
        if mass > 0:
            smcal_1, smcal_2 = smcal_1 + size, smcal_2 + size**2 / mass
            cal, saved = cal + abs(gap), saved + gap**2 / mass
    return smcal_1, smcal_2, cal, saved


def test_omniprediction_is_not_reported_and_no_sentence_speaks_in_points(stream: Any) -> None:
    live = make(high=64.0)
    live.run(*in_units(stream, 0.0, 64.0))
    found = live.certificate()
    assert found.issued is not None
    assert found.issued.somni is None
    assert found.width == 64.0
    text = f"{found} {live.status()} {live.status()._repr_html_()} {found._repr_html_()} {found!r}"
    assert "convex loss" not in text
    assert "omniprediction" not in text
    assert "points" not in text
    assert "½" not in text


REFUSED = [
    ("label", 65.0, r"label: given 65.0, expected a number in \[0, 64\]"),
    ("label", "3", r"label: given '3', expected a number in \[0, 64\]"),
    ("label", math.nan, r"label: given nan, expected a number in \[0, 64\]"),
    ("run", 65.0, r"y: given 65 in row 1, expected a number in \[0, 64\] or NaN"),
    ("run", "x", r"y: given list that is not numeric, expected labels in \[0, 64\]"),
    ("label_many", -1.0, r"row 1: label: given -1.0, expected a number in \[0, 64\]"),
    ("follow", 65.0, r"y: given 65 in row 1, expected a number in \[0, 64\] or NaN"),
    ("follow", math.nan, r"row 1: y: given nothing for id 'open', expected a label in \[0, 64\]"),
]


@pytest.mark.parametrize(("where", "y", "message"), REFUSED)
def test_labels_beyond_the_range_are_refused_in_its_units(where: str, y: Any, message: str) -> None:
    live = Live(high=64.0)
    live.run([{"a": 1.0}] * 3, [0.0, 64.0, 3.0])
    live.forecast({"a": 2.0}, "open")
    before = live.certificate(), live.status()
    calls = {
        "label": lambda: live.label("open", y),
        "run": lambda: live.run([{"a": 1.0}], [y]),
        "label_many": lambda: live.label_many(["open"], [y]),
        "follow": lambda: live.follow([], ["open"], [y], [False]),
    }
    with pytest.raises((TypeError, ValueError), match=message):
        calls[where]()
    assert (live.certificate(), live.status()) == before


def test_a_contradicting_label_is_named_as_it_was_given() -> None:
    live = Live(low=-10.0, high=30.0)
    live.forecast({"a": 2.0}, "one")
    assert live.label("one", 17.5) is True
    assert live.label("one", 17.5) is False
    with pytest.raises(ConflictingLabelError, match=r"given 18 for id .one., which was labelled 17\.5"):
        live.label("one", 18)


@pytest.mark.parametrize("many", [False, True])
def test_scores_beyond_the_range_are_refused_in_its_units(many: bool) -> None:
    live = Live(scores=["model"], high=64.0)
    live.run([{"model": 10.0, "a": 1.0}] * 4, [1.0, 2.0, 3.0, 4.0])
    record = {"model": 65.0, "a": 1.0}
    state = live.to_state()
    with pytest.raises(ValueError, match=r"score 'model': given 65 in row 1, expected a number in \[0, 64\] or NaN"):
        live.forecast_many([record, record], ["x", "y"]) if many else live.forecast(record, "x")
    with pytest.raises(ValueError, match="score 'model': given 65"):
        live.check(record, "x")
    assert all(np.array_equal(value, live.to_state().arrays[name]) for name, value in state.arrays.items())
    assert 0.0 <= live.forecast({"model": None, "a": 1.0}, "gap").mean <= 64.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"low": 1.0}, "low, high: given 1.0 and 1.0"),
        ({"low": 3.0, "high": 2.0}, "low, high: given 3.0 and 2.0"),
        ({"high": math.inf}, "low, high: given 0.0 and inf"),
        ({"low": math.nan}, "low, high: given nan"),
        ({"low": -1.7e308, "high": 1.7e308}, "a finite distance apart"),
        ({"low": "a"}, "low, high: given 'a'"),
        ({"high": 9.0, "prior": 10.0}, "prior: given 10.0, expected a number between 0 and 9"),
        ({"high": 9.0, "prior": "no"}, "prior: given 'no', expected a number between 0 and 9"),
        ({"high": 9.0, "silence": 10}, r"silence: given 10, expected a number in \[0, 9\]"),
        ({"silence": 0.5}, "silence: given 0.5, expected 0 or 1"),
        (
            {"high": 9.0, "scores": {"m": "logit"}},
            r"score 'm': given logits, expected forecasts of outcomes in \[0, 9\]",
        ),
    ],
)
def test_settings_that_do_not_fit_a_range_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Live(**given)


def test_prior_and_silence_are_in_units() -> None:
    live = Live(low=-8.0, high=8.0, prior=-4.0, matures=1.0, silence=2.0)
    assert live.forecast({"a": 1.0}, "first", time=0.0).mean == -4.0
    live.settle(5.0)
    assert live.status().silent == 1
    assert live.status().ones == 2.0
    assert live.label("first", 2.0, time=6.0) is False
    assert live.forecast({"a": 1.0}, "second", time=7.0).mean > -4.0


class Regressor:
    """As river's are: the running mean of what it was taught."""

    def __init__(self) -> None:
        self.taught: list[float] = []

    def predict_one(self, record: dict[str, Any]) -> float:
        return float(np.mean(self.taught)) if self.taught else 0.0

    def learn_one(self, record: dict[str, Any], y: float) -> None:
        self.taught.append(y)


class Own:
    """A model of the user's own, which speaks of outcomes as they are."""

    def __init__(self) -> None:
        self.taught: list[float] = []

    def forecast(self, record: Any, keys: Any, values: Any) -> float:
        return 1e9 if record["a"] == 1 else math.nan

    def learn(self, record: Any, keys: Any, values: Any, y: float) -> None:
        self.taught.append(y)


def test_models_give_and_learn_outcomes_in_units() -> None:
    from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor

    running, own = Regressor(), Own()
    models = {"running": running, "sgd": SGDRegressor(random_state=0), "own": own}
    live = Live(low=16.0, high=80.0, models=models)
    y = [16.0, 80.0, 48.0, 20.0]
    trace = live.trace([{"a": k % 2} for k in range(4)], y)
    assert running.taught == own.taught == y
    at = live.experts.index("running")
    assert trace.experts[:, at].tolist() == [16.0, 16.0, 48.0, 48.0]  # 0 lies beyond the range, and counts as its end
    assert trace.experts[0, at + 1] == 48.0  # no opinion: the middle
    assert trace.experts[:, live.experts.index("own")].tolist() == [48.0, 80.0, 48.0, 80.0]
    for classifier in (SGDClassifier(loss="log_loss"), LogisticRegression()):
        with pytest.raises(TypeError, match=r"model: given .* with outcomes in \[0, 2\], expected a regressor"):
            Live(high=2.0, models={"c": classifier})


def test_the_monitor_is_fed_with_shares_of_the_range(stream: Any) -> None:
    by_hand, ours = make(monitor=Monitor(["shop"])), make(monitor=Monitor(["shop"]), high=64.0)
    by_hand.run(*stream)
    ours.run(*in_units(stream, 0.0, 64.0))
    one, two = (live.monitor.to_state() for live in (by_hand, ours) if live.monitor is not None)
    assert one.manifest == two.manifest
    assert all(
        np.array_equal(value, two.arrays[name], equal_nan=value.dtype.kind == "f") for name, value in one.arrays.items()
    )


def test_a_watcher_sees_units(stream: Any) -> None:
    seen: dict[str, Any] = {}
    frame, y = in_units(stream, 0.0, 64.0)
    for name, live, given, labels in (("hand", make(), *stream), ("ours", make(high=64.0), frame, y)):
        live.watch(lambda learned, name=name: seen.setdefault(name, learned))
        live.forecast(given.to_dict("records")[0], "one")
        live.label("one", labels[0])
    for field in ("y", "p", "mean", "experts", "scores"):
        np.testing.assert_array_equal(getattr(seen["ours"], field), 64.0 * getattr(seen["hand"], field))


def test_explanations_add_up_in_units(stream: Any) -> None:
    low, high = -32.0, 32.0
    by_hand, ours = make(), make(low=low, high=high)
    by_hand.run(*stream)
    ours.run(*in_units(stream, low, high))
    record = stream[0].to_dict("records")[7]
    by_hand.forecast(record, "x")
    ours.forecast(record | {"model": low + 64.0 * record["model"]}, "x")
    why, expected = ours.explain("x"), by_hand.explain("x")
    assert why.mean == pytest.approx(math.fsum([why.base, *(term.amount for term in why.terms)]), abs=1e-9)
    assert (why.mean, why.base, why.blend) == tuple(
        low + 64.0 * v for v in (expected.mean, expected.base, expected.blend)
    )
    assert [t.amount for t in why.terms] == [64.0 * t.amount for t in expected.terms]
    assert why.pool == pytest.approx(low + 64.0 * expected.pool)
    assert "mean outcome" in str(why)
    assert "base rate" not in why.svg()
    assert Explanation.from_dict(why.to_dict()) == why
    assert "span" not in expected.to_dict()
    assert not why.since(why)


def test_sentences_name_outcomes_as_they_are() -> None:
    settings = {"low": 5.0, "high": 9.0}
    low, high = (Status(400, 30, 370, 0.075, 2.0, math.nan, 399.0, ones=30.0 * end, **settings) for end in (5.0, 9.0))
    assert low.sentences()[0].startswith("All 30 outcomes known so far are 5 and 370 forecasts are still open")
    assert "silence=9" in low.sentences()[0]
    assert "silence=5" in high.sentences()[0]
    assert not Status(400, 30, 370, 0.075, 2.0, math.nan, 399.0, ones=30.0 * 7, **settings).is_selected()
    order = Status(400, 200, 200, 0.5, 2.0, math.nan, 399.0, ones=1400.0, earlier=60, **settings).sentences()
    assert order[0].startswith("Outcome 9 comes earlier than 5 in 60 of 60 pairs")


def test_forecasts_keep_their_scale(stream: Any) -> None:
    live = make(low=-32.0, high=32.0)
    frame, y = in_units(stream, -32.0, 32.0)
    run = live.run(frame[:100], y[:100])
    one = live.forecast(frame.to_dict("records")[0], "x")
    assert pickle.loads(pickle.dumps(run)) == run
    assert copy.deepcopy(one) == one
    assert f"{one.mean:.6g}" in repr(one)
    assert f"{np.mean(run.mean):.6g}" in repr(run)
    assert "%" not in one._repr_html_() + run._repr_html_()
    assert run.to_frame("dict")["p"] == run.p.tolist()


def test_plots_are_on_the_scale_of_the_outcomes(stream: Any) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    frame, y = in_units(stream, 16.0, 80.0)
    live = make(low=16.0, high=80.0)
    run = live.run(frame, y)
    title = live.plot("score").get_title(loc="left")
    assert f"{float(np.mean((run.mean - y) ** 2)):.3g} per forecast" in title
    ax = live.plot("rates")
    assert 16.0 <= ax.get_ylim()[0] < ax.get_ylim()[1] <= 80.0
    assert not any("%" in tick.get_text() for tick in ax.get_yticklabels())


def test_a_span_maps_its_ends_to_its_ends() -> None:
    rng = np.random.default_rng(1)
    for low, width in zip(rng.normal(0, 100, 2000).tolist(), rng.lognormal(0, 5, 2000).tolist(), strict=True):
        span = Span(low, low + width)
        inside = np.append(rng.uniform(span.low, span.high, 20), [span.low, span.high])
        shares = span.share(inside)
        assert ((shares >= 0) & (shares <= 1)).all()
        assert (shares[-2], shares[-1]) == (0.0, 1.0)
        back = span.values(shares)
        assert ((back >= span.low) & (back <= span.high)).all()
        np.testing.assert_allclose(back, inside, rtol=1e-12, atol=1e-12 * (abs(low) + width))
