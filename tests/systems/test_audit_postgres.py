"""The audit in a real PostgreSQL: the queries run there, and their sums are those of the rows."""

import io
from collections.abc import Iterator
from typing import Any

import pandas as pd
import psycopg
import pytest

from swapcal import Audit
from swapcal.audit.sql import SqlAudit, read_scales
from swapcal.tables.frame import JudgedColumns
from tests.systems.postgres_server import PostgresServer
from tests.test_audit_sql import COLUMNS, NASTY, local, same_sums, table

pytestmark = pytest.mark.systems


@pytest.fixture(scope="module")
def connection(postgres: PostgresServer) -> Iterator[Any]:
    """Return a connection to a database with the tables `rows` and `few`."""
    with psycopg.connect(postgres.url()) as found:
        for name, frame in {"rows": table(), "few": table(values=40)}.items():
            nasty = NASTY.replace('"', '""')
            types = f'score float8, p float8, w float8, age float8, pay float8, town text, "{nasty}" int'
            found.execute(f"CREATE TABLE {name} ({types})")
            with found.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False):
                    copy.write_row(row)
        yield found


def answered(connection: Any, query: str) -> pd.DataFrame:
    """Return an answer as `psql --csv` would write it."""
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT WITH CSV HEADER") as copy:
        text = b"".join(bytes(part) for part in copy).decode()
    return pd.read_csv(io.StringIO(text), dtype={"part": str, "name": str, "category": str}, keep_default_na=True)


@pytest.mark.parametrize(("name", "values"), [("rows", None), ("few", 40)])
def test_the_sums_are_those_of_the_rows(connection: Any, name: str, values: int | None) -> None:
    audit = SqlAudit("postgres", f"public.{name}", COLUMNS)
    encoder = read_scales(answered(connection, audit.scales_query()), COLUMNS.features)
    found = Audit.from_sums(answered(connection, audit.query(encoder)))
    same_sums(found, local(table(values=values), like=found))
    assert found.encoder.cuts == local(table(values=values)).encoder.cuts
    assert connection.execute("SELECT count(*) FROM rows").fetchone() == (4000,)


def test_nan_infinity_text_and_truth_values(connection: Any) -> None:
    connection.execute("CREATE TEMP TABLE odd AS SELECT score, p = 1 AS happened, 'NaN'::float8 AS age FROM rows")
    audit = SqlAudit("postgres", "odd", JudgedColumns("score", "happened", ("age",)), positive="true")
    encoder = read_scales(answered(connection, audit.scales_query()), ["age"])
    found = Audit.from_sums(answered(connection, audit.query(encoder)))
    assert found.sums.tally.bins[:, 0, :8].sum() == 0
    assert found.rows == table()["p"].notna().sum()
    connection.execute("UPDATE odd SET age = '-infinity' WHERE score = (SELECT max(score) FROM odd)")
    with pytest.raises(ValueError, match="infinite values"):
        read_scales(answered(connection, audit.scales_query()), ["age"])
    with pytest.raises(ValueError, match="features: given 1 rows"):
        Audit.from_sums(answered(connection, audit.query(encoder)))


def test_small_cells_stay_where_they_are(connection: Any) -> None:
    audit = SqlAudit("postgres", "rows", COLUMNS, min_cell=20)
    encoder = read_scales(answered(connection, audit.scales_query()), COLUMNS.features)
    answer = answered(connection, audit.query(encoder))
    assert answer[answer["part"].isin(["group", "bin", "level"])]["n"].min() >= 20
    assert Audit.from_sums(answer).verdict().word == "no error found"
