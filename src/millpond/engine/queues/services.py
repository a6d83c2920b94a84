"""What queues may use of their node."""

from typing import Protocol

from millpond.engine.cluster.commands import ControllerCommands
from millpond.engine.cluster.membership import Membership
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.cluster.node_settings import NodeSettings
from millpond.engine.cluster.topic_admin import TopicAdmin
from millpond.engine.partitions.partitions import Partitions
from millpond.engine.partitions.repairs import Repairs
from millpond.engine.peers import PeerHandlers, Peers
from millpond.engine.runtime.flusher import Flusher
from millpond.engine.runtime.runtime import Runtime


class LogServices(Protocol):
    """The services of a node that the log of a queue is built on."""

    runtime: Runtime
    membership: Membership
    flusher: Flusher
    partitions: Partitions
    repairs: Repairs


class QueueServices(LogServices, Protocol):
    """The services of a node that queues are built on."""

    info: NodeInfo
    metadata: MetadataView
    settings: NodeSettings
    topic_admin: TopicAdmin
    commands: ControllerCommands
    peer_handlers: PeerHandlers
    peers: Peers | None
