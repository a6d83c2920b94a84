"""Delayed records in their own partition: what a producer's headers mean and what is written for them."""

import pytest

from millpond.base.errors import InvalidRecord, MalformedData
from millpond.base.limits import TIMER_DELAY_MS_MAX
from millpond.record.batch import read_header
from millpond.record.builder import NewRecord, build_batch
from millpond.record.compression import Compression
from millpond.record.records import decode_batch
from millpond.timer.deferral import Deferral, defer, entries, is_deferral
from millpond.timer.delayed import Delayed, Kind, decode, delivered, encode

NOW_MS = 1_800_000_000_000


def _defer(*records: NewRecord, **options: object) -> Deferral | None:
    batch = build_batch(list(records), **options)  # type: ignore[arg-type]
    return defer(read_header(batch), decode_batch(batch), NOW_MS)


def _record(value: bytes, *headers: tuple[str, bytes | None]) -> NewRecord:
    return NOW_MS - 5, b"k", value, headers


def _kept(deferral: Deferral | None, *, companion: bool = True) -> list[tuple[int, Delayed]]:
    assert deferral is not None
    records = decode_batch(deferral.data)
    after = deferral.headers[1] if companion and len(deferral.headers) > 1 else None
    if after is not None:
        after = after._replace(base_offset=deferral.headers[0].next_offset)
    return [(one.source, decode(one.value)) for one in entries(records, after)]


def test_a_delay_counts_from_now_on_and_a_time_is_a_time() -> None:
    found = _kept(
        _defer(
            _record(b"a", ("millpond.delay", b"250"), ("x", b"1")),
            _record(b"b", ("millpond.deliver-at", str(NOW_MS + 7).encode())),
        )
    )
    assert [(source, one.kind, one.due_ms, one.value) for source, one in found] == [
        (0, Kind.DELAYED, NOW_MS + 250, b"a"),
        (1, Kind.DELAYED, NOW_MS + 7, b"b"),
    ]


def test_what_is_delivered_says_when_it_was_due_and_asks_for_no_delay() -> None:
    ((_, one),) = _kept(_defer(_record(b"a", ("millpond.delay", b"250"), ("x", b"1"))))
    timestamp, key, value, headers = delivered(one, NOW_MS + 300)
    assert (timestamp, key, value) == (NOW_MS + 300, b"k", b"a")
    assert tuple(headers) == (
        ("x", b"1"),
        ("millpond.due-at", str(NOW_MS + 250).encode()),
        ("millpond.created-at", str(NOW_MS - 5).encode()),
    )


@pytest.mark.parametrize("codec", list(Compression))
def test_the_batch_keeps_its_producer_its_sequence_its_offsets_and_its_codec(
    codec: Compression,
) -> None:
    deferral = _defer(
        _record(b"a", ("millpond.delay", b"0")),
        _record(b"b", ("millpond.delay", b"1")),
        producer_id=77,
        producer_epoch=3,
        base_sequence=41,
        compression=codec,
    )
    assert deferral is not None
    (header,) = deferral.headers
    assert header == read_header(deferral.data)
    assert header.is_control
    assert not header.is_transactional
    assert (header.producer_id, header.producer_epoch) == (77, 3)
    assert (header.base_sequence, header.last_sequence) == (41, 42)
    assert header.compression == codec
    assert is_deferral(header, decode_batch(deferral.data))


def test_records_without_delay_of_the_same_batch_are_delivered_at_once() -> None:
    deferral = _defer(
        _record(b"now"), _record(b"later", ("millpond.delay", b"9")), _record(b"now too")
    )
    assert deferral is not None
    first, second = deferral.headers
    records = decode_batch(deferral.data, first.size)
    assert [one.value for one in records] == [b"now", b"now too"]
    assert not second.is_control
    assert [one.value for _, one in _kept(deferral)] == [b"later"]


def test_records_without_delay_become_timers_where_the_log_has_lost_their_batch() -> None:
    deferral = _defer(_record(b"now"), _record(b"later", ("millpond.delay", b"9")))
    found = _kept(deferral, companion=False)
    assert [(one.value, one.kind) for _, one in found] == [
        (b"now", Kind.PLAIN),
        (b"later", Kind.DELAYED),
    ]
    assert delivered(found[0][1], NOW_MS) == (NOW_MS - 5, b"k", b"now", ())


def test_a_batch_without_the_headers_stays_as_it_is() -> None:
    assert _defer(_record(b"millpond.delay", ("millpond.due-at", b"5"))) is None


def test_a_record_can_take_a_delayed_one_back() -> None:
    ((_, one),) = _kept(_defer(_record(b"", ("millpond.cancel", b"123"))))
    assert (one.kind, one.due_ms) == (Kind.CANCEL, 123)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([("millpond.delay", b"soon")], "decimal digits"),
        ([("millpond.delay", b"-1")], "decimal digits"),
        ([("millpond.delay", b"")], "decimal digits"),
        ([("millpond.delay", None)], "decimal digits"),
        ([("millpond.delay", b"9" * 400)], "decimal digits"),
        ([("millpond.deliver-at", b"9" * 19)], "too large"),
        ([("millpond.delay", str(TIMER_DELAY_MS_MAX + 1).encode())], "milliseconds from now on"),
        ([("millpond.deliver-at", str(NOW_MS * 1000).encode())], "milliseconds since the epoch"),
        ([("millpond.delay", b"1"), ("millpond.delay", b"2")], "once"),
        ([("millpond.delay", b"1"), ("millpond.deliver-at", b"2")], "one of them"),
    ],
)
def test_headers_that_say_no_time_are_refused(
    headers: list[tuple[str, bytes | None]], said: str
) -> None:
    with pytest.raises(InvalidRecord, match=said) as refused:
        _defer(_record(b"fine"), _record(b"a", *headers))
    assert refused.value.positions == (1,)


def test_a_transaction_cannot_delay() -> None:
    with pytest.raises(InvalidRecord, match="transaction"):
        _defer(
            _record(b"a", ("millpond.delay", b"1")),
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )


def test_other_bytes_are_no_delayed_record() -> None:
    good = encode(
        Delayed(kind=Kind.DELAYED, due_ms=1, created_ms=2, key=None, value=None, headers=())
    )
    assert decode(good).value is None
    for bad in (b"", good[:10], b"\x07" + good[1:], good[:-1], good + b"\x00"):
        with pytest.raises(MalformedData):
            decode(bad)
