"""DescribeCluster: the cluster's id and its brokers."""

from millpond.frontend.kafka.convert import CLUSTER_OPERATIONS, NOT_ASKED, advertised
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
    node = context.engine.node
    point = advertised(context)
    return encode(
        request,
        DescribeClusterResponse(
            cluster_id=node.cluster_id,
            controller_id=node.node_id,
            brokers=[
                DescribeClusterBroker(
                    broker_id=node.node_id, host=point.host, port=point.port, rack=node.rack
                )
            ],
            cluster_authorized_operations=CLUSTER_OPERATIONS
            if message.include_cluster_authorized_operations
            else NOT_ASKED,
        ),
    )


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_CLUSTER,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(DescribeClusterResponse),
)
