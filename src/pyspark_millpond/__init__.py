"""Registers the data source ``millpond`` with Spark, which looks for modules with this prefix.

``millpond.spark.source`` reads and ``millpond.spark.sink`` writes; each is imported only for queries that
need it.
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
        """Return the name of the format."""
        return "millpond"

    def schema(self) -> str:
        """Return the columns of the official Kafka connector."""
        from millpond.spark.source import source_schema

        return source_schema(self.options)

    def reader(self, schema: StructType) -> "BatchReader":
        """Return the reader for ``spark.read``."""
        from millpond.spark.source import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        """Return the reader for ``spark.readStream``."""
        from millpond.spark.source import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> "BatchSink":
        """Return the writer for ``df.write``."""
        from millpond.spark.sink import BatchSink

        return BatchSink(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamSink":  # noqa: N802
        """Return the writer for ``df.writeStream``."""
        from millpond.spark.sink import StreamSink

        return StreamSink(self.options, schema)
