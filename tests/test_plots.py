"""Pictures: axes in, axes out; what is drawn is what was found."""

import subprocess
import sys

import numpy as np
import pytest

from swapcal import Audit, Live, Monitor, plots
from swapcal.engine.certificate import Certificate
from swapcal.live.scheduler import STRETCHES, ScoreHistory

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402

RNG = np.random.default_rng(0)
P = RNG.choice([0.2, 0.5, 0.8], 3000)
NIGHT = RNG.random(3000) < 0.3
Y = (RNG.random(3000) < P + 0.15 * NIGHT).astype(float)
SHIFT = np.where(NIGHT, "night $", "day")
CERTIFICATE = Certificate(50, 3, 5, 40, 60, 60, -1, 6, 35, 1000, 0, 17, 3, None, 5.5)


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def audit() -> Audit:
    return Audit(P, Y, groups={"shift": SHIFT}, title="Nights $")


@pytest.fixture(scope="module")
def live() -> Live:
    made = Live()
    made.run([{"night": bool(night)} for night in NIGHT[:1500]], Y[:1500])
    return made


@pytest.fixture(scope="module")
def monitor() -> Monitor:
    return Monitor(["shift"]).add({"shift": SHIFT}, P, Y)


def pictures(audit: Audit, live: Live, monitor: Monitor) -> list:
    return [
        audit.plot,
        lambda ax=None: audit.plot("groups", ax=ax),
        live.plot,
        lambda ax=None: live.plot("rates", ax=ax),
        monitor.plot,
        CERTIFICATE.plot,
    ]


@pytest.mark.parametrize("which", range(6))
def test_a_picture_is_named_and_drawn_where_asked(which, audit, live, monitor):
    plot = pictures(audit, live, monitor)[which]
    own = plot()
    assert own.get_title(loc="left")
    assert own.get_xlabel()
    figure, ax = pyplot.subplots()
    assert plot(ax=ax) is ax
    for each in (own.figure, figure):
        each.canvas.draw()  # warnings, of layout too, are errors


def test_levels_beyond_chance_are_marked_by_shape_and_colour(audit):
    drawn = {artist.get_label(): artist for artist in audit.plot().collections}
    assert {"within chance", "beyond chance", "95 % by chance"} >= drawn.keys() >= {"beyond chance", "95 % by chance"}
    found = [level for level in audit.to_dict()["reliability"] if level["n"] > 0]
    beyond = sum(not level["band_low"] <= level["mean_y"] <= level["band_high"] for level in found)
    assert len(drawn["beyond chance"].get_offsets()) == beyond > 0


def test_groups_carry_their_intervals(audit):
    ax = audit.plot("groups")
    named = [rf"shift = night \$  ({NIGHT.sum():,})", f"shift = day  ({(~NIGHT).sum():,})"]
    assert [text.get_text() for text in ax.get_yticklabels()] == named
    night = next(row for row in audit.group_table() if "night" in row.name)
    points = {round(float(x), 6) for line in ax.get_lines() for x in line.get_xdata()}
    assert round(100 * night.gap, 6) in points


def test_a_number_is_drawn_in_its_ranges():
    rng = np.random.default_rng(2)
    age, hour = rng.uniform(20, 80, 3000), rng.integers(0, 24, 3000)
    wrong = np.clip(P + 0.2 * (age < 27), 0, 1)
    audit = Audit.from_features(P, rng.random(3000) < wrong, {"hour": hour, "age": age})
    ax = audit.plot("number")
    curve = audit.to_findings().numbers[0]
    assert curve.name == ax.get_xlabel() == "age"
    assert [text.get_text() for text in ax.get_xticklabels()] == [f"{edge:g}" for edge in curve.edges]
    points = {round(float(y), 6) for line in ax.get_lines() for y in line.get_ydata()}
    assert {round(100 * row.gap, 6) for row in curve.ranges} <= points
    assert audit.plot("number", feature="hour").get_xlabel() == "hour"
    with pytest.raises(ValueError, match="feature: given 'nothing', expected one of age, hour"):
        audit.plot("number", feature="nothing")
    with pytest.raises(ValueError, match="kind: given 'pie'"):
        audit.plot("pie")


def test_rare_forecasts_are_spread_out():
    z = np.array([0.0, 0.001, 0.002, 0.004, 0.1])
    p = np.repeat(z, [200, 2000, 1000, 500, 100])
    ax = Audit(p, np.random.default_rng(1).random(len(p)) < p).plot()
    assert ax.get_xscale() == ax.get_yscale() == "symlog"
    assert ax.get_xlim()[1] < 0.5


def test_the_line_of_alarm_and_the_groups_beyond_it(monitor):
    ax = monitor.plot()
    lines = {line.get_label(): line for line in ax.get_lines()}
    alarm = next(line for label, line in lines.items() if label.startswith("alarm"))
    assert alarm.get_ydata()[0] == pytest.approx(6.0)
    worst = monitor.alarms()[0]
    assert max(lines[worst.group.replace("$", r"\$")].get_ydata()) > 6.0
    assert len(monitor.plot(["shift = day"]).get_lines()) == 2
    with pytest.raises(ValueError, match="group: given 'nobody'"):
        monitor.plot(["nobody"])


def test_a_monitor_of_dates_shows_dates():
    days = np.datetime64("2024-01-01") + np.arange(3000).astype("timedelta64[h]")
    ax = Monitor().add({}, P, Y, time=days).plot()
    assert ax.get_xticklabels()[0].get_text().startswith("2024-01")


def test_parts_of_a_bound_stand_one_after_the_other():
    ax = CERTIFICATE.plot()
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    saved, tight, rounding, learning, prior, bound, theorem = bars
    assert (saved[1], tight[1], bound[1], theorem[1]) == pytest.approx((0.005, 0.0055, 0.04, 0.06))
    assert learning[0] == pytest.approx(rounding[1])
    assert prior[0] + prior[1] == pytest.approx(bound[1])


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: Live().plot(), "given no labels"),
        (lambda: Live().plot("pie"), "kind: given 'pie'"),
        (lambda: Audit([0.5], [1]).plot("pie"), "kind: given 'pie'"),
        (lambda: Audit([0.5], [1]).plot("groups"), "groups: given none"),
        (lambda: Monitor().plot(), "history: given no rows"),
        (lambda: plots.certificate(CERTIFICATE.as_dict(), 0.0), "certificate: given no labels"),
    ],
)
def test_nothing_to_draw_is_said(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from swapcal import Audit\n"
        "try: Audit([0.5], [1]).plot()\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == 'plot needs matplotlib: pip install "swapcal[plot]"'


def test_lines_differ_in_colour_and_in_dashes():
    from swapcal.plots import LINES

    assert len({to_hex(colour) for colour, _ in LINES}) == len(LINES)
    assert len({*LINES}) == len(LINES)


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 1023, 1024, 1025, 5000])
def test_a_chronicle_adds_up_whether_entered_one_by_one_or_at_once(rows):
    rng = np.random.default_rng(rows)
    mean, y = rng.random(rows), (rng.random(rows) < 0.3).astype(float)
    at_once, alone, pieces = ScoreHistory(), ScoreHistory(), ScoreHistory()
    at_once.add(mean, y)
    pieces.add(mean[: rows // 3], y[: rows // 3])
    pieces.add(mean[rows // 3 :], y[rows // 3 :])
    for p, label in zip(mean.tolist(), y.tolist(), strict=True):
        alone.add_one(p, label)
    base = (np.cumsum(y) - y + 0.5) / np.arange(1, rows + 1)
    for score_history in (at_once, alone, pieces):
        found = score_history.stretches()
        assert len(found) <= STRETCHES
        assert found[-1].last == sum(one.n for one in found) == rows
        sums = [sum(getattr(one, part) for one in found) for part in ("y", "mean", "error", "base_error")]
        assert sums == pytest.approx([y.sum(), mean.sum(), ((mean - y) ** 2).sum(), ((base - y) ** 2).sum()])
    assert [one.n for one in alone.stretches()] == [one.n for one in at_once.stretches()]


def test_live_keeps_the_same_chronicle_however_labels_come():
    records = [{"night": bool(night)} for night in NIGHT[:300]]
    ran, asked, many = Live(), Live(), Live()
    ran.run(records, Y[:300])
    for k, record in enumerate(records):
        asked.forecast(record, id=f"row {k}")
        asked.label(f"row {k}", Y[k])
    many.forecast_many(records, [*range(300)])
    many.label_many([*range(300)], Y[:300])
    own = [live._scheduler.score_history.stretches() for live in (ran, asked, many)]
    assert [one.n for one in own[0]] == [one.n for one in own[1]] == [one.n for one in own[2]]
    assert own[0][-1].error == pytest.approx(own[1][-1].error)
    assert sum(one.y for one in own[2]) == Y[:300].sum()
