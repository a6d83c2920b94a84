"""Administering by RabbitMQ's own tools: its command, unmodified, says the same of Millpond and of RabbitMQ,
and what one of them exports the other imports.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pika
import pika.exceptions
import pytest
from click.testing import CliRunner

from millpond.cli import cli
from tests.interop.amqp.http_scenes import play, recorded_http
from tests.interop.amqp.http_shapes import (
    COUNTED_OFTEN,
    differences,
    look_over_http,
    recorded_shapes,
    undeclared,
)
from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.ports import free_port, wait_until
from tests.support.processes.rabbitmq_server import RabbitMq, missing_reason, rabbitmqadmin
from tests.unit.frontend.rabbitmq_http.test_recorded import as_rabbitmq

# A process for each command costs more than the command.
_RUN_EACH = """
import contextlib, io, json, runpy, sys
script, commands = json.load(sys.stdin)
answers = []
for command in commands:
    out, code = io.StringIO(), 0
    sys.argv = [script, *command]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    answers.append((code, out.getvalue().splitlines()))
print(json.dumps(answers))
"""


@dataclass(frozen=True)
class Peer:
    """A broker that is administered by HTTP."""

    amqp: int
    management: int

    def admin(self, *commands: Sequence[str]) -> list[tuple[int, list[str]]]:
        """What RabbitMQ's command answers, one time after the other: exit code, and lines in an order that
        is not a broker's, without RabbitMQ's tracing.
        """
        options = (f"-P{self.management}", "-q")
        asked = [str(rabbitmqadmin()), [[*options, *command] for command in commands]]
        done = subprocess.run(
            [sys.executable, "-c", _RUN_EACH],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        return [
            (code, sorted(line for line in lines if "amq.rabbitmq.trace" not in line))
            for code, lines in json.loads(done.stdout)
        ]

    def millpond(self, *arguments: str) -> str:
        """What Millpond's command prints; it must work."""
        environment = {"MILLPOND_MANAGEMENT": f"127.0.0.1:{self.management}"}
        result = CliRunner().invoke(cli, arguments, env=environment)
        assert result.exit_code == 0, result.output
        return result.stdout

    def logged_in(self, user: str, password: str, vhost: str) -> pika.BlockingConnection:
        login = pika.PlainCredentials(user, password)
        place = pika.ConnectionParameters(
            "127.0.0.1", self.amqp, vhost, login, socket_timeout=60, stack_timeout=60
        )
        return pika.BlockingConnection(place)


@pytest.fixture(scope="module")
def millpond(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    peer = Peer(free_port(), free_port())
    process = MillpondProcess(tmp_path_factory.mktemp("managed"))
    process.properties["listeners"] = (
        f"PLAINTEXT://127.0.0.1:{process.port},AMQP://127.0.0.1:{peer.amqp},"
        f"MANAGEMENT://127.0.0.1:{peer.management}"
    )
    with process:
        yield peer


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    reason = missing_reason()
    if reason is not None:
        pytest.skip(reason)
    place = tmp_path_factory.mktemp("rabbitmq")
    with RabbitMq(place, with_management=True, settings=COUNTED_OFTEN) as rabbit:
        assert rabbit.management_port is not None
        yield Peer(rabbit.port, rabbit.management_port)


def test_rabbitmq_and_millpond_answer_as_recorded(rabbitmq: Peer, millpond: Peer) -> None:
    assert play("127.0.0.1", rabbitmq.management) == recorded_http()
    for ours, theirs in zip(play("127.0.0.1", millpond.management), recorded_http(), strict=True):
        assert as_rabbitmq(ours) == theirs


def test_the_fields_of_every_answer_are_rabbitmqs(rabbitmq: Peer, millpond: Peer) -> None:
    theirs = look_over_http(rabbitmq.amqp, rabbitmq.management, wait_until)
    ours = look_over_http(millpond.amqp, millpond.management, wait_until)
    assert undeclared(differences(ours, theirs)) == []
    assert differences(theirs, recorded_shapes()) == []


_IN_SHOP = ("-V", "shop", "-f", "tsv")
_WORK = '{"x-max-length": 9}'
COMMANDS: list[tuple[str, ...]] = [
    ("declare", "vhost", "name=shop"),
    ("declare", "user", "name=ann", "password=secret", "tags=management"),
    ("declare", "permission", "vhost=shop", "user=ann", "configure=.*", "write=.*", "read=.*"),
    ("declare", "vhost_limit", "vhost=shop", "name=max-queues", "value=5"),
    (*_IN_SHOP, "declare", "exchange", "name=events", "type=topic"),
    (*_IN_SHOP, "declare", "queue", "name=work", f"arguments={_WORK}"),
    (*_IN_SHOP, "declare", "queue", "name=work", "durable=false"),
    (*_IN_SHOP, "declare", "exchange", "name=odd", "type=nope"),
    (*_IN_SHOP, "declare", "binding", "source=events", "destination=work", "routing_key=a.#"),
    (*_IN_SHOP, "declare", "binding", "source=events", "destination=none", "routing_key=a.#"),
    (
        *(*_IN_SHOP, "declare", "policy", "name=brief", "pattern=^work", "priority=3"),
        *('definition={"message-ttl":60000}', "apply-to=queues"),
    ),
    (
        *(*_IN_SHOP, "declare", "operator_policy", "name=lid", "pattern=.*"),
        *('definition={"max-length":7}', "apply-to=queues"),
    ),
    (
        *(*_IN_SHOP, "publish", "exchange=events", "routing_key=a.b", "payload=hello"),
        'properties={"delivery_mode": 2, "headers": {"n": 7}}',
    ),
    (*_IN_SHOP, "publish", "exchange=events", "routing_key=b", "payload=lost"),
    (*_IN_SHOP, "get", "queue=work"),
    (*_IN_SHOP, "get", "queue=work", "ackmode=ack_requeue_false"),
    (*_IN_SHOP, "get", "queue=work"),
    (*_IN_SHOP, "list", "queues", "name", "durable", "auto_delete", "arguments"),
    (*_IN_SHOP, "list", "exchanges", "name", "type", "durable", "internal"),
    (*_IN_SHOP, "list", "bindings"),
    (*_IN_SHOP, "list", "policies"),
    (*_IN_SHOP, "list", "operator_policies"),
    (*_IN_SHOP, "list", "users", "name", "tags"),
    (*_IN_SHOP, "list", "permissions"),
    (*_IN_SHOP, "list", "vhost_limits"),
    (*_IN_SHOP, "list", "consumers"),
    ("-u", "ann", "-p", "wrong", "list", "queues"),
    ("-u", "ann", "-p", "secret", "list", "users"),
    (*_IN_SHOP, "purge", "queue", "name=work"),
    (*_IN_SHOP, "purge", "queue", "name=none"),
    (
        *(*_IN_SHOP, "delete", "binding", "source=events", "destination_type=queue"),
        *("destination=work", "properties_key=a.%23"),
    ),
    (*_IN_SHOP, "delete", "queue", "name=work"),
    (*_IN_SHOP, "delete", "queue", "name=work"),
    (*_IN_SHOP, "delete", "exchange", "name=events"),
    (*_IN_SHOP, "delete", "policy", "name=brief"),
    ("delete", "user", "name=ann"),
    ("delete", "vhost", "name=shop"),
]


def test_rabbitmqadmin_says_the_same_of_both(rabbitmq: Peer, millpond: Peer) -> None:
    ours, theirs = millpond.admin(*COMMANDS), rabbitmq.admin(*COMMANDS)
    for command, mine, other in zip(COMMANDS, ours, theirs, strict=True):
        assert mine == other, command


def test_what_rabbitmq_exports_is_at_home_in_millpond(
    rabbitmq: Peer, millpond: Peer, tmp_path: Path
) -> None:
    file = tmp_path / "rabbitmq.json"
    _furnish(rabbitmq, "mill")
    rabbitmq.millpond("definitions", "export", str(file))
    millpond.millpond("definitions", "import", str(file))
    _use(millpond, "mill")


def test_what_millpond_exports_is_at_home_in_rabbitmq(
    rabbitmq: Peer, millpond: Peer, tmp_path: Path
) -> None:
    file = tmp_path / "millpond.json"
    _furnish(millpond, "pond")
    millpond.millpond("definitions", "export", str(file))
    assert rabbitmq.admin(["import", str(file)])[0][0] == 0
    _use(rabbitmq, "pond")


def _furnish(peer: Peer, vhost: str) -> None:
    """A virtual host with a user, a policy and something to route; by Millpond's commands in both cases."""
    here = ("--vhost", vhost)
    peer.millpond("vhost", "add", vhost)
    peer.millpond("user", "add", f"{vhost}-user", "--new-password", "pass word")
    peer.millpond("user", "permit", f"{vhost}-user", *here, "--configure", "")
    peer.millpond("exchange", "declare", "events", "headers", *here)
    peer.millpond("queue", "declare", "work", *here, "-a", "x-max-priority=3")
    arguments = ("-a", "x-match=all", "-a", "kind=order", "-a", "count=7")
    peer.millpond("binding", "add", "events", "work", *here, *arguments)
    settings = ("max-length=2", "overflow=reject-publish")
    peer.millpond("policy", "set", "short", "^work", *settings, "--apply-to", "queues", *here)


def _use(peer: Peer, vhost: str) -> None:
    """Everything that was furnished elsewhere does what it did there."""
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        peer.logged_in(f"{vhost}-user", "password", vhost)
    with peer.logged_in(f"{vhost}-user", "pass word", vhost) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        order = pika.BasicProperties(headers={"kind": "order", "count": 7}, delivery_mode=2)
        for body in (b"one", b"two"):
            channel.basic_publish("events", "", body, order, mandatory=True)
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("events", "", b"one too many", order, mandatory=True)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            channel.queue_declare("more")
        channel = connection.channel()
        assert [channel.basic_get("work", auto_ack=True)[2] for _ in range(3)] == [
            b"one",
            b"two",
            None,
        ]
    (queue,) = json.loads(peer.millpond("queue", "list", "--vhost", vhost, "--json"))
    assert (queue["name"], queue["arguments"]) == ("work", {"x-max-priority": 3})


# Tags of a user, and what becomes of a message that names this user, another one, and one that is not there.
IMPERSONATORS = {
    "actor": "impersonator",
    "both": "management,impersonator",
    "chief": "administrator",
    "nobody": "",
    "nearly": "impersonators",
}


def _in_the_name_of_others(peer: Peer) -> list[str]:
    """A client of each user publishes in the names of several; what it and a consumer see."""
    peer.admin(
        *(
            ("declare", "user", f"name={user}", "password=secret", f"tags={tags}")
            for user, tags in IMPERSONATORS.items()
        ),
        *(
            (
                "declare",
                "permission",
                "vhost=/",
                f"user={user}",
                "configure=.*",
                "write=.*",
                "read=.*",
            )
            for user in IMPERSONATORS
        ),
    )
    seen = []
    for user in IMPERSONATORS:
        for named in (user, "guest", "not-there"):
            with peer.logged_in(user, "secret", "/") as connection:
                channel = connection.channel()
                queue = channel.queue_declare("", exclusive=True).method.queue
                channel.confirm_delivery()
                properties = pika.BasicProperties(user_id=named)
                try:
                    channel.basic_publish("", queue, b"x", properties, mandatory=True)
                except pika.exceptions.ChannelClosedByBroker as closed:
                    seen.append(f"{user} as {named}: {closed.reply_code} {closed.reply_text}")
                    continue
                _method, got, _body = channel.basic_get(queue, auto_ack=True)
                seen.append(f"{user} as {named}: delivered with user_id {got and got.user_id}")
    return seen


def test_impersonators_publish_in_the_name_of_others_in_both(
    rabbitmq: Peer, millpond: Peer
) -> None:
    ours = _in_the_name_of_others(millpond)
    assert ours == _in_the_name_of_others(rabbitmq)
    assert "actor as guest: delivered with user_id guest" in ours
    assert any(line.startswith("chief as guest: 406 PRECONDITION_FAILED") for line in ours)
