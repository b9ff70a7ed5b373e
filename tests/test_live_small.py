"""A small `Live`: the same behaviour in a tenth of the bytes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapcal.archive import ArchiveError, State, packed, unpacked
from swapcal.live import Live
from swapcal.live.experts import SLOTS
from swapcal.live.state import FILE

CATEGORIES = {"c0": 3, "c1": 7, "c2": 12, "c3": 30}


def stream(n: int) -> tuple[list[dict[str, Any]], Any]:
    """Return records of 13 columns, 4 of them categories, and labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 9))
    codes = {name: rng.integers(0, size, n) for name, size in CATEGORIES.items()}
    records = [
        {f"x{j}": float(X[k, j]) for j in range(9)} | {name: f"{name} {codes[name][k]}" for name in CATEGORIES}
        for k in range(n)
    ]
    return records, (rng.random(n) < 1.0 / (1.0 + np.exp(0.5 - X[:, 0] - (codes["c0"] == 1)))).astype(float)


def test_many_at_once_are_as_one_by_one_and_as_after_loading(tmp_path: Path) -> None:
    records, y = stream(400)
    at_once, single = Live(size="small"), Live(size="small")
    ids = [f"e{k}" for k in range(400)]
    expected = at_once.run(records, y, ids=ids)
    for k in range(400):
        if k == 200:
            single.save(tmp_path / "live")
            single = Live.load(tmp_path / "live")
        forecast = single.forecast(records[k], ids[k])
        assert (forecast.p, forecast.mean) == (expected.p[k], expected.mean[k])
        single.label(ids[k], y[k])
    assert single.settings == at_once.settings
    assert single.settings["size"] == "small"


@pytest.mark.parametrize("options", [{}, {"scores": ["x0"]}, {"learner": "sparse", "groups": ["c0"]}])
def test_late_labels_after_loading(options: dict[str, Any]) -> None:
    records, y = stream(300)
    records = [record | {"x0": 1.0 / (1.0 + np.exp(-record["x0"]))} for record in records]
    live = Live(size="small", **options)
    other = Live(size="small", **options)
    for k in range(300):
        assert live.forecast(records[k], k).mean == other.forecast(records[k], k).mean
        if k >= 50:
            live.label(k - 50, y[k - 50])
            other.label(k - 50, y[k - 50])
        if k % 100 == 60:
            live = Live.from_state(unpacked(packed(FILE, live.to_state()), FILE))
    mean = [live.preview(record).mean for record in records[:5]]
    assert mean == [other.preview(record).mean for record in records[:5]]
    assert live.certificate().rounds == 250


def test_a_state_of_13_columns_is_a_tenth_of_the_full_one() -> None:
    records, y = stream(3_000)
    small, full = Live(size="small"), Live()
    for live in (small, full):
        live.run(records, y)
        live.release()
    sizes = [len(packed(FILE, live.to_state())) for live in (small, full)]
    assert sizes[0] <= 150_000
    assert sizes[1] >= 10 * sizes[0]
    assert Live.from_state(small.to_state()).settings == small.settings


def test_explanations_add_up_and_name_columns_that_the_engine_does_not_see() -> None:
    records, y = stream(600)
    live = Live(size="small")
    live.run(records, y)
    assert live.names[:3] == ("constant", "blend of experts", "x0")
    issued = live.forecast(records[0], "next")
    found = live.explain("next")
    assert found.base + sum(term.amount for term in found.terms) == pytest.approx(issued.mean, abs=1e-9)
    assert "x0" in {term.name for term in found.terms}
    assert live.engine().dim == 2  # type: ignore[union-attr]


def test_it_learns() -> None:
    records, y = stream(3_000)
    mean = Live(size="small").run(records, y).mean
    assert np.mean((mean[1_000:] - y[1_000:]) ** 2) < 0.9 * np.var(y[1_000:])


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"size": "tiny"}, "size: given 'tiny', expected one of full, small"),
        ({"size": None}, "size: given None"),
        ({"size": "small", "groups": ["shop"]}, r"groups: given \['shop'\] with size \"small\", expected none"),
    ],
)
def test_refusals(options: dict[str, Any], refusal: str) -> None:
    with pytest.raises(ValueError, match=refusal):
        Live(**options)


def test_models_are_refused() -> None:
    class Model:
        def forecast(self, *given: Any) -> float:
            return 0.5

        def learn(self, *given: Any) -> None:
            pass

    with pytest.raises(ValueError, match=r"models: given \['mine'\] with size"):
        Live(size="small", models={"mine": Model()})


@pytest.mark.parametrize("name", ["linear", "paired"])
def test_rows_outside_of_the_small_tables_are_refused(name: str) -> None:
    records, y = stream(50)
    live = Live(size="small")
    live.run(records, y)
    state = live.to_state()
    used = f"experts.{name}_used"
    slots = SLOTS["small"][name == "paired"]
    wrong = state.arrays | {used: np.append(state.arrays[used][:-1], slots)}
    with pytest.raises(ArchiveError, match=f"{used}: given a number that is too large"):
        unpacked(packed(FILE, State(wrong, state.manifest)), FILE)
    without = {key: value for key, value in state.manifest.items() if key != "size"}
    with pytest.raises(ArchiveError, match="reserved"):
        unpacked(packed(FILE, State(state.arrays, without)), FILE)
