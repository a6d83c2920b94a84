"""``ScheduleTimers``: a leader passes delayed records to the host of their timers.

Kafka has no such request, so it travels in an Envelope whose principal says what is inside, as questions
about queues do (``queue_calls.py``).

    request: version u8 | flags u8 | topic id | partition i32 | first i64 | upto i64 | count u32
             | for each record: source i64 | length u32 | its bytes
    answer: version u8 | is full u8 | position i64
"""

from struct import Struct
from struct import error as StructError  # noqa: N812  (an exception, not a function)
from typing import Final
from uuid import UUID

from millpond.base.errors import MalformedData
from millpond.engine.peers import ScheduleTimers, TimerPosition
from millpond.frontend.kafka.peers.call import ConnectionKind, PeerCall, raise_refusal
from millpond.timer.facts import Target
from millpond.timer.shard import Entry, Schedule
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.envelope import EnvelopeRequest, EnvelopeResponse

# The principal of an envelope with delayed records.
ABOUT_TIMERS: Final = b"millpond.timers"

_VERSION: Final = 0
_HEAD: Final = Struct(">BB16siqqI")
_ENTRY: Final = Struct(">qI")
_ANSWER: Final = Struct(">BBq")
_IS_RESET: Final = 1
_BEGINS: Final = 2


def to_wire(question: ScheduleTimers) -> EnvelopeRequest:
    """The envelope of a request."""
    command = question.command
    flags = _IS_RESET * command.is_reset | _BEGINS * command.begins
    topic_id, partition = command.target
    head = _HEAD.pack(
        _VERSION,
        flags,
        topic_id.bytes,
        partition,
        command.first,
        command.upto,
        len(command.entries),
    )
    parts = [head]
    for source, value in command.entries:
        parts += _ENTRY.pack(source, len(value)), value
    return EnvelopeRequest(request_data=b"".join(parts), request_principal=ABOUT_TIMERS)


def question_of(message: EnvelopeRequest) -> ScheduleTimers:
    """What the envelope asks. Raises ``MalformedData``."""
    data = bytes(message.request_data)
    found: list[Entry] = []
    try:
        version, flags, topic_id, partition, first, upto, count = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise MalformedData(f"version {version} of a request about timers is not known")
        at = _HEAD.size
        for _ in range(count):
            source, size = _ENTRY.unpack_from(data, at)
            at += _ENTRY.size + size
            if at > len(data):
                raise MalformedData("a request about timers is cut")
            found.append(Entry(source, data[at - size : at]))
        if at != len(data):
            raise MalformedData("something follows a request about timers")
    except StructError:
        raise MalformedData("a request about timers is cut") from None
    return ScheduleTimers(
        command=Schedule(
            target=Target(UUID(bytes=topic_id), partition),
            first=first,
            upto=upto,
            entries=found,
            is_reset=bool(flags & _IS_RESET),
            begins=bool(flags & _BEGINS),
        )
    )


def answer_to_wire(answer: TimerPosition) -> EnvelopeResponse:
    """The envelope of an answer."""
    return EnvelopeResponse(response_data=_ANSWER.pack(_VERSION, answer.is_full, answer.position))


def from_wire(_question: ScheduleTimers, message: EnvelopeResponse) -> TimerPosition:
    """The answer. Raises what the peer refused with."""
    raise_refusal(message.error_code)
    try:
        version, is_full, position = _ANSWER.unpack(bytes(message.response_data or b""))
    except StructError:
        raise MalformedData("an answer about timers is cut") from None
    if version != _VERSION:
        raise MalformedData(f"version {version} of an answer about timers is not known")
    return TimerPosition(position, bool(is_full))


CALL = PeerCall(
    kind=ScheduleTimers,
    api_key=ApiKey.ENVELOPE,
    version=0,
    to_wire=to_wire,
    from_wire=from_wire,
    lane=ConnectionKind.TIMERS,
)
