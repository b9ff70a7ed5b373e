"""One thread at a time: a lock that copies and pickles as a new one, and methods that hold it."""

import functools
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Guard:
    """A re-entrant lock that belongs to one object; a copy of the object gets its own."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __reduce__(self) -> tuple[type["Guard"], tuple[()]]:
        return Guard, ()


def guarded(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let a method hold its object's `_guard` from start to end."""

    @functools.wraps(method)
    def held(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._guard.lock:
            return method(self, *args, **kwargs)

    return held
