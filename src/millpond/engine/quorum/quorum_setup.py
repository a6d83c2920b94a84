"""The settings of the quorum: its first voters and its timing."""

import re

from millpond.base.errors import InvalidConfig
from millpond.base.ids import NodeId
from millpond.metadata.configs import BrokerConfig
from millpond.metadata.image import Image
from millpond.raft.messages import ReplicaKey
from millpond.raft.replica import QuorumSettings
from millpond.raft.voters import Endpoint, Voter, VoterSet

_ADDRESS = r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\[\]:@/]+)):(?P<port>\d+)"
_VOTER = re.compile(rf"(?P<id>\d+)@{_ADDRESS}")
_SERVER = re.compile(_ADDRESS)
_PORT_MAX = 65_535

# The listener of a voter, where the settings name none.
_LISTENER = "PLAINTEXT"


def parse_voter(text: str, listener: str = _LISTENER) -> Voter:
    """Parse ``id@host:port`` of ``controller.quorum.voters``. Raises ``InvalidConfig``."""
    match = _VOTER.fullmatch(text.strip())
    if match is None or not 0 < int(match["port"]) <= _PORT_MAX:
        raise InvalidConfig(
            f"controller.quorum.voters: {text!r} is no voter; write id@host:port, separated by commas"
        )
    endpoint = Endpoint(listener, match["v6"] or match["host"], int(match["port"]))
    return Voter(key=ReplicaKey(int(match["id"])), endpoints=(endpoint,))


def parse_voters(texts: tuple[str, ...], listener: str = _LISTENER) -> VoterSet:
    """Parse all of ``controller.quorum.voters``. Raises ``InvalidConfig``."""
    voters = [parse_voter(text, listener) for text in texts]
    ids = [voter.key.id for voter in voters]
    if len(set(ids)) != len(ids):
        raise InvalidConfig(f"controller.quorum.voters: a node is named twice ({ids})")
    return VoterSet(voters)


def voters_of(broker: BrokerConfig, own: ReplicaKey) -> VoterSet:
    """The voters a node is set up with: those of the settings, or itself alone; none if it only knows where
    to ask.
    """
    texts: tuple[str, ...] = broker["controller.quorum.voters"]
    if texts:
        return parse_voters(texts, _voters_listener(broker))
    return VoterSet(() if bootstrap_of(broker) else [Voter(key=own)])


def _voters_listener(broker: BrokerConfig) -> str:
    """The listener that the addresses of voters are those of: the controllers' own, or the nodes'."""
    names: tuple[str, ...] = broker["controller.listener.names"]
    first = broker["listeners"][0].partition("://")[0] if broker["listeners"] else ""
    return (names[0] if names else broker["inter.broker.listener.name"]) or first or _LISTENER


def bootstrap_of(broker: BrokerConfig) -> dict[NodeId, tuple[str, int]]:
    """Where a node without a vote finds the quorum. Like Kafka's, these have no number yet: -2, -3, …

    Kafka's own file for a single node names that node here, so a node that may vote is not looking for
    others.
    """
    texts: tuple[str, ...] = broker["controller.quorum.bootstrap.servers"]
    if broker["controller.quorum.voters"]:
        return {}
    if tuple(broker["process.roles"]) != ("broker",):
        if len(set(texts)) > 1:
            raise InvalidConfig(
                "controller.quorum.bootstrap.servers names several controllers, and this node is one of"
                " them: set controller.quorum.voters (id@host:port of each) on every node instead, or"
                " each becomes a cluster of its own"
            )
        return {}
    found = {}
    for number, text in enumerate(texts):
        match = _SERVER.fullmatch(text.strip())
        if match is None or not 0 < int(match["port"]) <= _PORT_MAX:
            raise InvalidConfig(
                f"controller.quorum.bootstrap.servers: {text!r} is no address; write host:port"
            )
        found[-2 - number] = (match["v6"] or match["host"], int(match["port"]))
    return found


def is_among_others(broker: BrokerConfig, node: NodeId) -> bool:
    """Whether the settings name other nodes."""
    voters = parse_voters(broker["controller.quorum.voters"])
    return bool(voters.ids - {node} or bootstrap_of(broker))


def quorum_settings(broker: BrokerConfig) -> QuorumSettings:
    """Return the timing of the quorum."""
    return QuorumSettings(
        election_timeout_ms=broker["controller.quorum.election.timeout.ms"],
        election_backoff_max_ms=broker["controller.quorum.election.backoff.max.ms"],
        fetch_timeout_ms=broker["controller.quorum.fetch.timeout.ms"],
        request_timeout_ms=broker["controller.quorum.request.timeout.ms"],
        retry_backoff_ms=broker["controller.quorum.retry.backoff.ms"],
        lease_ms=broker["broker.silence.timeout.ms"],
    )


def address_of(
    image: Image, voters: VoterSet, node: NodeId, listener: str | None
) -> tuple[str, int] | None:
    """Return the address of a node: as it registered, on this listener if it has it, or as a voter."""
    broker = image.brokers.get(node)
    if broker is not None and broker.end_points:
        points = {point.name: point for point in broker.end_points}
        point = points.get(listener or "", broker.end_points[0])
        return point.host, point.port
    voter = voters.get(node)
    if voter is not None and voter.endpoints:
        names = {endpoint.listener: endpoint for endpoint in voter.endpoints}
        endpoint = names.get(listener or "", voter.endpoints[0])
        return endpoint.host, endpoint.port
    return None
