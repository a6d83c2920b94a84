"""The decisions of the driver over a place that is a dictionary: starts, ends, limits, news, losses."""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pytest

from millpond.base.ids import TopicPartition
from millpond.spark.errors import DataLost, UnknownTopic, WrongOption
from millpond.spark.options import (
    Partitions,
    Subscription,
    TopicPattern,
    Topics,
    check_for_batch,
    parse_options,
)
from millpond.spark.plan import Bounds, Range
from millpond.spark.tracking import Tracker


class World:
    """Topics with partitions, each a span of offsets; record n of a partition has time n."""

    def __init__(self, **topics: list[tuple[int, int]]) -> None:
        self.spans = {name: list(spans) for name, spans in topics.items()}
        self.asked = 0

    def topics(self, subscription: Subscription) -> Mapping[str, Collection[int]]:
        match subscription:
            case Topics(names):
                wanted = set(names)
            case Partitions(places):
                wanted = {place.topic for place in places}
            case TopicPattern():
                wanted = {name for name in self.spans if subscription.matches(name)}
        return {name: range(len(spans)) for name, spans in self.spans.items() if name in wanted}

    def all_topics(self) -> Collection[str]:
        return self.spans.keys()

    def bounds(self, places: Iterable[TopicPartition]) -> Bounds:
        self.asked += 1
        spans = {
            place: self.spans[place.topic][place.partition]
            for place in places
            if place.topic in self.spans
        }
        return Bounds(
            earliest={place: first for place, (first, _) in spans.items()},
            latest={place: end for place, (_, end) in spans.items()},
        )

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        for place, time in times.items():
            first, end = self.spans[place.topic][place.partition]
            found[place] = max(first, time) if time < end else None
        return found


class Clock:
    """Time that only a test moves, and pauses that it counts."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.pauses: list[float] = []

    def __call__(self) -> int:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


def tracker(world: World, clock: Clock | None = None, **given: str) -> Tracker:
    """A tracker of `orders` unless another subscription is given."""
    named = {"kafka.bootstrap.servers": "b:1", **given}
    if not {"subscribe", "subscribePattern", "assign"} & named.keys():
        named["subscribe"] = "orders"
    clock = clock or Clock()
    return Tracker(parse_options(named), world, pause=clock.pause, now_ms=clock)


def at(*offsets: int, topic: str = "orders") -> dict[TopicPartition, int]:
    """Positions in the partitions of a topic, from 0 on."""
    return {TopicPartition(topic, number): offset for number, offset in enumerate(offsets)}


def span(first: int, end: int, partition: int = 0, topic: str = "orders") -> Range:
    """A range."""
    return Range(topic=topic, partition=partition, first=first, end=end)


# --- batch queries -----------------------------------------------------------------------------


def test_a_batch_query_reads_everything_by_default() -> None:
    assert tracker(World(orders=[(0, 5), (2, 9)])).batch() == [span(0, 5), span(2, 9, 1)]


def test_a_batch_query_between_offsets() -> None:
    query = tracker(
        World(orders=[(0, 50), (0, 90)]),
        startingOffsets='{"orders":{"0":7,"1":-2}}',
        endingOffsets='{"orders":{"0":9,"1":-1}}',
    )

    assert query.batch() == [span(7, 9), span(0, 90, 1)]


def test_a_batch_query_between_times() -> None:
    query = tracker(World(orders=[(0, 50), (20, 40)]), startingTimestamp="10", endingTimestamp="30")

    assert query.batch() == [span(10, 30), span(20, 30, 1)]


def test_a_time_that_is_too_late_is_an_error_or_the_end_as_one_chooses() -> None:
    world = World(orders=[(0, 50), (0, 5)])

    with pytest.raises(
        WrongOption, match="no record of orders-1 is as young as the starting time 10"
    ):
        tracker(world, startingTimestamp="10").batch()

    chosen = tracker(world, startingTimestamp="10", startingOffsetsByTimestampStrategy="latest")
    assert chosen.batch() == [span(10, 50)]


def test_an_end_before_the_start_is_nothing_to_read() -> None:
    query = tracker(World(orders=[(0, 50)]), startingTimestamp="30", endingTimestamp="10")

    assert query.batch() == []


def test_offsets_must_name_every_partition_and_no_other() -> None:
    world = World(orders=[(0, 5), (0, 5)])

    with pytest.raises(WrongOption, match="leaves out orders-1"):
        tracker(world, startingOffsets='{"orders":{"0":0}}').batch()
    with pytest.raises(WrongOption, match="not subscribed to: orders-7"):
        tracker(world, startingOffsets='{"orders":{"0":0,"1":0,"7":0}}').batch()


def test_only_the_partitions_that_were_assigned_are_read() -> None:
    query = tracker(World(orders=[(0, 5), (0, 6), (0, 7)]), assign='{"orders":[0,2]}')

    assert query.batch() == [span(0, 5), span(0, 7, 2)]


def test_a_topic_that_is_not_there_is_named_with_the_nearest_one() -> None:
    clock = Clock()

    with pytest.raises(
        UnknownTopic, match=r"subscribe: the broker does not have ordes \(did you mean orders"
    ):
        tracker(World(orders=[(0, 5)]), clock, subscribe="ordes").batch()

    assert len(clock.pauses) == 2, "it may have been created a moment ago, so it is asked for again"


def test_a_partition_that_is_not_there_is_named_with_how_many_there_are() -> None:
    with pytest.raises(UnknownTopic, match=r"assign: .* orders-4 \(the topic has 1 partitions\)"):
        tracker(World(orders=[(0, 5)]), assign='{"orders":[4]}').batch()


# --- streams -----------------------------------------------------------------------------------


def test_a_stream_begins_at_the_end_unless_told_otherwise() -> None:
    world = World(orders=[(3, 5)])

    assert tracker(world).initial() == at(5)
    assert tracker(world, startingOffsets="earliest").initial() == at(3)


def test_the_start_of_a_new_query_stays_where_it_was_first_found() -> None:
    world = World(orders=[(3, 5)])
    one = tracker(world)
    begun = one.initial()
    ends = one.latest(begun, 100)
    world.spans["orders"] = [(3, 9)]
    assert one.initial() == begun
    assert one.ranges(one.initial(), ends) == []


def test_a_batch_ends_at_the_limit_and_the_newest_is_known_for_lag() -> None:
    query = tracker(World(orders=[(0, 1000)]))

    assert query.latest(at(100), 50) == at(150)
    assert query.newest() == at(1000)
    assert query.latest(at(100), None) == at(1000)


def test_what_was_decided_is_planned_without_asking_again() -> None:
    world = World(orders=[(0, 1000)])
    query = tracker(world)
    end = query.latest(at(100), 50)

    assert query.ranges(at(100), end) == [span(100, 150)]
    assert world.asked == 1


def test_a_batch_of_an_earlier_run_is_planned_from_the_checkpoint() -> None:
    assert tracker(World(orders=[(0, 1000)])).ranges(at(100), at(150)) == [span(100, 150)]


def test_new_partitions_and_new_topics_are_found_in_mid_query() -> None:
    world = World(orders=[(0, 5)])
    query = tracker(world, subscribePattern="or.*")
    world.spans["orders"].append((0, 3))
    world.spans["organs"] = [(0, 2)]
    world.spans["other"] = [(0, 2)]

    end = query.latest(at(5), None)

    assert end == {**at(5, 3), **at(2, topic="organs")}
    assert query.ranges(at(5), end) == [span(0, 3, 1), span(0, 2, topic="organs")]


def test_available_now_does_not_go_beyond_what_there_was() -> None:
    world = World(orders=[(0, 10)])
    query = tracker(world)
    query.prepare_available_now()
    world.spans["orders"] = [(0, 99), (0, 9)]

    assert query.latest(at(0), 6) == at(6)
    assert query.latest(at(6), 6) == at(10)
    assert query.latest(at(10), 6) == at(10), "nothing is left: the query ends"
    assert query.newest() == at(99, 9)


def test_few_records_are_waited_for_but_not_for_ever() -> None:
    clock = Clock()
    world = World(orders=[(0, 100)])
    query = tracker(world, clock, minOffsetsPerTrigger="50", maxTriggerDelay="10s")
    assert query.latest(at(0), 1000) == at(100), "the first batch does not wait"
    world.spans["orders"] = [(0, 120)]

    clock.now += 9_999
    assert query.latest(at(100), 1000) == at(100)
    clock.now += 1
    assert query.latest(at(100), 1000) == at(120)

    world.spans["orders"] = [(0, 170)]
    assert query.latest(at(120), 1000) == at(170), "enough came"


def test_available_now_does_not_wait_for_more() -> None:
    query = tracker(World(orders=[(0, 10)]), minOffsetsPerTrigger="50")
    query.prepare_available_now()
    query.latest(at(0), 1000)

    assert query.latest(at(5), 1000) == at(10)


# --- losses ------------------------------------------------------------------------------------


def test_a_loss_stops_the_query_and_every_range_is_named() -> None:
    query = tracker(World(orders=[(50, 100), (7, 100)]))
    start = {**at(10, 0), **at(3, topic="gone")}

    with pytest.raises(DataLost) as raised:
        query.latest(start, None)

    message = str(raised.value)
    assert "orders-0, offsets 10 to 49" in message
    assert "orders-1, offsets 0 to 6" in message
    assert "gone-0, offsets 3 on" in message
    assert "47 offsets of 3 ranges" in message
    assert "failOnDataLoss=false" in message


def test_a_loss_that_is_allowed_is_written_down_and_the_rest_is_read(tmp_path: Path) -> None:
    report = tmp_path / "reports" / "lost.jsonl"
    query = tracker(World(orders=[(50, 100)]), failOnDataLoss="false", lossReport=str(report))
    end = query.latest(at(10), None)

    assert query.ranges(at(10), end) == [span(50, 100)]
    (line,) = [json.loads(line) for line in report.read_text().splitlines()]
    line.pop("reportedAtMs")
    assert line == {
        "topic": "orders",
        "partition": 0,
        "firstOffset": 10,
        "endOffset": 50,
        "offsets": 40,
        "reason": "deleted",
    }


def test_a_log_that_seems_shorter_is_asked_for_again_before_it_counts() -> None:
    clock = Clock()
    world = World(orders=[(0, 40)])
    query = tracker(world, clock, **{"fetchOffset.numRetries": "3"})

    with pytest.raises(DataLost, match="orders-0, offsets 60 on: the log ends before"):
        query.latest(at(60), None)

    assert len(clock.pauses) == 2


def test_a_topic_that_a_broker_has_not_heard_of_yet_is_not_forgotten() -> None:
    clock = Clock()
    world = World(orders=[(0, 40)], later=[(0, 9)])
    hidden = world.spans.pop("later")

    def appear(seconds: float) -> None:
        world.spans["later"] = hidden

    clock.pause = appear  # type: ignore[method-assign]
    query = tracker(world, clock, subscribe="orders,later", failOnDataLoss="false")

    assert query.latest({**at(30), **at(5, topic="later")}, None) == {
        **at(40),
        **at(9, topic="later"),
    }


def test_available_now_keeps_its_place_in_a_topic_it_did_not_see_at_the_start() -> None:
    world = World(orders=[(0, 40)])
    query = tracker(world, subscribe="orders,later", failOnDataLoss="false")
    query.prepare_available_now()
    world.spans["later"] = [(0, 9)]

    assert query.latest({**at(30), **at(5, topic="later")}, None) == {
        **at(40),
        **at(5, topic="later"),
    }


def test_a_loss_in_a_batch_of_an_earlier_run_stops_the_query() -> None:
    query = tracker(World(orders=[(50, 100)]))

    with pytest.raises(DataLost, match="orders-0, offsets 10 to 49"):
        query.ranges(at(10), at(60))


# --- a start that moves ------------------------------------------------------------------------


def test_a_query_from_the_latest_on_writes_its_beginning_down_before_it_reads() -> None:
    world = World(orders=[(0, 5)])
    first = tracker(world)
    begun = first.initial()
    world.spans["orders"] = [(0, 8)]
    assert first.latest(begun, 100) == at(5), "the first batch ends where the query begins"
    assert first.ranges(begun, at(5)) == []
    assert first.latest(at(5), 100) == at(8)


def test_a_driver_that_died_before_its_first_commit_misses_nothing() -> None:
    world = World(orders=[(0, 5)])
    died = tracker(world)
    assert died.latest(died.initial(), 100) == at(5)
    world.spans["orders"] = [(0, 9)]

    again = tracker(world)
    assert again.initial() == at(9), "it cannot know better"
    assert again.ranges(again.initial(), at(5)) == [], "no loss, and nothing from the log's start"
    assert again.latest(at(5), 100) == at(9)
    assert again.ranges(at(5), at(9)) == [span(5, 9)]


def test_a_start_that_stays_where_it_is_needs_no_batch_of_its_own() -> None:
    query = tracker(World(orders=[(0, 5)]), startingOffsets="earliest")
    assert query.latest(query.initial(), 100) == at(5)


# --- priority and shedding ---------------------------------------------------------------------


def test_topics_with_priority_fill_a_batch_first() -> None:
    query = tracker(World(orders=[(0, 500)], vip=[(0, 80)]), subscribe="orders,vip", priority="vip")
    end = query.latest(at(0) | at(0, topic="vip"), 100)
    assert end == at(20) | at(80, topic="vip")

    with pytest.raises(WrongOption, match="priority names vpi, which subscribe does not"):
        tracker(World(), subscribe="orders,vip", priority="vpi")


def test_what_is_shed_is_written_down_and_the_query_goes_on(tmp_path: Path) -> None:
    report = tmp_path / "shed.jsonl"
    query = tracker(World(orders=[(0, 1000)]), shedBeyond="100", lossReport=str(report))
    end = query.latest(at(0), 10)
    assert end == at(950)
    assert query.ranges(at(0), end) == []
    (line,) = map(json.loads, report.read_text().splitlines())
    assert (line["reason"], line["firstOffset"], line["endOffset"]) == ("shed", 0, 950)
    end = query.latest(end, 10)
    assert query.ranges(at(950), end) == [span(950, 960)]

    with pytest.raises(WrongOption, match="shedBeyond is for streams"):
        check_for_batch(
            parse_options(
                {"kafka.bootstrap.servers": "b:1", "subscribe": "orders", "shedBeyond": "5"}
            )
        )


def test_partitions_that_are_aligned_are_read_up_to_the_same_time() -> None:
    """Record n has time n: the short partition ends early, the long one has the rest of the batch."""
    world = World(orders=[(0, 1000), (0, 100), (400, 500)])
    clock = Clock()
    query = tracker(world, clock, alignPartitions="true")
    assert query.latest(at(0, 0, 400), 100) == at(50, 50, 400)
    assert query.latest(at(50, 50, 400), 100) == at(100, 100, 400)
    assert query.latest(at(100, 100, 400), 302) == at(401, 100, 401), "until the third begins"
    assert query.latest(at(990, 100, 500), 100) == at(1000, 100, 500), "no backlog, no search"
    assert query.latest(at(0, 0, 400), 1) == at(1, 1, 400), "every one gets on"


def test_records_of_times_to_come_are_read_too() -> None:
    clock = Clock()
    clock.now = 10
    query = tracker(World(orders=[(100, 1000)]), clock, alignPartitions="true")
    assert query.latest(at(100), 50) == at(150)


def test_offsets_behind_the_end_of_a_log_are_named() -> None:
    world = World(orders=[(0, 5), (0, 7)])
    wrong = '{"orders":{"0":99,"1":7}}'
    with pytest.raises(WrongOption, match="startingOffsets: orders-0 ends at 5, before 99"):
        tracker(world, startingOffsets=wrong).initial()
    with pytest.raises(WrongOption, match="startingOffsets: orders-0 ends at 5, before 99"):
        tracker(world, startingOffsets=wrong).batch()
    assert tracker(world, startingOffsets=wrong, failOnDataLoss="false").initial() == at(99, 7)


def test_a_run_over_what_is_there_does_not_leave_out_what_is_there_a_moment_later() -> None:
    world = World(other=[(0, 9)])
    clock = Clock()
    query = tracker(world, clock, startingOffsets="earliest")

    def appear(seconds: float) -> None:
        clock.pauses.append(seconds)
        world.spans["orders"] = [(0, 5)]

    query._pause = appear
    query.prepare_available_now()
    assert clock.pauses == [1.0]
    assert query.latest(query.initial(), 100) == at(5)
