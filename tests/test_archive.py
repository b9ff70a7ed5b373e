"""State files: replaced whole, read only if whole, of this kind and of this version."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal import Forecaster, Live, archive
from swapcal.archive import (
    NAMES,
    TEXT,
    Children,
    Field,
    Permutation,
    Sorted,
    addition,
    below,
    counts,
    floats,
    integers,
    keys,
    listed,
    pack,
    parted,
    real,
    whole,
)
from swapcal.engine.forecaster import FILE
from swapcal.kernels.state import Memory
from swapcal.live.state import FILE as LIVE
from tests.checks import snapshot, stream


@pytest.fixture
def saved(tmp_path):
    forecaster = Forecaster(3, levels=4)
    forecaster.run(*stream(40, 3))
    path = tmp_path / "state"
    forecaster.save(path)
    return forecaster, path


def parts(path):
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("manifest").tobytes()), arrays


def craft(path, arrays, settings, kind="forecaster", version=FILE.version):
    """Write a container with a right checksum, whatever is in it."""
    with open(path, "wb") as file:
        pack(file, kind, version, arrays, settings)


def thing(**fields):
    return archive.Kind("thing", 3, {"name": TEXT, "n": whole()}, lambda settings, shapes: fields)


def test_written_arrays_and_settings_come_back(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "none": np.zeros((0, 4)), "flags": np.array([True, False])}
    kind = thing(a=floats("n", 3), none=floats(0, 4), flags=Field("|b1", ("n",)))
    archive.write(tmp_path / "x", kind, arrays, {"name": "ω", "n": 4})
    back, settings = archive.read(tmp_path / "x", kind)
    assert settings == {"name": "ω", "n": 4}
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype
        assert back[name].flags.writeable


INDEXED = {
    "levels": counts(1, most=["slots"], names=("n",)),
    "order": integers("slots", least=0, most="slots", link=Permutation("n")),
    "z": floats("slots", least=[0, 0, 0, 0], most=1, link=Sorted("order", "n")),
    "root": keys("trees", most="nodes"),
    "depth": integers("trees"),
    "child": keys("children", most="nodes", link=Children("root", "depth")),
    "value": floats("nodes"),
    "ids": keys("ids", rises=True),
}
SOUND = {
    "levels": np.array([3]),
    "order": np.array([2, 0, 1, 3]),
    "z": np.array([0.5, 1.0, 0.0, 0.0]),
    "root": np.array([0, 3], np.uint64),
    "depth": np.array([1, 0]),
    "child": np.array([1, 2, 1, 1, 2, 2, 3, 3], np.uint64),
    "value": np.zeros(4),
    "ids": np.array([0, 2**63, 2**64 - 1], np.uint64),
}
LEADING_ASTRAY = [
    ("levels", 0, 4), ("levels", 0, -1), ("order", 0, 4), ("order", 3, -1), ("order", 0, 1), ("order", 0, 3),
    ("z", 0, 1.0),
    ("z", 3, -0.1), ("z", 3, 1.1), ("z", 3, np.nan), ("root", 0, 4), ("root", 1, 0), ("depth", 0, 2), ("depth", 1, 1),
    ("child", 0, 4), ("child", 7, 0), ("child", 0, 2), ("child", 2, 2), ("child", 6, 2**64 - 1), ("ids", 0, 2**63),
    ("ids", 2, 1),
]  # fmt: skip


@pytest.mark.parametrize("part", ["", "inner."])
def test_indices_that_lead_where_they_should_are_taken(part):
    kind = thing(**(below("inner", INDEXED) if part else INDEXED))
    kind.check_contents({f"{part}{name}": array for name, array in SOUND.items()}, {"name": "x", "n": 1})


@pytest.mark.parametrize(("name", "place", "value"), LEADING_ASTRAY)
@pytest.mark.parametrize("part", ["", "inner."])
def test_indices_that_lead_astray_are_refused(part, name, place, value):
    kind = thing(**(below("inner", INDEXED) if part else INDEXED))
    arrays = {f"{part}{each}": array.copy() for each, array in SOUND.items()}
    arrays[f"{part}{name}"][place] = value
    with pytest.raises(archive.ArchiveError, match=r"^[a-z.]+: given .*, expected"):
        kind.check_contents(arrays, {"name": "x", "n": 1})


def test_nodes_that_lead_to_each_other_and_to_no_root_are_refused():
    kind = thing(root=keys(1), depth=integers(1), child=keys(10, link=Children("root", "depth")))
    child = np.array([0, 0, 2, 3, 1, 4, 3, 3, 4, 4], np.uint64)
    with pytest.raises(archive.ArchiveError, match="child: given indices that lead elsewhere, expected children after"):
        kind.check_contents({"root": np.zeros(1, np.uint64), "depth": np.zeros(1, np.int64), "child": child}, {})


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [
        (listed(whole()), [[], [1, 2]], [None, [-1], [True], {}]),
        (listed(TEXT, 1, 2), [["a"], ["a", "b"]], [[], ["a"] * 3]),
        (parted({"a": whole(), "b": addition(TEXT)}), [{"a": 1}, {"a": 1, "b": "x"}], [{}, {"a": 1, "c": 2}, []]),
        (NAMES, [["a", "b"]], [["a", "a"], ["\ud800"], [1]]),
        (real(), [0, -1.5, 2**1000], [2**1030, float("nan"), float("inf"), True, "1"]),
    ],
)
def test_rules_of_settings(rule, right, wrong):
    assert all(map(rule.holds, right))
    assert not any(map(rule.holds, wrong))


def test_what_cannot_be_built_is_refused_like_a_damaged_file(tmp_path):
    archive.write(tmp_path / "x", thing(), {}, {"name": "x", "n": 1})
    with pytest.raises(archive.ArchiveError, match=r"x: given parts that do not fit together \(KeyError: 'more'\)"):
        archive.load(tmp_path / "x", thing(), lambda state: state.manifest["more"])
    assert archive.load(tmp_path / "x", thing(), lambda state: state.manifest["n"]) == 1


def test_any_layout_in_memory_is_one_layout_in_the_file(tmp_path):
    plain = np.arange(6.0).reshape(2, 3)
    files = []
    for array in (plain, np.asfortranarray(plain), plain.astype(">f8"), np.repeat(plain, 2, axis=1)[:, ::2]):
        archive.write(tmp_path / "x", thing(a=floats(2, 3)), {"a": array}, {"name": "x", "n": 1})
        files.append((tmp_path / "x").read_bytes())
    assert len(set(files)) == 1


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        Forecaster.load(tmp_path / "nowhere")


def test_saving_into_a_missing_folder_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        Forecaster(2).save(tmp_path / "no" / "folder" / "state")


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"PK\x03\x04", pickle.dumps({"a": 1}), b"\x93NUMPY\x01\x00v\x00", b"\x00" * 5000, b"x,y\n1,2\n"],
)
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises(archive.ArchiveError, match="not a readable swapcal state file"):
        Forecaster.load(path)


def test_a_folder_and_a_plain_array_are_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    for path in (tmp_path, tmp_path / "array.npy"):
        with pytest.raises(archive.ArchiveError, match="not a readable swapcal state file"):
            Forecaster.load(path)


def test_archives_of_others_are_refused(tmp_path):
    np.savez(tmp_path / "plain.npz", a=np.zeros(3))
    np.savez(tmp_path / "list.npz", manifest=np.frombuffer(b"[1, 2]", np.uint8))
    np.savez(tmp_path / "text.npz", manifest=np.frombuffer(b"\xff\xfe", np.uint8))
    for name in ("plain", "list", "text"):
        with pytest.raises(archive.ArchiveError, match="not a readable swapcal state file"):
            Forecaster.load(tmp_path / f"{name}.npz")


def test_other_kinds_and_versions_are_named(saved):
    _, path = saved
    manifest, arrays = parts(path)
    craft(path, arrays, manifest["settings"], kind="audit")
    with pytest.raises(archive.ArchiveError, match=r"given a state of kind 'audit', expected 'forecaster'"):
        Forecaster.load(path)
    for version in (0, manifest["version"] + 1, None):
        craft(path, arrays, manifest["settings"], version=version)
        with pytest.raises(archive.ArchiveError, match=rf"format version {version}, expected .*this release reads"):
            Forecaster.load(path)


def test_a_file_of_an_older_container_format_is_named(saved):
    _, path = saved
    manifest, arrays = parts(path)
    for container, named in ((None, 1), (3, 3)):
        old = {name: value for name, value in manifest.items() if name != "format"}
        old |= {} if container is None else {"format": container}
        with open(path, "wb") as file:
            np.savez(file, manifest=np.frombuffer(json.dumps(old).encode(), np.uint8), **arrays)
        with pytest.raises(archive.ArchiveError, match=f"given container format {named}, expected 2, the only one"):
            Forecaster.load(path)


@pytest.mark.parametrize(
    "missing",
    ["arrays: theta", "arrays: seed", "arrays: counts", "settings: dim", "settings: owner", "settings: learner"],
)
def test_a_state_with_a_part_missing_is_refused(saved, missing):
    _, path = saved
    manifest, arrays = parts(path)
    kept, name = missing.split(": ")
    del {"arrays": arrays, "settings": manifest["settings"]}[kept][name]
    craft(path, arrays, manifest["settings"])
    with pytest.raises(archive.ArchiveError, match=f"{kept}: missing {name}"):
        Forecaster.load(path)


def test_an_array_or_setting_too_many_is_refused(saved):
    _, path = saved
    manifest, arrays = parts(path)
    craft(path, arrays | {"more": np.zeros(2)}, manifest["settings"])
    with pytest.raises(archive.ArchiveError, match="arrays: given more, expected none but the known"):
        Forecaster.load(path)
    craft(path, arrays, manifest["settings"] | {"more": 1})
    with pytest.raises(archive.ArchiveError, match="settings: given more, expected none but the known"):
        Forecaster.load(path)


def test_contents_that_do_not_match_their_checksum_are_refused(saved):
    _, path = saved
    manifest, arrays = parts(path)
    for change in ("array", "setting", "version"):
        changed, said = {name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(manifest))
        if change == "array":
            changed["theta"][0, 0] += 1e-9
        elif change == "setting":
            said["settings"]["owner"] += "0"
        else:
            said["digest"] = said["digest"][::-1]
        with open(path, "wb") as file:
            np.savez(file, manifest=np.frombuffer(json.dumps(said).encode(), np.uint8), **changed)
        with pytest.raises(archive.ArchiveError, match="checksum"):
            Forecaster.load(path)


@pytest.mark.parametrize("other", [np.arange(6.0).view(np.int64), np.arange(6.0).reshape(2, 3)], ids=["type", "shape"])
def test_the_checksum_covers_types_and_shapes(tmp_path, other):
    """The same bytes under another type or shape are another state."""
    path, settings = tmp_path / "x", {"name": "x", "n": 1}
    archive.write(path, thing(a=floats(6)), {"a": np.arange(6.0)}, settings)
    manifest, _ = parts(path)
    with open(path, "wb") as file:
        np.savez(file, manifest=np.frombuffer(json.dumps(manifest).encode(), np.uint8), a=other)
    with pytest.raises(archive.ArchiveError, match="checksum"):
        archive.read(path, thing(a=Field(other.dtype.str, other.shape)))


def test_truncation_at_any_place_is_noticed(saved):
    _, path = saved
    content = path.read_bytes()
    for size in np.linspace(0, len(content) - 1, 60).astype(int):
        path.write_bytes(content[:size])
        with pytest.raises(archive.ArchiveError):
            Forecaster.load(path)


def test_a_flipped_byte_anywhere_is_refused_or_harmless(saved):
    """Some bytes of the container carry nothing (dates, flags); whatever loads must be what was saved."""
    forecaster, path = saved
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    places = np.unique(np.concatenate([np.arange(0, len(content), 41), rng.integers(len(content), size=150)]))
    refused = 0
    for place in places:
        damaged = content.copy()
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            loaded = Forecaster.load(path)
        except archive.ArchiveError:
            refused += 1
        else:
            assert snapshot(loaded) == snapshot(forecaster)
    assert refused > len(places) / 2


def test_saving_replaces_whole_files_and_leaves_nothing_beside(saved, monkeypatch):
    forecaster, path = saved
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        forecaster.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    forecaster.save(path)
    assert os.listdir(path.parent) == [path.name]
    assert snapshot(Forecaster.load(path)) == snapshot(forecaster)


def test_saving_does_not_change_the_forecaster(saved):
    forecaster, path = saved
    before = snapshot(forecaster)
    forecaster.save(str(path))
    assert snapshot(forecaster) == before


def test_python_objects_are_never_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a: given an array of object, expected"):
        archive.write(tmp_path / "x", thing(a=floats(1)), {"a": np.array([{}])}, {"name": "x", "n": 1})
    assert list(tmp_path.iterdir()) == []


LEVELS, UPDATES = 0, 1


def altered(name, place, value):
    def alter(arrays, settings):
        arrays[name][place] = value

    return alter


def retyped(name, dtype):
    def alter(arrays, settings):
        arrays[name] = arrays[name].astype(dtype)

    return alter


def told(**claims):
    def alter(arrays, settings):
        settings.update(claims)

    return alter


LIES = {
    "levels beyond the slots": altered("counts", LEVELS, 10**6),
    "negative levels": altered("counts", LEVELS, -1),
    "one level": altered("counts", LEVELS, 1),
    "negative updates": altered("counts", UPDATES, -1),
    "a slot twice in the order": altered("order", 0, 1),
    "a slot that does not exist": altered("order", 0, 10**9),
    "an unused slot that does not exist": altered("order", -1, 10**9),
    "NaN among the levels": altered("z", 1, np.nan),
    "levels that end below 1": altered("z", 1, 0.9),
    "NaN weights": altered("theta", (0, 0), np.nan),
    "infinite residuals": altered("residual", (0, 0), np.inf),
    "another learner's code": altered("codes", 0, 1),
    "a mixing that does not exist": altered("codes", 1, 7),
    "half adaptive": altered("codes", 2, 3),
    "single precision": retyped("theta", np.float32),
    "counts without a sign": retyped("counts", np.uint64),
    "another dimension": told(dim=9),
    "a huge dimension": told(dim=2**60),
    "a dimension of zero": told(dim=0),
    "a dimension in words": told(dim="3"),
    "a true dimension": told(dim=True),
    "an unknown learner": told(learner="oracle"),
    "another learner": told(learner="vaw"),
    "another mixing": told(mixing="blum-mansour"),
    "uniform in numbers": told(uniform=0),
    "nobody's": told(owner=""),
    "a lone surrogate": told(owner="\ud800"),
    "a list": told(owner=["x"]),
}


@pytest.fixture(scope="module")
def adaptive(tmp_path_factory):
    forecaster = Forecaster(3)
    forecaster.run(*stream(200, 3))
    path = tmp_path_factory.mktemp("adaptive") / "state"
    forecaster.save(path)
    return forecaster, parts(path)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_state_that_lies_with_a_right_checksum_is_refused(adaptive, tmp_path, lie):
    _, (manifest, arrays) = adaptive
    arrays, settings = {name: array.copy() for name, array in arrays.items()}, dict(manifest["settings"])
    assert arrays["counts"][LEVELS] < len(arrays["z"])
    lie(arrays, settings)
    craft(tmp_path / "state", arrays, settings)
    with pytest.raises(archive.ArchiveError, match=r"state: .*(given|expected|missing)"):
        Forecaster.load(tmp_path / "state")


def test_the_schema_names_every_array_of_the_engine():
    assert tuple(FILE.fields(Forecaster(2).to_state().manifest, {"z": (2,), "recent": (0,)})) == Memory._fields


@settings(max_examples=80)
@given(data=st.data())
def test_arrays_replaced_at_random_never_do_harm(adaptive, tmp_path_factory, data):
    """Whatever loads is what was in the file and can be used: no index leads out of it, no loop is endless."""
    _, (manifest, arrays) = adaptive
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name].copy()
    flat = array.reshape(-1)
    place = data.draw(st.integers(0, max(flat.size - 1, 0)))
    if flat.size:
        wild = st.floats() if array.dtype.kind == "f" else st.integers(-3, 12) | st.sampled_from([2**40, 2**62])
        value = data.draw(wild)
        flat[place] = value if array.dtype.kind == "f" else np.array(value).astype(array.dtype)
    path = tmp_path_factory.getbasetemp() / "replaced"
    craft(path, arrays | {name: array}, manifest["settings"])
    try:
        loaded = Forecaster.load(path)
    except archive.ArchiveError:
        return
    assert snapshot(loaded)[name] == (array.dtype.str, array.shape, array.tobytes())
    with np.errstate(all="ignore"):
        loaded.run(*stream(20, 3))


def test_a_compressed_member_is_refused_before_it_unfolds(saved):
    _, path = saved
    manifest, arrays = parts(path)
    arrays["theta"] = np.zeros((1 << 16, 16))
    with open(path, "wb") as file:
        np.savez_compressed(file, manifest=np.frombuffer(json.dumps(manifest).encode(), np.uint8), **arrays)
    with pytest.raises(archive.ArchiveError, match="given a compressed or encrypted member, expected a stored one"):
        Forecaster.load(path)


@pytest.mark.parametrize(
    "other", [np.zeros(3, ">f8"), np.asfortranarray(np.zeros((2, 2))), np.array(["a"]), np.zeros(2, "m8")]
)
def test_members_that_this_package_does_not_write_are_refused(saved, other):
    _, path = saved
    manifest, arrays = parts(path)
    with open(path, "wb") as file:
        np.savez(file, manifest=np.frombuffer(json.dumps(manifest).encode(), np.uint8), **arrays | {"theta": other})
    with pytest.raises(archive.ArchiveError, match="given no header of a plain array, expected one of <f8"):
        Forecaster.load(path)


@pytest.mark.parametrize("more", [b"\0" * 8, b"\0"])
def test_bytes_beyond_an_array_are_refused(saved, more):
    _, path = saved
    with zipfile.ZipFile(path) as box:
        members = {name: box.read(name) for name in box.namelist()}
    with zipfile.ZipFile(path, "w") as box:
        for name, content in members.items():
            box.writestr(name, content + more if name == "theta.npy" else content)
    with pytest.raises(archive.ArchiveError, match=r"theta\.npy: given \d+ bytes, expected those of shape"):
        Forecaster.load(path)


def peak(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refusal(path):
    with pytest.raises(archive.ArchiveError):
        Forecaster.load(path)


def test_headers_that_promise_more_than_the_file_holds_allocate_nothing(saved):
    _, path = saved
    content = path.read_bytes()
    shape = b"'shape': (5, 4), }"
    assert content.count(shape) >= 2
    for promise in (b"'shape':(9999999,)", b"'shape': (9, 99),}", b"'shape': (5, 4),) "):
        path.write_bytes(content.replace(shape, promise.ljust(len(shape))))
        assert peak(lambda: refusal(path)) < 3_000_000


def test_members_that_share_their_bytes_are_refused(tmp_path):
    """Many entries of the directory may point at one member: the bomb that needs no compression."""
    path = tmp_path / "state"
    with zipfile.ZipFile(path, "w") as box:
        box.writestr("a.npy", bytes(100_000))
        for k in range(50):
            twin = copy.copy(box.infolist()[0])
            twin.filename = f"b{k}.npy"
            box.filelist.append(twin)
            box.NameToInfo[twin.filename] = twin
    with pytest.raises(archive.ArchiveError, match="expected no more than the file holds"):
        Forecaster.load(path)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"kind": 1' + b"0" * 5000 + b"}", b'{"kind": NaN}', b"null"])
def test_manifests_that_try_the_decoder_are_refused(tmp_path, text):
    np.savez(tmp_path / "state.npz", manifest=np.frombuffer(text, np.uint8))
    refusal(tmp_path / "state.npz")


def test_a_fifo_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(archive.ArchiveError, match="given a fifo, expected a regular file"):
        Forecaster.load(tmp_path / "fifo")


def test_a_state_that_could_not_be_read_again_is_not_written(saved):
    forecaster, path = saved
    before = path.read_bytes()
    forecaster._state.theta[0, 0] = np.nan
    with pytest.raises(
        archive.ArchiveError, match="nothing written, it could not be read again: theta: given a number"
    ):
        forecaster.save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_bytes_without_a_checksum_hold_the_same_state() -> None:
    live = Live(size="small")
    live.run([{"shop": "ab"[k % 2], "price": k / 7} for k in range(40)], [k % 3 == 0 for k in range(40)])
    state = live.to_state()
    content = archive.dumped(LIVE, state)
    found = archive.loaded(content, LIVE)
    assert json.dumps(found.manifest) == json.dumps(state.manifest)
    assert found.arrays.keys() == state.arrays.keys()
    for name, array in state.arrays.items():
        assert (found.arrays[name].dtype, found.arrays[name].flags.writeable) == (array.dtype, True)
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)
    with pytest.raises(archive.ArchiveError, match=r"given live format version 6, expected 7"):
        archive.loaded(content, dataclasses.replace(LIVE, version=LIVE.version + 1))
