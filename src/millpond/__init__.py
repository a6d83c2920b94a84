"""Millpond: one broker, one Kafka-format log, the wire protocols people already use.

``with millpond.Broker() as broker:`` runs a broker inside this process; ``millpond up`` runs one
as a program. Only names listed in ``__all__`` are public.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Broker", "__version__"]

if TYPE_CHECKING:
    from millpond.server.embedded import Broker


def __getattr__(name: str) -> Any:
    # Imported on first use, so that `import millpond` costs nothing to those who need the client only.
    if name == "Broker":
        from millpond.server.embedded import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
