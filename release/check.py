"""Build the wheel and the sdist, check them, and try the wheel in a clean environment of every supported Python.

python release/check.py [3.12 …]     exit code 0: all is well; 1: something failed; 3: a Python is missing here
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
EXTRAS = "cli,sklearn"
FAILED, MISSING = 1, 3
BILL = ROOT / "build" / "sbom.json"
"""The software bill of materials (CycloneDX) of the last environment tried."""


def run(*command: object, at: Path = ROOT) -> None:
    """Run a command, or stop with what it said."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    done = subprocess.run([*map(str, command)], cwd=at, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}\nfailed")


def built(folder: Path) -> Path:
    """Return the wheel, built from the sdist as an installer would, both checked."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *folder.iterdir())
    (wheel,) = folder.glob("*.whl")
    return wheel


def check_names(wheel: Path) -> str:
    """Return the version that the wheel, the sources, the changelog, the citation and the recipe agree upon."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        version = Parser().parsestr(archive.read(metadata).decode())["Version"]
    for file, pattern in (
        ("src/swapcal/version.py", r'__version__ = "([^"]+)"'),
        ("CHANGELOG.md", r"(?m)^## (\S+)"),
        ("CITATION.cff", r"(?m)^version: (\S+)"),
        ("release/recipe.yaml", r'(?m)^  version: "(\S+)"'),
    ):
        found = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"))
        if found is None or found[1] != version:
            raise SystemExit(f"{file}: given {found and found[1]}, expected {version} as in the wheel")
    return str(version)


def interpreter(version: str) -> str | None:
    """Return a Python of that version: on the path, or where pyenv or uv keep theirs."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
        return found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = sorted(root.glob(f"{version}.*/bin/python"))
    if kept:
        return str(kept[-1])
    if shutil.which("uv"):
        done = subprocess.run(["uv", "python", "find", version], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    return None


def try_wheel(python: str, wheel: Path, version: str, folder: Path) -> None:
    """Install the wheel into a clean environment, use it away from the sources, and list what was installed."""
    run(python, "-m", "venv", folder / "env", at=folder)
    inside = folder / "env" / "bin" / "python"
    run(inside, "-m", "pip", "install", "--quiet", f"{wheel}[{EXTRAS}]", at=folder)
    shutil.copy(ROOT / "release" / "smoke.py", folder)
    run(inside, "smoke.py", version, at=folder)
    BILL.parent.mkdir(exist_ok=True)
    run(sys.executable, "-m", "cyclonedx_py", "environment", inside, "--output-file", BILL)


def main(versions: tuple[str, ...]) -> int:
    """Check everything; say of each version what was found."""
    missing = []
    with tempfile.TemporaryDirectory() as temporary:
        dist = Path(temporary) / "dist"
        wheel = built(dist)
        version = check_names(wheel)
        print(f"{wheel.name}: built from the sdist, metadata checked, version {version} everywhere", flush=True)
        for python in versions:
            found = interpreter(python)
            if found is None:
                missing.append(python)
                print(f"Python {python}: NOT CHECKED, there is none here (python{python} on the path, pyenv or uv)")
                continue
            folder = Path(temporary) / python
            folder.mkdir()
            try_wheel(found, wheel, version, folder)
            print(f"Python {python}: installed into a clean environment, smoke test passed", flush=True)
        kept = ROOT / "dist"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(dist, kept)
    print(f"{kept}: what to upload")
    return MISSING if missing else 0


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or PYTHONS))
