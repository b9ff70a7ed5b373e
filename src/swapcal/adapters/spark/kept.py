"""`Kept`: what is kept of a key between micro-batches, in Spark's state store and in the memory of a worker."""

import random
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from swapcal.adapters.spark import events
from swapcal.adapters.spark.events import Columns, EventRoles, Manner
from swapcal.adapters.spark.keyed import Answers, Keyed
from swapcal.archive.container import packed, unpacked
from swapcal.live import Live
from swapcal.live.file import FILE

ROWS = 2_000
"""Rows after which a new archive is written: about as many as are played in the time that reading one takes."""

BESIDE: dict[bytes, Keyed] = {}
"""Keys in the memory of this process, each under the stamp of all that it has seen: whoever finds it under the stamp in
the store has what the store would give, whichever query, attempt or key put it there."""


class Found(NamedTuple):
    """A key as its last micro-batch left it."""

    keyed: Keyed
    stamp: bytes
    since: int
    """rows since the archive was written"""
    fresh: bool
    """whether the archive must be written now: it never was, or had to be read"""


class Kept:
    """Keeps a `Live` as an archive and the rows since, which played again lead to the same bits.

    Parameters
    ----------
    handle : Spark's access to the state of the key at hand
    settings : of a new `Live`
    remember : whether settled ids are kept
    beside : keys to keep in the memory of this process
    """

    def __init__(self, handle: Any, roles: EventRoles, settings: dict[str, Any], remember: bool, beside: int) -> None:
        self._manner, self._settings, self._beside = Manner(roles, remember), settings, beside
        self._head = handle.getValueState("head", "stamp binary, since bigint")
        self._archive = handle.getValueState("live", "content binary, clock double")
        self._rows = handle.getListState("since", "rows binary")

    def play(self, rows: Columns) -> Answers:
        """Let the key at hand answer a micro-batch, and keep what it then is."""
        found, manner = self._found(), self._manner
        answers = _played(found.keyed, rows, manner)
        since = found.since + len(rows[manner.roles.id])
        if found.fresh or since > ROWS:
            content = packed(FILE, found.keyed.live.to_state())
            self._archive.update((content, found.keyed.clock))
            self._rows.clear()
            stamp, since = _stamp(content, str(found.keyed.clock).encode()), 0
        else:
            entry = events.packed(rows, manner)
            self._rows.appendValue((entry,))
            stamp = _stamp(found.stamp, entry)
        self._head.update((stamp, since))
        self._put(stamp, found.keyed)
        return answers

    def _found(self) -> Found:
        head = self._head.get()
        if head is None:  # a new key, or one that an earlier version kept, as an archive alone
            new = Keyed(Live(**self._settings), -np.inf, self._manner.roles) if self._archive.get() is None else None
            return Found(new or self._read(), b"", 0, True)
        stamp, since = bytes(head[0]), int(head[1])
        keyed = BESIDE.pop(stamp, None)  # for good: should playing fail, it is no longer what the stamp says
        return Found(keyed or self._read(), stamp, since, keyed is None)

    def _read(self) -> Keyed:
        content, clock = self._archive.get()
        keyed = Keyed(Live.from_state(unpacked(bytes(content), FILE)), float(clock), self._manner.roles)
        for (entry,) in self._rows.get():
            _played(keyed, *events.unpacked(bytes(entry)))
        return keyed

    def _put(self, stamp: bytes, keyed: Keyed) -> None:
        """Keep a key in memory; another one, any, makes room: keys come in turns, so the oldest is wanted next."""
        while self._beside <= len(BESIDE) > 0:
            del BESIDE[random.choice([*BESIDE])]
        if self._beside:
            BESIDE[stamp] = keyed


def _played(keyed: Keyed, rows: Columns, manner: Manner) -> Answers:
    keyed.roles = manner.roles
    answers = keyed.play(rows)
    if not manner.remember:
        keyed.live.release()
    return answers


def _stamp(*contents: bytes) -> bytes:
    return blake2b(b"".join(contents), digest_size=16).digest()
