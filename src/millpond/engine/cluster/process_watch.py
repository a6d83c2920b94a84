"""Tells the controller that a node's process has ended, so that it is fenced before its session expires.

A session time-out cannot tell a dead process from a slow network, so it has to be long. But if a process ends
on a running host, the host refuses connections to its port. Fencing a running node is never wrong, only a
nuisance, so this may be quick; it only shortens the time for which the node's partitions have no leader.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from millpond.base.errors import ShuttingDown
from millpond.base.ids import NodeId
from millpond.engine.runtime.tasks import TaskOwner

# The delay after an end that the controller did not believe.
_PAUSE_S = 1.0


class NodeWatch(Protocol):
    """Sees that a node's process has ended."""

    async def until_gone(self, node: NodeId) -> bool:
        """Return when connections to the node's address are refused. Return whether it was connected before.

        A missing answer is no refusal.
        """
        ...

    async def is_gone(self, node: NodeId) -> bool:
        """Whether connections to the node's address are refused now; a missing answer is no refusal."""
        ...


class ProcessWatch:
    """Watches nodes, each by its broker epoch."""

    def __init__(
        self, watch: NodeWatch, tasks: TaskOwner, on_gone: Callable[[NodeId, bool], bool]
    ) -> None:
        """``on_gone`` gets a node and whether it was connected before.

        It returns whether it fences the node.
        """
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
        """Watch no node."""
        self.follow({})

    async def _see(self, node: NodeId) -> None:
        while True:
            was_there = await self._watch.until_gone(node)
            if self._on_gone(node, was_there):
                return
            await asyncio.sleep(_PAUSE_S)
