"""What an administrator changes beside topics and settings: quotas, credentials, features, placement.

Decisions are those of ``millpond.metadata``; here they are proposed to the metadata log and carried out. A
change is durable and in force when its coroutine returns.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence

from millpond.base.errors import (
    ClusterAuthorizationFailed,
    CredentialNotFound,
    DuplicateResource,
    InvalidUpdateVersion,
    MillpondError,
    PolicyViolation,
)
from millpond.base.ids import NodeId
from millpond.engine.cluster.min_isr import log_one_min_isr
from millpond.engine.peers import PeerProof
from millpond.engine.quorum.quorum_host import QuorumHost
from millpond.metadata.client_records import QuotaEntity, UserScramCredentialRecord
from millpond.metadata.credentials import (
    RemoveCredential,
    SetCredential,
    decide_alter_credentials,
)
from millpond.metadata.elections import (
    ElectionResult,
    Rules,
    decide_elections,
    decide_one_min_isr,
)
from millpond.metadata.features import FeatureChange, decide_update_features
from millpond.metadata.fencing import Fencing
from millpond.metadata.image import Image, PartitionImage, apply
from millpond.metadata.levels import MILLPOND_VERSION, PEER_PROOF
from millpond.metadata.nodes import decide_unregister
from millpond.metadata.partition_change import Election
from millpond.metadata.quotas import (
    IP,
    AlterQuotas,
    QuotaFilter,
    QuotaResult,
    decide_alter_quotas,
    find_quotas,
)
from millpond.metadata.reassignments import (
    Reassignment,
    decide_reassign,
    find_reassignments,
)

__all__ = [
    "AlterQuotas",
    "ClusterAdmin",
    "Election",
    "ElectionResult",
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

    def __init__(
        self,
        host: Callable[[], QuorumHost],
        node_id: NodeId,
        rules: Callable[[Image], Rules],
        proof: PeerProof | None = None,
        fencings: Callable[[], Mapping[NodeId, Fencing]] = dict,
    ) -> None:
        self._proof = proof
        self._fencings = fencings
        self._host = host
        self._node_id = node_id
        self._rules = rules

    def fencings(self) -> Mapping[NodeId, Fencing]:
        """Why each fenced node is fenced, if this node is the active controller; otherwise nothing."""
        return self._fencings()

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
        decide_update_features(host.head, changes, node_id=self._node_id)
        await self._check_proofs(host.head, changes)
        records = decide_update_features(host.head, changes, node_id=self._node_id)
        if not validate_only:
            after = apply(host.head, records)
            one_min_isr = decide_one_min_isr(after, self._rules)
            log_one_min_isr(after, one_min_isr)
            await host.propose((*records, *one_min_isr))

    async def check_voter(self, node: NodeId, addresses: Iterable[tuple[str, int]]) -> None:
        """Raises ``ClusterAuthorizationFailed`` unless this node is at all of these addresses.

        A client says so, and voters will connect to them. What the node itself has registered is believed;
        elsewhere it has to prove that it is the one.
        """
        broker = self._host().image.brokers.get(node)
        known = {(one.host, one.port) for one in broker.end_points} if broker is not None else set()
        for host, port in dict.fromkeys(addresses):
            # Without a way to ask there is no connection that could be led astray.
            if (host, port) in known or self._proof is None:
                continue
            reason = await self._proof.reason_against(node, (host, port))
            if reason is not None:
                raise ClusterAuthorizationFailed(
                    f"node {node} has not registered {host}:{port} as its address, and has not proved "
                    f"that it is there: {reason}"
                )

    async def _check_proofs(self, image: Image, changes: Sequence[FeatureChange]) -> None:
        """From the level on at which nodes must prove that they are nodes, every one must be able to."""
        rises = image.features.get(MILLPOND_VERSION, 0) < PEER_PROOF and any(
            change.name == MILLPOND_VERSION and change.level >= PEER_PROOF for change in changes
        )
        if not rises or self._proof is None:
            return
        nodes = sorted(image.brokers.keys() - {self._node_id})
        async with asyncio.TaskGroup() as group:
            asked = {node: group.create_task(self._proof.reason_against(node)) for node in nodes}
        for node, task in asked.items():
            reason = task.result()
            if reason is not None:
                raise InvalidUpdateVersion(
                    f"Invalid update version {PEER_PROOF} for feature {MILLPOND_VERSION}. From there on "
                    f"nodes prove by the cluster's secret that they are nodes, and broker {node} and this "
                    f"controller (node {self._node_id}) could not: {reason}. Give every node the same "
                    "cluster.secret, or remove nodes that are gone for good"
                )

    # --- placement and leaders -----------------------------------------------------------------------

    async def reassign(
        self, commands: Sequence[Reassignment], *, allow_factor_change: bool = True
    ) -> Sequence[MillpondError | None]:
        """Set partitions on their way to other nodes, or back; for each why not, or None.

        Returns when that is agreed; ``reassignments`` tells what is still on its way.
        """
        host = self._host()
        decision = decide_reassign(
            host.head,
            commands,
            rules=self._rules(host.head),
            allow_factor_change=allow_factor_change,
        )
        await host.propose(decision.records)
        return decision.errors

    def reassignments(
        self, wanted: Iterable[tuple[str, Iterable[int]]] | None
    ) -> list[tuple[str, int, PartitionImage]]:
        """The partitions that are on their way: all, or those of these."""
        return find_reassignments(self._host().image, wanted)

    async def elect(
        self, election: Election, targets: Iterable[tuple[str, int]] | None
    ) -> Sequence[ElectionResult]:
        """Elect leaders of these partitions, or wherever it is needed."""
        host = self._host()
        records, results = decide_elections(host.head, election, targets, self._rules(host.head))
        await host.propose(records)
        return results

    async def unregister(self, node: NodeId) -> None:
        """Forget a node. Raises ``NodeNotRegistered``, ``PolicyViolation``."""
        host = self._host()
        records = decide_unregister(host.head, node, self._rules(host.head))
        if len(host.head.brokers) == 1:
            raise PolicyViolation(f"broker {node} is this cluster's only one, and it is running")
        await host.propose(records)


def _is_address(name: str) -> bool:
    """Kafka also takes host names that resolve; an address that must be looked up is not waited for here."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True
