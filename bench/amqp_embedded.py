"""A broker embedded in a program that uses AMQP: `python -m bench.amqp_embedded` prints how long it takes."""

from __future__ import annotations

import json
import time

import pika


def main() -> None:
    began = time.perf_counter()
    import millpond

    make = millpond.Broker
    imported = time.perf_counter()
    listeners = "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0"
    with make(settings={"listeners": listeners}) as broker:
        host, _colon, port = broker.amqp[0].rpartition(":")
        with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("first", durable=True)
            properties = pika.BasicProperties(delivery_mode=2)
            channel.basic_publish("", "first", b"first", properties)
            done = time.perf_counter()
    print(json.dumps({"import_s": imported - began, "start_s": done - imported}))


if __name__ == "__main__":
    main()
