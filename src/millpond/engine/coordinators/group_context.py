"""What is around a group and not its own: its settings, and the topics that there are."""

from typing import TYPE_CHECKING
from uuid import UUID

from millpond.group.messages import ConsumerSettings, MigrationPolicy
from millpond.group.streams_messages import StreamsSettings
from millpond.group.topics import TopicShape, TopicView

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine


def consumer_settings(engine: "Engine", group_id: str) -> ConsumerSettings:
    """What holds for one consumer group now."""
    setting, of_group = engine.broker_setting, engine.group_setting
    return ConsumerSettings(
        session_timeout_ms=of_group(group_id, "consumer.session.timeout.ms"),
        heartbeat_interval_ms=of_group(group_id, "consumer.heartbeat.interval.ms"),
        assignment_interval_ms=of_group(group_id, "consumer.assignment.interval.ms"),
        regex_refresh_interval_ms=setting("group.consumer.regex.refresh.interval.ms"),
        members_max=setting("group.consumer.max.size"),
        assignors=tuple(setting("group.consumer.assignors")),
        migration=MigrationPolicy(setting("group.consumer.migration.policy").lower()),
    )


def streams_settings(engine: "Engine", group_id: str) -> StreamsSettings:
    """What holds for one streams group now."""
    of_group = engine.group_setting
    return StreamsSettings(
        session_timeout_ms=of_group(group_id, "streams.session.timeout.ms"),
        heartbeat_interval_ms=of_group(group_id, "streams.heartbeat.interval.ms"),
        assignment_interval_ms=of_group(group_id, "streams.assignment.interval.ms"),
        initial_rebalance_delay_ms=of_group(group_id, "streams.initial.rebalance.delay.ms"),
        standby_replicas=of_group(group_id, "streams.num.standby.replicas"),
        members_max=engine.broker_setting("group.streams.max.size"),
    )


def topic_view(engine: "Engine", created_version: int) -> TopicView:
    """The topics as the metadata tells of them now; ``created_version`` is when one was last added."""
    image = engine.image

    def find(name: str) -> TopicShape | None:
        topic = image.topics.get(name)
        return None if topic is None else TopicShape(topic.topic_id, len(topic.partitions))

    def name_of(topic_id: UUID) -> str | None:
        topic = image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    return TopicView(
        find=find,
        name_of=name_of,
        names=image.topics.keys(),
        version=engine.metadata_offset,
        created_version=created_version,
    )
