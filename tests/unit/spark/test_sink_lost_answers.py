"""An answer that gets lost says nothing of what the broker did. The sink asks again; nothing is doubled."""

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

import millpond
from millpond.spark.sink_options import SinkOptions
from millpond.spark.sink_task import SinkTask, TaskName
from millpond.wire.kafka.api import ApiKey
from tests.support.kafka.committed import read_committed, read_uncommitted, values
from tests.support.processes.cutting_proxy import CuttingProxy
from tests.support.processes.ports import free_port
from tests.unit.spark.conftest import Process


@pytest.fixture(scope="module")
def way() -> Iterator[tuple[Process, CuttingProxy, millpond.Broker]]:
    """A Spark process whose only way to the broker is the proxy."""
    process = Process("127.0.0.1:1")
    proxy = CuttingProxy()
    process.run(proxy.start())
    settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
    proxy.target = free_port()
    with millpond.Broker(port=proxy.target, settings=settings) as broker:
        yield process, proxy, broker
        process.run(process.cluster.close())
        process.run(proxy.stop())
        process.close()


@pytest.mark.parametrize(
    "api_key",
    [
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FETCH,
        ApiKey.PRODUCE,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ],
    ids=lambda key: key.name.lower(),
)
def test_whatever_answer_is_lost_the_rows_are_there_once(
    way: tuple[Process, CuttingProxy, millpond.Broker], second_generation: bool, api_key: ApiKey
) -> None:
    process, proxy, broker = way
    topic = f"t-{uuid.uuid4()}"
    broker.create_topic(topic)
    options = SinkOptions.parse(
        {"kafka.bootstrap.servers": f"127.0.0.1:{proxy.port}", "topic": topic}
    )
    cluster = type(process.cluster)(options.bootstrap)
    sink = SinkTask(options, cluster, process.submit, second_generation=second_generation)
    query = f"query-{uuid.uuid4()}"
    proxy.lost.clear()
    proxy.losses[api_key] = 2
    for batch in range(2):
        name = TaskName(query=query, task=0, batch=batch)
        rows = pa.RecordBatch.from_pydict({"value": [f"{batch}-{n}" for n in range(3)]})
        sink.commit([sink.write(name, [rows])], batch)
    process.run(cluster.close())
    assert proxy.lost[api_key] == 2
    expected = [b"0-0", b"0-1", b"0-2", b"1-0", b"1-1", b"1-2"]
    through_proxy = options.bootstrap
    assert values(read_committed(through_proxy, topic)) == expected
    assert values(read_uncommitted(through_proxy, topic)) == expected
