"""Audits that are saved, loaded and added: bit for bit the same; files that lie are refused."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapcal import Audit
from swapcal.archive import ArchiveError
from swapcal.audit.state import FILE
from tests.test_state_lies import craft, cut, parts, put

ROWS = 400


def columns(seed: int, n: int = ROWS) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    p = rng.choice([0.1, 0.4, 0.4 + 1e-9, 0.9], n)
    return {
        "p": p,
        "y": (rng.random(n) < p).astype(float),
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 10, n)),
        "town": rng.choice(["Rome", "Bari", "Ōta"], n),
        "sex": rng.choice(["f", "m"], n),
        "w": rng.choice([0.3, 1.0, 7.0], n),
        "t": np.datetime64("2024-01-01") + np.sort(rng.integers(0, 10**6, n)) * np.timedelta64(1, "s"),
        "low": 0.9 * p,
        "high": 0.1 + 0.9 * p,
        "share": p,  # of which p is the mean
    }


NAMED: dict[str, Any] = {"prob": "p", "target": "y", "features": ["age", "town"], "groups": ["sex"], "weights": "w",
                         "time": "t", "issued": ("low", "high", "share"), "title": "Lōans", "seed": 7}  # fmt: skip


def framed(seed: int, **more: Any) -> Audit:
    return Audit.from_frame(columns(seed), **NAMED, **more)


def plain(seed: int) -> Audit:
    c = columns(seed)
    return Audit(c["p"], c["y"], np.column_stack([np.full(ROWS, 0.5), 0.01 * c["w"]]), levels=[0, 0.4, 1])


def ranged(seed: int) -> Audit:
    rng = np.random.default_rng(seed)
    return Audit(rng.random(ROWS), rng.random(ROWS), groups=rng.choice(list("ab"), ROWS), time=rng.random(ROWS))


@pytest.mark.parametrize("made", [framed, plain, ranged])
def test_a_loaded_audit_reports_adds_and_saves_as_the_one_that_was_saved(tmp_path: Path, made: Any) -> None:
    audit = made(0)
    audit.save(tmp_path / "state")
    loaded = Audit.load(tmp_path / "state")
    assert loaded.to_json() == audit.to_json()
    assert loaded.findings() == audit.findings()
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "state").read_bytes()


@pytest.mark.parametrize("by_row", [True, False])
def test_loaded_shards_add_up_as_the_shards_do(tmp_path: Path, monkeypatch: Any, by_row: bool) -> None:
    if not by_row:
        monkeypatch.setattr("swapcal.audit.sums.MOST_ROWS", 256)
    first = framed(0)
    second = framed(1, like=first)
    first.save(tmp_path / "first")
    second.save(tmp_path / "second")
    loaded = Audit.load(tmp_path / "first")
    both = loaded + Audit.load(tmp_path / "second")
    assert both.to_json() == (first + second).to_json()
    loaded.add(columns(1))
    first.add(columns(1))
    assert loaded.to_json() == first.to_json()


def test_another_shard_may_be_like_a_loaded_one(tmp_path: Path) -> None:
    framed(0).save(tmp_path / "state")
    loaded = Audit.load(tmp_path / "state")
    assert (loaded + framed(1, like=loaded)).rows == 2 * ROWS


def test_values_that_no_shard_shares_become_intervals_after_loading_too(tmp_path: Path) -> None:
    values = np.linspace(0.0, 1.0, 300)
    shards = [Audit(values[k::2], (values[k::2] > 0.5).astype(float)) for k in (0, 1)]
    for k, shard in enumerate(shards):
        shard.save(tmp_path / f"{k}")
    both = Audit.load(tmp_path / "0") + Audit.load(tmp_path / "1")
    assert both.levels.values is None
    assert both.to_json() == (shards[0] + shards[1]).to_json()


@pytest.mark.parametrize("weight", [1e-50, 1e50])
def test_weights_at_the_ends_of_their_range_and_tiny_shares_can_be_saved(tmp_path: Path, weight: float) -> None:
    audit = Audit([0.0, 0.3, 1.0], [0, 0.5, 0], weights=np.full(3, weight), low=[0, 0.2, 1.0], high=[0.1, 0.3, 1.0],
                  weight=[1e-320, 1.0, 1e-170])  # fmt: skip
    audit.save(tmp_path / "state")
    assert Audit.load(tmp_path / "state").theory.psmcal() == audit.theory.psmcal()


def test_an_older_file_stays_when_saving_fails(tmp_path: Path) -> None:
    audit = plain(0)
    audit.save(tmp_path / "state")
    before = (tmp_path / "state").read_bytes()
    audit.seed = -1
    with pytest.raises(ArchiveError, match=r"nothing written.*seed: given -1"):
        audit.save(tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: Any) -> Any:
    path = tmp_path_factory.mktemp("audit") / "state"
    framed(0).save(path)
    return parts(path)


def swap(name: str, index: Any, factor: float) -> Any:
    def lie(arrays: Any, settings: Any) -> None:
        arrays[name][index] = factor * arrays[name][index]

    return lie


LIES: dict[str, Any] = {
    "a negative seed": put("seed", -1),
    "a title of numbers": put("title", 3),
    "a coordinate too few": lambda a, s: s["coordinates"].pop(),
    "a coordinate in words": put("coordinates", 0, "constant"),
    "a category twice": put("groups", 0, "categories", ["Rome", "Rome", "Bari"]),
    "a category too few": lambda a, s: s["groups"][0]["categories"].pop(),
    "a group column twice": put("groups", 0, "name", "sex"),
    "no groups": put("groups", []),
    "groups in words": put("groups", 0, "town"),
    "a level too many": lambda a, s: s["levels"]["values"].append(0.95),
    "levels out of order": put("levels", "values", 0, 0.5),
    "levels beyond 1": put("levels", "values", 3, 1.5),
    "levels in words": put("levels", "values", 0, "low"),
    "intervals in place of values": put("levels", "values", None),
    "edges out of order": put("levels", "edges", 1, 0.5),
    "no issued levels": put("issued", {}),
    "issued sums without levels": put("issued", None),
    "a time column without times": put("timeline", None),
    "bins without end": put("timeline", "last", 10**9),
    "bins that are too narrow": put("timeline", "exponent", -4000),
    "times of NaN": put("timeline", "high", math.nan),
    "complete in words": put("complete", "yes"),
    "half a copy": put("sample.copies", 0, 0.5),
    "hashes out of order": put("sample.hashes", 0, 2**64 - 1),
    "a prediction of 2": put("sample.p", 0, 2.0),
    "an outcome below 0": put("sample.y", 0, -1.0),
    "contexts too narrow": cut("sample.X", 2),
    "NaN sums": put("tally.table", (0, 0), math.nan),
    "a histogram too short": lambda a, s: a.update({"histogram.bins": a["histogram.bins"][:100]}),
    "a negative log loss": put("log_loss", -1.0),
    "an encoding of something else": put("reader", "encoder", {}),
    "an encoder's column in words": put("reader", "encoder", "columns", 0, "age"),
    "a negative spread": put("reader", "encoder", "columns", 0, "spread", -1.0),
    "an encoder's category twice": put("reader", "encoder", "columns", 1, "texts", ["Rome", "Rome", "Bari"]),
    "a part of the reader missing": lambda a, s: s["reader"].pop("prob"),
    "two issued columns": put("reader", "issued", ["low", "high"]),
    "a part too many": put("speed", 1),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_an_audit_that_lies_is_refused(saved: Any, tmp_path: Path, lie: Any) -> None:
    arrays, told = copy.deepcopy(saved)
    lie(arrays, told)
    with pytest.raises(ArchiveError, match="state: "):
        Audit.load(craft(tmp_path / "state", FILE, arrays, told))


def test_the_untouched_audit_loads(saved: Any, tmp_path: Path) -> None:
    assert Audit.load(craft(tmp_path / "state", FILE, *saved)).rows == ROWS
