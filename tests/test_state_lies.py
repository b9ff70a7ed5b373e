"""States of streams, batch models and baselines that lie, with a right checksum: refused, or harmless."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapcal.archive import ArchiveError, Kind, pack
from swapcal.baselines import GargIto, Okoroafor
from swapcal.baselines.online import file_of
from swapcal.batch import settings as batch_file
from swapcal.batch.model import Model
from swapcal.batch.settings import FitSettings
from swapcal.live import Live
from swapcal.live import state as live_file
from swapcal.tables.frame import Table
from tests.checks import stream

RECORDS = [{"g": "ab"[k % 2], "v": float(k % 5), "p": 0.1 + 0.05 * (k % 9), "c": "xyz"[k % 3]} for k in range(60)]
LABELS = [float(k % 3 == 0) for k in range(60)]


def parts(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    manifest = json.loads(arrays.pop("manifest").tobytes())
    return arrays, manifest["settings"]


def craft(path: Path, kind: Kind, arrays: Any, settings: Any) -> Path:
    with path.open("wb") as file:
        pack(file, kind.name, kind.version, arrays, settings)
    return path


@pytest.fixture(scope="module")
def saved_live(tmp_path_factory: Any) -> Any:
    live = Live(groups=["g"], scores=["p"], products=[("g", "v")], fourier=2, expires=50)
    live.run(RECORDS, LABELS, ids=range(60), time=range(60))
    live.forecast(RECORDS[0], id="open", time=60)
    live.forecast(RECORDS[1] | {"later": 2.0}, id=61, time=61)
    live.run(RECORDS[:2], [0, 1], time=[62, 63], label_time=[70, 71])
    path = tmp_path_factory.mktemp("live") / "state"
    live.save(path)
    return parts(path)


def put(*where: Any) -> Any:
    """Return a lie: the value at the end, in the place that the names before it lead to."""
    *steps, last, value = where

    def lie(arrays: Any, settings: Any) -> None:
        place = arrays if steps and steps[0] in arrays else settings
        for step in steps:
            place = place[step]
        place[last] = value

    return lie


def cut(name: str, column: int) -> Any:
    def lie(arrays: Any, settings: Any) -> None:
        arrays[name] = arrays[name][:, :column]

    return lie


OPEN = "open.ticket"
LIVE_LIES: dict[str, Any] = {
    "a coordinate beyond x": put("contexts", "columns", 0, "at", 2, 10**6),
    "a coordinate before x": put("contexts", "columns", 0, "at", 2, -3),
    "a coordinate in words": put("contexts", "columns", 0, "at", 2, "1"),
    "a product's coordinate beyond x": put("contexts", "products", 0, "at", 2, 10**6),
    "a category twice": put("contexts", "columns", 0, "codes", 1, "a"),
    "a category with a lone surrogate": put("contexts", "columns", 0, "codes", 1, "\ud800"),
    "a column twice": put("contexts", "columns", 0, "name", "v"),
    "an unknown kind of column": put("contexts", "columns", 0, "kind", "colour"),
    "waves without end": put("contexts", "settings", "fourier", 10**12),
    "room without end": put("contexts", "settings", "max_dim", 10),
    "a negative seed": put("contexts", "settings", "seed", -1),
    "a score that is no column": put("contexts", "settings", "scores", 0, ["q", "probability"]),
    "a pair of three": put("contexts", "settings", "products", 0, ["g", "v", "p"]),
    "frozen in words": put("contexts", "frozen", "no"),
    "a name too few": lambda a, s: s["contexts"]["names"].pop(),
    "a column too few": lambda a, s: s["contexts"]["columns"].pop(),
    "a part of a column missing": lambda a, s: s["contexts"]["columns"][0].pop("own"),
    "negative counts of the past": put("contexts.seen", 1, -1),
    "NaN past": put("contexts.mean", 1, math.nan),
    "more scores than weights": put("experts", "scores", 10**9),
    "a feature beyond the table": put("experts.linear_used", -1, 10**9),
    "a feature before the table": put("experts.paired_used", 0, -1),
    "features out of order": put("experts.linear_used", 0, 60000),
    "NaN weights of the blend": put("experts.weights", 0, math.nan),
    "levels beyond the slots": put("forecaster.counts", 0, 10**6),
    "more coordinates than contexts have": put("forecaster", "dim", 10**6),
    "another learner": put("forecaster", "learner", "ons"),
    "no engine": put("forecaster", None),
    "a level that does not exist": put(OPEN, (0, 8), 1e6),
    "a level that was never drawn": put(OPEN, (0, 8), -1.0),
    "a ticket too narrow": cut(OPEN, 10),
    "a memory too narrow": cut("open.memory", 3),
    "expert opinions too few": cut("open.judged", 3),
    "half a column": cut("open.values", 4),
    "wider than it is": put("open.widths", 0, 10**6),
    "narrower than nothing": put("open.widths", 0, 0),
    "issued out of order": put("open.issued", 0, 10**5),
    "half arrived": put("open.arrived", 0, 2),
    "held for ever": lambda a, s: (put("open.arrived", 0, 1)(a, s), put("open.y", 0, 1.0)(a, s)),
    "arrived without a label": lambda a, s: (put("open.arrived", 0, 1)(a, s), put("open.y", 0, math.nan)(a, s)),
    "no patience": put("patience", 0),
    "a label of 2 that came": put("labelled.y", 0, 2.0),
    "ids that are no JSON": put("open.ids", 0, ord("{")),
    "an id too few": lambda a, s: a.update({"open.ids": np.frombuffer(b'["open"]', np.uint8)}),
    "an id twice": lambda a, s: a.update({"expired.ids": np.frombuffer(b'["open"]', np.uint8)}),
    "an id that is a list": lambda a, s: a.update({"expired.ids": np.frombuffer(b"[[1]]", np.uint8)}),
    "an id that is true": lambda a, s: a.update({"expired.ids": np.frombuffer(b"[true]", np.uint8)}),
    "a clock of NaN": put("ledger", "clock", math.nan),
    "a delay in words": put("ledger", "delay", "long"),
    "a count missing": lambda a, s: s["ledger"].pop("waits"),
    "no room": put("limits", "max_open", 0),
    "a limit too many": put("limits", "patience", 1),
    "no ridge": put("engine", "ridge", 0.0),
    "a ridge too large": put("engine", "ridge", 2e8),
    "an engine's ridge too large": put("forecaster.knobs", 0, 2e8),
    "an unknown knob": put("engine", "speed", 1),
    "a model too many": put("models", ["oracle"]),
    "contexts in a list": put("contexts", []),
}


@pytest.mark.parametrize("lie", LIVE_LIES.values(), ids=LIVE_LIES.keys())
def test_a_stream_that_lies_is_refused(saved_live: Any, tmp_path: Path, lie: Any) -> None:
    arrays, told = copy.deepcopy(saved_live)
    lie(arrays, told)
    with pytest.raises(ArchiveError, match="state: "):
        Live.load(craft(tmp_path / "state", live_file.FILE, arrays, told))


def test_the_untouched_stream_loads(saved_live: Any, tmp_path: Path) -> None:
    live = Live.load(craft(tmp_path / "state", live_file.FILE, *saved_live))
    live.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "state").read_bytes()
    live.label("open", 1)
    live.run(RECORDS, LABELS, time=range(100, 160))


@pytest.fixture(scope="module", params=["scored", "unscored"])
def saved_model(request: Any, tmp_path_factory: Any) -> Any:
    rng = np.random.default_rng(0)
    n = 400
    columns = {"v": rng.normal(size=n), "w": np.where(rng.random(n) < 0.1, np.nan, 1.0), "g": rng.choice(["a", "b"], n),
               "h": rng.choice([1.0, 2.0], n)}  # fmt: skip
    y = (rng.random(n) < 0.5).astype(float)
    scores = rng.uniform(0.2, 0.8, n) if request.param == "scored" else None
    table = Table(columns)
    path = tmp_path_factory.mktemp("model") / "state"
    Model.fit(table, y, scores, groups=["g", "h"]).save(path)
    return parts(path), table, scores


MODEL_LIES: dict[str, Any] = {
    "a regressor beyond the row": put("correction.numeric", 0, 10**6),
    "a regressor before the row": put("correction.numeric", 0, -1),
    "a category beyond the row": put("correction.category", (0, 0), 10**6),
    "a pair beyond the row": put("correction.pair", (0, 0, 0), 10**6),
    "a pair of a column that is not there": put("correction.left", 0, 7),
    "coefficients too few": lambda a, s: a.update({"correction.coefficients": a["correction.coefficients"][:2]}),
    "NaN coefficients": put("correction.coefficients", 0, math.nan),
    "a coordinate beyond the context": put("layout.category", (0, 0), 10**6),
    "a coordinate below nowhere": put("layout.numeric", 0, -2),
    "codes without room": lambda a, s: a.update({"layout.category": a["layout.category"][:, :1]}),
    "a learner that does not exist": put("mixture.members", (0, 0), 10**6),
    "levels that do not exist": put("mixture.counts", 0, 10**6),
    "one level": put("mixture.counts", 0, 1),
    "levels out of order": put("mixture.z", (0, 0), 0.5),
    "learners too narrow": cut("mixture.pool", 4),
    "no spread": put("features", "spread", 0, 0.0),
    "a scale too few": lambda a, s: s["features"]["centre"].pop(),
    "a flag elsewhere": put("features", "flag", 0, 9),
    "a column in a list": put("features", "numeric", 0, ["v"]),
    "a column without a name": put("features", "numeric", 0, None),
    "codes beyond the table": put("features", "categories", 0, "texts", [f"t{k}" for k in range(99)]),
    "another's code": put("features", "categories", 0, "other", 40),
    "an unknown part": put("features", "colour", 1),
    "negative rows": put("rows", -1),
    "an unknown target": put("settings", "target", "glory"),
    "an unknown setting": put("settings", "speed", 1),
    "no snapshots": put("settings", "snapshots", 0),
    "a certificate of something else": put("certificate", {"holds": True}),
    "notes in words": put("notes", "none"),
}


@pytest.mark.parametrize("lie", MODEL_LIES.values(), ids=MODEL_LIES.keys())
def test_a_batch_model_that_lies_is_refused(saved_model: Any, tmp_path: Path, lie: Any) -> None:
    arrays, told = copy.deepcopy(saved_model[0])
    lie(arrays, told)
    with pytest.raises(ArchiveError, match="state: "):
        Model.load(craft(tmp_path / "state", batch_file.FILE, arrays, told))


def test_a_scorer_comes_with_its_base_rate_or_not_at_all(saved_model: Any, tmp_path: Path) -> None:
    arrays, told = copy.deepcopy(saved_model[0])
    told["base"] = 0.1 if told["base"] is None else None
    with pytest.raises(ArchiveError, match=r"arrays: (missing|given) scorer\."):
        Model.load(craft(tmp_path / "state", batch_file.FILE, arrays, told))


@pytest.fixture(scope="module")
def saved_rounds(tmp_path_factory: Any) -> Any:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), (rng.random(300) < 0.5).astype(float)
    path = tmp_path_factory.mktemp("rounds") / "state"
    Model.fit(X, y, settings=FitSettings(correction="none", log=True)).save(path)
    return parts(path)


ROUND_LIES: dict[str, Any] = {
    "a learner that does not exist": put("history.slot", 0, 10**6),
    "a level without a learner": lambda a, s: a.update({"history.z": np.append(a["history.z"], 0.3)}),
    "a level twice": put("history.z", 3, 0.5),
    "a level beyond 1": put("history.z", 3, 1.5),
    "one level at the start": lambda a, s: np.maximum(a["history.row"][1:], 0, out=a["history.row"][1:]),
    "rows out of order": put("history.row", -1, 3),
    "a row beyond the last": put("history.row", -1, 10**6),
    "a row before the first": put("history.row", 0, -2),
    "learners too narrow": cut("history.theta", 2),
    "fewer rounds": put("rows", 5),
    "more rounds than changes": put("rows", 10**9),
    "no rounds": put("settings", "log", False),
    "rounds in words": put("settings", "log", "yes"),
}


@pytest.mark.parametrize("lie", ROUND_LIES.values(), ids=ROUND_LIES.keys())
def test_rounds_that_lie_are_refused(saved_rounds: Any, tmp_path: Path, lie: Any) -> None:
    arrays, told = copy.deepcopy(saved_rounds)
    lie(arrays, told)
    with pytest.raises(ArchiveError, match="state: "):
        Model.load(craft(tmp_path / "state", batch_file.FILE, arrays, told))


@pytest.fixture(scope="module")
def saved_trees(tmp_path_factory: Any) -> Any:
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    v, w, g = rng.normal(size=800), rng.normal(size=800), rng.choice(["a", "b"], 800)
    y = (rng.random(800) < np.where((v > 0) & (w > 0) & (g == "a"), 0.95, 0.2)).astype(float)
    path = tmp_path_factory.mktemp("trees") / "state"
    Model.fit(Table({"v": v, "w": w, "g": g}), y, groups=["g"], settings=FitSettings(correction="trees")).save(path)
    return parts(path)


def _first_leaf(arrays: Any) -> int:
    return int(np.flatnonzero(arrays["forest.child"][::2] == np.arange(len(arrays["forest.value"])))[0])


TREE_LIES: dict[str, Any] = {
    "a tree that begins nowhere": put("forest.root", 0, 10**6),
    "a tree too few": lambda a, s: s.update(trees=s["trees"] - 1),
    "no trees": lambda a, s: s.update(trees=0),
    "a tree without end": put("forest.depth", 0, 2**62),
    "a tree above the ground": put("forest.depth", 0, -1),
    "an input that is not there": put("forest.column", 0, 4),
    "a child that is not there": put("forest.child", 0, 10**6),
    "a child too few": lambda a, s: a.update({"forest.child": a["forest.child"][:-1]}),
    "a way back": put("forest.child", -1, 0),
    "one tree twice": put("forest.root", 1, 0),
    "a leaf of two nodes": lambda a, s: a["forest.child"].__setitem__(0, a["forest.child"][1]),
    "a leaf that asks": lambda a, s: put("forest.child", 2 * _first_leaf(a), _first_leaf(a) + 1)(a, s),
    "a tree that ends early": put("forest.depth", 0, 0),
    "a tree that ends late": lambda a, s: put("forest.depth", 0, a["forest.depth"][0] + 1)(a, s),
    "a leaf without a number": put("forest.value", 0, math.nan),
    "a regressor beyond the row": put("first.numeric", 0, 10**6),
}


@pytest.mark.parametrize("lie", TREE_LIES.values(), ids=TREE_LIES.keys())
def test_trees_that_lie_are_refused(saved_trees: Any, tmp_path: Path, lie: Any) -> None:
    arrays, told = copy.deepcopy(saved_trees)
    lie(arrays, told)
    with pytest.raises(ArchiveError, match="state: "):
        Model.load(craft(tmp_path / "state", batch_file.FILE, arrays, told))


def test_the_untouched_model_predicts_as_before(saved_model: Any, tmp_path: Path) -> None:
    saved, table, scores = saved_model
    model = Model.load(craft(tmp_path / "state", batch_file.FILE, *saved))
    p = model.mean(table, scores)
    assert ((p > 0) & (p < 1)).all()
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "state").read_bytes()


def test_a_model_of_an_array_needs_all_its_columns() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.choice([1.0, 2.0], 300)])
    model = Model.fit(X, (rng.random(300) < 0.5).astype(float), groups=[1])
    with pytest.raises(ValueError, match="array: given 1 columns, expected at least 2"):
        model.mean(X[:, :1])


BASELINE_LIES: dict[str, Any] = {
    "a last level that does not exist": put("counts", 1, 10**6),
    "negative updates": put("counts", 0, -1),
    "an unknown system": put("codes", 0, 99),
    "another system": put("codes", 0, 0),
    "levels out of order": put("z", 0, 0.9),
    "NaN weights": put("theta", (0, 0), math.nan),
    "memory too narrow": put("dim", 99),
    "a regression too few": lambda a, s: a.update({name: a[name][:1] for name in ("theta", "factor", "scale")}),
    "another's": put("system", "Nobody"),
}


@pytest.mark.parametrize("lie", BASELINE_LIES.values(), ids=BASELINE_LIES.keys())
@pytest.mark.parametrize("system", [GargIto, Okoroafor])
def test_a_baseline_that_lies_is_refused(tmp_path: Path, lie: Any, system: Any) -> None:
    forecaster = system(3, horizon=100)
    forecaster.run(*stream(30, 3))
    forecaster.save(tmp_path / "state")
    arrays, told = parts(tmp_path / "state")
    lie(arrays, told)
    craft(tmp_path / "state", file_of(system.__name__, system.SYSTEM), arrays, told)
    with pytest.raises(ArchiveError, match="state: "):
        system.load(tmp_path / "state")
