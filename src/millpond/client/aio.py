"""A client's view of a cluster: its brokers, the leaders, connections and retries.

``Cluster`` starts with some addresses, learns the others from metadata, keeps one connection for each broker
and purpose, and retries what may succeed later. ``Admin``, ``Producer`` and ``Fetcher`` use it.

Every call has a deadline, and its error names the last reason. An error that a retry cannot cure is raised at
once. A broker that cannot be reached at the very first contact is an error at once too: the address is wrong,
or the broker was not started. One cluster belongs to one event loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from millpond import __version__
from millpond.base.ids import TopicPartition
from millpond.client._attempts import Attempts
from millpond.client._connection import Connection
from millpond.client._model import (
    ClusterInfo,
    TopicInfo,
    cluster_info,
    parse_bootstrap,
    topic_info,
)
from millpond.client.errors import BrokerRefused, ClientError, ConnectionLost, NoBroker
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

DEFAULT_TIMEOUT_S = 30.0

# A topic that was created a moment ago may not be known to all brokers yet; one that is unknown for longer
# than this does not exist. Kafka's brokers learn of a new topic within some hundred milliseconds.
UNKNOWN_TOPIC_S = 1.0

METADATA_AGE_S_MAX = 300.0  # partitions may be added; Java's metadata.max.age.ms
BACKOFF_S_MIN = 0.05

T = TypeVar("T")
AskLeader: TypeAlias = Callable[
    [Connection, list[TopicPartition]], Awaitable[dict[TopicPartition, T | BrokerRefused]]
]


class Cluster:
    """Brokers, connections and metadata. Use as ``async with Cluster("host:port") as cluster:``."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        client_id: str = "millpond",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        request_s: float = 30.0,
        connect_s: float = 5.0,
        backoff_s: float = BACKOFF_S_MIN,
        unknown_topic_s: float = UNKNOWN_TOPIC_S,
        metadata_age_s: float = METADATA_AGE_S_MAX,
    ) -> None:
        """``bootstrap`` is one or more ``host:port``, as a list or separated by commas."""
        self.bootstrap = parse_bootstrap(bootstrap)
        self.client_id = client_id
        self.timeout_s = timeout_s
        self._unknown_topic_s = unknown_topic_s
        self._metadata_age_s = metadata_age_s
        self._backoff_s = backoff_s
        self._request_s = request_s
        self._connect_s = connect_s
        self._connections: dict[tuple[str, int, str], Connection] = {}
        self._opening: dict[tuple[str, int, str], asyncio.Lock] = {}
        self._info: ClusterInfo | None = None
        self._topics: dict[str, tuple[TopicInfo, float]] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; waiting callers get ``ConnectionLost``."""
        self._closed = True
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            connection.close("the client was closed")
        await asyncio.sleep(
            0
        )  # let the transports finish, so that none is left to the garbage collector

    # --- metadata ---

    async def info(self, *, refresh: bool = False, timeout_s: float | None = None) -> ClusterInfo:
        """Return the known brokers; fetch metadata if none are known or ``refresh`` is set."""
        if self._info is None or refresh:
            await self._load_metadata([], False, self.attempts("asking for the brokers", timeout_s))
        assert self._info is not None
        return self._info

    async def topics(self, *, timeout_s: float | None = None) -> list[TopicInfo]:
        """Return every topic, by name."""
        attempts = self.attempts("listing topics", timeout_s)
        answer = await self._load_metadata(None, False, attempts)
        return sorted(
            (topic_info(topic) for topic in answer.topics if topic.error_code == ErrorCode.NONE),
            key=lambda topic: topic.name,
        )

    async def topic(
        self,
        name: str,
        *,
        create: bool = False,
        refresh: bool = False,
        timeout_s: float | None = None,
        attempts: Attempts | None = None,
    ) -> TopicInfo:
        """Return one topic. ``create`` lets the broker create it if topics are created automatically.

        Raises ``BrokerRefused`` with UNKNOWN_TOPIC_OR_PARTITION once it is clear that the topic does not
        exist.
        """
        known = None if refresh else self.known_topic(name)
        if known is not None:
            return known
        if attempts is None:
            attempts = self.attempts(f"asking for topic {name}", timeout_s)
        while True:
            answer = await self._load_metadata([name], create, attempts)
            found = next((topic for topic in answer.topics if topic.name == name), None)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error_code
            if code == ErrorCode.NONE:
                return self._topics[name][0]
            await attempts.after(BrokerRefused(code, subject=name))

    def known_topic(self, name: str, now_s: float | None = None) -> TopicInfo | None:
        """Return cached metadata of a topic, if it is not too old."""
        known = self._topics.get(name)
        if known is None:
            return None
        if now_s is None:
            now_s = asyncio.get_running_loop().time()
        return known[0] if now_s - known[1] < self._metadata_age_s else None

    def forget_topic(self, name: str) -> None:
        """Drop cached metadata of a topic; the next caller fetches it again."""
        self._topics.pop(name, None)

    async def _load_metadata(
        self, names: list[str] | None, create: bool, attempts: Attempts
    ) -> MetadataResponse:
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer: MetadataResponse = await self.ask_any(
            ApiKey.METADATA,
            MetadataRequest(topics=asked, allow_auto_topic_creation=create),
            attempts=attempts,
        )
        self._info = cluster_info(answer)
        now = asyncio.get_running_loop().time()
        for topic in answer.topics:
            if topic.name is None:
                continue
            if topic.error_code == ErrorCode.NONE:
                self._topics[topic.name] = (topic_info(topic), now)
            else:
                self._topics.pop(topic.name, None)
        return answer

    # --- requests ---

    def attempts(
        self, what: str, timeout_s: float | None = None, *, request_s: float | None = None
    ) -> Attempts:
        """Return a deadline for one operation, which may take several tries of up to ``request_s`` each."""
        return Attempts(
            what,
            timeout_s=self.timeout_s if timeout_s is None else timeout_s,
            request_s=self._request_s if request_s is None else request_s,
            backoff_s=self._backoff_s,
            unknown_topic_s=self._unknown_topic_s,
        )

    async def connection_any(self) -> Connection:
        """Return a connection to any broker that answers. Raises ``NoBroker`` if none does."""
        for key, connection in self._connections.items():
            if connection.is_open and not key[2]:
                return connection
        addresses = dict.fromkeys(self.bootstrap)
        if self._info is not None:
            addresses |= dict.fromkeys((item.host, item.port) for item in self._info.brokers)
        failures = []
        for host, port in addresses:
            try:
                return await self._connect(host, port, "")
            except NoBroker as error:
                failures.append(str(error))
        where = ", ".join(f"{host}:{port}" for host, port in self.bootstrap)
        silent = any("did not answer" in failure for failure in failures)
        advice = (
            "it may wait for the other nodes of its cluster: look at its log"
            if silent
            else "start one with `millpond up`, or give another address"
        )
        raise NoBroker(f"no broker answers at {where} ({'; '.join(failures)}); {advice}")

    async def connection_to(self, node_id: int, *, lane: str = "") -> Connection:
        """Return a connection to one broker.

        Each ``lane`` has its own connection, so that a long poll does not delay other requests.
        """
        info = await self.info()
        broker = next((item for item in info.brokers if item.node_id == node_id), None)
        if broker is None:
            raise BrokerRefused(ErrorCode.BROKER_NOT_AVAILABLE, f"no broker {node_id} is known")
        try:
            return await self._connect(broker.host, broker.port, lane)
        except ConnectionLost:
            raise
        except NoBroker as error:
            raise ConnectionLost(
                f"broker {node_id} is said to be at {broker}, but {error};"
                " if it always is, look at its advertised.listeners"
            ) from None

    def close_lane(self, lane: str) -> None:
        """Close the connections of a lane."""
        for key in [key for key in self._connections if key[2] == lane]:
            self._connections.pop(key).close()
            self._opening.pop(key, None)

    async def ask_any(
        self,
        api_key: ApiKey,
        message: object,
        *,
        attempts: Attempts,
    ) -> Any:
        """Send a request to any broker; retry, perhaps with another one, when the connection breaks."""
        while True:
            first_contact = self._info is None
            try:
                connection = await self.connection_any()
            except NoBroker as error:
                if first_contact:
                    raise
                await attempts.after(error)
                continue
            try:
                return await attempts.request(connection, api_key, message)
            except ConnectionLost as error:
                await attempts.after(error)

    async def ask_node(
        self, node_id: int, api_key: ApiKey, message: object, *, attempts: Attempts
    ) -> Any:
        """Send a request to one broker, again when the connection breaks."""
        while True:
            try:
                connection = await self.connection_to(node_id)
                return await attempts.request(connection, api_key, message)
            except ConnectionLost as error:
                await attempts.after(error)

    async def ask_controller(
        self,
        api_key: ApiKey,
        message: object,
        *,
        error_of: Callable[[Any], int],
        attempts: Attempts,
    ) -> Any:
        """Send a request to the controller, and find it again if it has moved.

        A controller whose address the brokers do not know yet, because it is just starting, is reached
        through any of them.
        """
        while True:
            info = await self.info(refresh=attempts.count > 0)
            try:
                if all(broker.node_id != info.controller_id for broker in info.brokers):
                    answer = await self.ask_any(api_key, message, attempts=attempts)
                else:
                    connection = await self.connection_to(info.controller_id)
                    answer = await attempts.request(connection, api_key, message)
            except ConnectionLost as error:
                await attempts.after(error)
                continue
            if error_of(answer) != ErrorCode.NOT_CONTROLLER:
                return answer
            await attempts.after(BrokerRefused(ErrorCode.NOT_CONTROLLER))

    async def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: "AskLeader[T]",
        *,
        attempts: Attempts,
        create: bool = False,
    ) -> dict[TopicPartition, T | BrokerRefused]:
        """Send requests to the leaders of partitions, concurrently, until each partition has a final result.

        ``ask`` gets a connection and the partitions that it leads; it returns for each its result or the
        broker's error. Retriable errors are retried with new metadata.
        """
        left = list(dict.fromkeys(partitions))
        results: dict[TopicPartition, T | BrokerRefused] = {}
        while left:
            answers = await self._ask_leaders_once(left, ask, attempts, create)
            obstacle: ClientError | None = None
            again: list[TopicPartition] = []
            for partition in left:
                answer = answers[partition]
                if not isinstance(answer, ClientError):
                    results[partition] = answer
                elif attempts.may_pass(answer):
                    again.append(partition)
                    obstacle = answer
                    self.forget_topic(partition.topic)
                elif isinstance(answer, BrokerRefused):
                    results[partition] = answer
                else:
                    raise answer
            left = again
            if obstacle is not None:
                await attempts.after(obstacle)
        return results

    async def _ask_leaders_once(
        self,
        partitions: list[TopicPartition],
        ask: "AskLeader[T]",
        attempts: Attempts,
        create: bool,
    ) -> dict[TopicPartition, T | ClientError]:
        silent = BrokerRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker left the partition out")
        answers: dict[TopicPartition, T | ClientError] = dict.fromkeys(partitions, silent)
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            try:
                leader = await self.leader_of(partition, create=create, attempts=attempts)
                by_leader.setdefault(leader, []).append(partition)
            except BrokerRefused as error:
                answers[partition] = error

        async def ask_one(leader: int, group: list[TopicPartition]) -> None:
            try:
                connection = await self.connection_to(leader)
                async with attempts.limit(connection):
                    answers.update(await ask(connection, group))
            except (ConnectionLost, BrokerRefused) as error:
                gone = isinstance(error, BrokerRefused) and (
                    error.code == ErrorCode.BROKER_NOT_AVAILABLE
                )
                answers.update(
                    dict.fromkeys(
                        group, BrokerRefused(ErrorCode.LEADER_NOT_AVAILABLE) if gone else error
                    )
                )

        try:
            async with asyncio.TaskGroup() as tasks:
                for leader, group in by_leader.items():
                    tasks.create_task(ask_one(leader, group), name=f"ask leader {leader}")
        except BaseExceptionGroup as group_error:
            raise group_error.exceptions[0] from None
        return answers

    async def leader_of(
        self,
        partition: TopicPartition,
        *,
        create: bool = False,
        attempts: Attempts | None = None,
    ) -> int:
        """Return the leader of a partition. Raises ``BrokerRefused`` if there is no such partition or
        leader.
        """
        topic = await self.topic(partition.topic, create=create, attempts=attempts)
        if partition.partition >= len(topic.partitions):  # there may be more by now
            topic = await self.topic(partition.topic, refresh=True, attempts=attempts)
        if not 0 <= partition.partition < len(topic.partitions):
            raise BrokerRefused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"the topic has {len(topic.partitions)} partitions",
                subject=str(partition),
            )
        leader = topic.partitions[partition.partition].leader
        if leader < 0:
            raise BrokerRefused(ErrorCode.LEADER_NOT_AVAILABLE, subject=str(partition))
        return leader

    async def _connect(self, host: str, port: int, lane: str) -> Connection:
        key = (host, port, lane)
        async with self._opening.setdefault(key, asyncio.Lock()):
            connection = self._connections.get(key)
            if connection is not None and connection.is_open:
                return connection
            if self._closed:
                raise ClientError("the client is closed")
            connection = await Connection.open(
                host,
                port,
                client_id=self.client_id,
                software_version=__version__,
                timeout_s=self._connect_s,
            )
            if self._closed:
                connection.close()
                raise ClientError("the client is closed")
            self._connections[key] = connection
            return connection
