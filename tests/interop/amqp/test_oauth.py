"""pika with tokens for passwords: told to a Millpond process, and to RabbitMQ with its plug-in."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.interop.amqp.brokers import Broker
from tests.support.amqp.tokens import EVERYTHING, Issuer
from tests.support.processes import rabbitmq_server
from tests.support.processes.rabbitmq_server import RabbitMq


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A broker that asks for tokens first, then for passwords."""

    port: int
    issuer: Issuer

    def connect(self, token: str, user: str = "whoever") -> pika.BlockingConnection:
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1",
                self.port,
                credentials=pika.PlainCredentials(user, token),
                socket_timeout=60,
                stack_timeout=60,
                blocked_connection_timeout=60,
            )
        )


_RIGHT = re.compile("(configure|write|read) access to")

Story = Callable[[Place], list[str]]


def settings(issuer: Issuer, directory: Path) -> dict[str, str]:
    """The same for both, but for where clocks may differ."""
    directory.mkdir(parents=True, exist_ok=True)
    return {
        "auth_backends.1": "rabbit_auth_backend_oauth2",
        "auth_backends.2": "internal",
        "auth_oauth2.resource_server_id": "mill",
        "auth_oauth2.default_key": "one",
        "auth_oauth2.signing_keys.one": str(issuer.write_pem(directory / "one.pem")),
        "auth_oauth2.algorithms.1": "RS256",
    }


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def millpond(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("millpond-tokens")
    properties = {"amqp.oauth2.leeway.seconds": "0", **settings(issuer, directory)}
    broker = Broker(directory / "data", properties)
    with broker.process:
        yield Place(port=broker.amqp_port, issuer=issuer)


@pytest.fixture(scope="module")
def rabbit(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place | None]:
    if rabbitmq_server.missing_reason():
        yield None
        return
    directory = tmp_path_factory.mktemp("rabbitmq-tokens")
    with RabbitMq(
        directory,
        plugins=("rabbitmq_auth_backend_oauth2",),
        settings=settings(issuer, directory),
    ) as server:
        yield Place(port=server.port, issuer=issuer)


@pytest.fixture
def alike(millpond: Place, rabbit: Place | None) -> Callable[[Story], list[str]]:
    """What Millpond said, if RabbitMQ said the same; the word for the right is newer than this RabbitMQ."""

    def tell(story: Story) -> list[str]:
        ours = story(millpond)
        if rabbit is None:
            pytest.skip(f"only Millpond was asked: {rabbitmq_server.missing_reason()}")
        assert [_RIGHT.sub("access to", line) for line in ours] == story(rabbit)
        return ours

    return tell


def outcome(act: Callable[[], object]) -> str:
    """What a client sees: an answer, or who closed what, with which code."""
    try:
        act()
    except (
        pika.exceptions.ProbableAuthenticationError,
        pika.exceptions.ProbableAccessDeniedError,
    ) as error:
        return str(error).partition("ConnectionClosedByBroker: ")[2].rstrip('",)')
    except (
        pika.exceptions.ChannelClosedByBroker,
        pika.exceptions.ConnectionClosedByBroker,
    ) as error:
        return f"{type(error).__name__} {error.reply_code} {error.reply_text}"
    return "done"


def test_who_is_let_in(alike: Callable[[Story], list[str]]) -> None:
    def story(place: Place) -> list[str]:
        issuer = place.issuer
        logins = {
            "a token": issuer.token(),
            "scopes in a list": issuer.token(EVERYTHING.split()),
            "no key named": issuer.token(kid=None),
            "several audiences": issuer.token(aud=["other", "mill"]),
            "expired": issuer.token(seconds=-60),
            "another audience": issuer.token(aud="other"),
            "no audience": issuer.token(aud=None),
            "another algorithm": issuer.token(algorithm="RS384"),
            "another's key": Issuer().token(),
            "no scopes": issuer.token(""),
            "others' scopes": issuer.token("other.read:*/*"),
            "another virtual host": issuer.token("mill.read:shop/*"),
            "nonsense": "nonsense",
        }
        said = [
            f"{name}: {outcome(lambda token=token: place.connect(token).close())}"  # type: ignore[misc]
            for name, token in logins.items()
        ]
        said.append(f"a password: {outcome(lambda: place.connect('guest', 'guest').close())}")
        said.append(f"a wrong one: {outcome(lambda: place.connect('guess', 'guest').close())}")
        return said

    said = dict(line.split(": ", 1) for line in alike(story))
    assert [name for name, what in said.items() if what == "done"] == [
        "a token",
        "scopes in a list",
        "no key named",
        "several audiences",
        "a password",
    ]
    assert "403" in said["expired"]
    assert "530" in said["another virtual host"]


def test_what_a_bearer_may(alike: Callable[[Story], list[str]]) -> None:
    def story(place: Place) -> list[str]:
        token = place.issuer.token(
            "mill.configure:%2F/mine* mill.read:%2F/* mill.write:%2F/mine* "
            "mill.write:%2F/amq.topic/a.* mill.read:%2F/amq.topic/a.*"
        )
        connection = place.connect(token)

        def do(act: Callable[[pika.adapters.blocking_connection.BlockingChannel], object]) -> str:
            channel = connection.channel()
            channel.confirm_delivery()
            what = outcome(lambda: act(channel))
            if channel.is_open:
                channel.close()
            return what

        said = [
            do(lambda channel: channel.queue_declare("mine")),
            do(lambda channel: channel.queue_declare("yours")),
            do(lambda channel: channel.exchange_declare("mine.too")),
            do(lambda channel: channel.queue_bind("mine", "amq.topic", "a.#")),
            do(lambda channel: channel.queue_bind("mine", "amq.direct", "b")),
            do(lambda channel: channel.basic_publish("amq.topic", "a.b", b"x")),
            do(lambda channel: channel.basic_publish("amq.topic", "b.b", b"x")),
            do(lambda channel: channel.basic_publish("mine.too", "b.b", b"x")),
            do(lambda channel: channel.basic_publish("", "mine", b"x")),
            do(lambda channel: channel.basic_get("mine")),
            do(lambda channel: channel.queue_purge("mine")),
            do(lambda channel: channel.exchange_delete("mine.too")),
            do(lambda channel: channel.queue_delete("mine")),
        ]
        connection.close()
        return said

    said = alike(story)
    assert [line == "done" for line in said] == [
        *(True, False, True, True, True, True, False, True, False, True, True, True, True)
    ]
    assert said[1].startswith("ChannelClosedByBroker 403 ACCESS_REFUSED - ")


def test_the_user_is_the_tokens(alike: Callable[[Story], list[str]]) -> None:
    def story(place: Place) -> list[str]:
        connection = place.connect(place.issuer.token())
        channel = connection.channel()
        channel.confirm_delivery()
        said = [
            outcome(
                lambda user=user: channel.basic_publish(  # type: ignore[misc]
                    "amq.fanout", "", b"x", pika.BasicProperties(user_id=user)
                )
            )
            for user in ("ann", "whoever")
        ]
        connection.close()
        return said

    said = alike(story)
    assert said[0] == "done"
    assert "user_id property set to 'whoever' but authenticated user was 'ann'" in said[1]


def test_a_new_secret(alike: Callable[[Story], list[str]]) -> None:
    def story(place: Place) -> list[str]:
        issuer = place.issuer
        said = []
        for secret in (
            issuer.token(),
            issuer.token("mill.read:%2F/*"),
            issuer.token(aud="other"),
            "nonsense",
        ):
            connection = place.connect(issuer.token())
            said.append(outcome(lambda: connection.update_secret(secret, "it is time")))  # noqa: B023
            if connection.is_open:
                channel = connection.channel()
                said.append(outcome(lambda: channel.exchange_declare("renewed")))  # noqa: B023
                connection.close()
        guest = place.connect("guest", "guest")
        said.append(outcome(lambda: guest.update_secret("nonsense", "it is time")))
        guest.close()
        return said

    said = alike(story)
    assert said[0] == said[1] == said[2] == said[-1] == "done"
    assert "403" in said[3]
    assert (
        said[4]
        == said[5]
        == (
            "ConnectionClosedByBroker 530 NOT_ALLOWED - New secret was refused by one of the backends"
        )
    )


def test_an_expired_token_is_refused_until_it_is_renewed(millpond: Place) -> None:
    """RabbitMQ remembers for some seconds what was allowed, and then refuses with the same code."""
    connection = millpond.connect(millpond.issuer.token(seconds=2))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("expiring")
    for _turn in range(600):
        said = outcome(lambda: channel.basic_publish("", "expiring", b"x"))
        if said != "done":
            break
        connection.process_data_events(0.05)
    assert said == (
        "ChannelClosedByBroker 403 ACCESS_REFUSED - write access to exchange 'amq.default' in vhost "
        "'/' refused for user 'ann': the token has expired"
    )
    assert "403" in outcome(lambda: connection.channel().queue_declare("another"))
    connection.update_secret(millpond.issuer.token(), "it is time")
    connection.channel().queue_delete("expiring")
    connection.close()
