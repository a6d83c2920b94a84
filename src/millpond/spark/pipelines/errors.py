"""What can be wrong with a pipeline's surroundings, one class each."""

from millpond.base.errors import MillpondError


class PipelineError(MillpondError):
    """A pipeline cannot run as it was asked to; the message says what to change."""


class ForeignTable(PipelineError):
    """A table belongs to another checkpoint: writing to it would double or lose rows."""


class StaleCheckpoint(PipelineError):
    """A table has later batches than its checkpoint: going on from there would leave rows out."""


class BatchDiffers(PipelineError):
    """Spark repeats a batch that a table has with other offsets: rows would be missing or doubled."""


class NoExchange(PipelineError):
    """The file system cannot exchange two directories at once, so files cannot be compacted safely."""


class CompactionMismatch(PipelineError):
    """A compacted directory does not hold the rows of the files it was made from; nothing was changed."""
