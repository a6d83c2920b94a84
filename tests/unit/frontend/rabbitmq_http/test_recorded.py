"""The management API answers as RabbitMQ's did to the same story."""

from typing import Any

from tests.interop.amqp.http_scenes import STORY, recorded_http, told
from tests.support.amqp.management import managed_broker
from tests.support.time.virtual_loop import run


def as_rabbitmq(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer of ours with the one difference that is meant put as RabbitMQ 3.10 puts it.

    The type of a queue is written among the definitions, as RabbitMQ does since 3.12.
    """
    if answer["asked"] != "GET definitions/%2F":
        return answer
    queues = [dict(one) for one in answer["said"]["queues"]]
    assert {one.pop("type") for one in queues} == {"classic"}
    return {**answer, "said": {**answer["said"], "queues": queues}}


def test_the_same_answers() -> None:
    async def story() -> list[dict[str, Any]]:
        answers = []
        async with managed_broker() as broker:
            for ask in STORY:
                got = await broker.ask(ask.method, ask.path, ask.data, login=ask.login)
                answers.append(told(ask, got.status, got.body, got.headers.get("location")))
        return answers

    answers = run(story())
    assert len(answers) == len(recorded_http())
    different = [
        (mine, theirs)
        for mine, theirs in zip(map(as_rabbitmq, answers), recorded_http(), strict=True)
        if mine != theirs
    ]
    assert not different
