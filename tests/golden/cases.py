"""The recorded cases, one function each: a fixed input in, everything that the public API issues for it out."""

import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from swapcal import Audit, Contexts, Forecaster, Live, Loss, Monitor, decide
from tests.golden.inputs import columns, contexts, events, predictions, uniforms
from tests.golden.trees import Flat, plain

CASES: dict[str, Callable[[], Flat]] = {}
NEEDS: dict[str, tuple[str, ...]] = {}
"""Packages without which a case is skipped; where their versions differ from the recorded ones, too."""

ISSUED = ("p", "mean", "low", "high", "weight")


def case(*needs: str) -> Callable[[Callable[[], Flat]], Callable[[], Flat]]:
    def register(function: Callable[[], Flat]) -> Callable[[], Flat]:
        CASES[function.__name__] = function
        NEEDS[function.__name__] = needs
        return function

    return register


def missing(name: str) -> str | None:
    """Return a package that a case needs and that is not installed."""
    return next((package for package in NEEDS[name] if find_spec(package) is None), None)


def issued(forecast: Any, prefix: str = "") -> dict[str, Any]:
    return {prefix + name: np.atleast_1d(np.asarray(getattr(forecast, name), np.float64)) for name in ISSUED}


def stacked(forecasts: Any, prefix: str = "") -> dict[str, Any]:
    """Return single forecasts as arrays."""
    return {prefix + name: np.array([getattr(one, name) for one in forecasts]) for name in ISSUED}


def labels_of(live: Live) -> dict[str, Any]:
    """Return the status but for the errors of issued levels, which certificates have."""
    return {name: value for name, value in live.status()._asdict().items() if name != "issued"}


def certified(found: Any, prefix: str = "certificate") -> dict[str, Any]:
    return {prefix: {**found.as_dict(), "holds": found.holds(), "weight": found.weight}}


# ---------------------------------------------------------------------------------------------------------- Forecaster


@case()
def forecaster_run() -> Flat:
    X, y = contexts(1, 1200, 6)
    forecaster = Forecaster(dim=6)
    found = forecaster.run(X, y)
    return Flat().add(**issued(found), levels=forecaster.levels, **certified(forecaster.certificate()))


@case()
def forecaster_one_by_one() -> Flat:
    X, y = contexts(2, 300, 4)
    forecaster, issued_ones = Forecaster(dim=4, seed=5), []
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        issued_ones.append(forecaster.predict(x, event=f"event {t}" if t % 2 else None))
        forecaster.update(issued_ones[-1], label)
    return Flat().add(**stacked(issued_ones), **certified(forecaster.certificate()))


@case()
def forecaster_late() -> Flat:
    X, y = contexts(3, 400, 3)
    forecaster, waiting, out = Forecaster(dim=3), [], []
    for start in range(0, 400, 40):
        part = slice(start, start + 40)
        out.append(forecaster.predict_many(X[part], events=list(range(start, start + 40))))
        waiting.append((out[-1], y[part]))
        if len(waiting) == 3:
            forecaster.update(*waiting.pop(0))
    arrays = {name: np.concatenate([getattr(part, name) for part in out]) for name in ISSUED}
    return Flat().add(**arrays, **certified(forecaster.certificate()))


OPTIONS: dict[str, dict[str, Any]] = {
    "vaw": {"learner": "vaw"},
    "ons": {"learner": "ons", "levels": 10},
    "ons_adaptive": {"learner": "ons"},
    "ons_fast": {"learner": "ons-fast"},
    "ons_fast_sine": {"learner": "ons-fast", "levels": "sine:12"},
    "vaw_explicit": {"learner": "vaw", "levels": [0.0, 0.1, 0.3, 0.55, 0.8, 1.0]},
    "blum_mansour_ridge": {"mixing": "blum-mansour", "levels": 8},
    "blum_mansour_ons": {"mixing": "blum-mansour", "learner": "ons", "levels": 6},
    "blum_mansour_ons_fast": {"mixing": "blum-mansour", "learner": "ons-fast", "levels": 6},
    "sine": {"levels": "sine"},
    "knobs": {"ridge": 0.25, "kappa": 0.6, "seed": 11},
    "prior": {"prior": [0.8, 0.3, -0.1, 0.0, 0.2]},
    "window": {"window": 80},
}


def _option(given: dict[str, Any]) -> Callable[[], Flat]:
    def run() -> Flat:
        X, y = contexts(4, 400, 5)
        forecaster = Forecaster(dim=5, **given)
        found = Flat().add(**issued(forecaster.run(X, y)), levels=forecaster.levels)
        found.add(**certified(forecaster.certificate()))
        if "window" in given:
            found.add(**certified(forecaster.certificate(window=given["window"]), "recent"))
        return found

    return run


for _name, _given in OPTIONS.items():
    CASES[f"forecaster_{_name}"] = _option(_given)
    NEEDS[f"forecaster_{_name}"] = ()


@case()
def forecaster_paper_and_grown() -> Flat:
    X, y = contexts(5, 300, 4)
    paper, grown = Forecaster.paper(dim=4, horizon=300), Forecaster(dim=3)
    grown.set_ridge(3.0)
    found = Flat().add(**issued(paper.run(X, y * 0.75 + 0.1)), **certified(paper.certificate()))
    found.add(**issued(grown.run(X[:150, :3], y[:150]), "before_"))
    grown.grow(4)
    return found.add(**issued(grown.run(X[150:], y[150:]), "grown_"), **certified(grown.certificate(), "of_grown"))


@case()
def baselines_and_duels() -> Flat:
    from swapcal.baselines import ONLINE
    from swapcal.datasets import KINDS, Stream, played

    X, y = contexts(6, 150, 3)
    found = Flat()
    for name, kind in sorted(ONLINE.items()):
        answer = kind(3, horizon=150, seed=2).run(X, y)
        found.add(**{f"{name}_p": answer.p, f"{name}_mean": answer.mean})
    for name in sorted(KINDS):
        part = played(Forecaster(dim=3), Stream(name, dim=3, rounds=100, seed=1))
        found.add(**{f"{name}_y": part.y, f"{name}_mean": part.forecast.mean})
    return found


# ---------------------------------------------------------------------------------------------------------------- Live


@case()
def live_run() -> Flat:
    given = events(10, 600)
    live = Live(groups=["city", "channel"])
    trace = live.trace(given.records, given.y)
    found = Flat().add(**issued(trace.forecast), x_last=trace.x[-3:], experts_last=trace.experts[-40:])
    found.add(coordinates=list(live.names), expert_names=list(live.experts), status=labels_of(live))
    return found.add(**certified(live.certificate()))


@case()
def live_one_by_one() -> Flat:
    given = events(11, 250)
    live, out = Live(groups=["city"], seed=3), []
    for k, record in enumerate(given.records):
        out.append(live.forecast(record, id=k))
        live.label(k, given.y[k])
    return Flat().add(**stacked(out), status=labels_of(live), **certified(live.certificate()))


@case()
def live_many() -> Flat:
    given = events(12, 300)
    live, out, became = Live(groups=["city"]), [], []
    for start in range(0, 300, 60):
        part, ids = slice(start, start + 60), [f"row {k}" for k in range(start, start + 60)]
        out.append(live.forecast_many(given.records[part], ids))
        became += live.label_many(ids[::-1], given.y[part][::-1])
    preview = live.preview(given.records[:20])
    arrays = {name: np.concatenate([getattr(part, name) for part in out]) for name in ISSUED}
    return Flat().add(**arrays, **issued(preview, "preview_"), became=became)


@case()
def live_late_by_id() -> Flat:
    """Every label comes 25 forecasts late, one in ten never."""
    given = events(13, 300)
    live, out = Live(groups=["city"]), []
    for k, record in enumerate(given.records):
        out.append(live.forecast(record, id=k, time=float(given.time[k])))
        if k >= 25 and k % 10:
            live.label(k - 25, given.y[k - 25], time=float(given.time[k]))
    return Flat().add(**stacked(out), status=labels_of(live), **certified(live.certificate()))


@case()
def live_late_times() -> Flat:
    given = events(14, 400)
    live = Live(groups=["city"])
    answer = live.run(given.records, given.y, time=given.time, label_time=given.label_time)
    return Flat().add(**issued(answer), status=labels_of(live), **certified(live.certificate()))


@case()
def live_matures() -> Flat:
    given = events(15, 300)
    live = Live(groups=["city"])
    matures = np.where(np.arange(300) % 7 == 0, np.nan, given.matures)
    first = live.run(
        given.records[:200],
        given.y[:200],
        time=given.time[:200],
        label_time=given.label_time[:200],
        matures=matures[:200],
    )
    out, became = [], []
    for k in range(200, 300):
        out.append(live.forecast(given.records[k], id=k, time=given.time[k], matures=given.matures[k]))
        became += live.label_many([k], [given.y[k]], time=given.time[k])
    found = Flat().add(**issued(first), **stacked(out, "single_"), became=became)
    return found.add(status=labels_of(live), **certified(live.certificate()))


@case()
def live_follow() -> Flat:
    given = events(16, 200)
    live = Live(groups=["city"])
    ids, y, asks = [], [], []
    for k in range(200):
        ids.append(f"e{k}")
        y.append(given.y[k] if k % 3 == 0 else math.nan)
        asks.append(True)
        if k >= 20 and (k - 20) % 3:
            ids.append(f"e{k - 20}")
            y.append(given.y[k - 20])
            asks.append(False)
    answer, became = live.follow(given.records, ids, y, asks)
    return Flat().add(**issued(answer), became=became, status=labels_of(live))


@case()
def live_window() -> Flat:
    given = events(17, 300)
    live = Live(groups=["city"], window=100, ridge=1.0, kappa=0.1)
    answer = live.run(given.records, given.y)
    found = Flat().add(**issued(answer), **certified(live.certificate()))
    return found.add(**certified(live.certificate(window=100), "recent"))


@case()
def live_scores() -> Flat:
    given = events(18, 300)
    live = Live(
        groups=["city"],
        scores={"score": "probability", "logit": "logit"},
        products=[("city", "member")],
        numeric=["age"],
        categorical=["hour"],
        drop=["code"],
        categories=6,
        max_dim=70,
        fourier=4,
        seed=9,
    )
    answer = live.run(given.records, given.y)
    return Flat().add(**issued(answer), coordinates=list(live.names), **certified(live.certificate()))


class Counting:
    """A model of the user's own: the rate of its column's values so far."""

    def __init__(self, column: str) -> None:
        self.column, self.seen = column, {}

    def forecast(self, record: Any, keys: Any = None, values: Any = None) -> float:
        n, ones = self.seen.get(record.get(self.column), (0, 0.0))
        return (ones + 1.0) / (n + 2.0)

    def learn(self, record: Any, keys: Any, values: Any, y: float) -> None:
        n, ones = self.seen.get(record.get(self.column), (0, 0.0))
        self.seen[record.get(self.column)] = (n + 1, ones + y)


@case()
def live_own_model() -> Flat:
    given = events(19, 200)
    live = Live(models={"counting": Counting("city")})
    found = Flat().add(**issued(live.run(given.records[:150], given.y[:150])))
    out = []
    for k in range(150, 200):
        out.append(live.forecast(given.records[k], id=k))
        live.label(k, given.y[k])
    return found.add(**stacked(out, "single_"))


@case("sklearn")
def live_refit() -> Flat:
    from sklearn.naive_bayes import GaussianNB
    from sklearn.tree import DecisionTreeClassifier

    from swapcal.live import Refit

    given = events(20, 260)
    numbers = [{name: record[name] for name in ("price", "age", "ratio", "city")} for record in given.records]
    trees = Refit(DecisionTreeClassifier(max_depth=3, random_state=0), first=60, growth=1.5)
    live = Live(models={"trees": trees, "bayes": Refit(GaussianNB(), first=50, growth=2.0, last=100)})
    found = Flat().add(**issued(live.run(numbers, given.y)))
    status = {name: tuple(model.status())[:2] for name, model in live.models.items()}
    return found.add(fits={name: list(counts) for name, counts in status.items()})


@case()
def live_issue_order() -> Flat:
    given = events(21, 260)
    live, out, became = Live(order="issue", patience=30), [], []
    for k, record in enumerate(given.records):
        out.append(live.forecast(record, id=k))
        ready = k - (5 if k % 3 else 12)
        if ready >= 0 and ready % 11:
            became += live.label_many([ready], [given.y[ready]])
    return Flat().add(**stacked(out), became=became, status=labels_of(live))


@case()
def live_expiry() -> Flat:
    given = events(22, 260)
    found = Flat()
    for name, limits in {
        "expires": {"expires": 15},
        "lifetime": {"lifetime": 10.0},
        "max_open": {"max_open": 12},
    }.items():
        live, out, became = Live(**limits), [], []
        for k, record in enumerate(given.records[:160]):
            out.append(live.forecast(record, id=k, time=float(given.time[k])))
            late = k - 3 * (k % 9)
            if late >= 0 and live.is_open(late):
                became += live.label_many([late], [given.y[late]], time=float(given.time[k]))
        found.add(**stacked(out, f"{name}_"))
        found.add(**{f"{name}_became": became, f"{name}_released": [int(each) for each in live.release()]})
        found.add(**{f"{name}_status": labels_of(live)})
    return found


@case()
def live_saved_in_the_middle() -> Flat:
    given = events(23, 240)
    live = Live(groups=["city"], monitor=Monitor(["channel"]))
    first = live.run(given.records[:160], given.y[:160])
    opened = live.forecast_many(given.records[160:180], [f"o{k}" for k in range(20)])
    with tempfile.TemporaryDirectory() as folder:
        live.save(Path(folder) / "state")
        live = Live.load(Path(folder) / "state")
    live.label_many([f"o{k}" for k in range(20)], given.y[160:180])
    rest = live.run(given.records[180:], given.y[180:])
    found = Flat().add(**issued(first), **issued(opened, "open_"), **issued(rest, "rest_"))
    assert live.monitor is not None
    return found.add(sizes=live.monitor.sizes(), status=labels_of(live), **certified(live.certificate()))


@case()
def live_explain() -> Flat:
    given = events(24, 240)
    live = Live(groups=["city"], scores=["score"])
    live.run(given.records[:200], given.y[:200])
    found = Flat()
    for k in range(200, 206):
        live.forecast(given.records[k], id=k)
    live.label(200, given.y[200])
    for k in range(201, 206):
        explained = live.explain(k)
        found.add(**{f"explanation_{k}": explained.to_dict(), f"pool_{k}": explained.pool})
    return found.add(preview=live.preview(given.records[206]).explain().to_dict())


@case("pandas")
def live_frames() -> Flat:
    import pandas as pd

    given = events(25, 240)
    frame = pd.DataFrame(columns(given.records[:120])).drop(columns="member")
    frame["day"] = pd.Categorical(frame["hour"] % 7)
    live = Live(groups=["city", "day"])
    return Flat().add(**issued(live.run(frame, given.y[:120])), coordinates=list(live.names))


@case()
def contexts_encode() -> Flat:
    given = events(26, 150)
    made = Contexts(groups=["city"], scores=["score"], products=[("city", "channel")], fourier=3, max_dim=60)
    first = made(given.records[:100])
    made.freeze()
    rest = made.transform(given.records[100:])
    return Flat().add(first=first[-10:], rest=rest[:10], names=list(made.names), sums=np.abs(first).sum(axis=0))


# --------------------------------------------------------------------------------------------------------------- tables


def _table(seed: int, rows: int) -> tuple[Any, Any]:
    u = uniforms(seed, rows, 6)
    X = np.round(np.column_stack([2 * u[:, 0] - 1, 3 * u[:, 1], np.floor(4 * u[:, 2]), u[:, 3] * u[:, 3]]), 4)
    y = (u[:, 5] < 0.2 + 0.25 * u[:, 0] + 0.3 * (X[:, 2] == 2)).astype(int)
    return X, y


@case("sklearn")
def classifier_modes() -> Flat:
    from swapcal import SwapClassifier

    X, y = _table(30, 400)
    model = SwapClassifier(groups=[2], random_state=0, correction="linear", snapshots=6).fit(X, y)
    found = Flat().add(mean=model.predict_proba(X[:200])[:, 1], **certified(model.certificate_))
    found.add(decided=model.decide(X[:20], "newsvendor:under=3,over=1").action)
    for mode in ("hash", "sample"):
        model.set_params(mode=mode)
        found.add(**{mode: model.predict_proba(X[:200])[:, 1], f"{mode}_class": model.predict(X[:50])})
    model.set_params(mode="mean").partial_fit(X[:100], y[:100])
    return found.add(more=model.predict_proba(X[:50])[:, 1], **certified(model.certificate_, "after"))


@case("sklearn", "lightgbm")
def classifier_trees() -> Flat:
    from swapcal import SwapClassifier

    X, y = _table(31, 600)
    y = y ^ ((X[:, 0] > 0.0) & (X[:, 1] > 1.5))
    model = SwapClassifier(random_state=1, correction="trees", snapshots=4).fit(X, y)
    return Flat().add(mean=model.predict_proba(X[:150])[:, 1], **certified(model.certificate_))


@case("sklearn")
def classifier_targets_and_weights() -> Flat:
    from swapcal import SwapClassifier

    X, y = _table(32, 300)
    weight = np.round(0.25 + uniforms(33, 300), 2)
    found = Flat()
    for target in ("multicalibration", "omniprediction", "agnostic"):
        model = SwapClassifier(
            target=target, random_state=0, correction="linear", snapshots=3, ridge=4.0, passes=2, contexts=[0, 3]
        )
        model.fit(X, y, sample_weight=weight)
        found.add(**{target: model.predict_proba(X[:60])[:, 1]}, **certified(model.certificate_, f"{target}_found"))
    return found


@case("sklearn")
def classifier_base() -> Flat:
    from sklearn.frozen import FrozenEstimator
    from sklearn.naive_bayes import GaussianNB

    from swapcal import SwapClassifier

    X, y = _table(34, 400)
    crossed = SwapClassifier(GaussianNB(), groups=[2], random_state=0, correction="linear", snapshots=4).fit(X, y)
    frozen = FrozenEstimator(GaussianNB().fit(X[:150], y[:150]))
    fixed = SwapClassifier(frozen, groups=[2], random_state=0, correction="linear", snapshots=4)
    fixed.fit(X[150:], y[150:])
    found = Flat().add(crossed=crossed.predict_proba(X[:150])[:, 1], fixed=fixed.predict_proba(X[:150])[:, 1])
    return found.add(**certified(crossed.certificate_), **certified(fixed.certificate_, "of_fixed"))


@case("sklearn")
def classifier_many_classes() -> Flat:
    from sklearn.naive_bayes import GaussianNB

    from swapcal import SwapClassifier

    X, y = _table(35, 360)
    kinds = np.array(["bus", "car", "train"])[(y + (X[:, 0] > 0.3)).astype(int)]
    own = SwapClassifier(groups=[2], random_state=0, correction="linear", snapshots=3).fit(X, kinds)
    based = SwapClassifier(GaussianNB(), random_state=0, correction="linear", snapshots=3, mode="hash").fit(X, kinds)
    found = Flat().add(proba=own.predict_proba(X[:80]), separate=own.class_probabilities(X[:80]))
    found.add(based=based.predict_proba(X[:60]), predicted=own.predict(X[:40]).tolist())
    for k, certificate in enumerate(own.certificates_):
        found.add(**certified(certificate, f"certificate_{k}"))
    return found


@case("sklearn", "pandas")
def classifier_frame() -> Flat:
    import pandas as pd

    from swapcal import SwapClassifier

    given = events(36, 360)
    frame = pd.DataFrame(columns(given.records)).drop(columns=["member", "late"])
    model = SwapClassifier(groups=["city", "channel"], random_state=0, correction="linear", snapshots=4)
    model.fit(frame, given.y)
    single = [float(model.predict_proba(frame.iloc[k : k + 1])[0, 1]) for k in range(10)]
    found = Flat().add(mean=model.predict_proba(frame)[:150, 1], single=np.array(single))
    model.set_params(mode="hash")
    return found.add(hash=model.predict_proba(frame)[:150, 1], **certified(model.certificate_))


@case("sklearn")
def regressor() -> Flat:
    from sklearn.tree import DecisionTreeRegressor

    from swapcal import SwapRegressor

    X, y = _table(37, 300)
    outcome = np.round(10.0 * y + 3.0 * X[:, 0] + X[:, 1], 3)
    own = SwapRegressor(groups=[2], random_state=0, correction="linear", snapshots=3, low=-5.0, high=20.0)
    own.fit(X, outcome)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    based = SwapRegressor(tree, random_state=0, correction="linear", snapshots=3).fit(X, outcome)
    found = Flat().add(own=own.predict(X[:100]), based=based.predict(X[:100]))
    return found.add(**certified(own.certificate_), **certified(based.certificate_, "of_based"))


# ---------------------------------------------------------------------------------------------- audit, monitor, decide


def audited() -> Audit:
    given = predictions(40, 900)
    return Audit.from_features(
        given["p"],
        given["y"],
        given["features"],
        groups=given["groups"],
        time=given["time"],
        low=given["low"],
        high=given["high"],
        weight=given["share"],
        intersections=2,
        title="Night shifts",
    )


@case()
def audit_findings() -> Flat:
    certificate = Forecaster(dim=3)
    certificate.run(*contexts(7, 100, 3))
    settings: dict[str, Any] = {
        "certificate": certificate.certificate().as_dict(),
        "losses": ["pinball:0.9", "newsvendor:under=3,over=1"],
        "titles": {"columns": {"shift": "Shift"}, "values": {"shift": {"night": "at night"}}},
    }
    return Flat().add(findings=plain(audited().to_json(**settings)))


@case()
def audit_measures() -> Flat:
    given = predictions(41, 500)
    X, _ = contexts(42, 500, 4)
    parts = [
        Audit(
            given["p"][part],
            given["y"][part],
            X[part],
            groups={name: column[part] for name, column in given["groups"].items()},
            weights=given["weights"][part],
            levels=20,
        )
        for part in (slice(0, 300), slice(300, 500))
    ]
    audit = parts[0] + parts[1]
    found = Flat().add(n=audit.n, rows=audit.rows)
    for name in ("smcal", "psmcal", "mcal", "pmcal"):
        for q in (1, 2):
            for against in ("linear", "groups"):
                found.add(**{f"{name}_{q}_{against}": getattr(audit.theory, name)(q, against)})
    for name in ("cal", "pcal", "sreg", "psreg", "somni", "dsmcal", "dmcal", "dsomni", "saerr"):
        found.add(**{name: getattr(audit.theory, name)()})
    for name in ("ece", "smooth_ece", "brier", "brier_split", "log_loss", "auc", "worst_gap"):
        found.add(**{name: getattr(audit, name)()})
    for quantity in ("smcal", "mcal", "sreg", "somni"):
        witness = audit.theory.witness(quantity)
        if witness.theta is not None:
            found.add(**{f"witness_{quantity}": np.asarray(witness.theta)})
    noise, test, verdict = audit.theory.noise("cal", 1), audit.test(), audit.verdict()
    found.add(noise=[noise.value, noise.low, noise.high, noise.p_value], test=[test.value, test.p_value])
    found.add(verdict=[str(verdict.word), verdict.low, verdict.high])
    for row in audit.group_table():
        found.add(**{f"group {row.name}": [row.n, row.gap, row.low, row.high]})
    return found


def compared() -> Any:
    from swapcal.audit import Comparison

    given = predictions(43, 700)
    return Comparison(
        given["p"],
        given["q"],
        given["y"],
        features=given["features"],
        groups=given["groups"],
        names=("old", "new"),
        time=given["time"],
    )


@case()
def audit_comparison() -> Flat:
    return Flat().add(findings=plain(compared().to_json(losses=["pinball:0.9"])))


@case()
def audit_contest() -> Flat:
    from swapcal.benchmark import Benchmark

    given = predictions(44, 500)
    contest = Benchmark(given["y"], {"mine": given["p"], "swapcal": given["q"]}, groups=given["groups"])
    return Flat().add(findings=plain(contest.to_json()))


@case("pyarrow", "pandas")
def audit_frame() -> Flat:
    import pandas as pd
    import pyarrow as pa

    given = predictions(45, 400)
    frame = pd.DataFrame({"p": given["p"], "y": given["y"], **given["features"], **given["groups"]})
    names: dict[str, Any] = {"prob": "p", "target": "y", "features": ["age", "city"], "groups": ["shift"]}
    first = Audit.from_frame(frame[:250], **names)
    first.add(pa.Table.from_pandas(frame[250:], preserve_index=False))
    return Flat().add(findings=plain(first.to_json()))


@case()
def monitor() -> Flat:
    given = predictions(46, 3000)
    drifted = np.where(np.arange(3000) > 1500, np.clip(given["p"] - 0.15, 0.0, 1.0), given["q"])
    watching = Monitor(["shift", "region"], products=[("shift", "region")], run_length=10_000)
    part = slice(0, 2000)
    watching.add(_some(given["groups"], part), drifted[part], given["y"][part], given["time"][part])
    for k in range(2000, 2060):
        record = {name: str(column[k]) for name, column in given["groups"].items()}
        watching.add(record, float(drifted[k]), float(given["y"][k]), float(given["time"][k]))
    part = slice(2060, 3000)
    watching.add(_some(given["groups"], part), drifted[part], given["y"][part], given["time"][part])
    found = Flat().add(summary=watching.summary(), wealth=watching.wealth("shift = night"))
    watching.restart("shift = night")
    return found.add(restarted=[alarm.to_dict() for alarm in watching.alarms()])


def _some(groups: dict[str, Any], part: slice) -> dict[str, Any]:
    return {name: column[part] for name, column in groups.items()}


@case()
def monitor_joined() -> Flat:
    given = predictions(47, 1500)
    off = np.clip(given["p"] - 0.1, 0.0, 1.0)
    settings: dict[str, Any] = {"tolerance": 0.02, "level_ranges": False, "stakes": (0.05, 0.3), "alpha": 0.1}
    first, second = (
        Monitor(["shift"], **settings).add(_some(given["groups"], part), off[part], given["y"][part])
        for part in (slice(0, 700), slice(700, 1500))
    )
    return Flat().add(then=first.then(second).summary(), beside=(first + second).summary())


LOSSES = (
    "squared",
    "log",
    "absolute",
    "pinball:0.9",
    "newsvendor:under=3,over=1",
    "zero_one:false_positive=1,false_negative=4",
    "huber:0.2",
    "logistic",
    "exponential",
    "v_shaped:0.3",
)


@case()
def decisions() -> Flat:
    from swapcal.losses import cost_matrix, omniprediction, regret, swap_omniprediction

    X, y = contexts(48, 250, 3)
    forecast = Forecaster(dim=3, levels=10).run(X, y)
    found = Flat()
    for text in LOSSES:
        made = decide(forecast, text)
        found.add(**{text: np.array([made.action, made.expected_cost, made.before_draw])})
    matrix = cost_matrix([[0.0, 5.0], [1.0, 1.0], [2.0, 0.0]], ["wait", "look", "act"])
    made = decide(forecast.mean, matrix)
    found.add(matrix=np.asarray(made.expected_cost), labels=[str(label) for label in made.label])
    for text in ("squared", "pinball:0.9", "newsvendor:under=3,over=1"):
        saved = regret(Loss.parse(text), forecast.p, y, X)
        found.add(**{f"regret {text}": [saved.swap, saved.swap_upper, saved.plain, saved.plain_upper]})
    found.add(swap_omniprediction=swap_omniprediction(forecast.p, y, X).total)
    interval = omniprediction(forecast.p, y, X)
    return found.add(omniprediction=[interval.lower, interval.upper])


# ---------------------------------------------------------------------------------------------------------- commands


def command_line() -> Any:
    """Return the typer application that `swapcal.cli.main` runs."""
    from unittest.mock import patch

    import typer

    from swapcal.cli import main

    caught: list[Any] = []

    def catch(app: Any, *_: Any, **__: Any) -> None:
        caught.append(app)

    arguments = ["swapcal", "all commands"]  # not a command, so that all are added; main sets the environment
    with patch.object(typer.Typer, "__call__", catch), patch.object(sys, "argv", arguments), patch.dict(os.environ):
        main()
    return caught[0]


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.Table.from_pylist(rows, schema=pa.Table.from_pylist(rows[-5:]).schema)
    writer = pyarrow.parquet.write_table if path.suffix == ".parquet" else pyarrow.csv.write_csv
    writer(table, path)
    return path


def _read(path: Path) -> dict[str, Any]:
    import pyarrow.csv

    return {name: column.to_numpy() for name, column in zip(*_columns(pyarrow.csv.read_csv(path)), strict=True)}


def _columns(table: Any) -> tuple[list[str], list[Any]]:
    return table.column_names, table.columns


@case("typer", "pyarrow", "sklearn")
def commands() -> Flat:
    from typer.testing import CliRunner

    app, found = command_line(), Flat()
    given = events(49, 240)
    rows = [
        {**record, "late": record.get("late"), "id": k, "time": given.time[k], "due": given.label_time[k]}
        | {"y": int(given.y[k])}
        for k, record in enumerate(given.records)
    ]
    asked = [row | {"y": None} if k % 10 == 3 else row for k, row in enumerate(rows[:-5])] + rows[-5:]

    def run(*arguments: Any, code: int = 0) -> None:
        result = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
        assert result.exit_code == code, result.output

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        csv, parquet = _write(folder / "rows.csv", rows), _write(folder / "rows.parquet", rows)
        gaps = _write(folder / "gaps.csv", asked)
        for kind, file in {"csv": csv, "parquet": parquet}.items():
            findings = folder / f"{kind}.json"
            run("audit", file, "--prob", "score", "--target", "y", "--features", "age,ratio,channel", "--groups",
                "city,member", "--json", findings, "--title", "Rows", "--loss", "pinball:0.9")  # fmt: skip
            found.add(**{f"audit_{kind}": plain(findings.read_text())})
        state, out = folder / "live", folder / "forecasts.csv"
        run("forecast", gaps, "--target", "y", "--id", "id", "--time", "time", "--label-time", "due",
            "--groups", "city", "--score", "score", "--out", out, "--state", state)  # fmt: skip
        found.add(forecast=_read(out))
        run("label", state, csv, "--target", "y", "--id", "id", "--on-bad-row", "skip")
        found.add(labelled=labels_of(Live.load(state)))
        run("monitor", csv, "--prob", "score", "--target", "y", "--groups", "city", "--time", "time", "--json",
            folder / "monitor.json", "--title", "Rows", code=1)  # fmt: skip
        found.add(monitor=plain((folder / "monitor.json").read_text()))
        run("decide", csv, "--prob", "score", "--loss", "newsvendor:under=3,over=1", "--out", out)
        found.add(decide=_read(out))
        run("fit", csv, "--target", "y", "--groups", "city", "--drop", "id,time,due,late", "--correction", "linear",
            "--snapshots", "3", "--out", folder / "model")  # fmt: skip
        for mode in ("mean", "hash"):
            run("predict", folder / "model", parquet, "--mode", mode, "--out", out)
            found.add(**{f"predict_{mode}": _read(out)})
    return found


# ------------------------------------------------------------------------------------------------------------- service


@contextmanager
def served(store: Path) -> Iterator[str]:
    """Run `swapcal serve` in a process of its own and yield its address."""
    command = [sys.executable, "-m", "swapcal", "serve", "--store", str(store), "--port", "0", "--log", "none"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"https?://[^\s]+", line)
        assert found, f"the first line of swapcal serve has no address: {line!r}"
        yield _listening(found[0].rstrip(".,"))
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _listening(url: str) -> str:
    """Return the address once something listens there: its line may come a moment earlier."""
    for _ in range(600):
        with suppress(OSError):
            socket.create_connection((urlsplit(url).hostname or "", urlsplit(url).port or 80), timeout=5).close()
            return url
        time.sleep(0.05)
    raise TimeoutError(f"{url}: nothing listens there after 30 s")


SERVICE = ("typer", "starlette", "msgspec", "uvicorn", "httptools", "apsw", "jinja2", "prometheus_client")


@case(*SERVICE)
def service() -> Flat:
    from swapcal import Client

    given, out = events(50, 120), []
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "log.db") as url, Client(url) as client:
        client.create("shop", groups=["city"], scores=["score"])
        rows = [{"id": f"o{k}", "record": record} for k, record in enumerate(given.records)]
        out += client.forecasts("shop", rows[:80])
        labels = [{"id": f"o{k}", "y": given.y[k]} for k in range(75)]
        became = [answer["state"] for answer in client.outcomes("shop", labels)]
        for k in range(80, 120):
            out.append(client.forecast("shop", given.records[k], id=f"o{k}"))
            client.outcome("shop", f"o{k}", given.y[k])
        about = {
            name: value for name, value in client.about("shop", "o78").items() if name in ("explanation", "record")
        }
    return Flat().add(**stacked(out), became=became, about=about)


def versions() -> dict[str, str]:
    """Return the versions of the packages that cases need."""
    from importlib.metadata import version

    names = {"sklearn": "scikit-learn"}
    needed = sorted({package for needs in NEEDS.values() for package in needs if find_spec(package)})
    return {package: version(names.get(package, package)) for package in needed}
