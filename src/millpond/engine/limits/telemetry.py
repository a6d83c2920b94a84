"""Metrics that clients push (KIP-714): subscriptions of clients, and how much they pushed.

A client asks for its subscription, then pushes at the interval that it was told. What is asked for depends on
the subscriptions that were configured; without any, a client that asks all the same is asked for nothing.
Pushed metrics are decompressed, so that malformed ones are refused, and counted; nothing reads them yet. Time
is an argument.
"""

from collections.abc import Callable, Mapping
from uuid import UUID

import crc32c

from millpond.base import limits
from millpond.base.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidRequest,
    MillpondError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscription,
    UnsupportedCompression,
)
from millpond.metadata.client_metrics import Subscription, subscription_for
from millpond.metadata.image import Image
from millpond.metadata.records import RESOURCE_CLIENT_METRICS
from millpond.record.compression import Compression, decompress

# Which codecs a client may use, best first.
ACCEPTED_CODECS = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)

# A client that is silent for this long, or for three intervals, is forgotten.
_FORGET_MS = 60_000
_FORGET_INTERVALS = 3

# Ids that Kafka reserves.
_RESERVED_IDS = range(3)


class ClientInstance:
    """One client: its subscription, and the time of its last request."""

    __slots__ = (
        "asked_ms",
        "is_leaving",
        "pushed_ms",
        "seen_ms",
        "subscription",
        "subscription_id",
    )

    def __init__(self, subscription: Subscription, subscription_id: int, now_ms: int) -> None:
        self.subscription = subscription
        self.subscription_id = subscription_id
        self.seen_ms = now_ms
        self.asked_ms = -1 << 62
        self.pushed_ms = -1 << 62
        self.is_leaving = False

    def may_ask(self, now_ms: int) -> bool:
        """Note a request for the subscription.

        Return whether the interval has passed since the last request.
        """
        if now_ms - max(self.asked_ms, self.pushed_ms) < self.subscription.interval_ms:
            return False
        self.asked_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Note a push.

        Return whether it follows a request for the subscription, or the interval has passed.
        """
        if (
            self.asked_ms <= self.pushed_ms
            and now_ms - self.pushed_ms < self.subscription.interval_ms
        ):
            return False
        self.pushed_ms = now_ms
        return True


class Telemetry:
    """All clients that push metrics or may."""

    def __init__(self, image: Callable[[], Image], *, bytes_max: Callable[[], int]) -> None:
        self._image = image
        self.bytes_max = bytes_max
        self._configs: Mapping[tuple[int, str], Mapping[str, str]] | None = None
        self._subscriptions: tuple[Mapping[str, str], ...] = ()
        # In order of the last request.
        self._clients: dict[UUID, ClientInstance] = {}
        self.pushes = 0
        self.pushed_bytes = 0
        self.refused = 0

    @property
    def is_wanted(self) -> bool:
        """Whether any subscription is configured."""
        return bool(self._current())

    def subscribe(
        self, client_id: UUID, words: Mapping[str, str], *, now_ms: int
    ) -> ClientInstance:
        """Return a client's subscription. Raises ``ThrottlingQuotaExceeded`` when it asks too often."""
        client = self._client(client_id, words, now_ms)
        if not client.may_ask(now_ms):
            raise ThrottlingQuotaExceeded("the client asks before its next push is due")
        return client

    def push(
        self,
        client_id: UUID,
        words: Mapping[str, str],
        *,
        subscription_id: int,
        terminating: bool,
        codec: int,
        metrics: bytes | memoryview,
        now_ms: int,
    ) -> None:
        """Take and count a client's metrics. Raises what is wrong with them."""
        self.admit(
            client_id,
            words,
            subscription_id=subscription_id,
            terminating=terminating,
            codec=codec,
            metrics=metrics,
            now_ms=now_ms,
        )
        try:
            self.count(unpacked_size(codec, metrics))
        except MillpondError:
            self.refused += 1
            raise

    def admit(
        self,
        client_id: UUID,
        words: Mapping[str, str],
        *,
        subscription_id: int,
        terminating: bool,
        codec: int,
        metrics: bytes | memoryview,
        now_ms: int,
    ) -> None:
        """Raises why a client may not push now. The caller counts what it pushed."""
        if client_id.int in _RESERVED_IDS:
            raise InvalidRequest(f"{client_id} is no client's id")
        client = self._client(client_id, words, now_ms)
        try:
            self._check(client, subscription_id, terminating, codec, metrics, now_ms)
        except Exception:
            self.refused += 1
            raise
        finally:
            client.is_leaving = terminating

    def count(self, size: int) -> None:
        """Count pushed metrics by their decompressed size; 0 for nothing."""
        if size:
            self.pushes += 1
            self.pushed_bytes += size

    def _check(
        self,
        client: ClientInstance,
        subscription_id: int,
        terminating: bool,
        codec: int,
        metrics: bytes | memoryview,
        now_ms: int,
    ) -> None:
        if client.is_leaving:
            raise InvalidRequest("the client said before that it would send nothing more")
        if not client.may_push(now_ms) and not terminating:
            raise ThrottlingQuotaExceeded("the client pushes before its next push is due")
        if subscription_id != client.subscription_id:
            raise UnknownSubscription("the client's subscription has changed")
        if codec not in Compression.__members__.values():
            raise UnsupportedCompression(f"unknown compression {codec}")
        if len(metrics) > self.bytes_max():
            raise TelemetryTooLarge(f"{len(metrics)} bytes are more than {self.bytes_max()}")

    def _client(self, client_id: UUID, words: Mapping[str, str], now_ms: int) -> ClientInstance:
        self._forget(now_ms)
        self._current()
        client = self._clients.pop(client_id, None)
        if client is None:
            subscription = subscription_for(
                {**words, "client_instance_id": str(client_id)}, self._subscriptions
            )
            number = _subscription_id(subscription, client_id)
            client = ClientInstance(subscription, number, now_ms)
        client.seen_ms = now_ms
        self._clients[client_id] = client
        if len(self._clients) > limits.TELEMETRY_CLIENTS_MAX:
            del self._clients[next(iter(self._clients))]
        return client

    def _forget(self, now_ms: int) -> None:
        while self._clients:
            client_id, client = next(iter(self._clients.items()))
            silent_ms = max(_FORGET_MS, _FORGET_INTERVALS * client.subscription.interval_ms)
            if now_ms - client.seen_ms < silent_ms:
                return
            del self._clients[client_id]

    def _current(self) -> tuple[Mapping[str, str], ...]:
        configs = self._image().configs
        if configs is not self._configs:
            self._configs = configs
            now = tuple(
                settings
                for (kind, _name), settings in configs.items()
                if kind == RESOURCE_CLIENT_METRICS
            )
            if now != self._subscriptions:
                # All clients get their subscription again.
                self._subscriptions = now
                self._clients.clear()
        return self._subscriptions


def unpacked_size(codec: int, metrics: bytes | memoryview) -> int:
    """Return the decompressed size of pushed metrics. Takes some ten milliseconds for large ones."""
    if codec == Compression.NONE or not len(metrics):
        return len(metrics)
    try:
        return len(decompress(codec, metrics, limits.TELEMETRY_DECOMPRESSED_BYTES_MAX))
    except CorruptBatch as error:
        raise InvalidRecord(f"pushed metrics cannot be unpacked: {error}") from error


def _subscription_id(subscription: Subscription, client_id: UUID) -> int:
    """Return an id that differs for each subscription, so that a client notices a change."""
    words = f"{','.join(subscription.metrics)}/{subscription.interval_ms}".encode()
    number = crc32c.crc32c(words) ^ (client_id.int & 0xFFFF_FFFF)
    return number - (1 << 32) if number >= 1 << 31 else number
