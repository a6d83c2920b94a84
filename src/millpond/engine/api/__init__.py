"""The one door to the broker's core: what a front-end may ask, in words of no protocol.

``Engine`` is the node that is asked, by its services; the other names are values of questions and answers.
Those of groups, transactions, share groups, limits and the event loop have modules of their own here.
Front-ends import them from this package, so that where each is defined is the engine's own business.
"""

from millpond.engine.api.engine import Engine
from millpond.engine.cluster.admin import (
    AlterQuotas,
    Election,
    ElectionResult,
    QuotaFilter,
    QuotaResult,
    Reassignment,
    RemoveCredential,
    SetCredential,
)
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.partitions.disk_view import LogDirDescription, PartitionSize
from millpond.engine.partitions.publish import Appended
from millpond.engine.partitions.read import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    MAX_TIMESTAMP,
    AbortedTransaction,
    FoundOffset,
    PartitionRead,
)
from millpond.engine.partitions.topic_table import Topic
from millpond.engine.partitions.waiters import ReadWaiter
from millpond.engine.peers import Peers
from millpond.engine.quorum.quorum_view import QuorumDescription, ReplicaProgress
from millpond.metadata.configs import ConfigEntry, ConfigSource, ConfigType
from millpond.metadata.controller import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    AddPartitions,
    AlterConfigs,
    AlterOp,
    ConfigResult,
    CreateTopic,
    TopicResult,
)
from millpond.metadata.features import SUPPORTED as SUPPORTED_FEATURES
from millpond.metadata.features import Direction, FeatureChange, FeatureRange
from millpond.metadata.image import Image, PartitionImage, TopicImage
from millpond.metadata.levels import MILLPOND_VERSION
from millpond.metadata.records import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    BrokerEndpoint,
)
from millpond.replication.partition import Partition
from millpond.replication.serving import divergence

__all__ = [
    "EARLIEST",
    "EARLIEST_LOCAL",
    "INTERNAL_TOPICS",
    "LATEST",
    "MAX_TIMESTAMP",
    "METADATA_TOPIC",
    "MILLPOND_VERSION",
    "OFFSETS_TOPIC",
    "RESOURCE_BROKER",
    "RESOURCE_BROKER_LOGGER",
    "RESOURCE_CLIENT_METRICS",
    "RESOURCE_GROUP",
    "RESOURCE_TOPIC",
    "SHARE_STATE_TOPIC",
    "SUPPORTED_FEATURES",
    "TRANSACTIONS_TOPIC",
    "AbortedTransaction",
    "AddPartitions",
    "AlterConfigs",
    "AlterOp",
    "AlterQuotas",
    "Appended",
    "BrokerEndpoint",
    "ConfigEntry",
    "ConfigResult",
    "ConfigSource",
    "ConfigType",
    "CreateTopic",
    "Direction",
    "Election",
    "ElectionResult",
    "Engine",
    "FeatureChange",
    "FeatureRange",
    "FoundOffset",
    "Image",
    "LogDirDescription",
    "NodeInfo",
    "Partition",
    "PartitionImage",
    "PartitionRead",
    "PartitionSize",
    "Peers",
    "QuorumDescription",
    "QuotaFilter",
    "QuotaResult",
    "ReadWaiter",
    "Reassignment",
    "RemoveCredential",
    "ReplicaProgress",
    "SetCredential",
    "Topic",
    "TopicImage",
    "TopicResult",
    "divergence",
]
