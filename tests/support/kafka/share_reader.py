"""A member of a share group that speaks to a broker in memory, one request at a time."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from millpond.engine.api import RESOURCE_GROUP, AlterConfigs, AlterOp
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.share_acknowledge import (
    AcknowledgementBatch as AcknowledgedBatch,
)
from millpond.wire.kafka.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from millpond.wire.kafka.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from millpond.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.cluster.memory_broker import MemoryBroker, values_of

GROUP = "pool"

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


async def configure(broker: MemoryBroker, group: str = GROUP, **settings: str) -> None:
    """Set a group's settings, underscores for dots."""
    operations = [(key.replace("_", "."), AlterOp.SET, text) for key, text in settings.items()]
    command = AlterConfigs(resource_type=RESOURCE_GROUP, resource_name=group, operations=operations)
    (result,) = await broker.engine.settings_admin.alter_configs([command])
    assert result.error is None, result.error


class ShareReader:
    """One member with a connection and a share session."""

    def __init__(self, broker: MemoryBroker, name: str, topic_id: UUID, group: str = GROUP) -> None:
        self.client = broker.client()
        self.name = name
        self.group = group
        self.topic_id = topic_id
        self.epoch = 0
        self.member_epoch = 0

    async def heartbeat(self, topics: Sequence[str] | None = None, epoch: int | None = None) -> Any:
        answer = await self.client.ask(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            1,
            ShareGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.name,
                member_epoch=self.member_epoch if epoch is None else epoch,
                subscribed_topic_names=None if topics is None else list(topics),
            ),
        )
        if answer.error_code == ErrorCode.NONE:
            self.member_epoch = answer.member_epoch
        return answer

    async def join(self, *topics: str) -> dict[UUID, list[int]]:
        answer = await self.heartbeat(topics or ("t",), epoch=0)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        return {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}

    def request(
        self,
        *words: tuple[int, int, list[int]],
        partition: int = 0,
        wait_ms: int = 0,
        records_max: int = 500,
        bytes_max: int = 1 << 20,
        **fields: Any,
    ) -> ShareFetchRequest:
        batches = [AcknowledgementBatch(*word) for word in words]
        wanted = FetchPartition(partition_index=partition, acknowledgement_batches=batches)
        named = self.epoch == 0 or batches
        topics = [FetchTopic(topic_id=self.topic_id, partitions=[wanted])] if named else []
        fields.setdefault("share_session_epoch", self.epoch)
        fields.setdefault("topics", topics)
        return ShareFetchRequest(
            group_id=self.group,
            member_id=self.name,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            max_records=records_max,
            batch_size=records_max,
            **fields,
        )

    async def fetch(self, *words: tuple[int, int, list[int]], **fields: Any) -> Any:
        """The next request of the session; the answer as it came."""
        answer = await self.client.ask(ApiKey.SHARE_FETCH, 2, self.request(*words, **fields))
        if answer.error_code == ErrorCode.NONE:
            self.epoch += 1
        return answer

    async def take(
        self, *words: tuple[int, int, list[int]], **fields: Any
    ) -> list[tuple[int, int]]:
        """Fetch; the offsets that were handed out, each with its delivery count."""
        answer = await self.fetch(*words, **fields)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        return taken(answer)

    async def say(self, *words: tuple[int, int, list[int]], **fields: Any) -> ErrorCode:
        """Acknowledge without fetching; the code of the one partition."""
        batches = [AcknowledgedBatch(*word) for word in words]
        one = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=fields.pop("epoch", self.epoch),
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=[one])],
            **fields,
        )
        answer = await self.client.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, request)
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode(answer.error_code)
        self.epoch += 1
        return ErrorCode(answer.responses[0].partitions[0].error_code)


def taken(answer: Any) -> list[tuple[int, int]]:
    """Offsets and delivery counts of what an answer hands out."""
    return [
        (offset, run.delivery_count)
        for topic in answer.responses
        for partition in topic.partitions
        for run in partition.acquired_records
        for offset in range(run.first_offset, run.last_offset + 1)
    ]


def values(answer: Any) -> list[bytes | None]:
    """The values of all records in an answer, handed out or not."""
    return [
        value
        for topic in answer.responses
        for partition in topic.partitions
        for value in values_of(partition.records)
    ]
