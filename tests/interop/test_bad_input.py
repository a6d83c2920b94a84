"""What a broker process does with bytes that are no requests, and with clients that do not behave.

Each story has a victim (a broker of this file's own) and a bystander: another connection that writes and
reads before, during and after. Nobody but the one who misbehaves may notice; memory stays where it was; what
is stored stays as it was.
"""

import contextlib
import os
import random
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.record.builder import build_batch
from millpond.record.compression import Compression
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import ClientConnection
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest
from millpond.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from millpond.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from millpond.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.interop.topics import MORNING_MS
from tests.support.kafka.wire_client import WireClient
from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.ports import wait_until
from tests.support.storage.poison import (
    BROKEN_COMPRESSION,
    POISON,
    STRICTER,
    bomb,
    poisoned,
    sealed,
)

MIB = 1024 * 1024
GROWTH_BYTES_MAX = 48 * MIB
TIMEOUT_S = 60.0
SEED = 20240229
UNKNOWN_API = 9999
# Size, api, version, number and no name.
HEADER = struct.Struct(">ihhih")


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MillpondProcess]:
    """A broker of this file's own."""
    with MillpondProcess(tmp_path_factory.mktemp("victim")) as broker:
        yield broker


@pytest.fixture
def bystander(victim: MillpondProcess, topic: str) -> Iterator["Bystander"]:
    """A connection that behaves; checks at the end that nothing happened to it or to what it wrote."""
    with WireClient(victim.port) as link:
        witness = Bystander(link, topic)
        witness.write_and_read()
        before = victim.resident_bytes
        said = len(victim.output)
        yield witness
        witness.write_and_read()
        assert victim.is_running()
        assert "Traceback" not in victim.output[said:]
        wait_until(
            lambda: victim.resident_bytes - before < GROWTH_BYTES_MAX,
            timeout_s=TIMEOUT_S,
            what="memory is back where it was",
        )


class Bystander:
    """Writes and reads one topic over one connection that is open all the time."""

    def __init__(self, link: WireClient, topic: str) -> None:
        self.link = link
        self.topic = topic
        self.written = b""
        create(link, topic)

    def write_and_read(self) -> None:
        """Write one more message and read back everything; the connection waits for no answer for ever."""
        count = len(self.written)
        batch = bytes(build_batch([(MORNING_MS, b"key", b"value %d" % count, ())]))
        error, offset = produce(self.link, self.topic, batch)
        assert error == 0
        self.written += struct.pack(">qii", offset, len(batch) - 12, 0) + batch[16:]
        assert fetch(self.link, self.topic) == self.written


# Bytes that are no requests


def test_random_bytes(victim: MillpondProcess, bystander: Bystander) -> None:
    chance = random.Random(SEED)
    said = len(victim.output.splitlines())
    for _ in range(60):
        with raw(victim) as link:
            with contextlib.suppress(ConnectionError):
                link.sendall(chance.randbytes(chance.randrange(1, 5000)))
                link.shutdown(socket.SHUT_WR)
            assert_closed(link)
    bystander.write_and_read()
    assert len(victim.output.splitlines()) - said <= 60, "at most one line for each connection"


@pytest.mark.parametrize(
    "size", [-1, -(2**31), 0, 1, 7, 101 * MIB, 2**31 - 1], ids=lambda size: f"{size}"
)
def test_impossible_sizes(victim: MillpondProcess, bystander: Bystander, size: int) -> None:
    before = victim.resident_bytes
    with raw(victim) as link:
        with contextlib.suppress(ConnectionError):
            link.sendall(struct.pack(">i", size) + bytes(4096))
        assert_closed(link)
    assert victim.resident_bytes - before < 8 * MIB
    bystander.write_and_read()


def test_a_promise_of_many_bytes_takes_no_memory(
    victim: MillpondProcess, bystander: Bystander
) -> None:
    before = victim.resident_bytes
    with contextlib.ExitStack() as links:
        for _ in range(30):
            link = links.enter_context(raw(victim))
            # A produce request of 90 MiB, of which only the start ever comes.
            link.sendall(struct.pack(">ihhih", 90 * MIB, ApiKey.PRODUCE, 9, 1, -1) + bytes(1000))
        bystander.write_and_read()
        assert victim.resident_bytes - before < 16 * MIB


def test_frames_cut_at_every_byte(victim: MillpondProcess, bystander: Bystander) -> None:
    frame = ClientConnection("cut").send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("cut", "1"))
    for length in range(len(frame)):
        with raw(victim) as link:
            link.sendall(frame[:length])
    bystander.write_and_read()


def test_a_valid_request_before_garbage_is_answered(
    victim: MillpondProcess, bystander: Bystander
) -> None:
    with WireClient(victim.port) as link:
        frame = ClientConnection("x").send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("x", "1"))
        link.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("x", "1"))
        link.socket.sendall(frame[:4] + b"\xff" * (len(frame) - 4))
        assert link.receive().message.error_code == 0
        assert_closed(link.socket)


def test_unknown_apis_and_versions(victim: MillpondProcess, bystander: Bystander) -> None:
    for api_key, version in (
        (UNKNOWN_API, 0),
        (-1, 0),
        (ApiKey.PRODUCE, 99),
        (ApiKey.FETCH, -1),
        (ApiKey.METADATA, 2000),
    ):
        with raw(victim) as link:
            header = struct.pack(">hhih", api_key, version, 5, -1)
            link.sendall(struct.pack(">i", len(header)) + header)
            assert_closed(link)


def test_api_versions_of_an_unknown_version_is_told_which_are_known(
    victim: MillpondProcess, bystander: Bystander
) -> None:
    with raw(victim) as link:
        header = struct.pack(">hhih", ApiKey.API_VERSIONS, 77, 5, -1)
        link.sendall(struct.pack(">i", len(header)) + header)
        size, correlation_id, error, count = struct.unpack(">iihi", read_exactly(link, 14))
        assert (correlation_id, error) == (5, ErrorCode.UNSUPPORTED_VERSION)
        rows = struct.iter_unpack(">hhh", read_exactly(link, count * 6))
        assert any(key == ApiKey.API_VERSIONS for key, _, _ in rows)
        assert size == 10 + count * 6
        # The connection goes on.
        header = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 6, -1)
        link.sendall(struct.pack(">i", len(header)) + header)
        assert struct.unpack(">iih", read_exactly(link, 10))[1:] == (6, 0)


def test_counts_that_lie(victim: MillpondProcess, bystander: Bystander) -> None:
    before = victim.resident_bytes
    for body in (
        struct.pack(">i", 2**31 - 1),  # so many topics, and none of them there
        struct.pack(">i", 2**31 - 1) + b"\x00\x00" * 5000,
        struct.pack(">ih", 1, 32767),  # a name of 32 KiB that is not there
        struct.pack(">ih", 1, -2),
    ):
        with raw(victim) as link:
            request = struct.pack(">hhih", ApiKey.METADATA, 1, 5, -1) + body
            link.sendall(struct.pack(">i", len(request)) + request)
            assert_closed(link)
    assert victim.resident_bytes - before < 16 * MIB
    bystander.write_and_read()


# Requests that ask for what must not be


def test_damaged_batches_are_refused_and_stored_data_stays(
    victim: MillpondProcess, bystander: Bystander
) -> None:
    (segment,) = (victim.data / f"{bystander.topic}-0").glob("*.log")
    stored = segment.read_bytes()
    good = bytes(build_batch([(MORNING_MS, b"k", b"v" * 50, ())] * 3))
    chance = random.Random(SEED)
    codes = set()
    with WireClient(victim.port) as link:
        for _ in range(300):
            damaged = bytearray(good)
            # Neither the base offset nor the leader's epoch is the client's to give.
            place = chance.choice([*range(8, 12), *range(16, len(damaged))])
            damaged[place] ^= 1 << chance.randrange(8)
            error, _ = produce(link, bystander.topic, bytes(damaged))
            codes.add(error)
    assert 0 not in codes
    assert codes <= {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
    assert segment.read_bytes() == stored


def test_a_batch_larger_than_the_topic_allows(
    victim: MillpondProcess, bystander: Bystander
) -> None:
    (segment,) = (victim.data / f"{bystander.topic}-0").glob("*.log")
    stored = segment.read_bytes()
    with WireClient(victim.port) as link:
        large = bytes(build_batch([(MORNING_MS, None, b"x" * (20 * MIB), ())]))
        assert produce(link, bystander.topic, large)[0] == ErrorCode.MESSAGE_TOO_LARGE
    assert segment.read_bytes() == stored


def test_a_compression_bomb(victim: MillpondProcess, bystander: Bystander) -> None:
    """A topic that recompresses must unpack what it is given: a thousand times its size, if allowed to."""
    topic = f"{bystander.topic}-bomb"
    create(bystander.link, topic, compression_type="lz4")
    packer = zlib.compressobj(9, wbits=31)
    first, again = (packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in "ab")
    bomb = first + again * 800  # after a full flush the same bytes say the same thing again
    template = build_batch([(MORNING_MS, None, b"x", ())], compression=Compression.GZIP)
    batch = with_payload(template, bomb)
    assert len(batch) < MIB
    error, _ = produce(bystander.link, topic, batch)
    assert error != 0
    assert fetch(bystander.link, topic) == b""


def test_records_that_nobody_could_read_are_refused(
    victim: MillpondProcess, bystander: Bystander
) -> None:
    (segment,) = (victim.data / f"{bystander.topic}-0").glob("*.log")
    stored = segment.read_bytes()
    with WireClient(victim.port) as link:
        for codec in Compression:
            for make in {**POISON, **STRICTER}.values():
                error, _ = produce(link, bystander.topic, poisoned(make(), codec))
                assert error == ErrorCode.INVALID_RECORD
        for codec, body in BROKEN_COMPRESSION.items():
            error, _ = produce(link, bystander.topic, sealed(1, body, codec))
            assert error == ErrorCode.INVALID_RECORD
    assert segment.read_bytes() == stored


def test_small_batches_that_grow_keep_nobody_waiting(
    victim: MillpondProcess, bystander: Bystander
) -> None:
    """What one connection sends is worked on beside the loop; its answers come in order."""
    topic = f"{bystander.topic}-grows"
    create(bystander.link, topic)
    before = victim.resident_bytes
    grows = produce_request(topic, bomb(60 * MIB))
    with WireClient(victim.port) as link:
        for _ in range(40):
            link.send(ApiKey.PRODUCE, 9, grows)
        for _ in range(5):
            bystander.write_and_read()
        answers = [link.receive().message.responses[0].partition_responses[0] for _ in range(40)]
        assert [one.base_offset for one in answers] == list(range(40))
    with contextlib.ExitStack() as links:
        for _ in range(10):  # and those who leave have nothing done for them any more
            gone = links.enter_context(WireClient(victim.port))
            for _ in range(40):
                gone.send(ApiKey.PRODUCE, 9, grows)
    bystander.write_and_read()
    # What was being unpacked for them when they left is unpacked to its end.
    wait_until(
        lambda: victim.resident_bytes - before < GROWTH_BYTES_MAX,
        timeout_s=TIMEOUT_S,
        what="the memory of the batches that grew is given back",
    )


# Clients that do not behave


def test_a_reader_that_never_reads(victim: MillpondProcess, bystander: Bystander) -> None:
    topic = f"{bystander.topic}-large"
    create(bystander.link, topic)
    large = bytes(build_batch([(MORNING_MS, None, random.Random(SEED).randbytes(MIB - 200), ())]))
    for _ in range(8):
        assert produce(bystander.link, topic, large)[0] == 0
    before = victim.resident_bytes
    with contextlib.ExitStack() as links:
        for _ in range(4):
            link = links.enter_context(WireClient(victim.port))
            link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.socket.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                for _ in range(2000):  # 16 GB of answers, if the broker were to believe it
                    link.send(ApiKey.FETCH, 12, fetch_request(topic))
            bystander.write_and_read()
        assert victim.resident_bytes - before < 4 * 16 * MIB + GROWTH_BYTES_MAX
        bystander.write_and_read()
    wait_until(
        lambda: victim.resident_bytes - before < GROWTH_BYTES_MAX,
        timeout_s=TIMEOUT_S,
        what="the memory of the readers that never read is given back",
    )


def test_a_writer_that_never_reads_its_answers(
    victim: MillpondProcess, bystander: Bystander
) -> None:
    before = victim.resident_bytes
    with WireClient(victim.port) as link:
        link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.socket.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            for _ in range(20_000):
                link.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("never", "1"))
        bystander.write_and_read()
        # Answers that are not read are held as long as the connection is open; what an earlier test left to
        # be unpacked on a busy machine is held for a moment.
        wait_until(
            lambda: victim.resident_bytes - before < GROWTH_BYTES_MAX,
            timeout_s=TIMEOUT_S,
            what="the memory of a writer that never reads stays bounded",
        )


def test_connections_that_vanish_in_the_middle_of_a_request(
    victim: MillpondProcess, bystander: Bystander
) -> None:
    open_before = victim.open_files
    batch = bytes(build_batch([(MORNING_MS, None, b"x" * 1000, ())]))
    frame = ClientConnection("gone").send(
        ApiKey.PRODUCE, 9, produce_request(f"{bystander.topic}-none", batch)
    )
    for number in range(100):
        link = socket.create_connection(("127.0.0.1", victim.port))
        link.sendall(frame[: 1 + number * (len(frame) - 1) // 100])
        # Reset instead of a goodbye, as when a machine dies.
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()
    bystander.write_and_read()
    wait_until(
        lambda: victim.open_files <= open_before + 1,
        timeout_s=TIMEOUT_S,
        what="the descriptors of the vanished are given back",
    )


def test_a_thousand_idle_connections(victim: MillpondProcess, bystander: Bystander) -> None:
    before = victim.resident_bytes
    with contextlib.ExitStack() as links:
        for _ in range(1000):
            link = links.enter_context(WireClient(victim.port))
            answer = link.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("idle", "1"))
            assert answer.error_code == 0
        # Connections of clients that left before may still have been closing when the first of these came.
        open_most = victim.open_files
        assert open_most > 1000
        assert victim.resident_bytes - before < 64 * MIB
        bystander.write_and_read()
    wait_until(
        lambda: victim.open_files <= open_most - 1000,
        timeout_s=TIMEOUT_S,
        what="the descriptors of the thousand are given back",
    )


def test_a_client_that_sends_byte_by_byte(victim: MillpondProcess, bystander: Bystander) -> None:
    frame = ClientConnection("slow").send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("slow", "1"))
    with raw(victim) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame:
            link.sendall(bytes([byte]))
        size, correlation_id, error = struct.unpack(">iih", read_exactly(link, 10))
        assert size > 6
        assert (correlation_id, error) == (0, 0)


# Requests that are never whole


def test_large_requests_that_never_end_take_a_bounded_part_of_the_memory(tmp_path: Path) -> None:
    """Thirty connections send 90 MiB without the last byte; others write batches of a megabyte meanwhile."""
    bound = 200 * MIB
    with (
        MillpondProcess(tmp_path, properties={"queued.max.request.bytes": str(bound)}) as broker,
        WireClient(broker.port) as link,
        contextlib.ExitStack() as links,
    ):
        witness = Bystander(link, "small")
        create(link, "large")
        large = bytes(build_batch([(MORNING_MS, None, bytes(MIB - 200), ())]))
        assert produce(link, "large", large)[0] == 0
        before = peak = broker.resident_bytes
        senders = [links.enter_context(Endless(broker.port, 90 * MIB)) for _ in range(30)]
        wait_until(
            lambda: sum(one.sent for one in senders) > bound,
            timeout_s=TIMEOUT_S,
            what="more was sent than may be held",
        )
        for _ in range(30):
            witness.write_and_read()
            assert produce(link, "large", large)[0] == 0
            peak = max(peak, broker.resident_bytes)
        assert peak - before < bound + 90 * MIB + 2 * GROWTH_BYTES_MAX
        links.close()
        wait_until(
            lambda: broker.resident_bytes - before < 2 * GROWTH_BYTES_MAX,
            timeout_s=TIMEOUT_S,
            what="the memory of requests that never came is given back",
        )
        witness.write_and_read()


class Endless:
    """A produce request of this size whose last byte never comes, sent as fast as the broker reads it."""

    def __init__(self, port: int, size: int) -> None:
        self.sent = 0
        self._left = size - HEADER.size - 1
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.sendall(HEADER.pack(size, ApiKey.PRODUCE, 9, 1, -1))
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        piece = bytes(64 * 1024)
        with contextlib.suppress(OSError):
            while self.sent < self._left:
                self.sent += self._socket.send(piece[: self._left - self.sent])

    def __enter__(self) -> "Endless":
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


# Small requests that take long


LONG_REQUESTS = 60


@pytest.fixture
def long_search(victim: MillpondProcess, bystander: Bystander) -> bytes:
    """Requests of some fifty bytes that each look through a large batch; they are answered in as few."""
    topic = f"{bystander.topic}-times"
    create(bystander.link, topic)
    count = 20_000
    records = [(MORNING_MS + number, None, b"", ()) for number in range(count)]
    batch = bytes(build_batch(records, compression=Compression.GZIP))
    assert produce(bystander.link, topic, batch)[0] == 0
    asked = ListOffsetsPartition(0, timestamp=MORNING_MS + count - 1)
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, [asked])])
    wire = ClientConnection("flood")
    return b"".join(wire.send(ApiKey.LIST_OFFSETS, 5, request) for _ in range(LONG_REQUESTS))


def test_others_are_served_between_the_pipelined_requests_of_one_client(
    victim: MillpondProcess, bystander: Bystander, long_search: bytes
) -> None:
    """The flood's last request asks for the end of a topic that another client writes to meanwhile."""
    topic = f"{bystander.topic}-meanwhile"
    create(bystander.link, topic)
    latest = ListOffsetsRequest(
        -1, topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=-1)])]
    )
    last = ClientConnection("flood").send(ApiKey.LIST_OFFSETS, 5, latest)
    batch = bytes(build_batch([(MORNING_MS, None, b"x", ())]))
    with raw(victim) as flood:
        flood.sendall(long_search + last)
        read_frame(flood)
        assert produce(bystander.link, topic, batch) == (0, 0)
        answers = [read_frame(flood) for _ in range(LONG_REQUESTS)]
    assert struct.unpack(">qi", answers[-1][-12:])[0] == 1, (
        "written before the last one was answered"
    )


def test_no_work_is_done_for_connections_that_have_closed(
    victim: MillpondProcess, bystander: Bystander, long_search: bytes
) -> None:
    floods = [socket.create_connection(("127.0.0.1", victim.port)) for _ in range(50)]
    began_s = cpu_seconds_of(victim.pid)
    with raw(victim) as flood:
        flood.sendall(long_search)
        for _ in range(LONG_REQUESTS):
            read_frame(flood)
    one_flood_s = cpu_seconds_of(victim.pid) - began_s
    open_before = victim.open_files
    began_s = cpu_seconds_of(victim.pid)
    for flood in floods:
        flood.sendall(long_search)
    for flood in floods:
        flood.close()
    bystander.write_and_read()
    wait_until(
        lambda: victim.open_files <= open_before - 50,
        timeout_s=TIMEOUT_S,
        what="the broker has seen that they are gone",
    )
    assert cpu_seconds_of(victim.pid) - began_s < 10 * one_flood_s + 2


def test_the_broker_still_starts_and_stops_after_all_that(victim: MillpondProcess) -> None:
    files = {path: path.read_bytes() for path in data_files(victim)}
    assert files
    assert victim.stop() == 0
    victim.start()
    assert {path: path.read_bytes() for path in files} == files


# Small words that the stories above use


@contextlib.contextmanager
def raw(victim: MillpondProcess) -> Iterator[socket.socket]:
    """A socket without any protocol."""
    with socket.create_connection(("127.0.0.1", victim.port), timeout=TIMEOUT_S) as link:
        yield link


def assert_closed(link: socket.socket) -> None:
    """The other end closes, with or without last words."""
    with contextlib.suppress(ConnectionError):
        while link.recv(65536):
            pass


def read_frame(link: socket.socket) -> bytes:
    """One answer."""
    (size,) = struct.unpack(">i", read_exactly(link, 4))
    return read_exactly(link, size)


def cpu_seconds_of(pid: int) -> float:
    """What a process has used of the processors so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_exactly(link: socket.socket, size: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < size:
        chunk = link.recv(size - len(data))
        assert chunk, "the connection ended too early"
        data += chunk
    return data


def create(link: WireClient, topic: str, **config: str) -> None:
    """Create a topic of one partition."""
    settings = [
        CreatableTopicConfig(name.replace("_", "."), value) for name, value in config.items()
    ]
    asked = CreateTopicsRequest([CreatableTopic(topic, 1, 1, [], settings)], 10_000)
    (made,) = link.ask(ApiKey.CREATE_TOPICS, 7, asked).topics
    assert made.error_code == 0, made


def produce_request(topic: str, batch: bytes) -> ProduceRequest:
    """A produce request to partition 0 that wants an answer."""
    data = [PartitionProduceData(0, batch)]
    return ProduceRequest(None, -1, 10_000, [TopicProduceData(topic, partition_data=data)])


def produce(link: WireClient, topic: str, batch: bytes) -> tuple[int, int]:
    """Write one batch and answer the error code and the offset."""
    answer = link.ask(ApiKey.PRODUCE, 9, produce_request(topic, batch))
    (partition,) = answer.responses[0].partition_responses
    return partition.error_code, partition.base_offset


def fetch_request(topic: str) -> FetchRequest:
    """All of partition 0, at once."""
    asked = FetchTopic(topic, partitions=[FetchPartition(0, partition_max_bytes=64 * MIB)])
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=64 * MIB, topics=[asked])


def fetch(link: WireClient, topic: str) -> bytes:
    """The bytes of partition 0."""
    answer = link.ask(ApiKey.FETCH, 12, fetch_request(topic))
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == 0
    return bytes(partition.records or b"")


def with_payload(batch: bytearray, payload: bytes) -> bytes:
    """The batch with other compressed records, its length and checksum set right."""
    import crc32c

    whole = bytearray(batch[:61]) + payload
    struct.pack_into(">i", whole, 8, len(whole) - 12)
    struct.pack_into(">I", whole, 17, crc32c.crc32c(bytes(whole[21:])))
    return bytes(whole)


def data_files(victim: MillpondProcess) -> list[Path]:
    """The segments of all topics."""
    return sorted(victim.data.glob("test-*/*.log"))
