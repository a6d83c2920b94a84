"""What identifies a node to its clients and to the other nodes."""

from collections.abc import Mapping
from uuid import UUID

from millpond.base.ids import NodeId
from millpond.metadata.records import BrokerEndpoint


class NodeInfo:
    """One node. Its id, rack and incarnation never change; the rest is filled in while it starts."""

    __slots__ = ("cluster_id", "end_points", "incarnation_id", "node_id", "rack")

    def __init__(
        self,
        *,
        node_id: NodeId,
        incarnation_id: UUID,
        cluster_id: str = "",
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.rack = rack
        # Tells this process from earlier and later ones with the same node id.
        self.incarnation_id = incarnation_id
        # Read from the log directories at the start.
        self.cluster_id = cluster_id
        # By listener: the addresses that its clients are told to use. Known once the listeners are open.
        self.end_points: Mapping[str, BrokerEndpoint] = {}
