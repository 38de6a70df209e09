"""The dashboards: what the code says, Grafana's conventions, and only metrics that exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from queries import FILES, RULES, expressions, panels, selectors

from metrics_reference import metrics

ROOT = Path(__file__).parents[2]
OTHERS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


def series() -> dict[str, set[str]]:
    """Return the series that a scrape of all services shows, with their labels."""
    found = {}
    for name, metric in metrics().items():
        for suffix in SUFFIXES[metric._type]:
            found[name + suffix] = {*metric._labelnames, *(["le"] if suffix == "_bucket" else [])}
    return found


def test_there_are_five():
    assert [path.stem for path in FILES] == ["cost", "curriculum", "engines", "overview", "sandbox"]


def test_the_files_are_what_the_code_says():
    command = [sys.executable, ROOT / "scripts" / "dashboards.py", "--check"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_query_names_metrics_and_labels_that_exist(path):
    known = series()
    for expression in expressions(path):
        named = selectors(expression)
        assert named, expression
        for metric, labels in named:
            assert metric in known or metric in OTHERS, f"{metric} in {expression}"
            selecting = set(re.findall(r"(\w+)\s*[=!]", labels)) - {"namespace", "release", "component"}
            assert selecting <= known.get(metric, set()), expression


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_query_follows_the_variables(path):
    for panel in panels(path):
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["description"]
        for target in panel["targets"]:
            for metric, labels in selectors(target["expr"]):
                assert 'namespace=~"x"' in labels, f"{metric} in {target['expr']}"
                assert 'release=~"x"' in labels, f"{metric} in {target['expr']}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dashboard_can_be_imported_anywhere(path):
    text = path.read_text()
    dashboard = json.loads(text)
    assert "DS_PROMETHEUS" not in text
    assert dashboard["uid"] == f"spade-{path.stem}"
    assert [one["type"] for one in dashboard["templating"]["list"]][:3] == ["datasource", "query", "query"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    # A ConfigMap holds a mebibyte.
    assert len(text) < 500_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_panels_do_not_overlap(path):
    taken = set()
    for panel in json.loads(path.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_rules_name_metrics_that_exist():
    known = series()
    groups = yaml.safe_load(RULES.read_text())["groups"]
    recorded = {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    for group in groups:
        for rule in group["rules"]:
            assert {metric for metric, _ in selectors(rule["expr"])} <= known.keys(), rule
            assert set(re.findall(r"spade:[\w:]+", rule["expr"])) <= recorded, rule
