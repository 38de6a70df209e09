"""Hints explain; they never state an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.designer.hints import MAX_HINT, extract_hint, leaked, stated_values
from spade_rl.environment import call
from spade_rl.kinds import EnvironmentKind

MAZE = """
class Maze:
    def solution(self):
        return ["left", "up", "left"]
    def step(self, action):
        return action in ("left", "right", "up", "down", "end")
"""


@pytest.mark.parametrize(
    ("hint", "solution", "answer"),
    [
        ("Add the two numbers.", ["47"], ""),
        ("The answer is 47.", ["47"], "47"),
        ("The answer is 475.", ["47"], ""),
        ("Say Swordfish!", ["swordfish"], "swordfish"),
        ("Say 'the red door'.", ["The Red  Door"], "The Red  Door"),
        ("Say red; then the door.", ["The Red Door"], ""),
        ("Answer 3.5, always.", ["3.5"], "3.5"),
        ("Answer 3.", ["3.5"], ""),
        ("Repeat 9 until the end.", ["9", "9", "9"], "9"),
        ("Go left, right, up or down until you are there.", ["left", "up", "left"], ""),
        ("Go left, then up, then left again.", ["left", "up", "left"], "left, up, left"),
        ("Count up. At 0 say end.", ["w 3", "w 4", "end"], ""),
        ("First w 3 w 4, then end.", ["w 3", "w 4", "end"], "w 3, w 4, end"),
        ("Look twice, then say brass.", ["left", "left", "brass"], "brass"),
        ("Ask when there is a ?, else say the number 7.", ["ask key", "7"], ""),
        ("Anything.", [], ""),
        ("", ["47"], ""),
        ("It costs ++ to go.", ["++"], ""),
        ("++", ["++"], "++"),
    ],
)
def test_leaks(hint: str, solution: list[str], answer: str) -> None:
    assert leaked(hint, solution, source=MAZE, observation="You stand in a maze.") == answer


def test_words_of_the_programs_material_are_no_answers() -> None:
    source = (
        "class E:\n    def reset(self, seed):\n        w = ' the first word of a page'.split()\n        return w, {}\n"
    )
    hint = "Of the words after ? name the one that stands earlier. At # 0 say end."
    assert leaked(hint, ["the", "word", "end"], source=source + "    e = 'end'\n", observation="row the word") == ""
    assert leaked("Say amber at last.", ["the", "amber"], source=source, observation="row the word") == "amber"


def test_a_choice_that_is_offered_anyway_may_be_named() -> None:
    source = "class E:\n    def reset(self, seed):\n        return 'heads or tails', {}\n    a = 'heads'\n"
    hint = "If the sum is even say heads, else tails."
    assert leaked(hint, ["heads"], source=source, observation="heads or tails") == ""
    assert leaked(hint, ["heads"], source=source, observation="Which side?") == "heads"
    assert leaked(hint, ["heads"], source="class E: pass", observation="heads or tails") == "heads"


@given(st.text(), st.text(min_size=1).filter(str.strip), st.text())
def test_a_hint_that_holds_the_only_answer_leaks(before: str, answer: str, after: str) -> None:
    assert leaked(f"{before} {answer} {after}", [answer], source="", observation="") == answer or not answer.isalnum()


@given(st.text(), st.lists(st.text()), st.text(), st.text())
def test_any_text_gets_a_verdict(hint: str, solution: list[str], source: str, observation: str) -> None:
    leaked(hint, solution, source=source, observation=observation)


def test_of_a_call_the_arguments_are_what_a_hint_may_not_state() -> None:
    solution = [
        call("find", name="Ada", limit=2).text(),
        call("assign", ticket=417, tags=["urgent", {"at": "r7"}], force=True).text(),
        call("submit").text(),
    ]
    values = stated_values(solution, EnvironmentKind.TOOL_USE)
    assert values == ("Ada", "2", "417", "urgent", "r7")
    assert stated_values(solution, EnvironmentKind.GAME) == tuple(solution)

    def said(hint: str) -> str:
        return leaked(hint, values, source="class E:\n    names = 'Ada urgent'\n", observation="")

    assert said("Find whoever is named, then use the tool assign on the ticket, and call the tool submit.") == ""
    assert said("Ada is one of those who write urgent tickets.") == ""
    assert said("Assign ticket 417.") == "417"
    assert stated_values(["no call at all"], EnvironmentKind.TOOL_USE) == ("no call at all",)


def test_what_is_thought_aloud_is_no_hint() -> None:
    assert extract_hint("<think>\nthe answer is 4\n</think>\n Add them. ") == "Add them."
    assert extract_hint("<think> never ends") == ""
    assert extract_hint("  Say end.\n") == "Say end."
    assert len(extract_hint("x" * 100_000)) == MAX_HINT
