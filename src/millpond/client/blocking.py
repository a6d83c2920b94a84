"""A cluster without asyncio: whole batches in and out, and everything else through ``run``."""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from millpond.base.ids import TopicPartition
from millpond.client._model import ClusterInfo, TopicInfo
from millpond.client._portal import Portal
from millpond.client.admin import Admin, ConfigEntry, CreatedTopic, OffsetAt
from millpond.client.aio import DEFAULT_TIMEOUT_S, Cluster
from millpond.client.errors import BrokerRefused
from millpond.client.fetcher import FetchedBatch, Fetcher, Isolation, WhenOutOfRange
from millpond.client.producer import ACKS_ALL, Appended, Producer
from millpond.record import Compression, NewRecord

T = TypeVar("T")


class BlockingClient:
    """A cluster for code without an event loop. Use as ``with BlockingClient("host:port") as client:``.

    Calls may come from any thread. ``run`` reaches everything that the asyncio client can do.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        client_id: str = "millpond",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._portal = Portal()
        self.cluster = Cluster(bootstrap, client_id=client_id, timeout_s=timeout_s)
        self._admin = Admin(self.cluster)
        self._producers: dict[tuple[int, Compression, bool], Producer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and end the thread."""
        if self._portal.is_closed:
            return

        async def shut_down() -> None:
            for producer in self._producers.values():
                await producer.abort()
            await self.cluster.close()

        try:
            self._portal.run(shut_down())
        finally:
            self._portal.close()

    def run(self, work: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
        """Run ``work(cluster)`` on the client's loop and wait for its result.

        Ctrl-C while waiting cancels it.
        """
        return self._wait(work(self.cluster))

    # --- topics ---

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> CreatedTopic:
        """See ``Admin.create_topic``."""
        return self._wait(
            self._admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
            )
        )

    def delete_topics(self, *names: str) -> dict[str, BrokerRefused | None]:
        """See ``Admin.delete_topics``."""
        return self._wait(self._admin.delete_topics(names))

    def list_topics(self, *, internal: bool = False) -> list[TopicInfo]:
        """See ``Admin.list_topics``."""
        return self._wait(self._admin.list_topics(internal=internal))

    def describe_topic(self, name: str) -> TopicInfo:
        """See ``Admin.describe_topic``."""
        return self._wait(self._admin.describe_topic(name))

    def describe_configs(self, name: str) -> dict[str, ConfigEntry]:
        """See ``Admin.describe_configs``."""
        return self._wait(self._admin.describe_configs(name))

    def describe_cluster(self) -> ClusterInfo:
        """See ``Admin.describe_cluster``."""
        return self._wait(self._admin.describe_cluster())

    def list_offsets(
        self, asked: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAt | BrokerRefused]:
        """See ``Admin.list_offsets``."""
        return self._wait(self._admin.list_offsets(asked))

    # --- data ---

    def produce_batch(
        self,
        topic: str,
        partition: int,
        records: Sequence[NewRecord],
        *,
        acks: int = ACKS_ALL,
        compression: Compression = Compression.NONE,
        idempotent: bool = False,
    ) -> Appended:
        """Write records as one batch and wait for the answer."""

        async def produce() -> Appended:
            key = (acks, compression, idempotent)
            producer = self._producers.get(key)
            if producer is None:
                producer = self._producers[key] = Producer(
                    self.cluster,
                    acks=acks,
                    compression_type=compression,
                    enable_idempotence=idempotent,
                )
            return await producer.send_batch(topic, partition, records)

        return self._wait(produce())

    def fetch_batches(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        when_out_of_range: WhenOutOfRange = WhenOutOfRange.RAISE,
        max_wait_ms: int = 500,
    ) -> Iterator[FetchedBatch]:
        """Yield batches from ``positions`` on: for ever, or up to the offsets ``until`` (not included).

        The last batch of a partition may go beyond ``until``; check the records' offsets.
        """
        ends = dict(until) if until is not None else {}
        fetcher = Fetcher(
            self.cluster,
            {at: offset for at, offset in positions.items() if offset < ends.get(at, 2**63)},
            isolation=isolation,
            when_out_of_range=when_out_of_range,
            max_wait_ms=max_wait_ms,
        )
        try:
            while fetcher.positions:
                yield from self._wait(fetcher.batches())
                for partition, position in list(fetcher.positions.items()):
                    if position >= ends.get(partition, 2**63):
                        fetcher.drop(partition)
        finally:
            if not self._portal.is_closed:
                self._wait(fetcher.close())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._portal.run(work)
