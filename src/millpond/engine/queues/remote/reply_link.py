"""Passes answers to channels of other nodes (direct reply-to) and takes those for channels of this one."""

import logging
from collections.abc import Callable

from millpond.base import limits
from millpond.base.errors import MillpondError, PeerUnreachable, ShuttingDown
from millpond.base.ids import NodeId
from millpond.engine.queues.peer_requests import PassReply
from millpond.engine.queues.remote.message_batches import MessageBatches
from millpond.engine.queues.services import QueueServices
from millpond.message.hub import Message

log = logging.getLogger(__name__)


class ReplyLink:
    """Nothing is kept: an answer that cannot be passed on is lost, as in RabbitMQ."""

    def __init__(self, engine: QueueServices, batches: MessageBatches) -> None:
        self._engine = engine
        self._batches = batches
        # Answers that are on their way to other nodes.
        self._count = 0
        # Takes answers for channels of this node, by the keys of their addresses.
        self.on_reply: Callable[[str, Message], None] | None = None
        engine.peer_handlers.serve(PassReply, self._on_pass_reply)

    def send(self, node: NodeId, key: str, message: Message) -> None:
        """Pass an answer on; the publisher does not learn whether it arrived.

        A client may publish to an address of a node that does not answer: what is too much is dropped.
        """
        if self._count >= limits.QUEUE_REPLIES_MAX:
            log.info("an answer for node %d is lost: too many are on their way", node)
            return
        self._count += 1
        try:
            self._engine.runtime.tasks.spawn(
                self._pass(node, key, message), name=f"reply to node {node}"
            )
        except ShuttingDown:
            self._count -= 1

    async def _pass(self, node: NodeId, key: str, message: Message) -> None:
        peers = self._engine.peers
        try:
            if peers is None:
                raise PeerUnreachable(f"node {node} is none of this node's peers")
            reply = PassReply(key=key, batch=self._batches.pack([message]))
            await peers.call(node, reply, timeout_ms=limits.QUEUE_HOST_ANSWER_MS_MAX)
        except MillpondError as error:
            log.info("an answer for node %d is lost: %s", node, error)
        finally:
            self._count -= 1

    async def _on_pass_reply(self, request: PassReply) -> None:
        if self.on_reply is not None:
            for message in self._batches.unpack(request.batch):
                self.on_reply(request.key, message)
