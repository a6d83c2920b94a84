"""What all AMQP connections of a node share."""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from millpond.base import limits
from millpond.base.pressure import DISK, NONE, Pressure
from millpond.engine.api import Engine
from millpond.engine.api.limits import ClusterPressure, PressureWatch, RequestMemory
from millpond.engine.api.queues import Queues
from millpond.frontend.amqp.consumer_timeout import ConsumerTimeouts
from millpond.frontend.amqp.disk_alarm import DiskAlarm
from millpond.frontend.amqp.identity import server_properties
from millpond.frontend.amqp.logins import Logins, Verifier
from millpond.frontend.amqp.message_stats import MessageStats
from millpond.frontend.amqp.minority import MinorityWatch
from millpond.frontend.amqp.replies import Replies
from millpond.frontend.amqp.session import AmqpSession
from millpond.rabbit.global_parameters import cluster_name
from millpond.rabbit.records import Fact, UserDeleted, VirtualHostDeleted
from millpond.wire.amqp.order import Offer
from millpond.wire.amqp.sasl import EXTERNAL

if TYPE_CHECKING:
    from millpond.frontend.amqp.outbox import Writer

log = logging.getLogger(__name__)


class AmqpFrontend:
    """The AMQP front-end of a node; makes its sessions."""

    def __init__(
        self,
        engine: Engine,
        queues: Queues,
        verifier: Verifier | None = None,
        memory: RequestMemory | None = None,
    ) -> None:
        """``queues`` are the node's, which starts and stops them. ``memory`` is what the connections of all
        front-ends share; without it, what one may begin."""
        self.queues = queues
        self.engine = engine
        self.memory = memory or RequestMemory(limits.AMQP_BEGUN_BYTES_MAX)
        self.logins = Logins(
            engine.settings.get("auth_backends"),
            lambda: self.queues.broker,
            engine.runtime.clock,
            verifier,
        )
        self.replies = Replies(self)
        self.stats = MessageStats(engine.runtime.clock)
        self._consumer_timeouts = ConsumerTimeouts(self)
        self.minority = MinorityWatch(self)
        self.queues.on_rights = self._on_rights
        # Sessions of open sockets.
        self.sessions: set[AmqpSession] = set()
        # Sessions in memory by which the management API publishes and gets messages.
        self.inner_sessions: set[AmqpSession] = set()
        self.pressure = NONE
        self._of_cluster = NONE
        self.disk_alarm = DiskAlarm(self)
        # Reads memory and disk of this machine; None without alarms.
        self.watch: PressureWatch | None = None
        self.cluster_pressure = ClusterPressure(
            self._apply_pressure,
            info=engine.info,
            metadata=engine.metadata,
            peer_handlers=engine.peer_handlers,
            peers=engine.peers,
            runtime=engine.runtime,
        )
        self.handshake_ms: int = engine.settings.get("handshake_timeout")
        self._offers = {
            certified: self._offer(is_certified=certified) for certified in (False, True)
        }

    def offer(self, *, is_certified: bool) -> Offer:
        """Return the properties of connection.start, for a client with or without a certificate."""
        offer = self._offers[is_certified]
        name = cluster_name(self.queues.broker, self.engine.info.cluster_id)
        if offer.server_properties["cluster_name"] != name:
            properties = {**offer.server_properties, "cluster_name": name}
            offer = self._offers[is_certified] = replace(offer, server_properties=properties)
        return offer

    def _offer(self, *, is_certified: bool) -> Offer:
        setting = self.engine.settings.get
        mechanisms = [
            name for name in setting("auth_mechanisms") if name != EXTERNAL or is_certified
        ]
        return Offer(
            server_properties=server_properties(self.engine.info.cluster_id),
            mechanisms=" ".join(mechanisms),
            channel_max=setting("channel_max"),
            frame_max=setting("frame_max"),
            initial_frame_max=setting("initial_frame_max"),
            heartbeat_s=setting("heartbeat"),
            body_bytes_max=setting("max_message_size"),
        )

    def start(self) -> None:
        """Begin to watch clients; the node has started its queues."""
        self._consumer_timeouts.start()
        self.minority.start()

    def stop(self) -> None:
        self._consumer_timeouts.stop()
        self.disk_alarm.stop()
        self.stats.stop()
        self.cluster_pressure.stop()

    def session(
        self,
        writer: "Writer",
        *,
        peer: str = "?",
        local: str = "",
        certified_name: str = "",
        is_encrypted: bool = False,
    ) -> AmqpSession:
        """Return a session for a new connection."""
        session = AmqpSession(
            self,
            writer,
            peer=peer,
            local=local,
            certified_name=certified_name,
            is_encrypted=is_encrypted,
        )
        self.sessions.add(session)
        return session

    def _on_rights(self, fact: Fact) -> None:
        """Close connections of deleted users and virtual hosts; check the permissions of others again."""
        for session in tuple(self.sessions):
            match fact:
                case VirtualHostDeleted() if session.is_open and session.vhost == fact.name:
                    session.force_close(f"vhost '{fact.name}' is deleted")
                case UserDeleted() if session.user == fact.name and session.asker.scopes is None:
                    session.force_close(f"user '{fact.name}' is deleted")
                case _:
                    session.writable.clear()

    @property
    def is_low(self) -> bool:
        """Whether connections that publish are blocked."""
        self.disk_alarm.look()
        return bool(self.pressure.low_on)

    def on_pressure(self, pressure: Pressure) -> None:
        """Apply a change of this machine's memory and disk alarms."""
        self.cluster_pressure.set_own(pressure)

    def _apply_pressure(self, pressure: Pressure) -> None:
        """Apply a change of the alarms of any node; connections that publish are blocked."""
        self._of_cluster = pressure
        self.on_disk_alarm()

    def on_disk_alarm(self) -> None:
        """Block or unblock connections after a change of the alarms."""
        pressure = self._of_cluster
        if self.disk_alarm.is_raised and DISK not in pressure.low_on:
            pressure = replace(pressure, low_on=(*pressure.low_on, DISK))
        was_low, self.pressure = bool(self.pressure.low_on), pressure
        self.queues.keep_recent(is_kept=not pressure.is_paging)
        if was_low and not pressure.low_on:
            for session in (*self.sessions, *self.inner_sessions):
                session.unblock()
