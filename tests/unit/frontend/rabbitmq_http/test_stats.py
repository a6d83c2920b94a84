"""What went through queues, and how fast: the fields that KEDA, Flower and people's graphs read."""

import asyncio

from millpond.wire.amqp.methods import BasicAck, BasicConsume, BasicGet, BasicPublish, QueueDeclare
from tests.support.amqp.amqp_cluster import amqp_cluster
from tests.support.amqp.management import ManagedNode, managed_broker


async def test_nothing_is_said_of_a_queue_that_nothing_went_through() -> None:
    async with managed_broker() as broker:
        await broker.do("PUT", "queues/%2f/quiet", {"durable": True})
        assert "message_stats" not in await broker.get("queues/%2f/quiet")
        assert (await broker.get("overview"))["message_stats"] == {}


async def test_totals_and_rates_of_a_queue_and_of_all() -> None:
    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        for _turn in range(20):
            client.publish(1, BasicPublish(routing_key="q"), b"x")
        await client.ask(1, BasicGet(queue="q", no_ack=True))
        await client.ask(1, BasicConsume(queue="q"))
        for _turn in range(19):
            await client.wait()
        client.send(1, BasicAck(delivery_tag=11, multiple=True))
        await asyncio.sleep(5)
        row = await broker.get("queues/%2f/q")
        stats = row["message_stats"]
        counts = {name: one for name, one in stats.items() if not name.endswith("_details")}
        assert counts == {
            "publish": 20,
            "deliver": 19,
            "deliver_no_ack": 0,
            "get": 0,
            "get_no_ack": 1,
            "deliver_get": 20,
            "redeliver": 0,
            "ack": 10,
        }
        assert stats["publish_details"]["rate"] == 4.0
        assert stats["deliver_get_details"]["rate"] == 4.0
        assert stats["ack_details"]["rate"] == 2.0
        assert (await broker.get("overview"))["message_stats"] == stats
        # Totals stay, rates go.
        await asyncio.sleep(10)
        stats = (await broker.get("queues/%2f/q"))["message_stats"]
        assert (stats["publish"], stats["publish_details"]) == (20, {"rate": 0.0})


async def test_what_comes_again_is_counted_as_that() -> None:
    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        client.publish(1, BasicPublish(routing_key="q"), b"x")
        await client.ask(1, BasicConsume(queue="q"))
        await client.wait()
        client.close()
        other = await broker.amqp.client(1)
        await other.ask(1, BasicConsume(queue="q"))
        await other.wait()
        stats = (await broker.get("queues/%2f/q"))["message_stats"]
        assert (stats["deliver"], stats["redeliver"]) == (2, 1)


async def test_what_keda_reads() -> None:
    """Its RabbitMQ scaler asks for one queue by HTTP, and adds up or takes what these three fields say."""

    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        await client.ask(1, QueueDeclare(queue="work"))
        for _turn in range(10):
            client.publish(1, BasicPublish(routing_key="work"), b"x")
        await client.ask(1, BasicGet(queue="work"))
        await asyncio.sleep(5)
        row = await broker.get("queues/%2F/work")
        assert row["name"] == "work"
        assert row["messages"] == 10
        assert row["messages_unacknowledged"] == 1
        assert row["message_stats"]["publish_details"]["rate"] == 2.0
        found = await broker.get("queues/%2F?page=1&use_regex=true&pagination=false&name=%5Ewor")
        rows = found["items"] if isinstance(found, dict) else found
        assert [one["name"] for one in rows] == ["work"]
        # By AMQP it declares the queue passively.
        event = await client.ask(1, QueueDeclare(queue="work", passive=True))
        assert "message_count=9" in repr(event)


async def test_what_had_to_be_given_up_is_said_of_the_queue_and_of_all() -> None:
    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        await client.ask(1, QueueDeclare(queue="whole"))
        for _turn in range(5):
            client.publish(1, BasicPublish(routing_key="q"), b"x")
        await asyncio.sleep(1)
        assert (await broker.get("queues/%2f/q"))["messages_lost"] == 0
        # Somebody deletes records of its topic.
        engine = broker.amqp.frontend.engine
        engine.partitions.delete_records("q", 0, 3)
        broker.amqp.frontend.queues.find("/", "q").wake()
        await asyncio.sleep(1)
        assert (await broker.get("queues/%2f/q"))["messages_lost"] == 3
        assert (await broker.get("queues/%2f/whole"))["messages_lost"] == 0
        assert (await broker.get("overview"))["queue_totals"]["messages_lost"] == 3


async def test_what_had_to_be_given_up_is_known_at_every_node() -> None:
    async with amqp_cluster() as cluster:
        client = await cluster.client(1, 1)
        await client.ask(1, QueueDeclare(queue="q"))
        host = cluster.host_of("q")
        for _turn in range(5):
            client.publish(1, BasicPublish(routing_key="q"), b"x")
        await asyncio.sleep(1)
        cluster.frontends[host].engine.partitions.delete_records("q", 0, 3)
        cluster.frontends[host].queues.find("/", "q").wake()
        await asyncio.sleep(1)
        for frontend in cluster.frontends.values():
            node = ManagedNode(frontend)
            assert (await node.get("queues/%2f/q"))["messages_lost"] == 3
