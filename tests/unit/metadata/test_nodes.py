"""Nodes join, are heard of, fall silent, stop and are forgotten."""

from dataclasses import replace
from uuid import UUID

import pytest

from millpond.base.errors import (
    DuplicateRegistration,
    InvalidRegistration,
    MillpondError,
    NodeNotRegistered,
    StaleBrokerEpoch,
    UnsupportedVersion,
    WrongCluster,
)
from millpond.metadata.elections import decide_emptied
from millpond.metadata.image import Image, apply
from millpond.metadata.nodes import (
    Heartbeat,
    HeartbeatDecision,
    Registered,
    Registration,
    decide_fence,
    decide_heartbeat,
    decide_register,
    decide_unregister,
)
from millpond.metadata.records import (
    NO_LEADER,
    BrokerEndpoint,
    FeatureLevelRecord,
    FeatureLevels,
)
from millpond.metadata.sessions import OwnSession, Sessions
from tests.support.cluster.cluster_facts import always, never, node, orders, partition

POINT = BrokerEndpoint(name="PLAINTEXT", host="h", port=9092)
FIVE = Registration(
    node_id=5,
    cluster_id="c",
    incarnation_id=UUID(int=5),
    end_points=(POINT,),
    rack="r",
    log_dirs=(UUID(int=1005),),
)
TWO_AGAIN = replace(FIVE, node_id=2, incarnation_id=UUID(int=222), log_dirs=(UUID(int=1002),))


def register(
    image: Image, command: Registration, sessions: Sessions | None = None, *, now_ms: int = 0
) -> Registered:
    return decide_register(
        image,
        command,
        sessions or Sessions(9000),
        cluster_id="c",
        next_offset=100,
        now_ms=now_ms,
        rules=never,
    )


def beat(
    image: Image, command: Heartbeat, sessions: Sessions | None = None
) -> tuple[HeartbeatDecision, Image]:
    decision = decide_heartbeat(image, command, sessions or Sessions(9000), rules=never)
    return decision, apply(image, decision.records)


# --- joining ----------------------------------------------------------------------------------------


def test_a_new_node_is_known_and_fenced_and_its_epoch_is_where_it_stands() -> None:
    decided = register(Image(), FIVE)
    broker = apply(Image(), decided.records).brokers[5]
    assert decided.broker_epoch == broker.broker_epoch == 100
    assert broker.fenced
    assert (broker.rack, broker.end_points, broker.log_dirs) == ("r", (POINT,), FIVE.log_dirs)


def test_a_node_of_another_cluster_is_refused() -> None:
    with pytest.raises(WrongCluster, match="Expected cluster ID c"):
        register(Image(), replace(FIVE, cluster_id="other"))


def test_a_second_node_with_the_id_of_a_running_one_is_refused_until_that_falls_silent() -> None:
    image = orders()
    sessions = Sessions(9000)
    sessions.hear(2, 1000)
    with pytest.raises(DuplicateRegistration):
        register(image, TWO_AGAIN, sessions, now_ms=9999)
    assert register(image, TWO_AGAIN, sessions, now_ms=10_000).broker_epoch >= 100


def test_a_new_controller_knows_a_node_that_started_again_by_its_directory() -> None:
    image = orders()
    sessions = Sessions(9000)
    sessions.begin(image, 0)
    with pytest.raises(DuplicateRegistration):
        register(image, replace(TWO_AGAIN, log_dirs=(UUID(int=7),)), sessions, now_ms=1)
    assert register(image, TWO_AGAIN, sessions, now_ms=1).broker_epoch >= 100


def test_who_registers_twice_in_one_life_keeps_epoch_and_state() -> None:
    image = orders()
    sessions = Sessions(9000)
    sessions.hear(2, 0)
    again = replace(TWO_AGAIN, incarnation_id=UUID(int=2), rack="new")
    decided = register(image, again, sessions)
    broker = apply(image, decided.records).brokers[2]
    assert (decided.broker_epoch, broker.broker_epoch, broker.fenced) == (20, 20, False)
    assert broker.rack == "new"


def test_a_node_that_starts_again_without_having_stopped_leads_nothing_and_is_not_in_sync() -> None:
    image = orders(partition((2, 1), (1, 2), 2), partition((2,), (2,), 2))
    decided = register(image, TWO_AGAIN)
    after = apply(image, decided.records)
    one, alone = after.topics["orders"].partitions
    assert (one.leader, one.isr) == (1, (1,))
    assert (alone.leader, alone.isr) == (NO_LEADER, (2,))
    assert after.brokers[2].broker_epoch == decided.broker_epoch == 102
    assert after.brokers[2].fenced


@pytest.mark.parametrize("fenced", [False, True])
def test_a_node_with_another_disk_does_not_lead_what_others_have_copies_of(fenced: bool) -> None:
    image = orders(
        partition((2, 1), (2,), NO_LEADER if fenced else 2),
        partition((2,), (2,), NO_LEADER if fenced else 2),
        nodes=[node(1), node(2, fenced=fenced)],
    )
    emptied = replace(TWO_AGAIN, log_dirs=(UUID(int=7),))
    decided = register(image, emptied)
    after = apply(image, decided.records)
    copied, alone = after.topics["orders"].partitions
    assert (copied.leader, copied.isr) == (NO_LEADER, ())
    assert (alone.leader, alone.isr) == (NO_LEADER, (2,))
    assert decided.broker_epoch == 100 + len(decided.records) - 1

    beating = Heartbeat(node_id=2, broker_epoch=decided.broker_epoch, metadata_offset=1000)
    copied, alone = beat(after, beating)[1].topics["orders"].partitions
    assert copied.leader == NO_LEADER, "the copy at node 1 would be cut to nothing"
    assert alone.leader == 2, "there is no other copy to be cut"


def test_a_node_with_another_disk_gives_way_to_an_old_copy_where_that_is_allowed() -> None:
    image = orders(partition((2, 1), (2,), 2))
    records = decide_emptied(image, 2, always)
    (after,) = apply(image, records).topics["orders"].partitions
    assert (after.leader, after.isr) == (1, (1,))


def test_the_copy_of_a_directory_is_refused() -> None:
    with pytest.raises(InvalidRegistration, match="copy"):
        register(orders(), replace(FIVE, log_dirs=(UUID(int=1003),)))


def test_a_node_that_does_not_understand_the_clusters_features_is_refused() -> None:
    image = apply(Image(), [FeatureLevelRecord(name="metadata.version", feature_level=30)])
    old = (FeatureLevels(name="metadata.version", lowest=7, highest=25),)
    with pytest.raises(UnsupportedVersion, match="version 30"):
        register(image, replace(FIVE, features=old))
    new = (FeatureLevels(name="metadata.version", lowest=7, highest=30),)
    register(image, replace(FIVE, features=new))


# --- heartbeats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [19, 21])
def test_a_heartbeat_of_another_life_is_refused(epoch: int) -> None:
    with pytest.raises(StaleBrokerEpoch):
        beat(orders(), Heartbeat(node_id=2, broker_epoch=epoch, metadata_offset=99))
    with pytest.raises(StaleBrokerEpoch):
        beat(orders(), Heartbeat(node_id=9, broker_epoch=epoch, metadata_offset=99))


def test_a_node_serves_when_it_has_read_its_own_registration() -> None:
    image = orders(partition((2,), (2,), NO_LEADER), nodes=[node(1), node(2, fenced=True)])
    behind, same = beat(image, Heartbeat(node_id=2, broker_epoch=20, metadata_offset=19))
    assert (behind.is_caught_up, behind.is_fenced, same) == (False, True, image)
    ready, after = beat(image, Heartbeat(node_id=2, broker_epoch=20, metadata_offset=20))
    assert (ready.is_caught_up, ready.is_fenced) == (True, False)
    assert after.is_active(2)
    assert after.topics["orders"].partitions[0].leader == 2


def test_a_node_may_ask_to_stay_fenced() -> None:
    image = orders(nodes=[node(2, fenced=True)])
    waiting, after = beat(
        image, Heartbeat(node_id=2, broker_epoch=20, metadata_offset=99, wants_fence=True)
    )
    assert (waiting.is_fenced, after) == (True, image)


def test_a_node_that_stops_hands_over_first_and_goes_when_the_others_know() -> None:
    image = orders(partition((2, 1), (1, 2), 2), nodes=[node(1), node(2)])
    sessions = Sessions(9000)
    sessions.hear(1, 0, metadata_offset=50)
    sessions.hear(2, 0, metadata_offset=50)
    asks = Heartbeat(node_id=2, broker_epoch=20, metadata_offset=50, wants_stop=True)
    begun, stopping = beat(image, asks, sessions)
    assert (begun.begins_to_stop, begun.may_stop, begun.is_fenced) == (True, False, False)
    assert stopping.brokers[2].in_controlled_shutdown
    assert stopping.topics["orders"].partitions[0].leader == 1
    assert stopping.topics["orders"].partitions[0].isr == (1,)

    sessions.wants_stop(2, 60)
    waits, _ = beat(stopping, asks, sessions)
    assert (waits.may_stop, waits.records) == (False, ())
    sessions.hear(1, 0, metadata_offset=60)
    goes, gone = beat(stopping, asks, sessions)
    assert (goes.may_stop, goes.is_fenced) == (True, True)
    assert gone.brokers[2].fenced


def test_a_node_that_has_stopped_comes_back_only_by_registering_again() -> None:
    image = orders(nodes=[node(1), node(2, fenced=True, stopping=True)])
    still, after = beat(image, Heartbeat(node_id=2, broker_epoch=20, metadata_offset=50))
    assert (still.is_fenced, still.may_stop, after) == (True, True, image)
    back = apply(image, register(image, TWO_AGAIN).records)
    assert not back.brokers[2].in_controlled_shutdown


@pytest.mark.parametrize("fenced", [False, True])
def test_a_node_that_leads_nothing_may_stop_at_once(fenced: bool) -> None:
    image = orders(partition((1, 2), (1, 2), 1), nodes=[node(1), node(2, fenced=fenced)])
    goes, gone = beat(
        image, Heartbeat(node_id=2, broker_epoch=20, metadata_offset=50, wants_stop=True)
    )
    assert goes.may_stop
    assert gone.brokers[2].fenced
    if not fenced:
        assert gone.topics["orders"].partitions[0].isr == (1,)


# --- falling silent ---------------------------------------------------------------------------------


def test_who_is_silent_for_a_session_is_late_and_the_longest_silent_comes_first() -> None:
    image = orders(nodes=[node(1), node(2), node(3, fenced=True)])
    sessions = Sessions(9000)
    sessions.hear(2, 500)
    sessions.hear(1, 1000)
    assert sessions.late(image, 9499) == []
    assert sessions.late(image, 9500) == [2]
    assert sessions.late(image, 10_000) == [2, 1]


def test_a_controller_that_takes_over_gives_everyone_a_whole_session() -> None:
    image = orders(nodes=[node(1), node(2)])
    sessions = Sessions(9000)
    sessions.hear(1, 0)
    sessions.begin(image, 8000)
    assert sessions.late(image, 16_999) == []
    assert sessions.late(image, 17_000) == [1, 2]


def test_a_node_that_is_fenced_leads_nothing() -> None:
    image = orders(partition((2, 1), (1, 2), 2), nodes=[node(1), node(2)])
    after = apply(image, decide_fence(image, image.brokers[2], never))
    assert after.topics["orders"].partitions[0].leader == 1
    assert after.brokers[2].fenced


def test_a_node_that_was_given_up_is_let_in_when_it_has_read_who_leads_instead() -> None:
    image = orders(partition((2, 1), (1, 2), 2), nodes=[node(1), node(2)])
    sessions = Sessions(9000)
    sessions.give_up(2, last_offset=77)
    fenced = apply(image, decide_fence(image, image.brokers[2], never))
    back = Heartbeat(
        node_id=2, broker_epoch=20, metadata_offset=76, wants_fence=False, wants_stop=False
    )
    still, _ = beat(fenced, back, sessions)
    assert (still.is_caught_up, still.is_fenced, still.records) == (False, True, ())
    known, after = beat(fenced, replace(back, metadata_offset=77), sessions)
    assert (known.is_caught_up, known.is_fenced) == (True, False)
    assert not after.brokers[2].fenced


def test_a_controller_that_takes_over_lets_in_who_has_read_all_that_it_found() -> None:
    image = orders(nodes=[node(1), node(2, fenced=True)])
    sessions = Sessions(9000)
    sessions.begin(image, 0, last_offset=90)
    assert (sessions.must_know(1), sessions.must_know(2)) == (-1, 90)


def test_an_own_session_ends_when_the_controller_says_so() -> None:
    session = OwnSession(9000)
    session.renew(1000)
    session.end(2000)
    assert session.is_over(2000)
    session.renew(2500)
    assert not session.is_over(3000)


# --- being forgotten --------------------------------------------------------------------------------


def test_a_node_that_is_forgotten_leads_nothing_and_may_come_back_as_new() -> None:
    image = orders(partition((2, 1), (1, 2), 2), nodes=[node(1), node(2)])
    after = apply(image, decide_unregister(image, 2, never))
    assert 2 not in after.brokers
    assert after.topics["orders"].partitions[0].isr == (1,)
    assert register(after, TWO_AGAIN).broker_epoch == 100


def test_a_node_that_was_forgotten_while_last_in_sync_does_not_lead_with_whatever_disk_it_brings() -> (
    None
):
    image = orders(partition((2, 1), (2,), 2), nodes=[node(1), node(2)])
    after = apply(image, decide_unregister(image, 2, never))
    only = after.topics["orders"].partitions[0]
    assert (only.isr, only.leader) == ((), NO_LEADER)
    emptied = replace(TWO_AGAIN, log_dirs=(UUID(int=9999),))
    after = apply(after, register(after, emptied).records)
    beaten = Heartbeat(node_id=2, broker_epoch=100, metadata_offset=100)
    _, after = beat(after, beaten)
    assert after.brokers[2].is_active
    assert after.topics["orders"].partitions[0].leader == NO_LEADER


def test_nobody_is_forgotten_who_was_not_there() -> None:
    error: type[MillpondError] = NodeNotRegistered
    with pytest.raises(error, match="Broker ID 9 is not currently registered"):
        decide_unregister(orders(), 9, never)


def test_a_node_knows_that_its_session_is_over_before_the_controller_does() -> None:
    session, sessions = OwnSession(9000), Sessions(9000)
    assert not session.is_over(10**9)  # nobody elsewhere has to be heard of
    sessions.hear(1, 1_004)
    session.renew(1_000)
    assert not session.is_over(9_999)
    assert session.is_over(10_000)
    assert sessions.is_live(1, 10_000)


def test_a_late_answer_renews_a_session_only_from_when_it_was_asked_for() -> None:
    session = OwnSession(9000)
    session.renew(5_000)
    session.renew(1_000)
    assert not session.is_over(13_999)
    assert session.is_over(14_000)
    session.renew(12_000)
    assert not session.is_over(14_000)
