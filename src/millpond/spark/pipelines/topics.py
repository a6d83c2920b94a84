"""Checks and creates the topics that a pipeline writes to.

Topics that options name are created at the start (``make_topics``), whether or not the broker creates topics
automatically: otherwise the first dead letter would end a query that had run for days. For topics that are
named in data, ``unusable_topics`` finds out what the sink would find.

A missing topic, one that this client may not use and an invalid name are distinguished. Unreachable brokers,
and errors that say nothing about a topic, are raised: nothing is known then.
"""

import asyncio
import logging
import threading
from collections.abc import Collection, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from millpond.client import (
    Admin,
    BrokerRefused,
    Cluster,
    NewTopic,
    NoBroker,
    OutOfTime,
)
from millpond.spark.pipelines.errors import PipelineError
from millpond.wire.kafka.api import ErrorCode

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

# A topic that was created a moment ago may not be known to all brokers yet.
_UNKNOWN_TOPIC_S = 3.0
_BROKER_S_MAX = 120.0  # as long as the sink waits for a broker that is away

# What an error says about a topic, and what to do about it.
_WHY: dict[int, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "is not there and the broker does not make it: create it first",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "is not for this client, which is not authorised to use it, or to make it "
        "(TOPIC_AUTHORIZATION_FAILED): let it describe and write the topic"
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: "cannot have this name (INVALID_TOPIC_EXCEPTION): give another",
    **{
        code: f"is not there and the broker refuses to make it ({code.name}): create it first"
        for code in (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.POLICY_VIOLATION,
        )
    },
}
# Errors that creating the topic manually would not cure.
_NOT_BY_MAKING_IT = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A topic that an option names; -1 partitions means the broker's default.

    A topic that is ``like`` others is created with their number of partitions.
    """

    option: str
    name: str
    partitions: int = -1
    like: Collection[str] = ()

    def __str__(self) -> str:
        return f"{self.option} {self.name}"


def make_topics(bootstrap: str, wanted: Sequence[Wanted]) -> None:
    """Create the missing topics. Raises ``PipelineError`` if that fails."""
    if wanted:
        _run(_make_topics(bootstrap, wanted))


def unusable_topics(bootstrap: str, names: Collection[str], *, option: str) -> dict[str, str]:
    """Return the topics that cannot be written to, with the reason: ``is not there ...``.

    A broker that creates topics automatically is queried just as the sink would. ``option`` names the user's
    option in the ``PipelineError`` that is raised if nothing can be found out.
    """
    return _run(_unusable_topics(bootstrap, names, option)) if names else {}


def _run(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run in a new thread: a notebook's thread has a loop already, and a signal must not wait for it."""
    outcome: Future[ResultT] = Future()

    def work() -> None:
        try:
            outcome.set_result(asyncio.run(coroutine))
        except BaseException as error:  # noqa: BLE001 - raised in the caller
            outcome.set_exception(error)

    threading.Thread(target=work, name="asking for topics", daemon=True).start()
    return outcome.result()


async def _make_topics(bootstrap: str, wanted: Sequence[Wanted]) -> None:
    with _in_words(", ".join(map(str, wanted)), bootstrap):
        async with _cluster(bootstrap) as cluster:
            await _reach(cluster)
            known = {topic.name: len(topic.partitions) for topic in await cluster.topics()}
            missing = {topic.name: topic for topic in wanted if topic.name not in known}
            if not missing:
                return
            new = [
                NewTopic(
                    name=topic.name,
                    partitions=max(
                        topic.partitions, *(known.get(name, -1) for name in topic.like), -1
                    ),
                )
                for topic in missing.values()
            ]
            for name, outcome in (await Admin(cluster).create_topics(new)).items():
                if isinstance(outcome, BrokerRefused):
                    await _make_do(cluster, missing[name], outcome)
                else:
                    log.info("%s: made, with %d partitions", missing[name], outcome.partitions)


async def _make_do(cluster: Cluster, wanted: Wanted, refusal: BrokerRefused) -> None:
    """Handle a refused creation: another client may have created the topic, or the broker creates it on
    write.
    """
    found = await _refused(cluster, wanted.name)
    if found is None:
        return
    for code in (refusal.code, found):
        if code in _NOT_BY_MAKING_IT:
            raise PipelineError(f"{wanted}: the topic {_WHY[code]}")
    raise PipelineError(
        f"{wanted}: the topic is not there and the broker refuses to make it ({_said(refusal)}): create it "
        f"(millpond kafka topic create {wanted.name}), or name another one with {wanted.option}"
    )


async def _unusable_topics(bootstrap: str, names: Collection[str], option: str) -> dict[str, str]:
    with _in_words(f"{option} {', '.join(sorted(names))}", bootstrap):
        async with _cluster(bootstrap) as cluster:
            await _reach(cluster)
            known = {topic.name for topic in await cluster.topics()}
            try:
                async with asyncio.TaskGroup() as asking:
                    asked = {
                        name: asking.create_task(_refused(cluster, name), name=f"asking for {name}")
                        for name in sorted(set(names) - known)
                    }
            except BaseExceptionGroup as group:
                raise group.exceptions[0] from None
    codes = {name: task.result() for name, task in asked.items()}
    return {name: _WHY[code] for name, code in codes.items() if code is not None}


def _cluster(bootstrap: str) -> Cluster:
    return Cluster(
        bootstrap,
        client_id="millpond-spark",
        timeout_s=_BROKER_S_MAX,
        unknown_topic_s=_UNKNOWN_TOPIC_S,
    )


async def _reach(cluster: Cluster) -> None:
    """Wait for a broker: one that restarts is no reason to fail a query."""
    attempts = cluster.attempts("asking for topics")
    while True:
        try:
            await cluster.info()
            return
        except NoBroker as error:
            await attempts.after(error)


async def _refused(cluster: Cluster, name: str) -> int | None:
    """Return why a topic cannot be used, as a code of ``_WHY``; None if it exists, maybe created by the
    query.
    """
    try:
        await cluster.topic(name, create=True)
    except BrokerRefused as refusal:
        if refusal.code not in _WHY:
            raise
        return refusal.code
    return None


@contextmanager
def _in_words(asked: str, bootstrap: str) -> Iterator[None]:
    """Turn client errors into a ``PipelineError`` that names the options in ``asked``."""
    try:
        yield
    except (NoBroker, OutOfTime) as error:
        raise PipelineError(
            f"{asked}: whether it is there could not be asked at --bootstrap {bootstrap}: {_line(error)}"
        ) from error
    except BrokerRefused as error:
        raise PipelineError(
            f"{asked}: the broker does not say whether it is there: {_said(error)}"
        ) from error


def _said(refusal: BrokerRefused) -> str:
    name = refusal.code.name if isinstance(refusal.code, ErrorCode) else f"error {refusal.code}"
    return f"{' '.join(refusal.message.split())}, {name}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
