"""DescribeCluster: the cluster's id and its brokers."""

from millpond.frontend.kafka.convert import CLUSTER_OPERATIONS, NOT_ASKED, endpoint_of
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Result,
    decode,
    encode,
    refuse_whole,
)
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS = 1


def handle(context: Context, request: Request) -> Result:
    message: DescribeClusterRequest = decode(request)
    if message.endpoint_type != _BROKERS:
        return encode(
            request,
            DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="The request was sent to an endpoint of type BROKER, but we wanted an "
                "endpoint of type CONTROLLER",
            ),
        )
    return encode(
        request,
        DescribeClusterResponse(
            cluster_id=context.engine.info.cluster_id,
            controller_id=_controller(context),
            brokers=_brokers(context, with_fenced=message.include_fenced_brokers),
            cluster_authorized_operations=CLUSTER_OPERATIONS
            if message.include_cluster_authorized_operations
            else NOT_ASKED,
        ),
    )


def _brokers(context: Context, *, with_fenced: bool) -> list[DescribeClusterBroker]:
    """Those that clients of this listener can reach; fenced ones only if they are asked for (KIP-1073).

    The active controller adds why each of them is fenced, in tagged fields that Kafka's clients skip.
    """
    found = []
    fencings = context.engine.admin.fencings() if with_fenced else {}
    for broker in context.engine.metadata.image.brokers.values():
        point = endpoint_of(context, broker.broker_id) if not broker.fenced else None
        if point is None and with_fenced:
            point = next((one for one in broker.end_points if one.name == context.listener), None)
        if point is not None:
            item = DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=point.host,
                port=point.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            fencing = fencings.get(broker.broker_id)
            if broker.fenced and fencing is not None:
                item.fence_reason = fencing.reason
                item.fenced_ms, item.silent_ms = fencing.fenced_ms, fencing.silent_ms
            found.append(item)
    return found


def _controller(context: Context) -> int:
    """Return the node to send changes to: any node forwards them, the controller answers soonest."""
    leader = context.engine.metadata.controller_id
    serving = [broker.broker_id for broker in context.engine.metadata.image.serving_brokers]
    return leader if leader in serving else next(iter(serving), -1)


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_CLUSTER,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(DescribeClusterResponse),
)
