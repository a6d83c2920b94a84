"""What an administrator changes beside topics and settings: quotas, credentials, features, placement.

Decisions are those of ``millpond.metadata``; here they are proposed to the metadata log and carried out. A
change is durable and in force when its coroutine returns.
"""

import ipaddress
from collections.abc import Callable, Mapping, Sequence

from millpond.base.errors import (
    CredentialNotFound,
    DuplicateResource,
    MillpondError,
)
from millpond.base.ids import NodeId
from millpond.engine.quorum_host import QuorumHost
from millpond.metadata.client_records import QuotaEntity, UserScramCredentialRecord
from millpond.metadata.credentials import (
    RemoveCredential,
    SetCredential,
    decide_alter_credentials,
)
from millpond.metadata.features import FeatureChange, decide_update_features
from millpond.metadata.quotas import (
    IP,
    AlterQuotas,
    QuotaFilter,
    QuotaResult,
    decide_alter_quotas,
    find_quotas,
)
from millpond.metadata.reassignments import Reassignment, check_reassignment

__all__ = [
    "AlterQuotas",
    "ClusterAdmin",
    "FeatureChange",
    "QuotaEntity",
    "QuotaFilter",
    "QuotaResult",
    "Reassignment",
    "RemoveCredential",
    "SetCredential",
]


class ClusterAdmin:
    """The administrator's door. ``host`` gives the metadata log, or raises while there is none."""

    def __init__(self, host: Callable[[], QuorumHost], node_id: NodeId) -> None:
        self._host = host
        self._node_id = node_id

    async def alter_quotas(
        self, commands: Sequence[AlterQuotas], *, validate_only: bool = False
    ) -> Sequence[QuotaResult]:
        """Change quotas, or only say what would happen."""
        host = self._host()
        names = {name for one in commands for kind, name in one.entity if kind == IP and name}
        decision = decide_alter_quotas(
            host.head, commands, known_addresses=filter(_is_address, names)
        )
        if not validate_only:
            await host.propose(decision.records)
        return decision.results

    def find_quotas(
        self, filters: Sequence[QuotaFilter], *, strict: bool
    ) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
        """The entities that fit, with their quotas. Raises ``InvalidRequest``, ``UnsupportedVersion``."""
        return find_quotas(self._host().image, filters, strict=strict)

    async def alter_credentials(
        self, commands: Sequence[RemoveCredential | SetCredential]
    ) -> Sequence[tuple[str, MillpondError | None]]:
        """Change who may log in; for each user what is wrong, or None."""
        host = self._host()
        decision = decide_alter_credentials(host.head, commands)
        await host.propose(decision.records)
        return decision.results

    def credentials(
        self, users: Sequence[str]
    ) -> dict[str, list[UserScramCredentialRecord] | MillpondError]:
        """The credentials of these users, or of all that have any."""
        found: dict[str, list[UserScramCredentialRecord] | MillpondError] = {}
        known: dict[str, list[UserScramCredentialRecord]] = {}
        for (user, _), credential in sorted(self._host().image.scram_credentials.items()):
            known.setdefault(user, []).append(credential)
        for user in users or known:
            if user in found:
                found[user] = DuplicateResource(
                    "Cannot describe SCRAM credentials for the same user twice in a single request: "
                    f"{user}"
                )
            else:
                found[user] = known.get(user) or CredentialNotFound(
                    f"Attempt to describe a user credential that does not exist: {user}"
                )
        return found

    async def update_features(
        self, changes: Sequence[FeatureChange], *, validate_only: bool = False
    ) -> None:
        """Bring features to other levels, all or none. Raises ``InvalidUpdateVersion``."""
        host = self._host()
        records = decide_update_features(host.head, changes, node_id=self._node_id)
        if not validate_only:
            await host.propose(records)

    def reassign(self, command: Reassignment) -> MillpondError | None:
        """Keep a partition on these nodes; why that cannot be, or None when it is so."""
        return check_reassignment(self._host().image, command)


def _is_address(name: str) -> bool:
    """Kafka also takes host names that resolve; an address that must be looked up is not waited for here."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True
