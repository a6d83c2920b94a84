"""Stories of classic groups: joining, agreeing, leaving, failing, coming back."""

from typing import Any

import pytest

from millpond.base.errors import (
    GroupFull,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberFenced,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from millpond.group.classic.records import GroupStored
from millpond.group.messages import GroupSettings, Leave, LeavingMember
from tests.support.kafka.group_host import GROUP, Desk, Reader, RefusedByLog


def test_a_member_is_first_told_its_id_and_then_let_in() -> None:
    desk = Desk()
    stranger = desk.join()
    assert stranger.answer.error is MemberIdRequired
    assert stranger.answer.member_id == "client-0001"

    reader = desk.learn(Reader(), desk.join(Reader(member_id="client-0001")))
    assert reader.is_leader
    assert reader.generation == 1
    assert reader.member_ids == ("client-0001",)
    assert desk.state == "CompletingRebalance"


def test_an_old_client_is_let_in_without_the_extra_round() -> None:
    desk = Desk()
    reader = desk.learn(Reader(), desk.join(member_id_required=False))
    assert reader.generation == 1


def test_the_leader_plans_and_everyone_gets_a_part() -> None:
    desk = Desk()
    first, second = desk.gather(2)

    assert desk.state == "Stable"
    assert first.generation == second.generation
    assert first.assignment == first.member_id.encode()
    assert second.assignment == second.member_id.encode()
    assert [first.is_leader, second.is_leader] == [True, False]


def test_only_the_leader_sees_the_members() -> None:
    desk = Desk()
    (first,) = desk.gather(1)
    newcomer = desk.invite()
    waiting = desk.join(newcomer)
    assert waiting.is_parked  # the first member has not joined yet
    assert desk.heartbeat(first) is RebalanceInProgress

    desk.learn(first, desk.join(first))
    desk.learn(newcomer, waiting)
    assert first.member_ids == (first.member_id, newcomer.member_id)
    assert newcomer.member_ids == ()


def test_a_late_member_learns_its_assignment_after_the_plan_is_stored() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    waiting = desk.sync(second)
    assert waiting.answer.assignment == second.assignment
    assert first.assignment != second.assignment


def test_whom_the_leader_forgets_has_nothing_to_do() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    for reader, waiting in [(first, desk.join(first)), (second, desk.join(second))]:
        desk.learn(reader, waiting)
    parked = desk.sync(second)
    desk.sync(first, {first.member_id: b"all of it"})
    assert parked.answer.error is None
    assert parked.answer.assignment == b""


def test_a_follower_that_joins_again_unchanged_disturbs_nobody() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    again = desk.join(second)
    assert again.answer.generation == second.generation
    assert again.answer.leader == first.member_id
    assert desk.state == "Stable"


def test_the_leader_that_joins_again_starts_a_rebalance() -> None:
    # This is how a leader says that topics or their partitions have changed (K35, K36).
    desk = Desk()
    first, second = desk.gather(2)
    waiting = desk.join(first)
    assert waiting.is_parked
    assert desk.state == "PreparingRebalance"
    assert desk.heartbeat(second) is RebalanceInProgress


def test_a_member_with_new_metadata_starts_a_rebalance() -> None:
    desk = Desk()
    _first, second = desk.gather(2)
    waiting = desk.join(second, protocols=(("range", b"other topics"),))
    assert waiting.is_parked
    assert desk.state == "PreparingRebalance"


def test_a_lost_join_answer_is_given_again() -> None:
    desk = Desk()
    reader = desk.invite()
    desk.learn(reader, desk.join(reader))
    again = desk.join(reader)
    assert again.answer.generation == reader.generation
    assert [member.member_id for member in again.answer.members] == [reader.member_id]


def test_leaving_is_immediate() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    assert desk.leave(second) == (None,)
    assert desk.state == "PreparingRebalance"
    assert desk.heartbeat(first) is RebalanceInProgress
    assert desk.heartbeat(second) is UnknownMember

    desk.rebalance([first])
    assert desk.state == "Stable"
    assert first.member_ids == (first.member_id,)


def test_when_the_leader_leaves_another_leads() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    desk.leave(first)
    desk.rebalance([second])
    assert second.is_leader


def test_the_last_one_out_leaves_an_empty_group_behind() -> None:
    desk = Desk()
    (only,) = desk.gather(1)
    desk.leave(only)
    assert desk.state == "Empty"
    record = desk.stored()[-1]
    assert isinstance(record, GroupStored)
    assert record.generation == only.generation + 1
    assert record.members == ()
    assert record.protocol is None
    assert record.protocol_type == "consumer"


def test_several_leave_in_one_rebalance_and_each_is_answered() -> None:
    desk = Desk()
    first, second, third = desk.gather(3)
    generation = third.generation
    assert desk.leave(first, Reader(member_id="nobody"), second) == (None, UnknownMember, None)
    desk.rebalance([third])
    assert third.generation == generation + 1


def test_a_crash_is_found_after_the_session_time_out_and_not_before() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    for _ in range(3):
        desk.pass_time(3_000)
        assert desk.heartbeat(first) is None
    assert desk.state == "Stable"

    desk.pass_time(1_001)  # 10 s since the second was last heard of
    assert desk.state == "PreparingRebalance"
    assert desk.heartbeat(first) is RebalanceInProgress
    assert desk.heartbeat(second) is UnknownMember


def test_a_group_of_dead_members_becomes_empty() -> None:
    desk = Desk()
    desk.gather(3)
    desk.pass_time(10_000)
    # One session ends, a rebalance starts, the others' sessions end in it.
    assert desk.state == "Empty"


def test_a_commit_keeps_a_session_alive() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    for offset in range(5):
        desk.pass_time(9_000)
        assert desk.commit(reader, offset) is None
    assert desk.state == "Stable"


def test_who_does_not_rejoin_in_time_is_out() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    waiting = desk.join(first)
    for _ in range(11):
        desk.pass_time(5_000)
        assert desk.heartbeat(second) is RebalanceInProgress  # alive, but does not join
    assert waiting.is_parked
    desk.pass_time(5_000)  # the rebalance time-out of 60 s
    assert waiting.answer.error is None
    assert [member.member_id for member in waiting.answer.members] == [first.member_id]
    assert desk.heartbeat(second) is UnknownMember


def test_when_the_leader_does_not_rejoin_in_time_another_is_elected() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    waiting = desk.join(second, protocols=(("range", b"other topics"),))
    for _ in range(12):
        desk.pass_time(5_000)
        desk.heartbeat(first)
    assert waiting.answer.leader == second.member_id
    assert waiting.answer.error is None


def test_a_parked_join_does_not_time_out() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    waiting = desk.join(first)
    for _ in range(5):
        desk.pass_time(9_000)
        desk.heartbeat(second)
    assert waiting.is_parked  # 45 s without a heartbeat, but it waits for us
    desk.learn(second, desk.join(second))
    assert waiting.answer.error is None


def test_who_joined_but_never_syncs_is_out() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    desk.rebalance([first, second])
    joins = [desk.join(first), desk.join(second)]
    desk.learn(first, joins[0])
    desk.learn(second, joins[1])
    desk.sync(first, {first.member_id: b"1", second.member_id: b"2"})
    assert desk.state == "Stable"
    for _ in range(12):
        desk.pass_time(5_000)
        desk.heartbeat(first)
        desk.heartbeat(second)
    assert desk.state == "PreparingRebalance"
    assert desk.heartbeat(second) is UnknownMember
    assert desk.heartbeat(first) is RebalanceInProgress


def test_an_id_that_is_never_used_expires() -> None:
    desk = Desk()
    (first,) = desk.gather(1)
    invited = desk.invite()
    for _ in range(3):
        desk.pass_time(4_000)
        desk.heartbeat(first)
    refused = desk.join(invited)
    assert refused.answer.error is UnknownMember
    assert desk.state == "Stable"


def test_a_rebalance_waits_for_ids_that_were_given_out() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    invited = desk.invite()
    waiting = [desk.join(first), desk.join(second)]
    assert all(each.is_parked for each in waiting)
    late = desk.join(invited)
    assert late.answer.generation == waiting[0].answer.generation


def test_an_invited_member_may_leave_before_it_joined() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    invited = desk.invite()
    waiting = [desk.join(first), desk.join(second)]
    assert desk.leave(invited) == (None,)
    assert all(each.answer.error is None for each in waiting)


def test_a_new_group_waits_for_company() -> None:
    desk = Desk(settings=GroupSettings(initial_rebalance_delay_ms=3_000))
    first = desk.invite()
    first_join = desk.join(first)
    desk.pass_time(2_000)
    second = desk.invite()
    second_join = desk.join(second)
    desk.pass_time(2_000)
    assert first_join.is_parked  # someone came: wait once more
    desk.pass_time(2_000)
    desk.learn(first, first_join)
    desk.learn(second, second_join)
    assert first.generation == second.generation == 1
    assert first.member_ids == (first.member_id, second.member_id)


def test_the_wait_for_company_ends_with_the_rebalance_time_out() -> None:
    desk = Desk(settings=GroupSettings(initial_rebalance_delay_ms=3_000))
    joins = []
    for _ in range(6):
        reader = desk.invite(rebalance_timeout_ms=9_000)
        joins.append(desk.join(reader, rebalance_timeout_ms=9_000))
        desk.pass_time(2_000)
    assert joins[0].answer.error is None  # after 9 s, although members kept coming
    assert joins[0].answer.generation == 1


def test_a_member_may_not_speak_of_another_generation() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    stale = reader.generation - 1
    assert desk.heartbeat(reader, generation=stale) is IllegalGeneration
    assert desk.sync(reader, generation=stale).answer.error is IllegalGeneration
    assert desk.commit(reader, 5, generation=stale) is IllegalGeneration
    assert desk.heartbeat(reader) is None


@pytest.mark.parametrize("members", [0, 1])
def test_strangers_are_unknown(members: int) -> None:
    desk = Desk()
    desk.gather(members)
    nobody = Reader(member_id="nobody", generation=1)
    assert desk.join(nobody).answer.error is UnknownMember
    assert desk.sync(nobody).answer.error is UnknownMember
    assert desk.heartbeat(nobody) is UnknownMember
    assert desk.leave(nobody) == (UnknownMember,)


def test_a_sync_during_a_rebalance_is_sent_back() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    desk.join(first)
    assert desk.sync(second).answer.error is RebalanceInProgress


def test_parked_syncs_are_sent_back_when_a_rebalance_starts() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    joins = [desk.join(first), desk.join(second)]
    desk.learn(first, joins[0])
    desk.learn(second, joins[1])
    parked = desk.sync(second)
    desk.leave(first)
    assert parked.answer.error is RebalanceInProgress


def test_a_sync_with_another_protocol_is_inconsistent() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    assert desk.sync(reader, protocol="sticky").answer.error is InconsistentGroupProtocol
    assert desk.sync(reader, protocol_type="connect").answer.error is InconsistentGroupProtocol
    assert desk.sync(reader, protocol_type="consumer", protocol="range").answer.error is None


def test_members_vote_for_a_protocol_that_all_have() -> None:
    desk = Desk(settings=GroupSettings(initial_rebalance_delay_ms=1_000))
    ballots = [
        (("sticky", b""), ("range", b""), ("robin", b"")),
        (("robin", b""), ("range", b"")),
        (("robin", b""), ("sticky", b""), ("range", b"")),
    ]
    joins = [desk.join(desk.invite(protocols=each), protocols=each) for each in ballots]
    desk.pass_time(3_000)
    assert {waiting.answer.protocol for waiting in joins} == {"robin"}  # two votes against one


def test_without_a_common_protocol_nobody_comes_in() -> None:
    desk = Desk()
    desk.gather(1)
    assert desk.join(protocols=(("sticky", b""),)).answer.error is InconsistentGroupProtocol
    assert desk.join(protocol_type="connect").answer.error is InconsistentGroupProtocol
    assert desk.state == "Stable"


@pytest.mark.parametrize("fields", [{"protocols": ()}, {"protocol_type": ""}])
def test_a_join_that_offers_nothing_makes_no_group(fields: dict[str, Any]) -> None:
    desk = Desk()
    assert desk.join(**fields).answer.error is InconsistentGroupProtocol
    assert desk.state == "Dead"
    assert desk.log == []


def test_session_time_outs_have_bounds() -> None:
    desk = Desk()
    assert desk.join(session_timeout_ms=5_999).answer.error is InvalidSessionTimeout
    assert desk.join(session_timeout_ms=1_800_001).answer.error is InvalidSessionTimeout
    assert desk.join(session_timeout_ms=6_000).answer.error is MemberIdRequired


def test_a_group_needs_a_name() -> None:
    desk = Desk()
    assert desk.join(group_id="").answer.error is InvalidGroupId
    assert desk.sync(Reader(), group_id="").answer.error is InvalidGroupId
    assert desk.heartbeat(Reader(), group_id="") is InvalidGroupId
    with pytest.raises(InvalidGroupId):
        desk.perform(Leave(group_id="", members=()))


def test_a_full_group_takes_nobody() -> None:
    desk = Desk(settings=GroupSettings(initial_rebalance_delay_ms=0, members_max=2))
    first, second = desk.gather(2)
    assert desk.join().answer.error is GroupFull
    desk.rebalance([first, second])  # members may always come back
    desk.leave(second)
    desk.rebalance([first])
    assert desk.join().answer.error is MemberIdRequired


def test_a_group_that_outgrew_a_lowered_limit_loses_its_last_joiners() -> None:
    desk = Desk()
    readers = desk.gather(3)
    desk.settings = GroupSettings(initial_rebalance_delay_ms=0, members_max=2)
    desk = desk.restart()
    assert desk.state == "PreparingRebalance"
    joins = [desk.join(reader) for reader in readers]
    assert joins[2].answer.error is GroupFull
    assert joins[0].answer.error is joins[1].answer.error is None


def test_a_second_join_replaces_the_first() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    lost = desk.join(first)
    waiting = desk.join(first)
    assert lost.answer.error is RebalanceInProgress
    desk.learn(second, desk.join(second))
    assert waiting.answer.error is None


def test_a_new_member_that_went_silent_holds_a_rebalance_for_five_minutes_at_most() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    newcomer = desk.join(desk.invite(), rebalance_timeout_ms=900_000)
    assert newcomer.is_parked
    for _ in range(60):
        desk.pass_time(5_000)
        desk.heartbeat(first)
        desk.heartbeat(second)
    assert newcomer.answer.error is UnknownMember


@pytest.mark.parametrize("length", [32_768, 5_000_000])
def test_a_name_that_no_record_can_hold_is_refused(length: int) -> None:
    desk = Desk()
    assert desk.join(group_id="x" * length).answer.error is InvalidGroupId
    assert desk.commit(None, 1, group_id="x" * length) is InvalidGroupId
    assert desk.log == []


def test_two_hundred_members_settle_in_one_generation() -> None:
    # K41: what a rebalance costs the coordinator grows with its members, not with their square.
    desk = Desk(settings=GroupSettings(initial_rebalance_delay_ms=3_000))
    readers = [desk.invite(rebalance_timeout_ms=300_000) for _ in range(200)]
    joins = [desk.join(reader, rebalance_timeout_ms=300_000) for reader in readers]
    desk.pass_time(6_000)
    for reader, waiting in zip(readers, joins, strict=True):
        desk.learn(reader, waiting)
    desk.distribute(readers)
    assert {reader.generation for reader in readers} == {1}
    assert len({reader.assignment for reader in readers}) == 200
    assert len(desk.log) == 2  # the group is there; it is stable

    desk.leave(readers.pop())
    desk.rebalance(readers)
    assert {reader.generation for reader in readers} == {2}


# --- static members -------------------------------------------------------------------------------


def gather_static(desk: Desk) -> tuple[Reader, Reader]:
    first, second = Reader(instance_id="one"), Reader(instance_id="two")
    desk.learn(first, desk.join(first))
    desk.distribute([first])
    waiting = desk.join(second)
    desk.learn(first, desk.join(first))
    desk.learn(second, waiting)
    desk.distribute([first, second])
    return first, second


def test_a_static_member_restarts_without_a_rebalance() -> None:
    desk = Desk()
    first, second = gather_static(desk)
    generation = first.generation

    restarted = Reader(instance_id="two")
    desk.learn(restarted, desk.join(restarted))
    assert desk.state == "Stable"
    assert restarted.generation == generation
    assert restarted.member_id != second.member_id
    assert desk.sync(restarted).answer.assignment == second.assignment
    assert desk.heartbeat(first) is None


def test_the_restarted_leader_keeps_the_plan() -> None:
    desk = Desk()
    first, second = gather_static(desk)
    restarted = Reader(instance_id="one")
    waiting = desk.join(restarted)
    assert waiting.answer.skip_assignment
    assert waiting.answer.leader == waiting.answer.member_id
    desk.learn(restarted, waiting)
    assert restarted.member_ids == (restarted.member_id, second.member_id)
    assert desk.sync(restarted).answer.assignment == first.assignment


def test_an_older_restarted_leader_is_not_told_that_it_leads() -> None:
    desk = Desk()
    first, _second = gather_static(desk)
    waiting = desk.join(Reader(instance_id="one"), may_skip_assignment=False)
    assert waiting.answer.leader == first.member_id
    assert waiting.answer.members == ()
    assert not waiting.answer.skip_assignment


def test_the_old_incarnation_of_a_static_member_is_fenced() -> None:
    desk = Desk()
    _first, second = gather_static(desk)
    desk.join(Reader(instance_id="two"))
    assert desk.heartbeat(second) is MemberFenced
    assert desk.sync(second).answer.error is MemberFenced
    assert desk.join(second).answer.error is MemberFenced
    assert desk.leave(second) == (MemberFenced,)
    assert desk.commit(second, 1) is MemberFenced


def test_a_parked_incarnation_is_fenced_at_once() -> None:
    desk = Desk()
    first, second = gather_static(desk)
    parked = desk.join(second, protocols=(("range", b"changed"),))
    assert parked.is_parked
    successor = desk.join(Reader(instance_id="two"))
    assert parked.answer.error is MemberFenced
    desk.learn(first, desk.join(first))
    assert successor.answer.error is None


def test_a_static_member_that_comes_back_during_the_sync_phase_starts_over() -> None:
    desk = Desk()
    first, second = gather_static(desk)
    joins = [desk.join(first), desk.join(second)]
    desk.learn(first, joins[0])
    desk.learn(second, joins[1])
    parked = desk.sync(second)
    successor = desk.join(Reader(instance_id="two"))
    assert parked.answer.error is MemberFenced
    assert desk.state == "PreparingRebalance"
    desk.learn(first, desk.join(first))
    assert successor.answer.error is None
    assert successor.answer.member_id in first.member_ids


def test_a_static_member_is_missed_only_after_its_session() -> None:
    desk = Desk()
    first, second = gather_static(desk)
    waiting = desk.join(first)
    desk.pass_time(60_000)  # rebalance time-out, but also the session of the second
    assert waiting.answer.error is None
    assert desk.heartbeat(second) is UnknownMember


def test_an_absent_static_member_stays_through_a_rebalance() -> None:
    desk = Desk()
    first = Reader(instance_id="one")
    desk.learn(first, desk.join(first))
    desk.distribute([first])
    patient = Reader(instance_id="two")
    waiting = desk.join(patient, session_timeout_ms=300_000)
    desk.learn(first, desk.join(first))
    desk.learn(patient, waiting)
    desk.distribute([first, patient])

    waiting = desk.join(first)
    desk.pass_time(60_000)
    desk.learn(first, waiting)
    assert first.member_ids == (first.member_id, patient.member_id)


@pytest.mark.parametrize("rebalance_timeout_ms", [0, -1, -(2**31)])
def test_a_time_out_of_nothing_does_not_make_the_coordinator_spin(
    rebalance_timeout_ms: int,
) -> None:
    desk = Desk()
    impatient = {"rebalance_timeout_ms": rebalance_timeout_ms, "session_timeout_ms": 300_000}
    first, second = Reader(instance_id="one"), Reader(instance_id="two")
    desk.learn(first, desk.join(first, **impatient))
    desk.distribute([first])
    waiting = desk.join(second, **impatient)
    desk.learn(first, desk.join(first, **impatient))
    desk.learn(second, waiting)
    desk.distribute([first, second])

    desk.leave(second)  # the first one is silent, but has time until its session ends
    desk.pass_time(200_000)
    assert desk.state == "PreparingRebalance"
    desk.pass_time(100_001)
    assert desk.state == "Empty"


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    desk = Desk()
    first, _second = gather_static(desk)
    command = Leave(
        group_id=GROUP,
        members=(LeavingMember(instance_id="two"), LeavingMember(instance_id="three")),
    )
    assert desk.perform(command) == (None, UnknownMember)
    desk.rebalance([first])
    assert first.member_ids == (first.member_id,)


def test_a_static_member_with_another_first_choice_moves_the_group() -> None:
    desk = Desk()
    both = (("range", b""), ("robin", b""))
    first = Reader(instance_id="one")
    desk.learn(first, desk.join(first, protocols=both))
    desk.distribute([first])
    waiting = desk.join(Reader(instance_id="one"), protocols=both[::-1])
    assert waiting.answer.generation == first.generation + 1
    assert waiting.answer.protocol == "robin"


def test_an_instance_that_is_not_there_is_unknown() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    reader.instance_id = "elsewhere"
    assert desk.heartbeat(reader) is UnknownMember


# --- the log --------------------------------------------------------------------------------------


def test_a_stable_group_survives_a_restart() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    desk = desk.restart()
    assert desk.state == "Stable"
    assert desk.heartbeat(first) is None
    assert desk.sync(second).answer.assignment == second.assignment
    desk.rebalance([first, second])


def test_after_a_restart_silent_members_have_one_session() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    desk = desk.restart()
    desk.pass_time(9_000)
    assert desk.heartbeat(first) is None
    desk.pass_time(2_000)
    assert desk.heartbeat(second) is UnknownMember


def test_a_rebalance_under_way_is_forgotten_by_a_restart() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    desk.join(first)
    desk = desk.restart()
    assert desk.state == "Stable"
    assert desk.heartbeat(second) is None


def test_nobody_acts_on_a_plan_that_is_not_stored() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    joins = [desk.join(first), desk.join(second)]
    desk.learn(first, joins[0])
    desk.learn(second, joins[1])
    parked = desk.sync(second)
    desk.broken = True
    leaders = desk.sync(first, {first.member_id: b"x", second.member_id: b"y"})
    assert parked.answer.error is RefusedByLog
    assert leaders.answer.error is RefusedByLog
    assert desk.state == "PreparingRebalance"

    desk.broken = False
    desk.rebalance([first, second])
    assert desk.state == "Stable"


def test_a_group_that_cannot_be_written_does_not_exist() -> None:
    desk = Desk(broken=True)
    assert desk.join().answer.error is RefusedByLog
    assert desk.join(member_id_required=False).answer.error is RefusedByLog
    assert desk.state == "Dead"
    desk.broken = False
    desk.gather(1)


def test_a_new_group_that_cannot_be_written_sends_its_waiting_members_away() -> None:
    desk = Desk(settings=GroupSettings(initial_rebalance_delay_ms=3_000), broken=True)
    waiting = desk.join(member_id_required=False)
    assert waiting.answer.error is RefusedByLog


def test_a_static_member_is_not_replaced_if_the_log_refuses() -> None:
    desk = Desk()
    _first, second = gather_static(desk)
    desk.broken = True
    assert desk.join(Reader(instance_id="two")).answer.error is RefusedByLog
    assert desk.heartbeat(second) is None
    desk.broken = False
    restarted = desk.join(Reader(instance_id="two"))
    assert restarted.answer.error is None
    assert desk.heartbeat(second) is MemberFenced


def test_leaving_works_even_if_the_empty_group_cannot_be_written() -> None:
    desk = Desk()
    (only,) = desk.gather(1)
    desk.broken = True
    assert desk.leave(only) == (None,)
    assert desk.state == "Empty"
