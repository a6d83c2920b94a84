"""A small Kafka cluster in memory, for tests of the client: real sockets, real codecs, scripted trouble.

It keeps topics and batches in lists and answers the requests that the client makes. ``trouble`` queues
what goes wrong next for an API: an error code, ``DROP`` (the connection is closed instead of an answer),
``DROP_AFTER`` (it is carried out, then the connection is closed) or ``SILENCE`` (no answer ever comes).

Producers with an id are held to their sequences, as leaders do it: five batches are remembered, what comes
again is recognised, what comes too early is refused.
"""

import asyncio
import contextlib
from collections import defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from millpond.base.ids import TopicPartition
from millpond.record import assign_offset, iter_batches, read_header
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request, ServerConnection
from millpond.wire.kafka.messages import (
    api_versions,
    create_topics,
    delete_topics,
    describe_cluster,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)
from millpond.wire.shape import NeedData
from tests.support.kafka.fake_producers import ProducerState


class Trouble(Enum):
    """What may happen instead of an answer."""

    DROP = "drop"
    DROP_AFTER = "drop after"
    SILENCE = "silence"


DROP = Trouble.DROP
DROP_AFTER = Trouble.DROP_AFTER
SILENCE = Trouble.SILENCE


@dataclass
class Partition:
    """One log: batches as bytes, with offsets assigned."""

    leader: int
    start: int = 0
    end: int = 0
    batches: list[bytes] = field(default_factory=list)
    aborted: list[tuple[int, int]] = field(default_factory=list)  # producer id, first offset
    producers: dict[int, ProducerState] = field(default_factory=dict)


class FakeKafka:
    """Brokers on loopback that share one state. Use as ``async with FakeKafka() as kafka:``."""

    def __init__(self, *, nodes: int = 1, versions: dict[ApiKey, tuple[int, int]] | None = None):
        self.nodes = nodes
        self.controller_id = 1
        self.auto_create = False
        self.topics: dict[str, tuple[UUID, list[Partition]]] = {}
        self.requests: list[tuple[int, ApiKey, int, Any]] = []  # node, api, version, message
        self.sequences: list[tuple[int, int, int]] = []  # producer id, epoch, first sequence
        # Throttle times in ms of the next fetches, whose responses leave out all partitions.
        self.empty_fetches: deque[int] = deque()
        self._versions = versions or {}
        self._trouble: dict[ApiKey, deque[ErrorCode | Trouble]] = defaultdict(deque)
        self._servers: dict[int, asyncio.Server] = {}
        self._tasks: dict[int, set[asyncio.Task[Any]]] = defaultdict(set)
        self._changed = asyncio.Event()
        self._producer_ids = 1000
        self.hosts: dict[int, tuple[str, int]] = {}

    async def __aenter__(self) -> Self:
        for node in range(1, self.nodes + 1):
            await self.start_node(node)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in list(self._servers):
            await self.stop_node(node)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.hosts.values())

    async def start_node(self, node: int) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks[node].add(task)
            # Cancelled when its node stops; the stream's own callback must not see that as an error.
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await self._serve(node, reader, writer)
            writer.close()

        port = self.hosts.get(node, ("", 0))[1]
        server = await asyncio.start_server(serve, "127.0.0.1", port)
        self._servers[node] = server
        self.hosts[node] = ("127.0.0.1", server.sockets[0].getsockname()[1])

    async def stop_node(self, node: int) -> None:
        """Close its port and its connections; its address stays in the metadata."""
        server = self._servers.pop(node)
        server.close()
        tasks = self._tasks.pop(node, set())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await server.wait_closed()

    def trouble(self, api_key: ApiKey, *what: ErrorCode | Trouble) -> None:
        """The next requests of this API go wrong like this, one after the other."""
        self._trouble[api_key].extend(what)

    def add_topic(self, name: str, partitions: int = 1) -> None:
        logs = [Partition(leader=1 + number % self.nodes) for number in range(partitions)]
        self.topics[name] = (uuid4(), logs)

    def partition(self, name: str, number: int = 0) -> Partition:
        return self.topics[name][1][number]

    def append(self, name: str, number: int, batch: bytes | bytearray) -> int:
        """Add a batch as a leader does."""
        log = self.partition(name, number)
        data = bytearray(batch)
        first = log.end
        assign_offset(data, 0, first, 0)
        log.batches.append(bytes(data))
        log.end += read_header(data).last_offset_delta + 1
        self._changed.set()
        self._changed = asyncio.Event()
        return first

    def asked(self, api_key: ApiKey) -> int:
        """How many requests of this API came."""
        return sum(1 for _, key, _, _ in self.requests if key == api_key)

    # --- serving ---

    async def _serve(
        self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        wire = ServerConnection()
        while data := await reader.read(65536):
            wire.receive_data(data)
            while not isinstance(request := wire.next_event(), NeedData):
                answer = await self._answer(node, request)
                if answer is DROP:
                    return
                if answer is SILENCE:
                    await asyncio.sleep(3600)
                if answer is None:
                    continue
                spec = APIS[request.api_key]
                version = request.api_version
                if getattr(answer, "error_code", 0) == ErrorCode.UNSUPPORTED_VERSION:
                    version = 0  # as brokers answer a question from the future (KIP-511)
                payload = spec.encode_response(answer, version)
                writer.writelines(wire.frame_response(request, payload))

    async def _answer(self, node: int, request: Request) -> Any:
        key = ApiKey(request.api_key)
        message = APIS[key].decode_request(request.body, request.api_version)
        self.requests.append((node, key, request.api_version, message))
        queue = self._trouble[key]
        wrong = queue.popleft() if queue else ErrorCode.NONE
        if isinstance(wrong, Trouble) and wrong is not DROP_AFTER:
            return wrong
        dropped = wrong is DROP_AFTER
        wrong = ErrorCode.NONE if isinstance(wrong, Trouble) else wrong
        handler = getattr(self, f"_on_{key.name.lower()}")
        answer = handler(node, message, wrong)
        answer = await answer if asyncio.iscoroutine(answer) else answer
        return DROP if dropped else answer

    def _on_api_versions(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        handled = [key for key in ApiKey if hasattr(self, f"_on_{key.name.lower()}")]
        ranges = {key: (APIS[key].min_version, APIS[key].max_version) for key in handled}
        ranges |= self._versions
        return api_versions.ApiVersionsResponse(
            error_code=wrong,
            api_keys=[
                api_versions.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in ranges.items()
                if high >= 0
            ],
        )

    def _on_metadata(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        names = list(self.topics)
        if message.topics is not None:
            names = [topic.name for topic in message.topics]
        topics = []
        for name in names:
            if self.auto_create and message.allow_auto_topic_creation and name not in self.topics:
                self.add_topic(name)
            topic_id, logs = self.topics.get(name, (UUID(int=0), []))
            code = wrong or (
                ErrorCode.NONE if name in self.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            topics.append(
                metadata.MetadataResponseTopic(
                    error_code=code,
                    name=name,
                    topic_id=topic_id,
                    partitions=[
                        metadata.MetadataResponsePartition(
                            partition_index=number,
                            leader_id=log.leader,
                            leader_epoch=0,
                            replica_nodes=[log.leader],
                            isr_nodes=[log.leader],
                        )
                        for number, log in enumerate(logs)
                    ],
                )
            )
        return metadata.MetadataResponse(
            brokers=[
                metadata.MetadataResponseBroker(node_id=number, host=host, port=port)
                for number, (host, port) in self.hosts.items()
            ],
            cluster_id="fake",
            controller_id=self.controller_id,
            topics=topics,
        )

    def _find(self, node: int, name: str, topic_id: UUID, number: int) -> Partition | ErrorCode:
        for known, (known_id, logs) in self.topics.items():
            if known == name or (not name and known_id == topic_id):
                if number >= len(logs):
                    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if logs[number].leader != node:
                    return ErrorCode.NOT_LEADER_OR_FOLLOWER
                return logs[number]
        return ErrorCode.UNKNOWN_TOPIC_ID if not name else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _name(self, name: str, topic_id: UUID) -> str:
        return name or next(
            (known for known, (known_id, _) in self.topics.items() if known_id == topic_id), ""
        )

    def _on_produce(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        topics = []
        for topic in message.topic_data:
            results = []
            for item in topic.partition_data:
                log = self._find(node, topic.name, topic.topic_id, item.index)
                result = produce.PartitionProduceResponse(index=item.index, base_offset=-1)
                if wrong:
                    result.error_code = wrong
                elif isinstance(log, ErrorCode):
                    result.error_code = log
                else:
                    name = self._name(topic.name, topic.topic_id)
                    self._produce_to(name, log, item, result)
                results.append(result)
            topics.append(
                produce.TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=results
                )
            )
        return produce.ProduceResponse(responses=topics) if message.acks != 0 else None

    def _produce_to(self, name: str, log: Partition, item: Any, result: Any) -> None:
        header = read_header(item.records)
        if header.producer_id < 0:
            result.base_offset = self.append(name, item.index, bytes(item.records))
            return
        state = log.producers.setdefault(header.producer_id, ProducerState())
        found = state.check(header)
        if isinstance(found, ErrorCode):
            result.error_code = found
        elif found is not None:
            result.base_offset = found
        else:
            self.sequences.append((header.producer_id, header.producer_epoch, header.base_sequence))
            result.base_offset = self.append(name, item.index, bytes(item.records))
            state.keep(header, result.base_offset)

    async def _on_fetch(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        if self.empty_fetches:
            return fetch.FetchResponse(throttle_time_ms=self.empty_fetches.popleft())
        answer, size = self._fetch_now(node, message, wrong)
        if size < message.min_bytes and not wrong:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(message.max_wait_ms / 1000):
                    await self._changed.wait()
            answer, _ = self._fetch_now(node, message, wrong)
        return answer

    def _fetch_now(self, node: int, message: Any, wrong: ErrorCode) -> tuple[Any, int]:
        size = 0
        topics = []
        for topic in message.topics:
            items = []
            for asked in topic.partitions:
                log = self._find(node, topic.topic, topic.topic_id, asked.partition)
                item = fetch.PartitionData(
                    partition_index=asked.partition, aborted_transactions=None, records=b""
                )
                if wrong:
                    item.error_code = wrong
                elif isinstance(log, ErrorCode):
                    item.error_code = log
                elif not log.start <= asked.fetch_offset <= log.end:
                    item.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                else:
                    item.high_watermark = item.last_stable_offset = log.end
                    data = b"".join(log.batches)
                    for position, header in iter_batches(data):
                        if header.next_offset > asked.fetch_offset:
                            item.records = data[position:][: asked.partition_max_bytes]
                            break
                    item.aborted_transactions = [
                        fetch.AbortedTransaction(producer_id=producer, first_offset=first)
                        for producer, first in log.aborted
                    ]
                size += len(item.records or b"") + (1 if item.error_code else 0)
                items.append(item)
            topics.append(
                fetch.FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=items
                )
            )
        return fetch.FetchResponse(responses=topics), size

    def _on_list_offsets(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        topics = []
        for topic in message.topics:
            items = []
            for asked in topic.partitions:
                log = self._find(node, topic.name, UUID(int=0), asked.partition_index)
                item = list_offsets.ListOffsetsPartitionResponse(
                    partition_index=asked.partition_index
                )
                if wrong:
                    item.error_code = wrong
                elif isinstance(log, ErrorCode):
                    item.error_code = log
                else:
                    item.offset = log.start if asked.timestamp == -2 else log.end
                items.append(item)
            topics.append(list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=items))
        return list_offsets.ListOffsetsResponse(topics=topics)

    def _on_create_topics(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        results = []
        for topic in message.topics:
            code = wrong
            if not code and topic.name in self.topics:
                code = ErrorCode.TOPIC_ALREADY_EXISTS
            if not code and not message.validate_only:
                self.add_topic(topic.name, max(1, topic.num_partitions))
            results.append(
                create_topics.CreatableTopicResult(
                    name=topic.name,
                    error_code=code,
                    error_message="said the fake" if code else None,
                    num_partitions=max(1, topic.num_partitions),
                    replication_factor=1,
                )
            )
        return create_topics.CreateTopicsResponse(topics=results)

    def _on_delete_topics(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        names = [topic.name for topic in message.topics] or message.topic_names
        results = []
        for name in names:
            known = self.topics.pop(name, None) is not None
            code = ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(delete_topics.DeletableTopicResult(name=name, error_code=wrong or code))
        return delete_topics.DeleteTopicsResponse(responses=results)

    def _on_describe_cluster(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        return describe_cluster.DescribeClusterResponse(
            error_code=wrong,
            cluster_id="fake",
            controller_id=self.controller_id,
            brokers=[
                describe_cluster.DescribeClusterBroker(broker_id=number, host=host, port=port)
                for number, (host, port) in self.hosts.items()
            ],
        )

    def _on_init_producer_id(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        self._producer_ids += 1
        return init_producer_id.InitProducerIdResponse(
            error_code=wrong, producer_id=self._producer_ids, producer_epoch=0
        )


def tp(topic: str, partition: int = 0) -> TopicPartition:
    """Short for tests."""
    return TopicPartition(topic, partition)
