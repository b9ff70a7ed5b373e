"""A process of its own that runs this checkout, whatever copy of the package is installed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def python(code: str, *folders: Path, **environment: str) -> str:
    """Return what a new interpreter prints; `folders` (the checkout by default) come first where it looks for modules.

    Compiled integers wrap around silently, as the hashes intend; interpreted ones would warn, and warnings are errors.
    """
    found = [*map(str, folders or (ROOT / "src", ROOT)), os.environ.get("PYTHONPATH", "")]
    quiet = f"import numpy\nwith numpy.errstate(over='ignore'):\n    exec({code!r}, {{}})"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", quiet],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, found))} | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
