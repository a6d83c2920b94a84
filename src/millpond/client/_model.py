"""Metadata of a cluster: brokers, topics, partitions. Plain values, made from metadata responses."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from millpond.client.errors import ClientError
from millpond.wire.kafka.messages.metadata import MetadataResponse, MetadataResponseTopic

DEFAULT_PORT = 9092


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingInfo:
    """Why the controller has fenced a broker, for how long, and how long ago it last heard of it.

    ``reason`` is ``silent``, ``process-ended``, ``disk``, ``stopped``, ``joining`` or ``unknown``. Times are
    -1 where they are not known.
    """

    reason: str
    fenced_ms: int = -1
    silent_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """One broker and its address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    # Registered, but the controller does not hear from it.
    is_fenced: bool = False
    # Why it is fenced, if the node that was asked is the active controller; Kafka's brokers do not tell.
    fencing: FencingInfo | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """One partition: its leader, replicas and in-sync replicas. No leader is -1."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """One topic and its partitions, by number."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """The brokers, and which of them is the controller."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerInfo, ...]


def parse_bootstrap(bootstrap: str | Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Parse addresses from ``host:port,host:port``; the port may be omitted, IPv6 is in brackets."""
    parts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    addresses = []
    for part in parts:
        text = part.strip()
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, str(DEFAULT_PORT)
        host = host.strip("[]")
        if not host or not port.isdecimal():
            raise ClientError(f"{text!r} is no address; write host:port")
        if not 0 < int(port) < 65536:
            raise ClientError(f"{text!r} is no address: ports are 1 to 65535")
        addresses.append((host, int(port)))
    return tuple(addresses)


def topic_info(topic: MetadataResponseTopic) -> TopicInfo:
    """Return one topic of a metadata response."""
    return TopicInfo(
        name=topic.name or "",
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionInfo(
                partition=item.partition_index,
                leader=item.leader_id,
                leader_epoch=item.leader_epoch,
                replicas=tuple(item.replica_nodes),
                in_sync=tuple(item.isr_nodes),
                offline=tuple(item.offline_replicas),
            )
            for item in sorted(topic.partitions, key=lambda item: item.partition_index)
        ),
    )


def cluster_info(answer: MetadataResponse) -> ClusterInfo:
    """Return the brokers of a metadata response."""
    return ClusterInfo(
        cluster_id=answer.cluster_id,
        controller_id=answer.controller_id,
        brokers=tuple(
            BrokerInfo(node_id=item.node_id, host=item.host, port=item.port, rack=item.rack)
            for item in sorted(answer.brokers, key=lambda item: item.node_id)
        ),
    )
