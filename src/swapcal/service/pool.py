"""A pool: connections that are lent, one to each reader at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, LifoQueue
from typing import Generic, TypeVar

Connection = TypeVar("Connection")


class Pool(Generic[Connection]):
    """Connections made when none is free, and kept for the next reader unless something went wrong.

    Examples
    --------
    >>> pool = Pool(connect=lambda: [], close=lambda connection: connection.append("closed"))
    >>> with pool.lent() as first, pool.lent() as second:
    ...     first is second
    False
    >>> with pool.lent() as third:
    ...     third is first
    True
    """

    def __init__(self, connect: Callable[[], Connection], close: Callable[[Connection], object]) -> None:
        self._connect, self._close = connect, close
        self._free: LifoQueue[Connection] = LifoQueue()

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """Lend a connection; after a failure it and those that are free are closed: they may all be dead."""
        try:
            connection = self._free.get_nowait()
        except Empty:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            self._close(connection)
            self.clear()
            raise
        self._free.put(connection)

    def clear(self) -> None:
        """Close the connections that are free."""
        while True:
            try:
                self._close(self._free.get_nowait())
            except Empty:
                return
