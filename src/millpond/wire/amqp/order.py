"""The order of things on a connection: how far it has come, what is agreed on, what a client may send."""

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
    """How far a connection has come. RabbitMQ's names for them appear in its error texts."""

    HANDSHAKE = 0
    STARTING = 1
    SECURING = 2
    TUNING = 3
    OPENING = 4
    RUNNING = 5
    CLOSING = 6  # the peer has asked; its channels are being let go
    CLOSED = 7  # we have asked, or answered
    OVER = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the server tells every client. 0 means no limit, or no heartbeats."""

    server_properties: Table = field(default_factory=dict)
    mechanisms: str = "PLAIN AMQPLAIN"
    channel_max: int = limits.AMQP_CHANNELS_MAX
    frame_max: int = limits.AMQP_FRAME_BYTES_MAX
    # Until the client has answered with a limit of its own.
    initial_frame_max: int = limits.AMQP_FRAME_BYTES_MIN
    heartbeat_s: int = limits.AMQP_HEARTBEAT_S
    body_bytes_max: int = limits.AMQP_BODY_BYTES_MAX


def check_tuned(name: str, value: int, least: int, most: int) -> None:
    """Raises ``Violation`` if a client wants more than it was offered, or less than makes sense."""
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

# What a client may send on a channel, besides publishes. RabbitMQ does not know the rest.
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
