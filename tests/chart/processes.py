"""A release without a cluster: the services as processes, with what the chart renders for their pods.

Arguments, environment and configuration are taken as they stand. What Kubernetes does around them is done by a mount
namespace of each process: the files of its volumes lie where the pod would find them, and the names of the Services
resolve to this machine.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spade_rl.certificates import issue, make_authority

ROOT = Path(__file__).parents[2]
Document = dict[str, Any]


def entrypoint(service: str) -> list[str]:
    """Return what the service's image starts, with this interpreter for the image's."""
    text = (ROOT / "services" / service / "Dockerfile").read_text()
    found = re.search(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    assert found, f"the image of {service} has no entry point"
    command: list[str] = json.loads(found[1])
    assert command[0] == "/opt/spade/bin/python"
    return [sys.executable, *command[1:]]


class Release:
    """The processes of a rendered release. ``start`` and ``kill`` them by service; ``close`` ends them all."""

    def __init__(self, documents: list[Document], folder: Path) -> None:
        self.folder = folder
        self._documents = documents
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.pods = {
            one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"]
            for one in documents
            if one["kind"] in ("Deployment", "StatefulSet")
        }
        self._write_files()

    def _named(self, kind: str) -> dict[str, Document]:
        return {one["metadata"]["name"]: one for one in self._documents if one["kind"] == kind}

    def _write_files(self) -> None:
        """Make what the pods' volumes hold."""
        for name, config in self._named("ConfigMap").items():
            (self.folder / "config" / name).mkdir(parents=True)
            for key, text in config["data"].items():
                (self.folder / "config" / name / key).write_text(text)
        for name in self._named("PersistentVolumeClaim"):
            (self.folder / "claim" / name).mkdir(parents=True)
        job = next(one for one in self._documents if one["kind"] == "Job")
        (argument,) = (
            one for one in job["spec"]["template"]["spec"]["containers"][0]["args"] if one.startswith("--plan=")
        )
        authority = make_authority("spade", days=2)
        for wanted in json.loads(argument.removeprefix("--plan=")):
            pair = issue(authority, name=wanted["name"], hosts=wanted["hosts"], client=wanted["client"], days=1)
            secret = self.folder / "secret" / wanted["secret"]
            secret.mkdir(parents=True)
            (secret / "tls.crt").write_bytes(pair.certificate)
            (secret / "tls.key").write_bytes(pair.key)
            (secret / "ca.crt").write_bytes(authority.certificate)
        hosts = Path("/etc/hosts").read_text()
        for name, service in self._named("Service").items():
            hosts += f"127.0.0.1 {name}.{service['metadata']['namespace']}.svc\n"
        (self.folder / "hosts").write_text(hosts)

    def _source(self, volume: Document) -> Path | None:
        if "configMap" in volume:
            return self.folder / "config" / volume["configMap"]["name"]
        if "secret" in volume:
            return self.folder / "secret" / volume["secret"]["secretName"]
        if "persistentVolumeClaim" in volume:
            return self.folder / "claim" / volume["persistentVolumeClaim"]["claimName"]
        return None

    def command(self, service: str) -> tuple[list[str], dict[str, str]]:
        """Return the command that a service's container runs, and the environment that the chart gives it."""
        (container,) = self.pods[service]["spec"]["containers"]
        environment = {one["name"]: one["value"] for one in container.get("env", [])}
        return [*container.get("command", entrypoint(service)), *container["args"]], environment

    def start(self, service: str) -> None:
        """Start a service as its pod would."""
        spec = self.pods[service]["spec"]
        sources = {volume["name"]: self._source(volume) for volume in spec["volumes"]}
        lines = ["mount -t tmpfs none /srv", f"mount --bind {self.folder}/hosts /etc/hosts"]
        for mount in spec["containers"][0]["volumeMounts"]:
            source, path = sources[mount["name"]], mount["mountPath"]
            if source is not None:
                lines += [f"mkdir -p {path}", f"mount --bind {shlex.quote(str(source))} {path}"]
        command, environment = self.command(service)
        lines.append('exec "$@"')
        with (self.folder / f"{service}.log").open("ab") as log:
            self._processes[service] = subprocess.Popen(
                [
                    "unshare",
                    "--mount",
                    "sh",
                    "-ec",
                    "\n".join(lines),
                    "sh",
                    "env",
                    *(f"{k}={v}" for k, v in environment.items()),
                    *command,
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def running(self, service: str) -> bool:
        """Return whether a service's process lives."""
        return self._processes[service].poll() is None

    def kill(self, service: str) -> None:
        """End a service without warning, as the end of a node would."""
        self._processes[service].kill()
        self._processes[service].wait(30)

    def log(self, service: str) -> str:
        """Return what a service has written so far."""
        return (self.folder / f"{service}.log").read_text(errors="replace")

    def close(self) -> None:
        """End every process."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(15)


@contextmanager
def released(documents: list[Document], folder: Path) -> Iterator[Release]:
    """Start every service of a rendered release, in the order in which they were rendered; end them all at the end."""
    release = Release(documents, folder)
    try:
        for service in release.pods:
            release.start(service)
        yield release
    finally:
        release.close()
