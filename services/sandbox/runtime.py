"""Which isolation this machine can give, found by trying.

A platform of gVisor counts as usable when a container has started on it and ended within a deadline: a platform may
hang although its device is there. Nothing weaker than what was asked for is ever chosen.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from spade_rl.config import Isolation, SandboxSection
from spade_rl.errors import ConfigurationError
from spade_rl.sandbox.rootfs import PYTHON, ensure_rootfs, running_interpreter

PLATFORMS = ("systrap", "ptrace")
PROBE_SECONDS = 20.0
HOW_TO_GET_RUNSC = (
    "Install gVisor: `apt-get install runsc` (on Debian 12 from bookworm-backports), or follow the installation guide "
    "of gvisor.dev; `spade doctor` says what was found. To run generated code without gVisor, ask for it by name: "
    "`sandbox.isolation: process` gives no protection from hostile code."
)


@dataclass(frozen=True, slots=True)
class Runtime:
    """How sandboxes are started."""

    isolation: Isolation
    # The program that isolates, with its version, as GetStatus says it.
    name: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeReport:
    """What ``spade doctor`` says about isolation."""

    runsc: str | None
    runsc_version: str
    platforms: dict[str, str] = field(default_factory=dict)
    rootless: bool = False
    bubblewrap: str | None = None
    memory_limit: str = ""
    advice: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether the default isolation works here."""
        return any(problem == "" for problem in self.platforms.values())


def is_rootless() -> bool:
    """Whether runsc must do without root."""
    return os.geteuid() != 0


def die_with_parent() -> tuple[str, ...]:
    """Return the command that makes what follows it end with this service, however this service ends."""
    tool = shutil.which("setpriv")
    if tool is None:
        raise ConfigurationError("`setpriv` is not installed; it comes with util-linux (`apt-get install util-linux`)")
    return (tool, "--pdeathsig", "KILL", "--")


def runsc_version(runsc: str) -> str:
    """Return the version that runsc says it has, or why it says none."""
    try:
        done = subprocess.run([runsc, "--version"], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({error})"
    return done.stdout.split("\n", 1)[0].removeprefix("runsc version ").strip() or "unknown"


def runsc_command(runsc: str, platform: str, state: Path) -> tuple[str, ...]:
    """Return runsc with its global flags."""
    flags = [f"--root={state}", f"--platform={platform}", "--network=none", "--ignore-cgroups", "--host-uds=open"]
    return (runsc, *flags, *(("--rootless",) if is_rootless() else ()))


def probe(runsc: str, platform: str, root: Path) -> str:
    """Start the interpreter in a container on ``platform``; return "" if that works, else what went wrong."""
    with tempfile.TemporaryDirectory(prefix="spade-probe-") as folder:
        bundle = Path(folder)
        config = {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": [PYTHON, "-S", "-s", "-P", "-B", "-c", "print('works')"],
                "env": ["PYTHONHOME=/opt/python", "LD_LIBRARY_PATH=/opt/lib"],
                "cwd": "/",
                "noNewPrivileges": True,
            },
            "root": {"path": str(root), "readonly": True},
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
        }
        (bundle / "config.json").write_text(json.dumps(config))
        command = runsc_command(runsc, platform, bundle / "state")
        name = f"probe-{platform}-{os.getpid()}"
        try:
            done = subprocess.run(
                [*die_with_parent(), *command, "run", f"--bundle={bundle}", name],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PROBE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"did not start a container within {PROBE_SECONDS:.0f} s"
        except OSError as error:
            return str(error)
        if done.stdout.strip() == "works":
            return ""
        lines = (done.stderr or done.stdout).strip().splitlines()
        return lines[-1][:500] if lines else f"ended with status {done.returncode}"


def find_runtime(section: SandboxSection, root: Path, state: Path) -> Runtime:
    """Return the runtime that a configuration asks for, or raise ConfigurationError saying how to get it."""
    if section.isolation is Isolation.PROCESS:
        return Runtime(Isolation.PROCESS, "process (no isolation)")
    if section.isolation is Isolation.BUBBLEWRAP:
        tool = shutil.which("bwrap")
        if tool is None:
            raise ConfigurationError(
                "sandbox.isolation is bubblewrap, but `bwrap` is not installed (`apt-get install bubblewrap`)"
            )
        return Runtime(Isolation.BUBBLEWRAP, "bubblewrap", (tool,))
    runsc = shutil.which("runsc")
    if runsc is None:
        raise ConfigurationError(f"sandbox.isolation is gvisor, but `runsc` is not installed. {HOW_TO_GET_RUNSC}")
    problems = {}
    for platform in PLATFORMS if section.platform == "auto" else (section.platform,):
        problems[platform] = probe(runsc, platform, root)
        if not problems[platform]:
            name = f"runsc {runsc_version(runsc)} {platform}{' rootless' if is_rootless() else ''}"
            return Runtime(Isolation.GVISOR, name, runsc_command(runsc, platform, state))
    tried = "; ".join(f"{platform}: {problem}" for platform, problem in problems.items())
    raise ConfigurationError(f"{runsc} ({runsc_version(runsc)}) starts no container here ({tried}). {HOW_TO_GET_RUNSC}")


def describe_runtime() -> RuntimeReport:
    """Find out what this machine has; takes a few seconds, and bakes the root file system if it is not there yet."""
    runsc, bubblewrap = shutil.which("runsc"), shutil.which("bwrap")
    if runsc is None:
        return RuntimeReport(None, "", {}, is_rootless(), bubblewrap, advice=(HOW_TO_GET_RUNSC,))
    version = runsc_version(runsc)
    advice: list[str] = []
    platforms: dict[str, str] = {}
    try:
        root = ensure_rootfs()
        platforms = {platform: probe(runsc, platform, root) for platform in PLATFORMS}
    except ConfigurationError as error:
        advice.append(str(error))
    if platforms and all(platforms.values()):
        advice.append(f"No platform of {runsc} works. {HOW_TO_GET_RUNSC}")
    if running_interpreter().numpy is None:
        advice.append("numpy is not installed: environments that import it will be refused (`pip install numpy`).")
    return RuntimeReport(runsc, version, platforms, is_rootless(), bubblewrap, "memory-file watchdog", tuple(advice))
