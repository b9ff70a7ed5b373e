"""States of every kind, spoilt at random with a right checksum, are refused or harmless; see `tests.state_fuzz`.

In processes of their own, which a read outside an array would end. SWAPCAL_FUZZ=1000 tries so many of each kind.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

COUNT = int(os.environ.get("SWAPCAL_FUZZ", "12"))
KINDS = {
    "forecaster,forecaster_window,forecaster_vaw,forecaster_paper": (),
    "baseline_foster-vohra,baseline_foster-hart,baseline_fishelson,baseline_luo-kl": (),
    "baseline_garg-ito,baseline_groups,baseline_okoroafor,audit,audit_ranges,monitor": (),
    "live,live_held": (),
    "refit": ("sklearn",),
    "model,model_trees": ("lightgbm",),
    "ward": ("msgspec",),
}


@pytest.mark.parametrize("kinds", KINDS)
def test_spoilt_states_are_refused_or_harmless(kinds: str) -> None:
    if missing := [name for name in KINDS[kinds] if find_spec(name) is None]:
        pytest.skip(f"needs {missing[0]}")
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.state_fuzz", kinds, "0", str(COUNT)],
        cwd=Path(__file__).parent.parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=120 + 2 * COUNT * len(kinds.split(",")),
        check=False,
    )
    assert found.returncode == 0, f"{found.returncode}: {found.stderr[-2000:]}"
