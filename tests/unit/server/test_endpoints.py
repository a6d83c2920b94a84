"""Addresses: what may be written for a listener, and what clients are told."""

import pytest

from millpond.base.errors import InvalidConfig
from millpond.server.endpoints import Listener, build_listeners, host_port, parse_endpoint
from millpond.server.protocols import AMQP, HTTP, KAFKA

DEFAULT_MAP = ("PLAINTEXT:PLAINTEXT", "SSL:SSL")


def listeners_of(
    *texts: str, advertised: tuple[str, ...] = (), security_map: tuple[str, ...] = DEFAULT_MAP
) -> list[Listener]:
    opened, _ = build_listeners(
        listeners=texts, advertised=advertised, security_map=security_map, controller_names=()
    )
    return opened


@pytest.mark.parametrize(
    ("text", "name", "host", "port"),
    [
        ("PLAINTEXT://127.0.0.1:9092", "PLAINTEXT", "127.0.0.1", 9092),
        ("PLAINTEXT://:9092", "PLAINTEXT", "", 9092),
        ("plaintext://host.example:0", "PLAINTEXT", "host.example", 0),
        ("PLAINTEXT://[::1]:9092", "PLAINTEXT", "::1", 9092),
        ("127.0.0.1:9092", "", "127.0.0.1", 9092),
        (":9092", "", "", 9092),
        ("9092", "", "127.0.0.1", 9092),
        ("[::]:9092", "", "::", 9092),
    ],
)
def test_what_an_address_may_look_like(text: str, name: str, host: str, port: int) -> None:
    endpoint = parse_endpoint(text, setting="listeners")

    assert (endpoint.name, endpoint.host, endpoint.port) == (name, host, port)


@pytest.mark.parametrize(
    "text",
    ["", "localhost", "host:", "PLAINTEXT:/x:1", "::1:9092", "host:70000", "host:-1", "a b://x:y"],
)
def test_what_is_not_an_address(text: str) -> None:
    with pytest.raises(InvalidConfig, match="listeners"):
        parse_endpoint(text, setting="listeners")


def test_what_is_not_an_address_for_amqp() -> None:
    with pytest.raises(InvalidConfig, match=r"--amqp: .* write host:port, .* 127\.0\.0\.1:5672"):
        parse_endpoint("127.0.0.1:5672x", setting="--amqp")


def test_bare_addresses_get_names_of_their_own() -> None:
    names = [listener.name for listener in listeners_of("127.0.0.1:9092", ":9093", "9094")]

    assert names == ["PLAINTEXT", "PLAINTEXT_2", "PLAINTEXT_3"]


def test_a_bare_address_beside_a_named_one() -> None:
    names = [listener.name for listener in listeners_of("PLAINTEXT://:9092", ":9093")]

    assert names == ["PLAINTEXT", "PLAINTEXT_2"]


def test_three_listeners_of_one_broker() -> None:
    opened = listeners_of(
        "INSIDE://:9092",
        "OUTSIDE://:9093",
        "THIRD://:9094",
        security_map=("INSIDE:PLAINTEXT", "OUTSIDE:PLAINTEXT", "THIRD:PLAINTEXT"),
        advertised=("OUTSIDE://broker.example:19093",),
    )

    assert [listener.bind.port for listener in opened] == [9092, 9093, 9094]
    assert [str(listener.advertised) for listener in opened] == [
        "None",
        "OUTSIDE://broker.example:19093",
        "None",
    ]


def test_a_name_or_an_address_that_comes_twice() -> None:
    with pytest.raises(InvalidConfig, match="PLAINTEXT comes twice"):
        listeners_of("PLAINTEXT://:9092", "PLAINTEXT://:9093")
    with pytest.raises(InvalidConfig, match=r"127\.0\.0\.1:9092 comes twice"):
        listeners_of("127.0.0.1:9092", "127.0.0.1:9092")


@pytest.mark.parametrize("name", ["AMPQ", "PLAINTXT", "MANAGMENT"])
def test_a_name_that_is_mistyped(name: str) -> None:
    with pytest.raises(InvalidConfig, match=r"did you mean (AMQP|PLAINTEXT|MANAGEMENT)\?"):
        listeners_of("PLAINTEXT://:9092", f"{name}://:5672")


def test_a_name_that_nothing_explains() -> None:
    with pytest.raises(
        InvalidConfig, match=r"add INTERNAL:PLAINTEXT to listener\.security\.protocol\.map"
    ):
        listeners_of("INTERNAL://:9092")


def test_a_security_map_with_an_unknown_protocol() -> None:
    with pytest.raises(InvalidConfig, match="must be NAME:PROTOCOL"):
        listeners_of("PLAINTEXT://:9092", security_map=("PLAINTEXT:MAGIC",))


def test_an_advertised_address_needs_its_listener_and_a_host() -> None:
    with pytest.raises(InvalidConfig, match="OTHER is not one of the listeners"):
        listeners_of("PLAINTEXT://:9092", advertised=("OTHER://h:1",))
    with pytest.raises(InvalidConfig, match="clients cannot connect to"):
        listeners_of("PLAINTEXT://:9092", advertised=("PLAINTEXT://0.0.0.0:9092",))


def test_only_controllers_leaves_nothing_to_open() -> None:
    with pytest.raises(InvalidConfig, match="no listener for clients"):
        build_listeners(
            listeners=["CONTROLLER://:9093"],
            advertised=None,
            security_map=["CONTROLLER:PLAINTEXT"],
            controller_names=["CONTROLLER"],
        )


def test_ipv6_addresses_are_shown_in_brackets() -> None:
    assert host_port("::1", 9092) == "[::1]:9092"
    assert host_port("localhost", 9092) == "localhost:9092"


def test_a_listener_named_amqp_comes_behind_those_for_kafka() -> None:
    first, second = listeners_of("AMQP://:5672", "PLAINTEXT://127.0.0.1:9092")

    assert (first.name, first.protocol) == ("PLAINTEXT", KAFKA)
    assert (second.name, second.protocol) == ("AMQP", AMQP)


def test_a_node_of_a_cluster_speaks_amqp_too() -> None:
    opened, _left_out = build_listeners(
        listeners=("PLAINTEXT://127.0.0.1:9092", "AMQP://:5672"),
        advertised=(),
        security_map=DEFAULT_MAP,
        controller_names=(),
        is_alone=False,
    )
    assert [(one.name, one.protocol) for one in opened] == [("PLAINTEXT", KAFKA), ("AMQP", AMQP)]


def test_amqp_is_administered_where_it_is_served() -> None:
    opened = listeners_of("9092", "MANAGEMENT://:15672", "AMQP://:5672")
    assert [(one.name, one.protocol) for one in opened] == [
        ("PLAINTEXT", KAFKA),
        ("AMQP", AMQP),
        ("MANAGEMENT", HTTP),
    ]
    with pytest.raises(InvalidConfig, match=r"add AMQP://127\.0\.0\.1:5672"):
        listeners_of("9092", "MANAGEMENT://:15672")
