"""The application of ``openenv-core``'s environment server around ``WALK``; uvicorn imports it.

The source is compiled once, and every session (a WebSocket connection) gets an instance. The methods are the
asynchronous ones, which the server calls without going through a thread. Nothing is isolated: all sessions of a
worker share its process.
"""

from __future__ import annotations

from typing import Any

from openenv.core.env_server.http_server import create_app  # type: ignore[import-not-found]
from openenv.core.env_server.interfaces import Environment  # type: ignore[import-not-found]
from openenv.core.env_server.types import Action, Observation, State  # type: ignore[import-not-found]

from benchmarks.sandbox_environment import WALK

SESSIONS = 1024
_scope: dict[str, Any] = {"__name__": "environment"}
exec(compile(WALK, "<environment>", "exec"), _scope)


class WalkAction(Action):  # type: ignore[misc]
    """An action is text."""

    text: str


class WalkObservation(Observation):  # type: ignore[misc]
    """So is an observation."""

    text: str


class WalkEnvironment(Environment):  # type: ignore[misc]
    """An instance of the environment's class."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._instance = _scope["Env"]()
        self._steps = 0

    def reset(self, seed: int | None = None, **_: Any) -> WalkObservation:
        """Reset the instance."""
        self._steps = 0
        return WalkObservation(text=self._instance.reset(seed or 0)[0], reward=0.0, done=False)

    async def reset_async(self, seed: int | None = None, **_: Any) -> WalkObservation:
        """Reset the instance on the server's loop."""
        return self.reset(seed)

    def step(self, action: WalkAction, **_: Any) -> WalkObservation:
        """Take one action."""
        self._steps += 1
        text, reward, terminated, truncated, _info = self._instance.step(action.text)
        return WalkObservation(text=text, reward=reward, done=terminated or truncated)

    async def step_async(self, action: WalkAction, **_: Any) -> WalkObservation:
        """Take one action on the server's loop."""
        return self.step(action)

    @property
    def state(self) -> State:
        """Return what the interface asks for."""
        return State(step_count=self._steps)


app = create_app(WalkEnvironment, WalkAction, WalkObservation, env_name="walk", max_concurrent_envs=SESSIONS)
