"""The OCI configuration of one sandbox.

Pure: the same arguments give the same configuration. What it promises: a read-only root, one small private
directory for files, one mount of the host (the folder of the sandbox's socket), no network, no capabilities beyond
those with which the zygote gives its workers users of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spade_rl.sandbox.limits import Limits
from spade_rl.sandbox.rootfs import GUEST, LIBRARIES, PYTHON, PYTHON_HOME, SOCKET_FOLDER

SOCKET = f"{SOCKET_FOLDER}/host.sock"
# Of the zygote alone: a worker loses them when it becomes another user.
CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE")
PYTHON_ARGUMENTS = ("-S", "-s", "-P", "-B")
ENVIRONMENT = {
    # Equal on every run: the order of a set must not differ between two plays of one instance.
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "LANG": "C.UTF-8",
    # Symbols are bound before the first fork: bound later, each worker would pay for it, in page faults.
    "LD_BIND_NOW": "1",
}


def guest_environment() -> dict[str, str]:
    """Return the environment variables of a zygote inside the baked root."""
    return {**ENVIRONMENT, "PYTHONHOME": PYTHON_HOME, "LD_LIBRARY_PATH": LIBRARIES, "PATH": f"{PYTHON_HOME}/bin"}


def guest_path(version: str) -> list[str]:
    """Return the folders of trusted packages inside the baked root."""
    return [f"{PYTHON_HOME}/lib/{version}/site-packages"]


def oci_config(*, root: Path, socket_folder: Path, limits: Limits) -> dict[str, Any]:
    """Return the content of ``config.json``."""
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": [PYTHON, *PYTHON_ARGUMENTS, GUEST, SOCKET],
            "env": [f"{name}={value}" for name, value in guest_environment().items()],
            "cwd": "/",
            "capabilities": {kind: list(CAPABILITIES) for kind in ("bounding", "effective", "permitted")},
            "noNewPrivileges": True,
            "rlimits": [{"type": "RLIMIT_CORE", "hard": 0, "soft": 0}],
        },
        "root": {"path": str(root), "readonly": True},
        "hostname": "sandbox",
        "mounts": [
            # Nobody may look at processes, not even the zygote.
            {"destination": "/proc", "type": "tmpfs", "source": "tmpfs", "options": ["ro", "mode=0555", "size=4k"]},
            {
                "destination": "/tmp",
                "type": "tmpfs",
                "source": "tmpfs",
                # Workers own a folder in it and cannot list or add to it.
                "options": ["nosuid", "nodev", "noexec", "mode=0711", f"size={limits.tmp_mb}m"],
            },
            {
                "destination": SOCKET_FOLDER,
                "type": "bind",
                "source": str(socket_folder),
                "options": ["rw", "rbind", "nosuid", "nodev"],
            },
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
    }
