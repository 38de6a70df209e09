"""The zygote: holds one compiled source, forks its workers, and buries them.

It serves one request of the host after the other and needs no signals: that a worker has ended, the host sees first,
at its connection, and says so. A connection is made before the fork, so that whatever keeps a worker from starting is
either reported or seen as the end of its connection.
"""

from __future__ import annotations

import gc
import os
import sys

from .channel import Channel, connect
from .children import Children
from .confine import Confinement
from .environment import Environment
from .script import answer_scripts
from .values import FILENAME, MESSAGE_LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# How long a worker that has hung up may take to end by itself, so that its own status is told.
EXIT_SECONDS = 0.1


class Zygote:
    """Answers the host on the control connection."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._control = Channel(connect(path))
        self._limits: dict[str, Any] = {}
        self._confinement: Confinement
        self._environment: Environment | None = None
        # Process of every live worker by user, which is also its name towards the host.
        self._workers: dict[int, int] = {}
        self._children = Children(self._workers)

    def serve(self) -> None:
        """Answer the host until it hangs up; then end all workers."""
        try:
            self._say({"ready": sys.version.split()[0]})
            while True:
                message = self._control.receive()[2]
                getattr(self, "do_" + message["do"])(message)
        except (EOFError, ConnectionError):
            return
        finally:
            for pid in self._workers.values():
                self._children.kill(pid)
            for pid in self._workers.values():
                self._children.wait(pid)

    def _say(self, message: dict[str, Any]) -> None:
        self._control.send(0, 0, message)

    def do_configure(self, message: dict[str, Any]) -> None:
        """Take the limits that hold for all workers."""
        self._limits = message["limits"]
        self._confinement = Confinement(message)
        sys.path.extend(message["path"])

    def do_load(self, message: dict[str, Any]) -> None:
        """Compile the source and import what it may use."""
        try:
            injected = {}
            for name in message["modules"]:
                try:
                    __import__(name)
                except ImportError:
                    pass  # The worker meets it again, in the source, and blames the right line.
            for name, target in message["injected"].items():
                module, _, attribute = target.partition(":")
                __import__(module)
                injected[name] = getattr(sys.modules[module], attribute) if attribute else sys.modules[module]
            _randomise()
            code = compile(message["source"], FILENAME, "exec", dont_inherit=True)
            self._environment = Environment(code, message["class_name"], injected, self._limits)
        except Exception as error:
            self._say({"loaded": False, "message": f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT]})
            return
        self._confinement.limit_memory()
        gc.collect()
        gc.freeze()
        self._say({"loaded": True})

    def do_work(self, message: dict[str, Any]) -> None:
        """End workers, then start others, then clear away what those that ended left.

        ``end`` holds workers to kill, ``ask`` those that have hung up: they may end by themselves first.
        """
        ended = [self._end(user, 0.0) for user in message["end"] if user in self._workers]
        ended += [self._end(user, EXIT_SECONDS) for user in message["ask"] if user in self._workers]
        for user, token in message["spawn"]:
            try:
                self._fork(user, token)
            except OSError as error:
                self._say({"lost": user, "message": f"cannot start a worker: {error}"})
        for user, status in ended:
            self._bury(user, status)
        if ended:
            self._say({"ended": ended})

    def _end(self, user: int, seconds: float) -> tuple[int, int | None]:
        """Return a worker and its status if it had ended by itself, or does so within ``seconds``; else kill it."""
        pid = self._workers[user]
        status = self._children.status(pid, seconds)
        if status is None:
            self._children.kill(pid)
        return user, status

    def _bury(self, user: int, status: int | None) -> None:
        pid = self._workers.pop(user)
        if status is None:
            self._children.wait(pid)
        if not self._confinement.clear(user, self._children):
            os._exit(70)  # Cannot be held: the end of the zygote ends the sandbox with all that runs in it.

    def _fork(self, user: int, token: str) -> None:
        if self._environment is None:
            raise OSError("there is no program yet")
        channel = Channel(connect(self._path))
        try:
            channel.send(0, 0, {"hello": token})
            self._confinement.before_fork()
            pid = os.fork()
            if pid == 0:
                self._become_worker(user, channel, self._environment)
            self._workers[user] = pid
        finally:
            channel.close()

    def _become_worker(self, user: int, channel: Channel, environment: Environment) -> None:
        try:
            self._control.close()
            self._confinement.confine(user)
            _randomise()
            answer_scripts(channel, environment)
        except EOFError:
            os._exit(0)
        except BaseException:
            os._exit(65)


def _randomise() -> None:
    """Seed numpy's global generator, whose state forked workers would share; ``random`` reseeds itself."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def run(path: str) -> None:
    """Serve the host whose socket is at ``path``."""
    Zygote(path).serve()
