"""Files as other programs write them: a German export, read at the first attempt, and what is said about it."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("typer")

from swapcal.cli.audit import audit
from swapcal.cli.compare import compare
from swapcal.cli.fit import fit, predict
from swapcal.cli.forecast import forecast
from swapcal.cli.monitor import monitor
from swapcal.cli.rows import unused_columns
from swapcal.tables.dialect import Dialect, detect
from swapcal.tables.formats import open_source
from swapcal.tables.outcomes import ReadAs
from swapcal.tables.sources import InputError
from tests.commands import runner, said

run = runner(audit, fit, predict, forecast, compare, monitor)
COLUMNS, N = 300, 400


def german(number: float, places: int = 2) -> str:
    """Write a number as a German spreadsheet does: 1.234,56."""
    return f"{number:,.{places}f}".replace(",", "\0").replace(".", ",").replace("\0", ".")


def export(rows: int = N, columns: int = COLUMNS, seed: int = 0) -> str:
    """Return a table of loans as a German spreadsheet exports it."""
    rng = np.random.default_rng(seed)
    income = np.exp(rng.normal(7.6, 0.6, rows))
    amount = np.exp(rng.normal(8.5, 1.0, rows))
    quota = rng.uniform(0.02, 0.9, rows)
    others = rng.normal(size=(rows, columns))
    risk = 1 / (1 + np.exp(-(2.5 * quota - 1.6 + 0.3 * others[:, 0])))
    unpaid = rng.random(rows) < risk
    town = rng.choice(["Köln", "München", "Düren", "Gießen", "k.A."], rows, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    named = {
        "Vertrag": [f"V-{number:06d}" for number in rng.permutation(rows) % (rows - 3)],
        "Datum": [f"{1 + k * 27 // rows:02d}.{1 + k * 12 // rows % 12:02d}.2023" for k in range(rows)],
        "Ort": town,
        "Einkommen": [german(x) if rng.random() > 0.04 else "k.A." for x in income],
        "Betrag": [f"{german(x)} €" for x in amount],
        "Quote": [f"{german(100 * x, 1)} %" for x in quota],
        "Land": ["DE"] * rows,
        "Bemerkung": [f"Anruf am {k % 28 + 1}.; Rückfrage Nr. {rng.integers(10**9)}" for k in range(rows)],
        "Modell": [german(p, 4) for p in np.clip(risk + rng.normal(0, 0.05, rows), 0.01, 0.99)],
        "Ausfall": np.where(unpaid, "ja", "nein"),
    }
    filler = {f"Wert_{k}": [german(x, 3) for x in others[:, k]] for k in range(columns - len(named))}
    table = {**named, **filler}
    out = io.StringIO()
    writer = csv.writer(out, delimiter=";", lineterminator="\r\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return out.getvalue()


@pytest.fixture(scope="module")
def text() -> str:
    return export()


@pytest.fixture(scope="module", params=["cp1252", "utf-8-sig"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, text: str) -> Path:
    path = tmp_path_factory.mktemp("export") / "Kredite.csv"
    path.write_bytes(text.encode(request.param))
    return path


READ = (
    "Kredite.csv: read with ; as separator, , as decimal point, . between thousands, 'k.A.' as missing, "
    "dates as day.month.year"
)
SPELT = ("--currency", "Betrag", "--percent", "Quote")


def test_the_german_file_is_read_at_the_first_attempt(file: Path, tmp_path: Path, text: str) -> None:
    records = list(csv.DictReader(io.StringIO(text), delimiter=";"))
    with open_source(str(file), Dialect(None, "auto", "auto", "auto", "auto", None, ("Quote",), ("Betrag",))) as source:
        (piece,) = source.pieces({}, unnamed=ReadAs.feature)
    table = piece.table
    for name, unit in {"Einkommen": "", "Betrag": "€", "Quote": "%", "Wert_3": ""}.items():
        values = [record[name].removesuffix(unit) for record in records]
        plain = [np.nan if v == "k.A." else float(v.replace(".", "").replace(",", ".")) for v in values]
        np.testing.assert_allclose(table[name].to_numpy(), np.array(plain) / (100 if unit == "%" else 1), rtol=1e-12)
    assert [when.strftime("%d.%m.%Y") for when in table["Datum"].to_pylist()] == [r["Datum"] for r in records]
    assert table["Ort"].null_count == sum(record["Ort"] == "k.A." for record in records)


def test_commands_accept_the_german_file_and_name_what_needs_an_option(text: str, tmp_path: Path) -> None:
    file = tmp_path / "Kredite.csv"
    file.write_bytes(text.encode("cp1252"))
    shown = ("--groups", "Ort", "--features", "Einkommen,Betrag,Quote")
    judged = run("audit", file, "--target", "Ausfall", "--prob", "Modell", *shown)
    assert judged.exit_code == 0, judged.stderr
    assert READ in said(judged)
    model = tmp_path / "m.swapcal"
    first = run("fit", file, "--target", "Ausfall", "--score", "Modell", "--out", model)
    assert first.exit_code == 0, first.stderr
    assert "'Betrag' looks like amounts of money and is read as text; --currency Betrag reads numbers" in said(first)
    assert "'Quote' looks like percentages and is read as text; --percent Quote reads numbers" in said(first)
    second = run("fit", file, "--target", "Ausfall", "--score", "Modell", *SPELT, "--out", model)
    assert second.exit_code == 0, second.stderr
    assert "--currency" not in said(second)
    assert "--percent" not in said(second)
    made = run("predict", model, file, "--out", tmp_path / "p.csv")
    assert made.exit_code == 0, made.stderr


def test_later_rows_that_do_not_fit_are_named_with_the_option_that_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    rows = [f"{k % 2};{k / 7:.3f}".replace(".", ",") for k in range(40)]
    for odd, hint in {
        "unbek.": "--missing unbek. takes it",
        "3,5 %": "--percent x reads it",
        "1,2,3": "--missing",
    }.items():
        path.write_text("\n".join(["y;x", *rows, f"1;{odd}", ""]))
        refused = said(run("fit", path, "--target", "y", "--out", tmp_path / "m"))
        assert f"row 41: column 'x': given text {odd!r} among numbers, expected a number ({hint}" in refused
    assert run("fit", path, "--target", "y", "--missing", "1,2,3", "--out", tmp_path / "m").exit_code == 2
    path.write_text("\n".join(["y;x", *rows, "1;unbek.", ""]))
    assert run("fit", path, "--target", "y", "--missing", "unbek.", "--out", tmp_path / "m").exit_code == 0


SPELLINGS = {
    "1,234.50 67.25 1,000,000": (1234.5, 67.25, 1e6),
    "1.234,50 67,25 1.000.000": (1234.5, 67.25, 1e6),
    "1'234.50 67.25 1’000’000": (1234.5, 67.25, 1e6),
    "1\u202f234,50 67,25 1\u00a0000\u00a0000": (1234.5, 67.25, 1e6),
    "0,125 0,25 1": (0.125, 0.25, 1.0),
    "0,125 0,250": (0.125, 0.25),
    "1.234 2.5 7": (1.234, 2.5, 7.0),
}


@pytest.mark.parametrize("texts", SPELLINGS)
def test_numbers_of_every_spelling(texts: str) -> None:
    fields = texts.split(" ")
    found = detect({"x": fields}, Dialect(";", "auto", "utf-8", "auto", "auto", None)).dialect
    assert tuple(found.number(field) for field in fields) == SPELLINGS[texts]


def test_what_is_not_clear_stays_plain() -> None:
    given = Dialect(";", "auto", "utf-8", "auto", "auto", None)
    assert detect({"x": ["1,234", "5,678"]}, given).dialect.decimal == "."
    assert detect({"x": ["1,5"], "z": ["1.5"]}, given).dialect.decimal == "."
    unclear = detect({"d": ["01/02/2023", "03/04/2023"]}, given)
    assert (unclear.dialect.dates, unclear.seem) == ("iso", {"d": "dates"})
    assert detect({"d": ["01/02/2023", "13/04/2023"]}, given).dialect.dates == "dmy"
    assert detect({"d": ["01/02/2023", "03/14/2023"]}, given).dialect.dates == "mdy"
    assert detect({"word": ["-", "a", "b"], "x": ["1", "2", "-", "3"]}, given).dialect.missing == ("-",)
    assert detect({"word": ["-", "a", "b"]}, given).dialect.missing == ()


@pytest.mark.parametrize("command", ["fit", "forecast", "compare"])
def test_columns_of_every_type_of_parquet_are_looked_at(command: str, tmp_path: Path) -> None:
    rng, n = np.random.default_rng(1), 300
    columns = {
        "category": pa.array([f"v{k % 5}" for k in range(n)]).dictionary_encode(),
        "view": pa.array([f"w{k % 4}" for k in range(n)], pa.string_view()),
        "order": pa.array([f"o-{k}" for k in range(n)]).dictionary_encode(),
        "empty": pa.nulls(n),
        "x": rng.random(n),
        "y": rng.integers(0, 2, n),
    }
    path, out = tmp_path / "in.parquet", tmp_path / "out.csv"
    pq.write_table(pa.table(columns), path)
    extra = ["--score", "x"] if command == "compare" else ["--out", out]
    result = run(command, path, "--target", "y", *extra)
    assert result.exit_code == 0, result.output
    left_out = "order (an id)" if command == "forecast" else "order (an id); empty (one value)"
    assert f"left out {left_out}" in " ".join(result.output.split())


def test_a_stream_is_forecast_alike_however_its_file_is_cut(tmp_path: Path) -> None:
    rng, n, found = np.random.default_rng(2), 600, []
    table = pa.table({"const": [3.0] * n, "x": rng.random(n), "y": rng.integers(0, 2, n)})
    for rows in (n, 200):
        path, out = tmp_path / f"{rows}.parquet", tmp_path / f"{rows}.csv"
        with pq.ParquetWriter(path, table.schema) as writer:
            writer.write_table(table.slice(0, 0))
            writer.write_table(table, row_group_size=rows)
        assert run("forecast", path, "--target", "y", "--out", out).exit_code == 0
        found.append(out.read_text(encoding="utf-8"))
    assert found[0] == found[1]


def test_percentages_that_must_be_numbers_are_read_and_named_and_predict_remembers_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    p = rng.uniform(0.05, 0.95, 400)
    table = {
        "My score": [f"{100 * value:.1f}%" for value in p],
        "Spend ($)": [f"${value:,.2f}" for value in rng.uniform(1, 9e3, 400)],
        "x": rng.normal(size=400).round(3),
        "y": np.where(rng.random(400) < p, "yes", "no"),
    }
    path = tmp_path / "ads.csv"
    rows = zip(*table.values(), strict=True)
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([list(table), *rows])
    read = "column 'My score': percentages, 12.5 % is read as 0.125"
    for command in ("audit --prob", "monitor --prob", "compare --score", f"fit --out {tmp_path / 'm'} --score"):
        name, *given = command.split()
        done = run(name, path, "--target", "y", *given, "My score")
        assert done.exit_code in (0, 1), done.stderr
        assert read in said(done)
        if name in ("fit", "compare"):
            assert "--currency 'Spend ($)' reads numbers" in said(done)
            assert "left out Spend ($) (amounts of money as text)" in said(done)
    made = run("predict", tmp_path / "m", path, "--out", tmp_path / "p.csv")
    assert made.exit_code == 0, made.stderr
    later = tmp_path / "later.csv"
    later.write_text("My score,x\n7%,0.5\n")
    assert run("predict", tmp_path / "m", later, "--out", tmp_path / "p.csv").exit_code == 0


def test_objects_inside_objects_are_columns_with_both_names_and_lists_are_text(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    rows = [
        {"ts": f"2024-01-{1 + k % 28:02d}T{k % 24:02d}:{k % 60:02d}:{k % 59:02d}{'Z' if k % 2 else '+02:00'}",
         "user": {"country": "DE" if k % 3 else "FR", **({} if k % 5 else {"age": {"years": k}})},
         "tags": ["a"] * (k % 2), "model": {"score": (k % 7 + 1) / 9}, "y": k % 7 > 3}
        for k in range(300)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with open_source(str(path)) as source:
        assert source.columns == ["ts", "user.country", "user.age.years", "tags", "model.score", "y"]
        (piece,) = source.pieces({}, unnamed=ReadAs.feature)
    assert piece.table["user.age.years"].to_pylist()[:6] == [0, None, None, None, None, 5]
    assert piece.table["tags"].to_pylist()[:2] == ["[]", '["a"]']
    done = run(
        "fit", path, "--target", "y", "--score", "model.score", "--groups", "user.country", "--out", tmp_path / "m"
    )
    assert done.exit_code == 0, done.stderr
    assert "(times as text)" in said(done)
    listed = said(run("audit", path, "--target", "y", "--prob", "tags"))
    assert "row 1: column 'tags': given '[]', expected a number" in listed
    path.write_text('{"a": {"b": 1}, "a.b": 2, "y": 1}\n')
    with (
        pytest.raises(InputError, match=r"line 1: given two values called 'a\.b', expected different names"),
        open_source(str(path)),
    ):
        pass


def test_parquet_structs_are_columns_and_lengths_of_time_seconds(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    stay = pa.array([1_500_000, None], pa.duration("us"))
    inner = pa.array([{"b": {"c": 1}}, {"b": {"c": 2}}])
    pq.write_table(pa.table({"a": inner, "stay": stay, "y": [0, 1]}), path)
    with open_source(str(path)) as source:
        assert source.columns == ["a.b.c", "stay", "y"]
        (piece,) = source.pieces({}, unnamed=ReadAs.feature)
        assert piece.table["a.b.c"].to_pylist() == [1, 2]
        assert piece.table["stay"].to_pylist() == [1.5, None]
    with open_source(str(path)) as source:
        (piece,) = source.pieces({"y": ReadAs.number, "a.b.c": ReadAs.number})
        assert piece.table.column_names == ["y", "a.b.c"]


def test_all_columns_with_codes_among_numbers_are_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    rows = [f"{k % 2},{k},{k % 9}" for k in range(40)]
    path.write_text("\n".join(["y,diag 1,diag 2", *rows, "1,V57,E9", ""]))
    refused = said(run("fit", path, "--target", "y", "--out", tmp_path / "m"))
    assert "--categorical 'diag 1,diag 2' reads all as categories" in refused


def read(path: Path, text: str, kinds: dict[str, ReadAs] | None = None) -> tuple[pa.Table, list[str]]:
    """Return a file of this text as the commands read features, and the names of its columns."""
    path.write_text(text, newline="")
    with open_source(str(path), Dialect(None, "auto", "auto", "auto", "auto", None)) as source:
        (piece,) = source.pieces(kinds or {}, unnamed=ReadAs.feature)
        return piece.table, source.columns


def test_whole_numbers_with_points_between_thousands_are_numbers(tmp_path: Path) -> None:
    table, _ = read(tmp_path / "in.csv", "sold;rate\n1.234;1,5\n987;0,25\n-2.500;1.000,5\n")
    assert table["sold"].to_pylist() == [1234.0, 987.0, -2500.0]


def test_values_with_leading_zeros_are_text_and_that_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "plz,month,x,y\n01067,1,0.5,0\n80331,12,0,1\n"
    table, _ = read(tmp_path / "in.csv", text)
    assert table["plz"].to_pylist() == ["01067", "80331"]
    assert table["month"].to_pylist() == [1, 12]
    assert table["x"].to_pylist() == [0.5, 0.0]
    (line,) = [record.getMessage() for record in caplog.records if "plz" in record.getMessage()]
    assert line == "column 'plz' has values with leading zeros and is read as text; --numeric plz reads numbers"
    table, _ = read(tmp_path / "in.csv", text, {"plz": ReadAs.numeric})
    assert table["plz"].to_pylist() == [1067, 80331]


TITLED = 'Weekly export,,,,\r\n"Made 3/14/2024, by J",,,,\r\n,,,,\r\nday,sold,score %,,\r\n1/2/2024,Yes,31%,,\r\n'


def test_titles_above_the_header_and_empty_columns_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    rows = "".join(f"1/{k % 28 + 1}/2024,{('Yes', 'No')[k % 3 > 0]},{10 + k % 70}%,,\r\n" for k in range(200))
    table, names = read(path, f"{TITLED}{rows}Total,,,,\r\n")
    assert names == table.column_names == ["day", "sold", "score %"]
    done = run("audit", path, "--target", "sold", "--prob", "score %")
    assert done.exit_code == 0, done.stderr
    assert said(done).count("in.csv: 3 lines above the header left out") == 1
    assert said(done).count("in.csv: 2 columns without a name or values left out") == 1
    assert said(done).count("in.csv: 1 line below the rows left out: 'Total,,,,'") == 1
    path.write_text(f"{TITLED}1/3/2024,No,1,2,3,4\r\n", newline="")
    assert "row 2 (line 6): given 6 fields" in said(run("audit", path, "--target", "sold", "--prob", "score %"))


@pytest.mark.parametrize("text", ["sold\n1,0\n0,1\n", "sold\na,b\n", "a,b,c\n1,2,3,4\n", "a;b\n1;2\n"])
def test_a_first_line_that_may_be_a_header_is_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "in.csv").write_text(text)
    with open_source(str(tmp_path / "in.csv"), Dialect(None, "auto", "auto", "auto", "auto", None)) as source:
        assert source.columns == text.split("\n")[0].replace(";", ",").split(",")


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_totals_and_notes_below_the_rows_are_left_out_and_that_is_said(command: str, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(3), tmp_path / "in.csv"
    p = rng.uniform(0.1, 0.9, 200)
    rows = [f"{k},{a:.3f},{int(rng.random() < a)}" for k, a in enumerate(p)]
    extra = [] if command == "compare" else ["--out", tmp_path / "m"]
    for foot in (["Total,,"], ["TOTAL:,,97", "", "Run by JDOE; 200 rows", ""]):
        path.write_text("\n".join(["x,score,y", *rows, *foot, ""]))
        done = run(command, path, "--target", "y", "--score", "score", *extra)
        assert done.exit_code == 0, done.stderr
        lines = "1 line" if len(foot) == 1 else "2 lines"
        last = next(filter(None, reversed(foot)))
        assert said(done).count(f"in.csv: {lines} below the rows left out: {last!r}") == 1
        assert "without an outcome" not in said(done)
    path.write_text("\n".join(["x,score,y", *rows, "Total,0.5,1", ""]))
    assert "given text 'Total' among numbers" in said(run(command, path, "--target", "y", "--score", "score", *extra))


def test_a_last_row_that_only_looks_like_a_note_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    for last in ('a,b,"two\nlines"', 'a,b,"of\nTotal,,"', "Total,b,c", "a,,"):
        table, _ = read(path, f"x,y,z\n1,2,3\n{last}\n")
        assert len(table) == 2, last
        assert table["z"].to_pylist()[-1] == (next(csv.reader(io.StringIO(last)))[2] or None)
    table, _ = read(path, "name,y\nann,1\ntotal,\n")
    assert len(table) == 2


def test_limits_are_numbers_where_most_values_are_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    rows = [f"{k % 80 if k % 80 < 70 else '70+'},{('<20', '20-40', '40+')[k % 3]},{k % 2}" for k in range(400)]
    path.write_text("\n".join(["age,class,y", *rows]))
    given = Dialect(None, "auto", "auto", "auto", "auto", None)
    with open_source(str(path), given) as source:
        (piece,) = source.pieces({}, unnamed=ReadAs.feature)
    assert piece.table["age"].to_pylist() == [min(k % 80, 70) for k in range(400)]
    assert set(piece.table["class"].to_pylist()) == {"<20", "20-40", "40+"}
    done = run("fit", path, "--target", "y", "--out", tmp_path / "m")
    assert done.exit_code == 0, done.stderr
    assert "column 'age' has limits such as 90+ or <5, which are read as 90 and 5" in said(done)
    assert "column 'class'" not in said(done)
    made = run("predict", tmp_path / "m", path, "--out", tmp_path / "p.csv")
    assert made.exit_code == 0, made.stderr


def test_quoted_numbers_and_words_among_the_numbers_of_json_lines_are_numbers_and_missing(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    values = [{"bid": k / 8 if k % 5 else str(k / 8), "age": k if k % 9 else "unknown", "zip": 7 if k % 2 else "007"}
              for k in range(200)]  # fmt: skip
    path.write_text("".join(json.dumps(value | {"y": k % 2}) + "\n" for k, value in enumerate(values)))
    with open_source(str(path), Dialect(None, "auto", "auto", "auto", "auto", None)) as source:
        (piece,) = source.pieces({}, unnamed=ReadAs.feature)
    assert piece.table["bid"].to_pylist() == [k / 8 for k in range(200)]
    assert piece.table["age"].to_pylist() == [k if k % 9 else None for k in range(200)]
    assert set(piece.table["zip"].to_pylist()) == {"7", "007"}
    done = run("fit", path, "--target", "y", "--out", tmp_path / "m")
    assert done.exit_code == 0, done.stderr
    assert "in.jsonl: read with 'unknown' as missing" in said(done)


def test_lists_of_parquet_are_texts_in_every_command(tmp_path: Path) -> None:
    path, rng = tmp_path / "in.parquet", np.random.default_rng(0)
    tags = [None if k % 7 == 0 else [{"a": k % 2}] for k in range(200)]
    pq.write_table(pa.table({"tags": tags, "score": rng.random(200), "y": rng.integers(0, 2, 200)}), path)
    for command, *out in (("fit", "--out", tmp_path / "m"), ("forecast",), ("compare",)):
        done = run(command, path, "--target", "y", "--score", "score", *out)
        assert done.exit_code == 0, done.stderr
    with open_source(str(path)) as source:
        (piece,) = source.pieces({}, unnamed=ReadAs.feature)
    assert piece.table["tags"].to_pylist()[:2] == [None, '[{"a": 1}]']


def test_a_length_of_time_with_a_unit_is_refused_where_times_are_milliseconds(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    for unit, ok in ((1000, False), (1, True)):
        rows = [f"{(1_700_000_000 + 60 * k) * unit},{k % 7},{k % 2}" for k in range(50)]
        path.write_text("\n".join(["ts,x,y", *rows]))
        done = run("forecast", path, "--target", "y", "--time", "ts", "--matures", "10m")
        assert done.exit_code == (0 if ok else 2), done.stderr
        assert ("given 600 seconds" in said(done)) is not ok
    path.write_text("\n".join(["ts,x,y", *(f"{1_700_000_000_000 + 60_000 * k},{k % 7},{k % 2}" for k in range(50))]))
    assert "since 1970, expected 600000" in said(
        run("forecast", path, "--target", "y", "--time", "ts", "--matures", "10m")
    )
    assert run("forecast", path, "--target", "y", "--time", "ts", "--matures", "600000").exit_code == 0


def test_a_hint_for_a_missing_word_keeps_those_that_were_found(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    rows = [f"{'k.A.' if k % 9 == 0 else k / 7},{k % 2}" for k in range(200)]
    path.write_text("\n".join(["x,y", *rows, "unbek,0"]))
    refused = said(run("fit", path, "--target", "y", "--out", tmp_path / "m"))
    assert "--missing k.A.,unbek takes it for missing" in refused
    done = run("fit", path, "--target", "y", "--missing", "k.A.,unbek", "--out", tmp_path / "m")
    assert done.exit_code == 0, done.stderr


def test_none_among_numbers_is_missing() -> None:
    given = Dialect(None, "auto", "auto", "auto", "auto", None)
    assert detect({"agent": ["6", "9", "none"]}, given).dialect.missing == ("none",)
    assert detect({"meal": ["full", "half", "none"]}, given).dialect.missing == ()


def test_whole_numbers_that_count_rows_are_ids_although_a_few_repeat(tmp_path: Path) -> None:
    stays = [1_000_000 + int(0.93 * k) for k in range(1000)]
    table = pa.table({"MRN": stays, "number": stays, "stay": [None if k % 50 == 0 else s for k, s in enumerate(stays)]})
    assert unused_columns(table) == {"MRN": "an id", "number": "an id", "stay": "an id"}
    rng = np.random.default_rng(0)
    assert not unused_columns(pa.table({"pay": rng.integers(20_000, 90_000, 1000), "age": rng.integers(18, 90, 1000)}))


def test_compare_takes_the_column_under_the_name_that_audit_has_too(tmp_path: Path) -> None:
    path, rng = tmp_path / "in.csv", np.random.default_rng(0)
    path.write_text("\n".join(["s,y", *(f"{p:.3f},{int(rng.random() < p)}" for p in rng.random(300))]))
    assert run("compare", path, "--prob", "s", "--target", "y").exit_code == 0


def test_a_score_alone_is_compared_and_fitted(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(3), tmp_path / "in.csv"
    p = rng.uniform(0.1, 0.9, 200)
    path.write_text("score,y,t\n" + "".join(f"{a:.3f},{int(rng.random() < a)},{k}\n" for k, a in enumerate(p)))
    for drop in (["--drop", "t"], ["--time", "t"]):
        done = run("compare", path, "--target", "y", "--score", "score", *drop)
        assert done.exit_code == 0, done.stderr
        assert "Isotonic and sigmoid see the score alone, and so do the others." in " ".join(done.output.split())
    assert run("fit", path, "--target", "y", "--score", "score", "--drop", "t", "--out", tmp_path / "m").exit_code == 0


def test_hints_for_percentages_and_words_can_be_pasted(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(3), tmp_path / "in.parquet"
    p = rng.uniform(10, 90, 300)
    outcome = np.where(rng.random(300) < p / 100, "good", "so so")
    pq.write_table(pa.table({"my score": p, "outcome": pa.array(outcome).dictionary_encode()}), path)
    asked = ["audit", path, "--target", "outcome", "--prob", "my score"]
    assert "(--positive good or --positive 'so so' names the value that counts as 1)" in said(run(*asked))
    asked += ["--positive", "good"]
    assert "they look like percentages: --percent 'my score' divides by 100" in said(run(*asked))
    done = run(*asked, "--percent", "my score")
    assert done.exit_code == 0, done.stderr
    with open_source(str(path), Dialect(percent=("my score",))) as source:
        (piece,) = source.pieces({"my score": ReadAs.number})
    np.testing.assert_allclose(piece.table["my score"].to_numpy(), p / 100, rtol=1e-15)


def test_sentences_are_called_free_text_and_ids_beside_missing_values_ids() -> None:
    notes = pa.array([f"The customer called about {k}" for k in range(200)])
    numbered = pa.array([None, *map(float, range(1, 200))])
    found = unused_columns(pa.table({"note": notes, "case": numbered, "x": numbered.to_numpy(False) * 0.37}))
    assert found == {"note": "free text", "case": "an id"}


@pytest.mark.parametrize("command", ["forecast", "fit", "monitor"])
def test_groups_that_are_too_small_are_counted(command: str, tmp_path: Path) -> None:
    path, rng = tmp_path / "in.csv", np.random.default_rng(0)
    shops = ["far"] * 3 + ["near", "town"] * 100
    path.write_text("\n".join(["s,shop,y", *(f"{rng.random():.3f},{shop},{k % 2}" for k, shop in enumerate(shops))]))
    score, *out = {"fit": ("--score", "--out", tmp_path / "m"), "monitor": ("--prob",)}.get(command, ("--score",))
    done = run(command, path, score, "s", "--target", "y", "--groups", "shop", *out)
    assert done.exit_code in (0, 1), done.stderr
    assert "2 groups tested" in said(done) + done.stdout
    assert "1 group is too small to be tested" in said(done) + done.stdout
