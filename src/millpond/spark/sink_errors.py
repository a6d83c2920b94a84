"""What can be wrong with a query that writes, and what to do about it."""

from millpond.spark.errors import SparkError


class WrongColumns(SparkError):
    """The rows do not have the columns, or the columns not the types, that a topic's records are made of."""


class WrongRow(SparkError):
    """A row that cannot become a record: no topic, or a partition that does not exist."""


class RecordTooLarge(SparkError):
    """A record, or a batch of one record, that the topic does not take."""


class TransactionLost(SparkError):
    """The transaction was ended by someone else before it was committed; none of its records will be seen.

    Nothing is lost by it: the batch stays uncommitted in Spark's checkpoint and is written again.
    """


class ReplayDiffers(SparkError):
    """A batch that was half committed is replayed in another shape, so that rows could be lost or doubled."""
