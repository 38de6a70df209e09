"""What a sandbox service does in a pod that runs under gVisor; run there by test_pod.py. Says what it saw as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from spade_rl.config import Isolation, SandboxSection
from spade_rl.sandbox.episode import open_episode
from spade_rl.sandbox.limits import EpisodeError
from spade_rl.sandbox.opening import open_home, open_pool
from spade_rl.sandbox.probes import promised
from spade_rl.sandbox.selftest import try_limits

ATTACK = """
class Env:
    def reset(self, seed):
        return "ready", {}
    def step(self, action):
        import json, os
        ctypes, socket, threading = __import__("ctypes"), __import__("socket"), __import__("threading")
        libc = ctypes.CDLL(None, use_errno=True)
        found = {}
        def tried(name, act):
            try:
                found[name] = act()
            except OSError as error:
                found[name] = type(error).__name__
        def call(name, *arguments):
            if getattr(libc, name)(*arguments) != 0:
                raise OSError(ctypes.get_errno(), name)
        def connect(path):
            socket.socket(socket.AF_UNIX).connect(path)
        tried("pid", os.getpid)
        tried("processes", lambda: [name for name in os.listdir("/proc") if name.isdigit()])
        tried("folders", lambda: [name for name in os.listdir("/") if name in ("home", "usr", "work", "root", "mnt")])
        tried("files", lambda: os.listdir("/tmp"))
        tried("kill all", lambda: os.kill(-1, 9))
        tried("kill the zygote", lambda: [os.kill(pid, 9) for pid in range(2, 64)])
        tried("fork", os.fork)
        tried("write to the library", lambda: open("/opt/python/x", "w"))
        tried("write", lambda: open("/tmp/mine", "w").write("x"))
        tried("namespaces", lambda: call("unshare", 0x10000000))
        tried("unmount", lambda: call("umount2", b"/tmp", 2))
        tried("mount", lambda: call("mount", b"proc", b"/tmp", b"proc", 0, None))
        tried("live on", lambda: call("prctl", 1, 0))
        tried("become another", lambda: os.setuid(1))
        tried("trace", lambda: call("ptrace", 16, 2, 0, 0))
        tried("socket", lambda: connect("/run/spade/host.sock"))
        tried("abstract socket", lambda: connect("\\0spade"))
        tried("network", lambda: socket.socket(2, 2).connect(("192.0.2.1", 9)))
        tried("thread", lambda: threading.Thread(target=lambda: None).start())
        tried("null", lambda: open("/dev/null", "w").write("x"))
        return json.dumps(found), 0.0, False, False, {}
"""
BOMB = """
class Env:
    def reset(self, seed):
        return "", {}
    def step(self, action):
        self.x = bytearray(b"x") * (90 << 20)
        return "", 0.0, False, False, {}
"""


async def main() -> dict[str, object]:
    section = SandboxSection(
        isolation=Isolation.GVISOR, runtime="pod", call_seconds=30.0, sandbox_memory_mb=192, max_sandboxes=4
    )
    seen: dict[str, object] = {}
    async with open_home(section) as home:
        checks = await try_limits(home, section, promised(Isolation.GVISOR))
        seen["limits"] = {check.name: check.message or check.held for check in checks}
    async with open_pool(section) as pool:
        seen["runtime"] = pool.runtime
        async with open_episode(pool, ATTACK) as attacker, open_episode(pool, ATTACK) as bystander:
            await bystander.reset(1)
            await attacker.reset(1)
            seen["attack"] = json.loads((await attacker.step(["go"]))[0].observation)
            seen["bystander"] = json.loads((await bystander.step(["go"]))[0].observation)
        try:
            async with open_episode(pool, BOMB) as one, open_episode(pool, BOMB) as other:
                for episode in (one, other, one, other):
                    await episode.reset(1)
                    await episode.step(["go"])
                await asyncio.sleep(10)
                await one.step(["go"])
        except EpisodeError as error:
            seen["memory"] = [error.origin, error.kind, error.message]
    seen["left"] = [
        entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and int(entry.name) != os.getpid()
    ]
    return seen


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(asyncio.run(main())))
