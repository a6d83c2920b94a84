"""The states of a connection, its negotiated limits, and the methods that a client may send."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from millpond.base import limits
from millpond.base.fields import Table
from millpond.wire.amqp.methods import (
    AccessRequest,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ChannelFlow,
    ConfirmSelect,
    ConnectionTune,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from millpond.wire.amqp.violations import ReplyCode, Violation


class State(IntEnum):
    """The state of a connection. RabbitMQ's names for them appear in its error messages."""

    HANDSHAKE = 0
    STARTING = 1
    SECURING = 2
    TUNING = 3
    OPENING = 4
    RUNNING = 5
    CLOSING = 6  # the peer has asked; its channels are being closed
    CLOSED = 7  # this side has asked, or answered
    OVER = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The server's connection.start and connection.tune. 0 means no limit, or no heartbeats."""

    server_properties: Table = field(default_factory=dict)
    mechanisms: str = "PLAIN AMQPLAIN"
    channel_max: int = limits.AMQP_CHANNELS_MAX
    frame_max: int = limits.AMQP_FRAME_BYTES_MAX
    # Until the client has answered with its own limit.
    initial_frame_max: int = limits.AMQP_FRAME_BYTES_MIN
    heartbeat_s: int = limits.AMQP_HEARTBEAT_S
    body_bytes_max: int = limits.AMQP_BODY_BYTES_MAX


def check_tuned(name: str, value: int, least: int, most: int) -> None:
    """Raise ``Violation`` if a client wants more than it was offered, or less than the minimum."""
    if value != 0 and value < least:
        relation, bound, allowed = "lower", "minimum", least
    elif most != 0 and (value == 0 or value > most):
        relation, bound, allowed = "higher", "maximum", most
    else:
        return
    detail = " (no limit)" if value == 0 else ""
    raise Violation(
        ReplyCode.NOT_ALLOWED,
        f"negotiated {name} = {value}{detail} is {relation} than the {bound} allowed value ({allowed})",
        class_id=ConnectionTune.class_id,
        method_id=ConnectionTune.method_id,
    )


CLOSING_METHODS: Final = frozenset((b"\x00\x14\x00\x28", b"\x00\x14\x00\x29"))

# The methods that a client may send on a channel, besides publishes. RabbitMQ does not know the others.
FROM_CLIENTS: Final[frozenset[type[Method]]] = frozenset(
    (
        AccessRequest,
        BasicCancel,
        BasicConsume,
        BasicGet,
        BasicNack,
        BasicQos,
        BasicRecover,
        BasicRecoverAsync,
        BasicReject,
        ChannelFlow,
        ConfirmSelect,
        ExchangeBind,
        ExchangeDeclare,
        ExchangeDelete,
        ExchangeUnbind,
        QueueBind,
        QueueDeclare,
        QueueDelete,
        QueuePurge,
        QueueUnbind,
        TxCommit,
        TxRollback,
        TxSelect,
    )
)
