"""The broker's settings in force: those that the node was started with, altered by the metadata."""

from typing import Any

from millpond.base.ids import NodeId
from millpond.metadata.configs import BrokerConfig
from millpond.metadata.elections import Rules, rules_of
from millpond.metadata.image import Image
from millpond.metadata.records import RESOURCE_BROKER


class NodeSettings:
    """The settings of a node. They change in ``reload``, so get a value each time it is needed."""

    def __init__(self, broker: BrokerConfig, node_id: NodeId) -> None:
        self.broker = broker
        self._node_id = node_id

    def get(self, name: str) -> Any:
        """Return the value in force of a broker setting."""
        return self.broker[name]

    def rules(self, image: Image) -> Rules:
        """Return the rules of elections by these metadata and this node's settings."""
        return rules_of(image, self.broker)

    def reload(self, image: Image) -> None:
        """Apply the settings of the metadata for all brokers and for this one."""
        self.broker = self.broker.altered(
            cluster_default=image.config_of(RESOURCE_BROKER, ""),
            node=image.config_of(RESOURCE_BROKER, str(self._node_id)),
        )
