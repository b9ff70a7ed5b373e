"""`Entry`: the way into a kernel that is called again and again with arguments of the same types."""

from collections.abc import Callable
from typing import Any

from numba import config, typeof


class Entry:
    """Calls a kernel without looking at the types of its arguments, which takes a lone row longer than its arithmetic.

    The first call decides on them for all: arrays must be C-ordered and writeable every time, of the same type and as
    many dimensions. Only the latter two are checked by what is called. It is the kernel's own machine code, so results
    are the same to the bit.

    Examples
    --------
    >>> import numpy as np
    >>> from swapcal.kernels.experts import put_scores
    >>> put, x = Entry(put_scores), np.zeros((1, 2))
    >>> put.call(np.full((1, 1), 0.75), np.ones(1), x)
    >>> x.tolist()
    [[0.0, 0.5]]
    """

    __slots__ = ("call", "kernel", "types")

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.types: tuple[Any, ...] = ()
        """of the arguments, once they are known"""
        self.call: Callable[..., Any] = self._first_call

    def _first_call(self, *arguments: object) -> Any:
        self.types = tuple(map(typeof, arguments))
        self.call = self.kernel if config.DISABLE_JIT else self.kernel.compile(self.types)
        return self.call(*arguments)
