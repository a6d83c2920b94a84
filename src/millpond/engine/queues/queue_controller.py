"""Has declarations decided and agreed on: on the active controller, one command after the other.

What is decided is in ``rabbit/controller.py``. What belongs to nodes that are gone is deleted, and queues are
brought to where they belong, by the node that is the controller then.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence

from millpond.base.errors import MillpondError, NotController
from millpond.base.ids import NodeId
from millpond.engine.queues.peer_requests import DecideOnQueues, QueueDecision
from millpond.engine.queues.services import QueueServices
from millpond.engine.runtime.backoff import Backoff
from millpond.metadata.image import Image
from millpond.metadata.led_together import decide_together
from millpond.metadata.records import MetadataRecord
from millpond.rabbit import controller as rules
from millpond.rabbit.broker import Broker
from millpond.rabbit.commands import Command, Decision
from millpond.rabbit.records import Fact, Policy, Queue

log = logging.getLogger(__name__)

# Before the controller tries again to clean up; longer each time.
_CLEAN_AGAIN_MS_MIN = 200
_CLEAN_AGAIN_MS_MAX = 10_000


class QueueController:
    """The controller's part in queues; on every node, and at work on the active one."""

    def __init__(self, engine: QueueServices, broker: Broker) -> None:
        self._engine = engine
        self._broker = broker
        self._lock = asyncio.Lock()
        self._has_begun = False
        self._has_new_policy = False
        # Whether a cleanup runs, and whether there is a reason to look again.
        self._is_cleaning = False
        self._is_wanted = False
        # Topics of queues with several priorities: a log each.
        self._laned: dict[str, None] = {}
        engine.peer_handlers.serve(DecideOnQueues, self._on_command)

    @property
    def life(self) -> str:
        """This node, in its present incarnation."""
        info = self._engine.info
        return rules.incarnation_of(info.node_id, info.incarnation_id)

    # --- a domain of the controller's commands -----------------------------------------------------

    async def decide(self, command: Command) -> Decision:
        """Decide a command of this node. Raises a ``BrokerRefusal``; ``NotController``."""
        return await self._carry_out(command, node=self._engine.info.node_id, life=self.life)

    def request(self, command: Command) -> DecideOnQueues:
        """Ask the controller to decide a command of this node."""
        return DecideOnQueues(node_id=self._engine.info.node_id, life=self.life, command=command)

    async def applied(self, _command: Command, reply: QueueDecision) -> Decision:
        """Wait until this node knows what was decided."""
        await self._engine.metadata.quorum.applied_beyond(reply.offset)
        return Decision(queue=reply.queue)

    async def _carry_out(self, command: Command, *, node: NodeId, life: str) -> Decision:
        """Decide and agree. Raises a ``BrokerRefusal``; ``NotController`` if this node does not decide."""
        if not self._engine.metadata.is_controller or not self._has_begun:
            raise NotController(f"node {self._engine.info.node_id} does not decide on queues now")
        async with self._lock:
            decision = rules.decide_command(self._broker, self._engine.metadata.image, command)
            await self.agree(decision.facts, node=node, life=life)
        return decision

    async def agree(self, facts: Sequence[Fact], *, node: NodeId, life: str) -> None:
        """Have these facts agreed on, with what belongs to them."""
        if facts:
            await self._engine.topic_admin.agree_on(
                lambda head: rules.records_of(
                    facts,
                    self._broker,
                    head,
                    node=node,
                    incarnation=life,
                    new_id=self._engine.runtime.rng.uuid4,
                )
            )

    async def _on_command(self, request: DecideOnQueues) -> QueueDecision:
        decision = await self._carry_out(request.command, node=request.node_id, life=request.life)
        return QueueDecision(offset=self._engine.metadata.quorum.applied - 1, queue=decision.queue)

    # --- what ends by itself -------------------------------------------------------------------------

    def on_change(self, before: Image, after: Image) -> None:
        """Nodes have come or gone, or leaders have moved: there may be something to clean up."""
        if not self._engine.metadata.is_controller:
            return
        nodes_changed = before.brokers is not after.brokers
        is_changed = before.slices is not after.slices
        policies_changed = is_changed and self._has_new_policy
        if (
            (nodes_changed and any(rules.find_orphaned(self._broker, self._lives())))
            or (before.topics is not after.topics and any(self._apart(after)))
            or (
                (nodes_changed or policies_changed)
                and any(rules.find_misplaced(self._broker, after))
            )
        ):
            self.clean_up_soon()
        self._has_new_policy = False

    def note(self, fact: Fact) -> None:
        """A fact has come to be known."""
        if isinstance(fact, Queue) and rules.has_priorities(fact):
            self._laned[fact.topic] = None
        self._has_new_policy = self._has_new_policy or isinstance(fact, Policy)

    def clean_up_soon(self) -> None:
        """Delete what no incarnation holds, and bring queues together whose priorities are led apart."""
        if (
            not self._has_begun
            or not self._engine.runtime.running
            or not self._engine.metadata.is_controller
        ):
            return
        self._is_wanted = True
        if self._is_cleaning:
            return  # what is under way looks once more
        self._is_cleaning = True
        self._engine.runtime.tasks.spawn(self._clean_up(), name="queues that end")

    async def _clean_up(self) -> None:
        """Until nothing is left to do, as long as this node decides: no other node will."""
        pause = Backoff(_CLEAN_AGAIN_MS_MIN)
        try:
            while (
                self._is_wanted
                and self._engine.runtime.running
                and self._engine.metadata.is_controller
            ):
                self._is_wanted = False
                try:
                    await self.clean_up()
                except MillpondError as error:
                    pause_ms = pause.extend(0, _CLEAN_AGAIN_MS_MAX)
                    log.info("queues are not cleaned up: %s; again in %d ms", error, pause_ms)
                    self._is_wanted = True
                    await asyncio.sleep(pause_ms / 1000)
        finally:
            self._is_cleaning = False

    async def begin(self) -> None:
        """What is declared is known here. A node that is alone removes what its last incarnation left."""
        self._has_begun = True
        if not self._engine.metadata.is_alone:
            self.clean_up_soon()
            return
        async with self._lock:
            orphaned = rules.find_orphaned(self._broker, self._others())
            await self.agree(list(orphaned), node=-1, life="")

    async def clean_up(self) -> None:
        """As ``clean_up_soon``, now."""
        async with self._lock:
            orphaned = rules.find_orphaned(self._broker, self._lives())
            await self.agree(list(orphaned), node=-1, life="")
        image = self._engine.metadata.image
        if any(self._apart(image)) or any(rules.find_misplaced(self._broker, image)):
            await self._engine.topic_admin.agree_on(
                lambda head: [
                    *self._apart(head),
                    *rules.decide_moves(self._broker, head, self._engine.settings.rules),
                ]
            )

    def _lives(self) -> set[str]:
        return {self.life} | self._others()

    def _others(self) -> set[str]:
        """What a node that is alone has written of itself may be of an earlier incarnation."""
        own = f"{self._engine.info.node_id}."
        present = rules.incarnations_in(self._engine.metadata.image)
        return {one for one in present if not one.startswith(own)}

    def _apart(self, image: Image) -> Iterator[MetadataRecord]:
        for name in tuple(self._laned):
            topic = image.topics.get(name)
            if topic is None:
                self._laned.pop(name, None)
            else:
                yield from decide_together(image, topic)
