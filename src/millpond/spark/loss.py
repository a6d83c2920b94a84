"""The policy for records that are deleted before a query has read them; every such range is reported.

With ``failOnDataLoss=true`` the query stops with an error that lists every range. With ``false`` it
continues; each range is a line in the log and, if ``lossReport`` names a file, a JSON object in it, so that a
user can count what is missing. After a crash Spark plans a batch again, and a range may be reported twice.
"""

import json
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from millpond.spark.errors import DataLost
from millpond.spark.plan import Lost

log = logging.getLogger(__name__)

_SHOWN_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPolicy:
    """Whether to stop, and where to report losses. Can be pickled to executors."""

    fail: bool
    report: str | None = None

    def __call__(self, lost: Sequence[Lost]) -> None:
        """Raise ``DataLost``, or report and return. Does nothing without losses."""
        if not lost:
            return
        if self.fail:
            raise DataLost(_message(lost))
        for item in lost:
            log.warning("lost %s; the query goes on (failOnDataLoss=false)", item)
        self._write_down(lost)

    def shed(self, left_out: Sequence[Lost]) -> None:
        """Report what is skipped on purpose, which does not stop the query."""
        for item in left_out:
            log.warning("%s", item)
        if left_out:
            self._write_down(left_out)

    def _write_down(self, lost: Sequence[Lost]) -> None:
        if self.report is not None:
            append_report(Path(self.report), lost, now_ms=time.time_ns() // 1_000_000)


def append_report(path: Path, lost: Sequence[Lost], *, now_ms: int) -> None:
    """Append a JSON line for each range; several processes may write to one file."""
    lines = "".join(json.dumps(_entry(item, now_ms)) + "\n" for item in lost)
    path.parent.mkdir(parents=True, exist_ok=True)
    # One write in append mode: lines of several tasks do not mix.
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, lines.encode())
    finally:
        os.close(handle)


def _entry(item: Lost, now_ms: int) -> dict[str, object]:
    return {
        "topic": item.topic,
        "partition": item.partition,
        "firstOffset": item.first,
        "endOffset": item.end,
        "offsets": None if item.end is None else item.end - item.first,
        "reason": item.reason.name.lower(),
        "reportedAtMs": now_ms,
    }


def _message(lost: Sequence[Lost]) -> str:
    known = sum(item.end - item.first for item in lost if item.end is not None)
    listed = "".join(f"\n  {item}" for item in lost[:_SHOWN_MAX])
    more = f"\n  … and {len(lost) - _SHOWN_MAX} more" if len(lost) > _SHOWN_MAX else ""
    return (
        f"{known} offsets of {len(lost)} ranges cannot be read any more:{listed}{more}\n"
        "To go on without them, start the query again with failOnDataLoss=false"
        " (and lossReport=<file> to have them written down)."
    )
