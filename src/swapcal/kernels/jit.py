"""How this package compiles functions, and how Python enters compiled code quickly.

All that is not numba's public interface is here and in `swapcal.kernels.linalg`. What each part buys, as the speed
without it (engine at d = 3, 20, 100; one record of 13 columns through `Live`, forecast and label; numba 0.68, EPYC):

| part | d = 3 | d = 20 | d = 100 | one record |
|---|--:|--:|--:|--:|
| all parts | 10.3 M rows/s | 4.7 M | 0.50 M | 37 µs |
| without ``_nrt=False`` (no reference counting) | 0.04 × | 0.09 × | 0.5 × | 53 µs |
| without the intrinsics of `simd`, as plain loops | 1 × | 0.53 × | 0.26 × | 43 µs |
| without `DirectCall` (``Dispatcher.compile``) | 1 × | 1 × | 1 × | 54 µs |

``forceinline`` makes a kernel contain what it calls, so that results do not depend on which process compiled it.
Parts of kernels (`inlined`) are translated but not turned into machine code, except where last bits depend on it
(`AS_EMITTED`); with the collector of garbage paused and flags compared quickly, it takes about .75 of the time.
`_Cache` (``CompileResultCacheImpl``, ``FunctionCache``) makes cached machine code stale when the source of any kernel
changes; numba looks at the kernel's own file only.
"""

import gc
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
from numba import config, njit, typeof
from numba._dynfunc import make_function
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder, Flags, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

# Compiling less: functions that are only inlined never run alone, so their machine code is not made.

AS_EMITTED = {f"swapcal.kernels.{name}" for name in ("experts", "linalg", "mixing")}
"""Modules whose parts become machine code nevertheless: making it rewrites the part that kernels inline, and without
that the last bits of the experts' sums would be others."""
FLAGS_HASH = hash(Flags())
"""It is one for all flags: numba hashes the names of the options only."""


class _Flags(Flags):  # type: ignore[misc]
    """numba's flags, compared by what is set: numba lists all options for each comparison, of which there are 10⁵."""

    def __hash__(self) -> int:
        return FLAGS_HASH

    def __eq__(self, other: object) -> bool:
        same = self is other or (isinstance(other, Flags) and self._values == other._values)
        return same or super().__eq__(other) is True


class _KernelCompiler(Compiler):  # type: ignore[misc]
    """numba's passes, with the collector of garbage paused: it would visit all that the compiler holds, in vain."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.state.flags = _Flags(self.state.flags)

    def compile_extra(self, func: Any) -> Any:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if was_on:
                gc.enable()


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a part: simplified once, optimised in the kernels that contain it, never machine code."""

    def _optimize_final_module(self) -> None:
        options: dict[str, Any] = {"loop_vectorize": False, "slp_vectorize": False, "opt": 0, "cost": "cheap"}
        passes, builder = self._codegen._module_pass_manager(**options)
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):  # type: ignore[misc]
    """Translates a part, and makes it known to its callers by a function that has no address."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        if state.func_id.func.__module__ in AS_EMITTED:
            return bool(super().run_pass(state))
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        made, helper, env = state.cr.fndesc, state.cr.call_helper, state.cr.env
        key = make_function(made.lookup_module(), made.qualname, "", 0, env, (state.library,))
        state.targetctx.insert_user_function(key, made, [state.library])
        state.cr = _LowerResult(made, helper, cfunc=key, env=env)
        return True


class _PartCompiler(_KernelCompiler):
    """The same passes with the lowering of a part."""

    def define_pipelines(self) -> list[Any]:
        made = DefaultPassBuilder.define_nopython_pipeline(self.state)
        made.passes = [(_PartLowering if each is NativeLowering else each, text) for each, text in made.passes]
        made.finalize()
        return [made]


# The ways this package compiles a function.

F = TypeVar("F", bound=Callable[..., object])

# Reductions vectorise only if the sum may be reordered. NaN and infinity keep their meaning.
COMMON: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
    "error_model": "numpy",
}
LEAN: dict[str, Any] = COMMON | {"_nrt": False}
SHARED: dict[str, Any] = LEAN | {"forceinline": True}
INLINED: dict[str, Any] = SHARED | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def jit(function: F) -> F:
    """Compile `function`, which only Python calls, on its first call, and cache the machine code."""
    return _compile(COMMON | {"nogil": True}, function)


def lean(function: F) -> F:
    """Compile a function that only Python calls and that allocates nothing, without reference counting.

    Counting references to every array view costs more than the arithmetic at small dimensions. The interpreter's lock
    stays held, so that two threads cannot share a scratch array.
    """
    return _compile(LEAN, function)


def pure(function: F) -> F:
    """Compile a lean function that writes only to what its caller made for this call, and release the lock meanwhile.

    Threads may then run it side by side, each on rows of its own.
    """
    return _compile(LEAN | {"nogil": True}, function)


def inlined(function: F) -> F:
    """Compile a lean function into each kernel that calls it, never on its own.

    Kernels never call each other: a call finds the callee as its own compilation left it in the process that compiles,
    and as the caller's compilation left it in a process that reads the cache, and the two may round differently.
    """
    return njit(**INLINED, pipeline_class=_PartCompiler)(function)  # type: ignore[no-any-return]  # its callers are cached, with it inside


def shared(function: F) -> F:
    """Compile a lean function into each kernel that calls it, and on its own for Python."""
    return _compile(SHARED, function)


def is_compiled(function: Callable[..., object]) -> bool:
    """Return whether the cache has current machine code of a kernel, for this processor and some arguments."""
    if config.DISABLE_JIT:
        return True
    kernel: Any = function
    processor = kernel.targetctx.codegen().magic_tuple()
    return any(key[1] == processor for key in kernel._cache._cache_file._load_index())


def _compile(options: dict[str, Any], function: F) -> F:
    compiled: Any = njit(**options, pipeline_class=_KernelCompiler)(function)
    if not config.DISABLE_JIT:
        compiled._cache = _Cache(function)
    return compiled  # type: ignore[no-any-return]


def _stamp() -> str:
    """Return a digest of everything that decides the machine code of a kernel, besides what numba looks at itself.

    numba looks at its own version, the processor, and the function's file; but a kernel contains those it calls.
    """
    switches = (config.OPT, config.BOUNDSCHECK, config.LOOP_VECTORIZE, config.SLP_VECTORIZE)
    digest = hashlib.sha256(f"{llvmlite.__version__} {[str(switch) for switch in switches]}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


STAMP = _stamp()


class _Sources(CompileResultCacheImpl):  # type: ignore[misc]
    """Keeps machine code where numba would, under a name without line numbers: a new version replaces the old one."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        self._locator.get_source_stamp = lambda: STAMP

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        base: str = super().get_filename_base(fullname, abiflags)
        return base.replace(f"-{self.locator.get_disambiguator()}.", ".")


class _Cache(FunctionCache):  # type: ignore[misc]
    """The cache of one kernel, stale as soon as any kernel's source changes."""

    _impl_class = _Sources

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        # numba compares this before it reads the rest, which may hold types that this version no longer has
        self._cache_file._version = f"{self._cache_file._version} {STAMP}"


# `DirectCall`: fast calls of a kernel with arguments of the same types.


class DirectCall:
    """Calls a kernel without looking at the types of its arguments, which takes a lone row longer than its arithmetic.

    The first call decides on them for all: arrays must be C-ordered and writeable every time, of the same type and as
    many dimensions. Only the latter two are checked by what is called. It is the kernel's own machine code, so results
    are the same to the bit.

    Examples
    --------
    >>> import numpy as np
    >>> from swapcal.kernels.experts import put_scores
    >>> put, x = DirectCall(put_scores), np.zeros((1, 2))
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
