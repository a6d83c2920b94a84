"""What can be wrong with a Spark query that reads from or writes to a broker, and what to do about it."""

from millpond.base.errors import MillpondError


class SparkError(MillpondError):
    """Root of what the source, the sink and the session raise."""


class WrongOption(SparkError):
    """An option that does not exist, cannot have this value, or contradicts another one."""


class UnknownTopic(SparkError):
    """A topic or partition that an option names and the broker does not have."""


class DataLost(SparkError):
    """Records that the query had still to read are not in the log any more."""


class NoJava(SparkError):
    """Spark needs a Java runtime, and none was found."""
