"""Bytes that no honest worker sends, given to the reader of frames and to what looks into them."""

from __future__ import annotations

import contextlib
import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_rl.config import SandboxSection
from spade_rl.sandbox.answers import parse_reset, parse_solution, parse_steps, refusal
from spade_rl.sandbox.frames import HEADER, FrameReader, ProtocolViolation, encode
from spade_rl.sandbox.limits import EpisodeError, limits_of

LIMITS = limits_of(SandboxSection(max_observation_bytes=64, max_info_bytes=64, max_solution_steps=4))
HONEST = (
    {"observation": "x", "info": "{}"},
    {"results": [["x", 0.0, False, False, "{}"]] * 3},
    {"results": [["x", 0.0, False, False, '{"a": 1}']], "more": True},
    {"actions": ["a", "b"]},
    {"fault": "exception", "message": "it raised"},
)
Edit = tuple[str, int, bytes]
edits = st.lists(
    st.tuples(st.sampled_from(["put", "set", "cut"]), st.integers(0, 1 << 12), st.binary(min_size=1, max_size=9)),
    min_size=1,
    max_size=8,
)


def edited(data: bytes, changes: list[Edit]) -> bytes:
    """Bytes with some of them replaced, inserted or dropped."""
    stream = bytearray(data)
    for how, where, what in changes:
        at = where % (len(stream) + 1)
        stream[at : at + (0 if how == "put" else len(what))] = b"" if how == "cut" else what
    return bytes(stream)


def read_all(stream: bytes, cuts: list[int]) -> int:
    """Read a stream as a host does, up to its first violation; return how many frames came through."""
    reader, count = FrameReader(4096), 0
    try:
        for cut in [*cuts, len(stream) or 1]:
            for frame in reader.feed(stream[:cut]):
                count += 1
                for parse in (
                    refusal,
                    lambda message: parse_reset(message, LIMITS),
                    lambda message: parse_steps(message, LIMITS, most=3),
                    lambda message: parse_solution(message, LIMITS),
                ):
                    with contextlib.suppress(ProtocolViolation, EpisodeError):
                        parse(frame.message)
            stream = stream[cut:]
    except ProtocolViolation:
        pass
    return count


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(HONEST), min_size=1, max_size=4), edits, st.lists(st.integers(1, 60), max_size=20))
def test_a_damaged_stream_is_read_or_refused(
    messages: list[dict[str, object]], changes: list[Edit], cuts: list[int]
) -> None:
    stream = b"".join(encode(1, 2, message) for message in messages)
    assert read_all(stream, cuts) == len(messages)
    read_all(edited(stream, changes), cuts)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=40))
def test_any_payload_under_any_header(payload: bytes, sequence: int, nonce: int, rest: bytes) -> None:
    read_all(HEADER.pack(len(payload), sequence, nonce) + payload + rest, [7])


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.binary(max_size=64))
def test_an_announced_length_costs_nothing(length: int, data: bytes) -> None:
    reader = FrameReader(4096)
    try:
        reader.feed(HEADER.pack(length, 1, 1) + data)
    except ProtocolViolation:
        return
    assert length <= 4096


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": 1e999999}',
        b'{"a": -Infinity}',
        b'{"results": ' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'{"a": "\\ud800"}',
        b'{"observation": "\\ud800", "info": "{}"}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        json.dumps({str(n): n for n in range(300)}).encode(),
        struct.pack("!I", 1) * 100,
        b"\0" * 100,
        b'{"fault": [], "message": {}}',
        b'{"fault": null}',
        b'{"results": {"0": []}, "more": 1}',
    ],
)
def test_payloads_that_parsers_stumble_over(payload: bytes) -> None:
    read_all(HEADER.pack(len(payload), 1, 1) + payload, [])
