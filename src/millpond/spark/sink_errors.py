"""The errors of queries that write."""

from millpond.spark.errors import SparkError


class WrongColumns(SparkError):
    """The rows lack columns of a topic's records, or the columns have other types."""


class WrongRow(SparkError):
    """A row that cannot become a record: no topic, or a partition that does not exist."""


class RecordTooLarge(SparkError):
    """A record, or a batch of one record, that is larger than the topic allows."""


class TransactionLost(SparkError):
    """The transaction was ended by another process before it was committed; its records are not visible.

    Nothing is lost: the batch stays uncommitted in Spark's checkpoint and is written again.
    """


class ReplayDiffers(SparkError):
    """A partly committed batch is replayed in another shape, so that rows could be lost or duplicated."""
