"""Metrics that clients push: who is asked, how often, and what is refused. Time is an argument."""

import gzip
from uuid import UUID

import pytest

from millpond.base.errors import (
    InvalidRecord,
    InvalidRequest,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscription,
    UnsupportedCompression,
)
from millpond.engine.limits.telemetry import Telemetry
from millpond.metadata.client_metrics import check_client_metrics, subscription_for
from millpond.metadata.image import Image, apply
from millpond.metadata.records import RESOURCE_CLIENT_METRICS, ConfigRecord

CLIENT = UUID(int=77_777)
WORDS = {"client_id": "app-1", "client_software_name": "apache-kafka-java"}


class _Cluster:
    """An image that changes."""

    def __init__(self) -> None:
        self.image = Image()
        self.telemetry = Telemetry(lambda: self.image, bytes_max=lambda: 1000)

    def subscribe(self, name: str, **settings: str) -> None:
        self.image = apply(
            self.image,
            [
                ConfigRecord(
                    resource_type=RESOURCE_CLIENT_METRICS,
                    resource_name=name,
                    name=key.replace("_", "."),
                    value=value,
                )
                for key, value in settings.items()
            ],
        )

    def push(
        self, now_ms: int, number: int, data: bytes = b"m", codec: int = 0, **more: bool
    ) -> None:
        self.telemetry.push(
            CLIENT,
            WORDS,
            subscription_id=number,
            terminating=more.get("terminating", False),
            codec=codec,
            metrics=data,
            now_ms=now_ms,
        )


def test_nobody_is_asked_for_anything_until_somebody_subscribes() -> None:
    cluster = _Cluster()
    assert not cluster.telemetry.is_wanted
    assert cluster.telemetry.subscribe(CLIENT, WORDS, now_ms=0).subscription.metrics == ()
    cluster.subscribe("s", metrics="org.x.")
    assert cluster.telemetry.is_wanted


def test_a_client_is_asked_for_the_sum_of_what_fits_it() -> None:
    subscriptions = [
        {"metrics": "a.,b.", "interval.ms": "5000"},
        {"metrics": "b.,c.", "match": "client_id=app-.*"},
        {"metrics": "d.", "match": "client_id=other"},
    ]
    asked = subscription_for(WORDS, subscriptions)
    assert (asked.metrics, asked.interval_ms) == (("a.", "b.", "c."), 5000)
    assert subscription_for(WORDS, [*subscriptions, {"metrics": "*"}]).metrics == ("*",)


def test_the_interval_holds_for_asking_and_for_pushing() -> None:
    cluster = _Cluster()
    cluster.subscribe("s", metrics="*", interval_ms="1000")
    client = cluster.telemetry.subscribe(CLIENT, WORDS, now_ms=0)
    with pytest.raises(ThrottlingQuotaExceeded):
        cluster.telemetry.subscribe(CLIENT, WORDS, now_ms=999)
    cluster.push(10, client.subscription_id)
    with pytest.raises(ThrottlingQuotaExceeded):
        cluster.push(1009, client.subscription_id)
    cluster.push(1010, client.subscription_id)
    assert (cluster.telemetry.pushes, cluster.telemetry.pushed_bytes) == (2, 2)


def test_a_changed_subscription_has_another_number() -> None:
    cluster = _Cluster()
    cluster.subscribe("s", metrics="a.")
    number = cluster.telemetry.subscribe(CLIENT, WORDS, now_ms=0).subscription_id
    cluster.subscribe("s", metrics="b.")
    with pytest.raises(UnknownSubscription):
        cluster.push(1, number)
    # The answer does not have to wait for the interval.
    again = cluster.telemetry.subscribe(CLIENT, WORDS, now_ms=300_001)
    assert again.subscription_id != number


def test_what_is_pushed_is_unpacked_within_bounds() -> None:
    cluster = _Cluster()
    number = cluster.telemetry.subscribe(CLIENT, WORDS, now_ms=0).subscription_id
    cluster.push(0, number, gzip.compress(b"x" * 5000), codec=1)
    assert cluster.telemetry.pushed_bytes == 5000
    for moment, data, codec, error in (
        (1, b"no gzip", 1, InvalidRecord),
        (2, b"x" * 1001, 0, TelemetryTooLarge),
        (3, b"x", 9, UnsupportedCompression),
    ):
        with pytest.raises(error):
            cluster.push(moment * 300_000, number, data, codec=codec)


def test_after_its_last_word_a_client_is_not_heard() -> None:
    cluster = _Cluster()
    number = cluster.telemetry.subscribe(CLIENT, WORDS, now_ms=0).subscription_id
    cluster.push(0, number, terminating=True)
    with pytest.raises(InvalidRequest):
        cluster.push(300_000, number)


def test_a_silent_client_is_forgotten() -> None:
    cluster = _Cluster()
    cluster.subscribe("s", metrics="*", interval_ms="100")
    cluster.telemetry.subscribe(CLIENT, WORDS, now_ms=0)
    cluster.telemetry.subscribe(UUID(int=88_888), WORDS, now_ms=60_000)
    assert list(cluster.telemetry._clients) == [UUID(int=88_888)]


@pytest.mark.parametrize(
    "settings",
    [{"interval.ms": "99"}, {"interval.ms": "3600001"}, {"no.such": "1"}],
)
def test_settings_of_a_subscription_that_are_none(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        check_client_metrics(settings)
