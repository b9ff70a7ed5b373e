"""What the tests of real systems share: one PostgreSQL for all of them."""

from collections.abc import Iterator
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
