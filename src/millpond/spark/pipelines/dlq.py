"""Dead letters: what there is, why, since when, and what is likely behind it; and back where they came from.

The report groups letters by origin, reason and the pattern of what was wrong (its likely root cause), with
ages and an example. Replay sends letters back to the topics they came from, at a bounded rate, with a header
that counts how often; one that keeps coming back stays here after ``attempts`` tries. Letters of share groups
(KIP-1191), of Kafka Connect and of our own pipelines are understood.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.flow import Query, option
from millpond.spark.pipelines.letters import read_letters, replayed_headers
from millpond.spark.pipelines.signatures import signature
from millpond.spark.pipelines.spark_names import Column, DataFrame, SparkSession, sf
from millpond.spark.pipelines.table import Table

ACTIONS = ("report", "replay")
EXAMPLE_CHARS_MAX = 4000
_NAME_CHARS_MAX = 249  # of a topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(flow.TableOptions):
    """What can be done with dead letters."""

    action: str = option("report", "Say what there is, or send it back.", choices=ACTIONS)
    reason: str = option("", "Only letters with this reason.")
    origin: str = option("", "Only letters that came from this topic.")
    attempts: int = option(3, "replay: letters that were sent back so often stay here.")
    per_second: int = option(100, "replay: most letters in one second.")


def start(spark: SparkSession, options: Options) -> list[Query]:
    """Keep the report (as rows that add up, in ``<to>/causes``) or the replay going."""
    options = options.named("dlq")
    if options.action == "replay":
        options = paced(options)
        found = chosen(read_letters(flow.read_stream(spark, options)), options)
        return [flow.start_topic_query(replayed(found, options.attempts), options, "dlq")]

    table = Table(Path(options.to) / "causes")

    def publish(batch: DataFrame, number: int) -> None:
        found = flow.dated(causes(chosen(read_letters(batch), options)), "youngest")
        turn = flow.turn(batch, number, options, "dlq")
        flow.publish_results(table, found.coalesce(1), turn, options)

    records = flow.read_stream(spark, options)
    return [flow.start_query(records, options, "dlq", publish, tables=[table])]


def run_batch(spark: SparkSession, options: Options) -> DataFrame:
    """The report on what is there now; with ``replay``, send all of it back at once."""
    options = options.named("dlq")
    if options.action == "replay":
        _replay_at_once(spark, options)
    found = chosen(read_letters(flow.read_batch(spark, options)), options)
    return causes(found).orderBy(sf.desc("letters"), "pattern")


def _replay_at_once(spark: SparkSession, options: Options) -> None:
    """A stream that ends: its checkpoint knows what went back, so that no letter goes back twice."""
    if not options.checkpoint:
        raise PipelineError(
            "--action replay: nobody would know what was sent back, and the next run would send it again; "
            "give --checkpoint DIRECTORY, the same one each time"
        )
    options = replace(options, available_now=True)
    found = chosen(read_letters(flow.read_stream(spark, options)), options)
    flow.start_topic_query(replayed(found, options.attempts), options, "dlq").awaitTermination()


def paced(options: Options) -> Options:
    """A replay's pace: one batch each interval, of no more than the rate allows."""
    seconds = flow.seconds_of(options.interval)
    rows = max(1, int(options.per_second * seconds))
    return replace(options, rows_per_batch=rows, available_now=False)


# --- transformations ---


def chosen(found: DataFrame, options: Options) -> DataFrame:
    """Letters that were asked for."""
    if options.reason:
        found = found.where(sf.col("reason") == options.reason)
    if options.origin:
        found = found.where(sf.col("origin_topic") == options.origin)
    return found


def causes(found: DataFrame) -> DataFrame:
    """One row for each likely cause (origin, reason, pattern): how many, how old, where to look."""
    return (
        found.withColumn("pattern", root_cause())
        .groupBy("origin_topic", "given_up_by", "reason", "pattern")
        .agg(
            sf.count(sf.lit(1)).alias("letters"),
            sf.count_distinct("key").alias("keys"),
            sf.min("buried").alias("oldest"),
            sf.max("buried").alias("youngest"),
            sf.max("replays").alias("replays"),
            sf.min_by(sf.left("problem", sf.lit(EXAMPLE_CHARS_MAX)), "buried").alias("example"),
            sf.min_by(
                sf.concat_ws(
                    "-", "letter.topic", sf.col("letter.partition"), sf.col("letter.offset")
                ),
                "buried",
            ).alias("first_letter"),
        )
        .withColumn("age_s", sf.unix_seconds(sf.current_timestamp()) - sf.unix_seconds("oldest"))
    )


def root_cause() -> Column:
    """What letters with one cause have in common: the innermost ``Caused by`` of a stack, or the message."""
    lines = sf.regexp_extract_all("stack", sf.lit(r"(?m)^Caused by: (.*)$"), 1)
    innermost = sf.try_element_at(lines, sf.lit(-1))
    return signature(sf.coalesce(innermost, sf.col("problem")))


def replayed(found: DataFrame, attempts: int) -> DataFrame:
    """Letters as the records they were, for the topics they came from."""
    can_go = _is_topic(sf.col("origin_topic")) & ~sf.col("is_cut")
    return found.where(can_go & (sf.col("replays") < attempts)).select(
        sf.col("origin_topic").alias("topic"),
        "key",
        "value",
        replayed_headers().alias("headers"),
    )


def _is_topic(name: Column) -> Column:
    """Whether a header names a topic that clients may write to; one that does not would stop the replay."""
    # Not ``$``, which Java also finds before a line's end at the end.
    return (
        name.rlike(rf"^[a-zA-Z0-9._-]{{1,{_NAME_CHARS_MAX}}}\z")
        & ~name.isin(".", "..")
        & ~name.startswith("__")
    )
