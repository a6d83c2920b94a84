"""Who is given up when: by two limits, by more than one sign, and never for what the judge slept through."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from millpond.base.stalls import StallMeter
from millpond.metadata.features import has_short_lease
from millpond.metadata.image import BrokerImage, Image, apply
from millpond.metadata.levels import MILLPOND_VERSION, SHORT_LEASES
from millpond.metadata.records import FeatureLevels, RegisterBrokerRecord
from millpond.metadata.sessions import OwnSession, Sessions

SESSION_MS, SILENCE_MS = 9_000, 3_000


def image_of(*nodes: int, level: int = SHORT_LEASES) -> Image:
    features = (FeatureLevels(name=MILLPOND_VERSION, lowest=0, highest=level),)
    return apply(
        Image(),
        [
            RegisterBrokerRecord(
                broker_id=node,
                incarnation_id=UUID(int=node),
                broker_epoch=node,
                end_points=(),
                rack=None,
                fenced=False,
                log_dirs=(UUID(int=100 + node),),
                features=features,
            )
            for node in nodes
        ],
    )


def broker_of(level: int) -> BrokerImage:
    return image_of(1, level=level).brokers[1]


def test_a_silent_node_is_given_up_when_its_lease_is_over() -> None:
    image = image_of(1, 2)
    sessions = Sessions(SESSION_MS, SILENCE_MS)
    sessions.hear(1, 0)
    sessions.hear(2, 2_000)
    assert sessions.late(image, 2_999) == []
    assert sessions.late(image, 3_000) == [1]
    assert sessions.next_late_ms([1, 2], 1_000) == 3_000


def test_a_node_of_the_release_before_has_a_whole_session_because_it_leads_for_so_long() -> None:
    assert has_short_lease(broker_of(SHORT_LEASES))
    assert not has_short_lease(broker_of(SHORT_LEASES - 1))
    image = image_of(1, level=SHORT_LEASES - 1)
    sessions = Sessions(SESSION_MS, SILENCE_MS)
    sessions.hear(1, 0)
    assert sessions.late(image, 8_999) == []
    assert sessions.late(image, 9_000) == [1]


def test_a_node_that_still_fetches_the_metadata_is_alive() -> None:
    image = image_of(1)
    sessions = Sessions(SESSION_MS, SILENCE_MS)
    sessions.hear(1, 0)
    assert sessions.late(image, 4_000, {1: 3_900}) == []
    assert sessions.next_late_ms([1], 4_000) > 4_000
    assert sessions.late(image, 5_400, {1: 3_900}) == [1]
    # Whatever it does, without heartbeats its session ends.
    assert sessions.late(image, 9_000, {1: 8_999}) == [1]


def test_a_node_that_leads_for_longer_than_the_controller_thinks_is_waited_for() -> None:
    image = image_of(1, 2, 3, 4)
    sessions = Sessions(SESSION_MS, 1_500)
    # Started before the setting was lowered; of an earlier build, which says nothing; with a lower one.
    sessions.hear(1, 0, lease_ms=3_000)
    sessions.hear(2, 0)
    sessions.hear(3, 0, lease_ms=1_000)
    sessions.hear(4, 0, lease_ms=12_000)
    assert sessions.late(image, 1_499) == []
    assert sessions.late(image, 1_500) == [2, 3]
    assert sessions.late(image, 2_999) == [2, 3]
    assert sessions.late(image, 3_000) == [1, 2, 3]
    assert sessions.late(image, 11_999) == [1, 2, 3]
    assert sessions.is_live(4, 11_999)
    assert sessions.late(image, 12_000) == [1, 2, 3, 4]


def test_the_newest_word_of_a_node_about_its_lease_counts() -> None:
    sessions = Sessions(SESSION_MS, 1_500)
    sessions.hear(1, 0, lease_ms=3_000)
    # A registration says nothing of it.
    sessions.hear(1, 100)
    assert sessions.late(image_of(1), 3_099) == []
    # It has been started again, with the new setting.
    sessions.hear(1, 200, lease_ms=1_500)
    assert sessions.late(image_of(1), 1_700) == [1]


def test_a_session_is_the_limit_of_the_shorter_time() -> None:
    sessions = Sessions(2_000, SILENCE_MS)
    sessions.hear(1, 0)
    assert sessions.late(image_of(1), 2_000) == [1]


def test_what_the_controller_slept_through_counts_for_no_node() -> None:
    meter = StallMeter(tick_ms=250)
    for at in range(0, 1_001, 250):
        meter.tick(at)
    sessions = Sessions(SESSION_MS, SILENCE_MS, meter)
    sessions.hear(1, 1_000)
    # It wakes up at 9000 and looks at the sessions before anything else.
    assert sessions.late(image_of(1), 9_000) == []
    meter.tick(9_000)
    assert sessions.silent_ms(1, 9_000) == 250
    for at in range(9_250, 11_501, 250):
        meter.tick(at)
    assert sessions.late(image_of(1), 11_500) == []
    assert sessions.late(image_of(1), 11_750) == [1]


def test_a_meter_that_was_never_told_the_time_knows_of_no_stall() -> None:
    assert StallMeter().stalled_ms(0, 10**9) == 0


def test_what_is_read_after_a_stall_may_have_been_sent_before_it() -> None:
    meter = StallMeter(tick_ms=250)
    assert meter.heard_ms(10_000) == 10_000
    for at in (10_000, 10_250, 10_510):
        meter.tick(at)
        assert meter.heard_ms(at + 200) == at + 200
    # Stopped after 10510. Whether the tick or the read comes first does not matter.
    assert meter.heard_ms(15_000) == 10_510
    meter.tick(15_000)
    assert meter.heard_ms(15_001) == 10_510
    # Stopped again before it has read everything.
    assert meter.heard_ms(19_000) == 10_510
    meter.tick(19_000)
    assert meter.heard_ms(19_100) == 15_000
    # A tick that is in time: the sockets have been read.
    meter.tick(19_250)
    assert meter.heard_ms(19_300) == 19_300


@given(st.lists(st.integers(1, 5_000), max_size=50))
def test_what_is_read_is_never_counted_from_after_a_stall_began(steps: list[int]) -> None:
    meter = StallMeter(tick_ms=250)
    before = now = 0
    meter.tick(now)
    for step in steps:
        before, now = now, now + step
        assert meter.heard_ms(now) <= (before if step > 300 else now)
        meter.tick(now)
        assert meter.heard_ms(now) == (before if step > 300 else now)


@given(st.lists(st.integers(1, 5_000), max_size=50), st.integers(0, 20_000))
def test_stalls_are_counted_once_and_never_longer_than_the_time_that_passed(
    steps: list[int], since: int
) -> None:
    meter = StallMeter(tick_ms=250)
    now = 0
    meter.tick(now)
    for step in steps:
        now += step
        before = meter.stalled_ms(since, now)
        meter.tick(now)
        assert meter.stalled_ms(since, now) == before
        assert 0 <= before <= max(0, now - since)
        assert meter.silent_ms(min(since, now), now) >= 0
    late = sum(step - 250 for step in steps if step > 500)
    assert meter.stalled_ms(0, now) == late


def test_a_nodes_own_lease_ends_by_its_own_clock_however_it_was_stalled() -> None:
    lease = OwnSession(SILENCE_MS)
    assert lease.left_ms(0) is None
    lease.renew(1_000)
    assert lease.left_ms(1_500) == 2_500
    assert not lease.is_over(3_999)
    assert lease.is_over(4_000)


def test_the_last_controller_has_its_lease_from_when_nobody_backed_it_any_more() -> None:
    image = image_of(1, 2)
    sessions = Sessions(SESSION_MS, SILENCE_MS)
    sessions.begin(image, 10_000, predecessor=(1, 9_000))
    assert sessions.late(image, 11_999) == []
    assert sessions.late(image, 12_000) == [1]
    assert sessions.late(image, 13_000) == [1, 2]


def test_the_last_controller_has_time_to_be_heard_of_however_long_nobody_backed_it() -> None:
    image = image_of(1, 2)
    sessions = Sessions(SESSION_MS, SILENCE_MS)
    sessions.begin(image, 10_000, predecessor=(1, 0))
    assert sessions.late(image, 10_999) == []
    assert sessions.late(image, 11_000) == [1]
    sessions.begin(image, 10_000, predecessor=(1, 0))
    sessions.hear(1, 10_500)
    assert sessions.late(image, 12_999) == []
