"""The errors of pipelines."""

from millpond.base.errors import MillpondError


class PipelineError(MillpondError):
    """A pipeline cannot run with these options; the message says what to change."""


class ForeignTable(PipelineError):
    """A table belongs to another checkpoint: writing to it would duplicate or lose rows."""


class StaleCheckpoint(PipelineError):
    """A table has later batches than its checkpoint: continuing would leave rows out."""


class BatchDiffers(PipelineError):
    """Spark repeats a batch that a table has with other offsets: rows would be missing or duplicated."""


class NoExchange(PipelineError):
    """The file system cannot exchange two directories atomically, so files cannot be compacted safely."""


class CompactionMismatch(PipelineError):
    """A compacted directory does not hold the rows of its source files; nothing was changed."""
