"""pika over TLS: with a password, and with nothing but its certificate."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest
from pika.credentials import ExternalCredentials

from tests.interop.amqp.brokers import Broker
from tests.support.processes.certificates import Authority, Certificate
from tests.support.processes.ports import free_port

HOST = "127.0.0.1"


class SecureBroker(Broker):
    """Speaks AMQP over TLS, too, and asks its clients for certificates."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        super().__init__(directory)
        self.secure_port = free_port()
        server = authority.sign(f"/CN={HOST}", host=HOST)
        properties = self.process.properties
        properties["listeners"] += f",AMQPS://{HOST}:{self.secure_port}"
        properties["ssl_options.certfile"] = str(server.certificate)
        properties["ssl_options.keyfile"] = str(server.key)
        properties["ssl_options.cacertfile"] = str(authority.own.certificate)
        properties["ssl_options.verify"] = "verify_peer"
        self._authority = authority

    def connect_securely(
        self, client: Certificate | None = None, credentials: object = None
    ) -> pika.BlockingConnection:
        context = ssl.create_default_context(cafile=str(self._authority.own.certificate))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        parameters = pika.ConnectionParameters(
            HOST,
            self.secure_port,
            ssl_options=pika.SSLOptions(context, HOST),
            socket_timeout=60,
            stack_timeout=60,
        )
        if credentials is not None:
            parameters.credentials = credentials
        return pika.BlockingConnection(parameters)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[SecureBroker]:
    broker = SecureBroker(tmp_path_factory.mktemp("tls"), authority)
    with broker.process:
        yield broker


def test_messages_pass_over_tls(broker: SecureBroker) -> None:
    body = bytes(range(256)) * 4_000
    with broker.connect_securely() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("safe")
        channel.basic_publish("", "safe", body)
        _method, _properties, found = channel.basic_get("safe", auto_ack=True)
        assert found == body


def test_a_certificate_is_enough_for_the_user_that_it_names(
    broker: SecureBroker, authority: Authority
) -> None:
    known = authority.sign("/O=mill/CN=guest")
    with broker.connect_securely(known, ExternalCredentials()) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("mine")
        # Who the broker takes it for is who it may say that it is.
        channel.basic_publish("", "mine", b"x", pika.BasicProperties(user_id="guest"))


def test_a_certificate_of_somebody_unknown_is_not(
    broker: SecureBroker, authority: Authority
) -> None:
    stranger = authority.sign("/CN=stranger")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        broker.connect_securely(stranger, ExternalCredentials())


def test_without_a_certificate_there_is_no_such_way_to_log_in(broker: SecureBroker) -> None:
    with pytest.raises(pika.exceptions.AuthenticationError):
        broker.connect_securely(None, ExternalCredentials())


def test_a_certificate_of_another_authority_is_turned_away(
    broker: SecureBroker, tmp_path: Path
) -> None:
    forged = Authority(tmp_path).sign("/CN=guest")
    with pytest.raises((pika.exceptions.AMQPConnectionError, ssl.SSLError, OSError)):
        broker.connect_securely(forged, ExternalCredentials())


def test_plain_text_at_the_door_for_tls_is_turned_away(broker: SecureBroker) -> None:
    parameters = pika.ConnectionParameters(
        HOST, broker.secure_port, socket_timeout=60, stack_timeout=60
    )
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(parameters)
