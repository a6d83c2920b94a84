"""One story told to RabbitMQ's management API over HTTP, and what is kept of the answers.

``python -m tests.interop.amqp.http_scenes`` writes `rabbitmq_http.json` anew, from the RabbitMQ that is
installed. What differs from broker to broker, such as names of nodes and hashes, and what RabbitMQ counts
only every few seconds is left out of the answers.
"""

import base64
import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDED_HTTP = Path(__file__).with_name("rabbitmq_http.json")

GUEST = "guest:guest"
_ALL = {"configure": ".*", "write": ".*", "read": ".*"}
_BETWEEN = "bindings/%2F/e/x1/q/q1"
_MAX = {"pattern": "^q", "definition": {"max-length": 3}}


@dataclass(frozen=True)
class Ask:
    """A request to ``/api/…``. Of a ``brief`` one only the status is compared."""

    method: str
    path: str
    body: Any = None
    login: str | None = GUEST
    is_brief: bool = False

    def __str__(self) -> str:
        words = [self.method, self.path]
        if self.body is not None:
            words.append(self.body if isinstance(self.body, str) else json.dumps(self.body))
        if self.login != GUEST:
            words.append(f"as {self.login}")
        return " ".join(words)

    @property
    def data(self) -> bytes:
        if self.body is None:
            return b""
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()

    @property
    def headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json"} if self.body is not None else {}
        if self.login is not None:
            code = base64.b64encode(self.login.encode()).decode()
            headers["authorization"] = f"Basic {code}"
        return headers


def _publish(payload: str, **changes: object) -> dict[str, object]:
    wanted = {"routing_key": "a.b", "payload": payload, "payload_encoding": "string"}
    return {**wanted, "properties": {}, **changes}


def _get(mode: str, count: object = 5, **more: object) -> dict[str, object]:
    return {"count": count, "ackmode": mode, "encoding": "auto", **more}


STORY: list[Ask] = [
    Ask("GET", "overview", is_brief=True),
    Ask("GET", "overview", login=None, is_brief=True),
    Ask("GET", "overview", login="guest:wrong"),
    Ask("GET", "whoami"),
    Ask("GET", "nodes", is_brief=True),
    Ask("GET", "nothing"),
    Ask("PATCH", "queues/%2F/q1", is_brief=True),
    # Virtual hosts, users, permissions.
    Ask("GET", "vhosts/nope"),
    Ask("PUT", "vhosts/v1"),
    Ask("PUT", "vhosts/v1", {"description": "d", "tags": "a,b"}),
    Ask("GET", "vhosts/v1"),
    Ask("PUT", "users/u1", {"password": "p", "tags": "management"}),
    Ask("PUT", "users/u1", {"password": "p2", "tags": "management"}),
    Ask("GET", "users/u1"),
    Ask("PUT", "users/u2", {"tags": "monitoring,policymaker"}),
    Ask("PUT", "users/u3", {"password": "p"}),
    Ask("GET", "users"),
    Ask("PUT", "permissions/v1/u1", _ALL),
    Ask("PUT", "permissions/v1/u1", {"configure": ".*"}),
    Ask("PUT", "permissions/v1/nobody", _ALL),
    Ask("PUT", "permissions/nowhere/u1", _ALL),
    Ask("GET", "permissions"),
    Ask("GET", "permissions/v1/u1"),
    Ask("GET", "permissions/v1/nobody"),
    Ask("GET", "users/u1/permissions"),
    Ask("GET", "users/without-permissions"),
    Ask("PUT", "topic-permissions/v1/u1", {"exchange": "amq.topic", "write": "a", "read": ".*"}),
    Ask("GET", "topic-permissions"),
    Ask("GET", "topic-permissions/v1/u1"),
    Ask("PUT", "vhost-limits/v1/max-queues", {"value": 5}),
    Ask("GET", "vhost-limits"),
    # Exchanges and queues.
    Ask("PUT", "exchanges/%2F/x1", {"type": "topic", "durable": True}),
    Ask("PUT", "exchanges/%2F/x1", {"type": "topic", "durable": True}),
    Ask("PUT", "exchanges/%2F/x1", {"type": "direct", "durable": True}),
    Ask("PUT", "exchanges/%2F/x2", {}),
    Ask("PUT", "exchanges/%2F/x3", {"type": "nope"}),
    Ask("GET", "exchanges/%2F/x1"),
    Ask("GET", "exchanges/%2F/nope"),
    Ask("GET", "exchanges/nowhere"),
    Ask("GET", "exchanges/%2F/amq.default"),
    Ask("GET", "exchanges/v1"),
    Ask("PUT", "queues/%2F/q1", {"durable": True, "arguments": {"x-max-length": 9}}),
    Ask("PUT", "queues/%2F/q1", {"durable": "true", "arguments": {"x-max-length": 9}}),
    Ask("PUT", "queues/%2F/q1", {"durable": "false"}),
    Ask("PUT", "queues/%2F/q2", {"durable": "maybe"}),
    Ask("PUT", "queues/%2F/q2", {"arguments": {"x-max-length": "s"}}),
    Ask("PUT", "queues/%2F/amq.q", {}),
    Ask("PUT", "queues/%2F/q2", "{bad"),
    Ask("GET", "queues"),
    Ask("GET", "queues/%2F/q1"),
    Ask("GET", "queues/%2F/nope"),
    # Bindings.
    Ask("POST", _BETWEEN, {"routing_key": "a.*", "arguments": {"k": 1}}),
    Ask("POST", _BETWEEN, {"routing_key": "a.#"}),
    Ask("POST", _BETWEEN),
    Ask("POST", "bindings/%2F/e/x1/q/nope", {"routing_key": "a"}),
    Ask("POST", "bindings/%2F/e/x1/e/x2", {"routing_key": "b"}),
    Ask("GET", "bindings"),
    Ask("GET", _BETWEEN),
    Ask("GET", f"{_BETWEEN}/a.%23"),
    Ask("GET", "queues/%2F/q1/bindings"),
    Ask("GET", "exchanges/%2F/x1/bindings/source"),
    Ask("GET", "exchanges/%2F/x2/bindings/destination"),
    Ask("DELETE", f"{_BETWEEN}/nope"),
    Ask("DELETE", f"{_BETWEEN}/~"),
    # Messages.
    Ask("POST", "exchanges/%2F/x1/publish", _publish("hi", properties={"delivery_mode": 2})),
    Ask("POST", "exchanges/%2F/x1/publish", _publish("no", routing_key="nowhere")),
    Ask("POST", "exchanges/%2F/x1/publish", _publish("aGVsbG//", payload_encoding="base64")),
    Ask("POST", "exchanges/%2F/x1/publish", {"routing_key": "a.b"}),
    Ask("POST", "exchanges/%2F/nope/publish", _publish("x")),
    Ask("POST", "exchanges/%2F/x1/publish", _publish("x", payload_encoding="rot13")),
    Ask("POST", "exchanges/%2F/amq.default/publish", _publish("x", routing_key="q1")),
    Ask("POST", "queues/%2F/q1/get", _get("ack_requeue_true")),
    Ask("POST", "queues/%2F/q1/get", _get("ack_requeue_false", "1", truncate=1)),
    Ask("POST", "queues/%2F/q1/get", {"count": 5}),
    Ask("POST", "queues/%2F/nope/get", _get("ack_requeue_true")),
    Ask("POST", "queues/%2F/q1/get", _get("reject_requeue_false", 1)),
    Ask("DELETE", "queues/%2F/q1/contents"),
    Ask("POST", "queues/%2F/q1/get", _get("ack_requeue_true")),
    Ask("DELETE", "queues/%2F/nope/contents"),
    Ask("GET", "aliveness-test/%2F"),
    # Policies.
    Ask("PUT", "policies/%2F/p1", {**_MAX, "priority": 1, "apply-to": "queues"}),
    Ask("PUT", "policies/%2F/p1", _MAX),
    Ask("PUT", "policies/%2F/p2", {"pattern": "("}),
    Ask("PUT", "policies/%2F/p2", {"pattern": "(", "definition": {"max-length": 1}}, is_brief=True),
    Ask("PUT", "policies/%2F/p2", {"pattern": "x", "definition": {"nope": 1}}, is_brief=True),
    Ask("GET", "policies"),
    Ask("GET", "policies/%2F/p1"),
    Ask("PUT", "operator-policies/%2F/o1", {**_MAX, "apply-to": "queues"}),
    Ask("GET", "operator-policies"),
    Ask("GET", "parameters"),
    Ask("DELETE", "policies/%2F/nope"),
    # Definitions.
    Ask("GET", "definitions", is_brief=True),
    Ask("GET", "definitions/%2F"),
    Ask("POST", "definitions", {"vhosts": [{"name": "v2"}]}),
    Ask("POST", "definitions", "{bad"),
    Ask("POST", "definitions", {"queues": [{"name": "a", "vhost": "nope"}]}, is_brief=True),
    # Who is there, and how it is.
    Ask("GET", "connections"),
    Ask("GET", "channels"),
    Ask("GET", "consumers"),
    Ask("DELETE", "connections/nope"),
    Ask("GET", "healthchecks/node"),
    Ask("GET", "health/checks/alarms"),
    Ask("GET", "health/checks/virtual-hosts"),
    Ask("GET", "health/checks/port-listener/1", is_brief=True),
    Ask("GET", "health/checks/protocol-listener/amqp091"),
    Ask("GET", "health/checks/protocol-listener/mqtt", is_brief=True),
    # Pages, columns, orders.
    Ask("GET", "exchanges/v1?columns=name,type&sort=name&sort_reverse=true"),
    Ask("GET", "queues/%2F?page=2&page_size=1&columns=name"),
    Ask("GET", "queues?page=1&page_size=100&name=ALIVE&columns=name"),
    Ask("GET", "queues?page=1&page_size=100&name=%5Eq.%24&use_regex=true&columns=name"),
    Ask("GET", "queues?page=9&page_size=10"),
    Ask("GET", "queues?page=x&page_size=10"),
    # What tags are for.
    Ask("GET", "users", login="u1:p2"),
    Ask("GET", "queues", login="u1:p2"),
    Ask("GET", "queues/%2F/q1", login="u1:p2"),
    Ask("PUT", "policies/v1/p", _MAX, login="u1:p2"),
    Ask("GET", "nodes", login="u1:p2"),
    Ask("GET", "vhosts", login="u1:p2"),
    Ask("GET", "definitions", login="u1:p2"),
    Ask("PUT", "queues/v1/mine", {}, login="u1:p2"),
    Ask("PUT", "users/plain", {"password": "n", "tags": ""}),
    Ask("GET", "overview", login="plain:n"),
    # Everything goes again.
    Ask("DELETE", "queues/%2F/q1?if-empty=true"),
    Ask("DELETE", "queues/%2F/q1"),
    Ask("DELETE", "exchanges/%2F/amq.topic"),
    Ask("DELETE", "exchanges/%2F/x1?if-unused=true"),
    Ask("DELETE", "exchanges/%2F/x1"),
    Ask("DELETE", "exchanges/%2F/x1"),
    Ask("DELETE", "permissions/v1/nobody"),
    Ask("DELETE", "permissions/v1/u1"),
    Ask("DELETE", "topic-permissions/v1/u1"),
    Ask("DELETE", "users/u1"),
    Ask("DELETE", "users/u1"),
    Ask("POST", "users/bulk-delete", {"users": ["nobody", "u2"]}),
    Ask("POST", "users/bulk-delete", {"users": ["u2", "plain"]}),
    Ask("DELETE", "vhosts/v1"),
    Ask("DELETE", "vhosts/v1"),
    Ask("DELETE", "policies/%2F/p1"),
    Ask("DELETE", "operator-policies/%2F/o1"),
]

# Of one broker, of one moment, or of a way to work that only one of them has.
_LEFT_OUT = frozenset(
    (
        "backing_queue_status",
        "cluster_state",
        "consumer_capacity",
        "consumer_utilisation",
        "consumers",
        "default_queue_type",
        "effective_policy_definition",
        "exclusive_consumer_tag",
        "garbage_collection",
        "head_message_timestamp",
        "idle_since",
        "memory",
        "node",
        "operator_policy",
        "password_hash",
        "policy",
        "recoverable_slaves",
        "reductions",
        "reductions_details",
        "single_active_consumer_tag",
        "state",
        "topic",
        "user_who_performed_action",
    )
)


def told(ask: Ask, status: int, body: bytes, location: str | None) -> dict[str, Any]:
    """What is kept of an answer."""
    kept: dict[str, Any] = {"asked": str(ask), "status": status}
    if location is not None:
        kept["location"] = _without_hash(location)
    if body and not ask.is_brief:
        kept["said"] = _pruned(json.loads(body))
    return kept


def _pruned(value: Any) -> Any:
    if isinstance(value, list):
        rows = [_pruned(one) for one in value if not _is_traced(one)]
        return sorted(rows, key=_order) if rows and isinstance(rows[0], dict) else rows
    if not isinstance(value, dict):
        return value
    kept = {
        name: _pruned(one)
        for name, one in value.items()
        if name not in _LEFT_OUT and not name.startswith(("message_stats", "messages", "message_b"))
    }
    if "properties_key" in kept:
        kept["properties_key"] = _without_hash(kept["properties_key"])
    return kept


def _order(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _is_traced(value: Any) -> bool:
    """RabbitMQ's exchange for tracing, which nothing here stands for."""
    return isinstance(value, dict) and value.get("name") == "amq.rabbitmq.trace"


def _without_hash(key: str) -> str:
    """Arguments are hashed, each broker in its way."""
    start, tilde, digest = key.rpartition("~")
    return f"{start}~#" if tilde and digest else key


def play(host: str, port: int) -> list[dict[str, Any]]:
    """The story, told to a broker over its socket."""
    answers = []
    for ask in STORY:
        # RabbitMQ ends a connection that is a few seconds old without a word.
        connection = http.client.HTTPConnection(host, port, timeout=20)
        try:
            connection.request(ask.method, f"/api/{ask.path}", ask.data, ask.headers)
            answer = connection.getresponse()
            body = answer.read()
            answers.append(told(ask, answer.status, body, answer.getheader("location")))
        finally:
            connection.close()
    return answers


def recorded_http() -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = json.loads(RECORDED_HTTP.read_text())
    return answers


def main() -> None:
    from tests.support.processes.rabbitmq_server import RabbitMq

    with RabbitMq(with_management=True) as rabbit:
        assert rabbit.management_port is not None
        answers = play("127.0.0.1", rabbit.management_port)
    lines = ",\n ".join(json.dumps(answer, sort_keys=True) for answer in answers)
    RECORDED_HTTP.write_text(f"[{lines}]\n")


if __name__ == "__main__":
    main()
