"""The action's shell steps, run as a hosted job would run them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

yaml = pytest.importorskip("yaml")
pytest.importorskip("typer")
pytest.importorskip("pyarrow")

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


def step(name: str, folder: Path, given: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a step with the inputs given, others at their defaults, and `folder` as the job's."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    inputs = {key: given.get(key, str(one.get("default", ""))) for key, one in action["inputs"].items()}
    assert {key for key, one in action["inputs"].items() if one.get("required")} <= {*given}
    (found,) = (one for one in action["runs"]["steps"] if one["name"] == name)

    def value(expression: "re.Match[str]") -> str:
        either = [part.strip() for part in expression[1].split("||")]
        known = {"github.action_path": str(ROOT)} | {f"inputs.{key}": text for key, text in inputs.items()}
        return next(filter(None, (known[part] for part in either)), "")

    variables = {key: re.sub(r"\$\{\{(.*?)\}\}", value, text) for key, text in found["env"].items()}
    files = {"GITHUB_STEP_SUMMARY": "summary.md", "GITHUB_OUTPUT": "outputs", "RUNNER_TEMP": "temp"}
    variables |= {key: str(folder / file) for key, file in files.items()}
    variables["PATH"] = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", found["run"]]
    return subprocess.run(command, env=os.environ | variables, cwd=folder, capture_output=True, text=True)


def write(path: Path, error: float) -> dict[str, str]:
    """Write forecasts that are off by `error` at night; return the inputs that name their columns."""
    rng = np.random.default_rng(0)
    p, night = rng.choice([0.2, 0.4, 0.6], 1500), np.arange(1500) % 2
    y = rng.random(1500) < p + error * night
    lines = [f"{a},{int(b)},{'night' if c else 'day'}" for a, b, c in zip(p, y, night, strict=True)]
    path.write_text("\n".join(["p,late,shift of work", *lines]))
    return {"file": path.name, "prob": "p", "target": "late", "groups": "shift of work"}


@pytest.mark.parametrize(("error", "code", "verdict"), [(0.3, 1, "miscalibrated"), (0.0, 0, "no error found")])
def test_the_gate(tmp_path: Path, error: float, code: int, verdict: str) -> None:
    given = write(tmp_path / "my rows.csv", error)
    done = step("Audit", tmp_path, given | {"options": "--title Lateness --seed 1"})
    assert done.returncode == code, done.stderr
    assert (tmp_path / "outputs").read_text() == f"verdict={verdict}\n"
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("# Model card: Lateness\n")
    assert "shift of work = night" in summary
    assert {path.name for path in (tmp_path / "temp" / "swapcal").iterdir()} == {
        "report.html", "card.md", "findings.json"
    }  # fmt: skip


def test_what_cannot_run_has_its_exit_code_and_no_verdict(tmp_path: Path) -> None:
    done = step("Audit", tmp_path, {"file": "none.csv", "prob": "p", "target": "y"})
    assert done.returncode == 2
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(("given", "package"), [({}, f"{ROOT}[cli]"), ({"package": "swapcal"}, "swapcal[cli]")])
def test_what_is_installed(tmp_path: Path, given: dict[str, Any], package: str) -> None:
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)
    done = step("Install", tmp_path, {"file": "f", "prob": "p", "target": "y", **given})
    assert done.stdout.split("\n") == ["-m", "pip", "install", "--quiet", package, ""]
