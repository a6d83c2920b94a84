"""``NodeHeartbeat`` as Kafka's BrokerHeartbeat."""

from millpond.engine.peers import HeartbeatAnswer, NodeHeartbeat
from millpond.peer.calls import ConnectionKind, PeerCall, raise_refusal
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)


def to_wire(question: NodeHeartbeat) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=question.node_id,
        broker_epoch=question.broker_epoch,
        current_metadata_offset=question.metadata_offset,
        want_fence=question.wants_fence,
        want_shut_down=question.wants_stop,
        offline_log_dirs=list(question.offline_dirs),
        silent_leaders=list(question.silent_leaders),
        silent_followers=list(question.silent_followers),
        lease_ms=-1 if question.lease_ms is None else question.lease_ms,
    )


def question_of(message: BrokerHeartbeatRequest) -> NodeHeartbeat:
    """What the message asks."""
    return NodeHeartbeat(
        node_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        metadata_offset=message.current_metadata_offset,
        wants_fence=message.want_fence,
        wants_stop=message.want_shut_down,
        offline_dirs=tuple(message.offline_log_dirs),
        silent_leaders=tuple(message.silent_leaders),
        silent_followers=tuple(message.silent_followers),
        lease_ms=message.lease_ms if message.lease_ms >= 0 else None,
    )


def answer_to_wire(answer: HeartbeatAnswer) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        should_shut_down=answer.may_stop,
    )


def from_wire(_question: NodeHeartbeat, answer: BrokerHeartbeatResponse) -> HeartbeatAnswer:
    raise_refusal(answer.error_code)
    return HeartbeatAnswer(
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        may_stop=answer.should_shut_down,
    )


CALL = PeerCall(
    kind=NodeHeartbeat,
    api_key=ApiKey.BROKER_HEARTBEAT,
    version=1,
    connection=ConnectionKind.HEARTBEATS,
    to_wire=to_wire,
    from_wire=from_wire,
)
