"""Which isolation this machine can give, found by trying.

A platform of gVisor counts as usable when a container has started on it and ended within a deadline: a platform may
hang although its device is there. Nothing weaker than what was asked for is ever chosen.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spade_rl.config import Isolation, SandboxSection
from spade_rl.errors import ConfigurationError
from spade_rl.sandbox import guest
from spade_rl.sandbox.cgroup import find_cgroups
from spade_rl.sandbox.rootfs import LIBRARIES, PYTHON, PYTHON_HOME, SOCKET_FOLDER, ensure_rootfs, running_interpreter

PLATFORMS = ("systrap", "ptrace")
PROBE_SECONDS = 20.0
SYSLOG_ACTION_READ_ALL = 3
KERNEL_LOG_BYTES = 1 << 14
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
    # Whether the service itself runs under gVisor, and sandboxes are processes next to it.
    pod: bool = False


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


def inside_gvisor() -> bool:
    """Return whether this process runs under gVisor: whether that is what its kernel's log begins with."""
    log = ctypes.create_string_buffer(KERNEL_LOG_BYTES)
    length = ctypes.CDLL(None).klogctl(SYSLOG_ACTION_READ_ALL, log, len(log))
    return length > 0 and re.match(rb"<\d+>\[ *0\.0+\] Starting gVisor", log.raw[:length]) is not None


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
    inside = inside_gvisor()
    if section.runtime == "pod" and not inside:
        raise ConfigurationError(
            "sandbox.runtime is pod, but this service does not run under gVisor: give its pod the runtimeClassName of "
            "gVisor's handler, or let it start sandboxes itself (`sandbox.runtime: runsc`)"
        )
    if section.runtime == "pod" or (section.runtime == "auto" and inside):
        return _pod_runtime(root, state)
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


def pod_command(root: Path, sockets: Path, tmp_mb: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command that makes ``root`` the whole file system of the command that follows it."""
    names = (f"{name}={value}" for name, value in environment.items())
    enter = str(Path(guest.__file__).with_name("enter.py"))
    interpreter = str(running_interpreter().executable)
    return (interpreter, "-I", "-S", "-B", enter, str(root), str(sockets), SOCKET_FOLDER, str(tmp_mb), *names)


def _pod_runtime(root: Path, state: Path) -> Runtime:
    """Return the runtime of a pod that runs under gVisor, or raise ConfigurationError."""
    state.mkdir(exist_ok=True)
    python = {"PYTHONHOME": PYTHON_HOME, "LD_LIBRARY_PATH": LIBRARIES}
    command = [*die_with_parent(), *pod_command(root, state, 1, python), PYTHON, "-S", "-c", "print('works')"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(f"a sandbox cannot start in this pod: {error}") from error
    if done.stdout.strip() != "works":
        lines = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        raise ConfigurationError(
            f"a sandbox cannot start in this pod, which runs under gVisor: {lines[-1][:500]}. Workers need user "
            "namespaces, which gVisor gives unless the pod's seccomp profile forbids `unshare`."
        )
    return Runtime(Isolation.GVISOR, f"gVisor pod ({os.uname().release})", pod=True)


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
    cgroups = find_cgroups()
    memory = "memory-file watchdog" + ("" if cgroups is None else f", cgroups of version {cgroups.version}")
    return RuntimeReport(runsc, version, platforms, is_rootless(), bubblewrap, memory, tuple(advice))
