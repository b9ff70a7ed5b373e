"""TitleIndex of columns and values, and intersections of groups, in every word of an audit."""

import json

import numpy as np
import pytest

from swapcal import Audit
from swapcal.audit import Comparison, Titles
from swapcal.report import Findings, render

TITLES = {
    "columns": {"sex": "Sex", "dept": "Department", "age": "Age in years", "p": "Risk score"},
    "values": {"sex": {"1": "men", "2": "women"}, "dept": {"b": "Bakery <b>", "(missing)": "unknown"}},
}


def frame(n=6000):
    rng = np.random.default_rng(0)
    sex, dept = rng.choice(["1", "2"], n), rng.choice(["a", "b", None], n, p=[0.5, 0.4, 0.1])
    p = rng.uniform(0.1, 0.7, n)
    y = rng.random(n) < p + 0.25 * ((sex == "2") & (dept == "b"))
    return {"p": p, "q": 0.9 * p, "y": y.astype(int), "sex": sex, "dept": dept, "age": rng.normal(size=n)}


NAMED = {"target": "y", "groups": ["sex", "dept"], "features": ["age"]}


@pytest.fixture(scope="module")
def audit():
    return Audit.from_frame(frame(), prob="p", **NAMED, intersections=2)


def words(findings):
    """Return every sentence of findings."""
    texts = [findings["headline"]["sentence"], findings["headline"]["detail"]]
    return " ".join([*texts, *(one["sentence"] for one in findings["witnesses"])])


def test_an_intersection_is_found_where_its_halves_say_less(audit):
    first = audit.findings()[0]
    assert first.name == "sex × dept = 2 × b"
    assert "where sex = 2 and dept = b," in audit.to_dict()["headline"]["sentence"]
    alone = Audit.from_frame(frame(), prob="p", **NAMED)
    assert first.gap > 0.2 > max(abs(one.gap) for one in alone.group_table())


def test_intersections_count_in_the_multiple_testing(audit):
    alone = Audit.from_frame(frame(), prob="p", **NAMED)
    widths = [{row.name: row.high - row.low for row in one.group_table()} for one in (alone, audit)]
    assert widths[1]["sex = 1"] > widths[0]["sex = 1"]
    assert len(widths[1]) == 5 + 6
    assert any("Intersections of two groups count" in note for note in audit.to_dict()["notes"])


def test_small_intersections_are_left_out_and_counted():
    rng = np.random.default_rng(0)
    groups = {"a": np.r_[["x"] * 3990, ["y"] * 10], "b": rng.choice(["u", "v"], 4000)}
    p = np.full(4000, 0.3)
    found = Audit(p, rng.random(4000) < p, groups=groups, intersections=2)
    names = [row.name for row in found.group_table()]
    assert "a = y" in names
    assert "a × b = x × u" in names
    assert "a × b = y × u" not in names
    assert any("2 in which fewer than 10 outcomes" in note for note in found.to_dict()["notes"])


def test_intersections_survive_parts_and_files(audit, tmp_path):
    rows = frame()
    parts = [{name: column[part] for name, column in rows.items()} for part in (slice(0, 2500), slice(2500, None))]
    grown = Audit.from_frame(parts[0], prob="p", **NAMED, intersections=2)
    grown.save(tmp_path / "a.audit")
    loaded = Audit.load(tmp_path / "a.audit")
    for one in (grown, loaded):
        one.add(parts[1])
    assert {row.name: row.n for row in loaded.group_table()} == {row.name: row.n for row in audit.group_table()}
    assert loaded.to_json() == grown.to_json()


@pytest.mark.parametrize(("given", "message"), [(3, "expected 2"), (2, "given 1 group columns, expected two or more")])
def test_refused_intersections(given, message):
    with pytest.raises(ValueError, match=message):
        Audit([0.1, 0.2], [0, 1], groups=["a", "b"], intersections=given)


def test_titles_are_used_in_every_word_and_names_stay(audit):
    findings = audit.to_dict(titles=TITLES)
    assert Findings.of(findings).to_dict() == findings
    plain = audit.to_dict()
    assert [one["name"] for one in findings["groups"]] == [one["name"] for one in plain["groups"]]
    assert findings["groups"][0]["title"] == "Sex = women and Department = Bakery <b>"
    assert "Sex = women and Department = Bakery <b>" in findings["headline"]["sentence"]
    said = words(findings)
    assert not any(raw in said for raw in ("sex =", "dept =", "× "))
    assert findings["identity"]["titles"]["p"] == "Risk score"
    page = render(findings)
    assert "Bakery &lt;b&gt;" in page
    assert "Bakery <b>" not in page
    assert "Department = unknown" in page
    assert "Age in years" in page
    assert "sex = " not in page


def test_labels_change_no_figure(audit):
    def figures(value):
        if isinstance(value, dict):
            return {k: figures(v) for k, v in value.items() if k not in ("title", "group_title", "titles")}
        if isinstance(value, list):
            return [figures(one) for one in value]
        return value if not isinstance(value, str) else ""

    assert figures(audit.to_dict(titles=TITLES)) == figures(audit.to_dict())


def test_a_comparison_speaks_in_titles_too():
    found = Comparison.from_frame(frame(), probs=["q", "p"], **NAMED).to_dict(titles=TITLES)
    entry = found["comparison"]
    assert entry["sentence"].startswith("Risk score is better than q:")
    assert {one.get("title", one["name"]) for one in entry["groups"]} >= {"Sex = women", "Department = unknown"}
    assert "calibration loss within Department" in [one.get("title") for one in entry["scores"]]
    assert "sex" not in entry["sentence"]


def test_labels_are_read_from_a_file(audit, tmp_path):
    path = tmp_path / "labels.toml"
    path.write_text('[columns]\nsex = "Sex"\n[values.sex]\n2 = "women"\n')
    assert audit.to_json(titles=path) == audit.to_json(titles=Titles.of(path))
    assert "Sex = women" in audit.to_json(titles=path)
    assert json.loads(audit.to_json(titles=path))["groups"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"columns": {"town": "Town"}}, r"titles: columns: given 'town', expected one of age, "),
        ({"values": {"town": {"a": "A"}}}, r"titles: values: given 'town'"),
        ({"values": {"sex": {"3": "others"}}}, r"titles: values\.sex: given '3', expected one of 1, 2"),
        ({"columns": {"sex": 1}}, r"titles: columns\.sex: given 1, expected a title"),
        ({"columns": {"sex": "a = b"}}, r"titles: columns\.sex: given 'a = b', expected a title"),
        ({"values": {"sex": "men"}}, r"titles: values\.sex: given 'men', expected a table"),
        ({"column": {}}, r"titles: given 'column', expected columns and values"),
    ],
)
def test_refused_labels(audit, given, message):
    with pytest.raises(ValueError, match=message):
        audit.to_dict(titles=given)


def test_a_file_that_is_no_toml_is_refused(audit, tmp_path):
    path = tmp_path / "labels.toml"
    path.write_text("sex: Sex")
    with pytest.raises(ValueError, match=r"labels\.toml: given no TOML"):
        audit.to_dict(titles=path)
