"""Durable state: named arrays and a JSON manifest in one file, checked on the way in, replaced whole on the way out."""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MANIFEST = "manifest"
Arrays = Mapping[str, NDArray[Any]]


class ArchiveError(ValueError):
    """A state file that is missing a part, damaged, or of another kind or version."""


def write(path: "str | os.PathLike[str]", kind: str, version: int, arrays: Arrays, settings: Mapping[str, Any]) -> None:
    """Write arrays and settings to `path`: first beside it, flushed to disk, then renamed over it.

    A crash leaves either the old file or the new one, never half of one.
    """
    objects = [name for name, array in arrays.items() if array.dtype.hasobject]
    if objects:
        raise TypeError(f"{path}: given arrays of Python objects ({', '.join(objects)}), expected numbers or text")
    target = Path(path)
    manifest = {"kind": kind, "version": version, "digest": _digest(arrays), "settings": dict(settings)}
    packed = np.frombuffer(json.dumps(manifest, sort_keys=True).encode(), dtype=np.uint8)
    contents: dict[str, Any] = {MANIFEST: packed, **arrays}
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(path: "str | os.PathLike[str]", kind: str, version: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return (arrays, settings) of a file that `write` made with this kind and version, or say what is wrong."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        manifest = json.loads(arrays.pop(MANIFEST).tobytes())
        found = (manifest["kind"], manifest["version"])
        digest, settings = manifest["digest"], manifest["settings"]
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged container fails in as many ways as there are decoders
        raise ArchiveError(f"{path}: not a readable swapcal state file ({type(error).__name__}: {error})") from None
    if found[0] != kind:
        raise ArchiveError(f"{path}: given a state of kind {found[0]!r}, expected {kind!r}")
    if found[1] != version:
        raise ArchiveError(f"{path}: given {kind} format version {found[1]}, expected {version}")
    if digest != _digest(arrays):
        raise ArchiveError(f"{path}: contents do not match their checksum; the file is damaged")
    return arrays, dict(settings)


def _digest(arrays: Arrays) -> str:
    """Return a checksum over names, types, shapes and bytes."""
    hasher = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        hasher.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()
