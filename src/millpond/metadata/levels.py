"""Which facts may be written at which level of ``millpond.version``.

Nodes of two releases are one cluster for as long as an upgrade takes, and any of them may have to read what
the controller wrote; a type of record that a node does not know is an error there. So every type and version
of a record belongs to the level at which it came, the level that is in force is a fact itself, and the
controller writes nothing above it. An operator raises the level when all nodes are new.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from millpond.base.errors import UnsupportedVersion
from millpond.base.kafka_encoding import Reader
from millpond.metadata.families import FamilyRecord
from millpond.metadata.records import MetadataRecord
from millpond.metadata.topic_configs import DELAY_ENABLE

MILLPOND_VERSION: Final = "millpond.version"

# 0 is what the first release that made clusters reads; 1 came with queues in a cluster.
QUEUES: Final = 1
# Eligible leaders are read by every release, but a controller that does not know how to keep them would leave
# as eligible who no longer is.
ELIGIBLE_LEADERS: Final = 2
# Nodes are believed to be nodes when they have proved it by the cluster's secret.
PEER_PROOF: Final = 3
# A node that can work at this level serves as no leader when the controller has not answered it for
# broker.silence.timeout.ms; older ones go on for a whole session.
SHORT_LEASES: Final = 3
# Partitions name the directories that their replicas lie in, and nodes those of theirs that are offline.
# A controller that does not know what that means would let replicas lead whose disk has failed.
DIRECTORIES: Final = 3
# A node that can work at this level passes on what two others have to say to each other about queues.
RELAYED_QUEUES: Final = 3
# Several replicas may be last known leaders, also while a partition has a leader. An older controller elects
# none of several.
SEVERAL_LAST_KNOWN_LEADERS: Final = 3
# Topics may have ``millpond.delay.enable``. Their logs hold control batches with a sequence, and their
# leaders ask the hosts of ``__timers``; an older node knows neither.
DELAYS: Final = 3
NEWEST: Final = DIRECTORIES

# By type and version of a record of Kafka; a family of records says its own level (``families.py``).
LEVELS: Final[Mapping[tuple[int, int], int]] = MappingProxyType(
    {
        (0, 3): 0,  # RegisterBroker
        (1, 0): 0,  # UnregisterBroker
        (2, 0): 0,  # Topic
        (3, 0): 0,  # Partition
        (3, 1): 0,
        (3, 2): 0,
        (4, 0): 0,  # Config
        (5, 0): 0,  # PartitionChange
        (5, 1): 0,
        (5, 2): 0,
        (9, 0): 0,  # RemoveTopic
        (11, 0): 0,  # UserScramCredential
        (12, 0): 0,  # FeatureLevel
        (14, 0): 0,  # ClientQuota
        (15, 0): 0,  # ProducerIds
        (17, 2): 0,  # BrokerRegistrationChange
        (20, 0): 0,  # NoOp
        (22, 0): 0,  # RemoveUserScramCredential
        (27, 0): 0,  # RegisterController
    }
)


def level_of(record: MetadataRecord, value: bytes) -> int:
    """Return the level that a record belongs to; ``value`` is the record encoded."""
    if isinstance(record, FamilyRecord):
        return record.family.level
    reader = Reader(value)
    reader.unsigned()  # the frame's version
    return LEVELS[reader.unsigned(), reader.unsigned()]


def check_topic_settings(overrides: Mapping[str, str], features: Mapping[str, int]) -> None:
    """Raises ``UnsupportedVersion`` if a topic's overrides need a higher level than the one in force."""
    level = features.get(MILLPOND_VERSION, 0)
    if level < DELAYS and overrides.get(DELAY_ENABLE, "false").strip().lower() == "true":
        raise UnsupportedVersion(
            f"{DELAY_ENABLE}=true needs level {DELAYS} of {MILLPOND_VERSION} and the cluster is at {level}: "
            "when every node runs the new version, run `millpond cluster upgrade`"
        )


def check_level(
    records: Iterable[MetadataRecord], values: Iterable[bytes], features: Mapping[str, int]
) -> None:
    """Raises ``UnsupportedVersion`` if one of these records is above the level in force."""
    level = features.get(MILLPOND_VERSION, 0)
    if level >= NEWEST:
        return
    needed = max(map(level_of, records, values), default=0)
    if needed > level:
        raise UnsupportedVersion(
            f"this needs level {needed} of {MILLPOND_VERSION} and the cluster is at {level}: when every node "
            "runs the new version, run `millpond cluster upgrade`"
        )
