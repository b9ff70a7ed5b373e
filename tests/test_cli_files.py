"""Files and commands: every format, every wrong file, every output; nothing is ever destroyed."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")
pa = pytest.importorskip("pyarrow")
import pyarrow.csv as pacsv  # noqa: E402
import pyarrow.parquet as papq  # noqa: E402

from swapcal.cli import command_of, forecasting  # noqa: E402
from swapcal.tables import delimited, formats  # noqa: E402
from tests.commands import runner, said  # noqa: E402

NAMES = ("audit", "decide", "forecast", "fit", "predict")
run = runner(*map(command_of, (*NAMES, "monitor")))

N = 80
ROWS = [(f"{0.05 + i % 10 / 10:.2f}", str(int(i % 3 == 0)), f"{i}.5") for i in range(N)]
CSV = "p,y,x\n" + "".join(",".join(row) + "\n" for row in ROWS)
AUDIT = ("--prob", "p", "--target", "y")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text(CSV)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "in.csv").write_text(CSV)
    path = folder / "m.swapcal"
    assert run("fit", folder / "in.csv", "--target", "y", "--drop", "p", "--snapshots", 2, "--out", path).exit_code == 0
    return path


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    path = tmp_path_factory.mktemp("plain") / "in.csv"
    path.write_text(CSV)
    result = run("decide", path, "--prob", "p", "--loss", "squared", "--target", "y")
    return result.stdout, result.stderr


ARGUMENTS = {
    "audit": AUDIT,
    "decide": ("--prob", "p", "--loss", "squared"),
    "fit": ("--target", "y", "--out", "m.swapcal"),
    "forecast": ("--target", "y"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_file_cannot_be_spelt_with_one_character_for_two_things(name: str, file: Path) -> None:
    result = run(name, file, *ARGUMENTS[name], "--delimiter", ",", "--decimal", ",")
    assert result.exit_code == 2
    assert "--decimal: given ',', which is the delimiter too, expected another" in said(result)


def jsonl_text() -> str:
    return "".join(json.dumps({"p": float(p), "y": int(y), "x": float(x)}) + "\n" for p, y, x in ROWS)


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    papq.write_table(pacsv.read_csv(io.BytesIO(CSV.encode())), sink)
    return sink.getvalue()


FORMATS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "plain.csv": (CSV.encode(), ()),
    "tabs.tsv": (CSV.replace(",", "\t").encode(), ()),
    "semicolons.csv": (CSV.replace(",", ";").encode(), ()),
    "pipes.txt": (CSV.replace(",", "|").encode(), ()),
    "named.csv": (CSV.replace(",", "~").encode(), ("--delimiter", "~")),
    "european.csv": (CSV.replace(",", ";").replace(".", ",").encode(), ("--decimal", ",")),
    "marked.csv": (b"\xef\xbb\xbf" + CSV.encode(), ()),
    "windows.csv": (CSV.replace("\n", "\r\n").encode(), ()),
    "wide.csv": (CSV.encode("utf-16"), ("--encoding", "utf-16")),
    "quoted.csv": (CSV.replace("0.05", '"0.05"').encode(), ()),
    "lines.jsonl": (jsonl_text().encode(), ()),
    "columns.parquet": (parquet_bytes(), ()),
}
TEXTS = [name for name in FORMATS if name != "columns.parquet"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("stdin", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_decisions(
    tmp_path: Path, expected: tuple[str, str], name: str, stdin: bool, packed: bool
) -> None:
    data, options = FORMATS[name]
    if packed and name not in TEXTS:
        pytest.skip("Parquet compresses itself")
    data = gzip.compress(data) if packed else data
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(data)
    loss = ("--loss", "squared", "--target", "y")
    found = run("decide", "-" if stdin else path, "--prob", "p", *loss, *options, stdin=data if stdin else None)
    assert found.exit_code == 0, found.stderr
    assert (found.stdout, found.stderr) == expected


@pytest.mark.parametrize(
    ("name", "words"), [("european.csv", "; as separator, , as decimal point"), ("wide.csv", "utf-16")]
)
def test_what_leaves_no_doubt_is_found_in_the_file(
    tmp_path: Path, expected: tuple[str, str], name: str, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(FORMATS[name][0])
    found = run("decide", path, "--prob", "p", "--loss", "squared", "--target", "y")
    line, rest = found.stderr.split("\n", 1)
    assert line == f"{path}: read with {words}"
    assert (found.stdout, rest) == expected


@pytest.mark.parametrize("name", ["european.csv", "lines.jsonl", "columns.parquet"])
def test_every_command_reads_every_format(tmp_path: Path, file: Path, model: Path, name: str) -> None:
    data, options = FORMATS[name]
    other = tmp_path / name
    other.write_bytes(data)
    for command in (("forecast", "--target", "y", "--out"), ("predict", "--out")):
        outputs = []
        for path, more in ((file, ()), (other, options)):
            before = (command[0], model) if command[0] == "predict" else (command[0],)
            result = run(*before, path, *command[1:], tmp_path / "o.parquet", *more)
            assert result.exit_code == 0, result.stderr
            outputs.append(papq.read_table(tmp_path / "o.parquet"))
        assert outputs[0].equals(outputs[1])
    assert run("audit", other, *AUDIT, *options).stdout == run("audit", file, *AUDIT).stdout
    assert run("fit", other, "--target", "y", "--snapshots", 2, *options, "--out", tmp_path / "m").exit_code == 0


def test_declared_categories_are_text_in_every_format(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("y,shop\n" + "".join(f"{y},{i % 20}\n" for i, (_, y, _) in enumerate(ROWS)))
    papq.write_table(pacsv.read_csv(tmp_path / "in.csv"), tmp_path / "in.parquet")
    for option in ("--categorical", "--groups"):
        found = []
        for name in ("in.csv", "in.parquet"):
            model, out = tmp_path / "m", tmp_path / "out.csv"
            fit = run("fit", tmp_path / name, "--target", "y", option, "shop", "--snapshots", 2, "--out", model)
            assert fit.exit_code == 0, fit.stderr
            assert run("predict", model, tmp_path / name, "--out", out).exit_code == 0
            found.append(out.read_text())
        assert found[0] == found[1]


WRONG: dict[str, tuple[bytes, str]] = {
    "empty.csv": (b"", "given an empty file, expected a header and rows"),
    "blank.csv": (b"\n\n", "given an empty file, expected a header and rows"),
    "header.csv": (b"p,y,x\n", "given no rows, expected some"),
    "unended.csv": (b"p,y,x", "given no rows, expected some"),
    "twice.csv": (b"p,y,p\n0.5,1,2\n", "given two columns called 'p'"),
    "short.csv": (
        CSV.encode() + b"\n0.5,1\n",
        f"row {N + 1} (line {N + 3}): given 2 fields, expected 3 as in the header",
    ),
    "long.csv": (b'p,y,x\n0.5,1,"a\nb"\n0.5,0,1,1\n', "row 2 (line 4): given 4 fields, expected 3"),
    "open.csv": (b'p,y,x\n0.5,1,"a\n0.5,0,1\n', "line 2: given a quote that is never closed"),
    "latin.csv": (
        CSV.encode() + "0.5,1,Москва\n".encode("cp1251"),
        f"line {N + 2}: given the byte 0xcc, expected utf-8; --encoding",
    ),
    "binary.csv": (b"p,y,x\n0.5,1,\0\n", "given a binary file (line 2)"),
    "book.xlsx": (b"PK\x03\x04rest", "save the sheet as CSV"),
    "not.csv.gz": (CSV.encode(), "given the name of a gzip file and something else inside"),
    "cut.csv.gz": (gzip.compress(CSV.encode())[:-12], "damaged gzip"),
    "not.parquet": (CSV.encode(), "given the name of a Parquet file and something else inside"),
    "cut.parquet": (parquet_bytes()[:200], "cannot be read"),
    "bad.jsonl": (b'{"p": 0.5, "y": 1, "x": 2}\n\n{"p": \n', "line 3: given no JSON object"),
    "twice.jsonl": (b'{"p": 0.5, "y": 1, "p": 2}\n', "line 1: given two values called 'p'"),
    "list.json": (b'[{"p": 0.5, "y": 1, "x": 1}]', "given a JSON list, expected one object per line"),
    "unclear.csv": (b"p;y;x\n1,234;1;0\n2,500;0;1\n", "--thousands , or --decimal , reads it"),
    "words.csv": (b"p,y,x\n0.5,1,1\n0.5,perhaps,1\n", "row 2: column 'y': given 'perhaps', expected 0 or 1"),
}


@pytest.mark.parametrize("command", ["audit", "fit"])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, name: str, command: str) -> None:
    data, message = WRONG[name]
    path, out = tmp_path / name, tmp_path / "out"
    path.write_bytes(data)
    result = run(command, path, "--target", "y", *(("--prob", "p") if command == "audit" else ()), "--out", out)
    assert result.exit_code == 2
    assert message in said(result)
    assert os.listdir(tmp_path) == [name]


def test_no_file_a_folder_and_a_wrong_column(tmp_path: Path, file: Path) -> None:
    assert "none.csv: file not found" in said(run("audit", tmp_path / "none.csv", *AUDIT))
    (tmp_path / "folder").mkdir()
    assert "given a folder without tables, expected files" in said(run("audit", tmp_path / "folder", *AUDIT))
    assert "no column 'pp'; did you mean 'p'?" in said(run("decide", file, "--prob", "pp", "--loss", "squared"))


@pytest.mark.parametrize(
    "place", ["in.csv", "link.csv", "hard.csv", "folder/../in.csv", "folder", "pipe", "none/o.csv"]
)
@pytest.mark.parametrize(
    "command",
    [
        ("audit", "IN", *AUDIT, "--out"),
        ("audit", "IN", *AUDIT, "--json"),
        ("decide", "IN", "--prob", "p", "--loss", "squared", "--out"),
        ("forecast", "IN", "--target", "y", "--out"),
        ("forecast", "IN", "--target", "y", "--report"),
        ("forecast", "IN", "--target", "y", "--state"),
        ("fit", "IN", "--target", "y", "--out"),
        ("predict", "MODEL", "IN", "--out"),
    ],
)
def test_an_output_never_replaces_an_input_or_what_is_no_file(
    tmp_path: Path, file: Path, model: Path, place: str, command: tuple[str, ...]
) -> None:
    (tmp_path / "link.csv").symlink_to("in.csv")
    (tmp_path / "hard.csv").hardlink_to(file)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    result = run(*({"IN": file, "MODEL": model}.get(word, word) for word in command), tmp_path / place)
    assert result.exit_code == 2
    assert f"{command[-1]}: given {tmp_path / place}" in said(result)
    assert file.read_text() == CSV
    assert sorted(os.listdir(tmp_path)) == before


def test_models_loss_files_and_other_outputs_are_safe_too(tmp_path: Path, file: Path, model: Path) -> None:
    losses, both = tmp_path / "losses.toml", tmp_path / "both"
    losses.write_text("[[loss]]\nkind = 'squared'\n")
    size = model.stat().st_size
    assert "which is the input" in said(run("predict", model, file, "--out", model))
    assert "which is the input" in said(run("decide", file, "--prob", "p", "--loss-file", losses, "--out", losses))
    assert "that of --out too" in said(run("forecast", file, "--target", "y", "--out", both, "--state", both))
    assert "given -, expected the name of a file" in said(run("fit", file, "--target", "y", "--out", "-"))
    assert (model.stat().st_size, losses.read_text()[:8], both.exists()) == (size, "[[loss]]", False)


def test_outputs_are_whole_keep_links_and_permissions(tmp_path: Path, file: Path) -> None:
    real, link, bad = tmp_path / "real.csv", tmp_path / "link.csv", tmp_path / "bad.csv"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to("real.csv")
    bad.write_text(CSV + "7,1,1\n")
    decide = ("--prob", "p", "--loss", "squared", "--out", link)
    assert run("decide", bad, *decide).exit_code == 2
    assert real.read_text() == "old"
    assert run("decide", file, *decide).exit_code == 0
    assert link.is_symlink()
    assert real.read_text().startswith('"p","action[squared]"')
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["bad.csv", "in.csv", "link.csv", "real.csv"]


@pytest.mark.parametrize("name", ["o.csv", "o.tsv", "o.csv.gz", "o.jsonl", "o.jsonl.gz", "o.parquet"])
def test_what_is_written_can_be_read(tmp_path: Path, file: Path, name: str) -> None:
    assert (
        run("decide", file, "--prob", "p", "--keep", "y,x", "--loss", "squared", "-o", tmp_path / name).exit_code == 0
    )
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert run("audit", tmp_path / name, *AUDIT).stdout == run("audit", file, *AUDIT).stdout


@pytest.mark.parametrize("words", [("True", "FALSE"), ("Yes", "no"), ("t", "f"), ("1.0", "0.0")])
def test_targets_are_read_alike_everywhere(tmp_path: Path, file: Path, words: tuple[str, str]) -> None:
    spelt, out = tmp_path / "spelt.csv", tmp_path / "out.parquet"
    spelt.write_text("p,y,x\n" + "".join(f"{p},{words[y == '0']},{x}\n" for p, y, x in ROWS))
    assert run("audit", spelt, *AUDIT).stdout == run("audit", file, *AUDIT).stdout
    cost = ("--prob", "p", "--target", "y", "--loss", "squared")
    assert run("decide", spelt, *cost).stderr == run("decide", file, *cost).stderr
    means = []
    for path in (spelt, file):
        assert run("forecast", path, "--target", "y", "--out", out).exit_code == 0
        means.append(papq.read_table(out)["mean"].to_numpy())
    np.testing.assert_array_equal(*means)
    assert run("fit", spelt, "--target", "y", "--snapshots", 2, "--out", tmp_path / "m").exit_code == 0


def test_positive_names_the_outcome_in_every_command(tmp_path: Path, file: Path) -> None:
    spelt = tmp_path / "spelt.csv"
    spelt.write_text("p,y,x\n" + "".join(f"{p},{'>50K' if y == '1' else '<=50K'},{x}\n" for p, y, x in ROWS))
    named = ("--target", "y", "--positive", ">50K")
    assert "--positive '<=50K' or --positive '>50K'" in said(run("audit", spelt, *AUDIT))
    assert run("audit", spelt, "--prob", "p", *named).stdout == run("audit", file, *AUDIT).stdout
    assert run("decide", spelt, "--prob", "p", *named, "--loss", "squared").exit_code == 0
    assert run("forecast", spelt, *named).exit_code == 0
    assert run("fit", spelt, *named, "--snapshots", 2, "--out", tmp_path / "m").exit_code == 0


def test_a_positive_value_that_no_row_has_is_refused_or_said(tmp_path: Path) -> None:
    spelt, out = tmp_path / "spelt.csv", tmp_path / "out"
    spelt.write_text("p,y,x\n" + "".join(f"{p},{'yes' if y == '1' else 'no'},{x}\n" for p, y, x in ROWS))
    named = ("--target", "y", "--positive", "Yess")
    told = "--positive: given 'Yess', expected a value of column 'y', such as 'no', 'yes'"
    for command, more in (("audit", ("--prob", "p")), ("fit", ())):
        refused = run(command, spelt, *named, *more, "--out", out)
        assert (refused.exit_code, out.exists()) == (2, False), refused.output
        assert told in said(refused)
    for command, more in (
        ("decide", ("--prob", "p", "--loss", "squared")),
        ("monitor", ("--prob", "p")),
        ("forecast", ()),
    ):
        warned = run(command, spelt, *named, *more)
        assert warned.exit_code < 2, warned.output
        assert f"{told}: all outcomes so far are 0" in said(warned)
        assert "--positive" not in said(run(command, spelt, *named[:3], " yes", *more))
    spelt.write_text("p,y\n" + "".join(f"{k / 10},{k}\n" for k in range(10)) + "0.5,\n")
    refused = run("audit", spelt, "--prob", "p", "--target", "y", "--positive", "x")
    assert "such as '0', '1', '2', '3', '4', …" in said(refused)
    assert "--positive: given without --target" in said(
        run("decide", spelt, "--prob", "p", "--positive", "1", "--loss", "squared")
    )


def test_rows_without_an_outcome_are_left_out_and_counted(tmp_path: Path) -> None:
    late, out = tmp_path / "late.csv", tmp_path / "out.csv"
    late.write_text("p,y,x\n" + "".join(f"{p},{y if i < 60 else ''},{x}\n" for i, (p, y, x) in enumerate(ROWS)))
    assert run("forecast", late, "--target", "y", "--out", out).exit_code == 0
    audit = run("audit", out, *AUDIT, "--issued", "low,high,weight")
    assert audit.exit_code == 0, audit.stderr
    assert "left out 20 of 80 rows (25.0%) without an outcome" in said(audit)
    assert "left out 20 of 80 rows" in said(
        run("fit", late, "--target", "y", "--snapshots", 2, "--out", tmp_path / "m")
    )
    assert "80 rows, 60 with an outcome" in said(run("decide", late, *AUDIT, "--loss", "squared"))
    late.write_text("p,y,x\n0.5,,1\n")
    assert "given no outcome in 1 rows, expected some" in said(run("audit", late, *AUDIT))


def test_fractions_are_outcomes(tmp_path: Path) -> None:
    shares = tmp_path / "shares.csv"
    shares.write_text("p,y,x\n" + "".join(f"{p},{(i % 5) / 4},{x}\n" for i, (p, _, x) in enumerate(ROWS)))
    out = tmp_path / "out.parquet"
    result = run("forecast", shares, "--target", "y", "--out", out)
    table = papq.read_table(out)
    y, mean = (np.clip(table[name].to_numpy(), 0, 1) for name in ("y", "mean"))
    inside = np.clip(mean, 1e-6, 1 - 1e-6)
    assert f"{-np.mean(y * np.log(inside) + (1 - y) * np.log(1 - inside)):.5f}" in result.stderr
    assert run("audit", out, *AUDIT).exit_code == 0


@pytest.mark.parametrize("command", ["forecast", "fit"])
def test_hints_say_what_they_would_cost_and_name_options_that_exist(tmp_path: Path, command: str) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    agents = ("broker" if i % 4 == 0 else str(i) for i in range(N))
    path.write_text("y,agent\n" + "".join(f"{y},{a}\n" for (_, y, _), a in zip(ROWS, agents, strict=True)))
    named = (command, path, "--target", "y", "--out", out)
    refused = said(run(*named))
    assert "row 1: column 'agent': given text 'broker' among numbers" in refused
    assert "--on-bad-row skip would leave out 20 of 80 rows (25.0%)" in refused
    for remedy in (("--on-bad-row", "skip"), ("--categorical", "agent")):
        assert run(*named, *remedy).exit_code == 0
    assert "skipped 20 of 80 rows (25.0%)" in said(run(*named, "--on-bad-row", "skip"))
    assert "--categorical" in refused


@pytest.mark.parametrize(
    ("order", "day"), [("mdy", "{m:02}/{d:02}/2015"), ("dmy", "{d}.{m}.15 10:30"), ("iso", "2015-{m:02}-{d:02}")]
)
def test_dates_in_every_order(tmp_path: Path, order: str, day: str) -> None:
    path, found = tmp_path / "in.csv", tmp_path / "a.json"
    days = [day.format(m=1 + i // 28, d=1 + i % 28) for i in range(N)]
    path.write_text("t,p,y\n" + "".join(f"{t},{p},{y}\n" for t, (p, y, _) in zip(days, ROWS, strict=True)))
    timed = ("--time", "t")
    if order != "iso":
        plain = (*timed, "--dates", "iso")
        assert "--dates mdy or dmy reads others" in said(run("audit", path, *AUDIT, *plain))
        assert "--dates mdy or dmy reads others" in said(run("forecast", path, "--target", "y", *plain))
        assert "read with dates as" in said(run("audit", path, *AUDIT, *timed))
        wrong = said(run("audit", path, *AUDIT, *timed, "--dates", "mdy" if order == "dmy" else "dmy"))
        assert "expected a number, an ISO date or time, or a date in the order" in wrong
        assert "--dates" not in wrong
    timed += ("--dates", order)
    assert run("audit", path, *AUDIT, *timed, "--json", found).exit_code == 0
    identity = json.loads(found.read_text())["identity"]
    assert (identity["first_time"], identity["last_time"]) == ("2015-01-01", "2015-03-24")
    assert run("forecast", path, "--target", "y", *timed).exit_code == 0


def test_outcomes_may_have_decimal_commas(tmp_path: Path) -> None:
    commas, points = tmp_path / "commas.csv", tmp_path / "points.csv"
    points.write_text("p;y\n" + "".join(f"{p};{0.5 * int(y)}\n" for p, y, _ in ROWS))
    commas.write_text(points.read_text().replace(".", ","))
    for positive in ((), ("--positive", "0,50")):
        for command in (("audit",), ("decide", "--loss", "squared")):
            named = (*command[1:], "--prob", "p", "--target", "y")
            found = run(command[0], commas, *named, *positive, "--decimal", ",")
            expected = run(command[0], points, *named, *(word.replace(",", ".") for word in positive))
            assert found.exit_code == expected.exit_code, found.stderr
            assert found.stdout.replace("commas", "points") == expected.stdout


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("rot13", "--encoding: given 'rot13', expected one such as"), ("utf-16", "points.csv: line 1: given")],
)
def test_an_encoding_that_cannot_be_is_refused_in_our_words(tmp_path: Path, encoding: str, expected: str) -> None:
    path = tmp_path / "points.csv"
    path.write_text("p,y\n0.5,1\n")
    assert expected in said(run("audit", path, *AUDIT, "--encoding", encoding))


def test_options_have_one_name_and_lists_one_form(tmp_path: Path, file: Path) -> None:
    common = {"--delimiter", "--decimal", "--encoding", "--out"}
    for name in NAMES:
        shown = run(name, "--help", COLUMNS="200").output
        assert not {option for option in common if option not in shown}
        assert "without the header" in " ".join(shown.split())
        assert ("--target" in shown) == ("--positive" in shown) == (name != "predict")
        assert "--label " not in shown
        assert "--output" not in shown
    assert "[[loss]]" in run("decide", "--help", COLUMNS="200").output
    old = ("--prob", "p", "--label", "y", "--loss", "squared", "--output", tmp_path / "old.csv")
    new = ("--prob", "p", "--target", "y", "--loss", "squared", "--out", tmp_path / "new.csv")
    assert run("decide", file, *old).stderr.replace("old.csv", "new.csv") == run("decide", file, *new).stderr
    assert (tmp_path / "old.csv").read_text() == (tmp_path / "new.csv").read_text()
    comma = tmp_path / "comma.csv"
    comma.write_text(CSV.replace("p,y,x\n", 'p,y,"x, of z"\n'))
    for keep in (("--keep", "y,x"), ("--keep", "y", "--keep", "x")):
        assert run("decide", file, "--prob", "p", *keep, "--loss", "squared").stdout.startswith('"y","x","p"')
    assert '"x, of z"' in run("decide", comma, "--prob", "p", "--keep", "x, of z", "--loss", "squared").stdout


def test_rows_count_from_one_across_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "JSON_ROWS", 16)
    monkeypatch.setattr(formats, "PARQUET_ROWS", 16)
    monkeypatch.setattr(delimited, "BLOCK", 256)
    bad = CSV + "7,1,1\n"
    (tmp_path / "in.csv").write_text(bad)
    papq.write_table(pacsv.read_csv(io.BytesIO(bad.encode())), tmp_path / "in.parquet")
    (tmp_path / "in.jsonl").write_text(jsonl_text() + '{"p": 7, "y": 1, "x": 1}\n')
    for name in ("in.csv", "in.parquet", "in.jsonl"):
        for command in (("audit", *AUDIT), ("decide", "--prob", "p", "--loss", "squared")):
            result = run(command[0], tmp_path / name, *command[1:])
            assert f"row {N + 1}: column 'p': given 7, expected a probability in [0, 1]" in said(result)


def test_an_interrupt_keeps_whole_pieces_and_says_so(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasting, "PIECE", 30)
    out, state, rest = tmp_path / "out.csv", tmp_path / "state", tmp_path / "rest.csv"
    whole = ("forecast", file, "--target", "y", "--id", "x", "--out", tmp_path / "whole.csv")
    assert run(*whole).exit_code == 0
    trace = forecasting.Live.trace

    def interrupted(live: Any, *arguments: Any, **named: Any) -> Any:
        found = trace(live, *arguments, **named)
        if live.status().forecasts == 30:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(forecasting.Live, "trace", interrupted)
    result = run("forecast", file, "--target", "y", "--id", "x", "--out", out, "--state", state)
    assert result.exit_code == 130
    assert "stopped after row 60 of 80" in said(result)
    assert "go on with a file of the rows after row 60" in said(result)
    monkeypatch.undo()
    rest.write_text("p,y,x\n" + "".join(",".join(row) + "\n" for row in ROWS[60:]))
    more = tmp_path / "more.csv"
    assert run("forecast", rest, "--target", "y", "--id", "x", "--out", more, "--state", state).exit_code == 0
    pieces = [pacsv.read_csv(path)["mean"].to_numpy() for path in (out, more)]
    np.testing.assert_array_equal(np.concatenate(pieces), pacsv.read_csv(tmp_path / "whole.csv")["mean"].to_numpy())


@pytest.mark.parametrize("command", [("audit", *AUDIT), ("decide", "--prob", "p", "--loss", "squared")])
def test_an_interrupt_elsewhere_leaves_nothing(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def stop(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(delimited.Delimited, "pieces", stop)
    result = run(command[0], file, *command[1:], "--out", tmp_path / "out.csv")
    assert result.exit_code == 130
    assert "stopped; nothing was written" in said(result)
    assert os.listdir(tmp_path) == ["in.csv"]


def test_a_closed_pipe_is_no_error(file: Path) -> None:
    file.write_text("p,y,x\n" + 500 * CSV.removeprefix("p,y,x\n"))
    command = [sys.executable, "-m", "swapcal", "decide", str(file), "--prob", "p", "--loss", "squared"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'"p"')
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


BLOCKED = """
import sys
blocked = sys.argv[1]
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""
COMMAND_LINE = "from swapcal.cli import main; sys.argv = ['swapcal', 'audit', 'x.csv']; main()"


@pytest.mark.parametrize(
    ("package", "code", "line"),
    [
        ("typer", COMMAND_LINE, 'needs typer: pip install "swapcal[cli]"'),
        ("rich", COMMAND_LINE, 'needs rich: pip install "swapcal[cli]"'),
        ("pyarrow", COMMAND_LINE, 'needs pyarrow: pip install "swapcal[cli]"'),
        ("sklearn", "from swapcal import SwapClassifier", 'needs scikit-learn: pip install "swapcal[sklearn]"'),
    ],
)
def test_a_missing_extra_names_its_install_line(package: str, code: str, line: str) -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED + code, package], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert line in done.stderr
    assert ("Traceback" in done.stderr) == (package == "sklearn")
