from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from spade_rl.sandbox.watchdog import open_gauge

MIB = 1 << 20
# A process with a file of the name that gVisor gives its memory, and with memory of its own.
HOLDER = """
import os, sys
file = os.memfd_create("runsc-memory")
own = []
print("ready", flush=True)
for line in sys.stdin:
    what, size = line.split()
    if what == "file":
        os.write(file, b"x" * int(size))
    elif what == "own":
        own.append(b"x" * int(size))
    print("done", flush=True)
"""


@contextmanager
def holder(program: str = HOLDER) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def tell(process: subprocess.Popen[str], what: str, size: int) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{what} {size}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def test_a_gauge_sees_the_memory_file_and_the_private_memory() -> None:
    with holder() as process:
        gauge = open_gauge(process.pid)
        assert gauge is not None
        empty = gauge.used_bytes()
        tell(process, "file", 8 * MIB)
        with_file = gauge.used_bytes()
        assert 8 * MIB <= with_file - empty < 40 * MIB
        tell(process, "own", 64 * MIB)
        assert 60 * MIB <= gauge.used_bytes() - with_file < 100 * MIB
        gauge.close()


def test_what_a_dead_process_used_is_gone() -> None:
    with holder() as process:
        gauge = open_gauge(process.pid)
        assert gauge is not None
        process.kill()
        process.wait()
        assert gauge.used_bytes() < MIB
        gauge.close()


def test_the_file_is_found_in_a_child_and_nowhere_else() -> None:
    starter = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {HOLDER!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print("ready", flush=True)
sys.stdin.readline()
"""
    with holder(starter) as process:
        gauge = open_gauge(process.pid)
        assert gauge is not None
        gauge.close()
    with holder(HOLDER.replace("runsc-memory", "other")) as process:
        assert open_gauge(process.pid) is None


def test_closing_a_gauge_gives_its_descriptors_back() -> None:
    with holder() as process:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        gauge = open_gauge(process.pid)
        assert gauge is not None
        gauge.close()
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
