"""Whatever a client sends to the management API: it is answered, and never by an internal error.

Paths, queries and bodies are made by chance from what the API knows (its routes, the fields of its bodies,
names of things that are there) and from values that are wrong in type, size or encoding.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from millpond.frontend.rabbitmq_http import definitions, http
from millpond.frontend.rabbitmq_http.http import Response
from millpond.frontend.rabbitmq_http.routes import paths
from tests.support.amqp.management import ManagedBroker, managed_broker
from tests.support.time.virtual_loop import run

REQUESTS = 250

_NAMES = (
    *("%2F", "v1", "guest", "u1", "q1", "q2", "x1", "amq.topic", "amq.default", "p1", "q", "e"),
    *("max-queues", "max-channels", "cluster_name", "federation", "operator_policy", "~"),
    *("millpond%401", "millpond%400", "5672", "amqp091", "1", "days"),
    # Not UTF-8, half of a surrogate pair, nothing, a NUL, much, a dot, something foreign.
    *(
        "%FF",
        "%ED%A0%80",
        "%20",
        "%00",
        "n" * 300,
        "%C3%A9" * 200,
        "..",
        "%F0%9F%90%87",
        "%",
        "%zz",
    ),
)
_QUERY = ("page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns", "if-unused")
_FIELDS = (
    *("type", "durable", "auto_delete", "internal", "arguments", "routing_key", "properties"),
    *("payload", "payload_encoding", "count", "ackmode", "encoding", "truncate", "pattern"),
    *("definition", "priority", "apply-to", "value", "name", "vhost", "component", "password"),
    *("password_hash", "hashing_algorithm", "tags", "configure", "write", "read", "exchange"),
    *("description", "default_queue_type", "users", "action", "tracing", "node", "headers"),
    *("x-max-length", "x-queue-type", "x-message-ttl", "max-length", "expiration", "timestamp"),
    *("delivery_mode", "source", "destination", "destination_type", "user", "limits", "metadata"),
    *("x-match", "x-dead-letter-exchange", "reply_to", "message_id", "ha-mode", "content_type"),
)
_KINDS = (
    *("users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters"),
    *("policies", "queues", "exchanges", "bindings"),
)
_SCALARS = (
    *(None, True, False, 0, 1, -1, 5, 2**31, 2**63, -(2**63) - 1, 2**64, 10**400, 1.5, -0.0, 1e308),
    *(
        "",
        "true",
        "5",
        "direct",
        "topic",
        "classic",
        "quorum",
        "stream",
        "queues",
        "string",
        "auto",
    ),
    *("base64", "ack_requeue_true", "ack_requeue_false", "reject_requeue_true", ".*", "(", "^q"),
    *("guest", "/", "q1", "x1", "v1", "u1", "a,b", "queue", "administrator", "s" * 300),
    *("é" * 200, "\x00", "🐇", "x-delayed-message", "/w==", "all"),
)
_HALVES = ("\ud800", "\udfff tail", "head \udabc")
# What Python's parser takes and JSON does not have, and what is neither.
_BAD_BODIES = (
    *(b"{", b"[]", b"null", b'"text"', b"NaN", b'{"value":NaN}', b'{"value":1e999}', b"\xff\xfe"),
    *(
        b'{"value":"\xed\xa0\x80"}',
        b"[" * 5000,
        b'{"a":' * 3000,
        b'{"value":-Infinity}',
        b"7" * 5000,
    ),
    *(b'\xef\xbb\xbf{"value":1}', '{"value":"é"}'.encode("utf-16")),
)


@dataclass(frozen=True)
class Sent:
    """One request."""

    method: str
    path: str
    body: bytes


class Client:
    """Makes requests by chance."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._routes = sorted(paths())
        self._weights = [_WEIGHTS[method] for method, _route in self._routes]
        self._has_halves = False

    def requests(self) -> Iterator[Sent]:
        chance = self._chance
        for _number in range(REQUESTS):
            ((method, route),) = chance.choices(self._routes, self._weights)
            # Half of a surrogate pair is refused wherever it is, so that most requests have none.
            self._has_halves = chance.random() < 0.1
            if chance.random() < 0.03:
                method = chance.choice(("GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD"))
            yield Sent(method, self._path(route), self._body(method, route))

    def _path(self, route: str) -> str:
        chance = self._chance
        parts = route.split("/")
        path = "/".join(self._name(parts[0], one) if "{" in one else one for one in parts)
        if chance.random() < 0.3:
            fields = chance.choices(_QUERY, k=chance.randint(1, 4))
            path += "?" + "&".join(f"{field}={self._query_value()}" for field in fields)
        return path

    def _name(self, start: str, placeholder: str) -> str:
        """For a part of a path. The user who asks stays what it is."""
        likely = _PLACES.get(placeholder) or _PLACES.get(start, _NAMES)
        names = likely if self._chance.random() < 0.8 else _NAMES
        return self._chance.choice([one for one in names if start != "users" or one != "guest"])

    def _query_value(self) -> str:
        value = self._chance.choice((*_NAMES, *map(str, _SCALARS)))
        return value if value in _NAMES else quote(value)

    def _body(self, method: str, route: str) -> bytes:
        chance = self._chance
        if method in {"GET", "DELETE", "HEAD", "OPTIONS"} and chance.random() < 0.9:
            return b""
        if chance.random() < 0.08:
            return chance.choice(_BAD_BODIES)
        if route.startswith(("definitions", "all-configuration")):
            kinds = chance.sample(_KINDS, k=chance.randint(1, 3))
            value: Any = {
                kind: [self._object() for _each in range(chance.randint(0, 2))] for kind in kinds
            }
        else:
            value = self._object()
        return json.dumps(value).encode()

    def _object(self) -> dict[str, Any]:
        """Most bodies lack nothing that they need, so that what comes after that check is reached."""
        chance = self._chance
        size = len(_FIELDS) if chance.random() < 0.5 else chance.randint(0, 8)
        return {name: self._value(name) for name in chance.sample(_FIELDS, k=size)}

    def _value(self, name: str) -> Any:
        likely = _LIKELY.get(name)
        if likely is not None and self._chance.random() < 0.85:
            return self._chance.choice(likely)
        return self._any(3)

    def _any(self, depth: int) -> Any:
        chance = self._chance
        kind = chance.random()
        if self._has_halves and kind < 0.3:
            return chance.choice(_HALVES)
        if depth == 0 or kind < 0.6:
            return chance.choice(_SCALARS)
        if kind < 0.8:
            return [self._any(depth - 1) for _each in range(chance.randint(0, 3))]
        names = chance.choices((*_FIELDS, "k" * 300, "", "é" * 130), k=chance.randint(0, 4))
        return {name: self._any(depth - 1) for name in names}


_WEIGHTS = {"GET": 1, "PUT": 6, "POST": 6, "DELETE": 2}
_PLACES = {
    "{vhost}": ("%2F", "v1"),
    "{user}": ("guest", "u1"),
    "{exchange}": ("x1", "amq.topic"),
    "{source}": ("x1", "amq.topic"),
    "{destination}": ("q1", "x1"),
    "{kind}": ("q", "e"),
    "{limit}": ("max-queues", "max-channels", "max-connections"),
    "{component}": ("federation", "vhost-limits"),
    "vhosts": ("v1", "v2"),
    "vhost-limits": ("v1", "%2F"),
    "users": ("u1", "u2"),
    "user-limits": ("u1", "guest"),
    "exchanges": ("x1", "x2", "amq.topic", "amq.default"),
    "queues": ("q1", "q2"),
    "policies": ("p1",),
    "operator-policies": ("p1",),
    "global-parameters": ("cluster_name", "other"),
    "nodes": ("millpond%401",),
    "auth": ("millpond%401",),
}
_LIKELY: dict[str, tuple[Any, ...]] = {
    "type": ("direct", "topic", "classic", "quorum"),
    "durable": (True, False, "true"),
    "auto_delete": (False, "false"),
    "internal": (False,),
    "arguments": ({}, {"x-max-length": 5}, {"x-queue-type": "quorum"}, []),
    "properties": ({}, {"delivery_mode": 2}, {"headers": {"n": 1}}),
    "payload": ("", "text", "aGk="),
    "payload_encoding": ("string", "base64"),
    "count": (1, 5, "2"),
    "ackmode": ("ack_requeue_true", "ack_requeue_false"),
    "encoding": ("auto", "base64"),
    "truncate": (10,),
    "routing_key": ("q1", "a.b", ""),
    "pattern": (".*", "^q"),
    "definition": ({"max-length": 3}, {"message-ttl": 1000}),
    "priority": (0, 3),
    "apply-to": ("all", "queues", "exchanges"),
    "name": ("q1", "x1", "u1", "v1"),
    "vhost": ("/", "v1"),
    "user": ("guest", "u1"),
    "source": ("x1", "amq.topic"),
    "destination": ("q1", "x1"),
    "destination_type": ("queue", "exchange"),
    "component": ("federation", "operator_policy", "vhost-limits"),
    "value": (1, {}, {"max-queues": 3}, "text"),
    "tags": ("", "management", ["monitoring"]),
    "configure": (".*",),
    "write": (".*",),
    "read": (".*",),
    "exchange": ("amq.topic", "x1"),
    "users": (["u1"], []),
    "limits": ({}, []),
    "metadata": ({},),
    "default_queue_type": ("classic", "undefined"),
}


async def furnish(broker: ManagedBroker) -> None:
    """Names that requests may hit."""
    await broker.do("PUT", "vhosts/v1")
    await broker.do("PUT", "users/u1", {"password": "p", "tags": "management"})
    await broker.do("PUT", "exchanges/%2F/x1", {"type": "topic"})
    await broker.do("PUT", "queues/%2F/q1", {"durable": True})
    await broker.do("POST", "bindings/%2F/e/x1/q/q1", {"routing_key": "a.#"})
    await broker.do("PUT", "policies/%2F/p1", {"pattern": "^q", "definition": {"max-length": 9}})


async def broken(seed: int) -> list[tuple[Sent, Response]]:
    """Requests that were answered by an internal error, or by what is no JSON in UTF-8."""
    found = []
    async with managed_broker() as broker:
        await furnish(broker)
        for sent in Client(seed).requests():
            answer = await broker.ask(sent.method, sent.path, sent.body)
            if (answer.status >= 500 and not is_meant(sent, answer)) or not is_json(answer):
                found.append((sent, answer))
        whole = await broker.ask("GET", "definitions")
        assert whole.status == 200, whole
        again = await broker.ask("POST", "definitions", whole.body)
        if again.status != 204:
            found.append((Sent("POST", "definitions", whole.body), again))
    return found


def is_meant(sent: Sent, answer: Response) -> bool:
    """A check of health says by 503 that something is not so, and why."""
    is_check = sent.path.startswith(("health/", "healthchecks/", "aliveness-test/"))
    return is_check and answer.status == 503


def float_of(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def is_json(answer: Response) -> bool:
    if not answer.body:
        return True
    try:
        json.loads(answer.body.decode(), parse_constant=float_of)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("seed", range(12))
def test_no_input_is_an_internal_error(seed: int) -> None:
    assert run(broken(seed)) == []


def test_a_parser_that_takes_half_of_a_surrogate_pair_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The requests above are worth something: the defect that they are for is found by them."""

    def lax(body: bytes, *, refusal: str) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise http.bad_request(refusal) from None

    monkeypatch.setattr(http, "read_json", lax)
    monkeypatch.setattr(definitions, "read_json", lax)
    assert any(run(broken(seed)) for seed in range(12))
