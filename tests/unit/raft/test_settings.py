"""How the quorum's times fit together."""

import pytest

from millpond.raft.replica import QuorumSettings


@pytest.mark.parametrize(
    ("settings", "wait_ms"),
    [
        (QuorumSettings(), 500),
        (QuorumSettings(request_timeout_ms=300), 150),
        # A leader's own lease is counted from the fetches of a majority, which must come several times in it.
        (QuorumSettings(fetch_timeout_ms=12_000, request_timeout_ms=6_000), 1_000),
        (QuorumSettings(fetch_timeout_ms=12_000, request_timeout_ms=6_000, lease_ms=9_000), 3_000),
    ],
)
def test_a_fetch_waits_for_less_than_what_would_look_like_silence(
    settings: QuorumSettings, wait_ms: int
) -> None:
    assert settings.fetch_wait_ms == wait_ms
