"""Listening sockets: what is bound, what clients are told, and what is said when it does not work."""

import asyncio
import socket

import pytest

from millpond.server.endpoints import Endpoint, Listener
from millpond.server.failures import ExitCode, StartFailed
from millpond.server.listeners import bind
from millpond.server.protocols import protocol_of


def listener(
    host: str, port: int = 0, advertised: Endpoint | None = None, name: str = "PLAINTEXT"
) -> Listener:
    protocol, scheme = protocol_of(name)
    return Listener(
        bind=Endpoint(name=name, host=host, port=port),
        advertised=advertised,
        protocol=protocol,
        scheme=scheme,
    )


def test_a_free_port_is_chosen_and_advertised() -> None:
    bound = bind(listener("127.0.0.1"))
    try:
        assert bound.port > 0
        assert bound.address == f"127.0.0.1:{bound.port}"
    finally:
        bound.stop_accepting()


def test_every_interface_has_one_port_and_a_name_that_can_be_reached() -> None:
    bound = bind(listener(""))
    try:
        assert bound.advertised.host not in {"", "::", "0.0.0.0"}
        assert bound.advertised.port == bound.port
    finally:
        bound.stop_accepting()


def test_all_addresses_of_a_name_share_the_port() -> None:
    bound = bind(listener("localhost"))
    try:
        assert {each.getsockname()[1] for each in bound.sockets} == {bound.port}
    finally:
        bound.stop_accepting()


def test_an_advertised_port_of_zero_is_the_bound_one() -> None:
    bound = bind(listener("127.0.0.1", advertised=Endpoint(name="PLAINTEXT", host="h", port=0)))
    try:
        assert bound.address == f"h:{bound.port}"
    finally:
        bound.stop_accepting()


@pytest.mark.parametrize(("host", "who"), [("127.0.0.1", "guest:guest@"), ("mill.example", "")])
def test_only_this_machine_is_told_of_guest(host: str, who: str) -> None:
    place = Endpoint(name="AMQP", host=host, port=0)
    bound = bind(listener("127.0.0.1", advertised=place, name="AMQP"))
    try:
        assert bound.url == f"amqp://{who}{host}:{bound.port}/"
    finally:
        bound.stop_accepting()


def test_a_taken_port_names_the_address_and_the_way_out() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(StartFailed) as refused:
            bind(listener("127.0.0.1", port))

    assert f"127.0.0.1:{port}" in refused.value.what
    assert "another program" in refused.value.what
    assert any("--listen" in line for line in refused.value.advice)
    assert refused.value.code is ExitCode.ADDRESS


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("PLAINTEXT_2", "--listen"),
        ("AMQP", "--amqp"),
        ("AMQPS_IN", "--amqp"),
        ("MANAGEMENT", "--http"),
    ],
)
def test_the_way_out_is_the_option_of_the_listener(name: str, option: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(StartFailed) as refused:
            bind(listener("127.0.0.1", other.getsockname()[1], name=name))

    assert f"{option} 127.0.0.1:0" in refused.value.advice[0]
    assert ("AMQP's management API" in refused.value.what) == (name == "MANAGEMENT")
    assert ("RabbitMQ" in refused.value.advice[1]) == (option != "--listen")


def test_an_address_of_another_machine() -> None:
    with pytest.raises(StartFailed, match="does not have that address") as refused:
        bind(listener("192.0.2.1", 9092))  # a documentation address: nobody has it

    assert any("advertised.listeners" in line for line in refused.value.advice)


def test_a_name_without_an_address() -> None:
    with pytest.raises(StartFailed, match="has no address"):
        bind(listener("no-such-host.invalid"))


def test_clients_are_refused_until_served_and_after_the_stop() -> None:
    async def story() -> None:
        bound = bind(listener("127.0.0.1"))
        address = ("127.0.0.1", bound.port)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)

        await bound.serve(asyncio.Protocol, backlog=10)
        _, writer = await asyncio.open_connection(*address)
        writer.close()
        await writer.wait_closed()

        bound.stop_accepting()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)

    asyncio.run(story())
