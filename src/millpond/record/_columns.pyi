"""The kernels in C; what they do is said where their twins are (``columns_python``)."""

from collections.abc import Sequence

from millpond.record.batch import ByteBuffer
from millpond.record.columns_python import Binary, Decoded, Lists, Run

INTERFACE: int

def decode(
    runs: Sequence[Run], first: int, end: int, scale: int, headers: bool, /
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
