"""Durable state: files that are replaced atomically, and checked against their kind when read."""

import copy
import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from swapcal.arrays import AnyArray

__all__ = ["ArchiveError", "Kind", "State", "nested", "part", "put_text", "read", "replacing", "write", "written"]

# `State`: a learner as named arrays and a manifest; states nest.


class State(NamedTuple):
    """Arrays by name, and everything else as JSON."""

    arrays: dict[str, AnyArray]
    manifest: dict[str, Any]


def nested(**parts: "State | None") -> State:
    """Return several states as one: each part's arrays and manifest under its name, null for a part that is not there.

    Examples
    --------
    >>> import numpy as np
    >>> whole = nested(left=State({"w": np.zeros(2)}, {"n": 1}), right=None)
    >>> sorted(whole.arrays), whole.manifest
    (['left.w'], {'left': {'n': 1}, 'right': None})
    >>> part(whole, "left").manifest
    {'n': 1}
    """
    present = {name: state for name, state in parts.items() if state is not None}
    arrays = {f"{name}.{key}": array for name, state in present.items() for key, array in state.arrays.items()}
    return State(arrays, {name: None if state is None else state.manifest for name, state in parts.items()})


def part(state: State, name: str) -> State:
    """Return the state that `nested` put under a name."""
    inside = f"{name}."
    arrays = {key.removeprefix(inside): array for key, array in state.arrays.items() if key.startswith(inside)}
    return State(arrays, state.manifest.get(name) or {})


def copied(state: State) -> State:
    """Return a state that stays as it is while its owner goes on."""
    arrays = {name: np.array(values) for name, values in state.arrays.items()}
    return State(arrays, copy.deepcopy(state.manifest))  # lists in it go on growing


# Files that appear whole or not at all.

Name = str | os.PathLike[str]
T = TypeVar("T")

MOST_NAME = 40  # letters of the target's name in the temporary one, which has to fit a folder entry too


@contextmanager
def replacing(path: Name) -> Iterator[BinaryIO]:
    """Open a temporary file next to `path` to write and read back; it replaces `path` when the block ends well.

    The bytes reach the disk before the name does, so a crash leaves the old file or the new one, never half of one. A
    symbolic link stays, and its target is replaced. An existing file keeps its mode. Raises OSError if `path` is not a
    regular file or may not be written. After an exception nothing is left behind; a kill may leave a file named
    ``.<name>.<random>.tmp`` in the folder, which nothing reads and which may be deleted.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "page.html"
    >>> with replacing(target) as file:
    ...     _ = file.write(b"<p>whole")
    >>> target.read_bytes(), [entry.name for entry in target.parent.iterdir()]
    (b'<p>whole', ['page.html'])
    """
    target = Path(os.path.realpath(path))
    mode = _checked_mode(path, target)
    beside = target.with_name(f".{target.name[:MOST_NAME]}.{secrets.token_hex(6)}.tmp")
    try:
        with os.fdopen(_created(path, beside), "w+b") as file:
            if mode is not None:
                os.chmod(beside, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def put_text(path: Name, text: str) -> None:
    """Write text as UTF-8, whole or not at all; see `replacing`."""
    with replacing(path) as file:
        file.write(text.encode())


def written(text: str, path: Name | None) -> str:
    """Return text, and write it if a path is given."""
    if path is not None:
        put_text(path, text)
    return text


def kind_of(mode: int) -> str:
    """Return the type of a file in words."""
    tests = {"folder": stat.S_ISDIR, "fifo": stat.S_ISFIFO, "socket": stat.S_ISSOCK, "device": stat.S_ISCHR}
    return next((word for word, test in tests.items() if test(mode)), "device" if stat.S_ISBLK(mode) else "file")


def _checked_mode(path: Name, target: Path) -> int | None:
    """Return the mode of the file to be replaced, None if it does not exist. Raises if it must not be replaced."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise type(error)(
            error.errno, f"given a path that cannot be looked at ({error.strerror}), expected one that can", str(path)
        ) from None
    if not stat.S_ISREG(mode):
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, f"given a {kind_of(mode)}, expected a regular file", str(path))
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "given a file that may not be written, expected one that may", str(path))
    return stat.S_IMODE(mode)


def _created(path: Name, beside: Path) -> int:
    """Create the temporary file with the mode that the umask leaves."""
    try:
        return os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except FileNotFoundError:
        refusal = f"given a folder that does not exist ({beside.parent}), expected an existing one"
        raise FileNotFoundError(errno.ENOENT, refusal, str(path)) from None
    except OSError as error:
        refusal = f"given a folder in which no file can be made ({error.strerror}), expected one that may be written"
        raise type(error)(error.errno, refusal, str(path)) from None


def sync_folder(folder: Path) -> None:
    """Write the new name to the disk, where folders can be synchronised at all."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


# The contents of a kind of state file: its settings, its arrays, and the bounds of arrays that kernels use as indices.
#
# Numbers may be wrong, and then so are the results. They may not crash the interpreter, as compiled code does when it
# reads outside its arrays, nor make it hang or allocate without end.

Arrays = Mapping[str, AnyArray]
Settings = Mapping[str, Any]
Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]
Sizes = Mapping[str, int]

MOST_INTEGER = 2**63 - 1
_NO_SHAPE: Callable[[], Shape] = lambda: (0, 0)  # noqa: E731
"""Shape of a missing array, so that the error can name all missing ones."""
MOST_COUNT = 2**62
"""Largest count in a file: counting on from it never overflows."""


class ArchiveError(ValueError):
    """A state file that is missing a part, damaged, inconsistent, or of another kind or version."""


class Permutation(NamedTuple):
    """The first entries are 0, 1, 2, …, each once, in any order; `first` names the size that gives their number."""

    first: str

    def fault(self, array: AnyArray, arrays: Arrays, sizes: Sizes) -> str:
        """Return the rule that is broken, in words, or ""."""
        count = sizes[self.first]
        return "" if np.array_equal(np.sort(array[:count]), np.arange(count)) else f"each index below {count} once"


class Sorted(NamedTuple):
    """Entries strictly increase in the order of another array's indices, a `Permutation`; `first` names how many."""

    by: str
    first: str

    def fault(self, array: AnyArray, arrays: Arrays, sizes: Sizes) -> str:
        """Return the rule that is broken, in words, or ""."""
        in_order = array[arrays[self.by][: sizes[self.first]]]
        return "" if _rises(in_order) else f"increasing numbers in the order {self.by}"


class RowsSorted(NamedTuple):
    """The first entries of each row strictly increase; `counts` names the array of their numbers."""

    counts: str

    def fault(self, array: AnyArray, arrays: Arrays, sizes: Sizes) -> str:
        """Return the rule that is broken, in words, or ""."""
        rise = all(_rises(row[:count]) for row, count in zip(array, arrays[self.counts], strict=True))
        return "" if rise else "increasing numbers in each row"


class Children(NamedTuple):
    """Entries 2i and 2i + 1 are node i's children, i itself at a leaf; all nodes but the roots are one node's child.

    `depth` names the array of the steps from each root to its farthest leaf.
    """

    root: str
    depth: str

    def fault(self, array: AnyArray, arrays: Arrays, sizes: Sizes) -> str:
        """Return the rule that is broken, in words, or ""."""
        root, child = arrays[self.root].astype(np.int64), array.astype(np.int64).reshape(-1, 2)
        node = np.arange(len(child))
        own = child == node[:, None]
        reached = np.concatenate([child[~own], root])
        if (child < node[:, None]).any() or (own[:, 0] != own[:, 1]).any():
            return "children after their parents, or a leaf's own index twice"
        if (np.bincount(reached, minlength=len(node)) != 1).any():
            return "every node but the roots to be one node's child"
        return "" if np.array_equal(arrays[self.depth], _depths(root, child)) else f"the depths in {self.depth}"


def _depths(root: AnyArray, child: AnyArray) -> AnyArray:
    """Return the steps from each root to its farthest leaf."""
    depth, tree = np.zeros(len(root), np.int64), np.zeros(len(child), np.int64)
    tree[root] = np.arange(len(root))
    place, steps = root, 0
    while len(place := place[child[place, 0] != place]):
        steps += 1
        depth[tree[place]] = steps
        tree[child[place]] = tree[place, None]
        place = child[place].ravel()
    return depth


class Field(NamedTuple):
    """An array: its type as numpy writes it, its shape in numbers and names of sizes, and what its entries may be."""

    dtype: str
    shape: tuple[int | str, ...]
    finite: bool = True
    least: Any = None
    """No entry is below this: a number, or one for each column."""
    most: Any = None
    """No entry is above this: likewise. The name of a size means the last index of an axis of that size."""
    rises: bool = False
    """Entries strictly increase along the last axis."""
    ordered: bool = False
    """Entries never decrease along the last axis."""
    names: tuple[str, ...] = ()
    """Sizes that the first entries are."""
    link: Permutation | Sorted | RowsSorted | Children | None = None


class Rule(NamedTuple):
    """The values that a setting may have."""

    expected: str
    holds: Callable[[Any], bool]
    required: bool = True
    """False for a setting that files of earlier releases do not have"""


Fields = Mapping[str, Field]


def floats(*shape: int | str, finite: bool = True, **entries: Any) -> Field:
    """Declare an array of float64; `finite` false admits NaN and infinity. `entries`: see `Field`."""
    return Field("<f8", shape, finite, **entries)


def singles(*shape: int | str) -> Field:
    """Declare an array of float32."""
    return Field("<f4", shape)


def integers(*shape: int | str, **entries: Any) -> Field:
    """Declare an array of int64."""
    return Field("<i8", shape, **entries)


def counts(*shape: int | str, **entries: Any) -> Field:
    """Declare an array of int64 from 0 to `MOST_COUNT`."""
    return integers(*shape, **{"least": 0, "most": MOST_COUNT, **entries})


def keys(*shape: int | str, **entries: Any) -> Field:
    """Declare an array of uint64."""
    return Field("<u8", shape, **entries)


def octets(*shape: int | str) -> Field:
    """Declare an array of bytes."""
    return Field("|u1", shape)


def whole(least: int = 0, most: int = MOST_INTEGER) -> Rule:
    """Declare a setting that is an integer in a range."""
    words = f"an integer of at least {least}" if most == MOST_INTEGER else f"an integer from {least} to {most}"
    return Rule(words, lambda v: isinstance(v, int) and not isinstance(v, bool) and least <= v <= most)


def real(least: float = -math.inf, *, above: bool = False) -> Rule:
    """Declare a setting that is a finite number of at least (or above) a bound."""
    words = "a finite number" + ("" if least == -math.inf else f" {'above' if above else 'of at least'} {least:g}")
    return Rule(words, lambda v: is_number(v) and (v > least if above else v >= least))


def between(least: float, most: float) -> Rule:
    """Declare a setting that is a number from `least` to `most`."""
    return Rule(f"a number from {least:g} to {most:g}", lambda v: is_number(v) and least <= v <= most)


def one_of(*values: str) -> Rule:
    """Declare a setting that is one of some words."""
    return Rule(f"one of {', '.join(values)}", lambda v: isinstance(v, str) and v in values)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number and not a truth value."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 2**1023
    return isinstance(value, float) and math.isfinite(value)


def is_text(value: Any) -> bool:
    """Return whether a value is text without lone surrogates."""
    return isinstance(value, str) and value.encode("utf-8", "replace").decode() == value


def optional(rule: Rule) -> Rule:
    """Declare a setting that may be absent, as null."""
    return Rule(f"{rule.expected}, or nothing", lambda v: v is None or rule.holds(v))


def addition(rule: Rule) -> Rule:
    """Declare a setting that files may lack."""
    return rule._replace(required=False)


def listed(rule: Rule, least: int = 0, most: int = MOST_INTEGER) -> Rule:
    """Declare a setting that is a list, with the rule of each entry."""
    words = f"a list, each entry {rule.expected}"
    return Rule(words, lambda v: isinstance(v, list) and least <= len(v) <= most and all(map(rule.holds, v)))


def parted(rules: Mapping[str, Rule]) -> Rule:
    """Declare a setting that is an object, with the rule of each of its parts."""
    return Rule(f"an object of {', '.join(rules)}", lambda v: not any(rule_faults(rules, v)))


def is_distinct(values: list[Any]) -> bool:
    """Return whether all values are distinct."""
    return len(set(values)) == len(values)


TRUTH = Rule("true or false", lambda v: isinstance(v, bool))
ANY_TEXT = Rule("text", is_text)
TEXT = Rule("text that is not empty", lambda v: is_text(v) and v != "")
TEXTS = Rule("a list of texts", lambda v: isinstance(v, list) and all(map(is_text, v)))
NAMES = Rule("a list of different texts", lambda v: TEXTS.holds(v) and is_distinct(v))
OBJECT = Rule("an object", lambda v: isinstance(v, dict))
LIST = Rule("a list", lambda v: isinstance(v, list))


@dataclass(frozen=True)
class Kind:
    """One kind of state file: checked the same way before it replaces another and after it is read.

    Parameters
    ----------
    name, version : those of the manifest.
    rules : each setting's rule; other settings raise ArchiveError.
    fields : function of settings and the shapes in the headers that returns exactly the arrays of the file. Sizes are
        compared with the headers, before any data is read.
    """

    name: str
    version: int
    rules: Mapping[str, Rule]
    fields: Callable[[Settings, Shapes], Fields]

    def check_settings(self, settings: Any) -> None:
        """Raise ArchiveError if a setting is missing, unknown, or out of range."""
        check(self.rules, settings)

    def check_shapes(self, given: Mapping[str, tuple[str, Shape]], settings: Settings) -> None:
        """Raise ArchiveError if an array is missing, unknown, of another type, or of an inconsistent size."""
        shapes = defaultdict(_NO_SHAPE, {name: shape for name, (_, shape) in given.items()})
        fields = self.fields(settings, shapes)
        for fault in _name_faults("array", given, fields):
            raise ArchiveError(fault)
        for name, field in fields.items():
            dtype, shape = given[name]
            if dtype != field.dtype or len(shape) != len(field.shape):
                raise ArchiveError(f"{name}: given {dtype} of shape {shape}, expected {field.dtype} of {field.shape}")
        _sizes(fields, shapes)

    def check_contents(self, arrays: Arrays, settings: Settings) -> None:
        """Raise ArchiveError for numbers that must be finite and are not, and for indices out of bounds."""
        shapes = {name: array.shape for name, array in arrays.items()}
        fields = self.fields(settings, shapes)
        sizes = _sizes(fields, shapes)
        for name, field in sorted(fields.items(), key=lambda item: not item[1].names):
            for fault in _entry_faults(field, arrays[name], sizes):
                raise ArchiveError(f"{name}: {fault}")
            sizes |= zip(field.names, arrays[name].ravel()[: len(field.names)].tolist(), strict=True)
        for name, field in fields.items():
            if field.link is not None and (expected := field.link.fault(arrays[name], arrays, sizes)):
                raise ArchiveError(f"{name}: given indices that lead elsewhere, expected {expected}")


def _sizes(fields: Fields, shapes: Shapes) -> dict[str, int]:
    """Return the sizes by name. Raises ArchiveError if shapes disagree."""
    sizes: dict[str, int] = {}
    for name, field in fields.items():
        for size, dimension in zip(shapes[name], field.shape, strict=True):
            expected = dimension if isinstance(dimension, int) else sizes.setdefault(dimension, size)
            if size != expected:
                raise ArchiveError(
                    f"{name}: given shape {shapes[name]}, expected {field.shape} with {expected} {dimension}"
                )
    return sizes


def _entry_faults(field: Field, array: AnyArray, sizes: Sizes) -> Iterator[str]:
    if field.finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        yield "given a number that is not finite, expected finite numbers"
    if field.least is not None and not (array >= field.least).all():
        yield f"given a number that is too small, expected at least {_short(field.least)}"
    if field.most is not None and not (array <= (most := _most(field.most, sizes))).all():
        yield f"given a number that is too large, expected at most {_short(most)}"
    if field.rises and not _rises(array):
        yield "given numbers out of order, expected them to increase"
    if field.ordered and not (array[..., 1:] >= array[..., :-1]).all():
        yield "given numbers out of order, expected none below the one before"


def _most(most: Any, sizes: Sizes) -> Any:
    """Return a bound in numbers, or bounds of columns; the name of a size means its last index."""
    if isinstance(most, list):
        return [_most(each, sizes) for each in most]
    return sizes[most] - 1 if isinstance(most, str) else most


def _rises(array: AnyArray) -> bool:
    return bool((array[..., 1:] > array[..., :-1]).all())


def below(prefix: str, fields: Fields) -> dict[str, Field]:
    """Return the arrays of a part under its name; its sizes are its own."""

    def own(size: Any) -> Any:
        if isinstance(size, list | tuple):
            return type(size)(map(own, size))
        return f"{prefix}.{size}" if isinstance(size, str) else size

    return {
        f"{prefix}.{name}": field._replace(
            shape=own(field.shape),
            most=own(field.most),
            names=own(field.names),
            link=field.link and type(field.link)(*map(own, field.link)),
        )
        for name, field in fields.items()
    }


def inside(prefix: str, shapes: Shapes) -> dict[str, Shape]:
    """Return the shapes of a part's arrays by their names in the part."""
    start = f"{prefix}."
    own = {name.removeprefix(start): shape for name, shape in shapes.items() if name.startswith(start)}
    return defaultdict(_NO_SHAPE, own)


def check(rules: Mapping[str, Rule], settings: Any) -> None:
    """Raise ArchiveError if a setting is missing, unknown, or breaks its rule."""
    for fault in rule_faults(rules, settings):
        raise ArchiveError(fault)


def rule_faults(rules: Mapping[str, Rule], settings: Any) -> Iterator[str]:
    """Yield which settings are missing, unknown, or break their rule."""
    if not isinstance(settings, dict):
        yield f"settings: given {type(settings).__name__}, expected an object"
        return
    expected = {name: rule for name, rule in rules.items() if rule.required or name in settings}
    yield from _name_faults("setting", settings, expected)
    for name, rule in expected.items():
        if name in settings and not rule.holds(settings[name]):
            yield f"{name}: given {_short(settings[name])}, expected {rule.expected}"


def _name_faults(noun: str, given: Iterable[str], expected: Iterable[str]) -> Iterator[str]:
    given, expected = set(given), set(expected)
    if expected - given:
        yield f"{noun}s: missing {', '.join(sorted(expected - given))}, expected all"
    if given - expected:
        yield f"{noun}s: given {', '.join(sorted(given - expected))}, expected none but the known ones"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


# Named arrays and a JSON manifest in one file, a zip archive of .npy members that are stored, never compressed.

FORMAT = 2
MANIFEST = "manifest"
TYPES = {"<f8": 8, "<f4": 4, "<i8": 8, "<u8": 8, "|u1": 1, "|b1": 1}
MAGIC = b"\x93NUMPY\x01\x00"
HEADER = re.compile(r"\{'descr': '([<|]\w\d)', 'fortran_order': False, 'shape': \(((?:\d{1,18}, ?)*\d{0,18})\), \} *\n")
SLICE = 1 << 20
"""Bytes of an array copied at a time."""
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
    """Return the state in a file of this kind. Raises ArchiveError if it is damaged or of another kind."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):  # opening a fifo would wait for a writer
        refusal = f"given a {kind_of(mode)}, expected a regular file"
        raise ArchiveError(f"{path}: given what is not a readable swapcal state file ({refusal}), expected a saved one")
    with open(path, "rb") as file:
        try:
            return unpack(file, kind)
        except ArchiveError as error:
            raise ArchiveError(f"{path}: {error}") from None


def load(path: Name, kind: Kind, build: Callable[[State], T]) -> T:
    """Return what `build` makes of the state in a file. Raises ArchiveError if the file is damaged or `build` fails."""
    return built(read(path, kind), build, f"{path}: ")


def built(state: State, build: Callable[[State], T], where: str = "") -> T:
    """Return what `build` makes of a state. Raises ArchiveError if its parts do not fit together."""
    try:
        return build(state)
    except ArchiveError as error:
        raise ArchiveError(f"{where}{error}") from None
    except Exception as error:  # settings that are right one by one may not be right together
        raise ArchiveError(
            f"{where}given parts that do not fit together ({type(error).__name__}: {error}), expected those saved "
            "together"
        ) from None


def pack(file: BinaryIO, kind: str, version: int, arrays: Arrays, settings: Settings) -> None:
    """Write a container without checking its contents."""
    stored = {name: _as_stored(name, array) for name, array in arrays.items()}
    manifest = {"format": FORMAT, "kind": kind, "version": version, "settings": dict(settings)}
    manifest["digest"] = _digest(kind, version, settings, stored)
    packed = np.frombuffer(_text(manifest), np.uint8)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as box:
        for name, array in {MANIFEST: packed, **stored}.items():
            with box.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w", force_zip64=True) as member:
                member.write(_header(array))
                for octets in _slices(array):
                    member.write(octets)


def packed(kind: Kind, state: State) -> bytes:
    """Return a state as the bytes that `write` would put into a file."""
    out = io.BytesIO()
    pack(out, kind.name, kind.version, *state)
    return out.getvalue()


def unpacked(content: bytes, kind: Kind) -> State:
    """Return the state in bytes that `packed` returned. Raises ArchiveError if they are damaged or of another kind."""
    return unpack(io.BytesIO(content), kind)


def dumped(kind: Kind, state: State) -> bytes:
    """Return a state as bytes without a checksum, faster than `packed`, for stores that have checksums."""
    described = [[name, array.dtype.newbyteorder("<").str, array.shape] for name, array in state.arrays.items()]
    identity = {"kind": kind.name, "version": kind.version, "format": FORMAT, "digest": None}
    head = json.dumps(identity | {"settings": state.manifest, "arrays": described}).encode()
    parts = [array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes() for array in state.arrays.values()]
    return b"".join([len(head).to_bytes(8, "little"), head, *parts])


def loaded(content: bytes, kind: Kind) -> State:
    """Return the state in bytes that `dumped` returned; kind and version are compared, the contents are trusted."""
    end = 8 + int.from_bytes(content[:8], "little")
    manifest, arrays = json.loads(content[8:end]), {}
    _check_identity(manifest, kind)
    for name, dtype, shape in manifest["arrays"]:
        array: AnyArray = np.ndarray(shape, dtype, content, end)
        arrays[name], end = array.astype(array.dtype.newbyteorder("=")), end + array.nbytes
    return State(arrays, manifest["settings"])


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
    """Return the members by name; stored uncompressed and once, they cannot be larger than the file."""
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
    """Return (type, shape) of a member whose data has exactly the length that follows from them."""
    with box.open(info) as member:
        start = member.read(len(MAGIC) + 2)
        length = int.from_bytes(start[len(MAGIC) :], "little")
        match = HEADER.fullmatch(member.read(min(length, 256)).decode("ascii"))
    if not start.startswith(MAGIC) or match is None or match[1] not in TYPES:
        raise ArchiveError(f"{info.filename}: given no header of a plain array, expected one of {', '.join(TYPES)}")
    shape = tuple(int(size) for size in match[2].replace(" ", "").split(",") if size)
    data = info.file_size - len(start) - length
    if data != math.prod(shape) * TYPES[match[1]]:
        raise ArchiveError(f"{info.filename}: given {data} bytes, expected those of shape {shape}")
    return match[1], shape


def _read_array(box: zipfile.ZipFile, info: zipfile.ZipInfo, dtype: str, shape: Shape) -> AnyArray:
    array = np.empty(shape, dtype)
    with box.open(info) as member:
        member.read(info.file_size - array.nbytes)
        for octets in _slices(array):
            octets[:] = member.read(len(octets))
        member.read()  # to the end, where the zip archive's own checksum is compared
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _header(array: AnyArray) -> bytes:
    out = io.BytesIO()
    described = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(out, described)
    return out.getvalue()


def _as_stored(name: str, array: AnyArray) -> AnyArray:
    """Return an array as it will lie in the file: C order, little-endian."""
    stored = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    if stored.dtype.str not in TYPES:
        raise TypeError(f"{name}: given an array of {array.dtype}, expected one of {', '.join(TYPES)}")
    return stored


def _octets(array: AnyArray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _slices(array: AnyArray) -> Iterator[memoryview]:
    """Yield the bytes of an array, some at a time: copying a large one at once would keep other threads waiting."""
    octets = _octets(array)
    for start in range(0, len(octets), SLICE):
        yield octets[start : start + SLICE]


def _digest(kind: str, version: int, settings: Settings, arrays: Arrays) -> str:
    """Return a checksum over everything: kind, version, settings, and arrays' names, types, shapes and bytes."""
    described = [(name, _as_stored(name, arrays[name])) for name in sorted(arrays)]
    head = [FORMAT, kind, version, dict(settings), [[name, a.dtype.str, a.shape] for name, a in described]]
    hasher = hashlib.blake2b(_text(head), digest_size=16)
    for _, array in described:
        hasher.update(_octets(array))
    return hasher.hexdigest()


def _text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
