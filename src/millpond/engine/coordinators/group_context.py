"""What a group's decisions depend on: its settings, and the topics of the cluster."""

from typing import TYPE_CHECKING
from uuid import UUID

from millpond.group.kind import ReadSettings, SettingsT
from millpond.group.topics import TopicShape, TopicView

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine


def settings_reader(engine: "Engine") -> ReadSettings:
    """Return what reads the settings of a group as they are now."""

    def read(settings: type[SettingsT], group_id: str, /) -> SettingsT:
        return settings.read(
            engine.broker_setting, lambda name: engine.group_setting(group_id, name)
        )

    return read


def topic_view(engine: "Engine", created_version: int) -> TopicView:
    """Return the topics of the present metadata; ``created_version`` is when one was last added."""
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
