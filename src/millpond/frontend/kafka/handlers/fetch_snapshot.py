"""FetchSnapshot: a replica loads what the log no longer holds."""

from millpond.frontend.kafka.quorum import quorum_handler
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.fetch_snapshot import FetchSnapshotResponse

HANDLER = quorum_handler(ApiKey.FETCH_SNAPSHOT, FetchSnapshotResponse)
