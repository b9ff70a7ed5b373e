"""States of every kind, spoilt at random with a right checksum, are refused or harmless; see `tests.state_fuzz`.

In a process of its own, which a read outside an array would end. SWAPCAL_FUZZ=1000 tries so many of each kind.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.state_fuzz import CASES

COUNT = int(os.environ.get("SWAPCAL_FUZZ", "12"))
NEEDS = {"refit": "sklearn", "model_trees": "lightgbm", "ward": "msgspec"}


def test_spoilt_states_are_refused_or_harmless() -> None:
    kinds = [kind for kind in CASES if kind not in NEEDS or find_spec(NEEDS[kind])]
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.state_fuzz", ",".join(kinds), "0", str(COUNT)],
        cwd=Path(__file__).parent.parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=300 + 2 * COUNT * len(kinds),
        check=False,
    )
    assert found.returncode == 0, f"{found.returncode}: {found.stderr[-2000:]}"
