"""Record the golden files anew: ``python -m tests.golden.record [values] [texts] [api] [saved]``, by default all.

Only for a change of behaviour that is declared: a commit that changes these files says what changed and why.
`values` are numbers, `texts` are words of findings, alarms and coordinates, `api` the public interface, `saved` the
saved files. Files once saved are promises: `saved` writes only what is missing, unless it is called `saved!`.
"""

import hashlib
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tests.golden import api
from tests.golden.cases import CASES, missing, versions
from tests.golden.saved import SAVED, kept, pack
from tests.golden.trees import Flat

FOLDER = Path(__file__).parent
VALUES, DIGESTS, TEXTS, API = (FOLDER / name for name in ("values.npz", "digests.json", "texts.json", "api.json"))
PARTS = ("saved", "values", "texts", "api")
SETTINGS = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "NPY_DISABLE_CPU_FEATURES",
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
    "NUMBA_DISABLE_JIT",
)


def fingerprint() -> dict[str, str]:
    """Return what bits may depend on: processor, versions, and settings that imitate another processor."""
    features = sorted(name for name, known in llvm.get_host_cpu_features().items() if known)
    processor = f"{llvm.get_host_cpu_name()} {platform.machine()} {os.cpu_count()}"
    return {
        "processor": processor,
        "features": hashlib.sha256(" ".join(features).encode()).hexdigest()[:16],
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "scipy")},
        **{name: os.environ[name] for name in SETTINGS if os.environ.get(name)},
    }


def flat_values(found: Flat) -> Any:
    """Return all arrays of a case behind each other."""
    arrays = [found.numbers[name].ravel() for name in sorted(found.numbers)]
    return np.concatenate(arrays) if arrays else np.empty(0)


def shapes(found: Flat) -> dict[str, list[int]]:
    return {name: list(found.numbers[name].shape) for name in sorted(found.numbers)}


def digest(found: Flat) -> str:
    """Return the sha256 of names, shapes and raw bytes; -0.0 and 0.0 differ, all NaN are alike."""
    sum_ = hashlib.sha256(json.dumps(shapes(found)).encode())
    values = flat_values(found)
    sum_.update(np.where(np.isnan(values), np.nan, values).astype("<f8").tobytes())
    return sum_.hexdigest()


def record_saved(again: bool) -> None:
    for name in SAVED:
        if again or not kept(name).exists():
            pack(name)


def record_cases(parts: list[str]) -> None:
    lacking = {name: package for name in CASES if (package := missing(name)) is not None}
    if lacking:
        raise SystemExit(f"these cases need packages that are not installed: {lacking}")
    found = {name: run() for name, run in CASES.items()}
    if "values" in parts:
        np.savez_compressed(VALUES, **{name: flat_values(each) for name, each in found.items()})
        entries = {name: {"sha256": digest(each), "shapes": json.dumps(shapes(each))} for name, each in found.items()}
        _write(DIGESTS, {"fingerprint": fingerprint(), "versions": versions(), "cases": entries})
    if "texts" in parts:
        _write(TEXTS, {name: each.texts for name, each in found.items() if each.texts})


def _write(path: Path, tree: Any) -> None:
    path.write_text(json.dumps(tree, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def main(arguments: list[str]) -> None:
    parts = [name.rstrip("!") for name in arguments] or list(PARTS)
    unknown = [name for name in parts if name not in PARTS]
    if unknown:
        raise SystemExit(f"given {unknown[0]}, expected one of {', '.join(PARTS)}")
    if "saved" in parts:
        record_saved("saved!" in arguments)
    if "values" in parts or "texts" in parts:
        record_cases(parts)
    if "api" in parts:
        _write(API, api.snapshot())


if __name__ == "__main__":
    main(sys.argv[1:])
