"""Where a batch may stand: whoever reads, recovers, repairs, compacts or verifies a log agrees about it."""

from dataclasses import replace

import pytest

from millpond.base.errors import CorruptLog
from millpond.log.config import LogConfig
from millpond.log.partition_log import PartitionLog
from millpond.log.verify import verify_partition
from millpond.record.batch import iter_batches
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.storage.log_kit import (
    NOW,
    append,
    batch,
    fill,
    latest_by_key,
    open_log,
    records,
    values,
)
from tests.unit.log.test_repair import give, nothing, notice, repair, two_replicas

FIRST = "orders-0/00000000000000000000.log"
SECOND = "orders-0/00000000000000000012.log"
BATCH = len(batch(b"0".ljust(100, b".")))
CONFIG = LogConfig(index_interval_bytes=2 * BATCH)
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
LARGE = 1 << 20


def base_offsets(log: PartitionLog, offset: int, size: int = LARGE) -> list[int]:
    """What one read gives."""
    data = log.read(offset, size, upto=log.end_offset).data
    return [header.base_offset for _, header in iter_batches(data)]


def take_out(storage: FaultyStorage, first: int, last: int) -> None:
    """Batches are gone, and those behind them have moved up: nothing else is wrong with any byte."""
    data = storage.read_all(FIRST) or b""
    storage.write(FIRST, data[: first * BATCH] + data[(last + 1) * BATCH :])


def reopened(storage: FaultyStorage, config: LogConfig = CONFIG) -> PartitionLog:
    storage.kill()
    return open_log(storage, config, clean=True, recovery_point=15)


# --- reads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("size", [BATCH, 3 * BATCH, LARGE])
def test_a_batch_that_reaches_into_the_next_segment_is_not_served(policy: str, size: int) -> None:
    log, storage, _copy = two_replicas(replace(CONFIG, cleanup_policy=frozenset({policy})))
    storage.flip(FIRST, 11 * BATCH + 6)  # 11 is 267 now

    assert 267 not in base_offsets(log, 9, size)
    with pytest.raises(CorruptLog):
        log.read(11, size, upto=15)
    assert log.damaged_segments() == [0]


@pytest.mark.parametrize("size", [BATCH, 3 * BATCH, LARGE])
def test_a_read_does_not_go_on_behind_offsets_that_are_missing(size: int) -> None:
    log, storage, copy = two_replicas()
    take_out(storage, 5, 6)
    log = reopened(storage)

    assert base_offsets(log, 3, size) == [3, 4][: size // BATCH]
    with pytest.raises(CorruptLog):
        log.read(5, size, upto=15)
    assert log.damaged_segments() == [0]
    assert repair(log, give(copy))
    assert values(log) == values(copy)


@pytest.mark.parametrize("mask", [0x02, 0x08])
def test_a_read_does_not_end_with_a_batch_that_claims_a_later_offset(mask: int) -> None:
    log, storage, _copy = two_replicas()
    storage.flip(FIRST, 5 * BATCH + 7, mask)  # 5 is 7 now, or 13

    assert base_offsets(log, 3, 3 * BATCH) == [3, 4]
    assert log.damaged_segments() == [0]


def test_offsets_may_be_missing_where_compaction_is() -> None:
    log, storage, _copy = two_replicas(COMPACT)
    take_out(storage, 5, 6)
    log = reopened(storage, COMPACT)

    assert base_offsets(log, 3) == [3, 4, 7, 8, 9, 10, 11]
    assert not log.damaged_segments()


@pytest.mark.parametrize("size", [BATCH, 2 * BATCH, LARGE])
def test_the_sound_first_of_two_that_do_not_follow_each_other_is_served(size: int) -> None:
    log, storage, _copy = two_replicas()
    storage.flip(FIRST, 5 * BATCH + 7, 0x04)  # 5 is 1 now

    for offset in range(5):
        assert base_offsets(log, offset, size)[0] == offset
    with pytest.raises(CorruptLog):
        log.read(5, size, upto=15)
    assert log.damaged_segments() == [0]


@pytest.mark.parametrize("size", [2 * BATCH, LARGE])
def test_a_first_batch_that_does_not_follow_either_is_not_served(size: int) -> None:
    log, storage, _copy = two_replicas(replace(CONFIG, cleanup_policy=frozenset({"compact"})))
    storage.flip(FIRST, 4 * BATCH + 7, 0x02)  # 4 is 6 now, and 5 comes next

    with pytest.raises(CorruptLog):
        log.read(4, size, upto=15)


# --- repair ---------------------------------------------------------------------------------------


def test_offsets_that_are_missing_between_sound_batches_are_filled_in() -> None:
    log, storage, copy = two_replicas()
    sound = storage.read_all(FIRST)
    take_out(storage, 5, 6)
    log = reopened(storage)
    log.suspect(0)

    (damage,) = repair(log, give(copy))

    assert (damage.first_offset, damage.next_offset) == (5, 7)
    assert storage.read_all(FIRST) == sound


def test_offsets_that_are_missing_and_that_nobody_has_stay_known() -> None:
    log, storage, copy = two_replicas()
    take_out(storage, 5, 6)
    log = reopened(storage)
    log.suspect(0)

    assert repair(log, nothing) == []

    assert [(one.first_offset, one.next_offset) for one in log.damage] == [(5, 7)]
    assert base_offsets(log, 0) == [0, 1, 2, 3, 4]
    assert values(log, start=7) == values(copy, start=7)
    for offset in (5, 6):
        with pytest.raises(CorruptLog) as refused:
            log.read(offset, LARGE, upto=15)
        assert refused.value.next_offset == 7


def test_offsets_that_are_missing_before_damage_are_asked_for_once() -> None:
    log, storage, copy = two_replicas()
    sound = storage.read_all(FIRST)
    take_out(storage, 5, 6)
    storage.flip(FIRST, 6 * BATCH + 7, 0x08)  # 8, the second behind the hole, is 0 now
    log = reopened(storage)
    log.suspect(0)

    repaired = repair(log, give(copy))

    assert [(one.first_offset, one.next_offset) for one in repaired] == [(5, 9)]
    assert storage.read_all(FIRST) == sound


def test_a_segment_full_of_gaps_was_compacted_though_nobody_remembers() -> None:
    storage = FaultyStorage()
    log = open_log(storage, CONFIG)
    fill(log, 100)
    log.roll(NOW)
    log.flush()
    data = storage.read_all(FIRST) or b""
    batches = [data[at : at + header.size] for at, header in iter_batches(data)]
    storage.write(FIRST, b"".join(batches[:1] + batches[1::2]))
    log.suspect(0)

    assert repair(log, nothing) == []

    assert not log.damage


# --- recovery -------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [6, 5, 3], ids=["by 256", "by 65536", "by 2^32"])
@pytest.mark.parametrize("number", [12, 13])
def test_an_offset_that_jumps_on_a_compacted_log_costs_nothing_behind_it(
    number: int, where: int
) -> None:
    log, storage, copy = two_replicas(COMPACT)
    log.close()
    storage.kill()
    storage.flip(SECOND, (number - 12) * BATCH + where)

    log = open_log(storage, COMPACT, recovery_point=15)

    assert log.end_offset == 15
    lost = range(log.damage[0].first_offset, log.damage[0].next_offset)
    assert len(log.damage) == 1
    assert number in lost
    assert len(lost) <= 2
    for offset in set(range(15)) - set(lost):
        assert base_offsets(log, offset)[0] == offset
    assert repair(log, give(copy))
    assert values(log) == values(copy)


# --- compaction -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bit", range(6))
@pytest.mark.parametrize("number", range(10))
def test_compaction_does_not_make_a_changed_offset_its_own(number: int, bit: int) -> None:
    logs = []
    for _ in range(2):
        storage = FaultyStorage()
        log = open_log(storage, COMPACT)
        for first in range(0, 30, 3):
            append(log, batch(*((b"k%d" % (n % 20), b"v%d" % n) for n in range(first, first + 3))))
        log.roll(NOW)
        append(log, batch((b"k", b"v")))
        log.flush()
        logs.append((log, storage))
    (log, storage), (copy, _) = logs
    position = [at for at, _header in iter_batches(storage.read_all(FIRST) or b"")][number]
    storage.flip(FIRST, position + 7, 1 << bit)
    plan = log.plan_compaction(NOW)
    assert plan is not None

    with pytest.raises(CorruptLog):
        plan.run()

    log.abandon_compaction(plan, reason="damaged")
    repair(log, give(copy, size=LARGE))
    assert latest_by_key(records(log)) == latest_by_key(records(copy))


# --- verification ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0x01, 0x04, 0x40])
def test_a_damaged_batch_is_not_believed_about_where_it_ends(mask: int) -> None:
    log, storage, _copy = two_replicas()
    log.close()
    storage.kill()
    storage.flip(FIRST, 5 * BATCH + 26, mask)  # its last offset

    (finding,) = verify_partition(storage, "orders-0", recovery_point=15).findings

    assert (finding.first_offset, finding.next_offset) == (5, 6)


# --- leader epochs --------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0x01, 0x02, 0x40])
@pytest.mark.parametrize("recovery_point", [0, 12, 15])
def test_a_changed_leader_epoch_is_told_and_costs_nothing(recovery_point: int, mask: int) -> None:
    log, storage, copy = two_replicas()
    log.close()
    storage.kill()
    storage.flip(FIRST, 5 * BATCH + 15, mask)

    verified = verify_partition(storage, "orders-0", recovery_point=15)
    log = open_log(storage, CONFIG, recovery_point=recovery_point)

    assert not verified.sound
    assert values(log) == values(copy)
    assert not log.damage
    notice(log, size=LARGE)
    assert not log.damaged_segments()
