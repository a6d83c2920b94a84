"""Permissions: patterns of names, for each user and virtual host."""

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
    """An operation on an exchange or a queue."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


def check_permission(permission: Permission) -> None:
    """Raise ``InvalidDefinition`` for invalid patterns."""
    for pattern in (permission.configure, permission.write, permission.read):
        compiled(pattern)


def check_topic_permission(permission: TopicPermission) -> None:
    """Raise ``InvalidDefinition`` for invalid patterns, which would otherwise fail at the first publish."""
    for pattern in (permission.write, permission.read):
        compiled(pattern)


def check_access(
    permission: Permission | None, user: str, resource: Resource, right: Right
) -> None:
    """Raise ``AccessRefused`` if the user may not use the resource."""
    resource = by_known_name(resource)
    pattern = "" if permission is None else getattr(permission, right)
    if not _agrees(pattern, resource.name):
        raise AccessRefused(f"{right} access to {resource} refused for user '{user}'")


def by_known_name(resource: Resource) -> Resource:
    """Return the resource with the name by which patterns match it: the default exchange's own is empty."""
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
    """Raise ``AccessRefused`` if the user may not use the routing key. A user without topic permission may
    use all.
    """
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
    """Return a password hash in RabbitMQ's form: salt and hash, in base 64."""
    assert len(salt) == _SALT_BYTES
    return base64.b64encode(salt + hashlib.new(algorithm, salt + password).digest()).decode()


def is_password(user: User, password: bytes) -> bool:
    """Return whether the password is right. A user without a hash cannot log in with a password, nor with an
    empty one.
    """
    algorithm = _ALGORITHMS.get(user.hashing_algorithm)
    if algorithm is None or not user.password_hash or not password:
        return False
    stored = base64.b64decode(user.password_hash)
    salt, digest = stored[:_SALT_BYTES], stored[_SALT_BYTES:]
    return hmac.compare_digest(hashlib.new(algorithm, salt + password).digest(), digest)


def check_user(user: User) -> None:
    """Raise ``InvalidDefinition`` for an invalid hash."""
    if not user.name:
        raise InvalidDefinition("a user must have a name")
    if user.hashing_algorithm not in _ALGORITHMS:
        raise InvalidDefinition(f"unknown hashing algorithm '{user.hashing_algorithm}'")
    try:
        base64.b64decode(user.password_hash, validate=True)
    except binascii.Error:
        raise InvalidDefinition(f"the password hash of user '{user.name}' is not base 64") from None
