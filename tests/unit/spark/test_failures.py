"""Failures of batches that Spark can read, and queries that ended in the middle of one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.failures import in_short, is_unfinished
from millpond.spark.pipelines.running import Running

STACK = "\n".join(["An error occurred while calling o1.parquet.", *["\tat x.y.z"] * 2000])
FULL = f"{STACK}\nCaused by: java.io.IOException: No space left on device\n\tat a.b"
BUSY = f"{STACK}\norg.apache.spark.SparkException: Python worker failed to connect back.\n\tat a.b"


def failing(text: str) -> Any:
    def work(_batch: str, _number: int) -> None:
        raise RuntimeError(text)

    return in_short(work)


def test_a_failure_reaches_spark_as_a_sentence() -> None:
    with pytest.raises(PipelineError, match="No space left on device") as raised:
        failing(FULL)("batch", 0)
    assert len(str(raised.value)) < 300
    assert raised.value.__cause__ is None
    with pytest.raises(PipelineError, match="Python worker failed to connect back"):
        failing(BUSY)("batch", 0)


def test_a_query_that_was_stopped_is_recognised_as_such() -> None:
    with pytest.raises(RuntimeError, match="InterruptedException"):
        failing("java.lang.InterruptedException: sleep")("batch", 0)


def query(checkpoint: Path, *, begun: int, ended: int) -> Any:
    """A query that is over and says nothing."""
    for log, count in (("offsets", begun), ("commits", ended)):
        place = checkpoint / "lake" / log
        place.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (place / str(number)).touch()
            (place / f".{number}.crc").touch()
    return SimpleNamespace(
        name="lake", isActive=False, exception=lambda: None, stop=lambda: None, recentProgress=[]
    )


def test_a_query_that_ended_in_the_middle_of_a_batch_is_begun_again_or_told_of(
    tmp_path: Path,
) -> None:
    assert not is_unfinished(tmp_path / "lake")
    died = query(tmp_path, begun=3, ended=2)
    assert is_unfinished(tmp_path / "lake")
    tries = []

    def begin() -> list[Any]:
        tries.append(1)
        return [died if len(tries) < 2 else query(tmp_path, begun=3, ended=3)]

    running = Running("lake", begin, ends=tmp_path)
    while not running.wait(0):
        pass
    running.check()
    assert len(tries) == 2

    (tmp_path / "lake" / "commits" / "2").unlink()
    for_good = Running("lake", lambda: [died], about=" (--from orders)", ends=tmp_path)
    while not for_good.wait(0):
        pass
    with pytest.raises(
        PipelineError, match=r"lake \(--from orders\): Spark ended the query in the middle"
    ):
        for_good.check()
    for_good.stop()
    for_good.check()
