"""What runs inside a sandbox: the zygote, and the workers that it forks. Standard library only, run as a script.

    python guest.py SOCKET

The *zygote* is trusted. It connects to the host's socket, is told one environment's source, compiles it, imports
the allowed modules that the source needs, and forks a *worker* for every episode; it never runs the source. A worker
connects to the host on its own, gives up its rights (user, limits, descriptors, directory) and only then executes the
source. After that it can no longer reach the socket, the zygote, or another worker.

Frames in both directions: a header (payload length, sequence number, nonce) and a JSON object. A worker answers
every operation of a script with one frame, or, for a long batch of steps, several. What a worker says is a claim:
the host checks all of it again.
"""

# pathlib and contextlib are left out on purpose: every fork copies what the zygote has loaded.
# ruff: noqa: PTH102, PTH106, PTH108, PTH116, PTH208, SIM105

from __future__ import annotations

import _socket
import builtins
import errno
import gc
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

HEADER = struct.Struct("!IIQ")
FILENAME = "<environment>"
MESSAGE_LIMIT = 2000
FLUSH_BYTES = 1 << 20
INFO_NODES = 10_000
INFO_DEPTH = 32
MIB = 1 << 20


# What the kernel answers to code that exceeds a limit of its process, by the limit's name.
LIMIT_ERRORS = {errno.EMFILE: "files", errno.EAGAIN: "processes", errno.EFBIG: "disk", errno.ENOSPC: "disk"}
NO_THREAD = "can't start new thread"


class Fault(Exception):
    """The environment broke a rule; ``kind`` is from the documented list."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _connect(path: str) -> _socket.socket:
    # The C type: the Python wrapper would load a dozen modules that every fork then copies.
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    sock.connect(path)
    return sock


def _receive_exactly(sock: _socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = sock.recv(min(count, MIB))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def receive(sock: _socket.socket) -> tuple[int, int, Any]:
    """Return sequence number, nonce and object of the next frame; EOFError when the host has hung up."""
    length, sequence, nonce = HEADER.unpack(_receive_exactly(sock, HEADER.size))
    return sequence, nonce, json.loads(_receive_exactly(sock, length))


def send(sock: _socket.socket, sequence: int, nonce: int, message: dict[str, Any]) -> None:
    """Send one frame."""
    payload = json.dumps(message).encode()
    sock.sendall(HEADER.pack(len(payload), sequence, nonce) + payload)


# --- the worker ---------------------------------------------------------------------------------------------------


def _where(error: BaseException) -> str:
    line, function, trace = 0, "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == FILENAME:
            line, function = trace.tb_lineno, code.co_name
        trace = trace.tb_next
    return f" (line {line}, in {function})" if line else ""


def _as_fault(error: BaseException, call: str) -> tuple[str, str]:
    if isinstance(error, Fault):
        return error.kind, str(error)[:MESSAGE_LIMIT]
    try:
        text = str(error)[:MESSAGE_LIMIT]
    except BaseException:
        text = "its message cannot be read"
    name = type(error).__name__
    kind = "memory" if isinstance(error, MemoryError) else "exception"
    if isinstance(error, OSError):
        kind = LIMIT_ERRORS.get(error.errno or 0, kind)
    elif isinstance(error, RuntimeError) and text == NO_THREAD:
        kind = "processes"
    if isinstance(error, ImportError) and call == "the program":
        kind = "import"
    return kind, f"{call} raised {name}{': ' + text if text else ''}{_where(error)}"


def _text(value: Any, what: str, limit: int) -> str:
    if not isinstance(value, str):
        raise Fault("contract", f"{what} must be text, not {type(value).__name__}")
    text = str.__str__(value)  # Of a subclass: exactly a str, whose length nobody can pretend.
    if len(text) > limit:
        raise Fault("observation", f"{what} has {len(text)} characters; at most {limit} bytes are allowed")
    return text


def _number(value: Any, call: str) -> float:
    if not isinstance(value, (int, float)) and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    raise Fault("contract", f"the reward of {call} must be a number, not {type(value).__name__}")


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, (bool, int)) and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (bool, int)):
        return bool(value)
    raise Fault("contract", f"{what} must be True or False, not {type(value).__name__}")


def _plain(value: Any, depth: int, budget: list[int]) -> Any:
    """Return ``value`` as JSON knows it: numpy becomes Python, what has no form in JSON becomes text."""
    budget[0] -= 1
    if budget[0] < 0 or depth > INFO_DEPTH:
        raise Fault("info", f"info is too large: at most {INFO_NODES} values, nested at most {INFO_DEPTH} deep")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 63 else str(value)[:100]
    if isinstance(value, float):
        return float(value) if value - value == 0 else repr(float(value))
    if isinstance(value, dict):
        return {str(key)[:200]: _plain(item, depth + 1, budget) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, depth + 1, budget) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), depth + 1, budget)
    return repr(value)[:200]


def _info(value: Any, call: str, limit: int) -> str:
    if not isinstance(value, dict):
        raise Fault("contract", f"info of {call} must be a dict, not {type(value).__name__}")
    if not value:
        return "{}"
    text = json.dumps(_plain(value, 0, [INFO_NODES]), allow_nan=False)
    if len(text) > limit:
        raise Fault("info", f"info of {call} has {len(text)} bytes as JSON; at most {limit} are allowed")
    return text


def _takes_seed_by_name(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    if code is None:
        return True
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return "seed" in names or bool(code.co_flags & 0x08)


class Environment:
    """One program and its current instance, behind checks of everything that it returns."""

    def __init__(self, code: CodeType, class_name: str, injected: dict[str, Any], limits: dict[str, Any]) -> None:
        self._code = code
        self._class_name = class_name
        self._injected = injected
        self._observation_limit = int(limits["observation_bytes"])
        self._info_limit = int(limits["info_bytes"])
        self._solution_limit = int(limits["solution_steps"])
        self._make: Callable[[], Any] | None = None
        self._instance: Any = None
        self._solution: list[str] = []

    def load(self) -> dict[str, Any]:
        """Run the program's top level."""
        module = ModuleType("environment")
        module.__dict__.update(self._injected, __builtins__=builtins)
        sys.modules["environment"] = module
        exec(self._code, module.__dict__)
        self._make = module.__dict__.get(self._class_name)
        if not isinstance(self._make, type):
            raise Fault("contract", f"{self._class_name} is not a class once the program has run")
        return {}

    def reset(self, seed: int) -> dict[str, Any]:
        """Make a fresh instance and reset it."""
        call = f"reset(seed={seed})"
        if self._make is None:
            raise Fault("contract", "the program did not load")
        self._instance, self._solution = None, []
        self._instance = self._make()
        function = self._instance.reset
        value = function(seed=seed) if _takes_seed_by_name(function) else function(seed)
        if not isinstance(value, tuple) or len(value) != 2:
            raise Fault("contract", f"{call} must return (observation, info), not {_shape(value)}")
        return {
            "observation": _text(value[0], f"the observation of {call}", self._observation_limit),
            "info": _info(value[1], call, self._info_limit),
        }

    def solution(self) -> dict[str, Any]:
        """Return the oracle's actions as text."""
        if not hasattr(self._instance, "solution"):
            raise Fault("contract", "there is no solution(): after reset it must return the list of winning actions")
        value = self._instance.solution()
        actions = [value] if isinstance(value, (str, int, float)) else value
        if not isinstance(actions, (list, tuple)):
            raise Fault("contract", f"solution() must return a list of actions as text, not {type(value).__name__}")
        if len(actions) > self._solution_limit:
            raise Fault("bounds", f"solution() has {len(actions)} actions; at most {self._solution_limit} are allowed")
        texts = []
        for action in actions:
            if not isinstance(action, str) and hasattr(action, "item"):
                action = action.item()
            if not isinstance(action, (str, int, float)):
                raise Fault("contract", f"an action of solution() must be text, not {type(action).__name__}")
            texts.append(_text(str(action), "an action of solution()", self._observation_limit))
        if sum(map(len, texts)) > self._observation_limit:
            raise Fault("bounds", f"solution() has more than {self._observation_limit} characters")
        self._solution = texts
        return {"actions": texts}

    def step(self, action: str) -> tuple[str, float, bool, bool, str]:
        """Take one action."""
        value = self._instance.step(action)
        if not isinstance(value, tuple) or len(value) != 5:
            raise Fault(
                "contract",
                f"step() must return (observation, reward, terminated, truncated, info), not {_shape(value)}",
            )
        observation, reward, terminated, truncated, info = value
        return (
            _text(observation, "the observation of step()", self._observation_limit),
            _number(reward, "step()"),
            _flag(terminated, "terminated of step()"),
            _flag(truncated, "truncated of step()"),
            _info(info, "step()", self._info_limit),
        )

    def actions(self, operation: list[Any]) -> list[str]:
        """Return the actions that a step operation names: a list, or the solution found last."""
        return list(self._solution) if operation[1] is None else operation[1]


def _shape(value: Any) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else type(value).__name__


def _steps(environment: Environment, actions: list[str], flush_seconds: float, say: Callable[[Any], None]) -> None:
    results: list[Any] = []
    size, since = 0, time.monotonic()
    for action in actions:
        result = environment.step(action)
        results.append(result)
        size += len(result[0]) + len(result[4])
        if result[2] or result[3]:
            break
        now = time.monotonic()
        if now - since > flush_seconds or size > FLUSH_BYTES:
            say({"results": results, "more": True})
            results, size, since = [], 0, now
    say({"results": results})


def _script(environment: Environment, message: dict[str, Any], say: Callable[[Any], None]) -> None:
    """Run operations in order, one answer each; unless told to go on, the first fault ends the script."""
    for operation in message["operations"]:
        name = operation[0]
        call = {"load": "the program", "reset": f"reset(seed={operation[-1]})"}.get(name, f"{name}()")
        try:
            if name == "load":
                say(environment.load())
            elif name == "reset":
                say(environment.reset(operation[1]))
            elif name == "solution":
                say(environment.solution())
            else:
                _steps(environment, environment.actions(operation), message["flush_seconds"], say)
        except BaseException as error:
            kind, text = _as_fault(error, call)
            say({"fault": kind, "message": text})
            if not message["go_on"]:
                return


def _limit(which: int, value: int, more: int = 0) -> None:
    hard = resource.getrlimit(which)[1]
    most = value + more if hard == resource.RLIM_INFINITY else min(value + more, hard)
    resource.setrlimit(which, (min(value, most), most))


def _confine(folder: str, user: int | None, limits: dict[str, Any]) -> None:
    """Give up everything that the source must not have."""
    os.setsid()
    os.mkdir(folder, 0o700)
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    if user is not None:
        os.chown(folder, user, user)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    _die_with_parent(limits)
    os.chdir(folder)
    os.environ["TMPDIR"] = os.environ["HOME"] = folder
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, int(limits["file_mb"]) * MIB)
    _limit(resource.RLIMIT_NOFILE, int(limits["files"]))
    _limit(resource.RLIMIT_NPROC, int(limits["processes"]))
    # A second before the kill comes a signal that says why.
    _limit(resource.RLIMIT_CPU, int(limits["cpu_seconds"]), more=1)
    _limit(resource.RLIMIT_AS, int(limits["memory_mb"]) * MIB)


def _die_with_parent(limits: dict[str, Any]) -> None:
    # Inside gVisor or bubblewrap the end of the zygote ends everything; a plain process must ask for it.
    if limits["die_with_parent"]:
        import ctypes

        libc = ctypes.CDLL(None)
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS


def _work(sock: _socket.socket, environment: Environment) -> None:
    while True:
        sequence, nonce, message = receive(sock)

        def say(answer: Any, sequence: int = sequence, nonce: int = nonce) -> None:
            send(sock, sequence, nonce, answer)

        _script(environment, message, say)


# --- the zygote ---------------------------------------------------------------------------------------------------


class Zygote:
    """Holds one compiled source and forks its workers."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._control = _connect(path)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._limits: dict[str, Any] = {}
        self._tmp = "/tmp"
        self._proc = "/proc"
        self._separate_users = False
        self._environment: Environment | None = None
        # Process of every live worker by user, which is also its name towards the host.
        self._workers: dict[int, int] = {}
        self._dead: list[int] = []

    def serve(self) -> None:
        """Answer the host until it hangs up."""
        self._say({"ready": sys.version.split()[0]})
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._wake_read:
                    self._woken()
                else:
                    try:
                        message = receive(self._control)[2]
                    except EOFError:
                        return
                    getattr(self, "do_" + message["do"])(message)

    def _say(self, message: dict[str, Any]) -> None:
        send(self._control, 0, 0, message)

    def do_configure(self, message: dict[str, Any]) -> None:
        """Take the limits that hold for all workers."""
        self._limits = message["limits"]
        self._separate_users = message["separate_users"]
        self._tmp = message["tmp"]
        self._proc = message["proc"]
        _die_with_parent(self._limits)
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
            self._randomise()
            code = compile(message["source"], FILENAME, "exec", dont_inherit=True)
            self._environment = Environment(code, message["class_name"], injected, self._limits)
        except Exception as error:
            self._say({"loaded": False, "message": f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT]})
            return
        gc.collect()
        gc.freeze()
        self._say({"loaded": True})

    def _randomise(self) -> None:
        """Seed numpy's global generator, whose state forked workers would share; ``random`` reseeds itself."""
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed()

    def do_spawn(self, message: dict[str, Any]) -> None:
        """Fork workers; each says hello on a connection of its own."""
        for user, token in message["workers"]:
            try:
                pid = os.fork()
            except OSError as error:
                self._say({"lost": user, "message": f"cannot fork: {error}"})
                continue
            if pid == 0:
                self._become_worker(user, token)
            self._workers[user] = pid

    def do_kill(self, message: dict[str, Any]) -> None:
        """End workers with everything that they started."""
        for user in message["workers"]:
            pid = self._workers.get(user)
            if pid is not None:
                for target in (-pid, pid):
                    try:
                        os.kill(target, signal.SIGKILL)
                    except OSError:
                        pass

    def _woken(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            pass
        self._reap()

    def _reap(self) -> None:
        names = {pid: user for user, pid in self._workers.items()}
        ended = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            user = names.get(pid)
            if user is not None:
                ended = True
                del self._workers[user]
                self._say({"exit": user, "status": os.waitstatus_to_exitcode(status)})
                _remove(f"{self._tmp}/{user}")
        if ended:
            self._kill_strays()

    def _kill_strays(self) -> None:
        """Kill what dead workers left running: processes of users that no live worker has."""
        if not self._separate_users:
            return
        known = set(self._workers.values()) | {os.getpid()}
        for _ in range(100):
            strays = []
            for name in os.listdir(self._proc):
                if name.isdigit() and int(name) not in known:
                    try:
                        owner = os.stat(f"{self._proc}/{name}").st_uid
                    except OSError:
                        continue
                    if self._owned(owner) and owner not in self._workers:
                        strays.append(int(name))
            if not strays:
                return
            for pid in strays:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
                try:
                    os.waitpid(pid, 0)
                except ChildProcessError:
                    pass
        os._exit(70)  # Cannot be held: the end of the zygote ends the sandbox with all that runs in it.

    def _owned(self, owner: int) -> bool:
        first = int(self._limits["first_user"])
        return first <= owner < first + int(self._limits["users"])

    def _become_worker(self, user: int, token: str) -> None:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._control.close()
            environment = self._environment
            if environment is None:
                os._exit(64)
            sock = _connect(self._path)
            send(sock, 0, 0, {"hello": token})
            _confine(f"{self._tmp}/{user}", user if self._separate_users else None, self._limits)
            self._randomise()
            _work(sock, environment)
        except EOFError:
            os._exit(0)
        except BaseException:
            os._exit(65)


def _remove(folder: str) -> None:
    """Delete a folder and what is in it, whatever its owner did to it, without following links."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _remove(entry.path)
                else:
                    os.unlink(entry.path)
        os.rmdir(folder)
    except (OSError, RecursionError):
        pass  # The directory is bounded in size and goes with the sandbox.


if __name__ == "__main__":
    Zygote(sys.argv[1]).serve()
