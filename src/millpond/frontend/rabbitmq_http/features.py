"""Feature flags: what RabbitMQ lets its operators switch on while nodes of two releases are in a cluster.

What these stand for is always there. Levels that nodes of a Millpond cluster agree on are Kafka's features
(``kafka-features.sh``).
"""

from typing import Final

from millpond.frontend.rabbitmq_http.context import Call
from millpond.frontend.rabbitmq_http.http import Response, bad_request, done

# By the names of RabbitMQ 3.10, whose tools ask for them.
_FLAGS: Final = {
    "implicit_default_bindings": "bindings of the default exchange are not stored",
    "quorum_queue": "queues of type quorum",
    "stream_queue": "queues of type stream",
    "user_limits": "limits of connections and channels of a user",
    "virtual_host_metadata": "descriptions and tags of virtual hosts",
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
