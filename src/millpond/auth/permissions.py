"""Who may do what: patterns of names, for each user and virtual host."""

import base64
import binascii
import hashlib
import hmac
from enum import StrEnum

from millpond.base.errors import AccessRefused, InvalidDefinition
from millpond.rabbit.names import DEFAULT_EXCHANGE_ALIAS, Kind, Resource, exchange_of
from millpond.rabbit.patterns import compiled, matches
from millpond.rabbit.records import Permission, TopicPermission, User

_ALGORITHMS = {
    "rabbit_password_hashing_sha256": "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    "rabbit_password_hashing_md5": "md5",
}
_SALT_BYTES = 4


class Right(StrEnum):
    """What one may do with an exchange or a queue."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


def check_permission(permission: Permission) -> None:
    """Raises ``InvalidDefinition`` for patterns that are none."""
    for pattern in (permission.configure, permission.write, permission.read):
        compiled(pattern)


def check_topic_permission(permission: TopicPermission) -> None:
    """Raises ``InvalidDefinition`` for patterns that are none: found out at a publish it were too late."""
    for pattern in (permission.write, permission.read):
        compiled(pattern)


def check_access(
    permission: Permission | None, user: str, resource: Resource, right: Right
) -> None:
    """Raises ``AccessRefused``."""
    resource = by_known_name(resource)
    pattern = "" if permission is None else getattr(permission, right)
    if not _agrees(pattern, resource.name):
        raise AccessRefused(f"{right} access to {resource} refused for user '{user}'")


def by_known_name(resource: Resource) -> Resource:
    """The default exchange has no name, and patterns call it by one."""
    if resource.kind is Kind.EXCHANGE and not resource.name:
        return exchange_of(resource.vhost, DEFAULT_EXCHANGE_ALIAS)
    return resource


def check_topic(
    permission: TopicPermission | None,
    user: str,
    exchange: Resource,
    right: Right,
    routing_key: str,
) -> None:
    """Raises ``AccessRefused``. Who has no such permission may use all keys."""
    if permission is None:
        return
    pattern: str = permission.write if right is Right.WRITE else permission.read
    pattern = pattern.replace("{username}", user).replace("{vhost}", exchange.vhost)
    if not _agrees(pattern, routing_key):
        raise AccessRefused(
            f"{right} access to topic '{routing_key}' in {exchange} refused for user '{user}'"
        )


def _agrees(pattern: str, name: str) -> bool:
    # An empty pattern allows only the empty name; it does not allow everything.
    return matches(pattern or "^$", name)


def hash_password(password: bytes, salt: bytes, algorithm: str = "sha256") -> str:
    """A password as RabbitMQ keeps it: salt and hash, in base 64."""
    assert len(salt) == _SALT_BYTES
    return base64.b64encode(salt + hashlib.new(algorithm, salt + password).digest()).decode()


def is_password(user: User, password: bytes) -> bool:
    """Whether this is the user's. Nobody without a hash can log in with a password, nor with an empty one."""
    algorithm = _ALGORITHMS.get(user.hashing_algorithm)
    if algorithm is None or not user.password_hash or not password:
        return False
    stored = base64.b64decode(user.password_hash)
    salt, digest = stored[:_SALT_BYTES], stored[_SALT_BYTES:]
    return hmac.compare_digest(hashlib.new(algorithm, salt + password).digest(), digest)


def check_user(user: User) -> None:
    """Raises ``InvalidDefinition`` for a hash that is none."""
    if not user.name:
        raise InvalidDefinition("a user must have a name")
    if user.hashing_algorithm not in _ALGORITHMS:
        raise InvalidDefinition(f"nobody knows the hashing algorithm '{user.hashing_algorithm}'")
    try:
        base64.b64decode(user.password_hash, validate=True)
    except binascii.Error:
        raise InvalidDefinition(f"the password hash of user '{user.name}' is not base 64") from None
