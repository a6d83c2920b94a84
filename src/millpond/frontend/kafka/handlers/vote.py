"""Vote: a replica wants to lead the quorum."""

from millpond.frontend.kafka.quorum import quorum_handler
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.vote import VoteResponse

HANDLER = quorum_handler(ApiKey.VOTE, VoteResponse)
