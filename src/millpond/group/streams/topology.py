"""What a Kafka Streams application is made of (KIP-1071), and which topics and tasks that means.

An application is subtopologies: each reads source topics and repartition topics, keeps state in changelog
topics and writes to repartition topics of others. A *task* is one partition number of one subtopology.
``configure`` holds this against the topics that there are: how many tasks there will be, which internal
topics are missing and how they must look, or what is wrong. Pure; the messages to people are Kafka's.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from millpond.base.errors import GroupError, InvalidTopology
from millpond.group.topics import TopicView

# As many names as a message to people has room for.
_NAMES_SHOWN = 3


class StreamsStatus(IntEnum):
    """What members are told of the group besides their tasks; the numbers are the protocol's."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """A topic that belongs to the application; 0 partitions or replicas: not said."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopartitionGroup:
    """Topics that must have as many partitions as each other: places in the lists of the subtopology."""

    sources: tuple[int, ...] = ()
    source_patterns: tuple[int, ...] = ()
    repartition_sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """A part of an application whose tasks are independent of all others."""

    subtopology_id: str
    sources: tuple[str, ...] = ()
    source_patterns: tuple[str, ...] = ()
    changelogs: tuple[InternalTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    repartition_sources: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """All topics that tasks read from."""
        return *self.sources, *(topic.name for topic in self.repartition_sources)

    def copartitioned(self) -> list[set[str]]:
        """The names of topics that must have as many partitions as each other."""
        internal = [topic.name for topic in self.repartition_sources]
        return [
            {self._at(self.sources, place) for place in group.sources}
            | {self._at(internal, place) for place in group.repartition_sources}
            for group in self.copartition_groups
        ]

    def _at(self, names: Sequence[str], place: int) -> str:
        if not 0 <= place < len(names):
            raise GroupError(
                f"subtopology {self.subtopology_id} has copartitioned topics that it does not read"
            )
        return names[place]


@dataclass(frozen=True, slots=True)
class Topology:
    """An application, as its members describe it. Raises ``GroupError`` for what cannot be one."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    @classmethod
    def of(cls, epoch: int, subtopologies: Iterable[Subtopology]) -> "Topology":
        parts = tuple(subtopologies)
        named = {part.subtopology_id: part for part in parts}
        if epoch < 0:
            raise GroupError("a topology's epoch is not negative")
        if len(named) != len(parts):
            raise GroupError("two subtopologies have the same id")
        return cls(epoch, named)

    @property
    def required_topics(self) -> set[str]:
        """The topics without which there are no tasks."""
        names: set[str] = set()
        for part in self.subtopologies.values():
            names.update(part.inputs, (topic.name for topic in part.changelogs))
        return names

    def reader_of(self, topic: str) -> str | None:
        """The subtopology that reads a topic."""
        found = None
        for part in self.subtopologies.values():
            if topic in part.inputs:
                found = part.subtopology_id
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredSubtopology:
    """A subtopology whose topics are known: how many tasks it has, and how its internal topics look."""

    tasks: int
    sources: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)

    @property
    def inputs(self) -> set[str]:
        return {*self.sources, *(topic.name for topic in self.repartition_sources)}


class TopicsWrong(Exception):
    """The topics are not as the application needs them. A status: the group waits until they are."""

    def __init__(self, status: StreamsStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTopology:
    """An application configured for the topics of the cluster."""

    # In order of their ids; None if the topics are wrong.
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: tuple[InternalTopic, ...] = field(default=())
    problem: tuple[StreamsStatus, str] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can run."""
        return self.problem is None


def configure(topology: Topology, topics: TopicView) -> ConfiguredTopology:
    """Configure an application for these topics. Raises ``InvalidTopology``, ``GroupError``."""
    counts = _Counts(topics)
    try:
        _check_sources(topology, topics)
        _decide_counts(topology, counts)
        parts = {
            name: _configured(topology.subtopologies[name], counts)
            for name in sorted(topology.subtopologies)
        }
        missing = _missing(parts.values(), topics)
    except TopicsWrong as wrong:
        return ConfiguredTopology(subtopologies=None, problem=(wrong.status, wrong.detail))
    problem = None
    if missing:
        names = _some(topic.name for topic in missing)
        detail = f"Internal topics are missing: {names}"
        problem = StreamsStatus.MISSING_INTERNAL_TOPICS, detail
    return ConfiguredTopology(subtopologies=parts, missing=missing, problem=problem)


class _Counts:
    """How many partitions topics have: those that exist, and those that will."""

    def __init__(self, topics: TopicView) -> None:
        self._topics = topics
        self.decided: dict[str, int] = {}

    def find(self, topic: str) -> int | None:
        shape = self._topics.find(topic)
        return self.decided.get(topic) if shape is None else shape.partitions

    def get(self, topic: str) -> int:
        count = self.find(topic)
        if count is None:
            raise GroupError(f"the number of partitions of topic {topic} is not known")
        return count


def _check_sources(topology: Topology, topics: TopicView) -> None:
    missing = {
        topic
        for part in topology.subtopologies.values()
        for topic in part.sources
        if topics.find(topic) is None
    }
    if missing:
        detail = f"Source topics {_some(sorted(missing))} are missing."
        raise TopicsWrong(StreamsStatus.MISSING_SOURCE_TOPICS, detail)


def _decide_counts(topology: Topology, counts: _Counts) -> None:
    parts = topology.subtopologies.values()
    counts.decided.update(_repartition_counts(parts, counts.find))
    said = [topic for part in parts for topic in part.repartition_sources]
    fixed = {topic.name for topic in said if topic.partitions}
    internal = {topic.name for topic in said}
    for part in parts:
        for together in part.copartitioned():
            if together:
                counts.decided.update(_copartition(together, fixed, internal, counts))
    changelogs: dict[str, int] = {}
    for part in parts:
        if not part.inputs:
            raise InvalidTopology(f"No source topics found for subtopology {part.subtopology_id}")
        most = max(counts.get(topic) for topic in part.inputs)
        changelogs.update((topic.name, most) for topic in part.changelogs)
    counts.decided.update(changelogs)


def _repartition_counts(
    parts: Iterable[Subtopology], existing: Callable[[str], int | None]
) -> dict[str, int]:
    """Return the partition counts of repartition topics: as given, or those of the topics that feed them."""
    counts = {
        topic.name: topic.partitions
        for part in parts
        for topic in part.repartition_sources
        if topic.partitions
    }
    open_parts = True
    while open_parts:
        open_parts = progress = False
        for part in parts:
            known = [counts.get(topic.name) for topic in part.repartition_sources]
            known += map(existing, part.sources)
            most = max((count for count in known if count is not None), default=None)
            for sink in part.repartition_sinks:
                if sink in counts:
                    continue
                if most is None:
                    open_parts = True
                else:
                    counts[sink] = most
                    progress = True
        if open_parts and not progress:
            raise InvalidTopology(
                "Failed to compute number of partitions for all repartition topics. There may be "
                "loops in the topology that cannot be resolved."
            )
    if any(topic.name not in counts for part in parts for topic in part.repartition_sources):
        raise InvalidTopology(
            "Failed to compute number of partitions for all repartition topics, because a "
            "repartition source topic is never used as a sink topic."
        )
    return counts


def _copartition(
    together: set[str], fixed: set[str], internal: set[str], counts: _Counts
) -> dict[str, int]:
    """Partitions of the repartition topics among topics that must have as many as each other."""
    ours = {topic: counts.get(topic) for topic in sorted(together & internal)}
    others = {topic: counts.get(topic) for topic in sorted(together - internal)}
    if others:
        wanted = _same(others)
    elif fixed:
        wanted = _same({topic: counts.get(topic) for topic in sorted(fixed)})
    else:
        wanted = max(ours.values())
    for topic, count in ours.items():
        if topic in fixed and count != wanted:
            raise TopicsWrong(
                StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{count}] of repartition topic [{topic}] doesn't match "
                f"number of partitions [{wanted}] of the source topic.",
            )
    return dict.fromkeys(ours, wanted)


def _same(counts: Mapping[str, int]) -> int:
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{topic}={count}" for topic, count in counts.items())
        raise TopicsWrong(
            StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{told}}}]",
        )
    return next(iter(counts.values()))


def _configured(part: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        tasks=max(counts.get(topic) for topic in part.inputs),
        sources=part.sources,
        repartition_sources=tuple(_decided(topic, counts) for topic in part.repartition_sources),
        repartition_sinks=part.repartition_sinks,
        changelogs=tuple(_decided(topic, counts) for topic in part.changelogs),
    )


def _decided(topic: InternalTopic, counts: _Counts) -> InternalTopic:
    return InternalTopic(
        name=topic.name,
        partitions=topic.partitions or counts.decided[topic.name],
        replication_factor=topic.replication_factor,
        configs=topic.configs,
    )


def _missing(
    parts: Iterable[ConfiguredSubtopology], topics: TopicView
) -> tuple[InternalTopic, ...]:
    """Return the internal topics that must be created. Raises ``TopicsWrong`` if one exists and differs."""
    needed = {
        topic.name: topic
        for part in parts
        for topic in (*part.repartition_sources, *part.changelogs)
    }
    for name in sorted(needed):
        shape = topics.find(name)
        if shape is None:
            continue
        expected = needed.pop(name).partitions
        if shape.partitions != expected:
            raise TopicsWrong(
                StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected}, "
                f"found {shape.partitions}",
            )
    return tuple(needed[name] for name in sorted(needed))


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(listed[:_NAMES_SHOWN])
    more = len(listed) - _NAMES_SHOWN
    return f"{shown} and {more} additional topics" if more > 0 else shown
