"""Tokens in, tokens out: the policy's context, built from what was encoded once and what was sampled.

A reply is never decoded and encoded again: what the policy sees of its earlier replies are the very ids that it
sampled, and a trajectory is made of the ids that the policy saw. Text is encoded where it comes in, as the model's chat
template has it, and equal observations that are short are encoded once as long as they are remembered.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from spade_rl.agent.engine.interface import Generation
from spade_rl.agent.trajectory import Segment, Sequence
from spade_rl.kinds import EnvironmentKind
from spade_rl.models import ChatTokenizer
from spade_rl.prompts import PromptStyle, agent_observation, agent_opening

CACHED_OBSERVATIONS = 4096
# Longer ones would fill the memory, and are hardly ever seen twice.
CACHED_CHARACTERS = 4096


class PromptEncoder:
    """Encodes observations for one tokenizer and prompt style."""

    def __init__(self, tokenizer: ChatTokenizer, style: PromptStyle) -> None:
        self._tokenizer = tokenizer
        self._style = style
        self._end_tokens = tokenizer.end_tokens()
        self._known_openings = lru_cache(CACHED_OBSERVATIONS)(self._encode_opening)
        self._known_following = lru_cache(CACHED_OBSERVATIONS)(self._encode_following)

    def opening(self, observation: str, hint: str | None, kind: EnvironmentKind) -> tuple[int, ...]:
        """Return the ids of a conversation that begins with ``observation``, up to the reply."""
        encode = self._known_openings if len(observation) <= CACHED_CHARACTERS else self._encode_opening
        return encode(observation, hint, kind)

    def _encode_opening(self, observation: str, hint: str | None, kind: EnvironmentKind) -> tuple[int, ...]:
        messages = [*agent_opening(self._style, hint, kind), agent_observation(self._style, observation, hint)]
        return tuple(self._tokenizer.encode_chat(messages))

    def _encode_following(self, observation: str, hint: str | None) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode_after_reply([agent_observation(self._style, observation, hint)]))

    def following(self, reply: tuple[int, ...], observation: str, hint: str | None) -> tuple[int, ...]:
        """Return the ids between ``reply`` and the next reply, with ``observation`` between them.

        The end token is sampled with a reply that has ended; one that was cut short gets it here.
        """
        encode = self._known_following if len(observation) <= CACHED_CHARACTERS else self._encode_following
        ids = encode(observation, hint)
        ended = reply[-1] in self._end_tokens and ids[:1] == reply[-1:]
        return ids[1:] if ended else ids

    def text(self, token_ids: tuple[int, ...]) -> str:
        """Return sampled ids as text, without control tokens."""
        return self._tokenizer.decode(token_ids)


class Conversation(Protocol):
    """The policy's view of one episode: ``observe``, ``prompt``, ``reply``, and again."""

    def observe(self, observation: str) -> None:
        """Take in what the environment shows."""
        ...

    def prompt(self) -> tuple[int, ...]:
        """Return the ids that the next reply continues."""
        ...

    def reply(self, generation: Generation) -> None:
        """Take in what the policy said."""
        ...

    def sequences(self) -> tuple[Sequence, ...]:
        """Return what the policy saw and sampled so far, up to the last reply."""
        ...


def _context(token_ids: tuple[int, ...]) -> Segment:
    return Segment(token_ids=token_ids)


def _sampled(generation: Generation, trained: bool) -> Segment:
    return Segment(
        token_ids=generation.token_ids,
        log_probs=generation.log_probs,
        policy_version=generation.policy_version,
        sampled=True,
        trained=trained,
    )


class WholeHistory:
    """The agent sees everything: one sequence an episode, and every prompt begins with the one before."""

    def __init__(
        self, encoder: PromptEncoder, *, hint: str | None, trained: bool, kind: EnvironmentKind = EnvironmentKind.GAME
    ) -> None:
        self._encoder = encoder
        self._kind = kind
        self._hint = hint
        self._trained = trained
        self._segments: list[Segment] = []
        self._ids: list[int] = []

    def observe(self, observation: str) -> None:
        """Append an observation."""
        if self._segments:
            ids = self._encoder.following(self._segments[-1].token_ids, observation, self._hint)
        else:
            ids = self._encoder.opening(observation, self._hint, self._kind)
        self._append(_context(ids))

    def prompt(self) -> tuple[int, ...]:
        """Return everything so far."""
        return tuple(self._ids)

    def reply(self, generation: Generation) -> None:
        """Append a reply."""
        self._append(_sampled(generation, self._trained))

    def _append(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._ids += segment.token_ids

    def sequences(self) -> tuple[Sequence, ...]:
        """Return the one sequence, without what came after the last reply."""
        last = max((i for i, segment in enumerate(self._segments) if segment.sampled), default=-1)
        return (tuple(self._segments[: last + 1]),) if last >= 0 else ()


class LatestTurns:
    """The agent sees the latest observation and ``turns`` exchanges before it: one sequence a turn."""

    def __init__(
        self,
        encoder: PromptEncoder,
        *,
        hint: str | None,
        trained: bool,
        turns: int,
        kind: EnvironmentKind = EnvironmentKind.GAME,
    ) -> None:
        self._encoder = encoder
        self._kind = kind
        self._hint = hint
        self._trained = trained
        self._turns = turns
        self._observations: list[str] = []
        self._replies: list[tuple[int, ...]] = []
        self._sequences: list[Sequence] = []

    def observe(self, observation: str) -> None:
        """Take in an observation and forget what is no longer seen."""
        self._observations = [*self._observations, observation][-self._turns - 1 :]
        self._replies = self._replies[len(self._replies) - len(self._observations) + 1 :]

    def prompt(self) -> tuple[int, ...]:
        """Return a conversation that begins with the oldest observation still seen."""
        ids = list(self._encoder.opening(self._observations[0], self._hint, self._kind))
        for reply, observation in zip(self._replies, self._observations[1:], strict=True):
            ids += reply
            ids += self._encoder.following(reply, observation, self._hint)
        return tuple(ids)

    def reply(self, generation: Generation) -> None:
        """Keep the turn as a sequence of its own."""
        self._sequences.append((_context(self.prompt()), _sampled(generation, self._trained)))
        self._replies.append(generation.token_ids)

    def sequences(self) -> tuple[Sequence, ...]:
        """Return a sequence for every reply."""
        return tuple(self._sequences)


def start_conversation(
    encoder: PromptEncoder,
    *,
    hint: str | None,
    trained: bool,
    history_turns: int | None,
    kind: EnvironmentKind = EnvironmentKind.GAME,
) -> Conversation:
    """Return the conversation of an agent that sees ``history_turns`` earlier turns, or all of them."""
    if history_turns is None:
        return WholeHistory(encoder, hint=hint, trained=trained, kind=kind)
    return LatestTurns(encoder, hint=hint, trained=trained, turns=history_turns, kind=kind)
