import gzip
import json

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("typer")

import pyarrow.csv as pacsv  # noqa: E402
import pyarrow.parquet as papq  # noqa: E402

from swapcal.batch.model import Model  # noqa: E402
from swapcal.batch.settings import FitSettings  # noqa: E402
from swapcal.cli import COMMANDS  # noqa: E402
from swapcal.cli.fit import fit, predict  # noqa: E402
from swapcal.cli.rows import GroupGaps  # noqa: E402
from tests.commands import runner  # noqa: E402

run = runner(fit, predict)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 4000
    x, shop = rng.normal(size=n), rng.choice(["a", "b", "c"], n)
    member = rng.random(n) < 0.4
    truth = 1 / (1 + np.exp(-x - 1.5 * (shop == "b") + member))
    columns = {
        "id": np.arange(n),
        "x": np.where(rng.random(n) < 0.05, np.nan, x.round(3)),
        "shop": shop,
        "member": member,
        "p": (1 / (1 + np.exp(-x))).round(4),
        "y": (rng.random(n) < truth).astype(int),
    }
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()}), truth


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    pacsv.write_csv(table[0], folder / "train.csv")
    papq.write_table(table[0], folder / "train.parquet")
    (folder / "train.csv.gz").write_bytes(gzip.compress((folder / "train.csv").read_bytes()))
    done = run("fit", folder / "train.csv", "--target", "y", "--score", "p", "--groups", "shop", "--drop", "id",
               "--out", folder / "model.swapcal")  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder


def test_commands_are_listed():
    assert {"fit", "predict"} <= set(COMMANDS)


def test_fit_reports_its_certificate_and_predict_improves_the_score(files, table):
    rows, truth = table
    done = run("predict", files / "model.swapcal", files / "train.csv", "--out", files / "p.csv", "--keep", "id")
    assert done.exit_code == 0, done.output
    found = pacsv.read_csv(files / "p.csv")
    assert found.column_names == ["id", "mean"]
    assert np.array_equal(found["id"].to_numpy(), rows["id"].to_numpy())
    error, before = (np.mean((p - truth) ** 2) for p in (found["mean"].to_numpy(), rows["p"].to_numpy()))
    assert error < 0.25 * before


def test_predict_scores_a_file_that_has_the_outcomes(files, table, tmp_path):
    rows, _ = table
    y = rows["y"].to_numpy().astype(float)
    done = run("predict", files / "model.swapcal", files / "train.csv", "--out", tmp_path / "p.csv",
               "--json", tmp_path / "facts.json")  # fmt: skip
    assert done.exit_code == 0, done.output
    facts = json.loads((tmp_path / "facts.json").read_text())
    mean = pacsv.read_csv(tmp_path / "p.csv")["mean"].to_numpy()
    assert facts["base_rate"] == pytest.approx(y.mean())
    assert [one["brier"] for one in facts["scores"]] == pytest.approx([np.mean((mean - y) ** 2), np.var(y)])
    gaps = {one["group"]: one["gap"] for one in facts["groups"]}
    shops = rows["shop"].to_pylist()
    assert gaps == pytest.approx(
        {f"shop = {shop}": np.mean((y - mean)[[each == shop for each in shops]]) for shop in {*shops}}
    )
    assert "rows that were fitted flatter the model" in done.output.replace("\n", " ")


@pytest.mark.parametrize("column", [["1", "2"] * 2000, None])
def test_predict_scores_nothing_without_outcomes_it_can_read(files, table, tmp_path, column):
    rows, _ = table
    rows = rows.drop_columns(["y"]) if column is None else rows.set_column(rows.column_names.index("y"), "y", [column])
    pacsv.write_csv(rows, tmp_path / "new.csv")
    done = run("predict", files / "model.swapcal", tmp_path / "new.csv", "--out", tmp_path / "p.csv",
               "--json", tmp_path / "facts.json")  # fmt: skip
    assert done.exit_code == 0, done.output
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert (facts["base_rate"], facts["scores"], facts["groups"]) == (None, [], [])


def test_predict_counts_the_value_that_the_fit_counted(table, tmp_path):
    rows, _ = table
    pacsv.write_csv(rows, tmp_path / "train.csv")
    for name, extra in (("ones", []), ("zeros", ["--positive", "0"])):
        done = run("fit", tmp_path / "train.csv", "--target", "y", "--score", "p", "--drop", "id", "--correction",
                   "none", *extra, "--out", tmp_path / name)  # fmt: skip
        assert done.exit_code == 0, done.output
        done = run("predict", tmp_path / name, tmp_path / "train.csv", "--out", tmp_path / "p.csv",
                   "--json", tmp_path / f"{name}.json")  # fmt: skip
        assert done.exit_code == 0, done.output
    rates = [json.loads((tmp_path / f"{name}.json").read_text())["base_rate"] for name in ("ones", "zeros")]
    assert rates == pytest.approx([rows["y"].to_numpy().mean(), 1 - rows["y"].to_numpy().mean()])


@pytest.mark.parametrize("kind", ["train.csv.gz", "train.parquet"])
def test_formats_agree(files, kind):
    run("predict", files / "model.swapcal", files / "train.csv", "--out", files / "a.parquet")
    done = run("predict", files / "model.swapcal", files / kind, "--out", files / "b.parquet")
    assert done.exit_code == 0, done.output
    assert papq.read_table(files / "a.parquet").equals(papq.read_table(files / "b.parquet"))


def test_modes_write_the_issued_distribution(files):
    outputs = {}
    for mode in ("hash", "sample"):
        done = run("predict", files / "model.swapcal", files / "train.csv", "--mode", mode, "--out", files / "m.csv")
        assert done.exit_code == 0, done.output
        outputs[mode] = pacsv.read_csv(files / "m.csv")
        columns = {name: outputs[mode][name].to_numpy() for name in ("p", "low", "high", "weight")}
        assert ((columns["p"] == columns["low"]) | (columns["p"] == columns["high"])).all()
        assert (columns["low"] < columns["high"]).all()
    assert not outputs["hash"]["p"].equals(outputs["sample"]["p"])


def test_all_rounds_are_kept_if_asked_for_and_keys_draw_apart(files):
    out = files / "logged.swapcal"
    done = run("fit", files / "train.csv", "--target", "y", "--score", "p", "--groups", "shop", "--drop", "id",
               "--correction", "none", "--all-rounds", "--out", out)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert Model.load(out).history.rounds == 3600
    drawn = {}
    for name, path, extra in (("keyed", out, ["--key", "id"]), ("all", out, []), ("few", files / "model.swapcal", [])):
        done = run("predict", path, files / "train.csv", "--mode", "hash", *extra, "--out", files / "k.csv")
        assert done.exit_code == 0, done.output
        assert ("which no theorem covers" in done.output.replace("\n", " ")) == (name == "few")
        drawn[name] = pacsv.read_csv(files / "k.csv")["weight"].to_numpy()
    assert (drawn["keyed"] != drawn["all"]).mean() > 0.9
    done = run("predict", out, files / "train.csv", "--mode", "hash", "--key", "shop")
    assert done.exit_code == 2
    assert "--key: given 'shop', a column the model learned from" in done.output.replace("\n", " ")


def test_without_a_score(files):
    done = run("fit", files / "train.parquet", "--target", "y", "--drop", "p", "--drop", "id", "--groups", "shop",
               "--out", files / "plain.swapcal")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert Model.load(files / "plain.swapcal").certificate.holds()
    assert run("predict", files / "plain.swapcal", files / "train.parquet", "--out", files / "q.csv").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "train.csv", "--target", "z", "--out", "m"], "no column 'z'"),
        (
            ["fit", "train.csv", "--target", "y", "--groups", "shp", "--out", "m"],
            "no column 'shp'; did you mean 'shop'?",
        ),
        (["fit", "train.csv", "--target", "id", "--out", "m"], "expected 0 or 1"),
        (["fit", "train.csv", "--target", "y", "--score", "x", "--out", "m"], "expected a probability"),
        (["fit", "train.csv", "--target", "y", "--levels", "fine", "--out", "m"], "expected one of adaptive"),
        (
            [
                "fit",
                "train.csv",
                "--target",
                "y",
                "--levels",
                "agnostic",
                "--epsilon",
                "0.01",
                "--correction",
                "none",
                "--out",
                "m",
            ],
            "the number the theorem needs",
        ),
        (["predict", "train.csv", "train.csv"], "not a readable swapcal state file"),
        (["predict", "model.swapcal", "nowhere.csv"], "nowhere.csv"),
        (["predict", "model.swapcal", "other.csv"], "no column 'member'"),
        (["fit", "train.csv", "--target", "y", "--score", "y", "--out", "m"], "given as --score and as --target"),
        (["fit", "train.csv", "--target", "y", "--groups", "y", "--out", "m"], "given as --groups and as --target"),
        (["fit", "train.csv", "--target", "y", "--score", "p", "--groups", "p", "--out", "m"], "and as --score"),
        (["fit", "train.csv", "--target", "y", "--groups", "shop", "--drop", "shop", "--out", "m"], "and as --drop"),
        (["fit", "alone.csv", "--target", "y", "--out", "m"], "given no column beside 'y', expected some to learn"),
        (["fit", "clock.parquet", "--target", "y", "--out", "m"], "column 'at': given time32[ms], expected numbers"),
        (
            ["predict", "model.swapcal", "train.csv", "--mode", "hash", "--keep", "p"],
            "--keep: given 'p', expected none",
        ),
    ],
)
def test_bad_input_exits_with_2_and_leaves_nothing(files, arguments, message, monkeypatch):
    monkeypatch.chdir(files)
    (files / "other.csv").write_text("x,p\n1,0.5\n")
    (files / "alone.csv").write_text("y\n0\n1\n")
    papq.write_table(pa.table({"y": [0, 1], "at": pa.array([1, 2], pa.time32("ms"))}), files / "clock.parquet")
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.output.replace("\n", "")
    assert not (files / "m").exists()


ROLES = ("--target", "y", "--score", "p", "--groups", "shop")


def test_fit_prints_what_a_user_wants_first_and_the_theory_on_request(files):
    done = run("fit", files / "train.csv", *ROLES, "--out", files / "told.swapcal")
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"{files / 'train.csv'}: 4,000 rows, base rate ")
    said = " ".join(done.stderr.split())
    for words in ("left out id (an id)", "swapcal, out of fold", "p, as given", "base rate, in hindsight", "shop = b"):
        assert words in said
    assert f"next: swapcal predict {files / 'told.swapcal'}" in said
    assert "certif" not in said
    assert "theorem" not in said
    detailed = run("fit", files / "train.csv", *ROLES, "--details", "--out", files / "told.swapcal")
    assert "worst-case theorem" in detailed.stderr


def test_json_holds_the_same_facts_and_quiet_prints_nothing(files):
    done = run("fit", files / "train.csv", *ROLES, "--json", "-", "--out", files / "told.swapcal")
    facts = json.loads(done.stdout)
    assert facts["rows"] == 4000
    assert facts["columns"]["score"] == ["p"]
    assert facts["left_out"] == {"id": "an id"}
    own, given, constant = facts["scores"]
    assert own["brier"] < given["brier"] < constant["brier"]
    assert {one["group"] for one in facts["groups"]} == {"shop = a", "shop = b", "shop = c"}
    assert "Brier" not in done.stderr
    for given in (["--json", "--out"], ["--out"]):
        last = [] if "--json" in given else ["--json"]
        again = run("fit", files / "train.csv", *ROLES, *given, files / "told.swapcal", *last)
        assert json.loads(again.stdout)["scores"] == facts["scores"]
    kept = run("fit", files / "train.csv", *ROLES, "--out", files / "told.swapcal", "--json", files / "told.json")
    assert (kept.exit_code, kept.stdout) == (0, "")
    assert json.loads((files / "told.json").read_text())["scores"] == facts["scores"]
    quiet = run("fit", files / "train.csv", *ROLES, "--quiet", "--out", files / "told.swapcal")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")
    refused = run("fit", files / "train.csv", "--target", "z", "-q", "--out", files / "told.swapcal")
    assert refused.exit_code == 2
    assert "no column 'z'" in refused.stderr
    verbose = run("fit", files / "train.csv", *ROLES, "--verbose", "--out", files / "told.swapcal")
    assert "coordinates fitted: " in verbose.stderr
    both = run("predict", files / "told.swapcal", files / "train.csv", "--json", "-")
    assert "--out, --json: given - for both" in both.stderr


def test_a_config_file_gives_options_and_the_command_line_wins(files, tmp_path):
    config = tmp_path / "swapcal.toml"
    config.write_text(f"""
[fit]
file = '{files / "train.csv"}'
target = "y"
groups = ["shop", "member"]
drop = "p"
correction = "none"
snapshots = 4
quiet = true
out = '{tmp_path / "m.swapcal"}'

[predict]
mode = "mean"
""")
    done = run("fit", "--config", config)
    assert (done.exit_code, done.stderr) == (0, "")
    model = Model.load(tmp_path / "m.swapcal")
    assert (model.settings.snapshots, model.settings.correction) == (4, "none")
    assert run("fit", "--config", config, "--snapshots", "5").exit_code == 0
    assert Model.load(tmp_path / "m.swapcal").settings.snapshots == 5
    assert "base rate" in run("fit", "--config", config, "--no-quiet").stderr
    assert "No such option" in run("fit", "--config", config, "--no-target").stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fit]\ntagret = 'y'", "[fit] tagret: given no option of this command, expected one; did you mean 'target'?"),
        ("[fot]\ntarget = 'y'", "given 'fot', expected a table for each command, such as [fit]; did you mean 'fit'?"),
        ("[fit]\nquiet = 'yes'", "[fit] quiet: given 'yes', expected true or false"),
        ("[fit]\nsnapshots = 'many'", "swapcal.toml: [fit] snapshots: given 'many', expected another value"),
        ("[fit]\nrows = 1", "swapcal.toml: [fit] rows: given 1, expected another value"),
        ("[fit]\non-bad-row = 'go'", "swapcal.toml: [fit] on-bad-row: given 'go', expected another value"),
        ("[fit]\ntarget = ['a', 'b']", "[fit] target: given ['a', 'b'], expected text or a number"),
        ("target = 'y'", "given 'target', expected a table for each command"),
        ("[fit", "given invalid TOML"),
    ],
)
def test_a_config_file_with_a_mistake_is_refused(files, tmp_path, text, message):
    (tmp_path / "swapcal.toml").write_text(text)
    done = run("fit", files / "train.csv", "--config", tmp_path / "swapcal.toml", COLUMNS="400")
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())


def test_forecasts_that_a_fit_reports_are_made_without_their_outcomes():
    rng = np.random.default_rng(5)
    noise, y = rng.normal(size=(3000, 20)), (rng.random(3000) < 0.3).astype(float)
    for settings in (FitSettings(correction="linear"), FitSettings(correction="none", passes=2)):
        model = Model.fit(noise, y, settings=settings)
        known = np.isfinite(model.held_out)
        excess = np.mean((model.held_out - y)[known] ** 2) - np.mean((y.mean() - y[known]) ** 2)
        assert known.mean() >= 0.9
        assert -0.004 < excess < 0.02, "of pure noise nothing can be known; folds used twice are slightly optimistic"


def test_intervals_of_all_groups_hold_at_once():
    rng, missed, n = np.random.default_rng(0), 0, 400
    group = pa.table({"g": pa.array(np.tile(np.array(list("abcdefghij")), n // 10))})
    for _ in range(400):
        gaps = GroupGaps()
        p = rng.uniform(0.05, 0.5, n)
        gaps.add(group, p, (rng.random(n) < p).astype(float))
        missed += any(one.low > 0 or one.high < 0 for one in gaps.largest_first())
    assert missed / 400 < 0.09, "5 % and three standard errors"
    lifted = GroupGaps(["g"])
    p = np.full(n, 0.2)
    lifted.add(group, p, np.where(np.arange(n) % 10 == 3, np.arange(n) % 20 == 3, rng.random(n) < 0.2).astype(float))
    assert lifted.largest_first()[0].group == "g = d"
    assert lifted.largest_first()[0].gap == pytest.approx(0.3)


def test_a_file_that_is_not_there_is_named(tmp_path):
    result = run("predict", tmp_path / "no.swapcal", tmp_path / "in.csv")
    assert result.exit_code == 2
    assert "".join(result.stderr.split()).endswith(f"{tmp_path / 'no.swapcal'}:filenotfound")
