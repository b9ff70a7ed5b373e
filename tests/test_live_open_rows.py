"""Open forecasts at rest: packed, and returned bit for bit."""

import copy
import pickle
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapcal import Live
from swapcal.archive import copied
from swapcal.kernels import packing
from swapcal.kernels.experts import EXPERTS
from swapcal.kernels.packing import KNOWN_KEYS, blank_known, delta_encode, longest, pack_rows, unpack_rows
from swapcal.kernels.state import TICKET
from swapcal.live import open_rows
from swapcal.monitor import Monitor

BITS = np.uint64
AGAIN_AND_AGAIN = 0.3
NOT_A_NUMBER = struct.unpack("d", struct.pack("Q", 0xFFFF << 48))[0]
EDGES = [
    NOT_A_NUMBER,
    0.0,
    -0.0,
    1.0,
    0.5,
    -1.0,
    2.0**-126,
    2.0**-127,
    3.4e38,
    3.5e38,
    1e-310,
    np.inf,
    -np.inf,
    np.nan,
    0.1,
    9.2,
]
NUMBERS = st.one_of(
    st.sampled_from(EDGES),
    st.just(AGAIN_AND_AGAIN),
    st.floats(),
    st.floats(width=32),
    st.integers(-(2**30), 2**30).map(float),
)


def through(numbers: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pack one row whose numbers are divided among all parts, and unpack it."""
    x, values, memory, judged, ticket = (np.ascontiguousarray(part)[None] for part in np.array_split(numbers, 5))
    values = np.zeros((1, len(keys)))
    known, packed = blank_known(), np.zeros((1, longest(len(numbers) + len(keys), len(keys))), np.uint16)
    parts, at = [part.view(BITS) for part in (values, memory, judged, ticket)], np.zeros(1, np.int64)
    dims = np.array([x.shape[1]])
    done = pack_rows(at, 0, x.view(BITS), dims, keys[None], *parts, known, at, packed, np.zeros_like(packed[0]))
    assert done == 1
    assert known.size[0] <= KNOWN_KEYS
    back = [np.full_like(part, 7) for part in (x, values, memory, judged, ticket)]
    found, width = np.full((1, len(keys)), 7, np.uint64), np.zeros(1, np.int64)
    bits = [part.view(BITS) for part in back]
    unpack_rows(packed, at, known, 0, bits[0], width, found, *bits[1:])
    assert width == dims
    return np.concatenate([back[0][0], *(part[0] for part in back[2:])]), found[0]


@given(st.lists(NUMBERS, min_size=5, max_size=60), st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_numbers_and_keys_come_back_bit_for_bit(numbers: list[float], keys: list[int]) -> None:
    given_numbers, given_keys = np.array(numbers), np.array(keys, np.uint64)
    found, found_keys = through(given_numbers, given_keys)
    parts = np.array_split(given_numbers, 5)
    kept = np.concatenate([parts[0], *parts[2:]])
    assert [struct.pack("d", value) for value in found] == [struct.pack("d", value) for value in kept]
    np.testing.assert_array_equal(found_keys, given_keys)


def test_more_keys_than_can_be_known_come_back_too() -> None:
    keys = np.arange(1, KNOWN_KEYS + 200, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    _, found_keys = through(np.ones(10), keys)
    np.testing.assert_array_equal(found_keys, keys)


def test_uncompiled_packing_is_the_same() -> None:
    plain = {name: getattr(packing, name) for name in ("put", "got", "size_of")}
    for value in EDGES:
        bits = np.float64(value).view(np.uint64)
        room = np.zeros(4, np.uint16)
        functions = {name: getattr(function, "py_func", function) for name, function in plain.items()}
        size = functions["size_of"](bits)
        functions["put"](bits, size, room, 0)
        assert functions["got"](size, room, 0) == bits


@given(st.integers(0, 2**32), st.integers(1, 3), st.booleans())
def test_what_was_delta_encoded_twice_comes_back_bit_for_bit(seed: int, n: int, odd: bool) -> None:
    rng = np.random.default_rng(seed)
    keys, numbers = rng.integers(0, 3, (n, 6)).astype(BITS), rng.normal(size=(n, 6))
    memory, judged, ticket = (rng.normal(size=(n, width)) for width in (EXPERTS + 6, EXPERTS + 2, TICKET))
    if odd:
        judged[:, 1], ticket[:, 2:6], numbers[:, 0] = np.nan, rng.choice([0.0, -0.0, np.inf]), 1.0
    rows = [part.view(BITS).copy() for part in (numbers, judged, ticket)]
    values, said, issued = (part.copy() for part in rows)
    for _ in range(2):
        delta_encode(keys, values, memory, said, issued.view(np.float64), values, said, issued, np.zeros(1))
    for given_bits, found in zip(rows, (values, said, issued), strict=True):
        np.testing.assert_array_equal(found, given_bits)


def wide(n: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {f"c{j}": f"v{rng.integers(8)}" for j in range(5)} | {f"n{j}": float(rng.normal()) for j in range(8)}
        for _ in range(n)
    ]


def test_an_open_forecast_of_thirteen_columns_takes_420_bytes_besides_its_id_and_times() -> None:
    live, rows = Live(groups=["c0"]), wide(600)
    live.run(rows[:300], [float(k % 3 == 0) for k in range(300)])
    live.forecast_many(rows[300:], [*range(300)])
    assert live._scheduler.open_rows.nbytes <= 420


def test_rows_from_before_new_columns_are_learned_as_they_were(tmp_path: Any) -> None:
    early, late = wide(40), wide(80)[40:]
    late = [row | {"more": float(k), "other": "ab"[k % 2]} for k, row in enumerate(late)]
    one, kept = Live(), Live()
    for k, row in enumerate([*early, *late]):
        one.forecast(row, k)
        kept.forecast(row, k)
    kept.save(tmp_path / "state")
    kept = Live.load(tmp_path / "state")
    for k in reversed(range(80)):
        one.label(k, k % 2)
        kept.label(k, k % 2)
    assert one.preview(late).mean.tolist() == kept.preview(late).mean.tolist()


@pytest.mark.parametrize("learner", ["ridge", "sparse"])
def test_rows_of_several_blocks_are_those_of_one(learner: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Slots over many blocks, taken again, one by one and many at once, by longer rows too: the same state."""
    rows = [row | ({"more": f"{k} {k * 0.1}"} if k > 150 else {}) for k, row in enumerate(wide(220))]

    def play(block: int) -> Any:
        monkeypatch.setattr(open_rows, "BLOCK", block)
        live = Live(groups=["c0"], learner=learner)
        live.forecast_many(rows[:90], [*range(90)])
        live.label_many([*range(5, 90, 3)], [float(k % 2) for k in range(5, 90, 3)])
        for k in range(90, 160):
            live.forecast(rows[k], k)
        live.label_many([*range(158, 90, -3)], [float(k % 2) for k in range(158, 90, -3)])
        live.forecast_many(rows[160:], [*range(160, 220)])
        live.label(219, 1)
        live.label(6, 0)
        state = live.frozen_state()
        live.save(tmp_path / f"{block}")
        live = Live.load(tmp_path / f"{block}")
        live.label_many([*range(160, 219)], [1.0] * 59)
        return len(live._scheduler.open_rows._blocks), state(), live.to_state()

    (one, *whole), (many, *parts) = play(1 << 20), play(7)
    assert (one, many > 10) == (1, True)
    for expected, state in zip(whole, parts, strict=True):
        assert state.arrays.keys() == expected.arrays.keys()
        for name, values in expected.arrays.items():
            np.testing.assert_array_equal(state.arrays[name], values, name)


def test_no_row_is_copied_for_a_row_of_another_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_rows, "BLOCK", 32)
    live, rows = Live(), wide(200)
    live.forecast_many(rows[:100], [*range(100)])
    first = [*live._scheduler.open_rows._blocks[:3]]
    live.forecast_many(rows[100:], [*range(100, 200)])
    assert all(now is before for now, before in zip(live._scheduler.open_rows._blocks, first, strict=False))


@pytest.mark.parametrize("size", [1, 3])
def test_rows_asked_for_do_not_share_memory_with_forecasts(size: int) -> None:
    live, rows = Live(), wide(4)
    forecasts = [live.forecast(row, k) for k, row in enumerate(rows)]
    again = [live.forecast(rows[k], k) for k in range(size)]
    assert again == forecasts[:size]
    live.label(3, 1)
    assert again == forecasts[:size]


def test_a_frozen_state_is_that_of_its_moment_whatever_comes_later() -> None:
    live = Live(groups=["shop"], scores=["s"], monitor=Monitor(["shop"]))
    records = [{"shop": f"shop {k % 7}", "s": 0.3, "price": float(k)} for k in range(3000)]
    live.forecast_many(records, [*range(3000)])
    live.label_many([*range(0, 3000, 2)], [0.0, 1.0] * 750, weight=[1.0] * 1500)
    then, later = copied(live.to_state()), live.frozen_state()
    live.label_many([*range(1, 3000, 2)], [1.0] * 1500)  # their slots are taken again, by longer rows
    more = [{"shop": f"new {k}", "s": 0.6, "price": -1.0 / (k + 3), "colour": f"{k}"} for k in range(2500)]
    live.forecast_many(more, [f"new {k}" for k in range(2500)])
    found = later()
    assert found.manifest == then.manifest
    assert found.arrays.keys() == then.arrays.keys()
    for name, values in then.arrays.items():
        assert (found.arrays[name].shape, found.arrays[name].tobytes()) == (values.shape, values.tobytes()), name
    now, later = copied(live.to_state()), live.frozen_state()
    for block in live._scheduler.open_rows._blocks:
        block[:] = 0  # as rows of the same length would overwrite them
    assert later().arrays["open.ticket"].tobytes() == now.arrays["open.ticket"].tobytes()


def between(live: Live, event: str) -> Live:
    """Do what may come between a lone forecast and its label; return the object that goes on."""
    if event == "another":
        live.forecast({"shop": "c", "price": 9.0}, id="another")
    elif event == "many":
        live.forecast_many([{"shop": "a", "price": 2.5}, {"shop": "b", "price": None}], ["m1", "m2"])
    elif event == "wider":
        live.forecast({"shop": "brand new", "price": 9.0, "more": 1.0}, id="wider")
    elif event == "explained":
        live.explain("held")
    elif event == "copied":
        return copy.deepcopy(live)
    elif event == "pickled":
        return pickle.loads(pickle.dumps(live))  # type: ignore[no-any-return]
    elif event == "frozen":
        return Live.from_state(live.frozen_state()())
    return live


@pytest.mark.parametrize("event", ["another", "many", "wider", "explained", "copied", "pickled", "frozen"])
@pytest.mark.parametrize("many", [False, True])
def test_a_lone_row_that_is_not_packed_yet_is_learned_as_issued(event: str, many: bool) -> None:
    def played(alone: bool) -> Live:
        live = Live(groups=["shop"])
        live.run([{"shop": "abc"[k % 3], "price": float(k % 7)} for k in range(60)], np.arange(60) % 2)
        record = {"shop": "b", "price": 1.25}
        if alone:
            live.forecast(record, id="held")
        else:
            live.forecast_many([record], ["held"])
        live = between(live, event)
        if many:
            live.label_many(["held"], [1.0])
        else:
            live.label("held", 1.0)
        live.forecast({"shop": "a", "price": 4.0}, id="last")
        return live

    ours, theirs = played(True).to_state(), played(False).to_state()
    for name in ours.arrays:
        np.testing.assert_array_equal(ours.arrays[name], theirs.arrays[name], err_msg=name)


def test_a_lone_row_given_up_before_it_is_packed_leaves_its_slot_to_another() -> None:
    def played(alone: bool) -> Live:
        live, row = Live(), {"price": 1.25}
        live.run([{"price": float(k % 7)} for k in range(60)], np.arange(60) % 2)
        if alone:
            live.forecast(row, id="first")
        else:
            live.forecast_many([row], ["first"])
        live.give_up(["first"])
        live.forecast_many([{"price": 2.0}], ["second"])
        live.forecast_many([{"price": 3.0}], ["third"])  # in the slot of the first
        live.forecast({"price": 4.0}, id="fourth")
        live.label("third", 1.0)
        return live

    ours, theirs = played(True).to_state(), played(False).to_state()
    for name in ours.arrays:
        np.testing.assert_array_equal(ours.arrays[name], theirs.arrays[name], err_msg=name)
