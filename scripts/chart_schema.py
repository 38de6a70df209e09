"""Write charts/spade/values.schema.json: what the chart takes, with the run's configuration as the code checks it.

python scripts/chart_schema.py            write it
python scripts/chart_schema.py --check    exit 1 if it does not say what the code does
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from generated import settle

from spade_rl.config import RunConfig
from spade_rl.config_files import presets

FILE = Path(__file__).resolve().parents[1] / "charts" / "spade" / "values.schema.json"
SERVICES = ("agent", "coordinator", "designer", "learner", "memory", "regret", "sandbox")
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
OBJECT: Schema = {"type": "object"}
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
QUANTITY: Schema = {"type": ["string", "number"], "pattern": r"^[0-9.]+(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"}


def whole(least: int, most: int | None = None) -> Schema:
    """Return the schema of a whole number."""
    return {"type": "integer", "minimum": least, **({} if most is None else {"maximum": most})}


def choice(*values: str) -> Schema:
    """Return the schema of one of some words."""
    return {"enum": list(values)}


def section(**properties: Schema) -> Schema:
    """Return the schema of an object that has these keys and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


PROBE = section(
    initialDelaySeconds=whole(0),
    periodSeconds=whole(1),
    timeoutSeconds=whole(1),
    failureThreshold=whole(1),
    successThreshold=whole(1),
)
POD = {
    "podLabels": TEXTS,
    "podAnnotations": TEXTS,
    "nodeSelector": TEXTS,
    "tolerations": OBJECTS,
    "affinity": OBJECT,
    "topologySpreadConstraints": OBJECTS,
    "priorityClassName": TEXT,
    "runtimeClassName": TEXT,
    "terminationGracePeriodSeconds": whole(0),
    "extraEnv": OBJECTS,
    "extraVolumes": OBJECTS,
    "extraVolumeMounts": OBJECTS,
    "probes": section(startup=PROBE, readiness=PROBE, liveness=PROBE),
}
RESOURCES = section(
    requests={"type": "object", "additionalProperties": QUANTITY},
    limits={"type": "object", "additionalProperties": QUANTITY},
)
GPUS = {"gpus": whole(0), "gpuResource": TEXT}


def service(**more: Schema) -> Schema:
    """Return the schema of a service's section."""
    return section(**POD, resources=RESOURCES, **more)


def configuration() -> tuple[Schema, dict[str, Schema]]:
    """Return the schema of ``config`` and the definitions that it refers to."""
    schema = RunConfig.model_json_schema(ref_template="#/$defs/{model}")
    definitions = schema.pop("$defs")
    for own in ("endpoints", "tls"):
        schema["properties"].pop(own)
    for one in (*definitions.values(), schema):
        # Docstrings of code are no help to who writes values; defaults are the code's to say.
        one.pop("description", None)
    for name in ("Endpoints", "TlsSection"):
        definitions.pop(name, None)
    return schema, definitions


def values_schema() -> Schema:
    """Return the schema of the chart's values."""
    config, definitions = configuration()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the chart spade",
        "type": "object",
        "additionalProperties": False,
        "$defs": definitions,
        "properties": {
            "global": OBJECT,
            "nameOverride": TEXT,
            "fullnameOverride": TEXT,
            "image": section(
                base=TEXT,
                tag=TEXT,
                references=section(**dict.fromkeys(SERVICES, TEXT)),
                pullPolicy=choice("Always", "IfNotPresent", "Never"),
                pullSecrets={"type": "array", "items": TEXT},
            ),
            "run": section(name=TEXT, preset=choice("", *sorted(presets()))),
            "config": config,
            "logLevel": choice("DEBUG", "INFO", "WARNING", "ERROR"),
            "storage": section(
                existingClaim=TEXT,
                className=TEXT,
                accessMode=choice("ReadWriteMany", "ReadWriteOnce"),
                size=QUANTITY,
                keep=FLAG,
            ),
            "tls": section(mode=choice("generated", "certManager", "secrets", "off"), issuer=OBJECT, secrets=TEXTS),
            "networkPolicies": section(
                enabled=FLAG, coordinatorFrom=OBJECTS, metricsFrom=OBJECTS, egress=OBJECTS, dns=section(to=OBJECTS)
            ),
            "runtimeClass": section(name=TEXT, create=FLAG, handler=TEXT),
            "autoscaling": section(
                mode=choice("none", "hpa", "keda"),
                sandbox=section(
                    minReplicas=whole(0),
                    maxReplicas=whole(1),
                    targetCPUUtilization=whole(1, 100),
                    scaleDownSeconds=whole(0, 3600),
                    workersPerPod={**whole(1), "type": ["integer", "null"]},
                ),
                keda=section(namespace=TEXT),
            ),
            "observability": section(
                podMonitor=section(
                    enabled=FLAG, interval={"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}, labels=TEXTS
                ),
                rules=section(enabled=FLAG, labels=TEXTS),
                dashboards=section(enabled=FLAG, labels=TEXTS, folder=TEXT),
                traces=section(endpoint={"type": "string", "pattern": "^(https?://.+)?$"}),
            ),
            "podDisruptionBudgets": FLAG,
            "serviceAccounts": section(annotations=TEXTS),
            "defaults": section(**POD),
            "coordinator": service(),
            "memory": service(urlSecret=section(name=TEXT, key=TEXT)),
            "regret": service(replicas=whole(1)),
            "designer": service(replicas=whole(1)),
            "agent": service(**GPUS),
            "sandbox": service(replicas=whole(0), backend=choice("deployment", "agent-sandbox")),
            "learner": service(replicas=whole(1), processesPerPod=whole(1), **GPUS),
        },
    }


if __name__ == "__main__":
    sys.exit(settle({FILE: json.dumps(values_schema(), indent=1) + "\n"}))
