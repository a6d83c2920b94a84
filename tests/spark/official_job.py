"""What the official connector and our format are asked, in a session that has both.

For each broker the answer says what each case found through either format.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.spark.test_source_peers import TIME_MS, TOPIC

FORMATS = ("kafka", "millpond")
STREAMED = "streamed-kafka"
COLUMNS = ("topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers")
AT = json.dumps({TOPIC: {"0": TIME_MS + 100, "1": TIME_MS + 151}})

# What is asked of both formats; everything has headers.
READS: dict[str, dict[str, str]] = {
    "subscribe": {"subscribe": TOPIC},
    "subscribePattern": {"subscribePattern": "pe[a-e]rs|written-.*"},
    "assign": {"assign": json.dumps({TOPIC: [1]})},
    "committed": {"subscribe": TOPIC, "kafka.isolation.level": "read_committed"},
    "offsets": {
        "subscribe": TOPIC,
        "startingOffsets": json.dumps({TOPIC: {"0": 17, "1": -2}}),
        "endingOffsets": json.dumps({TOPIC: {"0": -1, "1": 123}}),
    },
    "timestamps": {
        "subscribe": TOPIC,
        "startingOffsetsByTimestamp": AT,
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "one timestamp": {
        "subscribe": TOPIC,
        "startingTimestamp": str(TIME_MS + 50),
        "endingTimestamp": str(TIME_MS + 150),
        "startingOffsetsByTimestampStrategy": "latest",
    },
}


def everything(spark: Any, bootstrap: str, directory: Path) -> dict[str, Any]:
    """All cases at one broker."""
    written = {form: write(spark, bootstrap, form) for form in FORMATS}
    streamed = stream_out(spark, bootstrap, str(directory))
    found: dict[str, Any] = {
        case: {form: digest(read(spark, bootstrap, form, options)) for form in FORMATS}
        for case, options in READS.items()
    }
    found["stream"] = {
        form: stream(spark, bootstrap, form, f"{directory}-{form}") for form in FORMATS
    }
    return {"written": written, "streamed": streamed, "read": found}


def write(spark: Any, bootstrap: str, form: str) -> list[str]:
    """Write through one format and read back through the other: values, and where their keys went."""
    topic = f"written-{form}"
    rows = spark.range(0, 500, 1, 2).selectExpr(
        "CAST(id AS STRING) AS key",
        "CONCAT('value ', id) AS value",
        "ARRAY(NAMED_STRUCT('key', 'h', 'value', CAST(CAST(id AS STRING) AS BINARY))) AS headers",
    )
    writer = rows.write.format(form).mode("append")
    writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()
    other = next(name for name in FORMATS if name != form)
    options = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    return texts(read(spark, bootstrap, other, options))


def stream_out(spark: Any, bootstrap: str, directory: str) -> list[str]:
    """The official connector copies what it wrote, as a stream of two batches; what our format finds."""
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "written-kafka")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "250")
        .option("includeHeaders", "true")
        .load()
    )
    query = (
        rows.select("key", "value", "headers")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", STREAMED)
        .option("checkpointLocation", f"{directory}-out")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.lastProgress["batchId"] == 1
    return texts(read(spark, bootstrap, "millpond", {"subscribe": STREAMED}))


def texts(frame: Any) -> list[str]:
    """Partition, key, value and header of each row."""
    found = frame.selectExpr(
        "CONCAT_WS(' ', partition, CAST(key AS STRING), CAST(value AS STRING),"
        " CAST(headers[0].value AS STRING)) AS text"
    )
    return sorted(row.text for row in found.collect())


def read(spark: Any, bootstrap: str, form: str, options: dict[str, str]) -> Any:
    reader = spark.read.format(form).option("kafka.bootstrap.servers", bootstrap)
    return reader.option("includeHeaders", "true").options(**options).load()


def stream(spark: Any, bootstrap: str, form: str, directory: str) -> dict[str, Any]:
    """Everything in batches of a few hundred, to files; and the offsets that the checkpoint remembers."""
    reader = spark.readStream.format(form).option("kafka.bootstrap.servers", bootstrap)
    frame = (
        reader.option("includeHeaders", "true")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "400")
        .option("subscribe", TOPIC)
        .load()
    )
    query = (
        frame.writeStream.format("parquet")
        .option("path", f"{directory}/rows")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.lastProgress
    end = progress["sources"][0]["endOffset"]
    return {
        **digest(spark.read.parquet(f"{directory}/rows")),
        "end": json.loads(end) if isinstance(end, str) else end,
        "several batches": progress["batchId"] > 1,
    }


def digest(frame: Any) -> dict[str, Any]:
    """How many rows there are, and numbers that differ if any of their columns does.

    Kafka puts the marker of a transaction into the log a moment after it has answered, so that records behind
    it may have one offset or the next: brokers are compared without offsets.
    """
    found = [
        {
            column: bytes(value).hex() if isinstance(value, bytearray) else str(value)
            for column, value in row.asDict().items()
        }
        for row in frame.select(*COLUMNS).collect()
    ]
    return {
        "rows": len(found),
        "schema": frame.schema.simpleString(),
        "all": _hash(found),
        "without offsets": _hash([{**row, "offset": ""} for row in found]),
    }


def _hash(rows: list[dict[str, str]]) -> str:
    lines = sorted(repr(row) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
