"""Administers share groups: describes members and offsets, sets and deletes offsets, deletes groups.

The group's coordinator answers. The leaders of the state topic's partitions keep the states of share
partitions, and the leaders of the group's partitions know how much there is to read; any of them may be other
nodes, which are asked. A leader that hands out records of a group notices that the share partition was begun
again, or deleted, with its next write.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from millpond.base.errors import (
    CoordinatorNotAvailable,
    GroupNotFound,
    MillpondError,
    UnknownTopic,
)
from millpond.base.ids import NodeId, Offset, TopicPartition
from millpond.engine.partitions.read import EARLIEST, LATEST
from millpond.engine.peers import (
    DeleteShareState,
    InitializeShareState,
    ListShareState,
    ShareStateRead,
    SummarizeShareState,
)
from millpond.engine.share.services import ShareServices
from millpond.engine.share.share_coordinator import ShareCoordinator
from millpond.engine.share.share_remote import PASSING, RemoteShares
from millpond.group.share.group import ASSIGNOR, ShareGroup, ShareMember, ShareState
from millpond.group.share.records import ShareKey
from millpond.metadata.image import TopicImage

_ASK_TIMEOUT_MS = 5_000
# How often keepers that may have moved or be loading are asked again, and after which time first.
_ATTEMPTS = 6
_BACKOFF_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffset:
    """How far a group is in a partition; -1 where it has not begun or where that is unknown."""

    topic: str
    topic_id: UUID
    partition: int
    start: Offset = -1
    leader_epoch: int = -1
    lag: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescription:
    """A share group and its members."""

    group_id: str
    state: ShareState
    epoch: int
    assignor: str
    members: tuple[ShareMember, ...]


class ShareAdmin:
    """The share groups that this node coordinates, as administrators see them."""

    def __init__(
        self,
        services: ShareServices,
        keeper: ShareCoordinator,
        remote: RemoteShares,
        groups: dict[str, ShareGroup],
    ) -> None:
        """``groups`` are those that have, or had, members since this node coordinates them."""
        self._services = services
        self._keeper = keeper
        self._remote = remote
        self._groups = groups

    # --- groups ------------------------------------------------------------------------------------

    async def describe(self, group_id: str) -> ShareGroupDescription:
        """Describe a group. Raises ``GroupNotFound``."""
        group, _kept = await self._existing(group_id, only_if_unknown=True)
        return ShareGroupDescription(
            group_id=group_id,
            state=group.state,
            epoch=group.epoch,
            assignor=ASSIGNOR,
            members=tuple(group.members.values()),
        )

    async def delete(self, group_id: str) -> None:
        """Remove an empty group. Raises ``GroupNotFound``, ``GroupNotEmpty`` or why it failed."""
        group, kept = await self._existing(group_id)
        group.check_empty()
        await self._forget(kept)
        if self._groups.get(group_id) is group:
            group.check_empty()
            del self._groups[group_id]

    # --- positions ---------------------------------------------------------------------------------

    async def offsets(
        self, group_id: str, wanted: Mapping[str, Sequence[int]] | None
    ) -> Sequence[ShareOffset]:
        """Return how far a group is in these partitions, or in all. Raises ``GroupNotFound``."""
        _group, kept = await self._existing(group_id)
        topics = self._services.metadata.image.topics_by_id
        if wanted is None:
            places = [
                (topics[key.topic_id].name, key.partition) for key in kept if key.topic_id in topics
            ]
        else:
            places = [(name, index) for name, indexes in wanted.items() for index in indexes]
        return [await self._offset(group_id, name, index, kept) for name, index in places]

    async def set_offset(self, group_id: str, topic: str, index: int, start: Offset) -> None:
        """Have an empty group begin at an offset. Raises ``GroupNotEmpty``, ``UnknownTopic``."""
        self._services.groups.check_coordinates(group_id)
        if group_id in self._groups:
            self._groups[group_id].check_empty()
        key = ShareKey(group_id, self._topic(topic, index).topic_id, index)
        calls = self._services.partition_calls
        place = TopicPartition(topic, index)
        low, high = await calls.find(place, EARLIEST), await calls.find(place, LATEST)
        known = await self._remote.ask(key, SummarizeShareState(key=key))
        begun = InitializeShareState(
            key=key, state_epoch=known.state_epoch + 1, start=min(max(start, low), high)
        )
        await self._remote.ask(key, begun)

    async def forget_topic(self, group_id: str, topic: str) -> None:
        """Delete the positions of an empty group in a topic.

        Raises ``GroupNotFound``, ``GroupNotEmpty``, ``UnknownTopic``.
        """
        group, kept = await self._existing(group_id)
        group.check_empty()
        found = self._services.metadata.image.topics.get(topic)
        if found is None:
            raise UnknownTopic(f"there is no topic {topic}")
        gone = [key for key in kept if key.topic_id == found.topic_id]
        if not gone:
            raise UnknownTopic(f"group {group_id!r} does not read {topic}")
        await self._forget(gone)
        # The group stays, without positions.
        self._groups.setdefault(group_id, group)

    # --- asking other nodes ------------------------------------------------------------------------

    async def _existing(
        self, group_id: str, *, only_if_unknown: bool = False
    ) -> tuple[ShareGroup, Mapping[ShareKey, ShareStateRead]]:
        """Return a group and its states, which are not asked for if a known group is enough."""
        if self._services.groups.is_ready:
            self._services.groups.check_coordinates(group_id)
        group = self._groups.get(group_id)
        if group is not None and only_if_unknown:
            return group, {}
        kept = await self._kept(group_id)
        group = self._groups.get(group_id)
        if group is None and not kept:
            raise GroupNotFound(f"there is no share group {group_id!r}")
        return group or ShareGroup(group_id), kept

    async def _kept(self, group_id: str) -> Mapping[ShareKey, ShareStateRead]:
        """Return the states of a group at all keepers. Raises why one of them could not be asked."""
        backoff_ms = _BACKOFF_MS
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms *= 2
            keepers = self._keeper.leaders()
            found: dict[ShareKey, ShareStateRead] = {}
            try:
                for node in dict.fromkeys(keepers):
                    found.update(await self._ask(node, ListShareState(group_id=group_id)))
            except PASSING as error:
                last: MillpondError = error
                continue
            if keepers == self._keeper.leaders():
                return found
            last = CoordinatorNotAvailable(f"the keepers of group {group_id!r} are changing")
        raise last

    async def _ask(
        self, node: NodeId, request: ListShareState
    ) -> Mapping[ShareKey, ShareStateRead]:
        peers = self._services.peers
        if node == self._services.info.node_id:
            return await self._services.peer_handlers.answer(request)
        if node < 0 or peers is None:
            raise CoordinatorNotAvailable("no node keeps a part of the state of share groups now")
        return await peers.call(node, request, timeout_ms=_ASK_TIMEOUT_MS)

    async def _forget(self, gone: "Sequence[ShareKey] | Mapping[ShareKey, ShareStateRead]") -> None:
        for key in tuple(gone):
            await self._remote.ask(key, DeleteShareState(key=key))

    async def _offset(
        self, group_id: str, name: str, index: int, kept: Mapping[ShareKey, ShareStateRead]
    ) -> ShareOffset:
        topic = self._topic(name, index)
        unknown = ShareOffset(topic=name, topic_id=topic.topic_id, partition=index)
        found = kept.get(ShareKey(group_id, topic.topic_id, index))
        if found is None:
            return unknown
        known = replace(
            unknown, start=found.start, leader_epoch=topic.partitions[index].leader_epoch
        )
        try:
            end = await self._services.partition_calls.find(TopicPartition(name, index), LATEST)
        except MillpondError:
            return known  # without its lag, which only the partition's leader knows
        return replace(known, lag=max(end - found.start - max(found.finished, 0), 0))

    def _topic(self, name: str, index: int) -> TopicImage:
        topic = self._services.metadata.image.topics.get(name)
        if topic is None or index not in range(len(topic.partitions)):
            raise UnknownTopic(f"there is no partition {name}-{index}")
        return topic
