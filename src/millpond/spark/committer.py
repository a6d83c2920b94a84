"""Commits a query's positions for a group, taken from its progress, one after the other."""

import json
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping

from millpond.base.errors import MillpondError
from millpond.base.ids import TopicPartition
from millpond.spark.offsets import Offsets, from_checkpoint

log = logging.getLogger(__name__)


def end_offsets(texts: Iterable[str | None]) -> Offsets:
    """Return the end offsets in a progress report, of sources with offsets in the connector's form."""
    offsets: Offsets = {}
    for text in texts:
        try:
            value = json.loads(text) if text else None
            if isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()):
                offsets |= from_checkpoint(value)
        except (TypeError, ValueError):
            continue  # another kind of source
    return offsets


class Committer:
    """Commits positions one after the other, in the order of ``put``."""

    def __init__(self, commit: Callable[[Mapping[TopicPartition, int]], None], group: str) -> None:
        self._commit = commit
        self._group = group
        self._waiting: queue.Queue[Offsets | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="millpond-group", daemon=True)
        self._thread.start()

    def put(self, offsets: Offsets) -> None:
        """Queue positions to be committed."""
        if offsets:
            self._waiting.put(offsets)

    def flush(self) -> None:
        """Wait until every queued position is committed or has failed."""
        self._waiting.join()

    def close(self) -> None:
        """Flush, and end the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (offsets := self._waiting.get()) is not None:
            try:
                self._commit(offsets)
            except MillpondError as error:
                log.warning("group %s does not show the query's offsets: %s", self._group, error)
            finally:
                self._waiting.task_done()
