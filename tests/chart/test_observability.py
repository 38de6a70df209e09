"""What the chart makes for those who watch a release: off unless asked for, and then what the files say."""

from __future__ import annotations

import json

import pytest
import yaml
from documents import ROOT, Refused, pick, pods

RULES = ROOT / "charts" / "spade" / "rules" / "spade.yaml"
DASHBOARDS = sorted((ROOT / "charts" / "spade" / "dashboards").glob("*.json"))
OPERATOR = "monitoring.coreos.com/v1"


def watching(**more):
    return {"observability": {name: {"enabled": True, **options} for name, options in more.items()}}


def test_nothing_of_it_is_made_unless_asked_for(render):
    documents = render()
    assert not {one["kind"] for one in documents} & {"PodMonitor", "PrometheusRule"}
    assert not [one for one in documents if "grafana_dashboard" in one["metadata"].get("labels", {})]


def test_the_monitor_names_release_and_service_as_the_rules_expect(render):
    monitor = pick(render(watching(podMonitor={"labels": {"team": "ml"}})), "PodMonitor", "spade")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] == "metrics"
    assert {one["targetLabel"] for one in endpoint["relabelings"]} == {"release", "component"}
    assert monitor["metadata"]["labels"]["team"] == "ml"


def test_every_pod_is_selected_and_has_the_port(render):
    documents = render(watching(podMonitor={}))
    wanted = pick(documents, "PodMonitor", "spade")["spec"]["selector"]["matchLabels"].items()
    # The release's test and its certificates' job serve nothing.
    serving = {name: pod for name, pod in pods(documents).items() if pod["spec"]["containers"][0].get("ports")}
    assert len(serving) == 7
    for pod in serving.values():
        assert wanted <= pod["metadata"]["labels"].items()
        assert "metrics" in {port["name"] for port in pod["spec"]["containers"][0]["ports"]}


def test_the_rules_arrive_unchanged(render):
    rule = pick(render(watching(rules={})), "PrometheusRule", "spade")
    assert rule["spec"] == yaml.safe_load(RULES.read_text())


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_the_dashboards_arrive_unchanged(render, path):
    documents = render(watching(dashboards={"folder": "Training"}))
    found = pick(documents, "ConfigMap", f"spade-dashboard-{path.stem}")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"]["grafana_folder"] == "Training"
    assert json.loads(found["data"][f"spade-{path.name}"]) == json.loads(path.read_text())


@pytest.mark.parametrize("what", ["podMonitor", "rules"])
def test_a_cluster_without_the_operator_is_told_so(render, what):
    with pytest.raises(Refused, match=rf"observability.{what} is enabled, but this cluster has no {OPERATOR}"):
        render(watching(**{what: {}}), apis=())


def test_traces_go_where_they_are_told_from_all_but_the_sandbox(render):
    documents = render({"observability": {"traces": {"endpoint": "http://collector:4317"}}})
    told = {
        name
        for name, pod in pods(documents).items()
        for variable in pod["spec"]["containers"][0].get("env", [])
        if variable == {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4317"}
    }
    assert told == {"agent", "coordinator", "designer", "learner", "memory", "regret"}
