"""The work of a task: reads one range from a broker or from segment files, as Arrow batches."""

from collections.abc import Generator, Iterator

from millpond.spark._broker import brokers_for
from millpond.spark.arrow import RecordBatch, to_record_batch
from millpond.spark.decoding import readable_columns
from millpond.spark.loss import LossPolicy
from millpond.spark.options import SourceOptions
from millpond.spark.pieces import Fetched
from millpond.spark.plan import Range
from millpond.spark.segments import read_segments


def arrow_batches(options: SourceOptions, wanted: Range) -> Generator[RecordBatch, None, None]:
    """Yield the records of a range in order; each batch is as large as one fetch."""
    lose = LossPolicy(fail=options.fail_on_data_loss, report=options.loss_report)
    for fetched in _pieces(options, wanted, lose):
        for columns in readable_columns(
            wanted,
            fetched,
            lose,
            headers=options.include_headers,
            check_crcs=options.fetch.check_crcs,
        ):
            if columns.count:
                yield to_record_batch(columns, wanted.topic, wanted.partition)


def _pieces(options: SourceOptions, wanted: Range, lose: LossPolicy) -> Iterator[Fetched]:
    if options.segments is not None:
        return read_segments(options.segments, wanted, options.fetch, lose)
    assert options.broker is not None
    return brokers_for(options.broker).read(wanted, options.fetch, lose)
