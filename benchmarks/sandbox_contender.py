"""What a contender offers, how it is measured, and the process in which that happens.

Every contender, ours too, is driven by a process of its own that answers one JSON line for each measurement asked
for: the same code measures all of them, and no client is slowed down by another's. Observations are compared with
what the environment must show, so that nobody is measured who does not do the work.
Standard library only: peers import it in an environment of their own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TextIO

from benchmarks.sandbox_environment import actions, first_observation
from benchmarks.sandbox_usage import cpu_seconds, memory_bytes

SETTLE_SECONDS = 0.3


class Episode(Protocol):
    """A running episode."""

    # What ``reset`` showed.
    observation: str

    async def step(self, actions: Sequence[str]) -> int:
        """Take actions in one call, and return how many results came."""
        ...

    async def close(self) -> None:
        """End the episode, or leave it to the next one or to ``settle`` to end it."""
        ...


class Contender(Protocol):
    """Something that runs episodes of ``WALK``."""

    # Name and version of what is measured.
    version: str
    # Actions that one call takes.
    largest_batch: int
    # In the command lines of the contender's processes that may be no descendants of this one; "": there are none.
    folder: str

    async def start(self, seed: int) -> Episode:
        """Start an episode from nothing and return it with its first observation."""
        ...

    async def settle(self) -> None:
        """Return when every closed episode has ended. Counts as part of the measurement."""
        ...


class Extra(Protocol):
    """A measurement that only one contender has."""

    async def __call__(self, **arguments: Any) -> dict[str, Any]:
        """Return the figures."""
        ...


_seeds = itertools.count(1)


async def fresh(contender: Contender, *, at_once: int, seconds: float) -> dict[str, Any]:
    """Start episodes, ``at_once`` at a time, and end each after its first observation.

    ``seconds`` of the answer are the times to the first observation; ``wall`` is until the last episode has ended.
    """
    taken: list[float] = []
    shown: list[tuple[int, str]] = []

    async def one() -> None:
        seed = next(_seeds)
        began = time.perf_counter()
        episode = await contender.start(seed)
        taken.append(time.perf_counter() - began)
        shown.append((seed, episode.observation))
        await episode.close()

    wall = await _in_turns(one, contender, at_once, seconds)
    for seed, observation in shown:
        _check(observation == first_observation(seed), f"episode {seed} showed {observation[:200]!r}")
    return {"seconds": taken, "wall": wall, "count": len(taken)}


async def steps(contender: Contender, *, batch: int, at_once: int, seconds: float) -> dict[str, Any]:
    """Take steps in ``at_once`` running episodes, ``batch`` in each call; the episodes' start and end do not count."""
    taken: list[float] = []
    asked = actions(batch)
    episodes = [await contender.start(next(_seeds)) for _ in range(at_once)]
    free = list(episodes)

    async def one() -> None:
        episode = free.pop()
        began = time.perf_counter()
        count = await episode.step(asked)
        taken.append(time.perf_counter() - began)
        _check(count == batch, f"{batch} actions had {count} results")
        free.append(episode)

    await one()
    taken.clear()
    wall = await _in_turns(one, contender, at_once, seconds)
    for episode in episodes:
        await episode.close()
    await contender.settle()
    return {"seconds": taken, "wall": wall, "count": batch * len(taken)}


async def episodes(contender: Contender, *, length: int, at_once: int, seconds: float) -> dict[str, Any]:
    """Play whole episodes of ``length`` single steps, ``at_once`` at a time."""
    taken: list[float] = []
    asked = actions(length)

    async def one() -> None:
        began = time.perf_counter()
        episode = await contender.start(next(_seeds))
        for action in asked:
            _check(await episode.step([action]) == 1, "a step had no result")
        await episode.close()
        taken.append(time.perf_counter() - began)

    wall = await _in_turns(one, contender, at_once, seconds)
    return {"seconds": taken, "wall": wall, "count": len(taken)}


async def memory(contender: Contender, *, sessions: int) -> dict[str, Any]:
    """Return the memory by kind with no episode open and with ``sessions``, each after a step."""
    await (await contender.start(next(_seeds))).close()
    await contender.settle()
    await asyncio.sleep(SETTLE_SECONDS)
    before = memory_bytes(os.getpid(), contender.folder)
    opened = [await contender.start(next(_seeds)) for _ in range(sessions)]
    for episode in opened:
        await episode.step(actions(1))
    await asyncio.sleep(SETTLE_SECONDS)
    during = memory_bytes(os.getpid(), contender.folder)
    for episode in opened:
        await episode.close()
    await contender.settle()
    return {"before": before, "during": during, "sessions": sessions}


async def _in_turns(one: Callable[[], Awaitable[None]], contender: Contender, at_once: int, seconds: float) -> float:
    """Run ``one`` again and again in ``at_once`` places for ``seconds``; return the time until all have ended."""
    began = time.perf_counter()

    async def place() -> None:
        while True:
            await one()
            if time.perf_counter() - began >= seconds:
                return

    await asyncio.gather(*(place() for _ in range(at_once)))
    await contender.settle()
    return time.perf_counter() - began


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise RuntimeError(f"the peer did not do the work: {what}")


def drive(opened: AbstractAsyncContextManager[Contender], **extra: Extra) -> None:
    """Be a contender's process: answer requests on stdin until it closes.

    Whatever else is printed goes to stderr, and what is started finds nothing on stdin.
    """
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    asyncio.run(_drive(opened, extra, requests, lambda message: print(json.dumps(message), file=answers, flush=True)))


async def _drive(
    opened: AbstractAsyncContextManager[Contender],
    extra: dict[str, Extra],
    requests: TextIO,
    say: Callable[[Any], None],
) -> None:
    loop = asyncio.get_running_loop()
    async with opened as contender:
        measures: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
            "fresh": lambda **asked: fresh(contender, **asked),
            "steps": lambda **asked: steps(contender, **asked),
            "episodes": lambda **asked: episodes(contender, **asked),
            "memory": lambda **asked: memory(contender, **asked),
            **extra,
        }
        await (await contender.start(next(_seeds))).close()
        await contender.settle()
        say({"version": contender.version, "largest_batch": contender.largest_batch, "folder": contender.folder})
        while line := await loop.run_in_executor(None, requests.readline):
            request = json.loads(line)
            before = cpu_seconds(os.getpid(), contender.folder)
            try:
                answer = await measures[request.pop("measure")](**request)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            after = cpu_seconds(os.getpid(), contender.folder)
            say(answer | {"cpu": {kind: value - before.get(kind, 0.0) for kind, value in after.items()}})
