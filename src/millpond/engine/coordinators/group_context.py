"""What a group's decisions depend on: its settings, and the topics of the cluster."""

from uuid import UUID

from millpond.engine.coordinators.services import CoordinatorServices
from millpond.group.kind import ReadSettings, SettingsT
from millpond.group.topics import TopicShape, TopicView


def settings_reader(services: CoordinatorServices) -> ReadSettings:
    """Return a function that reads the present settings of a group."""

    def read(settings: type[SettingsT], group_id: str, /) -> SettingsT:
        return settings.read(
            services.settings.get, lambda name: services.metadata.group_setting(group_id, name)
        )

    return read


def topic_view(services: CoordinatorServices, created_version: int) -> TopicView:
    """Return the topics of the present metadata; ``created_version`` is when one was last added."""
    image = services.metadata.image

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
        version=services.metadata.end_offset,
        created_version=created_version,
    )
