"""``DecideOnQueues``: a command about exchanges, queues, bindings or users, to the controller."""

from dataclasses import fields, is_dataclass
from typing import Any, cast

from millpond.base.fields import LongString, Table
from millpond.engine.queues.peer_requests import DecideOnQueues, QueueDecision
from millpond.peer.calls import ConnectionKind
from millpond.peer.own_calls import OwnCall, int_of
from millpond.rabbit.commands import (
    Bind,
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
from millpond.rabbit.records import KINDS, Queue, decode_fact, encode_fact

# By their names on the wire, which do not follow the names of classes.
_COMMANDS: dict[str, type[Any]] = {
    "DeclareExchange": DeclareExchange,
    "DeleteExchange": DeleteExchange,
    "DeclareQueue": DeclareQueue,
    "DeleteQueue": DeleteQueue,
    "Bind": Bind,
    "Unbind": Unbind,
    "LoseConnection": LoseConnection,
    "LoseLastConsumer": LoseLastConsumer,
    "Store": Store,
    "StoreAll": StoreAll,
}
_NAMES = {kind: name for name, kind in _COMMANDS.items()}
_TEXT = frozenset(("str", "<class 'str'>"))
_FACTS = tuple(KINDS.values())


def _command_to_table(command: object) -> Table:
    values: dict[str, Any] = {"command": _NAMES[type(command)]}
    for one in fields(command):  # type: ignore[arg-type]
        values[one.name] = _value(getattr(command, one.name))
    return values


def _value(value: Any) -> Any:
    if isinstance(value, _FACTS):
        return {"fact": encode_fact(value)}
    if isinstance(value, tuple):
        return [_value(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        # Defaults are left out: an older node does not know every field.
        said = ((one.name, getattr(value, one.name), one.default) for one in fields(value))
        return {name: _value(given) for name, given, default in said if given != default}
    return value


def _command(table: Table) -> Any:
    kind = _COMMANDS[str(table["command"])]
    values: dict[str, Any] = {}
    for one in fields(kind):
        if one.name in table:
            values[one.name] = _read(one.name, str(one.type), table[one.name])
    return kind(**values)


def _read(name: str, type_: str, value: Any) -> Any:
    if name == "asker":
        return _principal(value)
    if isinstance(value, LongString) and type_ in _TEXT:
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, dict) and set(value) == {"fact"}:
        return decode_fact(value["fact"])
    if isinstance(value, list) and "tuple" in type_:
        return tuple(_read("", "", one) for one in value)
    return value


def _principal(values: dict[str, Any]) -> Principal:
    scopes = values.get("scopes")
    return Principal(**{**values, "scopes": None if scopes is None else tuple(map(str, scopes))})


def _decision_to_table(decision: QueueDecision) -> Table:
    queue = decision.queue
    return {
        "offset": decision.offset,
        "queue": None if queue is None else encode_fact(queue),
    }


def _decision(table: Table) -> QueueDecision:
    queue = table["queue"]
    found = decode_fact(queue) if isinstance(queue, bytes) else None
    return QueueDecision(
        offset=int_of(table["offset"]), queue=found if isinstance(found, Queue) else None
    )


CALL = OwnCall(
    name="DecideOnQueues",
    kind=DecideOnQueues,
    connection=ConnectionKind.QUEUE_COMMANDS,
    to_table=lambda one: {
        "node": one.node_id,
        "life": one.life,
        "command": _command_to_table(one.command),
    },
    from_table=lambda table: DecideOnQueues(
        node_id=int_of(table["node"]),
        life=str(table["life"]),
        command=_command(cast("Table", table["command"])),
    ),
    answer_to_table=_decision_to_table,
    answer_from_table=_decision,
)
