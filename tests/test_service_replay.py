"""`swapcal replay` and `swapcal export` from the outside: logs in, words, tables and exit codes out."""

import pytest

pytest.importorskip("apsw")
pytest.importorskip("msgspec")
pytest.importorskip("typer")
pytest.importorskip("pyarrow")

import datetime
import json
import shutil

import pyarrow.csv as pacsv
import pyarrow.parquet as papq
from msgspec import Raw

from swapcal.archive import Kind, State, packed
from swapcal.cli import BAD_INPUT
from swapcal.cli.store import DIFFERENT, SAME, alarms, export, replay
from swapcal.service import history as exporting
from swapcal.service.events import FORECAST, CorrectionBody, Event, ForecastBody, OutcomeBody, encoded
from swapcal.service.history import AuditedPeriod, past
from swapcal.service.hosted import HostedForecaster
from swapcal.service.messages import ForecastIn
from swapcal.service.settings import ApiError, Settings
from swapcal.service.snapshots import recover
from swapcal.service.store import Unreadable, open_store
from tests.commands import runner
from tests.memory_store import MemoryStore
from tests.service_log import outcome_of, record, weight_of, write_log

COUNT = 60


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "forecasts.db"
    write_log(str(path), COUNT, every=40)
    write_log(str(path), COUNT + 10, every=40)
    return path


@pytest.fixture
def path(served, tmp_path):
    return shutil.copy(served, tmp_path / "forecasts.db")


def run(command, *arguments):
    return runner(command)(*arguments, COLUMNS="200")


def test_a_log_explains_every_forecast_and_every_snapshot(path):
    result = run(replay, "--store", path)
    assert result.exit_code == SAME, result.output
    assert f"{COUNT + 10} forecasts and 2 snapshots recomputed" in result.stderr
    assert "no difference" in result.stderr


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [("forecast", '"mean":', '"mean":1'), ("outcome", '"y":1', '"y":0'), ("outcome", '"weight":4.0', '"weight":3.0')],
)
def test_a_log_that_was_tampered_with_is_found_out(path, kind, before, after):
    store = open_store(str(path))
    event = next(one for one in store.events("shop") if one.kind == kind and before.encode() in one.body)
    store._write(
        ("UPDATE events SET body = ? WHERE seq = ?", (event.body.replace(before.encode(), after.encode()), event.seq))
    )
    store.close()
    result = run(replay, "--store", path)
    assert result.exit_code == DIFFERENT, result.output
    assert "differ" in result.stderr
    assert "issued p=0" in result.stderr
    assert "record" not in result.stderr, "records may be private"


def test_a_missing_event_is_found_out(path):
    store = open_store(str(path))
    store._write(("DELETE FROM events WHERE seq = ?", (50,)))
    store.close()
    result = run(replay, "--store", path)
    assert result.exit_code == BAD_INPUT
    assert "the log of 'shop' has a gap after event 49" in result.stderr


def test_a_snapshot_that_is_not_the_state_is_found_out(path):
    store = open_store(str(path))
    newest, older = store.snapshots("shop")
    wrong = store.snapshot("shop", older.seq)
    store._write(("DELETE FROM snapshots WHERE seq = ?", (newest.seq,)))
    store.keep_snapshot("shop", newest.seq, wrong)
    store.close()
    result = run(replay, "--store", path)
    assert result.exit_code == DIFFERENT
    assert f"event {newest.seq}: the snapshot differs" in result.stderr


def test_a_damaged_snapshot_is_found_out(path):
    store = open_store(str(path))
    newest = store.snapshots("shop")[0].seq
    store._write(("UPDATE snapshot_pieces SET content = ? WHERE seq = ?", (b"damaged", newest)))
    store.close()
    result = run(replay, "--store", path)
    assert result.exit_code == DIFFERENT
    assert f"event {newest}: the snapshot differs" in result.stderr


def test_past_forecasts_of_a_period_have_the_outcome_that_stands():
    forecast = encoded(ForecastBody(Raw(b"{}"), 0.5, 0.5, 0.5, 0.5, 0.0, "0"))
    reported, silent = (encoded(OutcomeBody(y, "learned", weight=w)) for y, w in ((1.0, 3.0), (0.0, None)))
    corrected, lighter = (encoded(CorrectionBody(0.0, 1.0, "read again", weight)) for weight in (None, 2.0))
    store = MemoryStore()
    about = [*((id, FORECAST, forecast) for id in "abcd"), ("a", "outcome", reported), ("a", "silence", silent),
             ("b", "silence", silent), ("c", "outcome", reported), ("c", "correction", corrected),
             ("d", "outcome", reported), ("d", "correction", lighter)]  # fmt: skip
    store.logs["shop"] = [Event("shop", k, kind, id, float(k), body) for k, (id, kind, body) in enumerate(about, 1)]

    def known(*ends):
        return [(row.y, row.counts) for row in past(store, Settings(name="shop"), AuditedPeriod(*ends), 4)]

    assert known() == [(1.0, 3.0), (0.0, 1.0), (0.0, 3.0), (0.0, 2.0)]
    assert known(2.0, 3.0) == known()[1:2]  # from its beginning on, and before its end
    with pytest.raises(ApiError, match="audit: given more than 3 forecasts"):
        past(store, Settings(name="shop"), AuditedPeriod(), 3)


def test_a_pruned_log_is_replayed_from_its_oldest_snapshot(path):
    store = open_store(str(path))
    oldest = min(kept.seq for kept in store.snapshots("shop"))
    assert sum(store.prune("shop", oldest)) > 10
    store.close()
    result = run(replay, "--store", path)
    assert result.exit_code == SAME, result.output
    assert f"after the snapshot at event {oldest}" in result.stderr
    write_log(str(path), COUNT + 20, every=1000)
    result = run(replay, "--store", path)
    assert result.exit_code == SAME, result.output


def test_a_pruned_log_is_replayed_from_the_next_snapshot_if_the_oldest_is_damaged(path):
    store = open_store(str(path))
    newest, oldest = (kept.seq for kept in store.snapshots("shop"))
    assert sum(store.prune("shop", oldest)) > 10
    store._write(("UPDATE snapshot_pieces SET content = ? WHERE seq = ?", (b"hole", oldest)))
    store.close()
    result = run(replay, "--store", path)
    assert result.exit_code == SAME, result.output
    assert f"after the snapshot at event {newest}" in result.stderr


def test_a_pruned_log_without_a_readable_snapshot_says_why_it_cannot_be_read(path):
    store = open_store(str(path))
    assert sum(store.prune("shop", min(kept.seq for kept in store.snapshots("shop"))))
    for kept in [*store.snapshots("shop")]:
        store._write(("DELETE FROM snapshots WHERE seq = ?", (kept.seq,)))
        store.keep_snapshot("shop", kept.seq, packed(Kind("ward", 0, {}, lambda *_: {}), State({}, {})))
    with pytest.raises(Unreadable, match=r"\(that of event \d+: .*given ward format version 0, expected 1"):
        recover(store, "shop")
    store.close()


def test_replay_of_nothing(tmp_path):
    path = tmp_path / "empty.db"
    open_store(str(path), create=True).close()
    result = run(replay, "--store", path)
    assert result.exit_code == SAME
    assert "no forecasters" in result.stderr
    assert run(replay, "--store", path, "--forecaster", "shop").exit_code == BAD_INPUT


@pytest.mark.parametrize("rows", [8192, 9])
def test_export_has_a_row_for_each_forecast(path, tmp_path, monkeypatch, rows):
    monkeypatch.setattr(exporting, "ROWS", rows)
    out = tmp_path / "log.parquet"
    result = run(export, "--store", path, "--out", out)
    assert result.exit_code == 0, result.output
    table = papq.read_table(out)
    assert table["id"].to_pylist() == [f"id {number}" for number in range(COUNT + 10)]
    expected = [None if n % 10 == 0 else outcome_of(n) for n in range(COUNT + 10)]
    assert table["outcome"].to_pylist() == expected
    corrected = [1.0 - outcome_of(n) if n % 10 == 2 else None for n in range(COUNT + 10)]
    assert table["corrected"].to_pylist() == corrected
    assert table["y"].to_pylist() == [one if two is None else two for one, two in zip(expected, corrected, strict=True)]
    weights = [2.0 if n % 20 == 2 else weight_of(n) if n % 10 else 1.0 for n in range(COUNT + 10)]
    assert table["outcome_weight"].to_pylist() == weights
    for number, row in enumerate(table.to_pylist()):
        known = record(number)
        assert (row["shop"], row["price"], row["open"]) == (known["shop"], known["price"], known["open"])
        assert row["record.time"] == known.get("time")
        assert row["mixed"] == (None if "mixed" not in known else {True: "true"}.get(known["mixed"], known["mixed"]))
        assert isinstance(row["time"], datetime.datetime)
        assert 0.0 <= row["low"] <= row["high"] <= 1.0
        assert 0.0 <= row["mean"] <= 1.0
    store = open_store(str(path))
    about = store.about("shop", ["id 3"])
    assert table["seq"][3].as_py() == about[0].seq
    store.close()


def test_export_to_csv_of_a_span(path, tmp_path):
    whole, before, after = (tmp_path / name for name in ("all.csv", "before.csv", "after.csv"))
    assert run(export, "--store", path, "--out", whole).exit_code == 0
    assert pacsv.read_csv(whole).num_rows == COUNT + 10
    moment = "2020-01-01"
    assert run(export, "--store", path, "--out", before, "--until", moment).exit_code == 0
    assert pacsv.read_csv(before).num_rows == 0
    assert "mean" in before.read_text()
    assert run(export, "--store", path, "--out", after, "--since", moment).exit_code == 0
    assert after.read_text() == whole.read_text()


def test_export_of_all_forecasters_into_a_folder(path, tmp_path):
    write_log(str(path), 3, name="other")
    folder = tmp_path / "all"
    folder.mkdir()
    result = run(export, "--store", path, "--out", folder)
    assert result.exit_code == 0, result.output
    rows = {file.name: papq.read_table(file).num_rows for file in folder.iterdir()}
    assert rows == {"shop.parquet": COUNT + 10, "other.parquet": 3}


def test_alarms_of_all_forecasters_in_a_store(path):
    write_log(str(path), 3, name="other")
    result = run(alarms, "--store", path)
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert "None of 2 forecasters is off beyond chance." in result.stderr
    found = json.loads(run(alarms, "--store", path, "--json").stdout)
    labels = {one["name"]: one["labels"] for one in found["forecasters"]}
    assert labels == {"shop": 63, "other": 2}
    result = run(alarms, "--store", path, "--q", "0.999999")
    listed = [one["name"] for one in found["forecasters"] if one["evidence"] >= 0.3010304]  # 2 / 0.999999
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == listed
    assert result.exit_code == bool(listed)
    assert run(alarms, "--store", path, "--q", "0").exit_code == BAD_INPUT


def test_reports_of_all_forecasters_in_a_store(path, tmp_path):
    write_log(str(path), 3, name="other")
    write_log(str(path), 1, name="unlabelled")
    folder = tmp_path / "reports"
    assert run(alarms, "--store", path, "--reports", folder).exit_code == BAD_INPUT
    folder.mkdir()
    result = run(alarms, "--store", path, "--reports", folder)
    assert result.exit_code == SAME, result.output
    assert sorted(file.name for file in folder.iterdir()) == ["other.html", "shop.html"]
    assert "63" in (folder / "shop.html").read_text(encoding="utf-8")
    assert "unlabelled: no outcome is known yet" in result.stderr


def test_refusals_of_export(path, tmp_path):
    assert "--since: given 'soon'" in run(export, "--store", path, "--since", "soon").stderr
    result = run(export, "--store", path, "--out", path)
    assert result.exit_code == BAD_INPUT
    assert "which is the input" in result.stderr
    write_log(str(path), 3, name="other")
    result = run(export, "--store", path)
    assert "--forecaster: given a store with shop, other, expected the name of one" in result.stderr
    result = run(export, "--store", path, "--forecaster", "other")
    assert len(result.stdout.splitlines()) == 4


def test_a_log_of_an_earlier_version_may_lack_declared_columns() -> None:
    hosted = HostedForecaster(Settings(name="shop", groups=["city"]))
    bodies = [b'{"city": "Rome", "price": 1.0}', b'{"Price": 2.0}', b'{"city": "Rome", "price": 3.0}']
    logged = [
        Event("shop", k + 2, FORECAST, f"{k}", 1.0, encoded(ForecastBody(Raw(body), 0.5, 0.5, 0.5, 0.5, 0.0, "0")))
        for k, body in enumerate(bodies)
    ]
    assert len(hosted.apply(logged)) == 3
    assert hosted.live.status().missing["city"] == 1
    (refused,) = hosted.forecast([ForecastIn("new", Raw(b'{"price": 2.0}'))], now=2.0)
    assert "declared but absent" in str(refused)
