"""A client of Kafka's protocol, for Millpond and for any other broker that speaks it.

``Producer``, ``Consumer`` and ``Admin`` are for asyncio; ``BlockingProducer``, ``BlockingConsumer`` and
``BlockingAdmin`` are the same for code that has no event loop. Below them are ``Cluster`` (connections and
metadata, which several clients may share), ``Fetcher`` (batches as they lie in the log), ``fetch_raw`` and
``produce_raw`` (bytes in and out). See docs/client.md.
"""

from millpond.base.ids import TopicPartition
from millpond.client._model import BrokerInfo, ClusterInfo, PartitionInfo, TopicInfo
from millpond.client.admin import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Admin,
    ConfigEntry,
    ConfigOperation,
    CreatedTopic,
    LogDirInfo,
    NewTopic,
    OffsetAt,
    ResourceType,
)
from millpond.client.aio import Cluster
from millpond.client.blocking import BlockingClient
from millpond.client.errors import BrokerRefused, ClientError, ConnectionLost, NoBroker, OutOfTime
from millpond.client.fetcher import FetchedBatch, Fetcher, Isolation, WhenOutOfRange
from millpond.client.groups import GroupInfo, GroupMember, Groups, GroupSummary
from millpond.client.producer import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Appended, Delivery, Producer

__all__ = [
    "ACKS_ALL",
    "ACKS_LEADER",
    "ACKS_NONE",
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "Admin",
    "Appended",
    "BlockingClient",
    "BrokerInfo",
    "BrokerRefused",
    "ClientError",
    "Cluster",
    "ClusterInfo",
    "ConfigEntry",
    "ConfigOperation",
    "ConnectionLost",
    "CreatedTopic",
    "Delivery",
    "FetchedBatch",
    "Fetcher",
    "GroupInfo",
    "GroupMember",
    "GroupSummary",
    "Groups",
    "Isolation",
    "LogDirInfo",
    "NewTopic",
    "NoBroker",
    "OffsetAt",
    "OutOfTime",
    "PartitionInfo",
    "Producer",
    "ResourceType",
    "TopicInfo",
    "TopicPartition",
    "WhenOutOfRange",
]
