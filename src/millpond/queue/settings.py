"""What holds for a queue, as plain values. Protocols compute them from their own arguments and policies."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Limits and habits of one queue. None: no such limit."""

    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str = "drop-head"
    # Where dead letters go; only the protocol that routes them looks into it. None: they are dropped.
    dead_letter_target: Hashable | None = None
    dead_letter_strategy: str = "at-most-once"
    max_priority: int = 0
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    # Which returned messages wait before they are ready again: disabled, all, failed, returned.
    delayed_retry: str = "disabled"
    delayed_retry_min_ms: int = 0
    delayed_retry_max_ms: int = 0
    # Whether every message is kept as durably as a persistent one.
    keeps_all: bool = False
    # Whether each message is ready only at a time of its own.
    is_delayed: bool = False
