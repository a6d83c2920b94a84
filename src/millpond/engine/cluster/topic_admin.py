"""Creates, extends and deletes topics: decided here if this node is the controller, else asked for."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from millpond.base import limits
from millpond.base.errors import TopicExists, UnknownTopic
from millpond.engine.cluster.commands import ControllerCommands
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_settings import NodeSettings
from millpond.engine.peers import MakeTopics
from millpond.engine.runtime.runtime import Runtime
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

# Directories that are created before other tasks get their turn: a few milliseconds.
_PARTITIONS_A_TURN = 8


class TopicAdmin:
    """The topics of the cluster. ``open_new_partitions`` makes directories of new replicas, one a step."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        metadata: MetadataView,
        settings: NodeSettings,
        commands: ControllerCommands,
        open_new_partitions: Callable[[], Iterable[object]],
    ) -> None:
        self._runtime = runtime
        self._metadata = metadata
        self._settings = settings
        self._commands = commands
        self._missing_topics = _MissingTopics(self, metadata)
        self._open_new_partitions = open_new_partitions

    async def create_topics(
        self, commands: Sequence[CreateTopic], *, validate_only: bool = False
    ) -> Sequence[TopicResult]:
        """Create topics, or only validate the commands."""
        self._runtime.check_running()
        decision = decide_create_topics(
            self._metadata.quorum.head,
            commands,
            defaults=self._defaults(),
            new_id=self._runtime.rng.uuid4,
        )
        if not validate_only:
            await self._metadata.quorum.propose(decision.records)
            await self._open_partitions()
        return decision.results

    async def agree_on(self, decide: Callable[[Image], Sequence[MetadataRecord]]) -> None:
        """Have facts agreed on that are decided from the newest image; the partitions they make are open."""
        self._runtime.check_running()
        await self._metadata.quorum.propose(decide(self._metadata.quorum.head))
        await self._open_partitions()

    async def ensure_topic(self, name: str) -> TopicImage:
        """The topic of this name, made with the broker's defaults if there is none.

        Raises ``InvalidTopicName``, ``InvalidReplicationFactor``, ``StorageFailure``.
        """
        topic = self._metadata.image.topics.get(name)
        if topic is not None:
            return topic
        check_topic_name(name)
        return await self._commands.submit(self._missing_topics, self._automatic(name))

    async def delete_topics(
        self, targets: Sequence[tuple[str | None, UUID | None]]
    ) -> Sequence[TopicResult]:
        """Delete topics by name or by id, with all of their data."""
        self._runtime.check_running()
        decision = decide_delete_topics(self._metadata.quorum.head, targets)
        await self._metadata.quorum.propose(decision.records)
        return decision.results

    async def create_partitions(
        self, commands: Sequence[AddPartitions], *, validate_only: bool = False
    ) -> Sequence[TopicResult]:
        """Give topics more partitions."""
        self._runtime.check_running()
        decision = decide_create_partitions(self._metadata.quorum.head, commands)
        if not validate_only:
            await self._metadata.quorum.propose(decision.records)
            await self._open_partitions()
        return decision.results

    # --- inside ------------------------------------------------------------------------------------

    async def _open_partitions(self) -> None:
        for number, _ in enumerate(self._open_new_partitions(), start=1):
            if number % _PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)

    def _defaults(self) -> TopicDefaults:
        return TopicDefaults(
            partitions=self._settings.get("num.partitions"),
            replication_factor=self._settings.get("default.replication.factor"),
        )

    def _automatic(self, name: str) -> CreateTopic:
        """Return the command for a topic with the broker's defaults, or with those of an internal topic."""
        if name not in INTERNAL_TOPICS:
            return CreateTopic(name=name)
        prefix = {
            OFFSETS_TOPIC: "offsets.topic",
            TRANSACTIONS_TOPIC: "transaction.state.log",
            SHARE_STATE_TOPIC: "share.coordinator.state.topic",
            # Timers are kept as transactions are: as many partitions, as many replicas.
            TIMERS_TOPIC: "transaction.state.log",
        }[name]
        wanted = self._settings.get(f"{prefix}.replication.factor")
        # As many as the cluster was made for; one node is enough for one that stands alone.
        factor = min(
            wanted, max(len(self._metadata.image.brokers), len(self._metadata.quorum.voters), 1)
        )
        in_sync = {}
        if factor > 1 and name != OFFSETS_TOPIC:
            in_sync["min.insync.replicas"] = str(
                min(factor, self._settings.get(f"{prefix}.min.isr"))
            )
        return CreateTopic(
            name=name,
            partitions=self._settings.get(f"{prefix}.num.partitions"),
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
                "segment.bytes": str(self._settings.get(f"{prefix}.segment.bytes")),
            },
        )


class _MissingTopics:
    """Topics that a node needs, as a ``Domain`` of commands; one that another node makes first will do."""

    def __init__(self, admin: TopicAdmin, metadata: MetadataView) -> None:
        self._admin = admin
        self._metadata = metadata

    async def decide(self, command: CreateTopic) -> TopicImage:
        """Make the topic, unless it is being made."""
        if command.name not in self._metadata.quorum.head.topics:
            (result,) = await self._admin.create_topics([command])
            if result.error is not None:
                raise result.error
        else:
            await self._metadata.quorum.settled()
        topic = self._metadata.image.topics.get(command.name)
        if topic is None:
            raise UnknownTopic(f"topic {command.name} was deleted while it was being made")
        return topic

    def request(self, command: CreateTopic) -> MakeTopics:
        """Ask the controller for it."""
        return MakeTopics(commands=(command,))

    async def applied(self, command: CreateTopic, reply: Sequence[TopicResult]) -> TopicImage:
        """Wait until it is known here."""
        (result,) = reply
        if result.error is not None and not isinstance(result.error, TopicExists):
            raise result.error
        await self._metadata.until(
            lambda: command.name in self._metadata.image.topics,
            timeout_ms=limits.CONTROLLER_WAIT_MS_MAX,
        )
        topic = self._metadata.image.topics.get(command.name)
        if topic is None:
            raise UnknownTopic(
                f"topic {command.name} was made, but is not known here yet; ask again"
            )
        return topic
