"""Carrying out a plan of moves: throttled if asked, with progress; nothing of the throttle is left behind."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import click

from millpond.base.ids import TopicPartition
from millpond.cli.moves import Plan, is_done
from millpond.cli.output import complain, is_terminal, note
from millpond.client import Admin, BrokerRefused, ResourceType

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
POLL_S = 0.25


async def carry_out(
    admin: Admin, plan: Plan, *, throttle_bytes: int | None, wait: bool, timeout_s: float | None
) -> bool:
    """Begin the moves and, unless told otherwise, wait until all have arrived. False: some were refused."""
    throttled: set[int] = set()
    if throttle_bytes is not None:
        throttled = await set_throttle(admin, plan, throttle_bytes)
    refusals = {
        place: refusal
        for place, refusal in (await admin.alter_reassignments(plan)).items()
        if refusal is not None
    }
    for refusal in refusals.values():
        complain(str(refusal))
    begun = {place: replicas for place, replicas in plan.items() if place not in refusals}
    if wait:
        try:
            await wait_until_moved(admin, begun, timeout_s=timeout_s)
        finally:
            if throttled:
                await clear_throttle(admin, {place.topic for place in plan}, throttled)
    elif throttled:
        note("the throttle stays until `millpond partition reassign --unthrottle` is run")
    return not refusals


async def wait_until_moved(
    admin: Admin, plan: Mapping[TopicPartition, Sequence[int]], *, timeout_s: float | None
) -> None:
    """Look again and again, and say how far it is. ``TimeoutError`` if it takes too long."""
    left = dict(plan)
    with _progress(len(plan)) as progress:
        async with asyncio.timeout(timeout_s):
            while left:
                moving = await admin.list_reassignments()
                topics = {
                    name: await admin.describe_topic(name)
                    for name in {place.topic for place in left}
                }
                for place in list(left):
                    item = next(
                        item
                        for item in topics[place.topic].partitions
                        if item.partition == place.partition
                    )
                    if place not in moving and is_done(item, left[place]):
                        progress.arrived(place, left.pop(place))
                if left:
                    await asyncio.sleep(POLL_S)


async def set_throttle(admin: Admin, plan: Plan, bytes_a_second: int) -> set[int]:
    """Bound the traffic of the moves, as Kafka's own tool does; answers the nodes that were told."""
    topics = {name: await admin.describe_topic(name) for name in {place.topic for place in plan}}
    nodes: set[int] = set()
    for name, info in topics.items():
        present = {item.partition: item.replicas for item in info.partitions}
        sources, targets = [], []
        for place, wanted in plan.items():
            if place.topic == name:
                old = present[place.partition]
                nodes |= {*old, *wanted}
                sources += [f"{place.partition}:{node}" for node in old]
                targets += [f"{place.partition}:{node}" for node in wanted if node not in old]
        await admin.alter_configs(
            name, {LEADER_REPLICAS: ",".join(sources), FOLLOWER_REPLICAS: ",".join(targets)}
        )
    rate = str(bytes_a_second)
    for node in sorted(nodes):
        await admin.alter_configs(
            str(node), {LEADER_RATE: rate, FOLLOWER_RATE: rate}, resource=ResourceType.BROKER
        )
    return nodes


async def clear_throttle(admin: Admin, topics: set[str], nodes: set[int]) -> None:
    """Take all of it back."""
    for node in sorted(nodes):
        try:
            await admin.alter_configs(
                str(node), {LEADER_RATE: None, FOLLOWER_RATE: None}, resource=ResourceType.BROKER
            )
        except BrokerRefused as refusal:
            complain(f"the throttle of node {node} is still set: {refusal}")
    for name in sorted(topics):
        await admin.alter_configs(name, {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None})


class Progress(Protocol):
    """Shows how a reassignment proceeds."""

    def arrived(self, place: TopicPartition, replicas: Sequence[int]) -> None:
        """Note that a partition has arrived at its replicas."""
        ...


class _Lines:
    """For a pipe: a line for each."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def arrived(self, place: TopicPartition, replicas: Sequence[int]) -> None:
        self._done += 1
        click.echo(f"{place}: moved to {_list(replicas)} ({self._done} of {self._total})")


@contextmanager
def _progress(total: int) -> Iterator[Progress]:
    if not is_terminal():
        yield _Lines(total)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("moving"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, TextColumn("{task.fields[last]}")) as bar:
        task = bar.add_task("moving", total=total, last="")

        class _Bar:
            def arrived(self, place: TopicPartition, replicas: Sequence[int]) -> None:
                bar.update(task, advance=1, last=f"{place} to {_list(replicas)}")

        yield _Bar()


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
