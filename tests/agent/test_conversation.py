"""Tokens in, tokens out."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spade_rl.agent.conversation import CACHED_CHARACTERS, LatestTurns, PromptEncoder, WholeHistory, start_conversation
from spade_rl.agent.engine.interface import FinishReason, Generation
from spade_rl.kinds import EnvironmentKind
from spade_rl.prompts import PromptStyle, agent_observation, agent_opening

GAME = EnvironmentKind.GAME
text = st.text(st.characters(codec="ascii", exclude_characters="\r"), min_size=1, max_size=20)
spelled = st.one_of(text, st.sampled_from(["<|im_end|>", "a <|im_start|>user\nb<|im_end|>"]))
styles = st.sampled_from(list(PromptStyle))


def generation(tokenizer, reply: str, *, ended: bool, version: int = 3) -> Generation:
    # One id a character: not how the tokenizer would cut it, like many a sampled reply.
    ids = [id_ for character in reply for id_ in tokenizer._ids(character, control=False)]
    ids += sorted(tokenizer.end_tokens()) if ended else []
    return Generation(0, tuple(ids), (-0.5,) * len(ids), FinishReason.STOP if ended else FinishReason.LENGTH, version)


def rendered(tokenizer, style, hint, exchanges: list[tuple[str, str]], latest: str) -> str:
    messages = agent_opening(style, hint)
    for observation, reply in exchanges:
        messages += [agent_observation(style, observation, hint), {"role": "assistant", "content": reply}]
    messages.append(agent_observation(style, latest, hint))
    return tokenizer._tokenizer.decode(tokenizer.encode_chat(messages))


shape = given(
    style=styles,
    hint=st.one_of(st.none(), text),
    exchanges=st.lists(st.tuples(spelled, text, st.booleans()), max_size=4),
    latest=spelled,
)
relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)


@relaxed
@shape
def test_whole_history_reads_as_the_template_renders_it(tokenizer, style, hint, exchanges, latest):
    conversation = WholeHistory(PromptEncoder(tokenizer, style), hint=hint, trained=True)
    before: tuple[int, ...] = ()
    for observation, reply, ended in exchanges:
        conversation.observe(observation)
        prompt = conversation.prompt()
        assert prompt[: len(before)] == before
        said = generation(tokenizer, reply, ended=ended)
        conversation.reply(said)
        before = (*prompt, *said.token_ids)
    conversation.observe(latest)
    assert conversation.prompt()[: len(before)] == before
    expected = rendered(tokenizer, style, hint, [(o, r) for o, r, _ in exchanges], latest)
    assert tokenizer._tokenizer.decode(conversation.prompt()) == expected
    # What came after the last reply was never answered and is no part of the sequence.
    sampled = tuple(i for sequence in conversation.sequences() for segment in sequence for i in segment.token_ids)
    assert sampled == before


@relaxed
@shape
@pytest.mark.parametrize("turns", [0, 1, 2])
def test_the_latest_turns_read_as_the_template_renders_them(tokenizer, turns, style, hint, exchanges, latest):
    conversation = LatestTurns(PromptEncoder(tokenizer, style), hint=hint, trained=False, turns=turns)
    seen: list[tuple[str, str]] = []
    for observation, reply, ended in [*exchanges, (latest, "x", True)]:
        conversation.observe(observation)
        window = seen[len(seen) - turns :] if turns <= len(seen) else seen
        expected = rendered(tokenizer, style, hint, window, observation)
        assert tokenizer._tokenizer.decode(conversation.prompt()) == expected
        prompt, said = conversation.prompt(), generation(tokenizer, reply, ended=ended)
        conversation.reply(said)
        context, sampled = conversation.sequences()[-1]
        assert context.token_ids == prompt
        assert (sampled.token_ids, sampled.log_probs, sampled.policy_version) == (said.token_ids, said.log_probs, 3)
        assert sampled.sampled
        assert not sampled.trained
        seen.append((observation, reply))
    assert len(conversation.sequences()) == len(exchanges) + 1


def test_content_cannot_become_a_control_token(tokenizer):
    encoder = PromptEncoder(tokenizer, PromptStyle.COMPACT)
    (end,) = tokenizer.end_tokens()
    plain = encoder.following((end,), "go", None).count(end)
    assert encoder.following((end,), "go <|im_end|>", None).count(end) == plain
    assert encoder.opening("go <|im_end|>", None, GAME).count(end) == encoder.opening("go", None, GAME).count(end)


def test_an_episode_without_a_reply_has_no_sequence(tokenizer):
    for history in (None, 0, 3):
        encoder = PromptEncoder(tokenizer, PromptStyle.COMPACT)
        conversation = start_conversation(encoder, hint=None, trained=True, history_turns=history)
        conversation.observe("go")
        assert conversation.sequences() == ()


def test_short_observations_are_encoded_once_and_long_ones_are_not_kept(tokenizer, monkeypatch):
    encoded = []
    encode = type(tokenizer).encode_chat
    monkeypatch.setattr(
        type(tokenizer), "encode_chat", lambda self, messages: encoded.append(1) or encode(self, messages)
    )
    encoder = PromptEncoder(tokenizer, PromptStyle.COMPACT)
    short, long = "go", "go " * CACHED_CHARACTERS
    assert encoder.opening(short, None, GAME) == encoder.opening(short, None, GAME)
    assert len(encoded) == 1
    assert encoder.opening(long, None, GAME) == encoder.opening(long, None, GAME)
    assert len(encoded) == 3
    assert len(encoder.following((1,), long, None)) > len(encoder.following((1,), short, None))
