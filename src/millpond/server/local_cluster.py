"""Several nodes on one machine: who they are, where each keeps its data and listens. ``millpond up --nodes``.

The plan is made once and kept in ``cluster.json`` beside the nodes' directories, because a node's number, its
address and the cluster's id must be the same at every start. Starts no process.

    data/cluster.json  data/cluster.secret  data/node-1/  data/node-2/  data/node-3/
"""

import json
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from millpond.base.uuids import text_id
from millpond.log.checkpoint import META_PROPERTIES_FILE
from millpond.server.config import Origin, Settings
from millpond.server.endpoints import PORT_MAX, Endpoint, host_port
from millpond.server.failures import ExitCode, StartFailed, bind_failed, start_failed
from millpond.server.protocols import KAFKA, WireProtocol
from millpond.server.secret import PLAN_FILE, SECRET_FILE, new_secret, write_secret

# Replicas of a topic that is made without a number, as far as there are nodes.
REPLICAS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    """One node of the plan."""

    node_id: int
    host: str
    port: int
    data: Path

    @property
    def address(self) -> str:
        """Return the node's address as clients write it."""
        return host_port(self.host, self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCluster:
    """The plan: a cluster's id and its nodes."""

    cluster_id: str
    listener: str
    nodes: tuple[LocalNode, ...]

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap addresses for clients."""
        return ",".join(node.address for node in self.nodes)

    @property
    def voters(self) -> str:
        """``controller.quorum.voters``, the same for every node."""
        return ",".join(f"{node.node_id}@{node.address}" for node in self.nodes)

    def options_of(self, node: LocalNode, settings: Settings) -> list[str]:
        """Return the arguments of `millpond up` for this node; settings of the operator stay as they are."""
        values = {
            "node.id": str(node.node_id),
            "cluster.id": self.cluster_id,
            "controller.quorum.voters": self.voters,
            **self._secret_of(node, settings),
            **{
                name: value
                for name, value in _defaults(len(self.nodes)).items()
                if settings.source_of(name).origin is Origin.DEFAULT
            },
        }
        options = ["--listen", f"{self.listener}://{node.address}", "--data", str(node.data)]
        for protocol, address in addresses_of(node, settings).items():
            options += [protocol.option, address]
        for name, value in values.items():
            options += ["--set", f"{name}={value}"]
        return options

    @staticmethod
    def _secret_of(node: LocalNode, settings: Settings) -> dict[str, str]:
        """All nodes read one file, unless the person has set a secret, which reaches them by itself."""
        if _is_given_a_secret(settings):
            return {}
        return {"cluster.secret.file": str((node.data.parent / SECRET_FILE).absolute())}


def _is_given_a_secret(settings: Settings) -> bool:
    names = ("cluster.secret", "cluster.secret.file")
    return any(settings.source_of(name).origin is not Origin.DEFAULT for name in names)


def addresses_of(node: LocalNode, settings: Settings) -> dict[WireProtocol, str]:
    """Return where a node serves protocols other than Kafka's.

    The first node has the ports that were given, the others have the next ones.
    """
    found: dict[WireProtocol, str] = {}
    for listener in settings.listeners:
        protocol, bind = listener.protocol, listener.bind
        if protocol is KAFKA or protocol in found:
            continue
        port = bind.port + node.node_id - 1 if bind.port else 0
        # A protocol that is opened with another one has no port of its own above the last one.
        if port <= PORT_MAX or not protocol.requires:
            found[protocol] = host_port(bind.host, port)
    return found


def plan_cluster(settings: Settings, *, nodes: int, rng_bytes: bytes) -> LocalCluster:
    """The cluster in the data directory, or a new one there. Raises ``StartFailed``.

    ``rng_bytes`` are sixteen random bytes for the id of a new cluster.
    """
    data = settings.data
    if settings.log_dirs != (data,):
        raise StartFailed(
            f"Cannot start {nodes} nodes with these log.dirs: each gets a directory of its own in one place.",
            "name one directory, with --data",
            code=ExitCode.SETTINGS,
        )
    endpoint = _endpoint(settings)
    found = _read(data)
    if found is None:
        if (data / META_PROPERTIES_FILE).exists():
            raise StartFailed(
                f"Cannot use {data} for {nodes} nodes: it is the data of a single one.",
                "choose another directory with --data, or start the single node without --nodes",
                code=ExitCode.DATA,
            )
        plan = _new(settings, endpoint, nodes, rng_bytes)
    else:
        plan = found
        if len(plan.nodes) != nodes:
            raise StartFailed(
                f"Cannot start {nodes} nodes in {data}: the cluster there has {len(plan.nodes)}.",
                f"start it with --nodes {len(plan.nodes)}, or choose another directory with --data",
                "nodes are added to a running cluster with `millpond up --config` and"
                " `millpond node add`",
                code=ExitCode.DATA,
            )
        _check_same_address(plan, endpoint, settings)
        if settings.cluster_id not in (None, plan.cluster_id):
            raise StartFailed(
                f"Cannot use {data}: it belongs to cluster {plan.cluster_id},"
                f" not to {settings.cluster_id}.",
                "leave cluster.id out, or choose another directory with --data",
                code=ExitCode.DATA,
            )
    for node in plan.nodes:
        _check_free(node.host, node.port)
    try:
        if found is None:
            data.mkdir(parents=True, exist_ok=True)
            _write(data, plan)
        if not _is_given_a_secret(settings) and not (data / SECRET_FILE).exists():
            write_secret(data / SECRET_FILE, new_secret())
    except OSError as error:
        raise start_failed(error, data=data) from error
    return plan


def nodes_in(data: Path) -> int | None:
    """How many nodes a directory is for; None if it is not a cluster's."""
    plan = _read(data)
    return None if plan is None else len(plan.nodes)


def _endpoint(settings: Settings) -> Endpoint:
    for_kafka = [one for one in settings.listeners if one.protocol is KAFKA]
    if len(for_kafka) != 1:
        raise StartFailed(
            "Several nodes on one machine take one listener.",
            "give one --listen: the first node has its port and the others the next ones",
            code=ExitCode.SETTINGS,
        )
    [listener] = for_kafka
    if listener.bind.is_wildcard:
        raise StartFailed(
            f"Several nodes on one machine cannot listen on every interface ({listener.bind}).",
            "name an address that clients can reach: --listen 127.0.0.1:9092",
            code=ExitCode.SETTINGS,
        )
    return listener.bind


def _new(settings: Settings, endpoint: Endpoint, nodes: int, rng_bytes: bytes) -> LocalCluster:
    made_up = text_id(UUID(bytes=rng_bytes))
    ports: Iterable[int] = range(endpoint.port, endpoint.port + nodes)
    if endpoint.port == 0:
        ports = _free_ports(endpoint.host, nodes)
    return LocalCluster(
        cluster_id=settings.cluster_id or made_up,
        listener=endpoint.name,
        nodes=tuple(
            LocalNode(
                node_id=number,
                host=endpoint.host,
                port=port,
                data=settings.data / f"node-{number}",
            )
            for number, port in enumerate(ports, start=1)
        ),
    )


def _check_same_address(plan: LocalCluster, endpoint: Endpoint, settings: Settings) -> None:
    first = plan.nodes[0]
    if settings.source_of("listeners").origin is Origin.DEFAULT or endpoint.port == 0:
        return
    if (endpoint.host, endpoint.port) != (first.host, first.port):
        raise StartFailed(
            f"Cannot move the cluster in {settings.data} to {host_port(endpoint.host, endpoint.port)}:"
            f" its nodes know each other by {plan.bootstrap}.",
            "leave --listen out",
            code=ExitCode.SETTINGS,
        )


def _defaults(nodes: int) -> dict[str, str]:
    """A cluster that loses nothing it acknowledged when one of three nodes dies."""
    factor = str(min(REPLICAS, nodes))
    minimum = "2" if nodes >= REPLICAS else "1"
    return {
        "default.replication.factor": factor,
        "min.insync.replicas": minimum,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": minimum,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": minimum,
    }


def _free_ports(host: str, count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    with ExitStack() as probes:
        found = []
        for _ in range(count):
            probe = probes.enter_context(_socket(host))
            probe.bind((host, 0))
            found.append(int(probe.getsockname()[1]))
        return found


def _check_free(host: str, port: int) -> None:
    with _socket(host) as probe:
        try:
            probe.bind((host, port))
        except OSError as error:
            raise bind_failed(host, port, error) from error


def _socket(host: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


def _read(data: Path) -> LocalCluster | None:
    path = data / PLAN_FILE
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return LocalCluster(
            cluster_id=str(document["cluster_id"]),
            listener=str(document["listener"]),
            nodes=tuple(
                LocalNode(
                    node_id=int(item["id"]),
                    host=str(item["host"]),
                    port=int(item["port"]),
                    data=data / str(item["data"]),
                )
                for item in document["nodes"]
            ),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StartFailed(
            f"Cannot use {data}: {path} is not what it was ({type(error).__name__}: {error}).",
            "put back the file as it was, or choose another directory with --data",
            code=ExitCode.DATA,
        ) from None


def _write(data: Path, plan: LocalCluster) -> None:
    document = {
        "cluster_id": plan.cluster_id,
        "listener": plan.listener,
        "nodes": [
            {"id": node.node_id, "host": node.host, "port": node.port, "data": node.data.name}
            for node in plan.nodes
        ],
    }
    (data / PLAN_FILE).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
