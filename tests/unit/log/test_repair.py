"""A damaged segment becomes what it was, with what another replica has; nothing else is ever taken."""

import contextlib
from collections.abc import Callable

import pytest

from millpond.base.errors import CorruptLog, StorageFailure
from millpond.log.config import LogConfig
from millpond.log.damage import DAMAGE_FILE
from millpond.log.partition_log import PartitionLog
from millpond.log.repair import RepairPlan, RepairResult, SegmentRewrite
from millpond.log.segment import Damage
from millpond.record.batch import iter_batches
from tests.support.storage.faulty_storage import Crash, FaultyStorage
from tests.support.storage.log_kit import (
    NOW,
    append,
    batch,
    compact,
    fill,
    latest_by_key,
    marker,
    open_log,
    records,
    values,
)

FIRST = "orders-0/00000000000000000000.log"
BATCH = len(batch(b"0".ljust(100, b".")))
CONFIG = LogConfig(index_interval_bytes=2 * BATCH)

Source = Callable[[int], bytes]


def two_replicas(config: LogConfig = CONFIG) -> tuple[PartitionLog, FaultyStorage, PartitionLog]:
    """A log of twelve batches in a closed segment and three behind it, its disk, and a sound copy."""
    logs = []
    for _ in range(2):
        storage = FaultyStorage()
        log = open_log(storage, config)
        fill(log, 12)
        log.roll(NOW)
        fill(log, 3)
        log.flush()
        logs.append((log, storage))
    (log, storage), (copy, _) = logs
    return log, storage, copy


def notice(log: PartitionLog, *, size: int = BATCH) -> None:
    """Read everything, as long as it takes to know what is damaged."""
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            data = log.read(offset, size, upto=log.end_offset).data
        except CorruptLog as error:
            offset = max(error.next_offset, offset + 1)
        else:
            if not data:
                return
            offset += 1


def give(copy: PartitionLog, *, size: int = BATCH) -> Source:
    """What a sound replica answers, a piece at a time."""
    return lambda offset: copy.read(offset, size, upto=copy.end_offset).data


def nothing(_offset: int) -> bytes:
    """A replica that has nothing."""
    raise CorruptLog("nothing here", next_offset=0)


def rewrite(plan: RepairPlan, source: Source) -> RepairResult:
    """Fill what is damaged from one source; what that does not have stays."""
    damages = plan.survey()
    if not damages:
        return RepairResult(plan=plan)
    work = SegmentRewrite(plan)
    try:
        for damage in damages:
            work.begin_range(damage)
            try:
                while work.expected < damage.next_offset:
                    work.add(source(work.expected))
                work.end_range()
            except CorruptLog:
                work.keep_range()
        return work.finish()
    finally:
        work.close()


def repair(log: PartitionLog, source: Source) -> list[Damage]:
    """Repair all damaged segments; what was repaired."""
    repaired = []
    for base_offset in log.damaged_segments():
        plan = log.plan_repair(base_offset, NOW)
        assert plan is not None
        result = rewrite(plan, source)
        assert log.install_repair(result)
        repaired += result.repaired
    return repaired


@pytest.mark.parametrize("at", range(0, 12 * BATCH, 7))
def test_whatever_byte_changes_the_segment_becomes_what_it_was(at: int) -> None:
    log, storage, copy = two_replicas()
    before = storage.read_all(FIRST)
    storage.flip(FIRST, at, 0x41)
    notice(log)
    if not log.damaged_segments():
        # The leader's epoch is under no checksum, and readers do not look at it.
        assert 12 <= at % BATCH < 16
        return

    (damage,) = repair(log, give(copy))

    assert damage.first_offset <= at // BATCH < damage.next_offset

    assert storage.read_all(FIRST) == before
    assert values(log) == values(copy)
    assert not log.damage
    assert not storage.exists(f"orders-0/{DAMAGE_FILE}")


@pytest.mark.parametrize("size", [BATCH, 3 * BATCH + 10, 1 << 20])
def test_a_stretch_is_brought_in_pieces_of_any_size(size: int) -> None:
    log, storage, copy = two_replicas()
    before = storage.read_all(FIRST)
    storage.zero(FIRST, 2 * BATCH + 20, 9 * BATCH + 20)
    notice(log)

    (damage,) = repair(log, give(copy, size=size))

    assert (damage.first_offset, damage.next_offset) == (2, 10)
    assert storage.read_all(FIRST) == before


def test_all_damage_of_a_segment_is_found_though_only_some_was_met() -> None:
    log, storage, copy = two_replicas()
    for at in (1, 5, 10):
        storage.flip(FIRST, at * BATCH + 90)
    with pytest.raises(CorruptLog):
        log.read(5, BATCH, upto=15)
    assert len(log.damage) == 1

    assert [one.first_offset for one in repair(log, give(copy))] == [1, 5, 10]
    assert values(log) == values(copy)


def test_what_nobody_has_stays_damaged_and_the_rest_is_served() -> None:
    log, storage, copy = two_replicas()
    for at in (1, 5, 10):
        storage.flip(FIRST, at * BATCH + 90)
    notice(log)

    def partly(offset: int) -> bytes:
        return nothing(offset) if offset == 5 else give(copy)(offset)

    assert [one.first_offset for one in repair(log, partly)] == [1, 10]

    with pytest.raises(CorruptLog, match="offsets 5 to 5"):
        log.read(5, BATCH, upto=15)
    assert values(log, start=6) == values(copy, start=6)
    assert [one.first_offset for one in repair(log, give(copy))] == [5]
    assert values(log) == values(copy)


def test_where_nothing_can_be_had_nothing_changes() -> None:
    log, storage, _copy = two_replicas()
    storage.flip(FIRST, 4 * BATCH + 90)
    notice(log)
    files = storage.files()

    assert repair(log, nothing) == []

    assert storage.files() == files
    assert [one.first_offset for one in log.damage] == [4]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        pytest.param(lambda good: good[:90] + b"\xff" + good[91:], "checksum", id="rotten, too"),
        pytest.param(lambda good: b"\0" * 7 + b"\x03" + good[8:], "do not fit", id="other offsets"),
        pytest.param(lambda good: good[:12] + b"\0\0\0\x07" + good[16:], "in epoch", id="epoch"),
        pytest.param(lambda good: b"\0" * len(good), "at byte 0", id="no batch"),
    ],
)
def test_what_is_not_what_was_written_is_not_taken(
    wrong: Callable[[bytes], bytes], why: str
) -> None:
    log, storage, copy = two_replicas()
    storage.flip(FIRST, 4 * BATCH + 90)
    notice(log)
    plan = log.plan_repair(0, NOW)
    assert plan is not None
    (damage,) = plan.survey()
    work = SegmentRewrite(plan)
    work.begin_range(damage)

    with pytest.raises(CorruptLog, match=why):
        work.add(wrong(give(copy)(4)))

    assert work.expected == 4
    work.add(give(copy)(4))
    work.end_range()
    assert log.install_repair(work.finish())
    assert values(log) == values(copy)


def test_a_batch_that_reaches_out_of_the_range_is_not_taken() -> None:
    log, storage, _copy = two_replicas()
    other = open_log(FaultyStorage(), CONFIG)
    fill(other, 4)
    append(other, batch(b"x", b"y"))
    storage.flip(FIRST, 4 * BATCH + 90)
    notice(log)

    assert repair(log, give(other, size=10 * BATCH)) == []
    assert [one.first_offset for one in log.damage] == [4]


def test_the_end_of_a_file_that_is_gone_comes_back() -> None:
    log, storage, copy = two_replicas()
    log.close()
    storage.kill()
    storage.cut(FIRST, 9 * BATCH + 30)
    log = open_log(storage, CONFIG, recovery_point=15)
    notice(log)

    (damage,) = repair(log, give(copy))

    assert (damage.first_offset, damage.next_offset) == (9, 12)
    assert values(log) == values(copy)


def test_a_file_that_is_gone_comes_back() -> None:
    config = LogConfig(segment_bytes=4 * BATCH)
    log, storage, copy = two_replicas(config)
    log.close()
    storage.kill()
    storage.delete("orders-0/00000000000000000004.log")
    log = open_log(storage, config, clean=True, recovery_point=15)
    notice(log)

    (damage,) = repair(log, give(copy))

    assert (damage.first_offset, damage.next_offset) == (4, 8)
    assert values(log) == values(copy)


def test_a_segment_that_is_still_written_to_is_closed_first() -> None:
    log, storage, copy = two_replicas()
    active = "orders-0/00000000000000000012.log"
    storage.flip(active, BATCH + 90)
    with pytest.raises(CorruptLog, match="offsets 13 to 13"):
        log.read(13, BATCH, upto=15)
    fill(log, 1)
    fill(copy, 1)

    assert [one.first_offset for one in repair(log, give(copy))] == [13]

    assert values(log) == values(copy)
    fill(log, 1)
    log.close()
    storage.kill()
    log = open_log(storage, CONFIG, clean=True, recovery_point=17)
    assert values(log)[:16] == values(copy)
    assert not log.damage


def test_what_is_not_synced_yet_is_in_memory_and_read_without_a_look() -> None:
    log, storage, _copy = two_replicas()
    fill(log, 1)
    storage.flip("orders-0/00000000000000000012.log", 3 * BATCH + 90)
    assert log.read(15, BATCH, upto=16).data
    log.flush()
    with pytest.raises(CorruptLog):
        log.read(15, BATCH, upto=16)


def test_a_note_of_damage_that_is_not_there_is_forgotten() -> None:
    """A crash may come between the swap and the note."""
    log, storage, copy = two_replicas()
    storage.flip(FIRST, 4 * BATCH + 90)
    notice(log)
    noted = storage.read_all(f"orders-0/{DAMAGE_FILE}") or b""
    repair(log, give(copy))
    log.close()
    storage.kill()
    storage.write(f"orders-0/{DAMAGE_FILE}", noted)
    log = open_log(storage, CONFIG, clean=True, recovery_point=15)
    assert log.damage

    assert repair(log, nothing) == []

    assert not log.damage
    assert values(log) == values(copy)


def test_a_log_that_was_cut_meanwhile_keeps_nothing_of_a_repair() -> None:
    log, storage, copy = two_replicas()
    storage.flip(FIRST, 4 * BATCH + 90)
    notice(log)
    plan = log.plan_repair(0, NOW)
    assert plan is not None
    assert log.plan_repair(0, NOW) is None  # one at a time
    result = rewrite(plan, give(copy))
    log.truncate_to(2)

    assert not log.install_repair(result)

    assert values(log) == values(copy)[:2]
    assert not [name for name in storage.files() if name.endswith(".cleaned")]


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    log, storage, copy = two_replicas()
    storage.flip(FIRST, 4 * BATCH + 90)
    notice(log)
    plan = log.plan_repair(0, NOW)
    assert plan is not None
    files = storage.files()
    storage.capacity = sum(files.values()) + 3 * BATCH
    with pytest.raises(StorageFailure):
        rewrite(plan, give(copy))
    log.abandon_repair(plan)
    assert storage.files() == files
    storage.capacity = None

    assert [one.first_offset for one in repair(log, give(copy))] == [4]


def test_what_was_aborted_stays_aborted() -> None:
    logs = []
    for _ in range(2):
        storage = FaultyStorage()
        log = open_log(storage, CONFIG)
        fill(log, 2)
        append(
            log,
            batch(b"no", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
        )
        append(log, marker(commit=False, producer_id=7))
        fill(log, 2)
        log.roll(NOW)
        fill(log, 1)
        log.flush()
        logs.append((log, storage))
    (log, storage), (copy, _) = logs
    before = log.aborted_transactions(0, 7)
    assert before
    storage.flip(FIRST, 2 * BATCH + 65)
    notice(log)

    repair(log, give(copy))

    assert log.aborted_transactions(0, 7) == before
    assert values(log) == values(copy)


COMPACTED = LogConfig(
    segment_bytes=6 * BATCH,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
)


def table(*, compacted: bool) -> tuple[PartitionLog, FaultyStorage]:
    storage = FaultyStorage()
    log = open_log(storage, COMPACTED)
    for number in range(30):
        append(log, batch((b"k%d" % (number % 4), b"%d" % number * 20)))
    if compacted:
        assert compact(log)
    return log, storage


@pytest.mark.parametrize("there", [False, True], ids=["not compacted there", "compacted there"])
def test_a_compacted_log_takes_what_is_left_of_a_range(there: bool) -> None:
    log, storage = table(compacted=False)
    copy, _ = table(compacted=there)
    sound = latest_by_key(records(copy))
    for name, size in storage.files().items():
        if name.endswith(".log") and size:
            storage.flip(name, size // 2)
            break
    notice(log)
    assert not compact_somehow(log)

    assert repair(log, give(copy, size=1 << 20))

    assert not log.damage
    assert latest_by_key(records(log)) == sound
    assert compact(log)
    assert latest_by_key(records(log)) == sound


def compact_somehow(log: PartitionLog) -> bool:
    """As the broker does it: damage ends the passes over this log."""
    plan = log.plan_compaction(NOW)
    if plan is None:
        return False
    try:
        log.install_compaction(plan.run())
    except CorruptLog as error:
        log.abandon_compaction(plan, reason=str(error))
        return False
    return True


def test_the_machine_may_stop_at_any_moment_of_a_repair() -> None:
    for tears in (0, 50):
        for number in range(1, 200):
            log, storage, copy = two_replicas()
            log.close()
            storage.kill()
            storage.flip(FIRST, 4 * BATCH + 90)
            log = open_log(storage, CONFIG, clean=True, recovery_point=15)
            notice(log)
            storage.crash_at, storage.crash_tears = number, tears
            try:
                repair(log, give(copy))
                is_done = True
            except Crash:
                is_done = False
            storage.crash_at = None
            storage.kill()
            if number % 2:
                storage.lose_power()
            log = open_log(storage, CONFIG, recovery_point=15)
            notice(log)
            repair(log, give(copy))
            assert values(log) == values(copy), f"stopped at change {number}"
            if is_done:
                break
        else:
            raise AssertionError("a repair has an end")


# --- offsets, which are under no checksum -----------------------------------------------------------


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("is_reopened", [False, True], ids=["live", "reopened"])
@pytest.mark.parametrize("bit", range(6))
def test_an_offset_that_changes_costs_no_other_batch(
    policy: str, is_reopened: bool, bit: int
) -> None:
    config = LogConfig(cleanup_policy=frozenset({policy}), index_interval_bytes=500)
    for number in range(10):
        logs = []
        for _ in range(2):
            storage = FaultyStorage()
            log = open_log(storage, config)
            for first in range(0, 30, 3):
                append(log, batch(*((b"k%d" % n, b"v%d" % n) for n in range(first, first + 3))))
            log.roll(NOW)
            fill_table(log)
            log.flush()
            logs.append((log, storage))
        (log, storage), (copy, _) = logs
        sound = storage.read_all(FIRST) or b""
        if is_reopened:
            log.close()
            storage.kill()
        position = [at for at, _header in iter_batches(sound)][number]
        storage.flip(FIRST, position + 7, 1 << bit)
        if is_reopened:
            log = open_log(storage, config, clean=True, recovery_point=31)
        for size in (1, 1 << 20):
            notice(log, size=size)
        log.suspect(0)

        repair(log, give(copy, size=1 << 20))

        assert storage.read_all(FIRST) == sound, f"bit {bit} of batch {number}"
        assert not log.damaged_segments()


def fill_table(log: PartitionLog) -> None:
    append(log, batch((b"k", b"v")))


def test_on_a_compacted_log_a_changed_offset_takes_no_sound_record_with_it() -> None:
    for bit in range(5):
        log, storage = table(compacted=True)
        copy, _ = table(compacted=True)
        sound = latest_by_key(records(copy))
        name, data = next(
            (name, storage.read_all(name) or b"")
            for name, size in sorted(storage.files().items())
            if name.endswith(".log") and size
        )
        first, _header = next(iter_batches(data))
        storage.flip(name, first + 7, 1 << bit)
        log.suspect(int(name.rpartition("/")[2][:20]))
        repair(log, give(copy, size=1 << 20))
        found = latest_by_key(records(log))
        assert found.items() >= {key: found[key] for key in sound}.items()
        assert found == sound


def test_a_reader_is_not_led_in_circles_by_an_offset_that_changed() -> None:
    log, storage, copy = two_replicas()
    storage.flip(FIRST, 5 * BATCH + 7, 0x04)  # 5 is 1 now
    with pytest.raises(CorruptLog):
        log.read(5, BATCH, upto=15)
    assert log.damaged_segments() == [0]
    assert repair(log, give(copy))
    assert values(log) == values(copy)


def test_what_is_suspected_and_sound_is_left_alone() -> None:
    log, storage, _copy = two_replicas()
    files = storage.files()
    log.suspect(0)
    assert repair(log, nothing) == []
    assert storage.files() == files
    assert not log.damaged_segments()


# --- what is worked out from the batches ------------------------------------------------------------


def two_with_a_transaction(*, end: bool) -> tuple[PartitionLog, FaultyStorage, PartitionLog]:
    """An aborted transaction, its marker, and a batch of an idempotent producer, all in one open segment."""
    logs = []
    for _ in range(2):
        storage = FaultyStorage()
        log = open_log(storage, CONFIG)
        fill(log, 2)
        append(log, batch(b"no", **PRODUCER, base_sequence=0, transactional=True))
        if end:
            append(log, marker(commit=False, producer_id=7))
        append(log, batch(b"once", producer_id=8, producer_epoch=0, base_sequence=0))
        fill(log, 2)
        log.flush()
        logs.append((log, storage))
    (log, storage), (copy, _) = logs
    return log, storage, copy


PRODUCER = {"producer_id": 7, "producer_epoch": 0}


def test_a_marker_that_comes_back_ends_its_transaction_again() -> None:
    log, storage, copy = two_with_a_transaction(end=True)
    end = log.end_offset
    position = {
        header.base_offset: at for at, header in iter_batches(storage.read_all(FIRST) or b"")
    }
    storage.kill()
    storage.flip(FIRST, position[3] + 65)
    log = open_log(storage, CONFIG, recovery_point=end)
    assert [one.first_offset for one in log.damage] == [3]
    assert log.last_stable_offset == 2

    assert [one.first_offset for one in repair(log, give(copy))] == [3]

    assert log.last_stable_offset == copy.last_stable_offset == end
    assert log.aborted_transactions(0, end) == copy.aborted_transactions(0, end)


def test_a_producers_batch_that_comes_back_is_known_again() -> None:
    log, storage, copy = two_with_a_transaction(end=True)
    end = log.end_offset
    position = {
        header.base_offset: at for at, header in iter_batches(storage.read_all(FIRST) or b"")
    }
    storage.kill()
    storage.flip(FIRST, position[4] + 65)
    log = open_log(storage, CONFIG, recovery_point=end)

    repair(log, give(copy))

    again = batch(b"once", producer_id=8, producer_epoch=0, base_sequence=0)
    assert append(log, again).duplicate


# --- odd places ---------------------------------------------------------------------------------------


def test_a_compacted_file_that_was_cut_between_two_batches_is_filled_up() -> None:
    log, storage = table(compacted=False)
    copy, _ = table(compacted=False)
    sound = storage.read_all(FIRST) or b""
    boundary = [at for at, _header in iter_batches(sound)][2]
    storage.cut(FIRST, boundary)
    notice(log, size=1 << 20)

    assert repair(log, give(copy, size=1 << 20))

    assert storage.read_all(FIRST) == sound
    assert values(log) == values(copy)


def test_damage_over_the_logs_start_is_repaired_from_there_on() -> None:
    log, storage, copy = two_replicas()
    storage.zero(FIRST, 3 * BATCH, 9 * BATCH)
    notice(log)
    for one in (log, copy):
        one.delete_records(6)

    assert repair(log, give(copy))

    assert values(log) == values(copy)
    assert not log.damaged_segments()


def test_an_index_that_is_damaged_too_is_made_anew() -> None:
    log, storage, copy = two_with_a_transaction(end=True)
    end = log.end_offset
    for one in (log, copy):
        one.roll(NOW)
        one.close()
    storage.kill()
    storage.write("orders-0/00000000000000000000.txnindex", b"nonsense")
    storage.flip(FIRST, 16)  # no batch begins here
    log = open_log(storage, CONFIG, clean=True, recovery_point=end)
    log.suspect(0)

    assert repair(log, give(copy))

    assert log.aborted_transactions(0, end) == copy.aborted_transactions(0, end)
    assert values(log) == values(copy)


def test_what_was_missing_behind_a_cut_is_not_missed_any_more() -> None:
    log, storage, copy = two_replicas()
    log.close()
    storage.kill()
    storage.cut(FIRST, 3 * BATCH)
    storage.delete("orders-0/00000000000000000012.log")
    log = open_log(storage, CONFIG, recovery_point=15)
    assert log.damage
    log.truncate_to(3)
    assert log.end_offset == 3
    fill(log, 2)
    assert values(log) == values(copy)[:5]


def test_sound_records_before_damage_are_served_up_to_any_bound() -> None:
    log, storage, copy = two_replicas()
    log.close()
    storage.kill()
    storage.flip(FIRST, 5 * BATCH + 16)
    log = open_log(storage, CONFIG, clean=True, recovery_point=15)

    piece = log.read(0, 10 * BATCH, upto=9)

    assert [header.base_offset for _, header in iter_batches(piece.data)] == [0, 1, 2, 3, 4]
    assert repair(log, give(copy))
    assert values(log) == values(copy)


def test_a_length_that_points_out_of_the_file_is_noticed() -> None:
    config = LogConfig(index_interval_bytes=1000)
    logs = []
    for _ in range(2):
        storage = FaultyStorage()
        log = open_log(storage, config)
        fill(log, 6, size=20_000)
        log.roll(NOW)
        fill(log, 1)
        log.close()
        storage.kill()
        logs.append((open_log(storage, config, clean=True, recovery_point=7), storage))
    (log, storage), (copy, _) = logs
    size = storage.files()[FIRST] // 6
    storage.flip(FIRST, 3 * size + 8, 0x10)
    with pytest.raises(CorruptLog):
        log.read(3, 1000, upto=7)
    assert repair(log, give(copy, size=size))
    assert values(log) == values(copy)


def test_a_read_with_room_for_less_than_a_header_is_no_sign_of_damage() -> None:
    log, _storage, _copy = two_replicas()
    for offset in range(15):
        for room in range(1, 70):
            log.read(offset, room, upto=15, at_least_one=False)
    assert not log.damaged_segments()


@pytest.mark.parametrize(
    ("where", "mask"), [(23, 0x40), (3, 0x40)], ids=["last offset", "base offset"]
)
def test_a_crash_in_the_swap_of_what_is_partly_repaired_costs_no_other_segment(
    where: int, mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, storage, copy = two_replicas()
    log.roll(NOW)
    fill(log, 3)
    log.flush()
    storage.flip(FIRST, 2 * BATCH + 90)
    storage.flip(FIRST, 6 * BATCH + where, mask)
    notice(log)
    plan = log.plan_repair(0, NOW)
    assert plan is not None

    def partly(offset: int) -> bytes:
        return nothing(offset) if offset in {5, 6, 7} else give(copy)(offset)

    def stop(*_arguments: object) -> None:
        raise Crash

    result = rewrite(plan, partly)
    monkeypatch.setattr("millpond.log.partition_log.finish_swap", stop)
    with contextlib.suppress(Crash):
        log.install_repair(result)
    storage.kill()
    log = open_log(storage, CONFIG, recovery_point=18)
    assert [segment.base_offset for segment in log.segments] == [0, 12, 15]
    assert values(log, start=12)[:3] == values(copy, start=12)


def log_with_transactions() -> tuple[PartitionLog, FaultyStorage]:
    """An aborted one and a sequence in a closed segment, both going on in the next."""
    storage = FaultyStorage()
    log = open_log(storage, CONFIG)  # as after a crash: what there is was worked out from batches
    fill(log, 2)
    append(log, batch(b"no".ljust(100), **PRODUCER, base_sequence=0, transactional=True))
    append(log, marker(commit=False, producer_id=7))
    append(log, batch(b"p0", producer_id=9, producer_epoch=0, base_sequence=0))
    log.roll(NOW)
    append(log, batch(b"yes", **PRODUCER, base_sequence=1, transactional=True))
    append(log, marker(commit=True, producer_id=7))
    append(log, batch(b"p1", producer_id=9, producer_epoch=0, base_sequence=1))
    log.roll(NOW)
    fill(log, 2)
    log.flush()
    return log, storage


def positions(log: PartitionLog) -> dict[int, int]:
    return {header.base_offset: at for one in log.segments for at, header, _data in one.iter_data()}


def test_what_is_known_is_not_worked_out_again_over_what_is_still_damaged() -> None:
    log, storage = log_with_transactions()
    copy, _ = log_with_transactions()
    at = positions(log)
    aborted = log.aborted_transactions(0, 10)
    storage.flip(FIRST, at[0] + 90)
    storage.flip(FIRST, at[3] + 62)
    notice(log)
    assert repair(log, lambda offset: nothing(offset) if offset == 3 else give(copy)(offset))
    assert log.aborted_transactions(0, 10) == aborted
    assert log.last_stable_offset == 10
    assert repair(log, give(copy))
    assert log.aborted_transactions(0, 10) == aborted


def test_damage_that_nobody_has_met_is_found_before_something_is_worked_out_over_it() -> None:
    log, storage = log_with_transactions()
    copy, _ = log_with_transactions()
    at = positions(log)
    storage.flip(FIRST, at[0] + 90)
    storage.flip("orders-0/00000000000000000005.log", at[6] + 16, 0x08)
    with pytest.raises(CorruptLog):
        log.read(0, BATCH, upto=10)
    plan = log.plan_repair(0, NOW)
    assert plan is not None
    assert log.install_repair(rewrite(plan, give(copy)))
    assert log.last_stable_offset == 10
    assert log.damaged_segments() == [5]
    assert repair(log, give(copy))
    assert append(log, batch(b"p2", producer_id=9, producer_epoch=0, base_sequence=2))


def test_aborted_transactions_are_durable_when_a_segment_is_repaired() -> None:
    log, storage = log_with_transactions()
    copy, _ = log_with_transactions()
    aborted = log.aborted_transactions(0, 10)
    storage.flip(FIRST, 90)
    notice(log)
    assert repair(log, give(copy))
    fill(log, 1)
    log.flush()
    storage.lose_power(keep_names=True)
    log = open_log(storage, CONFIG, recovery_point=11)
    assert log.aborted_transactions(0, 10) == aborted


@pytest.mark.parametrize("where", [90, 16], ids=["a record", "a header"])
@pytest.mark.parametrize("until", range(11, 16))
def test_a_follower_can_be_cut_back_into_a_segment_that_could_not_be_repaired(
    until: int, where: int
) -> None:
    log, storage, _copy = two_replicas()
    storage.flip("orders-0/00000000000000000012.log", BATCH + where)
    notice(log)
    if where == 16:
        log.suspect(12)
    repair(log, nothing)
    log.truncate_to(until)
    end = log.end_offset
    assert end <= until
    fill(log, 2)
    assert log.end_offset == end + 2
    assert values(log, start=end) == [(b"%d" % n).ljust(100, b".") for n in (end, end + 1)]


def test_the_first_batch_after_damage_is_not_believed_before_the_next_follows_it() -> None:
    for bit in (0x0E, 0x0F):
        log, storage, copy = two_replicas(LogConfig(cleanup_policy=frozenset({"compact"})))
        storage.flip(FIRST, 5 * BATCH + 90)
        storage.flip(FIRST, 6 * BATCH + 7, bit)  # 6 claims 8, or 9
        log.suspect(0)
        repair(log, give(copy))
        assert values(log) == values(copy)


def test_a_sound_batch_behind_a_gap_is_served_though_the_next_is_damaged() -> None:
    log, storage = table(compacted=True)
    found = positions(log)
    names = sorted(name for name in storage.files() if name.endswith(".log"))
    offsets = [offset for offset in found if f"{offset:020d}" > names[0][9:29]]
    assert offsets
    first, second = sorted(found)[:2]
    name = next(one for one in names if storage.files()[one])
    storage.flip(name, found[second] + 70)
    notice(log, size=1 << 20)
    repair(log, nothing)
    assert log.read(first, 1 << 20, upto=log.end_offset).data


def test_places_are_right_after_an_index_was_made_anew_over_damage() -> None:
    storage = FaultyStorage()
    log = open_log(storage, LogConfig(index_interval_bytes=500))
    fill(log, 1000)
    log.close()
    storage.kill()
    position = 300 * len(batch(b"300".ljust(100, b".")))
    storage.flip(FIRST, position + 16)
    storage.write("orders-0/00000000000000000000.index", b"nonsense")
    log = open_log(storage, LogConfig(index_interval_bytes=500), clean=True, recovery_point=1000)
    with contextlib.suppress(CorruptLog):
        log.read(301, BATCH, upto=1000)
    fill(log, 250)
    for offset in range(301, 1250, 7):
        with contextlib.suppress(CorruptLog):
            piece = log.read(offset, BATCH, upto=1250)
            assert piece.first_batch_offset == offset
