"""The node as front-ends see it: its services by name."""

from typing import Protocol

from millpond.engine.cluster.admin import ClusterAdmin
from millpond.engine.cluster.producer_ids import ProducerIds
from millpond.engine.cluster.settings_admin import SettingsAdmin
from millpond.engine.coordinators.groups import Groups
from millpond.engine.coordinators.transactions import Transactions
from millpond.engine.limits.quotas import Quotas
from millpond.engine.limits.telemetry import Telemetry
from millpond.engine.partitions.deletions import Deletions
from millpond.engine.partitions.disk_health import DiskHealth
from millpond.engine.partitions.disk_view import DiskView
from millpond.engine.queues.services import QueueServices
from millpond.engine.replication.replicas import Replicas
from millpond.engine.share.share_groups import ShareGroups
from millpond.engine.timers.timers import Timers
from millpond.log.log_dirs import LogDirs


class Engine(QueueServices, Protocol):
    """What a front-end may use of its node, beside what its queues may. ``Node`` is one."""

    log_dirs: LogDirs
    admin: ClusterAdmin
    settings_admin: SettingsAdmin
    producer_ids: ProducerIds
    deletions: Deletions
    disk: DiskHealth
    disk_view: DiskView
    replicas: Replicas
    groups: Groups
    transactions: Transactions
    share: ShareGroups
    timers: Timers
    quotas: Quotas
    telemetry: Telemetry
