"""Use an installed swapcal as a newcomer would: forecast, label, audit, fit, and the commands. Needs no sources."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np

import swapcal


def use_python(version: str) -> None:
    """Forecast, label, certify, audit and fit."""
    assert swapcal.__version__ == version, f"given {swapcal.__version__}, expected {version}"
    assert "site-packages" in swapcal.__file__, swapcal.__file__
    rng = np.random.default_rng(0)
    live = swapcal.Live(groups=["shop"], scores=["model"])
    for order in range(500):
        score = rng.uniform(0.1, 0.6)
        live.forecast({"shop": "ab"[order % 2], "model": score}, id=order)
        live.label(order, rng.random() < score)
    forecast = live.forecast({"shop": "a", "model": 0.3}, id="next")
    assert 0.1 < forecast.mean < 0.6, forecast.mean
    assert live.certificate().holds()
    X = rng.normal(size=(2000, 2))
    y = rng.random(2000) < 1 / (1 + np.exp(-X[:, 0]))
    p = swapcal.SwapClassifier(correction="linear", random_state=0).fit(X[:1500], y[:1500]).predict_proba(X[1500:])
    assert swapcal.Audit(p[:, 1], y[1500:]).verdict() is not None
    assert np.mean((p[:, 1] - y[1500:]) ** 2) < 0.25


def use_commands() -> None:
    """Forecast and audit a file."""
    rng = np.random.default_rng(1)
    with open("orders.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["shop", "model", "bought"])
        rows.writerows(["ab"[k % 2], round(p, 3), int(rng.random() < p)] for k, p in enumerate(rng.uniform(0, 1, 800)))
    command = [str(Path(sys.executable).with_name("swapcal"))]
    wanted = ["--target", "bought", "--groups", "shop"]
    for arguments in (
        ["--version"],
        ["forecast", "orders.csv", *wanted, "--score", "model", "--out", "made.csv", "--report", "made.html"],
        ["audit", "orders.csv", *wanted, "--prob", "model", "--report", "audit.html"],
    ):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    assert len(Path("made.csv").read_text().splitlines()) == 801
    assert Path("audit.html").stat().st_size > 10_000


if __name__ == "__main__":
    use_python(sys.argv[1])
    use_commands()
