"""What deploy/ names exists: metrics and labels in a running service, files, options and addresses."""

import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")
from prometheus_client.parser import text_string_to_metric_families

from swapcal import Monitor
from swapcal.service import Limits
from tests.service_server import Caller, served

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
NAMED = re.compile(r"\b(swapcal_\w+)(?:\{([^}]*)\})?")
SHOP = "/v1/forecasters/shop"


def expressions() -> list[str]:
    """Return every PromQL expression of the alert rules and of the board."""
    rules = re.findall(r"^ +expr: (.+)$", (DEPLOY / "alerts.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    board = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    variables = [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    assert (len(rules), len(variables)) == (12, 1)
    assert len(panels) > 20
    return rules + panels + variables


def exported(service: Caller) -> dict[str, list[dict[str, str]]]:
    """Return the labels of every sample by its name."""
    found = defaultdict(list)
    for family in text_string_to_metric_families(service.get("/metrics").body):
        for sample in family.samples:
            found[sample.name].append({**sample.labels, "": str(sample.value)})
    return found


def learn(service: Caller, rows: int, *, off: float = 0.0) -> None:
    """Let a forecaster learn outcomes of four cities, of which Rome turns after half of the rows."""
    service.post("/v1/forecasters", {"name": "shop", "groups": ["city"], "scores": ["own"]})
    rng = np.random.default_rng(0)
    for start in range(0, rows, 100):
        cities = rng.choice(["Rome", "Oslo", "Bern", "Riga"], 100, p=[0.4, 0.3, 0.2, 0.1])
        records = [{"city": str(city), "own": 0.3} for city in cities]
        given = [{"id": f"{start + k}", "record": record} for k, record in enumerate(records)]
        assert service.post(f"{SHOP}/forecasts", {"forecasts": given}).status == 200
        y = rng.random(100) < 0.3 + np.where((cities == "Rome") & (start >= rows / 2), off, 0.0)
        outcomes = [{"id": f"{start + k}", "y": int(y[k])} for k in range(100)]
        assert service.post(f"{SHOP}/outcomes", {"outcomes": outcomes}).status == 200


def test_every_metric_and_label_that_board_and_alerts_name_is_exported(tmp_path: Path) -> None:
    with served(tmp_path) as service:
        learn(service, 200)
        found = exported(service)
    for expression in expressions():
        names = NAMED.findall(expression)
        assert names or "up{" in expression, expression
        for name, matchers in names:
            labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
            assert name in found, name
            assert all(labels <= sample.keys() for sample in found[name]), (name, labels)
    rules, label = (DEPLOY / "alerts.yaml").read_text(encoding="utf-8"), re.compile(r"\$labels\.(\w+)")
    own = {label for samples in found.values() for sample in samples for label in sample} | {"instance", "job"}
    assert set(label.findall(rules)) <= own


def test_gaps_are_those_of_the_monitor_of_alarmed_groups_first_and_no_more_than_the_limit(tmp_path: Path) -> None:
    with served(tmp_path, Limits(gauges=3)) as service:
        learn(service, 2000, off=0.6)
        found, alarms = exported(service), service.get(f"{SHOP}/alarms").body
    sizes = {size["group"]: size for size in alarms["sizes"]}
    alarmed = [alarm["group"] for alarm in alarms["alarms"]]
    assert "city = Rome" in alarmed
    largest = sorted(sizes, key=lambda group: -sizes[group]["rows"])
    shown = [*dict.fromkeys([*alarmed, *largest])][:3]
    for name, field in (("swapcal_gap", "gap"), ("swapcal_gap_low", "low"), ("swapcal_gap_high", "high")):
        values = {sample["group"]: float(sample[""]) for sample in found[name]}
        assert values == {group: sizes[group][field] for group in shown}
    assert [sample[""] for sample in found["swapcal_alarm"]] == ["1.0"]
    assert [sample[""] for sample in found["swapcal_groups"]] == ["5.0"]


def test_the_foremost_groups_are_alarmed_ones_then_the_largest() -> None:
    rng = np.random.default_rng(1)
    g, p = rng.choice(["a", "b", "c"], 3000, p=[0.6, 0.3, 0.1]), np.full(3000, 0.5)
    monitor = Monitor(["g"]).add({"g": g}, p, rng.random(3000) < np.where(g == "c", 0.95, 0.5))
    assert next(alarm.group for alarm in monitor.alarms()) == "g = c"
    assert monitor.sizes(most=4)[0]["group"] == "g = c"
    every = {size["group"]: size for size in monitor.sizes()}
    for most in range(6):
        listed = monitor.sizes(most=most)
        assert len(listed) == min(most, 4)
        assert all(every[size["group"]] == size for size in listed)
    calm = Monitor(["g"]).add({"g": g}, p, rng.random(3000) < 0.5)
    assert [size["group"] for size in calm.sizes(most=3)] == ["all rows", "g = a", "g = b"]


def test_compose_mounts_files_and_volumes_that_exist() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    files = re.findall(r"\./([\w.]+):", text)
    assert len(files) == 3
    assert all((DEPLOY / name).is_file() for name in files)
    declared = set(re.findall(r"^  (\w+):$", text[text.index("\nvolumes:") :], re.MULTILINE))
    assert set(re.findall(r"[\"\s](\w+):/\w", text)) == declared
    credentials = re.search(r"credentials_file: (\S+)", (DEPLOY / "prometheus.yaml").read_text(encoding="utf-8"))
    assert credentials is not None
    assert f"> {credentials[1]}\n" in text
