"""The abilities of a producer, by the versions of Kafka's requests."""

from millpond.record.producer_abilities import ProducerAbilities

_ZSTD_FROM = 7
_PRODUCE_KNOWS_ABORTABLE_FROM = 11
_PRODUCE_JOINS_FROM = 12
_COMMIT_KNOWS_ABORTABLE_FROM = 4
_COMMIT_JOINS_FROM = 5

# By the version of Produce, and of TxnOffsetCommit; later versions can all that the last one can.
_OF_PRODUCE = tuple(
    ProducerAbilities(
        allows_zstd=version >= _ZSTD_FROM,
        knows_abortable=version >= _PRODUCE_KNOWS_ABORTABLE_FROM,
        joins_transactions=version >= _PRODUCE_JOINS_FROM,
    )
    for version in range(_PRODUCE_JOINS_FROM + 1)
)
_OF_COMMIT = tuple(
    ProducerAbilities(
        knows_abortable=version >= _COMMIT_KNOWS_ABORTABLE_FROM,
        joins_transactions=version >= _COMMIT_JOINS_FROM,
    )
    for version in range(_COMMIT_JOINS_FROM + 1)
)


def produce_abilities(version: int) -> ProducerAbilities:
    """Return the abilities of a producer that sends Produce in this version."""
    return _OF_PRODUCE[min(version, _PRODUCE_JOINS_FROM)]


def commit_abilities(version: int) -> ProducerAbilities:
    """Return the abilities of a producer that sends TxnOffsetCommit in this version."""
    return _OF_COMMIT[min(version, _COMMIT_JOINS_FROM)]
