"""What a queue asks of the topic that holds its messages.

A queue's log goes when its messages are over, not by age or size. What is to be flushed is flushed message
by message (``engine/queue_log.py``): a transient message in a durable queue waits for no flush, so the
topic's own policy is to leave flushing to the system, and to look once a second.
"""

from millpond.queue.facts import Queue


def topic_configs(queue: Queue) -> dict[str, str]:
    """The topic's settings."""
    return {
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "cleanup.policy": "delete",
        "flush.policy": "os",
        "flush.ms": "1000",
    }
