"""Segments grow old, and not those of all partitions at the same moment."""

import pytest

from millpond.base.ids import TopicPartition
from millpond.log.config import LogConfig
from millpond.log.rolling import RollRule
from millpond.log.segment import Segment
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.storage.log_kit import NOW, append, open_log


@pytest.fixture
def segment() -> Segment:
    """One with a record of now."""
    log = open_log(FaultyStorage())
    append(log)
    return log.active


def due_after_ms(segment: Segment, config: LogConfig, place: TopicPartition) -> int:
    """How old the segment gets before it is to be closed."""
    rule = RollRule(config, place, segment.base_offset)
    return next(age_ms for age_ms in range(2_000) if rule.is_due(segment, NOW + age_ms))


def test_partitions_that_began_together_roll_apart_and_never_late(segment: Segment) -> None:
    config = LogConfig(segment_ms=1_000, segment_jitter_ms=400)
    ages = [due_after_ms(segment, config, TopicPartition("orders", n)) for n in range(20)]

    assert len(set(ages)) > 10
    assert min(ages) > 600
    assert max(ages) <= 1_001
    assert ages == [due_after_ms(segment, config, TopicPartition("orders", n)) for n in range(20)]
