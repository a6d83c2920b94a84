"""Places in topics as people write them: earliest, latest, an offset, the last N, a time."""

from collections.abc import Mapping

import click

from millpond.cli.formats import TIME_MS_MIN, BadText, parse_time_ms
from millpond.client import (
    EARLIEST,
    LATEST,
    Admin,
    BrokerRefused,
    Cluster,
    Isolation,
    OffsetAt,
    TopicPartition,
)
from millpond.wire.kafka.api import ErrorCode


async def chosen_partitions(
    cluster: Cluster, topic: str, chosen: tuple[int, ...]
) -> list[TopicPartition]:
    """These partitions of a topic, or all of them. ``BrokerRefused`` if one is not there."""
    info = await cluster.topic(topic)
    known = [item.partition for item in info.partitions]
    for number in chosen:
        if number not in known:
            raise BrokerRefused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no partition {number}; the topic has {len(known)}",
                subject=topic,
            )
    return [TopicPartition(topic, number) for number in (chosen or known)]


async def resolve_range(
    cluster: Cluster,
    partitions: list[TopicPartition],
    where: str,
    isolation: Isolation,
    *,
    option: str = "--from",
) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
    """The offsets that ``where`` means, and those at which the partitions end."""
    admin = Admin(cluster)

    async def offsets(what: int) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        asked = dict.fromkeys(partitions, what)
        answers = await admin.list_offsets(asked, isolation_level=isolation)
        for partition, answer in answers.items():
            if not isinstance(answer, OffsetAt):
                raise answer
            found[partition] = answer.offset
        return found

    end = await offsets(LATEST)
    if where == "latest":
        return end, end
    earliest = await offsets(EARLIEST)
    if where == "earliest":
        return earliest, end
    if where.startswith("-") and where[1:].isdecimal():
        last = int(where[1:])
        return {at: max(earliest[at], end[at] - last) for at in partitions}, end
    if where.isdecimal() and int(where) < TIME_MS_MIN:
        asked_offset = int(where)
        # One number for all partitions: each begins as near to it as it can.
        return {at: min(max(asked_offset, earliest[at]), end[at]) for at in partitions}, end
    try:
        by_time = await offsets(parse_time_ms(where))
    except BadText:
        raise click.BadParameter(
            f"{where!r} is neither earliest, latest, an offset, -N nor a time", param_hint=option
        ) from None
    return {at: by_time[at] if by_time[at] >= 0 else end[at] for at in partitions}, end
