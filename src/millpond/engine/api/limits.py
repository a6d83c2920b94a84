"""Quotas, memory of requests, pressure and clients' metrics, as front-ends use them."""

from millpond.engine.limits.cluster_pressure import ClusterPressure
from millpond.engine.limits.pressure import PressureWatch
from millpond.engine.limits.quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    MutationBudget,
    Quotas,
)
from millpond.engine.limits.request_memory import Gathered, RequestMemory, request_bytes_max
from millpond.engine.limits.telemetry import ACCEPTED_CODECS, unpacked_size

__all__ = [
    "ACCEPTED_CODECS",
    "CONSUMER_BYTE_RATE",
    "PRODUCER_BYTE_RATE",
    "ClusterPressure",
    "Gathered",
    "MutationBudget",
    "PressureWatch",
    "Quotas",
    "RequestMemory",
    "request_bytes_max",
    "unpacked_size",
]
