"""What every inference engine is: token ids in; token ids, log-probabilities and the policy version out.

- A draw depends on the prompt's seed and on how many tokens were sampled before it, on nothing else: equal seeds and
  weights give equal tokens whatever else is in flight, up to the rounding of sums that a batch's shape decides.
- Every log-probability is the sampler's: of the tempered distribution that the token was drawn from. At temperature
  0 the token is the likeliest one and its log-probability the one at temperature 1.
- The end token is sampled like any other, so it stands in the ids.
- All tokens of a generation come from one policy version, and the generation names it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from spade_rl.errors import EngineError


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP = "stop"
    """An end token was sampled."""
    LENGTH = "length"
    """The token limit of the prompt, or the policy's context, was reached."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What to continue, and how to draw. ``max_tokens`` bounds the sampled tokens, the end token included."""

    token_ids: tuple[int, ...]
    temperature: float
    max_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class Generation:
    """What was sampled for the prompt number ``index``; one log-probability (natural) for every id."""

    index: int
    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    finish_reason: FinishReason
    policy_version: int


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """An engine at one moment; ``busy_seconds`` is the time in which it had work since it started."""

    policy_version: int
    model: str
    engine: str
    context_length: int
    in_flight: int
    generated_tokens: int
    busy_seconds: float


class Engine(Protocol):
    """A sampler of the policy. All methods belong to one event loop and never block it."""

    @property
    def context_length(self) -> int:
        """Longest sequence, prompt and sampled tokens together."""
        ...

    def generate(self, prompts: Sequence[Prompt], *, seconds: float) -> AsyncGenerator[Generation, None]:
        """Yield one generation for every prompt, in the order in which they end.

        Leaving the iterator early cancels what is not done. Raises ConfigurationError for a prompt that cannot be
        continued, EngineError if the engine fails, DeadlineError when ``seconds`` have passed.
        """
        ...

    async def load(self, version: int, uri: str, *, seconds: float) -> None:
        """Sample every later token from the weights in the folder ``uri``.

        Generations in flight end on the version they began with. Raises EngineError if the folder is not complete
        or cannot be loaded (the old version stays), DeadlineError when ``seconds`` have passed.
        """
        ...

    async def status(self) -> EngineStatus:
        """Say which version is loaded and how busy the engine is."""
        ...


async def generate_one(engine: Engine, prompt: Prompt, *, seconds: float) -> Generation:
    """Return the generation of a single prompt."""
    generations = engine.generate([prompt], seconds=seconds)
    async with aclosing(generations):
        async for generation in generations:
            return generation
    raise EngineError("the engine ended a call without an answer")
