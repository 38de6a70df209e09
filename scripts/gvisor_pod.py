"""Runs a command of this checkout in one gVisor container that is to it what a pod is on a node with gVisor.

    .venv/bin/python scripts/gvisor_pod.py [--platform systrap] [--user 10001] SHARED COMMAND...

As under Pod Security "restricted": no capability, no new privileges, a read-only root, no root unless asked for. The
interpreter, its packages and this checkout's are there at their own paths, read-only, with a root file system for
workers as an image bakes it; SHARED is the one folder of the host that can be written, at its own path too, so that a
service that listens on a Unix socket in it can be called from outside. There is no network. SIGTERM and SIGINT go to
the command, which ends with this process; its exit status is returned.

Needs runsc, and root: only root may choose a container's user.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import spade_rl
from spade_rl import sandbox
from spade_rl.sandbox.rootfs import cache_folder, ensure_rootfs
from spade_rl.sandbox.runtime import die_with_parent, runsc_command

CACHE = "/mnt/cache"
SYSTEM = ("/usr", "/lib", "/lib64", "/bin")
USER = 10001


class NoPod(Exception):
    """This machine cannot run one; the message says why."""


def pod_command(
    folder: Path,
    command: Sequence[str],
    *,
    shared: Path,
    platform: str,
    user: int = USER,
    readable: Sequence[Path] = (),
) -> list[str]:
    """Write a bundle into ``folder`` and return what runs ``command`` in it; ``readable``: more folders to show it.

    Raises NoPod.
    """
    runsc = shutil.which("runsc")
    if runsc is None:
        raise NoPod("runsc is not installed")
    if os.geteuid() != 0:
        raise NoPod("only root may choose a container's user")
    cache = cache_folder().with_name("spade-pods")
    ensure_rootfs(folder=cache / "spade", shared=True)
    interpreter = Path(sys.executable)
    packages = (Path(spade_rl.__file__).parent, Path(sandbox.__file__).parent)
    shown = (*map(Path, SYSTEM), Path(sys.prefix), interpreter.resolve().parents[1], *packages, *readable)
    sources = {str(path): path for path in shown if path.exists()} | {CACHE: cache}
    root = folder / "root"
    for name in (*sources, str(shared), "/tmp", "/proc", "/dev", "/sys", "/etc"):
        (root / name[1:]).mkdir(parents=True, exist_ok=True)
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "XDG_CACHE_HOME": CACHE, "OMP_NUM_THREADS": "1"}
    mounts: list[dict[str, object]] = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]},
        {"destination": str(shared), "type": "bind", "source": str(shared), "options": ["rw", "rbind"]},
    ]
    mounts += [
        {"destination": inside, "type": "bind", "source": str(outside), "options": ["ro", "rbind"]}
        for inside, outside in sources.items()
    ]
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": user, "gid": user},
            "args": list(command),
            "env": [f"{name}={value}" for name, value in environment.items()],
            "cwd": "/tmp",
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "root": {"path": str(root), "readonly": True},
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
    }
    (folder / "config.json").write_text(json.dumps(config))
    # The last word on a flag counts: sockets of the host may be made as well as opened.
    flags = [*runsc_command(runsc, platform, folder / "state"), "--host-uds=all"]
    return [*die_with_parent(), *flags, "run", f"--bundle={folder}", f"pod-{user}-{os.getpid()}"]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", choices=("systrap", "ptrace"), default="systrap", help="gVisor's platform")
    parser.add_argument("--user", type=int, default=USER, help="the user that the command runs as")
    parser.add_argument("shared", type=Path, metavar="SHARED", help="a folder that the command may write to")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    arguments = parser.parse_args()
    shared = arguments.shared.resolve()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spade-pod-")))
        try:
            command = pod_command(
                folder, arguments.command, shared=shared, platform=arguments.platform, user=arguments.user
            )
        except NoPod as reason:
            parser.error(str(reason))
        pod = stack.enter_context(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        # Its runtime passes no signals on.
        stop = [*command[: command.index("run")], "kill", command[-1]]

        def passed_on(sent: int, _frame: object) -> None:
            subprocess.run([*stop, signal.Signals(sent).name], check=False)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, passed_on)
        return pod.wait()


if __name__ == "__main__":
    sys.exit(main())
