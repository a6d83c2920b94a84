"""Blocks publishers while the disk of the node that hosts a queue takes no writes.

A publish that fails is nacked, and one without confirms is lost. So publishers at this node are held up from
the first failure on, as by RabbitMQ's disk alarm, until the disk takes writes again or, on a cluster, other
nodes host the queues, which are reached from here. It is an alarm of this node alone: the others go on.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millpond.frontend.amqp.frontend import AmqpFrontend

log = logging.getLogger(__name__)

_LOOK_S = 0.1


class DiskAlarm:
    """The disk alarm of one node."""

    def __init__(self, frontend: "AmqpFrontend") -> None:
        self._frontend = frontend
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_raised(self) -> bool:
        return self._timer is not None

    def on_failure(self) -> None:
        """Begin the alarm: a publish could not be written."""
        if self._timer is None and self._holds:
            log.warning("publishers are blocked while the disk takes no writes")
            self._look_again()
            self._frontend.on_disk_alarm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _holds(self) -> bool:
        return self._frontend.engine.disk.is_offline and self._frontend.queues.hosts_some

    def _look_again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._on_time)

    def _on_time(self) -> None:
        self.look()
        if self._timer is not None:
            self._look_again()

    def look(self) -> None:
        """End the alarm if its reason has gone."""
        if self._timer is not None and not self._holds:
            self.stop()
            log.warning("publishers go on: the disk takes writes, or other nodes host the queues")
            self._frontend.on_disk_alarm()
