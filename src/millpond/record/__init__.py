"""Kafka v2 record batches, kept as bytes.

Appending and reading touch a batch's 61-byte header only. Records are decoded on demand: by compaction,
tools, other protocols and the client. Nothing here knows files, sockets or time.
"""

from millpond.record.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    BatchHeader,
    ByteBuffer,
    WritableBuffer,
    assign_offset,
    check_crc,
    iter_batches,
    read_header,
    set_append_time,
)
from millpond.record.builder import NewRecord, build_batch, rebuild_batch, recompress
from millpond.record.compression import Compression, compress, decompress
from millpond.record.control import EndTxnMarker, MarkerType
from millpond.record.records import Record, decode_batch, decode_records
from millpond.record.validate import validate_produce

__all__ = [
    "HEADER_BYTES",
    "LOG_OVERHEAD",
    "BatchHeader",
    "ByteBuffer",
    "Compression",
    "EndTxnMarker",
    "MarkerType",
    "NewRecord",
    "Record",
    "WritableBuffer",
    "assign_offset",
    "build_batch",
    "check_crc",
    "compress",
    "decode_batch",
    "decode_records",
    "decompress",
    "iter_batches",
    "read_header",
    "rebuild_batch",
    "recompress",
    "set_append_time",
    "validate_produce",
]
