"""What a chart's values ask of a cluster: the part that the preflight compares with what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from spade_rl.config_files import merged
from spade_rl.errors import ConfigurationError

SERVICES = ("sandbox", "memory", "regret", "designer", "agent", "learner", "coordinator")
MONITORS = ("podMonitor", "serviceMonitor", "prometheusRule", "prometheusRules")


@dataclass(frozen=True, slots=True)
class GpuWish:
    """Pods of one service, each with ``gpus`` devices of a kind, on nodes with these labels."""

    service: str
    pods: int
    gpus: int
    resource: str
    node_selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the values ask for; a storage class of "" is the cluster's default."""

    runtime_class: str = "gvisor"
    creates_runtime_class: bool = False
    images: tuple[str, ...] = ()
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    storage_class: str = ""
    existing_claim: str = ""
    access_mode: str = "ReadWriteMany"
    gpus: tuple[GpuWish, ...] = ()
    keda: bool = False
    hpa: bool = False
    prometheus: bool = False
    cert_manager: bool = False
    agent_sandbox: bool = False
    generated_certificates: bool = True
    policies: bool = True


def read_values(files: Iterable[Path], version: str, images: Sequence[str] = ()) -> Wishes:
    """Return what values files ask for, each over the one before; ``version`` is the tag of images without one.

    ``images`` take the place of the release's own.

    Raises ConfigurationError if one cannot be read.
    """
    values: dict[str, Any] = {}
    for file in files:
        try:
            data = yaml.safe_load(file.read_text()) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ConfigurationError(f"cannot read the values {file}: {error}") from error
        if not isinstance(data, dict):
            raise ConfigurationError(f"{file} holds no values of the chart, but {type(data).__name__}")
        values = merged(values, data)
    found = wishes(values, version)
    return replace(found, images=tuple(images)) if images else found


def wishes(values: Mapping[str, Any], version: str) -> Wishes:
    """Return what the chart's values, over its defaults, ask for."""
    storage, image = _section(values, "storage"), _section(values, "image")
    scaling = _section(values, "autoscaling").get("mode", "none")
    tls = _section(values, "tls").get("mode", "generated")
    runtime = _section(values, "runtimeClass")
    return Wishes(
        runtime_class=str(runtime.get("name", "gvisor")),
        creates_runtime_class=bool(runtime.get("create", False)),
        images=_images(image, version),
        pull_policy=str(image.get("pullPolicy", "IfNotPresent")),
        pull_secrets=tuple(map(str, image.get("pullSecrets") or ())),
        storage_class=str(storage.get("className") or ""),
        existing_claim=str(storage.get("existingClaim") or ""),
        access_mode=str(storage.get("accessMode", "ReadWriteMany")),
        gpus=tuple(wish for wish in (_gpus(values, name) for name in ("agent", "designer", "learner")) if wish.gpus),
        keda=scaling == "keda",
        hpa=scaling == "hpa",
        prometheus=_monitored(values),
        cert_manager=tls == "certManager",
        agent_sandbox=_section(values, "sandbox").get("backend") == "agent-sandbox",
        generated_certificates=tls == "generated",
        policies=bool(_section(values, "networkPolicies").get("enabled", True)),
    )


def _section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}


def _images(image: Mapping[str, Any], version: str) -> tuple[str, ...]:
    digests = _section(image, "digests")
    base, tag = image.get("base", "localhost/spade"), image.get("tag") or version
    return tuple(f"{base}-{name}:{tag}" + (f"@{digests[name]}" if digests.get(name) else "") for name in SERVICES)


def _gpus(values: Mapping[str, Any], service: str) -> GpuWish:
    own, defaults = _section(values, service), _section(values, "defaults")
    selector = {**_section(defaults, "nodeSelector"), **_section(own, "nodeSelector")}
    return GpuWish(
        service,
        pods=int(own.get("replicas", 1)),
        gpus=int(own.get("gpus") or 0),
        resource=str(own.get("gpuResource", "nvidia.com/gpu")),
        node_selector={str(key): str(value) for key, value in selector.items()},
    )


def _monitored(value: Any) -> bool:
    """Whether a monitor or rule of the Prometheus operator is turned on anywhere."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            on = inner is True or (isinstance(inner, Mapping) and inner.get("enabled") is True)
            if (key in MONITORS and on) or _monitored(inner):
                return True
    elif isinstance(value, Sequence) and not isinstance(value, str):
        return any(map(_monitored, value))
    return False
