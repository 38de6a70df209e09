"""What the chart renders: every scenario, against Kubernetes' own schemas and the promises that the documentation makes."""

from __future__ import annotations

import subprocess
import sys

import kubernetes_validate
import pytest
import yaml
from documents import ROOT, SCENARIOS, SERVICES, Refused, pick, pods, values_of

from spade_rl.config_files import validate_config

# The kinds that other projects define.
FOREIGN = {
    "SandboxTemplate",
    "SandboxWarmPool",
    "ScaledObject",
    "TriggerAuthentication",
    "Issuer",
    "Certificate",
    "PodMonitor",
    "PrometheusRule",
}


@pytest.fixture(scope="session")
def rendered(render):
    cache: dict = {}

    def of(scenario):
        if scenario not in cache:
            cache[scenario] = render(values_of(scenario))
        return cache[scenario]

    return of


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_kubernetes_knows_every_field(rendered, scenario, version):
    for document in rendered(scenario):
        if document["kind"] not in FOREIGN:
            kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_pod_is_restricted(rendered, scenario):
    found = pods(rendered(scenario))
    assert set(SERVICES) <= set(found)
    for name, pod in found.items():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostPID", "hostIPC", "hostNetwork"} & set(spec), name
        assert spec["automountServiceAccountToken"] is (name == "certificates"), name
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["limits"]["memory"], name
            assert "privileged" not in context
        for volume in spec.get("volumes", []):
            assert not {"hostPath"} & set(volume), name


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_configuration_is_one_that_spade_reads(rendered, scenario):
    documents = rendered(scenario)
    (text,) = pick(documents, "ConfigMap", "spade-config")["data"].values()
    config = validate_config(yaml.safe_load(text))
    assert config.tls.mode == "mutual"
    services = {one["metadata"]["name"]: one for one in documents if one["kind"] == "Service"}
    for service in SERVICES:
        host, _, port = str(getattr(config.endpoints, service)).removeprefix("dns:///").rpartition(":")
        name, namespace, _ = host.split(".")
        assert namespace == services[name]["metadata"]["namespace"] == "trial"
        assert services[name]["spec"]["clusterIP"] == "None"
        assert [one["port"] for one in services[name]["spec"]["ports"]] == [int(port)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_services_and_policies_select_the_pods_that_they_mean(rendered, scenario):
    documents = rendered(scenario)
    found = {name: pod["metadata"]["labels"] for name, pod in pods(documents).items()}
    for one in documents:
        if one["kind"] not in ("Service", "NetworkPolicy", "PodDisruptionBudget"):
            continue
        selector = one["spec"].get("selector") or one["spec"]["podSelector"]
        wanted = dict(selector.get("matchLabels", selector))
        wanted.pop("apps.kubernetes.io/pod-index", None)
        assert any(wanted.items() <= labels.items() for labels in found.values()), one["metadata"]["name"]


def test_only_the_sandbox_runs_under_gvisor_and_it_reaches_nobody(rendered):
    documents = rendered("cpu")
    classes = {name: pod["spec"].get("runtimeClassName") for name, pod in pods(documents).items()}
    assert {name for name, found in classes.items() if found} == {"sandbox"}
    assert classes["sandbox"] == "gvisor"
    policy = pick(documents, "NetworkPolicy", "spade-sandbox")["spec"]
    assert policy["egress"] == []
    (allowed,) = policy["ingress"]
    (peer,) = allowed["from"]
    assert peer["podSelector"]["matchExpressions"][0]["values"] == ["agent", "coordinator", "designer"]
    assert "volumes" not in pods(documents)["sandbox"] or not [
        volume for volume in pods(documents)["sandbox"]["spec"]["volumes"] if "persistentVolumeClaim" in volume
    ]


def test_a_workload_that_is_scaled_has_no_replicas(rendered):
    for scenario, there in (("cpu", True), ("hpa", False), ("keda", False)):
        assert ("replicas" in pick(rendered(scenario), "Deployment", "spade-sandbox")["spec"]) is there, scenario
    assert not [one for one in rendered("keda") if one["kind"] == "HorizontalPodAutoscaler"]
    assert not [one for one in rendered("hpa") if one["kind"] == "ScaledObject"]


def test_a_learner_of_several_pods_knows_its_place(rendered):
    (container,) = pods(rendered("learners"))["learner"]["spec"]["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["WORLD_SIZE"] == "2"
    assert environment["MASTER_ADDR"] == "spade-learner-0.spade-learner-peers.trial.svc"
    (rank,) = (one for one in container["env"] if one["name"] == "RANK")
    assert rank["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['apps.kubernetes.io/pod-index']"
    peers = pick(rendered("learners"), "Service", "spade-learner-peers")["spec"]
    assert peers["publishNotReadyAddresses"] is True
    assert (
        pick(rendered("learners"), "Service", "spade-learner")["spec"]["selector"]["apps.kubernetes.io/pod-index"]
        == "0"
    )


def test_gpus_become_limits_and_processes(rendered):
    found = pods(rendered("gpu"))
    assert found["agent"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    learner = found["learner"]["spec"]["containers"][0]
    assert learner["resources"]["limits"]["nvidia.com/gpu"] == 4
    assert "--nproc-per-node=4" in learner["command"]
    assert found["learner"]["spec"]["nodeSelector"] == {"pool": "training"}
    assert found["memory"]["spec"]["volumes"][-1]["secret"]["secretName"] == "archive"


def test_pods_share_a_node_where_the_volume_cannot_be_shared(rendered):
    shared = {name: "podAffinity" in (pod["spec"].get("affinity") or {}) for name, pod in pods(rendered("cpu")).items()}
    assert {name for name, found in shared.items() if found} == {
        "agent",
        "coordinator",
        "designer",
        "learner",
        "memory",
    }
    assert not any("affinity" in pod["spec"] for pod in pods(rendered("gpu")).values())


def test_rights_are_those_of_the_hook_alone(rendered):
    documents = rendered("cpu")
    assert not [one for one in documents if one["kind"].startswith("Cluster")]
    role = pick(documents, "Role", "spade-certificates")
    assert {(tuple(rule["resources"]), tuple(rule["verbs"])) for rule in role["rules"]} == {
        (("secrets",), ("create",)),
        (("secrets",), ("get", "patch")),
    }
    secrets = {one["metadata"]["name"] for one in documents if one["kind"] == "Secret"}
    (bounded,) = (rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule)
    assert set(bounded) == secrets


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicaCount": 2}, "replicaCount"),
        ({"sandbox": {"replica": 2}}, "replica"),
        ({"config": {"learner": {"learnin_rate": 1}}}, "learnin_rate"),
        ({"config": {"regret": {"plays": 0}}}, "plays"),
        ({"config": {"tls": {"mode": "off"}}}, "tls"),
        ({"autoscaling": {"mode": "both"}}, "mode"),
        ({"run": {"preset": "quick"}}, "preset"),
        ({"learner": {"replicas": 2}}, "needs config.learner.engine: deepspeed"),
        ({"run": {"name": "a b"}}, "cannot name a run"),
        ({"tls": {"mode": "secrets"}}, "tls.secrets"),
        ({"sandbox": {"backend": "agent-sandbox"}, "autoscaling": {"mode": "hpa"}}, "keeps its own pool"),
        ({"image": {"references": {"agents": "x"}}}, "agents"),
    ],
)
def test_wrong_values_are_refused_by_name(render, values, message):
    with pytest.raises(Refused, match=message):
        render(values)


@pytest.mark.parametrize(
    ("scenario", "message"), [("keda", "install KEDA first"), ("agent-sandbox", "install agent-sandbox first")]
)
def test_what_the_cluster_lacks_is_said(render, scenario, message):
    with pytest.raises(Refused, match=message):
        render(values_of(scenario), apis=())


def test_cert_manager_issues_what_the_hook_would(render):
    generated = render(values_of("cpu"))
    issued = render({**values_of("cpu"), "tls": {"mode": "certManager"}})
    assert not [one for one in issued if one["kind"] in ("Job", "Role", "Secret")]
    names = {one["spec"]["secretName"] for one in issued if one["kind"] == "Certificate"}
    assert names == {one["metadata"]["name"] for one in generated if one["kind"] == "Secret"}
    usages = {one["metadata"]["name"]: one["spec"].get("usages") for one in issued if one["kind"] == "Certificate"}
    assert usages["spade-sandbox"] == ["server auth"]
    assert usages["spade-agent"] == ["server auth", "client auth"]


def test_off_means_plain(render):
    documents = render({**values_of("cpu"), "tls": {"mode": "off"}})
    (text,) = pick(documents, "ConfigMap", "spade-config")["data"].values()
    assert validate_config(yaml.safe_load(text)).tls.mode == "off"
    assert not [one for one in documents if one["kind"] in ("Secret", "Job")]


def test_long_names_stay_names(render):
    for one in render(values_of("cpu"), name="a-release-with-quite-a-long-name-for-a-release"):
        assert len(one["metadata"]["name"]) <= 63


def test_the_schema_is_current():
    subprocess.run([sys.executable, str(ROOT / "scripts" / "chart_schema.py"), "--check"], check=True)
