"""A way through the API server to a port of a pod: a Unix socket here, a port-forward for every connection to it.

The socket lies in a folder that only this user can enter. A connection finds the pod anew, so that one which was made
after the pod was replaced reaches the new one. Why the last connection could not be made, or broke, is ``trouble``.
"""

from __future__ import annotations

import select
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from spade_rl.cluster.kube import TIMEOUT, Connection, upgrading
from spade_rl.cluster.pods import CoordinatorPod
from spade_rl.errors import SpadeError, UnavailableError

_CHUNK = 1 << 16
_POLL_SECONDS = 0.5


class Tunnel:
    """Relays connections to ``address`` for as long as it is open."""

    def __init__(
        self, find: Callable[[], CoordinatorPod], forward: Callable[[CoordinatorPod], Forward], folder: Path
    ) -> None:
        self._find, self._forward = find, forward
        self._path = folder / "coordinator"
        self.address = f"unix:{self._path}"
        self.trouble: SpadeError | None = None
        self._closed = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(8)
        self._listener.settimeout(_POLL_SECONDS)
        threading.Thread(target=self._accept, name="tunnel", daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that are open end."""
        self._closed.set()
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                near, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), name="tunnel connection", daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near:
            try:
                forward = self._forward(self._find())
            except SpadeError as error:
                self.trouble = error
                return
            try:
                self.trouble = None
                _relay(near, forward.socket, self._closed)
            except OSError as error:
                self.trouble = UnavailableError(f"the connection through the cluster's API server broke: {error}")
            else:
                if problem := forward.problem():
                    self.trouble = UnavailableError(f"the cluster could not reach the coordinator's port: {problem}")
            finally:
                forward.close()


class Forward:
    """One port-forward: its socket, and what the cluster said when it failed."""

    def __init__(self, forward: Any, port: int) -> None:
        self._forward, self._port = forward, port
        # The client wraps a plain socket in a class of its own.
        self.socket: socket.socket = forward.socket(port)

    def problem(self) -> str:
        """Return the cluster's message, "" if there is none."""
        return " ".join(str(self._forward.error(self._port) or "").split())[:300]

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._forward.close()


def port_forward(connection: Connection) -> Callable[[CoordinatorPod], Forward]:
    """Return what opens a port-forward to a pod."""
    from kubernetes import client
    from kubernetes.stream import portforward

    def forward(pod: CoordinatorPod) -> Forward:
        # A client of its own: the library changes it while it connects.
        core = client.CoreV1Api(client.ApiClient(configuration=connection.api.configuration))
        with upgrading(
            f"connect to the pod {pod.name}", right=f"get and create pods/portforward in the namespace {pod.namespace}"
        ):
            opened = portforward(
                core.connect_get_namespaced_pod_portforward,
                pod.name,
                pod.namespace,
                ports=str(pod.port),
                _request_timeout=TIMEOUT,
            )
        return Forward(opened, pod.port)

    return forward


def _relay(near: socket.socket, far: socket.socket, closed: threading.Event) -> None:
    """Carry bytes both ways until one side ends or the tunnel is closed. Raises OSError if the far one breaks.

    The near one is a client of this machine: that it hangs up, however rudely, is no trouble of the way.
    """
    while not closed.is_set():
        readable, _, _ = select.select([near, far], [], [], _POLL_SECONDS)
        if near in readable:
            try:
                data = near.recv(_CHUNK)
            except ConnectionError:
                return
            if not data:
                return
            far.sendall(data)
        if far in readable:
            data = far.recv(_CHUNK)
            if not data:
                return
            try:
                near.sendall(data)
            except ConnectionError:
                return


@contextmanager
def opened(find: Callable[[], CoordinatorPod], forward: Callable[[CoordinatorPod], Forward]) -> Iterator[Tunnel]:
    """Around the use of a tunnel."""
    with tempfile.TemporaryDirectory(prefix="spade-tunnel-") as folder:
        tunnel = Tunnel(find, forward, Path(folder))
        try:
            yield tunnel
        finally:
            tunnel.close()
