"""A coordinator as a release has it: a real one, over a finished run, with a real memory service."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from spade_rl.certificates import issue, make_authority
from spade_rl.cli.main import app
from spade_rl.config import Endpoints, RunConfig, TlsSection
from spade_rl.config_files import load_config
from spade_rl.coordinator.server import serve as serve_coordinator
from spade_rl.memory.server import serve as serve_memory

# The runs that the report's tests are made of; test folders are no packages, so the module is loaded by its path.
_spec = importlib.util.spec_from_file_location(
    "synthetic_runs", Path(__file__).parent.parent / "report" / "conftest.py"
)
assert _spec is not None
assert _spec.loader is not None
_runs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_runs)
make_run = _runs.make_run
finished_run = _runs.finished_run

NUMBERS = itertools.count()
START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Served:
    """A coordinator that answers at ``address``; ``tls`` holds the client's certificate."""

    address: str
    folder: Path
    tls: Path


def write_pair(folder: Path, authority: Any, name: str, hosts: list[str], *, client: bool) -> Path:
    folder.mkdir(parents=True)
    pair = issue(authority, name=name, hosts=hosts, client=client, days=2)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    (folder / "ca.crt").write_bytes(authority.certificate)
    return folder


@pytest.fixture
def certificates(tmp_path: Path) -> Callable[[str], Path]:
    """Make an authority of a name with a server's and a client's certificate; returns their folder."""

    def make(name: str) -> Path:
        folder = tmp_path / name
        authority = make_authority(name, days=2)
        write_pair(folder / "server", authority, "coordinator", ["spade-coordinator.lab.svc", "127.0.0.1"], client=True)
        write_pair(folder / "client", authority, "client", ["client"], client=True)
        return folder

    return make


class Background:
    """Real services on an event loop in a thread of its own, so that the command line can have the main one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(START_SECONDS)

    def enter(self, context: Any) -> Any:
        return self.run(self._stack.enter_async_context(context))

    def close(self) -> None:
        self.run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)


@pytest.fixture
def background() -> Iterator[Background]:
    made = Background()
    yield made
    made.close()


@pytest.fixture
def release(finished_run: Any, tmp_path: Path) -> Path:
    """A release's folder: the run's account under ``runs``, its archive where the memory service keeps it."""
    folder = tmp_path / "release"
    (folder / "runs").mkdir(parents=True)
    for name in ("memory.sqlite", "trajectories"):
        shutil.move(finished_run.run_dir / name, folder / name)
    shutil.move(finished_run.run_dir, folder / "runs" / "demo")
    return folder


def own_config(endpoints: Endpoints, tls: TlsSection) -> RunConfig:
    config = load_config(preset="quickstart", overrides=["run.start=false"])
    return config.model_copy(update={"endpoints": endpoints, "tls": tls})


@pytest.fixture
def serve(
    background: Background, release: Path, tmp_path: Path, certificates: Callable[[str], Path]
) -> Callable[..., Served]:
    """Serve a coordinator over the release's folder, with ``mutual`` certificates or in plain."""

    def start(*, mutual: bool = False, address: str | None = None) -> Served:
        number = next(NUMBERS)
        sockets = tmp_path / f"s{number}"
        sockets.mkdir()
        memory = f"unix:{sockets}/m"
        # Only memory is called: everything else that a run would need is named, and not there.
        endpoints = Endpoints(
            **dict.fromkeys(Endpoints.model_fields, f"unix:{sockets}/none"),
        )
        endpoints = endpoints.model_copy(update={"memory": memory})
        folder = certificates(f"authority-{number}")
        tls = TlsSection(mode="mutual", folder=str(folder / "server")) if mutual else TlsSection()
        config = own_config(endpoints, tls)
        background.enter(serve_memory(config, run_dir=release, address=memory, endpoints=endpoints))
        address = address or ("127.0.0.1:0" if mutual else f"unix:{sockets}/c")
        server = background.enter(serve_coordinator(config, run_dir=release, address=address, endpoints=endpoints))
        return Served(f"127.0.0.1:{server.port}" if mutual else address, release, folder / "client")

    return start


@pytest.fixture
def spade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command in ``tmp_path``, in this process."""
    monkeypatch.chdir(tmp_path)
    for name in ("DEBUG", "RUNS_DIR", "CONTEXT", "NAMESPACE", "RELEASE", "COORDINATOR", "TLS"):
        monkeypatch.delenv(f"SPADE_{name}", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def as_json() -> Callable[[str], Any]:
    """Read the last line of an output as one JSON object."""
    return lambda output: json.loads(output.splitlines()[-1])
