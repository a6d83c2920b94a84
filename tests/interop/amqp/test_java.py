"""RabbitMQ's Java client and Spring: RabbitTemplate with its callbacks, listeners with every ack mode."""

from collections.abc import Callable

import pytest

from tests.interop.amqp import java_stories
from tests.interop.amqp.conftest import Alike
from tests.interop.amqp.drivers import story_of

Java = Callable[[str], list[str]]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def java(alike: Alike) -> Java:
    """What a story of the driver said, to both brokers alike."""
    reason = java_stories.missing_reason()
    if reason:
        pytest.skip(reason)

    return lambda name: alike(story_of(java_stories.command(), name))


def test_what_a_connection_agrees_on(java: Java) -> None:
    lines = java("java_greeting")
    assert lines[:2] == ["frame max 131072", "channel max 2047"]


def test_confirms_and_returns(java: Java) -> None:
    lost = "312 NO_ROUTE 'amq.topic' 'nobody.listens'"
    assert java("java_confirms_and_returns") == [
        "acked 300 nacked 0 open 0",
        f"returned {lost} lost correlation=c-1 before its confirm: true",
        "confirmed all the same: true",
        *("into a queue of two: true", "into a queue of two: true"),
        *("into a queue of two: false", "into a queue of two: false"),
        "purged 300",
    ]


def test_acks_and_tags(java: Java) -> None:
    lines = java("java_acks_and_tags")
    assert lines[:3] == [
        "first [1:0, 2:1, 3:2, 4:3, 5:4, 6:5]",
        "after basicAck(3, true) [7:6, 8:7, 9:8]",
        "after basicNack(5, true, true) [10:3*, 11:4*]",
    ]


def test_dead_letters(java: Java) -> None:
    lines = java("java_dead_letters")
    assert [line.split("reason=")[1].split(",")[0] for line in lines] == [
        *("rejected", "maxlen", "expired")
    ]


def test_routing(java: Java) -> None:
    assert len(java("java_routing")) == 4


def test_shutdown_signals(java: Java) -> None:
    lines = java("java_shutdown_signals")
    assert "still open: true" in lines
    assert "open after a hard error: false" in lines


def test_a_connection_that_recovers(java: Java) -> None:
    assert java("java_recovers") == [
        *("1:life 0", "recovered", "2:life 1", "recovered", "3:life 2")
    ]


def test_transactions(java: Java) -> None:
    lines = java("java_transactions")
    assert lines[:3] == ["before the commit 0", "after it 2", "after a rollback 2"]


def test_remote_calls_without_a_queue_for_answers(java: Java) -> None:
    assert java("java_remote_calls")[0] == "answers [one!, two!, three!]"


def test_a_spring_application(java: Java) -> None:
    """A producer with a confirm and a return callback, and a consumer that acknowledges by itself."""
    assert java("spring_application") == [
        "confirm: ack=true cause=null of null",
        "consumer: hello,ConfirmCallback你好 redelivered=false",
        "confirm: ack=true cause=null of order-2",
        "consumer: bad one redelivered=true",
        "consumer: refused bad one",
        "confirm: ack=true cause=null of null",
        "consumer: 3 bytes",
        "confirm: ack=true cause=null of null",
        "returned: nobody hears this 312 NO_ROUTE confirmTestExchange warning",
        "echo HEAR ME",
        "confirm: ack=true cause=null of null",
    ]


def test_spring_is_told_what_became_of_a_message(java: Java) -> None:
    lines = java("spring_confirm_callback")
    assert lines[:5] == [
        "1 ack=true cause=null",
        "2 ack=true cause=null",
        "3 ack=false cause=null",
        "taken first",
        "3 again ack=true cause=null",
    ]
    assert lines[5].startswith("4 ack=false cause=channel error; protocol method: ")
    assert "reply-text=NOT_FOUND - no exchange 'spring.no-exchange' in vhost '/'" in lines[5]


def test_spring_gets_back_what_nobody_wants(java: Java) -> None:
    assert java("spring_return_callback") == [
        "returned 312 NO_ROUTE 'amq.direct' 'no.such.key' come back parcel",
        "then ack=true, and it has been returned: true",
    ]


def test_spring_listeners_that_acknowledge_by_themselves_or_not_at_all(java: Java) -> None:
    none = "[fine, fails once, fails for good, last] dead null left 0"
    auto = "[fine, fails once, fails once*, fails for good, last] dead fails for good left 0"
    assert java("spring_ack_modes") == [
        f"simple NONE {none}",
        f"simple AUTO {auto}",
        f"direct NONE {none}",
        f"direct AUTO {auto}",
    ]


def test_spring_listeners_that_acknowledge_by_hand(java: Java) -> None:
    assert java("spring_manual_acks") == [
        "[1:m0, 2:m1, 3:m2, 4:m3, 5:m4, 6:m5, 7:m6, 8:m7, 9:m8, 10:m3*, 11:m4*, 12:m5*]",
        "left 0",
    ]


def test_spring_calls(java: Java) -> None:
    assert java("spring_send_and_receive") == ["straight one? yes", "by a queue two? yes"]


def test_spring_transactions(java: Java) -> None:
    assert java("spring_transactions") == [
        "committed 1",
        "received kept",
        "again kept redelivered=true",
        "left 0",
    ]
