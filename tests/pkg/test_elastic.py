"""A service that scales from none and back, found by name through a real name server.

The name server is ours, the resolver and everything else gRPC's. Kubernetes answers the same for a headless Service:
the addresses of its pods, or that there is no such name.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import asynccontextmanager, suppress

import grpc
import pytest

from spade_rl import elastic
from spade_rl.config import TlsSection
from spade_rl.elastic import ElasticChannel
from spade_rl.errors import UnavailableError
from spade_rl.rpc import Server, calling, open_channel
from spade_rl.v1 import regret_pb2, regret_pb2_grpc

PLAIN = TlsSection(mode="off")
REQUEST = regret_pb2.ScoreRequest(inputs=[regret_pb2.EnvironmentScoreInput(digest="a" * 64)], variant="blend")
SECONDS = 30


class NameServer(asyncio.DatagramProtocol):
    """Answers every question for an address with ``addresses``, or that the name does not exist."""

    def __init__(self):
        self.addresses: list[str] = []
        self.asked = 0

    def connection_made(self, transport):
        self.transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data, peer):
        self.asked += 1
        end = 12
        while data[end]:
            end += data[end] + 1
        question = data[12 : end + 5]
        (kind,) = struct.unpack(">H", data[end + 1 : end + 3])
        answers = self.addresses if kind == 1 else []
        flags = 0x8180 | (0 if self.addresses else 3)
        reply = data[:2] + struct.pack(">HHHHH", flags, 1, len(answers), 0, 0) + question
        for address in answers:
            reply += b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + bytes(map(int, address.split(".")))
        self.transport.sendto(reply, peer)


class Scorer(regret_pb2_grpc.RegretServiceServicer):
    """Answers with its own number; counts its calls."""

    def __init__(self, number):
        self.number, self.calls = number, 0
        self.held = asyncio.Event()
        self.held.set()

    async def Score(self, request, context):
        self.calls += 1
        await self.held.wait()
        return regret_pb2.ScoreResponse(rewards=[self.number])


@asynccontextmanager
async def pod(address, port, number):
    scorer = Scorer(number)
    server = Server(
        address=f"{address}:{port}",
        services=[],
        register=lambda s: regret_pb2_grpc.add_RegretServiceServicer_to_server(scorer, s),
    )
    await server.start()
    scorer.port, scorer.server = server.port, server
    try:
        yield scorer
    finally:
        await server.stop(0)


@pytest.fixture
async def names():
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        NameServer, local_addr=("127.0.0.1", 0)
    )
    yield server
    transport.close()


@pytest.fixture
async def port():
    """Return a port that nobody uses."""
    async with pod("127.0.0.1", 0, 0) as once:
        return once.port


def channel(names, port, seconds=SECONDS):
    address = f"dns://127.0.0.1:{names.port}/spade-sandbox.test:{port}"
    return ElasticChannel(address, PLAIN, service="sandbox", reachable_seconds=seconds, call_seconds=SECONDS)


async def ask(ready):
    stub = regret_pb2_grpc.RegretServiceStub(await ready.ready())
    async with calling("sandbox"):
        return (await stub.Score(REQUEST, timeout=SECONDS)).rewards[0]


async def patiently(ready):
    """Ask again while the service goes away under the call, as agent and designer do."""
    while True:
        with suppress(UnavailableError):
            return await ask(ready)
        await asyncio.sleep(0.05)


async def until(holds):
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 - what is waited for is gRPC's, which tells nobody
            await asyncio.sleep(0.05)


async def test_a_call_waits_for_the_first_pod(names, port):
    async with channel(names, port) as elastic_channel:
        waiting = [asyncio.create_task(ask(elastic_channel)) for _ in range(20)]
        await until(lambda: names.asked >= 4)
        names.addresses = ["127.0.0.1"]
        async with pod("127.0.0.1", port, 7) as served, asyncio.timeout(SECONDS):
            assert await asyncio.gather(*waiting) == [7] * 20
            assert served.calls == 20


async def test_nobody_for_too_long_is_told_with_the_address(names, port):
    async with channel(names, port, seconds=0.5) as elastic_channel:
        with pytest.raises(UnavailableError, match=rf"no sandbox service answered at dns:.*:{port} within 0.5 s"):
            await elastic_channel.ready()


async def test_pods_that_go_and_others_that_come_elsewhere(names, port):
    async with channel(names, port) as elastic_channel, asyncio.timeout(SECONDS):
        names.addresses = ["127.0.0.1"]
        async with pod("127.0.0.1", port, 1):
            assert await ask(elastic_channel) == 1
        names.addresses = []
        waiting = asyncio.create_task(patiently(elastic_channel))
        seen = names.asked
        await until(lambda: names.asked > seen)
        assert not waiting.done()
        names.addresses = ["127.0.0.2"]
        async with pod("127.0.0.2", port, 2):
            assert await waiting == 2


async def test_pods_that_are_added_get_calls_too(names, port, monkeypatch):
    monkeypatch.setattr(elastic, "REFRESH_SECONDS", 0.1)
    async with channel(names, port) as elastic_channel, pod("127.0.0.1", port, 1), asyncio.timeout(SECONDS):
        names.addresses = ["127.0.0.1"]
        assert await ask(elastic_channel) == 1
        async with pod("127.0.0.3", port, 3):
            names.addresses = ["127.0.0.1", "127.0.0.3"]
            while await ask(elastic_channel) != 3:
                pass


async def test_a_call_ends_on_the_channel_that_it_began_on(names, port, monkeypatch):
    monkeypatch.setattr(elastic, "REFRESH_SECONDS", 0.1)
    names.addresses = ["127.0.0.1"]
    async with channel(names, port) as elastic_channel, pod("127.0.0.1", port, 1) as served, asyncio.timeout(SECONDS):
        first = await elastic_channel.ready()
        served.held.clear()
        held = asyncio.create_task(ask(elastic_channel))
        await until(lambda: served.calls)
        while await elastic_channel.ready() is first:  # noqa: ASYNC110 - asking is what exchanges it
            await asyncio.sleep(0)
        served.held.set()
        assert await held == 1


async def test_within_one_process_there_is_nothing_to_wait_for(tmp_path):
    async with ElasticChannel(
        f"unix:{tmp_path}/nobody", service="sandbox", reachable_seconds=SECONDS, call_seconds=SECONDS
    ) as fixed:
        assert await fixed.ready() is await fixed.ready()
        with pytest.raises(UnavailableError):
            await ask(fixed)
    assert grpc.StatusCode.UNAVAILABLE is UnavailableError.code


async def test_an_ordinary_call_waits_too_before_its_name_resolves(names, port):
    address = f"dns://127.0.0.1:{names.port}/spade-regret.test:{port}"
    async with open_channel(address, PLAIN) as plain:
        stub = regret_pb2_grpc.RegretServiceStub(plain)
        call = asyncio.ensure_future(stub.Score(REQUEST, timeout=SECONDS))
        # The name was asked for and is not there: a call that does not wait has failed by now.
        await until(lambda: names.asked >= 4)
        assert not call.done()
        names.addresses = ["127.0.0.1"]
        async with pod("127.0.0.1", port, 7), asyncio.timeout(SECONDS):
            assert list((await call).rewards) == [7]
