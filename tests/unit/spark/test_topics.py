"""What a pipeline finds out about the topics that it is to write to, and says about those it cannot have."""

import asyncio
from collections.abc import Callable

import pytest

import millpond
from millpond.client import BlockingClient
from millpond.spark.pipelines import topics
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.topics import Wanted, make_topics, unusable_topics
from millpond.wire.kafka.api import ApiKey, ErrorCode
from tests.support.kafka.fake_kafka import FakeKafka
from tests.support.processes.ports import free_port

LETTERS = Wanted(option="--dead-letters", name="clicks.dlq")
REACHING, LISTING = ErrorCode.NONE, ErrorCode.NONE  # the first two questions, which nobody refuses


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_UNKNOWN_TOPIC_S", 0.05)
    monkeypatch.setattr(topics, "_BROKER_S_MAX", 1.0)


def ask(script: Callable[[FakeKafka], None], work: Callable[[str], object]) -> FakeKafka:
    """Let ``work`` ask a broker that answers as ``script`` has it."""

    async def main() -> FakeKafka:
        async with FakeKafka() as kafka:
            script(kafka)
            await asyncio.to_thread(work, kafka.bootstrap)
            return kafka

    return asyncio.run(main())


def refusing(*codes: ErrorCode, making: ErrorCode = ErrorCode.NONE) -> Callable[[FakeKafka], None]:
    """A broker that refuses to say anything of a topic, and to make one."""

    def script(kafka: FakeKafka) -> None:
        kafka.trouble(ApiKey.CREATE_TOPICS, making)
        kafka.trouble(ApiKey.METADATA, REACHING, LISTING, *codes)

    return script


# --- topics that options name ---


def test_topics_that_are_there_are_left_alone() -> None:
    kafka = ask(lambda kafka: kafka.add_topic("clicks.dlq"), lambda at: make_topics(at, [LETTERS]))
    assert kafka.asked(ApiKey.CREATE_TOPICS) == 0


def test_topics_are_made_as_the_broker_makes_them_or_like_others() -> None:
    with (
        millpond.Broker(auto_create_topics_enable=False, num_partitions=2) as strict,
        BlockingClient(strict.bootstrap) as client,
    ):
        client.create_topic("clicks", partitions=3)
        client.create_topic("orders", partitions=5)
        copy = Wanted(option="--to", name="copy", like=("clicks", "orders", "not there yet"))
        for _ in range(2):
            make_topics(strict.bootstrap, [LETTERS, copy])
        made = {topic.name: len(topic.partitions) for topic in client.list_topics()}
    assert (made["clicks.dlq"], made["copy"]) == (2, 5)


def test_what_another_pipeline_makes_at_the_same_moment_is_there() -> None:
    def script(kafka: FakeKafka) -> None:
        kafka.auto_create = True
        refusing(making=ErrorCode.TOPIC_ALREADY_EXISTS)(kafka)

    ask(script, lambda at: make_topics(at, [LETTERS]))


@pytest.mark.parametrize(
    ("making", "asking", "words"),
    [
        (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            (
                "is not there and the broker refuses to make it "
                "(said the fake, CLUSTER_AUTHORIZATION_FAILED): create it "
                "(millpond kafka topic create clicks.dlq), or name another one with --dead-letters"
            ),
        ),
        (
            ErrorCode.POLICY_VIOLATION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "is not there and the broker refuses to make it (said the fake, POLICY_VIOLATION)",
        ),
        (
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "is not for this client, which is not authorised to use it",
        ),
        (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "cannot have this name",
        ),
    ],
)
def test_a_topic_that_cannot_be_made_is_named_with_its_option_and_the_reason(
    making: ErrorCode, asking: ErrorCode, words: str
) -> None:
    with pytest.raises(PipelineError) as said:
        ask(refusing(*[asking] * 99, making=making), lambda at: make_topics(at, [LETTERS]))
    assert str(said.value).startswith(f"--dead-letters clicks.dlq: the topic {words}")
    assert "\n" not in str(said.value)


# --- topics that data name ---


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "is not there and the broker does not make it"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "is not for this client"),
        (ErrorCode.POLICY_VIOLATION, "is not there and the broker refuses to make it"),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "cannot have this name"),
    ],
)
def test_why_a_topic_cannot_be_written_to(code: ErrorCode, words: str) -> None:
    found: dict[str, str] = {}
    ask(
        refusing(*[code] * 99),
        lambda at: found.update(unusable_topics(at, ["orders"], option="--to")),
    )
    assert list(found) == ["orders"]
    assert found["orders"].startswith(words)


def test_a_refusal_that_says_nothing_about_the_topic_is_no_absence() -> None:
    with pytest.raises(PipelineError) as said:
        ask(
            refusing(ErrorCode.UNKNOWN_SERVER_ERROR),
            lambda at: unusable_topics(at, ["orders", "clicks"], option="--to"),
        )
    assert str(said.value) == (
        "--to clicks, orders: the broker does not say whether it is there: unknown server error, "
        "UNKNOWN_SERVER_ERROR"
    )


@pytest.mark.parametrize(
    "work",
    [
        lambda at: unusable_topics(at, ["clicks.dlq"], option="--dead-letters"),
        lambda at: make_topics(at, [LETTERS]),
    ],
)
def test_a_broker_that_stays_away_is_no_absence(work: Callable[[str], object]) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    with pytest.raises(PipelineError) as said:
        work(nowhere)
    assert str(said.value).startswith(
        f"--dead-letters clicks.dlq: whether it is there could not be asked at --bootstrap {nowhere}: "
    )
    assert "\n" not in str(said.value)
