"""Whether this node's disks still hold its committed records, which it reports when it registers.

A process registers under an incarnation id. The registrations since which the log directories have lost
nothing are noted there, so that a later process can say of which of them it has everything, and the
controller elects it only for what it has.
"""

import logging
from collections.abc import Callable
from uuid import UUID

from millpond.engine.cluster.lost_replicas import lost_replicas
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_info import NodeInfo
from millpond.log.checkpoint import NO_REGISTRATIONS, Registrations
from millpond.log.log_dirs import LogDirs
from millpond.metadata.image import BrokerImage

log = logging.getLogger(__name__)


class DiskHistory:
    """The disk history of a node. The two callbacks return how this process has registered."""

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
        self._has_said_missing = False

    def begin_alone(self) -> None:
        """Note that this process starts as the only node of its cluster."""
        self._began_alone = True
        self._log_dirs.forget_shortened()

    def kept_registrations(self) -> Registrations:
        """Return the registrations since which the disks have lost nothing, this process's among them.

        Before this process has registered, those of earlier processes count.
        """
        if self._has_registered() or self._began_alone:
            # A node that is alone has written its registration itself, so it is known by the incarnation.
            return Registrations(
                broker_epoch=self._broker_epoch(), incarnation_ids=(self._info.incarnation_id,)
            )
        kept = self._log_dirs.previous_registrations
        known = self._metadata.image.brokers.get(self._info.node_id)
        if known is not None and not set(known.log_dirs) <= set(self._log_dirs.ids):
            # A directory that was registered is not here: another disk may be in its place.
            kept = NO_REGISTRATIONS
            self._say_missing(known)
        elif known is not None and known.incarnation_id in kept.incarnation_ids:
            # An earlier process was registered, and ended before it was answered.
            kept = Registrations(broker_epoch=known.broker_epoch)
        return kept.asked_by(self._info.incarnation_id)

    def _say_missing(self, known: BrokerImage) -> None:
        """Log which directories are gone that were registered, and which are new: a disk that is not mounted
        looks like a new one.
        """
        if self._has_said_missing:
            return
        self._has_said_missing = True
        missing = sorted(str(one) for one in set(known.log_dirs) - set(self._log_dirs.ids))
        fresh = [one.name for one in self._log_dirs.opened if one.is_new]
        log.error(
            "the registered log directories with the ids %s are not here%s. Replicas that lay there are "
            "copied from other nodes; a partition without another replica begins empty. If a disk is not "
            "mounted, stop the node, mount it and start again",
            ", ".join(missing),
            f", and these are new and empty: {', '.join(fresh)}" if fresh else "",
        )

    def lost_replicas(self) -> tuple[tuple[UUID, int], ...]:
        """Return the replicas that may be elected although committed records of theirs are lost."""
        lost = lost_replicas(self._metadata.image, self._info.node_id, self._log_dirs.has_lost)
        if lost:
            log.error(
                "%d replicas are not whole on this disk any more, of which the metadata say that they may be "
                "elected; others lead them if they can",
                len(lost),
            )
        return lost
