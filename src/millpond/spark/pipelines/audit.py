"""Finds lost and duplicated messages: compares a producer's record of what it sent with the log.

The producer's record is a topic (``sends``) or Parquet or JSON files (``sends_files``), with one entry for
each acknowledged message. Entries and messages are matched by key and id. An id that was sent and is not in
the log is lost; one that is there more often than it was sent is duplicated; one that was never sent is
unknown. Entries and messages without an id cannot be matched: they become dead letters.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.dead_letters import dead_letters
from millpond.spark.pipelines.dedup import id_column, judge
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.flow import Query, option
from millpond.spark.pipelines.spark_names import Column, DataFrame, SparkSession, sf
from millpond.spark.pipelines.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(flow.TableOptions):
    """The options of an audit."""

    sends: str = option("", "Topic with the producer's record of sends.")
    sends_files: str = option("", "Or Parquet (or .json) files with columns key and id.")
    id: str = option("$.id", "Where the id is: a JSON path ($.id), header:NAME, key, or value.")
    within: str = option("10 minutes", "stream: how far apart an entry and its message may be.")


def start(spark: SparkSession, options: Options) -> list[Query]:
    """Publish every id with a finding to ``<to>/findings``, once its time is over; and write dead letters."""
    options = options.named("audit")
    if not options.sends:
        raise PipelineError("a stream is audited against a topic: give --sends TOPIC")
    sends = flow.read_stream(spark, replace(options, source=(options.sends,), group=""))
    both = side_by_side(sends, flow.read_stream(spark, options), options)
    found = findings(matched(both, within=options.within))

    table = Table(Path(options.to) / "findings")

    def publish(batch: DataFrame, number: int) -> None:
        turn = flow.turn(batch, number, options, "audit")
        flow.publish_results(table, flow.dated(batch.coalesce(1), "start"), turn, options)

    judged = judge(flow.read_stream(spark, _both_topics(options)), options.id)
    flow.make_dead_letter_topic(options)
    return [
        flow.start_query(found, options, "audit", publish, tables=[table]),
        flow.start_topic_query(dead(flow.observed(judged), options), options, "audit-letters"),
    ]


def run_batch(spark: SparkSession, options: Options) -> DataFrame:
    """Return the audit of the present records, by key; keys with findings first."""
    options = options.named("audit")
    both = sent_entries(spark, options).unionByName(
        entries(flow.read_batch(spark, options), "logged", options.id)
    )
    topics = _both_topics(options) if options.sends else options
    flow.make_dead_letter_topic(options)
    flow.write_dead_letters(
        dead(judge(flow.read_batch(spark, topics), options.id), options), options
    )
    return by_key(matched(both))


def _both_topics(options: Options) -> Options:
    return replace(options, source=(*options.source, options.sends))


def sent_entries(spark: SparkSession, options: Options) -> DataFrame:
    """Return the producer's record."""
    if options.sends:
        sends = flow.read_batch(spark, replace(options, source=(options.sends,), group=""))
        return entries(sends, "sent", options.id)
    if not options.sends_files:
        raise PipelineError("what was sent? Give --sends TOPIC or --sends-files PATH")
    if options.sends_files.endswith((".json", ".jsonl")):
        # A line that is no JSON has neither key nor id, and is counted among those without one.
        found = spark.read.schema("key string, id string").json(options.sends_files)
    else:
        found = spark.read.parquet(options.sends_files)
    return found.select(
        sf.lit("sent").alias("side"),
        sf.col("key").cast("string").alias("key"),
        sf.col("id").cast("string").alias("id"),
        sf.lit(None).cast("timestamp").alias("timestamp"),
        sf.lit(None).cast("string").alias("place"),
        sf.lit(None).cast("bigint").alias("position"),
    )


# --- transformations ---


def entries(records: DataFrame, side: str, id_at: str) -> DataFrame:
    """Return the records of one side as entries to match."""
    return records.select(
        sf.lit(side).alias("side"),
        flow.any_text("key").alias("key"),
        flow.any_text(id_column(id_at)).alias("id"),
        "timestamp",
        sf.concat_ws("-", "topic", sf.col("partition")).alias("place"),
        sf.col("offset").alias("position"),
    )


def dead(judged: DataFrame, options: Options) -> DataFrame:
    """Return dead letters for entries and messages without an id."""
    return dead_letters(
        judged.where(sf.col("reason").isNotNull()),
        topic=options.dead_letter_topic,
        group=options.group,
        stage=f"audit.judge(id={options.id})",
    )


def side_by_side(sends: DataFrame, log: DataFrame, options: Options) -> DataFrame:
    """Return the entries of two streams, each with its own watermark, of which Spark takes the slower.

    With one for both, all entries of the slower side would be considered lost.
    """
    sent, logged = (
        flow.with_watermark(
            entries(records, side, options.id).where("id IS NOT NULL"), "moment", options.within
        )
        for records, side in ((sends, "sent"), (log, "logged"))
    )
    return sent.unionByName(logged)


def matched(both: DataFrame, *, within: str = "") -> DataFrame:
    """Return one row for each key and id: how often it was sent, how often it is in the log, and where."""
    keys: list[Column | str] = ["key", "id"]
    if within:
        keys = [sf.session_window("moment", within).alias("span"), *keys]
    is_logged = sf.col("side") == "logged"
    place = sf.concat_ws("@", "place", sf.col("position"))
    return both.groupBy(*keys).agg(
        sf.count_if(sf.col("side") == "sent").alias("sent"),
        sf.count_if(is_logged).alias("logged"),
        sf.array_sort(sf.collect_list(sf.when(is_logged, place))).alias("places"),
    )


def verdict() -> Column:
    """Return the verdict on an id."""
    return (
        sf.when(sf.col("id").isNull(), "without id")
        .when(sf.col("sent") == 0, "unknown")
        .when(sf.col("logged") == 0, "lost")
        .when(sf.col("logged") > sf.col("sent"), "doubled")
        .when(sf.col("logged") < sf.col("sent"), "lost")
        .otherwise("in order")
    )


def findings(ids: DataFrame) -> DataFrame:
    """Return the ids with findings; those of a stream with the ``start`` of their time window."""
    if "span" in ids.columns:
        ids = ids.withColumn("start", sf.col("span.start")).drop("span")
    judged = ids.withColumn("verdict", verdict())
    return judged.where(~sf.col("verdict").isin("in order", "without id"))


def by_key(ids: DataFrame) -> DataFrame:
    """Return the audit's result: one row for each key, those with findings first."""
    judged = ids.withColumn("verdict", verdict())
    lost = sf.greatest(sf.col("sent") - sf.col("logged"), sf.lit(0))
    return (
        judged.groupBy("key")
        .agg(
            sf.sum("sent").alias("sent"),
            sf.sum("logged").alias("logged"),
            sf.sum(sf.when(sf.col("verdict") == "lost", lost).otherwise(0)).alias("lost"),
            sf.sum(
                sf.when(
                    sf.col("verdict") == "doubled", sf.col("logged") - sf.col("sent")
                ).otherwise(0)
            ).alias("doubled"),
            sf.sum(sf.when(sf.col("verdict") == "unknown", sf.col("logged")).otherwise(0)).alias(
                "unknown"
            ),
            sf.sum(
                sf.when(sf.col("id").isNull(), sf.col("sent") + sf.col("logged")).otherwise(0)
            ).alias("without_id"),
            sf.min(sf.when(sf.col("verdict") != "in order", sf.col("id"))).alias("example"),
        )
        .orderBy(
            sf.desc(sf.col("lost") + sf.col("doubled") + sf.col("unknown") + sf.col("without_id")),
            "key",
        )
    )
