"""Variable-length integers as Kafka (and Protocol Buffers) write them.

Decoders return ``(value, next position)``. A varint that does not end within its maximal length or within
the buffer raises ``MalformedVarint``: the bytes came from a peer or a file.
"""

from collections.abc import Sequence
from typing import TypeAlias

from millpond.base.errors import MalformedVarint

ByteSource: TypeAlias = Sequence[int]  # bytes, bytearray or memoryview of unsigned bytes

VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10


def encode_unsigned(value: int) -> bytes:
    """Encode a non-negative integer, seven bits a byte, low bits first."""
    assert value >= 0
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_signed(value: int) -> bytes:
    """Encode a 64-bit signed integer in zigzag form (small magnitudes stay short)."""
    return encode_unsigned((value << 1) ^ (value >> 63))


def decode_unsigned(
    data: ByteSource, position: int, bytes_max: int = VARINT_BYTES_MAX
) -> tuple[int, int]:
    """Decode what ``encode_unsigned`` wrote."""
    value = 0
    shift = 0
    try:
        for index in range(position, position + bytes_max):
            byte = data[index]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, index + 1
            shift += 7
    except IndexError:
        raise MalformedVarint("varint runs past the end of its buffer") from None
    raise MalformedVarint(f"varint is longer than {bytes_max} bytes")


def decode_signed(
    data: ByteSource, position: int, bytes_max: int = VARLONG_BYTES_MAX
) -> tuple[int, int]:
    """Decode what ``encode_signed`` wrote."""
    value, position = decode_unsigned(data, position, bytes_max)
    return (value >> 1) ^ -(value & 1), position
