"""The registry: names of listeners, and what a protocol may not share with another one."""

from dataclasses import replace

import pytest

from millpond.server.protocols import (
    AMQP,
    HTTP,
    KAFKA,
    Scheme,
    WireProtocol,
    protocol_named,
    protocol_of,
    protocols,
    register,
    unregister,
)


@pytest.mark.parametrize(
    ("name", "protocol", "is_tls"),
    [
        ("PLAINTEXT", KAFKA, False),
        ("INSIDE", KAFKA, False),
        ("AMQP", AMQP, False),
        ("AMQP_INSIDE", AMQP, False),
        ("AMQPS", AMQP, True),
        ("AMQPS_2", AMQP, True),
        ("AMQPX", KAFKA, False),
        ("AMQP_", KAFKA, False),
        ("AMQP_a-b", KAFKA, False),
        ("MANAGEMENT", HTTP, False),
        ("MANAGEMENT_2", KAFKA, False),
    ],
)
def test_whose_a_listener_is(name: str, protocol: WireProtocol, is_tls: bool) -> None:
    found, scheme = protocol_of(name)
    assert (found, scheme.is_tls) == (protocol, is_tls)


def test_names_are_not_shared() -> None:
    other = replace(
        AMQP, name="other", option="--other", schemes=(Scheme("OTHER"), Scheme("AMQPS"))
    )
    for wrong in (
        other,
        replace(other, schemes=(Scheme("OTHER"),), option="--http"),
        replace(other, schemes=(Scheme("OTHER"),), name="kafka"),
        replace(other, schemes=(Scheme("OTHER"),), requires="nothing"),
    ):
        with pytest.raises(ValueError, match=r"share a name|is unknown"):
            register(wrong)
    assert protocols() == (KAFKA, AMQP, HTTP)


def test_a_protocol_that_is_registered_is_known_until_it_is_taken_out() -> None:
    other = replace(AMQP, name="other", option="--other", schemes=(Scheme("OTHER", "o"),))
    register(other)
    try:
        assert protocol_named("other") is other
        assert protocol_of("OTHER_2") == (other, other.schemes[0])
    finally:
        unregister("other")
    assert protocol_of("OTHER_2")[0] is KAFKA
