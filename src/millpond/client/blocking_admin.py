"""The administrative client for code without an event loop."""

from types import TracebackType
from typing import Any, Self

from millpond.client._portal import Portal, blocking
from millpond.client._where import Where
from millpond.client.admin import Admin


class BlockingAdmin:
    """``with BlockingAdmin("localhost:9092") as admin:``; takes the arguments of ``Admin``. Thread-safe."""

    def __init__(self, where: Where = None, **settings: Any) -> None:
        self._portal = Portal()
        self._inner = self._portal.make(lambda: Admin(where, **settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and end the thread."""
        if self._portal.is_closed:
            return
        try:
            self._portal.run(self._inner.close())
        finally:
            self._portal.close()

    create_topic = blocking(Admin.create_topic)
    create_topics = blocking(Admin.create_topics)
    delete_topics = blocking(Admin.delete_topics)
    list_topics = blocking(Admin.list_topics)
    describe_topic = blocking(Admin.describe_topic)
    create_partitions = blocking(Admin.create_partitions)
    describe_configs = blocking(Admin.describe_configs)
    describe_topic_setting = blocking(Admin.describe_topic_setting)
    alter_configs = blocking(Admin.alter_configs)
    list_offsets = blocking(Admin.list_offsets)
    delete_records = blocking(Admin.delete_records)
    describe_cluster = blocking(Admin.describe_cluster)
    describe_quorum = blocking(Admin.describe_quorum)
    describe_features = blocking(Admin.describe_features)
    update_features = blocking(Admin.update_features)
    add_voter = blocking(Admin.add_voter)
    remove_voter = blocking(Admin.remove_voter)
    unregister_broker = blocking(Admin.unregister_broker)
    alter_reassignments = blocking(Admin.alter_reassignments)
    list_reassignments = blocking(Admin.list_reassignments)
    elect_leaders = blocking(Admin.elect_leaders)
    describe_log_dirs = blocking(Admin.describe_log_dirs)
    list_groups = blocking(Admin.list_groups)
    describe_group = blocking(Admin.describe_group)
    delete_groups = blocking(Admin.delete_groups)
    list_group_offsets = blocking(Admin.list_group_offsets)
    alter_group_offsets = blocking(Admin.alter_group_offsets)
    delete_group_offsets = blocking(Admin.delete_group_offsets)
