"""Codecs: frames of other writers, framing of our own, and bombs."""

import gzip
import random
import tracemalloc

import cramjam
import pytest

from millpond.base.errors import BatchTooLarge, CorruptBatch, UnsupportedCompression
from millpond.record import Compression, compress, decompress
from millpond.record.compression import known_codec

PLAIN = b"millpond " * 8
CODECS = [codec for codec in Compression if codec is not Compression.NONE]

# PLAIN as kafka-python (zlib, python-snappy, lz4, zstandard) compresses it.
FOREIGN = {
    "gzip": (
        Compression.GZIP,
        "1f8b0800587dfa6a02ffcbcdccc929c8cf4b51c8a58c0100e12c920448000000",
    ),
    "snappy, xerial": (
        Compression.SNAPPY,
        "82534e415050590000000001000000010000000e48206d696c6c706f6e6420fa0900",
    ),
    "snappy, raw": (Compression.SNAPPY, "48206d696c6c706f6e6420fa0900"),
    "lz4": (
        Compression.LZ4,
        "04224d18684048000000000000004f130000009f6d696c6c706f6e642009002750706f6e642000000000",
    ),
    "zstd": (Compression.ZSTD, "28b52ffd20487d0000486d696c6c706f6e64200100a4548e"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_reads_what_others_write(name: str) -> None:
    codec, data = FOREIGN[name]
    assert decompress(codec, bytes.fromhex(data)) == PLAIN
    assert decompress(codec, memoryview(bytearray.fromhex(data))) == PLAIN


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 300_000])
@pytest.mark.parametrize("kind", ["zeros", "random", "text"])
def test_round_trip(codec: Compression, size: int, kind: str) -> None:
    data = {
        "zeros": bytes(size),
        "random": random.Random(size).randbytes(size),
        "text": (PLAIN * (size // len(PLAIN) + 1))[:size],
    }[kind]
    packed = compress(codec, memoryview(data))
    assert decompress(codec, packed, limit=size) == data


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_levels_are_passed_on(codec: Compression) -> None:
    data = b"".join(b"%d %d;" % (n, n * n % 977) for n in range(5000))
    fast, small = compress(codec, data, 1), compress(codec, data, 9)
    assert len(small) < len(fast)
    assert decompress(codec, small) == data


def test_snappy_is_written_as_java_expects_it() -> None:
    packed = compress(Compression.SNAPPY, PLAIN)
    assert packed == bytes.fromhex(FOREIGN["snappy, xerial"][1])
    # Blocks of 32 KiB, one after the other.
    two = compress(Compression.SNAPPY, bytes(32 * 1024) + b"x")
    first = int.from_bytes(two[16:20], "big")
    assert two[20 + first :] == b"\x00\x00\x00\x03\x01\x00x"


def test_lz4_blocks_are_independent() -> None:
    """Java's reader refuses frames without this flag, and blocks over 64 KiB cost it memory."""
    packed = compress(Compression.LZ4, PLAIN)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert packed[4] & 0b0010_0000, "block independence flag"
    assert packed[5] >> 4 == 4, "64 KiB blocks"


def test_gzip_members_may_follow_one_another() -> None:
    assert (
        decompress(Compression.GZIP, gzip.compress(b"one") + gzip.compress(b" two")) == b"one two"
    )


@pytest.mark.parametrize("codec", CODECS)
def test_bombs_are_refused_without_taking_the_memory(codec: Compression) -> None:
    bomb = compress(codec, bytes(64 * 1024 * 1024))
    limit = 1024 * 1024
    tracemalloc.start()
    try:
        with pytest.raises(BatchTooLarge, match=str(limit)):
            decompress(codec, bomb, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * limit


@pytest.mark.parametrize("codec", Compression)
def test_the_limit_is_exact(codec: Compression) -> None:
    packed = compress(codec, bytes(100_000))
    assert len(decompress(codec, packed, 100_000)) == 100_000
    with pytest.raises(BatchTooLarge):
        decompress(codec, packed, 99_999)


@pytest.mark.parametrize("claim", [2**31, 500 * 1024 * 1024])
def test_a_snappy_block_cannot_claim_more_than_it_can_hold(claim: int) -> None:
    length = bytearray()
    rest = claim
    while rest >= 0x80:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    length.append(rest)
    with pytest.raises(CorruptBatch, match="cannot stand for"):
        decompress(Compression.SNAPPY, bytes(length) + b"\x00x")


@pytest.mark.parametrize("codec", CODECS)
def test_damage_is_corruption(codec: Compression) -> None:
    packed = compress(codec, random.Random(7).randbytes(2000))
    for cut in (0, 1, 3, 9, 17, 30, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:cut])
    with pytest.raises(CorruptBatch):
        decompress(codec, b"\xff" * 40)
    with pytest.raises(CorruptBatch):
        decompress(codec, packed + b"\xff\xff\xff")


def test_xerial_blocks_must_fit_their_stream() -> None:
    stream = compress(Compression.SNAPPY, PLAIN)
    for size in (-1, 15, 2**31 - 1):
        broken = stream[:16] + size.to_bytes(4, "big", signed=True) + stream[20:]
        with pytest.raises(CorruptBatch, match=f"block of {size} bytes"):
            decompress(Compression.SNAPPY, broken)


def test_codecs_have_names_and_numbers() -> None:
    assert Compression.named("ZSTD") is Compression.ZSTD
    assert Compression.named("uncompressed") is Compression.NONE
    with pytest.raises(UnsupportedCompression, match="brotli"):
        Compression.named("brotli")
    with pytest.raises(UnsupportedCompression, match="codec 5"):
        known_codec(5)
    assert known_codec(3) is Compression.LZ4


def test_the_codec_library_says_what_we_rely_on() -> None:
    """Growing buffers depend on telling "too small" from "damaged" by this message."""
    for module in (cramjam.lz4, cramjam.zstd):
        packed = bytes(module.compress(bytes(1000)))
        with pytest.raises(cramjam.DecompressionError, match=r"^failed to write whole buffer$"):
            module.decompress_into(packed, bytearray(999))
