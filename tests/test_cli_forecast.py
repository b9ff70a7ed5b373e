"""`swapcal forecast`: files in, forecasts out; every kind of bad input is named."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")
pytest.importorskip("pyarrow")


from swapcal.cli import forecasting
from swapcal.cli.forecast import forecast
from swapcal.live import Live
from tests.commands import runner, said

run = runner(forecast)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(9)
    n = 500
    shop = rng.choice(["a", "b", "c"], n)
    price = rng.lognormal(1, 1, n).round(3)
    p_model = np.clip(0.2 + 0.1 * price, 0.05, 0.9).round(4)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 90, n)), unit="D")
    return pd.DataFrame(
        {
            "when": day.strftime("%Y-%m-%d"),
            "known": (day + pd.to_timedelta(rng.integers(0, 20, n), unit="D")).strftime("%Y-%m-%d"),
            "order": [f"order {k}" for k in range(n)],
            "shop": shop,
            "price": price,
            "p_model": p_model,
            "bought": (rng.random(n) < p_model + 0.1 * (shop == "a")).astype(int),
        }
    )


ROLES = ("--target", "bought", "--drop", "known", "--drop", "order", "--drop", "when")


def written(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(path, index=False)
    return path


def test_the_output_is_what_live_forecasts(frame: pd.DataFrame, tmp_path: Path) -> None:
    file, out = written(tmp_path / "in.csv", frame), tmp_path / "out.csv"
    result = run(file, *ROLES, "--score", "p_model", "--groups", "shop", "--out", out)
    assert result.exit_code == 0, result.output
    assert "500 rows" in result.stderr
    expected = Live(scores=["p_model"], groups=["shop"]).run(frame[["shop", "price", "p_model"]], frame["bought"])
    actual = pd.read_csv(out)
    for name in ("p", "mean", "low", "high", "weight"):
        np.testing.assert_allclose(actual[name], getattr(expected, name), rtol=1e-12)
    assert list(actual.columns) == ["row", "bought", "p", "mean", "low", "high", "weight"]
    assert actual["row"].tolist() == list(range(1, 501))


@pytest.mark.parametrize("form", ["gzip", "parquet", "stdin"])
def test_every_input_form_gives_the_same(frame: pd.DataFrame, tmp_path: Path, form: str) -> None:
    plain, stdin = tmp_path / "plain.csv", None
    run(written(tmp_path / "in.csv", frame), *ROLES, "--out", plain)
    file: Any = tmp_path / {"gzip": "in.csv.gz", "parquet": "in.parquet", "stdin": "-"}[form]
    if form == "gzip":
        file.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    elif form == "parquet":
        frame.to_parquet(file)
    else:
        file, stdin = "-", frame.to_csv(index=False).encode()
    result = run(file, *ROLES, "--out", tmp_path / "out.csv", stdin=stdin)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out.csv").read_text() == plain.read_text()


def test_a_state_continues_exactly(frame: pd.DataFrame, tmp_path: Path) -> None:
    roles = ("--target", "bought", "--time", "when", "--label-time", "known", "--id", "order")
    whole, halves = tmp_path / "whole.csv", [tmp_path / "first.csv", tmp_path / "second.csv"]
    assert run(written(tmp_path / "in.csv", frame), *roles, "--out", whole).exit_code == 0
    for part, out in zip((frame[:260], frame[260:]), halves, strict=True):
        result = run(written(tmp_path / "part.csv", part), *roles, "--out", out, "--state", tmp_path / "state")
        assert result.exit_code == 0, result.output
    assert "open" in result.stderr
    joined = pd.concat([pd.read_csv(out) for out in halves], ignore_index=True).drop(columns="row")
    pd.testing.assert_frame_equal(joined, pd.read_csv(whole).drop(columns="row"))


def test_late_labels_change_the_forecasts(frame: pd.DataFrame, tmp_path: Path) -> None:
    file = written(tmp_path / "in.csv", frame)
    roles = ("--target", "bought", "--time", "when", "--drop", "order")
    run(file, *roles, "--drop", "known", "--out", tmp_path / "now.csv")
    run(file, *roles, "--label-time", "known", "--out", tmp_path / "late.csv")
    now, late = pd.read_csv(tmp_path / "now.csv"), pd.read_csv(tmp_path / "late.csv")
    assert (now["mean"] != late["mean"]).mean() > 0.5
    same_day = frame["when"] == frame["when"].iloc[0]
    assert late["mean"][same_day].nunique() <= 2


def test_labels_are_held_until_they_mature(frame: pd.DataFrame, tmp_path: Path) -> None:
    held = frame.assign(ends=pd.to_datetime(frame["known"]) + pd.Timedelta(days=9))
    file = written(tmp_path / "in.csv", held)
    roles = ("--target", "bought", "--time", "when", "--drop", "order", "--label-time", "known")
    result = run(file, *roles, "--matures", "ends", "--out", tmp_path / "held.csv")
    assert result.exit_code == 0
    assert "of them held until they mature" in result.stderr.replace("\n", " ")
    run(file, "--target", "bought", "--time", "when", "--drop", "order,known", "--label-time", "ends",
        "--out", tmp_path / "late.csv")  # fmt: skip
    mean = pd.read_csv(tmp_path / "held.csv")["mean"].to_numpy()
    np.testing.assert_array_equal(mean, pd.read_csv(tmp_path / "late.csv")["mean"].to_numpy())
    refused = run(file, "--target", "bought", "--matures", "ends")
    assert "--matures: given without --time, expected both" in refused.stderr


def test_a_report_shows_dates_as_dates_and_numbers_as_numbers(frame: pd.DataFrame, tmp_path: Path) -> None:
    page, roles = tmp_path / "report.html", ("--target", "bought", "--drop", "known", "--drop", "order")
    assert run(written(tmp_path / "in.csv", frame), *roles, "--time", "when", "--report", page).exit_code == 0
    assert "2024-01-01 to 2024-03-" in page.read_text(encoding="utf-8")
    numbered = frame.assign(when=np.arange(len(frame)))
    assert run(written(tmp_path / "in.csv", numbered), *roles, "--time", "when", "--report", page).exit_code == 0
    assert "0 to 499" in page.read_text(encoding="utf-8")


def test_a_report_is_one_page_about_these_forecasts(frame: pd.DataFrame, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run(written(tmp_path / "in.csv", frame), *ROLES, "--groups", "shop", "--report", page)
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert "Forecasts of bought in in.csv" in text
    assert "shop" in text


def test_wrong_inference_can_be_overridden(frame: pd.DataFrame, tmp_path: Path) -> None:
    coded = frame.assign(shop=frame["shop"].map({"a": 1, "b": 2, "c": 3}))
    file = written(tmp_path / "in.csv", coded)
    run(file, *ROLES, "--out", tmp_path / "number.csv")
    run(file, *ROLES, "--categorical", "shop", "--out", tmp_path / "category.csv")
    assert (tmp_path / "number.csv").read_text() != (tmp_path / "category.csv").read_text()


def spoiled(frame: pd.DataFrame, column: str, value: Any) -> pd.DataFrame:
    bad = frame.astype({column: object})
    bad.loc[7, column] = value
    return bad


def test_a_row_with_an_id_of_an_earlier_one_stops_or_is_skipped_and_counted(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasting, "PIECE", 100)
    repeated = frame.assign(order=frame["order"].where(~frame.index.isin([7, 110, 499]), "order 5"))
    file, out, state = written(tmp_path / "in.csv", repeated), tmp_path / "out.csv", tmp_path / "state"
    given = (file, *ROLES, "--id", "order", "--out", out, "--state", state)
    refused = run(*given)
    assert refused.exit_code == 2
    assert "given 'order 5' again in row 8, expected each id once; --on-bad-row skip leaves out such rows" in said(
        refused
    )
    assert not state.exists()
    result = run(*given, "--on-bad-row", "skip")
    assert result.exit_code == 0, result.output
    assert "skipped 3 of 500 rows (0.6%): column 'order': given … again, expected each id once" in said(result)
    assert pd.read_csv(out)["row"].tolist() == [k for k in range(1, 501) if k not in (8, 111, 500)]
    before = state.read_bytes()
    again = run(*given, "--on-bad-row", "skip")
    assert again.exit_code == 2
    assert "given no usable row among 500, expected some; row 1: column 'order': given 'order 0' again" in said(again)
    assert state.read_bytes() == before


def test_of_two_rows_with_one_id_the_first_that_can_be_used_counts(frame: pd.DataFrame, tmp_path: Path) -> None:
    resent = spoiled(frame, "bought", "maybe")
    resent.loc[8, "order"] = resent.loc[7, "order"]
    file, out = written(tmp_path / "in.csv", resent), tmp_path / "out.csv"
    result = run(file, *ROLES, "--id", "order", "--out", out, "--on-bad-row", "skip")
    assert result.exit_code == 0, result.output
    assert pd.read_csv(out)["row"].tolist() == [k for k in range(1, 501) if k != 8]


@pytest.mark.parametrize(
    ("column", "value", "more", "message"),
    [
        ("bought", 2, (), "row 8: column 'bought': given 2, expected 0 or 1"),
        ("bought", "maybe", (), "row 8: column 'bought': given 'maybe', expected 0 or 1"),
        ("price", "dear", (), "row 8: column 'price': given text 'dear' among numbers, expected a number"),
        ("price", "inf", (), "row 8: column 'price': given an infinite number, expected a finite one"),
        ("order", "", ("--id", "order"), "row 8: column 'order': given nothing, expected the name of the row"),
        ("p_model", 1.5, ("--score", "p_model"), "row 8: column 'p_model': given 1.5, expected a probability"),
    ],
)
def test_a_bad_row_stops_or_is_skipped_and_counted(
    frame: pd.DataFrame, tmp_path: Path, column: str, value: Any, more: Any, message: str
) -> None:
    file, out = written(tmp_path / "in.csv", spoiled(frame, column, value)), tmp_path / "out.csv"
    result = run(file, *ROLES, *more, "--out", out)
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", " ")
    assert not out.exists()
    result = run(file, *ROLES, *more, "--out", out, "--on-bad-row", "skip")
    assert result.exit_code == 0, result.output
    assert "skipped 1 of 500 rows (0.2%)" in result.stderr
    assert pd.read_csv(out)["row"].tolist() == [k for k in range(1, 501) if k != 8]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "when",
            "2023-01-01",
            "row 8: column 'when': given 2023-01-01, before that of an earlier row",
        ),
        ("when", "someday", "row 8: column 'when': given 'someday', expected a number or an ISO date"),
        ("when", "", "row 8: column 'when': given nothing, expected a time"),
        ("known", "2023-01-01", "row 8: column 'known': given 2023-01-01 for a forecast at 2024-01-"),
    ],
)
def test_times_that_cannot_be_are_named(
    frame: pd.DataFrame, tmp_path: Path, column: str, value: Any, message: str
) -> None:
    file = written(tmp_path / "in.csv", spoiled(frame, column, value))
    roles = ("--target", "bought", "--time", "when", "--label-time", "known", "--drop", "order")
    result = run(file, *roles)
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", " ")
    assert run(file, *roles, "--on-bad-row", "skip").exit_code == 0


def test_a_row_with_too_few_fields_stops_or_is_skipped(frame: pd.DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    lines = frame.to_csv(index=False).splitlines()
    file.write_text("\n".join([*lines[:5], "2024-01-01,oops", *lines[5:]]) + "\n")
    refused = run(file, *ROLES)
    assert refused.exit_code == 2
    assert "row 5 (line 6): given 2 fields, expected 7 as in the header" in refused.stderr
    assert "--on-bad-row skip would leave out 1 of 501 rows (0.2%)" in refused.stderr
    out = tmp_path / "out.csv"
    result = run(file, *ROLES, "--on-bad-row", "skip", "--out", out)
    assert result.exit_code == 0, result.output
    assert "skipped 1 of 501 rows (0.2%): wrong number of fields" in result.stderr
    assert pd.read_csv(out)["row"].tolist() == [k for k in range(1, 502) if k != 5]


def test_files_columns_and_states_that_do_not_fit(frame: pd.DataFrame, tmp_path: Path) -> None:
    file, state = written(tmp_path / "in.csv", frame), tmp_path / "state"
    assert "file not found" in run(tmp_path / "none.csv", *ROLES).stderr
    damaged = tmp_path / "damaged.csv.gz"
    damaged.write_bytes(b"this is not gzip")
    assert "given the name of a gzip file" in run(damaged, *ROLES).stderr
    empty = tmp_path / "empty.csv"
    empty.write_text("bought,price,when,known,order\n")
    assert "given no rows" in run(empty, *ROLES).stderr
    assert "no column 'sold'" in run(file, "--target", "sold").stderr
    assert "--label-time: given without --time, expected both" in run(file, *ROLES[:2], "--label-time", "known").stderr
    assert run(file, *ROLES, "--state", state).exit_code == 0
    other = run(file, *ROLES, "--groups", "shop", "--state", state)
    assert other.exit_code == 2
    assert "given a state with groups = [], expected groups = ['shop']" in other.stderr.replace("\n", " ")
    state.write_bytes(b"junk")
    assert "not a readable swapcal state file" in run(file, *ROLES, "--state", state).stderr.replace("\n", " ")


def test_a_column_has_one_role(frame: pd.DataFrame, tmp_path: Path) -> None:
    file, out = written(tmp_path / "in.csv", frame), tmp_path / "out.csv"
    for given, words in (
        (("--groups", "when", "--time", "when"), "column 'when': given as --groups and as --time, expected one role"),
        (("--groups", "bought"), "column 'bought': given as --groups and as --target, expected one role"),
        (("--score", "p_model", "--drop", "p_model"), "column 'p_model': given as --score and as --drop"),
        (("--id", "bought"), "column 'bought': given as --target and as --id, expected one role"),
    ):
        assert words in said(run(file, "--target", "bought", *given))
    high = written(tmp_path / "high.csv", frame.rename(columns={"bought": "high"}))
    assert "--out: given a column 'high' to copy, expected none called p, mean, low, high, weight" in said(
        run(high, "--target", "high", "--out", out)
    )
    assert not out.exists()
    assert run(high, "--target", "high").exit_code == 0


def test_rows_without_labels_are_forecast_too(frame: pd.DataFrame, tmp_path: Path) -> None:
    partly = frame.astype({"bought": object})
    partly.loc[450:, "bought"] = ""
    out = tmp_path / "out.csv"
    result = run(written(tmp_path / "in.csv", partly), *ROLES, "--out", out)
    assert result.exit_code == 0, result.output
    assert len(pd.read_csv(out)) == 500
    assert "outcomes: 450 of 500 learned (50 open)" in result.stderr


def test_the_summary_judges_the_score_as_it_was_given(frame: pd.DataFrame, tmp_path: Path) -> None:
    file = written(tmp_path / "in.csv", frame)
    brier = np.mean((frame["p_model"] - frame["bought"]) ** 2)
    logits = written(tmp_path / "logits.csv", frame.assign(p_model=np.log(frame["p_model"] / (1 - frame["p_model"]))))
    for given, name in ((file, "p_model"), (logits, "p_model:logit")):
        line = next(x for x in run(given, *ROLES, "--score", name).stderr.splitlines() if "p_model, as given" in x)
        assert float(line.split()[-2]) == pytest.approx(brier, abs=6e-6)
    page = tmp_path / "report.html"
    said = run(file, *ROLES, "--score", "p_model", "--report", page).stderr.replace("\n", " ")
    assert "p_model beyond chance by the Brier score" in said
    assert "p_model beyond chance by the Brier score" in page.read_text(encoding="utf-8")
    gaps = written(tmp_path / "gaps.csv", frame.assign(p_model=frame["p_model"].where(frame.index != 7)))
    assert "not always given" in run(gaps, *ROLES, "--score", "p_model").stderr


def test_logits_can_be_scores(frame: pd.DataFrame, tmp_path: Path) -> None:
    logits = frame.assign(p_model=np.log(frame["p_model"] / (1 - frame["p_model"])))
    result = run(written(tmp_path / "in.csv", logits), *ROLES, "--score", "p_model:logit")
    assert result.exit_code == 0, result.output


def test_a_state_brings_its_settings_and_columns_are_kept(frame: pd.DataFrame, tmp_path: Path) -> None:
    halves = [written(tmp_path / f"{k}.csv", frame.iloc[a : a + 250]) for k, a in enumerate((0, 250))]
    given = ("--score", "p_model", "--groups", "shop", "--seed", "7")
    state = ("--state", tmp_path / "state")
    assert run(halves[0], *ROLES, *given, *state).exit_code == 0
    copied = tmp_path / "copied"
    copied.write_bytes((tmp_path / "state").read_bytes())
    tail = ("--out", tmp_path / "all.csv", "--keep", "shop,p_model")
    assert run(halves[1], *ROLES, *given, *state, *tail).exit_code == 0
    named = ("--target", "bought", "--state", copied)
    result = run(halves[1], *named, "--out", tmp_path / "few.csv", "--keep", "shop,p_model")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "few.csv").read_bytes() == (tmp_path / "all.csv").read_bytes()
    kept = pd.read_csv(tmp_path / "few.csv")
    np.testing.assert_array_equal(kept["shop"], frame["shop"][250:])
    np.testing.assert_allclose(kept["p_model"], frame["p_model"][250:])
    assert "given a state with seed = 7, expected seed = 8" in said(run(halves[1], *named, "--seed", "8"))
    assert "saved without --trees" in said(run(halves[1], *named, "--trees"))


def test_the_verdict_and_the_reports_path_are_printed(frame: pd.DataFrame, tmp_path: Path) -> None:
    result = run(written(tmp_path / "in.csv", frame), *ROLES, "--report", tmp_path / "report.html")
    assert result.exit_code == 0, result.output
    words = said(result)
    assert any(f"{verdict}: " in words for verdict in ("no error found", "small", "miscalibrated", "undecided"))
    assert "report: " in words
    assert "report.html" in words.replace(" ", "")


def test_a_score_that_is_suddenly_missing_is_named(frame: pd.DataFrame, tmp_path: Path) -> None:
    holes = frame.assign(p_model=frame["p_model"].where(np.arange(len(frame)) < 380))
    result = run(written(tmp_path / "in.csv", holes), *ROLES, "--score", "p_model")
    assert "'p_model' is missing in" in said(result)
    renamed = frame.rename(columns={"p_model": "P_model"})
    assert run(written(tmp_path / "renamed.csv", renamed), *ROLES, "--score", "p_model").exit_code == 2
