"""``TellPressure``: memory or disk runs low at a node."""

from millpond.engine.limits.cluster_pressure import TellPressure
from millpond.peer.calls import ConnectionKind
from millpond.peer.own_calls import OwnCall, empty_answer, int_of, no_answer, texts_of

CALL = OwnCall(
    name="TellPressure",
    kind=TellPressure,
    connection=ConnectionKind.QUEUE_REQUESTS,
    to_table=lambda one: {"node": one.node_id, "low": list(one.low_on)},
    from_table=lambda table: TellPressure(
        node_id=int_of(table["node"]), low_on=texts_of(table["low"])
    ),
    answer_to_table=empty_answer,
    answer_from_table=no_answer,
)
