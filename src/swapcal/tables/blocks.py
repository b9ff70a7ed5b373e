"""Blocks: text cut between records, so that each block can be read on its own, and several at once."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np

from swapcal.kernels.records import record_ends
from swapcal.tables.dialect import InputError

LONGEST = 1 << 26
"""A record longer than this is taken for a quote that is never closed: it would swallow the file without a word."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Block(NamedTuple):
    """Whole records, the number of the line on which they begin, and the share of the file read so far if known."""

    text: bytes
    line: int
    share: float | None
    last: bool


class Cutter:
    r"""Cuts pieces of text into blocks of whole records, about as long as asked for.

    An empty piece says that no more is there for now: what is whole is then given out at once. `quoted` is the
    delimiter where fields may be quoted, None where every line is a record.

    Examples
    --------
    >>> cutter = Cutter("in.csv", ",", share=lambda: None)
    >>> [block.text for block in cutter.blocks([b'1,"a\n', b'b"\n2', b',c\n3'], 4)]
    [b'1,"a\nb"\n', b'2,c\n', b'3']
    """

    def __init__(
        self,
        name: str,
        quoted: str | None,
        share: Callable[[], float | None],
        line: int = 1,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._name, self._share, self._line, self._stopped = name, share, line, stopped
        self._delimiter = None if quoted is None else ord(quoted)
        self._held = b""

    def blocks(self, pieces: Iterable[bytes], size: int, first: int | None = None) -> Iterator[Block]:
        """Yield the blocks; the first may be longer: all else is judged by it."""
        wanted, gathered = size if first is None else first, [b""]
        for piece in pieces:
            gathered.append(piece)
            if piece and sum(map(len, gathered)) < wanted:
                continue
            self._held = b"".join(gathered)
            while text := self._ready(wanted, idle=not piece):
                yield self._block(text, last=False)
                wanted = size
            gathered = [self._held]
        self._held = b"".join(gathered)
        yield from self._end()

    def _ready(self, wanted: int, *, idle: bool) -> bytes:
        """Return what is to be given out now, if anything."""
        if len(self._held) < wanted and not idle:
            return b""
        return self._whole(self._held[:wanted]) or self._whole(self._held)

    def _end(self) -> Iterator[Block]:
        """Give out what is left; of a stream that was left in the middle, only whole records."""
        rest = self._whole(self._held) if self._stopped() else self._held
        if rest is self._held and (opened := self._open(rest)) >= 0:
            self._refuse(opened)
        if rest.strip():
            yield self._block(rest, last=True)

    def _block(self, text: bytes, *, last: bool) -> Block:
        block = Block(text, self._line, self._share(), last)
        self._held = self._held[len(text) :]
        self._line += text.count(b"\n")
        return block

    def _whole(self, text: bytes) -> bytes:
        """Return the records that have ended."""
        if self._delimiter is None or b'"' not in text:
            return text[: text.rfind(b"\n") + 1]
        end, opened = record_ends(np.frombuffer(text, np.uint8), self._delimiter)
        if not end and len(text) >= LONGEST:
            self._refuse(max(opened, 0))
        return text[:end]

    def _open(self, text: bytes) -> int:
        if self._delimiter is None or b'"' not in text:
            return -1
        return int(record_ends(np.frombuffer(text, np.uint8), self._delimiter)[1])

    def _refuse(self, place: int) -> None:
        line = self._line + self._held[:place].count(b"\n")
        raise InputError(f"{self._name}: line {line}: given a quote that is never closed, expected its end")


def in_order(work: Callable[[Item], Result], items: Iterable[Item], jobs: int) -> Iterator[Result]:
    """Yield the work's results in order, done by so many threads, never more than one item ahead of each.

    Examples
    --------
    >>> list(in_order(lambda x: x * x, range(5), jobs=2))
    [0, 1, 4, 9, 16]
    """
    if jobs < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(jobs) as pool:
        waiting: list[Future[Result]] = []
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > jobs:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()
