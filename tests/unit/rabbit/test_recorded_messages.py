"""The model treats messages as RabbitMQ treated them: order, turns, tags, ages, limits, letters."""

import pytest

from tests.interop.amqp.answers import RECORDED_MESSAGES, line, recorded
from tests.interop.amqp.differences import as_rabbitmq
from tests.interop.amqp.message_scenes import MESSAGE_SCENES, Collect, Send, Wait
from tests.support.amqp.amqp_session import ModelSession


@pytest.mark.parametrize("scene", MESSAGE_SCENES)
def test_the_same_is_heard(scene: str) -> None:
    session = ModelSession()
    lines: list[str] = []
    for step in MESSAGE_SCENES[scene]:
        match step:
            case Wait():
                session.wait(step.ms)
            case Send():
                session.publish(step.method, step.properties, step.body)
            case Collect():
                pass
            case _:
                session.do(step)
        lines += [one if isinstance(one, str) else line(one) for one in session.heard]
        session.heard.clear()
    answers = [one for one in recorded(RECORDED_MESSAGES)[scene] if one != "nothing more"]
    assert as_rabbitmq(scene, lines) == answers
