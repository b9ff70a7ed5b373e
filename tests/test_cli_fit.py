import gzip

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("typer")

import pyarrow.csv as pacsv  # noqa: E402
import pyarrow.parquet as papq  # noqa: E402

from swapcal.batch.model import Model  # noqa: E402
from swapcal.cli import COMMANDS  # noqa: E402
from swapcal.cli.fit import fit  # noqa: E402
from swapcal.cli.predict import predict  # noqa: E402
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
            "the number the theorem asks for",
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
