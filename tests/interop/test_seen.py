"""Messages that come twice and have their effect once: ids in a real database, and in a real Redis."""

import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import millpond
from millpond.client import BlockingConsumer, BlockingProducer, NoBroker
from millpond.client.seen import Claim, SeenInDatabase, SeenInRedis
from tests.support.processes.ports import free_port, wait_until

ORDERS = [b"soup", b"bread", b"soup twice"]


@pytest.fixture
def orders() -> Iterator[str]:
    """A broker with a few orders, whose ids are their keys."""
    with millpond.Broker() as broker:
        broker.create_topic("orders", partitions=1)
        with BlockingProducer(broker.bootstrap) as producer:
            for number, value in enumerate(ORDERS):
                producer.send("orders", value, key=f"order-{number}".encode()).result()
        yield broker.bootstrap


def polled(bootstrap: str) -> Iterator[tuple[str, bytes]]:
    """All orders, once for each life of a consumer: it never gets to commit."""
    with BlockingConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="bill",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        left = len(ORDERS)
        while left:
            for records in consumer.poll(10_000).values():
                for record in records:
                    assert record.key is not None
                    assert record.value is not None
                    yield record.key.decode(), record.value
                    left -= 1


def test_a_unique_key_in_the_database_of_the_effects(orders: str, tmp_path: Path) -> None:
    """The first consumer dies inside a transaction, the others see everything; each bill is there once."""
    file = tmp_path / "bills.db"
    for dies_at in ("order-1", "", ""):
        database = sqlite3.connect(file)
        database.execute("CREATE TABLE IF NOT EXISTS bills (what TEXT)")
        seen = SeenInDatabase(database, group="bill")
        for number, what in polled(orders):
            if seen.first(number):
                database.execute("INSERT INTO bills VALUES (?)", [what.decode()])
            if number == dies_at:
                break
            database.commit()
        database.close()
    database = sqlite3.connect(file)
    bills = [row[0] for row in database.execute("SELECT what FROM bills ORDER BY rowid")]
    assert bills == [value.decode() for value in ORDERS]
    seen = SeenInDatabase(database, group="bill")
    assert not seen.first("order-0")
    assert SeenInDatabase(database, group="post").first("order-0"), "each group for itself"
    assert seen.forget(older_than_s=-60) == len(ORDERS)
    assert seen.first("order-0")
    database.close()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[int]:
    """The port of a Redis of our own."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed (make interop-deps)")
    port = free_port()
    with (tmp_path / "redis.log").open("wb") as log:
        process = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
    try:

        def answers() -> bool:
            with SeenInRedis(port=port, group="nobody") as seen:
                try:
                    seen.give_up("nothing")
                except NoBroker:
                    return False
                return True

        wait_until(answers, timeout_s=60, what="Redis answers")
        yield port
    finally:
        process.terminate()
        process.wait(10)


def test_a_claim_in_redis_for_effects_that_are_elsewhere(orders: str, redis: int) -> None:
    """One consumer mails everything but dies before it says so of the last; another takes over from it."""
    mails: list[bytes] = []
    with SeenInRedis(port=redis, group="bill") as seen:
        for number, what in polled(orders):
            assert seen.claim(number) is Claim.FIRST
            if number == "order-2":
                break
            mails.append(what)
            seen.done(number)
    with SeenInRedis(port=redis, group="bill") as seen:
        told = [(number, seen.claim(number)) for number, _what in polled(orders)]
        assert told == [
            ("order-0", Claim.DONE),
            ("order-1", Claim.DONE),
            ("order-2", Claim.BUSY),
        ]
        seen.give_up("order-2")  # or its time is over
        for number, what in polled(orders):
            if seen.claim(number) is Claim.FIRST:
                mails.append(what)
                seen.done(number)
    assert mails == ORDERS


def test_a_claim_of_somebody_who_died_ends_by_itself(redis: int) -> None:
    with SeenInRedis(port=redis, group="bill", claim_s=3) as seen:
        assert seen.claim("order") is Claim.FIRST
        assert seen.claim("order") is Claim.BUSY
        wait_until(lambda: seen.claim("order") is Claim.FIRST, timeout_s=60, what="the claim ends")
        with SeenInRedis(port=redis, group="post") as other:
            assert other.claim("order") is Claim.FIRST, "each group for itself"
