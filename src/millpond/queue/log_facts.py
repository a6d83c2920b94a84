"""What a queue's log says of its messages, between them: facts in control batches, which readers skip.

A fact is a list of runs of offsets with what holds of them from then on. A run that is available and has
been delivered is one that was handed out: whoever loads the queue knows that it may have been seen, and not
by whom. A fact speaks only of offsets below its own, so a log may lose its beginning up to the first
message that is not over, and nothing that is lost is missed. That messages with an age of their own may be
in the log is said again before the log loses its beginning.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from millpond.base.errors import CorruptBatch, MalformedVarint
from millpond.base.varint import VARLONG_BYTES_MAX, decode_unsigned, encode_unsigned
from millpond.cursor.runs import Run, State
from millpond.record.builder import build_batch
from millpond.record.records import Record

# Of a control record's key; far above the types that Kafka has.
QUEUE_FACTS_TYPE = 1_000
_KEY = Struct(">hh").pack(0, QUEUE_FACTS_TYPE)
_VERSION = 0
_HAS_TTL = 1


class LogFacts(NamedTuple):
    """One control record's worth."""

    runs: tuple[Run, ...]
    has_ttl: bool = False


def build_facts(facts: LogFacts, *, now_ms: int) -> bytearray:
    """A control batch."""
    out = bytearray((_VERSION, _HAS_TTL if facts.has_ttl else 0))
    out += encode_unsigned(len(facts.runs))
    for run in facts.runs:
        assert run.state is not State.ACQUIRED
        out += encode_unsigned(run.first)
        out += encode_unsigned(run.next - run.first)
        out += encode_unsigned(run.state)
        out += encode_unsigned(run.deliveries)
    return build_batch([(now_ms, _KEY, bytes(out), ())], control=True)


def read_facts(records: Iterable[Record]) -> LogFacts:
    """What a control batch says; nothing if it is of another kind. Raises ``CorruptBatch``."""
    runs: list[Run] = []
    has_ttl = False
    for record in records:
        if record.key != _KEY or not record.value:
            continue
        try:
            has_ttl = bool(record.value[1] & _HAS_TTL) or has_ttl
            runs += _read_runs(record.value)
        except (IndexError, MalformedVarint, ValueError) as error:
            raise CorruptBatch(f"a queue's fact cannot be read: {error}") from error
    return LogFacts(tuple(runs), has_ttl)


def _read_runs(data: bytes) -> Iterable[Run]:
    count, position = decode_unsigned(data, 2)
    for _run in range(count):
        first, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
        size, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
        state, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
        deliveries, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
        yield Run(first, first + size, State(state), deliveries)
