"""``RegisterNode`` as Kafka's BrokerRegistration."""

from millpond.engine.api import BrokerEndpoint
from millpond.engine.peers import RegisterNode
from millpond.peer.calls import PeerCall, raise_refusal
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
    LostReplica,
)


def to_wire(question: RegisterNode) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=question.node_id,
        cluster_id=question.cluster_id,
        incarnation_id=question.incarnation_id,
        listeners=[
            Listener(
                name=point.name,
                host=point.host,
                port=point.port,
                security_protocol=point.security_protocol,
            )
            for point in question.end_points
        ],
        features=[
            Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, lowest, highest in question.features
        ],
        rack=question.rack,
        log_dirs=list(question.log_dirs),
        previous_broker_epoch=question.previous_epoch,
        previous_incarnations=list(question.previous_incarnations),
        lost_replicas=[
            LostReplica(topic_id=topic_id, partition_index=index)
            for topic_id, index in question.lost_replicas
        ],
    )


def question_of(message: BrokerRegistrationRequest) -> RegisterNode:
    """What the message asks."""
    return RegisterNode(
        node_id=message.broker_id,
        cluster_id=message.cluster_id,
        incarnation_id=message.incarnation_id,
        end_points=tuple(
            BrokerEndpoint(
                name=one.name,
                host=one.host,
                port=one.port,
                security_protocol=one.security_protocol,
            )
            for one in message.listeners
        ),
        rack=message.rack,
        log_dirs=tuple(message.log_dirs),
        features=tuple(
            (one.name, one.min_supported_version, one.max_supported_version)
            for one in message.features
        ),
        previous_epoch=message.previous_broker_epoch,
        previous_incarnations=tuple(message.previous_incarnations),
        lost_replicas=tuple((one.topic_id, one.partition_index) for one in message.lost_replicas),
    )


def answer_to_wire(broker_epoch: int) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(broker_epoch=broker_epoch)


def from_wire(question: RegisterNode, answer: BrokerRegistrationResponse) -> int:
    raise_refusal(answer.error_code, _why(question, answer.error_code))
    return answer.broker_epoch


# Kafka's answer has a code and no words; these are for the log of the node that is refused.
_WHY = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another node has this id and is running, or was until a "
    "moment ago",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the controller belongs to another cluster; look at meta.properties "
    "and controller.quorum.voters",
    ErrorCode.INVALID_REGISTRATION: "its data directory is a copy of another node's",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster uses features that this version does not know",
}


def _why(question: RegisterNode, code: int) -> str | None:
    if code == ErrorCode.NONE:
        return None
    why = _WHY.get(ErrorCode(code)) if code in set(ErrorCode) else None
    return (
        f"the controller does not take node {question.node_id} of cluster {question.cluster_id}: "
        f"{why or f'error {code}'}"
    )


CALL = PeerCall(
    kind=RegisterNode,
    api_key=ApiKey.BROKER_REGISTRATION,
    version=4,
    to_wire=to_wire,
    from_wire=from_wire,
)
