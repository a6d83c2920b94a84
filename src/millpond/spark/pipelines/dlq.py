"""Dead letters: a report of their number, reasons, ages and likely causes; and their replay.

The report groups dead letters by origin, reason and the pattern of the problem (its likely root cause), with
ages and an example. Replay sends them back to the topics they came from, at a bounded rate, with a header
that counts how often; one that keeps coming back stays here after ``attempts`` tries, and so does one whose
topic does not exist. Dead letters of share groups (KIP-1191), of Kafka Connect and of our own pipelines are
supported.
"""

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.dead_letters import read_dead_letters, replayed_headers
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.flow import Query, option
from millpond.spark.pipelines.signatures import signature
from millpond.spark.pipelines.spark_names import Column, DataFrame, SparkSession, sf
from millpond.spark.pipelines.table import Table, sync_directory, sync_file
from millpond.spark.pipelines.topics import unusable_topics

log = logging.getLogger(__name__)

ACTIONS = ("report", "replay")
EXAMPLE_CHARS_MAX = 4000
_NAME_CHARS_MAX = 249  # the longest name of a topic
_TOPICS_NAMED_MAX = 20  # missing topics in the log of one run


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(flow.TableOptions):
    """The options for dead letters."""

    action: str = option("report", "Say what there is, or send it back.", choices=ACTIONS)
    reason: str = option("", "Only dead letters with this reason.")
    origin: str = option("", "Only dead letters that came from this topic.")
    attempts: int = option(3, "replay: dead letters that were sent back this often stay here.")
    per_second: int = option(100, "replay: most dead letters in one second.")


def start(spark: SparkSession, options: Options) -> list[Query]:
    """Run the report (as rows that add up, in ``<to>/causes``) or the replay as a stream."""
    options = options.named("dlq")
    if options.action == "replay":
        return [_start_replay(spark, paced(options))]

    table = Table(Path(options.to) / "causes")

    def publish(batch: DataFrame, number: int) -> None:
        found = flow.dated(causes(chosen(read_dead_letters(batch), options)), "youngest")
        turn = flow.turn(batch, number, options, "dlq")
        flow.publish_results(table, found.coalesce(1), turn, options)

    records = flow.read_stream(spark, options)
    return [flow.start_query(records, options, "dlq", publish, tables=[table])]


def run_batch(spark: SparkSession, options: Options) -> DataFrame:
    """Return the report on the present dead letters; with ``replay``, send all of them back."""
    options = options.named("dlq")
    if options.action == "replay":
        _replay_at_once(spark, options)
    found = chosen(read_dead_letters(flow.read_batch(spark, options)), options)
    return causes(found).orderBy(sf.desc("letters"), "pattern")


def _replay_at_once(spark: SparkSession, options: Options) -> None:
    """Replay as a stream that ends: its checkpoint records what was sent, so that none is sent twice."""
    if not options.checkpoint:
        raise PipelineError(
            "--action replay: without a checkpoint the next run would send everything back again; "
            "give --checkpoint DIRECTORY, the same one each time"
        )
    _start_replay(spark, replace(options, available_now=True)).awaitTermination()


def _start_replay(spark: SparkSession, options: Options) -> Query:
    """Send dead letters back to the topics they came from; those whose topic does not exist stay."""
    missing = MissingTopics(_missing_topics_file(options))

    def send_back(batch: DataFrame, number: int) -> None:
        found = chosen(read_dead_letters(batch), options)
        dead_letters = replayed(found, options.attempts).persist()
        of_topics = {
            row["topic"]: row["count"] for row in dead_letters.groupBy("topic").count().collect()
        }
        ask = partial(unusable_topics, options.bootstrap, option="letters of topics")
        absent = missing.settle(number, of_topics, ask)
        once = flow.Once(flow.query_id(batch), "dlq", number)
        flow.write_topic(dead_letters.where(~sf.col("topic").isin(absent)), options, once)
        dead_letters.unpersist()

    return flow.start_query(flow.read_stream(spark, options), options, "dlq", send_back)


def facts(options: Options) -> dict[str, float]:
    """Return metrics beside counts: how many dead letters stay because their topic does not exist."""
    if options.action != "replay":
        return {}
    return {"without_topic": MissingTopics(_missing_topics_file(options)).count()}


def _missing_topics_file(options: Options) -> Path:
    return Path(flow.checkpoint_of(options, "dlq-without-topic.json"))


def paced(options: Options) -> Options:
    """Return the options with a replay's pace: one batch each interval, within the rate."""
    seconds = flow.seconds_of(options.interval)
    rows = max(1, int(options.per_second * seconds))
    return replace(options, rows_per_batch=rows, available_now=False)


@dataclass(frozen=True, slots=True)
class MissingTopicsState:
    """A replay's state: topics that its last batch skipped, and the total number of dead letters that
    stayed.
    """

    batch: int = -1
    topics: tuple[str, ...] = ()
    dead_letters: int = 0


class MissingTopics:
    """Dead letters that stay because their topic does not exist, recorded in a file beside the checkpoint.

    A batch that Spark repeats must have the same rows, though a topic may have been created meanwhile: so the
    topics that a batch skips are recorded before it is sent.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._named: set[str] = set()

    def settle(
        self,
        batch: int,
        dead_letters: Mapping[str, int],
        unusable_of: Callable[[Collection[str]], Mapping[str, str]],
    ) -> list[str]:
        """Return the topics that a batch skips; ``dead_letters`` are the numbers of dead letters for each
        topic.
        """
        noted = self._noted()
        if noted.batch == batch:
            return list(noted.topics)
        if not dead_letters:
            return []
        unusable = unusable_of(dead_letters.keys())
        self._tell(unusable)
        absent = sorted(unusable)
        stayed = sum(dead_letters[topic] for topic in absent)
        self._note(MissingTopicsState(batch, tuple(absent), noted.dead_letters + stayed))
        return absent

    def count(self) -> int:
        """Return how many dead letters stayed in all batches of this checkpoint."""
        return self._noted().dead_letters

    def _tell(self, unusable: Mapping[str, str]) -> None:
        """Log each missing topic once, with the reason; headers may be forged, so the number is bounded."""
        for topic, why in sorted(unusable.items()):
            if topic not in self._named and len(self._named) < _TOPICS_NAMED_MAX:
                self._named.add(topic)
                log.warning(
                    "topic %s %s, and replay its letters, which stay here, with --origin %s and a new "
                    "--checkpoint",
                    topic,
                    why,
                    topic,
                )

    def _noted(self) -> MissingTopicsState:
        if not self._file.exists():
            return MissingTopicsState()
        document = json.loads(self._file.read_text())
        return MissingTopicsState(document["batch"], tuple(document["topics"]), document["letters"])

    def _note(self, absent: MissingTopicsState) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._file.with_suffix(".new")
        fresh.write_text(
            json.dumps(
                {"batch": absent.batch, "topics": absent.topics, "letters": absent.dead_letters}
            )
        )
        sync_file(fresh)
        fresh.rename(self._file)
        sync_directory(self._file.parent)


# --- transformations ---


def chosen(found: DataFrame, options: Options) -> DataFrame:
    """Return the selected dead letters."""
    if options.reason:
        found = found.where(sf.col("reason") == options.reason)
    if options.origin:
        found = found.where(sf.col("origin_topic") == options.origin)
    return found


def causes(found: DataFrame) -> DataFrame:
    """Return one row for each likely cause (origin, reason, pattern): count, ages, an example."""
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
    """Return the common part of problems with one cause: the innermost ``Caused by`` of a stack, or the
    message.
    """
    lines = sf.regexp_extract_all("stack", sf.lit(r"(?m)^Caused by: (.*)$"), 1)
    innermost = sf.try_element_at(lines, sf.lit(-1))
    return signature(sf.coalesce(innermost, sf.col("problem")))


def replayed(found: DataFrame, attempts: int) -> DataFrame:
    """Return dead letters as the original records, for the topics they came from."""
    can_go = _is_topic(sf.col("origin_topic")) & ~sf.col("is_cut")
    return found.where(can_go & (sf.col("replays") < attempts)).select(
        sf.col("origin_topic").alias("topic"),
        "key",
        "value",
        replayed_headers().alias("headers"),
    )


def _is_topic(name: Column) -> Column:
    """Return whether a header holds a valid topic name; an invalid one would stop the replay."""
    # Not ``$``, which in Java also matches before a final line end.
    return (
        name.rlike(rf"^[a-zA-Z0-9._-]{{1,{_NAME_CHARS_MAX}}}\z")
        & ~name.isin(".", "..")
        & ~name.startswith("__")
    )
