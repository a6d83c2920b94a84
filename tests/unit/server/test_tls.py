"""TLS's settings, and whom a certificate names."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from millpond.base.errors import InvalidConfig
from millpond.metadata.configs import BrokerConfig
from millpond.server.endpoints import Listener, build_listeners
from millpond.server.failures import StartFailed
from millpond.server.protocols import AMQP
from millpond.server.tls import certified_name, server_context


def listeners(*texts: str) -> list[Listener]:
    opened, _skipped = build_listeners(
        listeners=["PLAINTEXT://:9092", *texts],
        advertised=None,
        security_map=[],
        controller_names=[],
    )
    return opened[1:]


def test_names_say_which_listeners_speak_amqp_and_which_over_tls() -> None:
    found = listeners("AMQP://:5672", "AMQPS://:5671", "AMQP_INSIDE://:5673", "AMQPS_OUT://:5674")
    assert [(one.name, one.protocol, one.is_tls) for one in found] == [
        ("AMQP", AMQP, False),
        ("AMQPS", AMQP, True),
        ("AMQP_INSIDE", AMQP, False),
        ("AMQPS_OUT", AMQP, True),
    ]


def test_a_name_that_only_begins_like_it_is_another() -> None:
    with pytest.raises(InvalidConfig, match="AMQPX"):
        listeners("AMQPX://:5672")


def test_a_certificate_is_needed() -> None:
    with pytest.raises(StartFailed, match="needs a certificate"):
        server_context(BrokerConfig())


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("no certificate")
    with pytest.raises(StartFailed, match="cannot be used"):
        server_context(BrokerConfig({"ssl_options.certfile": str(rubbish)}))
    with pytest.raises(StartFailed, match=r"certfile names .*nothing, which is no file"):
        server_context(BrokerConfig({"ssl_options.certfile": str(tmp_path / "nothing")}))


class _Stream(asyncio.BaseTransport):
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        subject = (
            (("countryName", "DE"),),
            (("organizationName", "mill"),),
            (("commonName", "m"),),
        )
        return {"subject": subject} if name == "peercert" else default


def test_whom_a_certificate_names() -> None:
    assert certified_name(_Stream(), "common_name") == "m"
    assert certified_name(_Stream(), "distinguished_name") == "CN=m,O=mill,C=DE"
    assert certified_name(asyncio.BaseTransport(), "common_name") == ""
