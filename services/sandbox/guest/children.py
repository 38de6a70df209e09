"""The zygote's child processes: its workers, and what dead workers left behind, which becomes its own."""

from __future__ import annotations

import os
import time

SIGKILL = 9


class Children:
    """Waits for children without losing the status of one while waiting for another."""

    def __init__(self, workers: dict[int, int]) -> None:
        # Kept by the zygote: the process of every worker whose status will be asked for, by user.
        self._workers = workers
        self._ended: dict[int, int] = {}

    def status(self, pid: int, seconds: float = 0.0) -> int | None:
        """Return the exit code of a worker that ends within ``seconds``, negative for a signal, else None."""
        deadline = time.monotonic() + seconds
        while True:
            if pid in self._ended:
                return self._ended.pop(pid)
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return self._take(pid)
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.001)

    def kill(self, pid: int) -> None:
        """Kill a worker. As long as nobody has waited for it, its number is nobody else's."""
        if pid not in self._ended:
            os.kill(pid, SIGKILL)

    def wait(self, pid: int) -> None:
        """Wait until a worker that was killed is gone, with its group."""
        if self._ended.pop(pid, None) is None:
            self._take(pid)

    def reap(self) -> None:
        """Take note of every child that has ended."""
        try:
            while True:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None:
                    return
                if ended.si_pid in self._workers.values():
                    self._ended[ended.si_pid] = self._take(ended.si_pid)
                else:
                    os.waitpid(ended.si_pid, 0)
        except ChildProcessError:
            return

    def orphans(self) -> list[int]:
        """Return the children that are no workers. None of them is gone as long as nobody reaps."""
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            return [pid for pid in map(int, children.read().split()) if pid not in self._workers.values()]

    def _take(self, pid: int) -> int:
        """Wait for a worker; the group that it led is killed while its number still stands for it."""
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        try:
            os.kill(-pid, SIGKILL)
        except OSError:
            pass  # There is no group: it had not become the leader of one.
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
