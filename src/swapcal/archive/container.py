"""Named arrays and a JSON manifest in one file, a zip archive of .npy members that are stored, never compressed."""

import hashlib
import io
import json
import math
import os
import re
import stat
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from swapcal.archive.files import Name, kind_of, replacing
from swapcal.archive.kind import ArchiveError, Arrays, Kind, Settings, Shape
from swapcal.archive.state import State
from swapcal.arrays import AnyArray

FORMAT = 2
MANIFEST = "manifest"
TYPES = {"<f8": 8, "<f4": 4, "<i8": 8, "<u8": 8, "|u1": 1, "|b1": 1}
MAGIC = b"\x93NUMPY\x01\x00"
HEADER = re.compile(r"\{'descr': '([<|]\w\d)', 'fortran_order': False, 'shape': \(((?:\d{1,18}, ?)*\d{0,18})\), \} *\n")
EPOCH = (1980, 1, 1, 0, 0, 0)  # equal states give equal files


def write(path: Name, kind: Kind, arrays: Arrays, settings: Settings) -> None:
    """Write arrays and settings to `path`, read them back, and only then put them in its place; see `replacing`."""
    with replacing(path) as file:
        pack(file, kind.name, kind.version, arrays, settings)
        file.flush()
        file.seek(0)
        try:
            unpack(file, kind)
        except ArchiveError as error:
            raise ArchiveError(f"{path}: nothing written, it could not be read again: {error}") from None


def read(path: Name, kind: Kind) -> State:
    """Return the state in a file that `write` made of this kind, or say what is wrong."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):  # opening a fifo would wait for a writer
        refusal = f"given a {kind_of(mode)}, expected a regular file"
        raise ArchiveError(f"{path}: given what is not a readable swapcal state file ({refusal}), expected a saved one")
    with open(path, "rb") as file:
        try:
            return unpack(file, kind)
        except ArchiveError as error:
            raise ArchiveError(f"{path}: {error}") from None


def pack(file: BinaryIO, kind: str, version: int, arrays: Arrays, settings: Settings) -> None:
    """Write a container without looking at what it holds."""
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    manifest = {"format": FORMAT, "kind": kind, "version": version, "settings": dict(settings)}
    manifest["digest"] = _digest(kind, version, settings, plain)
    packed = np.frombuffer(_text(manifest), np.uint8)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as box:
        for name, array in {MANIFEST: packed, **plain}.items():
            with box.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w", force_zip64=True) as member:
                member.write(_header(array))
                member.write(_octets(array))


def packed(kind: Kind, state: State) -> bytes:
    """Return a state as the bytes that `write` would put into a file."""
    out = io.BytesIO()
    pack(out, kind.name, kind.version, *state)
    return out.getvalue()


def unpacked(content: bytes, kind: Kind) -> State:
    """Return the state in what `packed` returned, or say what is wrong."""
    return unpack(io.BytesIO(content), kind)


def unpack(file: BinaryIO, kind: Kind) -> State:
    """Return the state in a container of this kind: names and sizes first, then data, then consistency."""
    try:
        return _unpack(file, kind)
    except ArchiveError:
        raise
    except Exception as error:  # a damaged container fails in as many ways as there are decoders
        raise ArchiveError(
            f"given what is not a readable swapcal state file ({type(error).__name__}: {error}), expected a saved one"
        ) from None


def _unpack(file: BinaryIO, kind: Kind) -> State:
    with zipfile.ZipFile(file) as box:
        members = _members(box, file.seek(0, io.SEEK_END))
        manifest = _manifest(box, members)
        _check_identity(manifest, kind)
        settings = manifest["settings"]
        kind.check_settings(settings)
        headers = {name: _read_header(box, info) for name, info in members.items() if name != MANIFEST}
        kind.check_shapes(headers, settings)
        arrays = {name: _read_array(box, members[name], *header) for name, header in headers.items()}
    if manifest["digest"] != _digest(kind.name, kind.version, settings, arrays):
        raise ArchiveError("given contents that do not match their checksum, expected an undamaged file")
    kind.check_contents(arrays, settings)
    return State(arrays, dict(settings))


def _members(box: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name; what is stored as it is, once, cannot unfold to more than the file's size."""
    infos = box.infolist()
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise ArchiveError(f"{info.filename}: given a compressed or encrypted member, expected a stored one")
    members = {info.filename.removesuffix(".npy"): info for info in infos}
    if len(members) != len(infos):
        raise ArchiveError("members: given a name twice, expected each once")
    total = sum(info.file_size for info in infos)
    if total > size:
        raise ArchiveError(f"members: given {total} bytes in a file of {size}, expected no more than the file holds")
    return members


def _manifest(box: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> dict[str, Any]:
    info = members[MANIFEST]
    dtype, shape = _read_header(box, info)
    manifest = json.loads(_read_array(box, info, dtype, shape).tobytes())
    if not isinstance(manifest, dict):
        raise TypeError(f"a manifest that is a {type(manifest).__name__}")
    return manifest


def _check_identity(manifest: Mapping[str, Any], kind: Kind) -> None:
    if not {"kind", "version", "digest", "settings"} <= manifest.keys():
        raise ArchiveError("manifest: given without a part, expected kind, version, digest and settings")
    if manifest["kind"] != kind.name:
        raise ArchiveError(f"given a state of kind {manifest['kind']!r}, expected {kind.name!r}")
    reads = "the only one this release reads"
    container = manifest.get("format", 1)
    if container != FORMAT:
        raise ArchiveError(f"given container format {container!r}, expected {FORMAT}, {reads}")
    if manifest["version"] != kind.version:
        raise ArchiveError(
            f"given {kind.name} format version {manifest['version']!r}, expected {kind.version}, {reads}"
        )


def _read_header(box: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[str, Shape]:
    """Return (type, shape) of a member whose data is exactly as long as they say."""
    with box.open(info) as member:
        start = member.read(len(MAGIC) + 2)
        length = int.from_bytes(start[len(MAGIC) :], "little")
        found = HEADER.fullmatch(member.read(min(length, 256)).decode("ascii"))
    if not start.startswith(MAGIC) or found is None or found[1] not in TYPES:
        raise ArchiveError(f"{info.filename}: given no header of a plain array, expected one of {', '.join(TYPES)}")
    shape = tuple(int(size) for size in found[2].replace(" ", "").split(",") if size)
    data = info.file_size - len(start) - length
    if data != math.prod(shape) * TYPES[found[1]]:
        raise ArchiveError(f"{info.filename}: given {data} bytes, expected those of shape {shape}")
    return found[1], shape


def _read_array(box: zipfile.ZipFile, info: zipfile.ZipInfo, dtype: str, shape: Shape) -> AnyArray:
    size = math.prod(shape) * TYPES[dtype]
    data = box.read(info)  # to the end, where the zip archive's own checksum is compared
    array = np.frombuffer(data, dtype, offset=len(data) - size).reshape(shape)
    return array.astype(array.dtype.newbyteorder("="))


def _header(array: AnyArray) -> bytes:
    out = io.BytesIO()
    described = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(out, described)
    return out.getvalue()


def _plain(name: str, array: AnyArray) -> AnyArray:
    """Return an array as it will lie in the file: C order, little-endian."""
    plain = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    if plain.dtype.str not in TYPES:
        raise TypeError(f"{name}: given an array of {array.dtype}, expected one of {', '.join(TYPES)}")
    return plain


def _octets(array: AnyArray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _digest(kind: str, version: int, settings: Settings, arrays: Arrays) -> str:
    """Return a checksum over everything: kind, version, settings, and arrays' names, types, shapes and bytes."""
    described = [(name, _plain(name, arrays[name])) for name in sorted(arrays)]
    head = [FORMAT, kind, version, dict(settings), [[name, a.dtype.str, a.shape] for name, a in described]]
    hasher = hashlib.blake2b(_text(head), digest_size=16)
    for _, array in described:
        hasher.update(_octets(array))
    return hasher.hexdigest()


def _text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
