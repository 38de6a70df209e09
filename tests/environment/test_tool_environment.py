"""The base class of tool-use environments, as its authors and its agents meet it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.environment import Instruction, SchemaError, ToolEnvironment, ToolError, call, tool

WHOLE = {"type": "integer", "minimum": 0}


class Jars(ToolEnvironment):
    """Three jars to be filled; ``shake`` is the distractor."""

    max_calls = 8

    def build(self, rng):
        self.jars = dict.fromkeys(rng.sample("abcdef", 3), 0)
        wanted = [rng.randint(1, 9) for _ in self.jars]
        return [
            Instruction(f"Put {count} into {jar}.", self.is_filled(jar, count), [call("fill", jar=jar, count=count)])
            for jar, count in zip(self.jars, wanted, strict=True)
        ]

    def is_filled(self, jar, count):
        return lambda: self.jars[jar] == count

    @tool("Put something into a jar.", jar={"type": "string"}, count=WHOLE, note={"type": "string"})
    def fill(self, jar, count, *, note=""):
        if jar not in self.jars:
            raise ToolError(f"there is no jar {jar}")
        self.jars[jar] = count
        return {"jar": jar, "count": count, "note": note} if note else None

    @tool("Look into all jars.")
    def look(self):
        return self.jars

    @tool("Shake a jar.", jar={"type": "string"})
    def shake(self, jar):
        return f"{jar} rattles {1 // len(jar)}"


def fresh(seed: int = 0, kind: type[ToolEnvironment] = Jars) -> Any:
    environment = kind()
    environment.reset(seed)
    return environment


def play(environment: ToolEnvironment, *actions: str) -> list[tuple[str, float, bool, bool, dict[str, Any]]]:
    return [environment.step(action) for action in actions]


@given(st.integers(0, 2**40))
def test_the_solution_wins_and_each_step_shows_the_next_instruction(seed: int) -> None:
    environment = Jars()
    first, _ = environment.reset(seed)
    steps = play(environment, *environment.solution())
    assert first.count("Instruction") == 1
    assert [text.count("Instruction ") for text, *_ in steps] == [1, 1, 0, 0]
    assert all("of 3: Put" in text for text in (first, steps[0][0], steps[1][0]))
    assert [step[1:] for step in steps[:-1]] == [(0.0, False, False, {})] * 3
    assert steps[-1] == ("Submitted: 3 of 3 instructions hold.", 1.0, True, False, {})


def test_equal_seeds_make_equal_instances_on_one_object_too() -> None:
    environment = Jars()
    assert environment.reset(3) == environment.reset(3) == Jars().reset(3)
    assert environment.reset(3) != environment.reset(4)
    assert environment.solution() == fresh(4).solution()


def test_the_tools_are_shown_as_text_and_in_the_form_of_chat_templates() -> None:
    observation, info = Jars().reset(0)
    shown = [json.loads(line) for line in observation.splitlines() if line.startswith('{"name"')]
    assert [each["name"] for each in shown] == ["fill", "look", "shake", "submit"]
    assert info["tools"] == [{"type": "function", "function": each} for each in shown]
    parameters = shown[0]["parameters"]
    assert parameters["required"] == ["jar", "count"]
    assert list(parameters["properties"]) == ["jar", "count", "note"]
    assert parameters["additionalProperties"] is False


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("", "there is no call"),
        ("fill a 3", "there is no call"),
        ('{"tool": "fill"', "not JSON"),
        ('{"tool": "empty"}', "there is no tool 'empty': there are fill, look, shake, submit"),
        ('{"tool": "__init__"}', "there is no tool"),
        ('{"tool": "build"}', "there is no tool"),
        ('{"tool": "fill", "arguments": {"jar": "a"}}', "fill misses count"),
        ('{"tool": "fill", "arguments": {"jar": "a", "count": "3"}}', "count must be an integer"),
        ('{"tool": "fill", "arguments": {"jar": "a", "count": -1}}', "at least 0"),
        ('{"tool": "fill", "arguments": {"jar": "a", "count": 1, "self": 1}}', "has no self"),
        ('{"tool": "look", "arguments": {"jar": "a"}}', "look has no jar; it takes none"),
        ('{"tool": "submit", "arguments": {"really": true}}', "submit has no really"),
        ('{"tool": "fill", "arguments": {"jar": "zz", "count": 1}}', "there is no jar zz"),
    ],
)
def test_a_wrong_call_is_told_to_the_agent_and_changes_nothing(action: str, says: str) -> None:
    environment = fresh()
    observation, *rest = environment.step(action)
    assert observation.startswith("Error: ")
    assert says in observation
    assert rest == [0.0, False, False, {}]
    assert play(environment, *environment.solution())[-1][1] == 1.0


@given(st.integers(0, 99), st.text(max_size=200))
def test_any_text_is_taken(seed: int, action: str) -> None:
    observation, reward, *_ = fresh(seed).step(action)
    assert isinstance(observation, str)
    assert reward == 0.0


def test_submitting_pays_only_if_every_instruction_holds_at_the_end() -> None:
    environment = fresh()
    *calls, submit = environment.solution()
    assert environment.step(submit)[:3] == ("Submitted: 0 of 3 instructions hold.", 0.0, True)
    environment = fresh()
    assert play(environment, *calls[:2], submit)[-1][:3] == ("Submitted: 2 of 3 instructions hold.", 0.0, True)
    # What held once and no longer does is not paid.
    environment = fresh()
    jar = json.loads(calls[0])["arguments"]["jar"]
    assert play(environment, *calls, call("fill", jar=jar, count=99).text(), submit)[-1][1] == 0.0
    # The order does not matter, nor whether an instruction was shown.
    environment = fresh()
    assert play(environment, *reversed(calls), submit)[-1][1] == 1.0


def test_instructions_that_hold_already_are_shown_with_the_next() -> None:
    environment = fresh()
    *calls, _ = environment.solution()
    steps = play(environment, calls[1], calls[0])
    assert "Instruction" not in steps[0][0]
    assert [f"Instruction {number} of 3" in steps[1][0] for number in (1, 2, 3)] == [False, True, True]


def test_calls_are_counted_and_the_last_one_truncates() -> None:
    environment = fresh()
    steps = play(environment, *["?"] * 4, *[call("look").text()] * 4)
    assert [step[3] for step in steps] == [False] * 7 + [True]
    assert all(step[1] == 0.0 and not step[2] for step in steps)
    assert steps[-1][0].endswith("No calls are left.")
    # The last call may submit.
    environment = fresh()
    assert play(environment, *["?"] * 4, *environment.solution())[-1][1:4] == (1.0, True, False)


def test_results_are_text_or_json() -> None:
    environment = fresh()
    jars = json.loads(environment.step(call("look").text())[0])
    assert set(jars.values()) == {0}
    assert environment.step(call("shake", jar="a").text())[0] == "a rattles 1"
    jar = next(iter(jars))
    assert environment.step(call("fill", jar=jar, count=99).text())[0] == "Done."
    said = environment.step(call("fill", jar=jar, count=98.0, note="é").text())[0]
    assert json.loads(said) == {"jar": jar, "count": 98, "note": "é"}
    assert "98.0" not in said
    assert "é" in said


def test_what_a_tool_raises_is_the_environments_fault() -> None:
    with pytest.raises(ZeroDivisionError):
        fresh().step(call("shake", jar="").text())


def made(build: Any = None, **methods: Any) -> type[ToolEnvironment]:
    """Return an environment class like Jars but for some methods."""
    body = {"build": build} if build is not None else {}
    return type("Made", (Jars,), body | methods)


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (lambda self, rng: None, TypeError, "must return a list of Instruction"),
        (lambda self, rng: [("do", bool, [])] * 3, TypeError, "must return a list of Instruction"),
        (lambda self, rng: [Instruction("do", bool, [])] * 2, ValueError, "2 instructions: 3 to 5"),
        (lambda self, rng: [Instruction("do", bool, [])] * 6, ValueError, "6 instructions: 3 to 5"),
        (lambda self, rng: [Instruction(" ", bool, [])] * 3, TypeError, "text of instruction 1"),
        (lambda self, rng: [Instruction("do", True, [])] * 3, TypeError, "holds of instruction 1"),
        (lambda self, rng: [Instruction("do", bool, ["look"])] * 3, TypeError, "calls of instruction 1"),
        (lambda self, rng: [Instruction("do", lambda: 1, [])] * 3, ValueError, "nothing to do"),
        (lambda self, rng: [Instruction("do", lambda: None, [])] * 3, TypeError, "criterion of 'do' returned None"),
    ],
)
def test_an_instance_that_cannot_be_played_is_refused_at_reset(build: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        made(build)().reset(0)


def test_a_solution_that_does_not_fit_its_schemas_is_refused() -> None:
    def wrong(self, rng):
        self.jars = {"a": 0}
        return [Instruction("do", bool, [call("fill", jar="a")])] * 3

    with pytest.raises(ValueError, match=r"call 1 .*fill misses count"):
        fresh(kind=made(wrong)).solution()

    def long(self, rng):
        return [Instruction("do", bool, [call("look")] * 3)] * 3

    with pytest.raises(ValueError, match="9 calls and submit: max_calls is 8"):
        fresh(kind=made(long)).solution()


def test_a_class_has_three_to_eight_tools() -> None:
    def some(count: int) -> dict[str, Any]:
        def one(self):
            return None

        def named(name: str) -> Any:
            function = type(one)(one.__code__, {}, name)
            return tool("Do it.")(function)

        return {f"t{number}": named(f"t{number}") for number in range(count)}

    for count in (2, 9):
        with pytest.raises(TypeError, match=f"has {count} tools: mark 3 to 8"):
            type("Made", (ToolEnvironment,), {"build": Jars.build, **some(count)})
    for count in (3, 8):
        type("Made", (ToolEnvironment,), {"build": Jars.build, **some(count)})
    # A base for others, which build nothing yet, may have any number.
    base = type("Base", (ToolEnvironment,), some(2))
    with pytest.raises(NotImplementedError, match="Base must define build"):
        base().reset(0)


@pytest.mark.parametrize("name", ["reset", "step"])
def test_what_the_base_class_vouches_for_cannot_be_replaced(name: str) -> None:
    with pytest.raises(TypeError, match=f"must not define {name}"):
        made(None, **{name: getattr(ToolEnvironment, name)})


def test_a_solution_of_ones_own_is_allowed() -> None:
    own = made(None, solution=lambda self: [call("submit").text()])
    assert fresh(kind=own).solution() == ['{"tool": "submit", "arguments": {}}']


def test_tools_are_inherited_and_can_be_replaced_and_removed() -> None:
    class More(Jars):
        shake = None

        @tool("Empty all jars.")
        def empty(self):
            self.jars = dict.fromkeys(self.jars, 0)

        @tool("Look, but better.")
        def look(self):
            return "clear"

    observation, _ = More().reset(0)
    names = [json.loads(line)["name"] for line in observation.splitlines() if line.startswith('{"name"')]
    assert sorted(names) == ["empty", "fill", "look", "submit"]
    assert fresh(kind=More).step(call("look").text())[0] == "clear"


@pytest.mark.parametrize(
    ("define", "says"),
    [
        (lambda: tool("Do.")(lambda self, jar: None), "cannot be called|has the parameters"),
        (lambda: tool("Do.", jar=WHOLE)(_method("self")), "both must be the same"),
        (lambda: tool("Do.")(_method("self, jar")), "both must be the same"),
        (lambda: tool("Do.")(_method("")), "both must be the same"),
        (lambda: tool("Do.")(_method("self, *jars")), "must name its parameters"),
        (lambda: tool("Do.")(_method("self, **jars")), "must name its parameters"),
        (lambda: tool("Do.", jar=WHOLE)(_method("self, jar, /")), "must name its parameters"),
        (lambda: tool("Do.")(_method("self", body="yield")), "neither async nor a generator"),
        (lambda: tool("Do.")(_method("self", prefix="async ")), "neither async nor a generator"),
        (lambda: tool("Do.")(_method("self", name="submit")), "cannot be called submit"),
        (lambda: tool("Do.")(_method("self", name="step")), "cannot be called step"),
        (lambda: tool("Do.")(_method("self", name="_do")), "cannot be called _do"),
        (lambda: tool(" ")(_method("self")), "is a description"),
        (lambda: tool(_method("self"))(_method("self")), "is a description"),
        (lambda: tool("Do.", jar={"type": "text"})(_method("self, jar")), "tool do.jar: type must be one of"),
        (lambda: tool("Do.")(property(_method("self"))), "not a plain method"),
    ],
)
def test_a_tool_that_cannot_work_is_refused_where_it_is_defined(define: Any, says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        define()


def _method(parameters: str, *, name: str = "do", body: str = "pass", prefix: str = "") -> Any:
    space: dict[str, Any] = {}
    exec(f"{prefix}def {name}({parameters}):\n    {body}", space)
    return space[name]


def test_a_tool_goes_by_one_name() -> None:
    with pytest.raises(SchemaError, match="keep one name"):
        type("Made", (Jars,), {"alias": Jars.look})


def test_importing_it_loads_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import spade_rl.environment; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["spade_rl"]
    code = "import sys, spade_rl.environment; print(*sorted(m for m in sys.modules if m.startswith('spade_rl')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert {name.split(".")[1] for name in done.stdout.split()[1:]} == {"environment"}
