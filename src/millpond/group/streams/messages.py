"""Commands of streams groups (KIP-1071), their answers, and the settings of one group."""

from dataclasses import dataclass
from typing import Self

from millpond.group.messages import Command, KindSettings, Setting
from millpond.group.streams.records import Tasks, TaskSet
from millpond.group.streams.topology import InternalTopic, StreamsStatus, Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSettings(KindSettings):
    """The settings of one streams group; Kafka's names are in the comments, so are its defaults."""

    session_timeout_ms: int = 45_000  # group.streams.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # group.streams.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # group.streams.assignment.interval.ms
    initial_rebalance_delay_ms: int = 3_000  # group.streams.initial.rebalance.delay.ms
    standby_replicas: int = 0  # group.streams.num.standby.replicas
    members_max: int = 2**31 - 1  # group.streams.max.size

    @classmethod
    def read(cls, broker: Setting, group: Setting) -> Self:
        return cls(
            session_timeout_ms=group("streams.session.timeout.ms"),
            heartbeat_interval_ms=group("streams.heartbeat.interval.ms"),
            assignment_interval_ms=group("streams.assignment.interval.ms"),
            initial_rebalance_delay_ms=group("streams.initial.rebalance.delay.ms"),
            standby_replicas=group("streams.num.standby.replicas"),
            members_max=broker("group.streams.max.size"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPartitions:
    """The address of an instance of the application, and the partitions of source topics it serves."""

    host: str
    port: int
    active: tuple[tuple[str, tuple[int, ...]], ...] = ()
    standby: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsHeartbeatAnswer:
    """The member's epoch, and its tasks if they have changed."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    statuses: tuple[tuple[StreamsStatus, str], ...] = ()
    tasks: TaskSet | None = None
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    # The host shall create these.
    missing_topics: tuple[InternalTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsHeartbeat(Command[StreamsHeartbeatAnswer]):
    """A member joins (epoch 0), is alive, or leaves (-1).

    A field that is None has not changed. Raises the error that the member is told instead of an answer.
    """

    group_id: str
    member_id: str
    epoch: int
    # The epoch of the endpoints that the member knows.
    endpoint_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topology: Topology | None = None
    active: Tasks | None = None
    standby: Tasks | None = None
    warmup: Tasks | None = None
    process_id: str | None = None
    endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    shutdown: bool = False
    client_id: str = ""
    client_host: str = ""

    @property
    def owned(self) -> TaskSet | None:
        """The tasks that the member says it has; None unless it names all types of them."""
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return TaskSet(self.active, self.standby, self.warmup)
