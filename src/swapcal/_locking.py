"""One thread at a time, and arrays that kernels may write to: both survive copying and pickling."""

import functools
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

# One thread at a time: a lock that copies and pickles as a new one, and methods that hold it.

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class CopyableLock:
    """A re-entrant lock that belongs to one object; a copy of the object gets its own."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __reduce__(self) -> tuple[type["CopyableLock"], tuple[()]]:
        return CopyableLock, ()


def locked(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let a method hold its object's `_lock` from start to end."""

    @functools.wraps(method)
    def held(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock.lock:
            return method(self, *args, **kwargs)

    return held


# `Writable`: an object whose arrays stay writeable after copying or unpickling.


class Writable:
    """Owns C-ordered, writeable arrays, as a `DirectCall` assumes.

    Unpickling may use foreign memory: joblib maps a file read-only, other libraries share buffers. A kernel would write
    to that memory, or crash.

    Examples
    --------
    >>> class Counts(Writable):
    ...     def __init__(self):
    ...         self.seen = np.zeros(3)
    >>> counts = Counts.__new__(Counts)
    >>> counts.__setstate__({"seen": np.frombuffer(bytes(24))})
    >>> counts.seen.flags.writeable
    True
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: writable(value) for name, value in state.items()})


def writable(value: Any) -> Any:
    """Return an array, or a tuple or list of them, that kernels may write to, copied if need be; others unchanged."""
    if isinstance(value, np.ndarray):
        is_writable = type(value) is np.ndarray and value.flags.carray
        return value if is_writable else np.array(value, order="C")
    if isinstance(value, tuple):
        return type(value)(*map(writable, value)) if hasattr(value, "_fields") else tuple(map(writable, value))
    if isinstance(value, list) and all(isinstance(part, np.ndarray) for part in value):
        return [*map(writable, value)]
    return value
