"""Prompts, seeds and excerpts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.documents import excerpt
from spade_rl.kinds import EnvironmentKind
from spade_rl.prompts import (
    PromptStyle,
    SeedExample,
    agent_observation,
    agent_opening,
    designer_messages,
    extract_action,
    extract_source,
)
from spade_rl.seeds import derive_seed, play_seeds, source_digest

FULL, COMPACT = PromptStyle.FULL, PromptStyle.COMPACT
TOOL_USE = EnvironmentKind.TOOL_USE


@given(st.text(min_size=1), st.integers(1, 50), st.integers(0, 2**62))
def test_an_excerpt_is_a_run_of_the_documents_words(text, words, seed):
    shown = excerpt(text, words, seed).split()
    assert len(shown) == min(words, len(text.split()))
    assert " ".join(shown) in " ".join(text.split())


def test_another_seed_shows_another_window():
    text = " ".join(f"word{i}." for i in range(500))
    assert len({excerpt(text, 20, seed) for seed in range(20)}) > 10


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        (r"so \boxed{42}", "42"),
        (r"\boxed{a} no, \boxed{ \text{C} }", r"\text{C}"),
        (r"\boxed{f(x) = {x}}", "f(x) = {x}"),
        (r"\boxed{open", None),
        ("nothing", None),
        ("", None),
    ],
)
def test_the_last_box_is_the_action(reply, action):
    assert extract_action(FULL, reply) == action


@given(st.text())
def test_a_boxed_action_reads_back(text):
    if text.count("{") == text.count("}") == 0 and "\\boxed" not in text:
        assert extract_action(FULL, f"think \\boxed{{{text}}}") == text.strip()


def test_a_program_is_the_last_block_outside_the_thoughts():
    reply = "<think>```python\nno\n```</think>Here:\n```python\nclass A:\n    pass\n```\nthen\n```\nclass B: ...\n```"
    assert extract_source(FULL, reply) == "class B: ...\n"
    assert extract_source(FULL, "no block") is None
    assert extract_source(COMPACT, "class A: ...") == "class A: ..."
    assert extract_source(COMPACT, "  \n") is None


@pytest.mark.parametrize("style", [FULL, COMPACT])
def test_all_that_the_designer_needs_is_in_its_prompt(style):
    seeds = [SeedExample("SOURCE-P", 0.7)], [SeedExample("SOURCE-N", 0.0, "too hard")]
    messages = designer_messages(style, skill="SKILL", document="DOCUMENT", positives=seeds[0], negatives=seeds[1])
    text = "\n".join(m["content"] for m in messages)
    assert all(part in text for part in ("SKILL", "DOCUMENT", "SOURCE-P", "easy", "SOURCE-N", "too hard"))


def test_each_kind_has_a_contract_and_an_opening_of_its_own():
    def system(kind):
        return designer_messages(FULL, kind, skill="SKILL", document="DOCUMENT")[0]["content"]

    assert "ToolEnvironment" in system(TOOL_USE)
    assert "ToolEnvironment" not in system(EnvironmentKind.GAME)
    assert "def step" in system(EnvironmentKind.GAME)
    game, tools = (agent_opening(FULL, "HINT", kind)[0]["content"] for kind in EnvironmentKind)
    assert ("\\boxed{}" in game, "\\boxed{}" in tools) == (True, False)
    assert '{"tool": NAME, "arguments": {...}}' in tools
    assert "HINT" in tools
    assert agent_opening(COMPACT, "HINT", TOOL_USE) == []


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ('{"tool": "submit"}', '{"tool": "submit"}'),
        ('I am done. {"tool": "submit"} ', 'I am done. {"tool": "submit"}'),
        ('<think>{"tool": "a"}?</think>\n{"tool": "b"}', '{"tool": "b"}'),
        ('{"tool": "a"}</think>{"tool": "b"}', '{"tool": "b"}'),
        ('<think>{"tool": "a"}', None),
        ("<think>done</think> ", None),
        ("no call", "no call"),
        ("", None),
    ],
)
def test_the_action_by_tools_is_what_follows_the_thoughts(reply, action):
    assert extract_action(FULL, reply, TOOL_USE) == action
    assert extract_action(COMPACT, reply, TOOL_USE) == reply.strip()


@pytest.mark.parametrize("style", [FULL, COMPACT])
def test_only_the_hinted_arm_sees_the_hint(style):
    def shown(hint):
        return "".join(m["content"] for m in [*agent_opening(style, hint), agent_observation(style, "OBS", hint)])

    assert "HINT" in shown("HINT")
    assert "HINT" not in shown(None)
    assert "OBS" in shown(None)


@given(
    st.lists(st.one_of(st.text(), st.integers()), max_size=5), st.lists(st.one_of(st.text(), st.integers()), max_size=5)
)
def test_seeds_tell_all_parts_apart(one, other):
    typed = [(type(p), p) for p in one], [(type(p), p) for p in other]
    assert (derive_seed(*one) == derive_seed(*other)) == (typed[0] == typed[1])
    assert 0 <= derive_seed(*one) < 2**63


def test_seeds_are_stable_across_processes_and_versions():
    assert derive_seed(1, "play", "abc", 0) == 146975135480239379
    assert len(set(play_seeds(0, source_digest("x"), 0, 64))) == 64
