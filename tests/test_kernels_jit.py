"""Machine code is kept between processes exactly as long as it is right, and is the same in all of them."""

import ast
import importlib.util
import pickle
import shutil
from pathlib import Path

import numba

import swapcal
from swapcal.kernels.experts import put_scores
from tests.fresh import python

PACKAGE = Path(swapcal.__file__).parent
KERNELS = PACKAGE / "kernels"
ENTRIES, PARTS = {"jit", "lean", "pure"}, {"inlined", "shared"}

# `put_scores` lives in one file and contains `stabilised`, which lives in another.
PROGRAM = """
import numpy as np
from swapcal.kernels.experts import put_scores
X = np.zeros((1, 4))
put_scores(np.array([[0.5, 0.25, 0.75]]), np.ones(3), X)
print(X.tolist(), sum(put_scores.stats.cache_hits.values()))
"""


def run(root: Path) -> str:
    return python(PROGRAM, root, NUMBA_CACHE_DIR=str(root / "cache"))


def test_an_edited_callee_recompiles_its_callers_and_replaces_their_machine_code(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "swapcal", ignore=shutil.ignore_patterns("__pycache__"))
    first, kept = run(tmp_path), sorted(file.name for file in tmp_path.glob("cache/*/*"))
    assert first.endswith(" 0\n")
    assert run(tmp_path) == first.replace(" 0\n", " 1\n")
    callee = tmp_path / "swapcal" / "kernels" / "encode.py"
    source = callee.read_text()
    edited = source.replace("np.sqrt(min(max(p, 0.0), 1.0))) - 1.0)", "np.sqrt(min(max(p, 0.0), 1.0))) - 0.5)")
    assert edited != source
    callee.write_text("# one more line\n" + edited)
    assert run(tmp_path).partition("]]")[0] != first.partition("]]")[0]
    assert sorted(file.name for file in tmp_path.glob("cache/*/*")) == kept


def test_machine_code_for_a_structure_that_is_no_more_is_replaced(tmp_path):
    path = tmp_path / "doubling.py"
    path.write_text("from swapcal.kernels.jit import jit\n\n\n@jit\ndef double(x):\n    return 2.0 * x\n")
    spec = importlib.util.spec_from_file_location("doubling", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    index = Path(module.double._cache._cache_file._index_path)
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_bytes(pickle.dumps(numba.__version__) + b"cswapcal.kernels.state\nGone\n.")
    assert module.double(2.0) == 4.0
    assert b"Gone" not in index.read_bytes()


def decorated() -> dict[str, tuple[str, set[str]]]:
    """Return every kernel's decorator and the names it calls."""
    found = {}
    for file in KERNELS.glob("*.py"):
        imported = {}
        tree = ast.parse(file.read_text())
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("swapcal.kernels."):
                imported |= {
                    alias.name: f"{(node.module or '').rpartition('.')[2]}.{alias.name}" for alias in node.names
                }
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                names = {n.func.id for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
                called = {imported.get(name, f"{file.stem}.{name}") for name in names}
                found[f"{file.stem}.{node.name}"] = ast.unparse(node.decorator_list[0]), called
    return {name: kernel for name, kernel in found.items() if kernel[0] in ENTRIES | PARTS}


def test_kernels_contain_what_they_call():
    kernels = decorated()
    called = set().union(*(calls for _, calls in kernels.values())) & set(kernels)
    assert {name for name in called if kernels[name][0] in ENTRIES} == set()
    assert {name for name, (decorator, _) in kernels.items() if decorator == "inlined"} <= called


# Sums of integers are exact in any order; those of fill_cdfs depend on one another; four columns are written out.
ORDERLESS = {"tally.fill_cdfs", "draw.fingerprint", "draw.mark_rows", "tally.finish_hashes", "linalg.absorb"}
ORDERLESS |= {"linalg.unpack", "packing.unpack_numbers", "packing.unpack_keys", "packing.pack_keys"}


def sums_and_writes(loop: ast.For | ast.While) -> bool:
    """Tell whether an innermost loop adds numbers up and writes to an array."""
    inside = [node for part in loop.body for node in ast.walk(part)]
    plain = [target for node in inside if isinstance(node, ast.Assign) for target in node.targets]
    added = [
        node.target for node in inside if isinstance(node, ast.AugAssign) and not isinstance(node.value, ast.Constant)
    ]
    begun = {target.id for target in plain if isinstance(target, ast.Name)}
    sums = [target for target in added if isinstance(target, ast.Name) and target.id not in begun]
    innermost = not any(isinstance(node, ast.For | ast.While) for node in inside)
    return innermost and bool(sums) and any(isinstance(target, ast.Subscript) for target in [*plain, *added])


def test_no_sum_depends_on_where_arrays_lie_in_memory():
    """Compilers make two versions of a loop that reads and writes arrays, one of them for arrays too close together.

    They add in different orders, so a sum in such a loop would hang on addresses.
    """
    found = {
        f"{file.stem}.{function.name}"
        for file in KERNELS.glob("*.py")
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef)
        for loop in ast.walk(function)
        if isinstance(loop, ast.For | ast.While) and sums_and_writes(loop)
    }
    assert found <= ORDERLESS


def test_what_another_version_left_in_the_cache_is_not_unpickled(tmp_path, monkeypatch):
    kept, index = put_scores._cache._cache_file, tmp_path / "index"
    index.write_bytes(pickle.dumps(numba.__version__) + b"cswapcal.kernels.draw\nNoLongerThere\n.")
    monkeypatch.setattr(kept, "_index_path", str(index))
    assert kept._load_index() == {}
