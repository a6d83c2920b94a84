"""The list of handlers is what the broker can do; ApiVersions is made from it."""

from millpond.frontend.kafka.handler import Handler
from millpond.frontend.kafka.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
)

HANDLERS: tuple[Handler, ...] = (
    alter_configs.HANDLER,
    api_versions.HANDLER,
    create_partitions.HANDLER,
    create_topics.HANDLER,
    delete_records.HANDLER,
    delete_topics.HANDLER,
    describe_cluster.HANDLER,
    describe_configs.HANDLER,
    describe_log_dirs.HANDLER,
    describe_topic_partitions.HANDLER,
    fetch.HANDLER,
    incremental_alter_configs.HANDLER,
    init_producer_id.HANDLER,
    list_config_resources.HANDLER,
    list_offsets.HANDLER,
    list_partition_reassignments.HANDLER,
    metadata.HANDLER,
    offset_for_leader_epoch.HANDLER,
    produce.HANDLER,
)

__all__ = ["HANDLERS"]
