"""Continuous batching as a state machine: any interleaving keeps its promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.agent.engine.interface import FinishReason
from spade_rl.agent.engine.scheduler import Scheduler, Sequenced, batches

END = 2
lengths = st.lists(st.integers(1, 300), max_size=60)


class Machine:
    """Runs a scheduler beside a model of the cache: which sequence's tokens lie in which row."""

    def __init__(self, slots: int) -> None:
        self.scheduler = Scheduler[Sequenced](slots, frozenset({END}))
        self.slots = slots
        self.cache: dict[int, Sequenced] = {}
        self.submitted: list[Sequenced] = []
        self.placed: list[Sequenced] = []
        self.finished: list[Sequenced] = []

    def submit(self, limit: int) -> None:
        sequence = Sequenced(prompt=(7,), temperature=1.0, seed=len(self.submitted), limit=limit)
        self.submitted.append(sequence)
        self.scheduler.submit([sequence])

    def cancel(self, index: int) -> None:
        if self.submitted:
            self.submitted[index % len(self.submitted)].cancelled = True

    def step(self, tokens: list[int]) -> None:
        self.scheduler.drop_cancelled()
        placed = self.scheduler.place()
        for row, sequence in placed:
            assert row < self.slots
            self.cache[row] = sequence
        self.placed += [sequence for _, sequence in placed]
        self.record([row for row, _ in placed], tokens)
        moves = self.scheduler.compact()
        assert not {source for source, _ in moves} & {target for _, target in moves}
        for source, target in moves:
            self.cache[target] = self.cache[source]
        live = self.scheduler.live()
        assert len(live) == self.scheduler.decoding <= self.slots
        for row, sequence in enumerate(live):
            assert self.cache[row] is sequence
        self.record(list(range(len(live))), tokens)

    def record(self, rows: list[int], tokens: list[int]) -> None:
        drawn = [tokens[i % len(tokens)] for i in range(len(rows))]
        done = self.scheduler.record(rows, drawn, [-1.0] * len(rows))
        assert not set(map(id, done)) & set(map(id, self.finished))
        self.finished += done


actions = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, 6)),
        st.tuples(st.just("cancel"), st.integers(0, 50)),
        st.tuples(st.just("step"), st.lists(st.integers(0, 4), min_size=1, max_size=5)),
    ),
    max_size=60,
)


@given(slots=st.integers(1, 5), plan=actions)
def test_every_sequence_ends_exactly_once_in_a_row_of_its_own(slots, plan):
    machine = Machine(slots)
    for kind, argument in plan:
        getattr(machine, kind)(argument)
        if kind == "step" and any(not s.cancelled for s in machine.submitted if s not in machine.placed):
            # Nobody waits beside a row that was free before the step.
            assert len(machine.placed) >= slots
    for _ in range(len(machine.submitted) * 6 + 1):
        machine.step([0])
    assert machine.scheduler.in_flight == 0
    order = [machine.submitted.index(sequence) for sequence in machine.placed]
    assert order == sorted(order)
    for sequence in machine.submitted:
        assert sequence.cancelled or sequence in machine.finished
        assert len(sequence.token_ids) == len(sequence.log_probs) <= sequence.limit
        assert END not in sequence.token_ids[:-1]
        if sequence in machine.finished:
            stopped = sequence.token_ids[-1] == END
            assert sequence.finish_reason is (FinishReason.STOP if stopped else FinishReason.LENGTH)


def test_a_finished_row_is_refilled_at_once():
    machine = Machine(2)
    for limit in (1, 9, 9, 9):
        machine.submit(limit)
    machine.step([0])
    assert machine.placed == machine.submitted[:2]
    machine.step([0])
    assert machine.placed == machine.submitted[:3]
    assert machine.scheduler.live() == [machine.submitted[1], machine.submitted[2]]


def test_clearing_returns_who_has_not_ended():
    machine = Machine(1)
    for limit in (1, 9, 9):
        machine.submit(limit)
    machine.cancel(2)
    machine.step([0])
    machine.step([0])
    assert machine.scheduler.clear() == [machine.submitted[1]]
    assert machine.scheduler.in_flight == 0


def test_a_token_for_a_free_row_is_a_bug():
    scheduler = Scheduler[Sequenced](2, frozenset())
    with pytest.raises(IndexError):
        scheduler.record([0], [1], [0.0])


@given(lengths=lengths, call=st.integers(0, 400), most=st.integers(1, 2000))
def test_batches_hold_every_prompt_once_within_their_bounds(lengths, call, most):
    groups = batches(lengths, call, most)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or max(lengths[i] for i in group) * len(group) <= most


@given(lengths=lengths)
def test_equal_lengths_share_a_batch_and_free_calls_leave_no_padding(lengths):
    groups = batches(lengths, 0, 10**9)
    assert len(groups) == len(set(lengths))
    assert len(batches(lengths, 10**9, 10**9)) == min(1, len(lengths))
