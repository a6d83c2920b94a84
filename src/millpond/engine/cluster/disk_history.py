"""Whether this node's disks still hold what the cluster counts on: told with each registration.

A process registers under an incarnation id. The registrations since which the log directories have lost
nothing are noted there, so that a later process can say of which of them it has everything, and the
controller elects it only for what it has.
"""

import logging
from collections.abc import Callable
from uuid import UUID

from millpond.base.ids import TopicPartition
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_info import NodeInfo
from millpond.log.checkpoint import NO_REGISTRATIONS, Registrations
from millpond.log.log_dirs import LogDirs

log = logging.getLogger(__name__)


class DiskHistory:
    """One for each node. The two callbacks ask its membership how this process has registered."""

    def __init__(
        self,
        *,
        info: NodeInfo,
        log_dirs: LogDirs,
        metadata: MetadataView,
        broker_epoch: Callable[[], int],
        has_registered: Callable[[], bool],
    ) -> None:
        self._info = info
        self._log_dirs = log_dirs
        self._metadata = metadata
        self._broker_epoch = broker_epoch
        self._has_registered = has_registered
        self._began_alone = False

    def begin_alone(self) -> None:
        """This process starts as the only node of its cluster: no other could have taken its place."""
        self._began_alone = True
        self._log_dirs.forget_shortened()

    def own_registrations(self) -> Registrations:
        """The registrations of this process."""
        return Registrations(
            broker_epoch=self._broker_epoch(), incarnation_ids=(self._info.incarnation_id,)
        )

    def kept_registrations(self) -> Registrations:
        """The registrations since which the disks have lost nothing, this process's among them."""
        if self._has_registered() or self._began_alone:
            return self.own_registrations()
        kept = self._log_dirs.previous_registrations
        known = self._metadata.image.brokers.get(self._info.node_id)
        if known is not None and not set(known.log_dirs) <= set(self._log_dirs.ids):
            # A directory that was registered is not here: another disk may be in its place.
            kept = NO_REGISTRATIONS
        elif known is not None and known.incarnation_id in kept.incarnation_ids:
            # An earlier process was registered, and ended before it heard of it.
            kept = Registrations(broker_epoch=known.broker_epoch)
        return kept.asked_by(self._info.incarnation_id)

    def lost_replicas(self) -> tuple[tuple[UUID, int], ...]:
        """The replicas that the metadata count on and whose committed records are not on the disk any more:
        the log is gone, or ends below its high watermark.
        """
        node_id, log_dirs, shortened = (
            self._info.node_id,
            self._log_dirs,
            self._log_dirs.shortened,
        )
        # What is missing may lie in a directory that could not be opened.
        is_complete = not log_dirs.unopened
        lost = []
        for topic in self._metadata.image.topics.values():
            for index, partition in enumerate(topic.partitions):
                if node_id not in partition.isr and node_id not in partition.eligible_leaders:
                    continue
                key = TopicPartition(topic.name, index)
                is_missing = key not in log_dirs.logs and key not in log_dirs.unreadable
                if key in shortened or (is_complete and is_missing):
                    lost.append((topic.topic_id, index))
        if lost:
            log.error(
                "%d replicas are not whole on this disk any more, of which the metadata say that they are in "
                "sync or eligible; others lead them if they can",
                len(lost),
            )
        return tuple(lost)
