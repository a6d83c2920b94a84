"""Exchange types of people's own: how they are found, and how little harm a bad one does."""

import logging
from collections.abc import Iterable

import pytest
from examples.rollout_exchange import Rollout

from millpond.base.errors import InvalidBinding, InvalidQueueArgument
from millpond.base.fields import Table
from millpond.rabbit.broker import Broker
from millpond.rabbit.exchange_types import BindingTable, DirectTable, Registry, Routed
from millpond.rabbit.names import Resource
from millpond.rabbit.records import Binding, Exchange, Queue, VirtualHost
from millpond.server.exchange_plugins import load_exchange_types
from millpond.server.failures import StartFailed

HERE = "tests.unit.server.test_exchange_plugins"


class Broken(DirectTable):
    """Knows its bindings, and falls over messages."""

    def match(self, message: Routed) -> Iterable[Resource]:  # type: ignore[override]
        raise ZeroDivisionError


class Bad:
    name = "x-bad"
    by_key_only = False

    def check_arguments(self, arguments: Table) -> None:
        len(arguments["needed"])  # type: ignore[arg-type]

    def check_binding(self, routing_key: str, arguments: Table, exchange_arguments: Table) -> None:
        int(routing_key)

    def make_table(self, arguments: Table) -> BindingTable:
        return Broken()


class Nameless:
    name = ""


class Taken(Rollout):
    name = "taken"


taken = Taken()


def test_a_class_or_an_object_by_its_place() -> None:
    registry = Registry()
    for _time in range(2):
        load_exchange_types(["examples.rollout_exchange:Rollout", f"{HERE}:taken"], registry)
    assert registry.names == ("x-rollout", "taken")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("rollout", "not of the form package.module:Name"),
        ("no.such.module:Rollout", "No module named 'no'"),
        ("examples.rollout_exchange:Nothing", "has no attribute 'Nothing'"),
        (f"{HERE}:Nameless", "it lacks check_arguments, check_binding, make_table"),
    ],
)
def test_what_cannot_be_loaded_stops_the_start(place: str, why: str) -> None:
    with pytest.raises(StartFailed) as failed:
        load_exchange_types([place], Registry())
    assert why in str(failed.value)


def test_a_name_is_taken_once() -> None:
    registry = Registry(taken)
    with pytest.raises(StartFailed, match="there is an exchange type taken already"):
        load_exchange_types([f"{HERE}:Taken"], registry)


def test_a_type_that_fails_refuses_and_routes_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry()
    load_exchange_types([f"{HERE}:Bad"], registry)
    bad = registry["x-bad"]
    with caplog.at_level(logging.ERROR):
        with pytest.raises(InvalidQueueArgument, match="x-bad"):
            bad.check_arguments({})
        with pytest.raises(InvalidBinding, match="x-bad"):
            bad.check_binding("one", {}, {})
        table = bad.make_table({})
        table.add(Binding(vhost="/", source="x", destination="q"))
        for _message in range(100):
            assert list(table.match(Routed(("",)))) == []
    # Whoever looks finds it; a million messages do not fill the disk with it.
    assert 5 < sum("match failed" in record.message for record in caplog.records) < 10


def test_an_exchange_whose_type_is_not_here_stays_and_routes_nothing() -> None:
    broker = Broker(Registry())
    broker.apply(VirtualHost(name="/"))
    broker.apply(Exchange(vhost="/", name="x", type="x-lost"))
    broker.apply(Queue(vhost="/", name="q"))
    broker.apply(Binding(vhost="/", source="x", destination="q"))
    assert broker.rooms("/").router.route("x", Routed(("",))) == ()
    assert [one.destination for one in broker.rooms("/").bindings_from("x")] == ["q"]


def test_the_example_shares_users_and_keeps_them() -> None:
    rollout = Rollout()
    with pytest.raises(InvalidBinding):
        rollout.check_binding("", {"percent": 101}, {})

    def chosen(percent: int) -> set[str]:
        table = rollout.make_table({})
        for queue, share in (("new", percent), ("old", 100 - percent)):
            arguments: Table = {"percent": share}
            table.add(Binding(vhost="/", source="x", destination=queue, arguments=arguments))
        users = [f"user-{number}" for number in range(1000)]
        ways = {user: list(table.match(Routed(("",), {"user": user}))) for user in users}
        assert all(len(way) == 1 for way in ways.values())
        return {user for user, (target,) in ways.items() if target.name == "new"}

    few, more = chosen(10), chosen(30)
    assert 60 < len(few) < 140
    assert few < more
