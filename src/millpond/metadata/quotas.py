"""What clients may use: quotas by user, client id and address, as they are asked for and decided.

An entity is one user, one client id, both, or one address; a name of None is the default for those that have
no quota of their own. Which keys an entity can have, and which values, is Kafka's. Pure: the quotas that are
in force lie in the image; who is slowed down, and for how long, is the engine's business.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from millpond.base.errors import InvalidRequest, MillpondError, UnsupportedVersion
from millpond.metadata.client_records import ClientQuotaRecord, QuotaEntity
from millpond.metadata.image import Image

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

# The largest value of each key whose values are whole numbers; the others take any.
_CLIENT_KEYS: Mapping[str, int | None] = {
    PRODUCER_BYTE_RATE: 2**63 - 1,
    CONSUMER_BYTE_RATE: 2**63 - 1,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_ADDRESS_KEYS: Mapping[str, int | None] = {CONNECTION_CREATION_RATE: 2**31 - 1}
_TYPES = frozenset({USER, CLIENT_ID, IP})
_NEARLY_WHOLE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuotas:
    """New values for an entity; None takes a quota away. The last of two entries of a type counts."""

    entity: Sequence[tuple[str, str | None]]
    values: Sequence[tuple[str, float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaResult:
    """What became of one entity."""

    entity: QuotaEntity
    error: MillpondError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDecision:
    """Facts to write and one answer an entity."""

    records: tuple[ClientQuotaRecord, ...]
    results: tuple[QuotaResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFilter:
    """Which entities to tell of: of this type, with this name (``any_name`` of False), or any name."""

    entity_type: str
    name: str | None = None
    any_name: bool = False


def decide_alter_quotas(
    image: Image, commands: Sequence[AlterQuotas], *, known_addresses: Iterable[str] = ()
) -> QuotaDecision:
    """Change quotas; an entity changes as a whole or not at all.

    ``known_addresses`` are the addresses and host names of the commands that are such.
    """
    addresses = frozenset(known_addresses)
    records: list[ClientQuotaRecord] = []
    errors: dict[QuotaEntity, MillpondError | None] = {}
    for command in commands:
        entity = as_entity(command.entity)
        try:
            # Kafka writes the facts of the first and refuses the entity as a whole.
            if entity in errors:
                raise InvalidRequest(f"Ignoring duplicate entity {_words(entity)}")
            records += _altered(image, entity, command, addresses)
            errors[entity] = None
        except MillpondError as error:
            errors[entity] = error
    return QuotaDecision(
        records=tuple(records),
        results=tuple(QuotaResult(entity=entity, error=error) for entity, error in errors.items()),
    )


def as_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity with these parts, in the order of their types; of one type the last counts."""
    return tuple(sorted(dict(parts).items()))


def find_quotas(
    image: Image, filters: Sequence[QuotaFilter], *, strict: bool
) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
    """The entities that every filter fits, with their quotas. ``strict``: they have no other part.

    Raises ``InvalidRequest`` and ``UnsupportedVersion``.
    """
    types = [one.entity_type for one in filters]
    for kind in types:
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if types.count(kind) > 1:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _TYPES:
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
    if IP in types and len(types) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return [
        (entity, quotas)
        for entity, quotas in image.client_quotas.items()
        if _fits(dict(entity), filters, strict=strict)
    ]


def _fits(
    entity: Mapping[str, str | None], filters: Sequence[QuotaFilter], *, strict: bool
) -> bool:
    if strict and len(entity) != len(filters):
        return False
    return all(
        one.entity_type in entity and (one.any_name or entity[one.entity_type] == one.name)
        for one in filters
    )


def _altered(
    image: Image, entity: QuotaEntity, command: AlterQuotas, addresses: frozenset[str]
) -> list[ClientQuotaRecord]:
    keys = [key for key, _ in command.values]
    if len(set(keys)) < len(keys):
        raise InvalidRequest(f"Ignoring duplicate entity {_words(entity)}")
    allowed = _allowed_keys(entity, addresses)
    before = image.client_quotas.get(entity, {})
    records = []
    for key, value in command.values:
        if value is not None:
            _check_value(allowed, key, value)
        if before.get(key) != value:
            records.append(ClientQuotaRecord(entity=entity, key=key, value=value))
    return records


def _allowed_keys(entity: QuotaEntity, addresses: frozenset[str]) -> Mapping[str, int | None]:
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in _TYPES:
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name is not None and not name:
            raise InvalidRequest(f"Empty {kind} not supported")
    parts = dict(entity)
    if IP not in parts:
        return _CLIENT_KEYS
    if len(parts) > 1:
        raise InvalidRequest(
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        )
    address = parts[IP]
    if address is not None and address not in addresses:
        raise InvalidRequest(f"{address} is not a valid IP or resolvable host.")
    return _ADDRESS_KEYS


def _check_value(allowed: Mapping[str, int | None], key: str, value: float) -> None:
    if key not in allowed:
        raise InvalidRequest(f"Invalid configuration key {key}")
    # Not a number is not more than 0 either.
    if not value > 0.0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    most = allowed[key]
    if most is None:
        return
    if value > most:
        raise InvalidRequest(f"Proposed value for {key} is too large.")
    if value % 1.0 > _NEARLY_WHOLE:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


def _words(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
