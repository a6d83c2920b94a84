"""Groups of a cluster: list, describe and delete them, read and set their offsets.

Every request goes to the group's coordinator, which is found again when it has moved. Works with any broker
that speaks Kafka's protocol: requests are filled for all versions, and topic ids of newer versions are mapped
to names.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from millpond.base.errors import RemoteProtocolError
from millpond.base.ids import TopicPartition
from millpond.client._attempts import Attempts
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused, ConnectionLost
from millpond.wire.kafka.api import ApiKey, ErrorCode

# Another broker, or the same one a little later, will know.
_LOOK_AGAIN = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_NO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in a list. State and type are empty if the broker is too old to return them."""

    group_id: str
    protocol_type: str
    state: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member, and its partitions if they can be decoded."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """A group and its members. A group that does not exist is ``Dead``."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: tuple[GroupMember, ...]


class Groups:
    """The group requests of a ``Cluster``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators: dict[str, int] = {}

    async def list(
        self, states: Sequence[str] = (), *, timeout_s: float | None = None
    ) -> list[GroupSummary]:
        """Return the groups of all brokers, by name; only those in one of these states if any are given."""
        from millpond.wire.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse

        attempts = self._cluster.attempts("listing groups", timeout_s)
        found: dict[str, GroupSummary] = {}
        for broker in (await self._cluster.info()).brokers:
            answer: ListGroupsResponse = await self._ask(
                _known(broker.node_id),
                ApiKey.LIST_GROUPS,
                ListGroupsRequest(states_filter=[*states]),
                error_of=lambda answer: answer.error_code,
                attempts=attempts,
            )
            for item in answer.groups:
                found[item.group_id] = GroupSummary(
                    group_id=item.group_id,
                    protocol_type=item.protocol_type,
                    state=item.group_state,
                    kind=item.group_type,
                )
        return [found[name] for name in sorted(found)]

    async def describe(self, group_id: str, *, timeout_s: float | None = None) -> GroupInfo:
        """Return one group with its members."""
        from millpond.wire.kafka.messages.describe_groups import (
            DescribeGroupsRequest,
            DescribeGroupsResponse,
        )

        answer: DescribeGroupsResponse = await self._ask_coordinator(
            group_id,
            ApiKey.DESCRIBE_GROUPS,
            DescribeGroupsRequest([group_id]),
            error_of=lambda answer: answer.groups[0].error_code,
            what=f"describing group {group_id}",
            timeout_s=timeout_s,
            accept={ErrorCode.GROUP_ID_NOT_FOUND},
        )
        (group,) = answer.groups
        return GroupInfo(
            group_id=group_id,
            state=group.group_state,
            protocol_type=group.protocol_type,
            protocol=group.protocol_data,
            coordinator=self._coordinators.get(group_id, -1),
            members=tuple(
                GroupMember(
                    member_id=member.member_id,
                    instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    host=member.client_host.lstrip("/"),
                    partitions=_assigned(bytes(member.member_assignment)),
                )
                for member in group.members
            ),
        )

    async def delete(self, group_id: str, *, timeout_s: float | None = None) -> None:
        """Delete a group without members, and its offsets. Raises ``BrokerRefused`` if it has members."""
        from millpond.wire.kafka.messages.delete_groups import DeleteGroupsRequest

        await self._ask_coordinator(
            group_id,
            ApiKey.DELETE_GROUPS,
            DeleteGroupsRequest([group_id]),
            error_of=lambda answer: answer.results[0].error_code,
            what=f"deleting group {group_id}",
            timeout_s=timeout_s,
        )

    async def offsets(
        self, group_id: str, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return all committed offsets of the group."""
        from millpond.wire.kafka.messages.offset_fetch import (
            OffsetFetchRequest,
            OffsetFetchRequestGroup,
            OffsetFetchResponse,
        )

        request = OffsetFetchRequest(
            group_id=group_id,
            topics=None,  # versions 2 to 7
            groups=[OffsetFetchRequestGroup(group_id, topics=None)],  # from version 8
        )
        answer: OffsetFetchResponse = await self._ask_coordinator(
            group_id,
            ApiKey.OFFSET_FETCH,
            request,
            error_of=lambda answer: (
                answer.groups[0].error_code or answer.error_code
                if answer.groups
                else answer.error_code
            ),
            what=f"asking for the offsets of group {group_id}",
            timeout_s=timeout_s,
        )
        topics: Sequence[Any] = answer.groups[0].topics if answer.groups else answer.topics
        names = await self._names([topic for topic in topics if not topic.name])
        return {
            TopicPartition(topic.name or names[topic.topic_id], item.partition_index): (
                item.committed_offset
            )
            for topic in topics
            if topic.name or topic.topic_id in names
            for item in topic.partitions
            if item.committed_offset >= 0
        }

    async def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Set offsets of a group without members. Raises ``BrokerRefused`` if it has some, or a topic is
        gone.
        """
        from millpond.wire.kafka.messages.offset_commit import (
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
        )

        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for place, offset in offsets.items():
            by_topic.setdefault(place.topic, []).append(
                OffsetCommitRequestPartition(place.partition, offset, -1, "")
            )
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                topic_id=(await self._cluster.topic(name)).topic_id,
                partitions=partitions,
            )
            for name, partitions in by_topic.items()
        ]
        await self._ask_coordinator(
            group_id,
            ApiKey.OFFSET_COMMIT,
            OffsetCommitRequest(group_id=group_id, topics=topics),
            error_of=lambda answer: next(
                (
                    item.error_code
                    for topic in answer.topics
                    for item in topic.partitions
                    if item.error_code
                ),
                0,
            ),
            what=f"setting the offsets of group {group_id}",
            timeout_s=timeout_s,
        )

    async def delete_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Delete some offsets. Raises ``BrokerRefused`` if a member reads the topic."""
        from millpond.wire.kafka.messages.offset_delete import (
            OffsetDeleteRequest,
            OffsetDeleteRequestPartition,
            OffsetDeleteRequestTopic,
        )

        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(number))
        await self._ask_coordinator(
            group_id,
            ApiKey.OFFSET_DELETE,
            OffsetDeleteRequest(
                group_id,
                [OffsetDeleteRequestTopic(name, items) for name, items in topics.items()],
            ),
            error_of=lambda answer: (
                answer.error_code
                or next(
                    (
                        item.error_code
                        for topic in answer.topics
                        for item in topic.partitions
                        if item.error_code
                    ),
                    0,
                )
            ),
            what=f"deleting offsets of group {group_id}",
            timeout_s=timeout_s,
        )

    # --- finding the coordinator ---

    async def _ask_coordinator(
        self,
        group_id: str,
        api_key: ApiKey,
        message: object,
        *,
        error_of: Callable[[Any], int],
        what: str,
        timeout_s: float | None,
        accept: Collection[ErrorCode] = (),
    ) -> Any:
        attempts = self._cluster.attempts(what, timeout_s)

        async def find() -> int:
            known = self._coordinators.get(group_id)
            if known is None or attempts.count:
                known = await self._find(group_id, attempts)
                self._coordinators[group_id] = known
            return known

        return await self._ask(
            find,
            api_key,
            message,
            error_of=error_of,
            attempts=attempts,
            subject=group_id,
            accept=accept,
        )

    async def _ask(
        self,
        find: Callable[[], Awaitable[int]],
        api_key: ApiKey,
        message: object,
        *,
        error_of: Callable[[Any], int],
        attempts: Attempts,
        subject: str = "",
        accept: Collection[ErrorCode] = (),
    ) -> Any:
        while True:
            try:
                connection = await self._cluster.connection_to(await find())
                answer = await attempts.request(connection, api_key, message)
            except ConnectionLost as error:
                await attempts.after(error)
                continue
            code = error_of(answer)
            if not code or code in accept:
                return answer
            if code not in _LOOK_AGAIN:
                raise _refused(code, subject)
            await attempts.after(_refused(code, subject))

    async def _find(self, group_id: str, attempts: Attempts) -> int:
        from millpond.wire.kafka.messages.find_coordinator import (
            FindCoordinatorRequest,
            FindCoordinatorResponse,
        )

        request = FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id])
        while True:
            answer: FindCoordinatorResponse = await self._cluster.ask_any(
                ApiKey.FIND_COORDINATOR, request, attempts=attempts
            )
            found: Any = answer.coordinators[0] if answer.coordinators else answer
            if not found.error_code:
                return int(found.node_id)
            # The first lookup makes Kafka create its offsets topic; it returns an error until that is done.
            await attempts.after(_refused(found.error_code, group_id))

    async def _names(self, topics: Sequence[Any]) -> dict[UUID, str]:
        if not topics:
            return {}
        wanted = {topic.topic_id for topic in topics}
        return {
            topic.topic_id: topic.name
            for topic in await self._cluster.topics()
            if topic.topic_id in wanted and topic.topic_id != _NO_ID
        }


# Texts for errors about a group as a whole.
_MEANINGS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NON_EMPTY_GROUP: "the group has members; stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members; stop them first",
    ErrorCode.INVALID_GROUP_ID: "a group may not have this name",
}


def _refused(code: int, subject: str) -> BrokerRefused:
    meaning = _MEANINGS.get(ErrorCode(code)) if code in set(ErrorCode) else None
    return BrokerRefused(code, meaning, subject=subject)


def _known(node_id: int) -> Callable[[], Awaitable[int]]:
    async def find() -> int:
        return node_id

    return find


def _assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions in a consumer's assignment; none if it is of another protocol."""
    from millpond.wire.kafka.messages.consumer_protocol_assignment import (
        decode_consumer_protocol_assignment,
    )

    if len(assignment) < 2:
        return ()
    try:
        # Later versions only append fields to the first.
        decoded = decode_consumer_protocol_assignment(memoryview(assignment)[2:], 0)
    except RemoteProtocolError:
        return ()
    return tuple(
        TopicPartition(topic.topic, number)
        for topic in decoded.assigned_partitions
        for number in topic.partitions
    )
