"""Administrative requests about the contents of logs."""

from collections.abc import Iterable, Mapping

from millpond.base.ids import TopicPartition
from millpond.client._admin_model import DamageInfo, LogDirInfo, OffsetAt, by_topic, refusal_of
from millpond.client._connection import Connection
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused
from millpond.wire.kafka.api import ApiKey


class LogCalls:
    """A part of ``Admin``."""

    _cluster: Cluster

    async def list_offsets(
        self,
        asked: Mapping[TopicPartition, int],
        *,
        isolation_level: int = 0,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, OffsetAt | BrokerRefused]:
        """Return offsets by time: ``EARLIEST``, ``LATEST``, ``MAX_TIMESTAMP``, or the first at or after a
        time.
        """
        from millpond.wire.kafka.messages.list_offsets import (
            ListOffsetsPartition,
            ListOffsetsRequest,
            ListOffsetsResponse,
            ListOffsetsTopic,
        )

        attempts = self._cluster.attempts("asking for offsets", timeout_s)

        async def ask(
            connection: Connection, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, OffsetAt | BrokerRefused]:
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation_level,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(
                                partition_index=number,
                                timestamp=asked[TopicPartition(topic, number)],
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(partitions).items()
                ],
                timeout_ms=attempts.left_ms(),
            )
            answer: ListOffsetsResponse = await connection.request(ApiKey.LIST_OFFSETS, request)
            found: dict[TopicPartition, OffsetAt | BrokerRefused] = {}
            for topic in answer.topics:
                for item in topic.partitions:
                    partition = TopicPartition(topic.name, item.partition_index)
                    found[partition] = refusal_of(
                        item.error_code, None, str(partition)
                    ) or OffsetAt(
                        offset=item.offset,
                        timestamp=item.timestamp,
                        leader_epoch=item.leader_epoch,
                    )
            return found

        return await self._cluster.ask_leaders(asked, ask, attempts=attempts)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, int | BrokerRefused]:
        """Delete everything before these offsets (-1: all records). Return the new start of each log."""
        from millpond.wire.kafka.messages.delete_records import (
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsResponse,
            DeleteRecordsTopic,
        )

        attempts = self._cluster.attempts("deleting records", timeout_s)

        async def ask(
            connection: Connection, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, int | BrokerRefused]:
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(
                                partition_index=number,
                                offset=before[TopicPartition(topic, number)],
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(partitions).items()
                ],
                timeout_ms=attempts.left_ms(),
            )
            answer: DeleteRecordsResponse = await connection.request(ApiKey.DELETE_RECORDS, request)
            found: dict[TopicPartition, int | BrokerRefused] = {}
            for topic in answer.topics:
                for item in topic.partitions:
                    partition = TopicPartition(topic.name, item.partition_index)
                    refusal = refusal_of(item.error_code, None, str(partition))
                    found[partition] = item.low_watermark if refusal is None else refusal
            return found

        return await self._cluster.ask_leaders(before, ask, attempts=attempts)

    async def describe_log_dirs(
        self,
        topics: Iterable[str] | None = None,
        *,
        nodes: Iterable[int] | None = None,
        offline: bool = False,
        timeout_s: float | None = None,
    ) -> list[LogDirInfo]:
        """Return the data directories of every broker (or of these), and the size of each partition in them.

        A directory that is offline raises the broker's error; with ``offline`` it is part of the result.
        """
        from millpond.wire.kafka.messages.describe_log_dirs import (
            DescribableLogDirTopic,
            DescribeLogDirsRequest,
            DescribeLogDirsResponse,
        )

        attempts = self._cluster.attempts("describing log directories", timeout_s)
        asked: list[DescribableLogDirTopic] | None = None
        if topics is not None:
            asked = []
            for name in topics:
                info = await self._cluster.topic(name, timeout_s=attempts.left_s())
                numbers = [item.partition for item in info.partitions]
                asked.append(DescribableLogDirTopic(topic=name, partitions=numbers))
        found = []
        asked_nodes = nodes
        if asked_nodes is None:
            asked_nodes = [broker.node_id for broker in (await self._cluster.info()).brokers]
        for node_id in asked_nodes:
            answer: DescribeLogDirsResponse = await self._cluster.ask_node(
                node_id,
                ApiKey.DESCRIBE_LOG_DIRS,
                DescribeLogDirsRequest(topics=asked),
                attempts=attempts,
            )
            if refusal := refusal_of(answer.error_code, None, f"broker {node_id}"):
                raise refusal
            for item in answer.results:
                refusal = refusal_of(item.error_code, None, item.log_dir)
                if refusal is not None and not offline:
                    raise refusal
                sizes = {
                    TopicPartition(topic.name, partition.partition_index): partition.partition_size
                    for topic in item.topics
                    for partition in topic.partitions
                }
                found.append(
                    LogDirInfo(
                        node_id=node_id,
                        path=item.log_dir,
                        sizes=sizes,
                        total_bytes=item.total_bytes,
                        usable_bytes=item.usable_bytes,
                        is_offline=refusal is not None,
                        failure=item.failure,
                        damage={
                            TopicPartition(topic.name, partition.partition_index): tuple(
                                DamageInfo(
                                    first_offset=one.first_offset,
                                    next_offset=one.next_offset,
                                    reason=one.reason,
                                )
                                for one in partition.damage
                            )
                            for topic in item.topics
                            for partition in topic.partitions
                            if partition.damage
                        },
                    )
                )
        return found
