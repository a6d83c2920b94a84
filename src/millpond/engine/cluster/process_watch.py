"""The controller's eye on processes that end: they are fenced at once, not when their session is over.

A session time-out cannot tell a dead process from a slow network, so it has to be long. But where a process
ended on a host that lives, the host itself says so: nobody listens there any more. Fencing a node that lives
is never wrong, only a nuisance, so this is allowed to be quick; all that rests on it is how long its
partitions have no leader.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from millpond.base.errors import ShuttingDown
from millpond.base.ids import NodeId
from millpond.engine.runtime.tasks import TaskOwner

# After an end that was not believed.
_PAUSE_S = 1.0


class NodeWatch(Protocol):
    """Who can see that a node's process has ended."""

    async def until_gone(self, node: NodeId) -> bool:
        """Return when nobody listens where the node should be; whether it was seen there before.

        Silence is no proof.
        """
        ...

    async def is_gone(self, node: NodeId) -> bool:
        """Whether nobody listens there at this moment. Silence is no proof here either."""
        ...


class ProcessWatch:
    """Watches the nodes that it is told to, each in the life that it is told of."""

    def __init__(
        self, watch: NodeWatch, tasks: TaskOwner, on_gone: Callable[[NodeId, bool], bool]
    ) -> None:
        """``on_gone`` is told of a node and whether it was seen before, and says whether it believes that."""
        self._watch = watch
        self._tasks = tasks
        self._on_gone = on_gone
        self._watching: dict[tuple[NodeId, int], asyncio.Task[None]] = {}

    def follow(self, nodes: Mapping[NodeId, int]) -> None:
        """Watch these nodes, by their broker epochs, and no others."""
        wanted = set(nodes.items())
        for life in [life for life in self._watching if life not in wanted]:
            self._watching.pop(life).cancel()
        for node, epoch in nodes.items():
            if (node, epoch) not in self._watching:
                try:
                    task = self._tasks.spawn(self._see(node), name=f"watch over node {node}")
                except ShuttingDown:
                    return
                self._watching[node, epoch] = task

    def stop(self) -> None:
        """Watch nobody."""
        self.follow({})

    async def _see(self, node: NodeId) -> None:
        while True:
            was_there = await self._watch.until_gone(node)
            if self._on_gone(node, was_there):
                return
            await asyncio.sleep(_PAUSE_S)
