"""The one way to the controller: a command is decided here if this node is the controller, or asked for.

A *domain* is a kind of commands: topics, queues and users, requests of Kafka's administrators. It says how a
command is decided, how another node is asked to decide it, and when this node has applied the decision. The
caller of ``submit`` need not know which node decides: the answer comes when the decision holds on this node.

A command may be decided twice if the controller changes before it answers, as if a client had sent it twice;
a domain must bear that.
"""

from typing import Protocol, TypeVar

from millpond.base import limits
from millpond.base.errors import NotController
from millpond.engine.cluster.controller_link import ControllerLink
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.peers import PeerRequest

CommandT = TypeVar("CommandT")
ReplyT = TypeVar("ReplyT")
AnswerT = TypeVar("AnswerT")
CommandT_contra = TypeVar("CommandT_contra", contravariant=True)
AnswerT_co = TypeVar("AnswerT_co", covariant=True)


class Domain(Protocol[CommandT_contra, ReplyT, AnswerT_co]):
    """A kind of commands: ``ReplyT`` is what another controller answers, ``AnswerT`` what the caller gets."""

    async def decide(self, command: CommandT_contra) -> AnswerT_co:
        """Decide on the controller, and return when the decision is applied there. Raises ``NotController``
        if this node does not decide (yet, or any more), or why the command is refused.
        """
        ...

    def request(self, command: CommandT_contra) -> PeerRequest[ReplyT]:
        """Make the request by which another node is asked to decide."""
        ...

    async def applied(self, command: CommandT_contra, reply: ReplyT) -> AnswerT_co:
        """Wait until this node has applied what the controller decided, and return the answer."""
        ...


class ControllerCommands:
    """Takes commands of all domains to the active controller."""

    def __init__(self, metadata: MetadataView, link: ControllerLink) -> None:
        self._metadata = metadata
        self._link = link

    async def submit(
        self,
        domain: Domain[CommandT, ReplyT, AnswerT],
        command: CommandT,
        *,
        timeout_ms: int = limits.CONTROLLER_WAIT_MS_MAX,
    ) -> AnswerT:
        """Have the controller decide. Return its answer when the decision is applied on this node.

        Raises why the controller refuses; ``NotController`` or ``PeerUnreachable`` if none answers in time.
        """
        if self._metadata.is_controller:
            try:
                return await domain.decide(command)
            except NotController:
                pass  # it was until a moment ago, or will be in a moment
        reply = await self._link.call(domain.request(command), timeout_ms=timeout_ms)
        return await domain.applied(command, reply)
