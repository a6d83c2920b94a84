"""The model decides what RabbitMQ decided when it was asked the same, word for word."""

import pytest

from millpond.wire.amqp.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from tests.interop.amqp.answers import recorded
from tests.interop.amqp.scenes import SCENES
from tests.support.amqp_model import ModelBroker

DECIDED = (
    QueueDeclare,
    QueueDelete,
    QueueBind,
    QueueUnbind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeBind,
    ExchangeUnbind,
)
# How many consumers a queue has, and whether deleting it is refused for that, is not known to the furniture.
NOT_DECIDED = {
    ("deleting queues", 5),
    ("consumers", 2),
}


@pytest.mark.parametrize("scene", SCENES)
def test_the_same_answers(scene: str) -> None:
    model = ModelBroker()
    wrong = []
    answers = recorded()[scene]
    for number, (method, answer) in enumerate(zip(SCENES[scene], answers, strict=True)):
        if not isinstance(method, DECIDED) or (scene, number) in NOT_DECIDED:
            continue
        ours = model.answer(method)
        if ours != answer:
            wrong.append(f"{method}\n  RabbitMQ: {answer}\n  here:     {ours}")
    assert not wrong, "\n".join(wrong)
