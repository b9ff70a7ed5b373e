"""A file read in pieces of any size is the file read whole, and the same table in another format."""

import csv
import gzip
import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pacsv = pytest.importorskip("pyarrow.csv")
papq = pytest.importorskip("pyarrow.parquet")

from swapcal.cli import command_of  # noqa: E402
from swapcal.cli.rows import numbers_or_text  # noqa: E402
from swapcal.cli.stream_table import Roles, StreamReader  # noqa: E402
from swapcal.features.encoder import Scales  # noqa: E402
from swapcal.features.sources import Number  # noqa: E402
from swapcal.tables import delimited, formats, sources  # noqa: E402
from swapcal.tables.dialect import Dialect  # noqa: E402
from swapcal.tables.formats import open_source  # noqa: E402
from swapcal.tables.frame import Table  # noqa: E402
from swapcal.tables.outcomes import ReadAs  # noqa: E402
from swapcal.tables.sources import InputError  # noqa: E402
from tests.commands import runner, said  # noqa: E402

WORDS = st.sampled_from(["Rome", "Bari, south", 'the "old" town', "two\nlines", "Ærø", "x", " padded ", "1,5 a"])
DAY = date(2024, 2, 28)
KINDS: dict[str, Any] = {
    "whole": st.integers(-5, 9),
    "fraction": st.integers(-50, 90).map(lambda k: k / 8),
    "word": WORDS,
    "truth": st.booleans(),
    "day": st.integers(0, 3).map(lambda k: DAY + timedelta(days=k)),
    "moment": st.integers(0, 4).map(lambda k: datetime(2024, 2, 28) + timedelta(seconds=37.5 * k)),
}


@st.composite
def columns(draw: Any) -> tuple[str, list[Any]]:
    """Draw a column that may begin empty, and whose later values may be finer than the first ones."""
    kind, rows = draw(st.sampled_from(sorted(KINDS))), 24
    values = draw(st.lists(st.none() | KINDS[kind], min_size=rows, max_size=rows))
    if kind == "fraction":
        some = draw(st.integers(0, rows))
        values[:some] = [None if value is None else float(round(value)) for value in values[:some]]
    return kind, [None] * (empty := draw(st.integers(0, rows))) + values[empty:]


@st.composite
def tables(draw: Any) -> Any:
    found = draw(st.lists(columns(), min_size=1, max_size=4))
    return pa.table(
        {"y": [k % 3 % 2 for k in range(24)], **{f"{kind}{k}": each for k, (kind, each) in enumerate(found)}}
    )


def spelt(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def as_csv(table: Any, end: str, mark: bool, whole: bool) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=end)
    writer.writerows([table.column_names, *([*map(spelt, row.values())] for row in table.to_pylist())])
    text = out.getvalue() if whole else out.getvalue().removesuffix(end)
    return (b"\xef\xbb\xbf" if mark else b"") + text.encode()


@contextmanager
def pieces(block: int, head: int, rows: int) -> Iterator[None]:
    """Cut files into pieces of so many bytes or rows."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, size in (
            (delimited, "BLOCK", block), (delimited, "FIRST", head), (sources, "HEAD", head), (sources, "CHUNK", head),
            (formats, "JSON_ROWS", rows), (formats, "PARQUET_ROWS", rows), (formats, "BLOCK", block),
        ):  # fmt: skip
            patch.setattr(module, name, size)
        yield


def parts_of(path: Path, names: list[str], jobs: int = 1) -> list[Any]:
    with open_source(str(path)) as source:
        return [piece.table for piece in source.pieces(dict.fromkeys(names, ReadAs.any), jobs)]


def streamed(path: Path, jobs: int = 1) -> Any:
    with open_source(str(path)) as source:
        found = [read.features for read in StreamReader(source, Roles("y"), skip=False, jobs=jobs)]
    return numbers_or_text(joined(found))


def joined(parts: list[Any]) -> Any:
    return pa.concat_tables(parts, promote_options="permissive")


def learned(parts: list[Any], names: list[str]) -> list[Any]:
    """Return the columns as an audit learns them, part by part."""
    scales = Scales.of(Table(parts[0]), names)
    for part in parts[1:]:
        scales.merge(Scales.of(Table(part), names))
    return [
        (each.name, round(each.centre, 9), round(each.spread, 9), each.missing) if isinstance(each, Number) else each
        for each in scales.columns(32)
    ]


def same(one: Any, other: Any) -> None:
    one, other = Table(one), Table(other)
    assert one.columns == other.columns
    for name in one.columns:
        assert one.is_numeric(name) == other.is_numeric(name), name
        if one.is_numeric(name):
            np.testing.assert_array_equal(one.numbers(name), other.numbers(name), name)
        else:
            mine, theirs = one.categories(name), other.categories(name)
            assert [mine.names[k] for k in mine.codes] == [theirs.names[k] for k in theirs.codes], name


@settings(max_examples=30, deadline=None)
@given(
    tables(), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans(), st.booleans(),
    st.integers(1, 200), st.integers(80, 300), st.integers(1, 8), st.integers(1, 3),
)  # fmt: skip
def test_a_file_in_pieces_is_the_file(
    table: Any, end: str, mark: bool, whole: bool, packed: bool, block: int, head: int, rows: int, jobs: int
) -> None:
    text, names = as_csv(table, end, mark, whole), table.column_names
    timeless = table.select([name for name in names if not name.startswith(("day", "moment"))])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("in.csv.gz" if packed else "in.csv")
        path.write_bytes(gzip.compress(text) if packed else text)
        papq.write_table(table, stored := Path(folder) / "in.parquet")
        (lines := Path(folder) / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in timeless.to_pylist()))
        once, as_stream = parts_of(path, names), streamed(path)
        with pieces(block, head, rows):
            many, in_pieces = parts_of(path, names, jobs), streamed(path, jobs)
            others = [(names, parts_of(stored, names)), (timeless.column_names, parts_of(lines, timeless.column_names))]
            same(as_stream, streamed(stored))
            same(as_stream.select(timeless.column_names[1:]), streamed(lines))
    same(as_stream, in_pieces)
    for own, parts in [(names, many), *others]:
        same(once[0].select(own), joined(parts))
        assert learned([once[0].select(own)], own) == learned(parts, own)


@pytest.mark.parametrize("later", ["much", "2024-01-01T00:00:00Z", "true"])
@pytest.mark.parametrize("first", ["7", "2024-01-01T00:00:00", "2024-01-01T00:00:00.5Z"])
def test_what_does_not_fit_the_values_before_is_named_by_its_row(tmp_path: Path, first: str, later: str) -> None:
    path = tmp_path / "in.csv"
    path.write_text("y,x\n" + "".join(f"{k % 2},{first if k < 30 else later}\n" for k in range(40)))
    with pieces(100, 100, 5):
        if first.endswith("Z") and later.endswith("Z"):
            assert len(joined(parts_of(path, ["x"]))) == 40
            return
        with pytest.raises(InputError, match=f"row 31: column 'x': given '{later}'"):
            parts_of(path, ["x"])
        with pytest.raises(InputError, match=f"row 31: column 'x': given (text )?'{later}'"):
            streamed(path)


def test_numbers_with_commas_among_words_are_words_whatever_the_pieces(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(
        "y,x\n" + "".join(f"{k % 2},{'Rome' if k % 9 else chr(34) + '1,5' + chr(34)}\n" for k in range(1, 40))
    )
    with pieces(12, 100, 1):
        assert joined(parts_of(path, ["x"]))["x"].to_pylist().count("1,5") == 4
        assert streamed(path)["x"].to_pylist().count("1,5") == 4


def test_an_audit_can_be_told_that_numbers_are_categories(tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.json"
    path.write_text("p,y,x\n" + "".join(f"0.5,{k % 2},{'007' if k < 60 else 'b'}\n" for k in range(80)))
    roles = ("--prob", "p", "--target", "y", "--features", "x", "--categorical")
    with pieces(100, 100, 5):
        run("audit", path, *roles, "x", "--json", out)
        assert {group["name"] for group in json.loads(out.read_text())["groups"]} >= {"x = 007", "x = b"}
        refused = invoke("audit", path, *roles, "y")
    assert "--categorical: given 'y', expected one of --features" in said(refused)


NAMES = ("audit", "forecast", "fit", "predict")
invoke = runner(*map(command_of, NAMES))


def run(*arguments: Any) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output


def answers(path: Path, folder: Path) -> list[Any]:
    """Return what each command says about a file."""
    folder.mkdir()
    run("audit", path, "--prob", "p", "--target", "y", "--features", "late,day,word", "--title", "t",
        "--json", folder / "a")  # fmt: skip
    run("forecast", path, "--target", "y", "--score", "p", "--out", folder / "f.csv")
    run("fit", path, "--target", "y", "--score", "p", "--snapshots", 2, "--correction", "linear", "--out", folder / "m")
    run("predict", folder / "m", path, "--out", folder / "p.csv")
    audit = {
        (each["name"], each["against"]): each["value"] for each in json.loads((folder / "a").read_text())["quantities"]
    }
    found = [pacsv.read_csv(folder / name) for name in ("f.csv", "p.csv")]
    return [audit, *(found[0][name].to_pylist() for name in ("p", "mean")), found[1]["mean"].to_pylist()]


def test_every_command_says_the_same_whatever_the_pieces_and_the_format(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(3), 240
    p = rng.random(rows).round(3)
    late = [None if k < 150 else float(rng.integers(9)) / 4 for k in range(rows)]
    table = pa.table(
        {
            "late": late,
            "day": [None if k < 150 else DAY + timedelta(days=k % 5) for k in range(rows)],
            "word": [None if k < 150 else ("Rome", "two\nlines")[k % 2] for k in range(rows)],
            "p": p,
            "y": [int(rng.random() < 0.5 * p[k] + 0.4 * (late[k] or 0) / 2) for k in range(rows)],
        }
    )
    (tmp_path / "in.csv").write_bytes(as_csv(table, "\n", mark=False, whole=True))
    papq.write_table(table, tmp_path / "in.parquet")
    expected = answers(tmp_path / "in.csv", tmp_path / "whole")
    with pieces(900, 500, 31):
        for name in ("in.csv", "in.parquet"):
            for mine, theirs in zip(expected, answers(tmp_path / name, tmp_path / f"{name} in pieces"), strict=True):
                assert mine == pytest.approx(theirs, rel=1e-9)


def test_what_was_read_ahead_is_read_anew_once_its_column_is_decided(tmp_path: Path) -> None:
    path, words = tmp_path / "in.csv", [""] * 30 + ["a"] * 3 + ["007"] * 30
    path.write_text("y,x\n" + "".join(f"{k % 2},{word}\n" for k, word in enumerate(words)))
    with pieces(12, 80, 1):
        found = joined(parts_of(path, ["x"], jobs=3))["x"].to_pylist()
    assert found[30:] == words[30:]


def test_rows_of_another_width_are_counted_once_whatever_else_is_wrong_around_them(tmp_path: Path) -> None:
    path, short = tmp_path / "in.csv", (25, 65, 66)
    lines = ["0" if k in short else f"{k % 2},{'much' if k % 10 == 4 and k > 20 else k}" for k in range(1, 91)]
    path.write_text("y,x\n" + "\n".join(lines) + "\n")
    with pieces(60, 80, 5), open_source(str(path)) as source:
        found = [*source.pieces({}, unnamed=ReadAs.feature)]
    assert [*np.concatenate([each.rows for each in found])] == [k for k in range(1, 91) if k not in short]
    assert sum(len(each.ragged) for each in found) == len(short)
    told = [each.complaint.partition(": ")[2].partition(":")[0] for each in found if each.complaint]
    assert told == [f"row {k} (line {k + 1})" for k in short][: len(told)]
    assert len(told) > 1


def test_the_types_of_a_folder_are_those_of_its_first_file(tmp_path: Path) -> None:
    for k, word in enumerate(("7", "1.5", "much")):
        (tmp_path / f"{k}.csv").write_text("y,x\n" + f"{k % 2},{word}\n" * 10)
    with open_source(str(tmp_path)) as source, pytest.raises(InputError, match="row 21: column 'x': given 'much'"):
        list(source.pieces({"x": ReadAs.any}))
    (tmp_path / "2.csv").unlink()
    assert joined(parts_of(tmp_path, ["x"])).schema.field("x").type == pa.float64()


@pytest.mark.parametrize(("order", "day"), [("iso", "2024-02-{:02}"), ("dmy", "{:02}.02.2024")])
def test_a_word_among_later_dates_costs_its_row_only(tmp_path: Path, order: str, day: str) -> None:
    path = tmp_path / "in.csv"
    path.write_text("y,x\n" + "".join(f"{k % 2},{'soon' if k == 30 else day.format(1 + k % 28)}\n" for k in range(40)))
    dialect = Dialect(dates=order)
    with pieces(100, 100, 5):
        with open_source(str(path), dialect) as source, pytest.raises(InputError, match=r"row 31: .*'soon'"):
            list(source.pieces({"x": ReadAs.any}))
        with open_source(str(path), dialect) as source:
            kept = StreamReader(source, Roles("y"), skip=True).whole()
    assert [*kept.rows] == [k for k in range(1, 41) if k != 31]
    assert kept.features["x"].to_pylist()[-1] == datetime(2024, 2, 12)


def test_ids_of_json_lines_stay_whole_numbers_whatever_the_pieces(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"y": k % 2, "id": k}) + "\n" for k in range(20)))
    with pieces(100, 100, 5), open_source(str(path)) as source:
        ids = StreamReader(source, Roles("y", id="id"), skip=False).whole().ids
    assert [(type(id), id) for id in ids or ()] == [(int, k) for k in range(20)]


def test_a_spelling_of_numbers_that_only_python_has_is_text(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("y,x\n1,2\n0,1_000\n")
    with open_source(str(path)) as source, pytest.raises(InputError, match="row 2: column 'x': given '1_000'"):
        list(source.pieces({"x": ReadAs.number}))
