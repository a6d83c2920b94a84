"""Which epochs a replica believes when it is asked in their name.

An epoch is a 32-bit number, each election uses up one, and none is ever used again. So one request with an
epoch near the end could leave a quorum without any for the next election. A request is believed when its
epoch is not too far above the replica's own: elections take time, and a replica that was away for very many
of them learns where the others are from the answers to its own questions. These may lead it far, but not to
the end: no quorum gets there by elections, so a replica that is there was led there, and must not take others
with it.
"""

from typing import Final

from millpond.base.ids import LeaderEpoch

# The last one that the protocol and the log can write down.
EPOCH_MAX: Final[LeaderEpoch] = 2**31 - 1

# An election every second for twelve days.
JUMP_MAX: Final = 2**20

# Of what is left: the nearer the end, the smaller the steps.
_SHARE_OF_REST: Final = 1024


def is_credible(own: LeaderEpoch, asked: LeaderEpoch) -> bool:
    """Whether a request of this epoch may be true, at a replica that is in its own epoch."""
    rest = EPOCH_MAX - own
    return asked <= own + min(JUMP_MAX, max(1, rest // _SHARE_OF_REST)) and asked <= EPOCH_MAX


def may_learn(own: LeaderEpoch, heard: LeaderEpoch) -> bool:
    """Whether an epoch in the answer to a replica's own question may be true."""
    return is_credible(own, heard) or not is_near_end(heard)


def is_used_up(epoch: LeaderEpoch) -> bool:
    """Whether no election can follow this epoch."""
    return epoch >= EPOCH_MAX


def is_near_end(epoch: LeaderEpoch) -> bool:
    """Whether an operator should know that the epochs come to an end: no quorum gets here by elections."""
    return epoch > EPOCH_MAX - JUMP_MAX
