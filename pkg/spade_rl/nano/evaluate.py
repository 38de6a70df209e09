"""Measures of a nano model: what it designs, what it hints, how it plays.

Programs that the model wrote are judged only by the caller's ``admit``, which runs them in the sandbox; plays use
programs of the families' own writers.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from spade_rl.documents import excerpt
from spade_rl.nano.demos import COMPACT, Demonstrator, load_trusted
from spade_rl.nano.families import DESIGNED, FAMILIES, KEYWORDS, SKILLS, level_of
from spade_rl.nano.heldout import HeldOutInstance, Summary, instances, summarise
from spade_rl.nano.sampling import Sampler
from spade_rl.nano.words import EXCERPT_WORDS, Document, content_words
from spade_rl.prompts import SeedExample, agent_observation, designer_messages, hint_messages

REPLY_TOKENS = 256
ACTION_TOKENS = 12
HINT_TOKENS = 48
MAX_TURNS = 80
SEED_LEVELS = (2, 4, 8, 16, 32)
SEED_WIN_RATES = {"easy": 0.8, "good": 0.5, "hard": 0.2}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the sandbox says of a program: whether every gate let it pass, and the first that did not."""

    accepted: bool
    gate: str = ""


Admit = Callable[[Sequence[str]], Sequence[Verdict]]


@dataclass(frozen=True, slots=True)
class DesignReport:
    """Shares over sampled designs; ``grounding`` and the rest are over the accepted ones (over all without ``admit``).

    ``grounding`` is the share of the content words of a program's strings that stand in the document shown;
    ``swapped`` the same against another design's document (chance level); ``obeyed`` the share whose family
    belongs to the skill that was asked for.
    """

    designs: int
    valid: float | None
    gates: dict[str, int]
    obeyed: float
    grounding: float
    fully_grounded: float
    swapped: float
    mean_level: float
    families: dict[str, int]


def string_words(source: str) -> list[str]:
    """Return the content words in a program's string literals, the fixed parts of f-strings included; none if it does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    literals = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [word for literal in literals for word in content_words(literal)]


def family_in(source: str) -> str | None:
    """Return the family whose keyword begins a string of the program, or None."""
    return next((KEYWORDS[word] for word in re.findall(r"'(\w+) ", source) if word in KEYWORDS), None)


def grounding_share(sources: Sequence[str], documents: Sequence[str]) -> float:
    """Return the share of the sources' content words that stand in their documents, word by word."""
    hits = [
        word in set(re.findall(r"[A-Za-z]+", text))
        for source, text in zip(sources, documents, strict=True)
        for word in string_words(source)
    ]
    return _mean(hits)


def judge_designs(
    sampler: Sampler,
    documents: Sequence[Document],
    count: int,
    *,
    temperature: float,
    seed: int,
    seeded: float,
    admit: Admit | None,
) -> DesignReport:
    """Sample ``count`` designs, round robin over the skills; a share ``seeded`` is shown an earlier environment."""
    rng = random.Random(seed)
    demonstrator = Demonstrator(documents, rng)
    skills = [list(SKILLS)[index % len(SKILLS)] for index in range(count)]
    passages = [excerpt(rng.choice(documents).text, EXCERPT_WORDS, rng.getrandbits(32)) for _ in skills]
    prompts = []
    for skill, passage in zip(skills, passages, strict=True):
        positives = []
        if rng.random() < seeded:
            source = demonstrator.source(rng.choice(SKILLS[skill]), rng.randint(1, 24))
            positives.append(SeedExample(source, rng.uniform(0.15, 0.85)))
        prompts.append(
            sampler.encode_prompt(designer_messages(COMPACT, skill=skill, document=passage, positives=positives))
        )
    replies = sampler.sample(prompts, REPLY_TOKENS, temperature, torch.Generator().manual_seed(seed))
    sources = [sampler.decode(ids) for ids, _ in replies]
    verdicts = list(admit(sources)) if admit else [Verdict(True)] * count
    kept = [index for index, verdict in enumerate(verdicts) if verdict.accepted]
    families = [family_in(sources[index]) for index in kept]
    words = [(string_words(sources[index]), set(re.findall(r"[A-Za-z]+", passages[index]))) for index in kept]
    return DesignReport(
        designs=count,
        valid=len(kept) / count if admit else None,
        gates=dict(Counter(verdict.gate for verdict in verdicts if not verdict.accepted)),
        obeyed=_mean(
            [
                bool(name) and FAMILIES[name].skill == skills[index]
                for name, index in zip(families, kept, strict=True)
                if name
            ]
        ),
        grounding=grounding_share([sources[index] for index in kept], [passages[index] for index in kept]),
        fully_grounded=_mean([set(found) <= text for found, text in words]),
        swapped=grounding_share(
            [sources[index] for index in kept], [passages[(index + len(SKILLS)) % count] for index in kept]
        ),
        mean_level=_mean([level_of(sources[index]) or 0 for index in kept]),
        families=dict(Counter(name or "none" for name in families)),
    )


def judge_levels(
    sampler: Sampler,
    documents: Sequence[Document],
    count: int,
    *,
    temperature: float,
    seed: int,
    seed_levels: Sequence[int] = SEED_LEVELS,
) -> dict[tuple[int, str], float]:
    """Return the mean level written after a seed of each level that was easy, good or hard."""
    rng = random.Random(seed)
    demonstrator = Demonstrator(documents, rng)
    generator = torch.Generator().manual_seed(seed)
    levels: dict[tuple[int, str], float] = {}
    for level in seed_levels:
        for word, win_rate in SEED_WIN_RATES.items():
            prompts = []
            for index in range(count):
                skill = list(SKILLS)[index % len(SKILLS)]
                positives = [SeedExample(demonstrator.source(rng.choice(SKILLS[skill]), level), win_rate)]
                prompts.append(
                    sampler.encode_prompt(
                        designer_messages(COMPACT, skill=skill, document=demonstrator.passage(), positives=positives)
                    )
                )
            replies = sampler.sample(prompts, REPLY_TOKENS, temperature, generator)
            levels[level, word] = _mean([level_of(sampler.decode(ids)) or 0 for ids, _ in replies])
    return levels


def judge_hints(sampler: Sampler, documents: Sequence[Document], count: int, *, temperature: float, seed: int) -> float:
    """Return the share of hints that are one of the right family's."""
    rng = random.Random(seed)
    demonstrator = Demonstrator(documents, rng)
    families = [rng.choice(DESIGNED) for _ in range(count)]
    prompts = [
        sampler.encode_prompt(hint_messages(COMPACT, demonstrator.source(family, rng.randint(1, 24))))
        for family in families
    ]
    replies = sampler.sample(prompts, HINT_TOKENS, temperature, torch.Generator().manual_seed(seed))
    return _mean(
        [sampler.decode(ids).strip() in family.hints for family, (ids, _) in zip(families, replies, strict=True)]
    )


def play_held_out(
    sampler: Sampler, *, temperature: float, seed: int, hinted: bool, chosen: Sequence[HeldOutInstance] | None = None
) -> Summary:
    """Play the held-out set (or ``chosen`` of it) with the latest observation as the only context."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    todo = instances() if chosen is None else chosen
    classes = {source: load_trusted(source) for source in {instance.source for instance in todo}}
    won = dict.fromkeys((instance.id for instance in todo), False)
    active: list[tuple[str, Any, str, str | None]] = []
    for instance in todo:
        environment = classes[instance.source]()
        observation, _ = environment.reset(instance.seed)
        active.append(
            (instance.id, environment, observation, rng.choice(FAMILIES[instance.family].hints) if hinted else None)
        )
    for _ in range(MAX_TURNS):
        prompts = [
            sampler.encode_prompt((agent_observation(COMPACT, observation, hint),))
            for _, _, observation, hint in active
        ]
        replies = sampler.sample(prompts, ACTION_TOKENS, temperature, generator)
        going = []
        for (name, environment, _, hint), (ids, _) in zip(active, replies, strict=True):
            observation, reward, terminated, _, _ = environment.step(sampler.decode(ids).strip())
            if terminated:
                won[name] = reward > 0
            else:
                going.append((name, environment, observation, hint))
        active = going
        if not active:
            break
    return summarise(won)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
