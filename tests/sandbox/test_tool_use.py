"""Tool-use environments in the sandbox: the base class is there under its name, and every gate works on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spade_rl.kinds import EnvironmentKind
from spade_rl.prompts import TOOL_CONTRACT
from spade_rl.sandbox.admission import admit
from spade_rl.sandbox.episode import open_episode
from spade_rl.sandbox.limits import EpisodeError, Origin
from spade_rl.sandbox.pool import Pool
from spade_rl.sandbox.program import StaticRefusal, analyse

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "environments").glob("*.py"))
KINDS = {"help_desk": EnvironmentKind.TOOL_USE, "number_lock": EnvironmentKind.GAME}
# Lights to be turned on; which ones there are is drawn.
LIGHTS = """
from spade_rl.environment import Instruction, ToolEnvironment, ToolError, call, tool


class Lights(ToolEnvironment):
    def build(self, rng):
        self.on = dict.fromkeys(rng.sample(["hall", "attic", "cellar", "porch", "shed", "barn"], 3), False)
        return [
            Instruction(f"Light in the {name}, please.", lambda name=name: self.on[name], [call("turn_on", name=name)])
            for name in self.on
        ]

    @tool("Turn a light on.", name={"type": "string"})
    def turn_on(self, name):
        if name not in self.on:
            raise ToolError("there is no such light")
        self.on[name] = True

    @tool("List the lights.")
    def lights(self):
        return list(self.on)

    @tool("Turn all lights off.")
    def all_off(self):
        self.on = dict.fromkeys(self.on, False)
"""
CALL = '[call("turn_on", name=name)]'
HOLDS = "lambda name=name: self.on[name]"


def contract_example() -> str:
    """Return the program that the designer's prompt shows."""
    return TOOL_CONTRACT[TOOL_CONTRACT.index("from spade_rl.environment") : TOOL_CONTRACT.index("Define 3 to 8")]


def changed(*edits: tuple[str, str]) -> str:
    source = LIGHTS
    for old, new in edits:
        assert source.count(old) == 1
        source = source.replace(old, new)
    return source


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
async def test_the_examples_pass_every_gate(pool: Pool, path: Path) -> None:
    report = await admit(pool, path.read_text(), seed=1, kind=KINDS[path.stem])
    assert report.failure is None
    assert report.solution


@pytest.mark.asyncio(loop_scope="module")
async def test_the_example_in_the_designers_prompt_passes_every_gate(weak: Pool) -> None:
    for seed in range(3):
        report = await admit(weak, contract_example(), seed=seed, kind=EnvironmentKind.TOOL_USE)
        assert report.failure is None


@pytest.mark.asyncio(loop_scope="module")
async def test_an_episode_by_tools(pool: Pool) -> None:
    report = await admit(pool, LIGHTS, seed=1)
    assert report.failure is None
    async with open_episode(pool, LIGHTS) as episode:
        first = await episode.reset(7)
        name = first.observation.partition("Light in the ")[2].partition(",")[0]
        specifications = json.loads(first.info_json)["tools"]
        assert [each["function"]["name"] for each in specifications] == ["turn_on", "lights", "all_off", "submit"]
        turn_on = json.dumps({"tool": "turn_on", "arguments": {"name": name}})
        wrong, right = await episode.step(['{"tool": "turn_on"}', f"I think of {{x}}.\n```json\n{turn_on}\n```"])
        assert wrong.observation == "Error: turn_on misses name"
        assert "Instruction 2 of 3" in right.observation
        [last] = await episode.step(['{"tool": "submit"}'])
        assert (last.terminated, last.reward) == (True, 0.0)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_a_tool_raises_voids_the_episode_as_the_environments_fault(weak: Pool) -> None:
    source = changed(('raise ToolError("there is no such light")', 'raise KeyError("oops")'))
    async with open_episode(weak, source) as episode:
        await episode.reset(1)
        with pytest.raises(EpisodeError, match="KeyError") as caught:
            await episode.step(['{"tool": "turn_on", "arguments": {"name": "moon"}}'])
    assert caught.value.origin is Origin.ENVIRONMENT


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("edits", "gate", "says"),
    [
        ([("from spade_rl.environment import", "from spade_rl.config import")], "imports", "spade_rl.config"),
        ([("def build", "def make")], "class", "no method build"),
        ([("import Instruction, ToolEnvironment,", "import Instruction,")], "class", "is not imported"),
        ([('name={"type": "string"}', 'name={"type": "string", "pattern": "a"}')], "compile", "'pattern' is not among"),
        ([("def all_off", "def lights")], "compile", "has 2 tools: mark 3 to 8"),
        ([("], 3), False)", "], 2), False)")], "reset", "2 instructions: 3 to 5 are needed"),
        ([(HOLDS, "lambda: True")], "reset", "nothing to do"),
        ([(HOLDS, "lambda: None")], "reset", "returned None"),
        ([("rng.sample", "__import__('random').sample")], "determinism", "random.Random(seed)"),
        ([(CALL, '[call("turn_on", name=3)]')], "solution", "must be a string, not 3"),
        ([(CALL, '[call("turn_of", name=name)]')], "solution", "there is no tool 'turn_of'"),
        ([(CALL, '[call("lights")]')], "solution", "do not win"),
        ([("self.on[name] = True", "self.on[name] = 1 / 0")], "solution", "ZeroDivisionError"),
        ([("return list(self.on)", "return set(self.on)"), (CALL, '[call("lights")]')], "solution", "what JSON knows"),
        # A call without arguments does all the work: nobody needs to read what is asked.
        (
            [(HOLDS, "lambda: not self.on"), (CALL, '[call("all_off")]'), ("dict.fromkeys(self.on, False)", "{}")],
            "trivial",
            "playing random actions, then",
        ),
    ],
)
async def test_gates_say_what_is_wrong(weak: Pool, edits: list[tuple[str, str]], gate: str, says: str) -> None:
    failure = (await admit(weak, changed(*edits), seed=1)).failure
    assert failure is not None
    assert (failure.gate, says in failure.message) == (gate, True), failure


@pytest.mark.asyncio(loop_scope="module")
async def test_a_source_of_the_other_kind_is_refused(weak: Pool) -> None:
    game = next(path for path in EXAMPLES if path.stem == "number_lock").read_text()
    for source, kind, says in (
        (game, EnvironmentKind.TOOL_USE, "extend ToolEnvironment"),
        (LIGHTS, EnvironmentKind.GAME, "do not extend"),
    ):
        failure = (await admit(weak, source, seed=1, kind=kind)).failure
        assert failure is not None
        assert failure.gate == "class"
        assert says in failure.message


@pytest.mark.parametrize(
    ("head", "base"),
    [
        ("from spade_rl.environment import ToolEnvironment", "ToolEnvironment"),
        ("from spade_rl.environment import ToolEnvironment as Base", "Base"),
        ("from spade_rl.environment import *", "ToolEnvironment"),
        ("import spade_rl.environment", "spade_rl.environment.ToolEnvironment"),
        ("import spade_rl.environment as env", "env.ToolEnvironment"),
        ("from spade_rl.environment import ToolEnvironment\nclass Mine(ToolEnvironment): pass", "Mine"),
    ],
)
def test_the_base_class_is_known_by_any_name(head: str, base: str) -> None:
    program = analyse(f"{head}\nclass Task({base}):\n    def build(self, rng): pass\n")
    assert (program.class_name, program.kind) == ("Task", EnvironmentKind.TOOL_USE)


@pytest.mark.parametrize("name", ["spade_rl", "spade_rl.config", "spade_rl.environment.calls", "spade_rl.environments"])
def test_nothing_else_of_the_package_may_be_imported(name: str) -> None:
    with pytest.raises(StaticRefusal, match="spade_rl") as caught:
        analyse(f"import {name}\nclass Task:\n    def reset(self, seed): pass\n    def step(self, action): pass\n")
    assert caught.value.gate == "imports"


def test_a_class_that_only_looks_like_the_base_makes_a_game() -> None:
    methods = "    def reset(self, seed): pass\n    def step(self, action): pass\n"
    source = f"class ToolEnvironment:\n    pass\nclass Task(ToolEnvironment):\n{methods}"
    assert analyse(source).kind is EnvironmentKind.GAME
