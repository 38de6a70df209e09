import ast
import asyncio
import gc

import pytest

from spade_rl.sandbox.program import StaticRefusal
from spade_rl.sandbox.programs import Programs

SOURCE = "class Env:\n    def reset(self, seed): ...\n    def step(self, action): ...\n    def solution(self): ...\n"


def analyse(programs, *sources):
    async def all_of_them():
        return [await programs.analysed(source) for source in sources]

    return asyncio.run(all_of_them())


@pytest.fixture
def make():
    made = []

    def programs(**bounds):
        made.append(Programs(**bounds))
        return made[-1]

    yield programs
    for each in made:
        each.close()


def test_a_source_is_analysed_once(make):
    first, second = analyse(make(), SOURCE, SOURCE)
    assert first is second


def test_the_oldest_make_room(make):
    sources = [f"{SOURCE}# {number:03}" for number in range(9)]
    for programs in (make(most=4), make(characters=4 * len(sources[0]))):
        kept = analyse(programs, *sources)
        assert len(programs) == 4
        again = analyse(programs, sources[-1], sources[0])
        assert again[0] is kept[-1]
        assert again[1] is not kept[0]


def test_a_source_larger_than_the_room_is_not_remembered(make):
    programs = make(characters=len(SOURCE) - 1)
    assert analyse(programs, SOURCE)[0].source == SOURCE
    assert len(programs) == 0


def test_room_is_counted_right_when_two_ask_for_one_source_at_once(make):
    programs = make(characters=2 * len(SOURCE))

    async def at_once():
        await asyncio.gather(*(programs.analysed(SOURCE) for _ in range(8)))

    asyncio.run(at_once())
    analyse(programs, SOURCE.replace("Env", "Box"))
    assert len(programs) == 2
    analyse(programs, SOURCE.replace("Env", "Fox"))
    assert len(programs) == 2


def test_a_refusal_is_remembered_without_what_the_parser_saw(make):
    programs = make()
    refused = "import socket\n" + SOURCE
    for _ in range(2):
        with pytest.raises(StaticRefusal, match="socket") as caught:
            analyse(programs, refused)
        assert caught.value.gate == "imports"
        del caught
    assert len(programs) == 1
    gc.collect()
    assert not any(isinstance(each, ast.Module) for each in gc.get_objects())
