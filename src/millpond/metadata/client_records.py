"""Facts about clients and users: quotas and SCRAM credentials, in Kafka's own record encoding."""

from dataclasses import dataclass, field
from typing import TypeAlias

from millpond.base.flexible import F64, I8, I32, Reader, put_bytes, put_string, put_tags
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
        put_string(out, kind)
        put_string(out, name)
        put_tags(out, [])
    put_string(out, record.key)
    out += F64.pack(record.value or 0.0)
    out.append(record.value is None)
    put_tags(out, [])


def put_user_scram(out: bytearray, record: UserScramCredentialRecord) -> None:
    """Write the fields."""
    put_string(out, record.name)
    out += I8.pack(record.mechanism)
    put_bytes(out, record.salt)
    put_bytes(out, record.stored_key)
    put_bytes(out, record.server_key)
    out += I32.pack(record.iterations)
    put_tags(out, [])


def put_remove_user_scram(out: bytearray, record: RemoveUserScramCredentialRecord) -> None:
    """Write the fields."""
    put_string(out, record.name)
    out += I8.pack(record.mechanism)
    put_tags(out, [])


def get_client_quota(reader: Reader, _version: int) -> ClientQuotaRecord:
    """Read the fields."""
    entity: list[tuple[str, str | None]] = []
    for _ in range(reader.unsigned() - 1):
        entity.append((reader.string(), reader.nullable_string()))
        reader.tags()
    key, value, removed = reader.string(), reader.real(), reader.flag()
    return ClientQuotaRecord(
        entity=tuple(sorted(entity, key=lambda one: one[0])),
        key=key,
        value=None if removed else value,
    )


def get_user_scram(reader: Reader, _version: int) -> UserScramCredentialRecord:
    """Read the fields."""
    return UserScramCredentialRecord(
        name=reader.string(),
        mechanism=reader.number(I8),
        salt=reader.data(),
        stored_key=reader.data(),
        server_key=reader.data(),
        iterations=reader.number(I32),
    )


def get_remove_user_scram(reader: Reader, _version: int) -> RemoveUserScramCredentialRecord:
    """Read the fields."""
    return RemoveUserScramCredentialRecord(name=reader.string(), mechanism=reader.number(I8))
