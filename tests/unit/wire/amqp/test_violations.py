"""The text that a client gets with a violation."""

import pytest

from millpond.wire.amqp.content import method_frame
from millpond.wire.amqp.methods import ConnectionClose
from millpond.wire.amqp.violations import ReplyCode, Violation


@pytest.mark.parametrize("length", [1, 300])
def test_a_name_that_is_no_utf8_is_returned_as_it_came_or_cut(length: int) -> None:
    name = (b"\x91" * length).decode("utf-8", "surrogateescape")
    violation = Violation(ReplyCode.NOT_FOUND, f"no exchange '{name}' in vhost '/'", channel=1)

    text = violation.reply_text

    assert len(text.encode("utf-8", "surrogateescape")) <= 255
    assert ("'\udc91'" in text) == (length == 1)
    assert method_frame(0, ConnectionClose(reply_code=404, reply_text=text))
