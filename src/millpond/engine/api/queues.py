"""Queues as front-ends use them."""

from millpond.engine.forwarding.kept import Kept
from millpond.engine.queues.hosted.retries import Retries
from millpond.engine.queues.queue_handle import NEVER_READ, Counts, QueueHandle
from millpond.engine.queues.queues import Queues

__all__ = [
    "NEVER_READ",
    "Counts",
    "Kept",
    "QueueHandle",
    "Queues",
    "Retries",
]
