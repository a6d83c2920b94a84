"""Eligible leaders (KIP-966): who has all that is committed without being in sync, and who leads then."""

from dataclasses import replace
from itertools import combinations, permutations
from uuid import UUID

import pytest

from millpond.metadata.configs import BrokerConfig
from millpond.metadata.elections import (
    InSyncRequest,
    decide_elections,
    decide_eligible,
    decide_emptied,
    decide_in_sync,
    decide_led,
    decide_started,
    decide_stopped,
    decide_unsure,
    rules_of,
)
from millpond.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    Direction,
    FeatureChange,
    decide_update_features,
)
from millpond.metadata.image import Image, PartitionImage, apply
from millpond.metadata.levels import MILLPOND_VERSION
from millpond.metadata.nodes import Registration, decide_fence, decide_register
from millpond.metadata.partition_change import Election
from millpond.metadata.reassignments import Reassignment, decide_reassign
from millpond.metadata.records import (
    NO_LEADER,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
)
from millpond.metadata.sessions import Sessions
from tests.support.cluster.cluster_facts import (
    KEEPS_ELIGIBLE,
    KNOWS_DIRECTORIES,
    ORDERS,
    node,
    orders,
    partition,
    two_in_sync,
)


def first(image: Image) -> PartitionImage:
    return image.topics["orders"].partitions[0]


def three(one: PartitionImage, *, down: tuple[int, ...] = ()) -> Image:
    """The nodes 1 to 3, some down, with one partition."""
    return orders(one, nodes=[node(number, fenced=number in down) for number in (1, 2, 3)])


def down(image: Image, *nodes: int) -> Image:
    """They die, one after the other, and are fenced."""
    for number in nodes:
        image = apply(image, decide_fence(image, image.brokers[number], two_in_sync))
    return image


def registered(
    image: Image,
    number: int,
    previous_epoch: int,
    previous_incarnations: tuple[UUID, ...] = (),
    *,
    incarnation: UUID | None = None,
    is_short: bool = False,
) -> Image:
    """A new life of a node registers; ``is_short``: it names what it lost of the partition."""
    command = Registration(
        node_id=number,
        cluster_id="c",
        incarnation_id=incarnation or UUID(int=100 + number),
        end_points=(),
        rack=None,
        log_dirs=(UUID(int=1000 + number),),
        previous_epoch=previous_epoch,
        previous_incarnations=previous_incarnations,
        lost_replicas=((ORDERS, 0),) if is_short else (),
    )
    decided = decide_register(
        image,
        command,
        Sessions(9000),
        cluster_id="c",
        next_offset=100,
        now_ms=0,
        rules=two_in_sync,
    )
    return apply(image, decided.records)


def up(image: Image, number: int, previous_epoch: int = -1) -> Image:
    """It registers, and serves."""
    image = registered(image, number, previous_epoch)
    return apply(image, decide_started(image, number, two_in_sync))


# --- who is eligible --------------------------------------------------------------------------------


def test_nobody_is_eligible_while_enough_are_in_sync() -> None:
    after = first(down(three(partition((1, 2, 3), (1, 2, 3), 1)), 3))
    assert (after.isr, after.eligible_leaders) == ((1, 2), ())


def test_who_leaves_too_few_in_sync_is_eligible_and_who_left_before_is_not() -> None:
    after = first(down(three(partition((1, 2, 3), (1, 2, 3), 1)), 3, 2))
    assert (after.leader, after.isr, after.eligible_leaders) == (1, (1,), (2,))


def test_a_leader_that_gives_up_two_at_once_leaves_both_eligible() -> None:
    before = three(partition((1, 2, 3), (1, 2, 3), 1))
    wish = InSyncRequest(topic_id=ORDERS, partition=0, leader_epoch=5, partition_epoch=7, isr=(1,))
    records, _ = decide_in_sync(before, 1, [wish], two_in_sync)
    assert first(apply(before, records)).eligible_leaders == (2, 3)


def test_nobody_is_eligible_any_more_when_enough_are_in_sync_again() -> None:
    before = three(partition((1, 2, 3), (1,), 1, eligible=(2,)), down=(2,))
    wish = InSyncRequest(
        topic_id=ORDERS, partition=0, leader_epoch=5, partition_epoch=7, isr=(1, 3)
    )
    records, _ = decide_in_sync(before, 1, [wish], two_in_sync)
    after = first(apply(before, records))
    assert (after.isr, after.eligible_leaders) == ((1, 3), ())


def test_the_last_in_sync_replica_is_struck_off_and_eligible() -> None:
    after = first(down(three(partition((1, 2, 3), (1, 2, 3), 1)), 3, 2, 1))
    assert (after.leader, after.isr, after.eligible_leaders) == (NO_LEADER, (), (1, 2))
    assert after.last_known_leaders == (1,)


def test_a_replica_that_moves_away_is_not_eligible() -> None:
    before = three(partition((1, 2, 3), (1,), 1, eligible=(2,)))
    command = Reassignment(topic="orders", partition=0, replicas=[1])
    decision = decide_reassign(before, [command], rules=two_in_sync)
    after = first(apply(before, decision.records))
    assert (after.replicas, after.isr, after.eligible_leaders) == ((1,), (1,), ())


# --- who leads ---------------------------------------------------------------------------------------


def test_an_eligible_replica_leads_when_nobody_is_in_sync() -> None:
    waiting = down(three(partition((1, 2, 3), (1, 2, 3), 1)), 3, 2, 1)
    assert first(up(waiting, 3)).leader == NO_LEADER
    after = first(up(waiting, 2, previous_epoch=20))
    assert (after.leader, after.isr, after.eligible_leaders) == (2, (2,), (1,))
    assert (after.recovering, after.last_known_leaders) == (False, ())


def test_whose_disk_may_lack_something_is_neither_in_sync_nor_eligible() -> None:
    """The story of one power cut: two followers were killed, the leader lost its power, all come back."""
    image = down(three(partition((1, 2, 3), (1, 2, 3), 1)), 3, 2, 1)
    image = up(image, 1)
    assert (first(image).leader, first(image).eligible_leaders) == (NO_LEADER, (2,))
    image = up(up(image, 3, previous_epoch=30), 2, previous_epoch=20)
    assert (first(image).leader, first(image).isr) == (2, (2,))


def test_a_node_that_was_killed_before_it_heard_of_its_registration_has_lost_nothing() -> None:
    """It does not know the epoch; it knows the incarnations that asked for one."""
    image = down(three(partition((1, 2, 3), (1, 2, 3), 1)), 3, 2)
    image = registered(image, 2, previous_epoch=20)
    unheard = image.brokers[2]
    assert unheard.broker_epoch != 20
    others = (UUID(int=7), unheard.incarnation_id, UUID(int=8))
    again = registered(image, 2, 20, others, incarnation=UUID(int=9))
    assert first(again).eligible_leaders == (2,)
    unknown = registered(image, 2, 20, (UUID(int=7),), incarnation=UUID(int=9))
    assert first(unknown).eligible_leaders == ()


def test_a_leader_that_comes_back_before_it_was_missed_has_lost_what_it_led() -> None:
    before = three(partition((1, 2, 3), (1, 2), 1))
    after = first(registered(before, 1, -1))
    assert (after.leader, after.isr, after.eligible_leaders) == (2, (2,), ())
    kept = first(registered(before, 1, 10))
    assert (kept.leader, kept.isr, kept.eligible_leaders) == (2, (2,), (1,))


def test_a_word_about_another_epoch_is_not_believed() -> None:
    before = three(partition((1, 2, 3), (1,), 1, eligible=(2,)), down=(2,))
    assert first(registered(before, 2, 19)).eligible_leaders == ()
    assert first(registered(before, 2, 20)).eligible_leaders == (2,)


@pytest.mark.parametrize("replicas", [(1,), (1, 2, 3)])
def test_where_nobody_is_left_the_last_leader_leads_again(replicas: tuple[int, ...]) -> None:
    image = down(three(partition(replicas, (1,), 1), down=(2, 3)), 1)
    image = registered(image, 1, -1)
    assert (first(image).isr, first(image).eligible_leaders) == ((), ())
    assert first(up(image, 2)).leader == NO_LEADER
    after = first(up(image, 1))
    assert (after.leader, after.isr, after.recovering) == (1, (1,), True)
    assert after.last_known_leaders == ()


def test_a_last_leader_whose_disk_was_replaced_does_not_lead() -> None:
    image = down(three(partition((1, 2, 3), (1,), 1)), 1)
    image = apply(image, decide_emptied(image, 1, two_in_sync))
    assert (first(image).eligible_leaders, first(image).last_known_leaders) == ((), ())
    assert decide_started(image, 1, two_in_sync) == []


def test_an_unclean_election_leaves_nobody_eligible() -> None:
    before = three(partition((1, 2, 3), (), NO_LEADER, eligible=(1,), last_known=(1,)), down=(1,))
    records, (result,) = decide_elections(before, Election.UNCLEAN, [("orders", 0)], two_in_sync)
    after = first(apply(before, records))
    assert result.error is None
    assert (after.leader, after.isr, after.recovering) == (2, (2,), True)
    assert (after.eligible_leaders, after.last_known_leaders) == ((), ())


# --- several last known leaders -----------------------------------------------------------------------


def several(one: PartitionImage, *, down: tuple[int, ...] = ()) -> Image:
    """The nodes 1 to 3 at the level at which several last known leaders are kept."""
    return apply(three(one, down=down), KNOWS_DIRECTORIES)


def started(image: Image, number: int) -> Image:
    """A node that has registered serves."""
    records = decide_started(image, number, two_in_sync)
    serves = BrokerRegistrationChangeRecord(
        broker_id=number, broker_epoch=image.brokers[number].broker_epoch, fenced=False
    )
    return apply(image, [serves, *records])


SHORT = [set(one) for size in range(4) for one in combinations((1, 2, 3), size)]


@pytest.mark.parametrize("fenced", [(), (1,), (2, 3), (1, 2, 3), (3, 2, 1)])
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("short", SHORT, ids=str)
def test_after_all_nodes_ended_a_replica_that_named_its_loss_leads_only_if_all_have(
    short: set[int], power: bool, at_once: bool, fenced: tuple[int, ...]
) -> None:
    """In whatever order they come back, and whether the controller has missed them before or not."""
    for order in permutations((1, 2, 3)):
        image = down(several(partition((1, 2, 3), (1, 2, 3), 1)), *fenced)
        for number in order:
            epoch = -1 if power else 10 * number
            image = registered(image, number, epoch, is_short=number in short)
            if at_once:
                image = started(image, number)
        if not at_once:
            for number in order:
                image = started(image, number)
        after = first(image)
        assert after.leader != NO_LEADER
        assert after.leader not in short or short == {1, 2, 3}
        assert after.last_known_leaders == () or not after.recovering


def test_the_replica_that_lost_its_place_last_is_waited_for() -> None:
    """The others may lack what it committed after they had lost theirs."""
    image = several(partition((1, 2, 3), (1, 2, 3), 1))
    for number in (2, 1, 3):
        image = registered(image, number, -1)
    assert first(image).last_known_leaders == (3, 1, 2)
    assert first(started(image, 2)).leader == NO_LEADER
    after = first(started(started(image, 2), 3))
    assert (after.leader, after.isr, after.last_known_leaders) == (3, (3,), ())


def test_a_replica_that_names_its_loss_later_makes_room_for_the_next() -> None:
    image = several(partition((1, 2, 3), (), NO_LEADER, last_known=(1, 2)), down=(1, 2, 3))
    image = registered(image, 1, -1, is_short=True)
    assert first(image).last_known_leaders == (2,)
    assert first(started(image, 1)).leader == NO_LEADER
    assert first(up(image, 2)).leader == 2


def test_a_leader_that_runs_ends_the_list_of_last_known_leaders() -> None:
    image = registered(several(partition((1, 2, 3), (1, 2, 3), 1)), 3, -1)
    assert (first(image).leader, first(image).last_known_leaders) == (1, (3,))
    assert decide_led(image, two_in_sync, lambda _node: False, at_most=10) == []
    records = decide_led(image, two_in_sync, lambda node: node == 1, at_most=10)
    after = first(apply(image, records))
    assert (after.leader, after.isr, after.last_known_leaders) == (1, (1, 2), ())
    assert after.leader_epoch == first(image).leader_epoch
    wish = InSyncRequest(
        topic_id=ORDERS,
        partition=0,
        leader_epoch=first(image).leader_epoch,
        partition_epoch=first(image).partition_epoch,
        isr=(1,),
    )
    records, _ = decide_in_sync(image, 1, [wish], two_in_sync)
    assert first(apply(image, records)).last_known_leaders == ()


def test_a_node_that_stops_as_it_should_is_no_last_known_leader() -> None:
    image = several(partition((1, 2, 3), (1, 2, 3), 1))
    records = decide_stopped(image, 3, two_in_sync)
    assert first(apply(image, records)).last_known_leaders == ()
    assert first(down(image, 3)).last_known_leaders == (3,)


def test_below_the_level_one_last_known_leader_is_kept() -> None:
    """A controller of an older release elects none of several."""
    image = apply(three(partition((1, 2, 3), (1, 2, 3), 1)), KEEPS_ELIGIBLE)
    for number in (1, 2):
        image = registered(image, number, -1)
        assert first(image).last_known_leaders == ()
    image = registered(image, 3, -1)
    assert first(image).last_known_leaders == (3,)


# --- settings and levels ------------------------------------------------------------------------------


def min_isr(value: str | None, *, resource_type: int, name: str) -> ConfigRecord:
    return ConfigRecord(
        resource_type=resource_type, resource_name=name, name="min.insync.replicas", value=value
    )


def rules_say(image: Image, **static: int) -> int | None:
    broker = BrokerConfig({name.replace("_", "."): value for name, value in static.items()})
    return rules_of(image, broker).min_isr("orders")


def test_how_many_must_be_in_sync_is_what_a_leader_goes_by() -> None:
    image = apply(orders(), KEEPS_ELIGIBLE)
    assert rules_say(image) == 1
    assert rules_say(image, min_insync_replicas=3) == 3
    image = apply(image, [min_isr("2", resource_type=RESOURCE_BROKER, name="")])
    assert rules_say(image, min_insync_replicas=3) == 2
    one = apply(image, [min_isr("1", resource_type=RESOURCE_BROKER, name="4")])
    assert rules_say(one) == 1
    own = apply(one, [min_isr("3", resource_type=RESOURCE_TOPIC, name="orders")])
    assert rules_say(own) == 3


def test_who_was_eligible_is_not_when_fewer_are_enough() -> None:
    before = three(partition((1, 2, 3), (1,), 1, eligible=(2,)), down=(2,))
    assert decide_eligible(before, two_in_sync) == []
    fewer = replace(two_in_sync, min_isr_of=lambda _topic: 1)
    assert first(apply(before, decide_eligible(before, fewer))).eligible_leaders == ()


def test_eligible_leaders_are_kept_when_every_release_here_knows_how() -> None:
    kafkas, ours = KEEPS_ELIGIBLE[1], KEEPS_ELIGIBLE[0]
    assert rules_say(apply(orders(), [kafkas])) is None
    assert rules_say(apply(orders(), [ours])) is None
    old = FeatureLevelRecord(name=MILLPOND_VERSION, feature_level=1)
    assert rules_say(apply(orders(), [kafkas, old])) is None
    assert rules_say(apply(orders(), [kafkas, ours])) == 1


def test_somebody_may_do_without_eligible_leaders_again() -> None:
    image = apply(
        orders(partition((1, 2, 3), (1,), 1, eligible=(2,)), nodes=[node(1), node(2), node(3)]),
        KEEPS_ELIGIBLE,
    )
    off = FeatureChange(name=ELIGIBLE_LEADER_REPLICAS, level=0, direction=Direction.SAFE_DOWNGRADE)
    image = replace(image, brokers={1: image.brokers[1]})
    image = apply(image, decide_update_features(image, [off], node_id=1))
    rules = rules_of(image, BrokerConfig())
    assert rules.min_isr("orders") is None
    after = first(apply(image, decide_stopped(image, 1, rules)))
    # As it was before: the last is waited for; and who was eligible still is, where nobody is in sync.
    assert (after.isr, after.leader) == ((1,), NO_LEADER)


def test_before_every_node_is_new_the_last_in_sync_replica_is_believed() -> None:
    image = three(partition((1, 2, 3), (1,), 1), down=(2, 3))
    rules = rules_of(image, BrokerConfig())
    image = apply(image, decide_fence(image, image.brokers[1], rules))
    assert (first(image).isr, first(image).eligible_leaders) == ((1,), ())
    assert first(image).last_known_leaders == ()
    assert first(apply(image, decide_unsure(image, 2, rules))).isr == (1,)
