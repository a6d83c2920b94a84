"""Every situation of a cluster names itself, and a grave one makes the cluster not healthy."""

from dataclasses import replace
from uuid import UUID

import pytest

from millpond.base.ids import TopicPartition
from millpond.cli.cluster_health import KINDS, Levels, Told, findings_of
from millpond.cli.cluster_view import headline, health_rows, problem_lines, to_json, view_of
from millpond.client import (
    BrokerInfo,
    ClusterInfo,
    DamageInfo,
    FencingInfo,
    LogDirInfo,
    PartitionInfo,
    QuorumInfo,
    QuorumReplica,
    Reassignment,
    TopicInfo,
)

NODES = (1, 2, 3)
PLACES = (TopicPartition("orders", 0), TopicPartition("orders", 1))
NOW_MS = 1_000_000


def replica(node: int, **fields: int) -> QuorumReplica:
    told = {"end_offset": 100, "last_fetch_ms": NOW_MS, "last_caught_up_ms": NOW_MS} | fields
    return QuorumReplica(node_id=node, directory_id=UUID(int=node), **told)


def partition(index: int, **fields: object) -> PartitionInfo:
    told: dict[str, object] = {"leader": 1, "leader_epoch": 3, "replicas": NODES, "in_sync": NODES}
    return PartitionInfo(partition=index, **(told | fields))  # type: ignore[arg-type]


def topic(*partitions: PartitionInfo) -> tuple[TopicInfo, ...]:
    return (
        TopicInfo(
            name="orders", topic_id=UUID(int=9), is_internal=False, partitions=tuple(partitions)
        ),
    )


def directory(
    node: int, *places: TopicPartition, is_offline: bool = False, path: str = "/data"
) -> LogDirInfo:
    return LogDirInfo(
        node_id=node,
        path=path,
        sizes=dict.fromkeys(places, 7),
        total_bytes=-1,
        usable_bytes=-1,
        is_offline=is_offline,
    )


WELL = Told(
    info=ClusterInfo(
        cluster_id="c",
        controller_id=1,
        brokers=tuple(BrokerInfo(node_id=node, host="h", port=9092) for node in NODES),
    ),
    quorum=QuorumInfo(
        leader_id=1,
        leader_epoch=5,
        high_watermark=100,
        voters=tuple(replica(node) for node in NODES),
        observers=(),
    ),
    topics=topic(partition(0), partition(1)),
    minimums={"orders": 2},
    moving={},
    log_dirs={node: [directory(node, *PLACES)] for node in NODES},
    levels=(Levels(name="millpond.version", level=2, highest=dict.fromkeys(NODES, 2)),),
)


def with_brokers(*brokers: BrokerInfo) -> Told:
    return replace(WELL, info=replace(WELL.info, brokers=brokers))


def with_quorum(**fields: object) -> Told:
    return replace(WELL, quorum=replace(WELL.quorum, **fields))  # type: ignore[arg-type]


def with_partition(**fields: object) -> Told:
    return replace(WELL, topics=topic(partition(0), partition(1, **fields)))


def moving(adding: tuple[int, ...], removing: tuple[int, ...]) -> Told:
    move = Reassignment(replicas=NODES, adding=adding, removing=removing)
    return replace(WELL, moving={PLACES[0]: move})


BROKERS = WELL.info.brokers
FENCED = replace(BROKERS[2], is_fenced=True)
UP = ("node 3",)

DAMAGED = replace(
    directory(2, *PLACES),
    damage={
        PLACES[1]: (
            DamageInfo(first_offset=5, next_offset=9, reason="wrong checksum"),
            DamageInfo(first_offset=20, next_offset=21, reason="missing"),
        )
    },
)

# What is the matter → (what the cluster tells, all that must be found).
SITUATIONS: dict[str, tuple[Told, dict[str, tuple[str, ...]]]] = {
    "nothing": (WELL, {}),
    "nobody leads the quorum": (
        with_quorum(leader_id=-1, voters=()),
        {"no controller": ("quorum",)},
    ),
    "a node is not heard of": (with_brokers(*BROKERS[:2], FENCED), {"fenced": UP}),
    "a voter that holds partitions has not registered": (
        with_brokers(*BROKERS[:2]),
        {"fenced": UP, "voter joining": UP},
    ),
    "a voter is joining": (
        with_quorum(voters=(*WELL.quorum.voters, replica(4))),
        {"voter joining": ("node 4",)},
    ),
    "a voter follows with another disk than the one that votes": (
        with_quorum(
            voters=(replica(1), replica(2), replica(3, last_fetch_ms=NOW_MS - 10_001)),
            observers=(replica(3),),
        ),
        {"voter joining": UP},
    ),
    "another process follows with the id of a voter that follows, too": (
        with_quorum(observers=(replica(3),)),
        {},
    ),
    "another disk followed with the id of a voter that is silent, and does not follow any more": (
        with_quorum(
            voters=(
                replica(1),
                replica(2),
                replica(3, last_fetch_ms=NOW_MS - 20_000, last_caught_up_ms=NOW_MS - 20_000),
            ),
            observers=(replica(3, last_fetch_ms=NOW_MS - 10_001),),
        ),
        {"voter lagging": UP},
    ),
    "a node that only follows is no trouble": (
        replace(
            with_quorum(observers=(replica(4),)),
            info=replace(WELL.info, brokers=(*BROKERS, BrokerInfo(node_id=4, host="h", port=9092))),
        ),
        {},
    ),
    "a voter has never asked the leader": (
        with_quorum(voters=(replica(1), replica(2), replica(3, end_offset=-1))),
        {"voter silent": UP},
    ),
    "a voter has been behind for long": (
        with_quorum(voters=(replica(1), replica(2), replica(3, last_caught_up_ms=NOW_MS - 10_001))),
        {"voter lagging": UP},
    ),
    "a voter is behind for a moment": (
        with_quorum(voters=(replica(1), replica(2), replica(3, last_caught_up_ms=NOW_MS - 3_000))),
        {},
    ),
    "nobody can tell when voters were caught up": (
        with_quorum(voters=tuple(replica(node, last_caught_up_ms=-1) for node in NODES)),
        {},
    ),
    "a partition has no leader": (with_partition(leader=-1), {"offline": ("orders-1",)}),
    "a replica is not in sync": (
        with_partition(in_sync=(1, 2)),
        {"under-replicated": ("orders-1",), "at min.insync.replicas": ("orders-1",)},
    ),
    "too few are in sync": (
        with_partition(in_sync=(1,)),
        {"under-replicated": ("orders-1",), "below min.insync.replicas": ("orders-1",)},
    ),
    "a replica was shut off": (
        replace(WELL, log_dirs={**WELL.log_dirs, 2: [directory(2, PLACES[0])]}),
        {"replica shut off": ("orders-1 (node 2)",)},
    ),
    "a directory is offline": (
        replace(WELL, log_dirs={**WELL.log_dirs, 2: [directory(2, is_offline=True)]}),
        {
            "log directory offline": ("node 2:/data (2 replicas)",),
            "replica shut off": ("orders-0 (node 2)", "orders-1 (node 2)"),
        },
    ),
    "one of two directories is offline": (
        replace(
            WELL,
            log_dirs={
                **WELL.log_dirs,
                2: [directory(2, *PLACES), directory(2, is_offline=True)],
            },
        ),
        {"log directory offline": ("node 2:/data (0 replicas)",)},
    ),
    "one of two directories is offline, and the controller knows what lies there": (
        replace(
            with_partition(offline=(2,), in_sync=(1, 3)),
            log_dirs={
                **WELL.log_dirs,
                2: [directory(2, PLACES[0]), directory(2, is_offline=True)],
            },
        ),
        {
            "under-replicated": ("orders-1",),
            "log directory offline": ("node 2:/data (1 replica)",),
            "at min.insync.replicas": ("orders-1",),
        },
    ),
    "two of three directories are offline": (
        replace(
            WELL,
            log_dirs={
                **WELL.log_dirs,
                2: [
                    directory(2, PLACES[0]),
                    directory(2, is_offline=True),
                    directory(2, is_offline=True, path="/more"),
                ],
            },
        ),
        {
            "log directory offline": (
                "node 2:/data (1 replica in 2 directories)",
                "node 2:/more (1 replica in 2 directories)",
            ),
            "replica shut off": ("orders-1 (node 2)",),
        },
    ),
    "a directory was gone when the node started": (
        replace(
            with_partition(offline=(2,), in_sync=(1, 3)),
            log_dirs={**WELL.log_dirs, 2: [directory(2, PLACES[0])]},
        ),
        {
            "under-replicated": ("orders-1",),
            "log directory offline": ("node 2 (1 replica)",),
            "at min.insync.replicas": ("orders-1",),
        },
    ),
    "a node with a failed directory does not tell of its directories": (
        replace(
            with_partition(offline=(2,), in_sync=(1, 3)),
            log_dirs={**WELL.log_dirs, 2: None},
        ),
        {
            "under-replicated": ("orders-1",),
            "log directory offline": ("node 2 (1 replica)",),
            "log directories unknown": ("node 2",),
            "at min.insync.replicas": ("orders-1",),
        },
    ),
    "a node does not tell of its directories": (
        replace(WELL, log_dirs={**WELL.log_dirs, 2: None}),
        {"log directories unknown": ("node 2",)},
    ),
    "records of one replica are damaged": (
        replace(WELL, log_dirs={**WELL.log_dirs, 2: [DAMAGED]}),
        {"damaged records": ("orders-1 (node 2)",)},
    ),
    "a node is drained": (
        moving(adding=(4,), removing=(3,)),
        {"being moved": ("orders-0",), "draining": UP},
    ),
    "a partition gets one more replica": (
        moving(adding=(3,), removing=()),
        {"being moved": ("orders-0",)},
    ),
    "nodes of two releases": (
        replace(
            WELL,
            levels=(Levels(name="millpond.version", level=2, highest={1: 3, 2: 2, 3: 2}),),
        ),
        {"mixed versions": ("millpond.version",)},
    ),
    "an upgrade is not finished": (
        replace(
            WELL,
            levels=(Levels(name="millpond.version", level=2, highest=dict.fromkeys(NODES, 3)),),
        ),
        {"level not raised": ("millpond.version",)},
    ),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_situation_names_itself(situation: str) -> None:
    told, expected = SITUATIONS[situation]
    assert {one.kind: one.names for one in findings_of(told)} == expected
    view = view_of(told)
    assert view.is_healthy == (not any(KINDS[kind] for kind in expected))
    assert (": healthy" in headline(view)) == view.is_healthy
    assert {row[0] for row in health_rows(view)} == set(expected)
    assert to_json(view)["healthy"] == view.is_healthy
    assert to_json(view)["findings"] == [
        {
            "kind": one.kind,
            "grave": KINDS[one.kind],
            "names": list(expected[one.kind]),
            "details": list(one.lines),
        }
        for one in findings_of(told)
    ]
    assert [one.kind for one in findings_of(told)] == [kind for kind in KINDS if kind in expected]


def test_every_kind_has_a_situation() -> None:
    assert {kind for _told, expected in SITUATIONS.values() for kind in expected} == set(KINDS)


def fenced(reason: str, fenced_ms: int = -1, silent_ms: int = -1) -> Told:
    told = FencingInfo(reason=reason, fenced_ms=fenced_ms, silent_ms=silent_ms)
    return with_brokers(*BROKERS[:2], replace(FENCED, fencing=told))


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            fenced("silent", 3_000, 12_900),
            "fenced: the controller has not heard of it (fenced for 3 s, last heard of 12 s ago); start it",
        ),
        (
            fenced("process-ended", 150_000),
            "node 3 is fenced: its process has ended (fenced for 2 min); its log says why; start it again",
        ),
        (
            fenced("disk", 8_000_000, 100),
            "it cannot write to its log directories (fenced for 2 h, last heard of 0 s ago); free space",
        ),
        (fenced("stopped"), "it was stopped in order; start it again"),
        (fenced("joining"), "it has registered and reads the metadata; wait"),
        (fenced("unknown"), "it was fenced before the present controller took over; start it"),
        (fenced("a reason of a later release"), "the controller does not say why; look at its log"),
        (with_brokers(*BROKERS[:2], FENCED), "the controller does not say why"),
        (with_brokers(*BROKERS[:2]), "node 3 is not registered and holds partitions"),
    ],
)
def test_a_fenced_node_has_a_line_with_the_reason_and_what_to_do(told: Told, expected: str) -> None:
    (line,) = problem_lines(view_of(told))
    assert expected in line


def test_each_damaged_range_has_a_line_with_node_partition_offsets_and_what_to_do() -> None:
    told = replace(WELL, log_dirs={**WELL.log_dirs, 2: [DAMAGED]})
    first, second = problem_lines(view_of(told))
    assert first.startswith(
        "node 2: orders-1: offsets 5 to 8 are damaged (wrong checksum); the node fetches them from"
    )
    assert second.startswith("node 2: orders-1: offset 20 is damaged (missing); ")
    alone = replace(told, topics=topic(partition(0), partition(1, replicas=(2,), in_sync=(2,))))
    assert "there is no other replica" in problem_lines(view_of(alone))[0]
    assert "unreadable.records=skip" in problem_lines(view_of(alone))[0]


def test_no_more_lines_are_shown_than_a_screen_takes() -> None:
    ranges = tuple(DamageInfo(first_offset=at, next_offset=at + 1, reason="r") for at in range(60))
    told = replace(WELL, log_dirs={2: [replace(DAMAGED, damage={PLACES[0]: ranges})]})
    lines = problem_lines(view_of(told))
    assert len(lines) == 51
    assert lines[-1] == "and 10 more; --json has all"
