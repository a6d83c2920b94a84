"""The errors of Spark queries that read from or write to a broker."""

from collections.abc import Iterator
from contextlib import contextmanager

from millpond.base.errors import MillpondError
from millpond.client import NoBroker, OutOfTime


class SparkError(MillpondError):
    """Base class of the errors of source, sink and session."""


class WrongOption(SparkError):
    """An option that does not exist, has an invalid value, or contradicts another one."""


class UnknownTopic(SparkError):
    """A topic or partition in an option that the broker does not have."""


class BrokerAway(SparkError):
    """No broker answered within the configured time; the query can be restarted."""


class DataLost(SparkError):
    """Records that the query had not read yet are no longer in the log."""


class NoJava(SparkError):
    """Spark needs a Java runtime, and none was found."""


@contextmanager
def waiting_for_brokers(what: str, option: str, seconds: float) -> Iterator[None]:
    """Add to errors what was to be read or written, and which option bounds the wait."""
    try:
        yield
    except (NoBroker, OutOfTime) as error:
        raise BrokerAway(
            f"{what}: {error}. Brokers that go away are waited for as long as {option} says "
            f"({seconds * 1000:.0f} ms); started again, a stream goes on from its checkpoint"
        ) from error
