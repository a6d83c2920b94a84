"""Interceptors: the application's code that sees every record on its way in or out.

They are called in the given order; each gets the result of the one before it. An error in one is logged and
the record continues unchanged: an interceptor never breaks a send or a poll.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from millpond.base.ids import TopicPartition
from millpond.client.errors import BadConfig
from millpond.client.records import (
    ConsumerRecord,
    OffsetAndMetadata,
    ProducerRecord,
    RecordMetadata,
)

_log = logging.getLogger("millpond.client.interceptors")


class ProducerInterceptor:
    """Derive from this, or write a class with some of these methods.

    ``on_send`` runs where ``send`` is called; ``on_acknowledgement`` where responses are processed, so it
    should be quick.
    """

    def configure(self, config: Mapping[str, Any]) -> None:
        """Called once, with the producer's settings by Kafka's names."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called before the record is serialized and given a partition; the returned record is sent."""
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """Called when a record was delivered (``error`` is None) or has failed."""

    def close(self) -> None:
        """Called when the producer closes, after the last acknowledgement."""


class ConsumerInterceptor:
    """Derive from this, or write a class with some of these methods."""

    def configure(self, config: Mapping[str, Any]) -> None:
        """Called once, with the consumer's settings by Kafka's names."""

    def on_consume(
        self, records: dict[TopicPartition, list[ConsumerRecord]]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Called before records are returned to the application; the result is returned instead."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called when offsets were committed."""

    def close(self) -> None:
        """Called when the consumer closes."""


class Chain:
    """A list of interceptors; each may lack any of the methods."""

    def __init__(self, given: Sequence[Any], config: Mapping[str, Any]) -> None:
        self._members = [_instance(item) for item in given]
        for member in self._members:
            configure = getattr(member, "configure", None)
            if configure is not None:
                configure(config)
        self.sends = self._methods("on_send")
        self.acknowledgements = self._methods("on_acknowledgement")
        self.consumes = self._methods("on_consume")
        self.commits = self._methods("on_commit")

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the result of the last interceptor."""
        for method in self.sends:
            try:
                changed = method(record)
            except Exception:  # noqa: BLE001  (other people's code)
                _log.exception("%s failed; the record goes on as it was", method.__qualname__)
                continue
            if changed is None:
                _log.warning("%s returned nothing; the record goes on", method.__qualname__)
            else:
                record = changed
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """Call all interceptors."""
        for method in self.acknowledgements:
            try:
                method(metadata, error)
            except Exception:  # noqa: BLE001  (other people's code)
                _log.exception("%s failed", method.__qualname__)

    def on_consume(
        self, records: dict[TopicPartition, list[ConsumerRecord]]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the result of the last interceptor."""
        for method in self.consumes:
            try:
                records = method(records)
            except Exception:  # noqa: BLE001  (other people's code)
                _log.exception("%s failed; the records go on as they were", method.__qualname__)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Call all interceptors."""
        for method in self.commits:
            try:
                method(offsets)
            except Exception:  # noqa: BLE001  (other people's code)
                _log.exception("%s failed", method.__qualname__)

    def close(self) -> None:
        """Close all interceptors."""
        for member in self._members:
            try:
                close = getattr(member, "close", None)
                if close is not None:
                    close()
            except Exception:  # noqa: BLE001  (other people's code)
                _log.exception("closing %s failed", type(member).__name__)

    def _methods(self, name: str) -> list[Any]:
        found = [getattr(member, name, None) for member in self._members]
        return [method for method in found if method is not None]


def _instance(given: Any) -> Any:
    if isinstance(given, str):
        raise BadConfig(f"give the interceptor itself or its class, not its name ({given!r})")
    return given() if isinstance(given, type) else given
