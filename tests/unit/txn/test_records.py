"""The facts of ``__transaction_state``: as bytes that Kafka's own tools read, and back."""

import struct
from typing import Any

import pytest

from millpond.base.errors import InvalidRequest, MalformedData
from millpond.txn import records
from millpond.txn.records import Status, TransactionForgotten, TransactionStored

PLACES = frozenset({("orders", 1), ("orders", 0), ("__consumer_offsets", 7)})


def stored(**fields: Any) -> TransactionStored:
    defaults: dict[str, Any] = {
        "transactional_id": "payments",
        "producer_id": 4000,
        "producer_epoch": 3,
        "timeout_ms": 60_000,
        "status": Status.ONGOING,
        "partitions": PLACES,
        "updated_ms": 1_700_000_000_500,
        "started_ms": 1_700_000_000_000,
    }
    return TransactionStored(**(defaults | fields))


@pytest.mark.parametrize("status", Status)
def test_a_fact_survives_the_log(status: Status) -> None:
    fact = stored(status=status, partitions=frozenset() if status is Status.EMPTY else PLACES)

    assert records.decode(*records.encode(fact)) == fact


def test_what_only_some_transactions_have_survives_too() -> None:
    fact = stored(
        status=Status.PREPARE_COMMIT,
        previous_producer_id=3999,
        next_producer_id=4001,
        client_version=2,
    )

    read = records.decode(*records.encode(fact))

    assert read == fact
    assert isinstance(read, TransactionStored)
    assert read.last_producer_epoch == 2  # a bump by the end can be retried after a restart


def test_a_tombstone_names_only_the_id() -> None:
    key, value = records.encode(TransactionForgotten(transactional_id="payments"))

    assert value is None
    assert records.decode(key, None) == TransactionForgotten(transactional_id="payments")


def test_the_bytes_are_those_of_kafkas_schema() -> None:
    key, value = records.encode(
        stored(partitions=frozenset({("t", 2)}), client_version=2, status=Status.PREPARE_ABORT)
    )

    assert key == b"\x00\x00\x00\x08payments"
    assert value == (
        b"\x00\x01"  # version
        + struct.pack(">qhib", 4000, 3, 60_000, 3)
        + b"\x02\x02t\x02\x00\x00\x00\x02\x00"  # one topic, one partition, no tags
        + struct.pack(">qq", 1_700_000_000_500, 1_700_000_000_000)
        + b"\x01\x02\x02\x00\x02"  # one tag: the client's version
    )


def test_the_older_form_is_read() -> None:
    key, _ = records.encode(stored())
    value = (
        b"\x00\x00"
        + struct.pack(">qhib", 4000, 3, 60_000, 1)
        + struct.pack(">ih", 1, 6)
        + b"orders"
        + struct.pack(">iii", 2, 0, 1)
        + struct.pack(">qq", 1_700_000_000_500, 1_700_000_000_000)
    )

    assert records.decode(key, value) == stored(
        partitions=frozenset({("orders", 0), ("orders", 1)})
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\x00\x01\x00\x01a", b""),
        (b"\x00\x00\x00\x09a", None),
        (b"\x00\x00\x00\x01\xff", None),
        (b"\x00\x00\x00\x01a", b"\x00\x09"),
        (b"\x00\x00\x00\x01a", b"\x00\x01" + struct.pack(">qhib", 1, 1, 1, 42)),
        (b"\x00\x00\x00\x01a", b"\x00\x01" + struct.pack(">qhib", 1, 1, 1, 1) + b"\xff\xff\x7f"),
        (b"\x00\x00\x00\x01a", b"\x00\x00" + struct.pack(">qhibi", 1, 1, 1, 1, 2**31 - 1)),
    ],
)
def test_what_is_no_fact_is_said_to_be_none(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedData):
        records.decode(key, value)


def test_a_name_that_fits_no_record_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        records.encode(stored(transactional_id="x" * 40_000))


def test_administrators_see_the_names_that_kafka_has() -> None:
    assert [status.title for status in Status] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
