"""A click stream: sessions, their progress in a funnel, and the top pages of each window.

Events are JSON objects with ``id``, ``user``, ``page``, ``action`` and ``time`` (ISO 8601). An event may be
late: up to ``lateness`` behind the log's timestamp, it counts. Later ones, those that are ahead of the log or
of the present, and records that are no events, go to the dead-letter topic, so that nothing disappears: every
record is in a result or a dead letter. (Each query of a stream has its own present: an event that is ahead
for one and not for the other, a moment later, may be in both or in neither; docs/pipelines/clickstream.md
says when.)

Results go to ``<to>/sessions`` and ``<to>/pages`` as Parquet and, with ``results``, to a topic as JSON.
"""

from dataclasses import dataclass
from pathlib import Path

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.dead_letters import dead_letters
from millpond.spark.pipelines.flow import Query, option
from millpond.spark.pipelines.spark_names import Column, DataFrame, SparkSession, sf
from millpond.spark.pipelines.table import Table
from millpond.spark.pipelines.topics import Wanted

FUNNEL = ("view", "cart", "checkout", "purchase")
# The key of a result's records, and the time that determines its date.
_KEY_AND_TIME = {
    "sessions": ("user", "start"),
    "funnel": ("step", "hour"),
    "pages": ("page", "start"),
}
FIELDS = ("id", "user", "page", "action", "time")
FIELD_CHARS_MAX = 8192  # the longest URL that web servers accept; results are keyed by fields
EVENT_SCHEMA = "id string, user string, page string, action string, time string, not_json string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(flow.TableOptions):
    """The options of the click stream."""

    gap: str = option("30 minutes", "A session ends after this long without an event.")
    lateness: str = option("10 minutes", "How late an event may be and still count.")
    window: str = option("5 minutes", "Top pages are counted in windows of this length.")
    top: int = option(10, "How many pages of each window.")
    results: str = option("", "Topic for results as JSON, beside Parquet.")


def start(spark: SparkSession, options: Options) -> list[Query]:
    """Start three queries: sessions, pages, and invalid events."""
    options = options.named("clickstream")
    judged = judge(flow.read_stream(spark, options, alignPartitions="true"), options.lateness)
    flow.make_dead_letter_topic(options, Wanted(option="--results", name=options.results))
    counted = good(judged)

    def finish_sessions(batch: DataFrame, number: int) -> None:
        batch = batch.persist()
        turn = flow.turn(batch, number, options, "clickstream")
        _deliver(batch, turn, "sessions", options)
        _deliver(funnel(batch), turn, "funnel", options)
        batch.unpersist()

    def finish_pages(batch: DataFrame, number: int) -> None:
        turn = flow.turn(batch, number, options, "clickstream-pages")
        _deliver(top_pages(batch, options.top), turn, "pages", options)

    return [
        flow.start_query(
            sessions(counted, gap=options.gap, lateness=options.lateness),
            options,
            "clickstream",
            finish_sessions,
            tables=[_table(options, "sessions"), _table(options, "funnel")],
        ),
        flow.start_query(
            page_views(counted, window=options.window, lateness=options.lateness),
            options,
            "clickstream-pages",
            finish_pages,
            tables=[_table(options, "pages")],
        ),
        flow.start_topic_query(
            dead(flow.observed(judged), options), options, "clickstream-letters"
        ),
    ]


def run_batch(spark: SparkSession, options: Options) -> DataFrame:
    """Write all sessions and pages of the present records as tables; return the funnel."""
    options = options.named("clickstream")
    judged = judge(flow.read_batch(spark, options), options.lateness, now=flow.moment())
    flow.make_dead_letter_topic(options, Wanted(option="--results", name=options.results))
    counted = good(judged).persist()
    found = sessions(counted, gap=options.gap, lateness=options.lateness).persist()
    views = page_views(counted, window=options.window, lateness=options.lateness)
    pages = top_pages(views, options.top)
    steps = funnel(found)
    for name, rows in (("sessions", found), ("funnel", steps), ("pages", pages)):
        key, time = _KEY_AND_TIME[name]
        flow.publish_new(
            _table(options, name), flow.dated(rows.coalesce(1), time), flow.DATE_PARTITIONS
        )
        if options.results:
            flow.write_topic(flow.to_json(rows, topic=options.results, key=key, kind=name), options)
    flow.write_dead_letters(dead(judged, options), options)
    return steps


# --- transformations ---


def judge(records: DataFrame, lateness: str, *, now: Column | None = None) -> DataFrame:
    """Parse events and add the reason why an event cannot be counted."""
    parsed = records.withColumn("text", flow.text()).withColumn(
        "event",
        sf.from_json("text", EVENT_SCHEMA, {"columnNameOfCorruptRecord": "not_json"}),
    )
    parsed = parsed.withColumn("time", flow.in_calendar(sf.try_to_timestamp("event.time")))
    reason, problem = flow.problems(
        (
            (sf.col("value").isNull(), "EMPTY", "the record has no value"),
            (sf.col("text").isNull(), "NOT_UTF8", "the value is not UTF-8 text"),
            (
                sf.col("event").isNull() | sf.col("event.not_json").isNotNull(),
                "MALFORMED_JSON",
                "the value is not a JSON object",
            ),
            *(
                (
                    sf.col(f"event.{name}").isNull(),
                    "MISSING_FIELD",
                    f"the event has no field {name}",
                )
                for name in FIELDS
            ),
            *(
                (
                    sf.length(f"event.{name}") > FIELD_CHARS_MAX,
                    "TOO_LONG",
                    f"the field {name} has more than {FIELD_CHARS_MAX} characters",
                )
                for name in FIELDS
            ),
            (sf.col("time").isNull(), "BAD_TIME", "the event's time is not ISO 8601"),
            (flow.has_no_time(), *flow.NO_TIME),
            (
                flow.is_late(lateness),
                "LATE",
                f"the event came more than {lateness} after it happened",
            ),
            (
                flow.is_ahead(now=now),
                "AHEAD",
                f"the event came more than {flow.CLOCKS_DIFFER} before it happened",
            ),
        )
    )
    return parsed.withColumn("reason", reason).withColumn("problem", problem)


def good(judged: DataFrame) -> DataFrame:
    """Return the events that count."""
    return judged.where(sf.col("reason").isNull()).select(
        "event.id", "event.user", "event.page", "event.action", "time"
    )


def dead(judged: DataFrame, options: Options) -> DataFrame:
    """Return dead letters for the others."""
    return dead_letters(
        judged.where(sf.col("reason").isNotNull()),
        topic=options.dead_letter_topic,
        group=options.group,
        stage=f"clickstream.judge(lateness={options.lateness})",
    )


def sessions(events: DataFrame, *, gap: str, lateness: str) -> DataFrame:
    """Return one row for each visit: the user, its start and end, the number of events, the funnel step.

    ``step`` counts the steps of the funnel that were first reached in their order.
    """
    firsts = [
        sf.min(sf.when(sf.col("action") == action, sf.col("time"))).alias(f"first_{action}")
        for action in FUNNEL
    ]
    found = (
        _distinct(events, lateness)
        .groupBy(sf.session_window("time", gap).alias("session"), "user")
        .agg(
            sf.max("time").alias("last"),
            sf.count(sf.lit(1)).alias("events"),
            sf.size(sf.collect_set("page")).alias("pages"),
            sf.min_by("page", "time").alias("entry_page"),
            sf.max_by("page", "time").alias("exit_page"),
            *firsts,
        )
    )
    step, reached = sf.lit(0), sf.lit(True)
    before = sf.col("session.start")
    for action in FUNNEL:
        first = sf.col(f"first_{action}")
        reached = reached & sf.coalesce(first >= before, sf.lit(False))
        step = step + reached.cast("int")
        before = first
    return found.select(
        "user",
        sf.col("session.start").alias("start"),
        "last",
        "events",
        "pages",
        "entry_page",
        "exit_page",
        step.alias("step"),
    )


def funnel(visits: DataFrame) -> DataFrame:
    """Return how many sessions of each hour got to each step. Rows of several batches add up."""
    steps = sf.explode(sf.slice(sf.array(*map(sf.lit, FUNNEL)), sf.lit(1), sf.col("step")))
    return (
        visits.where("step > 0")
        .select(sf.date_trunc("hour", "start").alias("hour"), steps.alias("step"))
        .groupBy("hour", "step")
        .agg(sf.count(sf.lit(1)).alias("sessions"))
    )


def page_views(events: DataFrame, *, window: str, lateness: str) -> DataFrame:
    """Return views and visitors of every page in every window."""
    return (
        _distinct(events, lateness)
        .groupBy(sf.window("time", window).alias("window"), "page")
        .agg(sf.count(sf.lit(1)).alias("views"), sf.approx_count_distinct("user").alias("visitors"))
        .select(
            sf.col("window.start").alias("start"),
            sf.col("window.end").alias("end"),
            "page",
            "views",
            "visitors",
        )
    )


def top_pages(views: DataFrame, top: int) -> DataFrame:
    """Return the most viewed pages of each window; all rows of a window must be present."""
    from pyspark.sql import Window

    order = Window.partitionBy("start").orderBy(sf.desc("views"), "page")
    return views.withColumn("rank", sf.row_number().over(order)).where(sf.col("rank") <= top)


def _distinct(events: DataFrame, lateness: str) -> DataFrame:
    """Return events without duplicates; a stream remembers ids as long as their events may be late."""
    if events.isStreaming:
        return events.withWatermark("time", lateness).dropDuplicatesWithinWatermark(["id"])
    return events.dropDuplicates(["id"])


def _table(options: Options, name: str) -> Table:
    return Table(Path(options.to) / name)


def _deliver(rows: DataFrame, turn: flow.Turn, name: str, options: Options) -> None:
    key, time = _KEY_AND_TIME[name]
    rows = rows.coalesce(1).persist()
    flow.publish_results(_table(options, name), flow.dated(rows, time), turn, options)
    if options.results:
        out = flow.to_json(rows, topic=options.results, key=key, kind=name)
        flow.write_topic(out, options, flow.Once(turn.query_id, name, turn.number))
    rows.unpersist()
