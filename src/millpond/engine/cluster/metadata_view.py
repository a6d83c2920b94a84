"""The cluster's metadata as this node has applied them, for every part that reads or watches them."""

import logging
from collections.abc import Callable
from typing import Any

from millpond.base.clock import Clock
from millpond.base.errors import ShuttingDown
from millpond.base.ids import NodeId
from millpond.engine.cluster.image_waiters import ImageWaiters
from millpond.engine.cluster.node_settings import NodeSettings
from millpond.engine.quorum.quorum_host import QuorumHost
from millpond.engine.quorum.quorum_setup import address_of, bootstrap_of
from millpond.engine.quorum.quorum_view import QuorumDescription, describe_quorum
from millpond.metadata.group_configs import group_setting
from millpond.metadata.image import Image
from millpond.metadata.levels import MILLPOND_VERSION, PEER_PROOF
from millpond.metadata.records import RESOURCE_GROUP
from millpond.raft.messages import Answer, Request
from millpond.raft.voters import VoterSet

log = logging.getLogger(__name__)

Observer = Callable[[Image, Image], None]


class MetadataView:
    """Made before the metadata log is open: until ``open`` every question raises ``ShuttingDown``."""

    def __init__(self, settings: NodeSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._quorum: QuorumHost | None = None
        self._observers: list[Observer] = []
        self._waiters = ImageWaiters()
        # Whether this node has applied all records that were committed when it started.
        self.has_caught_up = False

    # --- the quorum --------------------------------------------------------------------------------

    def open(self, quorum: QuorumHost) -> None:
        """Begin to read the metadata log through this host."""
        self._quorum = quorum

    @property
    def is_open(self) -> bool:
        """Whether the metadata log is open."""
        return self._quorum is not None

    @property
    def quorum(self) -> QuorumHost:
        """This node's quorum host, where changes are proposed."""
        if self._quorum is None:
            raise ShuttingDown("the broker has not started")
        return self._quorum

    async def answer_quorum(self, request: Request) -> Answer:
        """Answer another voter or observer."""
        return await self.quorum.answer(request)

    async def leader_changed(self, leader: NodeId | None) -> None:
        """Wait until another node than this one leads the quorum, as far as is known here."""
        await self.quorum.leader_changed(leader)

    @property
    def is_alone(self) -> bool:
        """Whether this node is its own quorum."""
        return self.quorum.is_alone

    @property
    def is_controller(self) -> bool:
        """Whether this node is the active controller: changes of the metadata are decided here."""
        return self.quorum.is_active

    @property
    def controller_id(self) -> NodeId | None:
        """The node that leads the quorum, as far as is known here; None also before the start."""
        return self._quorum.leader_id if self._quorum is not None else None

    @property
    def voters(self) -> VoterSet:
        """The voters of the quorum, as far as this node knows."""
        return self.quorum.voters

    def describe_quorum(self) -> QuorumDescription:
        """The quorum as its leader sees it. Raises ``NotLeader`` on another node."""
        return describe_quorum(
            self.quorum.replica,
            monotonic_ms=self._clock.monotonic_ms(),
            now_ms=self._clock.now_ms(),
        )

    # --- the image ---------------------------------------------------------------------------------

    @property
    def image(self) -> Image:
        """The committed metadata. An image never changes: ask again for a newer one."""
        return self.quorum.image

    @property
    def end_offset(self) -> int:
        """The end of the metadata log: grows with each change, also over restarts."""
        return self.quorum.end_offset

    def observe(self, call: Observer) -> None:
        """Call this with (before, after) whenever the image changes, on the loop."""
        self._observers.append(call)

    def tell(self, before: Image, after: Image) -> None:
        """Call the observers after a change; one that fails does not keep the others from being called."""
        for observer in (*self._observers, self._waiters.on_change):
            try:
                observer(before, after)
            except Exception:
                log.exception("metadata: a change could not be acted upon")

    async def until(self, holds: Callable[[], bool], *, timeout_ms: int) -> bool:
        """Wait until a condition on the image holds. Return whether it does."""
        return await self._waiters.until(holds, timeout_ms=timeout_ms)

    def group_setting(self, group_id: str, name: str) -> Any:
        """Return the value in force of a group's setting."""
        overrides = self.image.config_of(RESOURCE_GROUP, group_id)
        return group_setting(name, overrides, self._settings.broker)

    def address_of(self, node: NodeId, listener: str | None = None) -> tuple[str, int] | None:
        """Return the address of a node: as it registered, on this listener if it has it, or as a voter."""
        bootstrap = bootstrap_of(self._settings.broker)
        if node in bootstrap:
            return bootstrap[node]
        return address_of(self.image, self.voters, node, listener)

    # --- what nodes must prove to each other ---------------------------------------------------------

    @property
    def requires_proof(self) -> bool:
        """Whether peers that ask must have proved that they belong to this cluster.

        That holds from level 3 of ``millpond.version`` on: nodes of releases before it cannot prove anything.
        Until this node has caught up, its own copy of the metadata says which level holds; a node that has no
        metadata yet requires proof.
        """
        if self._quorum is None:
            return True
        agreed = self._quorum.image.features
        if agreed.get(MILLPOND_VERSION, 0) >= PEER_PROOF:
            return True
        if self.has_caught_up and agreed:
            return False
        local = self._quorum.local_image.features
        return not local or local.get(MILLPOND_VERSION, 0) >= PEER_PROOF

    @property
    def requires_proof_of_answers(self) -> bool:
        """Whether peers that this node asks must have proved it, too.

        A node that has no metadata yet takes answers from the addresses in its settings, also of nodes of
        earlier releases: it may join a cluster that is being upgraded.
        """
        has_metadata = self._quorum is not None and bool(
            self._quorum.image.features or self._quorum.local_image.features
        )
        return has_metadata and self.requires_proof
