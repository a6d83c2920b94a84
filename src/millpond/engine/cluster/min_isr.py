"""With eligible leaders there is one ``min.insync.replicas`` for the whole cluster: what differs is named in
the log.

The controller sees values that single nodes were given at run time, and removes them. Only each node itself
knows what its settings file says, so each looks at its own.
"""

import logging
from collections.abc import Callable, Sequence

from millpond.base.ids import NodeId
from millpond.metadata.configs import BrokerConfig, ConfigSource
from millpond.metadata.features import MIN_ISR_SETTING, keeps_eligible_leaders
from millpond.metadata.image import Image
from millpond.metadata.records import RESOURCE_BROKER, ConfigRecord

log = logging.getLogger(__name__)


def log_one_min_isr(before: Image, records: Sequence[ConfigRecord]) -> None:
    """Name the values of single nodes that these records (``decide_one_min_isr``) remove."""
    removed = [
        f"node {one.resource_name}: {value}"
        for one in records
        if one.value is None
        and (value := before.config_of(RESOURCE_BROKER, one.resource_name).get(one.name))
        is not None
    ]
    if removed:
        log.warning(
            "%s is the same for the whole cluster from now on; values of single nodes are removed (%s)",
            MIN_ISR_SETTING,
            ", ".join(removed),
        )


class OwnMinIsr:
    """Whether this node's settings file says something else than what counts in the cluster."""

    def __init__(self, node_id: NodeId, broker: Callable[[], BrokerConfig]) -> None:
        self._node_id = node_id
        self._broker = broker
        self._seen: str | None = None

    def on_change(self, _before: Image, after: Image) -> None:
        """The metadata changed."""
        self.look(after)

    def look(self, image: Image) -> None:
        """Warn once for each value of the cluster that differs from this node's file."""
        if not keeps_eligible_leaders(image):
            return
        counts = image.config_of(RESOURCE_BROKER, "").get(MIN_ISR_SETTING)
        if counts is None or counts == self._seen:
            return
        self._seen = counts
        given = dict(self._broker().layers(MIN_ISR_SETTING)).get(ConfigSource.STATIC)
        if given is not None and str(given) != counts:
            log.warning(
                "%s=%s in the settings file of node %d has no effect: %s counts for the whole cluster. Write "
                "the same value into every node's file, and change the one that counts with `kafka-configs "
                "--entity-type brokers --entity-default --alter --add-config %s=…`",
                MIN_ISR_SETTING,
                given,
                self._node_id,
                counts,
                MIN_ISR_SETTING,
            )
