"""One cycle of self-play: design, play, score, learn, record.

Read ``run_cycle`` from top to bottom: it is the algorithm (SPADE, arXiv 2608.19197). What a cycle decides is computed
by the pure functions of ``schedule`` and ``samples``; what it does, the services do.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from spade_rl.config import RunConfig
from spade_rl.coordinator import samples
from spade_rl.coordinator.clients import Services
from spade_rl.coordinator.events import EventLog
from spade_rl.coordinator.figures import cycle_figures, with_cycle
from spade_rl.coordinator.schedule import after_plays, closes_set, moved_averages, opens_set, slot_skills
from spade_rl.coordinator.state import LiveEnvironment, RunState
from spade_rl.errors import EngineError, SpadeError
from spade_rl.v1 import designer_pb2, learner_pb2, memory_pb2, regret_pb2


@dataclass(frozen=True, slots=True)
class Context:
    """What a cycle works with."""

    config: RunConfig
    services: Services
    events: EventLog


class Stopwatch:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Around a stage."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start


async def run_cycle(context: Context, state: RunState) -> tuple[RunState, dict[str, Any]]:
    """Run the next cycle; returns the state after it and its figures."""
    config, services = context.config, context.services
    watch = Stopwatch()
    engine_before = await services.engine()
    _check_policy([engine_before.policy_version], state)
    started = time.monotonic()
    cycle, first = state.cycle, opens_set(state)

    slots: list[designer_pb2.DesignedSlot] = []
    if first:
        with watch.stage("design"):
            slots, cursor = await _design(context, state)
        live = tuple(
            LiveEnvironment(environment=slot.environment, attempt=slot.attempts[-1])
            for slot in slots
            if slot.HasField("environment")
        )
        refused = tuple(
            attempt for slot in slots for attempt in slot.attempts[: -1 if slot.HasField("environment") else None]
        )
        state = replace(
            state,
            live=live,
            refused=refused,
            grounding_cursor=cursor,
            sets=state.sets + 1,
            empty_sets=0 if live else state.empty_sets + 1,
        )

    with watch.stage("play"):
        evaluations = await _play(context, state, hinted=first)
    _check_policy(samples.policy_versions(evaluations.values()), state)
    live = tuple(_played(one, evaluations.get(one.digest), measured=first) for one in state.live)
    age = state.age + 1
    closed = closes_set(live, age, config.regret.window)

    rewards: dict[str, float] = {}
    averages = state.skill_averages
    if closed and live:
        with watch.stage("score"):
            rewards = await _score(context, live, averages)
        averages = moved_averages(averages, live)

    batch = samples.agent_samples(evaluations.values(), cycle)
    if closed and config.designer.trained:
        batch += samples.designer_samples(live, rewards, state.refused, config.designer.invalid_reward)
    version, updates, learner = await _learn(context, state, batch, watch)

    with watch.stage("record"):
        await services.record(
            memory_pb2.RecordRequest(
                run_id=state.run_id,
                cycle=cycle,
                attempts=[attempt for slot in slots for attempt in slot.attempts],
                environments=[one.environment for one in live] if first else [],
                trajectories=[
                    trajectory
                    for evaluation in evaluations.values()
                    for trajectory in (*evaluation.trajectories, *evaluation.void_trajectories)
                ],
                statistics=[samples.statistics(one, rewards.get(one.digest), closed=closed) for one in live],
            )
        )
    engine_after = await services.engine()
    figures = cycle_figures(
        slots=slots,
        live=live,
        evaluations=evaluations,
        rewards=rewards,
        learner=learner,
        seconds=watch.seconds,
        engine_busy_share=(engine_after.busy_seconds - engine_before.busy_seconds) / (time.monotonic() - started),
    )
    after = replace(
        state,
        cycle=cycle + 1,
        policy_version=version,
        updates=updates,
        age=0 if closed else age,
        live=() if closed else live,
        refused=() if closed else state.refused,
        skill_averages=averages,
        figures=with_cycle(state.figures, slots, live, measured=first),
    )
    return after, {"cycle": cycle, "window_first": first, "policy_version": version, **figures}


async def flush(context: Context, state: RunState) -> RunState:
    """Close a set whose window the run's end cut short: its designs are rewarded for the plays there were."""
    if not state.live or not any(one.plain for one in state.live):
        return state
    rewards = await _score(context, state.live, state.skill_averages)
    version, updates = state.policy_version, state.updates
    if context.config.designer.trained:
        batch = samples.designer_samples(state.live, rewards, state.refused, context.config.designer.invalid_reward)
        version, updates, _ = await _learn(context, state, batch, Stopwatch())
    await context.services.record(
        memory_pb2.RecordRequest(
            run_id=state.run_id,
            cycle=max(0, state.cycle - 1),
            statistics=[samples.statistics(one, rewards.get(one.digest), closed=True) for one in state.live],
        )
    )
    return replace(
        state,
        policy_version=version,
        updates=updates,
        age=0,
        live=(),
        refused=(),
        skill_averages=moved_averages(state.skill_averages, state.live),
    )


def _check_policy(versions: Iterable[int], state: RunState) -> None:
    """Refuse what another version sampled: an engine that was started anew holds the starting policy."""
    others = set(versions) - {state.policy_version}
    if others:
        raise EngineError(
            f"the engine sampled from policy version {min(others)} while the run is at {state.policy_version}"
        )


async def _design(context: Context, state: RunState) -> tuple[list[designer_pb2.DesignedSlot], str]:
    designer = context.config.designer
    skills = slot_skills(designer.skills, designer.active_skills, designer.environments, state.sets)
    request = designer_pb2.DesignRequest(
        run_id=state.run_id,
        run_seed=context.config.run.seed,
        cycle=state.cycle,
        skills=skills,
        grounding_cursor=state.grounding_cursor,
    )
    slots, cursor = await context.services.design(
        request,
        lambda done: context.events.progress(cycle=state.cycle, stage="design", done=done, total=len(skills)),
    )
    if len(slots) != len(skills):
        raise SpadeError(f"the designer service answered {len(slots)} of {len(skills)} slots")
    return slots, cursor


async def _play(context: Context, state: RunState, *, hinted: bool) -> dict[str, regret_pb2.EvaluateResponse]:
    playable = [one.environment for one in state.live if not one.quarantine_reason]
    if not playable:
        return {}
    request = regret_pb2.EvaluateRequest(
        run_id=state.run_id,
        environments=playable,
        plays=context.config.regret.plays,
        hinted=hinted,
        run_seed=context.config.run.seed,
        cycle=state.cycle,
    )
    evaluations = await context.services.evaluate(
        request,
        lambda done: context.events.progress(cycle=state.cycle, stage="play", done=done, total=len(playable)),
    )
    if len(evaluations) != len(playable):
        raise SpadeError(f"the regret service evaluated {len(evaluations)} of {len(playable)} environments")
    return evaluations


def _played(one: LiveEnvironment, evaluation: regret_pb2.EvaluateResponse | None, *, measured: bool) -> LiveEnvironment:
    if evaluation is None:
        return one
    return after_plays(
        one,
        plain=samples.returns(evaluation, hinted=False),
        hinted=samples.returns(evaluation, hinted=True),
        regret=(evaluation.regret, evaluation.regret_standard_error) if measured and evaluation.pairs else None,
        void_episodes=evaluation.void_episodes,
        quarantine_reason=evaluation.quarantine_reason,
    )


async def _score(context: Context, live: Sequence[LiveEnvironment], averages: dict[str, float]) -> dict[str, float]:
    inputs = [
        regret_pb2.EnvironmentScoreInput(
            digest=one.digest,
            mean_return=one.mean_return,
            regret=one.regret,
            skill_average=averages.get(one.environment.skill, one.mean_return),
            quarantined=bool(one.quarantine_reason),
        )
        for one in live
    ]
    rewards = await context.services.score(regret_pb2.ScoreRequest(inputs=inputs, variant=context.config.regret.reward))
    return {one.digest: reward for one, reward in zip(live, rewards, strict=True)}


async def _learn(
    context: Context, state: RunState, batch: list[learner_pb2.Sample], watch: Stopwatch
) -> tuple[int, int, dict[str, float]]:
    """Return the version that the engine samples from now, the updates so far, and the learner's metrics."""
    if not batch:
        return state.policy_version, state.updates, {}
    context.events.progress(cycle=state.cycle, stage="learn", done=0, total=1)
    with watch.stage("learn"):
        response = await context.services.train(state.updates, batch, seed=context.config.run.seed)
    with watch.stage("publish"):
        await context.services.load_version(response.policy_version, response.uri)
    return response.policy_version, state.updates + 1, dict(response.metrics)
