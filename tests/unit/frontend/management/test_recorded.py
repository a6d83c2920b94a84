"""The management API answers as RabbitMQ's did to the same story."""

from typing import Any

from tests.interop.amqp.http_scenes import STORY, recorded_http, told
from tests.support.management import managed_broker
from tests.support.virtual_loop import run

# Where an answer is meant to be another one, and why.
MEANT: dict[str, str] = {
    "GET definitions/%2F": "the type of a queue is written, as RabbitMQ does since 3.12",
}


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
        for mine, theirs in zip(answers, recorded_http(), strict=True)
        if mine != theirs and mine["asked"] not in MEANT
    ]
    assert not different
