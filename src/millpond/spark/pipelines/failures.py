"""Explains why a query failed, and detects queries that ended without an error.

Spark matches the text of an exception that came through Python with a pattern that recurses for every
character. A long one, such as a failed job's, overflows the stack of the query's thread, which then dies
silently: the query has ended, has no exception, and has not done its work. So errors are shortened before
they reach Spark, and the checkpoint shows whether the last started batch was finished.
"""

from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from millpond.spark.pipelines.errors import PipelineError

Batch = TypeVar("Batch")
TOO_BUSY = "Python worker failed to connect back."
_CAUSED_BY = "Caused by: "
# Spark recognises a stopped query by this text: it is left unchanged.
_STOPPED = ("InterruptedException", "InterruptedIOException", "ClosedByInterrupt", "cancelled")


def in_short(work: Callable[[Batch, int], None]) -> Callable[[Batch, int], None]:
    """Wrap the work on a batch so that its exceptions are short enough for Spark."""

    def short(batch: Batch, number: int) -> None:
        try:
            work(batch, number)
        except Exception as error:
            text = str(error)
            if any(word in text for word in _STOPPED):
                raise
            said = explained(error)
            busy = f" {TOO_BUSY}" if TOO_BUSY in text and TOO_BUSY not in said else ""
            raise PipelineError(f"{type(error).__name__}: {said}{busy}") from None

    return short


def is_unfinished(checkpoint: Path) -> bool:
    """Return whether a batch was started and not finished."""
    return last_begun(checkpoint) > _last(checkpoint / "commits")


def last_begun(checkpoint: Path) -> int:
    """Return the number of the last started batch; -1 if there is none."""
    return _last(checkpoint / "offsets")


def _last(place: Path) -> int:
    return max((int(file.name) for file in place.glob("[0-9]*") if file.name.isdigit()), default=-1)


def explained(failure: BaseException) -> str:
    """Return the reason in a failure of Spark, without stack traces."""
    lines = [line.rstrip() for line in str(failure).splitlines() if line.strip()]
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].startswith(("millpond.", "pyspark.errors")):
            return " ".join(line.strip() for line in takewhile(_is_prose, lines[number:]))
    if not lines:
        return repr(failure)
    causes = [line.strip() for line in lines if line.strip().startswith(_CAUSED_BY)]
    root = causes[-1].removeprefix(_CAUSED_BY) if causes else ""
    # A failure in Python comes with its stack, which says less than the error of Java's files or sockets.
    said = (
        lines[0].partition("Traceback (most recent call last)")[0].rstrip().removesuffix("Message:")
    )
    return said if root.rpartition(": ")[2] in said else f"{said.rstrip()} ({root})"


def _is_prose(line: str) -> bool:
    return not line.strip().startswith(
        ("at ", "SQLSTATE", "===", "Traceback", "Caused by", "File ")
    )
