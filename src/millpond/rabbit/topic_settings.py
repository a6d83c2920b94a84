"""What a queue asks of the topic that holds its messages.

A queue's log goes when its messages are over, not by age or size; a stream's goes by both. What is to be
flushed is flushed message by message (``engine/queues/hosted/queue_log.py``): a transient message in a
durable queue waits for no flush, so the topic's own policy is to leave flushing to the system, and to
look once a second for what became of messages that last. Transient messages are no reason to flush,
however old they are.
"""

from millpond.base.fields import Table
from millpond.rabbit.arguments import MAX_AGE, MAX_LENGTH_BYTES, SEGMENT_BYTES, STREAM, age_ms
from millpond.rabbit.records import Queue

# What RabbitMQ's streams have, and the least and the most that a topic may have.
_SEGMENT_BYTES = 500_000_000
_SEGMENT_BYTES_MIN = 1_048_576
_SEGMENT_BYTES_MAX = 2**31 - 1


def topic_configs(queue: Queue, policy: Table | None = None) -> dict[str, str]:
    """The topic's settings. ``policy`` is what policies say of the queue when it is made."""
    configs = {
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "cleanup.policy": "delete",
        "flush.policy": "os",
        "flush.ms": "1000",
    }
    if queue.type == STREAM:
        configs |= _stream_configs(queue.arguments, policy or {})
    return configs


def _stream_configs(arguments: Table, policy: Table) -> dict[str, str]:
    def said(name: str) -> object:
        return arguments.get(name, policy.get(name.removeprefix("x-")))

    age, length, segment = said(MAX_AGE), said(MAX_LENGTH_BYTES), said(SEGMENT_BYTES)
    kept_ms = age_ms(age) if isinstance(age, str) else None
    segment_bytes = segment if isinstance(segment, int) and segment else _SEGMENT_BYTES
    segment_bytes = min(max(segment_bytes, _SEGMENT_BYTES_MIN), _SEGMENT_BYTES_MAX)
    return {
        "retention.ms": "-1" if kept_ms is None else str(kept_ms),
        "retention.bytes": str(length) if isinstance(length, int) else "-1",
        "segment.bytes": str(segment_bytes),
    }
