"""This node's membership in its cluster: registration, heartbeats, controlled shutdown.

A node that is alone in its cluster only writes its own registration when that has changed. Any other node
registers with the controller before it acts on the metadata, is fenced until it has read that registration,
sends a heartbeat every ``broker.heartbeat.interval.ms``, and registers again when the controller does not
know it any more. Before it stops it asks the controller to move its leaderships, and waits for a limited
time. If so many voters have stopped that none can be elected, as when a whole cluster stops, it does not
wait.

If the controller does not answer for ``broker.silence.timeout.ms``, other nodes may lead this node's
partitions without its knowledge: it serves no partition as leader until it is answered again
(``is_cut_off``), and clients that wait for replicas here get an error. It keeps its data.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from millpond.base import limits
from millpond.base.clock import Clock
from millpond.base.errors import (
    DuplicateRegistration,
    InvalidRegistration,
    MillpondError,
    NodeNotRegistered,
    StaleBrokerEpoch,
    UnsupportedVersion,
    WrongCluster,
)
from millpond.base.ids import NodeId
from millpond.engine.cluster.controller_link import ControllerLink
from millpond.engine.cluster.process_watch import NodeWatch
from millpond.engine.peers import HeartbeatAnswer, NodeHeartbeat, RegisterNode
from millpond.engine.quorum.quorum_host import QuorumHost
from millpond.engine.runtime.loop_watch import LoopWatch
from millpond.engine.runtime.tasks import TaskOwner
from millpond.log.checkpoint import Registrations
from millpond.metadata.features import SUPPORTED
from millpond.metadata.image import BrokerImage, Image
from millpond.metadata.records import BrokerEndpoint
from millpond.metadata.sessions import OwnSession

log = logging.getLogger(__name__)

# So many heartbeats are sent, at least, and so many tries of one are made, in the time after which a node
# that gets no answer leads nothing.
_BEATS = 6
_ATTEMPTS = 3

# Refusals that retrying cannot cure; an operator has to act.
_HOPELESS = (WrongCluster, InvalidRegistration, UnsupportedVersion)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberParts:
    """The services of the node that membership uses."""

    node_id: NodeId
    rack: str | None
    host: Callable[[], QuorumHost]
    setting: Callable[[str], Any]
    cluster_id: Callable[[], str]
    # The log directories for partitions that could be opened.
    directory_ids: Callable[[], tuple[UUID, ...]]
    incarnation_id: Callable[[], UUID]
    # The registrations since which this node's disk has lost nothing; and where they are noted, so that the
    # next process knows them if this one is killed.
    kept_registrations: Callable[[], Registrations]
    note_registrations: Callable[[Registrations], None]
    # Replicas whose committed records are not on this node's disk any more; and that the controller knows it.
    lost_replicas: Callable[[], tuple[tuple[UUID, int], ...]]
    on_registered: Callable[[], None]
    link: ControllerLink
    tasks: TaskOwner
    clock: Clock
    loop_watch: LoopWatch
    # Other nodes that this one misses: leaders that it follows, and followers of what it leads.
    silent_leaders: Callable[[], tuple[NodeId, ...]]
    silent_followers: Callable[[], tuple[NodeId, ...]]
    # Called when the controller has not answered for so long that others may lead what this node led.
    on_cut_off: Callable[[], None]
    watch: NodeWatch | None = None
    # Whether the node can neither lead nor follow, because of its disks; and which directories take no
    # writes.
    is_offline: Callable[[], bool] = lambda: False
    offline_dirs: Callable[[], tuple[UUID, ...]] = lambda: ()


class Membership:
    """The membership of one node."""

    def __init__(self, parts: MemberParts) -> None:
        self._parts = parts
        self._end_points: tuple[BrokerEndpoint, ...] = ()
        # The epoch under which this process registered, which another process may have replaced since.
        self._epoch = -1
        self._must_register = True
        # The addresses that the controller was told, and what it last refused with.
        self._told: tuple[BrokerEndpoint, ...] | None = None
        self._refused: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._session = OwnSession(self._silence_ms)
        self._end_timer: asyncio.TimerHandle | None = None
        self._said_cut_off = False
        # Since when this node leads nothing for want of an answer; None while it may lead.
        self._cut_off_since_ms: int | None = None
        self._lease_watchers: list[Callable[[], None]] = []
        self._has_left = False
        # Whether the controller has said that it counts on this node no more.
        self._is_given_up = False
        self._joined: asyncio.Future[None] | None = None

    # --- what others may know ----------------------------------------------------------------------

    @property
    def broker_epoch(self) -> int:
        """The epoch under which this process has registered; -1 if it has not.

        Not what the metadata say of its number: another process may have registered under that.
        """
        if self._epoch >= 0:
            return self._epoch
        known = self._known
        return known.broker_epoch if known is not None and self._task is None else -1

    @property
    def has_registered(self) -> bool:
        """Whether this process has registered."""
        return self._epoch >= 0

    @property
    def is_fenced(self) -> bool:
        """Whether the cluster does not count on this node, now."""
        known = self._known
        return known is None or known.fenced or known.broker_epoch != self.broker_epoch

    @property
    def is_replaced(self) -> bool:
        """Whether another process has registered as this node since: what is said of it is meant for that."""
        known = self._known
        return (
            self._epoch >= 0
            and known is not None
            and known.incarnation_id != self._parts.incarnation_id()
        )

    @property
    def is_cut_off(self) -> bool:
        """Whether the controller has not answered for so long that others may lead what this node led."""
        return self._session.is_over(self._parts.clock.monotonic_ms())

    @property
    def cut_off_ms(self) -> int:
        """For how long this node has led nothing because the controller does not answer, or has given it up
        in a way that it has not read of; 0 while it may lead.
        """
        since_ms = self._cut_off_since_ms
        if since_ms is None or not self.is_cut_off:
            return 0
        return self._parts.clock.monotonic_ms() - since_ms

    def serving_nodes(self) -> frozenset[NodeId]:
        """Nodes that serve, as far as this one can tell. This node is not among them while it is cut off: a
        client that was told so and asks for the leader must not be sent back to it.
        """
        image = self._parts.host().image
        nodes = frozenset(broker.broker_id for broker in image.serving_brokers)
        return nodes - {self._parts.node_id} if self.is_cut_off else nodes

    def on_lease_end(self, watcher: Callable[[], None]) -> None:
        """Call this whenever the time is over for which this node leads without an answer."""
        self._lease_watchers.append(watcher)

    def hurry(self) -> None:
        """Send a heartbeat now, because a log directory went offline or came back."""
        self._news.set()

    async def joined(self) -> None:
        """Wait until the cluster counts on this node. Raises why that is impossible."""
        if self._joined is not None:
            await asyncio.shield(self._joined)

    def on_change(self, _before: Image, after: Image) -> None:
        """The metadata changed: perhaps others wait to hear that this node knows."""
        if self._task is None:
            if self._end_points and not self._has_left and self.is_needed:
                # A node that was alone has company: from now on it says that it is alive, like the others.
                self._begin()
            return
        known = after.brokers.get(self._parts.node_id)
        if (
            known is not None
            and known.broker_epoch == self._epoch
            and not known.fenced
            and self._joined is not None
            and not self._joined.done()
        ):
            log.info("node %d serves; epoch %d", self._parts.node_id, self._epoch)
            self._joined.set_result(None)
        if (known is not None and known.fenced) or any(
            one.in_controlled_shutdown and not one.fenced for one in after.brokers.values()
        ):
            self._news.set()

    # --- coming ------------------------------------------------------------------------------------

    @property
    def is_needed(self) -> bool:
        """Whether there are other nodes to join; a node that is alone asks no controller."""
        host = self._parts.host()
        return not host.is_alone or bool(host.image.brokers.keys() - {self._parts.node_id})

    async def register(self) -> None:
        """Become known to the cluster, and learn of it; nothing that was agreed about an earlier life of this
        node may be acted upon before. Raises why it can never be.
        """
        while not await self._try_to_register():
            await self._pause()

    def reachable_at(self, end_points: tuple[BrokerEndpoint, ...]) -> None:
        """Where clients and peers find this node, from now on."""
        self._end_points = end_points

    async def begin(self) -> None:
        """Begin to send heartbeats."""
        if self._task is None:
            self._begin()
        else:
            self._news.set()

    def _begin(self) -> None:
        self._joined = asyncio.get_running_loop().create_future()
        self._parts.loop_watch.start()
        self._task = self._parts.tasks.keep(self._run, name="membership")

    @property
    def refusal(self) -> str | None:
        """Why the controller did not register this node when it last asked, if so."""
        return self._refused if self._must_register else None

    async def _run(self) -> None:
        while True:
            began_ms = self._parts.clock.monotonic_ms()
            try:
                if self._must_register or self._told != self._end_points:
                    await self._try_to_register()
                if not self._must_register:
                    self._news.clear()
                    await self._beat(wants_stop=False)
            except (StaleBrokerEpoch, NodeNotRegistered) as error:
                log.warning("node %d registers again: %s", self._parts.node_id, error)
                self._must_register = True
                continue
            except _HOPELESS as error:
                log.error("node %d cannot join the cluster: %s", self._parts.node_id, error)
                if self._joined is not None and not self._joined.done():
                    self._joined.set_exception(error)
                    self._joined.exception()  # callers of ``joined`` get it; it is logged in any case
                return
            except MillpondError as error:
                self._say_once(error)
            self._say_cut_off()
            # What took long, over an election perhaps, is followed by the next word at once.
            await self._pause(self._parts.clock.monotonic_ms() - began_ms)

    async def _try_to_register(self) -> bool:
        """Whether this node is registered, and knows of it."""
        parts, end_points = self._parts, self._end_points
        asked_ms = parts.clock.monotonic_ms()
        kept = parts.kept_registrations()
        parts.note_registrations(kept)
        try:
            self._epoch = await parts.link.call(
                RegisterNode(
                    node_id=parts.node_id,
                    cluster_id=parts.cluster_id(),
                    incarnation_id=parts.incarnation_id(),
                    end_points=end_points,
                    rack=parts.rack,
                    log_dirs=parts.directory_ids(),
                    features=tuple(
                        (name, one.lowest, one.highest) for name, one in SUPPORTED.items()
                    ),
                    previous_epoch=kept.broker_epoch,
                    previous_incarnations=kept.incarnation_ids,
                    lost_replicas=() if self.has_registered else parts.lost_replicas(),
                ),
                timeout_ms=self._session_ms,
            )
        except _HOPELESS:
            raise
        except MillpondError as error:
            # The controller is away, or another life of this node is not over yet.
            self._say_once(error)
            return False
        parts.note_registrations(parts.kept_registrations())
        parts.on_registered()
        self._renew(asked_ms)
        self._told = end_points
        self._refused = None
        self._must_register = False
        await parts.host().applied_beyond(self._epoch)
        return True

    def _say_once(self, error: MillpondError) -> None:
        if str(error) == self._refused:
            return
        self._refused = str(error)
        level = logging.WARNING if isinstance(error, DuplicateRegistration) else logging.INFO
        log.log(level, "node %d: %s; trying again", self._parts.node_id, error)

    def _say_cut_off(self) -> None:
        is_cut_off = self.is_cut_off
        if is_cut_off == self._said_cut_off:
            return
        self._said_cut_off = is_cut_off
        if is_cut_off:
            log.warning(
                "node %d has had no answer of the controller for %d ms: it leads nothing until it has",
                self._parts.node_id,
                self._session.timeout_ms,
            )
        else:
            log.info("node %d has been answered by the controller again", self._parts.node_id)

    async def _beat(self, *, wants_stop: bool) -> HeartbeatAnswer:
        asked_ms = self._parts.clock.monotonic_ms()
        is_offline = self._parts.is_offline() and not wants_stop
        if self._parts.host().leader_id == self._parts.node_id:
            # A controller answers its own heartbeats while a majority backs it; another may have been elected
            # since.
            asked_ms = self._parts.host().backed_ms
        answer = await self._parts.link.call(
            NodeHeartbeat(
                node_id=self._parts.node_id,
                broker_epoch=self._epoch,
                metadata_offset=self._parts.host().applied - 1,
                wants_fence=is_offline,
                wants_stop=wants_stop,
                offline_dirs=() if wants_stop else self._parts.offline_dirs(),
                silent_leaders=self._parts.silent_leaders(),
                silent_followers=self._parts.silent_followers(),
                lease_ms=self._session.timeout_ms,
            ),
            timeout_ms=limits.CONTROLLED_SHUTDOWN_ANSWER_MS_MAX if wants_stop else self._session_ms,
            attempt_ms=max(1, self._silence_ms // _ATTEMPTS),
        )
        self._is_given_up = answer.is_fenced
        if answer.is_fenced and not self.is_fenced:
            # Others lead what it led, and it has not read of that yet.
            self._session.end(self._parts.clock.monotonic_ms())
            self._end_lease()
        else:
            self._renew(asked_ms)
        return answer

    def _end_lease(self) -> None:
        if self._cut_off_since_ms is None:
            self._cut_off_since_ms = self._parts.clock.monotonic_ms()
        self._parts.on_cut_off()
        for watcher in self._lease_watchers:
            watcher()

    def _renew(self, asked_ms: int) -> None:
        self._session.renew(asked_ms)
        if not self.is_cut_off:
            self._cut_off_since_ms = None
        if self._end_timer is None:
            self._wait_for_end()

    def _wait_for_end(self) -> None:
        """Say so when the session is over, unless it is renewed before."""
        self._end_timer = None
        left_ms = self._session.left_ms(self._parts.clock.monotonic_ms())
        if left_ms is None or self._has_left:
            return
        if left_ms <= 0:
            self._say_cut_off()
            self._end_lease()
            return
        loop = asyncio.get_running_loop()
        self._end_timer = loop.call_later(left_ms / 1000, self._wait_for_end)

    async def _pause(self, spent_ms: int = 0) -> None:
        try:
            interval_ms = self._interval_ms
            if self._parts.is_offline() and not self._is_given_up:
                # The others wait for what this node cannot do; the controller may be changing.
                interval_ms = min(interval_ms, limits.CONTROLLER_RETRY_MS_MAX)
            async with asyncio.timeout(max(0, interval_ms - spent_ms) / 1000):
                await self._news.wait()
        except TimeoutError:
            pass

    # --- going -------------------------------------------------------------------------------------

    async def leave(self) -> bool:
        """Have other nodes lead this node's partitions. Return whether that ended within the time-out."""
        task, self._task = self._task, None
        self._has_left = True
        if self._end_timer is not None:
            self._end_timer.cancel()
        if task is None:
            return True
        task.cancel()
        if self._must_register or not self._parts.setting("controlled.shutdown.enable"):
            return True
        if self._parts.watch is None:
            return await self._hand_over()
        handing_over = asyncio.ensure_future(self._hand_over())
        no_majority = asyncio.ensure_future(self._until_no_majority(self._parts.watch))
        try:
            await asyncio.wait([handing_over, no_majority], return_when=asyncio.FIRST_COMPLETED)
            if handing_over.done():
                return handing_over.result()
        finally:
            handing_over.cancel()
            no_majority.cancel()
        log.info(
            "node %d stops as one of the last: no node can lead its partitions", self._parts.node_id
        )
        return True

    async def _hand_over(self) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limits.CONTROLLED_SHUTDOWN_MS_MAX / 1000
        try:
            while loop.time() < deadline:
                if (await self._beat(wants_stop=True)).may_stop:
                    return True
                await asyncio.sleep(limits.CONTROLLED_SHUTDOWN_RETRY_MS / 1000)
        except MillpondError as error:
            log.warning(
                "node %d stops without handing over what it leads: %s", self._parts.node_id, error
            )
            return False
        log.warning("node %d stops before all it led was handed over", self._parts.node_id)
        return False

    async def _until_no_majority(self, watch: NodeWatch) -> None:
        """Return when fewer voters than a majority are left."""
        while True:
            await asyncio.sleep(limits.CONTROLLED_SHUTDOWN_RETRY_MS / 1000)
            voters = self._parts.host().voters
            left = [
                node
                for node in voters.ids
                if node == self._parts.node_id or not await watch.is_gone(node)
            ]
            if len(left) < voters.majority:
                return

    # --- inside ------------------------------------------------------------------------------------

    @property
    def _known(self) -> BrokerImage | None:
        return self._parts.host().image.brokers.get(self._parts.node_id)

    @property
    def _interval_ms(self) -> int:
        most_ms = max(1, self._silence_ms // _BEATS)
        return min(int(self._parts.setting("broker.heartbeat.interval.ms")), most_ms)

    @property
    def _session_ms(self) -> int:
        return int(self._parts.setting("broker.session.timeout.ms"))

    @property
    def _silence_ms(self) -> int:
        return min(self._session_ms, int(self._parts.setting("broker.silence.timeout.ms")))
