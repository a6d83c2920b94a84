"""What shall be done with exchanges, queues and bindings: one function, ``decide``, and its parts.

The order of checks and the texts of refusals are RabbitMQ's; `tests/interop/amqp/rabbitmq.json` holds what it
answered.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from millpond.auth.permissions import (
    Right,
    check_access,
    check_topic,
)
from millpond.auth.scopes import check_grants, check_topic_grants
from millpond.base.errors import (
    AccessRefused,
    BrokerRefusal,
    InvalidQueueArgument,
    LimitReached,
    QueueLocked,
    ResourceInUse,
)
from millpond.base.fields import Table, type_name
from millpond.rabbit.arguments import (
    COMPARED,
    DEAD_LETTER_EXCHANGE,
    QUEUE_TYPE,
    QUORUM,
    SEGMENT_BYTES,
    STREAM,
    STREAM_TOPIC,
    check_declared,
    check_equal,
    check_equivalent,
)
from millpond.rabbit.broker import Broker, VirtualHostState
from millpond.rabbit.commands import (
    Bind,
    Command,
    Decision,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    LoseConnection,
    LoseLastConsumer,
    Principal,
    Store,
    StoreAll,
    Unbind,
)
from millpond.rabbit.exchange_types import Delayed
from millpond.rabbit.names import (
    DEFAULT_EXCHANGE,
    REPLY_TO,
    RESERVED_PREFIX,
    Kind,
    Resource,
    check_length,
    delayed_queue,
    exchange_of,
    is_hidden,
    queue_of,
    without_line_breaks,
)
from millpond.rabbit.records import (
    Binding,
    BindingDeleted,
    Exchange,
    ExchangeDeleted,
    Fact,
    Queue,
    QueueDeleted,
)
from millpond.rabbit.routing import ALTERNATE
from millpond.rabbit.storing import store, store_all
from millpond.rabbit.topic_names import DEFAULT_VHOST

_NAME_PREFIX = "x-name-prefix"
_SEGMENT_BYTES_MAX = 3_000_000_000


def decide(broker: Broker, command: Command) -> Decision:
    """What shall happen. Raises a ``BrokerRefusal`` for what is refused; nothing has changed then."""
    decision = _decide(broker, command)
    return replace(decision, facts=tuple(_with_delayed_queues(broker, decision.facts)))


def _with_delayed_queues(broker: Broker, facts: Iterable[Fact]) -> Iterable[Fact]:
    """A delayed exchange comes and goes with the queue of what it keeps back."""
    for fact in facts:
        yield fact
        if isinstance(fact, Exchange) and fact.type == Delayed.name:
            if delayed_queue(fact.name) not in broker.rooms(fact.vhost).queues:
                name = delayed_queue(fact.name)
                yield Queue(vhost=fact.vhost, name=name, durable=fact.durable)
        elif isinstance(fact, ExchangeDeleted) and (
            delayed_queue(fact.name) in broker.rooms(fact.vhost).queues
        ):
            yield QueueDeleted(vhost=fact.vhost, name=delayed_queue(fact.name))


def _decide(broker: Broker, command: Command) -> Decision:
    match command:
        case DeclareExchange():
            return _declare_exchange(broker, command)
        case DeleteExchange():
            return _delete_exchange(broker, command)
        case DeclareQueue():
            return _declare_queue(broker, command)
        case DeleteQueue():
            return _delete_queue(broker, command)
        case Bind():
            return _bind(broker, command)
        case Unbind():
            return _unbind(broker, command)
        case LoseConnection():
            gone = broker.owned_by(command.connection)
            return Decision(facts=tuple(_without(broker, gone)))
        case LoseLastConsumer():
            queue = broker.rooms(command.vhost).queues.get(command.queue)
            if queue is None or not queue.auto_delete:
                return Decision()
            return Decision(facts=tuple(_without(broker, [queue])))
        case Store():
            return Decision(facts=tuple(store(broker, command.fact)))
        case StoreAll():
            return Decision(facts=tuple(store_all(broker, command.facts)))


# --- exchanges --------------------------------------------------------------------------------------------


def _declare_exchange(broker: Broker, command: DeclareExchange) -> Decision:
    asker, name = command.asker, without_line_breaks(command.name)
    resource = exchange_of(asker.vhost, name)
    if command.passive:
        _check_not_default(name)
        check_any_right(broker, asker, resource)
        broker.rooms(asker.vhost).exchange(name)
        return Decision()
    exchange_type = broker.types[command.type]
    _check_not_default(name)
    check_right(broker, asker, resource, Right.CONFIGURE)
    current = broker.rooms(asker.vhost).exchanges.get(name)
    if current is not None:
        _check_same_exchange(current, command)
        return Decision()
    _check_name(resource)
    alternate = _named(command.arguments, ALTERNATE, resource)
    if alternate is not None:
        check_right(broker, asker, resource, Right.READ)
        check_right(broker, asker, exchange_of(asker.vhost, alternate), Right.WRITE)
    exchange_type.check_arguments(command.arguments)
    exchange = Exchange(
        vhost=asker.vhost,
        name=name,
        type=command.type,
        durable=command.durable,
        auto_delete=command.auto_delete,
        internal=command.internal,
        arguments=command.arguments,
    )
    return Decision(facts=(exchange,))


def _check_same_exchange(current: Exchange, command: DeclareExchange) -> None:
    resource = current.resource
    check_equal(resource, "type", current=current.type, received=command.type)
    for name in ("durable", "auto_delete", "internal"):
        check_equal(resource, name, current=getattr(current, name), received=getattr(command, name))
    check_equivalent(
        resource,
        (ALTERNATE, "x-delayed-type"),
        current=current.arguments,
        received=command.arguments,
    )


def _delete_exchange(broker: Broker, command: DeleteExchange) -> Decision:
    asker, name = command.asker, without_line_breaks(command.name)
    resource = exchange_of(asker.vhost, name)
    _check_not_default(name)
    if name.startswith(RESERVED_PREFIX):
        raise AccessRefused(f"deletion of system {resource} not allowed")
    check_right(broker, asker, resource, Right.CONFIGURE)
    rooms = broker.rooms(asker.vhost)
    if name not in rooms.exchanges:
        return Decision()
    if command.if_unused and rooms.bindings_from(name):
        raise ResourceInUse(f"{resource} in use")
    return Decision(facts=tuple(_without_exchanges(rooms, [name])))


# --- queues -----------------------------------------------------------------------------------------------


def _declare_queue(broker: Broker, command: DeclareQueue) -> Decision:
    asker, name = command.asker, without_line_breaks(command.name)
    rooms = broker.rooms(asker.vhost)
    if command.passive:
        check_any_right(broker, asker, queue_of(asker.vhost, name))
        queue = rooms.queue(name)
        check_owner(queue, asker.connection)
        return Decision(queue=queue)
    arguments = {key: value for key, value in command.arguments.items() if key != _NAME_PREFIX}
    owner = asker.connection if command.exclusive else ""
    if not name:
        _check_may_be_named(arguments, rooms.vhost.default_queue_type)
        name = command.fresh_name
        assert name
    elif name not in rooms.queues:
        _check_name(queue_of(asker.vhost, name))
    resource = queue_of(asker.vhost, name)
    check_right(broker, asker, resource, Right.CONFIGURE)
    current = rooms.queues.get(name)
    # An exclusive queue goes with its connection, so it cannot outlive the broker.
    durable = command.durable and not command.exclusive
    if current is not None:
        _check_same_queue(current, command, durable=durable, owner=owner, arguments=arguments)
        return Decision(queue=current)
    _check_room(rooms)
    dead_letter_exchange = _named(arguments, DEAD_LETTER_EXCHANGE, resource)
    if dead_letter_exchange is not None:
        check_right(broker, asker, resource, Right.READ)
        check_right(broker, asker, exchange_of(asker.vhost, dead_letter_exchange), Right.WRITE)
    queue_type = check_declared(resource, arguments, rooms.vhost.default_queue_type)
    _check_kind(broker, resource, queue_type, command)
    queue = Queue(
        vhost=asker.vhost,
        name=name,
        type=queue_type,
        durable=durable,
        auto_delete=command.auto_delete,
        owner=owner,
        arguments=arguments,
    )
    return Decision(facts=(queue,), queue=queue)


def _check_same_queue(
    current: Queue, command: DeclareQueue, *, durable: bool, owner: str, arguments: Table
) -> None:
    resource = current.resource
    if current.owner != owner:
        raise _locked(resource)
    check_equal(resource, "durable", current=current.durable, received=durable)
    check_equal(resource, "auto_delete", current=current.auto_delete, received=command.auto_delete)
    check_equivalent(resource, COMPARED, current=current.arguments, received=arguments)


def _check_kind(broker: Broker, resource: Resource, queue_type: str, command: DeclareQueue) -> None:
    if queue_type not in {QUORUM, STREAM}:
        return
    for is_so, name in (
        (command.auto_delete, "auto-delete"),
        (command.exclusive, "exclusive-owner"),
        (not command.durable, "non-durable"),
    ):
        if is_so:
            raise InvalidQueueArgument(f"invalid property '{name}' for {resource}")
    segment_bytes = command.arguments.get(SEGMENT_BYTES, 0)
    if isinstance(segment_bytes, int) and segment_bytes > _SEGMENT_BYTES_MAX:
        raise InvalidQueueArgument(f"Exceeded max value for {SEGMENT_BYTES}")
    topic = command.arguments.get(STREAM_TOPIC)
    if isinstance(topic, str):
        _check_attached(broker, command.asker, topic)


def _check_attached(broker: Broker, asker: Principal, topic: str) -> None:
    """Check that a user may read an existing topic as a stream. Raises ``AccessRefused``."""
    if asker.vhost != DEFAULT_VHOST:
        raise AccessRefused(
            f"topics are in vhost '{DEFAULT_VHOST}': a stream of topic '{topic}' must be, too"
        )
    check_right(broker, asker, queue_of(asker.vhost, topic), Right.READ)
    for rooms in broker.vhosts.values():
        for queue in rooms.queues.values():
            if queue.topic == topic:
                raise ResourceInUse(f"topic '{topic}' is that of {queue.resource}")


def _check_may_be_named(arguments: Table, default_type: str) -> None:
    queue_type = arguments.get(QUEUE_TYPE, default_type)
    if queue_type in {QUORUM, STREAM}:
        raise InvalidQueueArgument(
            f"Cannot declare a server-named queue for type rabbit_{queue_type}_queue"
        )


def _check_room(rooms: VirtualHostState) -> None:
    most = rooms.vhost.queues_max
    if most is not None and len(rooms.queues) >= most:
        raise LimitReached(
            f"cannot declare queue in vhost '{rooms.vhost.name}': "
            f"queue limit in vhost '{rooms.vhost.name}' ({most}) is reached"
        )


def _delete_queue(broker: Broker, command: DeleteQueue) -> Decision:
    asker, name = command.asker, without_line_breaks(command.name)
    resource = queue_of(asker.vhost, name)
    check_right(broker, asker, resource, Right.CONFIGURE)
    queue = broker.rooms(asker.vhost).queues.get(name)
    if queue is None:
        return Decision()
    check_owner(queue, asker.connection)
    if command.if_unused and command.consumers:
        raise ResourceInUse(f"{resource} in use")
    if command.if_empty and command.messages:
        raise ResourceInUse(f"{resource} not empty")
    return Decision(facts=tuple(_without(broker, [queue])), queue=queue)


def check_owner(queue: Queue, connection: str) -> None:
    """Raises ``QueueLocked`` if the queue is another connection's."""
    if (queue.is_exclusive and queue.owner != connection) or is_hidden(queue.name):
        raise _locked(queue.resource)


def _locked(resource: Resource) -> QueueLocked:
    return QueueLocked(
        f"cannot obtain exclusive access to locked {resource}. It could be originally declared on "
        "another connection or the exclusive property value does not match that of the original "
        "declaration."
    )


# --- bindings ---------------------------------------------------------------------------------------------


def _bind(broker: Broker, command: Bind) -> Decision:
    asker = command.asker
    binding = _binding(broker, command)
    rooms = broker.rooms(asker.vhost)
    source = rooms.exchange(binding.source)
    if binding.to_queue:
        check_owner(rooms.queue(binding.destination), asker.connection)
    else:
        rooms.exchange(binding.destination)
    broker.types[source.type].check_binding(
        binding.routing_key, binding.arguments, source.arguments
    )
    return Decision() if rooms.has_binding(binding) else Decision(facts=(binding,))


def _unbind(broker: Broker, command: Unbind) -> Decision:
    asker = command.asker
    binding = _binding(broker, command)
    rooms = broker.rooms(asker.vhost)
    if not rooms.has_binding(binding):
        return Decision()
    if binding.to_queue:
        check_owner(rooms.queue(binding.destination), asker.connection)
    gone = BindingDeleted(
        vhost=binding.vhost,
        source=binding.source,
        destination=binding.destination,
        to_queue=binding.to_queue,
        routing_key=binding.routing_key,
        arguments=binding.arguments,
    )
    return Decision(facts=(gone, *_idle(rooms, [binding], set())))


def _binding(broker: Broker, command: Bind | Unbind) -> Binding:
    """The binding that is meant, after the checks that need no look at what exists."""
    asker = command.asker
    destination = without_line_breaks(command.destination)
    source = without_line_breaks(command.source)
    if command.to_queue and destination.startswith(REPLY_TO):
        raise AccessRefused("cannot bind or unbind to a volatile (direct reply-to) queue")
    if not command.to_queue:
        _check_not_default(destination)
    _check_not_default(source)
    kind = Kind.QUEUE if command.to_queue else Kind.EXCHANGE
    check_right(broker, asker, Resource(kind, asker.vhost, destination), Right.WRITE)
    check_right(broker, asker, exchange_of(asker.vhost, source), Right.READ)
    if source in broker.rooms(asker.vhost).exchanges:
        check_topic_right(broker, asker, source, Right.READ, command.routing_key)
    return Binding(
        vhost=asker.vhost,
        source=source,
        destination=destination,
        to_queue=command.to_queue,
        routing_key=command.routing_key,
        arguments=command.arguments,
    )


# --- what goes with what ------------------------------------------------------------------------------------


def _without(broker: Broker, queues: Iterable[Queue]) -> Iterable[Fact]:
    """Queues go; exchanges that nothing is bound to any more go with them, if they were made to."""
    by_vhost: dict[str, list[Queue]] = {}
    for queue in queues:
        by_vhost.setdefault(queue.vhost, []).append(queue)
    for vhost, some in by_vhost.items():
        rooms = broker.rooms(vhost)
        yield from (QueueDeleted(vhost=vhost, name=queue.name) for queue in some)
        lost = [one for queue in some for one in rooms.bindings_to(queue.name, to_queue=True)]
        yield from _idle(rooms, lost, set())


def _without_exchanges(rooms: VirtualHostState, names: list[str]) -> Iterable[Fact]:
    yield from (ExchangeDeleted(vhost=rooms.vhost.name, name=name) for name in names)
    lost = [one for name in names for one in rooms.bindings_to(name, to_queue=False)]
    yield from _idle(rooms, lost, set(names))


def _idle(rooms: VirtualHostState, lost: list[Binding], gone: set[str]) -> Iterable[Fact]:
    """Auto-delete exchanges that lose their last binding, and those that lose theirs with them.

    ``lost`` are the bindings that go, ``gone`` the exchanges. What goes on the way is added to both: an
    exchange may be bound to several that go.
    """
    lost_identities = {binding.identity for binding in lost}
    pending = deque(dict.fromkeys(binding.source for binding in lost))
    while pending:
        name = pending.popleft()
        exchange = rooms.exchanges.get(name)
        if exchange is None or not exchange.auto_delete or name in gone:
            continue
        if any(one.identity not in lost_identities for one in rooms.bindings_from(name)):
            continue
        gone.add(name)
        yield ExchangeDeleted(vhost=rooms.vhost.name, name=name)
        for binding in rooms.bindings_to(name, to_queue=False):
            lost_identities.add(binding.identity)
            pending.append(binding.source)


# --- rights -------------------------------------------------------------------------------------------------


def check_right(broker: Broker, asker: Principal, resource: Resource, right: Right) -> None:
    """Raises ``AccessRefused``."""
    if asker.user is None:
        return
    if asker.scopes is not None:
        expired = asker.is_expired
        check_grants(asker.scopes, asker.user, resource, right, is_expired=expired)
        return
    permission = broker.permissions.get((asker.user, asker.vhost))
    check_access(permission, asker.user, resource, right)


def check_any_right(broker: Broker, asker: Principal, resource: Resource) -> None:
    """Any user with some permission may look. Raises ``AccessRefused``."""
    refusal: BrokerRefusal | None = None
    for right in (Right.READ, Right.WRITE, Right.CONFIGURE):
        try:
            check_right(broker, asker, resource, right)
        except AccessRefused as error:
            refusal = error
        else:
            return
    assert refusal is not None
    raise refusal


def check_topic_right(
    broker: Broker, asker: Principal, exchange: str, right: Right, routing_key: str
) -> None:
    """Raises ``AccessRefused`` for a key of a topic exchange that is not the user's."""
    found = broker.rooms(asker.vhost).exchanges.get(exchange)
    if asker.user is None or found is None or found.type != "topic":
        return
    if asker.scopes is not None:
        expired = asker.is_expired
        check_topic_grants(
            asker.scopes, asker.user, found.resource, right, routing_key, is_expired=expired
        )
        return
    permission = broker.topic_permissions.get((asker.user, asker.vhost, exchange))
    check_topic(permission, asker.user, found.resource, right, routing_key)


def _check_not_default(name: str) -> None:
    if name == DEFAULT_EXCHANGE:
        raise AccessRefused("operation not permitted on the default exchange")


def _check_name(resource: Resource) -> None:
    check_length(resource)
    if resource.name.startswith(RESERVED_PREFIX):
        raise AccessRefused(
            f"{resource.kind} name '{resource.name}' contains reserved prefix 'amq.*'"
        )


def _named(arguments: Table, name: str, resource: Resource) -> str | None:
    """An argument that names an exchange. Raises ``InvalidQueueArgument``."""
    value = arguments.get(name)
    if name not in arguments or isinstance(value, str):
        return value if isinstance(value, str) else None
    raise InvalidQueueArgument(f"invalid type '{type_name(value)}' for arg '{name}' in {resource}")
