"""`Live` feeds a monitor: the same rows, in the same order, as one fed by hand."""

import numpy as np
import pytest

from swapcal import Live, Monitor
from swapcal.live.monitor_feed import enter

ROWS = 1500


def records(n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    shops = rng.choice(["a", "b", None], n, p=[0.5, 0.4, 0.1])
    x = rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-x))).astype(float)
    return [
        {"shop": shop, "size": int(k % 3), "x": value}
        for k, (shop, value) in enumerate(zip(shops, x.tolist(), strict=True))
    ], y


def watched():
    return Monitor(["shop", "size"], products=[("shop", "size")])


def by_hand(rows, means, y):
    """Feed a monitor one row at a time."""
    monitor = watched()
    for record, mean, label in zip(rows, means, y, strict=True):
        monitor.add({"shop": record["shop"], "size": record["size"]}, float(mean), float(label))
    return monitor


def same(one, other):
    states = one.to_state(), other.to_state()
    assert states[0].manifest == states[1].manifest
    assert states[0].arrays.keys() == states[1].arrays.keys()
    for name, values in states[0].arrays.items():
        np.testing.assert_array_equal(values, states[1].arrays[name], err_msg=name)


def test_run_feeds_what_was_forecast_and_learned():
    rows, y = records()
    live = Live(monitor=watched())
    found = live.run(rows[:900], y[:900])
    more = live.run(rows[900:], y[900:])
    same(live.monitor, by_hand(rows, np.concatenate([found.mean, more.mean]), y))
    assert live.monitor.rows == ROWS


def test_a_monitor_changes_no_forecast():
    rows, y = records(400)
    np.testing.assert_array_equal(Live(monitor=watched()).run(rows, y).p, Live().run(rows, y).p)


def test_frames_are_read_like_records():
    pd = pytest.importorskip("pandas")
    rows, y = records(300)
    live, framed = Live(monitor=watched()), Live(monitor=watched())
    live.run(rows, y)
    framed.run(pd.DataFrame(rows), y)
    same(live.monitor, framed.monitor)


def test_labels_are_entered_in_the_order_in_which_they_are_learned():
    rows, y = records(200)
    one, many = Live(monitor=watched()), Live(monitor=watched())
    order = np.random.default_rng(1).permutation(200)
    means = [one.forecast(record, id=k).mean for k, record in enumerate(rows)]
    for k in order:
        one.label(int(k), y[k])
    many.forecast_many(rows, list(range(200)))
    many.label_many([int(k) for k in order], y[order])
    hand = by_hand([rows[k] for k in order], np.array(means)[order], y[order])
    same(one.monitor, hand)
    same(many.monitor, hand)


def test_labels_that_come_early_are_entered_at_their_maturity():
    rows, y = records(60)
    live, news, means = Live(monitor=watched()), [], []
    live.watch(news.append)
    matures = 10.0 * np.ceil((np.arange(60) + 1) / 10)
    for k, record in enumerate(rows):
        means.append(live.forecast(record, id=k, time=float(k), matures=matures[k]).mean)
        learned = [id for each in news for id in each.ids]
        assert live.monitor.rows == len(learned)
        assert all(matures[id] < k for id in learned)
        live.label(k, y[k], time=float(k))
    live.forecast(rows[0], id="last", time=100.0)
    learned = [id for each in news for id in each.ids]
    assert sorted(learned) == list(range(60))
    same(live.monitor, by_hand([rows[k] for k in learned], np.array(means)[learned], y[learned]))


@pytest.mark.parametrize("cut", [0, 100])
def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path, cut):
    rows, y = records(300)
    live = Live(monitor=watched())
    for k in range(cut):
        live.forecast(rows[k], id=k)
    for k in range(0, cut, 2):
        live.label(k, y[k])
    live.save(tmp_path / "live")
    loaded = Live.load(tmp_path / "live")
    for one in (live, loaded):
        one.label_many(list(range(1, cut, 2)), [y[k] for k in range(1, cut, 2)])
        one.run(rows[cut:], y[cut:], ids=[f"later {k}" for k in range(300 - cut)])
    same(live.monitor, loaded.monitor)
    assert live.monitor.rows == 300


def test_without_a_monitor_the_file_is_as_before(tmp_path):
    live = Live()
    live.run(*records(50))
    assert "watched" not in live.to_state().manifest
    live.save(tmp_path / "live")
    assert Live.load(tmp_path / "live").monitor is None


def test_slots_are_used_again_without_mixing_rows():
    rows, y = records(400)
    live, means, learned = Live(monitor=watched(), max_open=20), [], []
    for k, record in enumerate(rows):
        means.append(live.forecast(record, id=k).mean)
        if k % 3 == 0 and k >= 10:
            live.label(k - 10, y[k - 10])
            learned.append(k - 10)
    same(live.monitor, by_hand([rows[k] for k in learned], [means[k] for k in learned], y[learned]))


def test_refusals_leave_everything_as_it_was():
    live = Live(monitor=Monitor(["shop"]), drop=["shop"])
    live.forecast({"shop": "a", "x": 1.0}, id=1)
    before = live.to_state()
    with pytest.raises(TypeError, match="column 'shop': given list in row 1"):
        live.forecast({"shop": ["a"], "x": 1.0}, id=2)
    after = live.to_state()
    assert before.manifest == after.manifest
    for name, values in before.arrays.items():
        np.testing.assert_array_equal(values, after.arrays[name])
    with pytest.raises(TypeError, match="monitor: given dict, expected a Monitor"):
        Live(monitor={})
    dated = Monitor().add({}, [0.5], [1.0], ["2026-01-01"])
    with pytest.raises(ValueError, match="monitor: given one whose clock is dates"):
        Live(monitor=dated)
    with pytest.raises(TypeError, match="records: given encoded ones"):
        live.run(live.contexts.encode([{"x": 1.0}]), [1.0])


def clustered():
    return Monitor(["shop"], clusters="patient", max_weight=2.0)


def visits(n=240, seed=3):
    rows, y = records(n, seed)
    patients = np.random.default_rng(seed).integers(0, n // 4, n)
    return [{**row, "patient": f"p {who}"} for row, who in zip(rows, patients.tolist(), strict=True)], y


def test_each_cluster_bets_with_the_first_of_its_labels_however_they_come():
    rows, y = visits()
    weights = np.where(np.arange(len(y)) % 3, 1.0, 2.0)
    at_once, one_by_one, many = (Live(monitor=clustered(), drop=["patient"]) for _ in range(3))
    means = at_once.run(rows, y, weight=weights).mean
    for k, (row, label) in enumerate(zip(rows, y, strict=True)):
        one_by_one.forecast(row, id=k)
        one_by_one.label(k, label, weight=weights[k])
    by_hand, seen = clustered(), set()
    for row, mean, label, weight in zip(rows, means, y, weights, strict=True):
        by_hand.add({"shop": row["shop"], "patient": row["patient"]}, float(mean), float(label), weights=[weight])
        seen.add(row["patient"])
    same(at_once.monitor, by_hand)
    same(one_by_one.monitor, by_hand)
    assert at_once.monitor.to_state().arrays["clusters"].size == len(seen) < len(y) / 3
    late = many.forecast_many(rows, [*range(len(y))]).mean
    many.label_many([*range(len(y))], y, weight=weights)
    first = {row["patient"]: k for k, row in reversed([*enumerate(rows)])}
    alone = Monitor(["shop"], max_weight=2.0)
    for k in sorted(first.values()):
        alone.add({"shop": rows[k]["shop"]}, float(late[k]), float(y[k]), weights=[weights[k]])
    assert many.monitor.test() == alone.test()
    assert (many.monitor.rows, alone.rows) == (len(y), len(first))


def test_a_record_without_its_cluster_is_refused_before_it_is_forecast():
    live = Live(monitor=clustered(), drop=["patient"])
    rows, y = visits(12)
    for bad in ({**rows[0], "patient": None}, {"shop": "a", "size": 1, "x": 0.0}):
        with pytest.raises(ValueError, match="monitor: given no"):
            live.run([*rows, bad], [*y, 1.0])
    assert live.status().forecasts == 0
    live.run(rows, y)
    assert live.monitor.rows == 12


def test_right_forecasts_of_patients_who_share_a_fate_are_rejected_without_clusters_only():
    rejected = {"clusters": 0, "rows": 0}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        p, patients = rng.uniform(0.3, 0.7, 24), np.repeat(np.arange(24), 12)
        y = (rng.random(24) < p).astype(float)[patients]  # one fate for all rows of a patient
        means = p[patients]
        values = [(f"{who}",) for who in patients]
        together, rows = Monitor(clusters="patient", level_ranges=False), Monitor(level_ranges=False)
        enter(together, values, means, y)
        enter(rows, [()] * len(y), means, y)
        rejected["clusters"] += together.test().rejected
        rejected["rows"] += rows.test().rejected
    assert rejected["clusters"] <= 3  # 4 or more of 12 have probability 0.2 % at the level of 5 %
    assert rejected["rows"] >= 6


# ---------------------------------------------------------------- how sure one forecast is


def test_around_is_what_the_monitor_measured_where_forecasts_were_alike():
    rng = np.random.default_rng(0)
    records = [{"shop": "ab"[k % 2], "price": float(rng.normal())} for k in range(600)]
    live = Live(groups=["shop"], monitor=Monitor(["shop"]))
    live.run(records, rng.random(600) < 0.3)
    new = {"shop": "b", "price": 0.2}
    before = live.status()
    found = live.around(new)
    assert found == live.monitor.around(new, live.preview(new).mean)
    assert [one["group"] for one in found] == ["all rows", "shop = b"]
    assert live.around({"shop": "b", "price": 0.2}) == found
    assert live.status() == before
    with pytest.raises(ValueError, match="around: given a Live without a monitor"):
        Live().around(new)


def test_around_is_in_the_units_of_the_outcomes():
    rng = np.random.default_rng(0)
    records, y = [{"shop": "ab"[k % 2]} for k in range(400)], rng.uniform(20, 60, 400)
    live = Live(low=0, high=100, groups=["shop"], monitor=Monitor(["shop"]))
    live.run(records, y)
    for one in live.around({"shop": "a"}):
        low, high = one["forecasts"]
        assert low <= live.preview({"shop": "a"}).mean <= high
        assert one["low"] < 40 < one["high"]
        assert 30 < one["observed"] < 50
        assert 30 < one["mean_forecast"] < 50


def test_the_interval_around_a_forecast_covers_the_probability_it_is_about():
    """At most 5 % of streams have a wrong one, at any time; of 60 none is expected, as all groups and ranges share."""
    missed, widths = 0, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shop = rng.integers(0, 2, 5000)
        truth = np.where(shop == 1, 0.5, 0.2)
        p = np.clip(truth + 0.05 * rng.normal(size=5000), 0.02, 0.98)
        monitor = Monitor(["shop"]).add({"shop": shop}, p, rng.random(5000) < truth)
        for found in monitor.around({"shop": 1}, 0.45):
            low, high = found["forecasts"]
            inside = (p >= low) & (p < high) & ((shop == 1) | (found["group"] == "all rows"))
            assert found["rows"] == inside.sum()
            missed += not found["low"] <= truth[inside].mean() <= found["high"]
            widths.append(found["high"] - found["low"])
    assert missed <= 3
    assert np.mean(widths) < 0.25
