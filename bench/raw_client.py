"""The smallest Kafka client that can be timed: one blocking socket, frames built before the clock starts.

It shares no code with Millpond, so that a mistake of ours cannot cancel itself out, and it costs the same
against either broker. Only old, classic (not flexible) versions that both brokers still serve are used:
Produce 7, Fetch 4, ListOffsets 2, CreateTopics 3, DeleteTopics 1, ApiVersions 0.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from types import TracebackType

import crc32c

PRODUCE, FETCH, LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS, API_VERSIONS = 0, 1, 2, 19, 20, 18
RETRIABLE_CREATE = {7, 41}  # REQUEST_TIMED_OUT, NOT_CONTROLLER: the broker is still starting.
NO_LEADER_YET = {3, 5, 6, 9}  # The topic exists, its partitions are not online yet.

FILL_BATCH_BYTES = 64 * 1024  # between Java's usual 16 KB and librdkafka's 1 MB
FILL_IN_FLIGHT = 8

_CLIENT_ID = b"bench"


class BenchmarkError(Exception):
    """A broker's response makes the benchmark impossible."""


def frame(api_key: int, version: int, body: bytes, correlation_id: int = 1) -> bytes:
    header = struct.pack(">hhih", api_key, version, correlation_id, len(_CLIENT_ID)) + _CLIENT_ID
    return struct.pack(">i", len(header) + len(body)) + header + body


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def record_batch(values: Sequence[bytes]) -> bytes:
    """Return a v2 batch with the present time (retention deletes old records), without compression, keys,
    headers.
    """
    timestamp_ms = time.time_ns() // 1_000_000
    records = b"".join(_record(index, value) for index, value in enumerate(values))
    after_crc = (
        struct.pack(
            ">hiqqqhii",
            0,  # attributes: no compression, create time
            len(values) - 1,
            timestamp_ms,
            timestamp_ms,
            -1,
            -1,
            -1,
            len(values),
        )
        + records
    )
    return struct.pack(">qiibI", 0, len(after_crc) + 9, -1, 2, crc32c.crc32c(after_crc)) + after_crc


def _record(offset_delta: int, value: bytes) -> bytes:
    body = b"\x00\x00" + _zigzag(offset_delta) + b"\x01" + _zigzag(len(value)) + value + b"\x00"
    return _zigzag(len(body)) + body


def _zigzag(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append((left & 0x7F) | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def produce_frame(topic: str, partition: int, batch: bytes, *, acks: int = 1) -> bytes:
    body = (
        struct.pack(">hhii", -1, acks, 30_000, 1)
        + _string(topic)
        + struct.pack(">iii", 1, partition, len(batch))
        + batch
    )
    return frame(PRODUCE, 7, body)


def fetch_frame(topic: str, partition: int, offset: int, *, bytes_max: int = 1 << 20) -> bytes:
    body = (
        struct.pack(">iiiibi", -1, 500, 1, bytes_max, 0, 1)
        + _string(topic)
        + struct.pack(">iiqi", 1, partition, offset, bytes_max)
    )
    return frame(FETCH, 4, body)


class RawClient:
    """One connection, one request at a time. Not safe between threads."""

    def __init__(self, host: str, port: int, *, timeout_s: float = 60.0) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(1 << 16)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, request: bytes) -> memoryview:
        """Send a ready frame and return the whole response, correlation id first."""
        self.socket.sendall(request)
        return self.receive()

    def receive(self) -> memoryview:
        view = memoryview(self._buffer)
        got = self.socket.recv_into(view)
        while got < 4:
            if got == 0:
                raise BenchmarkError("the broker closed the connection")
            got += self.socket.recv_into(view[got:])
        size = 4 + int.from_bytes(view[:4], "big")
        if size > len(self._buffer):
            view.release()
            grown = bytearray(size)
            grown[:got] = self._buffer[:got]
            self._buffer = grown
            view = memoryview(self._buffer)
        while got < size:
            more = self.socket.recv_into(view[got:size])
            if more == 0:
                raise BenchmarkError("the broker closed the connection in an answer")
            got += more
        return view[4:size]

    def skip_answer(self) -> None:
        """Read exactly one response off the socket; for requests that were pipelined."""
        size = int.from_bytes(self.socket.recv(4, socket.MSG_WAITALL), "big")
        if size == 0 or len(self.socket.recv(size, socket.MSG_WAITALL)) < size:
            raise BenchmarkError("the broker closed the connection")

    def api_versions(self) -> dict[int, tuple[int, int]]:
        """Return the APIs that the broker serves: key to lowest and highest version."""
        answer = self.call(frame(API_VERSIONS, 0, b""))
        code, count = struct.unpack_from(">hi", answer, 4)
        if code:
            raise BenchmarkError(f"ApiVersions answered error {code}")
        return {
            key: (low, high)
            for key, low, high in struct.iter_unpack(">hhh", bytes(answer[10 : 10 + 6 * count]))
        }

    def create_topics(self, names: Sequence[str], *, partitions: int = 1) -> None:
        topics = b"".join(
            _string(name) + struct.pack(">ihii", partitions, 1, 0, 0) for name in names
        )
        body = struct.pack(">i", len(names)) + topics + struct.pack(">i?", 30_000, False)
        deadline = time.perf_counter() + 60
        while True:
            codes = self._topic_codes(self.call(frame(CREATE_TOPICS, 3, body)))
            wrong = {code for code in codes if code != 0}
            if not wrong:
                return
            if wrong - RETRIABLE_CREATE or time.perf_counter() > deadline:
                raise BenchmarkError(f"CreateTopics answered errors {sorted(wrong)}")
            time.sleep(0.01)

    @staticmethod
    def _topic_codes(answer: memoryview) -> list[int]:
        # correlation id, throttle time, then one (name, code, message) for each topic.
        (count,) = struct.unpack_from(">i", answer, 8)
        at, codes = 12, []
        for _ in range(count):
            (name,) = struct.unpack_from(">h", answer, at)
            at += 2 + name
            code, message = struct.unpack_from(">hh", answer, at)
            at += 4 + max(message, 0)
            codes.append(code)
        return codes

    def delete_topic(self, name: str) -> None:
        self.call(
            frame(
                DELETE_TOPICS, 1, struct.pack(">i", 1) + _string(name) + struct.pack(">i", 30_000)
            )
        )

    def produce(self, request: bytes, topic: str) -> int:
        """Send a ready Produce frame and return the first offset. Raises on an error."""
        code, offset = produce_outcome(self.call(request), topic)
        if code:
            raise BenchmarkError(f"Produce answered error {code}")
        return offset

    def fill(self, topic: str, *, records: int, size: int, partitions: int = 1) -> None:
        """Append at least that many records in batches of 64 KB, in turn over the partitions.

        The same bytes for every broker, with a few requests in flight. Responses are not checked: the caller
        counts the records afterwards.
        """
        each = max(1, FILL_BATCH_BYTES // size)
        batch = record_batch([b"v" * size] * each)
        frames = [produce_frame(topic, partition, batch) for partition in range(partitions)]
        requests = -(-records // each)
        sent = answered = 0
        while answered < requests:
            while sent < requests and sent - answered < FILL_IN_FLIGHT:
                self.socket.sendall(frames[sent % partitions])
                sent += 1
            self.skip_answer()
            answered += 1

    def wait_until_writable(self, topic: str, partition: int = 0, *, timeout_s: float = 60) -> None:
        """Produce one record, repeating while the partition has no leader yet."""
        request = produce_frame(topic, partition, record_batch([b"ready"]))
        deadline = time.perf_counter() + timeout_s
        while True:
            code, _ = produce_outcome(self.call(request), topic)
            if code == 0:
                return
            if code not in NO_LEADER_YET or time.perf_counter() > deadline:
                raise BenchmarkError(f"Produce answered error {code}")
            time.sleep(0.002)

    def end_offset(self, topic: str, partition: int) -> int:
        body = (
            struct.pack(">ibi", -1, 0, 1)
            + _string(topic)
            + struct.pack(">iiq", 1, partition, -1)  # -1 asks for the latest
        )
        answer = self.call(frame(LIST_OFFSETS, 2, body))
        at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
        code, _timestamp, offset = struct.unpack_from(">hqq", answer, at)
        if code:
            raise BenchmarkError(f"ListOffsets answered error {code}")
        return int(offset)

    def end_offsets(self, topic: str, partitions: int) -> int:
        """Return the sum over all partitions: how many records were ever appended."""
        return sum(self.end_offset(topic, partition) for partition in range(partitions))

    def fetch(self, request: bytes, topic: str) -> int:
        """Send a ready Fetch frame and return how many bytes of batches came."""
        answer = self.call(request)
        at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
        code, _high, _stable, aborted = struct.unpack_from(">hqqi", answer, at)
        if code:
            raise BenchmarkError(f"Fetch answered error {code}")
        (size,) = struct.unpack_from(">i", answer, at + 22 + 16 * max(aborted, 0))
        return int(size)


def produce_outcome(answer: memoryview, topic: str) -> tuple[int, int]:
    """Return the error code and first offset of a response about one partition."""
    code, offset = struct.unpack_from(">hq", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    return int(code), int(offset)
