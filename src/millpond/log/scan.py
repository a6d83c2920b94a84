"""Walks the batches of a file from a known beginning.

Two walks: by header alone, which skips the bodies, and with the whole batch in memory. They stop at ``end``
and raise ``BrokenChain``, with position and reason, where the bytes cannot be the next batch. Neither checks
a checksum, nor whether offsets follow each other (``chain``). A third function finds the next sound batch
after damage. Files in, positions out; nothing decodes a record, and nothing is known of logs.
"""

from collections.abc import Iterator

from millpond.log.chain import BrokenChain, ChainRule, header_at
from millpond.log.storage import StorageFile
from millpond.record.batch import HEADER_BYTES, MAGIC_OFFSET, BatchHeader, check_crc

_CHUNK_BYTES = 1024 * 1024
_MAGIC_BYTE = b"\x02"
# Longer bodies are skipped instead of read when only headers are needed.
_JUMP_BYTES = 64 * 1024


def iter_headers(
    file: StorageFile, start: int = 0, end: int | None = None, *, chunk_bytes: int = _JUMP_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield ``(position, header)`` of each batch; bodies are read only as far as reading ahead does."""
    stop = file.size if end is None else end
    position = start
    chunk = b""
    chunk_start = start
    while position < stop:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.read(position, min(chunk_bytes, stop - position))
            chunk_start, at = position, 0
        header = header_at(chunk, at, position)
        if position + header.size > stop:
            raise BrokenChain(position, _cut_off(header, stop - position))
        yield position, header
        position += header.size


def iter_data(
    file: StorageFile, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield ``(position, header, bytes)`` of each batch; the bytes may be kept."""
    stop = file.size if end is None else end
    position = start
    while position < stop:
        chunk = file.read(position, min(_CHUNK_BYTES, stop - position))
        header = header_at(chunk, 0, position)
        if position + header.size > stop:
            raise BrokenChain(position, _cut_off(header, stop - position))
        if header.size > len(chunk):
            chunk = file.read(position, header.size)
            if header.size > len(chunk):
                raise BrokenChain(position, _cut_off(header, len(chunk)))
        view = memoryview(chunk)
        at = 0
        while True:
            yield position, header, view[at : at + header.size]
            at += header.size
            position += header.size
            if position >= stop or len(chunk) - at < HEADER_BYTES:
                break
            header = header_at(chunk, at, position)
            if at + header.size > len(chunk):
                break


def _cut_off(header: BatchHeader, left: int) -> str:
    return f"the batch at offset {header.base_offset} has {header.size} bytes, {left} are left"


def find_batch(
    file: StorageFile, position: int, *, offset_min: int, offset_bound: int
) -> tuple[int, int] | None:
    """Return the next position after damage where a sound batch begins, with its base offset.

    A position counts when the header there is valid, its offset is in the range, and the checksum is right.
    """
    end = file.size
    while position + HEADER_BYTES <= end:
        chunk = file.read(position, _CHUNK_BYTES)
        # Every batch has its format number, 2, at byte 16: check only such positions.
        found = chunk.find(_MAGIC_BYTE, MAGIC_OFFSET)
        while found >= 0:
            at = found - MAGIC_OFFSET
            if at + HEADER_BYTES > len(chunk):
                break
            header = _possible_header(chunk, at, offset_min, offset_bound)
            if (
                header is not None
                and position + at + header.size <= end
                and check_crc(file.read(position + at, header.size), 0, header)
            ):
                return position + at, header.base_offset
            found = chunk.find(_MAGIC_BYTE, found + 1)
        if position + len(chunk) >= end or len(chunk) < HEADER_BYTES:
            return None
        position += len(chunk) - HEADER_BYTES + 1
    return None


def _possible_header(
    chunk: bytes, at: int, offset_min: int, offset_bound: int
) -> BatchHeader | None:
    base_offset = int.from_bytes(chunk[at : at + 8], "big", signed=True)
    if not offset_min <= base_offset < offset_bound:
        return None
    try:
        header = header_at(chunk, at, at)
    except BrokenChain:
        return None
    rule = ChainRule(offset_bound=offset_bound)
    return header if rule.fits(base_offset, header.last_offset, offset_min) else None
