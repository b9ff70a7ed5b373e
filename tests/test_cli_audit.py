"""`swapcal audit` from the outside: files in, files, words and exit codes out."""

import gzip
import json

import numpy as np
import pytest

pytest.importorskip("typer")
pa = pytest.importorskip("pyarrow")
import pyarrow.csv as pacsv  # noqa: E402
import pyarrow.parquet as papq  # noqa: E402

from swapcal import Audit  # noqa: E402
from swapcal.cli import audit as command  # noqa: E402
from swapcal.report import Findings  # noqa: E402
from swapcal.tables import formats  # noqa: E402
from swapcal.tables.formats import open_source  # noqa: E402
from swapcal.tables.outcomes import ReadAs  # noqa: E402
from tests.commands import runner  # noqa: E402

ROWS = 6000
NAMED = ["--prob", "p", "--target", "y"]
run = runner(command.audit)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    p = rng.random(ROWS).round(3)
    shift = rng.choice(["day", "night"], ROWS)
    y = (rng.random(ROWS) < np.clip(p - 0.15 * (shift == "night"), 0, 1)).astype(int)
    return pa.table(
        {
            "p": p,
            "y": y,
            "age": rng.normal(40, 9, ROWS),
            "shift": shift,
            "town": rng.choice(["Rome", "Bari", "Pisa"], ROWS),
            "when": np.datetime64("2020-01-01") + np.arange(ROWS) // 40,
        }
    )


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    papq.write_table(table, folder / "data.parquet", row_group_size=1000)
    pacsv.write_csv(table, folder / "data.csv")
    with gzip.open(folder / "data.csv.gz", "wb") as packed:
        packed.write((folder / "data.csv").read_bytes())
    return folder


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz", "data.parquet"])
def test_all_formats_agree_with_the_library(files, table, name, tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "PARQUET_ROWS", 2500)  # several batches
    result = run(
        files / name, *NAMED, "--features", "age,town", "--groups", "shift", "--groups", "town",
        "--time", "when", "--json", tmp_path / "a.json", "--out", tmp_path / "a.html",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    findings = json.loads((tmp_path / "a.json").read_text())
    assert Findings.of(findings).to_dict() == findings
    assert findings["identity"]["n"] == ROWS
    assert findings["identity"]["first_time"] == "2020-01-01"
    assert findings["headline"]["verdict"] == "miscalibrated"
    assert findings["witnesses"][0]["group"] == "shift = night"
    whole = Audit.from_frame(table, prob="p", target="y", groups=["shift", "town"])
    by_name = {(q["name"], q["against"]): q["value"] for q in findings["quantities"]}
    assert by_name["SMCal_2", "5 groups"] == pytest.approx(whole.theory.smcal(2, "groups"))
    assert by_name["Cal_1", "constant"] == pytest.approx(whole.theory.cal(1))
    page = (tmp_path / "a.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert len(page) < 1_000_000
    assert "shift = night" in result.output


def test_gate_decides_the_exit_code(files):
    arguments = [files / "data.parquet", *NAMED, "--groups", "shift"]
    assert run(*arguments, "--fail-above", "0.05").exit_code == 1
    assert run(*arguments, "--fail-above", "0.9").exit_code == 0
    assert run(*arguments).exit_code == 0
    assert run(*arguments, "--strict").exit_code == 1
    assert run(*arguments, "--strict", "--tolerance", "0.16").exit_code == 3
    small = run(*arguments, "--strict", "--tolerance", "0.9")
    assert (small.exit_code, "small: " in small.output) == (0, True)
    refused = run(*arguments, "--tolerance", "7")
    assert refused.exit_code == 2
    assert "tolerance: given 7, expected a difference of probabilities" in " ".join(refused.output.split())


def test_true_predictions_pass_the_strictest_gate(tmp_path):
    rng = np.random.default_rng(4)
    p = rng.random(4000)
    papq.write_table(pa.table({"p": p, "y": (rng.random(4000) < p) * 1.0}), tmp_path / "true.parquet")
    result = run(tmp_path / "true.parquet", *NAMED, "--fail-above", "0")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prob", "q", "--target", "y"], "no column 'q'"),
        (["--prob", "p", "--target", "y", "--features", "aeg"], "did you mean 'age'?"),
        (["--prob", "age", "--target", "y"], "row 1: column 'age': given"),
        (["--prob", "p", "--target", "shift"], "row 1: column 'shift': given"),
        (["--prob", "p", "--target", "y", "--features", "p"], "given as a feature or group too"),
        (["--prob", "p", "--target", "y", "--levels", "0"], "levels: given 0, expected at least 1"),
        (["--prob", "p", "--target", "y", "--issued", "p,p"], "--issued: given 'p,p', expected three columns"),
        (["--prob", "p", "--target", "y", "--weights", "y"], "column 'y': given 0, expected a positive number"),
        (["--prob", "p", "--target", "y", "--time", "town"], "expected a number or an ISO date or time"),
    ],
)
@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_what_cannot_run_says_why_and_exits_with_2(files, name, arguments, message):
    result = run(files / name, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_missing_and_empty_files(tmp_path):
    result = run(tmp_path / "none.csv", *NAMED)
    assert result.exit_code == 2
    assert "file not found" in result.output
    (tmp_path / "empty.csv").write_text("p,y\n")
    result = run(tmp_path / "empty.csv", *NAMED)
    assert result.exit_code == 2
    assert "no rows" in " ".join(result.output.split())
    (tmp_path / "void.csv").write_text("")
    assert run(tmp_path / "void.csv", *NAMED).exit_code == 2
    (tmp_path / "broken.parquet").write_text("not parquet")
    assert run(tmp_path / "broken.parquet", *NAMED).exit_code == 2


def test_missing_values_are_located(tmp_path):
    (tmp_path / "gap.csv").write_text("p,y\n0.5,1\n,0\n0.2,0\n")
    result = run(tmp_path / "gap.csv", *NAMED)
    assert result.exit_code == 2
    assert "row 2: column 'p': given nothing, expected a probability in [0, 1]" in " ".join(result.output.split())


def test_a_late_bad_batch_names_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "PARQUET_ROWS", 10)
    p = np.full(25, 0.5)
    p[21] = 7.0
    papq.write_table(pa.table({"p": p, "y": np.ones(25)}), tmp_path / "late.parquet")
    result = run(tmp_path / "late.parquet", *NAMED)
    assert result.exit_code == 2
    assert "row 22: column 'p': given 7, expected a probability in [0, 1]" in " ".join(result.output.split())


def test_standard_input(files):
    piped = run("-", *NAMED, "--groups", "shift", stdin=(files / "data.csv").read_bytes())
    assert piped.exit_code == 0, piped.output
    assert piped.stdout == run(files / "data.csv", *NAMED, "--groups", "shift").stdout


def test_memory_is_bounded_by_the_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "PARQUET_ROWS", 20_000)
    monkeypatch.setattr(formats, "BUFFER", 1 << 14)
    rows, columns = 400_000, {name: np.random.default_rng(0).random(400_000) for name in ("p", "y", "a", "b")}
    papq.write_table(pa.table(columns), tmp_path / "long.parquet", row_group_size=20_000, use_dictionary=False)
    before, seen, most = pa.total_allocated_bytes(), 0, 0
    with open_source(str(tmp_path / "long.parquet")) as source:
        for part in source.pieces(dict.fromkeys(["p", "y", "a", "b"], ReadAs.number)):
            seen += len(part.table)
            most = max(most, pa.total_allocated_bytes() - before)
    assert seen == rows
    assert most < rows * 4 * 8 / 4


def test_saved_audits_of_parts_add_up_to_the_audit_of_the_whole(table, tmp_path):
    for name, part in (("a", table.slice(0, 4000)), ("b", table.slice(4000)), ("whole", table)):
        papq.write_table(part, tmp_path / f"{name}.parquet")
    named = [*NAMED, "--features", "age,town", "--groups", "shift", "--time", "when", "--title", "t"]
    first, second, json_file = tmp_path / "a.state", tmp_path / "b.state", tmp_path / "whole.json"
    assert run(tmp_path / "a.parquet", *named, "--state", first).exit_code == 0
    assert run(tmp_path / "b.parquet", *named, "--state", second, "--like", first).exit_code == 0
    assert run(tmp_path / "whole.parquet", *named, "--json", json_file, "--like", first).exit_code == 0
    whole, added = json.loads(json_file.read_text()), (Audit.load(first) + Audit.load(second)).to_dict()
    assert added["identity"]["data_hash"] == whole["identity"]["data_hash"]
    assert added["headline"] == whole["headline"]


def test_the_state_may_not_replace_what_is_read(files, tmp_path):
    state = tmp_path / "a.state"
    assert run(files / "data.csv", *NAMED, "--state", state).exit_code == 0
    before = state.read_bytes()
    assert run(files / "data.csv", *NAMED, "--features", "age", "--state", state, "--like", state).exit_code == 2
    assert state.read_bytes() == before


def test_the_terminal_explains_its_table(files):
    command = [files / "data.csv", *NAMED, "--features", "age", "--groups", "shift"]
    plain = run(*command).stdout
    assert not any(word in plain for word in ("SMCal", "F_1^lin", "SOmni")), plain
    said = " ".join(run(*command, "--details").stdout.split())
    for name in ("SMCal_2", "MCal_1", "SReg", "SOmni", "Cal_1", "F_1^lin", "F_4^lin", "F_[0,1]^aff", "constant"):
        assert f"{name}: " in said, name
    assert "By chance: mean and 95 % band if every prediction were exactly right" in said
    assert "Largest differences" not in said


def test_findings_within_chance_are_announced_as_such(tmp_path):
    rng = np.random.default_rng(3)
    p = rng.random(2000).round(3)
    pacsv.write_csv(pa.table({"p": p, "y": (rng.random(2000) < p).astype(int)}), tmp_path / "true.csv")
    found = run(tmp_path / "true.csv", *NAMED).stdout
    assert "\nno error found: " in found
    assert "Largest differences, none significant:" in found


def test_two_predictors_are_compared_and_the_second_judged(files, tmp_path, table):
    better = table.append_column(
        "q", pa.array(np.clip(table["p"].to_numpy() - 0.15 * (table["shift"].to_numpy() == "night"), 0, 1))
    )
    pacsv.write_csv(better, tmp_path / "two.csv")
    named = [tmp_path / "two.csv", "--target", "y", "--groups", "shift,town"]
    result = run(
        *named, "--prob", "p", "--prob", "q", "--json", tmp_path / "a.json", "-o", tmp_path / "a.html", "--strict"
    )
    assert result.exit_code in (0, 3), result.output
    findings = json.loads((tmp_path / "a.json").read_text())
    assert Findings.of(findings).to_dict() == findings
    assert findings["identity"]["prediction"] == "q"
    assert "q is better than p" in " ".join(result.output.split())
    entry = findings["comparison"]
    assert next(one["verdict"] for one in entry["predictors"]) == "miscalibrated"
    assert entry["groups"][0]["name"] == "shift = night"
    assert entry["groups"][0]["word"] == "better"
    assert "Before and after" in (tmp_path / "a.html").read_text()
    back = run(*named, "--prob", "q", "--prob", "p", "--strict")
    assert back.exit_code == 1
    assert "p is worse than q" in " ".join(back.output.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prob", "a", "--prob", "b", "--prob", "c"], "--prob: given a, b, c, expected one column, or two"),
        (["--prob", "p", "--prob", "p"], "--prob: given p, p, expected one column, or two different ones"),
        (["--prob", "p", "--prob", "age", "--state", "x.audit"], "--state: given with two --prob, expected one"),
        (["--prob", "p", "--prob", "none"], "none"),
    ],
)
def test_refused_predictors(files, options, message):
    result = run(files / "data.csv", "--target", "y", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_labels_and_intersections_in_the_terminal(files, tmp_path):
    path = tmp_path / "labels.toml"
    path.write_text('[columns]\nshift = "Shift"\nage = "Age"\n[values.shift]\nnight = "by night"\n')
    grouped = [files / "data.csv", *NAMED, "--groups", "shift,town"]
    result = run(*grouped, "--titles", path, "--intersections", "--json", tmp_path / "a.json")
    assert result.exit_code == 0, result.output
    assert "Shift = by night" in " ".join(result.output.split())
    names = {one["name"] for one in json.loads((tmp_path / "a.json").read_text())["groups"]}
    assert "shift × town = night × Rome" in names
    path.write_text('[values.shift]\nnoon = "at noon"\n')
    refused = run(*grouped, "--titles", path)
    assert refused.exit_code == 2
    assert "labels.toml: values.shift: given 'noon', expected one of day, night" in " ".join(refused.output.split())


def test_swapped_columns_and_scores_that_are_no_probabilities(table, tmp_path):
    scores = np.asarray(table["p"])
    odd = table.append_column("percent", pa.array(100 * scores)).append_column("logit", pa.array(8 * scores - 4))
    pacsv.write_csv(odd, tmp_path / "odd.csv")
    for prob, target, expected in (
        ("y", "p", "column 'y': given only 0 and 1 where column 'p' is"),
        ("percent", "y", "they look like percentages"),
        ("logit", "y", "they look like logits"),
    ):
        result = run(tmp_path / "odd.csv", "--prob", prob, "--target", target)
        assert result.exit_code == 2
        assert expected in " ".join(result.output.split())


def test_a_search_names_regions_and_reads_the_file_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "PARQUET_ROWS", 4000)
    rng = np.random.default_rng(2)
    p, age, town = rng.uniform(0.2, 0.6, 9000), rng.uniform(20, 80, 9000), rng.choice(["Rome", "Bari", "Pisa"], 9000)
    y = (rng.random(9000) < p + 0.3 * ((age >= 50) & (town == "Rome"))).astype(int)
    papq.write_table(pa.table({"p": p, "y": y, "age": age, "town": town}), tmp_path / "rows.parquet")
    search = ["--features", "age", "--groups", "town", "--search"]
    done = run(tmp_path / "rows.parquet", *NAMED, *search, "--json", tmp_path / "a.json")
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "a.json").read_text())
    regions = {row["title"]: row["n"] for row in found["groups"] if row["name"].startswith("searched region")}
    first = next(name for name in regions if "age ≥" in name and "town = Rome" in name)
    everyone = ((age >= 50) & (town == "Rome")).sum()
    assert 0.65 * everyone < regions[first] < 0.95 * everyone  # but for the half of the first 4,000 rows
    assert f"Where {first}" in " ".join(done.output.split())
    two = run(tmp_path / "rows.parquet", *NAMED, "--prob", "age", "--search")
    assert two.exit_code == 2
    assert "--search: given with two --prob, expected one" in two.output


def test_clusters_are_read_and_an_id_that_was_not_named_is(tmp_path):
    rng = np.random.default_rng(4)
    patient = np.repeat(np.arange(400), 8)
    fate = rng.random(400)[patient]
    p = rng.uniform(0.2, 0.6, 3200)
    y = (np.where(rng.random(3200) < 0.7, fate, rng.random(3200)) < p).astype(int)
    rows = pa.table({"p": p, "y": y, "patient": [f"0{one}" for one in patient], "ward": rng.choice(["a", "b"], 3200)})
    pacsv.write_csv(rows.take(rng.permutation(3200)), tmp_path / "visits.csv")
    given = [tmp_path / "visits.csv", *NAMED, "--groups", "ward", "--json", tmp_path / "a.json"]
    said = run(*given)
    assert said.exit_code == 0, said.output
    warned = json.loads((tmp_path / "a.json").read_text())["headline"]["warnings"]
    assert any("same patient" in one for one in warned)
    result = run(*given, "--clusters", "patient")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "a.json").read_text())
    assert not any("same patient" in one for one in found["headline"]["warnings"])
    assert found["identity"]["settings"]["clusters"] == "patient, about 400"
    assert "signs of whole clusters" in found["identity"]["settings"]["null"]
    whole = Audit.from_frame(rows, prob="p", target="y", groups=["ward"], clusters="patient")
    assert found["headline"]["p_value"] == whole.test().p_value
    compared = run(*given, "--prob", "ward_p", "--clusters", "patient")
    assert compared.exit_code == 2
