"""Throttles clients: compares what they use with the quotas of the metadata.

For a user and a client id the strongest quota counts: the pair's own, the user's for any client, the user's;
then the same for any user; then the client id's and any client id's. Clients that share a quota share its
meter. While no quota exists nothing is looked up or counted: callers check ``active`` only.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from millpond.base import limits
from millpond.base.errors import ThrottlingQuotaExceeded
from millpond.base.rates import SampledRate, TokenBucket, throttle_ms
from millpond.metadata.client_records import QuotaEntity
from millpond.metadata.image import Image
from millpond.metadata.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)

__all__ = [
    "CONSUMER_BYTE_RATE",
    "PRODUCER_BYTE_RATE",
    "REQUEST_PERCENTAGE",
    "MutationBudget",
    "Quotas",
]

log = logging.getLogger(__name__)

_PERCENT_OF_NS = 100 / 1_000_000_000


class _Meter:
    """What the clients that share one quota use."""

    __slots__ = ("bound", "rate")

    def __init__(self, bound: float, rate: SampledRate) -> None:
        self.bound = bound
        self.rate = rate


class MutationBudget:
    """How many partitions one request may still create or delete.

    ``strict``: what is over the quota is refused; otherwise it is done, and the client waits afterwards
    (clients that do not know the refusal).
    """

    __slots__ = ("_bucket", "_now_ms", "_strict", "throttle_ms")

    def __init__(self, bucket: TokenBucket, *, strict: bool, now_ms: int) -> None:
        self._bucket = bucket
        self._strict = strict
        self._now_ms = now_ms
        self.throttle_ms = 0

    def charge(self, partitions: int) -> ThrottlingQuotaExceeded | None:
        """Count the partitions of a topic. Return why they are over the quota, or None."""
        owed_ms = self._bucket.throttle_ms(self._now_ms)
        if self._strict and owed_ms > 0:
            self.throttle_ms = owed_ms
            return ThrottlingQuotaExceeded(
                "The throttling quota has been exceeded.", throttle_ms=owed_ms
            )
        self._bucket.take(partitions, self._now_ms)
        if not self._strict:
            self.throttle_ms = self._bucket.throttle_ms(self._now_ms)
        return None


class Quotas:
    """All meters of a node. ``setting`` returns a setting of the broker by name."""

    def __init__(self, setting: Callable[[str], Any]) -> None:
        self._setting = setting
        # Any quota of users and client ids; any of addresses.
        self.active = False
        self.limits_connections = False
        self._bounds: dict[str, dict[QuotaEntity, float]] = {}
        # In the order of last use, so that the oldest goes when there are too many.
        self._meters: dict[tuple[str, str, str], _Meter] = {}
        self._buckets: dict[tuple[str, str], TokenBucket] = {}

    def learn(self, image: Image) -> None:
        """Use the quotas of an image from now on."""
        bounds: dict[str, dict[QuotaEntity, float]] = {}
        for entity, quotas in image.client_quotas.items():
            for key, bound in quotas.items():
                if bound > 0:  # not a number is no bound
                    bounds.setdefault(key, {})[entity] = bound
        self._bounds = bounds
        self.limits_connections = CONNECTION_CREATION_RATE in bounds
        self.active = bool(bounds.keys() - {CONNECTION_CREATION_RATE})
        if not self.active:
            self._meters.clear()
            self._buckets.clear()

    def on_change(self, before: Image, after: Image) -> None:
        """The image changed."""
        if before.client_quotas is not after.client_quotas:
            self.learn(after)
            log.info("quotas: %d entities have quotas now", len(after.client_quotas))

    def use(self, key: str, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Count what a client used. Return for how many milliseconds it is throttled."""
        meter = self._meter(key, user, client_id)
        if meter is None:
            return 0
        meter.rate.record(amount, now_ms)
        rate, window_ms = meter.rate.measure(now_ms)
        return throttle_ms(rate, meter.bound, window_ms)

    def use_time(self, user: str, client_id: str, elapsed_ns: int, now_ms: int) -> int:
        """Count the time that a request took. Return the throttle time, at most one window."""
        used = elapsed_ns * _PERCENT_OF_NS
        return min(
            self.use(REQUEST_PERCENTAGE, user, client_id, used, now_ms),
            int(self._setting("quota.window.size.seconds")) * 1000,
        )

    def use_if_within(self, key: str, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """As ``use``, for work that is refused if it is over the quota, and not counted then.

        A client that used nothing lately is never refused: a batch that is larger than a whole window's quota
        could never be read otherwise.
        """
        meter = self._meter(key, user, client_id)
        if meter is None:
            return 0
        used, _ = meter.rate.measure(now_ms)
        meter.rate.record(amount, now_ms)
        rate, window_ms = meter.rate.measure(now_ms)
        wait_ms = throttle_ms(rate, meter.bound, window_ms) if used > 0 else 0
        if wait_ms > 0:
            meter.rate.record(-amount, now_ms)
        return wait_ms

    def most_at_once(self, key: str, user: str, client_id: str) -> float:
        """Return the most that a client may use at once, even if it used nothing before."""
        meter = self._meter(key, user, client_id)
        if meter is None:
            return float("inf")
        return meter.bound * (meter.rate.samples - 1) * meter.rate.window_ms / 1000

    def mutations(
        self, user: str, client_id: str, *, strict: bool, now_ms: int
    ) -> MutationBudget | None:
        """Return the quota of a request of this client; None if it has none."""
        found = self._bound(CONTROLLER_MUTATION_RATE, user, client_id)
        if found is None:
            return None
        bound, tags = found
        bucket = self._buckets.pop(tags, None)
        if bucket is None:
            bucket = TokenBucket(
                bound,
                samples=self._setting("controller.quota.window.num"),
                window_ms=self._setting("controller.quota.window.size.seconds") * 1000,
            )
        bucket.bound = bound
        _keep(self._buckets, tags, bucket)
        return MutationBudget(bucket, strict=strict, now_ms=now_ms)

    def connect(self, address: str, now_ms: int) -> int:
        """Count a new connection. Return for how long it is held, if its address has opened too many."""
        bounds = self._bounds.get(CONNECTION_CREATION_RATE, {})
        bound = bounds.get(((IP, address),), bounds.get(((IP, None),)))
        if bound is None:
            return 0
        meter = self._kept((CONNECTION_CREATION_RATE, "", address), bound)
        meter.rate.record(1, now_ms)
        rate, window_ms = meter.rate.measure(now_ms)
        longest_ms = int(self._setting("quota.window.size.seconds")) * 1000
        wait_ms = min(throttle_ms(rate, bound, window_ms), longest_ms)
        if wait_ms > 0:
            meter.rate.record(-1, now_ms)
        return wait_ms

    def _meter(self, key: str, user: str, client_id: str) -> _Meter | None:
        found = self._bound(key, user, client_id)
        if found is None:
            return None
        bound, tags = found
        return self._kept((key, *tags), bound)

    def _kept(self, name: tuple[str, str, str], bound: float) -> _Meter:
        meter = self._meters.pop(name, None)
        if meter is None:
            rate = SampledRate(
                samples=self._setting("quota.window.num"),
                window_ms=int(self._setting("quota.window.size.seconds")) * 1000,
            )
            meter = _Meter(bound, rate)
        meter.bound = bound
        _keep(self._meters, name, meter)
        return meter

    def _bound(self, key: str, user: str, client_id: str) -> tuple[float, tuple[str, str]] | None:
        """Return the quota that counts for a client, and the key of its meter."""
        bounds = self._bounds.get(key)
        if not bounds:
            return None
        return _strongest(bounds, user, client_id)


def _strongest(
    bounds: Mapping[QuotaEntity, float], user: str, client_id: str
) -> tuple[float, tuple[str, str]] | None:
    pair, only_user, only_client = (user, client_id), (user, ""), ("", client_id)
    levels: tuple[tuple[QuotaEntity, tuple[str, str]], ...] = (
        (((CLIENT_ID, client_id), (USER, user)), pair),
        (((CLIENT_ID, None), (USER, user)), pair),
        (((USER, user),), only_user),
        (((CLIENT_ID, client_id), (USER, None)), pair),
        (((CLIENT_ID, None), (USER, None)), pair),
        (((USER, None),), only_user),
        (((CLIENT_ID, client_id),), only_client),
        (((CLIENT_ID, None),), only_client),
    )
    for entity, tags in levels:
        bound = bounds.get(entity)
        if bound is not None:
            return bound, tags
    return None


def _keep(table: dict[Any, Any], name: object, value: object) -> None:
    """Put the newest at the end; a client that makes up names must not fill the memory."""
    table[name] = value
    if len(table) > limits.QUOTA_METERS_MAX:
        del table[next(iter(table))]
