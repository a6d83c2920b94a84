"""Finds delayed records in what producers send to topics with ``millpond.delay.enable``.

A batch in which no header asks for a delay is left as it is, after one search of its bytes. The others are
replaced (``timer.deferral``).
"""

import re
from typing import Final

from millpond.base.errors import BatchTooLarge, InvalidRecord, LongValidation
from millpond.base.limits import LOOP_DEFERRED_RECORDS_MAX
from millpond.record.batch import COMPRESSION_MASK, HEADER_BYTES
from millpond.record.inspection import decompress_bounded
from millpond.record.records import decode_records
from millpond.record.validate import TopicRules, Validated
from millpond.timer.deferral import Deferral, defer
from millpond.timer.delayed import CANCEL, DELAY, DELIVER_AT

_ASKING: Final = re.compile(
    b"|".join(re.escape(one.encode()) for one in (DELAY, DELIVER_AT, CANCEL))
)


def deferred_at_once(validated: Validated, rules: TopicRules, now_ms: int) -> Validated | Deferral:
    """``deferred`` on the event loop. Raises ``LongValidation`` for a batch that takes long."""
    if validated.header.record_count <= LOOP_DEFERRED_RECORDS_MAX:
        return deferred(validated, rules, now_ms)
    is_plain = not validated.header.attributes & COMPRESSION_MASK
    if is_plain and not _ASKING.search(memoryview(validated.data)[HEADER_BYTES:]):
        return validated
    raise LongValidation("the delays of the records are read beside the event loop")


def deferred(validated: Validated, rules: TopicRules, now_ms: int) -> Validated | Deferral:
    """Return what to append in place of a batch that has delayed records, or else the batch.

    Raises ``InvalidRecord`` for what a producer cannot ask for, and ``BatchTooLarge`` for a record that
    could not be appended later.
    """
    data, header = validated
    payload = memoryview(data)[HEADER_BYTES:]
    if header.attributes & COMPRESSION_MASK:
        payload = decompress_bounded(header, payload, rules.decompressed_bytes_max)
    if not _ASKING.search(payload):
        return validated
    found = defer(header, decode_records(bytes(payload), header), now_ms)
    if found is None:
        return validated
    if rules.keys_required:
        raise InvalidRecord("records of a compacted topic cannot be delayed; use another topic")
    if found.record_bytes_max > rules.message_bytes_max:
        raise BatchTooLarge(
            f"a delayed record of {found.record_bytes_max} bytes (uncompressed, with the headers that it is "
            f"delivered with); the topic accepts up to {rules.message_bytes_max} (max.message.bytes)"
        )
    return found
