import gzip

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("typer")

import pyarrow.csv as pacsv  # noqa: E402
import pyarrow.parquet as papq  # noqa: E402

from swapcal.cli import COMMANDS  # noqa: E402
from swapcal.cli.decide import decide as command  # noqa: E402
from swapcal.losses import cost_matrix, newsvendor, pinball  # noqa: E402
from tests.commands import runner  # noqa: E402

run = runner(command)

TOML = """
[[loss]]
name = "stock"
kind = "newsvendor"
under = "@value"

[[loss]]
name = "triage"
kind = "matrix"
actions = ["home", "watch", "admit"]
costs = [[0, 10], [1, 4], [3, 0]]
"""


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    n = 3000
    return {
        "id": [f"r{i}" for i in range(n)],
        "p": rng.random(n).round(4),
        "y": rng.integers(0, 2, n),
        "value": rng.uniform(0, 4, n),
    }


@pytest.fixture
def source(tmp_path, rows):
    path = tmp_path / "forecasts.csv"
    pacsv.write_csv(pa.table(rows), path)
    return path


def test_the_command_is_registered():
    assert "decide" in COMMANDS


def test_actions_match_the_library(tmp_path, source, rows):
    (tmp_path / "costs.toml").write_text(TOML)
    target = tmp_path / "actions.csv"
    result = run(
        source,
        "--prob",
        "p",
        "--loss",
        "pinball:0.9",
        "--loss-file",
        tmp_path / "costs.toml",
        "--keep",
        "id",
        "-o",
        target,
    )
    assert result.exit_code == 0, result.output
    table = pacsv.read_csv(target)
    assert table["id"].to_pylist() == rows["id"]
    np.testing.assert_array_equal(table["action[pinball:0.9]"], pinball(0.9).best_response(rows["p"]))
    stock = newsvendor(under=rows["value"])
    np.testing.assert_array_equal(table["action[stock]"], stock.best_response(rows["p"]))
    np.testing.assert_allclose(table["expected_cost[stock]"], stock.risk(rows["p"]), rtol=1e-12)
    triage = cost_matrix([[0, 10], [1, 4], [3, 0]]).best_response(rows["p"])
    assert table["action[triage]"].to_pylist() == [("home", "watch", "admit")[int(a)] for a in triage]


def test_every_kind_of_file_gives_the_same_actions(tmp_path, source, rows):
    squeezed, parquet, target = tmp_path / "f.csv.gz", tmp_path / "f.parquet", tmp_path / "out.parquet"
    squeezed.write_bytes(gzip.compress(source.read_bytes()))
    papq.write_table(pa.table(rows), parquet)
    loss = ("--prob", "p", "--loss", "newsvendor:under=@value")
    from_csv = run(source, *loss)
    assert from_csv.exit_code == 0
    for other in (run(squeezed, *loss), run("-", *loss, stdin=source.read_bytes())):
        assert other.stdout == from_csv.stdout
    assert run(parquet, *loss, "--output", target).exit_code == 0
    found = papq.read_table(target)["action[newsvendor:under=@value]"]
    np.testing.assert_array_equal(found, newsvendor(under=rows["value"]).best_response(rows["p"]))


def test_the_summary_reports_realised_costs(source, rows):
    result = run(source, "--prob", "p", "--loss", "pinball:0.9", "--label", "y")
    loss = pinball(0.9)
    assert f"{loss.induced(rows['p'], rows['y']).mean():.6g}" in result.stderr
    assert f"{loss.risk(rows['p']).mean():.6g}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--prob", "q", "--loss", "squared"), "'q'"),
        (("--prob", "p"), "--loss: given none, expected"),
        (("--prob", "p", "--loss", "pinbal:0.9"), "given loss 'pinbal', expected one of"),
        (("--prob", "value", "--loss", "squared"), "expected a probability in [0, 1]"),
        (("--prob", "p", "--loss", "newsvendor:under=@worth"), "'worth'"),
        (("--prob", "p", "--loss", "squared", "--loss", "squared"), "given 'squared' twice"),
        (("--prob", "p", "--loss-file", "missing.toml"), "missing.toml"),
        (("--prob", "id", "--loss", "squared"), "r0"),
    ],
)
def test_bad_input_exits_with_2_and_leaves_no_output(tmp_path, source, arguments, message):
    result = run(source, *arguments, "-o", tmp_path / "out.csv")
    assert result.exit_code == 2
    assert message in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["forecasts.csv"]


def test_missing_and_empty_files(tmp_path):
    assert run(tmp_path / "none.csv", "--prob", "p", "--loss", "squared").exit_code == 2
    (tmp_path / "empty.csv").write_text("p\n")
    empty = run(tmp_path / "empty.csv", "--prob", "p", "--loss", "squared")
    assert empty.exit_code == 2
    assert "given no rows" in empty.stderr
    parquet = tmp_path / "t.parquet"
    papq.write_table(pa.table({"p": [0.5]}), parquet)
    assert "no column 'q'" in run(parquet, "--prob", "q", "--loss", "squared").stderr


def test_a_column_that_the_answer_would_replace_is_not_kept(tmp_path):
    path = tmp_path / "before.csv"
    path.write_text("p,action[squared]\n0.5,1\n")
    result = run(path, "--prob", "p", "--loss", "squared", "--keep", "action[squared]")
    assert result.exit_code == 2
    assert "--keep: given 'action[squared]', expected none of the columns that are written" in result.stderr


def test_a_bad_cost_is_named_by_its_row_of_the_file(tmp_path, rows):
    rows["value"][[1999, 2000]] = 1.0, -1.0
    path = tmp_path / "forecasts.parquet"
    papq.write_table(pa.table(rows), path, row_group_size=1000)
    result = run(path, "--prob", "p", "--loss", "newsvendor:under=@value", "-o", tmp_path / "out.csv")
    assert result.exit_code == 2
    assert "cost under: given -1.0 in row 2001, expected a finite number, at least 0" in result.stderr
