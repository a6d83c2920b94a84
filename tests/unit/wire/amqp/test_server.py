"""An AMQP connection's life as the broker sees it, and every way in which a client can spoil it."""

import pytest

from millpond.base import limits
from millpond.wire.amqp.client import ConnectOptions
from millpond.wire.amqp.content import END, FRAME_START, content_frames, method_frame
from millpond.wire.amqp.events import (
    Acks,
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    HeaderRefused,
    LoginOffered,
    MethodReceived,
    Publishes,
    Violated,
)
from millpond.wire.amqp.heartbeats import Heartbeats
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
)
from millpond.wire.amqp.order import Offer
from millpond.wire.amqp.properties import NO_PROPERTIES, Properties, encode_properties
from millpond.wire.amqp.sasl import amqplain_response, plain_response, read_login
from millpond.wire.amqp.server import ServerConnection
from millpond.wire.amqp.violations import ReplyCode, Violation, erlang_bytes
from millpond.wire.shape import received
from tests.support.amqp.amqp_pair import Pair


def frame(kind: int, channel: int, payload: bytes, end: bytes = END) -> bytes:
    return FRAME_START.pack(kind, channel, len(payload)) + payload + end


def publish(channel: int, body: bytes, key: str = "k") -> bytes:
    method = BasicPublish(exchange="x", routing_key=key)
    return method_frame(channel, method) + content_frames(channel, NO_PROPERTIES, body, 131_072)


def violation_after(data: bytes) -> Violation:
    """What a client with channel 1 open hears after sending this."""
    pair = Pair().opened(1)
    (event,) = received(pair.server, data)
    assert isinstance(event, Violated)
    return event.error


def test_a_connection_opens_and_closes() -> None:
    pair = Pair(wish=ConnectOptions(user="ann", password="secret", virtual_host="shop")).opened()
    pair.client.send(0, ConnectionClose(reply_code=200, reply_text="bye"))
    pair.turn()
    assert pair.at_server == [ConnectionClosed(asked=True, code=200, text="bye")]
    pair.server.send(0, ConnectionCloseOk())
    pair.turn()
    assert pair.server.is_over
    assert pair.client.is_over


def test_a_stranger_is_told_what_is_spoken_here() -> None:
    server = ServerConnection(Offer())
    assert received(server, b"GET / HTTP/1.1\r\n") == [HeaderRefused(b"GET / HT")]
    assert server.data_to_send() == [b"AMQP\x00\x00\x09\x01"]
    assert server.is_over


def test_a_login_that_fails_is_explained_to_who_understands_it() -> None:
    pair = Pair()
    pair.turn()
    pair.server.refuse_login()
    pair.turn()
    assert pair.at_client == [
        ConnectionClosed(
            asked=True,
            code=403,
            text="ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
            "For details see the broker logfile.",
        )
    ]


def test_a_login_that_fails_is_silent_for_others() -> None:
    pair = Pair(wish=ConnectOptions(client_properties={}))
    pair.turn()
    pair.server.refuse_login()
    assert pair.server.data_to_send() == []
    assert pair.server.is_over


def test_a_challenge_is_answered() -> None:
    pair = Pair()
    pair.turn()
    pair.server.challenge(b"who?")
    assert isinstance(pair.at_server[-1], LoginOffered)
    assert received(pair.server, frame(1, 0, b"\x00\x0a\x00\x15\x00\x00\x00\x02me")) == [
        LoginOffered("PLAIN", b"me", pair.client.options.client_properties)
    ]


@pytest.mark.parametrize(
    ("tuned", "text"),
    [
        (
            ConnectionTuneOk(channel_max=10, frame_max=4095),
            "NOT_ALLOWED - negotiated frame_max = 4095 is lower than the minimum allowed value (4096)",
        ),
        (
            ConnectionTuneOk(channel_max=4000, frame_max=131_072),
            (
                "NOT_ALLOWED - negotiated channel_max = 4000 is higher than the maximum allowed value "
                "(2047)"
            ),
        ),
        (
            ConnectionTuneOk(channel_max=10, frame_max=0),
            (
                "NOT_ALLOWED - negotiated frame_max = 0 (no limit) is higher than the maximum allowed "
                "value (131072)"
            ),
        ),
    ],
)
def test_limits_that_were_not_offered_are_refused(tuned: ConnectionTuneOk, text: str) -> None:
    pair = Pair()
    pair.turn()
    pair.server.accept_login()
    (event,) = received(pair.server, method_frame(0, tuned))
    assert isinstance(event, Violated)
    assert not event.is_silent
    assert event.error.code is ReplyCode.NOT_ALLOWED
    assert event.error.reply_text == text


def test_publishes_of_one_read_come_together() -> None:
    pair = Pair().opened(1, 2)
    stream = b"".join(publish(1, bytes([n])) for n in range(5)) + publish(2, b"z") + publish(1, b"")
    events = received(pair.server, stream)
    assert [(event.channel, [m.body for m in event.messages]) for event in events] == [  # type: ignore[union-attr]
        (1, [b"\x00", b"\x01", b"\x02", b"\x03", b"\x04"]),
        (2, [b"z"]),
        (1, [b""]),
    ]


def test_channels_interleave_the_frames_of_their_contents() -> None:
    pair = Pair().opened(1, 2)
    one, two = publish(1, b"a" * 10), publish(2, b"b" * 10)
    cut = len(one) - 18
    assert received(pair.server, one[:cut]) == []
    (first,) = received(pair.server, two)
    assert isinstance(first, Publishes)
    assert first.channel == 2
    (second,) = received(pair.server, one[cut:])
    assert isinstance(second, Publishes)
    assert second.messages[0].body == b"a" * 10


def test_acknowledgements_of_one_read_come_together() -> None:
    pair = Pair().opened(1)
    for tag in (1, 2):
        pair.client.send(1, BasicAck(delivery_tag=tag))
    pair.client.send(1, BasicAck(delivery_tag=9, multiple=True))
    pair.turn()
    assert pair.at_server == [Acks(1, [(1, False), (2, False), (9, True)])]


def test_a_large_message_is_cut_and_joined() -> None:
    pair = Pair(wish=ConnectOptions(frame_max=8192)).opened(1)
    body = bytes(range(256)) * 200
    properties = encode_properties(Properties(message_id="big"))
    pair.client.send_content(1, BasicPublish(exchange="x"), properties, body)
    pair.turn()
    (event,) = pair.at_server
    assert isinstance(event, Publishes)
    assert event.messages[0].body == body
    assert event.messages[0].properties == properties


def test_a_channel_closes_and_opens_again() -> None:
    pair = Pair().opened(1)
    pair.client.send(1, ChannelClose(reply_code=200, reply_text="done"))
    pair.turn()
    assert pair.at_server == [ChannelClosed(1, asked=True, code=200, text="done")]
    pair.server.send(1, ChannelCloseOk())
    pair.turn()
    assert pair.at_client == [ChannelClosed(1, asked=False)]
    pair.client.open_channel(1)
    pair.turn()
    assert pair.at_server[-1] == ChannelOpened(1)


def test_what_follows_on_a_channel_that_we_closed_is_thrown_away() -> None:
    pair = Pair().opened(1, 2)
    pair.server.fail(Violation(ReplyCode.NOT_FOUND, "no queue 'q' in vhost '/'", channel=1))
    events = received(
        pair.server, publish(1, b"late") + method_frame(1, BasicQos()) + publish(2, b"other")
    )
    assert [event.channel for event in events if isinstance(event, Publishes)] == [2]
    pair.turn()
    assert pair.at_client == [
        ChannelClosed(1, asked=True, code=404, text="NOT_FOUND - no queue 'q' in vhost '/'")
    ]
    assert pair.at_server == [ChannelClosed(1, asked=False)]
    assert pair.server.channels == (2,)


def test_a_message_over_the_limit_costs_its_channel_before_a_byte_is_kept() -> None:
    pair = Pair(Offer(body_bytes_max=100)).opened(1, 2)
    events = received(pair.server, publish(1, b"x" * 101) + publish(2, b"fine"))
    violated, fine = events
    assert isinstance(violated, Violated)
    assert violated.error.code is ReplyCode.PRECONDITION_FAILED
    assert violated.error.reply_text == (
        "PRECONDITION_FAILED - message size 101 is larger than configured max size 100"
    )
    assert isinstance(fine, Publishes)
    assert pair.server.unread_bytes == 0


def test_messages_begun_on_many_channels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AMQP_BEGUN_BYTES_MAX", 1000)
    pair = Pair(Offer(body_bytes_max=1000)).opened(1, 2)

    def begun(channel: int) -> bytes:
        whole = publish(channel, b"y" * 900)
        start = FRAME_START.pack(3, channel, 900)
        return whole[: whole.index(start)] + frame(3, channel, b"y" * 600)

    assert received(pair.server, begun(1)) == []
    (finished,) = received(pair.server, frame(3, 1, b"y" * 300))
    assert isinstance(finished, Publishes)
    assert pair.server.unread_bytes == 0
    assert received(pair.server, begun(1)) == []
    (event,) = received(pair.server, begun(2))
    assert isinstance(event, Violated)
    assert event.error.code is ReplyCode.RESOURCE_ERROR
    assert pair.server.unread_bytes == 0


def test_more_channels_than_agreed_end_the_connection() -> None:
    pair = Pair(wish=ConnectOptions(channel_max=1)).opened(1)
    (event,) = received(pair.server, method_frame(2, ChannelOpen()))
    assert isinstance(event, Violated)
    assert event.error.reply_text == (
        "NOT_ALLOWED - number of channels opened (1) has reached the negotiated channel_max (1)"
    )


HEADER_OF_CLASS_50 = b"\x00\x32\x00\x00" + bytes(8) + b"\x00\x00"
PUBLISH = method_frame(1, BasicPublish(exchange="x", routing_key="k"))


@pytest.mark.parametrize(
    ("data", "code", "failed", "text"),
    [
        (frame(9, 1, b""), 501, (0, 0), "FRAME_ERROR - type 9, all octets = <<>>: unknown_frame"),
        (
            FRAME_START.pack(1, 1, 200_000),
            501,
            (0, 0),
            "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,200000,131064}",
        ),
        (
            frame(1, 1, b"abcd", b"\x00"),
            501,
            (0, 0),
            'FRAME_ERROR - type 1, all octets = <<"abcd">>: {invalid_frame_end_marker,0}',
        ),
        (
            frame(2, 0, b"\x00" * 14),
            505,
            (0, 0),
            "UNEXPECTED_FRAME - type 2, all octets = <<0,0,0,0,0,0,0,0,0,0,0,0,0,0>>",
        ),
        (
            frame(3, 1, b"abc"),
            505,
            (0, 0),
            "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        ),
        (
            PUBLISH + method_frame(1, BasicQos()),
            505,
            (60, 40),
            (
                "UNEXPECTED_FRAME - expected content header for class 60, "
                "got non content header frame instead"
            ),
        ),
        (
            PUBLISH + frame(2, 1, HEADER_OF_CLASS_50),
            505,
            (60, 40),
            "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
        ),
        (
            PUBLISH
            + frame(2, 1, b"\x00\x3c\x00\x00" + (2).to_bytes(8, "big") + b"\x00\x00")
            + frame(3, 1, b"abc"),
            501,
            (60, 40),
            "FRAME_ERROR - content body frame exceeds remaining content size",
        ),
        (method_frame(7, BasicQos()), 504, (60, 10), "CHANNEL_ERROR - expected 'channel.open'"),
        (
            method_frame(1, ChannelOpen()),
            504,
            (20, 10),
            "CHANNEL_ERROR - second 'channel.open' seen",
        ),
        (
            method_frame(0, QueueDeclare()),
            504,
            (50, 10),
            "CHANNEL_ERROR - unexpected method in connection state running",
        ),
        (
            frame(1, 1, BasicQos().encode() + b"\x00"),
            501,
            (60, 10),
            "FRAME_ERROR - cannot decode <<0,0,0,0,0,0,0,0>>",
        ),
        (
            frame(1, 1, b"\x00\x32\x00\x0a\x00\x00\x01\xff\x00\x00\x00\x00\x00"),
            501,
            (50, 10),
            "FRAME_ERROR - Malformed UTF-8 in shortstr",
        ),
        (
            frame(1, 1, b"\x00\x3c\x00\x63"),
            503,
            (60, 99),
            "COMMAND_INVALID - unknown method 60.99",
        ),
        (
            method_frame(1, ChannelCloseOk()),
            503,
            (20, 41),
            "COMMAND_INVALID - unimplemented method",
        ),
        (
            method_frame(1, BasicDeliver()),
            503,
            (60, 60),
            "COMMAND_INVALID - unimplemented method",
        ),
        (
            method_frame(1, BasicPublish(immediate=True)),
            540,
            (60, 40),
            "NOT_IMPLEMENTED - immediate=true",
        ),
    ],
)
def test_a_violation_is_named_as_rabbitmq_names_it(
    data: bytes, code: int, failed: tuple[int, int], text: str
) -> None:
    error = violation_after(data)
    assert (error.code, error.class_id, error.method_id) == (code, *failed)
    assert error.reply_text == text
    assert error.is_hard


def test_after_a_violation_only_the_end_is_heard() -> None:
    pair = Pair().opened(1)
    later = method_frame(1, BasicConsume(queue="q")) + frame(9, 0, b"nonsense")
    (event,) = received(pair.server, frame(3, 1, b"") + later)
    assert isinstance(event, Violated)
    pair.turn()
    assert pair.server.is_over
    assert pair.at_server == [ConnectionClosed(asked=False)]


def test_before_the_login_nobody_is_told_anything() -> None:
    server = ServerConnection(Offer())
    received(server, b"AMQP\x00\x00\x09\x01")
    server.data_to_send()
    (event,) = received(server, method_frame(1, BasicQos()))
    assert isinstance(event, Violated)
    assert event.is_silent
    assert server.data_to_send() == []
    assert server.is_over


def test_ordinary_methods_are_handed_on() -> None:
    pair = Pair().opened(1)
    declare: Method = QueueDeclare(queue="q", durable=True, arguments={"x-max-length": 5})
    pair.client.send(1, declare)
    pair.turn()
    assert pair.at_server == [MethodReceived(1, declare)]


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_logins_are_read(mechanism: str) -> None:
    response = {"PLAIN": plain_response, "AMQPLAIN": amqplain_response}[mechanism]("ann", "pä ss")
    login = read_login(mechanism, response)
    assert (login.user, login.password) == ("ann", "pä ss".encode())
    assert "ss" not in repr(login)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"no nulls"),
        ("PLAIN", b"\0one"),
        ("PLAIN", b"other\0ann\0pw"),
        ("AMQPLAIN", b"\x01"),
        ("AMQPLAIN", b""),
    ],
)
def test_logins_that_cannot_be_read(mechanism: str, response: bytes) -> None:
    with pytest.raises(Violation) as caught:
        read_login(mechanism, response)
    assert caught.value.code is ReplyCode.SYNTAX_ERROR


def test_heartbeats_go_out_at_half_time_and_come_within_two() -> None:
    beats = Heartbeats(interval_s=10, received_ms=0, sent_ms=0)
    assert beats.wake_ms == 5_000
    assert not beats.is_due(4_999)
    assert beats.is_due(5_000)
    beats.sent(5_000)
    assert not beats.is_due(9_999)
    assert not beats.is_dead(19_999)
    assert beats.is_dead(20_000)
    assert not Heartbeats(interval_s=0, received_ms=0, sent_ms=0).is_dead(10**9)


def test_bytes_are_shown_as_erlang_shows_them() -> None:
    assert erlang_bytes(b'ab\n"c') == '<<"ab\\n\\"c">>'
    assert erlang_bytes(b"\x00a") == "<<0,97>>"


def test_a_long_text_is_cut_to_a_short_string() -> None:
    text = Violation(ReplyCode.NOT_FOUND, "ü" * 300).reply_text
    assert len(text.encode()) <= 255
    assert text.endswith("...")
