from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_rl.sandbox.frames import Frame, FrameReader, ProtocolViolation, encode
from spade_rl.sandbox.guest.channel import HEADER

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
frames = st.builds(
    Frame,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.dictionaries(st.text(max_size=8), json_values, max_size=4),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(frames, max_size=5), st.lists(st.integers(1, 40), max_size=200))
def test_frames_survive_any_cutting_of_the_stream(sent: list[Frame], cuts: list[int]) -> None:
    stream = b"".join(encode(frame.sequence, frame.nonce, frame.message) for frame in sent)
    reader, received = FrameReader(1 << 20), []
    for cut in [*cuts, len(stream) or 1]:
        received += reader.feed(stream[:cut])
        stream = stream[cut:]
    received += reader.feed(stream)
    assert received == sent


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=4096))
def test_garbage_is_refused_or_incomplete_and_nothing_else(data: bytes) -> None:
    reader = FrameReader(1024)
    try:
        for frame in reader.feed(data):
            assert isinstance(frame.message, dict)
    except ProtocolViolation:
        pass


@settings(max_examples=50, deadline=None)
@given(st.integers(1025, 2**32 - 1))
def test_a_long_frame_is_refused_before_it_arrives(length: int) -> None:
    with pytest.raises(ProtocolViolation, match="at most 1024"):
        FrameReader(1024).feed(HEADER.pack(length, 1, 1))


@pytest.mark.parametrize("payload", [b"[]", b"1", b"{", b"\xff\xfe", b"[" * 900, b'{"a":' * 150 + b"1" + b"}" * 149])
def test_what_is_no_object_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        FrameReader(1024).feed(HEADER.pack(len(payload), 0, 0) + payload)
