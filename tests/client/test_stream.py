"""One call with messages both ways, against an HTTP/2 peer without a socket."""

import pytest
from hyperframe.frame import GoAwayFrame, PingFrame
from hypothesis import given
from hypothesis import strategies as st

from governor.client.stream import Ended, Stream
from tests.client.peer import Peer


def connected(*, window: int | None = None) -> tuple[Stream, Peer]:
    """A stream whose call the peer has taken."""
    stream = Stream("/governor.v1.Governor/Session", "localhost", "governor-python/0")
    peer = Peer(stream, window=window)
    peer.listen()
    peer.greet()
    assert peer.tell() == []
    peer.listen()
    return stream, peer


# --- the beginning ------------------------------------------------------------------------------------------------


def test_the_call_is_opened_before_anything_is_heard() -> None:
    """It costs no round trip to say the first message: preface, headers and message leave together."""
    stream = Stream("/governor.v1.Governor/Session", "db1:7411", "governor-python/0")
    stream.send(b"hello")
    peer = Peer(stream)
    peer.listen()

    assert peer.headers[":path"] == "/governor.v1.Governor/Session"
    assert peer.headers[":authority"] == "db1:7411"
    assert peer.headers["te"] == "trailers"
    assert peer.headers["content-type"] == "application/grpc"
    assert peer.headers["user-agent"] == "governor-python/0"
    assert peer.messages == [b"hello"]


# --- messages -----------------------------------------------------------------------------------------------------


def test_messages_arrive_whole_wherever_the_bytes_are_split() -> None:
    """At every byte: of the frames, of their headers and of the messages' own prefixes."""
    said = [b"", b"a", b"bc" * 40]
    stream, peer = connected()
    for message in said:
        peer.say(message)
    data = peer.take()
    for at in range(len(data) + 1):
        stream, peer = connected()

        assert stream.receive(data[:at]) + stream.receive(data[at:]) == said, at


def test_messages_arrive_whole_byte_by_byte() -> None:
    """However slowly they come."""
    stream, peer = connected()
    peer.say(b"one")
    peer.say_raw(b"\0\0\0")  # half a prefix in a frame of its own
    peer.say_raw(b"\0\3tw")
    peer.say_raw(b"o")
    heard = [message for byte in peer.take() for message in stream.receive(bytes([byte]))]

    assert heard == [b"one", b"two"]


@given(st.lists(st.binary(max_size=300), max_size=6), st.lists(st.integers(1, 200), min_size=1, max_size=12))
def test_messages_arrive_in_order_in_any_pieces(said: list[bytes], sizes: list[int]) -> None:
    """Whatever was said is heard, once and in order."""
    stream, peer = connected()
    for message in said:
        peer.say(message)
    data = peer.take()
    heard = []
    turn = 0
    while data:
        size = sizes[turn % len(sizes)]
        heard += stream.receive(data[:size])
        data = data[size:]
        turn += 1

    assert heard == said


def test_a_message_larger_than_a_frame_arrives() -> None:
    """And leaves: both ways it is cut into frames and put together again."""
    stream, peer = connected()
    large = bytes(range(256)) * 200
    peer.say(large)
    stream.send(large)
    peer.listen()

    assert peer.tell() == [large]
    assert peer.messages == [large]


def test_much_may_be_heard_without_a_word_from_us() -> None:
    """What was heard is acknowledged, so that the windows to us never close."""
    _, peer = connected()
    for _ in range(100):
        peer.say(b"x" * 100_000)
        assert peer.tell() == [b"x" * 100_000]
        peer.listen()


# --- windows ------------------------------------------------------------------------------------------------------


def test_what_the_windows_do_not_let_out_waits() -> None:
    """It is counted as stuck, and leaves in order as soon as there is room."""
    stream, peer = connected(window=10)
    stream.send(b"0123456789")
    stream.send(b"abc")
    peer.listen()

    assert bytes(peer.body) == b"\0\0\0\0\x0a01234"
    assert stream.stuck == 13

    peer.open_window(6)
    peer.tell()
    peer.listen()
    assert peer.messages == [b"0123456789"]
    assert stream.stuck == 7

    peer.open_window(100)
    peer.tell()
    peer.listen()
    assert peer.messages == [b"0123456789", b"abc"]
    assert stream.stuck == 0


def test_a_window_that_is_closed_takes_nothing_and_keeps_the_call() -> None:
    """A daemon that does not read is not one that is gone."""
    stream, peer = connected(window=0)
    stream.send(b"x")
    peer.listen()
    peer.say(b"y")

    assert peer.tell() == [b"y"]
    assert not peer.body
    assert stream.stuck == 6


# --- signs of life ------------------------------------------------------------------------------------------------


def test_a_ping_of_the_daemon_is_answered_at_once() -> None:
    """By this alone it knows that an idle client is there."""
    stream, peer = connected()
    peer.ping()

    assert peer.tell() == []
    assert b"12345678" in bytes(stream.out)


def test_a_ping_of_ours_reaches_the_daemon() -> None:
    """And its answer says when it was sent, however late it comes, and whatever else has been sent since."""
    stream, peer = connected()
    assert stream.answered_at == 0
    stream.ping(1 << 61)
    peer.listen()
    answer = peer.take()
    stream.ping((1 << 61) + 5)
    peer.listen()

    assert peer.pings == [(1 << 61).to_bytes(8, "big"), ((1 << 61) + 5).to_bytes(8, "big")]
    assert stream.receive(answer) == []
    assert stream.answered_at == 1 << 61
    assert peer.tell() == []
    assert stream.answered_at == (1 << 61) + 5


@pytest.mark.parametrize("words", [b"\xff" * 8, b"\0" * 8])
def test_the_answer_to_a_ping_that_nobody_sent_is_of_no_other_time(words: bytes) -> None:
    """Neither of one to come, nor of one when there was no connection."""
    stream, _ = connected()
    stream.ping(7)
    assert stream.receive(PingFrame(0, opaque_data=words, flags=["ACK"]).serialize()) == []

    assert stream.answered_at <= 7


# --- ends ---------------------------------------------------------------------------------------------------------


def test_a_refusal_has_its_status_and_words() -> None:
    """A call that is not taken has trailers only; its words are percent-encoded."""
    _, peer = connected_not_yet()
    peer.refuse((b"grpc-status", b"7"), (b"grpc-message", b"you may not: 100%25 sure, %C3%A4"))
    with pytest.raises(Ended) as ended:
        peer.tell()

    assert (ended.value.code, ended.value.message) == (7, "you may not: 100% sure, ä")


def test_words_that_are_no_utf8_do_not_hide_the_status() -> None:
    """Whoever wrote them, percent-encoded or raw."""
    for words in (b"%ff%fe", b"\xff\xfe"):
        _, peer = connected_not_yet()
        peer.refuse((b"grpc-status", b"13"), (b"grpc-message", words))
        with pytest.raises(Ended) as ended:
            peer.tell()
        assert ended.value.code == 13


def test_the_last_messages_come_before_the_end() -> None:
    """Also when both come in one piece: the end is told by `check`, or by whatever is heard next."""
    stream, peer = connected()
    peer.say(b"last")
    peer.end(b"8", b"too slow")

    assert peer.tell() == [b"last"]
    with pytest.raises(Ended) as ended:
        stream.check()
    assert (ended.value.code, ended.value.message) == (8, "too slow")


def test_a_call_that_goes_on_passes_the_check() -> None:
    """Nothing has ended."""
    stream, peer = connected()
    peer.say(b"x")
    peer.tell()
    stream.check()


def test_an_end_is_told_while_something_is_stuck() -> None:
    """What we still had to say does not hide why nobody wants it."""
    stream, peer = connected(window=0)
    stream.send(b"x")
    peer.listen()
    peer.say(b"last")
    peer.open_window(100)
    peer.end(b"8", b"too slow")

    assert peer.tell() == [b"last"]
    with pytest.raises(Ended) as ended:
        stream.check()
    assert ended.value.code == 8


@pytest.mark.parametrize("how", ["reset", "go_away", "end_without_status"])
def test_an_end_without_a_status_is_an_end(how: str) -> None:
    """RST_STREAM, GOAWAY, or a stream that just ends."""
    stream, peer = connected()
    peer.say(b"last")
    if how == "go_away":
        peer.go_away(b"too_many_pings")
    else:
        getattr(peer, how)()

    assert peer.tell() == [b"last"]
    with pytest.raises(Ended) as ended:
        stream.check()
    assert ended.value.code is None
    assert how != "go_away" or "too_many_pings" in ended.value.message


@pytest.mark.parametrize("bytes_at_once", [1, 7, 10_000])
def test_a_server_that_ends_is_heard_to_the_end(bytes_at_once: int) -> None:
    """It takes no new calls, asks whether we have heard that, and goes on with this one until that is over."""
    stream, peer = connected()
    peer.say(b"before")
    said = peer.take()
    for last in (2**31 - 1, 1):
        said += GoAwayFrame(0, last_stream_id=last, error_code=0, additional_data=b"bye").serialize()
        peer.ping()
        peer.say(b"after")
        said += peer.take()
    peer.end(b"14", b"stopping")
    said += peer.take()
    heard = []
    with pytest.raises(Ended) as ended:
        for start in range(0, len(said), bytes_at_once):
            heard += stream.receive(said[start : start + bytes_at_once])
            stream.check()

    assert heard == [b"before", b"after", b"after"]
    assert (ended.value.code, ended.value.message) == (14, "stopping")


def test_a_server_that_ends_and_has_not_taken_this_call_is_gone() -> None:
    """It says which was the last that it took."""
    stream, _ = connected_not_yet()
    with pytest.raises(Ended, match="closed the connection"):
        stream.receive(GoAwayFrame(0, last_stream_id=0, error_code=0).serialize())


@pytest.mark.parametrize("how", ["reset", "go_away"])
def test_after_an_end_nothing_can_be_said(how: str) -> None:
    """Whatever is tried says so, in the one way in which this call ends."""
    stream, peer = connected()
    if how == "go_away":
        peer.go_away(b"")
    else:
        peer.reset()
    with pytest.raises(Ended):
        peer.tell()
    with pytest.raises(Ended):
        stream.send(b"x")
    if how == "go_away":
        with pytest.raises(Ended):
            stream.ping(1)


def test_another_server_is_told_from_a_daemon() -> None:
    """A web server answers, but not like one of ours."""
    _, peer = connected_not_yet()
    peer.answer_http(b"404")
    with pytest.raises(Ended, match="HTTP status 404: no daemon of ours") as ended:
        peer.tell()

    assert ended.value.code is None


# --- what no daemon says ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",  # a TLS alert
        b"-ERR unknown command 'PRI'\r\n" * 4,
        b"\0" * 64,
        b"\xff" * 64,
    ],
)
def test_garbage_is_an_end(garbage: bytes) -> None:
    """Something else listens there, and it may say anything; or too little to tell."""
    stream, _ = connected_not_yet()
    try:
        assert stream.receive(garbage) == []
    except Ended as ended:
        assert ended.code is None  # noqa: PT017 - garbage that is too short to be judged is no end


@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_do_more_than_end_the_call(garbage: bytes, greeted: bool) -> None:  # noqa: FBT001
    """Whatever comes, nothing but `Ended` comes out."""
    stream, peer = connected() if greeted else connected_not_yet()
    if not greeted:
        stream.receive(peer.take())  # its settings, so that frames are looked at
    try:
        stream.receive(garbage)
        stream.check()
    except Ended:
        pass


def test_a_compressed_message_is_an_end() -> None:
    """Nobody told the daemon that we could read it; what came before it was heard."""
    stream, peer = connected()
    peer.say(b"plain")
    peer.say(b"packed", flag=1)

    assert peer.tell() == [b"plain"]
    with pytest.raises(Ended, match="compressed"):
        stream.check()


def test_a_huge_message_is_an_end_before_it_has_come() -> None:
    """Its prefix alone shows it: what we keep of a message is bounded."""
    _, peer = connected()
    peer.say(b"x", size=2**31)

    with pytest.raises(Ended, match="too large"):
        peer.tell()


def connected_not_yet() -> tuple[Stream, Peer]:
    """A stream whose call the peer has seen, and not answered."""
    stream = Stream("/governor.v1.Governor/Session", "localhost", "governor-python/0")
    peer = Peer(stream)
    peer.listen()
    return stream, peer
