"""What ``millpond log dump`` shows of each kind of file, as fields for programs and a line for people.

Every kind has one function that yields entries; the table at the end says which files it is for. Bytes that
cannot be what the name promises become one entry that says so; dumping never raises for what is in a file.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from millpond.base.errors import MillpondError, UnreadableBatch
from millpond.base.uuids import text_id
from millpond.cli.formats import show_time
from millpond.log import checkpoint
from millpond.log.chain import BrokenChain
from millpond.log.damage import DAMAGE_FILE
from millpond.log.file_storage import FileStorage
from millpond.log.producer_state import decode_snapshot
from millpond.log.scan import find_batch, iter_data
from millpond.log.txn_index import TxnIndex
from millpond.record.batch import BatchHeader, check_crc
from millpond.record.compression import Compression
from millpond.record.control import EndTxnMarker, MarkerType, marker_type
from millpond.record.records import Record, decode_stored

_OFFSET_MAX = 2**63 - 1
_CODECS = {int(codec): codec.name.lower() for codec in Compression}


class Entry(NamedTuple):
    """One thing in a file."""

    fields: dict[str, Any]
    text: str
    wrong: bool = False


def dumpable_files(path: Path) -> list[Path]:
    """The files that a path means: itself, or a partition's segments, or those of all partitions."""
    if path.is_file():
        return [path]
    segments = sorted(path.glob("*.log"))
    return segments or sorted(path.glob("*/*.log"))


def dump_file(
    path: Path, *, with_records: bool, first_offset: int | None, entries_max: int | None
) -> Iterator[Entry]:
    """The entries of one file, by what its name says it is."""
    storage = FileStorage(path.parent)
    kind = _KINDS.get(path.name) or _KINDS.get(_suffix(path.name))
    try:
        if kind is _dump_segment:
            entries = _dump_segment(storage, path.name, with_records, first_offset or 0)
        elif kind is None:
            entries = iter([_unknown(path.name)])
        else:
            entries = kind(storage, path.name)
        yield from entries if entries_max is None else islice(entries, entries_max)
    except MillpondError as error:
        yield Entry({"error": str(error)}, f"error: {error}", wrong=True)


def _suffix(name: str) -> str:
    """The kind's suffix, also of a file that is being swapped or deleted."""
    stem, _, rest = name.partition(".")
    return "." + rest.split(".")[0] if stem.isdecimal() else ""


def _unknown(name: str) -> Entry:
    text = f"{name} is no file of a log"
    return Entry({"error": text}, f"error: {text}", wrong=True)


# --- segments -----------------------------------------------------------------------------------


def _dump_segment(
    storage: FileStorage, name: str, with_records: bool, first_offset: int
) -> Iterator[Entry]:
    file = storage.open(name, private=True)
    position = 0
    try:
        while position < file.size:
            try:
                for at, header, data in iter_data(file, position):
                    position = at
                    if header.last_offset >= first_offset:
                        yield _batch_entry(at, header, data, with_records=with_records)
                return
            except BrokenChain as broken:
                found = find_batch(
                    file, broken.position + 1, offset_min=0, offset_bound=_OFFSET_MAX
                )
                position = file.size if found is None else found[0]
                size = position - broken.position
                text = f"@{broken.position} {size} bytes are no batches: {broken.reason}"
                yield Entry(
                    {"position": broken.position, "size": size, "error": broken.reason},
                    text,
                    wrong=True,
                )
    finally:
        file.close()


def _batch_entry(
    position: int, header: BatchHeader, data: memoryview, *, with_records: bool
) -> Entry:
    sound = check_crc(data, 0, header)
    codec_name = _CODECS.get(header.compression, f"unknown({header.compression})")
    fields: dict[str, Any] = {
        "position": position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "codec": codec_name,
        "leader_epoch": header.leader_epoch,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "append" if header.uses_append_time else "create",
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "delete_horizon_ms": header.delete_horizon_ms,
        "crc": f"{header.crc:08x}",
        "valid": sound,
    }
    text = (
        f"@{position} offsets {header.base_offset}-{header.last_offset} count {header.record_count} "
        f"size {header.size} {codec_name} epoch {header.leader_epoch} "
        f"{'append' if header.uses_append_time else 'create'} time {show_time(header.max_timestamp)}"
    )
    if header.producer_id >= 0:
        text += f" producer {header.producer_id}/{header.producer_epoch}"
        if header.base_sequence >= 0:
            text += f" sequence {header.base_sequence}-{header.last_sequence}"
    for flag, word in ((header.is_transactional, "transactional"), (header.is_control, "control")):
        text += f" {word}" if flag else ""
    if header.delete_horizon_ms is not None:
        text += f" tombstones until {show_time(header.delete_horizon_ms)}"
    if not sound:
        text += " WRONG CHECKSUM"
    if with_records and sound:
        try:
            records = decode_stored(data)
        except UnreadableBatch as error:
            fields["unreadable"] = str(error)
            return Entry(fields, f"{text} UNREADABLE: {error}", wrong=True)
        fields["records"] = [_record_fields(record, header) for record in records]
        text = "\n".join([text, *(_record_text(record, header) for record in records)])
    return Entry(fields, text, wrong=not sound)


def _record_fields(record: Record, header: BatchHeader) -> dict[str, Any]:
    fields: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    if header.is_control:
        return {**fields, **_control_fields(record)}
    return {
        **fields,
        "key": _readable(record.key),
        "value": _readable(record.value),
        "headers": [[name, _readable(value)] for name, value in record.headers],
    }


def _record_text(record: Record, header: BatchHeader) -> str:
    start = f"    {record.offset} {show_time(record.timestamp)}"
    if header.is_control:
        words = [f"{name} {value}" for name, value in _control_fields(record).items()]
        return f"{start} {' '.join(words)}"
    headers = "".join(f" {name}={_readable(value)!r}" for name, value in record.headers)
    return f"{start} key {_readable(record.key)!r} value {_readable(record.value)!r}{headers}"


def _control_fields(record: Record) -> dict[str, Any]:
    kind = marker_type(record)
    fields: dict[str, Any] = {
        "marker": kind.name.lower() if isinstance(kind, MarkerType) else kind,
    }
    if kind in (MarkerType.COMMIT, MarkerType.ABORT):
        fields["coordinator_epoch"] = EndTxnMarker.parse(record).coordinator_epoch
    return fields


def _readable(data: bytes | None) -> str | None:
    """Text as text, other bytes as hexadecimal, said so."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"hex:{data.hex()}"
    return text if text.isprintable() or not text else f"hex:{data.hex()}"


# --- indexes, snapshots, checkpoints --------------------------------------------------------------


def _dump_offset_index(storage: FileStorage, name: str) -> Iterator[Entry]:
    base = int(name.partition(".")[0])
    for relative, position in _unpack(storage, name, ">ii"):
        fields = {"offset": base + relative, "position": position}
        yield Entry(fields, f"offset {base + relative} at byte {position}")


def _dump_time_index(storage: FileStorage, name: str) -> Iterator[Entry]:
    base = int(name.partition(".")[0])
    for timestamp, relative in _unpack(storage, name, ">qi"):
        fields = {"timestamp": timestamp, "offset": base + relative}
        yield Entry(fields, f"{show_time(timestamp)} ({timestamp}) at offset {base + relative}")


def _unpack(storage: FileStorage, name: str, form: str) -> Iterator[tuple[int, int]]:
    import struct

    data = storage.read_all(name) or b""
    rest = len(data) % struct.calcsize(form)
    yield from struct.iter_unpack(form, data[: len(data) - rest])
    if rest:
        raise MillpondError(f"{rest} bytes at the end are no whole entry")


def _dump_txn_index(storage: FileStorage, name: str) -> Iterator[Entry]:
    for entry in TxnIndex(storage, name).entries():
        yield Entry(
            entry._asdict(),
            f"producer {entry.producer_id} aborted offsets {entry.first_offset}-{entry.last_offset}, "
            f"stable then {entry.last_stable_offset}",
        )


def _dump_snapshot(storage: FileStorage, name: str) -> Iterator[Entry]:
    for producer in decode_snapshot(storage.read_all(name) or b""):
        fields = {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "last_sequence": producer.last_sequence,
            "last_offset": producer.last_offset,
            "last_timestamp": producer.last_timestamp,
            "coordinator_epoch": producer.coordinator_epoch,
            "txn_first_offset": producer.txn_first_offset,
        }
        text = (
            f"producer {producer.producer_id}/{producer.epoch} last sequence {producer.last_sequence} "
            f"at offset {producer.last_offset}, {show_time(producer.last_timestamp)}"
        )
        if producer.txn_first_offset >= 0:
            text += f", transaction open since offset {producer.txn_first_offset}"
        yield Entry(fields, text)


def _dump_offsets(storage: FileStorage, name: str) -> Iterator[Entry]:
    for topic_partition, offset in checkpoint.read_offsets(storage, name).items():
        topic, partition = topic_partition
        fields = {"topic": topic, "partition": partition, "offset": offset}
        yield Entry(fields, f"{topic_partition} {offset}")


def _dump_epochs(storage: FileStorage, name: str) -> Iterator[Entry]:
    for epoch, offset in checkpoint.read_epochs(storage, name):
        yield Entry({"epoch": epoch, "offset": offset}, f"epoch {epoch} from offset {offset}")


def _dump_topic_id(storage: FileStorage, name: str) -> Iterator[Entry]:
    topic_id = checkpoint.read_topic_id(storage, name)
    if topic_id is not None:
        text = text_id(topic_id)
        yield Entry({"topic_id": text}, f"topic id {text}")


def _dump_meta(storage: FileStorage, name: str) -> Iterator[Entry]:
    for key, value in (checkpoint.read_meta(storage, name) or {}).items():
        yield Entry({key: value}, f"{key} = {value}")


def _dump_text(storage: FileStorage, name: str) -> Iterator[Entry]:
    for line in (storage.read_all(name) or b"").decode(errors="replace").splitlines():
        yield Entry({"line": line}, line)


_KINDS: dict[str, Callable[..., Iterator[Entry]]] = {
    ".log": _dump_segment,
    ".index": _dump_offset_index,
    ".timeindex": _dump_time_index,
    ".txnindex": _dump_txn_index,
    ".snapshot": _dump_snapshot,
    checkpoint.RECOVERY_POINTS_FILE: _dump_offsets,
    checkpoint.START_OFFSETS_FILE: _dump_offsets,
    checkpoint.CLEANER_OFFSETS_FILE: _dump_offsets,
    checkpoint.LEADER_EPOCHS_FILE: _dump_epochs,
    checkpoint.PARTITION_METADATA_FILE: _dump_topic_id,
    checkpoint.META_PROPERTIES_FILE: _dump_meta,
    checkpoint.CLEAN_SHUTDOWN_FILE: _dump_text,
    DAMAGE_FILE: _dump_text,
}
