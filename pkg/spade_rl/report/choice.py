"""Which environments, refusals and episodes a report shows: pure choices, the same for the same run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spade_rl.memory.records import Attempt, StoredEnvironment, Trajectory, TrajectoryHeader

LEARNABLE = (0.2, 0.8)
NO_PROGRAM = "no program"


def learnable(stored: StoredEnvironment) -> bool:
    """Whether the policy wins an environment sometimes and not always."""
    found = stored.statistics
    return found is not None and not found.quarantined and LEARNABLE[0] <= found.win_rate <= LEARNABLE[1]


def best_environments(environments: Iterable[StoredEnvironment], count: int) -> list[StoredEnvironment]:
    """Return the environments that taught most: learnable before others, then by regret, then by reward.

    Only such as were played and not quarantined.
    """
    played = [
        (not learnable(one), -one.statistics.regret, -one.statistics.designer_reward, one.environment.digest, one)
        for one in environments
        if one.statistics and one.statistics.plain_plays and not one.statistics.quarantined
    ]
    return [row[-1] for row in sorted(played, key=lambda row: row[:-1])[:count]]


@dataclass(frozen=True, slots=True)
class Lineage:
    """An environment's family: ``ancestors`` from the oldest to its first positive seed, then ``children``."""

    ancestors: tuple[str, ...]
    children: tuple[str, ...]


def lineages(environments: Sequence[StoredEnvironment]) -> dict[str, Lineage]:
    """Return the lineage of every environment by digest.

    An environment descends from its first positive seed; its children are those that were shown it as a positive seed.
    """
    seeds = {one.environment.digest: one.environment.provenance.positive_seeds for one in environments}
    children: dict[str, list[str]] = defaultdict(list)
    for one in sorted(environments, key=lambda one: (one.cycle, one.environment.digest)):
        for seed in seeds[one.environment.digest]:
            children[seed].append(one.environment.digest)
    found = {}
    for digest in seeds:
        line: list[str] = []
        parent = next(iter(seeds[digest]), None)
        # Seeds are older than what is made of them; a damaged archive could still hold a circle.
        while parent is not None and parent not in line and parent != digest:
            line.append(parent)
            parent = next(iter(seeds.get(parent, ())), None)
        found[digest] = Lineage(tuple(reversed(line)), tuple(children[digest]))
    return found


def refusal(attempt: Attempt) -> tuple[str, str] | None:
    """Return the gate that refused an attempt and its message, or None if it was admitted."""
    if attempt.report is None:
        return NO_PROGRAM, "the reply holds no program"
    if attempt.report.admitted:
        return None
    failed = [verdict for verdict in attempt.report.verdicts if verdict.verdict == "failed"]
    return (failed[0].gate, failed[0].message) if failed else (NO_PROGRAM, attempt.report.refusal())


def refusals(attempts: Iterable[Attempt], per_gate: int) -> dict[str, list[Attempt]]:
    """Return the latest refused attempts of every gate, the gate that refused most first."""
    by_gate: dict[str, list[Attempt]] = defaultdict(list)
    for one in attempts:
        refused = refusal(one)
        if refused:
            by_gate[refused[0]].append(one)
    ordered = sorted(by_gate.items(), key=lambda item: (-len(item[1]), item[0]))
    return {gate: sorted(found, key=lambda one: (-one.cycle, one.id))[:per_gate] for gate, found in ordered}


@dataclass(frozen=True, slots=True)
class Pair:
    """The same instance of an environment played without and with the hint; an arm may be missing."""

    plain: Trajectory | None
    hinted: Trajectory | None

    @property
    def episodes(self) -> tuple[Trajectory, ...]:
        """The arms that there are, the plain one first."""
        return tuple(one for one in (self.plain, self.hinted) if one is not None)


def paired_plays(headers: Iterable[TrajectoryHeader], count: int) -> list[dict[str, TrajectoryHeader]]:
    """Return up to ``count`` plays, each as header by arm, of different environments as long as there are some.

    Whole pairs come first, and among those the ones whose arms differ most.
    """
    plays: dict[tuple[int, str, int], dict[str, TrajectoryHeader]] = defaultdict(dict)
    for one in headers:
        plays[one.cycle, one.environment_digest, one.play][one.arm] = one

    def rank(arms: dict[str, TrajectoryHeader]) -> tuple[bool, float]:
        returns = [one.episode_return for one in arms.values()]
        return (len(arms) < 2, min(returns) - max(returns))

    ordered = sorted((plays[key] for key in sorted(plays)), key=rank)
    seen: set[str] = set()
    first: list[dict[str, TrajectoryHeader]] = []
    rest: list[dict[str, TrajectoryHeader]] = []
    for arms in ordered:
        digest = next(iter(arms.values())).environment_digest
        (rest if digest in seen else first).append(arms)
        seen.add(digest)
    return (first + rest)[:count]


def sampled_cycles(headers: Iterable[TrajectoryHeader]) -> tuple[int, ...]:
    """Return the first and the last cycle worth showing: those with both arms, else those with any; one if equal."""
    arms: dict[int, set[str]] = defaultdict(set)
    for one in headers:
        arms[one.cycle].add(one.arm)
    both = sorted(cycle for cycle, found in arms.items() if len(found) > 1) or sorted(arms)
    return tuple(dict.fromkeys((both[0], both[-1]))) if both else ()
