"""The bound over what members of all groups bring."""

from millpond.base import limits
from millpond.group.consumer.messages import ConsumerHeartbeat
from millpond.group.memory import MemberMemory
from millpond.group.messages import Join, Sync

LITTLE = limits.GROUP_MEMBER_LITTLE_BYTES


def join(size: int) -> Join:
    return Join(
        group_id="g",
        ticket=0,
        member_id="",
        instance_id=None,
        client_id="",
        client_host="",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocol_type="consumer",
        protocols=(("range", bytes(size)),),
        member_id_required=False,
        may_skip_assignment=False,
    )


def test_what_a_command_brings() -> None:
    assert join(7).kept_bytes == 7
    sync = Sync(
        group_id="g", ticket=0, member_id="m", generation=1, assignments={"m": b"12", "n": b"3"}
    )
    assert sync.kept_bytes == 3
    beat = ConsumerHeartbeat(group_id="g", member_id="m", epoch=0, topics=("ab", "c"), pattern="x")
    assert beat.kept_bytes == 4
    assert ConsumerHeartbeat(group_id="g", member_id="m", epoch=1).kept_bytes == 0


def test_members_that_bring_much_are_refused_beyond_the_bound_and_admitted_when_there_is_room() -> (
    None
):
    held = 0
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return held

    memory = MemberMemory(count, bytes_max=10 * LITTLE)
    for _member in range(5):
        assert memory.admits(join(2 * LITTLE), 0)
        held += 2 * LITTLE
    assert counted == 0
    for _member in range(100):
        assert not memory.admits(join(2 * LITTLE), 0)
        assert memory.admits(join(LITTLE), 0), "ordinary members always pass"
    assert counted == 1, "counted once in a while"
    held -= 4 * LITTLE
    assert memory.admits(join(2 * LITTLE), limits.GROUP_MEMBER_COUNT_MS)
    assert memory.admits(join(2 * LITTLE), limits.GROUP_MEMBER_COUNT_MS)
    assert not memory.admits(join(2 * LITTLE), limits.GROUP_MEMBER_COUNT_MS)


def test_members_that_come_again_do_not_add_up() -> None:
    memory = MemberMemory(lambda: 2 * LITTLE, bytes_max=10 * LITTLE)
    for round_ in range(100):
        assert memory.admits(join(2 * LITTLE), round_ * limits.GROUP_MEMBER_COUNT_MS)
