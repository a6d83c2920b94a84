"""Spark drivers and the broker are killed again and again while records go to a topic and to a lake.

Afterwards sent = read = distinct, in the topic for a consumer of committed data that is not ours, and in the
lake for a plain reader of Parquet files. Death comes where it hurts: in the middle of a batch of both
queries, between two commits of one batch, and while small files are compacted.
"""

import faulthandler
import os
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from millpond.client import BlockingClient
from tests.crash.spark_crew import QUERIES, Checkpoint, Feeder, Supply, judge
from tests.spark.conftest import missing_reason
from tests.support.processes.broker_process import MillpondProcess

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.timeout(900)]

# What each driver is told to do, and in the middle of what it dies.
DEATHS = (
    ("run", "batches"),
    ("half-way", "commit"),
    ("run", "compaction"),
    ("half-way", "commit"),
    ("run", "batches"),
)
BROKER_KILLS_BY_DRIVER = 2


@dataclass
class Toll:
    """What was done to them."""

    drivers: Counter[str] = field(default_factory=Counter)  # by where they died
    mid_batch: Counter[str] = field(default_factory=Counter)  # by query that left a batch undone
    broker_kills: int = 0
    began: float = field(default_factory=time.perf_counter, repr=False)

    def seconds(self) -> float:
        """Since the story began."""
        return time.perf_counter() - self.began


def test_nothing_is_lost_or_doubled_whoever_is_killed(tmp_path: Path) -> None:
    reason = missing_reason()
    if reason is not None:
        pytest.skip(reason)
    faulthandler.cancel_dump_traceback_later()  # it is long, and not because it hangs
    seed = int(os.environ.get("MILLPOND_CRASH_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"MILLPOND_CRASH_SEED={seed}")
    chance = random.Random(seed)
    toll = Toll()
    checkpoint = Checkpoint(tmp_path)
    with MillpondProcess(tmp_path / "broker") as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topic("in", partitions=4)
            client.create_topic("out", partitions=3)
        with Feeder(broker.bootstrap) as feeder, Supply(broker.bootstrap, tmp_path) as supply:
            for order, where in DEATHS:
                torment(supply, order, where, broker, checkpoint, toll, chance)
            feeder.stop()
            print(f"drain at {toll.seconds():.0f} s", flush=True)
            last = supply.take()
            last.order("drain")
            last.wait_drained()
        print(f"{toll.seconds():.0f} s: {toll}")
        judge(broker.bootstrap, tmp_path, feeder.sent)
    assert toll.drivers == {"batches": 2, "commit": 2, "compaction": 1}
    assert toll.mid_batch["copy"] >= 4
    assert toll.mid_batch["lake"] >= 3
    assert toll.broker_kills >= 5
    assert checkpoint.compacted_files(), "compaction has done its work between its deaths"


def torment(
    supply: Supply,
    order: str,
    where: str,
    broker: MillpondProcess,
    checkpoint: Checkpoint,
    toll: Toll,
    chance: random.Random,
) -> None:
    """Let a driver work, kill the broker under it, let it go on, and kill it too."""
    print(f"{order} at {toll.seconds():.0f} s: batches {checkpoint.batches()}, {toll}", flush=True)
    driver = supply.take()
    driver.order(order)
    if order == "half-way":
        supply.warm_up()
        driver.wait_killed()
    else:
        checkpoint.wait_for_progress(driver)
        supply.warm_up()
        for query in QUERIES[:BROKER_KILLS_BY_DRIVER]:
            driver.wait_until(partial(checkpoint.is_mid_batch, query), f"a batch of {query}")
            threading.Event().wait(chance.uniform(0.0, 0.2))
            broker.restart()
            toll.broker_kills += 1
            checkpoint.wait_for_progress(driver, batches=1)
        driver.kill_when(
            checkpoint.is_compacting if where == "compaction" else checkpoint.are_all_mid_batch,
            where,
        )
    toll.drivers[where] += 1
    toll.mid_batch.update(query for query in QUERIES if checkpoint.is_mid_batch(query))
