"""Registers the data source ``millpond`` with Spark, which looks for modules with this prefix.

Nothing is decided here: reading is ``millpond.spark.source``'s, writing ``millpond.spark.sink``'s. What is
not needed for a query is not imported for it.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from millpond.spark.sink import BatchSink, StreamSink
    from millpond.spark.source import BatchReader, StreamReader


class DefaultSource(DataSource):
    """``format("millpond")`` for ``spark.read``, ``readStream``, ``df.write`` and ``writeStream``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "millpond"

    def schema(self) -> str:
        """The columns of the official Kafka connector."""
        from millpond.spark.source import source_schema

        return source_schema(self.options)

    def reader(self, schema: StructType) -> "BatchReader":
        """For ``spark.read``."""
        from millpond.spark.source import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        """For ``spark.readStream``."""
        from millpond.spark.source import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> "BatchSink":
        """For ``df.write``."""
        from millpond.spark.sink import BatchSink

        return BatchSink(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamSink":  # noqa: N802
        """For ``df.writeStream``."""
        from millpond.spark.sink import StreamSink

        return StreamSink(self.options, schema)
