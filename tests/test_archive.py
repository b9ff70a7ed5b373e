"""State files: replaced whole, read only if whole, of this kind and of this version."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from swapcal import Forecaster, archive
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


def test_written_arrays_and_settings_come_back(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "none": np.zeros((0, 4)), "flags": np.array([True, False])}
    archive.write(tmp_path / "x", "thing", 3, arrays, {"name": "ω", "n": 4})
    back, settings = archive.read(tmp_path / "x", "thing", 3)
    assert settings == {"name": "ω", "n": 4}
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype


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
    archive.write(path, "audit", 1, arrays, manifest["settings"])
    with pytest.raises(archive.ArchiveError, match=r"given a state of kind 'audit', expected 'forecaster'"):
        Forecaster.load(path)
    for version in (0, manifest["version"] + 1):
        archive.write(path, "forecaster", version, arrays, manifest["settings"])
        with pytest.raises(archive.ArchiveError, match=rf"format version {version}, expected"):
            Forecaster.load(path)


@pytest.mark.parametrize("missing", ["theta", "seed", "counts"])
def test_a_state_with_an_array_missing_is_refused(saved, missing):
    _, path = saved
    manifest, arrays = parts(path)
    del arrays[missing]
    archive.write(path, manifest["kind"], manifest["version"], arrays, manifest["settings"])
    with pytest.raises(archive.ArchiveError, match="missing"):
        Forecaster.load(path)


@pytest.mark.parametrize("missing", ["dim", "owner", "learner"])
def test_a_state_with_a_setting_missing_is_refused(saved, missing):
    _, path = saved
    manifest, arrays = parts(path)
    del manifest["settings"][missing]
    archive.write(path, manifest["kind"], manifest["version"], arrays, manifest["settings"])
    with pytest.raises(archive.ArchiveError, match="missing"):
        Forecaster.load(path)


def test_contents_that_do_not_match_their_checksum_are_refused(saved):
    _, path = saved
    manifest, arrays = parts(path)
    arrays["theta"][0, 0] += 1e-9
    packed = np.frombuffer(json.dumps(manifest).encode(), np.uint8)
    np.savez(path.with_suffix(".npz"), manifest=packed, **arrays)
    with pytest.raises(archive.ArchiveError, match="checksum"):
        Forecaster.load(path.with_suffix(".npz"))


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
    places = np.unique(np.concatenate([np.arange(0, len(content), 23), rng.integers(len(content), size=500)]))
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
    with pytest.raises(TypeError, match="given arrays of Python objects"):
        archive.write(tmp_path / "x", "kind", 1, {"a": np.array([{}])}, {})
    assert list(tmp_path.iterdir()) == []
