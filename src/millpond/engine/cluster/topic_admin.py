"""Topics are made, grown and removed: decided here where this node is the controller, asked for elsewhere."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from millpond.base import limits
from millpond.base.errors import TopicExists, UnknownTopic
from millpond.engine.peers import MakeTopics
from millpond.metadata.controller import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TIMERS_TOPIC,
    TRANSACTIONS_TOPIC,
    AddPartitions,
    CreateTopic,
    TopicDefaults,
    TopicResult,
    check_topic_name,
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
)
from millpond.metadata.image import Image, TopicImage
from millpond.metadata.records import MetadataRecord

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

# Directories made before others get their turn; a millisecond or a few.
_PARTITIONS_A_TURN = 8


class TopicAdmin:
    """The topics of the cluster, for whoever changes them."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    async def create_topics(
        self, commands: Sequence[CreateTopic], *, validate_only: bool = False
    ) -> Sequence[TopicResult]:
        """Make topics, or only say what would happen."""
        self._engine.check_running()
        decision = decide_create_topics(
            self._engine.quorum.head,
            commands,
            defaults=self._defaults(),
            new_id=self._engine.rng.uuid4,
        )
        if not validate_only:
            await self._engine.quorum.propose(decision.records)
            await self._open_new_partitions()
        return decision.results

    async def agree_on(self, decide: Callable[[Image], Sequence[MetadataRecord]]) -> None:
        """Have facts agreed on that are decided from the newest image; the partitions they make are open."""
        self._engine.check_running()
        await self._engine.quorum.propose(decide(self._engine.quorum.head))
        await self._open_new_partitions()

    async def ensure_topic(self, name: str) -> TopicImage:
        """The topic of this name, made with the broker's defaults if there is none.

        Raises ``InvalidTopicName``, ``InvalidReplicationFactor``, ``StorageFailure``.
        """
        topic = self._engine.image.topics.get(name)
        if topic is not None:
            return topic
        check_topic_name(name)
        if not self._engine.quorum.is_active:
            return await self._ask_for_topic(name)
        pending = self._engine.quorum.head.topics.get(name)
        if pending is None:
            (result,) = await self.create_topics([self._automatic(name)])
            if result.error is not None:
                raise result.error
        else:
            await self._engine.quorum.settled()
        topic = self._engine.image.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"topic {name} was deleted while it was being made")
        return topic

    async def _ask_for_topic(self, name: str) -> TopicImage:
        """Have the controller make a topic, and wait until it is known here."""
        (result,) = await self._engine.link.call(MakeTopics(commands=(self._automatic(name),)))
        if result.error is not None and not isinstance(result.error, TopicExists):
            raise result.error
        await self._engine.news.until(
            lambda: name in self._engine.image.topics, timeout_ms=limits.CONTROLLER_WAIT_MS_MAX
        )
        topic = self._engine.image.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"topic {name} was made, but is not known here yet; ask again")
        return topic

    async def delete_topics(
        self, targets: Sequence[tuple[str | None, UUID | None]]
    ) -> Sequence[TopicResult]:
        """Remove topics by name or by id, with all of their data."""
        self._engine.check_running()
        decision = decide_delete_topics(self._engine.quorum.head, targets)
        await self._engine.quorum.propose(decision.records)
        return decision.results

    async def create_partitions(
        self, commands: Sequence[AddPartitions], *, validate_only: bool = False
    ) -> Sequence[TopicResult]:
        """Give topics more partitions."""
        self._engine.check_running()
        decision = decide_create_partitions(self._engine.quorum.head, commands)
        if not validate_only:
            await self._engine.quorum.propose(decision.records)
            await self._open_new_partitions()
        return decision.results

    # --- inside ------------------------------------------------------------------------------------

    async def _open_new_partitions(self) -> None:
        for number, _ in enumerate(self._engine.topics.open_waiting(), start=1):
            if number % _PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)

    def _defaults(self) -> TopicDefaults:
        return TopicDefaults(
            partitions=self._engine.broker_setting("num.partitions"),
            replication_factor=self._engine.broker_setting("default.replication.factor"),
        )

    def _automatic(self, name: str) -> CreateTopic:
        """A topic nobody described: the broker's defaults, or what an internal topic needs."""
        if name not in INTERNAL_TOPICS:
            return CreateTopic(name=name)
        prefix = {
            OFFSETS_TOPIC: "offsets.topic",
            TRANSACTIONS_TOPIC: "transaction.state.log",
            SHARE_STATE_TOPIC: "share.coordinator.state.topic",
            # Timers are kept as transactions are: as many partitions, as many replicas.
            TIMERS_TOPIC: "transaction.state.log",
        }[name]
        wanted = self._engine.broker_setting(f"{prefix}.replication.factor")
        # As many as the cluster was made for; one node is enough for one that stands alone.
        factor = min(
            wanted, max(len(self._engine.image.brokers), len(self._engine.quorum.voters), 1)
        )
        in_sync = {}
        if factor > 1 and name != OFFSETS_TOPIC:
            in_sync["min.insync.replicas"] = str(
                min(factor, self._engine.broker_setting(f"{prefix}.min.isr"))
            )
        return CreateTopic(
            name=name,
            partitions=self._engine.broker_setting(f"{prefix}.num.partitions"),
            replication_factor=factor,
            configs={
                **in_sync,
                # Updates of share state share one key and add up: their log is cut, never compacted.
                **(
                    {"cleanup.policy": "delete", "retention.ms": "-1"}
                    if name == SHARE_STATE_TOPIC
                    else {"cleanup.policy": "compact"}
                ),
                "compression.type": "producer",
                "segment.bytes": str(self._engine.broker_setting(f"{prefix}.segment.bytes")),
            },
        )
