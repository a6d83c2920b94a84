"""The composition root: settings in, one running node out.

Order of the start: bind the addresses (a taken port is known before data is touched), open and recover the
data, tell the engine its addresses, let clients in. A node among others lets these in before it joins them,
and clients after that. The stop goes backwards: no new clients, answers that are
under way, then flush, checkpoints and the mark of a clean stop.
"""

import asyncio
import logging
import re
import resource
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millpond.base.clock import Clock
from millpond.base.ids import TopicPartition
from millpond.base.rng import Rng
from millpond.base.uuids import parse_id, text_id
from millpond.engine.api import BrokerEndpoint, CreateTopic
from millpond.engine.limits.request_memory import RequestMemory, request_bytes_max
from millpond.engine.node.node import Node as Engine
from millpond.engine.quorum.quorum_setup import is_among_others
from millpond.engine.runtime.turns import Turns
from millpond.log.checkpoint import META_PROPERTIES_FILE
from millpond.log.file_storage import FileStorage
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.metadata.levels import PEER_PROOF
from millpond.peer.links import PeerLinks
from millpond.peer.proof import ClusterSecret
from millpond.server.boot import boot_id
from millpond.server.config import Settings
from millpond.server.connections import Connections
from millpond.server.endpoints import Listener
from millpond.server.failures import ExitCode, StartFailed
from millpond.server.listeners import BoundListener, bind
from millpond.server.machine import LocalMachine
from millpond.server.protocols import KAFKA, protocol_named, protocols, record_families
from millpond.server.secret import given_secret, kept_secret, missing_secret
from millpond.server.services import OpenProtocol, Services
from millpond.server.serving import Serving

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

# What a cluster's id may consist of. Kafka's form is stricter, but clusters with others get new nodes, too.
_CLUSTER_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

# When a node that waits for the others of its cluster says so first, and how often then.
_WAITING_SAID_FIRST_S = 3
_WAITING_SAID_S = 30

# How often is looked whether connections keep memory that others wait for; and from how much on the memory of
# connections that have ended is given back to the kernel, which takes some milliseconds.
_REQUESTS_LOOK_S = 1.0
_ABANDONED_BYTES_MIN = 32 * 1024 * 1024

# How often a long recovery says how far it has come.
_PROGRESS_MS = 5_000


class Server:
    """One node in this process. Started once, stopped once."""

    def __init__(self, settings: Settings, *, clock: Clock, rng: Rng) -> None:
        self.settings = settings
        self._clock = clock
        self._rng = rng
        self._listeners: list[BoundListener] = []
        self._engine: Engine | None = None
        self._links: PeerLinks | None = None
        self._secret: ClusterSecret | None = None
        self._serving: Serving | None = None
        self._tls: ssl.SSLContext | None = None
        self._turns = Turns()
        self._machine = LocalMachine(*dict.fromkeys((settings.data, *settings.log_dirs)))
        self._memory = RequestMemory(
            request_bytes_max(
                settings.values["queued.max.request.bytes"], self._machine.total_bytes
            )
        )
        self._connections = Connections(
            clock=clock,
            setting=self._setting,
            open_files_limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            idle_ms_max=settings.values["connections.max.idle.ms"],
        )

    def _setting(self, name: str) -> Any:
        """The value in force: as started with, until the engine knows what was altered at run time."""
        engine = self._engine
        return self.settings.values[name] if engine is None else engine.settings.broker[name]

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the first listener, for a client's ``bootstrap.servers``."""
        return self._listeners[0].address

    def listeners(self, protocol: str = KAFKA.name) -> list[BoundListener]:
        """Return the listeners for clients of a protocol. Raises ``KeyError`` for one that is unknown."""
        wanted = protocol_named(protocol)
        return [
            one for one in self._listeners if one.protocol is wanted and not one.for_controllers
        ]

    def addresses(self, protocol: str = KAFKA.name) -> list[str]:
        """Return ``host:port`` of every listener for clients of a protocol."""
        return [listener.address for listener in self.listeners(protocol)]

    @property
    def connections(self) -> Connections:
        """All open connections."""
        return self._connections

    @property
    def engine(self) -> Engine:
        """The engine of a started server."""
        assert self._engine is not None
        return self._engine

    async def start(self) -> None:
        """Start, or raise why not and leave nothing open. Raises ``StartFailed`` and ``base.errors``."""
        self._say_settings()
        try:
            for listener in self.settings.listeners:
                self._listeners.append(self._bind(listener))
            self._tls = self._tls_context()
            await self._start_engine()
            await self._serve()
        except BaseException:
            await self.stop()
            raise
        log.info("node %d ready: %s", self.settings.node_id, ", ".join(self.addresses()))
        for protocol in protocols():
            addresses = self.addresses(protocol.name)
            if addresses and protocol is not KAFKA:
                log.info("%s: %s", protocol.title, ", ".join(addresses))

    async def stop(self) -> bool:
        """Stop, and return whether that was clean.

        Partitions that this node leads are handed over first, so that clients are sent to other nodes. Then
        no connection is accepted, requests under way are answered, connections are closed, protocols are
        stopped in the reverse order of their opening, and the engine flushes and closes the data.
        """
        if self._engine is not None:
            await self._engine.membership.leave()
        for listener in self._listeners:
            listener.stop_accepting()
        await self._connections.drain()
        if self._serving is not None:
            self._serving.stop()
        engine, self._engine = self._engine, None
        clean = await engine.stop() if engine is not None else True
        if self._links is not None:
            self._links.close()
        return clean

    async def create_topic(
        self, name: str, *, partitions: int | None, config: Mapping[str, str]
    ) -> None:
        """Create one topic. Raises what the engine refuses it with."""
        command = CreateTopic(
            name=name, partitions=-1 if partitions is None else partitions, configs=config
        )
        (result,) = await self.engine.topic_admin.create_topics([command])
        if result.error is not None:
            raise result.error

    # --- starting ---------------------------------------------------------------------------------

    def _say_settings(self) -> None:
        for notice in self.settings.notices:
            log.info("settings: %s", notice)
        for warning in self.settings.warnings:
            log.warning("settings: %s", warning)

    def _tls_context(self) -> "ssl.SSLContext | None":
        """Files that cannot be used are known before data is touched."""
        if not any(listener.is_tls for listener in self._listeners):
            return None
        from millpond.server.tls import server_context

        return server_context(self.settings.values)

    def _bind(self, listener: Listener) -> BoundListener:
        return bind(
            listener,
            send_buffer=self.settings.values["socket.send.buffer.bytes"],
            receive_buffer=self.settings.values["socket.receive.buffer.bytes"],
        )

    async def _start_engine(self) -> None:
        settings = self.settings
        settings.data.mkdir(parents=True, exist_ok=True)
        data = settings.data.resolve()
        is_new = not (data / META_PROPERTIES_FILE).exists()
        log_dirs = _log_dirs(settings)
        listener = settings.values["inter.broker.listener.name"]
        is_member = is_among_others(settings.values, settings.node_id)
        if is_new and is_member and settings.cluster_id is None:
            raise StartFailed(
                f"Node {settings.node_id} cannot join a cluster that has no name.",
                f"set cluster.id on every node to the same id, for example {text_id(self._rng.uuid4())}",
            )
        if is_new and settings.cluster_id is not None:
            _check_new_cluster_id(settings.cluster_id, self._rng)
        self._secret = secret = self._cluster_secret(data, is_new=is_new, is_member=is_member)
        self._links = PeerLinks(
            settings.node_id, self._clock, self._rng, listener=listener, secret=secret
        )
        engine = Engine(
            log_dirs=log_dirs,
            node_id=settings.node_id,
            cluster_id=settings.cluster_id,
            broker=settings.values,
            clock=self._clock,
            rng=self._rng,
            families=record_families(),
            rack=settings.values["broker.rack"],
            peers=self._links,
            watch=self._links,
            proof=self._links,
            boot_id=boot_id(),
        )
        self._links.attach(engine)
        await engine.start(self._progress())
        self._engine = engine
        self._check_cluster()
        if secret is None and engine.metadata.requires_proof:
            raise missing_secret(settings.node_id)
        self._say_recovery(log_dirs, is_new=is_new)

    def _cluster_secret(self, data: Path, *, is_new: bool, is_member: bool) -> ClusterSecret | None:
        """What proves to other nodes that this is one of them. Also for a node that is alone: others may join
        it.
        """
        if not is_member:
            return kept_secret(self.settings.values, data)
        secret = given_secret(self.settings.values, data)
        if secret is None:
            if is_new:
                raise missing_secret(self.settings.node_id)
            log.warning(
                "this node has no cluster secret. As long as the cluster is at a level of millpond.version "
                "below %d, every client that says it is a node is believed; give all nodes the same secret "
                "(`millpond node secret --new`, cluster.secret.file) before `millpond cluster upgrade`",
                PEER_PROOF,
            )
        return secret

    def _check_cluster(self) -> None:
        asked = self.settings.cluster_id
        found = self.engine.info.cluster_id
        if asked is not None and asked != found:
            raise StartFailed(
                f"Cannot use {self.settings.data}: it belongs to cluster {found}, not to {asked}.",
                f"leave cluster.id out or set it to {found}, or choose another directory with --data",
                code=ExitCode.DATA,
            )

    async def _serve(self) -> None:
        """Open the protocols. A node of a cluster serves other nodes before it joins, and clients after."""
        engine = self.engine
        engine.runtime.tasks.spawn(self._connections.sweep_forever(), name="idle connections")
        engine.runtime.tasks.spawn(self._watch_requests(), name="memory of requests")
        opened: dict[str, OpenProtocol] = {}
        serving = self._serving = Serving(self._services(opened), opened)
        serving.open_for_nodes()
        if engine.metadata.is_alone:
            await self._advertise()
            await serving.serve_clients()
            await serving.serve_nodes()
            return
        await serving.serve_nodes()
        waiting = engine.runtime.tasks.spawn(self._say_waiting(), name="waiting for the others")
        await self._advertise()
        waiting.cancel()
        serving.let_clients_in()
        await serving.serve_clients()

    def _services(self, opened: Mapping[str, OpenProtocol]) -> Services:
        return Services(
            engine=self.engine,
            settings=self.settings,
            clock=self._clock,
            connections=self._connections,
            turns=self._turns,
            memory=self._memory,
            machine=self._machine,
            listeners=self._listeners,
            opened=opened,
            secret=self._secret,
            tls=self._tls,
        )

    async def _watch_requests(self) -> None:
        """Until cancelled: end connections that keep memory for which others wait; give back what is free."""
        while True:
            await asyncio.sleep(_REQUESTS_LOOK_S)
            self._memory.look(self._clock.monotonic_ms())
            if self._memory.abandoned_bytes >= _ABANDONED_BYTES_MIN:
                self._memory.abandoned_bytes = 0
                # It may take long, and the C library does it without the interpreter's lock.
                await asyncio.to_thread(self._machine.give_back)

    async def _advertise(self) -> None:
        await self.engine.advertise(
            BrokerEndpoint(
                name=listener.name, host=listener.advertised.host, port=listener.advertised.port
            )
            for listener in self.listeners()
        )

    # --- saying what happened ---------------------------------------------------------------------

    async def _say_waiting(self) -> None:
        """Log which nodes this node waits for, until it is cancelled."""
        pause_s = _WAITING_SAID_FIRST_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = _WAITING_SAID_S
            voters = self.engine.metadata.voters
            if not voters:
                log.info(
                    "node %d waits: it does not know the voters of the quorum",
                    self.settings.node_id,
                )
                continue
            leader = self.engine.metadata.controller_id
            if leader is not None:
                log.info(
                    "node %d waits for its cluster: node %d leads the quorum; %s",
                    self.settings.node_id,
                    leader,
                    self.engine.membership.refusal or "this node reads the metadata and registers",
                )
                continue
            log.info(
                "node %d waits for its cluster: %d of the voters (nodes %s) must be up and reach each other",
                self.settings.node_id,
                voters.majority,
                ", ".join(str(node) for node in sorted(voters.ids)),
            )

    def _progress(self) -> Callable[[int, int, TopicPartition], None]:
        said_ms = self._clock.monotonic_ms()

        def progress(done: int, total: int, current: TopicPartition) -> None:
            nonlocal said_ms
            now_ms = self._clock.monotonic_ms()
            if now_ms - said_ms >= _PROGRESS_MS:
                said_ms = now_ms
                log.info("opening the data: %d of %d partitions; now %s", done, total, current)

        return progress

    def _say_recovery(self, log_dirs: LogDirs, *, is_new: bool) -> None:
        where = ", ".join(one.name for one in log_dirs.opened)
        total = len(log_dirs.logs)
        unclean = [report for report in log_dirs.reports if not report.clean]
        for report in unclean:
            level = logging.WARNING if report.bytes_truncated or report.damage else logging.DEBUG
            log.log(level, "%s", report)
        for partition, reason in log_dirs.unreadable.items():
            log.error("partition=%s: cannot be opened and is left out: %s", partition, reason)
        if is_new:
            log.info("data in %s: new", where)
        elif log_dirs.was_clean:
            log.info("data in %s: %d partitions, closed cleanly", where, total)
        else:
            log.warning(
                "data in %s: %d partitions, not closed cleanly; "
                "checked %d bytes, cut off %d, in %d partitions",
                where,
                total,
                sum(report.bytes_checked for report in log_dirs.reports),
                sum(report.bytes_truncated for report in log_dirs.reports),
                len(unclean),
            )


def _check_new_cluster_id(cluster_id: str, rng: Rng) -> None:
    """Before it is written down in a new directory, which keeps it for good."""
    form = "22 letters, digits, - and _, a UUID in URL-safe base64"
    if _CLUSTER_ID.fullmatch(cluster_id) is None:
        raise StartFailed(
            f"{cluster_id!r} cannot be the id of a cluster.",
            "set cluster.id to the id of the cluster that it joins (the first line of `millpond cluster "
            f"status` has it), or for a new cluster to one of Kafka's form ({form}), for example "
            f"{text_id(rng.uuid4())}",
            code=ExitCode.SETTINGS,
        )
    try:
        parse_id(cluster_id)
    except ValueError:
        log.warning(
            "cluster.id %s has not the form of Kafka's ids (%s): check that it is the id of the cluster that "
            "this node joins; the new data directory keeps it",
            cluster_id,
            form,
        )


def _log_dirs(settings: Settings) -> LogDirs:
    """As the settings name them. Those that cannot be made are found to be offline when they are opened."""
    by_path = {path: _log_dir(path) for path in dict.fromkeys((settings.data, *settings.log_dirs))}
    return LogDirs([by_path[path] for path in settings.log_dirs], metadata=by_path[settings.data])


def _log_dir(path: Path) -> LogDir:
    with suppress(OSError):
        path.mkdir(parents=True, exist_ok=True)
    data = path.resolve()
    name = str(data.absolute())
    return LogDir(FileStorage(data), name=name, usage=lambda: _disk_usage(name))


def _disk_usage(path: str) -> tuple[int, int]:
    usage = shutil.disk_usage(path)
    return usage.total, usage.free
