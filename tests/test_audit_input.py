"""Bad input: a clear error that leaves the audit as it was, or a well-defined answer."""

import datetime

import numpy as np
import pytest

from swapcal import Audit, Monitor
from swapcal.audit import Comparison
from swapcal.audit.rows import AuditRows
from swapcal.kernels.tally import FLOOR

GOOD = {"p": [0.2, 0.8], "y": [0, 1]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.2, 1.2]}, r"p: given 1.2 in row 2, expected numbers in \[0, 1\]"),
        ({"p": [-0.1, 0.5]}, r"p: given -0.1 in row 1, expected numbers in \[0, 1\]"),
        ({"p": [-0.1, -0.5]}, r"in row 1 \(and 1 more\)"),
        ({"p": [np.nan, 0.5]}, "p: given nan in row 1, expected finite numbers"),
        ({"p": [[0.1], [0.2]]}, r"p: given shape \(2, 1\), expected one dimension"),
        ({"y": [0, 2]}, r"y: given 2.0 in row 2, expected numbers in \[0, 1\]"),
        ({"y": [0, np.nan]}, "y: given nan in row 2, expected finite numbers"),
        ({"y": [0]}, "y: given 1 rows, expected 2 like p"),
        ({"X": [[0.5, 0.1]]}, r"X: given shape \(1, 2\), expected \(2, d\)"),
        ({"X": [[1.0, 0.1], [0.5, 0.1]]}, r"X: given a first coordinate of 1.0 in row 1, expected 0.5"),
        ({"X": [[0.5, 0.1], [0.5, 2.0]]}, r"X: given norm 2.062 in row 2, expected at most 1"),
        ({"X": [[0.5, np.inf], [0.5, 0.0]]}, "X: given inf in row 1, column 2, expected finite numbers"),
        ({"weights": [1, 0]}, r"weights: given 0.0 in row 2, expected positive numbers"),
        ({"weights": [1, np.nan]}, "weights: given nan in row 2, expected finite numbers"),
        ({"groups": {"g": ["a"]}}, r"groups\['g'\]: given 1 rows, expected 2 like p"),
        ({"low": [0.1, 0.2]}, "expected low, high and weight together"),
        (
            {"low": [0.1, 0.2], "high": [0.2, 3], "weight": [0, 1]},
            r"high: given 3.0 in row 2, expected",
        ),
        ({"time": [1.0, np.nan]}, "time: given a missing value in row 2, expected known times"),
        ({"time": ["2020", "later"]}, "time: given 'later' in row 2, expected a number or an ISO date or time"),
        ({"time": np.array(["2020-01-01", "NaT"], dtype="datetime64[D]")}, "missing value in row 2"),
        ({"levels": 0}, "levels: given 0, expected at least 1"),
        ({"levels": [0.0, 0.5]}, "increasing edges from 0 to 1"),
        ({"X": [[0.5, 0.1]] * 2, "names": ["a", "b", "c"]}, "names: given 3, expected 2, one for each coordinate"),
        ({"p": [], "y": []}, "rows: given none, expected at least one"),
    ],
)
def test_rejected_with_what_was_given_and_where(change, message):
    with pytest.raises(ValueError, match=message):
        Audit(**{**GOOD, **change})


@pytest.mark.parametrize("change", [{"p": ["a", "b"]}, {"y": [None, {}]}])
def test_wrong_types_are_type_errors(change):
    with pytest.raises(TypeError, match="expected numbers"):
        Audit(**{**GOOD, **change})


def snapshot(audit):
    return audit.sums.tally.table.tobytes(), audit.sums.tally.g.tobytes(), audit.sums.sample.digest, audit.n


@pytest.mark.parametrize(
    "batch",
    [
        {"p": [0.5], "y": [3], "X": [[0.5, 0.0]], "groups": {"g": ["a"]}, "time": [1.0]},
        {"p": [0.5], "y": [1], "X": [[0.5, 0.0, 0.1]], "groups": {"g": ["a"]}, "time": [1.0]},
        {"p": [0.5], "y": [1], "X": [[0.5, 0.0]], "groups": {"h": ["a"]}, "time": [1.0]},
        {"p": [0.5], "y": [1], "X": [[0.5, 0.0]], "groups": {"g": ["a"]}},
        {"p": [0.5], "y": [1], "X": [[0.5, 0.0]], "groups": {"g": ["a"]}, "time": ["2020-01-01"]},
        {"p": [0.5], "y": [1], "X": [[0.5, 0.0]], "time": [1.0], "groups": {"g": ["a"]}, "low": [0.5]},
        {
            "p": [0.5],
            "y": [1],
            "X": [[0.5, 0.0]],
            "time": [1.0],
            "groups": {"g": ["a"]},
            "low": [0.5],
            "high": [0.5],
            "weight": [0.0],
        },
    ],
)
def test_a_rejected_batch_leaves_the_audit_unchanged(batch):
    audit = Audit([0.3], [0], [[0.5, 0.2]], groups={"g": ["b"]}, time=[0.0])
    before = snapshot(audit)
    with pytest.raises(ValueError, match=r": given .*, expected "):
        audit.add(**batch)
    assert snapshot(audit) == before


def test_merging_refuses_what_cannot_be_added():
    one = Audit([0.3], [0])
    with pytest.raises(ValueError, match="levels: given different ones"):
        one + Audit([0.3], [0], levels=[0, 0.5, 1])
    with pytest.raises(ValueError, match=r"groups: given \[\'group\'\], expected \[\]"):
        one + Audit([0.3], [0], groups=["a"])
    with pytest.raises(ValueError, match="time: given some, expected none"):
        one + Audit([0.3], [0], time=[1])
    with pytest.raises(ValueError, match="time: given numbers, expected dates"):
        Audit([0.3], [0], time=["2020-01-01"]) + Audit([0.3], [0], time=[1])
    with pytest.raises(ValueError, match="contexts: given different ones"):
        one + Audit([0.3], [0], [[0.5, 0.1]])
    with pytest.raises(TypeError):
        one + 3


def test_unknown_questions_are_refused():
    audit = Audit(**GOOD)
    with pytest.raises(ValueError, match="against: given 'quadratic', expected one of linear"):
        audit.theory.smcal(2, "quadratic")
    with pytest.raises(ValueError, match="groups: given none"):
        audit.theory.smcal(2, "groups")
    with pytest.raises(ValueError, match="q: given 3, expected 1 or 2"):
        audit.theory.mcal(3)
    with pytest.raises(ValueError, match="quantity: given 'brier', expected"):
        audit.theory.witness("brier")
    with pytest.raises(ValueError, match="against: given 'quadratic', expected one of linear"):
        audit.theory.witness("smcal", 2, "quadratic")
    with pytest.raises(ValueError, match="noise floor: given"):
        audit.theory.noise("brier")
    with pytest.raises(ValueError, match="groups: given none"):
        audit.theory.noise("smcal", 2, "groups")
    with pytest.raises(ValueError, match="made from contexts"):
        audit.encoder  # noqa: B018
    with pytest.raises(TypeError, match="expected arrays by name, as this audit was made"):
        audit.add({"p": [0.1], "y": [0]})


@pytest.mark.parametrize(
    ("p", "y"),
    [
        ([0.4], [1]),  # one row
        ([0.4] * 50, [0] * 50),  # one class only, one level
        ([0.1, 0.9] * 30, [1] * 60),  # one class only
        ([0.0, 1.0] * 30, [0, 1] * 30),  # certain and right
        ([0.0, 1.0] * 30, [1, 0] * 30),  # certain and wrong
    ],
)
def test_extreme_data_have_well_defined_answers(p, y):
    rows = len(p)
    X = np.tile([0.5, 0.0, 0.3], (rows, 1))  # features constant
    audit = Audit(p, y, X, groups={"g": np.arange(rows) % 2}, time=np.zeros(rows))
    for value in (
        audit.theory.smcal(1),
        audit.theory.mcal(2),
        audit.theory.sreg(),
        audit.theory.somni(),
        audit.brier(),
        audit.ece(),
    ):
        assert np.isfinite(value)
    assert audit.theory.smcal(2) >= audit.theory.mcal(2) - 1e-12
    assert 0 < audit.test().p_value <= 1
    if len(set(y)) == 1:
        assert audit.auc()[0] is None
    for noise in (
        audit.theory.noise("smcal"),
        audit.theory.noise("sreg"),
        audit.theory.noise("mcal", 1),
        audit.theory.noise("cal", 2),
    ):
        assert 0 < noise.p_value <= 1
    for row in audit.group_table():
        assert -1 <= row.low <= row.gap <= row.high <= 1


def test_certain_and_wrong_is_impossible_under_the_truth():
    wrong = Audit([0.0, 1.0] * 30, [1, 0] * 30)
    assert wrong.theory.noise("cal", 2).p_value == 1 / 1000
    assert wrong.log_loss() == pytest.approx(-np.log(FLOOR))
    assert wrong.verdict().word == "miscalibrated"
    assert "exactly 0 or 1" in wrong.verdict().warnings[0]
    (row,) = Audit([0.0] * 9, [1] * 9, groups=["a"] * 9).group_table()
    assert (row.small, row.p_value, row.verdict) == (True, 0.0, "miscalibrated")


def test_numbers_in_between_are_outcomes_too():
    audit = Audit([0.3, 0.3], [0.25, 0.4])
    assert audit.theory.cal(1) == pytest.approx(0.05)


def test_an_empty_batch_changes_nothing():
    audit = Audit(**GOOD)
    before = snapshot(audit)
    audit.add(p=[], y=[])
    assert snapshot(audit) == before


def test_features_are_checked():
    with pytest.raises(ValueError, match="column 'a': given inf in row 1, expected a finite number"):
        Audit.from_features([0.5], [1], {"a": [np.inf]})
    with pytest.raises(ValueError, match=r"features: given shape \(2,\), expected a table or"):
        Audit.from_features([0.5], [1], np.zeros(2))
    with pytest.raises(ValueError, match="names: given 1, expected one for each of 2 features"):
        Audit.from_features([0.5], [1], np.zeros((1, 2)), names=["a"])
    with pytest.raises(ValueError, match="columns: given lengths a: 1, b: 2, expected one length"):
        Audit.from_features([0.5], [1], {"a": [1], "b": [1, 2]})


@pytest.mark.parametrize(
    "time",
    [
        ["1970-01-02", "1970-01-02T12:00+01:00", "1970-02"],
        np.array(["1970-01-02", "1970-01-02T11:00", "1970-02"], "datetime64[m]"),
        [datetime.date(1970, 1, 2), datetime.datetime(1970, 1, 2, 11, tzinfo=datetime.UTC), datetime.date(1970, 2, 1)],
    ],
    ids=["text", "numpy", "objects"],
)
def test_times_are_read_by_the_one_clock(time):
    batch = AuditRows.check([0.5] * 3, [0, 1, 1], time=time)
    assert batch.dated
    assert batch.time.tolist() == [86400.0, 86400.0 + 11 * 3600, 31 * 86400.0]


def test_numbers_among_objects_are_no_dates():
    batch = AuditRows.check([0.5] * 2, [0, 1], time=np.array([7, 8.5], object))
    assert not batch.dated
    assert batch.time.tolist() == [7.0, 8.5]


def test_swapped_arguments_are_refused_with_the_mistake():
    rng = np.random.default_rng(0)
    p = rng.random(600)
    y = (rng.random(600) < p).astype(float)
    match = "p: given only 0 and 1 where y is .* in row 1, expected predictions as p; p and y seem to be swapped"
    with pytest.raises(ValueError, match=match):
        Audit(y, p)
    with pytest.raises(ValueError, match="seem to be swapped"):
        Audit.from_features(y, p, {"age": p})
    with pytest.raises(ValueError, match="column 'y': given only 0 and 1 where column 'p' is"):
        Audit.from_frame({"p": p, "y": y}, prob="y", target="p")
    with pytest.raises(ValueError, match="seem to be swapped"):
        Comparison(p, y, 0.5 * p)
    audit = Audit([0.3], [0])
    audit.add(p=[1.0], y=[0.25])  # one hard forecast of a fraction is no mistake yet
    assert Audit([1.0], [0.25]).n == 1
    assert Audit(y, y).n == Audit(y, 1 - y).n == 600  # hard forecasts of outcomes 0 and 1 are judged


@pytest.mark.parametrize(
    ("scores", "mistake"),
    [
        ([12.0, 80.5, 0.0], "they look like percentages, divide them by 100"),
        ([-2.0, 0.1, 3.0], "they look like logits"),
        ([0.2, 1.2, 0.4], None),
        ([-0.001, 0.4, 0.5], None),
        ([0.2, 250.0, 0.4], None),
    ],
)
def test_scores_that_are_no_probabilities_are_named_for_what_they_seem(scores, mistake):
    for make in (
        lambda: Audit(scores, [0, 1, 1]),
        lambda: Audit.from_frame({"p": scores, "y": [0, 1, 1]}, prob="p", target="y"),
        lambda: Monitor().add(["a"] * 3, scores, [0, 1, 1]),
    ):
        with pytest.raises(ValueError, match=r"expected numbers in \[0, 1\]") as error:
            make()
        assert ("they look like" in str(error.value)) == (mistake is not None)
        assert mistake is None or mistake in str(error.value)
    with pytest.raises(ValueError, match=r"y: given 40.0 in row 2, expected numbers in \[0, 1\]$"):
        Audit([0.2, 0.3], [0, 40])


def test_rows_beyond_chance_are_counted_and_named_as_what_they_are():
    p = np.r_[np.zeros(284), np.ones(316), 0.5]
    y = np.r_[np.full(600, 0.3), 1.0]
    assert Audit(p, y).verdict().warnings[0] == (
        "600 rows have a prediction of exactly 0 or 1 and a different outcome, which chance cannot explain."
    )
    assert Audit([0.0, 0.5], [1, 1]).verdict().warnings[0].startswith("1 row has a prediction of exactly 0 or 1")


def test_scikit_learns_names_are_accepted_by_keyword():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = rng.random(300) < p
    assert Audit(y_true=y, y_prob=p).to_json() == Audit(p, y).to_json() == Audit(p, y_true=y).to_json()
    with pytest.raises(TypeError, match="p: given both p and y_prob"):
        Audit(p, y, y_prob=p)
    with pytest.raises(TypeError, match="y: given both y and y_true"):
        Audit(p, y, y_true=y)
    with pytest.raises(TypeError, match="y: given nothing, expected y or, as scikit-learn calls it, y_true"):
        Audit(y_prob=p)
