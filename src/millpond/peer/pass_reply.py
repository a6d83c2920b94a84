"""``PassReply``: a direct reply (``amq.rabbitmq.reply-to``) to a client of another node."""

from millpond.engine.queues.peer_requests import PassReply
from millpond.peer.calls import ConnectionKind
from millpond.peer.own_calls import OwnCall, bytes_of, empty_answer, no_answer

CALL = OwnCall(
    name="PassReply",
    kind=PassReply,
    connection=ConnectionKind.QUEUE_REQUESTS,
    to_table=lambda one: {"key": one.key, "batch": one.batch},
    from_table=lambda table: PassReply(key=str(table["key"]), batch=bytes_of(table["batch"])),
    answer_to_table=empty_answer,
    answer_from_table=no_answer,
)
