"""Which versions of Kafka's requests give a producer which abilities."""

from millpond.frontend.kafka.producer_versions import commit_abilities, produce_abilities
from millpond.record.producer_abilities import ALL_ABILITIES, ProducerAbilities


def test_abilities_of_produce_begin_with_the_versions_that_brought_them() -> None:
    assert produce_abilities(3) == ProducerAbilities(False, False, False)
    assert produce_abilities(6) == ProducerAbilities(False, False, False)
    assert produce_abilities(7) == ProducerAbilities(True, False, False)
    assert produce_abilities(10) == ProducerAbilities(True, False, False)
    assert produce_abilities(11) == ProducerAbilities(True, True, False)
    assert produce_abilities(12) == ALL_ABILITIES
    assert produce_abilities(99) == ALL_ABILITIES


def test_abilities_of_txn_offset_commit_begin_with_the_versions_that_brought_them() -> None:
    assert commit_abilities(0) == commit_abilities(3) == ProducerAbilities(True, False, False)
    assert commit_abilities(4) == ProducerAbilities(True, True, False)
    assert commit_abilities(5) == commit_abilities(6) == ALL_ABILITIES
