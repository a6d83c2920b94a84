"""Both ends of a Kafka connection, byte by byte."""

import tracemalloc

import pytest

from millpond.base.errors import LocalProtocolError, RemoteProtocolError, UnsupportedVersion
from millpond.wire.kafka.api import APIS, ApiKey
from millpond.wire.kafka.connection import ClientConnection, Request, Response, ServerConnection
from millpond.wire.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    encode_api_versions_response,
)
from millpond.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from millpond.wire.kafka.messages.metadata import MetadataRequest, MetadataResponse
from millpond.wire.shape import NEED_DATA


def _frame(header: bytes, body: bytes = b"") -> bytes:
    return len(header + body).to_bytes(4, "big") + header + body


def _request(connection: ServerConnection) -> Request:
    event = connection.next_event()
    assert isinstance(event, Request)
    return event


def _response(connection: ClientConnection) -> Response:
    event = connection.next_event()
    assert isinstance(event, Response)
    return event


class TestServer:
    def test_a_classic_header(self) -> None:
        connection = ServerConnection()
        connection.receive_data(_frame(b"\x00\x03\x00\x05\x00\x00\x00\x2a\x00\x03abc", b"body"))
        request = _request(connection)
        assert (request.api_key, request.api_version, request.correlation_id) == (3, 5, 42)
        assert (request.client_id, bytes(request.body), request.size) == ("abc", b"body", 17)
        assert connection.next_event() is NEED_DATA

    def test_a_flexible_header(self) -> None:
        connection = ServerConnection()
        tags = b"\x01\x05\x02hi"
        connection.receive_data(_frame(b"\x00\x03\x00\x09\x00\x00\x00\x01\xff\xff" + tags, b"body"))
        request = _request(connection)
        assert request.client_id is None
        assert bytes(request.body) == b"body"

    def test_the_body_can_be_written_to(self) -> None:
        connection = ServerConnection()
        connection.receive_data(_frame(b"\x00\x00\x00\x03\x00\x00\x00\x01\xff\xff", b"body"))
        request = _request(connection)
        request.body[:2] = b"BO"
        assert bytes(request.body) == b"BOdy"

    def test_many_requests_in_one_chunk_and_one_in_many(self) -> None:
        client = ClientConnection("c")
        frames = [client.send(ApiKey.HEARTBEAT, 3, HeartbeatRequest(str(n))) for n in range(3)]
        stream = b"".join(frames)
        whole, dribble = ServerConnection(), ServerConnection()
        whole.receive_data(stream)
        at_once = [_request(whole).correlation_id for _ in frames]
        one_by_one = []
        for byte in stream:
            dribble.receive_data(bytes((byte,)))
            if isinstance(event := dribble.next_event(), Request):
                one_by_one.append(event.correlation_id)
        assert at_once == one_by_one == [0, 1, 2]

    def test_chunks_may_wait_while_events_are_not_taken(self) -> None:
        client, connection = ClientConnection(), ServerConnection()
        for number in range(5):
            connection.receive_data(client.send(ApiKey.HEARTBEAT, 4, HeartbeatRequest(str(number))))
        assert [_request(connection).correlation_id for _ in range(5)] == [0, 1, 2, 3, 4]
        assert connection.next_event() is NEED_DATA

    def test_an_api_that_nobody_knows_is_still_a_request(self) -> None:
        connection = ServerConnection()
        connection.receive_data(_frame(b"\x03\xe7\x00\x02\x00\x00\x00\x07\x00\x01x", b"\xff\xff"))
        request = _request(connection)
        assert (request.api_key, request.correlation_id, request.client_id) == (999, 7, "x")
        assert "api 999" in repr(request)

    def test_a_version_that_nobody_knows_is_still_a_request(self) -> None:
        connection = ServerConnection()
        # The header of this version may have any form; what every form shares has been read.
        connection.receive_data(_frame(b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x01x", b"\xff"))
        request = _request(connection)
        assert (request.api_key, request.api_version, request.correlation_id) == (18, 99, 7)
        assert connection.frame_response(request, b"v0") == [
            b"\x00\x00\x00\x06\x00\x00\x00\x07",
            b"v0",
        ]

    def test_a_name_that_is_not_utf8_is_no_offence(self) -> None:
        connection = ServerConnection()
        connection.receive_data(_frame(b"\x00\x03\x00\x05\x00\x00\x00\x01\x00\x02\xff\xfe"))
        assert _request(connection).client_id == "\ufffd\ufffd"

    def test_responses_pass_their_buffers_on(self) -> None:
        connection = ServerConnection()
        records = memoryview(b"records")
        connection.receive_data(_frame(b"\x00\x01\x00\x0c\x00\x00\x00\x05\xff\xff\x00"))
        framed = connection.frame_response(_request(connection), b"head", records, b"tail")
        assert b"".join(framed) == b"\x00\x00\x00\x14\x00\x00\x00\x05\x00headrecordstail"
        assert framed[2] is records


class TestLentBuffers:
    """The loop reads into a buffer of ours instead of pushing bytes at us."""

    @staticmethod
    def _read(connection: ServerConnection, stream: bytes, at_most: int) -> list[int]:
        """What a socket would do; returns the size of each read."""
        sizes = []
        while stream:
            buffer = connection.get_buffer(-1)
            size = min(len(buffer), at_most, len(stream))
            buffer[:size] = stream[:size]
            connection.buffer_updated(size)
            stream = stream[size:]
            sizes.append(size)
        return sizes

    @pytest.mark.parametrize("at_most", [1, 3, 5000, 65536, 1 << 20])
    def test_small_frames(self, at_most: int) -> None:
        connection, client = ServerConnection(), ClientConnection()
        frames = [client.send(ApiKey.PRODUCE, 9, bytes([n]) * 300) for n in range(9)]
        self._read(connection, b"".join(frames), at_most)
        for number in range(9):
            assert bytes(_request(connection).body) == bytes([number]) * 300
        assert connection.next_event() is NEED_DATA

    def test_what_is_left_of_a_large_frame_is_read_into_its_place(self) -> None:
        connection, client = ServerConnection(), ClientConnection()
        body = bytes(range(256)) * 4096 * 3  # 3 MiB
        stream = client.send(ApiKey.PRODUCE, 9, body) + client.send(ApiKey.PRODUCE, 9, b"next")
        sizes = self._read(connection, stream, 1 << 30)
        assert sizes[1] > 256 * 1024, "the second read already goes to the frame"
        assert len(sizes) <= 6
        first = _request(connection)
        assert first.body == body
        first.body[:1] = b"x"
        assert bytes(_request(connection).body) == b"next"

    def test_one_scratch_buffer_serves_many_connections(self) -> None:
        scratch = bytearray(1000)
        client = ClientConnection()
        stream = client.send(ApiKey.PRODUCE, 9, b"z" * 5000)
        connections = [ServerConnection(scratch=scratch) for _ in range(3)]
        for position in range(0, len(stream), 700):
            for connection in connections:
                self._read(connection, stream[position : position + 700], 700)
        for connection in connections:
            assert bytes(_request(connection).body) == b"z" * 5000

    def test_the_loop_may_still_hold_the_buffer_when_it_says_how_much_it_read(self) -> None:
        connection, client = ServerConnection(), ClientConnection()
        stream = client.send(ApiKey.PRODUCE, 9, bytes(5 * 1024 * 1024))
        while stream:
            buffer = connection.get_buffer(-1)
            size = min(len(buffer), len(stream))
            buffer[:size] = stream[:size]
            connection.buffer_updated(size)  # must not resize what `buffer` still looks at
            stream = stream[size:]
            del buffer
        assert _request(connection).size > 5 * 1024 * 1024

    def test_after_an_error_bytes_are_taken_and_forgotten(self) -> None:
        connection = ServerConnection()
        self._read(connection, b"\xff" * 10, 10)
        with pytest.raises(RemoteProtocolError):
            connection.next_event()
        self._read(connection, b"\x00" * 1000, 100)
        with pytest.raises(RemoteProtocolError):
            connection.next_event()


class TestLimits:
    @pytest.mark.parametrize(
        ("size", "reason"),
        [
            (-1, "a request of -1 bytes"),
            (-(2**31), "a request of -2147483648 bytes"),
            (0, "header alone has 10"),
            (9, "a request of 9 bytes"),
            (1001, "a request of 1001 bytes is over the limit of 1000"),
            (2**31 - 1, "over the limit"),
        ],
    )
    def test_sizes_that_no_request_has(self, size: int, reason: str) -> None:
        connection = ServerConnection(request_bytes_max=1000)
        connection.receive_data(size.to_bytes(4, "big", signed=True))
        with pytest.raises(RemoteProtocolError, match=reason):
            connection.next_event()
        connection.receive_data(b"more")
        with pytest.raises(RemoteProtocolError, match=reason):
            connection.next_event()

    @pytest.mark.parametrize(
        ("start", "hint"),
        [(b"GET / HTTP/1.1\r\n", "'GET '"), (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS")],
    )
    def test_other_protocols_are_recognised(self, start: bytes, hint: str) -> None:
        connection = ServerConnection()
        connection.receive_data(start)
        with pytest.raises(RemoteProtocolError, match=hint):
            connection.next_event()

    def test_only_data_may_be_large(self) -> None:
        def send(key: int) -> Request:
            connection = ServerConnection(request_bytes_max=1000, control_bytes_max=100)
            connection.receive_data(
                _frame(key.to_bytes(2, "big") + b"\x00\x03\x00\x00\x00\x01\xff\xff", b"x" * 500)
            )
            return _request(connection)

        assert send(ApiKey.PRODUCE).size == 510
        with pytest.raises(
            RemoteProtocolError, match="api 3 of 510 bytes is over the limit of 100"
        ):
            send(ApiKey.METADATA)

    def test_what_may_not_be_large_is_refused_before_it_comes(self) -> None:
        for cut in (1, 5, 6, 10):
            connection = ServerConnection(request_bytes_max=10**6, control_bytes_max=100)
            stream = (10**5).to_bytes(4, "big") + b"\x00\x03" + b"x" * 5000
            connection.receive_data(stream[:cut])
            connection.receive_data(stream[cut:])
            with pytest.raises(RemoteProtocolError, match="api 3 of 100000 bytes"):
                connection.next_event()

    def test_a_name_longer_than_its_frame(self) -> None:
        connection = ServerConnection()
        connection.receive_data(_frame(b"\x00\x03\x00\x05\x00\x00\x00\x01\x7f\xffabc"))
        with pytest.raises(RemoteProtocolError, match="32767 bytes in a request of 13 bytes"):
            connection.next_event()

    def test_a_header_without_its_tags(self) -> None:
        connection = ServerConnection()
        connection.receive_data(_frame(b"\x00\x03\x00\x09\x00\x00\x00\x01\xff\xff"))
        with pytest.raises(RemoteProtocolError, match="within its header"):
            connection.next_event()

    def test_memory_follows_what_came_not_what_was_promised(self) -> None:
        connection = ServerConnection()
        tracemalloc.start()
        connection.receive_data(b"\x05\x00\x00\x00" + b"\x00\x00\x00\x03\x00\x00\x00\x01\xff\xff")
        assert connection.next_event() is NEED_DATA
        reserved, _ = tracemalloc.get_traced_memory()
        for _ in range(40):
            connection.receive_data(bytes(100_000))
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert reserved < 140_000
        assert 4_000_000 < held < 16 * 4_000_000


class TestClient:
    def test_asks_and_is_answered(self) -> None:
        client, server = ClientConnection("me"), ServerConnection()
        server.receive_data(client.send(ApiKey.METADATA, 12, MetadataRequest(topics=None)))
        server.receive_data(client.send(ApiKey.HEARTBEAT, 1, HeartbeatRequest("g", 3, "m")))
        assert client.in_flight == 2

        first, second = _request(server), _request(server)
        assert first.client_id == "me"
        heartbeat = APIS[second.api_key].decode_request(second.body, second.api_version)
        assert heartbeat == HeartbeatRequest("g", 3, "m")
        for request, answer in (
            (first, MetadataResponse(cluster_id="c")),
            (second, HeartbeatResponse(error_code=27)),
        ):
            payload = APIS[request.api_key].encode_response(answer, request.api_version)
            client.receive_data(b"".join(server.frame_response(request, payload)))

        assert _response(client).message.cluster_id == "c"
        assert _response(client).message == HeartbeatResponse(error_code=27)
        assert client.next_event() is NEED_DATA
        assert client.in_flight == 0

    def test_a_broker_that_is_older_than_we_answers_in_version_0(self) -> None:
        client = ClientConnection()
        client.send(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("a", "b"))
        answer = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 0, 3)])
        client.receive_data(_frame(b"\x00\x00\x00\x00", encode_api_versions_response(answer, 0)))
        response = _response(client)
        assert response.version == 0
        assert response.message.api_keys == [ApiVersion(18, 0, 3)]

    def test_what_expects_no_answer_gets_none(self) -> None:
        client = ClientConnection()
        client.send(ApiKey.PRODUCE, 9, b"payload", expect_response=False)
        assert client.in_flight == 0
        client.receive_data(_frame(b"\x00\x00\x00\x00"))
        with pytest.raises(RemoteProtocolError, match="answers no request"):
            client.next_event()

    def test_answers_out_of_order_are_refused(self) -> None:
        client = ClientConnection()
        client.send(ApiKey.HEARTBEAT, 0, HeartbeatRequest())
        client.send(ApiKey.HEARTBEAT, 0, HeartbeatRequest())
        client.receive_data(_frame(b"\x00\x00\x00\x01", b"\x00\x00"))
        with pytest.raises(RemoteProtocolError, match="#1 came where #0 was expected"):
            client.next_event()

    def test_answers_that_are_too_short_or_too_long(self) -> None:
        for size, reason in ((3, "header alone"), (101, "over the limit of 100")):
            client = ClientConnection(response_bytes_max=100)
            client.receive_data(size.to_bytes(4, "big"))
            with pytest.raises(RemoteProtocolError, match=reason):
                client.next_event()

    def test_what_cannot_be_sent_changes_nothing(self) -> None:
        client = ClientConnection()
        with pytest.raises(UnsupportedVersion):
            client.send(ApiKey.METADATA, 99, MetadataRequest())
        with pytest.raises(LocalProtocolError, match="no api 999"):
            client.send(999, 0, b"")
        assert client.in_flight == 0
        client.send(ApiKey.METADATA, 1, MetadataRequest())
        assert client.last_correlation_id == 0
