"""RabbitMQ's SASL mechanisms: PLAIN, AMQPLAIN and EXTERNAL. Encoding and decoding, no checking."""

from dataclasses import dataclass

from millpond.base.errors import MalformedData
from millpond.base.fields import decode_table, encode_table
from millpond.wire.amqp.violations import ReplyCode, Violation, erlang_bytes

PLAIN, AMQPLAIN, EXTERNAL = "PLAIN", "AMQPLAIN", "EXTERNAL"


@dataclass(frozen=True, slots=True)
class Login:
    """A client's credentials. EXTERNAL has no password: the transport has authenticated the client."""

    mechanism: str
    user: str
    password: bytes

    def __repr__(self) -> str:
        return f"Login({self.mechanism}, {self.user!r})"


def read_login(mechanism: str, response: bytes) -> Login:
    """Decode a client's credentials. Raises ``Violation``."""
    if mechanism == PLAIN:
        return _read_plain(response)
    if mechanism == AMQPLAIN:
        return _read_amqplain(response)
    if mechanism == EXTERNAL:
        return Login(EXTERNAL, response.decode("utf-8", "surrogateescape"), b"")
    raise Violation(
        ReplyCode.COMMAND_INVALID,
        f"unknown authentication mechanism '{mechanism}'",
        class_id=10,
        method_id=11,
    )


def plain_response(user: str, password: str) -> bytes:
    """Encode a client's response for PLAIN."""
    return b"\0" + user.encode() + b"\0" + password.encode()


def amqplain_response(user: str, password: str) -> bytes:
    """Encode a client's response for AMQPLAIN."""
    return encode_table({"LOGIN": user, "PASSWORD": password})


def _read_plain(response: bytes) -> Login:
    # RabbitMQ does not support an authorization identity: the first part must be empty.
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        raise Violation(
            ReplyCode.SYNTAX_ERROR,
            f"response {erlang_bytes(response)} invalid",
            class_id=10,
            method_id=11,
        )
    return Login(PLAIN, parts[1].decode("utf-8", "surrogateescape"), parts[2])


def _read_amqplain(response: bytes) -> Login:
    try:
        table = decode_table(response)
    except (MalformedData, IndexError):
        table = {}
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(user, (str, bytes)) or not isinstance(password, (str, bytes)):
        raise Violation(
            ReplyCode.SYNTAX_ERROR,
            "AMQPLAIN auth info is missing LOGIN or PASSWORD field",
            class_id=10,
            method_id=11,
        )
    if isinstance(user, bytes):
        user = user.decode("utf-8", "surrogateescape")
    if isinstance(password, str):
        password = password.encode("utf-8", "surrogateescape")
    return Login(AMQPLAIN, user, password)
