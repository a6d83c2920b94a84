"""Facts about clients and users: quotas and SCRAM credentials, in Kafka's own record encoding."""

from dataclasses import dataclass, field
from typing import TypeAlias

from millpond.base.kafka_encoding import (
    F64,
    I8,
    I32,
    NO_TAGS,
    Reader,
    compact_bytes,
    compact_string,
    nullable_compact_string,
)
from millpond.base.varint import encode_unsigned

# Whom a quota is for: (type, name) pairs in the order of their types; a name of None is the default for
# all that have no quota of their own.
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    """A quota was set, or removed when ``value`` is None (type 14)."""

    entity: QuotaEntity
    key: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    """What the broker must know of a user's password (type 11); never the password."""

    name: str
    mechanism: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    """A user can no longer log in by this mechanism (type 22)."""

    name: str
    mechanism: int


def put_client_quota(out: bytearray, record: ClientQuotaRecord) -> None:
    """Write the fields."""
    out += encode_unsigned(len(record.entity) + 1)
    for kind, name in record.entity:
        out += compact_string(kind)
        out += nullable_compact_string(name)
        out += NO_TAGS
    out += compact_string(record.key)
    out += F64.pack(record.value or 0.0)
    out.append(record.value is None)
    out += NO_TAGS


def put_user_scram(out: bytearray, record: UserScramCredentialRecord) -> None:
    """Write the fields."""
    out += compact_string(record.name)
    out += I8.pack(record.mechanism)
    out += compact_bytes(record.salt)
    out += compact_bytes(record.stored_key)
    out += compact_bytes(record.server_key)
    out += I32.pack(record.iterations)
    out += NO_TAGS


def put_remove_user_scram(out: bytearray, record: RemoveUserScramCredentialRecord) -> None:
    """Write the fields."""
    out += compact_string(record.name)
    out += I8.pack(record.mechanism)
    out += NO_TAGS


def get_client_quota(reader: Reader, _version: int) -> ClientQuotaRecord:
    """Read the fields."""
    entity: list[tuple[str, str | None]] = []
    for _ in range(reader.unsigned() - 1):
        entity.append((reader.compact_string(), reader.nullable_compact_string()))
        reader.tagged_fields()
    key, value, removed = reader.compact_string(), reader.float64(), reader.boolean()
    return ClientQuotaRecord(
        entity=tuple(sorted(entity, key=lambda one: one[0])),
        key=key,
        value=None if removed else value,
    )


def get_user_scram(reader: Reader, _version: int) -> UserScramCredentialRecord:
    """Read the fields."""
    return UserScramCredentialRecord(
        name=reader.compact_string(),
        mechanism=reader.int8(),
        salt=reader.compact_bytes(),
        stored_key=reader.compact_bytes(),
        server_key=reader.compact_bytes(),
        iterations=reader.int32(),
    )


def get_remove_user_scram(reader: Reader, _version: int) -> RemoveUserScramCredentialRecord:
    """Read the fields."""
    return RemoveUserScramCredentialRecord(name=reader.compact_string(), mechanism=reader.int8())
