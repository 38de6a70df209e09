"""Would a release run on this cluster? ``checks`` is a pure function of what was read and probed.

Each finding says what to do.
"""

from __future__ import annotations

from spade_rl.cluster.kube import connect
from spade_rl.cluster.probe import Probe, manifest, probe_name, run_probe
from spade_rl.cluster.survey import Node, Survey, read_cluster
from spade_rl.cluster.target import Release
from spade_rl.cluster.values import GpuWish, Wishes
from spade_rl.health import Check, Health

LEAST_VERSION = (1, 30)
KEDA, PROMETHEUS, CERT_MANAGER = "keda.sh/v1alpha1", "monitoring.coreos.com/v1", "cert-manager.io/v1"
AGENT_SANDBOX, METRICS = "extensions.agents.x-k8s.io/v1beta1", "metrics.k8s.io/v1beta1"


def examine(target: Release, wishes: Wishes, *, probing: bool) -> list[Check]:
    """Read a cluster, start a probe pod if that is wanted and can tell anything, and return every finding.

    Raises SpadeError if the cluster does not answer or does not know the caller.
    """
    connection = connect(target)
    seen = read_cluster(connection, wishes)
    known = seen.runtime_classes is None or wishes.runtime_class in seen.runtime_classes
    may = not any(
        right.resource == "pods" and right.verb == "create" and not right.subresource for right in seen.denied
    )
    if not (probing and known and may and seen.namespace_exists is not False):
        return checks(seen, wishes, None)
    body = manifest(
        probe_name(),
        wishes.images,
        runtime_class=wishes.runtime_class,
        pull_policy=wishes.pull_policy,
        pull_secrets=wishes.pull_secrets,
    )
    return checks(seen, wishes, run_probe(connection, body))


def checks(survey: Survey, wishes: Wishes, probe: Probe | None) -> list[Check]:
    """Return every finding in the order in which to mend them; without a probe, what it would tell is left out."""
    return [
        _version(survey),
        _namespace(survey),
        *_rights(survey),
        _runtime_class(survey, wishes),
        *([] if probe is None else [_gvisor(probe, wishes), *_images(probe, wishes)]),
        *(Check(f"secret {name}", Health.BAD, "not there", f"create the pull secret {name} in the namespace {survey.namespace}") for name in survey.missing_secrets),
        _storage(survey, wishes),
        *(_gpus(survey, wishes) if wishes.gpus else []),
        *_apis(survey, wishes),
        _release(survey),
    ]  # fmt: skip


def _version(survey: Survey) -> Check:
    found = ".".join(map(str, survey.version))
    if survey.version < LEAST_VERSION:
        return Check("Kubernetes", Health.BAD, found, f"the chart needs {'.'.join(map(str, LEAST_VERSION))} or newer")
    return Check("Kubernetes", Health.GOOD, f"{found}, context {survey.context}")


def _namespace(survey: Survey) -> Check:
    if survey.namespace_exists is None:
        return Check("namespace", Health.GOOD, f"{survey.namespace} (you may not look whether it exists)")
    if not survey.namespace_exists:
        advice = f"`kubectl create namespace {survey.namespace}`, or `helm install --create-namespace`"
        return Check("namespace", Health.BAD, f"{survey.namespace} does not exist", advice)
    return Check("namespace", Health.GOOD, survey.namespace)


def _rights(survey: Survey) -> list[Check]:
    """One finding for each purpose that lacks a right."""
    if not survey.denied:
        return [Check("rights", Health.GOOD, "all that the commands and `helm install` need")]
    found = []
    for why in dict.fromkeys(right.why for right in survey.denied):
        missing = ", ".join(str(right) for right in survey.denied if right.why == why)
        advice = f"ask whoever runs the cluster for a role in the namespace {survey.namespace} that allows: {missing}"
        found.append(Check(f"rights: {why}", Health.BAD, f"you may not {missing}", advice))
    return found


def _runtime_class(survey: Survey, wishes: Wishes) -> Check:
    name, known = wishes.runtime_class, survey.runtime_classes
    if known is None:
        return Check("RuntimeClass", Health.WARNING, f"you may not list runtimeclasses; {name} is asked for", "")
    if name in known:
        return Check("RuntimeClass", Health.GOOD, f"{name}, handler {known[name]}")
    if wishes.creates_runtime_class:
        advice = "install the release, then look again: only then can a pod be tried"
        return Check("RuntimeClass", Health.WARNING, f"{name} is not there; the chart will create it", advice)
    others = f"there are {', '.join(sorted(known))}" if known else "there is none"
    return Check(
        "RuntimeClass",
        Health.BAD,
        f"{name} is not there; {others}",
        "install gVisor on the nodes (gvisor.dev: containerd), then set runtimeClass.create to true, or runtimeClass.name to "
        "the one that you have",
    )


def _gvisor(probe: Probe, wishes: Wishes) -> Check:
    name = "gVisor"
    if probe.refused:
        return Check(
            name, Health.BAD, f"the probe pod was refused: {probe.refused}", _refusal_advice(probe.refused, wishes)
        )
    if probe.under_gvisor:
        return Check(name, Health.GOOD, f"a pod ran under it on {probe.node or 'a node'}")
    if probe.kernel:
        return Check(
            name,
            Health.BAD,
            f"a pod of the RuntimeClass {wishes.runtime_class} saw another kernel: {probe.kernel.splitlines()[0][:160]}",
            "the class does not lead to gVisor: its handler must be runsc's in the node's containerd configuration. Until then "
            "generated code would run beside everything else on the node",
        )
    if probe.problems:
        return Check(
            name, Health.WARNING, "not known: the probe's image did not start", "mend the image first, then look again"
        )
    advice = "look at the node's containerd log; its configuration needs a runtime with the class's handler"
    return Check(name, Health.BAD, f"the probe pod did not run: {probe.trouble or 'it said nothing'}", advice)


def _refusal_advice(refusal: str, wishes: Wishes) -> str:
    if "PodSecurity" in refusal:
        return (
            "the namespace's Pod Security level refuses a pod that keeps to `restricted`: look at what else checks pods"
        )
    if "RuntimeClass" in refusal or "runtimeClass" in refusal:
        return f"create the RuntimeClass {wishes.runtime_class}, or set runtimeClass.name"
    return "the message says which rule of the cluster refuses it"


def _images(probe: Probe, wishes: Wishes) -> list[Check]:
    if probe.refused or (probe.trouble and not probe.problems):
        return []
    if not probe.problems:
        return [Check("images", Health.GOOD, f"{len(wishes.images)} can be had")]
    found = []
    for image, problem in probe.problems:
        if "never" in problem.lower() and "pull" in problem.lower():
            advice = "the image is on no node and pulling is forbidden: load it, or set image.pullPolicy"
        elif "Pull" in problem or "Image" in problem:
            advice = "set image.base and image.tag to where your images are, image.pullSecrets for a private registry; `make images` builds them"
        else:
            advice = "the image does not start: is it one of Spade's, and of this version?"
        found.append(Check(f"image {image}", Health.BAD, problem[:300], advice))
    return found


def _storage(survey: Survey, wishes: Wishes) -> Check:
    name = "storage"
    if wishes.existing_claim:
        if survey.claim_exists is False:
            advice = f"create it in the namespace {survey.namespace}, or leave storage.existingClaim empty"
            return Check(name, Health.BAD, f"there is no claim {wishes.existing_claim}", advice)
        return Check(name, Health.GOOD, f"the claim {wishes.existing_claim}")
    if survey.storage_classes is None:
        return Check(name, Health.WARNING, "you may not list storageclasses")
    wanted = wishes.storage_class
    if wanted and wanted not in survey.storage_classes:
        others = ", ".join(sorted(survey.storage_classes)) or "none"
        return Check(
            name,
            Health.BAD,
            f"there is no storage class {wanted}; there is {others}",
            "set storage.className to one of them",
        )
    default = [one for one, chosen in survey.storage_classes.items() if chosen]
    if not wanted and not default:
        others = ", ".join(sorted(survey.storage_classes)) or "none at all"
        advice = "set storage.className, or storage.existingClaim to a volume that you made"
        return Check(name, Health.BAD, f"the cluster has no default storage class (there is {others})", advice)
    shared = ""
    if wishes.access_mode == "ReadWriteMany":
        shared = "it must be able to give ReadWriteMany volumes; if it cannot, set storage.accessMode to ReadWriteOnce, which keeps all on one node"
    return Check(name, Health.GOOD, f"storage class {wanted or default[0]}, {wishes.access_mode}", shared)


def _gpus(survey: Survey, wishes: Wishes) -> list[Check]:
    if survey.nodes is None:
        return [
            Check(
                "GPUs",
                Health.WARNING,
                "you may not list nodes",
                "ask whoever runs the cluster whether the GPUs are there",
            )
        ]
    free = {
        (node.name, resource): amount - (survey.used or {}).get((node.name, resource), 0)
        for node in survey.nodes
        if node.schedulable
        for resource, amount in node.allocatable.items()
    }
    note = "" if survey.used is not None else " (what other pods hold is not known)"
    found = []
    # The largest first, as a scheduler that wants to place all of them would.
    for wish in sorted(wishes.gpus, key=lambda one: -one.gpus):
        placed = _place(wish, survey.nodes, free)
        what = f"{wish.pods} × {wish.gpus} {wish.resource}"
        if placed == wish.pods:
            found.append(Check(f"GPUs: {wish.service}", Health.GOOD, f"{what} fit{note}"))
            continue
        matching = [node for node in survey.nodes if _matches(node, wish)]
        total = sum(node.allocatable.get(wish.resource, 0) for node in matching)
        largest = max((node.allocatable.get(wish.resource, 0) for node in matching), default=0)
        selected = f" with the labels {dict(wish.node_selector)}" if wish.node_selector else ""
        advice = (
            f"add nodes with {wish.resource}{selected} (is the device plugin installed?), or set {wish.service}.gpus, "
            f"{wish.service}.replicas and nodeSelector to what there is; a pool that scales up from none shows nothing here"
        )
        found.append(
            Check(
                f"GPUs: {wish.service}",
                Health.BAD,
                f"{what} asked for, {placed} pods fit: {len(matching)} nodes{selected} have {total}, at most {largest} each{note}",
                advice,
            )
        )
    return found


def _place(wish: GpuWish, nodes: tuple[Node, ...], free: dict[tuple[str, str], int]) -> int:
    """Take places for the pods of a wish; returns how many fit."""
    placed = 0
    for node in (node for node in nodes if _matches(node, wish)):
        while placed < wish.pods and free.get((node.name, wish.resource), 0) >= wish.gpus:
            free[node.name, wish.resource] -= wish.gpus
            placed += 1
    return placed


def _matches(node: Node, wish: GpuWish) -> bool:
    return node.schedulable and all(node.labels.get(key) == value for key, value in wish.node_selector.items())


def _apis(survey: Survey, wishes: Wishes) -> list[Check]:
    """What is asked for must be there; what is not asked for is not spoken of."""
    wanted = [
        (wishes.keda, "KEDA", KEDA, "install KEDA, or set autoscaling.mode to none or hpa"),
        (wishes.hpa, "metrics server", METRICS, "install metrics-server, or set autoscaling.mode to none or keda"),
        (wishes.prometheus, "Prometheus operator", PROMETHEUS, "install the Prometheus operator, or turn the monitors and rules off"),
        (wishes.cert_manager, "cert-manager", CERT_MANAGER, "install cert-manager, or set tls.mode to generated"),
        (wishes.agent_sandbox, "agent-sandbox", AGENT_SANDBOX, "install agent-sandbox, or set sandbox.backend to deployment"),
    ]  # fmt: skip
    return [
        Check(name, Health.GOOD, group)
        if group in survey.groups
        else Check(name, Health.BAD, f"the cluster has no {group}", advice)
        for asked, name, group, advice in wanted
        if asked
    ]


def _release(survey: Survey) -> Check:
    if survey.installed:
        return Check(
            "release", Health.GOOD, f"{survey.release} has {survey.installed} pods; `status` asks its coordinator"
        )
    return Check("release", Health.GOOD, f"{survey.release} is not installed yet")


def ready(found: list[Check]) -> bool:
    """Whether nothing keeps a release from running."""
    return all(check.health is not Health.BAD for check in found)
