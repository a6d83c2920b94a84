"""Remote calls by direct reply-to, as RabbitMQ's tutorials make them, told to both brokers."""

import pika

from tests.interop.amqp.brokers import AmqpPeer
from tests.interop.amqp.conftest import Alike

REPLY_TO = "amq.rabbitmq.reply-to"


def remote_calls(peer: AmqpPeer) -> list[str]:
    """A server squares numbers; two clients ask it, each gets its own answers."""
    lines: list[str] = []
    with peer.connect() as there, peer.connect() as first, peer.connect() as second:
        server = there.channel()
        server.queue_declare("squares", exclusive=False, auto_delete=True)
        clients = [first.channel(), second.channel()]
        for number, client in enumerate(clients):
            client.basic_consume(
                REPLY_TO,
                lambda _channel, method, properties, body, number=number: lines.append(
                    f"{number}: {properties.correlation_id} {body.decode()} "
                    f"{method.delivery_tag} {method.redelivered} {method.exchange!r}"
                ),
                auto_ack=True,
                consumer_tag=f"answers {number}",
            )
        for asked in range(6):
            properties = pika.BasicProperties(reply_to=REPLY_TO, correlation_id=f"id {asked}")
            clients[asked % 2].basic_publish("", "squares", b"%d" % asked, properties)
        for _question in range(6):
            method, properties, body = next(server.consume("squares", inactivity_timeout=60))
            assert method is not None
            address = properties.reply_to
            lines.append(f"an address: {address.startswith(REPLY_TO + '.')}")
            found = server.queue_declare(address, passive=True).method
            lines.append(f"{found.message_count} {found.consumer_count} {found.queue == address}")
            answer = pika.BasicProperties(correlation_id=properties.correlation_id)
            server.basic_publish("", address, b"%d" % int(body) ** 2, answer)
            server.basic_ack(method.delivery_tag)
        wanted = len(lines) + 6
        for _turn in range(300):
            for connection in (first, second):
                connection.process_data_events(0.1)
            if len(lines) >= wanted:
                break
        answers, lines[wanted - 6 :] = sorted(lines[wanted - 6 :]), []
        return lines + answers


def test_remote_calls(alike: Alike) -> None:
    lines = alike(remote_calls)
    assert "1: id 5 25 1 False ''" in lines
