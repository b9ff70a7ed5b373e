"""Flights over HTTP with their real delays, a kill −9 in the middle, and the proof that nothing was lost.

python examples/demo_service.py [--rows 20000] [--store flights.db] [--stay]
"""

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from swapcal.cli.progress import Output, Run, bar, running
from swapcal.datasets.flights import FEATURES, GROUPS, flights
from swapcal.service.client import Client, Issued

NAME = "flights"
HOUR = 3600.0
START = 300.0
"""Seconds a service may take to become ready: the first start on a machine compiles."""


class ServiceProcess:
    """A service in a process of its own, on a port that a restart finds again."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.port = "0"
        self.url = ""
        self.start()

    def start(self) -> float:
        """Start it and return the seconds until it was ready."""
        began = time.perf_counter()
        command = [sys.executable, "-m", "swapcal", "serve", "--store", str(self.store), "--port", self.port]
        self._running = subprocess.Popen([*command, "--log", "none"], stdout=subprocess.PIPE, text=True)
        assert self._running.stdout is not None
        self.url = self._running.stdout.readline().rsplit(" ", 1)[-1].strip()
        if not self.url.startswith("http"):
            raise OSError(f"the service did not start: exit code {self._running.wait()}")
        self.port = self.url.rsplit(":", 1)[-1]
        with Client(self.url, patience=START) as client:
            client.forecasters()
        return time.perf_counter() - began

    def kill(self) -> None:
        """Kill −9."""
        self._running.send_signal(signal.SIGKILL)
        self._over()

    def stop(self) -> int:
        """Ask it to stop and return its exit code."""
        if self._running.poll() is None:
            self._running.terminate()
        return self._over()

    def _over(self) -> int:
        code = self._running.wait()
        assert self._running.stdout is not None
        self._running.stdout.close()
        return code


def demo_service(
    rows: Annotated[int, typer.Option(help="How many flights.", min=100)] = 20_000,
    store: Annotated[Path | None, typer.Option(help="Where to keep the log; by default it is thrown away.")] = None,
    stay: Annotated[bool, typer.Option(help="Go on serving at the end, until Ctrl-C.")] = False,
) -> None:
    """Forecast flights over HTTP, tell each outcome when it became known, and kill the service −9 in the middle.

    The service is started again, the client goes on where it was; in the end every forecast that was acknowledged is
    asked for once more, and the whole log is replayed.
    """
    with running("demo-service") as run, _place(store) as path:
        _demo(rows, path, stay, Output(), run)


@contextmanager
def _place(store: Path | None) -> Iterator[Path]:
    if store is not None:
        if store.exists():
            raise ValueError(f"--store: given {store}, which exists; expected a new file")
        yield store
        return
    folder = tempfile.mkdtemp(prefix="swapcal-")
    try:
        yield Path(folder) / "flights.db"
    finally:
        shutil.rmtree(folder)


def _demo(rows: int, store: Path, stay: bool, console: Console, run: Run) -> None:
    run.kept = f"what was acknowledged is in {store}" if store.exists() else "nothing was written"
    with console.status("reading flights and weather"):
        hours = list(_by_hour(flights(arrivals=True).slice(0, rows)))
    with console.status("starting the service; the first time it compiles"):
        service = ServiceProcess(store)
    try:
        restart, seconds, issued = _played(hours, service, console)
        with console.status("asking for every forecast again"):
            lost = _lost(hours, service.url, issued)
        with Client(service.url) as client:
            status, about = client.status(NAME), client.certificate(NAME)["sentence"]
        console.print(_figures(rows, seconds, restart, lost, status))
        console.print(status["sentence"], about, sep="\n", highlight=False, soft_wrap=True)
        console.print(f"The log: {store}, {store.stat().st_size / 1e6:,.0f} MB. Computed again from it:", markup=False)
        console.file.flush()
        same = subprocess.run([sys.executable, "-m", "swapcal", "replay", "--store", str(store)], check=False)
        if stay:
            console.print(f"Dashboard: {service.url}/forecasters/{NAME} (Ctrl-C ends it)", highlight=False)
            _until_interrupted()
        else:
            again = "python examples/demo_service.py --store flights.db --stay"
            console.print(f"The dashboard was at {service.url}/; to look at it: {again}", highlight=False)
    finally:
        code = service.stop()
    if lost or same.returncode or code:
        raise ValueError(f"{lost} forecasts lost, replay exit code {same.returncode}, service exit code {code}")


def _by_hour(table: Any) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Yield what happens in each hour: the forecasts to be made, and the outcomes that have become known."""
    records = table.select(list(FEATURES)).to_pylist()
    t, known, matures = (
        table[name].to_numpy().astype("datetime64[s]").astype(float) for name in ("t", "known", "matures")
    )
    y = table["y"].to_pylist()
    waiting: list[int] = sorted(range(len(y)), key=lambda k: known[k])
    made = told = 0
    while told < len(y):
        end = HOUR * (1 + (t[made] if made < len(y) else known[waiting[told]]) // HOUR)
        forecasts, outcomes = [], []
        while made < len(y) and t[made] < end:
            forecasts.append({"id": made, "record": records[made], "time": t[made], "matures": matures[made]})
            made += 1
        while told < len(y) and known[waiting[told]] < end:
            row = waiting[told]
            outcomes.append({"id": row, "y": y[row], "time": known[row]})
            told += 1
        yield forecasts, outcomes


def _played(hours: list[Any], service: ServiceProcess, console: Console) -> tuple[float, float, dict[str, Issued]]:
    """Play all hours, with a kill in the middle of one; returns what the restart took, all took, and all answers."""
    issued: dict[str, Issued] = {}
    restarts: list[float] = []

    def interrupt() -> None:
        service.kill()
        restarts.append(service.start())

    began = time.perf_counter()
    with Client(service.url) as client, bar(console, "forecasting over HTTP", "flights") as shown:
        client.create(NAME, groups=list(GROUPS))
        for number, (forecasts, outcomes) in enumerate(hours):
            if number == len(hours) // 2:
                killer = threading.Timer(0.01, interrupt)
                killer.start()
            issued |= {answer.id: answer for answer in client.forecasts(NAME, forecasts)}
            for answer in client.outcomes(NAME, outcomes):
                if answer.get("state") not in ("learned", "held", "parked", "repeated"):
                    raise ValueError(f"an outcome was refused: {answer}")
            shown.to(len(issued), (number + 1) / len(hours), "killed and back" if restarts else "")
        killer.join()
    return restarts[0], time.perf_counter() - began, issued


def _lost(hours: list[Any], url: str, issued: dict[str, Issued]) -> int:
    """Return how many forecasts the service no longer knows as it acknowledged them: the same words again must tell."""
    with Client(url) as client:
        again = client.forecasts(NAME, (event for forecasts, _ in hours for event in forecasts))
        return sum(issued[answer.id] != answer for answer in again)


def _figures(rows: int, seconds: float, restart: float, lost: int, status: dict[str, Any]) -> Table:
    brier = status["brier"]
    table = Table(title="Flights over HTTP", show_header=False)
    for name, value in (
        ("forecasts, each with its outcome at its real time", f"{rows:,}"),
        ("requests' rows per second, one client, kill included", f"{2 * rows / seconds:,.0f}"),
        ("killed −9 in the middle; ready again after", f"{restart:.1f} s"),
        ("acknowledged forecasts lost or changed", f"{lost}"),
        ("outcomes known for", f"{status['coverage']:.1%} of the forecasts"),
        ("waiting for their maturity, or for an outcome", f"{status['held']:,}, {status['open']:,}"),
        ("Brier score of the mean forecast", f"{brier['forecast']:.4f}"),
        (f"of the best expert ({brier['best_expert_name']})", f"{brier['best_expert']:.4f}"),
        ("of the base rate", f"{brier['base_rate']:.4f}"),
    ):
        table.add_row(name, value)
    return table


def _until_interrupted() -> None:
    try:
        signal.pause()
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    typer.run(demo_service)
