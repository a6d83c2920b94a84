"""Log lines: one compact form for people, one JSON object a line for programs.

Everything logs through the standard library under ``millpond``; this module only decides how it looks and
touches no other logger, so that an application that embeds a broker keeps its own logging.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")


class TextFormatter(logging.Formatter):
    """``14:02:11.123 INFO  engine: recovered 12 partitions``; dates are for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback under it when there is one."""
        moment = datetime.fromtimestamp(record.created, UTC).astimezone()
        clock = f"{moment:%H:%M:%S}.{int(record.msecs):03d}"
        name = record.name.removeprefix("millpond.")
        line = f"{clock} {record.levelname:<7} {name}: {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time with its zone, level, logger, message; the traceback as one string."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def configure_logging(*, level: str, form: str, stream: TextIO | None = None) -> None:
    """Send the broker's log lines to ``stream`` (standard error)."""
    assert level in LEVELS
    assert form in FORMATS
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logger = logging.getLogger("millpond")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
