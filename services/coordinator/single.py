"""The one run of a process that holds all services: it can be watched and stopped from outside, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator

from spade_rl.config import RunConfig
from spade_rl.coordinator.artifacts import Artifact
from spade_rl.coordinator.desk import Status, of_run
from spade_rl.coordinator.run import Run
from spade_rl.errors import ConfigurationError


class SingleRun:
    """See ``server.Runs``."""

    def __init__(self, run: Run, folder: str) -> None:
        self._run, self._folder = run, folder

    @property
    def config(self) -> RunConfig:
        """What the services were started with: the run's own."""
        return self._run.config

    def resolve(self, run_id: str) -> str:
        """Return the run's identifier; ConfigurationError for any other."""
        mine = self._run.state.run_id
        if run_id not in ("", mine):
            raise ConfigurationError(f"there is no run {run_id!r} here; there is {mine}")
        return mine

    def status(self, run_id: str) -> Status:
        """Return how it goes."""
        self.resolve(run_id)
        return of_run(self._run)

    def statuses(self) -> list[Status]:
        """Return how it goes."""
        return [of_run(self._run)]

    async def watch(self, run_id: str, first: int) -> AsyncIterator[tuple[int, str]]:
        """Yield its events."""
        self.resolve(run_id)
        async for number, line in self._run.events.watch(first):
            yield number, line

    async def stop(self, run_id: str) -> Status:
        """Have it stop after its cycle."""
        self.resolve(run_id)
        self._run.stop()
        return of_run(self._run)

    async def start(self, run_id: str, text: str) -> Status:  # noqa: ARG002 - see Runs
        """Refuse: the process ends with its run."""
        raise ConfigurationError(f"this process runs {self._run.state.run_id} and ends with it; use `spade train`")

    async def resume(self, run_id: str) -> Status:
        """Return how it goes: it runs for as long as there is somebody to ask."""
        return self.status(run_id)

    async def refresh(self, run_id: str, *, weights: bool) -> tuple[Artifact, ...]:  # noqa: ARG002 - see Runs
        """Refuse: the files lie where the process runs."""
        raise ConfigurationError(f"the files of {self.resolve(run_id)} lie on its own machine, in {self._folder}")

    async def read(self, run_id: str, path: str, sha256: str, offset: int) -> AsyncIterator[bytes]:  # noqa: ARG002 - see Runs
        """Refuse as ``refresh`` does."""
        await self.refresh(run_id, weights=False)
        yield b""
