"""Several log directories on one node (KIP-858): where replicas lie, and what becomes of them when one of the
directories fails.
"""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from millpond.base.errors import (
    IneligibleReplica,
    InvalidRegistration,
    InvalidRequest,
    LogDirNotFound,
    NotLeader,
    UnknownTopic,
    UnknownTopicId,
    UnsupportedVersion,
)
from millpond.metadata.assignments import new_partition
from millpond.metadata.directories import Placement, decide_assign
from millpond.metadata.elections import (
    InSyncRequest,
    Rules,
    decide_elections,
    decide_in_sync,
    decide_preferred,
    decide_unclean,
)
from millpond.metadata.image import Image, PartitionImage, apply
from millpond.metadata.image_records import image_records
from millpond.metadata.nodes import (
    Heartbeat,
    HeartbeatDecision,
    Registration,
    decide_heartbeat,
    decide_register,
    decide_unregister,
)
from millpond.metadata.partition_change import Election
from millpond.metadata.reassignments import Reassignment, decide_reassign
from millpond.metadata.records import (
    LOST_DIRECTORY,
    NO_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    MetadataRecord,
    decode_record,
    encode_record,
)
from millpond.metadata.sessions import Sessions
from tests.support.cluster.cluster_facts import (
    KEEPS_ELIGIBLE,
    KNOWS_DIRECTORIES,
    ORDERS,
    always,
    directory,
    never,
    node,
    orders,
    partition,
    two_in_sync,
)

# Node 1 has two directories, the others have one.
A, B = directory(1), directory(1, 1)
TWO, THREE = directory(2), directory(3)


def cluster(
    *partitions: PartitionImage, level: Sequence[MetadataRecord] = KNOWS_DIRECTORIES
) -> Image:
    """The nodes 1 to 3, of which 1 has the directories A and B, with the partitions of orders."""
    image = orders(*partitions, nodes=[node(1, directories=2), node(2), node(3)])
    return apply(image, level)


def in_a(isr: tuple[int, ...] = (1, 2), leader: int = 1, **more: tuple[int, ...]) -> PartitionImage:
    """A partition of the nodes 1 and 2; node 1 has it in A."""
    return partition((1, 2), isr, leader, directories=(A, TWO), **more)


def in_b(isr: tuple[int, ...] = (1, 2), leader: int = 1) -> PartitionImage:
    """A partition of the nodes 1 and 2; node 1 has it in B."""
    return partition((1, 2), isr, leader, directories=(B, TWO))


def at(image: Image, index: int = 0) -> PartitionImage:
    return image.topics["orders"].partitions[index]


def state(image: Image, index: int = 0) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Who leads, who is in sync, who is eligible."""
    one = at(image, index)
    return one.leader, one.isr, one.eligible_leaders


def beat(
    image: Image, *offline: UUID, rules: Rules = two_in_sync, metadata_offset: int = 1000
) -> tuple[HeartbeatDecision, Image]:
    """A heartbeat of node 1, with these directories offline."""
    command = Heartbeat(
        node_id=1,
        broker_epoch=image.brokers[1].broker_epoch,
        metadata_offset=metadata_offset,
        offline_dirs=offline,
    )
    decision = decide_heartbeat(image, command, Sessions(9000), rules=rules)
    # As it is written and read.
    records = [decode_record(encode_record(one)) for one in decision.records]
    return decision, apply(image, records)


def after(image: Image, *offline: UUID, rules: Rules = two_in_sync) -> Image:
    return beat(image, *offline, rules=rules)[1]


def registered(
    image: Image,
    *log_dirs: UUID,
    incarnation: int = 111,
    previous_epoch: int | None = None,
    rules: Rules = two_in_sync,
) -> Image:
    """Node 1 registers with these directories, and says that it has lost nothing."""
    known = image.brokers.get(1)
    epoch = known.broker_epoch if known is not None else -1
    command = Registration(
        node_id=1,
        cluster_id="c",
        incarnation_id=UUID(int=incarnation),
        end_points=(),
        rack=None,
        log_dirs=log_dirs,
        previous_epoch=epoch if previous_epoch is None else previous_epoch,
    )
    decided = decide_register(
        image,
        command,
        Sessions(9000),
        cluster_id="c",
        next_offset=500,
        now_ms=0,
        rules=rules,
    )
    result = apply(image, decided.records)
    assert result.brokers[1].broker_epoch == decided.broker_epoch
    return result


def assign(
    image: Image, *places: tuple[UUID, int], rules: Rules = two_in_sync
) -> tuple[Image, Sequence[object]]:
    """Node 1 says in which directories it has partitions of orders."""
    placements = [
        Placement(directory=one, topic_id=ORDERS, partition=index) for one, index in places
    ]
    records, errors = decide_assign(image, image.brokers[1], placements, rules)
    return apply(image, records), errors


# --- heartbeats -------------------------------------------------------------------------------------


def test_replicas_in_an_offline_directory_lose_leadership_and_sync_in_one_step() -> None:
    before = cluster(in_a(), in_b(), in_a(leader=2))
    decision, now = beat(before, A)
    assert not decision.is_fenced
    assert now.brokers[1].offline_dirs == (A,)
    assert now.is_active(1)
    # One fact for each partition there, one for the node.
    assert len(decision.records) == 3
    assert state(now, 0) == (2, (2,), (1,))
    assert at(now, 1) == at(before, 1)
    assert state(now, 2) == (2, (2,), (1,))
    # A leader that stays needs no new epoch.
    assert at(now, 2).leader_epoch == at(before, 2).leader_epoch


def test_what_is_known_is_not_written_again() -> None:
    now = after(cluster(in_a()), A)
    assert beat(now, A)[0].records == ()
    assert beat(now, A, UUID(int=9999))[0].records == ()
    assert beat(after(now), UUID(int=9999))[0].records == ()


def test_a_directory_that_comes_back_makes_its_replicas_electable_again() -> None:
    before = cluster(in_a(isr=(1,)), in_a())
    now = after(before, A)
    # Node 1 was the last in sync of the first: it has all that is committed, and is waited for.
    assert state(now) == (NO_LEADER, (), (1,))
    assert at(now).last_known_leaders == (1,)
    back = after(now)
    assert back.brokers[1].offline_dirs == ()
    assert state(back) == (1, (1,), ())
    # Who leads meanwhile goes on.
    assert state(back, 1) == (2, (2,), (1,))


def test_the_last_in_sync_replica_is_waited_for_where_eligible_leaders_are_not_kept() -> None:
    now = after(cluster(in_a(isr=(1,))), A, rules=never)
    assert state(now) == (NO_LEADER, (1,), ())
    assert state(after(now, rules=never)) == (1, (1,), ())


def test_an_old_copy_leads_in_place_of_an_offline_directory_where_that_is_allowed() -> None:
    now = after(cluster(in_a(isr=(1,))), A, rules=always)
    assert state(now) == (2, (2,), ())
    assert at(now).recovering


def test_no_election_of_any_kind_finds_a_replica_in_an_offline_directory() -> None:
    now = after(cluster(in_a(), partition((1,), (1,), 1, directories=(A,))), A)
    assert decide_preferred(now, two_in_sync, at_most=10) == []
    assert decide_unclean(now, always, at_most=10) == []
    for election in Election:
        assert decide_elections(now, election, [("orders", 1)], always)[0] == []
    # The other replica goes, too.
    alone = apply(now, decide_unregister(now, 2, two_in_sync))
    assert at(alone).leader == NO_LEADER


def test_a_leader_cannot_call_a_replica_in_an_offline_directory_in_sync() -> None:
    now = after(cluster(in_a()), A)
    wish = InSyncRequest(
        topic_id=ORDERS,
        partition=0,
        leader_epoch=at(now).leader_epoch,
        partition_epoch=at(now).partition_epoch,
        isr=(1, 2),
    )
    records, (result,) = decide_in_sync(now, 2, [wish], two_in_sync)
    assert records == []
    assert isinstance(result, IneligibleReplica)
    assert "offline" in str(result)
    records, (result,) = decide_in_sync(after(now), 2, [wish], two_in_sync)
    assert isinstance(result, PartitionImage)


def test_a_node_is_fenced_when_its_last_directory_goes_and_serves_again_with_the_first() -> None:
    now = after(cluster(in_a(), in_b()), A)
    decision, fenced = beat(now, A, B)
    assert decision.is_fenced
    assert fenced.brokers[1].fenced
    assert state(fenced, 1) == (2, (2,), (1,))
    # The other one of the two comes back first.
    serves = after(fenced, B)
    assert not serves.brokers[1].fenced
    assert serves.brokers[1].offline_dirs == (B,)
    # What the first has in sync no longer counts: nobody may lead it but node 2.
    assert state(serves, 0) == state(serves, 1) == (2, (2,), (1,))


def test_a_fenced_node_serves_only_from_the_directories_that_are_online() -> None:
    lone = partition((1,), (1,), 1, directories=(A,)), partition((1,), (1,), 1, directories=(B,))
    fenced = after(cluster(*lone), A, B)
    assert fenced.brokers[1].fenced
    now = after(fenced, A)
    assert (at(now, 0).leader, at(now, 1).leader) == (NO_LEADER, 1)
    assert (at(after(now), 0).leader, at(after(now), 1).leader) == (1, 1)


def test_a_node_that_stops_while_a_directory_is_offline_hands_over_the_rest() -> None:
    command = Heartbeat(
        node_id=1, broker_epoch=10, metadata_offset=1000, wants_stop=True, offline_dirs=(A,)
    )
    before = cluster(in_a(), in_b())
    decision = decide_heartbeat(before, command, Sessions(9000), rules=two_in_sync)
    now = apply(before, decision.records)
    assert decision.begins_to_stop
    assert [state(now, index) for index in (0, 1)] == [(2, (2,), (1,))] * 2
    # What comes back meanwhile leads nothing any more.
    assert at(after(now), 0).leader == 2
    assert after(now).brokers[1].offline_dirs == (A,)


def test_a_node_that_stops_does_not_get_back_what_it_does_not_speak_of() -> None:
    now = after(cluster(in_a(isr=(1,))), A)
    command = Heartbeat(node_id=1, broker_epoch=10, metadata_offset=1000, wants_stop=True)
    stopped = apply(now, decide_heartbeat(now, command, Sessions(9000), rules=two_in_sync).records)
    assert state(stopped) == (NO_LEADER, (), (1,))
    assert at(stopped) == at(now)


def test_below_the_level_a_node_with_a_failed_directory_is_fenced() -> None:
    image = cluster(partition((1, 2), (1, 2), 1), level=KEEPS_ELIGIBLE)
    decision, now = beat(image, A)
    assert decision.is_fenced
    assert now.brokers[1].offline_dirs == ()
    assert at(now).leader == 2
    assert not after(now).brokers[1].fenced


def test_a_snapshot_keeps_which_directories_are_offline() -> None:
    now = after(cluster(in_a()), A)
    facts = [decode_record(encode_record(one)) for one in image_records(now)]
    assert apply(Image(), facts) == now


# --- registrations ----------------------------------------------------------------------------------


def test_a_directory_that_a_node_registers_without_is_as_one_that_is_offline() -> None:
    image = cluster(in_a(isr=(1,)), in_b(isr=(1,)))
    serves = after(registered(image, B))
    assert state(serves, 1) == (1, (1,), ())
    # It may be that the disk could not be read at the start: what it has is not given up.
    assert state(serves, 0) == (NO_LEADER, (), (1,))
    assert state(after(registered(serves, A, B, incarnation=112)), 0) == (1, (1,), ())


def test_a_replica_that_begins_anew_in_another_directory_is_as_after_a_lost_disk() -> None:
    image = cluster(in_a(isr=(1,)), in_a())
    serves = after(registered(image, B))
    now, errors = assign(serves, (B, 0), (B, 1))
    assert errors == [None, None]
    assert at(now, 0).directories == (B, TWO)
    # The copy of node 2 waits for somebody to let it lead.
    assert state(now, 0) == (NO_LEADER, (), ())
    assert at(now, 0).last_known_leaders == ()
    assert state(now, 1) == (2, (2,), ())


def test_a_replica_that_began_anew_in_a_directory_that_failed_since_has_nothing_either() -> None:
    serves = after(registered(cluster(in_a(isr=(1,)), in_b()), A, B))
    only_b = registered(serves, B, directory(1, 2), incarnation=112)
    failed = after(only_b, B)
    now, _errors = assign(failed, (B, 0))
    assert state(now, 0) == (NO_LEADER, (), ())
    assert at(after(now), 0).leader == NO_LEADER


def test_what_had_no_other_copy_begins_anew_in_another_directory() -> None:
    image = cluster(partition((1,), (1,), 1, directories=(A,)))
    serves = after(registered(image, B))
    assert at(serves).leader == NO_LEADER
    now, _errors = assign(serves, (B, 0))
    assert (at(now).leader, at(now).directories) == (1, (B,))


def test_a_node_with_other_directories_only_has_its_replicas_there() -> None:
    image = cluster(in_a(isr=(1,)), in_a(), partition((1,), (1,), 1, directories=(B,)))
    new = UUID(int=7000)
    serves = after(registered(image, new))
    assert at(serves, 0).directories == (new, TWO)
    assert state(serves, 0) == (NO_LEADER, (), ())
    assert state(serves, 1) == (2, (2,), ())
    assert (at(serves, 2).leader, at(serves, 2).directories) == (1, (new,))
    several = after(registered(image, new, UUID(int=7001)))
    assert at(several, 2).directories == (UNASSIGNED_DIRECTORY,)
    assert at(several, 2).leader == 1


def test_a_node_that_was_forgotten_may_come_back_with_another_disk() -> None:
    image = cluster(partition((1,), (1,), 1, directories=(A,)))
    gone = apply(image, decide_unregister(image, 1, two_in_sync))
    new = UUID(int=7000)
    serves = after(registered(gone, new))
    assert (at(serves).leader, at(serves).directories) == (1, (new,))


def test_the_same_life_that_registers_again_keeps_its_offline_directories() -> None:
    now = after(cluster(in_a(), in_b()), A)
    again = registered(now, A, B, incarnation=1)
    assert again.brokers[1].offline_dirs == (A,)
    assert again.is_active(1)
    assert again.topics == now.topics


def test_the_same_life_that_registers_with_fewer_directories_leads_nothing_in_the_others() -> None:
    now = registered(cluster(in_a(), in_b()), B, incarnation=1)
    assert state(now, 0) == (2, (2,), (1,))
    assert state(now, 1) == (1, (1, 2), ())


def test_another_life_says_anew_which_directories_are_offline() -> None:
    now = registered(after(cluster(in_a()), A), A, B)
    assert now.brokers[1].offline_dirs == ()
    assert now.brokers[1].fenced
    assert after(now, A).brokers[1].offline_dirs == (A,)


def test_a_new_controller_knows_a_node_by_one_of_its_directories() -> None:
    image = cluster(in_a())
    sessions = Sessions(9000)
    sessions.begin(image, 0)
    command = Registration(
        node_id=1,
        cluster_id="c",
        incarnation_id=UUID(int=111),
        end_points=(),
        rack=None,
        log_dirs=(B,),
    )
    decided = decide_register(
        image, command, sessions, cluster_id="c", next_offset=500, now_ms=1, rules=two_in_sync
    )
    assert decided.broker_epoch >= 500


def test_a_reserved_directory_is_refused() -> None:
    with pytest.raises(InvalidRegistration, match="Reserved"):
        registered(cluster(), A, LOST_DIRECTORY)


# --- assignments ------------------------------------------------------------------------------------


def test_a_node_says_where_its_replicas_lie() -> None:
    image = cluster(*[partition((1, 2), (1, 2), 1)] * 2)
    now, errors = assign(image, (A, 0), (B, 1))
    assert errors == [None, None]
    assert [at(now, index).directory_of(1) for index in (0, 1)] == [A, B]
    # Of the others nothing is known still.
    assert [at(now, index).directory_of(2) for index in (0, 1)] == [NO_DIRECTORY] * 2
    assert [state(now, index) for index in (0, 1)] == [state(image)] * 2
    assert at(now).leader_epoch == at(image).leader_epoch
    again, _errors = assign(now, (A, 0), (B, 1))
    assert again == now


def test_a_replica_that_was_moved_to_another_directory_stays_what_it_was() -> None:
    image = cluster(in_a(), in_a(leader=2), in_a(isr=(2,), leader=2))
    waits = apply(image, decide_unregister(image, 2, two_in_sync))
    eligible = after(cluster(in_a(isr=(1,), eligible=(2,))), B)
    for before in (image, waits, eligible):
        indexes = range(len(before.topics["orders"].partitions))
        now, _errors = assign(after(before), *((B, index) for index in indexes))
        for index in indexes:
            assert state(now, index) == state(before, index)
            assert at(now, index).directory_of(1) == B


def test_an_assignment_into_an_offline_directory_is_as_if_the_directory_went_offline_then() -> None:
    image = after(cluster(partition((1, 2), (1, 2), 1), partition((1, 2), (1,), 1)), A)
    # Nothing was known of where they lie.
    assert state(image) == (1, (1, 2), ())
    now, _errors = assign(image, (A, 0), (A, 1))
    assert state(now, 0) == (2, (2,), (1,))
    assert state(now, 1) == (NO_LEADER, (), (1,))
    assert state(after(now), 1) == (1, (1,), ())


def test_a_replica_may_be_lost_without_a_word_on_where() -> None:
    now, errors = assign(cluster(partition((1, 2), (1, 2), 1)), (LOST_DIRECTORY, 0))
    assert errors == [None]
    assert state(now) == (2, (2,), (1,))


def test_a_replica_that_is_named_twice_lies_where_it_was_named_last() -> None:
    now, errors = assign(cluster(partition((1, 2), (1, 2), 1)), (A, 0), (B, 0))
    assert errors == [None, None]
    assert at(now).directory_of(1) == B


def test_what_cannot_be_is_refused_one_by_one() -> None:
    image = cluster(partition((1, 2), (1, 2), 1), partition((2, 3), (2, 3), 2))
    placements = [
        Placement(directory=A, topic_id=UUID(int=77), partition=0),
        Placement(directory=A, topic_id=ORDERS, partition=2),
        Placement(directory=A, topic_id=ORDERS, partition=-1),
        Placement(directory=A, topic_id=ORDERS, partition=1),
        Placement(directory=TWO, topic_id=ORDERS, partition=0),
        Placement(directory=UNASSIGNED_DIRECTORY, topic_id=ORDERS, partition=0),
        Placement(directory=B, topic_id=ORDERS, partition=0),
    ]
    records, errors = decide_assign(image, image.brokers[1], placements, two_in_sync)
    assert [type(one) for one in errors] == [
        UnknownTopicId,
        UnknownTopic,
        UnknownTopic,
        NotLeader,
        LogDirNotFound,
        InvalidRequest,
        type(None),
    ]
    assert [one.directories for one in records] == [(B, NO_DIRECTORY)]


def test_below_the_level_nobody_may_say_where_replicas_lie() -> None:
    image = cluster(partition((1, 2), (1, 2), 1), level=KEEPS_ELIGIBLE)
    with pytest.raises(UnsupportedVersion):
        assign(image, (A, 0))


# --- new partitions and moves -----------------------------------------------------------------------


def test_a_new_replica_lies_in_the_only_directory_of_its_node() -> None:
    record = new_partition(cluster(), UUID(int=77), 0, (1, 2, 3))
    assert record.directories == (UNASSIGNED_DIRECTORY, TWO, THREE)
    older = new_partition(cluster(level=KEEPS_ELIGIBLE), UUID(int=77), 0, (1, 2, 3))
    assert older.directories == (NO_DIRECTORY,) * 3


def test_a_move_leaves_the_directories_of_those_that_stay() -> None:
    image = cluster(in_a())
    command = Reassignment(topic="orders", partition=0, replicas=(3, 1))
    decided = decide_reassign(image, [command], rules=two_in_sync)
    moving = at(apply(image, decided.records))
    assert (moving.replicas, moving.directories) == ((3, 1, 2), (THREE, A, TWO))
    back = decide_reassign(
        apply(image, decided.records), [replace(command, replicas=None)], rules=two_in_sync
    )
    ended = at(apply(apply(image, decided.records), back.records))
    assert {one: ended.directory_of(one) for one in ended.replicas} == {1: A, 2: TWO}


def test_clients_are_told_of_replicas_in_offline_directories() -> None:
    now = after(cluster(in_a(), in_b(), partition((1, 2), (1, 2), 1)), A)
    up = {1, 2, 3}
    assert [now.offline_replicas(at(now, index), up) for index in range(3)] == [[1], [], []]
    assert now.offline_replicas(at(now, 1), {1}) == [2]
    assert now.offline_replicas(at(now, 2), {1}) == [2]
