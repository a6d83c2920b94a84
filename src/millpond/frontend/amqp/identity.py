"""The properties by which the broker introduces itself to a client.

Clients decide by it. kombu, and Celery with it, limits a whole channel (``basic.qos`` with ``global``, whose
later changes hold for consumers that are there) if ``product`` is RabbitMQ and ``version`` is at least 3.3
and below 4.0, and each consumer otherwise. Others compare ``version`` with the least one that they support.
So both are those of the RabbitMQ whose behaviour this is; Millpond's own name and version are beside them.
"""

import platform

from millpond import __version__
from millpond.base.fields import Table

PRODUCT = "RabbitMQ"
# The release that this broker is compared with; the management API says the same.
RABBITMQ_VERSION = "3.10.8"

# Capabilities that clients check before they use them.
_CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


def server_properties(cluster_name: str) -> Table:
    """The properties of ``connection.start``."""
    return {
        "product": PRODUCT,
        "version": RABBITMQ_VERSION,
        "platform": f"Millpond {__version__}, Python {platform.python_version()}",
        "information": f"This is Millpond, which behaves as {PRODUCT} {RABBITMQ_VERSION} does.",
        "millpond_version": __version__,
        "cluster_name": cluster_name,
        "capabilities": dict.fromkeys(_CAPABILITIES, True),
    }
