"""The small text files of a log directory, in Kafka's formats.

Each is written as a whole and read as a whole. A file that is torn, empty or malformed is reported as absent
with a reason; none of them may stop a node from starting, because each can be rebuilt or replaced by a safe
assumption.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from millpond.base.errors import MillpondError, StorageFailure
from millpond.base.ids import LeaderEpoch, Offset, TopicPartition
from millpond.base.uuids import parse_id, text_id
from millpond.log.storage import Storage

RECOVERY_POINTS_FILE = "recovery-point-offset-checkpoint"
START_OFFSETS_FILE = "log-start-offset-checkpoint"
CLEANER_OFFSETS_FILE = "cleaner-offset-checkpoint"
HIGH_WATERMARKS_FILE = "replication-offset-checkpoint"
LEADER_EPOCHS_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
META_PROPERTIES_FILE = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
INCARNATION_FILE = ".millpond_life"

_VERSION = 0


class CorruptCheckpoint(MillpondError):
    """A checkpoint file that is malformed."""


# --- offsets by partition -----------------------------------------------------------------------


def write_offsets(
    storage: Storage, path: str, offsets: Mapping[TopicPartition, Offset], *, durable: bool = True
) -> None:
    """Write one offset for each partition."""
    lines = [f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()]
    storage.replace(path, _encode(lines), durable=durable)


def read_offsets(storage: Storage, path: str) -> dict[TopicPartition, Offset]:
    """Read what ``write_offsets`` wrote; empty if there is no file. Raises ``CorruptCheckpoint``."""
    offsets: dict[TopicPartition, Offset] = {}
    for line in _read_lines(storage, path):
        try:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CorruptCheckpoint(f"{path}: no topic, partition and offset in {line!r}") from None
    return offsets


# --- leader epochs --------------------------------------------------------------------------------


def write_epochs(storage: Storage, path: str, entries: list[tuple[LeaderEpoch, Offset]]) -> None:
    """Write where each leader epoch began. The next flush of the log makes it durable."""
    storage.replace(
        path, _encode([f"{epoch} {offset}" for epoch, offset in entries]), durable=False
    )


def read_epochs(storage: Storage, path: str) -> list[tuple[LeaderEpoch, Offset]]:
    """Read what ``write_epochs`` wrote; empty if there is no file. Raises ``CorruptCheckpoint``."""
    entries: list[tuple[LeaderEpoch, Offset]] = []
    for line in _read_lines(storage, path):
        try:
            epoch, offset = map(int, line.split(" "))
        except ValueError:
            raise CorruptCheckpoint(f"{path}: no epoch and offset in {line!r}") from None
        if entries and not (epoch > entries[-1][0] and offset >= entries[-1][1]):
            raise CorruptCheckpoint(
                f"{path}: epoch {epoch} at {offset} does not follow {entries[-1]}"
            )
        entries.append((epoch, offset))
    return entries


def _encode(lines: list[str]) -> bytes:
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def _read_lines(storage: Storage, path: str) -> list[str]:
    data = storage.read_all(path)
    if data is None:
        return []
    try:
        text = data.decode()
        version, count, *lines = text.split("\n")
        if int(version) != _VERSION:
            raise CorruptCheckpoint(f"{path}: version {version} is unknown")
        # A last line without its end may be half of a longer number.
        if len(lines) != int(count) + 1 or lines.pop():
            raise CorruptCheckpoint(f"{path}: {count} lines announced, {len(lines)} found")
    except ValueError:
        raise CorruptCheckpoint(f"{path} is empty or torn") from None
    return lines


# --- identity -----------------------------------------------------------------------------------


def write_topic_id(storage: Storage, path: str, topic_id: UUID) -> None:
    """Write the id of the topic that a partition's directory belongs to."""
    data = f"version: {_VERSION}\ntopic_id: {text_id(topic_id)}"
    storage.replace(path, data.encode(), durable=False)


def read_topic_id(storage: Storage, path: str) -> UUID | None:
    """Read what ``write_topic_id`` wrote; None if there is no file. Raises ``CorruptCheckpoint``."""
    data = storage.read_all(path)
    if data is None:
        return None
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines() if line)
        if int(fields["version"]) != _VERSION:
            raise CorruptCheckpoint(f"{path}: version {fields['version']} is unknown")
        return parse_id(fields["topic_id"])
    except (ValueError, KeyError):
        raise CorruptCheckpoint(f"{path} is empty or torn") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryMeta:
    """The node and the cluster that own a directory."""

    node_id: int
    cluster_id: str
    directory_id: UUID


def write_meta(storage: Storage, path: str, meta: DirectoryMeta) -> None:
    """Write ``meta.properties``."""
    lines = [
        "#",
        f"cluster.id={meta.cluster_id}",
        f"directory.id={text_id(meta.directory_id)}",
        f"node.id={meta.node_id}",
        "version=1",
        "",
    ]
    storage.replace(path, "\n".join(lines).encode())


def read_meta(storage: Storage, path: str) -> dict[str, str] | None:
    """Return the properties in ``meta.properties``; None if there is no such file."""
    data = storage.read_all(path)
    if data is None:
        return None
    properties = {}
    for line in data.decode(errors="replace").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            properties[name.strip()] = value.strip()
    return properties


# --- clean and unclean shutdown -------------------------------------------------------------------


NO_EPOCH = -1

# The number of registrations kept for a node that is killed repeatedly before its registration is answered.
_INCARNATIONS_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Registrations:
    """The registrations of a node since which its disk has lost nothing.

    One is that of ``broker_epoch`` (-1: unknown). Others are those of ``incarnation_ids``, oldest first: each
    asked to be registered later, and its process may have ended before the answer.
    """

    broker_epoch: int = NO_EPOCH
    incarnation_ids: tuple[UUID, ...] = ()

    def asked_by(self, incarnation_id: UUID) -> "Registrations":
        """Return these and the registration that this incarnation asks for."""
        others = tuple(one for one in self.incarnation_ids if one != incarnation_id)
        return replace(self, incarnation_ids=(*others, incarnation_id)[-_INCARNATIONS_MAX:])


NO_REGISTRATIONS = Registrations()


def write_clean_shutdown(
    storage: Storage, path: str, registrations: Registrations = NO_REGISTRATIONS
) -> None:
    """Record that a broker with these registrations flushed and closed everything."""
    storage.replace(path, json.dumps({"version": 0} | _fields_of(registrations)).encode())


def read_clean_shutdown(storage: Storage, path: str) -> Registrations | None:
    """Return the registrations of the broker whose last shutdown was clean; None if it was not clean."""
    data = storage.read_all(path)
    return _registrations_in(_fields(data)) if data is not None else None


def take_clean_shutdown(storage: Storage, path: str) -> bool:
    """Return whether the last shutdown was clean, and remove the file: the answer is valid once."""
    clean = storage.exists(path)
    if clean:
        storage.delete(path)
        try:
            storage.sync_dir(path.rpartition("/")[0])
        except StorageFailure:
            return False
    return clean


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """A running or earlier incarnation of the broker, since the machine's boot of this id.

    A registration is recorded before the broker asks the controller for it.
    """

    boot_id: str
    registrations: Registrations


def write_incarnation(storage: Storage, path: str, incarnation: Incarnation) -> None:
    """Record it without an fsync: a machine that loses the file has another boot id."""
    fields = {"version": 0, "bootId": incarnation.boot_id} | _fields_of(incarnation.registrations)
    storage.replace(path, json.dumps(fields).encode(), durable=False)


def read_incarnation(storage: Storage, path: str, boot_id: str) -> Incarnation | None:
    """Return what ``write_incarnation`` recorded last, if the machine has not rebooted since."""
    fields = _fields(storage.read_all(path) or b"")
    if fields.get("bootId") != boot_id:
        return None
    return Incarnation(boot_id=boot_id, registrations=_registrations_in(fields))


def _fields(data: bytes) -> dict[str, object]:
    try:
        fields = json.loads(data)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) and fields.get("version") == 0 else {}


def _fields_of(registrations: Registrations) -> dict[str, object]:
    incarnations = [text_id(one) for one in registrations.incarnation_ids]
    return {
        "brokerEpoch": registrations.broker_epoch,
        # Fields that earlier versions read.
        "incarnationId": incarnations[-1] if incarnations else None,
        "incarnationIds": incarnations,
    }


def _registrations_in(fields: Mapping[str, object]) -> Registrations:
    epoch = fields.get("brokerEpoch")
    written = fields.get("incarnationIds", [fields.get("incarnationId")])
    incarnations = []
    for text in written if isinstance(written, list) else []:
        try:
            incarnations.append(parse_id(str(text)))
        except ValueError:
            continue
    return Registrations(
        broker_epoch=epoch if isinstance(epoch, int) else NO_EPOCH,
        incarnation_ids=tuple(incarnations),
    )
