"""The driver's side of a query: its start, the end of the next batch, the ranges of each batch.

``Tracker`` decides; it asks a ``Place`` (a broker, or segment files) for the logs' bounds and knows neither
Spark nor sockets, so that every rule is tested with plain values. One tracker lives as long as its query.
"""

import difflib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from millpond.base.ids import TopicPartition
from millpond.spark.errors import UnknownTopic, WrongOption
from millpond.spark.loss import LossPolicy
from millpond.spark.offsets import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    Edge,
    Offsets,
    Where,
)
from millpond.spark.offsets import names as listed
from millpond.spark.options import NoMatch, Partitions, SourceOptions, Subscription, Topics
from millpond.spark.plan import (
    Bounds,
    Lost,
    Range,
    align_ends,
    limit_rows,
    plan_ranges,
    rows_between,
    shed_ends,
    split_ranges,
    without_shed,
)

log = logging.getLogger(__name__)


class Place(Protocol):
    """A place that holds partitions: a broker or a data directory."""

    def topics(self, subscription: Subscription) -> Mapping[str, Collection[int]]:
        """Return the existing topics of the subscription, with their partitions."""

    def all_topics(self) -> Collection[str]:
        """Return every topic, to suggest one for a misspelt name."""

    def bounds(self, places: Iterable[TopicPartition]) -> Bounds:
        """Return the starts and ends of these logs; partitions that do not exist are left out."""

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record at or after each time; ``None`` if there is none."""


class Tracker:
    """Decides what a query reads. ``pause`` waits some seconds; ``now_ms`` is the time."""

    def __init__(
        self,
        options: SourceOptions,
        place: Place,
        *,
        pause: Callable[[float], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._options = options
        self._place = place
        self._pause = pause
        self._now_ms = now_ms
        self._lose = LossPolicy(fail=options.fail_on_data_loss, report=options.loss_report)
        self._bounds: Bounds | None = None  # the bounds that the present batch was decided on
        self._initial: Offsets | None = None
        self._has_begun = False
        self._target: Offsets | None = None
        self._newest: Offsets | None = None
        self._last_batch_ms = 0

    # --- start and end ---

    def batch(self) -> list[Range]:
        """Return the ranges of a batch query."""
        options = self._options
        places = self._subscribed()
        start = self._resolve(options.starting or Edge.EARLIEST, places, "starting")
        if options.starting is not None:
            self._check_start(options.starting, start)
        end = self._resolve(options.ending, places, "ending")
        bounds = self._place.bounds(places)
        # A start after the end is an empty range here, not a log that was truncated.
        end = {place: max(upto, start[place]) for place, upto in end.items()}
        return self._split(*plan_ranges(start, end, bounds))

    def initial(self) -> Offsets:
        """Return the start of a streaming query without a checkpoint.

        Spark asks twice for its first batch, once for its end and once for its start: records that arrive in
        between must not move the start past the end.

        A start that moves with time (the latest) is not in the checkpoint until a batch ends there. So the
        first batch of such a query ends where it begins (``latest``): a restart after a crash finds the
        beginning in the checkpoint. That run is asked for the start of the first batch as well and finds a
        later one, which ``ranges`` moves back.
        """
        if self._initial is None:
            where = Edge.LATEST if self._options.starting is None else self._options.starting
            self._initial = self._resolve(where, self._subscribed(), "starting")
            self._check_start(where, self._initial)
        return dict(self._initial)

    # --- the end of a batch ---

    def prepare_available_now(self) -> None:
        """Fix the end of the run to the present ends of the logs.

        Partitions that are missing now would silently be left out of this run, so they are looked up again
        first.
        """
        subscription = self._options.subscription
        tries = self._options.offset_tries
        while True:
            found = self._place.topics(subscription)
            places = _partitions(subscription, found)
            self._target = dict(self._place.bounds(places).latest)
            missing = [*_missing(subscription, found), *map(str, places - self._target.keys())]
            tries -= 1
            if not missing or tries <= 0:
                return
            log.warning("%s: not there; asking again", ", ".join(missing))
            self._pause(self._options.offset_retry_s)

    def default_rows_max(self) -> int:
        """Return the limit of a batch from the options."""
        return self._options.offsets_per_trigger_max

    def latest(self, start: Mapping[TopicPartition, int], rows_max: int | None) -> Offsets:
        """Return the end of the next batch; ``start`` itself if there should be none. ``None`` is no limit.

        A loss that stops the query is raised here, before Spark stores the end: a loss that was only
        apparent, because a broker had just started, must not be in the checkpoint.
        """
        bounds = self._steady_bounds(start)
        self._bounds = bounds
        self._newest = dict(bounds.latest)
        if self._is_first(start):
            return dict(start)
        until = dict(bounds.latest)
        if self._target is not None:
            targets = {**start, **self._target}
            until = {
                place: _up_to(end, targets[place], start.get(place, 0))
                for place, end in until.items()
                if place in targets
            }
        jumps: Offsets = {}
        if self._options.shed_beyond is not None:
            jumps, until = shed_ends(start, until, bounds, self._options.shed_beyond)
        if rows_max is not None:
            if not jumps and self._too_few(start, until, bounds):
                return dict(start)
            until = self._limited(start, until, bounds, rows_max)
        until |= jumps
        if self._options.fail_on_data_loss:
            _, lost = plan_ranges(start, until, bounds)
            self._lose(lost)
        return until

    def _limited(
        self,
        start: Mapping[TopicPartition, int],
        until: Offsets,
        bounds: Bounds,
        rows_max: int,
    ) -> Offsets:
        """Return ends within the limit of a batch, distributed as the options say."""
        if not self._options.align_partitions:
            return limit_rows(start, until, bounds, rows_max, self._options.priority)

        def offsets_at(time_ms: int) -> dict[TopicPartition, int | None]:
            return self._place.at_times(dict.fromkeys(until, time_ms))

        return align_ends(start, until, bounds, rows_max, offsets_at, self._now_ms())

    def _is_first(self, start: Mapping[TopicPartition, int]) -> bool:
        """Return whether this is the first batch of a query whose start moves with time. True once."""
        is_first = not self._has_begun and start == self._initial and self._start_moves()
        self._has_begun = True
        return is_first

    def _start_moves(self) -> bool:
        """Return whether a later lookup of the start may give another one."""
        match self._options.starting:
            case None | Edge.LATEST:
                return True
            case AtOffsets(offsets):
                return LATEST in offsets.values()
            case AtTime() | AtTimes():
                return self._options.no_match is NoMatch.LATEST
            case _:
                return False

    def newest(self) -> Offsets | None:
        """Return the ends of the logs when the last batch was decided, for computing lag."""
        return self._newest

    def _too_few(
        self,
        start: Mapping[TopicPartition, int],
        until: Mapping[TopicPartition, int],
        bounds: Bounds,
    ) -> bool:
        """Return whether to wait for more records. Not for ever, and not if no more can come."""
        least = self._options.offsets_per_trigger_min
        if least is None or self._target is not None:
            return False
        now_ms = self._now_ms()
        waited_ms = now_ms - self._last_batch_ms
        patient = waited_ms < self._options.trigger_delay_ms_max
        if patient and rows_between(start, until, bounds) < least:
            return True
        self._last_batch_ms = now_ms
        return False

    # --- ranges ---

    def ranges(
        self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
    ) -> list[Range]:
        """Return what the tasks of one batch read. Losses are raised or reported here."""
        self._has_begun = True
        if start == self._initial and self._start_moves():
            start = {place: min(first, end.get(place, first)) for place, first in start.items()}
        bounds, self._bounds = self._bounds, None
        if bounds is None or not _covers(
            bounds, end
        ):  # planned by an earlier run, from the checkpoint
            bounds = self._place.bounds(start.keys() | end.keys())
        return self._split(*plan_ranges(start, end, bounds))

    def _split(self, ranges: list[Range], lost: list[Lost]) -> list[Range]:
        self._lose(lost)
        if self._options.shed_beyond is not None:
            ranges, shed = without_shed(ranges, self._options.shed_beyond)
            self._lose.shed(shed)
        return split_ranges(
            ranges,
            partitions_min=self._options.partitions_min,
            records_max=self._options.records_per_partition_max,
        )

    # --- lookups ---

    def _subscribed(self) -> set[TopicPartition]:
        """Return the partitions to read; an option that names missing ones is an error."""
        subscription = self._options.subscription
        tries = self._options.offset_tries
        while True:
            found = self._place.topics(subscription)
            missing = _missing(subscription, found)
            if not missing:
                return _partitions(subscription, found)
            tries -= 1
            if tries <= 0:
                raise UnknownTopic(self._unknown(subscription, missing, found))
            self._pause(self._options.offset_retry_s)  # it may have been created a moment ago

    def _existing(self) -> set[TopicPartition]:
        """Return the same during a query, when missing partitions are a loss and not a wrong option."""
        subscription = self._options.subscription
        return _partitions(subscription, self._place.topics(subscription))

    def _steady_bounds(self, start: Mapping[TopicPartition, int]) -> Bounds:
        """Return the bounds; looked up again if a log shrank or is missing, since stale metadata can look
        like that.
        """
        tries = self._options.offset_tries
        while True:
            bounds = self._place.bounds(self._existing())
            odd = [place for place, at in start.items() if bounds.latest.get(place, -1) < at]
            tries -= 1
            if not odd or tries <= 0:
                return bounds
            log.warning("%s end before the query's position; asking again", listed(odd))
            self._pause(self._options.offset_retry_s)

    def _resolve(self, where: Where, places: set[TopicPartition], side: str) -> Offsets:
        """Return positions as numbers."""
        match where:
            case Edge():
                wanted: dict[TopicPartition, int] = dict.fromkeys(places, int(where))
            case AtOffsets(offsets):
                _check_complete(f"{side}Offsets", offsets.keys(), places)
                wanted = dict(offsets)
            case AtTimes(times):
                _check_complete(f"{side}OffsetsByTimestamp", times.keys(), places)
                wanted = self._by_times(times, side)
            case AtTime(time):
                wanted = self._by_times(dict.fromkeys(places, time), side)
        edges = {place for place, offset in wanted.items() if offset < 0}
        if edges:
            bounds = self._place.bounds(edges)
            found = {EARLIEST: bounds.earliest, LATEST: bounds.latest}
            for place in edges:
                edge = found[wanted[place]].get(place)
                if edge is None:
                    raise UnknownTopic(f"{place} went away while the query began")
                wanted[place] = edge
        return wanted

    def _check_start(self, where: Where, start: Offsets) -> None:
        """Check that the user's offsets are not beyond the end of their logs."""
        if not isinstance(where, AtOffsets) or not self._options.fail_on_data_loss:
            return
        ends = self._place.bounds(start).latest
        wrong = [
            f"{place} ends at {ends[place]}, before {offset}"
            for place, offset in sorted(start.items())
            if place in ends and offset > ends[place]
        ]
        if wrong:
            raise WrongOption(f"startingOffsets: {'; '.join(wrong)}")

    def _by_times(
        self, times: Mapping[TopicPartition, int], side: str
    ) -> dict[TopicPartition, int]:
        found = self._place.at_times(times)
        without = [place for place in times if found.get(place) is None]
        if without and side == "starting" and self._options.no_match is NoMatch.ERROR:
            raise WrongOption(
                f"no record of {listed(without)} is as young as the starting time"
                f" {times[without[0]]}; startingOffsetsByTimestampStrategy=latest begins at the end there"
            )
        return {place: LATEST if (at := found.get(place)) is None else at for place in times}

    def _unknown(
        self, subscription: Subscription, missing: list[str], found: Mapping[str, Collection[int]]
    ) -> str:
        option = "assign" if isinstance(subscription, Partitions) else "subscribe"
        hints = []
        for name in missing:
            topic = name.rpartition("-")[0] if option == "assign" else name
            if option == "assign" and topic in found:
                hints.append(f"{name} (the topic has {len(found[topic])} partitions)")
                continue
            near = difflib.get_close_matches(topic, self._place.all_topics(), n=1)
            hints.append(f"{name} (did you mean {near[0]}?)" if near else name)
        return f"{option}: the broker does not have {', '.join(hints)}"


def _up_to(end: int, target: int, start: int) -> int:
    """Return an end that is neither beyond the target nor before the start; unless the log itself went
    back.
    """
    return end if end < start else max(start, min(end, target))


def _covers(bounds: Bounds, end: Mapping[TopicPartition, int]) -> bool:
    """Return whether these bounds are those that the end was decided on."""
    return bounds.latest.keys() == end.keys() and all(
        offset <= bounds.latest[place] for place, offset in end.items()
    )


def _missing(subscription: Subscription, found: Mapping[str, Collection[int]]) -> list[str]:
    match subscription:
        case Topics(names):
            return [name for name in names if name not in found]
        case Partitions(places):
            return [
                str(place)
                for place in sorted(places)
                if place.partition not in found.get(place.topic, ())
            ]
        case _:
            return []


def _partitions(
    subscription: Subscription, found: Mapping[str, Collection[int]]
) -> set[TopicPartition]:
    every = {
        TopicPartition(topic, number) for topic, numbers in found.items() for number in numbers
    }
    return every & subscription.places if isinstance(subscription, Partitions) else every


def _check_complete(
    option: str, given: Collection[TopicPartition], places: set[TopicPartition]
) -> None:
    unknown = set(given) - places
    if unknown:
        raise WrongOption(
            f"{option} names partitions that are not subscribed to: {listed(unknown)}"
        )
    left_out = places - set(given)
    if left_out:
        raise WrongOption(
            f"{option} must name every partition and leaves out {listed(left_out)};"
            " -1 is the latest, -2 the earliest"
        )
