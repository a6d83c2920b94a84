"""Elections and in-sync replicas when nodes start and stop, or when a change is requested.

Each function returns records for the image it is given. How one partition is decided is in
``partition_change.py``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from millpond.base.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    MillpondError,
    NewLeaderElected,
    NotController,
    PreferredLeaderNotAvailable,
    UnknownTopic,
    UnknownTopicId,
)
from millpond.base.ids import LeaderEpoch, NodeId
from millpond.metadata.configs import BrokerConfig
from millpond.metadata.features import MIN_ISR_SETTING, keeps_eligible_leaders
from millpond.metadata.image import Image, PartitionImage, TopicImage, apply, changed
from millpond.metadata.partition_change import (
    Available,
    Election,
    PartitionTarget,
    active_in,
    partition_change,
)
from millpond.metadata.records import (
    LEADER_UNCHANGED,
    NO_LEADER,
    RESOURCE_BROKER,
    ConfigRecord,
    PartitionChangeRecord,
)

UNCLEAN_SETTING: Final = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the settings say of elections, for each topic by its name."""

    # Whether it may be led by a replica that is behind, when no other is left.
    allows_unclean: Callable[[str], bool]
    # How many replicas have to be in sync for anything to be committed; None: no eligible leaders are kept.
    min_isr_of: Callable[[str], int] | None = None

    @property
    def keeps_eligible(self) -> bool:
        """Whether eligible leaders are kept."""
        return self.min_isr_of is not None

    def min_isr(self, topic: str) -> int | None:
        """How many replicas have to be in sync, as far as that counts for who is eligible."""
        return self.min_isr_of(topic) if self.min_isr_of is not None else None

    def online(self, topic: str) -> Election:
        """The election that keeps a partition of this topic served, as far as it is allowed."""
        return Election.UNCLEAN if self.allows_unclean(topic) else Election.ONLINE


def rules_of(image: Image, broker: BrokerConfig) -> Rules:
    """What topics say of it, and what holds for those that do not.

    A leader goes by its own node's settings; where these differ the lowest that is known counts.
    """

    def allows_unclean(topic: str) -> bool:
        value = image.topic_config(topic).get(UNCLEAN_SETTING)
        return bool(broker[UNCLEAN_SETTING]) if value is None else value.strip().lower() == "true"

    if not keeps_eligible_leaders(image):
        return Rules(allows_unclean=allows_unclean)
    everywhere = image.config_of(RESOURCE_BROKER, "").get(MIN_ISR_SETTING)
    lowest = min(
        [
            int(str(broker.started_with(MIN_ISR_SETTING)) if everywhere is None else everywhere),
            *(
                int(values[MIN_ISR_SETTING])
                for (kind, name), values in image.configs.items()
                if kind == RESOURCE_BROKER and name and MIN_ISR_SETTING in values
            ),
        ]
    )
    return Rules(
        allows_unclean=allows_unclean,
        min_isr_of=lambda topic: int(image.topic_config(topic).get(MIN_ISR_SETTING, lowest)),
    )


def decide_one_min_isr(image: Image, rules: Callable[[Image], Rules]) -> list[ConfigRecord]:
    """With eligible leaders (KIP-966) there is one ``min.insync.replicas`` for the whole cluster.

    Who is eligible is decided by it, so that it must not differ from node to node: what single nodes were
    given goes, and where the cluster has none it gets the one that this controller was started with.
    """
    if not keeps_eligible_leaders(image):
        return []
    records = [
        ConfigRecord(resource_type=kind, resource_name=name, name=MIN_ISR_SETTING, value=None)
        for (kind, name), values in sorted(image.configs.items())
        if kind == RESOURCE_BROKER and name and MIN_ISR_SETTING in values
    ]
    min_isr_of = rules(apply(image, records)).min_isr_of
    if min_isr_of is not None and MIN_ISR_SETTING not in image.config_of(RESOURCE_BROKER, ""):
        records.append(
            ConfigRecord(
                resource_type=RESOURCE_BROKER,
                resource_name="",
                name=MIN_ISR_SETTING,
                value=str(min_isr_of("")),
            )
        )
    return records


# --- nodes that come and go -----------------------------------------------------------------------


def decide_stopped(
    image: Image, node: NodeId, rules: Rules, *, is_silent: bool = False
) -> list[PartitionChangeRecord]:
    """A node is down, or wants to be: hand over what it leads, strike it off where it is in sync.

    ``is_silent``: it did not say so, and others that are thought to be up may be down for the same reason.
    """
    available = active_in(image, removed=[node])
    records = []
    for topic, index, partition in each_partition(image):
        if node == partition.leader or node in partition.isr:
            wanted = PartitionTarget(
                isr=_without(node, partition.isr),
                silent=(node,) if is_silent else (),
                election=rules.online(topic.name),
            )
            records.append(_changed(topic, index, partition, wanted, available, rules))
    return [record for record in records if record is not None]


def decide_unsure(image: Image, node: NodeId, rules: Rules) -> list[PartitionChangeRecord]:
    """A node comes back and its disk may lack what it had: it is eligible nowhere and in sync nowhere, not
    even where it was the last that was. Where another has everything that one leads; where none has, the node
    is one of the last known leaders.
    """
    available = active_in(image, removed=[node])
    records = []
    for topic, index, partition in each_partition(image):
        if node in {partition.leader, *partition.isr, *partition.eligible_leaders}:
            wanted = PartitionTarget(
                isr=_without(node, partition.isr), lost=(node,), election=rules.online(topic.name)
            )
            records.append(_changed(topic, index, partition, wanted, available, rules))
    return [record for record in records if record is not None]


def decide_emptied(
    image: Image,
    node: NodeId,
    rules: Rules,
    *,
    only: AbstractSet[tuple[UUID, int]] | None = None,
) -> list[PartitionChangeRecord]:
    """A node comes back with another disk: it is in sync nowhere, not even where it was the last that was.
    Or it comes back without the records of some replicas: ``only`` these (topic and partition).

    Where another replica is in sync, eligible or a last known leader, the partition waits for that one: were
    this node to lead, the other would be cut to what this one has. Where no other replica is, a node with
    another disk leaves the copies to an unclean election; a replica that has named its loss may lead all the
    same, as after a loss of power, so that a partition that every node has lost is led again. What had no
    other copy is gone, and begins anew.
    """
    available = active_in(image, removed=[node])
    records = []
    for topic, index, partition in each_partition(image):
        if only is not None and (topic.topic_id, index) not in only:
            continue
        held = {*partition.isr, *partition.eligible_leaders, *partition.last_known_leaders}
        if node in held and len(partition.replicas) > 1:
            is_last = only is not None and held == {node}
            wanted = PartitionTarget(
                isr=_without(node, partition.isr),
                lost=(node,) if is_last else (),
                emptied=() if is_last else (node,),
                election=rules.online(topic.name),
            )
            records.append(_changed(topic, index, partition, wanted, available, rules))
    return [record for record in records if record is not None]


def decide_started(image: Image, node: NodeId, rules: Rules) -> list[PartitionChangeRecord]:
    """Elect a node that has come up for partitions without a leader, where it may lead."""
    available = active_in(image, added=[node])
    records = []
    for topic, index, partition in each_partition(image):
        if partition.leader == NO_LEADER and node in partition.replicas:
            wanted = PartitionTarget(election=rules.online(topic.name))
            records.append(_changed(topic, index, partition, wanted, available, rules))
    return [record for record in records if record is not None]


def decide_eligible(image: Image, rules: Rules) -> list[PartitionChangeRecord]:
    """Settings are others now: who was eligible may be so no longer."""
    available = active_in(image)
    records = []
    for topic, index, partition in each_partition(image):
        if partition.eligible_leaders:
            change = _changed(topic, index, partition, PartitionTarget(), available, rules)
            if change is not None and change.eligible_leaders is not None:
                records.append(change)
    return records


def decide_led(
    image: Image, rules: Rules, runs: Callable[[NodeId], bool], *, at_most: int
) -> list[PartitionChangeRecord]:
    """End the lists of last known leaders of partitions whose leader is known to run (``runs``): it writes
    what those replicas do not have, so none of them may lead in its place later.
    """
    available = active_in(image)
    records: list[PartitionChangeRecord] = []
    for topic, index, partition in each_partition(image):
        if len(records) >= at_most:
            break
        if (
            partition.last_known_leaders
            and partition.leader != NO_LEADER
            and runs(partition.leader)
        ):
            wanted = PartitionTarget(is_led=True)
            change = _changed(topic, index, partition, wanted, available, rules)
            if change is not None:
                records.append(change)
    return records


# --- elections that are asked for, or due ---------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionResult:
    """What became of an election; None: it took place."""

    topic: str
    partition: int
    error: MillpondError | None


def decide_elections(
    image: Image, election: Election, targets: Iterable[tuple[str, int]] | None, rules: Rules
) -> tuple[list[PartitionChangeRecord], list[ElectionResult]]:
    """Elect leaders of these partitions, or of all; of all, those that need none are not spoken of."""
    everywhere = targets is None
    if targets is None:
        targets = [(topic.name, index) for topic, index, _ in each_partition(image)]
    records, results = [], []
    for topic, index in dict.fromkeys(targets):
        error: MillpondError | None = None
        try:
            records.append(_elected(image, election, topic, index, rules))
        except MillpondError as refused:
            error = refused
        if not (everywhere and isinstance(error, ElectionNotNeeded)):
            results.append(ElectionResult(topic=topic, partition=index, error=error))
    return records, results


def _elected(
    image: Image, election: Election, name: str, index: int, rules: Rules
) -> PartitionChangeRecord:
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopic(f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        raise UnknownTopic(f"No such partition as {name}-{index}")
    partition = topic.partitions[index]
    is_preferred = election is Election.PREFERRED
    if partition.leader != NO_LEADER and (
        not is_preferred or partition.leader == partition.replicas[0]
    ):
        raise ElectionNotNeeded("Leader election not needed for topic partition.")
    change = _changed(
        topic, index, partition, PartitionTarget(election=election), active_in(image), rules
    )
    if change is not None and change.leader not in {LEADER_UNCHANGED, NO_LEADER}:
        return change
    if is_preferred:
        raise PreferredLeaderNotAvailable("The preferred leader was not available.")
    raise EligibleLeadersNotAvailable("Eligible topic partition leaders are not available.")


def decide_preferred(image: Image, rules: Rules, *, at_most: int) -> list[PartitionChangeRecord]:
    """Give partitions back to the first of their replicas, where that one is in sync."""
    available = active_in(image)
    records: list[PartitionChangeRecord] = []
    for topic, index, partition in each_partition(image):
        if len(records) >= at_most:
            break
        first = partition.replicas[0]
        if partition.leader != first and available.may_lead(first, partition.directory_of(first)):
            wanted = PartitionTarget(election=Election.PREFERRED)
            change = _changed(topic, index, partition, wanted, available, rules)
            if change is not None:
                records.append(change)
    return records


def decide_unclean(image: Image, rules: Rules, *, at_most: int) -> list[PartitionChangeRecord]:
    """Elect a replica that is behind for partitions without a leader, where that is allowed now."""
    available = active_in(image)
    records: list[PartitionChangeRecord] = []
    for topic, index, partition in each_partition(image):
        if len(records) >= at_most:
            break
        if partition.leader == NO_LEADER and rules.allows_unclean(topic.name):
            wanted = PartitionTarget(election=Election.UNCLEAN)
            change = _changed(topic, index, partition, wanted, available, rules)
            if change is not None:
                records.append(change)
    return records


# --- what leaders say of their followers ----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncRequest:
    """A leader's word on who is in sync, each with the broker epoch it fetched under (-1: not said)."""

    topic_id: UUID
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[NodeId, ...]
    broker_epochs: tuple[int, ...] = ()


def decide_in_sync(
    image: Image, sender: NodeId, requests: Sequence[InSyncRequest], rules: Rules
) -> tuple[list[PartitionChangeRecord], list[PartitionImage | MillpondError]]:
    """Change in-sync replicas; return for each request the partition as it will be, or why not.

    Refused if the sender leads no longer or knows an older state. What completes a reassignment may move the
    leader: then the change is made and the sender is told to look again.
    """
    records: list[PartitionChangeRecord] = []
    results: list[PartitionImage | MillpondError] = []
    for wanted in requests:
        try:
            topic = image.topics_by_id.get(wanted.topic_id)
            if topic is None:
                raise UnknownTopicId(f"there is no topic with id {wanted.topic_id}")
            if not 0 <= wanted.partition < len(topic.partitions):
                raise UnknownTopic(f"there is no partition {topic.name}-{wanted.partition}")
            _check_in_sync(image, topic, sender, wanted)
        except MillpondError as refused:
            results.append(refused)
            continue
        before = topic.partitions[wanted.partition]
        # A leader that speaks of its followers is through with whatever it had to recover from.
        change = changed_in_sync(
            image, topic, wanted.partition, wanted.isr, rules, recovering=False
        )
        if change is None:
            results.append(before)
            continue
        records.append(change)
        after = changed(before, change)
        if after.leader != sender:
            results.append(
                NewLeaderElected(
                    f"{topic.name}-{wanted.partition} has been reassigned; node {after.leader} leads it"
                )
            )
        else:
            results.append(after)
    return records, results


def changed_in_sync(
    image: Image,
    topic: TopicImage,
    index: int,
    isr: tuple[NodeId, ...],
    rules: Rules,
    *,
    recovering: bool | None = None,
) -> PartitionChangeRecord | None:
    """These replicas of a partition are in sync, as its leader says; None if nothing changes."""
    wanted = PartitionTarget(
        isr=isr, recovering=recovering, is_led=True, election=rules.online(topic.name)
    )
    return _changed(topic, index, topic.partitions[index], wanted, active_in(image), rules)


def _check_in_sync(image: Image, topic: TopicImage, sender: NodeId, wanted: InSyncRequest) -> None:
    partition = topic.partitions[wanted.partition]
    name = f"{topic.name}-{wanted.partition}"
    if (
        wanted.leader_epoch > partition.leader_epoch
        or wanted.partition_epoch > partition.partition_epoch
    ):
        # The sender knows newer metadata: another node is the controller.
        raise NotController(f"{name} has not come to epoch {wanted.leader_epoch} here")
    if wanted.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpoch(
            f"{name} is led in epoch {partition.leader_epoch}, not {wanted.leader_epoch}"
        )
    if sender != partition.leader:
        raise InvalidRequest(f"node {sender} does not lead {name}; node {partition.leader} does")
    if wanted.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersion(
            f"{name} is at version {partition.partition_epoch}, not {wanted.partition_epoch}; read it again"
        )
    isr = wanted.isr
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or sender not in isr:
        raise InvalidRequest(f"{list(isr)} cannot be the in-sync replicas of {name}")
    epochs = wanted.broker_epochs or (-1,) * len(isr)
    for node, epoch in zip(isr, epochs, strict=True):
        reason = _ineligible(image, partition, node, epoch)
        if reason is not None:
            raise IneligibleReplica(f"node {node} cannot be in sync for {name}: it is {reason}")


def _ineligible(
    image: Image, partition: PartitionImage, node: NodeId, broker_epoch: int
) -> str | None:
    broker = image.brokers.get(node)
    if broker is None:
        return "not registered"
    if broker.in_controlled_shutdown:
        return "about to stop"
    if broker.fenced:
        return "fenced"
    if broker_epoch not in {-1, broker.broker_epoch}:
        return f"registered under epoch {broker.broker_epoch}, not {broker_epoch}"
    directory = partition.directory_of(node)
    if not broker.has_online(directory):
        return f"there in a log directory that is offline: {directory}"
    return None


def each_partition(image: Image) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    """Every partition, with its topic and its number."""
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield topic, index, partition


def _without(node: NodeId, nodes: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    return tuple(one for one in nodes if one != node)


def _changed(
    topic: TopicImage,
    index: int,
    partition: PartitionImage,
    wanted: PartitionTarget,
    available: Available,
    rules: Rules,
) -> PartitionChangeRecord | None:
    return partition_change(
        topic.topic_id, index, partition, wanted, available, min_isr=rules.min_isr(topic.name)
    )
