"""``ScheduleTimers``: a leader passes delayed records to the host of their timers.

The command is one value of the call's table, packed, because it may have thousands of records:

    version u8 | flags u8 | topic id | partition i32 | first i64 | upto i64 | count u32
    | for each record: source i64 | length u32 | its bytes
"""

from struct import Struct
from struct import error as StructError  # noqa: N812  (an exception, not a function)
from typing import Final
from uuid import UUID

from millpond.engine.peers import ScheduleTimers, TimerPosition
from millpond.peer.calls import ConnectionKind
from millpond.peer.own_calls import OwnCall, bytes_of, int_of
from millpond.timer.facts import Target
from millpond.timer.shard import Entry, Schedule

_VERSION: Final = 0
_HEAD: Final = Struct(">BB16siqqI")
_ENTRY: Final = Struct(">qI")
_IS_RESET: Final = 1
_BEGINS: Final = 2


def encode(command: Schedule) -> bytes:
    """Pack a command."""
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
    return b"".join(parts)


def decode(data: bytes) -> Schedule:
    """Read a command. Raises ``ValueError``."""
    found: list[Entry] = []
    try:
        version, flags, topic_id, partition, first, upto, count = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise ValueError(f"version {version} of a command about timers is not known")
        at = _HEAD.size
        for _ in range(count):
            source, size = _ENTRY.unpack_from(data, at)
            at += _ENTRY.size + size
            if at > len(data):
                raise ValueError("a command about timers is cut")
            found.append(Entry(source, data[at - size : at]))
        if at != len(data):
            raise ValueError("something follows a command about timers")
    except StructError:
        raise ValueError("a command about timers is cut") from None
    return Schedule(
        target=Target(UUID(bytes=topic_id), partition),
        first=first,
        upto=upto,
        entries=found,
        is_reset=bool(flags & _IS_RESET),
        begins=bool(flags & _BEGINS),
    )


CALL = OwnCall(
    name="ScheduleTimers",
    kind=ScheduleTimers,
    connection=ConnectionKind.TIMERS,
    to_table=lambda one: {"command": encode(one.command)},
    from_table=lambda table: ScheduleTimers(command=decode(bytes_of(table["command"]))),
    answer_to_table=lambda answer: {"position": answer.position, "full": answer.is_full},
    answer_from_table=lambda table: TimerPosition(int_of(table["position"]), bool(table["full"])),
)
