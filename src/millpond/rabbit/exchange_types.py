"""How exchanges of each type choose, and how to add a type of one's own.

A type is an object with a ``name``, two checks and ``make_table``; a table is given the bindings of one
exchange and says for each message which targets it leads to. The setting ``amqp.exchange.types`` names types
of one's own, or ``EXCHANGE_TYPES.register(MyType())`` does before the broker starts (docs/amqp.md). A type
may look at routing keys and headers and at nothing else, not even the time, so that every node of a cluster
routes alike; the number that chance gave a message comes with it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from millpond.base.errors import InvalidBinding, InvalidQueueArgument, UnknownExchangeType
from millpond.base.fields import Table, type_name
from millpond.rabbit.names import Resource
from millpond.rabbit.records import Binding
from millpond.routing.headers import HeadersTable, check_match
from millpond.routing.topic_tree import TopicTrie

DELAYED_TYPE = "x-delayed-type"
DELAY_HEADER = "x-delay"
# RabbitMQ's bound, so that a ring does not grow without end.
_WEIGHT_MAX = 1_000_000
# The longest delay of RabbitMQ's plug-in; what is longer is not delayed at all.
DELAY_MS_MAX = 2**32 - 1
# Of so many numbers chance gives a message one.
CHANCES = 2**32


@dataclass(frozen=True, slots=True)
class Routed:
    """What routing may know of a message. ``chance`` is any number, for types that choose by lot."""

    routing_keys: tuple[str, ...]
    headers: Table = field(default_factory=dict)
    properties: Table = field(default_factory=dict)
    chance: int = 0


class BindingTable(Protocol):
    """The bindings of one exchange."""

    def add(self, binding: Binding) -> None: ...

    def remove(self, binding: Binding) -> None: ...

    def match(self, message: Routed) -> Iterable[Resource]:
        """Where the message goes; a target may come several times."""
        ...


class ExchangeType(Protocol):
    """A way to choose."""

    name: str
    # Whether the choice depends on the routing keys alone; such choices are remembered.
    by_key_only: bool

    def check_arguments(self, arguments: Table) -> None:
        """Raises ``InvalidQueueArgument`` for arguments that an exchange of this type cannot have."""
        ...

    def check_binding(self, routing_key: str, arguments: Table, exchange_arguments: Table) -> None:
        """Raises ``InvalidBinding``. The last are the arguments of the exchange itself."""
        ...

    def make_table(self, arguments: Table) -> BindingTable: ...


class Registry:
    """The types that there are."""

    def __init__(self, *types: ExchangeType) -> None:
        self._types: dict[str, ExchangeType] = {}
        for one in types:
            self.register(one)

    def register(self, exchange_type: ExchangeType) -> None:
        """Makes a type known. A name can be taken once."""
        if exchange_type.name in self._types:
            raise ValueError(f"there is an exchange type {exchange_type.name!r} already")
        self._types[exchange_type.name] = exchange_type

    def __getitem__(self, name: str) -> ExchangeType:
        found = self._types.get(name)
        if found is None:
            raise UnknownExchangeType(f"unknown exchange type '{name}'")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._types

    def find(self, name: str) -> ExchangeType:
        """A type; one that leads nowhere if there is none, as on a node that lacks a plug-in."""
        return self._types.get(name) or _MISSING

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._types)


class _Plain:
    """A type without rules for arguments."""

    by_key_only = True

    def check_arguments(self, arguments: Table) -> None:
        pass

    def check_binding(self, routing_key: str, arguments: Table, exchange_arguments: Table) -> None:
        pass


class _Missing(_Plain):
    """Stands for a type that is not here: what is declared stays, and routes nothing."""

    name = ""

    def make_table(self, arguments: Table) -> BindingTable:
        return NowhereTable()


class NowhereTable:
    """No target, ever."""

    def add(self, binding: Binding) -> None:
        pass

    def remove(self, binding: Binding) -> None:
        pass

    def match(self, message: Routed) -> Iterable[Resource]:
        return ()


_MISSING = _Missing()


# --- AMQP's own -----------------------------------------------------------------------------------------


class DirectTable:
    """Targets by exact key."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[Resource, int]] = {}

    def add(self, binding: Binding) -> None:
        targets = self._keys.setdefault(binding.routing_key, {})
        targets[binding.target] = targets.get(binding.target, 0) + 1

    def remove(self, binding: Binding) -> None:
        targets = self._keys[binding.routing_key]
        targets[binding.target] -= 1
        if not targets[binding.target]:
            del targets[binding.target]
            if not targets:
                del self._keys[binding.routing_key]

    def match(self, message: Routed) -> Iterator[Resource]:
        for key in message.routing_keys:
            yield from self._keys.get(key, ())


class FanoutTable:
    """All targets, always."""

    def __init__(self) -> None:
        self._targets: dict[Resource, int] = {}

    def add(self, binding: Binding) -> None:
        self._targets[binding.target] = self._targets.get(binding.target, 0) + 1

    def remove(self, binding: Binding) -> None:
        self._targets[binding.target] -= 1
        if not self._targets[binding.target]:
            del self._targets[binding.target]

    def match(self, message: Routed) -> Iterable[Resource]:
        return self._targets


class TopicTable:
    """Targets by patterns of words."""

    def __init__(self) -> None:
        self._trie: TopicTrie[Resource] = TopicTrie()

    def add(self, binding: Binding) -> None:
        self._trie.add(binding.routing_key, binding.target)

    def remove(self, binding: Binding) -> None:
        self._trie.remove(binding.routing_key, binding.target)

    def match(self, message: Routed) -> Iterator[Resource]:
        for key in message.routing_keys:
            yield from self._trie.match(key)


class HeaderBindings:
    """Targets by headers."""

    def __init__(self) -> None:
        self._table: HeadersTable[Resource] = HeadersTable()
        self._numbers: dict[object, int] = {}

    def add(self, binding: Binding) -> None:
        self._numbers[binding.identity] = self._table.add(binding.arguments, binding.target)

    def remove(self, binding: Binding) -> None:
        self._table.remove(self._numbers.pop(binding.identity))

    def match(self, message: Routed) -> Iterator[Resource]:
        return self._table.match(message.headers)


class Direct(_Plain):
    name = "direct"

    def make_table(self, arguments: Table) -> BindingTable:
        return DirectTable()


class Fanout(_Plain):
    name = "fanout"

    def make_table(self, arguments: Table) -> BindingTable:
        return FanoutTable()


class Topic(_Plain):
    name = "topic"

    def make_table(self, arguments: Table) -> BindingTable:
        return TopicTable()


class Headers(_Plain):
    name = "headers"
    by_key_only = False

    def check_binding(self, routing_key: str, arguments: Table, exchange_arguments: Table) -> None:
        check_match(arguments)

    def make_table(self, arguments: Table) -> BindingTable:
        return HeaderBindings()


# --- RabbitMQ's plug-ins ----------------------------------------------------------------------------------


class HashTable:
    """One target for each message, by what it is hashed on; a target's share goes with its weight.

    Each target scores each message, and the highest score wins: a target that comes or goes moves only the
    messages that it gets or had.
    """

    def __init__(self, arguments: Table, *, weighted: bool) -> None:
        self._header = arguments.get("hash-header")
        self._property = arguments.get("hash-property")
        self._weighted = weighted
        self._weights: dict[Resource, int] = {}
        self._slots: list[tuple[bytes, Resource]] = []

    def add(self, binding: Binding) -> None:
        self._weigh(binding.target, int(binding.routing_key) if self._weighted else 1)

    def remove(self, binding: Binding) -> None:
        self._weigh(binding.target, -int(binding.routing_key) if self._weighted else -1)

    def _weigh(self, target: Resource, weight: int) -> None:
        self._weights[target] = self._weights.get(target, 0) + weight
        if self._weights[target] <= 0:
            del self._weights[target]

    def match(self, message: Routed) -> Iterator[Resource]:
        if not self._weights:
            return
        hashed = self._hashed(message)
        if not self._weighted:
            targets = sorted(self._weights)
            yield targets[int.from_bytes(_digest(hashed), "big") % len(targets)]
            return
        yield max(self._weights, key=lambda target: self._score(hashed, target))

    def _score(self, hashed: bytes, target: Resource) -> float:
        """Between 0 and 1, raised to one over the weight: weighted rendezvous."""
        digest = _digest(b"%b\0%b" % (hashed, "\0".join(target).encode()))
        part = (int.from_bytes(digest, "big") + 1) / (2**64 + 1)
        share: float = part ** (1 / self._weights[target])
        return share

    def _hashed(self, message: Routed) -> bytes:
        value: object = message.routing_keys[0]
        if isinstance(self._header, str):
            value = message.headers.get(self._header, "")
        elif isinstance(self._property, str):
            value = message.properties.get(self._property.replace("-", "_")) or ""
        return str(value).encode("utf-8", "surrogateescape")


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()


class ConsistentHash(_Plain):
    name = "x-consistent-hash"
    by_key_only = False

    def check_arguments(self, arguments: Table) -> None:
        if "hash-header" in arguments and "hash-property" in arguments:
            raise InvalidQueueArgument("hash-header and hash-property are mutually exclusive")
        prop = arguments.get("hash-property")
        if prop is not None and prop not in {"correlation_id", "message_id", "timestamp"}:
            raise InvalidQueueArgument(f"Unsupported property: {prop!s}")

    def check_binding(self, routing_key: str, arguments: Table, exchange_arguments: Table) -> None:
        try:
            weight = int(routing_key)
        except ValueError:
            raise InvalidBinding(
                f'The binding key must be an integer: <<"{routing_key}">>'
            ) from None
        if weight < 1:
            raise InvalidBinding("The binding key must be greater than 0")
        if weight > _WEIGHT_MAX:
            raise InvalidBinding(f"The binding key must not exceed {_WEIGHT_MAX}")

    def make_table(self, arguments: Table) -> BindingTable:
        return HashTable(arguments, weighted=True)


class ModulusHash(_Plain):
    name = "x-modulus-hash"

    def make_table(self, arguments: Table) -> BindingTable:
        return HashTable({}, weighted=False)


class RandomTable(DirectTable):
    """One of the targets of the key, by lot."""

    def match(self, message: Routed) -> Iterator[Resource]:
        targets = sorted(set(super().match(message)))
        if targets:
            yield targets[message.chance % len(targets)]


class Random(_Plain):
    name = "x-random"
    by_key_only = False

    def make_table(self, arguments: Table) -> BindingTable:
        return _IgnoringKeys(RandomTable())


class LocalRandom(Random):
    """As ``x-random``, with bindings without keys. All bound queues count as local, on any node."""

    name = "x-local-random"

    def check_binding(self, routing_key: str, arguments: Table, exchange_arguments: Table) -> None:
        if routing_key:
            raise InvalidBinding(f"Non empty binding '{routing_key}' key not permitted")


class _IgnoringKeys:
    """A table to which all keys are one."""

    def __init__(self, table: RandomTable) -> None:
        self._table = table

    def add(self, binding: Binding) -> None:
        self._table.add(_with_key(binding, ""))

    def remove(self, binding: Binding) -> None:
        self._table.remove(_with_key(binding, ""))

    def match(self, message: Routed) -> Iterator[Resource]:
        return self._table.match(Routed(("",), chance=message.chance))


def _with_key(binding: Binding, key: str) -> Binding:
    return Binding(
        vhost=binding.vhost,
        source=binding.source,
        destination=binding.destination,
        to_queue=binding.to_queue,
        routing_key=key,
        arguments=binding.arguments,
    )


class Delayed:
    """Routes as another type does, later: its argument says as which, a message's header how much later."""

    name = "x-delayed-message"
    by_key_only = False

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry

    def check_arguments(self, arguments: Table) -> None:
        inner = arguments.get(DELAYED_TYPE)
        if not isinstance(inner, str) or inner not in self._registry or inner == self.name:
            raise InvalidQueueArgument(
                "Invalid argument, 'x-delayed-type' must be an existing exchange type"
            )
        self._registry[inner].check_arguments(arguments)

    def check_binding(self, routing_key: str, arguments: Table, exchange_arguments: Table) -> None:
        inner = exchange_arguments[DELAYED_TYPE]
        assert isinstance(inner, str)
        self._registry[inner].check_binding(routing_key, arguments, exchange_arguments)

    def make_table(self, arguments: Table) -> BindingTable:
        inner = arguments[DELAYED_TYPE]
        assert isinstance(inner, str)
        return self._registry[inner].make_table(arguments)


def delay_ms_of(headers: Table) -> int:
    """How long a message to a delayed exchange waits. As in RabbitMQ's plug-in nonsense is no delay, and so
    is a negative number, which says that the message has waited already.
    """
    delay = headers.get(DELAY_HEADER)
    if isinstance(delay, bool) or not isinstance(delay, int) or type_name(delay) == "timestamp":
        return 0
    return delay if 0 < delay <= DELAY_MS_MAX else 0


EXCHANGE_TYPES = Registry(
    Direct(), Fanout(), Topic(), Headers(), ConsistentHash(), ModulusHash(), LocalRandom(), Random()
)
EXCHANGE_TYPES.register(Delayed(EXCHANGE_TYPES))
