"""Mutual TLS: who is let in, which names count, and certificates that change while a server runs."""

from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from spade_rl.certificates import issue, make_authority, still_good
from spade_rl.config import TlsSection
from spade_rl.errors import ConfigurationError
from spade_rl.rpc import Server, answering_probes, open_channel
from spade_rl.transport import is_local

SECONDS = 10


@pytest.fixture(scope="module")
def authority():
    return make_authority("test", days=2)


def write(folder, authority, *, hosts=("localhost",), client=True, trusted=None):
    """Write a folder as a secret mounts it; returns the section that names it."""
    folder.mkdir(exist_ok=True)
    pair = issue(authority, name=folder.name, hosts=hosts, client=client, days=1)
    for name, data in (
        ("tls.crt", pair.certificate),
        ("tls.key", pair.key),
        ("ca.crt", (trusted or authority).certificate),
    ):
        renewed = folder / f".{name}"
        renewed.write_bytes(data)
        renewed.replace(folder / name)
    return TlsSection(mode="mutual", folder=str(folder))


@asynccontextmanager
async def served(tls):
    server = Server(address="127.0.0.1:0", services=["a"], register=lambda _: None, tls=tls)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0)


async def check(channel):
    async with channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service="a"), timeout=SECONDS, wait_for_ready=False
        )
    return answer.status == health_pb2.HealthCheckResponse.SERVING


async def refused(channel):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await check(channel)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    return caught.value.details()


async def test_a_known_client_is_let_in(tmp_path, authority):
    async with served(write(tmp_path / "server", authority)) as server:
        assert await check(open_channel(f"localhost:{server.port}", write(tmp_path / "client", authority)))


async def test_others_are_refused(tmp_path, authority):
    other = make_authority("other", days=2)
    tls = write(tmp_path / "server", authority)
    async with served(tls) as server:
        target = f"localhost:{server.port}"
        await refused(grpc.aio.insecure_channel(target))
        root = grpc.ssl_channel_credentials(authority.certificate)
        await refused(grpc.aio.secure_channel(target, root))
        await refused(open_channel(target, write(tmp_path / "foreign", other, trusted=authority)))
        await refused(open_channel(target, write(tmp_path / "server-only", authority, client=False)))


async def test_a_server_that_cannot_prove_its_name_is_refused(tmp_path, authority):
    client = write(tmp_path / "client", authority)
    other = make_authority("other", days=2)
    async with served(write(tmp_path / "elsewhere", authority, hosts=["memory.other.svc"])) as server:
        await refused(open_channel(f"localhost:{server.port}", client))
    async with served(write(tmp_path / "foreign", other, trusted=authority)) as server:
        await refused(open_channel(f"localhost:{server.port}", client))


async def test_renewed_certificates_are_taken_without_a_restart(tmp_path, authority):
    server_tls, client_tls = write(tmp_path / "server", authority), write(tmp_path / "client", authority)
    async with served(server_tls) as server, open_channel(f"localhost:{server.port}", client_tls) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="a")
        await stub.Check(request, timeout=SECONDS)
        # Another authority: whoever still shows or trusts the old one is refused.
        new = make_authority("new", days=2)
        write(tmp_path / "server", new)
        await refused(open_channel(f"localhost:{server.port}", write(tmp_path / "old", authority)))
        write(tmp_path / "client", new)
        await stub.Check(request, timeout=SECONDS)


async def test_probes_are_answered_in_plain_and_nothing_else_is(tmp_path, authority):
    async with served(write(tmp_path / "server", authority)) as server, answering_probes(server, "127.0.0.1:0") as port:
        assert await check(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/spade_rl.v1.MemoryService/Record")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(b"", timeout=SECONDS)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("unix:/tmp/s", True),
        ("127.0.0.1:7001", True),
        ("[::1]:7001", True),
        ("localhost:7001", True),
        ("dns:///localhost:7001", True),
        ("0.0.0.0:7001", False),
        ("[::]:7001", False),
        ("dns:///spade-memory:7001", False),
        ("10.0.0.1:7001", False),
    ],
)
def test_what_is_local(address, local):
    assert is_local(address) is local


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
async def test_without_certificates_nothing_listens_beyond_the_machine(address):
    with pytest.raises(ConfigurationError, match=r"tls\.mode"):
        Server(address=address, services=[], register=lambda _: None)
    with pytest.raises(ConfigurationError, match=r"tls\.mode"):
        open_channel("dns:///spade-memory:7001")
    server = Server(address=address, services=[], register=lambda _: None, tls=TlsSection(mode="off"))
    await server.start()
    await server.stop(0)


async def test_missing_files_are_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"tls\.folder.*tls\.key"):
        Server(
            address="127.0.0.1:0",
            services=[],
            register=lambda _: None,
            tls=TlsSection(mode="mutual", folder=str(tmp_path)),
        )


def test_what_is_still_good(authority):
    pair = issue(authority, name="memory", hosts=["a", "127.0.0.1"], client=False, days=10)
    good = {"hosts": ["127.0.0.1", "a"], "client": False, "days": 5.0}
    assert still_good(pair.certificate, authority.certificate, **good)
    for change in ({"hosts": ["a"]}, {"client": True}, {"days": 11.0}):
        assert not still_good(pair.certificate, authority.certificate, **{**good, **change})
    assert not still_good(pair.certificate, make_authority("test", days=2).certificate, **good)
    assert not still_good(b"", authority.certificate, **good)
