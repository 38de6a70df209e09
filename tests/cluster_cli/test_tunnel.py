"""The way to the coordinator breaks, again and again: what is asked gets its answer all the same."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from spade_rl.cluster.certificates import from_folder
from spade_rl.cluster.coordinator import Coordinator, open_channel
from spade_rl.cluster.home import copy_home, safe_path
from spade_rl.cluster.pods import CoordinatorPod
from spade_rl.cluster.tunnel import Forward, opened
from spade_rl.errors import ConfigurationError, UnavailableError
from spade_rl.manifest import MANIFEST

POD = CoordinatorPod("c-0", "lab", 7007, "", "spade-coordinator.lab.svc")


class Link:
    """What a port-forward is to the tunnel, straight to a server; broken after ``most`` bytes from it."""

    def __init__(self, address: str, most: int | None) -> None:
        self._far, self._near = socket.socketpair()
        self._server = _connected(address)
        self._left = most
        for source, target, counted in ((self._far, self._server, False), (self._server, self._far, True)):
            threading.Thread(target=self._pump, args=(source, target, counted), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(1 << 14):
                if counted and self._left is not None:
                    if len(data) >= self._left:
                        break
                    self._left -= len(data)
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def socket(self, port: int) -> socket.socket:
        assert port == POD.port
        return self._near

    def error(self, port: int) -> str | None:
        return None

    def close(self) -> None:
        for one in (self._near, self._far, self._server):
            one.close()


def _connected(address: str) -> socket.socket:
    if address.startswith("unix:"):
        made = socket.socket(socket.AF_UNIX)
        made.connect(address.removeprefix("unix:"))
        return made
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


class Breaking:
    """Makes links that break after so many bytes, the n-th after ``limits[n]``, the rest never; counts them."""

    def __init__(self, address: str, *limits: int | None) -> None:
        self._address, self._limits, self.made = address, list(limits), 0

    def __call__(self, pod: CoordinatorPod) -> Forward:
        self.made += 1
        limit = self._limits.pop(0) if self._limits else None
        return Forward(Link(self._address, limit), pod.port)


async def test_events_go_on_where_the_connection_broke(serve: Callable[..., Any]) -> None:
    links = Breaking(serve().address, 3000, 2500)
    with opened(lambda: POD, links) as tunnel:
        async with open_channel(tunnel.address, None) as channel:
            coordinator = Coordinator(channel, name="lab", trouble=lambda: tunnel.trouble)
            assert (await coordinator.status()).events == 8
            numbers = [event.number async for event in coordinator.events("demo")]
    assert numbers == list(range(8))
    assert links.made >= 3


async def test_a_copy_goes_on_where_the_connection_broke(serve: Callable[..., Any], tmp_path: Path) -> None:
    served = serve()
    limits = [40_000] * 12
    links = Breaking(served.address, *limits)
    with opened(lambda: POD, links) as tunnel:
        async with open_channel(tunnel.address, None) as channel:
            coordinator = Coordinator(channel, name="lab", trouble=lambda: tunnel.trouble)
            copied = await copy_home(coordinator, "demo", tmp_path / "home", origin="lab")
    assert links.made > 2
    total = sum(path.stat().st_size for path in copied.folder.rglob("*") if path.name != "copy.json" and path.is_file())
    assert copied.received == total
    assert not (copied.folder / ".parts").exists()


async def test_a_copy_that_was_given_up_is_no_run_yet_and_goes_on_later(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    served = serve()
    broken = Breaking(served.address, 60_000, *[200] * 500)
    with opened(lambda: POD, broken) as tunnel:
        async with open_channel(tunnel.address, None) as channel:
            coordinator = Coordinator(channel, name="lab", trouble=lambda: tunnel.trouble, patience=1.0)
            with pytest.raises(UnavailableError):
                await copy_home(coordinator, "demo", tmp_path / "home", origin="lab", patience=1.0)
    folder = tmp_path / "home" / "demo"
    assert not (folder / MANIFEST).exists()
    kept = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "copy.json")
    assert kept > 0
    async with open_channel(served.address, None) as channel:
        copied = await copy_home(Coordinator(channel, name="lab"), "demo", tmp_path / "home", origin="lab")
    assert (folder / MANIFEST).exists()
    whole = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "copy.json")
    assert copied.received == whole - kept


async def test_a_certificate_goes_through_the_tunnel(serve: Callable[..., Any]) -> None:
    served = serve(mutual=True)
    mine = from_folder(served.tls)
    with opened(lambda: POD, Breaking(served.address)) as tunnel:
        for name, good in (("spade-coordinator.lab.svc", True), ("spade-coordinator.other.svc", False)):
            named = type(mine)(mine.key, mine.certificate, mine.authority, name)
            async with open_channel(tunnel.address, named) as channel:
                coordinator = Coordinator(channel, name="lab", trouble=lambda: tunnel.trouble, patience=0.0)
                if good:
                    assert (await coordinator.status()).run_id == "demo"
                else:
                    with pytest.raises(UnavailableError, match="certificates"):
                        await coordinator.status()


def test_a_client_that_hangs_up_rudely_is_no_trouble_of_the_way(serve: Callable[..., Any]) -> None:
    with opened(lambda: POD, Breaking(serve().address)) as tunnel:
        near = socket.socket(socket.AF_UNIX)
        near.connect(tunnel.address.removeprefix("unix:"))
        near.sendall(b"no protocol of the server's" * 100)
        # Closed with what the server answered still unread, which resets the connection.
        assert select.select([near], [], [], 10)[0]
        near.close()
        for thread in [each for each in threading.enumerate() if each.name == "tunnel connection"]:
            thread.join(10)
            assert not thread.is_alive()
        assert tunnel.trouble is None


async def test_why_there_is_no_way_is_what_is_told(serve: Callable[..., Any]) -> None:
    def nobody() -> CoordinatorPod:
        raise UnavailableError("the coordinator of x is being replaced")

    with opened(nobody, Breaking(serve().address)) as tunnel:
        async with open_channel(tunnel.address, None) as channel:
            coordinator = Coordinator(channel, name="lab", trouble=lambda: tunnel.trouble, patience=0.5)
            with pytest.raises(UnavailableError, match="being replaced"):
                await coordinator.status()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "a/../b", "", ".hidden", "a/.b", "a\\b", "x" * 600])
def test_a_file_cannot_lead_out_of_the_folder(path: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be one of a run's folder"):
        safe_path(path)


def test_files_of_a_run_may_lie_in_folders() -> None:
    assert safe_path("weights/000004/model.safetensors") == Path("weights/000004/model.safetensors")
