"""Dead letters: records that a pipeline could not use, with headers for the reason and the origin.

The headers are those of share groups (KIP-1191, see the broker's own dead letters), with a few of our own.
Kafka Connect's are understood when dead letters are read. A dead letter keeps key, value and headers of its
record, so that it can be sent again unchanged. Only a record that leaves no space for these headers is cut,
and a header says so: the origin's topic, partition and offset name the whole record.
"""

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.spark_names import Column, DataFrame, sf

PREFIX = "__dlq."
TOPIC = "__dlq.errors.topic"
PARTITION = "__dlq.errors.partition"
OFFSET = "__dlq.errors.offset"
GROUP = "__dlq.errors.group"
DELIVERIES = "__dlq.errors.delivery.count"
MESSAGE = "__dlq.errors.message"
# KIP-1191 has no name for these.
REASON = "__dlq.errors.reason"
STACK = "__dlq.errors.stack"
TIMESTAMP = "__dlq.errors.timestamp"
REPLAYS = "__dlq.replays"
CUT = "__dlq.errors.cut"  # the size of a record that was too large for a dead letter

# Topics accept 1,048,588 bytes by default, and the added headers take less than 10,000.
RECORD_BYTES_MAX = 1_000_000
_KEY_KEPT, _VALUE_KEPT = (
    10_000,
    800_000,
)  # bytes of a record that is cut; its own headers are left out
_REPLAYS_MAX = 1_000_000  # larger counts in a header were not written by us

_CONNECT = {
    TOPIC: "__connect.errors.topic",
    PARTITION: "__connect.errors.partition",
    OFFSET: "__connect.errors.offset",
    GROUP: "__connect.errors.connector.name",
    REASON: "__connect.errors.exception.class.name",
    MESSAGE: "__connect.errors.exception.message",
    STACK: "__connect.errors.exception.stacktrace",
}

HEADERS_TYPE = "array<struct<key:string,value:binary>>"


def dead_letters(bad: DataFrame, *, topic: str, group: str, stage: str) -> DataFrame:
    """Return rows for the sink from records with a ``reason`` (a word) and a ``problem`` (a sentence).

    ``stage`` says where in the pipeline a record was given up; expressions of Spark have no other stack.
    """
    notes = {
        TOPIC: sf.col("topic"),
        PARTITION: sf.col("partition").cast("string"),
        OFFSET: sf.col("offset").cast("string"),
        GROUP: sf.lit(group),
        DELIVERIES: (_replays() + 1).cast("string"),
        MESSAGE: sf.col("problem"),
        REASON: sf.col("reason"),
        STACK: sf.concat(
            sf.col("reason"), sf.lit(": "), sf.col("problem"), sf.lit(f"\n  at {stage}")
        ),
        TIMESTAMP: sf.unix_millis("timestamp").cast("string"),
    }
    size = _size()
    fits = size <= RECORD_BYTES_MAX
    own = sf.when(fits, sf.coalesce("headers", _none())).otherwise(
        _headers({CUT: size.cast("string")})
    )
    return bad.select(
        sf.lit(topic).alias("topic"),
        sf.when(fits, sf.col("key")).otherwise(sf.substring("key", 1, _KEY_KEPT)).alias("key"),
        sf.when(fits, sf.col("value"))
        .otherwise(sf.substring("value", 1, _VALUE_KEPT))
        .alias("value"),
        sf.concat(own, _headers(notes)).alias("headers"),
    )


def _size() -> Column:
    """Return the bytes of a record: its key, its value and its headers."""
    of_headers = sf.aggregate(
        sf.coalesce("headers", _none()),
        sf.lit(0),
        lambda size, header: (
            size
            + sf.octet_length(header["key"])
            + sf.coalesce(sf.octet_length(header["value"]), sf.lit(0))
        ),
    )
    lengths = (sf.coalesce(sf.octet_length(name), sf.lit(0)) for name in ("key", "value"))
    return sum(lengths, of_headers)


def read_dead_letters(records: DataFrame) -> DataFrame:
    """Return dead letters with their headers as columns: origin, reason, count, and the original record.

    A record without such headers is a dead letter of unknown origin.
    """
    return records.select(
        sf.struct("topic", "partition", "offset").alias("letter"),
        flow.to_calendar(sf.col("timestamp")).alias("buried"),
        _note(TOPIC).alias("origin_topic"),
        _note(PARTITION).try_cast("int").alias("origin_partition"),
        _note(OFFSET).try_cast("bigint").alias("origin_offset"),
        _note(GROUP).alias("given_up_by"),
        sf.coalesce(_note(DELIVERIES).try_cast("int"), sf.lit(1)).alias("deliveries"),
        sf.coalesce(_note(REASON), sf.lit("UNKNOWN")).alias("reason"),
        sf.coalesce(_note(MESSAGE), sf.lit("no header says why")).alias("problem"),
        _note(STACK).alias("stack"),
        _replays().alias("replays"),
        _note(CUT).isNotNull().alias("is_cut"),
        "key",
        "value",
        sf.filter(sf.coalesce("headers", _none()), _is_own).alias("own_headers"),
    )


def replayed_headers() -> Column:
    """Return the headers of a replayed dead letter: its record's own, and how often it has been sent
    again.
    """
    count = _headers({REPLAYS: (sf.col("replays") + 1).cast("string")})
    return sf.concat("own_headers", count)


def _is_own(header: Column) -> Column:
    name = header["key"]
    return ~(name.startswith(PREFIX) | name.startswith("__connect.errors."))


def _headers(notes: dict[str, Column]) -> Column:
    return sf.array(
        *(
            sf.struct(sf.lit(name).alias("key"), value.cast("binary").alias("value"))
            for name, value in notes.items()
        )
    )


def _note(name: str) -> Column:
    """Return a header's text; the last one counts, since a record may become a dead letter more than once."""
    found = _header(name)
    return sf.coalesce(found, _header(_CONNECT[name])) if name in _CONNECT else found


def _header(name: str) -> Column:
    same = sf.filter("headers", lambda header: header["key"] == name)
    return flow.any_text(sf.try_element_at(same, sf.lit(-1))["value"])


def _replays() -> Column:
    count = sf.coalesce(_header(REPLAYS).try_cast("int"), sf.lit(0))
    return sf.greatest(sf.lit(0), sf.least(sf.lit(_REPLAYS_MAX), count))


def _none() -> Column:
    return sf.array().cast(HEADERS_TYPE)
