"""Decides which epochs in requests and responses a replica accepts.

An epoch is a 32-bit number, each election takes one, and none is ever reused. So one request with an epoch
near the end could leave a quorum without any for the next election. A replica accepts a request whose epoch
is not too far above its own: elections take time, and a replica that missed very many of them learns the
present epoch from the responses to its own requests. These may raise it by much, but not to the end: no
quorum gets there by elections, so a replica that is there was sent a forged epoch, and must not spread it.
"""

from typing import Final

from millpond.base.ids import LeaderEpoch

# The last epoch that the protocol and the log can represent.
EPOCH_MAX: Final[LeaderEpoch] = 2**31 - 1

# One election every second for twelve days.
JUMP_MAX: Final = 2**20

# A fraction of the remaining epochs: the nearer the end, the smaller the steps.
_SHARE_OF_REST: Final = 1024


def is_credible(own: LeaderEpoch, asked: LeaderEpoch) -> bool:
    """Return whether a replica in epoch ``own`` accepts a request of epoch ``asked``."""
    rest = EPOCH_MAX - own
    return asked <= own + min(JUMP_MAX, max(1, rest // _SHARE_OF_REST)) and asked <= EPOCH_MAX


def may_learn(own: LeaderEpoch, heard: LeaderEpoch) -> bool:
    """Return whether a replica in epoch ``own`` accepts epoch ``heard`` in the response to its own
    request.
    """
    return is_credible(own, heard) or not is_near_end(heard)


def is_used_up(epoch: LeaderEpoch) -> bool:
    """Return whether no election can follow this epoch."""
    return epoch >= EPOCH_MAX


def is_near_end(epoch: LeaderEpoch) -> bool:
    """Return whether to warn an operator that epochs run out: no quorum gets here by elections."""
    return epoch > EPOCH_MAX - JUMP_MAX
