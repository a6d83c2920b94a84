"""BeginQuorumEpoch: a replica leads the quorum and says so."""

from millpond.frontend.kafka.quorum import quorum_handler
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.begin_quorum_epoch import BeginQuorumEpochResponse

HANDLER = quorum_handler(ApiKey.BEGIN_QUORUM_EPOCH, BeginQuorumEpochResponse)
