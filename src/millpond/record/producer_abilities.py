"""What a producer's protocol lets it send and understand: decided by the front-end, not by a version."""

from typing import NamedTuple


class ProducerAbilities(NamedTuple):
    """One producer, as far as appending its batches depends on it."""

    # Whether its batches may be compressed with zstd.
    allows_zstd: bool = True
    # Whether it understands the error that lets it abort its transaction and go on (KIP-890).
    knows_abortable: bool = True
    # Whether a write, or a commit of offsets, joins its partition to the transaction without being announced
    # before (KIP-890).
    joins_transactions: bool = True


ALL_ABILITIES = ProducerAbilities()
