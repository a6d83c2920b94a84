"""What is read of a consumer's metadata."""

import pytest

from millpond.base.errors import MalformedData
from millpond.group.classic.subscription import subscribed_topics

# Version 3, topics "a" and "orders", no user data, owned partitions, generation and rack behind them.
NEWER = bytes.fromhex("00030000000200016100066f7264657273ffffffff0000000000000005ffff")


def test_topics_are_read_from_any_version() -> None:
    assert subscribed_topics(NEWER) == {"a", "orders"}
    assert subscribed_topics(b"\x00\x00" + NEWER[2:18]) == {"a", "orders"}
    assert subscribed_topics(bytes(6)) == frozenset()


@pytest.mark.parametrize("size", [0, 1, 2, 5, 7, 8, 12])
def test_a_subscription_that_ends_early_is_malformed(size: int) -> None:
    with pytest.raises(MalformedData):
        subscribed_topics(NEWER[:size])


@pytest.mark.parametrize(
    "damaged", [b"\x00\x00\x00\x00\x00\x01\xff\xff", b"\x00\x00\x00\x00\x00\x01\x00\x01\xff"]
)
def test_names_that_cannot_be_are_malformed(damaged: bytes) -> None:
    with pytest.raises(MalformedData):
        subscribed_topics(damaged)
