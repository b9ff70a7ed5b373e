"""Every public noun says in a console and in a notebook what a person wants to know, and never an address."""

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import swapcal
from swapcal import Audit, Client, Contexts, Forecaster, Live, Loss, Monitor, OracleForecaster
from swapcal.audit import Comparison
from swapcal.baselines import ONLINE
from swapcal.baselines.batch import BATCH, Isotonic, Sigmoid
from swapcal.benchmark import Benchmark
from swapcal.losses import cost_matrix, decide, omniprediction, regret, swap_omniprediction
from swapcal.oracles import FiniteClass, Fourier, PartialFit, Ridge, River

ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}| object at |\bfunction\b")
EVIL = "<script>alert('x')</script> & co"
LONGEST = 260
NOT_NOUNS = {"__version__", "decide"}
PLAIN = {"baseline", "Oracle"}
"""Nouns without a notebook face."""

RNG = np.random.default_rng(0)
P = RNG.choice([0.2, 0.5, 0.8], 2000)
SHOP = RNG.choice(["a", EVIL], 2000)
Y = (RNG.random(2000) < P + 0.15 * (SHOP == EVIL)).astype(float)


def live() -> Live:
    made = Live(groups=["shop"])
    made.run([{"shop": shop, "price": float(k % 7)} for k, shop in enumerate(SHOP[:400])], Y[:400])
    return made


def contexts(rows: int) -> Any:
    return np.column_stack([np.full(rows, 0.5), RNG.uniform(-0.8, 0.8, rows)])


def engine() -> Forecaster:
    forecaster = Forecaster(dim=2)
    forecaster.run(contexts(400), Y[:400])
    return forecaster


class Model:
    """Learns nothing, in the ways of river and of scikit-learn."""

    def predict_one(self, x: Any) -> float:
        return 0.5

    def learn_one(self, x: Any, y: float, w: float) -> None: ...

    def partial_fit(self, X: Any, y: Any, sample_weight: Any) -> None: ...

    def fit(self, X: Any, y: Any, sample_weight: Any) -> None: ...

    def predict(self, X: Any) -> Any:
        return np.full(len(X), 0.5)


def oracles() -> Iterator[Any]:
    for beside in ((), ("ridge",)):
        made = OracleForecaster(lambda level: River(Model()), levels=4, beside=beside)
        yield from (made, made.certificate())
        made.run(contexts(100), Y[:100])
        yield from (made.certificate(), made.certificate().against(Model()))


def monitor() -> Monitor:
    return Monitor(["shop"]).add({"shop": SHOP}, np.full(2000, 0.2), Y)


def nouns() -> Iterator[tuple[str, Any]]:
    stream, forecaster, audit = live(), engine(), Audit(P, Y, groups={"shop": SHOP}, title=EVIL)
    yield from (("Live", Live()), ("Live", stream), ("Live", stream.status()), ("Live", stream.certificate()))
    issued = stream.forecast({"shop": "a", "price": 1.0}, id="next")
    yield from (("Forecast", issued), ("Forecast", stream.preview([{"shop": "a"}] * 3)), ("Forecast", issued.explain()))
    yield "Live", Live().trace([{"a": 1}], [1])
    yield from (("Contexts", Contexts()), ("Contexts", stream.contexts))
    yield from (("Forecaster", Forecaster(dim=2)), ("Forecaster", forecaster))
    yield from (("Forecaster", Forecaster(dim=2).certificate()), ("Forecaster", forecaster.certificate()))
    yield from (("OracleForecaster", made) for made in oracles())
    yield from (("Oracle", oracle) for oracle in (Ridge(0.5, 2), Fourier(0.5, 2), FiniteClass([abs]), FiniteClass(abs)))
    yield from (("Oracle", oracle) for oracle in (River(Model()), PartialFit(Model())))
    losses = [Loss.parse("pinball:0.9"), Loss.parse("huber:0.1"), cost_matrix([[0, 5], [1, 1]], ["wait", EVIL])]
    yield from (("Loss", loss) for loss in losses)
    yield "Loss", Loss.parse("newsvendor:under=3,over=@c", {"c": [1.0, 2.0]})
    yield "Loss", decide([0.1, 0.9], "pinball:0.9")
    X = contexts(300)
    yield "Loss", regret(losses[0], P[:300], Y[:300], X)
    yield "Loss", swap_omniprediction(P[:300], Y[:300], X)
    yield "Loss", omniprediction(P[:300], Y[:300], X)
    yield from (("Audit", Audit([0.5], [1])), ("Audit", audit), ("Audit", audit.verdict()), ("Audit", audit))
    yield from (("Audit", audit.findings()[0]), ("Audit", audit.test()), ("Audit", audit.group_table()[0]))
    compared = Comparison(P, np.clip(P + 0.1, 0, 1), Y, groups={"shop": SHOP}, title=EVIL, names=("old", EVIL))
    yield "Audit", compared
    yield "Audit", Benchmark(Y, {"mine": P, "swapcal": np.clip(P + 0.1, 0, 1)}, title=EVIL)
    yield from (("Witness", audit.theory.witness()), ("Witness", audit.theory.witness(against="groups")))
    watched = monitor()
    yield from (("Monitor", Monitor()), ("Monitor", watched), ("Monitor", watched.alarms()[0]))
    yield "Monitor", watched.test()
    yield "Client", Client("http://127.0.0.1:8000", token="secret")
    yield from (("baseline", cls(dim=2)) for cls in ONLINE.values())
    yield from (("baseline", make()) for make in [*BATCH.values(), Isotonic, Sigmoid])


FACES = list(nouns())


def learners() -> Iterator[tuple[str, Any]]:
    linear = pytest.importorskip("sklearn.linear_model")
    X = RNG.normal(size=(200, 2))
    for cls, inner in (("SwapClassifier", linear.LogisticRegression()), ("SwapRegressor", linear.LinearRegression())):
        noun = getattr(swapcal, cls)
        yield from (
            (cls, noun()),
            (cls, noun(inner)),
            (cls, noun(inner, groups=[0], random_state=0).fit(X, X[:, 1] > 0)),
        )


def test_no_public_noun_is_left_out():
    with_learners = {"SwapClassifier", "SwapRegressor"}
    assert {name for name, _ in FACES} | with_learners >= set(swapcal.__all__) - NOT_NOUNS


@pytest.mark.parametrize("noun", [noun for _, noun in FACES], ids=lambda noun: type(noun).__name__)
def test_a_noun_says_what_it_is_and_not_where_it_lies(noun):
    for text in (repr(noun), str(noun)):
        assert not ADDRESS.search(text), text
    assert len(repr(noun)) <= LONGEST
    assert "\n" not in repr(noun) or type(noun).__name__ == "Decision"
    page = noun._repr_html_() if hasattr(noun, "_repr_html_") else ""
    assert not ADDRESS.search(page)
    assert "<script" not in page
    if page:
        ElementTree.fromstring(page)  # closed tags, escaped text


def test_public_nouns_and_what_they_return_have_notebook_faces_and_baselines_and_oracles_have_none():
    plain = [noun for name, noun in FACES if name in PLAIN]
    without = {type(noun).__name__ for name, noun in FACES if name not in PLAIN and not hasattr(noun, "_repr_html_")}
    assert without == {"OmnipredictionInterval", "Trace"}
    assert not [noun for noun in plain if "_repr_html_" in vars(type(noun))]


def test_scikit_learn_draws_the_learners_and_names_what_is_inside():
    for name, learner in learners():
        assert not ADDRESS.search(repr(learner))
        page = learner._repr_html_()
        assert name in page
        inside = getattr(learner, "estimator", None)
        if inside is not None:
            assert type(inside).__name__ in page


def test_a_client_shows_no_token():
    client = Client("http://127.0.0.1:8000", token="secret")
    assert "secret" not in repr(client) + client._repr_html_()


def test_an_audit_tells_its_verdict_once_it_was_asked_for():
    audit = Audit(P, Y, groups={"shop": SHOP})
    assert repr(audit) == "Audit(2,000 rows, 2 groups)"
    audit.verdict()
    assert repr(audit) == "Audit(2,000 rows, 2 groups, miscalibrated)"


def test_counts_are_those_of_the_stream():
    stream = live()
    stream.forecast({"shop": "a", "price": 1.0}, id="next")
    assert repr(stream) == "Live(401 forecasts, 400 labels, 1 open; groups shop)"
    assert repr(monitor()).startswith("Monitor(2,000 rows, 3 groups; off: ")
