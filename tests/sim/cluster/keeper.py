"""A topic that keeps the last value of each key: it may forget what was overwritten, and nothing else."""

from collections.abc import Awaitable, Callable

from tests.sim.cluster.client import Client
from tests.sim.cluster.consumers import fetch
from tests.sim.cluster.history import Glimpse, Place
from tests.sim.cluster.trace import Broken

_KEYS = 4


def key_of(value: bytes) -> bytes:
    """Which key a value belongs to; values are numbered."""
    return b"k%d" % (int(value.rpartition(b".")[2]) % _KEYS)


class Keeper:
    """What one writer has written there, and what must be left of it at the end."""

    def __init__(self, place: Place) -> None:
        self._place = place
        # Of each key: all values in the order in which they were sent, and the last that was acknowledged.
        self._sent: dict[bytes, list[bytes]] = {}
        self._acknowledged: dict[bytes, bytes] = {}

    def attempt(self, _place: Place, value: bytes) -> None:
        """The writer sends this."""
        self._sent.setdefault(key_of(value), []).append(value)

    def acknowledge(self, _place: Place, value: bytes, _offset: int) -> None:
        """All replicas have it."""
        self._acknowledged[key_of(value)] = value

    def glimpse(self, _place: Place) -> Glimpse:
        """Nobody asks here who leads."""
        return Glimpse(-1, 0, {})

    def written(self, place: Place, before: Glimpse, node: int, epoch: int, end: int) -> None:
        """A leader has taken a write."""

    async def check_end(
        self,
        client: Client,
        persistently: Callable[[Callable[[], Awaitable[bool]]], Awaitable[bool]],
    ) -> None:
        """Read everything that is left."""
        offset = 0
        last: dict[bytes, bytes] = {}

        async def step() -> bool:
            nonlocal offset
            client.forget_leader(*self._place)
            node_id, epoch = await client.leader(*self._place)
            offset, found, high = await fetch(
                client, self._place, offset, node_id=node_id, epoch=epoch, wait_ms=0, gaps=True
            )
            for _at, value in found:
                if value is not None:
                    last[key_of(value)] = value
            return offset >= high

        while not await persistently(step):
            pass
        for key, value in self._acknowledged.items():
            sent = self._sent[key]
            left = last.get(key)
            if left is None or sent.index(left) < sent.index(value):
                raise Broken(
                    f"{self._place}: {key!r} was {value!r} for all replicas, and is {left!r} now"
                )
