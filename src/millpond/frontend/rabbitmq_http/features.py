"""Feature flags, which RabbitMQ's operators enable when all nodes are upgraded, and deprecated features.

Millpond always has what the flags stand for. The levels that nodes of a cluster agree on are Kafka's
features (``kafka-features.sh``).
"""

from collections.abc import Iterable
from typing import Any, Final

from millpond.frontend.rabbitmq_http.access import visible
from millpond.frontend.rabbitmq_http.context import Call, shown_queues
from millpond.frontend.rabbitmq_http.http import Response, bad_request, done

# By the names of RabbitMQ 3.10, whose tools ask for them.
_FLAGS: Final = {
    "implicit_default_bindings": "bindings of the default exchange are not stored",
    "quorum_queue": "queues of type quorum",
    "stream_queue": "queues of type stream",
    "user_limits": "limits of connections and channels of a user",
    "virtual_host_metadata": "descriptions and tags of virtual hosts",
}

_TRANSIENT_QUEUES: Final = "transient_nonexcl_queues"
# What RabbitMQ is going to remove, and Millpond serves. RabbitMQ lists these since release 3.13.
_DEPRECATED: Final = {
    "global_qos": "a prefetch that all consumers of a channel share",
    _TRANSIENT_QUEUES: "queues that are neither durable nor exclusive",
}


async def list_flags(call: Call) -> Response:
    return call.list(
        {
            "name": name,
            "desc": description,
            "doc_url": "",
            "state": "enabled",
            "stability": "stable",
            "provided_by": "millpond",
        }
        for name, description in _FLAGS.items()
    )


async def enable(call: Call) -> Response:
    """There is nothing to do but to say whether it is there."""
    if call.name not in _FLAGS:
        raise bad_request(f"there is no feature flag '{call.name}'")
    return done()


async def list_deprecated(call: Call) -> Response:
    return call.list(_deprecated(_DEPRECATED))


async def list_deprecated_used(call: Call) -> Response:
    """List the deprecated features that declared queues use. A channel's prefetch is not recorded."""
    is_used = any(
        not queue.durable and not queue.is_exclusive
        for vhost in visible(call.broker, call.visitor)
        for queue in shown_queues(vhost)
    )
    return call.list(_deprecated([_TRANSIENT_QUEUES] if is_used else []))


def _deprecated(names: Iterable[str]) -> Iterable[dict[str, Any]]:
    for name in names:
        yield {
            "name": name,
            "desc": _DEPRECATED[name],
            "deprecation_phase": "permitted_by_default",
            "doc_url": "",
            "provided_by": "millpond",
        }
