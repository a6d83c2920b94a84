"""Whether topics that are named in data are there to be written to.

A broker that makes topics when they are asked for is asked here just as the sink would ask it. One that does
not (``auto.create.topics.enable=false``) would refuse the rows, and so end the query.
"""

import asyncio
from collections.abc import Collection

from millpond.client import BrokerRefused, Cluster, NoBroker

# A topic that was made a moment ago may not be known everywhere yet.
_UNKNOWN_TOPIC_S = 3.0
_BROKER_S_MAX = 120.0  # as long as the sink waits for a broker that is away


def absent_topics(bootstrap: str, names: Collection[str]) -> set[str]:
    """Those of the topics that are not there and are not made by asking for them."""
    return asyncio.run(_absent_topics(bootstrap, names)) if names else set()


async def _absent_topics(bootstrap: str, names: Collection[str]) -> set[str]:
    async with Cluster(
        bootstrap,
        client_id="millpond-spark",
        timeout_s=_BROKER_S_MAX,
        unknown_topic_s=_UNKNOWN_TOPIC_S,
    ) as cluster:
        await _reach(cluster)
        known = {topic.name for topic in await cluster.topics()}
        async with asyncio.TaskGroup() as asking:
            asked = {
                name: asking.create_task(_is_there(cluster, name), name=f"asking for {name}")
                for name in sorted(set(names) - known)
            }
        return {name for name, task in asked.items() if not task.result()}


async def _reach(cluster: Cluster) -> None:
    """Wait for a broker: one that restarts is no reason to fail a query."""
    attempts = cluster.attempts("asking for topics")
    while True:
        try:
            await cluster.info()
            return
        except NoBroker as error:
            await attempts.after(error)


async def _is_there(cluster: Cluster, name: str) -> bool:
    try:
        await cluster.topic(name, create=True)
    except BrokerRefused:
        return False
    return True
