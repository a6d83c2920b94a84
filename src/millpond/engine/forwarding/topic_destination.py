"""A topic as a destination: a partition that this node leads, otherwise one of another leader."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from millpond.base.errors import MillpondError, UnknownTopic
from millpond.base.ids import TopicPartition
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.forwarding.kept import Taken
from millpond.engine.partitions.partition_calls import PartitionCalls
from millpond.engine.partitions.partitions import Partitions
from millpond.engine.runtime.runtime import Runtime
from millpond.record.builder import NewRecord, build_batch


class TopicServices(Protocol):
    """What a topic needs of the node to be a destination."""

    @property
    def info(self) -> NodeInfo: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def metadata(self) -> MetadataView: ...
    @property
    def partitions(self) -> Partitions: ...
    @property
    def partition_calls(self) -> PartitionCalls: ...


class TopicDestination:
    """One topic. Records that come together are written as one batch."""

    def __init__(self, services: TopicServices, topic: str, preferred: int) -> None:
        """``preferred`` chooses the partition where this node leads several, or none."""
        self._services = services
        self._topic = topic
        self._preferred = preferred

    def __str__(self) -> str:
        return f"topic {self._topic}"

    @property
    def exists(self) -> bool:
        """Whether the topic is known here."""
        topic = self._services.metadata.image.topics.get(self._topic)
        return topic is not None and bool(topic.partitions)

    def put(self, messages: Sequence[NewRecord]) -> Taken:
        """Append records. Raises ``UnknownTopic``, and what the log does.

        Where another node leads, ``durable`` is done when that node has them; a leader that may have moved is
        asked again for a while.
        """
        if not messages:
            return Taken(0, ())
        partition, is_led_here = self._partition()
        batch = build_batch(messages)
        services = self._services
        if is_led_here:
            durable = services.partitions.append(*partition, batch, acks=-1, internal=True).durable
            return Taken(len(messages), () if durable is None else (durable,))
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        services.runtime.tasks.spawn(
            self._send(partition, bytes(batch), sent), name=f"forward to {self._topic}"
        )
        return Taken(len(messages), (sent,))

    def _partition(self) -> tuple[TopicPartition, bool]:
        if not self.exists:
            raise UnknownTopic(f"there is no topic {self._topic}")
        states = self._services.metadata.image.topics[self._topic].partitions
        node = self._services.info.node_id
        preferred = self._preferred % len(states)
        candidates = [*range(preferred, len(states)), *range(preferred)]
        led = next((index for index in candidates if states[index].leader == node), None)
        chosen = preferred if led is None else led
        return TopicPartition(self._topic, chosen), led is not None

    async def _send(
        self, partition: TopicPartition, batch: bytes, sent: "asyncio.Future[None]"
    ) -> None:
        try:
            await self._services.partition_calls.append(partition, batch)
        except MillpondError as error:
            sent.set_exception(error)
        else:
            sent.set_result(None)
        finally:
            sent.cancel()  # without effect if it is done
