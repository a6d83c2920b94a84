"""Creates the internal topics of Kafka Streams applications: repartition topics and changelogs.

The answer to each heartbeat of a streams group says which are missing. Each is created once; a failure is
kept for a while, so that members are told and the same failure is not repeated with every heartbeat.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from millpond.base.errors import MillpondError, ShuttingDown
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.group.streams.messages import StreamsHeartbeatAnswer
from millpond.group.streams.topology import InternalTopic, StreamsStatus
from millpond.metadata.controller import CreateTopic

log = logging.getLogger(__name__)

# Failures that one status text of a member names.
_SHOWN = 3


class InternalTopics:
    """Internal topics that are being created, and those that could not be."""

    def __init__(self, services: CoordinatorServices) -> None:
        self._services = services
        self._under_way: set[str] = set()
        # Name → the failure, and until when members are told of it.
        self._failures: dict[str, tuple[str, int]] = {}

    def see_to(self, answer: StreamsHeartbeatAnswer) -> StreamsHeartbeatAnswer:
        """Begin to create the topics that an answer names as missing.

        Return the answer with earlier failures.
        """
        now_ms = self._services.runtime.clock.monotonic_ms()
        self._failures = {
            name: failure for name, failure in self._failures.items() if failure[1] > now_ms
        }
        known = self._failures.keys() | self._under_way
        wanted = [topic for topic in answer.missing_topics if topic.name not in known]
        if wanted:
            kept_ms = 2 * answer.heartbeat_interval_ms
            self._under_way.update(topic.name for topic in wanted)
            try:
                self._services.runtime.tasks.spawn(
                    self._make(wanted, kept_ms), name="internal topics"
                )
            except ShuttingDown:
                self._under_way.difference_update(topic.name for topic in wanted)
        return self._with_failures(answer)

    async def _make(self, topics: Sequence[InternalTopic], kept_ms: int) -> None:
        names = [topic.name for topic in topics]
        errors: dict[str, MillpondError | None]
        try:
            results = await self._services.topic_admin.create_topics(
                [_command(topic) for topic in topics]
            )
            errors = {name: result.error for name, result in zip(names, results, strict=True)}
        except MillpondError as error:
            errors = dict.fromkeys(names, error)
        finally:
            self._under_way.difference_update(names)
        until_ms = self._services.runtime.clock.monotonic_ms() + kept_ms
        for name, failure in errors.items():
            if failure is None:
                log.info("topic=%s: created for a streams group", name)
            else:
                log.warning("topic=%s: not created for a streams group: %s", name, failure)
                self._failures[name] = str(failure), until_ms

    def _with_failures(self, answer: StreamsHeartbeatAnswer) -> StreamsHeartbeatAnswer:
        failed = [
            f"{topic.name} ({self._failures[topic.name][0]})"
            for topic in answer.missing_topics
            if topic.name in self._failures
        ]
        if not failed:
            return answer
        told = ", ".join(failed[:_SHOWN])
        if len(failed) > _SHOWN:
            told += f" and {len(failed) - _SHOWN} more"
        statuses = tuple(
            (status, f"{detail}; Creation failed: {told}.")
            if status is StreamsStatus.MISSING_INTERNAL_TOPICS
            else (status, detail)
            for status, detail in answer.statuses
        )
        return replace(answer, statuses=statuses)


def _command(topic: InternalTopic) -> CreateTopic:
    return CreateTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        configs=dict(topic.configs),
    )
