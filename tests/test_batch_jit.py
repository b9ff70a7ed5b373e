"""Compiled and interpreted, the batch model computes the same: the same source, without the compiler."""

import numpy as np

from swapcal.batch import Stream
from swapcal.batch.model import Model
from swapcal.batch.settings import FitSettings
from swapcal.batch.trees import grown, sliced
from swapcal.features.encoder import EncodedTable
from swapcal.tables.frame import Table
from tests.fresh import python
from tests.test_batch_trees import two_trees


def outcome() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    n = 90
    shop, x = rng.choice(list("ab"), n), rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-x - (shop == "b")))).astype(float)
    table = Table({"shop": shop, "x": np.where(rng.random(n) < 0.1, np.nan, x)})
    model = Model.fit(table, y, groups=["shop"], settings=FitSettings(snapshots=4))
    stream = Stream(3, kappa=0.02, log=True)
    X = np.column_stack([np.full(n, 0.5), np.tanh(x) / 2, rng.uniform(-0.5, 0.5, n)])
    stream.run(X, y)
    coded = EncodedTable(X, np.arange(n)[:, None] % 4 - 1, X[:, 1:2] + 0.5)
    history, keys = stream.history(), np.arange(n, dtype=np.uint64)
    return {
        "mean": model.mean(table),
        "issued": np.stack(model.issue(table)),
        "trees": grown(two_trees(), y, y, coded),
        "slices": grown(two_trees(), y, y, coded, sliced(two_trees())),
        "history mean": history.mean(X[:8]),
        "history issued": np.stack(history.issue(X, keys)),
        "certificate": np.array([v for v in model.certificate.as_dict().values() if v is not None], float),
    }


def write(path: str) -> None:
    np.savez(path, **outcome())  # type: ignore[arg-type]


def test_the_compiler_changes_nothing(tmp_path):
    path = tmp_path / "interpreted.npz"
    python(f"from tests.test_batch_jit import write; write({str(path)!r})", NUMBA_DISABLE_JIT="1")
    compiled = outcome()
    with np.load(path) as interpreted:
        assert set(interpreted.files) == set(compiled)
        for name in interpreted.files:
            assert np.allclose(interpreted[name], compiled[name], rtol=1e-7, atol=1e-9), name
