"""A file that RabbitMQ exported is understood, and what is exported here is what was imported."""

import json
from pathlib import Path
from typing import Any

import pytest

from millpond.auth.permissions import is_password
from millpond.base.errors import InvalidDefinition
from millpond.rabbit.broker import Broker
from millpond.rabbit.definitions import export_definitions, import_definitions
from millpond.rabbit.exchange_types import Routed
from millpond.rabbit.records import decode_fact, encode_fact

# `rabbitmqctl export_definitions` of RabbitMQ 3.10.8. It leaves out internal exchanges; ours was `shop.y`.
FILE = Path(__file__).parent / "rabbitmq_definitions.json"


def document() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(FILE.read_text())
    internal = {"name": "shop.y", "vhost": "shop", "type": "headers", "internal": True}
    read["exchanges"].append(internal)
    return read


def imported(definitions: dict[str, Any]) -> Broker:
    broker = Broker()
    for fact in import_definitions(broker, definitions):
        broker.apply(decode_fact(encode_fact(fact)))
    return broker


def test_what_rabbitmq_exported_works_here() -> None:
    broker = imported(document())
    shop = broker.rooms("shop")
    assert shop.vhost.description == "the shop"
    assert shop.vhost.tags == ("a", "b")
    assert shop.router.route("shop.x", Routed(("a.b",))) == ("shop.q",)
    assert shop.router.route("shop.x", Routed(("b.c",), {"n": 5})) == ("shop.c",)
    assert shop.settings("shop.q").delivery_limit == 5
    assert shop.settings("shop.q").max_length == 100
    assert shop.settings("shop.c").max_length == 10
    assert is_password(broker.users["ann"], b"secret")
    assert not is_password(broker.users["ann"], b"Secret")


def test_what_is_exported_is_imported_again() -> None:
    first = export_definitions(imported(document()), "4.0.0")
    again = export_definitions(imported(json.loads(json.dumps(first))), "4.0.0")
    assert again == first
    assert first["parameters"][0]["component"] == "operator_policy"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queues", [{"name": "q", "vhost": "nowhere", "arguments": {}}]),
        ("queues", [{"name": "q", "vhost": "shop", "arguments": {"x-max-length": "5"}}]),
        ("exchanges", [{"name": "x", "vhost": "shop", "type": "nonsense"}]),
        ("exchanges", [{"vhost": "shop", "type": "direct"}]),
        ("bindings", [{"source": "x", "vhost": "shop", "destination": "shop.q"}]),
        (
            "policies",
            [{"name": "p", "vhost": "shop", "pattern": "(", "definition": {"expires": 1}}],
        ),
        (
            "policies",
            [{"name": "p", "vhost": "shop", "pattern": "", "definition": {"nonsense": 1}}],
        ),
        ("permissions", [{"user": "bob", "vhost": "/", "configure": "", "write": "", "read": ""}]),
        ("users", "nobody"),
        ("users", [5]),
    ],
)
def test_a_file_with_a_mistake_changes_nothing(name: str, value: object) -> None:
    definitions = document()
    definitions[name] = value
    if name in {"queues", "exchanges"}:
        definitions["bindings"] = []
    with pytest.raises(InvalidDefinition):
        imported(definitions)


def test_one_virtual_hosts_definitions() -> None:
    broker = imported(document())
    facts = import_definitions(broker, {"queues": [{"name": "more", "arguments": {}}]}, "shop")
    assert [(fact.vhost, fact.name) for fact in facts] == [("shop", "more")]  # type: ignore[union-attr]
