"""Publishers and consumers of AMQP that work while a test breaks something, and what must hold afterwards."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.chaos.amqp_crew import Addresses, Book, Publisher, Reader
from tests.chaos.test_amqp import crew, end
from tests.support.processes.ports import wait_until

WAIT_S = 60.0


class WorkingCrew:
    """A crew that has started."""

    def __init__(self, addresses: Addresses) -> None:
        self.book = Book()
        self.publishers: list[Publisher]
        self.readers: list[Reader]
        self.publishers, self.readers = crew(self.book, addresses)
        for member in (*self.publishers, *self.readers):
            member.start()

    def wait_for(self, condition: Callable[[], bool], what: str) -> float:
        """Wait for something outside the crew; return when it was seen."""
        wait_until(condition, timeout_s=WAIT_S, what=what)
        return time.perf_counter()

    def wait_for_progress(self, since: float, what: str) -> float:
        """Wait until every publisher got a confirm and every reader a delivery after that time."""
        return self.wait_for(lambda: self._all_go_on(since), f"all publish and consume{what}")

    def longest_waits(self) -> str:
        """Return how long each publisher was without a confirm, at most."""
        return ", ".join(f"{one.name}: {one.longest_s:.1f} s" for one in self.publishers)

    def _all_go_on(self, since: float) -> bool:
        confirmed = all(one.confirmed_at > since for one in self.publishers)
        return confirmed and all(one.delivered_at > since for one in self.readers)


@contextmanager
def working_crew(addresses: Addresses, title: str) -> Iterator[WorkingCrew]:
    """Start a crew; at the end every confirmed message is delivered, and none is called new twice."""
    working = WorkingCrew(addresses)
    try:
        working.wait_for_progress(0.0, "")
        yield working
    finally:
        end(working.publishers)
    book = working.book
    working.wait_for(lambda: not book.lost(), "all confirmed is delivered")
    end(working.readers)
    print(f"{title}: {book.report()}; longest waits {working.longest_waits()}")
    assert not book.strange()
    assert not book.falsely_new()
