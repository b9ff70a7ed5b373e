"""The report: well formed, self-contained, small, escaped, and drawable whatever the findings hold."""

import copy
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swapcal.report import SCHEMA_VERSION, render
from swapcal.report.findings import GroupRow, Headline, from_dict
from swapcal.report.groups import MOST_GROUPS, reach
from swapcal.report.headline import strip
from swapcal.report.html import (
    FEW_SMALL,
    NAME_LENGTH,
    VOID,
    Html,
    coordinate,
    figure,
    p_value,
    percent,
    points,
    prose,
    tag,
)
from swapcal.report.measures import MOST_QUANTITIES
from swapcal.report.reliability import MOST_LEVELS
from swapcal.report.svg import Axis, covering

ONE_MEGABYTE = 1_000_000
HTML_VOID = VOID | {"link", "img", "input", "hr"}
Mapping = dict[str, Any]


def identity(**changes: Any) -> Mapping:
    fields = {
        "title": "Rain tomorrow",
        "swapcal_version": "0.1.0",
        "schema_version": SCHEMA_VERSION,
        "data_hash": "7e1ed846b5e0",
        "settings_hash": "c2d9b0aa41d3",
        "python_version": "3.12.4",
        "numpy_version": "2.1.0",
        "n": 61035,
        "total_weight": 61035.0,
        "first_time": "2014-06-12",
        "last_time": "2022-12-18",
        "created_at": "2026-01-01 12:00 UTC",
        "prediction": "p_rain",
        "label": "rained",
        "settings": {"levels": "51"},
        "features": ["humidity", "station = Perth"],
        "n_levels": 51,
        "levelling": "Rounded to the nearest of 51 levels",
    }
    return fields | changes


def group(name: str = "station = Perth", **changes: Any) -> Mapping:
    fields = {
        "name": name,
        "n": 1200.0,
        "mean_p": 0.31,
        "mean_y": 0.36,
        "gap": 0.05,
        "low": 0.02,
        "high": 0.08,
    }
    return fields | {"small": False, "p_value": 0.0004, "verdict": "miscalibrated"} | changes


def level(v: float = 0.4, **changes: Any) -> Mapping:
    fields = {"v": v, "n": 500.0, "mean_p": v, "mean_y": v + 0.1}
    return fields | {"band_low": max(0.0, v - 0.04), "band_high": min(1.0, v + 0.04)} | changes


def quantity(name: str = "SMCal_2", **changes: Any) -> Mapping:
    fields = {"name": name, "against": "F_1^lin", "meaning": "Worst gap at each level.", "value": 32.1}
    fields |= {"mean_value": 0.0005, "null_mean": 11.1, "null_low": 7.9, "null_high": 14.8, "p_value": 0.0002}
    return fields | {"minimum_detectable": 16.2, "bound": None, "certificate": None} | changes


def period(label: str = "2021-03", **changes: Any) -> Mapping:
    fields = {"label": label, "n": 900.0, "mean_p": 0.3, "mean_y": 0.34, "error": 0.06}
    return fields | {"null_low": 0.01, "null_high": 0.04} | changes


def witness(**changes: Any) -> Mapping:
    points = [(-0.9, 0.6, 0.5), (0.1, 0.5, 0.5), (0.8, 0.4, 0.41)]
    curve = [{"score": s, "mean_p": p, "mean_y": y, "n": 300.0} for s, p, y in points]
    fields = {
        "quantity": "SMCal_2",
        "levels": [0.4, 0.42],
        "direction": [{"name": "humidity", "coefficient": -0.9, "unit": "per %"}],
        "gap": -0.05,
        "n": 900.0,
        "share": 0.43,
        "resembles": [{"group": "station = Perth", "correlation": -0.97}],
        "sentence": "On humid days it rains less often than forecast.",
        "curve": curve,
    }
    return fields | changes


CONTEST_FIGURES = ("brier_change", "brier_low", "brier_high", "log_loss_change", "log_loss_low", "log_loss_high")


def conventional() -> Mapping:
    numbers = ["debiased_ece", "miscalibration", "discrimination", "uncertainty", "two_bin", "two_bin_expected"]
    curve = [{"p": k / 10, "rate": k / 12, "low": k / 14, "high": k / 9} for k in range(1, 9)]
    benefit = [
        {"threshold": k / 10, "benefit": 0.3 - k / 30, "low": 0.2 - k / 30, "high": 0.4 - k / 30} for k in range(1, 9)
    ]
    return {
        "slope": [0.8, 0.7, 0.9],
        "intercept": [-0.1, -0.2, 0.0],
        "observed_expected": [1.1, 1.0, 1.2],
        **dict.fromkeys([*numbers, "cutoff", "cutoff_chance"], 0.01),
        "isotonic": curve,
        "net_benefit": [point | {"everyone": 0.3 - point["threshold"]} for point in benefit],
    }


def complete() -> Mapping:
    scores = {"brier": 0.22, "brier_calibration": 0.001, "brier_refinement": 0.219, "log_loss": 0.64}
    scores |= {"auc": 0.67, "ece": 0.015, "smooth_ece": 0.009, "mean_p": 0.31, "mean_y": 0.33}
    decision = {"loss": "newsvendor 3:1", "cost": 0.41, "regret": 0.003, "certificate": 0.02}
    forecaster = {"levels": 87, "dims": 24, "rounds": 61035, "certificate": 97.3, "observed": 22.4}
    forecaster |= {"issued": {"labels": 61000, "smcal_1": 0.0123, "smcal_2": 0.0004, "somni": 0.0234, "cal": 0.0111}}
    pieces = [{"name": "rounding", "value": 31.3}, {"name": "learning", "value": 66.0}]
    method = {"name": "mine", "brier": 0.2, "log_loss": 0.6, "worst_group": "x = 1", "worst_gap": -0.02}
    method |= {"verdict": "small", "word": None, **dict.fromkeys(CONTEST_FIGURES)}
    changed = {"word": "better", **dict.fromkeys(CONTEST_FIGURES, -0.01), "worst_group": None, "worst_gap": None}
    return {
        "contest": {"sentence": "You would gain.", "how": "In order.", "methods": [method, method | changed]},
        "identity": identity(),
        "headline": {
            "verdict": "miscalibrated",
            "sentence": "These forecasts are too high.",
            "p_value": 0.0002,
        },
        "quantities": [quantity(bound=410.0, certificate=97.3), quantity("Cal_1", value=3.0)],
        "scores": scores,
        "reliability": [level(i / 20) for i in range(1, 19)],
        "density": {"edges": [0.0, 0.25, 0.5, 1.0], "counts": [5.0, 9.0, 2.0]},
        "timeline": [period(f"2021-{m:02d}", error=0.01 * m) for m in range(1, 13)],
        "timeline_error": "SMCal_2 per row",
        "groups": [group(), group("station = Hobart", verdict="no error found", p_value=0.7)],
        "numbers": [
            {"name": "hour", "edges": [6.0, 12.0], "ranges": [group("hour < 6"), group("6 ≤ hour < 12"), group()]}
        ],
        "witnesses": [witness()],
        "comparison": compared(),
        "decisions": [decision | {"alternative": "always umbrella"}],
        "forecaster": forecaster | {"pieces": pieces},
        "conventional": conventional(),
        "notes": ["Stations share weather."],
    }


def minimal() -> Mapping:
    required = {k: v for k, v in identity().items() if k not in ("settings", "features", "n_levels", "levelling")}
    return {"identity": required, "headline": {"verdict": "undecided", "sentence": "Too few rows."}}


class Page(HTMLParser):
    """Collects elements and fails on anything unbalanced."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({key for key, _ in attrs}) == len(attrs), f"attribute given twice in {name}: {attrs}"
        self.elements.append((name, {key: value or "" for key, value in attrs}))
        if name not in HTML_VOID:
            self.open.append(name)

    def handle_startendtag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        assert name in HTML_VOID
        self.handle_starttag(name, attrs)

    def handle_endtag(self, name: str) -> None:
        assert self.open, f"</{name}> closes nothing"
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def named(self, name: str) -> list[dict[str, str]]:
        return [attributes for found, attributes in self.elements if found == name]

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


GEOMETRY = ("x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "width", "height", "dx", "dy", "viewbox")
NUMBER = r"-?\d+(?:\.\d+)?"


def check_drawings(page: Page) -> None:
    for name, attributes in page.elements:
        for key in GEOMETRY:
            if key in attributes:
                parts = attributes[key].split()
                assert all(re.fullmatch(NUMBER + r"(%|em)?", part) for part in parts), (name, key, attributes)
        if "d" in attributes:
            assert re.fullmatch(rf"M(?:[MLHVAZl ,]|{NUMBER})*", attributes["d"]), attributes["d"]


def check_page(text: str) -> Page:
    page = Page(text)
    assert len(set(page.ids())) == len(page.ids())
    check_drawings(page)
    assert len(text.encode()) < ONE_MEGABYTE
    return page


@pytest.fixture(scope="module")
def full_page() -> str:
    return render(complete())


def test_page_is_well_formed_and_headed_in_order(full_page: str) -> None:
    page = check_page(full_page)
    assert full_page.startswith("<!doctype html>\n<html lang=")
    headings = [name for name, _ in page.elements if name in ("h1", "h2", "h3")]
    assert headings.count("h1") == 1
    assert headings[0] == "h1"
    assert headings.index("h2") < headings.index("h3")


def test_references_stay_inside_the_page(full_page: str) -> None:
    page = Page(full_page)
    ids = set(page.ids())
    assert "script" not in {name for name, _ in page.elements}
    for _, attributes in page.elements:
        assert not {"src", "srcset", "action", "onclick", "onload"} & attributes.keys()
        assert attributes.get("href", "#identity")[1:] in ids
        assert set(attributes.get("aria-labelledby", "").split()) <= ids
    assert "url(" not in full_page
    assert "@import" not in full_page
    assert "http://" not in full_page
    assert "https://" not in full_page


def test_pictures_and_tables_are_announced(full_page: str) -> None:
    page = Page(full_page)
    images = [attributes for attributes in page.named("svg") if attributes.get("role") == "img"]
    assert len(images) >= 7
    assert all(attributes["aria-labelledby"] for attributes in images)
    assert len(page.named("caption")) == len(page.named("table"))
    assert all(a.get("scope") in ("col", "row") for a in page.named("th"))


def test_every_section_and_its_link(full_page: str) -> None:
    page = Page(full_page)
    sections = [attributes["aria-labelledby"] for attributes in page.named("section")]
    expected = [
        "comparison",
        "figures",
        "reliability",
        "time",
        "groups",
        "numbers",
        "witnesses",
        "errors",
        "conventional",
        "decisions",
        "certificate",
    ]
    assert sections == ["contest", *expected, "reading", "limitations", "identity"]
    assert [attributes["href"][1:] for attributes in page.named("a")] == sections[1:]  # the first is above the links


def test_minimal_findings_leave_optional_sections_out() -> None:
    page = check_page(render(minimal()))
    sections = [attributes["aria-labelledby"] for attributes in page.named("section")]
    assert sections == ["figures", "reading", "limitations", "identity"]
    assert "Too few rows." in page.text
    assert "undecided" in page.text


OPTIONAL = {
    "contest": "contest",
    "reliability": "reliability",
    "timeline": "time",
    "groups": "groups",
    "witnesses": "witnesses",
    "quantities": "errors",
    "decisions": "decisions",
    "forecaster": "certificate",
}


@pytest.mark.parametrize("key", OPTIONAL)
@pytest.mark.parametrize("empty", ["absent", "none", "empty"])
def test_an_empty_section_is_absent_and_the_rest_stays(key: str, empty: str) -> None:
    findings = complete()
    nothing: Any = None if key in ("forecaster", "contest") else []
    findings[key] = None if empty == "none" else nothing
    if empty == "absent":
        del findings[key]
    page = check_page(render(findings))
    sections = {attributes["aria-labelledby"] for attributes in page.named("section")}
    assert OPTIONAL[key] not in sections
    assert set(OPTIONAL.values()) - {OPTIONAL[key]} <= sections


def test_the_facts_are_on_the_page(full_page: str) -> None:
    text = Page(full_page).text
    for words in (
        "These forecasts are too high.",
        "61,035",
        "7e1ed846b5e0",
        "2014-06-12 to 2022-12-18",
        "p_rain",
    ):
        assert words in text
    for words in (
        "Stations share weather.",
        "On humid days it rains less often",
        "newsvendor 3:1",
        "Outcomes learned from",
        "97.3",
        "410",
    ):
        assert words in text
    assert "< 0.001" in text


def test_equal_findings_give_equal_pages(full_page: str) -> None:
    again = json.loads(json.dumps(complete()))
    assert render(again) == full_page


def test_rendering_leaves_the_findings_alone() -> None:
    findings = complete()
    before = copy.deepcopy(findings)
    render(findings)
    assert findings == before


HOSTILE = [
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "\"quoted\" 'and' & more",
    "été 天気 🌧 مطر",
    "]]>--><!-- comment",
    "x" * 100_000,
    "\x00\x07 control \ud800 surrogate",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_the_data_are_shown_never_interpreted(name: str) -> None:
    findings = _renamed(complete(), name)
    text = render(findings)
    page = check_page(text)
    clean = check_page(render(_renamed(complete(), "ordinary name")))
    assert _skeleton(page) == _skeleton(clean)
    assert text.encode("utf-8")
    shown = re.sub("[\x00\x07\ud800]", "\ufffd", name)[: NAME_LENGTH // 2]
    assert shown in page.text


def _skeleton(page: Page) -> list[str]:
    """Elements in order, but for the pieces of symbols, which a cut name may lose."""
    return [name for name, _ in page.elements if name != "tspan"]


def _renamed(findings: Any, name: str) -> Any:
    """Replace every free text, keeping what the schema fixes."""
    if isinstance(findings, dict):
        fixed = ("verdict", "word", "quantity", "against")
        return {k: v if k in fixed else _renamed(v, name) for k, v in findings.items()}
    if isinstance(findings, list):
        return [_renamed(item, name) for item in findings]
    return name if isinstance(findings, str) else findings


def test_every_groups_name_is_shown_while_they_fit() -> None:
    names = [f"station = {i:03d}" for i in range(MOST_GROUPS)]
    page = check_page(render(complete() | {"groups": [group(name) for name in names]}))
    assert all(name in page.text for name in names)
    assert "not shown" not in page.text


def test_size_is_capped_and_what_is_hidden_is_counted() -> None:
    long = "&" * 2_000  # the character that grows most when escaped
    levels = [level((i + 0.5) / 10_000, n=float(i)) for i in range(10_000)]
    calm = [group(f"g{i} {long}", verdict="no error found") for i in range(9_999)]
    wide = [{"name": long, "coefficient": 0.5, "unit": long}] * 500
    loud = group("the one that matters")
    findings = complete() | {
        "reliability": levels,
        "groups": [*calm, loud],
        "timeline": [period(f"day {i} {long}") for i in range(10_000)],
        "density": {"edges": [i / 10_000 for i in range(10_001)], "counts": [1.0] * 10_000},
        "quantities": [quantity(long, meaning=long, against=long, citation=long)] * 10_000,
        "witnesses": [witness(sentence=long, direction=wide, curve=witness()["curve"] * 50)] * 500,
        "notes": [long] * 10_000,
        "decisions": [complete()["decisions"][0] | {"loss": long, "alternative": long}] * 10_000,
        "identity": identity(features=[long] * 10_000, settings={f"{i}{long}": long for i in range(1_000)}),
    }
    page = check_page(render(findings))
    assert "the one that matters" in page.text
    assert (
        "The errors shown here are differences between forecasts and outcomes; their causes are not examined."
        in page.text
    )
    assert f"{10_000 - MOST_GROUPS:,} groups not shown (none of them miscalibrated)" in page.text
    assert f"{10_000 - MOST_LEVELS:,} levels not shown" in page.text
    assert f"{10_000 - MOST_QUANTITIES:,} quantities not shown" in page.text


def test_hidden_miscalibrated_groups_are_counted_too() -> None:
    page = Page(render(complete() | {"groups": [group(f"g{i}") for i in range(MOST_GROUPS + 7)]}))
    assert "7 groups not shown (7 of them miscalibrated)" in page.text


def untested(count: int) -> list[Mapping]:
    return [group(f"town = t{i}", small=True, verdict="undecided", p_value=None, n=3.0) for i in range(count)]


def test_groups_too_small_to_be_tested_are_counted_apart_from_the_tested() -> None:
    few = complete() | {"groups": [group(), *untested(3)], "groups_examined": 1, "groups_small": 3}
    page = Page(render(few)).text
    assert "1 group tested, 1 miscalibrated. 3 groups are too small to be tested." in page
    assert "town = t2" in page
    unsure = few | {"groups": [group(), group("town = off", verdict="undecided"), *untested(3)], "groups_examined": 2}
    assert "2 groups tested, 1 miscalibrated, 1 more off by more than chance. 3 groups" in Page(render(unsure)).text
    old = Page(render(few | {"groups_examined": 4, "groups_small": None})).text  # of a release that counted them in
    assert "1 group tested, 1 miscalibrated. 3 groups are too small to be tested." in old


def test_many_groups_too_small_to_be_tested_share_one_row() -> None:
    contradicted = group("town = contradicted", small=True, p_value=0.0)
    found = complete() | {"groups": [contradicted, group(), *untested(FEW_SMALL + 1)], "groups_examined": 1}
    page = Page(render(found | {"groups_small": 400})).text
    assert "400 groups too small to be tested" in page
    assert "town = contradicted" in page
    assert "town = t0" not in page
    assert "not shown" not in page
    listed = Page(render(found | {"groups": [group(), *untested(FEW_SMALL)], "groups_small": FEW_SMALL})).text
    assert f"town = t{FEW_SMALL - 1}" in listed


def test_weights_are_not_called_rows() -> None:
    levels = [level(i / 20) for i in range(1, 19)]
    found = complete() | {"reliability": levels, "identity": identity(n=700, total_weight=9000.0)}
    page = render(found)
    assert "weight 500" in page
    assert "weight 900" in page
    assert not re.findall(r"[0-9] rows", page.replace("700 rows", ""))


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [(0.0003, 0.014, "0.0 to 1.4"), (0.0, 0.014, "0 to 1.4"), (0.031, 0.245, "3.1 to 24.5"), (0.0, 0.0, "0 to 0")],
)
def test_the_worst_errors_interval_is_written_whole(low: float, high: float, shown: str) -> None:
    answer = {"verdict": "undecided", "sentence": "", "low": low, "high": high, "tolerance": 0.01}
    assert f"worst error, {shown} points" in str(strip(from_dict(Headline, answer, "headline")))


def test_merged_density_keeps_the_shape_of_the_strip() -> None:
    fine = {"edges": [i / 400 for i in range(401)], "counts": [float(i // 8) for i in range(400)]}
    coarse = {"edges": [i / 50 for i in range(51)], "counts": [8.0 * i for i in range(50)]}
    heights = []
    for density in (fine, coarse):
        paths = [
            a["d"] for a in Page(render(complete() | {"density": density})).named("path") if a.get("class") == "density"
        ]
        heights.append({float(y) for _, y in re.findall(rf"({NUMBER}) ({NUMBER})", paths[0])})
    assert heights[0] == heights[1]


def test_beyond_chance_is_a_shape_not_only_a_colour() -> None:
    inside = [level(i / 20, mean_y=i / 20) for i in range(1, 19)]
    outside = [level(i / 20) for i in range(1, 19)]
    pages = [render(minimal() | {"reliability": levels}) for levels in (inside, outside)]
    marks = [
        [a["class"] for a in Page(page).named("svg") if a.get("class") in ("observed", "beyond")] for page in pages
    ]
    assert marks[0] == ["observed"] * 36
    assert marks[1] == ["beyond"] * 36
    assert pages[0].count('<circle r="') == 36
    assert '<circle r="' not in pages[1]


def test_one_bound_beyond_the_observed_value_is_drawn() -> None:
    promised = render(minimal() | {"quantities": [quantity(certificate=97.3)]})
    plain = render(minimal() | {"quantities": [quantity()]})
    assert "Certificate" in Page(promised).text
    assert "Certificate" not in Page(plain).text
    assert Page(promised).text.count("guaranteed upper bound") == 1
    assert "guaranteed upper bound" not in Page(plain).text


def test_symbols_of_the_theory_stay_behind_a_fold() -> None:
    page = render(complete() | {"timeline_error": "error"})
    shown = re.sub(r"<details>.*?</details>", "", page, flags=re.S)
    assert "SMCal" in page
    assert not re.search(r"SMCal|MCal|F<sub>|accused", shown)


def test_the_verdict_stands_next_to_the_group() -> None:
    row = re.search(r"<tr><th[^>]*><bdi>station = Hobart</bdi></th>(<td.*?</td>)", render(complete()))
    assert row is not None
    assert "no error found" in row[1]


def compared() -> Mapping:
    predictor = {"verdict": "small", "sentence": "Only a little.", "low": 0.001, "high": 0.02, "p_value": 0.01}
    predictor |= {"reliability": [level(i / 20) for i in range(1, 19)]}
    score = {"name": "log loss", "meaning": "surprise", "before": 0.5, "after": 0.4, "difference": -0.1}
    score |= {"low": -0.2, "high": -0.05, "p_value": 0.001, "word": "better", "sentence": "Lower."}
    gaps = {f"gap_{key}": 0.01 for key in ("before", "after", "change", "low", "high", "p")}
    losses = {f"loss_{key}": 0.01 for key in ("before", "after", "change", "low", "high", "p")}
    entry = {"name": "shop = a", "n": 10.0, "mean_y": 0.3, "ece_before": 0.02, "ece_after": 0.01, "small": False}
    return {
        "sentence": "new is better than old.",
        "predictors": [predictor | {"name": "old"}, predictor | {"name": "new", "title": "New model"}],
        "scores": [score],
        "groups": [
            entry | gaps | losses | {"word": "worse"},
            entry | gaps | losses | {"word": "better", "small": True},
        ],
        "groups_sentence": "Of 2 groups, one.",
        "method": "Row by row.",
    }


def test_two_predictors_stand_side_by_side() -> None:
    page = check_page(render(complete() | {"comparison": compared()}))
    for words in ("new is better than old.", "New model", "▼ better", "▲ worse", "not tested", "Row by row."):
        assert words in page.text


def test_the_page_of_two_predictors_begins_with_what_changed() -> None:
    entry = compared()
    one, small = entry["groups"]
    worse = one | {"name": "shop = b", "n": 90.0, "ece_before": 0.01, "ece_after": 0.03}
    page = check_page(render(minimal() | {"comparison": entry | {"groups": [one, worse, small]}}))
    lead, verdict = page.text.split("Too few rows.")[0], page.text.index("Too few rows.")
    assert page.text.index("new is better than old.") < verdict
    assert "median of 2: 1.5 points before, 2.0 after" in lead
    assert "the audit of New model" in lead
    assert "lower after in 1, higher or equal in 1" in lead
    assert lead.index("2.0 → 1.0") < lead.index("1.0 → 3.0")


def test_an_unknown_date_is_not_announced() -> None:
    page = Page(render(minimal() | {"identity": identity(created_at="")}))
    assert "made" not in page.text.split("Too few rows.")[0]


def test_witness_without_rows_has_no_picture_and_a_group_has_no_direction() -> None:
    bare = Page(render(minimal() | {"witnesses": [witness(curve=[])]}))
    assert "along-1-title" not in bare.ids()
    assert "humidity" in bare.text
    grouped = witness(group="station = Perth", interval=[0.4, 0.6], p_value=0.0001, axis="predicted probability")
    page = Page(render(minimal() | {"witnesses": [grouped]}))
    assert "humidity" not in page.text
    assert "40.0\u202f% to 60.0\u202f%" in page.text
    assert "by predicted probability" in page.text


MISSING = [None, math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("value", MISSING)
def test_missing_figures_become_dashes(value: float | None) -> None:
    findings = _without_figures(complete(), value)
    page = check_page(render(findings))
    assert "–" in page.text
    assert not re.search(r"\b(nan|inf|None)\b", page.text)


REQUIRED_NUMBERS = (
    "n",
    "total_weight",
    "v",
    "score",
    "coefficient",
    "correlation",
    "levels",
    "dims",
    "rounds",
)


def _without_figures(findings: Any, value: float | None) -> Any:
    if isinstance(findings, dict):
        fixed = (*REQUIRED_NUMBERS, "schema_version", "n_levels", "edges", "counts", "small")
        return {k: v if k in fixed else _without_figures(v, value) for k, v in findings.items()}
    if isinstance(findings, list):
        return [_without_figures(item, value) for item in findings]
    return value if isinstance(findings, float) else findings


@pytest.mark.parametrize(
    ("path", "change", "message"),
    [
        (
            "headline",
            {"verdict": "fine"},
            r"findings.headline.verdict: given 'fine' \(str\), expected 'miscalibrated' or",
        ),
        ("headline", {"sentence": 3}, r"findings.headline.sentence: given 3 \(int\), expected str"),
        ("groups", [group(small=1)], r"findings.groups\[0\].small: given 1 \(int\), expected bool"),
        ("groups", [group(), group(gap="x")], r"findings.groups\[1\].gap: given 'x' \(str\), expected float"),
        ("groups", [{"name": "a"}], r"findings.groups\[0\].n: given nothing, expected float"),
        ("groups", {"a": 1}, r"findings.groups: given a dict, expected a list of GroupRow"),
        ("identity", {"schema_version": 99}, r"schema_version: given 99, expected at most 2"),
        ("identity", {"n": True}, r"findings.identity.n: given True \(bool\), expected int"),
        ("scores", [1], r"findings.scores: given a list, expected a mapping as in Scores"),
    ],
)
def test_wrong_findings_are_refused_with_their_path(path: str, change: Any, message: str) -> None:
    findings = complete()
    findings[path] = findings[path] | change if path in ("headline", "identity") else change
    with pytest.raises(ValueError, match=message):
        render(findings)


def test_unknown_keys_are_let_through(full_page: str) -> None:
    findings = complete()
    findings["headline"]["later"] = findings["later"] = [object()]
    assert render(findings) == full_page


number = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 5e-324, 1e-300, 1.7e308, -1.7e308, 0.5]),
    st.floats(0, 1),
    st.floats(),
)
awkward = st.none() | number


def build(fields: Mapping, **free: Any) -> st.SearchStrategy[Mapping]:
    return st.fixed_dictionaries({k: st.just(v) for k, v in fields.items()} | free)


def few(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, max_size=3)


def free(*names: str) -> Mapping:
    return dict.fromkeys(names, awkward)


rates = {"mean_p": awkward, "mean_y": awkward, "n": number}
verdicts = st.sampled_from(["miscalibrated", "small", "no error found", "undecided"])
curves = few(st.fixed_dictionaries({"score": number, **rates, **free("band_low", "band_high")}))
coefficients = few(build({"name": "a", "unit": None}, coefficient=number))
nulls = free("value", "null_mean", "null_low", "null_high")
STRANGE: dict[str, st.SearchStrategy[Any]] = {
    "reliability": few(build(level(), v=number, **free("band_low", "band_high"), **rates)),
    "density": st.fixed_dictionaries({"edges": few(number), "counts": few(number)}),
    "timeline": few(build(period(), **free("error", "null_low", "null_high"), **rates)),
    "groups": few(build(group(), **free("gap", "low", "high", "p_value"), verdict=verdicts, **rates)),
    "witnesses": few(build(witness(), curve=curves, direction=coefficients, **free("gap", "share"))),
    "quantities": few(build(quantity(), **nulls, **free("bound", "certificate", "upper_value", "p_value"))),
    "scores": build(complete()["scores"], **free("brier", "auc", "mean_p", "mean_y")),
    "forecaster": build(complete()["forecaster"], **free("certificate", "observed", "bound")),
}


@pytest.mark.parametrize("section", STRANGE)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_degenerate_findings_draw_finite_pictures(section: str, data: st.DataObject) -> None:
    findings = minimal() | {"reliability": [level()], section: data.draw(STRANGE[section])}
    page = check_page(render(findings))
    assert not re.search(r"\b(nan|inf)\b", page.text)


def test_the_errors_of_drawn_levels_stand_beside_their_names() -> None:
    page = render(complete())
    rows = re.findall(r"<tr><th[^>]*>([^<]+)</th><td[^>]*>[^<]+</td><td[^>]*>([\d.]+)</td></tr>", page)
    expected = {"Calibration error": 0.0111, "Along linear rules": 0.0123, "The same, squared": 0.0004}
    expected |= {"Lost by decisions": 0.0234}
    assert expected == {name: float(value) for name, value in rows if name in expected}


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_ticks_are_few_and_inside(a: float, b: float) -> None:
    scale = covering([a, b])
    ticks = scale.ticks()
    width = scale.high - scale.low
    assert 1 <= len(ticks) <= 12
    assert all(scale.low - 1e-5 * width <= t <= scale.high + 1e-5 * width for t in ticks)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_scale_keeps_order(low: float, a: float, b: float) -> None:
    scale = Axis(low, low + 10.0)
    assert 0 <= scale.at(min(a, b)) <= scale.at(max(a, b)) <= 1


@given(st.text(), st.text())
def test_tag_escapes_text_and_attributes(text: str, attribute: str) -> None:
    page = Page(tag("p", text, title=attribute))
    assert [name for name, _ in page.elements] == ["p"]


def test_markup_is_not_escaped_twice() -> None:
    assert tag("p", tag("b", "<"), Html("&amp;")) == "<p><b>&lt;</b>&amp;</p>"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_undrawable_coordinates_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="expected a finite number"):
        coordinate(value)


@given(st.floats(1e-4, 1e8))
def test_figures_keep_three_digits(value: float) -> None:
    written = float(figure(value).replace(",", ""))
    assert written == pytest.approx(value, rel=0.0051)


@given(st.floats(0, 1))
def test_p_values_never_claim_certainty(value: float) -> None:
    text = p_value(value)
    assert text in ("< 0.001", "> 0.99") or 0 < float(text) < 1


def test_signs_of_gaps() -> None:
    assert [points(x) for x in (0.012, -0.012, 0.0001, -0.0001)] == ["+1.2", "−1.2", "0.0", "0.0"]
    assert percent(-0.5) == "−50.0\u202f%"


def test_small_groups_do_not_stretch_the_shared_axis() -> None:
    tiny = group("tiny", small=True, low=-0.9, high=0.9, verdict="undecided")
    rows = [from_dict(GroupRow, row, "group") for row in (group(), tiny)]
    assert reach(rows) == reach(rows[:1])


@pytest.mark.parametrize("style", ["sentence", "detail", "lead"])
def test_no_line_of_a_sentence_or_its_details_ends_before_a_percent_sign(style: str) -> None:
    assert prose("with 5 % of the rows", style=style) == f'<p class="{style}">with 5\u00a0% of the rows</p>'
