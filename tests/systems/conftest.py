"""What the tests of real systems share: one PostgreSQL for all of them, and small disks."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.systems.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator["PostgresServer"]:
    pytest.importorskip("psycopg")
    from tests.systems.postgres_server import PostgresServer

    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres: "PostgresServer") -> Iterator[str]:
    url = postgres.url()
    yield url
    postgres.drop(url)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB, half of it taken by a file named ballast."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here; the limit of pages in tests/test_service_store.py stands in")
    (disk / "ballast").write_bytes(b"x" * (4 << 20))
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)
