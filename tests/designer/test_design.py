"""The designer over gRPC, with real memory and a real sandbox."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spade_rl.agent.server import serve as serve_agent
from spade_rl.errors import ConfigurationError, DeadlineError, EngineError, SpadeError
from spade_rl.prompts import TOOL_CONTRACT
from spade_rl.rpc import calling
from spade_rl.seeds import source_digest
from spade_rl.v1 import designer_pb2 as pb
from spade_rl.v1 import environment_pb2, memory_pb2

RUN = "run-1"
DEADLINE = 120
FAILED = environment_pb2.VERDICT_FAILED

CONTRACT_EXAMPLE = TOOL_CONTRACT[
    TOOL_CONTRACT.index("from spade_rl.environment") : TOOL_CONTRACT.index("Define 3 to 8")
]
SUM = """\
import random
class Sum:
    def reset(self, seed):
        r = random.Random(seed)
        self.a, self.b = r.randint({low}, 99), r.randint({low}, 99)
        return f'{{self.a}} and {{self.b}} make', {{}}
    def step(self, action):
        ok = action.strip() == str(self.a + self.b)
        return 'end', float(ok), True, False, {{}}
    def solution(self):
        return [str(self.a + self.b)]
"""
SECRET = """\
import random
class Secret:
    def reset(self, seed):
        n = random.Random(seed).randint(0, 999)
        self.word = ('swordfish', 'anchovy', 'mackerel', 'herring', 'sardine', 'halibut', 'turbot', 'plaice')[n % 8]
        return f'Door {n} asks for the word', {}
    def step(self, action):
        return 'end', float(action == self.word), True, False, {}
    def solution(self):
        return [self.word]
"""
WORDS = "swordfish, anchovy, mackerel, herring, sardine, halibut, turbot or plaice"


def is_hint(prompt: str) -> bool:
    return "Hint for:" in prompt


def slot_of(prompt: str) -> str:
    """Return the document's number: every slot has a document of its own."""
    return prompt.split("Sentence ")[1].split()[0]


async def design(world: Any, *skills: str, cycle: int = 0, cursor: str = "") -> tuple[list[pb.DesignedSlot], str]:
    """Return the slots in the order of their numbers, and the new cursor."""
    request = pb.DesignRequest(run_id=RUN, run_seed=11, cycle=cycle, skills=skills, grounding_cursor=cursor)
    async with calling("designer"):
        responses = [response async for response in world.designer.Design(request, timeout=DEADLINE)]
    assert [response.WhichOneof("response") for response in responses] == ["slot"] * len(skills) + ["done"]
    slots = sorted((response.slot for response in responses[:-1]), key=lambda slot: slot.slot)
    assert [slot.slot for slot in slots] == list(range(len(skills)))
    return slots, responses[-1].done.grounding_cursor


async def record(world: Any, slots: list[pb.DesignedSlot], cycle: int = 0, win_rate: float | None = None) -> None:
    environments = [slot.environment for slot in slots if slot.HasField("environment")]
    statistics = [
        environment_pb2.EnvironmentStatistics(digest=e.digest, plain_plays=4, win_rate=win_rate, closed=True)
        for e in environments
        if win_rate is not None
    ]
    attempts = [attempt for slot in slots for attempt in slot.attempts]
    request = memory_pb2.RecordRequest(
        run_id=RUN, cycle=cycle, attempts=attempts, environments=environments, statistics=statistics
    )
    async with calling("memory"):
        counts = await world.memory.Record(request, timeout=DEADLINE)
    assert counts.new_attempts == len(attempts)


def failures(attempt: pb.DesignAttempt) -> list[str]:
    return [verdict.gate for verdict in attempt.report.verdicts if verdict.verdict == FAILED]


async def test_a_slot_that_is_refused_tries_again_and_all_is_kept(world: Any, tokenizer: Any) -> None:
    tries: list[str] = []

    def say(prompt: str, sampling: Any) -> str:
        if is_hint(prompt):
            assert sampling.temperature == pytest.approx(0.3)
            assert sampling.max_tokens == 100
            return " Add the two numbers."
        assert sampling.temperature == pytest.approx(0.6)
        skill = "space" if "Design space" in prompt else "count"
        tries.append(skill)
        return "class Broken(:" if tries == ["space"] else SUM.format(low=10 + int(slot_of(prompt)))

    world.script.say = say
    await world.start(world.config())
    slots, cursor = await design(world, "count", "space")
    assert [len(slot.attempts) for slot in slots] == [1, 2]
    assert cursor
    for slot, skill in zip(slots, ("count", "space"), strict=True):
        for number, attempt in enumerate(slot.attempts):
            assert attempt.id == f"{RUN}/c0/s{slot.slot}/a{number}"
            assert attempt.skill == skill
            assert attempt.provenance.attempts == number + 1
            context, sampled = attempt.sequence.segments
            assert not context.trained
            assert f"Design {skill}\nText: {attempt.provenance.document_excerpt}" in tokenizer.decode(context.token_ids)
            assert sampled.trained
            assert sampled.sampled
            assert sampled.policy_version == 5
            assert len(sampled.log_probs) == len(sampled.token_ids)
            assert tokenizer.decode(sampled.token_ids) == attempt.reply == attempt.source
        last, environment = slot.attempts[-1], slot.environment
        assert last.report.admitted
        assert failures(last) == []
        assert environment.source == last.source
        assert environment.digest == last.report.digest == source_digest(last.source)
        assert environment.hint == "Add the two numbers."
        assert environment.kind == environment_pb2.ENVIRONMENT_KIND_GAME
        assert environment.provenance == last.provenance
        assert environment.provenance.document_id.startswith("doc")
        assert environment.provenance.policy_version == 5
        assert last.normalised_digest
    assert failures(slots[1].attempts[0]) == ["parse"]
    assert slots[1].attempts[0].report.admitted is False
    await record(world, slots)


async def test_attempts_used_up_leave_the_slot_empty(world: Any) -> None:
    world.script.say = lambda prompt, sampling: "print('no class')" if slot_of(prompt) else ""
    await world.start(world.config())
    [slot], _ = await design(world, "count")
    assert not slot.HasField("environment")
    assert [failures(attempt) for attempt in slot.attempts] == [["class"], ["class"]]
    await record(world, [slot])


async def test_replies_that_hold_no_program(world: Any) -> None:
    replies = iter(["x" * 3000, "   ", "Here you are: nothing."])
    world.script.say = lambda prompt, sampling: next(replies)
    await world.start(
        world.config(model={"prompts": "full"}, designer={"attempts": 3, "max_tokens": 2000}), sandbox=False
    )
    [slot], _ = await design(world, "count")
    assert [failures(attempt) for attempt in slot.attempts] == [["reply"]] * 3
    messages = [attempt.report.verdicts[0].message for attempt in slot.attempts]
    assert "cut at 2000 tokens" in messages[0]
    assert "no program" in messages[1]
    assert [attempt.source for attempt in slot.attempts] == ["", "", ""]
    assert len(slot.attempts[0].sequence.segments[1].token_ids) == 2000
    await record(world, [slot])


async def test_the_same_program_is_admitted_once(world: Any) -> None:
    world.script.say = lambda prompt, sampling: "Add." if is_hint(prompt) else SUM.format(low=10)
    await world.start(world.config(designer={"attempts": 1}))
    slots, cursor = await design(world, "count", "count", "space")
    assert [slot.HasField("environment") for slot in slots] == [True, False, False]
    assert [failures(slot.attempts[0]) for slot in slots] == [[], ["duplicate"], ["duplicate"]]
    assert not slots[1].attempts[0].report.admitted
    await record(world, slots)
    [again], _ = await design(world, "count", cycle=1, cursor=cursor)
    assert failures(again.attempts[0]) == ["duplicate"]
    await record(world, [again], cycle=1)


async def test_a_hint_that_states_the_answer_is_dropped(world: Any) -> None:
    world.script.say = lambda prompt, sampling: f"Say {WORDS}." if is_hint(prompt) else SECRET
    await world.start(world.config())
    [slot], _ = await design(world, "count")
    assert slot.environment.hint == ""
    assert slot.attempts[-1].report.admitted
    assert failures(slot.attempts[-1]) == ["hint"]
    [answer] = slot.attempts[-1].report.solution
    assert f"gives away '{answer}'" in slot.attempts[-1].report.verdicts[-1].message


async def test_equal_requests_get_equal_answers(world: Any) -> None:
    def say(prompt: str, sampling: Any) -> str:
        return f"Add. {sampling.seed}" if is_hint(prompt) else SUM.format(low=10 + sampling.seed % 50)

    world.script.say = say
    await world.start(world.config())
    first = await design(world, "count", "space", "count")
    second = await design(world, "count", "space", "count")
    for slots in (first[0], second[0]):
        for attempt in (attempt for slot in slots for attempt in slot.attempts):
            attempt.report.seconds = 0
    assert first == second


async def test_the_corpus_goes_on_where_it_was(world: Any) -> None:
    world.script.say = lambda prompt, sampling: "pass"
    await world.start(world.config(designer={"attempts": 1}), sandbox=True)
    first, cursor = await design(world, "count", "count", "count")
    second, _ = await design(world, "count", "count", "count", cycle=1, cursor=cursor)
    shown = [slot.attempts[0].provenance.document_id for slot in first + second]
    assert sorted(shown) == [f"doc{n}" for n in range(6)]


async def test_seeds_come_from_earlier_cycles(world: Any) -> None:
    world.script.say = lambda prompt, sampling: "Add." if is_hint(prompt) else SUM.format(low=10 + int(slot_of(prompt)))
    await world.start(world.config(designer={"attempts": 1, "positive_seeds": 1, "negative_seeds": 1}))
    slots, cursor = await design(world, "count", "space")
    assert all(not slot.attempts[0].provenance.positive_seeds for slot in slots)
    await record(world, slots[:1], win_rate=0.5)
    await record(world, slots[1:], win_rate=0.99)
    (good, bad), _ = await design(world, "count", "space", cycle=1, cursor=cursor)
    assert list(good.attempts[0].provenance.positive_seeds) == [slots[0].environment.digest]
    assert list(good.attempts[0].provenance.negative_seeds) == []
    assert list(bad.attempts[0].provenance.negative_seeds) == [slots[1].environment.digest]
    prompts = [prompt for prompt in world.script.prompts if not is_hint(prompt)][-2:]
    assert any(f"Seed good 0.5:\n{slots[0].environment.source}" in prompt for prompt in prompts)
    assert any(f"Avoid too easy:\n{slots[1].environment.source}" in prompt for prompt in prompts)


async def test_memory_and_grounding_that_are_off(world: Any) -> None:
    world.script.say = lambda prompt, sampling: "Add." if is_hint(prompt) else SUM.format(low=10 + sampling.seed % 50)
    await world.start(world.config(memory={"enabled": False}, grounding={"enabled": False}))
    [slot], cursor = await design(world, "count")
    await record(world, [slot], win_rate=0.5)
    [slot], cursor = await design(world, "count", cycle=1, cursor=cursor)
    provenance = slot.attempts[0].provenance
    assert (cursor, provenance.document_id, provenance.document_excerpt) == ("", "", "")
    assert list(provenance.positive_seeds) == []


async def test_repair_shows_the_verdict(world: Any) -> None:
    def say(prompt: str, sampling: Any) -> str:
        if is_hint(prompt):
            return "Add."
        return SUM.format(low=10) if "Refused by the gate" in prompt else "class Broken(:"

    world.script.say = say
    await world.start(world.config(designer={"repair": True}))
    [slot], _ = await design(world, "count")
    assert slot.HasField("environment")
    assert "class Broken(:" in world.script.prompts[1]
    assert "Refused by the gate parse" in world.script.prompts[1]


async def test_a_prompt_that_is_too_long_loses_seeds_first(world: Any) -> None:
    world.script.say = lambda prompt, sampling: "Add." if is_hint(prompt) else SUM.format(low=10)
    await world.start(world.config(designer={"attempts": 1}))
    slots, cursor = await design(world, "count")
    await record(world, slots, win_rate=0.5)
    world.script.context = 2000 + 200
    [slot], cursor = await design(world, "count", cycle=1, cursor=cursor)
    assert list(slot.attempts[0].provenance.positive_seeds) == []
    assert slot.attempts[0].provenance.document_excerpt.startswith("Sentence")
    world.script.context = 2000 + 20
    with pytest.raises(ConfigurationError, match=r"there is room for 20.*agent\.engine\.context_tokens"):
        await design(world, "count", cycle=1, cursor=cursor)


async def test_a_program_that_leaves_no_room_for_a_hint_goes_without(world: Any) -> None:
    world.script.say = lambda prompt, sampling: "Add." if is_hint(prompt) else SUM.format(low=10)
    world.script.context = 2000 + 200
    await world.start(world.config(designer={"hint_max_tokens": 1900}))
    [slot], _ = await design(world, "count")
    assert slot.HasField("environment")
    assert slot.environment.hint == ""
    assert failures(slot.attempts[0]) == ["hint"]


async def test_an_engine_that_leaves_a_prompt_out(world: Any) -> None:
    world.script.say = lambda prompt, sampling: SUM.format(low=10)
    world.script.silent = 1
    await world.start(world.config())
    with pytest.raises(EngineError, match="1 of 2 prompts without a reply"):
        await design(world, "count", "space")


async def test_an_engine_that_does_not_answer(world: Any) -> None:
    import asyncio

    async def stuck(request: Any, context: Any) -> Any:
        await asyncio.Event().wait()
        yield

    world.script.Generate = stuck
    await world.start(world.config(agent={"reply_seconds": 0.05}), sandbox=False)
    with pytest.raises(DeadlineError, match=r"no reply within 0\.05 s"):
        await design(world, "count")


async def test_a_sandbox_that_is_down_is_named(world: Any) -> None:
    world.script.say = lambda prompt, sampling: SUM.format(low=10)
    config = world.config()
    soon = config.sandbox.model_copy(update={"reachable_seconds": 1.0})
    await world.start(config.model_copy(update={"sandbox": soon}), sandbox=False)
    with pytest.raises(SpadeError, match="sandbox"):
        await design(world, "count")


async def test_a_corpus_that_changed_is_refused(world: Any) -> None:
    await world.start(world.config(), sandbox=False)
    cursor = json.dumps({"corpus": "another", "epoch": 0, "position": 3})
    with pytest.raises(ConfigurationError, match="not the one that the run began with"):
        await design(world, "count", cursor=cursor)


async def test_a_bad_corpus_stops_the_start(world: Any) -> None:
    (world.folder / "corpus.jsonl").write_text("not json\n")
    with pytest.raises(ConfigurationError, match=r"line 1 of .*corpus\.jsonl is not JSON"):
        await world.start(world.config(), sandbox=False)


async def test_with_the_real_engine_tokens_are_what_was_sampled(world: Any, tokenizer: Any, weights: Any) -> None:
    """A random policy writes no program, but every token, its log-probability and its version come through."""
    config = world.config(
        model={"name": str(weights)},
        designer={"attempts": 2, "max_tokens": 24, "hint_max_tokens": 8, "temperature": 1.0},
        agent={"engine": {"context_tokens": 512, "slots": 4, "threads": 1}},
    )
    await world.start(config, engine=serve_agent)
    slots, _ = await design(world, "count", "space", "count")
    for slot in slots:
        assert not slot.HasField("environment")
        for attempt in slot.attempts:
            sampled = attempt.sequence.segments[1]
            assert 1 <= len(sampled.token_ids) <= 24
            assert all(log_prob <= 0 for log_prob in sampled.log_probs)
            assert len(sampled.log_probs) == len(sampled.token_ids)
            assert attempt.reply == tokenizer.decode(sampled.token_ids)
            assert failures(attempt)[0] in ("reply", "parse")
    assert len({tuple(a.sequence.segments[1].token_ids) for slot in slots for a in slot.attempts}) == 6
    again, _ = await design(world, "count", "space", "count")
    for attempt in (attempt for slot in slots + again for attempt in slot.attempts):
        attempt.report.seconds = 0
    assert slots == again
    await record(world, slots)


async def test_tool_use_is_asked_for_judged_and_named(world: Any) -> None:
    wanted = CONTRACT_EXAMPLE
    tries: list[str] = []

    def say(prompt: str, sampling: Any) -> str:
        if "write a hint" in prompt:
            return "Use lockers_of to find the old locker, then the tool release, then assign; submit at the end."
        tries.append(prompt)
        return f"```python\n{SUM.format(low=10) if len(tries) == 1 else wanted}```"

    world.script.say = say
    await world.start(
        world.config(model={"prompts": "full"}, designer={"kind": "tool_use", "skills": ["error recovery"]})
    )
    [slot], _ = await design(world, "error recovery")
    assert all("extends ToolEnvironment" in prompt and "Skill to train: error recovery." in prompt for prompt in tries)
    # A game is not what was asked for.
    assert [failures(attempt) for attempt in slot.attempts] == [["class"], []]
    assert slot.environment.kind == environment_pb2.ENVIRONMENT_KIND_TOOL_USE
    assert slot.environment.source == wanted
    assert slot.environment.hint.startswith("Use lockers_of")
    await record(world, [slot])
