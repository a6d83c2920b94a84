"""A custom exchange type: `x-rollout` sends a share of the users to a new destination.

Each binding has an argument ``percent``. A header names a message's user (``user``, or the header in the
exchange's argument ``rollout-header``); the same user always goes the same way, and a share that grows keeps
its users. Start a broker with this type, from the directory above this one:

    PYTHONPATH=. millpond up --amqp --set amqp.exchange.types=examples.rollout_exchange:Rollout
"""

from collections.abc import Iterable
from zlib import crc32

from millpond.base.errors import InvalidBinding, InvalidQueueArgument
from millpond.base.fields import Table
from millpond.rabbit.exchange_types import BindingTable, Routed
from millpond.rabbit.names import Resource
from millpond.rabbit.records import Binding

PERCENT = "percent"
HEADER = "rollout-header"


class Rollout:
    """The type: its name, its checks of declarations, and a table for each exchange."""

    name = "x-rollout"
    # Not by the routing key alone: so the broker calls it for every message.
    by_key_only = False

    def check_arguments(self, arguments: Table) -> None:
        """Called when an exchange is declared."""
        if not isinstance(arguments.get(HEADER, ""), str):
            raise InvalidQueueArgument(f"{HEADER} must name a header")

    def check_binding(self, routing_key: str, arguments: Table, exchange_arguments: Table) -> None:
        """Called when a queue or an exchange is bound to it."""
        percent = arguments.get(PERCENT)
        if not isinstance(percent, int) or isinstance(percent, bool) or not 0 <= percent <= 100:
            raise InvalidBinding(f"the argument {PERCENT} must be a number from 0 to 100")

    def make_table(self, arguments: Table) -> BindingTable:
        """Called once for each exchange, on every node."""
        return Shares(str(arguments.get(HEADER, "user")))


class Shares:
    """The bindings of one exchange, each with its share of a hundred."""

    def __init__(self, header: str) -> None:
        self._header = header
        self._shares: dict[Resource, int] = {}

    def add(self, binding: Binding) -> None:
        """Add a binding."""
        percent = binding.arguments[PERCENT]
        assert isinstance(percent, int)
        self._shares[binding.target] = percent

    def remove(self, binding: Binding) -> None:
        """Remove a binding."""
        del self._shares[binding.target]

    def match(self, message: Routed) -> Iterable[Resource]:
        """Return the destination whose share contains the message's user, if any."""
        user = str(message.headers.get(self._header, ""))
        place = crc32(user.encode()) % 100
        for target, percent in sorted(self._shares.items()):
            if place < percent:
                return [target]
            place -= percent
        return []
