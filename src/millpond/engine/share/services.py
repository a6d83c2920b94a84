"""What share groups may use of their node."""

from dataclasses import dataclass, fields

from millpond.engine.coordinators.groups import Groups
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.engine.partitions.partition_calls import PartitionCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareServices(CoordinatorServices):
    """The services of a coordinator, the consumer groups, and the way to leaders of other partitions."""

    groups: Groups
    partition_calls: PartitionCalls

    @classmethod
    def of(
        cls, services: CoordinatorServices, *, groups: Groups, partition_calls: PartitionCalls
    ) -> "ShareServices":
        """Add the two to a coordinator's services."""
        known = {one.name: getattr(services, one.name) for one in fields(services)}
        return cls(**known, groups=groups, partition_calls=partition_calls)
