"""The first argument of every client: the brokers' addresses."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from millpond.client.aio import Cluster
from millpond.client.config import ConsumerConfig, ProducerConfig

# Addresses, a dictionary of Kafka's settings, a cluster to share, or None (then settings contain them).
Where: TypeAlias = str | Sequence[str] | Mapping[str, Any] | Cluster | None


def settings_of(where: Where) -> Mapping[str, Any] | None:
    """Return the settings in the first argument."""
    if where is None or isinstance(where, Cluster):
        return None
    return where if isinstance(where, Mapping) else {"bootstrap.servers": where}


def cluster_for(
    where: Where, config: ProducerConfig | ConsumerConfig, *, timeout_ms: int
) -> tuple[Cluster, bool]:
    """Return the cluster to use, and whether this client must close it."""
    if isinstance(where, Cluster):
        return where, False
    cluster = Cluster(
        config.bootstrap_servers,
        client_id=config.client_id,
        timeout_s=timeout_ms / 1000,
        request_s=config.request_timeout_ms / 1000,
        connect_s=config.socket_connection_setup_timeout_ms / 1000,
        backoff_s=config.retry_backoff_ms / 1000,
        metadata_age_s=config.metadata_max_age_ms / 1000,
    )
    return cluster, True
