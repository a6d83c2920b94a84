"""Parameters of the whole cluster: those that were set, and what RabbitMQ always has."""

from typing import Any, Final

from millpond.rabbit.broker import Broker
from millpond.rabbit.records import Parameter, ParameterDeleted

# The component that global parameters are kept under.
_GLOBAL: Final = "global"
CLUSTER_NAME: Final = "cluster_name"
_CLUSTER_ID: Final = "internal_cluster_id"


def global_parameters(broker: Broker, cluster_id: str) -> dict[str, Any]:
    """By name. The cluster is called by its id until it is given a name."""
    known: dict[str, Any] = {CLUSTER_NAME: cluster_id, _CLUSTER_ID: cluster_id}
    for one in broker.parameters.values():
        if not one.vhost:
            known[one.name] = one.value.get("value")
    return dict(sorted(known.items()))


def cluster_name(broker: Broker, cluster_id: str) -> str:
    """What the cluster is called; its id until it is given a name."""
    known = broker.parameters.get(("", _GLOBAL, CLUSTER_NAME))
    return cluster_id if known is None else str(known.value.get("value"))


def global_parameter(name: str, value: Any) -> Parameter:
    """The fact that sets one."""
    return Parameter(component=_GLOBAL, name=name, value={"value": value})


def without_global_parameter(name: str) -> ParameterDeleted:
    """The fact that removes one."""
    return ParameterDeleted(component=_GLOBAL, name=name)
