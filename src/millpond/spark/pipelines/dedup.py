"""Removes duplicates: only the first record of each id is copied.

``exact`` remembers ids for a time (a stream's watermark) and is never wrong within it. ``bloom`` remembers
ids in a few bits each, for as many as it is sized for, and takes a new record for a duplicate at a known
rate. In both, copied records and remembered ids are committed together: a crash neither forgets an id whose
record was written nor drops the record of an id that it remembers.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.dead_letters import dead_letters
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.flow import Query, option
from millpond.spark.pipelines.spark_names import Column, DataFrame, SparkSession, sf
from millpond.spark.pipelines.topics import Wanted

if TYPE_CHECKING:
    from millpond.spark.pipelines.bloom import BloomFilter

METHODS = ("exact", "bloom")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(flow.Options):
    """The options of deduplication."""

    method: str = option(
        "exact", "Exactly within a time, or by Bloom filter at scale.", choices=METHODS
    )
    id: str = option("$.id", "Where the id is: a JSON path ($.id), header:NAME, key, or value.")
    within: str = option("1 hour", "exact: how far apart two records with one id may be.")
    capacity: int = option(10_000_000, "bloom: ids that are remembered for sure.")
    rate: float = option(0.001, "bloom: share of new records that may be taken for old ones.")


def start(spark: SparkSession, options: Options) -> list[Query]:
    """Copy the first record of each id to ``to``."""
    options = options.named("dedup")
    # Only the exact method has a watermark, for which partitions must be read at the same speed.
    aligned = str(options.method == "exact").lower()
    judged = judge(flow.read_stream(spark, options, alignPartitions=aligned), options.id)
    flow.make_dead_letter_topic(options, _copy(options))
    queries = [
        flow.start_topic_query(dead(flow.observed(judged), options), options, "dedup-letters")
    ]
    if options.method == "exact":
        kept = exact(good(judged), within=options.within)
        return [flow.start_topic_query(outgoing(kept, options), options, "dedup"), *queries]

    memory = Memory(_filters(options), options)

    def let_through(batch: DataFrame, number: int) -> None:
        known = memory.before(number)
        shared = spark.sparkContext.broadcast(known)
        fresh = unseen(batch, shared).persist()
        once = flow.Once(flow.query_id(batch), "dedup", number)
        flow.write_topic(outgoing(fresh, options), options, once)
        memory.keep(number, known, fresh)
        fresh.unpersist()
        shared.destroy()  # otherwise its file, as large as the filter, stays until the session ends

    return [flow.start_query(good(judged), options, "dedup", let_through), *queries]


def _copy(options: Options) -> Wanted:
    return Wanted(option="--to", name=options.to, like=options.source)


def run_batch(spark: SparkSession, options: Options) -> DataFrame:
    """Copy the first record of each id of the present records; return the number of duplicates."""
    options = options.named("dedup")
    judged = judge(flow.read_batch(spark, options), options.id)
    flow.make_dead_letter_topic(options, _copy(options))
    kept = first_of_each(good(judged)).persist()
    flow.write_topic(outgoing(kept, options), options)
    flow.write_dead_letters(dead(judged, options), options)
    return judged.agg(
        sf.count(sf.lit(1)).alias("records"),
        sf.lit(kept.count()).alias("kept"),
        sf.count("reason").alias("dead_letters"),
    )


def facts(options: Options) -> dict[str, float]:
    """Return metrics beside counts: the filter's false-positive rate, as configured and as it is now."""
    if options.method != "bloom":
        return {}
    return {
        "rate_stated": options.rate,
        "rate_estimated": Memory(_filters(options), options).rate(),
    }


def _filters(options: Options) -> Path:
    return Path(flow.checkpoint_of(options, "dedup-filters"))


# --- transformations ---


def judge(records: DataFrame, id_at: str) -> DataFrame:
    """Add ``id``; a record without one cannot be deduplicated and becomes a dead letter."""
    identified = records.withColumn("id", id_column(id_at))
    reason, problem = flow.problems(
        ((sf.col("id").isNull(), "NO_ID", f"the record has no id at {id_at}"),)
    )
    return identified.withColumn("reason", reason).withColumn("problem", problem)


def id_column(where: str) -> Column:
    """Return the id of a record: at a JSON path, in a header, or its key or value itself."""
    if where.startswith("$"):
        return sf.try_variant_get(sf.try_parse_json(flow.text()), where, "string")
    if where.startswith("header:"):
        name = where.removeprefix("header:")
        named = sf.filter("headers", lambda header: header["key"] == name)
        return sf.try_element_at(named, sf.lit(-1))["value"].cast("string")  # any bytes are an id
    if where in {"key", "value"}:
        return sf.hex(where)
    raise PipelineError(f"--id {where}: give a JSON path such as $.id, header:NAME, key, or value")


def good(judged: DataFrame) -> DataFrame:
    """Return the records with an id."""
    return judged.where(sf.col("reason").isNull()).drop("reason", "problem")


def dead(judged: DataFrame, options: Options) -> DataFrame:
    """Return dead letters for the others."""
    return dead_letters(
        judged.where(sf.col("reason").isNotNull()),
        topic=options.dead_letter_topic,
        group=options.group,
        stage=f"dedup.judge(id={options.id})",
    )


def exact(records: DataFrame, *, within: str) -> DataFrame:
    """Return a stream's first record of each id; ids are forgotten when they are older than ``within``."""
    timed = flow.with_watermark(records, "moment", within)
    return timed.dropDuplicatesWithinWatermark(["id"]).drop("moment")


def first_of_each(records: DataFrame) -> DataFrame:
    """Return the oldest record of each id, in a batch."""
    from pyspark.sql import Window

    order = Window.partitionBy("id").orderBy("timestamp", "topic", "partition", "offset")
    return records.withColumn("turn", sf.row_number().over(order)).where("turn = 1").drop("turn")


def unseen(batch: DataFrame, shared: Any) -> DataFrame:
    """Return the first record of each id of a batch that is not in the broadcast filter, with its
    ``hash``.
    """
    import numpy as np
    import pyarrow as pa

    hashed = first_of_each(batch).withColumn("hash", sf.xxhash64("id"))
    place = hashed.columns.index("hash")

    def keep_new(batches: Iterator[Any]) -> Iterator[Any]:
        for rows in batches:
            is_old = shared.value.seen(np.asarray(rows.column(place)))
            yield rows.filter(pa.array(~is_old))

    return hashed.mapInArrow(keep_new, hashed.schema)


def outgoing(records: DataFrame, options: Options) -> DataFrame:
    """Return rows for the sink."""
    if not options.to:
        raise PipelineError("nowhere to write: give --to TOPIC")
    return records.select(sf.lit(options.to).alias("topic"), "key", "value", "headers", "timestamp")


class Memory:
    """A stream's filters on disk, of the last two batches: repeating a batch needs the filter before it."""

    def __init__(self, place: Path, options: Options) -> None:
        self._place = place
        self._options = options
        self._last: tuple[int, BloomFilter] | None = None

    def before(self, batch: int) -> "BloomFilter":
        """Return the filter from before this batch."""
        from millpond.spark.pipelines.bloom import BloomFilter

        if self._last is not None and self._last[0] == batch - 1:
            return self._last[1]
        known = BloomFilter(self._options.capacity, self._options.rate)
        file = self._file(batch - 1)
        if file.exists():
            known.load(file)
        elif batch > 0:
            raise PipelineError(
                f"{file} is gone, so it is unknown which ids were seen: begin with a new checkpoint"
            )
        return known

    def keep(self, batch: int, known: "BloomFilter", fresh: DataFrame) -> None:
        """Store the filter with the ids of a written batch."""
        import numpy as np

        self._place.mkdir(parents=True, exist_ok=True)
        known.add(np.asarray(fresh.select("hash").toArrow().column(0)))
        known.save(self._file(batch))
        self._file(batch - 2).unlink(missing_ok=True)
        self._last = (batch, known)

    def rate(self) -> float:
        """The expected false-positive rate of the last stored filter."""
        from millpond.spark.pipelines.bloom import rate_in

        for file in sorted(self._place.glob("ids-*.npz"), reverse=True):
            with suppress(FileNotFoundError):  # two batches have ended since it was listed
                return rate_in(file)
        return 0.0

    def _file(self, batch: int) -> Path:
        return self._place / f"ids-{batch:09d}.npz"
