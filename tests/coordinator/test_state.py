"""State, checkpoints and the event log survive writing, reading and dying in between."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.coordinator.checkpoint import newest_checkpoint, save_checkpoint
from spade_rl.coordinator.events import EventLog, read_events
from spade_rl.coordinator.state import Figures, LiveEnvironment, RunState, dump_state, load_state
from spade_rl.errors import ConfigurationError, SpadeError
from spade_rl.v1 import designer_pb2, environment_pb2, trajectory_pb2

rewards = st.floats(-1, 1, allow_nan=False)


@st.composite
def attempts(draw):
    ids = draw(st.lists(st.integers(0, 2**31 - 1), max_size=5))
    probs = draw(st.lists(st.floats(-50, 0, width=32), min_size=len(ids), max_size=len(ids)))
    segment = trajectory_pb2.Segment(token_ids=ids, log_probs=probs, sampled=True, trained=True, policy_version=3)
    return designer_pb2.DesignAttempt(
        id=draw(st.text(min_size=1, max_size=9)),
        source=draw(st.text(max_size=20)),
        sequence=trajectory_pb2.Sequence(segments=[segment]),
        report=environment_pb2.AdmissionReport(digest="a" * 64, admitted=True, solution=["x", "y"]),
    )


@st.composite
def states(draw):
    live = tuple(
        LiveEnvironment(
            environment=environment_pb2.Environment(digest="b" * 64, source="class A: ...", hint=draw(st.text())),
            attempt=draw(attempts()),
            plain=tuple(draw(st.lists(rewards, max_size=4))),
            regret=draw(rewards),
            quarantine_reason=draw(st.text(max_size=5)),
        )
        for _ in range(draw(st.integers(0, 2)))
    )
    return RunState(
        run_id=draw(st.text(min_size=1, max_size=9)),
        cycle=draw(st.integers(0, 10**6)),
        age=draw(st.integers(0, 9)),
        grounding_cursor=draw(st.text()),
        live=live,
        refused=tuple(draw(st.lists(attempts(), max_size=2))),
        skill_averages=draw(st.dictionaries(st.text(max_size=5), rewards, max_size=3)),
        figures=Figures(3, 2, tuple(draw(st.lists(rewards, max_size=3))), (1.0,)),
        held_out_before={"mean": 0.5},
        events=7,
    )


@given(states())
def test_a_state_reads_back_as_it_was(state):
    assert load_state(dump_state(state)) == state


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 99}', '{"format": 1, "live": 3}'])
def test_a_foreign_state_is_refused(text):
    with pytest.raises(ConfigurationError):
        load_state(text)


async def test_checkpoints_are_whole_and_few(tmp_path):
    async def save(folder):
        folder.mkdir()
        (folder / "weights").write_text("w")

    for cycle in (1, 2, 3):
        await save_checkpoint(tmp_path, RunState(run_id="r", cycle=cycle), save, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000002", "000003"]
    path, state = newest_checkpoint(tmp_path)
    assert (path.name, state.cycle) == ("000003", 3)


async def test_a_checkpoint_that_fails_leaves_the_one_before(tmp_path):
    async def save(folder):
        folder.mkdir()

    async def full(folder):
        raise OSError(28, "No space left on device")

    await save_checkpoint(tmp_path, RunState(run_id="r", cycle=1), save, keep=2)
    with pytest.raises(SpadeError, match="No space left"):
        await save_checkpoint(tmp_path, RunState(run_id="r", cycle=2), full, keep=2)
    assert newest_checkpoint(tmp_path)[1].cycle == 1


def test_a_run_that_never_got_so_far_has_no_checkpoint(tmp_path):
    (tmp_path / ".unfinished-000001").mkdir()
    assert newest_checkpoint(tmp_path) is None
    assert newest_checkpoint(tmp_path / "absent") is None


async def test_the_event_log_numbers_truncates_and_survives_a_cut_line(tmp_path):
    path = tmp_path / "events.jsonl"
    heard = []
    log = EventLog(path, heard.append)
    for cycle in range(4):
        log.append("cycle", cycle=cycle)
    log.progress(cycle=4, stage="play", done=1, total=2)
    assert len(read_events(path)) == 4
    assert heard[-1]["event"] == "progress"
    with path.open("a") as out:
        out.write('{"number": 4, "ev')
    again = EventLog(path)
    assert len(again) == 4
    again.truncate(2)
    again.append("resumed")
    assert [(e["number"], e["event"]) for e in read_events(path)] == [(0, "cycle"), (1, "cycle"), (2, "resumed")]


async def test_watchers_see_old_and_new_events_and_end_with_the_log(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    log.append("cycle", cycle=0)

    async def watch():
        return [json.loads(line)["cycle"] async for _, line in log.watch(0)]

    watchers = [asyncio.create_task(watch()) for _ in range(3)]
    await asyncio.sleep(0)
    log.append("cycle", cycle=1)
    log.close()
    assert await asyncio.wait_for(asyncio.gather(*watchers), 5) == [[0, 1]] * 3
