"""Quotas: whose counts, how use is measured, how long to wait. Time is an argument."""

import pytest

from millpond.base import limits
from millpond.base.rates import SampledRate, TokenBucket, throttle_ms
from millpond.engine.limits.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, Quotas
from millpond.metadata.client_records import ClientQuotaRecord, QuotaEntity
from millpond.metadata.image import Image, apply

SETTINGS = {
    "quota.window.num": 11,
    "quota.window.size.seconds": 1,
    "controller.quota.window.num": 11,
    "controller.quota.window.size.seconds": 1,
}


def _quotas(key: str = PRODUCER_BYTE_RATE, /, **bounds: float) -> Quotas:
    """``u_c`` is user u with client c, ``u_`` the user alone, ``_c`` the client; D is the default."""
    records = []
    for name, bound in bounds.items():
        user, _, client = name.partition("_")
        entity: list[tuple[str, str | None]] = []
        if client:
            entity.append(("client-id", None if client == "D" else client))
        if user:
            entity.append(("user", None if user == "D" else user))
        records.append(ClientQuotaRecord(entity=tuple(entity), key=key, value=bound))
    quotas = Quotas(SETTINGS.__getitem__)
    quotas.learn(apply(Image(), records))
    return quotas


def test_a_client_that_starts_may_use_a_whole_window_at_once() -> None:
    rate = SampledRate(samples=11, window_ms=1000)
    rate.record(10_000, 0)
    assert rate.measure(0) == (1000.0, 10_000)


def test_use_counts_for_as_long_as_its_window_does() -> None:
    rate = SampledRate(samples=3, window_ms=1000)
    rate.record(300, 0)
    assert rate.measure(1500)[0] == pytest.approx(300 / 2.5)
    assert rate.measure(2999)[0] == pytest.approx(300 / 2.999)
    assert rate.measure(3000)[0] == 0.0


def test_the_wait_brings_the_rate_back_to_the_bound() -> None:
    rate = SampledRate(samples=11, window_ms=1000)
    rate.record(20_000, 0)
    measured, window_ms = rate.measure(0)
    assert throttle_ms(measured, 1000, window_ms) == 10_000
    assert throttle_ms(1000.0, 1000, window_ms) == 0


def test_permits_come_back_a_second_at_a_time() -> None:
    bucket = TokenBucket(2.0, samples=5, window_ms=1000)
    bucket.take(10, 0)
    assert bucket.throttle_ms(0) == 0
    bucket.take(4, 0)
    assert bucket.throttle_ms(0) == 2000
    assert bucket.throttle_ms(1500) == 500
    assert bucket.throttle_ms(2000) == 0


def test_no_wait_is_longer_than_an_answer_can_say() -> None:
    bucket = TokenBucket(0.001, samples=11, window_ms=1000)
    bucket.take(1_000_000, 0)
    assert bucket.throttle_ms(0) == 2**31 - 1
    assert throttle_ms(1e12, 1.0, 10_000) == 2**31 - 1


def test_permits_are_not_saved_up_for_ever() -> None:
    bucket = TokenBucket(1.0, samples=5, window_ms=1000)
    bucket.take(0, 0)
    bucket.take(6, 1_000_000)
    assert bucket.throttle_ms(1_000_000) == 1000


PRECEDENCE = ["u_c", "u_D", "u_", "D_c", "D_D", "D_", "_c", "_D"]


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_strongest_quota_counts(first: int) -> None:
    bounds = {name: float(100 + at) for at, name in enumerate(PRECEDENCE) if at >= first}
    quotas = _quotas(**bounds)
    assert quotas.most_at_once(PRODUCER_BYTE_RATE, "u", "c") == (100 + first) * 10


def test_a_quota_of_somebody_else_does_not_count() -> None:
    quotas = _quotas(other_=1.0, _other=1.0)
    assert quotas.use(PRODUCER_BYTE_RATE, "u", "c", 10**9, 0) == 0


def test_clients_of_one_user_share_the_users_quota() -> None:
    quotas = _quotas(u_=1000.0)
    assert quotas.use(PRODUCER_BYTE_RATE, "u", "one", 10_000, 0) == 0
    assert quotas.use(PRODUCER_BYTE_RATE, "u", "two", 1_000, 0) == 1000


def test_each_client_has_a_default_quota_of_its_own() -> None:
    quotas = _quotas(_D=1000.0)
    assert quotas.use(PRODUCER_BYTE_RATE, "u", "one", 11_000, 0) == 1000
    assert quotas.use(PRODUCER_BYTE_RATE, "u", "two", 10_000, 0) == 0


def test_what_is_not_done_is_not_counted() -> None:
    quotas = _quotas(CONSUMER_BYTE_RATE, u_=1000.0)
    assert quotas.use_if_within(CONSUMER_BYTE_RATE, "u", "c", 1_000, 0) == 0
    assert quotas.use_if_within(CONSUMER_BYTE_RATE, "u", "c", 19_000, 0) == 10_000
    assert quotas.use_if_within(CONSUMER_BYTE_RATE, "u", "c", 9_000, 0) == 0


def test_one_batch_that_is_larger_than_the_quota_can_be_read_all_the_same() -> None:
    quotas = _quotas(CONSUMER_BYTE_RATE, u_=1000.0)
    assert quotas.use_if_within(CONSUMER_BYTE_RATE, "u", "c", 50_000, 0) == 0
    assert quotas.use_if_within(CONSUMER_BYTE_RATE, "u", "c", 1, 0) > 40_000


def test_a_new_bound_holds_for_what_was_used_before() -> None:
    quotas = _quotas(u_=1000.0)
    quotas.use(PRODUCER_BYTE_RATE, "u", "c", 10_000, 0)
    entity: QuotaEntity = (("user", "u"),)
    record = ClientQuotaRecord(entity=entity, key=PRODUCER_BYTE_RATE, value=500.0)
    quotas.learn(apply(Image(), [record]))
    assert quotas.use(PRODUCER_BYTE_RATE, "u", "c", 0, 0) == 10_000


def test_request_time_waits_one_window_at_most() -> None:
    quotas = _quotas("request_percentage", u_=1.0)
    assert quotas.use_time("u", "c", 100_000_000, 0) == 0
    assert quotas.use_time("u", "c", 60_000_000_000, 0) == 1000


def test_without_quotas_nothing_is_active() -> None:
    quotas = _quotas()
    assert not quotas.active
    assert not quotas.limits_connections
    quotas = _quotas(u_=1.0)
    assert quotas.active
    quotas.learn(Image())
    assert not quotas.active


def test_an_address_connects_at_its_rate() -> None:
    quotas = Quotas(SETTINGS.__getitem__)
    records = [
        ClientQuotaRecord(entity=(("ip", "10.0.0.1"),), key="connection_creation_rate", value=1.0),
        ClientQuotaRecord(entity=(("ip", None),), key="connection_creation_rate", value=2.0),
    ]
    quotas.learn(apply(Image(), records))
    assert (quotas.active, quotas.limits_connections) == (False, True)
    assert [quotas.connect("10.0.0.1", 0) for _ in range(11)] == [0] * 10 + [1000]
    assert [quotas.connect("10.0.0.2", 0) for _ in range(20)] == [0] * 20
    # One that was refused did not count.
    assert quotas.connect("10.0.0.1", 11_000) == 0


def test_a_strict_budget_refuses_when_it_owes_and_a_lenient_one_waits() -> None:
    quotas = _quotas("controller_mutation_rate", u_=1.0)
    budget = quotas.mutations("u", "c", strict=True, now_ms=0)
    assert budget is not None
    # What is there may be overdrawn once.
    assert budget.charge(20) is None
    refused = budget.charge(1)
    assert refused is not None
    assert refused.throttle_ms == budget.throttle_ms == 9000
    lenient = quotas.mutations("u", "c", strict=False, now_ms=0)
    assert lenient is not None
    assert lenient.charge(1) is None
    assert lenient.throttle_ms == 10_000
    assert quotas.mutations("v", "c", strict=True, now_ms=0) is None


def test_made_up_names_do_not_fill_the_memory() -> None:
    quotas = _quotas(_D=1000.0)
    for number in range(limits.QUOTA_METERS_MAX + 10):
        quotas.use(PRODUCER_BYTE_RATE, "u", f"c{number}", 1, 0)
    assert len(quotas._meters) == limits.QUOTA_METERS_MAX
