"""``spade envs replay``: an environment played again in the sandbox, with its own solution or a recorded episode."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from spade_rl.cli.archive import one_environment, one_trajectory, reading
from spade_rl.cli.output import JsonOption, emit, guarded, out, shown, warn, warn_isolation
from spade_rl.cli.runs import DEFAULT_RUNS_DIR, RunOption, RunsDir, open_run
from spade_rl.cli.sandbox import IsolationOption, Sandbox, sandbox_config, served
from spade_rl.cli.turns import ShownTurn, turns
from spade_rl.config import RunConfig
from spade_rl.config_files import load_config
from spade_rl.errors import ConfigurationError, EnvironmentFault
from spade_rl.manifest import CONFIG


@dataclass(frozen=True, slots=True)
class Replay:
    """What the sandbox showed; ``differs`` names the first turn whose observation is not the recorded one."""

    seed: int
    turns: tuple[ShownTurn, ...]
    last_observation: str
    terminated: bool
    truncated: bool
    differs: int | None = None

    @property
    def episode_return(self) -> float:
        """The last reward if the environment terminated, else 0."""
        return max(-1.0, min(1.0, self.turns[-1].reward)) if self.terminated and self.turns else 0.0


async def play(
    sandbox: Sandbox, source: str, seed: int, actions: Sequence[str], recorded: Sequence[str] = ()
) -> Replay:
    """Reset on ``seed`` and take the actions until one ends the episode; ``recorded`` are the observations to expect."""
    taken: list[ShownTurn] = []
    seen: list[str] = []
    terminated = truncated = False
    async with sandbox.episodes.episode() as episode:
        observation = await episode.reset(source, seed)
        seen.append(observation)
        for action in actions:
            outcome = await episode.step(action)
            taken.append(ShownTurn(observation, action, outcome.reward))
            observation, terminated, truncated = outcome.observation, outcome.terminated, outcome.truncated
            seen.append(observation)
            if terminated or truncated:
                break
    differs = next((index for index, (a, b) in enumerate(zip(seen, recorded, strict=False), start=1) if a != b), None)
    return Replay(seed, tuple(taken), observation, terminated, truncated, differs)


async def _solve(config: RunConfig, source: str, seed: int) -> tuple[Replay, str]:
    """Have the environment solve the first instance that admission draws from ``seed``, and play its solution."""
    from spade_rl.sandbox.gates import instance_seeds

    async with served(config) as sandbox:
        report = await sandbox.admit(source, seed)
        if not report.admitted:
            failed = next(one for one in report.verdicts if one.message)
            raise EnvironmentFault(
                f"the environment is not admitted with seed {seed}: the gate {failed.gate} says {failed.message}"
            )
        instance = instance_seeds(seed, report.digest)[0]
        replayed = await play(sandbox, source, instance, report.solution, (report.observation,))
        return replayed, await sandbox.isolation()


async def _repeat(
    config: RunConfig, source: str, seed: int, actions: Sequence[str], recorded: Sequence[str]
) -> tuple[Replay, str]:
    async with served(config) as sandbox:
        return await play(sandbox, source, seed, actions, recorded), await sandbox.isolation()


@guarded
def replay(
    digest: Annotated[str, typer.Argument(help="Digest, or an unambiguous beginning of it.")],
    run: RunOption = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    episode: Annotated[
        str | None, typer.Option("--episode", help="Take a recorded episode's actions instead of the solution's.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which instance the solution is asked for.")] = 0,
    isolation: IsolationOption = None,
    json: JsonOption = False,
) -> None:
    """Play an environment again in the sandbox, turn by turn: its own solution, or a recorded episode's actions.

    Ends with 1 if the environment fails, or shows something else than was recorded.
    """
    run_dir, log = open_run(runs_dir, run)
    run_id = log.started.run_id
    with reading(run_dir) as archive:
        one = one_environment(archive, run_id, digest).environment
        recorded = one_trajectory(archive, run_id, episode) if episode is not None else None
    config = sandbox_config(isolation, load_config(file=run_dir / CONFIG))
    if recorded is None:
        replayed, level = asyncio.run(_solve(config, one.source, seed))
    else:
        if recorded.header.environment_digest != one.digest:
            raise ConfigurationError(
                f"the episode {recorded.header.id} was played in {recorded.header.environment_digest[:16]}, not in {one.digest[:16]}"
            )
        actions = [turn.action for turn in recorded.turns]
        observations = [*(turn.observation for turn in recorded.turns), recorded.last_observation]
        replayed, level = asyncio.run(_repeat(config, one.source, recorded.header.seed, actions, observations))
    if level != log.started.isolation:
        warn_isolation(level)
    _print(replayed, one.digest, level, json)
    if replayed.differs is not None:
        warn(f"observation {replayed.differs} is not the recorded one: the environment does not repeat itself")
        raise typer.Exit(1)


def _print(replayed: Replay, digest: str, level: str, json: bool) -> None:
    if json:
        fields: dict[str, Any] = asdict(replayed)
        emit({"digest": digest, "isolation": level, "episode_return": replayed.episode_return, **fields})
        return
    end = "terminated" if replayed.terminated else "truncated" if replayed.truncated else "not over"
    out().print(
        shown(
            f"{digest}\nseed {replayed.seed}, {len(replayed.turns)} actions, return {replayed.episode_return:+.2f}, {end}"
        )
    )
    out().print(turns(replayed.turns, replayed.last_observation))
