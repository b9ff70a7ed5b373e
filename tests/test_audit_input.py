"""Bad input: a clear error that leaves the audit as it was, or a well-defined answer."""

import numpy as np
import pytest

from swapcal import Audit
from swapcal.kernels.logloss import FLOOR

GOOD = {"p": [0.2, 0.8], "y": [0, 1]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.2, 1.2]}, r"p must lie in \[0, 1\], got 1.2 at row 2"),
        ({"p": [-0.1, 0.5]}, r"p must lie in \[0, 1\], got -0.1 at row 1"),
        ({"p": [-0.1, -0.5]}, r"at row 1 \(and 1 more\)"),
        ({"p": [np.nan, 0.5]}, "p must be finite, got nan at row 1"),
        ({"p": [[0.1], [0.2]]}, "p must be one-dimensional"),
        ({"y": [0, 2]}, r"y must lie in \[0, 1\], got 2.0 at row 2"),
        ({"y": [0, np.nan]}, "y must be finite, got nan at row 2"),
        ({"y": [0]}, r"y must have as many rows as p \(2\), got 1"),
        ({"X": [[0.5, 0.1]]}, r"X must have shape \(2, d\), got \(1, 2\)"),
        ({"X": [[1.0, 0.1], [0.5, 0.1]]}, "first coordinate of X must be 0.5, got 1.0 at row 1"),
        ({"X": [[0.5, 0.1], [0.5, 2.0]]}, "norm at most 1, got 2.062 at row 2"),
        ({"X": [[0.5, np.inf], [0.5, 0.0]]}, "X must be finite, got inf at row 1, column 2"),
        ({"weights": [1, 0]}, "weights must be positive, got 0.0 at row 2"),
        ({"weights": [1, np.nan]}, "weights must be finite"),
        ({"groups": {"g": ["a"]}}, r"groups\['g'\] must have as many rows as p \(2\), got 1"),
        ({"low": [0.1, 0.2]}, "needs low, high and weight together"),
        ({"low": [0.1, 0.2], "high": [0.2, 3], "weight": [0, 1]}, "high must lie in"),
        ({"time": [1.0, np.nan]}, "time must be finite"),
        ({"time": np.array(["2020-01-01", "NaT"], dtype="datetime64[D]")}, "missing value at row 2"),
        ({"levels": 0}, "levels must be at least 1, got 0"),
        ({"levels": [0.0, 0.5]}, "increasing edges from 0 to 1"),
        ({"X": [[0.5, 0.1]] * 2, "names": ["a", "b", "c"]}, "names must name the 2 coordinates"),
        ({"p": [], "y": []}, "at least one row, got none"),
    ],
)
def test_rejected_with_what_was_given_and_where(change, message):
    with pytest.raises(ValueError, match=message):
        Audit(**{**GOOD, **change})


@pytest.mark.parametrize("change", [{"p": ["a", "b"]}, {"time": ["soon", "later"]}, {"y": [None, {}]}])
def test_wrong_types_are_type_errors(change):
    with pytest.raises(TypeError, match="must hold numbers"):
        Audit(**{**GOOD, **change})


def snapshot(audit):
    return audit._tally.table.tobytes(), audit._tally.g.tobytes(), audit._sketch.digest, audit.n


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
    with pytest.raises(ValueError, match=r"must|needs"):
        audit.add(**batch)
    assert snapshot(audit) == before


def test_merging_refuses_what_cannot_be_added():
    one = Audit([0.3], [0])
    with pytest.raises(ValueError, match="different levels"):
        one + Audit([0.3], [0], levels=[0, 0.5, 1])
    with pytest.raises(ValueError, match="different groups"):
        one + Audit([0.3], [0], groups=["a"])
    with pytest.raises(ValueError, match="times or issued"):
        one + Audit([0.3], [0], time=[1])
    with pytest.raises(ValueError, match="dates and of the other numbers"):
        Audit([0.3], [0], time=["2020-01-01"]) + Audit([0.3], [0], time=[1])
    with pytest.raises(ValueError, match="different contexts"):
        one + Audit([0.3], [0], [[0.5, 0.1]])
    with pytest.raises(TypeError):
        one + 3


def test_unknown_questions_are_refused():
    audit = Audit(**GOOD)
    with pytest.raises(ValueError, match="against must be one of"):
        audit.smcal(2, "quadratic")
    with pytest.raises(ValueError, match="has no groups"):
        audit.smcal(2, "groups")
    with pytest.raises(ValueError, match="q = 1 and q = 2, got 3"):
        audit.mcal(3)
    with pytest.raises(ValueError, match="quantity must be"):
        audit.witness("brier")
    with pytest.raises(ValueError, match="against must be one of"):
        audit.witness("smcal", 2, "quadratic")
    with pytest.raises(ValueError, match="no noise floor"):
        audit.noise("brier")
    with pytest.raises(ValueError, match="has no groups"):
        audit.noise("smcal", 2, "groups")
    with pytest.raises(ValueError, match="made from contexts"):
        audit.encoder  # noqa: B018
    with pytest.raises(TypeError, match="made from arrays"):
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
    for value in (audit.smcal(1), audit.mcal(2), audit.sreg(), audit.somni(), audit.brier(), audit.ece()):
        assert np.isfinite(value)
    assert audit.smcal(2) >= audit.mcal(2) - 1e-12
    assert 0 < audit.test().p_value <= 1
    if len(set(y)) == 1:
        assert audit.auc()[0] is None
    for noise in (audit.noise("smcal"), audit.noise("sreg"), audit.noise("mcal", 1), audit.noise("cal", 2)):
        assert 0 < noise.p_value <= 1
    for row in audit.group_table():
        assert -1 <= row.low <= row.gap <= row.high <= 1


def test_certain_and_wrong_is_impossible_under_the_truth():
    wrong = Audit([0.0, 1.0] * 30, [1, 0] * 30)
    assert wrong.noise("cal", 2).p_value == 1 / 1000
    assert wrong.log_loss() == pytest.approx(-np.log(FLOOR))
    assert wrong.verdict().word == "miscalibrated"
    assert "probability 0" in wrong.verdict().warnings[0]
    (row,) = Audit([0.0] * 9, [1] * 9, groups=["a"] * 9).group_table()
    assert (row.small, row.p_value, row.verdict) == (True, 0.0, "miscalibrated")


def test_numbers_in_between_are_outcomes_too():
    audit = Audit([0.3, 0.3], [0.25, 0.4])
    assert audit.cal(1) == pytest.approx(0.05)


def test_an_empty_batch_changes_nothing():
    audit = Audit(**GOOD)
    before = snapshot(audit)
    audit.add(p=[], y=[])
    assert snapshot(audit) == before


def test_features_are_checked():
    with pytest.raises(ValueError, match="column 'a': given inf in row 1, expected a finite number"):
        Audit.from_features([0.5], [1], {"a": [np.inf]})
    with pytest.raises(ValueError, match=r"matrix, got shape \(2,\)"):
        Audit.from_features([0.5], [1], np.zeros(2))
    with pytest.raises(ValueError, match="names must name the 2 features"):
        Audit.from_features([0.5], [1], np.zeros((1, 2)), names=["a"])
    with pytest.raises(ValueError, match="columns must be equally long"):
        Audit.from_features([0.5], [1], {"a": [1], "b": [1, 2]})
