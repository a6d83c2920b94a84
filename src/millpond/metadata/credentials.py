"""SCRAM credentials (KIP-554): what a user's password becomes before anything is kept of it.

A client sends the salted password, which only it can make; what is kept are the two keys derived from it
(RFC 5802), which are not enough to log in. Pure.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from millpond.base.errors import (
    CredentialNotFound,
    DuplicateResource,
    InvalidRequest,
    MillpondError,
    UnacceptableCredential,
    UnsupportedMechanism,
)
from millpond.metadata.client_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from millpond.metadata.image import Image

# The protocol's numbers of the mechanisms, and the hash of each.
MECHANISMS: Final = {1: "sha256", 2: "sha512"}
_ITERATIONS = range(4_096, 16_384 + 1)

ScramRecord: TypeAlias = UserScramCredentialRecord | RemoveUserScramCredentialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveCredential:
    """A user who may no longer log in by a mechanism."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCredential:
    """A user who may log in by a mechanism from now on."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialDecision:
    """Facts to write, and for every user named what is wrong, or None."""

    records: tuple[ScramRecord, ...]
    results: tuple[tuple[str, MillpondError | None], ...]


def decide_alter_credentials(
    image: Image, commands: Sequence[RemoveCredential | SetCredential]
) -> CredentialDecision:
    """Change credentials; a user who is named twice is refused."""
    records: dict[str, ScramRecord] = {}
    errors: dict[str, MillpondError] = {}
    for command in commands:
        user = command.user
        if user in errors:
            continue
        try:
            if user in records:
                raise DuplicateResource(
                    "A user credential cannot be altered twice in the same request"
                )
            records[user] = _record(image, command)
        except MillpondError as error:
            records.pop(user, None)
            errors[user] = error
    done: list[tuple[str, MillpondError | None]] = [(user, None) for user in records]
    return CredentialDecision(records=tuple(records.values()), results=(*done, *errors.items()))


def _record(image: Image, command: RemoveCredential | SetCredential) -> ScramRecord:
    if not command.user:
        raise UnacceptableCredential("Username must not be empty")
    hash_name = MECHANISMS.get(command.mechanism)
    if hash_name is None:
        raise UnsupportedMechanism("Unknown SCRAM mechanism")
    if isinstance(command, RemoveCredential):
        if (command.user, command.mechanism) not in image.scram_credentials:
            raise CredentialNotFound("Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(name=command.user, mechanism=command.mechanism)
    if command.iterations < _ITERATIONS.start:
        raise UnacceptableCredential("Too few iterations")
    if command.iterations >= _ITERATIONS.stop:
        raise UnacceptableCredential("Too many iterations")
    if not command.salted_password:
        raise InvalidRequest("an empty salted password is none")
    client_key = hmac.digest(command.salted_password, b"Client Key", hash_name)
    return UserScramCredentialRecord(
        name=command.user,
        mechanism=command.mechanism,
        salt=command.salt,
        stored_key=hashlib.new(hash_name, client_key).digest(),
        server_key=hmac.digest(command.salted_password, b"Server Key", hash_name),
        iterations=command.iterations,
    )
