"""What is declared on a broker: virtual hosts, exchanges, queues, bindings, policies, users.

State is what the facts say. ``apply`` makes a fact true, in the order of the log; ``decisions.py`` decides
which facts there shall be. Everything here looks things up and keeps the indexes that make it quick.
"""

from collections.abc import Callable, Iterator

from millpond.base.errors import UnknownResource, UnknownVirtualHost
from millpond.base.fields import Table
from millpond.queue.settings import QueueSettings
from millpond.rabbit.exchange_types import EXCHANGE_TYPES, Registry
from millpond.rabbit.names import exchange_of, queue_of
from millpond.rabbit.policies import effective, settings_of
from millpond.rabbit.records import (
    Binding,
    BindingDeleted,
    Exchange,
    ExchangeDeleted,
    Fact,
    Parameter,
    ParameterDeleted,
    Permission,
    PermissionDeleted,
    Policy,
    PolicyDeleted,
    Queue,
    QueueDeleted,
    TopicPermission,
    TopicPermissionDeleted,
    User,
    UserDeleted,
    VirtualHost,
    VirtualHostDeleted,
)
from millpond.rabbit.routing import ALTERNATE, Router

# Every virtual host has these; they are not stored.
SYSTEM_EXCHANGES = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}


class VirtualHostState:
    """What one virtual host holds."""

    def __init__(self, vhost: VirtualHost, types: Registry) -> None:
        self.vhost = vhost
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        self.policies: dict[tuple[bool, str], Policy] = {}
        self.router = Router(vhost.name, types)
        self._bindings: dict[object, Binding] = {}
        # Identities of bindings, in the order of binding, by where they start and where they end.
        self._from: dict[str, dict[object, Binding]] = {}
        self._to: dict[tuple[bool, str], dict[object, Binding]] = {}
        self._settings: dict[str, QueueSettings] = {}
        for name, kind in SYSTEM_EXCHANGES.items():
            self.put_exchange(Exchange(vhost=vhost.name, name=name, type=kind))

    # --- looking -------------------------------------------------------------------------------------

    def exchange(self, name: str) -> Exchange:
        """Raises ``UnknownResource``."""
        found = self.exchanges.get(name)
        if found is None:
            raise UnknownResource(f"no {exchange_of(self.vhost.name, name)}")
        return found

    def queue(self, name: str) -> Queue:
        """Raises ``UnknownResource``."""
        found = self.queues.get(name)
        if found is None:
            raise UnknownResource(f"no {queue_of(self.vhost.name, name)}")
        return found

    @property
    def bindings(self) -> Iterator[Binding]:
        return iter(self._bindings.values())

    def has_binding(self, binding: Binding) -> bool:
        return binding.identity in self._bindings

    def bindings_from(self, exchange: str) -> list[Binding]:
        return list(self._from.get(exchange, {}).values())

    def bindings_to(self, destination: str, *, to_queue: bool) -> list[Binding]:
        return list(self._to.get((to_queue, destination), {}).values())

    def settings(self, queue: str) -> QueueSettings:
        """What holds for a queue; made once and kept until a policy changes."""
        found = self._settings.get(queue)
        if found is None:
            found = settings_of(self.queues[queue], self.policies.values())
            self._settings[queue] = found
        return found

    # --- changing ------------------------------------------------------------------------------------

    def put_exchange(self, exchange: Exchange) -> None:
        self.exchanges[exchange.name] = exchange
        self.router.add_exchange(exchange)
        self._set_alternate(exchange)

    def drop_exchange(self, name: str) -> None:
        for binding in self.bindings_from(name) + self.bindings_to(name, to_queue=False):
            self.drop_binding(binding)
        if self.exchanges.pop(name, None) is not None:
            self.router.remove_exchange(name)

    def put_queue(self, queue: Queue) -> None:
        self.queues[queue.name] = queue
        self._settings.pop(queue.name, None)
        self.router.add_queue(queue.name)

    def drop_queue(self, name: str) -> None:
        for binding in self.bindings_to(name, to_queue=True):
            self.drop_binding(binding)
        self.queues.pop(name, None)
        self._settings.pop(name, None)
        self.router.remove_queue(name)

    def put_binding(self, binding: Binding) -> None:
        identity = binding.identity
        if identity in self._bindings or binding.source not in self.exchanges:
            return
        self._bindings[identity] = binding
        self._from.setdefault(binding.source, {})[identity] = binding
        self._to.setdefault((binding.to_queue, binding.destination), {})[identity] = binding
        self.router.add_binding(binding)

    def drop_binding(self, binding: Binding) -> None:
        identity = binding.identity
        known = self._bindings.pop(identity, None)
        if known is None:
            return
        del self._from[binding.source][identity]
        del self._to[binding.to_queue, binding.destination][identity]
        self.router.remove_binding(known)

    def policies_changed(self) -> None:
        self._settings.clear()
        for exchange in self.exchanges.values():
            self._set_alternate(exchange)

    def _set_alternate(self, exchange: Exchange) -> None:
        said = exchange.arguments.get(ALTERNATE)
        if said is None:
            said = effective(exchange, self.policies.values()).get(ALTERNATE)
        self.router.set_alternate(exchange.name, said if isinstance(said, str) else None)


class Broker:
    """All virtual hosts, and who may use them."""

    def __init__(self, types: Registry = EXCHANGE_TYPES) -> None:
        self.types = types
        self.vhosts: dict[str, VirtualHostState] = {}
        self.users: dict[str, User] = {}
        self.permissions: dict[tuple[str, str], Permission] = {}
        self.topic_permissions: dict[tuple[str, str, str], TopicPermission] = {}
        self.parameters: dict[tuple[str, str, str], Parameter] = {}
        # How often something became true: what was looked up since holds.
        self.changes = 0
        # Exclusive queues by the connection that owns them.
        self._owned: dict[str, set[tuple[str, str]]] = {}

    def rooms(self, vhost: str) -> VirtualHostState:
        """Raises ``UnknownVirtualHost``."""
        found = self.vhosts.get(vhost)
        if found is None:
            raise UnknownVirtualHost(f"vhost {vhost} not found")
        return found

    def owned_by(self, connection: str) -> list[Queue]:
        """The exclusive queues of a connection."""
        places = sorted(self._owned.get(connection, ()))
        return [self.vhosts[vhost].queues[name] for vhost, name in places]

    def apply(self, fact: Fact) -> None:
        """Make a fact true.

        One that says what is so already, or removes what is not there, changes nothing.
        """
        self.changes += 1
        match fact:
            case VirtualHost():
                self._put_vhost(fact)
            case VirtualHostDeleted():
                self._drop_vhost(fact.name)
            case Exchange():
                self.vhosts[fact.vhost].put_exchange(fact)
            case ExchangeDeleted():
                self.vhosts[fact.vhost].drop_exchange(fact.name)
            case Queue():
                self._put_queue(fact)
            case QueueDeleted():
                self._drop_queue(fact)
            case Binding():
                self.vhosts[fact.vhost].put_binding(fact)
            case BindingDeleted():
                self.vhosts[fact.vhost].drop_binding(_binding(fact))
            case Policy():
                rooms = self.vhosts[fact.vhost]
                rooms.policies[fact.is_operator, fact.name] = fact
                rooms.policies_changed()
            case PolicyDeleted():
                rooms = self.vhosts[fact.vhost]
                rooms.policies.pop((fact.is_operator, fact.name), None)
                rooms.policies_changed()
            case _:
                self._apply_to_people(fact)

    def _apply_to_people(self, fact: Fact) -> None:
        match fact:
            case User():
                self.users[fact.name] = fact
            case UserDeleted():
                self._drop_user(fact.name)
            case Permission():
                self.permissions[fact.user, fact.vhost] = fact
            case PermissionDeleted():
                self.permissions.pop((fact.user, fact.vhost), None)
            case TopicPermission():
                self.topic_permissions[fact.user, fact.vhost, fact.exchange] = fact
            case TopicPermissionDeleted():
                self.topic_permissions.pop((fact.user, fact.vhost, fact.exchange), None)
            case Parameter():
                self.parameters[fact.vhost, fact.component, fact.name] = fact
            case ParameterDeleted():
                self.parameters.pop((fact.vhost, fact.component, fact.name), None)
            case _:
                raise AssertionError(f"nobody applies {type(fact).__name__}")

    def _put_vhost(self, vhost: VirtualHost) -> None:
        known = self.vhosts.get(vhost.name)
        if known is None:
            self.vhosts[vhost.name] = VirtualHostState(vhost, self.types)
        else:
            known.vhost = vhost

    def _drop_vhost(self, name: str) -> None:
        self.vhosts.pop(name, None)
        self._keep_rights(lambda _user, vhost: vhost != name)
        for place in [place for place in self.parameters if place[0] == name]:
            del self.parameters[place]
        for owned in self._owned.values():
            owned -= {place for place in owned if place[0] == name}

    def _put_queue(self, queue: Queue) -> None:
        self.vhosts[queue.vhost].put_queue(queue)
        if queue.is_exclusive:
            self._owned.setdefault(queue.owner, set()).add((queue.vhost, queue.name))

    def _drop_queue(self, fact: QueueDeleted) -> None:
        rooms = self.vhosts[fact.vhost]
        known = rooms.queues.get(fact.name)
        if known is not None and known.is_exclusive:
            owned = self._owned[known.owner]
            owned.discard((fact.vhost, fact.name))
            if not owned:
                del self._owned[known.owner]
        rooms.drop_queue(fact.name)

    def _drop_user(self, name: str) -> None:
        self.users.pop(name, None)
        self._keep_rights(lambda user, _vhost: user != name)

    def _keep_rights(self, is_kept: Callable[[str, str], bool]) -> None:
        self.permissions = {
            key: one for key, one in self.permissions.items() if is_kept(one.user, one.vhost)
        }
        self.topic_permissions = {
            key: one for key, one in self.topic_permissions.items() if is_kept(one.user, one.vhost)
        }


def _binding(fact: BindingDeleted) -> Binding:
    arguments: Table = fact.arguments
    return Binding(
        vhost=fact.vhost,
        source=fact.source,
        destination=fact.destination,
        to_queue=fact.to_queue,
        routing_key=fact.routing_key,
        arguments=arguments,
    )
