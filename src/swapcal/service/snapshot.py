"""Snapshots: the state of a ward as bytes, checked like every state file."""

import copy
import hashlib
import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from swapcal.archive import ArchiveError, Kind, State
from swapcal.archive.container import packed, unpacked
from swapcal.archive.kind import OBJECT, Arrays, Field, below, floats, octets, one_of, optional, real, whole
from swapcal.archive.kind import Settings as Manifest
from swapcal.archive.state import nested, part
from swapcal.arrays import AnyArray
from swapcal.live import Live
from swapcal.live.file import FILE as LIVE
from swapcal.monitor import Monitor
from swapcal.monitor.file import FILE as MONITOR
from swapcal.service.figures import BINS, DELAYS, PERIODS, Figures
from swapcal.service.settings import Settings
from swapcal.service.ward import GIVEN, SERVICE, Early, OpenForecast, Ward

FIGURES = {
    "totals": floats(5),
    "expert_brier": floats("experts"),
    "reliability": floats(BINS, 3),
    "delays": floats(len(DELAYS) + 1),
    "delay": floats(2),
    "periods": floats(PERIODS, 6),
}
FIELDS: dict[str, Field] = {
    "live": octets("live"),
    "monitor": octets("monitor"),
    "opened": octets("opened"),
    "parked": octets("parked"),
    **below("figures", FIGURES),
}
RULES = {
    "settings": OBJECT,
    "seq": whole(1),
    "now": real(),
    "clock": optional(one_of(SERVICE, GIVEN)),
    "latest": optional(real()),
    "lapsed": whole(),
    "corrections": whole(),
    "figures": OBJECT,
}

_OPENED = msgspec.json.Decoder(dict[str, OpenForecast])
_PARKED = msgspec.json.Decoder(dict[str, Early])


def _faults(arrays: Arrays, manifest: Manifest) -> Iterator[str]:
    stride = manifest["figures"].get("stride")
    if not isinstance(stride, int) or stride < 1:
        yield f"stride: given {stride!r}, expected an integer of at least 1"


WARD = Kind("ward", 1, RULES, lambda manifest: FIELDS, _faults)


class Still:
    """A ward at rest: its state copied, to be packed while the ward goes on."""

    def __init__(self, ward: Ward) -> None:
        self.name, self.seq = ward.name, ward.seq
        self._live = copied(ward.live.to_state())
        self._monitor = copied(ward.monitor.to_state())
        self._opened, self._parked = [*ward.opened.items()], [*ward.parked.items()]
        figures = ward.figures.to_state()
        own = {
            "settings": msgspec.to_builtins(ward.settings),
            "seq": ward.seq,
            "now": ward.now,
            "clock": ward.clock,
            "latest": ward.latest if math.isfinite(ward.latest) else None,
            "lapsed": ward.lapsed,
            "corrections": ward.corrections,
        }
        whole_state = nested(figures=figures)
        self._own = State(whole_state.arrays, {**whole_state.manifest, **own})

    def to_bytes(self) -> bytes:
        """Return the state as bytes, after reading them as `restored` would."""
        parts = {
            "live": _packed(LIVE, self._live),
            "monitor": _packed(MONITOR, self._monitor),
            "opened": msgspec.json.encode(dict(self._opened)),
            "parked": msgspec.json.encode(dict(self._parked)),
        }
        arrays = {name: np.frombuffer(content, np.uint8) for name, content in parts.items()}
        return _packed(WARD, State({**self._own.arrays, **arrays}, self._own.manifest))

    def digest(self) -> bytes:
        """Return a digest of all that follows from the log.

        That leaves out whose tickets a process takes back, and early outcomes: these lapse by the clock, which may have
        gone on since the last event.
        """
        found = hashlib.sha256()
        for state in (self._live, self._monitor, self._own):
            manifest = {name: _ownerless(value) for name, value in state.manifest.items() if name != "lapsed"}
            found.update(msgspec.json.encode(manifest, order="deterministic"))
            for name, values in sorted(state.arrays.items()):
                found.update(f"{name} {values.dtype} {values.shape}".encode() + values.tobytes())
        found.update(msgspec.json.encode(self._opened))
        return found.digest()


def _ownerless(value: Any) -> Any:
    return {name: each for name, each in value.items() if name != "owner"} if isinstance(value, dict) else value


def restored(content: bytes) -> Ward:
    """Return the ward that was at rest; raises `ArchiveError` for what does not fit together."""
    state = unpacked(content, WARD)
    manifest = state.manifest
    try:
        settings = msgspec.convert(manifest["settings"], Settings)
        live = Live.from_state(unpacked(_bytes(state, "live"), LIVE))
        monitor = Monitor.from_state(unpacked(_bytes(state, "monitor"), MONITOR))
        ward = Ward.__new__(Ward)
        ward._hold(settings, live, monitor)
        ward.figures = Figures.from_state(part(state, "figures"), live.experts)
        ward.opened = _OPENED.decode(_bytes(state, "opened"))
        ward.parked = _PARKED.decode(_bytes(state, "parked"))
    except (ValueError, TypeError, KeyError, msgspec.DecodeError) as error:
        raise ArchiveError(
            f"given parts of a snapshot that do not fit together ({error}), expected those saved together"
        ) from None
    for name in ("seq", "now", "clock", "lapsed", "corrections"):
        setattr(ward, name, manifest[name])
    ward.latest = -math.inf if manifest["latest"] is None else manifest["latest"]
    return ward


def copied(state: State) -> State:
    """Return a state that stays as it is while its owner goes on."""
    arrays = {name: np.array(values) for name, values in state.arrays.items()}
    return State(arrays, copy.deepcopy(state.manifest))  # lists in it go on growing


def _packed(kind: Kind, state: State) -> bytes:
    content = packed(kind, state)
    unpacked(content, kind)
    return content


def _bytes(state: State, name: str) -> bytes:
    values: AnyArray = state.arrays[name]
    return values.tobytes()
