"""Snapshots of the metadata: the image as a short list of facts, so that the log before it can go.

A snapshot is a file ``<end offset>-<epoch>.checkpoint`` beside the metadata log, in Kafka's own
form: control batches (header, and who votes if that stands in the log), batches of facts, a control batch
(footer). It is written whole and durable before anything of the log is given up; one that is damaged is
passed over for an older one, and a start without any that reaches up to the log's beginning is refused,
because an image with a gap would be wrong without notice. The snapshot before the newest is kept for replicas
that are loading it. A node that serves a snapshot checks it first, and writes another if it is damaged.
"""

import logging
import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

from millpond.base.errors import CorruptBatch, CorruptLog, MalformedData
from millpond.base.ids import LeaderEpoch, Offset
from millpond.log.storage import Storage
from millpond.metadata.families import Families
from millpond.metadata.image import Image
from millpond.metadata.image_records import image_records
from millpond.metadata.records import MetadataRecord, decode_record, encode_record
from millpond.raft.control import read_voters, voters_batch
from millpond.raft.messages import SnapshotId
from millpond.raft.voters import VoterSet
from millpond.record.batch import assign_offset, check_crc, iter_batches
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
_KEPT = 2


class Snapshot(NamedTuple):
    """What the log below ``id.end_offset`` amounts to; the voters if the log named them."""

    id: SnapshotId
    records: Sequence[MetadataRecord]
    voters: VoterSet | None


def snapshot_path(directory: str, snapshot: SnapshotId) -> str:
    """The file of a snapshot."""
    return f"{directory}/{snapshot.end_offset:020d}-{snapshot.epoch:010d}{SUFFIX}"


def write_snapshot(
    storage: Storage,
    directory: str,
    image: Image,
    *,
    end_offset: Offset,
    epoch: LeaderEpoch,
    now_ms: int,
    voters: VoterSet | None = None,
) -> int:
    """Write the image down durably; answers how many facts it took. May run on any thread."""
    facts = image_records(image)
    data = bytearray()
    header = _HEADER_VALUE.pack(0, now_ms, 0)
    data += _control(MarkerType.SNAPSHOT_HEADER, header, base_offset=0, epoch=epoch, now_ms=now_ms)
    offset = 1
    if voters is not None:
        batch = voters_batch(voters, now_ms)
        assign_offset(batch, 0, offset, epoch)
        data += batch
        offset += 1
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
    storage.replace(snapshot_path(directory, SnapshotId(end_offset, epoch)), bytes(data))
    return len(facts)


def remove_old_snapshots(storage: Storage, directory: str) -> None:
    """Delete all snapshots but the newest ones."""
    for name in sorted(_names(storage, directory))[:-_KEPT]:
        storage.delete(f"{directory}/{name}")


def read_snapshot(
    storage: Storage, directory: str, *, log_start: Offset, families: Families
) -> Snapshot | None:
    """Return the newest snapshot that is not damaged.

    Raises ``CorruptLog`` if the log needs one and has none.
    """
    for name in sorted(_names(storage, directory), reverse=True):
        match = _NAME.match(name)
        assert match is not None
        found = SnapshotId(int(match[1]), int(match[2]))
        try:
            snapshot = parse_snapshot(
                found, storage.read_all(f"{directory}/{name}") or b"", families
            )
        except CorruptLog as error:
            log.warning(
                "metadata: the snapshot %s is damaged (%s); looking for another", name, error
            )
            continue
        if found.end_offset >= log_start:
            return snapshot
    if log_start > 0:
        raise CorruptLog(
            f"the metadata log in {directory} begins at offset {log_start}, and no snapshot reaches that "
            "far: what came before it is lost; restore the directory from a copy"
        )
    return None


def check_snapshot(data: bytes) -> None:
    """Whether every byte is as it was written, from the first to the footer. Raises ``CorruptLog``."""
    footer = -1
    end = 0
    try:
        for position, header in iter_batches(data):
            if not check_crc(data, position, header):
                raise CorruptLog(f"wrong checksum at byte {position}")
            end = position + header.size
            footer = position if header.is_control else -1
        is_whole = footer >= 0 and any(
            _kind(record.key) == MarkerType.SNAPSHOT_FOOTER for record in decode_batch(data, footer)
        )
    except (CorruptBatch, MalformedData, struct.error) as error:
        raise CorruptLog(str(error)) from error
    if not is_whole or end != len(data):
        raise CorruptLog("it has no end")


def parse_snapshot(found: SnapshotId, data: bytes, families: Families) -> Snapshot:
    """Read a whole snapshot. Raises ``CorruptLog``."""
    check_snapshot(data)
    records: list[MetadataRecord] = []
    voters: VoterSet | None = None
    try:
        for position, header in iter_batches(data):
            for record in decode_batch(data, position):
                if not header.is_control:
                    if record.value is not None:
                        records.append(decode_record(record.value, families))
                elif _kind(record.key) == MarkerType.KRAFT_VOTERS:
                    voters = read_voters(record.value or b"")
    except (CorruptBatch, MalformedData, struct.error) as error:
        raise CorruptLog(str(error)) from error
    return Snapshot(found, records, voters)


def _kind(key: bytes | None) -> int:
    kind: int = _CONTROL_KEY.unpack_from(key or bytes(_CONTROL_KEY.size))[1]
    return kind


def _names(storage: Storage, directory: str) -> list[str]:
    return [name for name in storage.list(directory) if _NAME.match(name)]


def _control(
    kind: MarkerType, value: bytes, *, base_offset: Offset, epoch: LeaderEpoch, now_ms: int
) -> bytearray:
    record = (now_ms, _CONTROL_KEY.pack(0, kind), value, ())
    return build_batch([record], base_offset=base_offset, leader_epoch=epoch, control=True)
