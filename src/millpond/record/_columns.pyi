"""The kernels in C; what they do is said where their twins are: columns_python, records, inspection,
builder."""

from collections.abc import Sequence

from millpond.record.batch import ByteBuffer
from millpond.record.builder import NewRecord
from millpond.record.columns_python import Binary, Decoded, Lists, Unpacked
from millpond.record.records import Record

INTERFACE: int

def decode(
    batches: Sequence[Unpacked], first: int, end: int, scale: int, headers: bool, /
) -> Decoded | None: ...
def encode(
    keys: Binary | None,
    values: Binary | None,
    headers: Lists | None,
    timestamps: ByteBuffer | int,
    rows: ByteBuffer,
    index: int,
    bytes_max: int,
    reserve: int,
    /,
) -> tuple[bytearray, int, int, int]: ...
def partitions(keys: Binary, partition_count: int, keyless: int, /) -> bytearray: ...
def group(groups: ByteBuffer, group_count: int, /) -> list[bytearray]: ...
def records(
    payload: ByteBuffer,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    append_time: int,
    uses_append_time: bool,
    record_count: int,
    record_type: type[Record],
    /,
) -> list[Record] | None: ...
def check(
    payload: ByteBuffer,
    base_timestamp: int,
    record_count: int,
    earliest: int,
    latest: int,
    positions_max: int,
    /,
) -> tuple[int, int, int, list[int], list[int]]: ...
def encode_records(
    records: Sequence[NewRecord], offset_deltas: Sequence[int], base_timestamp: int, /
) -> bytes: ...
