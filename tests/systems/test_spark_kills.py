"""An executor and then the driver are killed in the middle of a stream: the answers are those of an undisturbed run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
pytest.importorskip("sklearn")

import pyarrow.parquet as pq

from tests.systems import spark_events, spark_session

pytestmark = [
    pytest.mark.systems,
    pytest.mark.skipif(not spark_session.java_is_there(), reason=spark_session.LACKING),
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="no /proc here, in which executors are found"),
]

PATIENCE = 300.0  # seconds; a lonely machine needs ten


class Query:
    """The stream of `spark_events` in a session of its own, all of whose processes are one group."""

    def __init__(self, folder: Path, master: str) -> None:
        self.folder = folder
        command = [sys.executable, "-W", "ignore", "-m", "tests.systems.spark_events", str(folder), master]
        self.log = (folder / "log").open("ab")
        here = Path(__file__).parents[2]
        self.process = subprocess.Popen(command, cwd=here, start_new_session=True, stdout=self.log, stderr=self.log)

    def wait_for_batch(self, number: int) -> None:
        """Wait until a micro-batch has begun."""
        end = time.monotonic() + PATIENCE
        while not (self.folder / "checkpoint" / "offsets" / str(number)).exists():
            assert self.process.poll() is None, (self.folder / "log").read_text()[-3000:]
            assert time.monotonic() < end, "the stream does not move"
            time.sleep(0.02)

    def kill_an_executor(self) -> None:
        """Kill -9 one of the two executors."""
        os.kill(next(self._executors()), signal.SIGKILL)

    def _executors(self) -> Iterator[int]:
        for entry in Path("/proc").iterdir():
            try:
                own = entry.name.isdigit() and os.getpgid(int(entry.name)) == self.process.pid
                if own and b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                    yield int(entry.name)
            except OSError:  # it ended while we looked
                continue

    def kill(self) -> None:
        """Kill -9 the driver and all that belongs to it."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def finish(self) -> None:
        """Wait for the end of the stream."""
        assert self.process.wait(PATIENCE) == 0, (self.folder / "log").read_text()[-3000:]
        self.log.close()


def test_kills_in_the_middle_of_a_stream_change_no_answer(tmp_path: Path) -> None:
    rows = spark_events.events()
    spark_events.write(tmp_path / "in", rows, files=5)
    first = Query(tmp_path, spark_session.MASTER)
    try:
        first.wait_for_batch(1)
        first.kill_an_executor()
        first.wait_for_batch(3)
    finally:
        first.kill()
    assert not (tmp_path / "answers.parquet").exists(), "the stream was over before it was killed"
    second = Query(tmp_path, "local[2]")  # another cluster goes on as well
    try:
        second.finish()
    finally:
        if second.process.poll() is None:
            second.kill()
    spark_events.check(pq.read_table(tmp_path / "answers.parquet"), rows)
