"""Every method of AMQP 0-9-1 and of RabbitMQ's extensions: a table in the form of classes.

A method's annotations are its arguments in wire order; an omitted argument has its default. Methods are
immutable values: two with equal arguments are equal.
"""

from inspect import get_annotations
from typing import Annotated, Any, ClassVar, TypeAlias, dataclass_transform

from millpond.base.fields import Table
from millpond.wire.amqp.fields import KINDS, put_fields, read_fields

Bit: TypeAlias = Annotated[bool, "bit"]
Octet: TypeAlias = Annotated[int, "octet"]
Short: TypeAlias = Annotated[int, "short"]
Long: TypeAlias = Annotated[int, "long"]
LongLong: TypeAlias = Annotated[int, "longlong"]
ShortString: TypeAlias = Annotated[str, "shortstr"]
LongString: TypeAlias = Annotated[bytes, "longstr"]
Arguments: TypeAlias = Annotated[Table, "table"]

# The default of arguments; never changed.
NONE: Table = {}

METHODS: "dict[tuple[int, int], type[Method]]" = {}


@dataclass_transform(kw_only_default=True)
class Method:
    """One method. A subclass has its numbers, whether content follows, and whether it has a reply."""

    class_id: ClassVar[int]
    method_id: ClassVar[int]
    name: ClassVar[str]
    has_content: ClassVar[bool]
    is_synchronous: ClassVar[bool]
    fields: ClassVar[tuple[tuple[str, str], ...]]

    def __init_subclass__(
        cls, number: tuple[int, int], name: str, *, content: bool = False, sync: bool = False
    ) -> None:
        cls.class_id, cls.method_id = number
        cls.name = name
        cls.has_content = content
        cls.is_synchronous = sync
        hints: dict[str, Any] = get_annotations(cls)
        cls.fields = tuple((field, hint.__metadata__[0]) for field, hint in hints.items())
        assert all(kind in KINDS and hasattr(cls, field) for field, kind in cls.fields)
        assert number not in METHODS
        METHODS[number] = cls

    def __init__(self, **arguments: Any) -> None:
        for name in arguments:
            if name not in type(self).__annotations__:
                raise TypeError(f"{self.name} has no argument {name}")
        self.__dict__.update(arguments)

    @classmethod
    def decode(cls, data: bytes, position: int = 0) -> "Method":
        """Decode the arguments after the two numbers. Raises ``MalformedData``."""
        method = cls.__new__(cls)
        method.__dict__.update(
            read_fields(cls.fields, data, position, strict_text=not cls.has_content)
        )
        return method

    def encode(self) -> bytes:
        """Encode the numbers and the arguments."""
        out = bytearray((0, self.class_id, 0, self.method_id))
        put_fields(out, self.fields, {name: getattr(self, name) for name, _kind in self.fields})
        return bytes(out)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name, _kind in self.fields)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={getattr(self, name)!r}" for name, _kind in self.fields)
        return f"{type(self).__name__}({arguments})"


# --- connection --------------------------------------------------------------------------------------


class ConnectionStart(Method, number=(10, 10), name="connection.start", sync=True):
    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: Arguments = NONE
    mechanisms: LongString = b"PLAIN"
    locales: LongString = b"en_US"


class ConnectionStartOk(Method, number=(10, 11), name="connection.start_ok"):
    client_properties: Arguments = NONE
    mechanism: ShortString = "PLAIN"
    response: LongString = b""
    locale: ShortString = "en_US"


class ConnectionSecure(Method, number=(10, 20), name="connection.secure", sync=True):
    challenge: LongString = b""


class ConnectionSecureOk(Method, number=(10, 21), name="connection.secure_ok"):
    response: LongString = b""


class ConnectionTune(Method, number=(10, 30), name="connection.tune", sync=True):
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionTuneOk(Method, number=(10, 31), name="connection.tune_ok"):
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionOpen(Method, number=(10, 40), name="connection.open", sync=True):
    virtual_host: ShortString = "/"
    capabilities: ShortString = ""
    insist: Bit = False


class ConnectionOpenOk(Method, number=(10, 41), name="connection.open_ok"):
    known_hosts: ShortString = ""


class ConnectionClose(Method, number=(10, 50), name="connection.close", sync=True):
    reply_code: Short = 0
    reply_text: ShortString = ""
    failing_class_id: Short = 0
    failing_method_id: Short = 0


class ConnectionCloseOk(Method, number=(10, 51), name="connection.close_ok"):
    pass


class ConnectionBlocked(Method, number=(10, 60), name="connection.blocked"):
    reason: ShortString = ""


class ConnectionUnblocked(Method, number=(10, 61), name="connection.unblocked"):
    pass


class ConnectionUpdateSecret(Method, number=(10, 70), name="connection.update_secret", sync=True):
    new_secret: LongString = b""
    reason: ShortString = ""


class ConnectionUpdateSecretOk(Method, number=(10, 71), name="connection.update_secret_ok"):
    pass


# --- channel and access ------------------------------------------------------------------------------


class ChannelOpen(Method, number=(20, 10), name="channel.open", sync=True):
    out_of_band: ShortString = ""


class ChannelOpenOk(Method, number=(20, 11), name="channel.open_ok"):
    channel_id: LongString = b""


class ChannelFlow(Method, number=(20, 20), name="channel.flow", sync=True):
    active: Bit = False


class ChannelFlowOk(Method, number=(20, 21), name="channel.flow_ok"):
    active: Bit = False


class ChannelClose(Method, number=(20, 40), name="channel.close", sync=True):
    reply_code: Short = 0
    reply_text: ShortString = ""
    failing_class_id: Short = 0
    failing_method_id: Short = 0


class ChannelCloseOk(Method, number=(20, 41), name="channel.close_ok"):
    pass


class AccessRequest(Method, number=(30, 10), name="access.request", sync=True):
    realm: ShortString = "/data"
    exclusive: Bit = False
    passive: Bit = True
    active: Bit = True
    write: Bit = True
    read: Bit = True


class AccessRequestOk(Method, number=(30, 11), name="access.request_ok"):
    ticket: Short = 1


# --- exchange ----------------------------------------------------------------------------------------


class ExchangeDeclare(Method, number=(40, 10), name="exchange.declare", sync=True):
    ticket: Short = 0
    exchange: ShortString = ""
    type: ShortString = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Arguments = NONE


class ExchangeDeclareOk(Method, number=(40, 11), name="exchange.declare_ok"):
    pass


class ExchangeDelete(Method, number=(40, 20), name="exchange.delete", sync=True):
    ticket: Short = 0
    exchange: ShortString = ""
    if_unused: Bit = False
    nowait: Bit = False


class ExchangeDeleteOk(Method, number=(40, 21), name="exchange.delete_ok"):
    pass


class ExchangeBind(Method, number=(40, 30), name="exchange.bind", sync=True):
    ticket: Short = 0
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Arguments = NONE


class ExchangeBindOk(Method, number=(40, 31), name="exchange.bind_ok"):
    pass


class ExchangeUnbind(Method, number=(40, 40), name="exchange.unbind", sync=True):
    ticket: Short = 0
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Arguments = NONE


class ExchangeUnbindOk(Method, number=(40, 51), name="exchange.unbind_ok"):
    pass


# --- queue -------------------------------------------------------------------------------------------


class QueueDeclare(Method, number=(50, 10), name="queue.declare", sync=True):
    ticket: Short = 0
    queue: ShortString = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Arguments = NONE


class QueueDeclareOk(Method, number=(50, 11), name="queue.declare_ok"):
    queue: ShortString = ""
    message_count: Long = 0
    consumer_count: Long = 0


class QueueBind(Method, number=(50, 20), name="queue.bind", sync=True):
    ticket: Short = 0
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Arguments = NONE


class QueueBindOk(Method, number=(50, 21), name="queue.bind_ok"):
    pass


class QueuePurge(Method, number=(50, 30), name="queue.purge", sync=True):
    ticket: Short = 0
    queue: ShortString = ""
    nowait: Bit = False


class QueuePurgeOk(Method, number=(50, 31), name="queue.purge_ok"):
    message_count: Long = 0


class QueueDelete(Method, number=(50, 40), name="queue.delete", sync=True):
    ticket: Short = 0
    queue: ShortString = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


class QueueDeleteOk(Method, number=(50, 41), name="queue.delete_ok"):
    message_count: Long = 0


class QueueUnbind(Method, number=(50, 50), name="queue.unbind", sync=True):
    ticket: Short = 0
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    arguments: Arguments = NONE


class QueueUnbindOk(Method, number=(50, 51), name="queue.unbind_ok"):
    pass


# --- basic -------------------------------------------------------------------------------------------


class BasicQos(Method, number=(60, 10), name="basic.qos", sync=True):
    prefetch_size: Long = 0
    prefetch_count: Short = 0
    is_global: Bit = False


class BasicQosOk(Method, number=(60, 11), name="basic.qos_ok"):
    pass


class BasicConsume(Method, number=(60, 20), name="basic.consume", sync=True):
    ticket: Short = 0
    queue: ShortString = ""
    consumer_tag: ShortString = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Arguments = NONE


class BasicConsumeOk(Method, number=(60, 21), name="basic.consume_ok"):
    consumer_tag: ShortString = ""


class BasicCancel(Method, number=(60, 30), name="basic.cancel", sync=True):
    consumer_tag: ShortString = ""
    nowait: Bit = False


class BasicCancelOk(Method, number=(60, 31), name="basic.cancel_ok"):
    consumer_tag: ShortString = ""


class BasicPublish(Method, number=(60, 40), name="basic.publish", content=True):
    ticket: Short = 0
    exchange: ShortString = ""
    routing_key: ShortString = ""
    mandatory: Bit = False
    immediate: Bit = False


class BasicReturn(Method, number=(60, 50), name="basic.return", content=True):
    reply_code: Short = 0
    reply_text: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""


class BasicDeliver(Method, number=(60, 60), name="basic.deliver", content=True):
    consumer_tag: ShortString = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""


class BasicGet(Method, number=(60, 70), name="basic.get", sync=True):
    ticket: Short = 0
    queue: ShortString = ""
    no_ack: Bit = False


class BasicGetOk(Method, number=(60, 71), name="basic.get_ok", content=True):
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""
    message_count: Long = 0


class BasicGetEmpty(Method, number=(60, 72), name="basic.get_empty"):
    cluster_id: ShortString = ""


class BasicAck(Method, number=(60, 80), name="basic.ack"):
    delivery_tag: LongLong = 0
    multiple: Bit = False


class BasicReject(Method, number=(60, 90), name="basic.reject"):
    delivery_tag: LongLong = 0
    requeue: Bit = True


class BasicRecoverAsync(Method, number=(60, 100), name="basic.recover_async"):
    requeue: Bit = False


class BasicRecover(Method, number=(60, 110), name="basic.recover", sync=True):
    requeue: Bit = False


class BasicRecoverOk(Method, number=(60, 111), name="basic.recover_ok"):
    pass


class BasicNack(Method, number=(60, 120), name="basic.nack"):
    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


# --- confirm and tx ----------------------------------------------------------------------------------


class ConfirmSelect(Method, number=(85, 10), name="confirm.select", sync=True):
    nowait: Bit = False


class ConfirmSelectOk(Method, number=(85, 11), name="confirm.select_ok"):
    pass


class TxSelect(Method, number=(90, 10), name="tx.select", sync=True):
    pass


class TxSelectOk(Method, number=(90, 11), name="tx.select_ok"):
    pass


class TxCommit(Method, number=(90, 20), name="tx.commit", sync=True):
    pass


class TxCommitOk(Method, number=(90, 21), name="tx.commit_ok"):
    pass


class TxRollback(Method, number=(90, 30), name="tx.rollback", sync=True):
    pass


class TxRollbackOk(Method, number=(90, 31), name="tx.rollback_ok"):
    pass
