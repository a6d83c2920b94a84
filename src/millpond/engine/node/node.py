"""One node: the services in ``services.py``, started and stopped in the order of ``lifecycle.py``.

Everything runs on one event loop. Plain methods of services are complete when they return; what was true
when they started is true at their end. Methods that change metadata are coroutines: they return when the
change is durable and in force. Refusals are the classes of ``base.errors``, raised, or carried in a result
where one call holds many.
"""

from collections.abc import Iterable

from millpond.base.clock import Clock
from millpond.base.ids import NodeId
from millpond.base.rng import Rng
from millpond.engine.cluster.process_watch import NodeWatch
from millpond.engine.node.lifecycle import Lifecycle, Progress
from millpond.engine.node.services import NodeServices
from millpond.engine.peers import PeerProof, Peers
from millpond.engine.runtime.threads import Threads
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig
from millpond.metadata.families import Families
from millpond.metadata.records import BrokerEndpoint


class Node(NodeServices):
    """Made, started once, stopped once."""

    def __init__(
        self,
        *,
        log_dirs: LogDirs,
        node_id: NodeId,
        cluster_id: str | None,
        broker: BrokerConfig,
        clock: Clock,
        rng: Rng,
        families: Families,
        rack: str | None = None,
        peers: Peers | None = None,
        watch: NodeWatch | None = None,
        proof: PeerProof | None = None,
        threads: Threads | None = None,
        boot_id: str | None = None,
    ) -> None:
        """``boot_id`` identifies the boot of the machine, if it can tell: what was written since the boot
        is still there, even if the process that wrote it was killed. See ``NodeServices`` for the rest.
        """
        super().__init__(
            log_dirs=log_dirs,
            node_id=node_id,
            cluster_id=cluster_id,
            broker=broker,
            clock=clock,
            rng=rng,
            families=families,
            rack=rack,
            peers=peers,
            watch=watch,
            proof=proof,
            threads=threads,
        )
        self._lifecycle = Lifecycle(self, cluster_id=cluster_id, boot_id=boot_id)

    async def start(self, progress: Progress | None = None) -> None:
        """Recover the logs, replay the metadata, begin the background work.

        Raises ``DataDirectoryInUse``, ``StorageFailure``, ``CorruptLog``, ``UnsupportedVersion``.
        """
        await self._lifecycle.start(progress)

    async def join(self) -> None:
        """Wait until this node has applied the committed metadata, then begin to serve.

        A node among others can do this only when they can reach it, so ``start`` leaves it to the caller.
        """
        await self._lifecycle.join()

    async def advertise(self, end_points: Iterable[BrokerEndpoint]) -> None:
        """Join the cluster and publish the addresses of this node, once its listeners are open.

        A node that is alone is known when this returns; one among others registers in the background:
        ``membership.joined`` tells when the cluster counts on it.
        """
        await self._lifecycle.advertise(end_points)

    async def stop(self) -> bool:
        """Stop the background work, flush everything, mark the directories as closed. Return whether that
        was clean. What this node leads is handed over first, if there are others.
        """
        return await self._lifecycle.stop()
