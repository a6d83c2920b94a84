"""The broker goes away in the middle of two queries, for longer than any request waits, and comes back.

Nobody starts anything again: the queries wait, go on, and neither lose nor double a record.
"""

import faulthandler
import os
import threading
from pathlib import Path

import pytest

from millpond.client import BlockingClient
from tests.crash.spark_crew import (
    Checkpoint,
    Feeder,
    Supply,
    difference,
    in_lake,
    in_topic,
    numbered,
)
from tests.spark.conftest import missing_reason
from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.ports import wait_until

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.timeout(900)]

# Longer than kafka.request.timeout.ms (30 s): requests that were under way have failed when it is back.
AWAY_S = float(os.environ.get("MILLPOND_AWAY_S") or 40)
CAUGHT_UP_S = 240


def test_a_broker_that_is_away_for_longer_than_a_request_waits_costs_time_and_nothing_else(
    tmp_path: Path,
) -> None:
    reason = missing_reason()
    if reason is not None:
        pytest.skip(reason)
    faulthandler.cancel_dump_traceback_later()
    checkpoint = Checkpoint(tmp_path)
    with MillpondProcess(tmp_path / "broker") as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topic("in", partitions=4)
            client.create_topic("out", partitions=3)
        with Feeder(broker.bootstrap) as feeder, Supply(broker.bootstrap, tmp_path) as supply:
            driver = supply.take()
            driver.order("run")
            checkpoint.wait_for_progress(driver)
            driver.wait_until(checkpoint.are_all_mid_batch, "batches of both queries")
            broker.kill()
            before = checkpoint.batches()
            threading.Event().wait(AWAY_S)  # the fault itself
            after = checkpoint.batches()
            assert all(after[query] - before[query] <= 1 for query in before), (
                "nobody goes on alone"
            )
            assert driver.is_alive(), driver.last_words()
            broker.start()
            checkpoint.wait_for_progress(driver)
            feeder.stop()

            def has_all() -> bool:
                assert driver.is_alive(), f"the driver has ended:\n{driver.last_words()}"
                return len(in_lake(tmp_path)) >= feeder.sent <= len(in_topic(broker.bootstrap))

            wait_until(has_all, timeout_s=CAUGHT_UP_S, what="both queries catch up", poll_s=1)
            copied, lake = in_topic(broker.bootstrap), in_lake(tmp_path)
            print(
                f"sent {feeder.sent}, away for {AWAY_S:.0f} s, batches {before}, then {checkpoint.batches()}"
            )
            assert driver.is_alive(), driver.last_words()
    assert sorted(copied) == numbered(feeder.sent), difference(copied, feeder.sent)
    assert sorted(lake) == numbered(feeder.sent), difference(lake, feeder.sent)
