"""A client of Kafka's protocol, for Millpond and for any other broker that speaks it.

``Producer``, ``Consumer`` and ``Admin`` are for asyncio; ``BlockingProducer``, ``BlockingConsumer`` and
``BlockingAdmin`` are the same for code that has no event loop. Below them are ``Cluster`` (connections and
metadata, which several clients may share), ``Fetcher`` (batches as they are in the log), ``fetch_raw`` and
``produce_raw`` (bytes in and out). See docs/client.md.

Modules are imported when one of their names is first used: a command that only lists topics does not import
consumers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millpond.base.ids import TopicPartition
    from millpond.client._delivery import Appended, Delivery
    from millpond.client._fetch_loop import RawFetch
    from millpond.client._model import (
        BrokerInfo,
        ClusterInfo,
        FencingInfo,
        PartitionInfo,
        TopicInfo,
    )
    from millpond.client.admin import (
        EARLIEST,
        LATEST,
        MAX_TIMESTAMP,
        Admin,
        ConfigEntry,
        ConfigOperation,
        CreatedTopic,
        DamageInfo,
        ElectionType,
        FeatureInfo,
        LogDirInfo,
        NewTopic,
        OffsetAt,
        QuorumInfo,
        QuorumReplica,
        Reassignment,
        ResourceType,
    )
    from millpond.client.aio import Cluster
    from millpond.client.assignors import MemberSubscription
    from millpond.client.blocking import BlockingClient
    from millpond.client.blocking_admin import BlockingAdmin
    from millpond.client.blocking_consumer import BlockingConsumer
    from millpond.client.blocking_producer import BlockingDelivery, BlockingProducer
    from millpond.client.config import (
        ACKS_ALL,
        ACKS_LEADER,
        ACKS_NONE,
        ConsumerConfig,
        ProducerConfig,
    )
    from millpond.client.consumer import Consumer
    from millpond.client.errors import (
        BadConfig,
        BrokerRefused,
        BufferFull,
        ClientError,
        CommitRefused,
        ConnectionLost,
        NoBroker,
        NoOffset,
        NotSerializable,
        OutOfTime,
        ProducerFenced,
        RecordTooLarge,
        TransactionBroken,
        WrongState,
    )
    from millpond.client.fetcher import FetchedBatch, Fetcher, Isolation, WhenOutOfRange
    from millpond.client.groups import GroupInfo, GroupMember, Groups, GroupSummary
    from millpond.client.interceptors import ConsumerInterceptor, ProducerInterceptor
    from millpond.client.producer import Producer
    from millpond.client.raw import fetch_raw, produce_raw
    from millpond.client.rebalance import RebalanceListener
    from millpond.client.records import (
        ConsumerRecord,
        GroupMetadata,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        ProducerRecord,
        RecordMetadata,
    )

__all__ = [
    "ACKS_ALL",
    "ACKS_LEADER",
    "ACKS_NONE",
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "Admin",
    "Appended",
    "BadConfig",
    "BlockingAdmin",
    "BlockingClient",
    "BlockingConsumer",
    "BlockingDelivery",
    "BlockingProducer",
    "BrokerInfo",
    "BrokerRefused",
    "BufferFull",
    "ClientError",
    "Cluster",
    "ClusterInfo",
    "CommitRefused",
    "ConfigEntry",
    "ConfigOperation",
    "ConnectionLost",
    "Consumer",
    "ConsumerConfig",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "CreatedTopic",
    "DamageInfo",
    "Delivery",
    "ElectionType",
    "FeatureInfo",
    "FencingInfo",
    "FetchedBatch",
    "Fetcher",
    "GroupInfo",
    "GroupMember",
    "GroupMetadata",
    "GroupSummary",
    "Groups",
    "Isolation",
    "LogDirInfo",
    "MemberSubscription",
    "NewTopic",
    "NoBroker",
    "NoOffset",
    "NotSerializable",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetAt",
    "OutOfTime",
    "PartitionInfo",
    "Producer",
    "ProducerConfig",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerRecord",
    "QuorumInfo",
    "QuorumReplica",
    "RawFetch",
    "Reassignment",
    "RebalanceListener",
    "RecordMetadata",
    "RecordTooLarge",
    "ResourceType",
    "TopicInfo",
    "TopicPartition",
    "TransactionBroken",
    "WhenOutOfRange",
    "WrongState",
    "fetch_raw",
    "produce_raw",
]

_MODULES = {
    "millpond.base.ids": "TopicPartition",
    "millpond.client._delivery": "Appended Delivery",
    "millpond.client._fetch_loop": "RawFetch",
    "millpond.client._model": "BrokerInfo ClusterInfo FencingInfo PartitionInfo TopicInfo",
    "millpond.client.admin": (
        "EARLIEST LATEST MAX_TIMESTAMP Admin ConfigEntry ConfigOperation "
        "CreatedTopic DamageInfo ElectionType FeatureInfo LogDirInfo NewTopic OffsetAt QuorumInfo "
        "QuorumReplica Reassignment ResourceType"
    ),
    "millpond.client.aio": "Cluster",
    "millpond.client.assignors": "MemberSubscription",
    "millpond.client.blocking": "BlockingClient",
    "millpond.client.blocking_admin": "BlockingAdmin",
    "millpond.client.blocking_consumer": "BlockingConsumer",
    "millpond.client.blocking_producer": "BlockingDelivery BlockingProducer",
    "millpond.client.config": "ACKS_ALL ACKS_LEADER ACKS_NONE ConsumerConfig ProducerConfig",
    "millpond.client.consumer": "Consumer",
    "millpond.client.errors": (
        "BadConfig BrokerRefused BufferFull ClientError CommitRefused ConnectionLost "
        "NoBroker NoOffset NotSerializable OutOfTime ProducerFenced RecordTooLarge "
        "TransactionBroken WrongState"
    ),
    "millpond.client.fetcher": "FetchedBatch Fetcher Isolation WhenOutOfRange",
    "millpond.client.groups": "GroupInfo GroupMember Groups GroupSummary",
    "millpond.client.interceptors": "ConsumerInterceptor ProducerInterceptor",
    "millpond.client.producer": "Producer",
    "millpond.client.raw": "fetch_raw produce_raw",
    "millpond.client.rebalance": "RebalanceListener",
    "millpond.client.records": (
        "ConsumerRecord GroupMetadata OffsetAndMetadata OffsetAndTimestamp "
        "ProducerRecord RecordMetadata"
    ),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _PLACES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(module), name)
    globals()[name] = found
    return found
