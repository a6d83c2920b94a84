"""Spreads a backlog evenly over a topic with more partitions, so that more consumers can process it.

Records of one key keep their order: a key goes to one partition for the whole run. Where a few keys make most
of the backlog, hashing would put some of them together by chance; so the backlog is counted first, the
largest keys are assigned one by one to the emptiest partition, and the many small ones are hashed. The plan
is kept beside the checkpoint. Records without a key have no order to keep and are distributed in turn.

With ``take_over=GROUP`` the run begins at that group's committed offsets and advances them as records are
moved, so its consumers find an empty backlog when they return.
"""

import heapq
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from millpond.client import Groups
from millpond.client.blocking import BlockingClient
from millpond.spark.pipelines import flow
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.flow import Query, option
from millpond.spark.pipelines.spark_names import Column, DataFrame, SparkSession, sf
from millpond.spark.pipelines.topics import Wanted, make_topics

_WITHOUT_MEMBERS = frozenset({"Empty", "Dead", ""})
KEYS_PLACED_MAX = 1000  # a key smaller than the thousandth cannot change the balance


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(flow.Options):
    """The options of redistribution."""

    partitions: int = option(
        8, "Partitions of the topic that --to names; it is made if it is not there."
    )
    take_over: str = option(
        "", "Group without members whose backlog this is; its offsets move along."
    )


def start(spark: SparkSession, options: Options) -> list[Query]:
    """Move the backlog."""
    options = _complete(options)
    prepare_topic(options)
    plan = _plan(spark, options)

    def move(batch: DataFrame, number: int) -> None:
        once = flow.Once(flow.query_id(batch), "redistribute", number)
        flow.write_topic(spread(batch, plan, options), options, once)

    return [flow.start_query(flow.read_stream(spark, options), options, "redistribute", move)]


def run_batch(spark: SparkSession, options: Options) -> DataFrame:
    """Move the present records; return how many records each partition got."""
    if options.take_over:
        raise PipelineError(
            "--take-over moves the group's offsets along as a stream does: leave out --batch and give "
            "--available-now and --checkpoint"
        )
    options = _complete(options)
    prepare_topic(options)
    records = flow.read_batch(spark, options)
    plan = place_keys(count_keys(records), options.partitions)
    moved = spread(records, plan, options)
    flow.write_topic(moved, options)
    return moved.groupBy("partition").agg(sf.count(sf.lit(1)).alias("records")).orderBy("partition")


def prepare_topic(options: Options) -> None:
    """Create the topic, or check that it has the requested partitions."""
    if not options.to:
        raise PipelineError("nowhere to write: give --to TOPIC")
    wanted = Wanted(option="--to", name=options.to, partitions=options.partitions)
    make_topics(options.bootstrap, [wanted])
    with BlockingClient(options.bootstrap) as client:
        there = len(client.describe_topic(options.to).partitions)
    if there != options.partitions:
        raise PipelineError(
            f"--partitions {options.partitions}: topic {options.to} has {there}; "
            "give that number or another topic"
        )


# --- transformations ---


def count_keys(records: DataFrame) -> DataFrame:
    """Return how many records each key has; the largest keys only."""
    return (
        records.where(sf.col("key").isNotNull())
        .groupBy(sf.xxhash64("key").alias("hash"))
        .agg(sf.count(sf.lit(1)).alias("records"))
        .orderBy(sf.desc("records"), "hash")
        .limit(KEYS_PLACED_MAX)
    )


def place_keys(counts: DataFrame, partitions: int) -> dict[int, int]:
    """Return the partition of each of the largest keys, by the hash of the key."""
    return balance([(row["hash"], row["records"]) for row in counts.collect()], partitions)


def balance(sizes: Sequence[tuple[int, int]], partitions: int) -> dict[int, int]:
    """Assign items of these sizes, the largest first, each to the emptiest bin."""
    bins = [(0, number) for number in range(partitions)]
    placed: dict[int, int] = {}
    for item, size in sorted(sizes, key=lambda pair: (-pair[1], pair[0])):
        load, number = heapq.heappop(bins)
        placed[item] = number
        heapq.heappush(bins, (load + size, number))
    return placed


def spread(records: DataFrame, plan: Mapping[int, int], options: Options) -> DataFrame:
    """Return records with their new partition, in an order that keeps the order of each key.

    All records of a new partition are written by one task, in the order of the old partitions.
    """
    target = _target(plan, options.partitions)
    return (
        records.withColumnRenamed("partition", "old")
        .select(
            sf.lit(options.to).alias("topic"),
            target.alias("partition"),
            "key",
            "value",
            "headers",
            "timestamp",
            sf.col("topic").alias("old_topic"),
            "old",
            "offset",
        )
        .repartition(options.partitions, "partition")
        .sortWithinPartitions("partition", "old_topic", "old", "offset")
        .drop("old_topic", "old", "offset")
    )


def _target(plan: Mapping[int, int], partitions: int) -> Column:
    hashed = sf.xxhash64("key")
    by_hash = sf.pmod(hashed, sf.lit(partitions))
    going_round = sf.pmod(sf.col("offset"), sf.lit(partitions))
    if plan:
        pairs = [sf.lit(item) for pair in plan.items() for item in pair]
        by_hash = sf.coalesce(sf.try_element_at(sf.create_map(*pairs), hashed), by_hash)
    return sf.when(sf.col("key").isNull(), going_round).otherwise(by_hash).cast("int")


def _plan(spark: SparkSession, options: Options) -> dict[int, int]:
    """Return the plan of this checkpoint: made once, since a key must not move while its records do."""
    file = Path(flow.checkpoint_of(options, "redistribute-plan.json"))
    if not file.exists():
        plan = place_keys(count_keys(flow.read_batch(spark, options)), options.partitions)
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps({"partitions": options.partitions, "keys": list(plan.items())}))
        fresh.rename(file)
    document = json.loads(file.read_text())
    if document["partitions"] != options.partitions:
        raise PipelineError(
            f"--partitions {options.partitions}: this checkpoint spreads over {document['partitions']}; "
            "keys would change their place. Keep the number, or begin with a new checkpoint"
        )
    return dict(document["keys"])


def _complete(options: Options) -> Options:
    if not options.take_over:
        return options.named("redistribute")
    with BlockingClient(options.bootstrap) as client:
        groups = {one.group_id: one for one in client.run(lambda cluster: Groups(cluster).list())}
        group = groups.get(options.take_over)
        if group is not None and group.state not in _WITHOUT_MEMBERS:
            raise PipelineError(
                f"--take-over {options.take_over}: the group has members ({group.state}), who would work on "
                "the same records; stop them first"
            )
        found = client.run(lambda cluster: Groups(cluster).offsets(options.take_over))
        positions: dict[str, dict[str, int]] = {}
        for topic in options.source:
            for partition in client.describe_topic(topic).partitions:
                positions.setdefault(topic, {})[str(partition.partition)] = -2
        for place, offset in found.items():
            if place.topic in positions:
                positions[place.topic][str(place.partition)] = offset
    return replace(options, group=options.take_over, starting=json.dumps(positions))
