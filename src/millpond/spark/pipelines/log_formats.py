"""Parses service logs into columns: JSON, logfmt, the access logs of Apache and nginx, syslog old and new.

Each format is a regular expression or a JSON schema, tried in an order in which no line matches two of them.
A line that matches none keeps its text as message and has no time: the caller decides what to do with it.

Java's expressions recurse for every repetition of a group: a long line would overflow the stack and end the
JVM. So groups are repeated possessively here (``*+``), which is a loop, and takes time in proportion to the
line.
"""

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.spark_names import Column, DataFrame, sf

_JSON = (
    "time string, timestamp string, ts string, `@timestamp` string, level string, severity string, "
    "service string, app string, logger string, message string, msg string"
)
# A quoted string, with \" and similar escapes.
_QUOTED = r'[^"\\]*+(?:\\.[^"\\]*+)*+'
# host ident user [time] "request" status bytes; the fields that "combined" appends are not used
_ACCESS = rf'^(\S+) \S+ \S+ \[([^\]]+)\] "({_QUOTED})" (\d{{3}}) (\d+|-)'
# RFC 5424: <pri>1 time host app procid msgid structured-data message
_SYSLOG = (
    r"^<(\d{1,3})>1 (\S+) \S+ (\S+) \S+ \S+ (?:-|(?:\[[^\]\\]*+(?:\\.[^\]\\]*+)*+\])++) ?(.*)$"
)
# RFC 3164: <pri>Mmm dd hh:mm:ss host app[pid]: message
_BSD_SYSLOG = (
    r"^<(\d{1,3})>([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S+ ([\w./-]+)(?:\[\d+\])?: ?(.*)$"
)
# name=value name="some words" name ...: at least two, the first with a value
_LOGFMT_VALUE = rf'(?:"{_QUOTED}"(?!\S)|\S*+)'
_LOGFMT = rf"^\s*+\w[\w.]*+={_LOGFMT_VALUE}(?:\s++\w[\w.]*+(?:={_LOGFMT_VALUE})?)++\s*+$"

_SEVERITIES = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
_LEVELS = {
    "FATAL": ("FATAL", "CRITICAL", "CRIT", "EMERGENCY", "EMERG", "ALERT", "PANIC"),
    "ERROR": ("ERROR", "ERR", "SEVERE"),
    "WARN": ("WARN", "WARNING"),
    "INFO": ("INFO", "INFORMATION", "NOTICE"),
    "DEBUG": ("DEBUG", "TRACE", "FINE", "VERBOSE"),
}
ERRORS = ("ERROR", "FATAL")
LINE_BYTES_MAX = 1024 * 1024  # the default size limit of a record; anything longer is not a line
SERVICE_CHARS_MAX = 200  # names are shorter, and results are grouped by them
MESSAGE_CHARS_MAX = 4000  # results show no more of a message


def parse(records: DataFrame) -> DataFrame:
    """Add ``line``, ``format``, ``time``, ``service``, ``level`` and ``message`` to records.

    The service comes from the line, or else from the record's key, or else from its topic. A line without a
    valid time, or with a time without a year, has the record's. A value that is too long to be a line has no
    ``line``.
    """
    line = sf.col("line")
    document = sf.from_json(line, _JSON)
    formats: dict[str, tuple[Column, dict[str, Column]]] = {
        "json": (
            line.startswith("{") & sf.try_parse_json(line).isNotNull(),
            _json_fields(document),
        ),
        "syslog": (line.rlike(_SYSLOG), _syslog_fields(line)),
        "bsd-syslog": (line.rlike(_BSD_SYSLOG), _bsd_syslog_fields(line)),
        "access": (line.rlike(_ACCESS), _access_fields(line)),
        "logfmt": (line.rlike(_LOGFMT), _logfmt_fields(line)),
    }
    kind = sf.lit(None).cast("string")
    for name, (fits, _fields) in reversed(formats.items()):
        kind = sf.when(fits, sf.lit(name)).otherwise(kind)
    fields = sf.lit(None).cast("struct<time:timestamp,service:string,level:string,message:string>")
    for name, (_fits, found) in formats.items():
        row = sf.struct(
            *(found[field].alias(field) for field in ("time", "service", "level", "message"))
        )
        fields = sf.when(sf.col("format") == name, row).otherwise(fields)
    fits = sf.octet_length("value") <= LINE_BYTES_MAX
    with_lines = records.withColumn("line", sf.when(fits, sf.rtrim(flow.text())))
    return (
        with_lines.withColumn("format", kind)
        .withColumn("fields", fields)
        .withColumn("time", sf.coalesce("fields.time", "timestamp"))
        .withColumn(
            "service",
            sf.left(
                sf.coalesce("fields.service", flow.any_text("key"), sf.col("topic")),
                sf.lit(SERVICE_CHARS_MAX),
            ),
        )
        .withColumn("level", sf.coalesce("fields.level", sf.lit("INFO")))
        .withColumn(
            "message", sf.left(sf.coalesce("fields.message", line), sf.lit(MESSAGE_CHARS_MAX))
        )
        .drop("fields")
    )


def level_of(word: Column) -> Column:
    """Return one of five names for the many level names of loggers."""
    upper = sf.upper(word)
    found = sf.lit(None).cast("string")
    for name, words in _LEVELS.items():
        found = sf.when(upper.isin(*words), sf.lit(name)).otherwise(found)
    return found


def _json_fields(document: Column) -> dict[str, Column]:
    when = sf.coalesce(
        document["time"], document["timestamp"], document["ts"], document["@timestamp"]
    )
    return {
        "time": _time(when),
        "service": sf.coalesce(document["service"], document["app"], document["logger"]),
        "level": level_of(sf.coalesce(document["level"], document["severity"])),
        "message": sf.coalesce(document["message"], document["msg"]),
    }


def _logfmt_fields(line: Column) -> dict[str, Column]:
    return {
        "time": _time(sf.coalesce(*(_pair(line, name) for name in ("time", "ts", "timestamp")))),
        "service": sf.coalesce(_pair(line, "service"), _pair(line, "app")),
        "level": level_of(sf.coalesce(_pair(line, "level"), _pair(line, "lvl"))),
        "message": sf.coalesce(_pair(line, "msg"), _pair(line, "message")),
    }


def _access_fields(line: Column) -> dict[str, Column]:
    status = sf.regexp_extract(line, _ACCESS, 4).try_cast("int")
    request = sf.regexp_extract(line, _ACCESS, 3)
    return {
        "time": sf.try_to_timestamp(
            sf.regexp_extract(line, _ACCESS, 2), sf.lit("dd/MMM/yyyy:HH:mm:ss Z")
        ),
        "service": sf.lit(None).cast("string"),
        "level": sf.when(status >= 500, "ERROR").when(status >= 400, "WARN").otherwise("INFO"),
        "message": sf.concat(status.cast("string"), sf.lit(" "), request),
    }


def _syslog_fields(line: Column) -> dict[str, Column]:
    return {
        "time": _time(sf.regexp_extract(line, _SYSLOG, 2)),
        "service": _known(sf.regexp_extract(line, _SYSLOG, 3)),
        "level": _severity(sf.regexp_extract(line, _SYSLOG, 1)),
        "message": sf.regexp_extract(line, _SYSLOG, 4),
    }


def _bsd_syslog_fields(line: Column) -> dict[str, Column]:
    return {
        "time": sf.lit(None).cast("timestamp"),  # without a year it is not a time
        "service": sf.regexp_extract(line, _BSD_SYSLOG, 3),
        "level": _severity(sf.regexp_extract(line, _BSD_SYSLOG, 1)),
        "message": sf.regexp_extract(line, _BSD_SYSLOG, 4),
    }


def _severity(priority: Column) -> Column:
    severity = priority.try_cast("int") % 8
    return sf.try_element_at(sf.array(*map(sf.lit, _SEVERITIES)), severity + 1)


def _pair(line: Column, name: str) -> Column:
    quoted = sf.regexp_extract(line, rf'(?:^|\s){name}="({_QUOTED})"', 1)
    bare = sf.regexp_extract(line, rf'(?:^|\s){name}=([^\s"]+)', 1)
    return sf.coalesce(_known(sf.replace(quoted, sf.lit('\\"'), sf.lit('"'))), _known(bare))


def _known(found: Column) -> Column:
    return sf.when((found != "") & (found != "-"), found)


def _time(found: Column) -> Column:
    """Parse ISO 8601, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970.

    The units are told apart by size: their ranges, from 1973 (seconds: all) to 5138, do not overlap.
    """
    number = found.try_cast("double")
    size = sf.abs(number)
    micros = (
        sf.when(size < 1e11, number * 1e6)
        .when(size < 1e14, number * 1e3)
        .when(size < 1e17, number)
        .when(size < 1e20, number / 1e3)
    )  # larger numbers, and NaN, which Spark sorts as the largest number, are not times
    return sf.coalesce(
        flow.in_calendar(sf.try_to_timestamp(found)), sf.timestamp_micros(micros.try_cast("bigint"))
    )
