"""Spark's official Kafka connector works with Millpond as with Apache Kafka, and finds what ours finds.

The tests' session has the connector's jars; ``official_job`` asks both brokers, which hold the same records:
all codecs, headers, nulls, committed and aborted transactions.
"""

from typing import Any

import pytest

from tests.spark.conftest import connector_jars
from tests.spark.official_job import FORMATS, READS, STREAMED, everything
from tests.spark.peers import create_topic, running
from tests.spark.test_source_peers import write_everything

PEERS = ("millpond", "kafka")
pytestmark = pytest.mark.timeout(700)


@pytest.fixture(scope="module")
def found(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was found through both formats, by broker."""
    if not connector_jars():
        pytest.skip("the official connector's jars are not in the cache (make interop-deps)")
    directory = tmp_path_factory.mktemp("official")
    with running("millpond", directory / "m") as ours, running("kafka", directory / "k") as theirs:
        for bootstrap in (ours, theirs):
            write_everything(bootstrap)
            for name in (*(f"written-{form}" for form in FORMATS), STREAMED):
                create_topic(bootstrap, name)
        return {
            peer: everything(spark, bootstrap, directory / peer)
            for peer, bootstrap in zip(PEERS, (ours, theirs), strict=True)
        }


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("case", [*READS, "stream"])
def test_both_formats_find_the_same(found: dict[str, Any], case: str, peer: str) -> None:
    either = found[peer]["read"][case]
    assert either["kafka"] == either["millpond"]
    assert either["kafka"]["rows"] > 0


@pytest.mark.parametrize("case", [case for case in READS if case != "subscribePattern"])
def test_both_brokers_give_the_official_connector_the_same(
    found: dict[str, Any], case: str
) -> None:
    ours, theirs = (found[peer]["read"][case]["kafka"] for peer in PEERS)
    for part in ("rows", "schema", "without offsets"):
        assert ours[part] == theirs[part]


@pytest.mark.parametrize("peer", PEERS)
def test_aborted_records_are_hidden_from_readers_of_committed_ones(
    found: dict[str, Any], peer: str
) -> None:
    read = found[peer]["read"]
    assert read["subscribe"]["kafka"]["rows"] - read["committed"]["kafka"]["rows"] == 10


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("form", FORMATS)
def test_what_one_format_writes_the_other_reads(
    found: dict[str, Any], form: str, peer: str
) -> None:
    written = found[peer]["written"]
    assert len(written[form]) == 500
    assert {text.split(" ", 1)[1] for text in written[form]} == {
        f"{number} value {number} {number}" for number in range(500)
    }
    # The first word is the partition: keys go where Java's producer puts them.
    assert written["kafka"] == written["millpond"]


@pytest.mark.parametrize("peer", PEERS)
def test_a_stream_that_the_official_connector_writes_arrives(
    found: dict[str, Any], peer: str
) -> None:
    """Each once and where its key belongs: nothing failed on the way, so its at-least-once is exact."""
    assert found[peer]["streamed"] == found[peer]["written"]["kafka"]
