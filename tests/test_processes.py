"""The same input gives the same output in every process, whoever compiled its machine code and however it rounds."""

import json

import numpy as np
import pytest

from swapcal import Audit, Forecaster, Live
from swapcal.batch.model import Model
from swapcal.batch.settings import FitSettings
from swapcal.tables.frame import Table
from tests.fresh import python


def rows(n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    columns = {"shop": rng.choice(list("abc"), n), "price": rng.normal(size=n), "score": rng.random(n)}
    return columns, (rng.random(n) < 0.3).astype(float)


def draws(n: int) -> dict[str, list]:
    """Return what is drawn or chosen by hash: levels of a stream without ids and of a fitted model, a row sample."""
    columns, y = rows(n)
    records = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    live = Live(groups=["shop"], scores=["score"])
    model = Model.fit(Table(columns), y, groups=["shop"], settings=FitSettings(snapshots=4))
    features = {name: columns[name] for name in ("shop", "price")}
    audit = Audit.from_features(columns["score"], y, features)
    return {
        "live": live.run(records, y).p.tolist(),
        "preview": live.preview(records[:5]).p.tolist(),
        "batch": model.issue(Table(columns)).p.tolist(),
        "audit": [audit.sums.sample.digest, *map(int, audit.sums.sample.rows.hashes)],
    }


def elsewhere(n: int, **environment: str) -> dict[str, list]:
    code = f"import json; from tests.test_processes import draws; print(json.dumps(draws({n})))"
    return json.loads(python(code, **environment))


def test_draws_do_not_depend_on_how_the_machine_rounds():
    assert elsewhere(60, NUMBA_DISABLE_JIT="1") == draws(60)


@pytest.mark.cold
def test_the_process_that_compiles_draws_what_the_next_one_draws(tmp_path):
    cold, warm = (elsewhere(800, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert cold == warm == draws(800)


def test_a_stream_without_ids_draws_the_same_row_by_row_and_from_any_table():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    columns, y = rows(200)
    columns["odd"] = np.arange(200) % 7
    columns["yes"] = np.arange(200) % 3 == 0
    records = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    expected = Live().run(records, y).p
    parts = Live()
    assert np.array_equal(
        np.concatenate([parts.run(records[k : k + 7], y[k : k + 7]).p for k in range(0, 200, 7)]), expected
    )
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        assert np.array_equal(Live().run(frame, y).p, expected)
        assert np.array_equal(Live().contexts.encode(frame).marks, Live().contexts.encode(records).marks)
    turned = [dict(reversed(record.items())) for record in records]
    assert np.array_equal(Live().contexts.encode(turned).marks, Live().contexts.encode(records).marks)


def test_marks_know_values_and_not_their_spelling():
    def marks(*records):
        return Live(categorical=["word"]).contexts.encode(list(records)).marks

    alike = [
        {"x": 0.0, "word": 1},
        {"x": -0.0, "word": 1.0},
        {"x": 0, "word": np.float64(1.0)},
        {"x": np.float32(0), "word": np.int8(1), "more": None},
        {"word": 1, "x": 0.0, "more": float("nan")},
    ]
    assert len({int(marks(record)[0]) for record in alike}) == 1
    others = [{"x": 1.0, "word": 1}, {"x": 0.0, "word": 2}, {"word": 1}, {"x": None, "word": 2}, {"x": 1, "word": 0}]
    assert len({int(marks(record)[0]) for record in [alike[0], *others]}) == 6


@pytest.mark.parametrize("learner", ["ridge", "vaw"])
def test_minus_zero_draws_like_zero(learner):
    X = np.tile([0.5, 0.0, 0.3], (50, 1))
    y = (np.arange(50) % 3 == 0).astype(float)
    minus = X * [1.0, -1.0, 1.0]
    assert np.signbit(minus[:, 1]).all()
    runs = [Forecaster(3, learner=learner).run(rows, y).p for rows in (X, minus)]
    assert np.array_equal(*runs)
    with_minus = Audit(np.full(50, 0.5), y, minus)
    assert with_minus.sums.sample.digest == Audit(np.full(50, 0.5), y, X).sums.sample.digest


def test_hash_mode_depends_on_values_only():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns, y = rows(400)
    columns["price"][::9] = np.nan
    columns["yes"] = np.arange(400) % 3 == 0
    order = np.random.default_rng(1).permutation(400)
    model = Model.fit(Table(columns), y, groups=["shop"], settings=FitSettings(snapshots=4))
    keys = model.features.keys(Table(columns))
    assert len(set(keys.tolist())) == 400
    turned = {name: columns[name][order] for name in reversed(columns)}
    for table in (turned, pd.DataFrame(turned), pl.DataFrame(turned)):
        assert np.array_equal(model.features.keys(Table(table)), keys[order])
    assert np.array_equal(model.features.keys(Table({n: v[:3] for n, v in columns.items()})), keys[:3])
