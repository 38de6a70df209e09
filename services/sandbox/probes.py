"""What the self-test runs in a sandbox: one environment whose actions exceed one limit each, and what should come of it.

An action is a probe's name and an amount. A probe answers "held" when it was refused what it tried, else with what it
could do; for some limits the service's own verdict, a fault, shows that it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spade_rl.config import Isolation
from spade_rl.sandbox.limits import FaultKind
from spade_rl.sandbox.program import Program, analyse
from spade_rl.seeds import source_digest

HELD = "held"
SOURCE = """
import os
import time


class Probe:
    def reset(self, seed):
        return "", {}

    def step(self, action):
        name, amount = action.split()
        try:
            seen = getattr(self, name)(int(amount))
        except (OSError, MemoryError):
            seen = "held"
        return seen, 0.0, False, False, {}

    def worker_memory(self, megabytes):
        block = bytearray(megabytes << 20)
        return f"a worker could take {len(block) >> 20} MB"

    def sandbox_memory(self, megabytes):
        blocks = [bytearray(b"x") * (8 << 20) for _ in range(megabytes // 8)]
        time.sleep(5)
        return f"a sandbox could use {8 * len(blocks)} MB"

    def processes(self, most):
        for _ in range(most):
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
        return f"a worker could start {most} processes"

    def open_files(self, most):
        opened = []
        try:
            while len(opened) < most:
                opened.append(os.open("/dev/null", os.O_RDONLY))
        finally:
            for descriptor in opened:
                os.close(descriptor)
        return f"a worker could open {most} files"

    def file_size(self, megabytes):
        os.pwrite(os.open("long", os.O_RDWR | os.O_CREAT, 0o600), b"x", megabytes << 20)
        return f"a worker could write a file of {megabytes} MB"

    def disk(self, megabytes):
        for number in range(megabytes // 4):
            with open(f"part{number}", "wb") as part:
                part.write(bytes(4 << 20))
        return f"a worker could write {megabytes} MB"

    def network(self, port):
        import _socket
        for family, address in ((_socket.AF_INET, "192.0.2.1"), (_socket.AF_INET6, "2001:db8::1")):
            try:
                # Sends nothing: it asks for a route.
                _socket.socket(family, _socket.SOCK_DGRAM).connect((address, port))
            except OSError:
                continue
            return f"a worker has a route to {address}"
        return "held"

    def host_files(self, number):
        for folder in ("/", "/etc", os.path.dirname(os.__file__)):
            path = f"{folder}/spade-probe-{number}"
            try:
                with open(path, "x"):
                    os.unlink(path)
            except OSError:
                continue
            return f"a worker could write to {folder}"
        return "held"

    def deadline(self, number):
        while True:
            pass
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """One limit: where it is promised, what shows that it holds, and what to do when it does not."""

    name: str
    # The fault that shows that the limit holds, if not only the probe's own answer does.
    fault: FaultKind | None
    levels: frozenset[Isolation]
    advice: str


_EVERYWHERE = frozenset(Isolation)
_NAMESPACES = frozenset({Isolation.GVISOR, Isolation.BUBBLEWRAP})
_GVISOR = frozenset({Isolation.GVISOR})
_UPDATE = "Install a current gVisor (`runsc --version` says which one this is)."
PROBES = {
    probe.name: probe
    for probe in (
        Probe("worker_memory", FaultKind.MEMORY, _EVERYWHERE, _UPDATE),
        Probe(
            "sandbox_memory",
            FaultKind.MEMORY,
            _GVISOR,
            "The service reads a sandbox's memory from the descriptors of its processes below /proc: it must run as the "
            f"user who owns them, and see /proc. {_UPDATE}",
        ),
        Probe("processes", FaultKind.PROCESSES, _GVISOR, _UPDATE),
        Probe("open_files", FaultKind.FILES, _EVERYWHERE, _UPDATE),
        Probe("file_size", FaultKind.DISK, _EVERYWHERE, _UPDATE),
        Probe("disk", FaultKind.DISK, _NAMESPACES, _UPDATE),
        Probe("network", None, _NAMESPACES, f"Sandboxes must have no network. {_UPDATE}"),
        Probe("host_files", None, _NAMESPACES, f"Sandboxes must see nothing of this machine's files. {_UPDATE}"),
        Probe("deadline", FaultKind.DEADLINE, _EVERYWHERE, "Is this machine too busy to end a process?"),
    )
}


def promised(level: Isolation) -> frozenset[str]:
    """Return the names of the limits that a level of isolation promises."""
    return frozenset(name for name, probe in PROBES.items() if level in probe.levels)


def program() -> Program:
    """Return the probes as a program; they import what the gates would refuse."""
    honest = (
        "class Probe:\n    def reset(self, seed): ...\n    def step(self, action): ...\n    def solution(self): ...\n"
    )
    return replace(analyse(honest), source=SOURCE, digest=source_digest(SOURCE))
