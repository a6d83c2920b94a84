"""The four codecs of Kafka batches, with bounded output.

``decompress`` never takes more memory than ``limit`` allows, whatever the data claims, and raises
``CorruptBatch`` for damaged data.

- gzip is the standard library's zlib, which compresses faster than cramjam's and bounds its output itself.
- snappy is written with the framing of snappy-java (xerial), which is what every Kafka client expects, and
  read with or without it (librdkafka and others write raw blocks).
- lz4 frames are written with *independent* blocks of 64 KiB: Java's reader refuses linked blocks, which
  cramjam's one-shot function writes, and the default level there is the slow high-compression mode.
- zstd is written at level 3, the level of Java's clients.
"""

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from mmap import mmap
from struct import Struct
from struct import error as StructError  # noqa: N812  (an exception, not a function)
from typing import assert_never

import cramjam

from millpond.base.errors import BatchTooLarge, CorruptBatch, UnsupportedCompression
from millpond.base.limits import DECOMPRESSED_BYTES_MAX
from millpond.record.batch import ByteBuffer


class Compression(IntEnum):
    """Codecs by their number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> "Compression":
        """Return the codec called ``name`` in configurations (``uncompressed`` is Kafka's topic-level
        word).
        """
        codec = _NAMES.get(name.lower())
        if codec is None:
            raise UnsupportedCompression(
                f"unknown compression {name!r}; known are none, gzip, snappy, lz4, zstd"
            )
        return codec


_CODECS: dict[int, Compression] = {codec.value: codec for codec in Compression}
_NAMES = {codec.name.lower(): codec for codec in Compression} | {"uncompressed": Compression.NONE}

XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable since 1
_XERIAL_BLOCK_BYTES = (
    32 * 1024
)  # snappy-java's block size; some readers have buffers of exactly this size
_i32 = Struct(">i")

_ZSTD_LEVEL = 3
_LZ4_LEVEL = 1
_GZIP_LEVEL = 6
_GZIP_WBITS = 31

# The largest possible ratio of decompressed to compressed size in these formats.
_SNAPPY_GROWTH_MAX = 22  # a copy of 64 bytes takes 3
_LZ4_GROWTH_MAX = 255

_GZIP_PIECE_BYTES = 256 * 1024

_FIRST_GUESS_BYTES = 16 * 1024
_FIRST_GUESS_GROWTH = 4
_GUESS_GROWTH = 4

# cramjam's messages when the output buffer is too small; its other messages mean corrupt data.
_OUTPUT_FULL = "failed to write whole buffer"


def compress(codec: Compression | int, data: ByteBuffer, level: int | None = None) -> bytes:
    """Compress ``data``; ``level`` is the codec's own, None for the default."""
    codec = known_codec(codec)
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            packer = zlib.compressobj(_GZIP_LEVEL if level is None else level, wbits=_GZIP_WBITS)
            return packer.compress(data) + packer.flush()
        case Compression.SNAPPY:
            return _compress_xerial(data)
        case Compression.LZ4:
            frame = cramjam.lz4.Compressor(
                level=_LZ4_LEVEL if level is None else level,
                content_checksum=False,
                block_linked=False,
            )
            frame.compress(bytes(data))  # it accepts only bytes; bytes are not copied
            return bytes(frame.finish())
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))
        case _:
            assert_never(codec)


def decompress(
    codec: Compression | int, data: ByteBuffer, limit: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """Decompress what ``compress`` or another client wrote.

    Raises ``BatchTooLarge`` when the result would have more than ``limit`` bytes, ``CorruptBatch`` when the
    data is damaged, ``UnsupportedCompression`` for an unknown codec.
    """
    codec = known_codec(codec)
    match codec:
        case Compression.NONE:
            if len(data) > limit:
                raise _too_large(limit)
            return bytes(data)
        case Compression.GZIP:
            return _decompress_gzip(data, limit)
        case Compression.SNAPPY:
            if data[: len(XERIAL_MAGIC)] == XERIAL_MAGIC:
                return _decompress_xerial(memoryview(data), limit)
            return _decompress_snappy_block(data, 0, limit)
        case Compression.LZ4:
            return _decompress_growing(codec, data, min(limit, len(data) * _LZ4_GROWTH_MAX), limit)
        case Compression.ZSTD:
            return _decompress_growing(codec, data, limit, limit)
        case _:
            assert_never(codec)


def decompress_into(
    codec: Compression | int, data: ByteBuffer, output: bytearray | mmap
) -> int | None:
    """Decompress into ``output``. Return the number of bytes written, or None if it is too small.

    Work and memory are bounded by ``output``, whatever the data claims. Raises ``CorruptBatch`` and
    ``UnsupportedCompression`` as ``decompress`` does.
    """
    codec = known_codec(codec)
    match codec:
        case Compression.NONE:
            if len(data) > len(output):
                return None
            output[: len(data)] = data
            return len(data)
        case Compression.GZIP:
            return _gzip_into(data, output)
        case Compression.SNAPPY:
            return _snappy_into(memoryview(data), output)
        case Compression.LZ4:
            return _cramjam_into(codec, cramjam.lz4.decompress_into, data, output)
        case Compression.ZSTD:
            return _cramjam_into(codec, cramjam.zstd.decompress_into, data, output)
        case _:
            assert_never(codec)


def _cramjam_into(
    codec: Compression, into: Callable[..., int], data: ByteBuffer, output: bytearray | mmap
) -> int | None:
    try:
        return into(data, output)
    except cramjam.DecompressionError as error:
        if str(error) != _OUTPUT_FULL:
            raise CorruptBatch(f"{codec.name.lower()}: {error}") from None
    return None


def _gzip_into(data: ByteBuffer, output: bytearray | mmap) -> int | None:
    total, room = 0, len(output)
    rest: ByteBuffer = data
    while True:
        member = zlib.decompressobj(wbits=_GZIP_WBITS)
        while not member.eof:
            try:
                # In pieces: zlib copies a large result while it holds the interpreter's lock.
                part = member.decompress(rest, min(room - total + 1, _GZIP_PIECE_BYTES))
            except zlib.error as error:
                raise CorruptBatch(f"gzip: {error}") from None
            size = len(part)
            if total + size > room:
                return None
            output[total : total + size] = part
            total += size
            rest = member.unconsumed_tail
            if not part and not rest and not member.eof:
                raise CorruptBatch("gzip: the data ends before its end mark")
        rest = member.unused_data
        if not rest:
            return total


def _snappy_into(data: memoryview, output: bytearray | mmap) -> int | None:
    view = memoryview(output)
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _snappy_block_into(data, view)
    total = 0
    for block in _xerial_blocks(data):
        size = _snappy_block_into(block, view[total:])
        if size is None:
            return None
        total += size
    return total


def _snappy_block_into(block: memoryview, output: memoryview) -> int | None:
    """Decompress one raw block. It begins with its decompressed length, which is checked before any work."""
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_GROWTH_MAX:
            raise CorruptBatch(f"snappy: {len(block)} bytes cannot stand for {size}")
        if size > len(output):
            return None
        written: int = cramjam.snappy.decompress_raw_into(block, output)
        return written
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from None


def known_codec(codec: Compression | int) -> Compression:
    """Return the codec with this number. Raises ``UnsupportedCompression``."""
    found = _CODECS.get(
        codec
    )  # the enumeration's own lookup would take most of a small batch's time
    if found is None:
        raise UnsupportedCompression(f"unknown compression codec {codec}")
    return found


def _decompress_growing(codec: Compression, data: ByteBuffer, output_max: int, limit: int) -> bytes:
    """Decompress into a buffer that grows until the data fits or the limit is reached.

    Frames of these codecs rarely say how large they become (streaming writers cannot know), and the size
    cannot be trusted. Each retry is four times larger, so the retries cost a third at most.
    """
    into = cramjam.lz4.decompress_into if codec is Compression.LZ4 else cramjam.zstd.decompress_into
    size = min(max(_FIRST_GUESS_BYTES, len(data) * _FIRST_GUESS_GROWTH), output_max)
    while True:
        output = bytearray(size)
        try:
            written = into(data, output)
            return bytes(memoryview(output)[:written])
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise CorruptBatch(f"{codec.name.lower()}: {error}") from None
        if size >= output_max:
            raise _too_large(limit)
        size = min(size * _GUESS_GROWTH, output_max)


def _decompress_gzip(data: ByteBuffer, limit: int) -> bytes:
    """Decompress gzip; several members may follow one another, as RFC 1952 allows."""
    parts: list[bytes] = []
    total = 0
    rest: ByteBuffer = data
    while True:
        member = zlib.decompressobj(wbits=_GZIP_WBITS)
        try:
            part = member.decompress(rest, limit - total + 1)
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from None
        parts.append(part)
        total += len(part)
        if total > limit:
            raise _too_large(limit)
        if not member.eof:
            raise CorruptBatch("gzip: the data ends before its end mark")
        rest = member.unused_data
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _compress_xerial(data: ByteBuffer) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_i32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_xerial(data: memoryview, limit: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    for block in _xerial_blocks(data):
        part = _decompress_snappy_block(block, total, limit)
        parts.append(part)
        total += len(part)
    return b"".join(parts)


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    position = len(_XERIAL_HEADER)
    if len(data) < position:
        raise CorruptBatch("snappy: the stream header is cut off")
    while position < len(data):
        try:
            (size,) = _i32.unpack_from(data, position)
        except StructError:
            raise CorruptBatch("snappy: a block's length is cut off") from None
        position += 4
        if size < 0 or size > len(data) - position:
            raise CorruptBatch(f"snappy: block of {size} bytes, {len(data) - position} are left")
        yield data[position : position + size]
        position += size


def _decompress_snappy_block(data: ByteBuffer, before: int, limit: int) -> bytes:
    """Decompress one raw block that follows ``before`` bytes of other blocks.

    It begins with its decompressed length, which is checked before memory is taken.
    """
    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size > len(data) * _SNAPPY_GROWTH_MAX:
            raise CorruptBatch(f"snappy: {len(data)} bytes cannot stand for {size}")
        if before + size > limit:
            raise _too_large(limit)
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from None


def _too_large(limit: int) -> BatchTooLarge:
    return BatchTooLarge(f"the batch grows over {limit} bytes when it is decompressed")
