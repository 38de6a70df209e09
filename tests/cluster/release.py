"""A release on a real cluster, as kubectl and Helm see it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "spade"
SELECTOR = "app.kubernetes.io/instance=spade"
# Kinds that a release may make, those that hooks leave among them.
KINDS = (
    "pods,services,deployments,statefulsets,jobs,configmaps,secrets,persistentvolumeclaims,serviceaccounts,"
    "networkpolicies,poddisruptionbudgets,roles,rolebindings,horizontalpodautoscalers"
)
Document = dict[str, Any]


class Failed(Exception):
    """A command failed; the message is what it wrote."""


def run(*command: str, stdin: str | None = None, seconds: float = 300) -> str:
    """Return a command's standard output; raise Failed with what it wrote."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(command[:6])} …: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def eventually(what: str, found: Callable[[], Any], seconds: float = 60) -> Any:
    """Return what ``found`` returns once it is true; raise AssertionError with its last answer after so many seconds."""
    deadline, last = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        try:
            last = found()
        except Failed as error:
            last = error
        else:
            if last:
                return last
        time.sleep(0.5)
    raise AssertionError(f"{what} did not come within {seconds:g} s; last: {last}")


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    """Return what a command wrote as JSON in its last line; AssertionError with all that it wrote if it failed."""
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


class Release:
    """The release ``spade`` in a namespace of its own."""

    def __init__(self, helm: Path, namespace: str, overrides: Document) -> None:
        self._helm, self.namespace, self.overrides = str(helm), namespace, overrides

    def kubectl(self, *arguments: str, stdin: str | None = None, seconds: float = 120) -> str:
        """Run kubectl in the release's namespace."""
        return run("kubectl", "-n", self.namespace, *arguments, stdin=stdin, seconds=seconds)

    def get(self, kinds: str, selector: str = SELECTOR) -> list[Document]:
        """Return the release's objects of some kinds."""
        return list(json.loads(self.kubectl("get", kinds, "-l", selector, "-o", "json"))["items"])

    def secret(self, name: str) -> dict[str, str]:
        """Return what a secret holds, in base64."""
        return dict(json.loads(self.kubectl("get", "secret", name, "-o", "json"))["data"])

    def helm(self, *arguments: str, seconds: float = 400) -> str:
        """Run helm in the release's namespace."""
        return run(self._helm, "-n", self.namespace, *arguments, seconds=seconds)

    def apply(self, scenario: str, values: Document | None = None, *, wait: bool = True) -> str:
        """Install or upgrade to a scenario of ci/ with more values on top."""
        layers = [f"--values={CHART}/ci/{scenario}-values.yaml"]
        for layer in (self.overrides, values):
            if layer:
                file = Path("/tmp") / f"values-{self.namespace}-{len(layers)}.yaml"
                file.write_text(yaml.safe_dump(layer))
                layers.append(f"--values={file}")
        return self.helm(
            "upgrade", "--install", "spade", str(CHART), *layers, *(["--wait", "--timeout=5m"] if wait else [])
        )

    def uninstall(self) -> None:
        """Remove the release, if it is there."""
        self.helm("uninstall", "spade", "--ignore-not-found", "--wait", "--timeout=3m")

    def leftovers(self) -> list[str]:
        """Return what is in the namespace and no namespace has by itself."""
        names = self.kubectl("get", KINDS, "-o", "name").split()
        own = {"configmap/kube-root-ca.crt", "serviceaccount/default"}
        return sorted(set(names) - own)

    def events(self) -> list[Document]:
        """Return the run's events as far as they are written."""
        code = "import sys,pathlib; p=pathlib.Path(sys.argv[1]); print(p.read_text() if p.exists() else '')"
        path = "/srv/spade/runs/spade/runs/spade/events.jsonl"
        text = self.kubectl("exec", "statefulset/spade-coordinator", "--", "/opt/spade/bin/python", "-c", code, path)
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def python(self, workload: str, code: str, *arguments: str, seconds: float = 60) -> str:
        """Run Python in a pod of the release; returns what it printed."""
        return self.kubectl("exec", workload, "--", "/opt/spade/bin/python", "-c", code, *arguments, seconds=seconds)
