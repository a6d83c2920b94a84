"""The model decides what RabbitMQ decided when it was asked the same, word for word."""

import pytest

from millpond.wire.amqp.methods import BasicQos, ConfirmSelect, Method, TxCommit, TxSelect
from tests.interop.amqp.answers import line, recorded
from tests.interop.amqp.scenes import SCENES
from tests.support.amqp.amqp_session import ModelSession

# What is decided without looking at the model is a front-end's: modes of a channel, names used twice on it.
OF_A_FRONT_END: tuple[type[Method], ...] = (BasicQos, ConfirmSelect, TxSelect, TxCommit)
SCENES_OF_A_FRONT_END = {"a consumer's name used twice"}


@pytest.mark.parametrize("scene", [name for name in SCENES if name not in SCENES_OF_A_FRONT_END])
def test_the_same_answers(scene: str) -> None:
    session = ModelSession()
    wrong = []
    for method, answer in zip(SCENES[scene], recorded()[scene], strict=True):
        if isinstance(method, OF_A_FRONT_END):
            continue
        session.do(method)
        (heard,) = session.heard
        session.heard.clear()
        ours = heard if isinstance(heard, str) else line(heard)
        if ours != answer:
            wrong.append(f"{method}\n  RabbitMQ: {answer}\n  here:     {ours}")
        if ours.startswith("channel closed"):
            session.reopen()
    assert not wrong, "\n".join(wrong)
