"""What can be wrong with a Spark query that reads from or writes to a broker, and what to do about it."""

from collections.abc import Iterator
from contextlib import contextmanager

from millpond.base.errors import MillpondError
from millpond.client import NoBroker, OutOfTime


class SparkError(MillpondError):
    """Root of what the source, the sink and the session raise."""


class WrongOption(SparkError):
    """An option that does not exist, cannot have this value, or contradicts another one."""


class UnknownTopic(SparkError):
    """A topic or partition that an option names and the broker does not have."""


class BrokerAway(SparkError):
    """No broker answered for as long as the options allow; the query can be started again."""


class DataLost(SparkError):
    """Records that the query had still to read are not in the log any more."""


class NoJava(SparkError):
    """Spark needs a Java runtime, and none was found."""


@contextmanager
def waiting_for_brokers(what: str, option: str, seconds: float) -> Iterator[None]:
    """Say what was to be read or written, and which option bounds the wait, when brokers stay away."""
    try:
        yield
    except (NoBroker, OutOfTime) as error:
        raise BrokerAway(
            f"{what}: {error}. Brokers that go away are waited for as long as {option} says "
            f"({seconds * 1000:.0f} ms); started again, a stream goes on from its checkpoint"
        ) from error
