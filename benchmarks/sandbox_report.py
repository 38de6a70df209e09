"""Figures from measurements, goals from figures, tables from both. Pure but for the tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.sandbox_usage import CLIENT, SANDBOX_KINDS

Answers = Mapping[str, Sequence[Mapping[str, Any]]]

FRESH_P50_MS = 10.0
RATIO = 10.0
STEP_P50_MS = 1.0
STEPS_PER_SECOND = 100_000.0
KILL_MS = 100.0
OURS = "spade"
# What holds a share below this of the processor time is not named.
NAMED_SHARE = 0.05


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of the values do not exceed (nearest rank)."""
    if not values or not 0 < share <= 1:
        raise ValueError(f"a percentile needs values and a share in (0, 1], got {len(values)} and {share}")
    ordered = sorted(values)
    rank = -(-len(ordered) * share // 1)
    return ordered[max(0, int(rank) - 1)]


@dataclass(frozen=True, slots=True)
class Timing:
    """One kind of measurement over all its rounds: times of calls in ms, the rate as the median of the rounds'."""

    p50_ms: float
    p99_ms: float
    rate: float
    calls: int
    rounds: int


def timing(answers: Sequence[Mapping[str, Any]]) -> Timing:
    """Return the figures of the answers of all rounds to one question."""
    taken = [1000 * seconds for answer in answers for seconds in answer["seconds"]]
    rate = statistics.median(answer["count"] / answer["wall"] for answer in answers)
    return Timing(percentile(taken, 0.5), percentile(taken, 0.99), rate, len(taken), len(answers))


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory in MB: of a live sandbox when no episode runs (0: there are none), and of one more episode."""

    sandbox_mb: float
    episode_mb: float
    # The additional memory of an episode by where it lies.
    episode_parts_mb: dict[str, float]


def memory_of(answer: Mapping[str, Any]) -> Memory:
    """Return what the two looks at a contender's memory say. The measuring process itself does not count."""
    before, during = dict(answer["before"]), dict(answer["during"])
    sandboxes = before.pop("sandboxes")
    during.pop("sandboxes")
    inside = sum(value for kind, value in before.items() if kind in SANDBOX_KINDS)
    parts = {
        kind: (during.get(kind, 0) - before.get(kind, 0)) / answer["sessions"] / 1e6
        for kind in sorted({*before, *during} - {CLIENT})
    }
    return Memory(inside / sandboxes / 1e6 if sandboxes else 0.0, sum(parts.values()), parts)


def cpu_shares(answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return who used the processor, as shares of all that the contender used, largest first."""
    totals: dict[str, float] = {}
    for answer in answers:
        for kind, seconds in answer["cpu"].items():
            totals[kind] = totals.get(kind, 0.0) + max(0.0, seconds)
    whole = sum(totals.values())
    ordered = sorted(totals.items(), key=lambda item: -item[1])
    return {kind: seconds / whole for kind, seconds in ordered if whole and seconds / whole >= NAMED_SHARE}


def busy_cores(answers: Sequence[Mapping[str, Any]]) -> float:
    """Return how many cores the contender kept busy while it was measured; 0 if that was not timed."""
    wall: float = sum(answer.get("wall", 0.0) for answer in answers)
    seconds: float = sum(sum(map(float, answer["cpu"].values())) for answer in answers)
    return seconds / wall if wall else 0.0


@dataclass(slots=True)
class Contestant:
    """A contender's place in the report: what it is, and either why it did not run or what it did."""

    name: str
    isolated: bool
    version: str = ""
    # Why it did not run, or what failed on the way.
    problems: list[str] = field(default_factory=list)
    # Answers of all rounds by question, such as "fresh@64" or "steps/100@1".
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    # What there was no time to ask, in some round.
    skipped: set[str] = field(default_factory=set)

    @property
    def ran(self) -> bool:
        """Whether its rate of fresh episodes is known."""
        return any(question.startswith("fresh@") for question in self.answers)

    def why_not(self) -> str:
        """Return why there are no figures, or not all of them; "" if all are there."""
        asked = sorted(question for question in self.skipped if question not in self.answers)
        late = [f"no time was left to ask {', '.join(asked)}"] if asked else []
        return "; ".join([*self.problems, *late])

    def timing(self, question: str) -> Timing | None:
        """Return the figures of one question, if it was answered."""
        answers = self.answers.get(question)
        return timing(answers) if answers else None

    def best_rate(self, prefix: str) -> tuple[float, str]:
        """Return the highest rate among the questions that begin with ``prefix``, and which it was; 0 without any."""
        rates = [
            (timing(answers).rate, question)
            for question, answers in self.answers.items()
            if question.startswith(prefix)
        ]
        return max(rates, default=(0.0, ""))

    def figures(self) -> dict[str, Any]:
        """Return everything as JSON knows it."""
        timed = {question: timing(answers) for question, answers in self.answers.items() if "wall" in answers[0]}
        return {
            "isolated": self.isolated,
            "version": self.version,
            "problems": self.why_not(),
            "best_fresh_rate": self.best_rate("fresh@")[0],
            **{question: asdict(each) for question, each in timed.items()},
            **({"memory": asdict(memory_of(self.answers["memory"][0]))} if "memory" in self.answers else {}),
            "cpu_shares": {question: cpu_shares(answers) for question, answers in self.answers.items()},
        }


def ratio(contestants: Sequence[Contestant]) -> tuple[float | None, str]:
    """Return our best rate of fresh episodes over the best isolated peer's, and that peer; None without a peer."""
    rates = {each.name: each.best_rate("fresh@")[0] for each in contestants if each.isolated}
    peers = {name: rate for name, rate in rates.items() if name != OURS and rate > 0}
    if not peers or not rates.get(OURS):
        return None, ""
    best = max(peers, key=lambda name: peers[name])
    return rates[OURS] / peers[best], best


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal and what was measured; ``question`` is whose profile shows the limit."""

    name: str
    measured: float | None
    met: bool
    question: str = ""


def goals(contestants: Sequence[Contestant]) -> list[Goal]:
    """Return every goal with what was measured; a goal that was not measured is not met."""
    ours = next(each for each in contestants if each.name == OURS)
    fresh, step = ours.timing("fresh@1"), ours.timing("steps/1@1")
    _, best_fresh = ours.best_rate("fresh@")
    steps, best_steps = ours.best_rate("steps/")
    value, _ = ratio(contestants)
    late = [
        1000 * each for answer in ours.answers.get("kill", ()) for key in ("told", "stopped") for each in answer[key]
    ]
    return [
        _goal(f"fresh episode, p50 ≤ {FRESH_P50_MS:g} ms", fresh.p50_ms if fresh else None, FRESH_P50_MS, "fresh@1"),
        _goal(f"fresh episodes/s, ≥ {RATIO:g} × the best isolated peer", value, RATIO, best_fresh, least=True),
        _goal(f"single step, p50 ≤ {STEP_P50_MS:g} ms", step.p50_ms if step else None, STEP_P50_MS, "steps/1@1"),
        _goal(
            f"steps/s in batches, ≥ {STEPS_PER_SECOND:,.0f}", steps or None, STEPS_PER_SECOND, best_steps, least=True
        ),
        _goal(
            f"endless loop ended ≤ {KILL_MS:g} ms after its deadline (worst)", max(late, default=None), KILL_MS, "kill"
        ),
    ]


def _goal(name: str, measured: float | None, bound: float, question: str, *, least: bool = False) -> Goal:
    met = measured is not None and (measured >= bound if least else measured <= bound)
    return Goal(name, measured, met, question)


def show(console: Console, contestants: Sequence[Contestant], *, profile: bool) -> None:
    """Print tables of everything measured, of the goals, and of who used the processor where a goal is missed."""
    ran = [each for each in contestants if each.ran]
    console.print(_fresh_table(ran))
    console.print(_steps_table(ran))
    console.print(_memory_table(ran))
    for each in contestants:
        if each.why_not():
            begin = f"{each.name}: " if each.ran else f"{each.name}: not run: "
            console.print(begin + each.why_not(), style="yellow", markup=False)
    ours = next(each for each in contestants if each.name == OURS)
    for answer in ours.answers.get("kill", ()):
        lists = {key: ", ".join(f"{1000 * each:.0f}" for each in answer[key]) for key in ("told", "stopped")}
        console.print(
            f"endless loop: the client was told {lists['told']} ms after the deadline, "
            f"and the loop had stopped after {lists['stopped'] or '(not seen)'} ms"
        )
    value, peer = ratio(contestants)
    if value is not None:
        console.print(f"ratio {value:.1f}: best rate of fresh isolated episodes over that of {peer}")
    console.print(_goals_table(goals(contestants)))
    missed = [goal.question for goal in goals(contestants) if not goal.met and goal.question]
    for each in ran if profile else [ours]:
        for question in each.answers if profile else dict.fromkeys(missed):
            shares = cpu_shares(each.answers.get(question, ()))
            split = ", ".join(f"{kind} {share:.0%}" for kind, share in shares.items())
            busy = busy_cores(each.answers.get(question, ()))
            cores = f"{busy:.1f} cores busy: " if busy else ""
            console.print(f"processor time of {each.name}, {question}: {cores}{split or 'none seen'}")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _percentiles(each: Timing | None) -> tuple[str, str]:
    return (_number(each.p50_ms), _number(each.p99_ms)) if each else (_number(None), _number(None))


def _rate(each: Timing | None) -> str:
    return _number(each.rate if each else None)


def _name(each: Contestant) -> str:
    return each.name if each.isolated else f"{each.name} (not isolated)"


def _levels(contestants: Sequence[Contestant], prefix: str) -> list[str]:
    found = {question for each in contestants for question in each.answers if question.startswith(prefix)}
    return sorted(found, key=lambda question: [int(part) for part in question[len(prefix) :].split("@")])


def _fresh_table(contestants: Sequence[Contestant]) -> Table:
    levels = _levels(contestants, "fresh@")
    columns = [f"/s, {level[len('fresh@') :]} at once" for level in levels]
    table = _table("Fresh episode: start, reset, first observation", "", "p50 ms", "p99 ms", *columns)
    for each in contestants:
        alone, rates = each.timing("fresh@1"), [each.timing(level) for level in levels]
        table.add_row(_name(each), *_percentiles(alone), *map(_rate, rates))
    return table


def _steps_table(contestants: Sequence[Contestant]) -> Table:
    levels, whole = _levels(contestants, "steps/"), _levels(contestants, "episodes@")
    columns = [f"/s, {level[len('steps/') :].replace('@1', '').replace('@', ' ×')}" for level in levels]
    played = [f"episodes/s, {level[len('episodes@') :]} at once" for level in whole]
    table = _table(
        "Steps: one at a time, in batches (× episodes), whole episodes", "", "p50 ms", "p99 ms", *columns, *played
    )
    for each in contestants:
        one = each.timing("steps/1@1")
        rates = [each.timing(level) for level in (*levels, *whole)]
        table.add_row(_name(each), *_percentiles(one), *map(_rate, rates))
    return table


def _memory_table(contestants: Sequence[Contestant]) -> Table:
    table = _table("Memory, MB", "", "live sandbox", "one more episode", "of which")
    for each in contestants:
        if "memory" in each.answers:
            memory = memory_of(each.answers["memory"][0])
            parts = ", ".join(f"{kind} {mb:.1f}" for kind, mb in memory.episode_parts_mb.items() if abs(mb) >= 0.05)
            table.add_row(_name(each), _number(memory.sandbox_mb or None), _number(memory.episode_mb), parts)
    return table


def _goals_table(reached: Sequence[Goal]) -> Table:
    table = _table("Goals", "", "measured", "")
    for goal in reached:
        word = "[green]pass[/]" if goal.met else "[red]miss[/]" if goal.measured is not None else "[red]not measured[/]"
        table.add_row(goal.name, _number(goal.measured), word)
    return table
