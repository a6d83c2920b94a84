"""What exchanges and queues are called, and how they are spoken of in errors (as RabbitMQ does)."""

from enum import StrEnum
from typing import Final, NamedTuple

from millpond.base.errors import InvalidDefinition

DEFAULT_EXCHANGE = ""
# The default exchange has no name; patterns of permissions know it by this one.
DEFAULT_EXCHANGE_ALIAS = "amq.default"
RESERVED_PREFIX = "amq."
REPLY_TO = "amq.rabbitmq.reply-to"
# A short string of AMQP: no method can carry a longer name.
NAME_BYTES_MAX: Final = 255
# What a delayed exchange keeps back is in a queue of its own, which no client uses.
_DELAYED_PREFIX = "amq.delayed-"


class Kind(StrEnum):
    """What a name is of."""

    EXCHANGE = "exchange"
    QUEUE = "queue"


class Resource(NamedTuple):
    """An exchange or a queue of a virtual host."""

    kind: Kind
    vhost: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}' in vhost '{self.vhost}'"


def exchange_of(vhost: str, name: str) -> Resource:
    return Resource(Kind.EXCHANGE, vhost, name)


def queue_of(vhost: str, name: str) -> Resource:
    return Resource(Kind.QUEUE, vhost, name)


def check_length(resource: Resource) -> None:
    """Raises ``InvalidDefinition`` for a name that no AMQP client could ever send."""
    size = len(resource.name.encode())
    if size > NAME_BYTES_MAX:
        raise InvalidDefinition(
            f"{resource.kind} should be less than {NAME_BYTES_MAX} bytes, actually was {size}"
        )


def without_line_breaks(name: str) -> str:
    """A name as it is kept: RabbitMQ drops carriage returns and line feeds."""
    return name.replace("\r", "").replace("\n", "")


def delayed_queue(exchange: str) -> str:
    """The queue of a delayed exchange."""
    return f"{_DELAYED_PREFIX}{exchange}"


def exchange_behind(queue: str) -> str:
    """The exchange that such a queue is of."""
    return queue.removeprefix(_DELAYED_PREFIX)


def is_hidden(queue: str) -> bool:
    """Whether a queue is the broker's own: clients do not see it."""
    return queue.startswith(_DELAYED_PREFIX)
