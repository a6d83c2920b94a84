"""How many connections there may be, which are idle, and how they end at the stop."""

import asyncio
import logging

import pytest

from millpond.base import limits
from millpond.metadata.configs import BrokerConfig
from millpond.server.connections import Connections, connections_max


class ManualClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class FakeConnection:
    """A client's connection as the registry sees it."""

    def __init__(self, connections: Connections, *, stubborn: bool = False) -> None:
        self.touched = True
        self.is_writing = False
        self.ended_by: str | None = None
        self._connections = connections
        self._stubborn = stubborn

    def close(self) -> None:
        if not self._stubborn:
            self._end("close")

    def abort(self) -> None:
        self._end("abort")

    def _end(self, how: str) -> None:
        self.ended_by = how
        self._connections.leave(self)


def registry(
    *,
    total_max: int = 100,
    per_host_max: int = 100,
    idle_ms_max: int = 1000,
    settings: dict[str, str] | None = None,
) -> tuple[Connections, ManualClock]:
    """``settings`` are read with each connection: who changes them alters the settings of a running node."""
    clock = ManualClock()
    given = {} if settings is None else settings
    given.setdefault("max.connections", str(total_max))
    given.setdefault("max.connections.per.ip", str(per_host_max))
    connections = Connections(
        clock=clock,
        setting=lambda name: BrokerConfig(node=given)[name],
        idle_ms_max=idle_ms_max,
    )
    return connections, clock


class TestLimits:
    def test_there_is_room_for_so_many_and_no_more(self) -> None:
        connections, _ = registry(total_max=2)
        first, second, third = (FakeConnection(connections) for _ in range(3))

        assert connections.admit(first, "a")
        assert connections.admit(second, "b")
        assert not connections.admit(third, "c")

        connections.leave(first)
        assert connections.admit(third, "c")

    def test_one_address_may_have_only_its_share(self) -> None:
        connections, _ = registry(per_host_max=1)

        assert connections.admit(FakeConnection(connections), "a")
        assert not connections.admit(FakeConnection(connections), "a")
        assert connections.admit(FakeConnection(connections), "b")

    def test_limits_that_are_altered_count_for_the_next_connection(self) -> None:
        settings = {"max.connections": "1", "max.connections.per.ip": "9"}
        connections, _ = registry(settings=settings)
        assert connections.admit(FakeConnection(connections), "a")
        assert not connections.admit(FakeConnection(connections), "a")

        settings["max.connections"] = "9"
        assert connections.admit(FakeConnection(connections), "a")
        settings["max.connections.per.ip"] = "1"
        # Those that are there stay.
        assert len(connections) == 2
        assert not connections.admit(FakeConnection(connections), "a")
        assert connections.admit(FakeConnection(connections), "b")

    def test_an_address_may_have_a_limit_of_its_own(self) -> None:
        settings = {
            "max.connections.per.ip": "1",
            "max.connections.per.ip.overrides": "10.0.0.1:2,[::1]:0",
        }
        connections, _ = registry(settings=settings)
        admitted = [connections.admit(FakeConnection(connections), "10.0.0.1") for _ in range(3)]
        assert admitted == [True, True, False]
        assert not connections.admit(FakeConnection(connections), "::1")
        assert connections.admit(FakeConnection(connections), "10.0.0.2")

        settings["max.connections.per.ip.overrides"] = ""
        assert connections.admit(FakeConnection(connections), "::1")
        assert not connections.admit(FakeConnection(connections), "10.0.0.2")

    def test_a_host_may_be_named(self) -> None:
        async def story() -> None:
            settings = {"max.connections.per.ip.overrides": "localhost:0"}
            connections, _ = registry(settings=settings)
            while connections.admit(one := FakeConnection(connections), "127.0.0.1"):
                connections.leave(one)
                await asyncio.sleep(0.01)  # the name is looked up in a thread
            assert connections.admit(FakeConnection(connections), "10.0.0.1")

        asyncio.run(asyncio.wait_for(story(), 30))

    def test_connections_beyond_the_rate_are_not_served(self) -> None:
        settings = {"max.connection.creation.rate": "5"}
        connections, clock = registry(settings=settings)
        # As many as the windows of quotas hold, ten seconds' worth, may come at once.
        waits = [connections.wait_ms() for _ in range(60)]
        assert waits[:50] == [0] * 50
        assert all(0 < wait <= 1_000 for wait in waits[50:])
        settings["max.connection.creation.rate"] = "50"
        assert connections.wait_ms() == 0
        settings["max.connection.creation.rate"] = "1"
        assert connections.wait_ms() == 1_000
        clock.ms += 60_000
        assert connections.wait_ms() == 0

    def test_nodes_are_not_counted(self) -> None:
        connections, _ = registry(total_max=1, per_host_max=1)
        client, node, other = (FakeConnection(connections) for _ in range(3))
        assert connections.admit(node, "a", may_be_node=True)
        assert not connections.is_on_trial(node)
        connections.prove(node)
        assert connections.admit(client, "a", may_be_node=True), "the node has left its place"
        # The next one is let in to prove what it is, and then is as good as any.
        assert connections.admit(other, "a", may_be_node=True)
        assert connections.is_on_trial(other)
        connections.prove(other)
        assert not connections.is_on_trial(other)
        assert len(connections) == 3
        # At other doors, and for clients, nothing has changed.
        assert not connections.admit(FakeConnection(connections), "b")
        connections.leave(client)
        for one in (node, other):
            connections.leave(one)
        assert connections.admit(client, "a")
        assert not connections.admit(FakeConnection(connections), "a")

    def test_a_connection_that_came_too_fast_may_be_a_nodes(self) -> None:
        connections, _ = registry(total_max=1)
        fast = FakeConnection(connections)
        assert connections.admit(fast, "a", may_be_node=True)
        assert connections.try_node(fast)
        assert connections.is_on_trial(fast)
        assert not connections.admit(FakeConnection(connections), "b"), "it counts for now"
        connections.prove(fast)
        assert connections.admit(FakeConnection(connections), "b")

    def test_trials_are_few_and_the_oldest_ends_first(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "NODE_TRIALS_MAX", 3)
        connections, _ = registry(total_max=0)

        def tried(host: str) -> FakeConnection:
            one = FakeConnection(connections)
            if not connections.admit(one, host, may_be_node=True):
                one.ended_by = "refused"
            return one

        first, *rest = [tried("client") for _ in range(4)]
        assert first.ended_by == "abort"
        assert [one.ended_by for one in rest] == [None] * 3
        connections.prove(tried("node"))
        # From now on that address goes first: however many others come, they take only each other's place.
        nodes = [tried("node") for _ in range(2)]
        for _ in range(10):
            tried("client")
        assert [one.ended_by for one in nodes] == [None] * 2
        nodes.append(tried("node"))
        assert tried("client").ended_by == "refused"
        nodes.append(tried("node"))
        assert [one.ended_by for one in nodes] == ["abort", None, None, None]
        assert len(connections) == 4

    def test_a_trial_does_not_last(self) -> None:
        connections, clock = registry(total_max=0, idle_ms_max=600_000)
        one, node = (FakeConnection(connections) for _ in range(2))
        for each in (one, node):
            assert connections.admit(each, "a", may_be_node=True)
        connections.prove(node)
        clock.ms += limits.NODE_TRIAL_MS + 1
        one.touched = True
        assert connections.close_idle() == 1
        assert one.ended_by == "abort"
        assert node.ended_by is None

    def test_no_trial_is_begun_when_the_node_stops(self) -> None:
        connections, _ = registry(total_max=0)
        asyncio.run(connections.drain(0.01))
        assert not connections.admit(FakeConnection(connections), "a", may_be_node=True)

    def test_leaving_twice_counts_once(self) -> None:
        connections, _ = registry(per_host_max=2)
        first, second = FakeConnection(connections), FakeConnection(connections)
        connections.admit(first, "a")
        connections.admit(second, "a")

        connections.leave(first)
        connections.leave(first)

        assert len(connections) == 1
        assert connections.admit(FakeConnection(connections), "a")
        assert not connections.admit(FakeConnection(connections), "a")

    def test_a_flood_of_refusals_is_not_a_flood_of_lines(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        connections, _ = registry(total_max=0)

        with caplog.at_level(logging.WARNING, logger="millpond.server.connections"):
            for _ in range(1000):
                assert not connections.admit(FakeConnection(connections), "a")

        assert 1 <= len(caplog.records) <= 10
        assert "max.connections=0" in caplog.text


class TestIdle:
    def test_a_silent_connection_is_closed_and_a_busy_one_is_not(self) -> None:
        connections, clock = registry(idle_ms_max=1000)
        silent, busy = FakeConnection(connections), FakeConnection(connections)
        connections.admit(silent, "a")
        connections.admit(busy, "a")

        for _ in range(4):
            clock.ms += 400
            busy.touched = True
            connections.close_idle()

        assert silent.ended_by == "abort"
        assert busy.ended_by is None

    def test_a_client_that_waits_for_its_answer_is_not_idle(self) -> None:
        connections, clock = registry(idle_ms_max=1000)
        waiting = FakeConnection(connections)
        waiting.is_writing = True
        connections.admit(waiting, "a")

        for _ in range(4):
            clock.ms += 5000
            assert connections.close_idle() == 0

    def test_a_negative_limit_means_never(self) -> None:
        connections, _ = registry(idle_ms_max=-1)

        asyncio.run(asyncio.wait_for(connections.sweep_forever(), 5))


class TestStop:
    def test_what_is_under_way_is_answered_first(self) -> None:
        connections, _ = registry()
        client = FakeConnection(connections)
        client.is_writing = True
        connections.admit(client, "a")

        async def story() -> None:
            async with asyncio.TaskGroup() as tasks:
                drain = tasks.create_task(connections.drain(seconds=10))
                for _ in range(3):
                    await asyncio.sleep(0)
                assert client.ended_by is None
                client.is_writing = False
                await drain

        asyncio.run(story())
        assert client.ended_by == "close"
        assert len(connections) == 0

    def test_nobody_is_let_in_while_stopping(self) -> None:
        connections, _ = registry()
        asyncio.run(connections.drain())

        assert not connections.admit(FakeConnection(connections), "a")

    def test_a_client_that_does_not_go_is_cut_off(self) -> None:
        connections, _ = registry()
        client = FakeConnection(connections, stubborn=True)
        connections.admit(client, "a")

        asyncio.run(connections.drain(seconds=0.05))

        assert client.ended_by == "abort"


@pytest.mark.parametrize(
    ("asked", "open_files", "room"),
    [
        (2**31 - 1, 1024, 768),
        (2**31 - 1, 100_000, 98_976),
        (500, 1024, 500),
        (2**31 - 1, -1, 2**31 - 1),
    ],
)
def test_connections_leave_descriptors_to_the_log(asked: int, open_files: int, room: int) -> None:
    assert connections_max(asked, open_files) == room
