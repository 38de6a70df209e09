"""The admission gates: their names, their order, and what each says about the evidence that the workers brought.

Pure: evidence in, verdicts out. A gate that cannot decide refuses. Messages are for the author of the source: what is
wrong, where, and how to mend it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from spade_rl.sandbox.answers import Refusal, Reset, Step, reward_problem
from spade_rl.sandbox.leak import LEAK_SHARE, labelled_answer, points_at, words
from spade_rl.sandbox.limits import EpisodeError
from spade_rl.sandbox.normalise import nearest
from spade_rl.seeds import derive_seed

GATES = (
    "parse",
    "imports",
    "compile",
    "class",
    "reset",
    "step",
    "determinism",
    "instances",
    "solution",
    "replay",
    "trivial",
    "rewards",
    "leak",
    "early_success",
    "bounds",
    "duplicate",
)
# Instances that are tried, and how many of them must differ.
INSTANCES = 6
DISTINCT = 3
# A strategy that knows nothing may win by luck, but not on more than this share of the instances.
LUCK_SHARE = 0.5
RANDOM_DRAWS = 2
# Every step must take any text: what an agent may well say. The first is said again and again in a process that has
# played nothing before, and once more in one that has: what was played must not matter.
PROBES = (("",) * 8, ("?",), ("I do not know ☃ " * 8,))
SLOW_SHARE = 0.5
CONSTANT = "the action {!r} again and again"
_SUCCESS_KEYS = frozenset({"success", "is_success", "solved", "won", "done", "terminated"})


class Verdict(StrEnum):
    """What a gate says."""

    PASSED = "passed"
    FAILED = "failed"
    # An earlier gate failed.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The verdict of one gate."""

    gate: str
    verdict: Verdict
    message: str = ""


@dataclass(slots=True)
class Instance:
    """What one seed brought. ``None``: it was not tried."""

    seed: int
    reset: Reset | Refusal | None = None
    solution: tuple[str, ...] | Refusal | None = None
    steps: tuple[Step, ...] | Refusal | None = None
    # The same in another process: the reset, and the replay of the solution.
    other_reset: Reset | Refusal | None = None
    other_steps: tuple[Step, ...] | Refusal | None = None


@dataclass(slots=True)
class Evidence:
    """All that the workers brought about one program."""

    instances: list[Instance]
    loaded: Refusal | None = None
    # What came of the probes, in their order, and the resets (of the first instance) before them.
    probes: list[tuple[str, tuple[Step, ...] | Refusal]] = field(default_factory=list)
    probe_resets: list[Reset | Refusal] = field(default_factory=list)
    # What every play of the strategies that know nothing brought, by the strategy's name.
    trivial: dict[str, list[tuple[Step, ...] | Refusal]] = field(default_factory=dict)
    # What ended a worker before its script was over, and the gate whose work it was doing.
    error: EpisodeError | None = None
    error_gate: str = ""
    # Duration of the slowest call, and what it was.
    slowest_seconds: float = 0.0
    slowest_call: str = ""
    call_seconds: float = 1.0
    normalised_digest: str = ""
    known: Collection[str] = ()


def instance_seeds(seed: int, digest: str) -> list[int]:
    """Return the seeds of the instances that admission tries."""
    return [derive_seed(seed, "admission", digest, index) % (1 << 31) for index in range(INSTANCES)]


def strategies(instances: Sequence[Instance], seed: int) -> dict[str, list[tuple[int, tuple[str, ...]]]]:
    """Return what strategies without knowledge do: nothing, one thing, or anything.

    Every strategy is a list of plays: the instance's index and the actions. The constant actions are the commonest
    among all solutions; random ones are drawn from the solutions of all instances and from what an instance shows.
    Where every solution ends with the same action (as those of tools end with submit), random plays end with it too.
    """
    solutions = [each.solution if isinstance(each.solution, tuple) else () for each in instances]
    lengths = [min(len(solution) + 4, 64) for solution in solutions]
    counted = Counter(action for solution in solutions for action in set(solution))
    common = [action for action, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:2]]
    plays: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    endings = {solution[-1] for solution in solutions if solution}
    for action in dict.fromkeys(("", "1", *(endings if len(endings) == 1 else ()), *common)):
        plays[CONSTANT.format(action[:60])] = [(index, (action,) * length) for index, length in enumerate(lengths)]
    pool = sorted(counted)
    played = []
    for draw in range(RANDOM_DRAWS):
        for index, (each, length) in enumerate(zip(instances, lengths, strict=True)):
            shown = words(each.reset.observation)[:64] if isinstance(each.reset, Reset) else []
            rng = random.Random(derive_seed(seed, "random actions", draw, index))
            played.append((index, tuple(rng.choice([*pool, *shown, "0"]) for _ in range(length))))
    plays["playing random actions"] = played
    others = [action for action in pool if action not in endings]
    if len(endings) == 1 and others:
        [ending] = endings
        ended = plays[f"playing random actions, then {ending[:60]!r}"] = []
        for number, (index, actions) in enumerate(played):
            rng = random.Random(derive_seed(seed, "random actions with an end", number))
            ended.append((index, (*(rng.choice(others) for _ in actions[1:]), ending)))
    return plays


def judge(evidence: Evidence) -> list[GateVerdict]:
    """Return the verdicts of all gates; the static ones have passed already."""
    verdicts: list[GateVerdict] = []
    failed = False
    for gate in GATES:
        if failed:
            verdicts.append(GateVerdict(gate, Verdict.SKIPPED))
            continue
        check = _CHECKS.get(gate)
        if evidence.error is not None and evidence.error_gate == gate:
            message = evidence.error.message
        else:
            message = check(evidence) if check is not None else ""
        failed = bool(message)
        verdicts.append(GateVerdict(gate, Verdict.FAILED if failed else Verdict.PASSED, message[:4000]))
    return verdicts


def static_refusal(gate: str, message: str) -> list[GateVerdict]:
    """Return the verdicts on a source that a static gate refuses."""
    position = GATES.index(gate)
    return [
        GateVerdict(name, Verdict.PASSED)
        if index < position
        else GateVerdict(name, Verdict.FAILED, message[:4000])
        if index == position
        else GateVerdict(name, Verdict.SKIPPED)
        for index, name in enumerate(GATES)
    ]


def _loads(evidence: Evidence) -> str:
    if evidence.loaded is None:
        return ""
    return f"{evidence.loaded.message}; outside of functions, only import modules and define things that are there"


def _resets(evidence: Evidence) -> str:
    for reset in (*evidence.probe_resets, *(each.reset for each in evidence.instances)):
        if isinstance(reset, Refusal):
            return f"{reset.message}; reset must work for every seed and return a text and a dict"
    return ""


def _steps(evidence: Evidence) -> str:
    for action, outcome in evidence.probes:
        said = f"on the action {action[:40]!r}"
        if isinstance(outcome, Refusal):
            return f"{outcome.message} {said}; step must take any text, and end or go on with a reward of 0 for a wrong one"
        for step in outcome:
            if step.reward - step.reward != 0:
                return f"{reward_problem(step.reward)} ({said})"
    return ""


def _same(first: Reset | Refusal | None, second: Reset | Refusal | None) -> bool:
    return isinstance(first, Reset) and isinstance(second, Reset) and first.observation == second.observation


def _untried(evidence: Evidence, outcome: object) -> bool:
    """Whether an outcome is missing because a worker ended; a later gate says so."""
    return outcome is None and evidence.error is not None


def _is_deterministic(evidence: Evidence) -> str:
    for each in evidence.instances:
        if _untried(evidence, each.other_reset):
            continue
        if not _same(each.reset, each.other_reset):
            if isinstance(each.other_reset, Refusal):
                return f"in a second process {each.other_reset.message}"
            return (
                f"reset(seed={each.seed}) shows different observations in two processes; draw everything from "
                "random.Random(seed), never from time, os, hash() or the unseeded random"
            )
    return _remembers(evidence)


def _remembers(evidence: Evidence) -> str:
    """Say where the first instance, played for the first time in a process, is not what it is later on."""
    first = evidence.instances[0]
    if isinstance(first.reset, Reset) and not all(_same(first.reset, reset) for reset in evidence.probe_resets):
        return (
            f"reset(seed={first.seed}) shows another observation when it is called again in the same process; draw "
            "everything from random.Random(seed), and keep nothing in the class, in the module or in files"
        )
    nothing = evidence.trivial.get(CONSTANT.format(""))
    fresh = evidence.probes[0][1] if evidence.probes else None
    if not nothing or not isinstance(fresh, tuple) or not isinstance(nothing[0], tuple):
        return ""
    both = min(len(fresh), len(nothing[0]))
    if fresh[:both] != nothing[0][:both]:
        return (
            f"the same actions after reset(seed={first.seed}) bring different results when they are played again; step "
            "must depend on the seed and the actions alone: keep nothing in the class, in the module or in files"
        )
    return ""


def _has_instances(evidence: Evidence) -> str:
    if evidence.error is not None and any(each.reset is None for each in evidence.instances):
        return ""
    shown = {
        (
            each.reset.observation if isinstance(each.reset, Reset) else "",
            each.solution if isinstance(each.solution, tuple) else (),
        )
        for each in evidence.instances
    }
    if len(shown) < DISTINCT:
        return (
            f"{len(evidence.instances)} seeds make only {len(shown)} different instances, at least {DISTINCT} are "
            "needed; let reset(seed) draw the instance from random.Random(seed)"
        )
    return ""


def _solves(evidence: Evidence) -> str:
    for each in evidence.instances:
        if _untried(evidence, each.steps):
            continue
        after = f"after reset(seed={each.seed})"
        if isinstance(each.solution, Refusal):
            return f"{each.solution.message} ({after})"
        if isinstance(each.steps, Refusal):
            return f"{each.steps.message}, while the actions of solution() were played {after}"
        if not each.solution or not each.steps:
            return f"solution() is empty {after}; it must return the list of winning actions"
        last = each.steps[-1]
        if not last.ended:
            return f"the episode is not over after all {len(each.solution)} actions of solution() {after}"
        if not last.won:
            how = "truncated" if last.truncated and not last.terminated else f"reward {last.reward:g}"
            return (
                f"the actions of solution() do not win {after}: the episode ends with {how} at action "
                f"{len(each.steps)} of {len(each.solution)}; a win terminates with reward 1.0"
            )
    return ""


def _replays(evidence: Evidence) -> str:
    for each in evidence.instances:
        if _untried(evidence, each.other_steps):
            continue
        if isinstance(each.other_steps, Refusal):
            return f"{each.other_steps.message}, while the winning actions were replayed (seed {each.seed})"
        if each.other_steps != each.steps:
            return (
                f"the same actions after reset(seed={each.seed}) bring different results in two processes; "
                "step must depend on the seed and the actions alone"
            )
    return ""


def _is_not_trivial(evidence: Evidence) -> str:
    for name, outcomes in evidence.trivial.items():
        wins = 0
        for outcome in outcomes:
            if isinstance(outcome, Refusal):
                return f"{outcome.message}, with {name}; step must take any text"
            wins += bool(outcome and outcome[-1].won)
        if wins > LUCK_SHARE * len(outcomes):
            return f"{name} wins {wins} of {len(outcomes)} episodes; only work on the observation may win"
    return ""


def _all_steps(evidence: Evidence) -> list[Step]:
    outcomes = [outcome for _, outcome in evidence.probes]
    for each in evidence.instances:
        outcomes += [outcome for outcome in (each.steps, each.other_steps) if outcome is not None]
    for played in evidence.trivial.values():
        outcomes += played
    return [step for outcome in outcomes if not isinstance(outcome, Refusal) for step in outcome]


def _pays_well(evidence: Evidence) -> str:
    for step in _all_steps(evidence):
        problem = reward_problem(step.reward)
        if problem:
            return f"{problem}; pay 1.0 for a win and 0.0 for anything else"
    return ""


def _shows_no_answer(evidence: Evidence) -> str:
    pairs = [
        (each.reset.observation, each.solution)
        for each in evidence.instances
        if isinstance(each.reset, Reset) and isinstance(each.solution, tuple)
    ]
    label = labelled_answer(pairs)
    if label is not None:
        where = f"right after the word {label!r}" if label else "at its beginning"
        return (
            f"every first observation holds the answer {where} (for example {pairs[0][1][0][:60]!r}); show only what "
            "it must be worked out from"
        )
    pointing = [pair for pair in pairs if points_at(*pair)]
    if len(pointing) > LEAK_SHARE * len(pairs):
        return (
            f"{len(pointing)} of {len(pairs)} first observations spell out the whole solution, action by action "
            f"(for example {' '.join(pointing[0][1])[:80]!r}); show only what it must be worked out from"
        )
    return ""


def _starts_open(evidence: Evidence) -> str:
    for each in evidence.instances:
        if not isinstance(each.reset, Reset) or each.reset.info_json == "{}":
            continue
        info = json.loads(each.reset.info_json)
        for key in sorted(_SUCCESS_KEYS & set(info)):
            if info[key] is True or info[key] == 1:
                return f"reset(seed={each.seed}) says {key!r} is true in its info before any action was taken"
    return ""


def slow_call(evidence: Evidence) -> str:
    """Say which call came too close to the deadline; "" if none did."""
    allowed = evidence.call_seconds * SLOW_SHARE
    if evidence.slowest_seconds > allowed:
        return (
            f"{evidence.slowest_call} took {evidence.slowest_seconds:.2f} s; calls must stay below {allowed:g} s "
            "to be safe from the deadline: make the instance smaller or the search cheaper"
        )
    return ""


def _is_new(evidence: Evidence) -> str:
    if evidence.normalised_digest in evidence.known:
        return "the same program, up to names and layout, was admitted before; change what it does or its constants"
    near = nearest(evidence.normalised_digest, evidence.known)
    if near is not None:
        return (
            f"a program with the same constants that is {near[1]:.0%} the same was admitted before; change what it "
            "does or its constants, not how it is written"
        )
    return ""


_CHECKS: dict[str, Callable[[Evidence], str]] = {
    "compile": _loads,
    "reset": _resets,
    "step": _steps,
    "determinism": _is_deterministic,
    "instances": _has_instances,
    "solution": _solves,
    "replay": _replays,
    "trivial": _is_not_trivial,
    "rewards": _pays_well,
    "leak": _shows_no_answer,
    "early_success": _starts_open,
    "bounds": slow_call,
    "duplicate": _is_new,
}
