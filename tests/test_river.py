"""The river classifier: river's own checks, purity, delays, mini-batches."""

from typing import Any

import numpy as np
import pytest

river = pytest.importorskip("river")

from river import checks, datasets, evaluate, metrics  # noqa: E402

from swapcal.adapters.river import LiveClassifier  # noqa: E402

# river's own checks call deprecated parts of pandas and numpy
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("check", [*checks.yield_checks(LiveClassifier())], ids=lambda check: check.__name__)
def test_river_approves(check: Any) -> None:
    check(LiveClassifier())


def remembered(model: LiveClassifier) -> Any:
    learner = model.live._learner
    assert learner.forecaster is not None
    arrays = {**learner.contexts.to_state()[0], **learner.experts.to_state()[0], **learner.forecaster._state._asdict()}
    return (
        {name: array.tobytes() for name, array in arrays.items()},
        learner.contexts.to_state()[1],
        model.live.status(),
    )


def test_predicting_changes_nothing() -> None:
    model = LiveClassifier()
    rows = list(datasets.Phishing().take(60))
    for x, y in rows[:50]:
        model.learn_one(x, y)
    before = remembered(model)
    first = [model.predict_proba_one(x) for x, _ in rows]
    assert remembered(model) == before
    assert first == [model.predict_proba_one(x) for x, _ in rows]


@pytest.mark.parametrize("delay", [None, 20])
def test_progressive_validation_with_and_without_delay(delay: Any) -> None:
    rows = list(datasets.Phishing().take(400))
    metric = evaluate.progressive_val_score(rows, LiveClassifier(), metrics.Accuracy(), delay=delay)
    assert metric.get() > 0.8


def test_a_ticket_teaches_the_forecast_that_was_issued() -> None:
    model = LiveClassifier()
    rows = list(datasets.Phishing().take(80))
    for k, (x, _) in enumerate(rows):
        model.live.forecast(x, id=k)
    assert model.live.status().open == len(rows)
    for k, (_, y) in enumerate(rows):
        model.live.label(k, y)
    assert model.live.certificate().holds()
    assert model.live.certificate().late == len(rows) - 1


def test_learning_many_is_learning_one_by_one() -> None:
    pd = pytest.importorskip("pandas")
    rows = list(datasets.Phishing().take(120))
    one, many = LiveClassifier(), LiveClassifier()
    for x, y in rows:
        one.learn_one(x, y)
    many.learn_many(pd.DataFrame([x for x, _ in rows]), pd.Series([y for _, y in rows]))
    frame = pd.DataFrame([x for x, _ in rows])
    np.testing.assert_array_equal(one.predict_proba_many(frame), many.predict_proba_many(frame))


def test_the_issued_level_can_be_the_answer() -> None:
    model = LiveClassifier(issued=True)
    for x, y in datasets.Phishing().take(100):
        model.learn_one(x, y)
    answer = model.predict_proba_one(x)[True]
    forecast = model.live.preview([dict(sorted(x.items()))])
    assert answer in (forecast.low[0], forecast.high[0])
