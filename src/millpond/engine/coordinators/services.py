"""The services of the node that coordinators of groups, transactions and share state use."""

from dataclasses import dataclass

from millpond.engine.cluster.membership import Membership
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.cluster.node_settings import NodeSettings
from millpond.engine.cluster.producer_ids import ProducerIds
from millpond.engine.cluster.topic_admin import TopicAdmin
from millpond.engine.partitions.partitions import Partitions
from millpond.engine.partitions.repairs import Repairs
from millpond.engine.partitions.topic_table import TopicTable
from millpond.engine.peers import PeerHandlers, Peers
from millpond.engine.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorServices:
    """The services that the node gives to every coordinator."""

    info: NodeInfo
    runtime: Runtime
    metadata: MetadataView
    settings: NodeSettings
    membership: Membership
    topic_admin: TopicAdmin
    producer_ids: ProducerIds
    topics: TopicTable
    partitions: Partitions
    repairs: Repairs
    peer_handlers: PeerHandlers
    peers: Peers | None
