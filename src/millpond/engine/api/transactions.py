"""Transactions of producers: what front-ends ask of them and are answered."""

from millpond.engine.coordinators.transactions import (
    AddPartitions,
    Admission,
    EndTransaction,
    Identity,
    InitProducer,
    NeedsProducerId,
    Place,
    Status,
    Write,
    refusal_of_commit,
    refusal_of_write,
)

__all__ = [
    "AddPartitions",
    "Admission",
    "EndTransaction",
    "Identity",
    "InitProducer",
    "NeedsProducerId",
    "Place",
    "Status",
    "Write",
    "refusal_of_commit",
    "refusal_of_write",
]
