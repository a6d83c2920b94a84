"""Tells one chapter of requests to Millpond and to Kafka, and compares their answers."""

from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

import pytest

from tests.interop.peers import Peer
from tests.interop.test_differential import differences
from tests.support.kafka.wire_client import WireClient


class Telling(Protocol):
    """A teller: sends requests and keeps the answers by label."""

    @property
    def answers(self) -> dict[str, Any]: ...

    def same(self, answer: Any) -> Any:
        """Return an answer without what may differ."""
        ...


TellerT = TypeVar("TellerT", bound=Telling)


def tell_both(
    broker: Peer,
    kafka: Peer,
    make: Callable[[WireClient], TellerT],
    chapter: Callable[[TellerT], None],
    *,
    own_words: Collection[str] = (),
    prepare: Callable[[Peer, WireClient], None] | None = None,
) -> None:
    """Fail if the answers differ, except in differences that name one of ``own_words``."""

    def side(peer: Peer) -> dict[str, Any]:
        with WireClient(peer.port) as link:
            if prepare is not None:
                prepare(peer, link)
            teller = make(link)
            chapter(teller)
            return {label: teller.same(answer) for label, answer in teller.answers.items()}

    ours, theirs = side(broker), side(kafka)
    assert list(ours) == list(theirs)
    differing = [
        f"{label}: {difference}"
        for label in ours
        for difference in differences(ours[label], theirs[label])
        if not any(name in difference for name in own_words)
    ]
    if differing:
        pytest.fail("Millpond and Kafka differ:\n" + "\n".join(differing), pytrace=False)
