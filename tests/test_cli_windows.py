"""Windows, silence, priors and unseen outcomes on the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from swapcal.cli import forecasting
from swapcal.cli.forecast import forecast, label
from swapcal.live import Live
from tests.commands import runner, said

run = runner(forecast, label)
WINDOW = 200.0
ROLES = ("--target", "clicked", "--time", "at", "--label-time", "known")
NAMED = ("--matures", WINDOW, "--silence", 0, "--prior", 0.2)


@pytest.fixture(scope="module")
def clicks() -> pd.DataFrame:
    """Clicks are reported within a window; nothing else ever is."""
    rng = np.random.default_rng(4)
    n = 900
    at, x = np.arange(n, dtype=float), rng.normal(size=n).round(3)
    clicked = rng.random(n) < 1.0 / (1.0 + np.exp(1.5 - x))
    known = at + rng.integers(0, int(WINDOW), n)
    reported = {"clicked": np.where(clicked, 1.0, np.nan), "known": np.where(clicked, known, np.nan)}
    return pd.DataFrame({"at": at, "x": x, **reported, "id": [f"ad {k}" for k in range(n)]})


@pytest.fixture
def file(clicks: pd.DataFrame, tmp_path: Path) -> Path:
    clicks.drop(columns="id").to_csv(tmp_path / "in.csv", index=False)
    return tmp_path / "in.csv"


def traced(clicks: pd.DataFrame, live: Live) -> np.ndarray:
    columns = {"time": clicks["at"], "label_time": clicks["known"]}
    return np.asarray(live.run(clicks[["x"]], clicks["clicked"], **columns).mean)


def test_empty_outcomes_are_silence_at_the_end_of_their_window(
    clicks: pd.DataFrame, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasting, "PIECE", 128)
    out, page = tmp_path / "out.csv", tmp_path / "page.html"
    result = run("forecast", file, *ROLES, *NAMED, "--out", out, "--report", page)
    assert result.exit_code == 0, result.output
    live = Live(matures=WINDOW, silence=0, prior=0.2)
    mean, made = traced(clicks, live), pd.read_csv(out)["mean"].to_numpy()
    np.testing.assert_allclose(made, mean, rtol=1e-12)
    status = live.status()
    assert f"{status.silent:,} as silence, 0 corrections" in said(result)
    ended = clicks["at"].to_numpy() + WINDOW < clicks["at"].iloc[-1]
    assert f"the {ended.sum():,} rows whose window has ended" in said(result)
    assert status.labels == ended.sum()
    brier = np.mean((mean - clicks["clicked"].fillna(0.0))[ended] ** 2)
    assert f"{brier:.5f}" in said(result)
    assert f"{ended.sum():,}" in page.read_text(encoding="utf-8")


def test_a_column_wins_over_a_length_of_time(clicks: pd.DataFrame, tmp_path: Path) -> None:
    same = clicks.drop(columns="id").assign(**{"1h": clicks["at"] + WINDOW})
    same.to_csv(tmp_path / "in.csv", index=False)
    outs = [tmp_path / "column.csv", tmp_path / "number.csv"]
    for out, matures, more in ((outs[0], "1h", ()), (outs[1], "200", ("--drop", "1h"))):
        result = run("forecast", tmp_path / "in.csv", *ROLES, "--matures", matures, "--silence", 0, *more, "--out", out)
        assert result.exit_code == 0, result.output
    column, number = (pd.read_csv(out)["mean"].to_numpy() for out in outs)
    np.testing.assert_array_equal(column, number)
    assert said(run("forecast", tmp_path / "in.csv", *ROLES, "--matures", "soon")).count("--matures: given 'soon'") == 1


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--silence", "0"), "--silence: given without --matures"),
        (("--prior", "1.5"), "prior: given 1.5"),
        (("--prior", "y"), "prior: given 'y'"),
        (("--unseen", "maybe"), "unseen: given 'maybe'"),
        (("--unseen", "0.5"), "unseen: given 0.5"),
    ],
)
def test_settings_that_are_none_are_named(file: Path, more: tuple[str, ...], complaint: str) -> None:
    result = run("forecast", file, *ROLES, *more)
    assert result.exit_code == 2
    assert complaint in said(result)


def test_a_score_may_be_the_prior_and_rules_are_passed_on(clicks: pd.DataFrame, tmp_path: Path) -> None:
    scored = clicks.drop(columns="id").assign(s=0.3)
    scored.to_csv(tmp_path / "in.csv", index=False)
    for rule, unseen in (("anything", "anything"), ("4", 4.0), ("fair", "fair")):
        more = ("--score", "s", "--prior", "s", "--unseen", rule, "--out", tmp_path / "out.csv")
        assert run("forecast", tmp_path / "in.csv", *ROLES, *more).exit_code == 0
        live = Live(scores=["s"], prior="s", unseen=unseen)
        mean = live.run(scored[["x", "s"]], scored["clicked"], time=scored["at"], label_time=scored["known"]).mean
        np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["mean"], mean, rtol=1e-12)


def test_a_state_brings_its_windows_and_refuses_others(clicks: pd.DataFrame, file: Path, tmp_path: Path) -> None:
    whole, state, outs = tmp_path / "whole.csv", tmp_path / "state", [tmp_path / "1.csv", tmp_path / "2.csv"]
    assert run("forecast", file, *ROLES, *NAMED, "--out", whole).exit_code == 0
    for part, out, named in zip((clicks[:500], clicks[500:]), outs, (NAMED, ()), strict=True):
        part.drop(columns="id").to_csv(tmp_path / "part.csv", index=False)
        result = run("forecast", tmp_path / "part.csv", *ROLES, *named, "--state", state, "--out", out)
        assert result.exit_code == 0, result.output
    joined = np.concatenate([pd.read_csv(out)["mean"] for out in outs])
    np.testing.assert_array_equal(joined, pd.read_csv(whole)["mean"])
    refused = run("forecast", tmp_path / "part.csv", *ROLES, "--silence", 1, "--state", state)
    assert "silence = 0.0" in said(refused)


def test_labels_after_a_window_are_corrections_and_until_lets_windows_end(clicks: pd.DataFrame, tmp_path: Path) -> None:
    state, open_rows = tmp_path / "state", clicks[:300].assign(clicked=None).drop(columns="known")
    open_rows.to_csv(tmp_path / "in.csv", index=False)
    roles = ("--target", "clicked", "--time", "at", "--id", "id")
    assert run("forecast", tmp_path / "in.csv", *roles, *NAMED, "--state", state).exit_code == 0
    (tmp_path / "labels.csv").write_text("id,clicked\nad 0,1\nad 299,1\n")
    labelled = ("label", state, tmp_path / "labels.csv", "--target", "clicked", "--id", "id")
    result = run(*labelled, "--until", "450")
    assert result.exit_code == 0, result.output
    assert "1 corrected" in said(result)
    assert "1 held" in said(result)
    status = Live.load(state).status()
    assert (status.labels, status.silent, status.corrections, status.open) == (250, 250, 1, 50)
    assert "250 as silence, 1 corrections" in said(result)
    assert "A longer --matures" in said(result)


def test_a_followed_stream_scores_a_row_when_its_window_ends_with_the_report_that_came_by_itself(
    tmp_path: Path,
) -> None:
    lines = ["at,x,clicked,id", "0,1.0,,a", "1,2.0,,b", "2,,1,a", "500,1.0,,c", ""]
    named = (*NAMED[:-2], "--prior", 0.25)
    result = run("forecast", "-", "--target", "clicked", "--time", "at", "--id", "id", *named, "--follow",
                 "--state", tmp_path / "state", stdin="\n".join(lines))  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "the 2 rows whose window has ended" in said(result)
    assert f"{(0.75**2 + 0.25**2) / 2:.5f}" in said(result)
    status = Live.load(tmp_path / "state").status()
    assert (status.labels, status.silent, status.open) == (2, 1, 1)


def test_a_file_of_one_kind_of_outcome_is_said_with_the_figures_of_both_ways(clicks: pd.DataFrame, file: Path) -> None:
    result = run("forecast", file, *ROLES)
    assert result.exit_code == 0, result.output
    longest = (clicks["known"] - clicks["at"]).max()
    assert "name the window and the meaning of silence, --matures and --silence 0" in said(result)
    ended = clicks["at"].to_numpy() + longest < clicks["at"].iloc[-1]
    y = clicks["clicked"].fillna(0.0)
    for live in (Live(), Live(matures=longest, silence=0)):
        assert f"{np.mean((traced(clicks, live) - y)[ended] ** 2):.5f}" in said(result)
    assert "both ways" not in said(run("forecast", file, *ROLES, *NAMED))


def test_fair_outcomes_are_not_forecast_twice(clicks: pd.DataFrame, tmp_path: Path) -> None:
    late = clicks.drop(columns="id").assign(clicked=clicks["clicked"].fillna(0.0), known=clicks["at"] + 20.0)
    late.to_csv(tmp_path / "in.csv", index=False)
    result = run("forecast", tmp_path / "in.csv", *ROLES)
    assert "both ways" not in said(result)
    assert "outcomes known" not in said(result)
