"""What a consumer of a stream says in its arguments: where it begins, and which messages it wants."""

from collections.abc import Iterable
from typing import Final

from millpond.base.errors import InvalidQueueArgument, NotSupported
from millpond.base.fields import Table, Timestamp, Value
from millpond.queue.consumers import Consumer
from millpond.queue.streams import At, Filter, First, Last, Next, Since, Start
from millpond.rabbit.arguments import PRIORITY, STREAM_OFFSET, age_ms
from millpond.rabbit.names import Resource

# What a publisher may say of a message, and what a consumer may want to have said of it.
FILTER_VALUE: Final = "x-stream-filter-value"
FILTER: Final = "x-stream-filter"
MATCH_UNFILTERED: Final = "x-stream-match-unfiltered"
# On every delivery: where the message is.
OFFSET_HEADER: Final = "x-stream-offset"

_WORDS: Final[dict[object, Start]] = {"first": First(), "last": Last(), "next": Next()}


def start_of(resource: Resource, arguments: Table, now_ms: int) -> Start:
    """Where a consumer wants to begin. Raises ``InvalidQueueArgument``."""
    said = arguments.get(STREAM_OFFSET)
    if said is None:
        return Next()
    if isinstance(said, Timestamp):
        return Since(said * 1000)
    if isinstance(said, int) and not isinstance(said, bool):
        return At(max(0, said))
    if isinstance(said, str):
        if said in _WORDS:
            return _WORDS[said]
        interval_ms = age_ms(said)
        if interval_ms is not None:
            return Since(now_ms - interval_ms)
    raise InvalidQueueArgument(
        f"invalid arg '{STREAM_OFFSET}' for {resource}: first, last, next, an offset, a time or an "
        "interval like 1h is expected"
    )


def filter_of(arguments: Table) -> Filter | None:
    """None: everything."""
    said = arguments.get(FILTER)
    if said is None:
        return None
    values: Iterable[Value] = said if isinstance(said, list) else [said]
    return Filter(
        frozenset(str(value) for value in values), arguments.get(MATCH_UNFILTERED) is True
    )


def check_stream_consumer(resource: Resource, consumer: Consumer) -> None:
    """In RabbitMQ's order and words. Raises ``InvalidQueueArgument`` or ``NotSupported``."""
    if not consumer.prefetch:
        raise InvalidQueueArgument(f"consumer prefetch count is not set for '{resource}'")
    if consumer.no_ack:
        raise NotSupported(f"automatic acknowledgement not supported by stream queues {resource}")
    if PRIORITY in consumer.arguments:
        raise InvalidQueueArgument(
            f"invalid arg '{PRIORITY}' for {resource} of queue type rabbit_stream_queue"
        )
