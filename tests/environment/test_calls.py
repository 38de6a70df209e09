"""Calls in text: found where there is exactly one, never guessed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.environment import Call, CallError, call, read_call
from spade_rl.environment.calls import MAX_CHARACTERS

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.floats(-1e6, 1e6) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
calls = st.builds(Call, st.text(), st.dictionaries(st.text(), json_values, max_size=3))
MOVE = call("move", source="ann", amount=3)


@given(calls)
def test_a_call_reads_back(made: Call) -> None:
    assert read_call(made.text()) == made
    assert read_call(f"I do this:\n```json\n{json.dumps(json.loads(made.text()), indent=2)}\n```") == made


@pytest.mark.parametrize(
    "text",
    [
        '{"tool": "move", "arguments": {"source": "ann", "amount": 3}}',
        '{"name": "move", "arguments": {"source": "ann", "amount": 3}}',
        'So, f{x} = {1, 2}: \\boxed{{"tool": "move", "arguments": {"source": "ann", "amount": 3}}}',
        '<tool_call>\n{ "name":"move","arguments":{"source":"ann","amount":3} }\n</tool_call>',
        'The state {"ann": 3} says: {"tool": "move", "arguments": {"source": "ann", "amount": 3}}.',
        'First {} then {"tool": "move", "arguments": {"source": "ann", "amount": 3}}',
        MOVE.text() + " Once more: " + MOVE.text(),
    ],
)
def test_text_around_the_one_call_does_no_harm(text: str) -> None:
    assert read_call(text) == MOVE


def test_arguments_may_be_left_out_where_there_are_none() -> None:
    assert read_call('{"tool": "submit"}') == call("submit") == read_call(call("submit").text())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no call"),
        ("submit", "there is no call"),
        ("submit()", "there is no call"),
        ('["tool", "submit"]', "there is no call"),
        ('{"ann": 3}', "there is no call"),
        ('{"tool": "a"} {"tool": "b"}', "there are 2 calls"),
        ('{"tool": "a"', "this is not JSON: .* at character"),
        ("{'tool': 'a'}", "there is no call"),
        # Nothing inside of what is broken counts.
        ('{"tool": "a", "arguments": {"x": {"name": "b"}}', "this is not JSON"),
        ('{"tool": "a", "arguments": {"x": NaN}}', "NaN is not JSON"),
        ('{"tool": "a", "arguments": {"x": -Infinity}}', "-Infinity is not JSON"),
        ('{"tool": "a", "arguments": {"x": 1e999}}', "too large a number"),
        ('{"tool": "a", "arguments": {"x": 1' + "0" * 30 + "}}", "too large a number"),
        ('{"tool": "a", "arguments": {"x": 1' + "0" * 9999 + "}}", "too large a number"),
        ('{"tool": 1}', '"tool" must be the name'),
        ('{"tool": "a", "arguments": [1]}', '"arguments" must be an object'),
        ('{"tool": "a", "arguments": "{}"}', '"arguments" must be an object'),
        ('{"tool": "a", "name": "b"}', "and nothing else"),
        ('{"tool": "a", "args": {}}', "and nothing else"),
        ('{"a":' * 5000, "nested too deeply|not JSON"),
        ("{" * 5000, "there is no call"),
        ("x" * (MAX_CHARACTERS + 1), "longer than"),
    ],
)
def test_what_is_no_call_is_said(text: str, says: str) -> None:
    with pytest.raises(CallError, match=says) as caught:
        read_call(text)
    assert len(str(caught.value)) < 200


@given(st.text() | st.text(alphabet='{}[]":, tolname\\01e-'))
def test_any_text_is_a_call_or_a_complaint(text: str) -> None:
    try:
        made = read_call(text)
    except CallError:
        return
    assert isinstance(made.tool, str)
    assert isinstance(made.arguments, dict)
