"""A run from its first cycle, or from its newest checkpoint, to its end.

Whatever ends it, the run's folder is whole: the last checkpoint, and in memory and in the event log nothing that came
after it or that is not in it once the run is resumed. Where services are processes of their own, the run itself goes
back to its last checkpoint when one of them failed, and goes on.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from spade_rl.config import RunConfig
from spade_rl.coordinator.checkpoint import LEARNER, newest_checkpoint, save_checkpoint
from spade_rl.coordinator.clients import Services
from spade_rl.coordinator.cycle import Context, flush, run_cycle
from spade_rl.coordinator.evaluation import evaluate
from spade_rl.coordinator.events import EventLog, Listener
from spade_rl.coordinator.figures import run_summary
from spade_rl.coordinator.metrics import RECOVERIES, RUNNING, observe_cycle
from spade_rl.coordinator.state import RunState
from spade_rl.errors import SpadeError
from spade_rl.manifest import versions
from spade_rl.telemetry import get_logger, identify
from spade_rl.tracing import span
from spade_rl.v1 import coordinator_pb2, learner_pb2

LONGEST_PAUSE_SECONDS = 15.0

_log = get_logger(__name__)


class HopelessError(SpadeError):
    """The run as it is configured cannot go on, however often it is tried."""


class Run:
    """One run. ``execute`` runs it to its end; ``stop`` ends it after the cycle in progress."""

    def __init__(
        self,
        config: RunConfig,
        services: Services,
        *,
        run_dir: Path,
        run_id: str,
        listener: Listener | None = None,
        start: Path | None = None,
    ) -> None:
        """``start`` is where the policy that runs begin from is kept, where one learner sees several runs."""
        self.config = config
        self._start = start
        self._services = services
        self._run_dir = run_dir
        self._stop = asyncio.Event()
        self.state = RunState(run_id=run_id)
        self.status = coordinator_pb2.RUN_STATE_RUNNING
        self.error = ""
        self.isolation = ""
        self.events = EventLog(run_dir / "events.jsonl", listener)

    def rewind(self) -> None:
        """Cut the event log back to where ``execute`` will begin, so that nobody who looks now takes an earlier end for this one's."""
        found = newest_checkpoint(self._run_dir / "checkpoints")
        if self.events.last().get("event") != "run_finished":
            self.events.truncate(found[1].events if found else 0)

    def stop(self) -> None:
        """Ask the run to checkpoint at the end of its cycle, and to stop."""
        self._stop.set()
        if self.status == coordinator_pb2.RUN_STATE_RUNNING:
            self.status = coordinator_pb2.RUN_STATE_STOPPING
            self.events.progress(cycle=self.state.cycle, stage="stop", done=0, total=1)

    async def execute(self, *, recoveries: int = 0) -> dict[str, Any]:
        """Go on from the newest checkpoint, or begin; return the summary at the end.

        After a failure it goes back to the checkpoint by itself, ``recoveries`` times in a row without a cycle in
        between. Raises SpadeError, with the run resumable.
        """
        RUNNING.inc()
        identify(run_id=self.state.run_id)
        try:
            failures, reached = 0, -1
            while True:
                try:
                    return await self._once()
                except HopelessError:
                    raise
                except SpadeError as error:
                    failures = 1 if self.state.cycle > reached else failures + 1
                    reached = max(reached, self.state.cycle)
                    if failures > recoveries:
                        raise
                    RECOVERIES.inc()
                    _log.warning(
                        "going back to the last checkpoint", error=f"{error.boundary}: {error}", attempt=failures
                    )
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._stop.wait(), min(LONGEST_PAUSE_SECONDS, 0.5 * 2**failures))
        except BaseException as error:
            self.status = coordinator_pb2.RUN_STATE_FAILED
            self.error = str(error) or type(error).__name__
            if isinstance(error, SpadeError):
                self.events.append("run_failed", error=f"{error.boundary}: {error}")
            raise
        finally:
            RUNNING.dec()
            self.events.close()

    async def _once(self) -> dict[str, Any]:
        found = newest_checkpoint(self._run_dir / "checkpoints")
        last = self.events.last()
        if found and last.get("event") == "run_finished":
            self.state, self.status = found[1], coordinator_pb2.RUN_STATE_FINISHED
            return dict(last["summary"])
        self.isolation = isolation = await self._services.isolation(self.config.designer.environments)
        await (self._restore(*found) if found else self._begin(isolation))
        await self._cycles()
        return await self._finish(isolation)

    async def _begin(self, isolation: str) -> None:
        """Start at cycle 0: nothing that an aborted start left behind may remain."""
        await self._services.rollback(self.state.run_id, -1)
        self.events.truncate(0)
        policy = await self._starting_policy()
        await self._services.load_version(policy.policy_version, policy.uri)
        self.events.append(
            "run_started",
            run_id=self.state.run_id,
            seed=self.config.run.seed,
            config=self.config.model_dump(mode="json"),
            isolation=isolation,
            model=self.config.model.name,
            policy_version=policy.policy_version,
            versions=versions(),
        )
        self.state = replace(self.state, policy_version=policy.policy_version)
        if self.config.evaluation.suite != "none":
            started = time.monotonic()
            before = await self._evaluate("before")
            self.state = replace(self.state, held_out_before=before, seconds=time.monotonic() - started)
        await self._checkpoint()

    async def _starting_policy(self) -> learner_pb2.GetPolicyResponse | learner_pb2.LoadCheckpointResponse:
        """Have the learner hold the starting policy, which an earlier run may have left behind."""
        policy = await self._services.policy()
        if self._start is None:
            return policy
        if policy.policy_version == 0:
            await self._services.save_learner(self._start)
            return policy
        return await self._services.load_learner(self._start)

    async def _restore(self, path: Path, state: RunState) -> None:
        """Go back to a checkpoint, in every service."""
        loaded = await self._services.load_learner(path / LEARNER)
        await self._services.load_version(loaded.policy_version, loaded.uri)
        await self._services.rollback(state.run_id, state.cycle - 1)
        self.events.truncate(state.events)
        self.state = state
        self.events.append("resumed", cycle=state.cycle, policy_version=state.policy_version)

    async def _cycles(self) -> None:
        run = self.config.run
        context = Context(self.config, self._services, self.events)
        while not self._stop.is_set() and self.state.cycle < run.cycles and not self._time_is_over():
            started = time.monotonic()
            identify(cycle=self.state.cycle)
            with span("cycle", run_id=self.state.run_id, cycle=self.state.cycle):
                self.state, figures = await run_cycle(context, self.state)
            self.state = replace(self.state, seconds=self.state.seconds + time.monotonic() - started)
            self.events.append("cycle", **figures)
            observe_cycle(figures)
            if self.state.cycle % run.checkpoint_every == 0:
                await self._checkpoint()
            if self.state.empty_sets >= run.empty_sets:
                raise HopelessError(
                    f"the designer wrote no valid environment in {self.state.empty_sets} sets in a row: the policy has lost "
                    "the role, and more cycles teach it nothing. Begin anew with a smaller learner.learning_rate or "
                    "learner.designer_weight, or with designer.invalid_reward below 0"
                )
        if self.state.cycle % run.checkpoint_every:
            await self._checkpoint()

    def _time_is_over(self) -> bool:
        minutes = self.config.run.minutes
        return minutes is not None and self.state.seconds >= 60 * minutes

    async def _finish(self, isolation: str) -> dict[str, Any]:
        if self._stop.is_set():
            self.status = coordinator_pb2.RUN_STATE_STOPPED
            summary = {**run_summary(self.state, isolation=isolation, held_out_after=None), "stopped": True}
            self.events.append("run_stopped", summary=summary)
            return summary
        started = time.monotonic()
        self.state = await flush(Context(self.config, self._services, self.events), self.state)
        after = await self._evaluate("after") if self.config.evaluation.suite != "none" else None
        self.state = replace(self.state, seconds=self.state.seconds + time.monotonic() - started)
        await self._checkpoint()
        self.status = coordinator_pb2.RUN_STATE_FINISHED
        summary = run_summary(self.state, isolation=isolation, held_out_after=after)
        self.events.append("run_finished", summary=summary)
        return summary

    async def _evaluate(self, when: str) -> dict[str, Any]:
        figures = await evaluate(
            self._services,
            suite=self.config.evaluation.suite,
            temperature=self.config.evaluation.temperature,
            cycle=self.state.cycle,
            progress=lambda done, total: self.events.progress(
                cycle=self.state.cycle, stage="evaluate", done=done, total=total
            ),
        )
        self.events.append("evaluation", when=when, policy_version=self.state.policy_version, **figures)
        return {key: figures[key] for key in ("mean", "ci95", "families")}

    async def _checkpoint(self) -> None:
        self.events.progress(cycle=self.state.cycle, stage="checkpoint", done=0, total=1)
        self.state = replace(self.state, events=len(self.events))
        await save_checkpoint(
            self._run_dir / "checkpoints",
            self.state,
            self._services.save_learner,
            self.config.run.keep_checkpoints,
        )
        self.events.append("checkpoint", cycle=self.state.cycle, policy_version=self.state.policy_version)
