"""Frames that pass by h2, against what h2 itself makes of the same bytes."""

from collections.abc import Callable

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, PingFrame, SettingsFrame, WindowUpdateFrame
from hypothesis import given
from hypothesis import strategies as st

from governor.client.frames import Frames
from governor.client.stream import Ended
from tests.client.test_stream import connected

CALL = 1
WINDOW = 1000
FIRST = 65_535


def frames_of(*frames: Frame) -> bytes:
    """As they travel."""
    return b"".join(frame.serialize() for frame in frames)


def data(text: bytes, *flags: str, call: int = CALL, padding: int = 0) -> DataFrame:
    """A frame of data."""
    return DataFrame(call, text, flags=[*flags, *(["PADDED"] if padding else [])], pad_length=padding)


def opened(call: int, more: int) -> WindowUpdateFrame:
    """A window that grows."""
    return WindowUpdateFrame(call, window_increment=more)


def room(frames: Frames) -> int:
    """How many bytes it would let out at once, which it then takes for sent."""
    waiting = bytearray(200_000)
    frames.let_out(waiting, 16_384)
    return 200_000 - len(waiting)


# --- what is taken, and what is left ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        data(b"x"),
        data(b""),
        data(b"x", padding=3),
        opened(0, 5),
        opened(CALL, 5),
        GoAwayFrame(0, last_stream_id=CALL, error_code=0, additional_data=b"bye"),
    ],
    ids=str,
)
def test_what_comes_with_each_message_is_taken(frame: Frame) -> None:
    """And nothing of what is around it."""
    around = PingFrame(0, opaque_data=b"12345678").serialize()
    assert Frames(CALL, WINDOW).sift(around + frame.serialize() + around) == around + around


@pytest.mark.parametrize(
    "frame",
    [
        data(b"x", "END_STREAM"),
        data(b"x", "END_STREAM", padding=3),
        data(b"x", call=3),
        data(bytes(16_385)),
        opened(3, 5),
        GoAwayFrame(0, last_stream_id=CALL, error_code=11),
        GoAwayFrame(0, last_stream_id=0, error_code=0),
        SettingsFrame(0, settings={4: 7}),
        PingFrame(0, opaque_data=b"12345678"),
    ],
    ids=lambda frame: str(frame)[:40],
)
def test_all_else_is_left(frame: Frame) -> None:
    """As it came: what ends the call, what is of another, what is too long, and what is none of these."""
    frames = Frames(CALL, WINDOW)
    assert frames.sift(frame.serialize()) == frame.serialize()
    assert not frames.received


def test_a_window_that_opens_by_nothing_is_left() -> None:
    """It is a fault of HTTP/2, as one of another length is; h2 says so."""
    for payload in (bytes(4), bytes(3) + b"\1\0"):
        raw = len(payload).to_bytes(3, "big") + b"\x08\0" + CALL.to_bytes(4, "big") + payload
        assert Frames(CALL, WINDOW).sift(raw) == raw


_PIECES = st.one_of(
    st.binary(max_size=60).map(data),
    st.binary(max_size=60).map(lambda text: data(text, padding=7)),
    st.binary(max_size=60).map(lambda text: data(text, call=3)),
    st.integers(1, 2000).map(lambda more: opened(0, more)),
    st.integers(1, 2000).map(lambda more: opened(CALL, more)),
    st.just(PingFrame(0, opaque_data=b"12345678")),
    st.just(GoAwayFrame(0, last_stream_id=2**31 - 1, error_code=0, additional_data=b"bye")),
    st.just(SettingsFrame(0, settings={4: 7})),
)


@given(st.lists(_PIECES, max_size=12), st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_it_does_not_matter_in_which_pieces_they_come(said: list[Frame], sizes: list[int]) -> None:
    """What is taken, what is left, and the windows are the same as of all at once."""
    raw = frames_of(*said)
    whole, parts = Frames(CALL, WINDOW), Frames(CALL, WINDOW)
    left = whole.sift(raw)
    found, at, turn = b"", 0, 0
    while at < len(raw):
        found += parts.sift(raw[at : at + sizes[turn % len(sizes)]])
        at += sizes[turn % len(sizes)]
        turn += 1

    assert found == left
    assert parts.received == whole.received
    assert parts.acknowledge() == whole.acknowledge()
    assert room(parts) == room(whole)


def test_data_that_ends_the_call_comes_after_all_before_it() -> None:
    """Whichever of them h2 sees, in one piece or in several."""
    text = b"\0\0\0\0\6ab" + b"cd" + b"ef"
    for cut in range(1, len(text)):
        stream, _ = connected()
        raw = frames_of(data(text[:cut], padding=cut), data(text[cut:], "END_STREAM"))
        assert stream.receive(raw) == [b"abcdef"]
        with pytest.raises(Ended, match="ended the session"):
            stream.check()


# --- windows ------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from([0, CALL]), st.integers(1, 30_000)), max_size=10), st.data())
def test_the_windows_are_those_of_h2(grown: list[tuple[int, int]], sizes: st.DataObject) -> None:
    """After any that grew, and whatever was sent: as much is let out as h2 would let out, in frames no longer."""
    peer = H2Connection(config=H2Configuration(client_side=True))
    peer.initiate_connection()
    peer.send_headers(CALL, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "x")])
    peer.receive_data(SettingsFrame(0).serialize())
    frames = Frames(CALL, WINDOW)
    for call, more in grown:
        raw = opened(call, more).serialize()
        assert not frames.sift(raw)
        peer.receive_data(raw)
        size = sizes.draw(st.integers(0, min(16_384, peer.local_flow_control_window(CALL))))
        waiting = bytearray(size)
        assert len(frames.let_out(waiting, 16_384)) == size + 9 * bool(size)
        assert not waiting
        peer.send_data(CALL, bytes(size))

    assert room(frames) == peer.local_flow_control_window(CALL)


def test_what_is_let_out_is_whole_in_frames_that_the_daemon_takes() -> None:
    """In order, and none longer than it allows."""
    frames, waiting = Frames(CALL, WINDOW), bytearray(bytes(range(256)) * 200)
    server = H2Connection(config=H2Configuration(client_side=False))
    server.initiate_connection()
    client = H2Connection(config=H2Configuration(client_side=True))
    client.initiate_connection()
    client.send_headers(CALL, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "x")])
    server.receive_data(client.data_to_send())
    came = server.receive_data(frames.let_out(waiting, 16_384))

    assert not waiting
    pieces = [event.data for event in came if isinstance(event, DataReceived)]
    assert b"".join(pieces) == bytes(range(256)) * 200
    assert max(map(len, pieces)) == 16_384


def test_the_daemon_is_told_what_was_taken_at_half_of_the_window() -> None:
    """Once, for the connection and the call; padding counts as what it takes."""
    frames = Frames(CALL, WINDOW)
    frames.sift(frames_of(data(bytes(400)), data(bytes(90), padding=8)))
    assert frames.acknowledge() == b""
    frames.sift(data(b"x").serialize())

    assert frames.acknowledge() == frames_of(opened(0, 500), opened(CALL, 500))
    assert frames.acknowledge() == b""


@pytest.mark.parametrize("call", [0, CALL])
def test_a_window_may_not_be_opened_too_far(call: int) -> None:
    """Beyond what HTTP/2 can count."""
    frames = Frames(CALL, WINDOW)
    frames.sift(opened(call, 2**31 - 1 - FIRST).serialize())
    with pytest.raises(ValueError, match="too far"):
        frames.sift(opened(call, 1).serialize())


def test_a_smaller_first_window_holds_for_what_is_sent_already() -> None:
    """It may be over by more than there is, and must then be opened by as much before anything leaves."""
    frames = Frames(CALL, WINDOW)
    frames.let_out(bytearray(100), 16_384)
    frames.resize(-FIRST)
    assert room(frames) == 0
    frames.sift(opened(CALL, 100).serialize())
    assert room(frames) == 0
    frames.sift(opened(CALL, 1).serialize())
    assert room(frames) == 1


# --- what no daemon says ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [b"", b"\1", b"\5abcd"])
def test_more_padding_than_there_is_is_a_fault(payload: bytes) -> None:
    """As h2 has it."""
    raw = len(payload).to_bytes(3, "big") + b"\0\x08" + CALL.to_bytes(4, "big") + payload
    with pytest.raises(ValueError, match="padding"):
        Frames(CALL, WINDOW).sift(raw)


@pytest.mark.parametrize("fault", [lambda: opened(CALL, 2**31 - 1), lambda: opened(0, 2**31 - 1)])
def test_a_fault_ends_the_call(fault: Callable[[], Frame]) -> None:
    """And nothing more can be said on it."""
    stream, _ = connected()
    with pytest.raises(Ended, match="not HTTP/2"):
        stream.receive(fault().serialize())
    with pytest.raises(Ended, match="not HTTP/2"):
        stream.send(b"x")
