"""Audits of rows that stay in a database: equal to those of the rows, safe to quote, suspicious of their answer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlglot

from swapcal import Audit
from swapcal.audit.null import simulate
from swapcal.audit.sql import DIALECTS, SqlAudit, read_scales
from swapcal.cli.audit import audit
from swapcal.kernels import tally as kernel
from swapcal.tables.frame import JudgedColumns
from tests.commands import runner, said

run = runner(audit)
NASTY = 'a"; drop table rows; --'
COLUMNS = JudgedColumns("score", "p", ("age", "pay"), ("town", NASTY), "w")


def table(rows: int = 4000, seed: int = 0, values: int | None = None) -> pd.DataFrame:
    """Return rows with missing numbers, groups and outcomes; the target is called p, to confuse."""
    rng = np.random.default_rng(seed)
    p = rng.random(rows) if values is None else rng.integers(1, values + 1, rows) / (values + 1)
    y: Any = (rng.random(rows) < p).astype(float)
    y[::97] = np.nan
    return pd.DataFrame(
        {
            "score": p,
            "p": y,
            "w": rng.random(rows) + 0.5,
            "age": np.where(rng.random(rows) < 0.05, np.nan, rng.normal(40, 12, rows).round(1)),
            "pay": rng.exponential(1000, rows),
            "town": rng.choice(np.array(["Rome", "O'Neil", None, "(missing)", "1"], object), rows),
            NASTY: rng.integers(0, 3, rows),
        }
    )


@pytest.fixture(scope="module")
def database() -> Any:
    """Return a DuckDB with the tables `rows` and `few`, NULL where pandas has NaN."""
    connection = duckdb.connect()
    for name, frame in {"rows": table(), "few": table(values=40)}.items():
        connection.register("frame", frame)
        chosen = "* REPLACE (CASE WHEN isnan(p) THEN NULL ELSE p END AS p)"
        connection.execute(f"CREATE TABLE {name} AS SELECT {chosen} FROM frame")
    return connection


def asked(database: Any, audit: SqlAudit) -> pd.DataFrame:
    """Return the answer of the second query, by that of the first."""
    return answered(database, audit, read_scales(database.sql(audit.scales_query()).df(), audit.columns.features))


def answered(database: Any, audit: SqlAudit, encoder: Any = None) -> pd.DataFrame:
    found: pd.DataFrame = database.sql(audit.query(encoder)).df()
    return found


def local(frame: pd.DataFrame, **settings: Any) -> Audit:
    columns = {"prob": COLUMNS.prob, **COLUMNS.shared}
    labelled = frame[frame["p"].notna()]
    return Audit.from_frame(labelled, **{k: v for k, v in columns.items() if v is not None}, **settings)


def same_sums(a: Audit, b: Audit) -> None:
    assert a.sums.levels == b.sums.levels
    for name in ("table", "g", "lower_G", "lower_H", "bins"):
        np.testing.assert_allclose(getattr(a.sums.tally, name), getattr(b.sums.tally, name), rtol=1e-9, atol=1e-9)
    for mine, theirs in zip(a.sums.tally.columns(), b.sums.tally.columns(), strict=True):
        assert mine[:2] == theirs[:2]
        np.testing.assert_allclose(mine[2], theirs[2], rtol=1e-9, atol=1e-9)
    assert a.log_loss() == pytest.approx(b.log_loss(), rel=1e-9)
    assert a.sums.histogram.impossible == b.sums.histogram.impossible


@pytest.mark.parametrize(("name", "values"), [("rows", None), ("few", 40)])
def test_the_sums_are_those_of_the_rows(database: Any, name: str, values: int | None) -> None:
    frame = table(values=values)
    found = Audit.from_sums(asked(database, SqlAudit("duckdb", name, COLUMNS)))
    same_sums(found, local(frame, like=found))
    assert found.encoder.cuts == local(frame).encoder.cuts
    np.testing.assert_allclose(
        found.sums.histogram.bins, local(frame, like=found).sums.histogram.bins, rtol=1e-9, atol=1e-9
    )
    assert found.auc()[0] == pytest.approx(local(frame).auc()[0], abs=1e-3)
    assert found.test().value == pytest.approx(local(frame).test().value, rel=1e-9)
    assert any(note.startswith("42 rows without an outcome") for note in found.sums.limits)


def test_levels_weights_and_positive_are_optional(database: Any) -> None:
    columns = JudgedColumns("score", "p")
    found = Audit.from_sums(answered(database, SqlAudit("duckdb", "rows", columns, levels=10)))
    labelled = table()[lambda frame: frame["p"].notna()]
    same_sums(found, Audit(labelled["score"], labelled["p"], levels=10))
    other = SqlAudit("duckdb", "rows", JudgedColumns("score", "town"), positive="O'Neil")
    known = table()[lambda frame: frame["town"].notna()]
    same_sums(Audit.from_sums(answered(database, other)), Audit(known["score"], known["town"] == "O'Neil"))


def test_the_verdict_is_that_of_rows_beyond_the_sample(database: Any) -> None:
    database.execute("CREATE OR REPLACE TABLE wrong AS SELECT * REPLACE (least(score + 0.1, 1) AS score) FROM rows")
    found = Audit.from_sums(asked(database, SqlAudit("duckdb", "wrong", COLUMNS)))
    assert found.verdict().word == "miscalibrated"
    assert found.verdict().low == pytest.approx(
        local(table().assign(score=lambda f: np.minimum(f["score"] + 0.1, 1))).verdict().low, rel=0.1
    )
    findings = found.to_findings()
    assert findings.scores is not None
    assert findings.scores.brier_low is None
    assert any("no rows were read" in note for note in findings.notes)
    assert "no rows were read" in found.to_html()
    with pytest.raises(ValueError, match="losses: given for sums"):
        found.to_findings(losses=["pinball:0.9"])


def test_it_adds_to_audits_of_rows_and_survives_a_file(database: Any, tmp_path: Path) -> None:
    found = Audit.from_sums(asked(database, SqlAudit("duckdb", "rows", COLUMNS)))
    found.save(tmp_path / "sums.audit")
    loaded = Audit.load(tmp_path / "sums.audit")
    more = local(table(seed=1), like=loaded)
    for whole in (loaded + more, more + loaded):
        assert whole.rows == loaded.rows + more.rows
        assert whole.sums.sample.absent
        assert whole.sums.limits == found.sums.limits
    loaded.add(table(seed=1)[lambda frame: frame["p"].notna()])
    same_sums(loaded, found + more)


def test_an_earlier_audit_gives_the_scales(database: Any) -> None:
    encoder = local(table(seed=3)).encoder
    found = Audit.from_sums(answered(database, SqlAudit("duckdb", "rows", COLUMNS), encoder))
    same_sums(found, local(table(), like=found))
    assert found.encoder.cuts == encoder.cuts


def test_small_cells_stay_where_they_are(database: Any) -> None:
    audit = SqlAudit("duckdb", "rows", COLUMNS, min_cell=12)
    answer = asked(database, audit)
    cells = answer[answer["part"].isin(["group", "bin", "level"])]
    assert cells["n"].min() >= 12
    found = Audit.from_sums(answer)
    whole = local(table(), like=found)
    tally, full = found.sums.tally, whole.sums.tally
    np.testing.assert_allclose(tally.table, full.table, rtol=1e-9, atol=1e-9)
    for name, _, sums in full.columns():
        mine = dict(zip(tally.groups[name].names, np.moveaxis(tally.groups[name].table, 1, 0), strict=True))
        left = mine.pop("(cells of fewer than 12 rows)", np.zeros_like(tally.table))
        kept = np.where((sums[:, :, kernel.ROWS] >= 12)[:, :, None], sums, 0.0)
        np.testing.assert_allclose(left, (sums - kept).sum(axis=1), rtol=1e-9, atol=1e-8)
    small = (full.bins[..., kernel.ROWS] < 12) * full.bins[..., kernel.ROWS]
    assert f"{small[:, 1].sum():,.0f} of column 'pay'" in found.sums.limits[-1]
    assert found.test().p_value > 0.001
    assert found.to_html()
    everything = SqlAudit("duckdb", "rows", JudgedColumns("score", "p"), min_cell=5000)
    with pytest.raises(ValueError, match="rows: given none in any level"):
        Audit.from_sums(answered(database, everything))


def test_draws_of_levels_with_suppressed_cells_have_the_variance_of_all_their_rows(database: Any) -> None:
    columns = JudgedColumns("score", "p", ("age",), ("town",))
    found = Audit.from_sums(asked(database, SqlAudit("duckdb", "rows", columns, min_cell=10)))
    design = found.evidence.design
    inside = design.group_variance[:, design.parts[-1]].sum() / found.sums.tally.table[:, kernel.VARIANCE].sum()
    assert 0.3 < inside < 0.9  # of the rest, in cells of ages that were suppressed, only the sum is known
    drawn = simulate(design, {"A": lambda _, residuals: residuals.A, "S": lambda _, residuals: residuals.S}, 4000, 0,
                     None, found.sums.levels)  # fmt: skip
    level = found.sums.tally.table[:, kernel.VARIANCE]
    np.testing.assert_allclose(drawn["A"].var(axis=0), level, rtol=0.12)
    used = design.group_variance > 1.0
    np.testing.assert_allclose(drawn["S"].var(axis=0)[used], design.group_variance[used], rtol=0.15)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_quotes_names_and_parses(dialect: str) -> None:
    names = [NASTY, "O'Neil", "back\\slash", "tick`", "new\nline", "{brace}", "ümlaut", "select"]
    columns = JudgedColumns("score", "p", tuple(names[:4]), tuple(names[4:]), "w")
    audit = SqlAudit(dialect, "schema.rows", columns, positive="it's\\", min_cell=5)
    encoder = read_scales(
        {"name": list(columns.features)}
        | {name: [1.0] * 4 for name in ("n", "centre", "spread")}
        | {"infinite": [0.0] * 4}
        | {f"q{8 * k + side}": [float(k)] * 4 for k in range(1, 8) for side in (-1, 1)},
        columns.features,
    )
    for text in (audit.scales_query(), audit.query(encoder)):
        (tree,) = sqlglot.parse(text, read=dialect)
        assert tree is not None
        quoted = {node.name for node in tree.find_all(sqlglot.exp.Identifier) if node.quoted}
        assert {*columns.features, "schema", "rows"} <= quoted
        assert not list(tree.find_all(sqlglot.exp.Drop))
    texts = {node.name for node in tree.find_all(sqlglot.exp.Literal) if node.is_string}
    assert {*names, "it's\\"} <= texts


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="sql: given 'oracle'"):
        SqlAudit("oracle", "t", COLUMNS)
    with pytest.raises(ValueError, match="clusters: given with sql"):
        SqlAudit("duckdb", "t", replace(COLUMNS, clusters="id"))
    with pytest.raises(ValueError, match="column 'age': given as a feature and as a group"):
        SqlAudit("duckdb", "t", replace(COLUMNS, groups=("age",)))
    with pytest.raises(ValueError, match="min_cell: given -1"):
        SqlAudit("duckdb", "t", COLUMNS, min_cell=-1)
    with pytest.raises(ValueError, match=r"features: given \['age', 'pay'\]"):
        SqlAudit("duckdb", "t", COLUMNS).query()
    encoder = Audit.from_features([0.1], [0], {"town": ["Rome"]}).encoder
    with pytest.raises(ValueError, match="features: given categories"):
        SqlAudit("duckdb", "t", replace(COLUMNS, features=("town",), groups=())).query(encoder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("score = 1.5", "predictions: given 1 rows"),
        ("score = NULL", "predictions: given 1 rows"),
        ("score = 'NaN'", "predictions: given 1 rows"),
        ("p = 2", "outcomes: given 1 rows"),
        ("p = 'NaN'", "outcomes: given 1 rows"),
        ("w = 0", "weights: given 1 rows"),
        ("w = NULL", "weights: given 1 rows"),
        ("age = 'inf'", "features: given 1 rows"),
    ],
)
def test_rows_that_an_audit_refuses_are_counted(database: Any, change: str, message: str) -> None:
    encoder = local(table()).encoder
    first = "(SELECT min(rowid) FROM wrong WHERE p IS NOT NULL)"
    database.execute("CREATE OR REPLACE TABLE wrong AS SELECT * FROM rows")
    database.execute(f"UPDATE wrong SET {change} WHERE rowid = {first}")
    with pytest.raises(ValueError, match=message):
        Audit.from_sums(answered(database, SqlAudit("duckdb", "wrong", COLUMNS), encoder))


def test_missing_numbers_are_a_range_of_their_own(database: Any) -> None:
    database.execute("CREATE OR REPLACE TABLE wrong AS SELECT * REPLACE ('NaN'::DOUBLE AS age, NULL AS pay) FROM rows")
    audit = SqlAudit("duckdb", "wrong", COLUMNS)
    found = Audit.from_sums(asked(database, audit))
    same_sums(found, local(table().assign(age=np.nan, pay=np.nan), like=found))


@pytest.fixture(scope="module")
def answer(database: Any) -> pd.DataFrame:
    return asked(database, SqlAudit("duckdb", "few", COLUMNS))


def edited(answer: pd.DataFrame, part: str, **values: Any) -> pd.DataFrame:
    """Return the answer with numbers of the second row of a part changed."""
    changed = answer.copy()
    row = changed.index[changed["part"] == part][1 if part != "settings" else 0]
    for name, value in values.items():
        changed.loc[row, name] = value(changed.loc[row, name]) if callable(value) else value
    return changed


@pytest.mark.parametrize("part", ["level", "group", "bin"])
@pytest.mark.parametrize(
    "values",
    [
        {"n": -3.0}, {"n": 2.5}, {"n": np.nan}, {"weight": np.nan}, {"weight": -1.0}, {"predicted": np.inf},
        {"residual": lambda r: r + 1}, {"observed": lambda y: y + 5, "residual": lambda r: r + 5},
        {"variance": -0.1}, {"weight2": 0.0}, {"spread": 1e9}, {"fractional": -1.0}, {"level": 0.123},
        {"level": np.nan}, {"name": "other"},
    ],
)  # fmt: skip
def test_edited_sums_are_refused(answer: pd.DataFrame, part: str, values: dict[str, Any]) -> None:
    if part == "level" and "name" in values:
        return
    with pytest.raises(ValueError, match="given"):
        Audit.from_sums(edited(answer, part, **values))


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("product", {"weight": 1e6}), ("product", {"variance": 1e6}), ("product", {"residual": 1e6}),
        ("product", {"name": "height"}), ("product", {"weight": np.nan}), ("level", {"log_loss": np.nan}),
        ("level", {"impossible": -1.0}), ("bin", {"category": "9"}), ("bin", {"category": "x"}),
        ("group", {"category": "Rome"}), ("check", {"name": "rows"}), ("check", {"n": 1e9}),
        ("settings", {"category": "{"}), ("settings", {"category": "{}"}), ("settings", {"category": '{"format": 9}'}),
        ("settings", {"category": '{"format": 1}'}),
    ],
)  # fmt: skip
def test_other_edits_are_refused(answer: pd.DataFrame, part: str, values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="given"):
        Audit.from_sums(edited(answer, part, **values))


def test_answers_that_are_none_are_refused(answer: pd.DataFrame, database: Any) -> None:
    with pytest.raises(ValueError, match="sums: given 0 rows of settings"):
        Audit.from_sums(answer[:0])
    with pytest.raises(ValueError, match="sums: given no column 'spread'"):
        Audit.from_sums(answer.drop(columns="spread"))
    with pytest.raises(ValueError, match="sums: given no column 'part'"):
        Audit.from_sums(table())
    with pytest.raises(ValueError, match="sums: given scales"):
        Audit.from_sums(database.sql(SqlAudit("duckdb", "few", COLUMNS).scales_query()).df())
    with pytest.raises(ValueError, match="sums: given 2 rows of settings"):
        Audit.from_sums(pd.concat([answer, answer]))
    for part in ("level", "group", "bin", "product", "check"):
        with pytest.raises(ValueError, match="given"):
            Audit.from_sums(answer.drop(index=answer.index[answer["part"] == part][0]))
    database.execute("CREATE OR REPLACE TABLE wrong AS SELECT * FROM rows WHERE FALSE")
    with pytest.raises(ValueError, match="rows: given none"):
        Audit.from_sums(answered(database, SqlAudit("duckdb", "wrong", JudgedColumns("score", "p"))))
    with pytest.raises(ValueError, match="scales: given features"):
        read_scales(database.sql(SqlAudit("duckdb", "few", COLUMNS).scales_query()).df(), ["age"])
    shuffled = answer.sample(frac=1.0, random_state=0)
    assert Audit.from_sums(shuffled).sums.sample.digest == Audit.from_sums(answer).sums.sample.digest


def test_the_command_prints_queries_and_reads_their_answers(tmp_path: Path) -> None:
    path, frame = tmp_path / "rows.parquet", table()
    frame["p"] = frame["p"].astype("Int64")
    frame.to_parquet(path)
    options = ["--table", "rows", "--prob", "score", "--target", "p", "--weights", "w", "--features", "age,pay"]
    options += ["--groups", "town", "--groups", NASTY]
    first = run("--sql", "duckdb", *options)
    assert "--scales FILE" in said(first)
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW rows AS SELECT * FROM '{path}'")
    connection.sql(first.stdout.rstrip().rstrip(";")).write_csv(str(tmp_path / "scales.csv"))
    second = run("--sql", "duckdb", *options, "--scales", str(tmp_path / "scales.csv"))
    for name in ("sums.csv", "sums.parquet"):
        answer = connection.sql(second.stdout.rstrip().rstrip(";"))
        (answer.write_csv if name.endswith("csv") else answer.write_parquet)(str(tmp_path / name))
        shown = run("--sums", str(tmp_path / name), "--out", str(tmp_path / "a.html"), "--state",
                    str(tmp_path / f"{name}.audit"))  # fmt: skip
        assert "\nno error found: " in shown.stdout
    loaded = [Audit.load(tmp_path / f"{name}.audit") for name in ("sums.csv", "sums.parquet")]
    same_sums(*loaded)
    assert "no rows were read" in (tmp_path / "a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "FILE: given none"),
        (["--sums", "x.csv", "--prob", "p"], "--prob: given with --sums"),
        (["--sums", "x.csv", "--loss", "squared"], "--loss: given with --sums"),
        (["--sql", "duckdb", "--prob", "p", "--target", "y"], "--table: given none"),
        (["--sql", "duckdb", "--table", "t", "--target", "y"], "--prob: given 0 columns"),
        (
            ["--sql", "duckdb", "--table", "t", "--prob", "p", "--target", "y", "--time", "d"],
            "--time: given with --sql",
        ),
        (["--sql", "mysql", "--table", "t", "--prob", "p", "--target", "y"], "sql: given 'mysql'"),
        (["rows.csv", "--table", "t", "--prob", "p", "--target", "y"], "--table: given with a file"),
    ],
)
def test_the_command_refuses_what_has_no_meaning(arguments: list[str], message: str) -> None:
    found = run(*arguments)
    assert found.exit_code == 2
    assert message in said(found)
