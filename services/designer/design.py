"""Designing a set of environments.

All slots work in rounds: each open slot asks the policy for a program, every program goes through the sandbox's
gates, and a slot whose program was refused is in the next round until its attempts are used up. Admission begins as
replies come in; what depends on other slots (two that wrote the same program) is decided at the end of the round and
in the order of the slots. So the result depends on the request, the policy and memory, never on timing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeVar

from spade_rl.config import RunConfig
from spade_rl.designer.attempts import (
    GATE_DUPLICATE,
    GATE_HINT,
    GATE_REPLY,
    MAX_SOURCE_BYTES,
    Attempt,
    Designed,
    GateVerdict,
    Provenance,
    Reply,
    Report,
    Slot,
    Verdict,
)
from spade_rl.designer.clients import Ask, Engine, Memory, Sandbox
from spade_rl.designer.corpus import Document
from spade_rl.designer.fitting import DesignPrompt, Seed, fit_prompt
from spade_rl.designer.hints import extract_hint, leaked, stated_values
from spade_rl.designer.metrics import ATTEMPTS, HINTS, REFUSALS, ROUND_SECONDS, SHORTENED
from spade_rl.documents import excerpt
from spade_rl.models import ChatTokenizer
from spade_rl.prompts import extract_source, hint_messages, repair_messages
from spade_rl.seeds import derive_seed, source_digest
from spade_rl.telemetry import get_logger

ADMISSIONS_AT_ONCE = 8
MAX_EXCERPT = 1_048_576

_log = get_logger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be designed: one slot for each skill, in a cycle of a run."""

    run_id: str
    run_seed: int
    cycle: int
    skills: tuple[str, ...]


async def together(work: Iterable[Awaitable[_T]]) -> list[_T]:
    """Return all results in order; the first failure ends the rest and is raised as it is."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Designer:
    """Fills slots with environments. ``run_in_thread`` runs work that would hold up the event loop."""

    def __init__(
        self,
        config: RunConfig,
        *,
        tokenizer: ChatTokenizer,
        engine: Engine,
        sandbox: Sandbox,
        memory: Memory,
        run_in_thread: Callable[[Callable[[], list[Slot]]], Awaitable[list[Slot]]],
    ) -> None:
        self._config = config
        self._style = config.model.prompts
        self._tokenizer = tokenizer
        self._engine = engine
        self._sandbox = sandbox
        self._memory = memory
        self._run_in_thread = run_in_thread

    async def design(self, task: Task, documents: Sequence[Document | None]) -> AsyncGenerator[Designed, None]:
        """Yield every slot once, when it is done; ``documents`` are the slots' own."""
        context = min(await self._engine.context_length(), self._config.agent.engine.context_tokens)
        known = set(await self._memory.normalised_digests(task.run_id))
        seeds = await together(self._seeds(task, index) for index in range(len(task.skills)))
        room = context - self._config.designer.max_tokens
        open_slots = await self._run_in_thread(
            lambda: [self._slot(task, index, documents[index], seeds[index], room) for index in range(len(task.skills))]
        )
        for attempt in range(self._config.designer.attempts):
            written = await self._round(task, attempt, open_slots, known, room)
            for slot, made in zip(open_slots, written, strict=True):
                slot.attempts.append(made)
            admitted = [slot for slot in open_slots if slot.attempts[-1].report.admitted]
            async for designed in self._hinted(task, admitted, context):
                yield designed
            open_slots = [slot for slot in open_slots if not slot.attempts[-1].report.admitted]
            if not open_slots:
                return
        for slot in open_slots:
            yield Designed(slot.index, tuple(slot.attempts), admitted=False)

    # --- Prompts ----------------------------------------------------------------------------------

    async def _seeds(self, task: Task, index: int) -> tuple[list[Seed], list[Seed]]:
        section = self._config.designer
        if not self._config.memory.enabled or not (section.positive_seeds or section.negative_seeds):
            return [], []
        return await self._memory.seeds(
            task.run_id,
            task.skills[index],
            seed=derive_seed(task.run_seed, "seeds", task.cycle, index),
            before_cycle=task.cycle,
            positives=section.positive_seeds,
            negatives=section.negative_seeds,
        )

    def _slot(
        self, task: Task, index: int, document: Document | None, seeds: tuple[list[Seed], list[Seed]], room: int
    ) -> Slot:
        shown = ""
        if document is not None:
            seed = derive_seed(task.run_seed, "excerpt", task.cycle, index)
            shown = excerpt(document.text, self._config.grounding.words, seed)[:MAX_EXCERPT]
        prompt = fit_prompt(
            self._style,
            self._config.designer.kind,
            skill=task.skills[index],
            document=shown,
            positives=seeds[0],
            negatives=seeds[1],
            room=room,
            encode=self._tokenizer.encode_chat,
        )
        lost = {
            "negative_seeds": len(seeds[1]) - len(prompt.negatives),
            "positive_seeds": len(seeds[0]) - len(prompt.positives),
            "document_characters": len(shown) - len(prompt.document),
        }
        if any(lost.values()):
            _log.warning("a design prompt was too long and lost a part", slot=index, room=room, **lost)
            for part in (name for name, amount in lost.items() if amount):
                SHORTENED.labels(part).inc()
        return Slot(index, task.skills[index], document, prompt)

    def _prompt_ids(self, slot: Slot, room: int) -> tuple[int, ...]:
        """Return the next attempt's prompt: with repair on, a conversation about the last one, where it fits."""
        if not self._config.designer.repair or not slot.attempts:
            return slot.prompt.token_ids
        last = slot.attempts[-1]
        refusal = last.report.refusal()
        if refusal is None:
            return slot.prompt.token_ids
        messages = repair_messages(slot.prompt.messages, last.text, refusal.gate, refusal.message)
        ids = tuple(self._tokenizer.encode_chat(messages))
        if len(ids) <= room:
            return ids
        _log.warning("a repair turn was too long, asking anew", slot=slot.index, tokens=len(ids), room=room)
        SHORTENED.labels("repair").inc()
        return slot.prompt.token_ids

    # --- One round --------------------------------------------------------------------------------

    async def _round(
        self, task: Task, attempt: int, slots: Sequence[Slot], known: set[str], room: int
    ) -> list[Attempt]:
        """Return one attempt for each slot, and add to ``known`` what was admitted."""
        section = self._config.designer
        prompts = [self._prompt_ids(slot, room) for slot in slots]
        asks = [
            Ask(
                ids,
                section.temperature,
                section.max_tokens,
                derive_seed(task.run_seed, "design", task.cycle, slot.index, attempt),
            )
            for ids, slot in zip(prompts, slots, strict=True)
        ]
        taken = sorted(known)
        limit = asyncio.Semaphore(ADMISSIONS_AT_ONCE)
        admissions: dict[int, asyncio.Task[Attempt]] = {}

        async def judge(number: int, reply: Reply) -> Attempt:
            async with limit:
                return await self._judged(task, attempt, slots[number], prompts[number], reply, taken)

        try:
            with ROUND_SECONDS.labels("generation").time():
                async with aclosing(self._engine.generate(asks)) as replies:
                    async for number, reply in replies:
                        admissions[number] = asyncio.create_task(judge(number, reply))
        except BaseException:
            for running in admissions.values():
                running.cancel()
            await asyncio.gather(*admissions.values(), return_exceptions=True)
            raise
        with ROUND_SECONDS.labels("admission").time():
            written = await together(admissions[number] for number in range(len(slots)))
        return [self._counted(self._once(made, known)) for made in written]

    async def _judged(
        self, task: Task, attempt: int, slot: Slot, prompt_ids: tuple[int, ...], reply: Reply, known: Sequence[str]
    ) -> Attempt:
        text = self._tokenizer.decode(reply.token_ids)
        source, complaint = self._program(text, reply)
        if complaint:
            report, normalised = _refused(GATE_REPLY, complaint), ""
        else:
            digest = source_digest(source)
            seed = derive_seed(task.run_seed, "admission", digest)
            report, normalised = await self._sandbox.admit(source, seed=seed, known=known)
            passed = GateVerdict(GATE_REPLY, Verdict.PASSED)
            report = replace(report, digest=digest, verdicts=(passed, *report.verdicts))
        return Attempt(
            id=f"{task.run_id}/c{task.cycle}/s{slot.index}/a{attempt}",
            skill=slot.skill,
            provenance=self._provenance(task, slot, slot.prompt, reply, attempt + 1),
            prompt_ids=prompt_ids,
            reply=reply,
            text=text,
            source=source,
            report=report,
            normalised_digest=normalised,
        )

    def _program(self, text: str, reply: Reply) -> tuple[str, str]:
        """Return the program in a reply, or a complaint."""
        if reply.cut:
            limit = self._config.designer.max_tokens
            return "", f"the reply was cut at {limit} tokens (designer.max_tokens) before its end: write less"
        source = extract_source(self._style, text)
        if source is None or not source.strip():
            return "", "the reply holds no program: answer with one whole Python class"
        size = len(source.encode())
        if size > MAX_SOURCE_BYTES:
            return "", f"the program takes {size} bytes, more than {MAX_SOURCE_BYTES}: write less"
        return source, ""

    @staticmethod
    def _provenance(task: Task, slot: Slot, prompt: DesignPrompt, reply: Reply, attempts: int) -> Provenance:
        return Provenance(
            run_id=task.run_id,
            cycle=task.cycle,
            document_id=slot.document.id if slot.document else "",
            document_excerpt=prompt.document,
            positive_seeds=tuple(seed.digest for seed in prompt.positives),
            negative_seeds=tuple(seed.digest for seed in prompt.negatives),
            policy_version=reply.policy_version,
            attempts=attempts,
        )

    @staticmethod
    def _once(made: Attempt, known: set[str]) -> Attempt:
        """Refuse what an earlier slot of this call wrote already; the sandbox only knew of earlier rounds."""
        if not made.report.admitted:
            return made
        if made.normalised_digest not in known:
            known.add(made.normalised_digest)
            return made
        verdict = GateVerdict(GATE_DUPLICATE, Verdict.FAILED, "another environment of this set is the same program")
        return replace(made, report=replace(made.report.with_verdict(verdict), admitted=False))

    @staticmethod
    def _counted(made: Attempt) -> Attempt:
        refusal = made.report.refusal()
        ATTEMPTS.labels("refused" if refusal else "admitted").inc()
        if refusal:
            REFUSALS.labels(refusal.gate).inc()
        return made

    # --- Hints ------------------------------------------------------------------------------------

    async def _hinted(self, task: Task, slots: Sequence[Slot], context: int) -> AsyncGenerator[Designed, None]:
        """Yield admitted slots with their hints, each as soon as its hint is there."""
        section = self._config.designer
        asked: list[Slot] = []
        asks: list[Ask] = []
        for slot in slots:
            made = slot.attempts[-1]
            ids = tuple(self._tokenizer.encode_chat(hint_messages(self._style, made.source)))
            if len(ids) + section.hint_max_tokens > context:
                _log.warning("a program is too long to ask for its hint", slot=slot.index, tokens=len(ids))
                yield self._designed(slot, "", "no_room", "the program is too long for a hint's prompt")
                continue
            asked.append(slot)
            seed = derive_seed(task.run_seed, "hint", made.report.digest)
            asks.append(Ask(ids, section.hint_temperature, section.hint_max_tokens, seed))
        if not asks:
            return
        with ROUND_SECONDS.labels("hint").time():
            async with aclosing(self._engine.generate(asks)) as replies:
                async for number, reply in replies:
                    yield self._with_hint(asked[number], extract_hint(self._tokenizer.decode(reply.token_ids)))

    def _with_hint(self, slot: Slot, hint: str) -> Designed:
        made = slot.attempts[-1]
        if not hint:
            return self._designed(slot, "", "empty", "the reply holds no hint")
        report = made.report
        values = stated_values(report.solution, self._config.designer.kind)
        answer = leaked(hint, values, source=made.source, observation=report.observation)
        if answer:
            return self._designed(slot, "", "leaked", f"the hint gives away {answer[:200]!r}: {hint[:1000]}")
        return self._designed(slot, hint, "kept", "")

    @staticmethod
    def _designed(slot: Slot, hint: str, outcome: str, complaint: str) -> Designed:
        """Return a slot that is done; what became of the hint stands among the verdicts and refuses nothing."""
        HINTS.labels(outcome).inc()
        verdict = GateVerdict(GATE_HINT, Verdict.FAILED if complaint else Verdict.PASSED, complaint)
        last = slot.attempts[-1]
        attempts = (*slot.attempts[:-1], replace(last, report=last.report.with_verdict(verdict)))
        return Designed(slot.index, attempts, admitted=True, hint=hint)


def _refused(gate: str, complaint: str) -> Report:
    return Report(source_digest(""), admitted=False, verdicts=(GateVerdict(gate, Verdict.FAILED, complaint),))
