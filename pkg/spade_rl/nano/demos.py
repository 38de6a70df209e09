"""Demonstrations for supervised training: designs, hints, plays and copying drills.

Every prompt is built by ``spade_rl.prompts`` and so is what a run will show. The player's teacher is sloppy on
purpose: its errors grow with the steps that lie ahead and it falls into traps; with a hint it errs much less.
So the model starts weak and knows the right action nearly everywhere: what self-play can improve.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from spade_rl.documents import excerpt
from spade_rl.nano.families import DESIGNED, FAMILIES, MAX_LEVEL, SKILLS, STYLES, Family, write
from spade_rl.nano.words import EXCERPT_WORDS, Document, pick_run
from spade_rl.prompts import Message, PromptStyle, SeedExample, agent_observation, designer_messages, hint_messages
from spade_rl.sandbox.program import StaticRefusal, analyse

COMPACT = PromptStyle.COMPACT
HINTED_ERRORS = 0.25  # the share of a teacher's errors that is left when it has a hint
MIXED_PASSAGES = 0.4  # the share of passages that are words in random order
REFUSED_SHARE = 0.3  # of the negative examples: what a gate refused, with the gate's message
ALIKE = (
    "6 seeds make only {} different instances, at least 3 are needed; let reset(seed) draw the instance from "
    "random.Random(seed)"
)
DRILL_SKILL = "words"  # not a skill of a run: the reply is only a run of the document's words


@dataclass(frozen=True, slots=True)
class Demo:
    """A prompt and the reply to imitate; ``copied`` is the part of the reply that stands in the document."""

    messages: tuple[Message, ...]
    reply: str
    copied: tuple[int, int] = (0, 0)


def level_with_decay(rng: random.Random, decay: float, top: int) -> int:
    """Draw a level from 1 to ``top``, each ``decay`` times as likely as the one below."""
    return rng.choices(range(1, top + 1), [decay**i for i in range(top)])[0]


def adapted_level(level: int, win_rate: float, rng: random.Random) -> int:
    """Return the level to write after a seed of ``level``: higher if it was easy, lower if it was hard."""
    if win_rate >= 0.6:
        target = round(level * rng.uniform(1.3, 1.7)) + rng.choice((0, 1))
    elif win_rate >= 0.4:
        target = level + rng.choice((0, 0, 1))
    else:
        target = round(level * rng.uniform(0.55, 0.85))
    return max(1, min(MAX_LEVEL, target))


class Demonstrator:
    """Draws demonstrations from documents; everything depends on ``rng``. No passage holds a run of ``avoid``."""

    def __init__(self, documents: Sequence[Document], rng: random.Random, avoid: Collection[str] = ()) -> None:
        self._documents = documents
        self._avoid = avoid
        self._rng = rng
        self._words = sorted({word for document in documents for word in re.findall(r"[A-Za-z]+", document.text)})

    def passage(self) -> str:
        """Return what a designer is shown: an excerpt of some document, or words of all documents in random order.

        Nothing but copying helps with the latter, and rare words come as often as common ones.
        """
        while True:
            passage = self._draw_passage()
            if not any(run in passage for run in self._avoid):
                return passage

    def _draw_passage(self) -> str:
        rng = self._rng
        length = rng.randint(EXCERPT_WORDS // 2, EXCERPT_WORDS)
        if rng.random() < MIXED_PASSAGES:
            return " ".join(rng.choice(self._words) + rng.choice(("", "", "", "", ".", ",")) for _ in range(length))
        return excerpt(rng.choice(self._documents).text, length, rng.getrandbits(32))

    def run(self, family: Family) -> tuple[str, list[str]]:
        """Return a passage and a run of its words that suits ``family``."""
        while True:
            passage = self.passage()
            words = pick_run(passage, self._rng.choice(family.runs), self._rng)
            if words:
                return passage, words

    def source(self, family: Family, level: int, style: int | None = None) -> str:
        """Return an environment of ``family`` made of some document."""
        return write(family, self.run(family)[1], level, self._rng.randrange(STYLES) if style is None else style)

    def design(self) -> Demo:
        """Design for a skill, a document and perhaps seeds."""
        rng = self._rng
        skill = rng.choice(list(SKILLS))
        family = rng.choice(SKILLS[skill])
        level = level_with_decay(rng, 0.6, 8)
        style: int | None = None
        positives: list[SeedExample] = []
        negatives: list[SeedExample] = []
        if rng.random() < 0.65:
            seed_family = family if rng.random() < 0.7 else rng.choice(SKILLS[skill])
            seed_level = self._seed_level()
            win_rate = rng.uniform(0.15, 0.85)
            style = rng.randrange(STYLES)
            positives.append(SeedExample(self.source(seed_family, seed_level, style), win_rate))
            level = adapted_level(seed_level, win_rate, rng)
            if rng.random() < 0.5:
                style = None
            if rng.random() < 0.2:
                other = max(1, min(MAX_LEVEL, round(seed_level * rng.uniform(0.6, 1.6))))
                positives.append(SeedExample(self.source(rng.choice(SKILLS[skill]), other), rng.uniform(0.15, 0.85)))
        if rng.random() < 0.4:
            if rng.random() < REFUSED_SHARE:
                negatives.append(self._refused(rng.choice(SKILLS[skill])))
            else:
                negative, level = self._negative(skill, family, level, bool(positives))
                negatives.append(negative)
        passage, words = self.run(family)
        source = write(family, words, level, rng.randrange(STYLES) if style is None else style)
        start = source.index(' "') + 2
        messages = designer_messages(COMPACT, skill=skill, document=passage, positives=positives, negatives=negatives)
        return Demo(tuple(messages), source, (start, source.index('"', start)))

    def _seed_level(self) -> int:
        rng = self._rng
        return (
            level_with_decay(rng, 0.6, 8)
            if rng.random() < 0.4
            else max(1, min(MAX_LEVEL, round(2.718 ** rng.uniform(0, 3.9))))
        )

    def _negative(self, skill: str, family: Family, level: int, fixed: bool) -> tuple[SeedExample, int]:
        """Return an example to stay away from and the level to write; with a positive seed the level is fixed."""
        rng = self._rng
        other = family if rng.random() < 0.7 else rng.choice(SKILLS[skill])
        easy = rng.random() < 0.6
        if fixed:
            bad = level * (rng.uniform(0.4, 0.85) if easy else rng.uniform(1.2, 1.9))
        else:
            bad = 2.718 ** rng.uniform(0, 3.5)
            level = max(1, min(MAX_LEVEL, round(bad * (rng.uniform(1.2, 1.8) if easy else rng.uniform(0.4, 0.8)))))
        source = self.source(other, max(1, min(MAX_LEVEL, round(bad))))
        return SeedExample(source, 0.95 if easy else 0.05, "too easy" if easy else "too hard"), level

    def _refused(self, family: Family) -> SeedExample:
        """Return a program that admission refuses: its instances are alike, or a part of it was lost or said twice.

        Neither the message nor the broken program may be copied, so the model has to have seen such.
        """
        rng = self._rng
        source = self.source(family, self._seed_level())
        if rng.random() < 0.25:
            words = self.run(family)[1][: rng.randint(1, 2)]
            return SeedExample(write(family, words, self._seed_level(), 0), 0.0, ALIKE.format(len(words)))
        while True:
            start, other = rng.randrange(len(source)), rng.randrange(len(source))
            broken = source[:start] + source[other : other + rng.randint(0, 40)] + source[start + rng.randint(1, 40) :]
            try:
                analyse(broken)
            except StaticRefusal as refusal:
                return SeedExample(broken, 0.0, refusal.message)

    def drill(self) -> Demo:
        """Copy a stretch of a document, long or short: many copied tokens a sequence teach copying fastest."""
        rng = self._rng
        while True:
            passage = self.passage()
            words = passage.split()
            length = min(len(words), rng.randint(3, 24))
            start = rng.randrange(len(words) - length + 1)
            stretch = " ".join(words[start : start + length])
            if '"' not in stretch and "\\" not in stretch:
                break
        seeds = (
            [SeedExample(self.source(rng.choice(DESIGNED), self._seed_level()), rng.uniform(0.15, 0.85))]
            if rng.random() < 0.25
            else []
        )
        refused = [self._refused(rng.choice(DESIGNED))] if rng.random() < 0.1 else []
        reply = f'" {stretch}"'
        messages = designer_messages(COMPACT, skill=DRILL_SKILL, document=passage, positives=seeds, negatives=refused)
        return Demo(tuple(messages), reply, (1, len(reply) - 1))

    def hint(self) -> Demo:
        """Explain an environment."""
        rng = self._rng
        family = rng.choice(DESIGNED)
        return Demo(
            tuple(hint_messages(COMPACT, self.source(family, self._seed_level()))), " " + rng.choice(family.hints)
        )

    def plays(self, turns: int = 3) -> list[Demo]:
        """Play some turns of one environment, as the sloppy teacher does."""
        rng = self._rng
        family = rng.choice(list(FAMILIES.values()))
        hinted = rng.random() < 0.4
        level = level_with_decay(rng, 0.93 if hinted else 0.87, 40)
        walk = walk_through(family, self.source(family, level), rng)
        chosen = [walk[-1] if rng.random() < 0.15 else rng.choice(walk) for _ in range(min(turns, len(walk)))]
        hint = rng.choice(family.hints) if hinted else None
        return [
            Demo(
                (agent_observation(COMPACT, observation, hint),), " " + taught(family, observation, action, hinted, rng)
            )
            for observation, action in chosen
        ]


def taught(family: Family, observation: str, answer: str, hinted: bool, rng: random.Random) -> str:
    """Return what the sloppy teacher does at an observation."""
    slip = family.slip(observation, answer, rng)
    rate = slip.rate * (HINTED_ERRORS if hinted else 1.0)
    return rng.choice(slip.wrong) if slip.wrong and rng.random() < rate else answer


def walk_through(family: Family, source: str, rng: random.Random) -> list[tuple[str, str]]:
    """Return the observations of an episode with the right action at each.

    A family whose errors do not end the episode is walked by the teacher, so that the model also sees
    where errors lead.
    """
    environment = load_trusted(source)()
    observation, _ = environment.reset(rng.getrandbits(31))
    walk: list[tuple[str, str]] = []
    remaining: list[str] = list(environment.solution())
    terminated = False
    while not terminated:
        action = family.answer(observation) if family.answer else remaining.pop(0)
        walk.append((observation, action))
        taken = taught(family, observation, action, False, rng) if family.answer else action
        observation, _, terminated, _, _ = environment.step(taken)
    return walk


def load_trusted(source: str) -> Callable[[], Any]:
    """Return the class of a program that ``families.write`` composed. Never for a program that a model wrote."""
    namespace: dict[str, Any] = {}
    exec(compile(source, "<family>", "exec"), namespace)
    return next(value for value in namespace.values() if isinstance(value, type))
