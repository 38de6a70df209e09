"""Every service as a process of its own with a short run in progress, and a real Prometheus that scrapes them.

As a program it runs for a while and then tells where Prometheus answers, for the pictures of the dashboards:

    python tests/observability/live.py MINUTES COMMAND...      {} in COMMAND is Prometheus' address
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts" / "spade" / "rules" / "spade.yaml"
SERVICES = ("memory", "sandbox", "learner", "agent", "regret", "designer", "coordinator")
SMALL = {
    "run": {"cycles": 100000, "minutes": None},
    "designer": {"environments": 5, "positive_seeds": 1, "negative_seeds": 1},
    "regret": {"plays": 2, "window": 1},
    "evaluation": {"suite": "none"},
    "learner": {"steps": 1},
    "sandbox": {"replay_share": 0.5, "max_sandboxes": 8},
}


def program(name: str) -> str:
    """Return where Prometheus or promtool is: beside this Python, or on the PATH."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert found, f"{name} is missing: `make dev` fetches it"
    return found


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses right now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


class Prometheus:
    """The HTTP API of a Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def _get(self, path: str, **parameters: object) -> dict:
        try:
            with urlopen(f"{self.url}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as response:
                return json.load(response)["data"]
        except HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()[:1000]}") from error

    def ready(self) -> bool:
        """Return whether it answers."""
        try:
            with urlopen(f"{self.url}/-/ready", timeout=5):
                return True
        except (URLError, ConnectionError):
            return False

    def values(self, expression: str) -> list[float]:
        """Return the values of an expression now."""
        return [float(one["value"][1]) for one in self._get("query", query=expression)["result"]]

    def answered(self, expression: str) -> bool:
        """Return whether an expression has values now, all of them numbers."""
        values = self.values(expression)
        return bool(values) and not any(math.isnan(value) or math.isinf(value) for value in values)

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        return {one["labels"]["alertname"] for one in self._get("alerts")["alerts"] if one["state"] == "firing"}

    def rules(self) -> list[dict]:
        """Return all rules with their health."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def targets_down(self) -> list[str]:
        """Return the services that could not be scraped."""
        targets = self._get("targets")["activeTargets"]
        return [one["labels"]["component"] for one in targets if one["health"] != "up"]


class Live:
    """The processes by name, below one folder, and the Prometheus among them. ``close`` ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prometheus = Prometheus("")
        self._commands: dict[str, list[str]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str] = ()) -> None:
        """Start a process, or one that was killed once more."""
        self._commands.setdefault(name, list(command))
        with (self.folder / f"{name}.log").open("ab") as out:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            self._running[name] = subprocess.Popen(self._commands[name], stdout=out, stderr=out, env=environment)

    def kill(self, name: str) -> None:
        """Kill a process, as a node that fails does."""
        self._running[name].kill()
        self._running[name].wait(30)

    def close(self) -> None:
        """End all."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def until(self, holds: Callable[[], object], seconds: float, otherwise: str) -> None:
        """Return when ``holds()``; an AssertionError with the ends of all logs after ``seconds``."""
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"--- {log.name}\n{log.read_text()[-1500:]}" for log in sorted(self.folder.glob("*.log"))
                )
                raise AssertionError(f"{otherwise}\n{logs}")
            time.sleep(0.5)


@contextmanager
def live(folder: Path) -> Iterator[Live]:
    """Start everything below ``folder``; yields once Prometheus answers."""
    ports = dict(zip(SERVICES, free_ports(len(SERVICES)), strict=True))
    scraped = dict(zip(SERVICES, free_ports(len(SERVICES)), strict=True))
    endpoints = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    config = folder / "run.yaml"
    config.write_text(yaml.safe_dump({**SMALL, "endpoints": {**endpoints, "inference": endpoints["agent"]}}))
    running = Live(folder)
    try:
        for name in SERVICES:
            command = [sys.executable, "-m", f"spade_rl.{name}", "--preset=quickstart", f"--config={config}"]
            command += [
                f"--run-dir={folder / 'run'}",
                f"--address={endpoints[name]}",
                f"--metrics-port={scraped[name]}",
            ]
            running.start(name, command)
        (port,) = free_ports(1)
        settings = folder / "prometheus.yaml"
        settings.write_text(yaml.safe_dump(_scraping(scraped)))
        command = [program("prometheus"), f"--config.file={settings}", f"--storage.tsdb.path={folder / 'series'}"]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
        running.start("prometheus", command)
        running.prometheus = Prometheus(f"http://127.0.0.1:{port}")
        running.until(running.prometheus.ready, 60, "Prometheus did not answer")
        yield running
    finally:
        running.close()


def _scraping(ports: dict[str, int]) -> dict:
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {
                "job_name": "spade",
                "static_configs": [
                    {
                        "targets": [f"127.0.0.1:{port}"],
                        # What the chart's PodMonitor sets.
                        "labels": {"namespace": "here", "release": "live", "component": name},
                    }
                    for name, port in ports.items()
                ],
            }
        ],
    }


def main() -> int:
    """Run for a while, then run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spade-live-") as folder, live(Path(folder)) as running:
        learned = "sum(spade_coordinator_cycles_total) > 0"
        running.until(lambda: running.prometheus.values(learned), 300, "the run did not get going")
        time.sleep(60 * arguments.minutes)
        command = [part.replace("{}", running.prometheus.url) for part in arguments.command]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
