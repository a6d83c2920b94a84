"""EndQuorumEpoch: the leader of the quorum leads no longer."""

from millpond.frontend.kafka.quorum import quorum_handler
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.end_quorum_epoch import EndQuorumEpochResponse

HANDLER = quorum_handler(ApiKey.END_QUORUM_EPOCH, EndQuorumEpochResponse)
