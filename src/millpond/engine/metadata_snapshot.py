"""Snapshots of the metadata: the image as a short list of facts, so that the log before it can go.

A snapshot is a file ``<end offset>-<epoch>.checkpoint`` beside the metadata log, in Kafka's own
form: a control batch (header), batches of facts, a control batch (footer). It is written whole and
durable before anything of the log is given up; one that is damaged is passed over for an older one,
and a start without any that reaches up to the log's beginning is refused, because an image with a
hole in it would be wrong in silence.
"""

import logging
import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

from millpond.base.errors import CorruptBatch, CorruptLog
from millpond.base.ids import LeaderEpoch, Offset
from millpond.log.storage import Storage
from millpond.metadata.image import Image
from millpond.metadata.image_records import image_records
from millpond.metadata.records import MetadataRecord, decode_record, encode_record
from millpond.record.batch import check_crc, iter_batches
from millpond.record.builder import build_batch
from millpond.record.control import MarkerType
from millpond.record.records import decode_batch

log = logging.getLogger(__name__)

SUFFIX = ".checkpoint"
_NAME = re.compile(r"^(\d{20})-(\d{10})\.checkpoint$")
_RECORDS_A_BATCH = 1000
_CONTROL_KEY = struct.Struct(">hh")  # version, type
_HEADER_VALUE = struct.Struct(">hqB")  # version, time of the last fact, no tagged fields
_FOOTER_VALUE = struct.Struct(">hB")


class Snapshot(NamedTuple):
    """What the facts below ``end_offset`` amount to."""

    end_offset: Offset
    records: Sequence[MetadataRecord]


def write_snapshot(
    storage: Storage,
    directory: str,
    image: Image,
    *,
    end_offset: Offset,
    epoch: LeaderEpoch,
    now_ms: int,
) -> int:
    """Write the image down durably, remove older snapshots; answers how many facts it took."""
    facts = image_records(image)
    data = bytearray()
    header = _HEADER_VALUE.pack(0, now_ms, 0)
    data += _control(MarkerType.SNAPSHOT_HEADER, header, base_offset=0, epoch=epoch, now_ms=now_ms)
    offset = 1
    for first in range(0, len(facts), _RECORDS_A_BATCH):
        chunk = facts[first : first + _RECORDS_A_BATCH]
        data += build_batch(
            [(now_ms, None, encode_record(fact), ()) for fact in chunk],
            base_offset=offset,
            leader_epoch=epoch,
        )
        offset += len(chunk)
    footer = _FOOTER_VALUE.pack(0, 0)
    data += _control(
        MarkerType.SNAPSHOT_FOOTER, footer, base_offset=offset, epoch=epoch, now_ms=now_ms
    )
    name = f"{end_offset:020d}-{epoch:010d}{SUFFIX}"
    older = [one for one in _names(storage, directory) if one != name]
    storage.replace(f"{directory}/{name}", bytes(data))
    for one in older:
        storage.delete(f"{directory}/{one}")
    return len(facts)


def read_snapshot(storage: Storage, directory: str, *, log_start: Offset) -> Snapshot:
    """The newest snapshot that can be believed. Raises ``CorruptLog`` if the log needs one and has none."""
    for name in sorted(_names(storage, directory), reverse=True):
        match = _NAME.match(name)
        assert match is not None
        try:
            records = _parse(storage.read_all(f"{directory}/{name}") or b"")
        except (CorruptLog, CorruptBatch) as error:
            log.warning(
                "metadata: the snapshot %s is damaged (%s); looking for another", name, error
            )
            continue
        if int(match[1]) >= log_start:
            return Snapshot(int(match[1]), records)
    if log_start > 0:
        raise CorruptLog(
            f"the metadata log in {directory} begins at offset {log_start}, and no snapshot reaches that "
            "far: what came before it is lost; restore the directory from a copy"
        )
    return Snapshot(0, ())


def _names(storage: Storage, directory: str) -> list[str]:
    return [name for name in storage.list(directory) if _NAME.match(name)]


def _control(
    kind: MarkerType, value: bytes, *, base_offset: Offset, epoch: LeaderEpoch, now_ms: int
) -> bytearray:
    record = (now_ms, _CONTROL_KEY.pack(0, kind), value, ())
    return build_batch([record], base_offset=base_offset, leader_epoch=epoch, control=True)


def _parse(data: bytes) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    is_whole = False
    for position, header in iter_batches(data):
        if not check_crc(data, position, header):
            raise CorruptLog(f"wrong checksum at byte {position}")
        for record in decode_batch(data, position):
            if header.is_control:
                kind = _CONTROL_KEY.unpack_from(record.key or b"\0\0\0\0")[1]
                is_whole = kind == MarkerType.SNAPSHOT_FOOTER
            elif record.value is not None:
                records.append(decode_record(record.value))
    if not is_whole:
        raise CorruptLog("it has no end")
    return records
