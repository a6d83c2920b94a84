"""Which topic holds a queue's messages.

In the default virtual host a queue whose name could be a topic's has the topic of its name, so that Kafka's
clients find it. Any other name is written with escapes behind a prefix; so is one whose topic would collide
with another (Kafka takes ``.`` and ``_`` for the same where it compares names). The queue's fact says which
it is.
"""

import hashlib
from collections.abc import Iterator

from millpond.base import limits

DEFAULT_VHOST = "/"
PREFIX = "amqp--"

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_ALLOWED = _PLAIN | frozenset(b"._-")


def topic_names(vhost: str, queue: str) -> Iterator[str]:
    """Names to try, the best first."""
    raw = queue.encode("utf-8", "surrogateescape")
    is_usual = vhost == DEFAULT_VHOST and _ALLOWED.issuperset(raw)
    if (
        is_usual
        and queue not in {".", ".."}
        and not queue.startswith((PREFIX, "__"))
        and len(queue) <= limits.TOPIC_NAME_CHARS_MAX
    ):
        yield queue
    yield _escaped_name(vhost, raw)


def queue_of_topic(topic: str) -> tuple[str, str]:
    """The virtual host and the queue that a name from ``topic_names`` stands for, unless it was cut."""
    if not topic.startswith(PREFIX):
        return DEFAULT_VHOST, topic
    vhost, _, queue = topic.removeprefix(PREFIX).partition("--")
    return _unescaped(vhost), _unescaped(queue)


def _escaped_name(vhost: str, raw: bytes) -> str:
    name = f"{PREFIX}{_escaped(vhost.encode('utf-8', 'surrogateescape'))}--{_escaped(raw)}"
    if len(name) <= limits.TOPIC_NAME_CHARS_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"{name[: limits.TOPIC_NAME_CHARS_MAX - 35]}---{digest}"


def _escaped(raw: bytes) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"-{byte:02x}" for byte in raw)


def _unescaped(text: str) -> str:
    raw = bytearray()
    position = 0
    while position < len(text):
        if text[position] == "-":
            raw.append(int(text[position + 1 : position + 3], 16))
            position += 3
        else:
            raw.append(ord(text[position]))
            position += 1
    return raw.decode("utf-8", "surrogateescape")
