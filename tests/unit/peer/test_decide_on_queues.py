"""The names of commands about queues and of their fields on the wire: a rename in the code changes none."""

from dataclasses import fields
from typing import Any, get_args

import pytest

from millpond.engine.queues.peer_requests import DecideOnQueues
from millpond.peer.decide_on_queues import CALL
from millpond.rabbit.commands import (
    Bind,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    LoseConnection,
    LoseLastConsumer,
    Principal,
    Store,
    StoreAll,
    Unbind,
)
from millpond.rabbit.records import VirtualHost

BY = Principal(connection="c")
HOST = VirtualHost(name="v")
BINDING = "asker source destination to_queue routing_key arguments"
ON_THE_WIRE: list[tuple[Any, str, str]] = [
    (
        DeclareExchange(asker=BY, name="e", type="direct"),
        "DeclareExchange",
        "asker name type passive durable auto_delete internal arguments",
    ),
    (DeleteExchange(asker=BY, name="e"), "DeleteExchange", "asker name if_unused"),
    (
        DeclareQueue(asker=BY, name="q"),
        "DeclareQueue",
        "asker name passive durable exclusive auto_delete arguments fresh_name",
    ),
    (
        DeleteQueue(asker=BY, name="q"),
        "DeleteQueue",
        "asker name if_unused if_empty messages consumers key",
    ),
    (Bind(asker=BY, source="e", destination="q", to_queue=True), "Bind", BINDING),
    (Unbind(asker=BY, source="e", destination="q", to_queue=True), "Unbind", BINDING),
    (LoseConnection(connection="c"), "LoseConnection", "connection"),
    (LoseLastConsumer(vhost="v", queue="q", key="k"), "LoseLastConsumer", "vhost queue key"),
    (Store(fact=HOST), "Store", "fact"),
    (StoreAll(facts=(HOST,)), "StoreAll", "facts"),
]


@pytest.mark.parametrize(("command", "name", "names"), ON_THE_WIRE, ids=lambda one: str(one)[:20])
def test_a_command_has_these_names(command: Any, name: str, names: str) -> None:
    table = CALL.to_table(DecideOnQueues(node_id=1, life="x", command=command))
    assert set(table) == {"node", "life", "command"}
    said: Any = table["command"]
    assert said["command"] == name
    assert set(said) == {"command", *names.split()}


def test_every_command_is_pinned() -> None:
    assert {type(command) for command, _name, _names in ON_THE_WIRE} == set(get_args(Command))


def test_a_principal_has_these_names() -> None:
    assert [one.name for one in fields(Principal)] == [
        "vhost",
        "connection",
        "user",
        "scopes",
        "is_expired",
    ]
