"""What the answers of RabbitMQ's management API are made of: the fields of every endpoint, and their types.

``python -m tests.interop.amqp.http_shapes`` writes `rabbitmq_shapes.json` anew, from the RabbitMQ that is
installed. Where two brokers differ, and why, is in ``SHAPE_DIFFERENCES``.
"""

import http.client
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.interop.amqp.http_scenes import Ask

RECORDED_SHAPES = Path(__file__).with_name("rabbitmq_shapes.json")

# By the name of a field, a dot for each object and ``[]`` for each list on the way: the type.
Shape = dict[str, str]

_ALL = {"configure": ".*", "write": ".*", "read": ".*"}
_MESSAGE = {"routing_key": "a.b", "properties": {}, "payload": "x", "payload_encoding": "string"}

# What is there before anything is asked. An AMQP client with one consumer of the queue `work` comes after it.
FURNITURE: tuple[Ask, ...] = (
    Ask("PUT", "vhosts/v1", {"description": "d", "tags": "a"}),
    Ask("PUT", "users/u1", {"password": "p", "tags": "management"}),
    Ask("PUT", "permissions/v1/u1", _ALL),
    Ask("PUT", "topic-permissions/v1/u1", {"exchange": "amq.topic", "write": "a", "read": "b"}),
    Ask("PUT", "vhost-limits/v1/max-queues", {"value": 5}),
    Ask("PUT", "user-limits/u1/max-channels", {"value": 5}),
    Ask("PUT", "exchanges/%2F/events", {"type": "topic", "durable": True}),
    Ask("PUT", "queues/%2F/work", {"durable": True, "arguments": {"x-max-length": 99}}),
    Ask("POST", "bindings/%2F/e/events/q/work", {"routing_key": "a.#"}),
    Ask("PUT", "policies/%2F/p1", {"pattern": "^work", "definition": {"max-length": 9}}),
    Ask("PUT", "operator-policies/%2F/o1", {"pattern": "^w", "definition": {"max-length": 8}}),
    Ask("PUT", "global-parameters/g1", {"value": {"a": 1}}),
)
# Said when the consumer is there.
MESSAGES: tuple[Ask, ...] = (
    Ask("POST", "exchanges/%2F/events/publish", _MESSAGE),
    Ask("POST", "exchanges/%2F/events/publish", _MESSAGE),
)

_ENDPOINTS = (
    *("overview", "cluster-name", "nodes", "nodes/{node}", "nodes/{node}?memory=true"),
    *("nodes/{node}/memory", "nodes/{node}/memory/relative", "extensions", "whoami", "auth"),
    *("auth/attempts/{node}", "auth/attempts/{node}/source", "feature-flags"),
    *("definitions", "definitions/%2F", "all-configuration"),
    *("parameters", "parameters/vhost-limits", "parameters/vhost-limits/v1"),
    *("parameters/vhost-limits/v1/limits", "parameters/operator_policy/%2F/o1"),
    *("global-parameters", "global-parameters/g1"),
    *("policies", "policies/%2F", "policies/%2F/p1"),
    *("operator-policies", "operator-policies/%2F", "operator-policies/%2F/o1"),
    *("vhost-limits", "vhost-limits/v1", "user-limits", "user-limits/u1"),
    *("connections", "connections/{connection}", "connections/username/guest"),
    *("connections/{connection}/channels", "channels", "channels/{channel}"),
    *("consumers", "consumers/%2F", "vhosts/%2F/connections", "vhosts/%2F/channels"),
    *("exchanges", "exchanges/%2F", "exchanges/%2F/events"),
    *("exchanges/%2F/events/bindings/source", "exchanges/%2F/events/bindings/destination"),
    *("queues", "queues/%2F", "queues/%2F/work", "queues/%2F/work/bindings"),
    *("queues?page=1", "queues/%2F?lengths_age=60&lengths_incr=5"),
    *("bindings", "bindings/%2F", "bindings/%2F/e/events/q/work"),
    *("bindings/%2F/e/events/q/work/a.%23",),
    *("vhosts", "vhosts/%2F", "vhosts/v1/permissions", "vhosts/v1/topic-permissions"),
    *("users", "users/without-permissions", "users/u1", "users/u1/permissions"),
    *("users/u1/topic-permissions", "permissions", "permissions/v1/u1", "topic-permissions"),
    *("topic-permissions/v1/u1", "topic-permissions/v1/u1/amq.topic"),
    *("aliveness-test/%2F", "healthchecks/node", "healthchecks/node/{node}"),
    *("health/checks/alarms", "health/checks/local-alarms", "health/checks/virtual-hosts"),
    *("health/checks/certificate-expiration/1/days", "health/checks/node-is-quorum-critical"),
    *("health/checks/node-is-mirror-sync-critical",),
    *("health/checks/protocol-listener/amqp091", "health/checks/protocol-listener/mqtt"),
    *("health/checks/port-listener/1",),
    *("nothing", "nodes/nothing/memory", "queues/%2F/nothing", "exchanges/%2F/nothing"),
)

# Objects whose fields are names that somebody gave.
_OPEN = frozenset(
    (
        *("arguments", "client_properties", "cluster_state", "definition", "limits"),
        *("effective_policy_definition", "backing_queue_status", "socket_opts"),
    )
)
# There while nothing happens, or of any type.
_LEFT_OUT = frozenset(("idle_since", "value"))


def endpoints(overview: Any, connections: Any, channels: Any) -> Iterable[tuple[str, str]]:
    """Each endpoint as it is written above, and its path at one broker."""
    names = {
        "{node}": overview["node"],
        "{connection}": connections[0]["name"],
        "{channel}": channels[0]["name"],
    }
    for endpoint in _ENDPOINTS:
        path = endpoint
        for placeholder, name in names.items():
            path = path.replace(placeholder, quote(name, safe=""))
        yield endpoint, path


def shape_of(status: int, body: bytes) -> Shape:
    """What an answer is made of."""
    shape: Shape = {"status": str(status)}
    if body:
        _look("", json.loads(body), shape)
    return shape


def _look(place: str, value: Any, shape: Shape) -> None:
    kind = _kind(value)
    # What is not known now says nothing of its type, and of rows of a list one that says more counts.
    if shape.get(place, "null") == "null":
        shape[place] = kind
    if isinstance(value, dict) and place.rpartition(".")[2] not in _OPEN:
        for name in value.keys() - _LEFT_OUT:
            _look(f"{place}.{name}", value[name], shape)
    elif isinstance(value, list):
        for one in value:
            _look(f"{place}[]", one, shape)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


# --- differences --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeDifference:
    """Fields, as patterns of ``endpoint field``, that are not at both brokers, or not of one type."""

    fields: tuple[str, ...]
    why: str


SHAPE_DIFFERENCES: tuple[ShapeDifference, ...] = (
    ShapeDifference(
        fields=(
            *("*.garbage_collection", "*.reductions", "*.reductions_details", "* .memory.*"),
            *("nodes* .gc_*", "nodes* .mnesia_*", "nodes* .proc_*", "nodes* .run_queue"),
            *("nodes* .net_ticktime", "nodes* .context_switches*", "nodes* .metrics_gc_*"),
            *("nodes* .cluster_links", "nodes* .ra_open_*", "overview .erlang_*"),
            *("*.contexts.cowboy_opts", "overview .contexts.ssl_opts", "*.listeners.socket_opts"),
            *("overview .release_series_*", "overview .statistics_db_*", "*.pending_raft_commands"),
        ),
        why="of Erlang, and of libraries and releases of RabbitMQ's own",
    ),
    ShapeDifference(
        fields=(
            *(
                "nodes* .io_*",
                "nodes* .msg_store_*",
                "nodes* .queue_index_*",
                "*.message_stats.disk_*",
            ),
            *("queues*.backing_queue_status", "queues*.messages_paged_out", "queues*.messages_ram"),
            *(
                "queues*.messages_ready_ram",
                "queues*.messages_unacknowledged_ram",
                "queues*.memory",
            ),
            *(
                "queues*.messages_persistent",
                "queues*.message_bytes*",
                "queues*.recoverable_slaves",
            ),
            "queues*.head_message_timestamp",
        ),
        why="of the way in which RabbitMQ stores messages; here all are in the log, not counted by size",
    ),
    ShapeDifference(
        fields=(
            *("queues*.consumer_capacity", "queues*.consumer_utilisation"),
            *("queues*.exclusive_consumer_tag", "queues*.single_active_consumer_tag"),
        ),
        why="what consumers do is told by their own nodes, in consumer_details",
    ),
    ShapeDifference(
        fields=(
            *("nodes* .channel_*", "nodes* .connection_*", "nodes* .queue_created*"),
            *("nodes* .queue_de*", "overview .churn_rates", "*.message_stats.get_empty*"),
            *("*.message_stats.confirm*", "*.message_stats.drop_*", "*.message_stats.return_*"),
            *("vhosts* .message_stats", "*channels* .message_stats", "exchanges* .message_stats"),
            *("*connections* .recv_cnt", "*connections* .send_cnt", "*connections* .send_pend"),
            *("*channels* .acks_uncommitted", "*channels* .messages_unco*"),
            *("vhosts* .recv_oct", "vhosts* .send_oct"),
        ),
        why="not counted: message_stats are kept for each queue and for all, octets for each connection",
    ),
    ShapeDifference(
        fields=(
            *("*.recv_oct_details", "*.send_oct_details", "nodes* .*_used_details"),
            *("nodes* .disk_free_details", "overview .sample_retention_policies.*"),
        ),
        why="there are no histories; rates are measured of messages only",
    ),
    ShapeDifference(
        fields=("nodes* .log_files", "nodes* .config_files"),
        why="lists that are empty here: logs go to the standard error stream, settings may be arguments",
    ),
    ShapeDifference(
        fields=("exchanges/%2F/events .user_who_performed_action",),
        why="who declared a thing is not stored",
    ),
    ShapeDifference(fields=("extensions ",), why="RabbitMQ's web pages"),
    ShapeDifference(
        fields=(
            *("queues*.topic", "queues*.messages_lost", "overview .queue_totals.messages_lost"),
            *("* .millpond_version", "nodes* .millpond_offline_log_dirs"),
        ),
        why="Millpond's own",
    ),
    ShapeDifference(
        fields=("*definitions .vhosts.*", "all-configuration .vhosts.*", "* .queues.type"),
        why="definitions say what those of RabbitMQ since 3.12 say, and import both",
    ),
)


def differences(ours: Mapping[str, Shape], theirs: Mapping[str, Shape]) -> list[str]:
    """Every difference, as ``endpoint field: ours, theirs``."""
    found = []
    for endpoint, their_shape in theirs.items():
        our_shape = ours[endpoint]
        for place in sorted({*our_shape, *their_shape}):
            mine, other = our_shape.get(place, "missing"), their_shape.get(place, "missing")
            if mine == other or ("missing" not in (mine, other) and "null" in (mine, other)):
                continue
            if _is_within(place, our_shape) and _is_within(place, their_shape):
                found.append(f"{endpoint} {place}: {mine}, {other}")
    return found


def _is_within(place: str, shape: Shape) -> bool:
    """Whether a shape has what a field is a part of; if not, that is said once, for the whole."""
    whole = place.removesuffix("[]") if place.endswith("[]") else place.rpartition(".")[0]
    return place in shape or whole in shape


def undeclared(found: Iterable[str]) -> list[str]:
    """Those that nothing above explains; and explanations of what is not there any more."""
    lines = list(found)
    patterns = [pattern for one in SHAPE_DIFFERENCES for pattern in one.fields]
    unused = [
        f"declared, and not there any more: {pattern}"
        for pattern in patterns
        if not any(_matches(line, pattern) for line in lines)
    ]
    return unused + [line for line in lines if not any(_matches(line, one) for one in patterns)]


def _matches(line: str, pattern: str) -> bool:
    return fnmatchcase(line.rpartition(": ")[0].replace("[]", ""), pattern)


# --- a broker behind a socket -------------------------------------------------------------------------------


def ask_over_http(port: int, ask: Ask) -> tuple[int, bytes]:
    # RabbitMQ ends a connection that is a few seconds old without a word.
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(ask.method, f"/api/{ask.path}", ask.data, ask.headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def look_over_http(amqp: int, management: int, wait_until: Callable[..., None]) -> dict[str, Shape]:
    """The shapes of a broker that has been furnished; a consumer of its queue is there meanwhile."""
    import pika

    def do(asks: Iterable[Ask]) -> None:
        for ask in asks:
            status, body = ask_over_http(management, ask)
            assert status < 300, (str(ask), status, body)

    def get(path: str) -> Any:
        status, body = ask_over_http(management, Ask("GET", path))
        assert status == 200, (path, status, body)
        return json.loads(body)

    do(FURNITURE)
    place = pika.ConnectionParameters("127.0.0.1", amqp, socket_timeout=60, stack_timeout=60)
    with pika.BlockingConnection(place) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("work", lambda *_all: None, consumer_tag="me")
        do(MESSAGES)

        def is_counted() -> bool:
            """RabbitMQ counts every so often, and tells of it a while later."""
            connection.process_data_events(time_limit=0.1)
            queue = get("queues/%2F/work")
            rows = get("connections"), get("channels"), get("consumers")
            return (
                "message_stats" in queue
                and "deliver_get" in queue["message_stats"]
                and all(rows)
                and "recv_oct" in rows[0][0]
                and rows[1][0].get("messages_unacknowledged") == 1
                and "rate" in queue.get("messages_details", {})
                and bool(queue["consumer_details"])
            )

        wait_until(is_counted, timeout_s=60, what="counts of everything", poll_s=0.2)
        shapes = {}
        known = get("overview"), get("connections"), get("channels")
        for endpoint, path in endpoints(*known):
            shapes[endpoint] = shape_of(*ask_over_http(management, Ask("GET", path)))
            connection.process_data_events(time_limit=0)
    return shapes


def recorded_shapes() -> dict[str, Shape]:
    shapes: dict[str, Shape] = json.loads(RECORDED_SHAPES.read_text())
    return shapes


def main() -> None:
    from tests.support.processes.ports import wait_until
    from tests.support.processes.rabbitmq_server import RabbitMq

    with RabbitMq(with_management=True, settings=COUNTED_OFTEN) as rabbit:
        assert rabbit.management_port is not None
        shapes = look_over_http(rabbit.port, rabbit.management_port, wait_until)
    lines = (
        f" {json.dumps(name)}: {json.dumps(one, sort_keys=True)}" for name, one in shapes.items()
    )
    RECORDED_SHAPES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


# Milliseconds; RabbitMQ's default is 5000.
COUNTED_OFTEN = {"collect_statistics_interval": "500"}

if __name__ == "__main__":
    main()
