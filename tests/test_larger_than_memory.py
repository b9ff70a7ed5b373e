"""Files in pieces: what is read bit by bit equals what is read at once, whatever the cuts and the threads."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("typer")
pa = pytest.importorskip("pyarrow")
import pyarrow.csv as pacsv  # noqa: E402
import pyarrow.dataset as pads  # noqa: E402
import pyarrow.parquet as papq  # noqa: E402

from swapcal import Audit  # noqa: E402
from swapcal.cli import command_of, forecasting  # noqa: E402
from swapcal.cli.audit import Reading  # noqa: E402
from swapcal.cli.progress import Run  # noqa: E402
from swapcal.live import Live  # noqa: E402
from swapcal.tables import delimited, formats, frame  # noqa: E402
from swapcal.tables.delimited import Cutter, in_order  # noqa: E402
from swapcal.tables.formats import open_source  # noqa: E402
from swapcal.tables.frame import JudgedColumns  # noqa: E402
from swapcal.tables.sources import InputError  # noqa: E402
from tests.commands import runner, said  # noqa: E402

NAMES = ("audit", "forecast", "fit", "monitor", "predict")
run = runner(*map(command_of, NAMES))

ROWS = 2400
NAMED = ("--prob", "p", "--target", "y", "--features", "x,z,city,flag", "--groups", "city", "--title", "t")


@pytest.fixture(scope="module")
def table() -> Any:
    rng = np.random.default_rng(4)
    x = rng.normal(3.0, 2.0, ROWS).round(3)
    p = np.clip(0.2 + 0.1 * x, 0.05, 0.95).round(3)
    city = rng.choice(["Rome", 'the "old" town', "Bari, south"], ROWS)
    return pa.table(
        {
            "x": x,
            "z": pa.array(rng.integers(0, 9, ROWS), mask=rng.random(ROWS) < 0.1),
            "city": city,
            "flag": rng.random(ROWS) < 0.5,
            "p": p,
            "y": (rng.random(ROWS) < p + 0.1 * (city == "Rome")).astype(int),
        }
    )


@pytest.fixture(scope="module")
def files(table: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    pacsv.write_csv(table, folder / "in.csv")
    papq.write_table(table, folder / "in.parquet")
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    for k in range(3):
        part = table.slice(800 * k, 800)
        for name, write in (("many", papq.write_table), ("texts", pacsv.write_csv)):
            (folder / name).mkdir(exist_ok=True)
            write(part, folder / name / f"part-{k}.{'parquet' if name == 'many' else 'csv'}")
    (folder / "many" / "_SUCCESS").write_text("")
    return folder


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files into dozens of pieces."""
    monkeypatch.setattr(delimited, "BLOCK", 4000)
    monkeypatch.setattr(delimited, "FIRST", 9000)
    monkeypatch.setattr(formats, "JSON_ROWS", 170)
    monkeypatch.setattr(formats, "PARQUET_ROWS", 170)
    monkeypatch.setattr(frame, "ROWS", 170)


FEATURES = {"features": ["x", "z", "city", "flag"], "groups": ["city"]}
COLUMNS = JudgedColumns("p", "y", **{role: tuple(names) for role, names in FEATURES.items()})


def audited(path: Path, jobs: int) -> Audit:
    with open_source(str(path)) as source:
        return Reading(str(path), COLUMNS, None, jobs, Run()).audit(source, None, {"title": "t"})


def alike(one: Audit, other: Audit, rtol: float) -> None:
    assert one.sums.sample.digest == other.sums.sample.digest
    assert one.coordinates[0] == other.coordinates[0]
    for name in ("table", "g", "lower_G", "lower_H"):
        np.testing.assert_allclose(getattr(one.sums.tally, name), getattr(other.sums.tally, name), rtol, 1e3 * rtol)
    for mine, theirs in zip(one.sums.tally.columns(), other.sums.tally.columns(), strict=True):
        assert mine[:2] == theirs[:2]
        np.testing.assert_allclose(mine[2], theirs[2], rtol, 1e3 * rtol)


@pytest.mark.parametrize("name", ["in.csv", "in.parquet", "in.jsonl", "many", "texts"])
def test_the_audit_of_pieces_is_that_of_the_whole(files: Path, table: Any, name: str, small: None) -> None:
    found = audited(files / name, 1)
    alike(found, audited(files / name, 3), 0.0)
    alike(found, Audit.from_frame(table, prob="p", target="y", **FEATURES), 1e-9)


def test_standard_input_is_scaled_by_its_first_batch_and_says_so(files: Path, small: None) -> None:
    text = b"".join((files / "in.csv").read_bytes().splitlines(keepends=True)[:300])
    result = run("audit", "-", *NAMED, stdin=text)
    assert result.exit_code == 0, result.output
    assert "standard input is read only once" in said(result)


LIBRARIES = ["duckdb", "polars", "dataset"]


def query(library: str, files: Path, table: Any) -> Any:
    lazy = {
        "duckdb": lambda: pytest.importorskip("duckdb").from_arrow(table),
        "polars": lambda: pytest.importorskip("polars").from_arrow(table).lazy(),
        "dataset": lambda: pads.dataset(files / "many"),
    }
    return lazy[library]()


@pytest.mark.parametrize("library", LIBRARIES)
def test_queries_are_audited_in_batches(files: Path, table: Any, library: str, small: None) -> None:
    lazy = query(library, files, table)
    seen = frame.batches_of(lazy)
    assert seen is not None
    assert sum(1 for _ in seen) > 1
    found = Audit.from_frame(lazy, prob="p", target="y", **FEATURES)
    alike(found, Audit.from_frame(table, prob="p", target="y", **FEATURES), 1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_queries_are_forecast_in_batches(files: Path, table: Any, library: str, small: None) -> None:
    lazy, rows = query(library, files, table), table.drop_columns(["y"])
    expected = Live(scores=["p"]).run(rows, table["y"].to_numpy())
    for y in ("y", table["y"].to_numpy()):
        live = Live(scores=["p"], drop=["y"])
        np.testing.assert_allclose(live.run(lazy, y).mean, expected.mean, rtol=1e-9)
    names = [f"id {k}" for k in range(ROWS)]
    assert (
        Live(drop=["y"]).run(lazy, "y", ids=names).p.tolist()
        == Live().run(rows, table["y"].to_numpy(), ids=names).p.tolist()
    )
    with pytest.raises(ValueError, match="no column 'z2'; did you mean 'z'"):
        Live().run(lazy, "z2")
    with pytest.raises(ValueError, match="y: given 7, expected one for each row, of which there are more"):
        Live().run(lazy, np.zeros(7))
    with pytest.raises(ValueError, match="y: given 2,401, expected 2,400, one for each row"):
        Live().run(lazy, np.zeros(ROWS + 1))
    with pytest.raises(TypeError, match=r"y: given 1\.0, expected the name of a column, or one for each row"):
        Live().run(lazy, 1.0)


def test_ids_and_times_of_a_query_are_columns_by_name() -> None:
    names, hours = [f"id {k}" for k in range(90)], np.datetime64("2024-01-01T00", "us") + np.arange(90) * 3_600_000_000
    x, y = np.arange(90) % 7, np.arange(90) % 3 % 2
    late = hours + 18_000_000_000
    reader = pa.table({"x": x, "y": y, "id": names, "t": hours, "late": late}).to_reader(max_chunksize=40)
    found = Live().run(reader, "y", ids="id", time="t", label_time="late")
    expected = Live().run(pa.table({"x": x}), y, ids=names, time=hours, label_time=late)
    assert found.p.tolist() == expected.p.tolist()


def test_a_refusal_in_a_later_batch_says_how_many_rows_came_before() -> None:
    y = np.arange(90) % 2
    y[70] = 7
    live = Live()
    with pytest.raises(ValueError, match=r"^after 40 rows: y: given 7 in row 31, expected"):
        live.run(pa.table({"x": np.arange(90), "y": y}).to_reader(max_chunksize=40), "y")
    assert live.status().forecasts == 40


@pytest.mark.parametrize("kind", [pa.decimal128(3, 1), pa.bool_()])
def test_outcomes_of_a_query_may_be_decimals_or_truth_values_beside_nothing(kind: Any) -> None:
    x, y = np.arange(90) % 7, [None if k % 5 == 0 else float(k % 3 % 2) for k in range(90)]
    given = pa.table({"x": x, "y": pa.array(y).cast(kind)}).to_reader(max_chunksize=40)
    found, expected = Live().run(given, "y"), Live().run(pa.table({"x": x}), np.array(y, float))
    assert found.p.tolist() == expected.p.tolist()
    adapters = pytest.importorskip("swapcal.adapters.sklearn")
    given = pa.table({"x": x, "y": pa.array(y).fill_null(1.0).cast(kind)}).to_reader()
    classes = adapters.SwapClassifier(snapshots=2, correction="linear").fit(given, "y").classes_
    assert classes.tolist() == [0, 1]
    assert (classes.dtype == bool) == (kind == pa.bool_())


def test_a_query_without_rows_is_refused_by_whoever_reads_it() -> None:
    adapters = pytest.importorskip("swapcal.adapters.sklearn")
    some = pa.table({"x": np.arange(90.0), "y": np.arange(90) % 2})
    model = adapters.SwapClassifier(snapshots=2, correction="linear").fit(some.to_reader(), "y")
    for mode in ("mean", "hash", "sample"):
        with pytest.raises(ValueError, match="rows: given none, expected at least one"):
            model.set_params(mode=mode).predict_proba(some.select(["x"]).slice(0, 0).to_reader())
    for read in (adapters.SwapClassifier().fit, Live().run):
        with pytest.raises(ValueError, match="rows: given none, expected at least one"):
            read(some.slice(0, 0).to_reader(), "y")


@pytest.mark.parametrize("library", LIBRARIES)
def test_queries_are_fitted_and_scored_in_batches(files: Path, table: Any, library: str, small: None) -> None:
    adapters = pytest.importorskip("swapcal.adapters.sklearn")
    lazy, settings = query(library, files, table), {"snapshots": 2, "correction": "linear", "random_state": 0}
    whole = adapters.SwapClassifier(**settings).fit(table.drop_columns(["y"]), table["y"].to_numpy())
    found = adapters.SwapClassifier(**settings).fit(lazy, "y")
    assert found.feature_names_in_.tolist() == ["x", "z", "city", "flag", "p"]
    for mode in ("mean", "hash", "sample"):
        expected = whole.set_params(mode=mode).predict_proba(table.drop_columns(["y"]))
        asked = found.set_params(mode=mode).predict_proba(_without_y(lazy))
        np.testing.assert_allclose(asked, expected, rtol=1e-9)


def _without_y(lazy: Any) -> Any:
    names = ["x", "z", "city", "flag", "p"]
    return lazy.select(*names) if hasattr(lazy, "select") else lazy.scanner(columns=names).to_reader()


def test_partitions_are_columns(table: Any, tmp_path: Path, small: None) -> None:
    pads.write_dataset(table, tmp_path / "set", format="parquet", partitioning=["city"], partitioning_flavor="hive")
    alike(audited(tmp_path / "set", 2), Audit.from_frame(table, prob="p", target="y", **FEATURES), 1e-9)


def test_a_folder_whose_files_differ_names_the_file(files: Path, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for k, text in enumerate(("p,y\n0.5,1\n", "p,z\n0.5,1\n")):
        (tmp_path / "set" / f"{k}.csv").write_text(text)
    assert "1.csv: given no column 'y'" in said(run("audit", tmp_path / "set", *NAMED[:4]))


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet", "texts"])
def test_forecasts_of_pieces_are_those_of_the_whole(
    files: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles, outs = ("--target", "y", "--score", "p"), []
    for k in range(2):
        if k:
            monkeypatch.setattr(delimited, "BLOCK", 4000)
            monkeypatch.setattr(delimited, "FIRST", 30_000)
            monkeypatch.setattr(formats, "JSON_ROWS", 1000)
            monkeypatch.setattr(formats, "PARQUET_ROWS", 1000)
        out = tmp_path / f"{k}.csv"
        result = run("forecast", files / (name if k else "in.csv"), *roles, "--out", out)
        assert result.exit_code == 0, result.output
        outs.append(pacsv.read_csv(out).select(["row", "y", "p", "mean", "low", "high", "weight"]).to_pandas())
    np.testing.assert_allclose(outs[0].to_numpy(float), outs[1].to_numpy(float), rtol=1e-9)


def test_a_monitor_sees_the_same_rows_whatever_the_pieces(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for block in (delimited.BLOCK, 4000):
        monkeypatch.setattr(delimited, "BLOCK", block)
        out = tmp_path / "found.json"
        run("monitor", files / "in.csv", "--prob", "p", "--target", "y", "--groups", "city,flag", "--json", out)
        found.append(out.read_text())
    assert found[0] == found[1]


def test_an_audit_that_grows_is_that_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(400, 0.5), rng.uniform(-0.3, 0.3, (400, 3))])
    X[:250, 3] = 0.0
    p, y = rng.choice([0.2, 0.6], 400), (rng.random(400) < 0.5).astype(float)
    whole = Audit(p, y, X)
    grown = Audit(p[:250], y[:250], X[:250, :3])
    grown.widen(["constant", "x2", "x3", "x4"])
    grown.add(p=p[250:], y=y[250:], X=X[250:])
    assert grown.sums.sample.digest == whole.sums.sample.digest
    alike(whole, grown, 1e-12)
    np.testing.assert_array_equal(whole.sums.kept().X, grown.sums.kept().X)
    with pytest.raises(ValueError, match="expected those so far"):
        grown.widen(["constant", "other", "x3", "x4"])


def spoilt(files: Path, tmp_path: Path, row: int, column: str, value: str) -> Path:
    with open(files / "in.csv", newline="") as file:
        records = list(csv.reader(file))
    records[row][records[0].index(column)] = value
    path = tmp_path / "bad.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(records)
    return path


@pytest.mark.parametrize("command", ["forecast", "fit", "audit"])
def test_a_broken_row_in_the_middle_is_named_and_leaves_nothing(
    files: Path, tmp_path: Path, command: str, small: None
) -> None:
    column, role = ("p", NAMED[:4]) if command == "audit" else ("x", ("--target", "y"))
    path, out = spoilt(files, tmp_path, 1777, column, "much"), tmp_path / "out.csv"
    result = run(command, path, *role, "--out", out)
    assert result.exit_code == 2
    assert f"row 1777: column {column!r}: given" in said(result)
    assert "'much'" in said(result)
    assert os.listdir(tmp_path) == ["bad.csv"]
    if command == "forecast":
        assert run(command, path, *role, "--out", out, "--on-bad-row", "skip").exit_code == 0
        assert [k for k in range(1, ROWS + 1) if k not in set(pacsv.read_csv(out)["row"].to_pylist())] == [1777]


def test_a_run_that_fails_leaves_the_state_as_it_was(
    files: Path, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasting, "CHECKPOINT", 0.0)
    monkeypatch.setattr(forecasting, "PIECE", 600)
    state, good, bad = tmp_path / "state", files / "in.csv", spoilt(files, tmp_path, 2200, "y", "maybe")
    assert run("forecast", bad, "--target", "y", "--state", state).exit_code == 2
    assert os.listdir(tmp_path) == ["bad.csv"]
    assert run("forecast", good, "--target", "y", "--state", state).exit_code == 0
    before = state.read_bytes()
    result = run("forecast", bad, "--target", "y", "--state", state)
    assert "row 2200: column 'y': given 'maybe'" in said(result)
    assert state.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["bad.csv", "state"]


def test_an_id_given_twice_is_named_by_its_row_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasting, "PIECE", 10)
    path = tmp_path / "in.csv"
    path.write_text("id,x,y\n" + "".join(f"{min(k, 34)},{k}.5,{k % 2}\n" for k in range(1, 40)))
    assert "given '34' again in row 35" in said(run("forecast", path, "--target", "y", "--id", "id"))


def test_a_column_that_begins_empty_is_what_its_first_values_are(tmp_path: Path, small: None) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("x,word,y\n" + "".join(f"{k if k > 900 else ''},{'ab'[k % 2] if k > 900 else ''},{k % 2}\n"
                                           for k in range(2000)))  # fmt: skip
    result = run("forecast", path, "--target", "y", "--out", out)
    assert result.exit_code == 0, result.output
    assert pacsv.read_csv(out).num_rows == 2000


def test_numbers_after_nothing_are_numbers_whatever_the_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, found = tmp_path / "in.csv", []
    path.write_text("x,z,y\n" + "".join(f"{k % 5},{k % 11 / 4 if k > 900 else ''},{k % 3 % 2}\n" for k in range(2000)))
    for block in (1 << 20, 3000):
        monkeypatch.setattr(delimited, "BLOCK", block)
        monkeypatch.setattr(delimited, "FIRST", block)
        out = tmp_path / f"{block}.csv"
        result = run("forecast", path, "--target", "y", "--out", out)
        assert result.exit_code == 0, result.output
        found.append(pacsv.read_csv(out)["mean"].to_pylist())
    assert found[0] == found[1]


def test_of_a_long_file_a_sample_is_fitted_whatever_the_pieces(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, command = [], ("fit", files / "in.csv", "--target", "y", "--rows", 700, "--snapshots", 2)
    for k in range(2):
        if k:
            monkeypatch.setattr(delimited, "BLOCK", 4000)
            monkeypatch.setattr(delimited, "FIRST", 30_000)
        result = run(*command, "--out", tmp_path / f"{k}")
        assert result.exit_code == 0, result.output
        assert "fitting 700 of 2,400 rows, sampled by a hash" in said(result)
        models.append(tmp_path / f"{k}")
    outs = []
    for k, jobs in ((0, 1), (1, 3)):
        out = tmp_path / f"{k}.csv"
        assert (
            run("predict", models[k], files / "in.csv", "--mode", "sample", "--jobs", jobs, "--out", out).exit_code == 0
        )
        outs.append(out.read_bytes())
    assert outs[0] == outs[1]


FIELD = st.sampled_from(["1", "", "a", 'x"y', '"q"', '"a,b"', '"two\nlines"', '"say ""hi"""', "5' 3"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(FIELD, min_size=2, max_size=2), min_size=1, max_size=12), st.integers(1, 40))
def test_blocks_are_cut_between_records(records: list[list[str]], size: int) -> None:
    text = "".join(",".join(record) + "\n" for record in records).encode()
    pieces = [text[k : k + 5] for k in range(0, len(text), 5)]
    blocks = list(Cutter("t", ",", lambda: None).blocks(pieces, size))
    assert b"".join(block.text for block in blocks) == text
    whole = list(csv.reader(io.StringIO(text.decode(), newline="")))
    assert [row for block in blocks for row in csv.reader(io.StringIO(block.text.decode(), newline=""))] == whole
    assert [block.line for block in blocks] == list(
        np.cumsum([1, *(block.text.count(b"\n") for block in blocks)])[: len(blocks)]
    )


def test_a_quote_that_stays_open_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swapcal.tables.delimited.LONGEST", 1000)
    endless = (b'"aaaa\n' if k == 0 else b"b,c\n" for k in range(10**9))
    with pytest.raises(InputError, match="line 1: given a quote that is never closed"):
        list(Cutter("t", ",", lambda: None).blocks(endless, 100))


def test_work_is_done_in_order_and_not_far_ahead() -> None:
    begun: list[int] = []
    results = in_order(lambda k: k, (begun.append(k) or k for k in range(100)), 2)
    assert next(results) == 0
    assert len(begun) == 3
    assert list(results) == list(range(1, 100))


@pytest.mark.parametrize("against", ["linear", "groups"])
@pytest.mark.parametrize("q", [1, 2])
def test_the_union_of_shards_errs_at_most_by_their_sum(against: Any, q: int) -> None:
    rng = np.random.default_rng(2)
    shards = []
    for shift in (0.15, -0.1, 0.0):
        p = rng.choice([0.2, 0.5, 0.8], 300)
        X = np.column_stack([np.full(300, 0.5), rng.uniform(-0.5, 0.5, 300)])
        y = (rng.random(300) < p + shift * np.sign(X[:, 1])).astype(float)
        shards.append(Audit(p, y, X, groups={"side": np.where(X[:, 1] > 0, "r", "l")}))
    union = shards[0] + shards[1] + shards[2]
    assert union.theory.smcal(q, against) <= sum(shard.theory.smcal(q, against) for shard in shards) + 1e-9
    assert union.theory.cal(q) <= sum(shard.theory.cal(q) for shard in shards) + 1e-9
    assert union.theory.sreg() <= sum(shard.theory.sreg() for shard in shards) + 1e-9
    assert union.theory.somni() <= sum(shard.theory.somni() for shard in shards) + 1e-9
