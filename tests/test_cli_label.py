"""`swapcal label`: outcomes by id, any time later; and what a resumed `swapcal forecast` writes and says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")
pacsv = pytest.importorskip("pyarrow.csv")

from swapcal.cli import forecasting  # noqa: E402
from swapcal.cli.forecast import forecast, label  # noqa: E402
from swapcal.live import Live, Refit  # noqa: E402
from tests.commands import runner, said  # noqa: E402

run = runner(forecast, label)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Forecasts of forty orders without outcomes, made on some days."""
    rows = [f"{k},2024-01-{1 + k // 2:02},{'ab'[k % 2]}," for k in range(40)]
    (tmp_path / "orders.csv").write_text("\n".join(["order,day,shop,bought", *rows]) + "\n")
    state = tmp_path / "state"
    result = run(
        "forecast", tmp_path / "orders.csv", "--target", "bought", "--id", "order", "--time", "day", "--state", state
    )
    assert result.exit_code == 0, result.output
    return state


def labels(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["order,bought,known", *rows]) + "\n")
    return path


ROLES = ("--target", "bought", "--id", "order")


def test_labels_are_learned_by_id(made: Path, tmp_path: Path) -> None:
    file = labels(tmp_path / "labels.csv", "3,yes,2024-02-01", "0,no,2024-02-02", "5,,", "3,yes,2024-02-03")
    result = run("label", made, file, *ROLES, "--time", "known")
    assert result.exit_code == 0, result.output
    for words in ("2 learned", "1 repeated", "1 without an outcome", "outcomes: 2 of 40 learned (38 open)"):
        assert words in said(result)
    by_hand = Live.load(made)
    assert by_hand.status().open == 38
    assert not by_hand.label("3", 1)
    again = run("label", made, file, *ROLES)
    assert "3 repeated" in said(again)


def test_outcomes_of_a_chosen_part_have_weights(made: Path, tmp_path: Path) -> None:
    by_hand, file = Live.load(made), tmp_path / "labels.csv"
    file.write_text("order,bought,counts\n3,1,2.5\n0,0,1\n5,,\n")
    result = run("label", made, file, *ROLES, "--weight", "counts")
    assert result.exit_code == 0, result.output
    by_hand.label("3", 1, weight=2.5)
    by_hand.label("0", 0)
    status = Live.load(made).status()
    assert (status.weighted, status.issued) == (1, by_hand.status().issued)
    before = made.read_bytes()
    for bad in ("0", "-1", "", "inf"):
        file.write_text(f"order,bought,counts\n4,1,{bad}\n")
        assert "row 1: weight: given" in said(run("label", made, file, *ROLES, "--weight", "counts"))
    assert made.read_bytes() == before


def test_a_bad_label_stops_and_changes_nothing_or_is_skipped(made: Path, tmp_path: Path) -> None:
    before = made.read_bytes()
    file = labels(tmp_path / "labels.csv", "3,1,", "99,1,", "4,0,", "3,0,")
    result = run("label", made, file, *ROLES)
    assert result.exit_code == 2
    assert "row 2: label: given id '99'" in said(result)
    assert made.read_bytes() == before
    result = run("label", made, file, *ROLES, "--on-bad-row", "skip")
    assert result.exit_code == 0, result.output
    for words in ("2 learned", "1 of no forecast", "1 labelled otherwise before"):
        assert words in said(result)
    file = labels(tmp_path / "others.csv", "7,maybe,", ",1,", "--8,1,", f"{'9' * 5000},1,", "8,,", "9,1,")
    result = run("label", made, file, *ROLES, "--on-bad-row", "skip")
    assert result.exit_code == 0, result.output
    for words in (
        "1 learned", "1 without an outcome", "2 of no forecast", "1 without an id",
        "1 with something else than an outcome",
    ):  # fmt: skip
        assert words in said(result)
    assert "row 1: column 'bought'" in said(run("label", made, labels(tmp_path / "l.csv", "7,maybe,"), *ROLES))
    assert "no such state" in said(run("label", tmp_path / "none", file, *ROLES))
    number = run("label", made, labels(tmp_path / "l.csv", "7,1,3"), *ROLES, "--time", "known")
    assert "row 1: time: given a number, expected a date as for the other times" in said(number)


def test_outcomes_of_which_none_is_the_positive_one_are_learned_and_said(made: Path, tmp_path: Path) -> None:
    file = labels(tmp_path / "labels.csv", "3,no,", "4,no,", "5,,")
    result = run("label", made, file, *ROLES, "--positive", "sold")
    assert result.exit_code == 0, result.output
    assert "2 learned" in said(result)
    assert "--positive: given 'sold', expected a value of column 'bought', such as 'no'" in said(result)
    nothing = run("label", made, labels(tmp_path / "labels.csv", "6,,"), *ROLES, "--positive", "sold")
    assert "--positive" not in said(nothing)


def test_ids_may_be_numbers_in_python_and_text_in_files(tmp_path: Path) -> None:
    live = Live()
    live.forecast_many([{"a": 1.0}, {"a": 2.0}], [17, "18"])
    live.save(tmp_path / "state")
    file = labels(tmp_path / "labels.csv", "17,1,", "18,0,")
    assert "2 learned" in said(run("label", tmp_path / "state", file, *ROLES))


def test_a_resumed_run_counts_on_and_tells_its_own_totals(made: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.csv"
    more.write_text("order,day,shop,bought\n40,2024-03-01,a,1\n41,2024-03-02,b,0\n")
    arguments = (more, *ROLES, "--time", "day", "--state", made, "--out", tmp_path / "out.csv")
    result = run("forecast", *arguments)
    assert result.exit_code == 0, result.output
    assert pacsv.read_csv(tmp_path / "out.csv")["row"].to_pylist() == [41, 42]
    assert "this run: 2 forecasts, 2 outcomes learned; with all before: outcomes: 2 of 42 learned (40 open)" in said(
        result
    )


def test_a_state_does_not_mix_dates_and_numbers(made: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.csv"
    more.write_text("order,day,shop,bought\n40,2000000000,a,1\n")
    result = run("forecast", more, *ROLES, "--time", "day", "--state", made)
    assert result.exit_code == 2
    assert "time: given a number, expected a date as for the other times" in said(result)


@pytest.mark.parametrize("name", ["out", "out.xlsx", "out.csv.zip", "out.parquet.gz"])
def test_an_output_says_its_format(made: Path, tmp_path: Path, name: str) -> None:
    result = run("forecast", tmp_path / "orders.csv", *ROLES, "--out", tmp_path / name)
    assert result.exit_code == 2
    assert "--out: given" in said(result)
    assert not (tmp_path / name).exists()


def test_checkpoints_go_on_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state saved in the middle knows exactly the rows that were forecast, none that was only read ahead."""
    monkeypatch.setattr(forecasting, "PIECE", 100)
    monkeypatch.setattr(forecasting, "CHECKPOINT", 0.0)
    rng = np.random.default_rng(0)
    rows = [f"{a},{int(rng.random() < 0.3)}" for a in rng.normal(size=350).round(3)]
    saved: list[bytes] = []
    save = Live.save

    def keep(self: Live, path: Any) -> None:
        save(self, path)
        saved.append(Path(path).read_bytes())

    monkeypatch.setattr(Live, "save", keep)
    (tmp_path / "in.csv").write_text("\n".join(["a,y", *rows]) + "\n")
    whole = run(
        "forecast", tmp_path / "in.csv", "--target", "y", "--state", tmp_path / "s", "--out", tmp_path / "o.csv"
    )
    assert whole.exit_code == 0, whole.output
    assert len(saved) == 5
    (tmp_path / "s").write_bytes(saved[1])
    (tmp_path / "rest.csv").write_text("\n".join(["a,y", *rows[200:]]) + "\n")
    arguments = ("--target", "y", "--state", tmp_path / "s", "--out", tmp_path / "r.csv")
    assert run("forecast", tmp_path / "rest.csv", *arguments).exit_code == 0
    ours, theirs = (pacsv.read_csv(tmp_path / name) for name in ("o.csv", "r.csv"))
    assert ours.slice(200).equals(theirs)


def test_trees_are_saved_beside_the_state_and_go_on_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = pytest.importorskip("sklearn.tree")
    monkeypatch.setattr(forecasting, "boosted_trees", lambda: tree.DecisionTreeClassifier(random_state=0))
    rng = np.random.default_rng(0)
    rows = [
        f"{a},{b},{int(rng.random() < 0.2 + 0.6 * ((a > 0) ^ (b > 0)))}" for a, b in rng.normal(size=(1300, 2)).round(3)
    ]

    def forecasts(name: str, part: list[str], *more: Any) -> list[float]:
        (tmp_path / "in.csv").write_text("\n".join(["a,b,y", *part]) + "\n")
        result = run("forecast", tmp_path / "in.csv", "--target", "y", "--trees", "--out", tmp_path / name, *more)
        assert result.exit_code == 0, result.output
        assert "trees: " in said(result)
        means: list[float] = pacsv.read_csv(tmp_path / name)["mean"].to_pylist()
        return means

    whole, state = forecasts("whole.csv", rows), ("--state", tmp_path / "s")
    halves = forecasts("one.csv", rows[:700], *state) + forecasts("two.csv", rows[700:], *state)
    assert whole == halves


def test_labels_reach_a_state_with_trees_which_never_know_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = pytest.importorskip("sklearn.tree")
    monkeypatch.setattr(forecasting, "boosted_trees", lambda: tree.DecisionTreeClassifier(random_state=0))
    (tmp_path / "in.csv").write_text("\n".join(["order,a,bought", *(f"{k},{k % 7}," for k in range(30))]) + "\n")
    state = tmp_path / "s"
    assert run("forecast", tmp_path / "in.csv", *ROLES, "--trees", "--state", state).exit_code == 0
    early = state.read_bytes()
    assert run("label", state, labels(tmp_path / "l.csv", "3,1,", "4,0,"), *ROLES).exit_code == 0
    trees = Refit.load(forecasting.beside(state), tree.DecisionTreeClassifier())
    for _ in range(3):
        trees.learn({"a": 1}, None, None, 1.0)
    trees.save(forecasting.beside(state))
    state.write_bytes(early)
    refused = run("label", state, tmp_path / "l.csv", *ROLES)
    assert refused.exit_code == 2
    assert "saved with the state" in said(refused)
