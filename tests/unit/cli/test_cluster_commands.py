"""`millpond cluster`, `node` and `partition` against a fake cluster of three nodes."""

import asyncio
import io
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NoReturn
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from millpond.cli import cli
from millpond.cli.cluster import look
from millpond.cli.cluster_view import NodeView, node_table
from millpond.client import Admin, Cluster, FeatureInfo, LogDirInfo, OutOfTime, QuorumInfo
from millpond.wire.kafka.api import ApiKey
from tests.support.kafka.fake_cluster import NOW_MS, FakeCluster, running
from tests.support.kafka.fake_kafka import tp

Run = Callable[..., Result]


@pytest.fixture
def kafka() -> Generator[FakeCluster, None, None]:
    with running(FakeCluster()) as fake:
        fake.board.place("orders", [1, 2], [2, 3], [3, 1])
        fake.board.settings = {(2, "orders"): {"min.insync.replicas": "1"}}
        yield fake


@pytest.fixture
def run(kafka: FakeCluster) -> Run:
    def run_command(*arguments: str) -> Result:
        result = CliRunner().invoke(cli, [*arguments, "--bootstrap", kafka.bootstrap])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run_command


class TestStatus:
    def test_a_healthy_cluster(self, run: Run) -> None:
        result = run("cluster", "status")
        assert result.exit_code == 0, result.stderr
        assert "healthy, quorum led by node 1 in epoch 7, 1 topic, 3 partitions" in result.stdout
        lines = [line.split("\t") for line in result.stdout.splitlines()]
        assert ["1", "broker+voter (leads the quorum)", "ready", "0", "1", "1", "0"] in [
            [line[0], *line[3:]] for line in lines if len(line) > 3
        ]

    def test_a_quorum_without_a_leader_is_shown_as_that(
        self, run: Run, kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def silent(admin: Admin, *, timeout_s: float | None = None) -> QuorumInfo:
            raise OutOfTime("describing the quorum: not done in 4 s")

        monkeypatch.setattr(Admin, "describe_quorum", silent)
        result = run("cluster", "status")
        assert result.exit_code == 1
        assert "not healthy, quorum without a leader, 1 topic" in result.stdout
        assert "more than half of the voters" in result.stdout
        document = json.loads(run("cluster", "status", "--json").stdout)
        assert {node["state"] for node in document["nodes"]} == {"unknown"}

    def test_in_an_outage_all_that_is_silent_is_waited_for_at_once_and_not_for_long(
        self, kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two nodes of three are gone and nobody leads: each question to them runs out of time."""
        gone = (2, 3)
        asked: list[tuple[str, float]] = []
        all_asked = asyncio.Event()

        async def silent(what: str, timeout_s: float | None) -> NoReturn:
            assert timeout_s is not None
            asked.append((what, timeout_s))
            if len(asked) == 1 + 2 * len(gone):
                all_asked.set()
            await all_asked.wait()
            raise OutOfTime(what)

        async def quorum(admin: Admin, *, timeout_s: float | None = None) -> QuorumInfo:
            await silent("quorum", timeout_s)

        features, directories = Admin.describe_features, Admin.describe_log_dirs

        async def describe_features(
            admin: Admin, node_id: int, *, timeout_s: float | None = None
        ) -> dict[str, FeatureInfo]:
            if node_id in gone:
                await silent(f"features {node_id}", timeout_s)
            return await features(admin, node_id, timeout_s=timeout_s)

        async def describe_log_dirs(
            admin: Admin, *, nodes: list[int], timeout_s: float | None = None, offline: bool
        ) -> list[LogDirInfo]:
            if nodes[0] in gone:
                await silent(f"directories {nodes[0]}", timeout_s)
            return await directories(admin, nodes=nodes, timeout_s=timeout_s, offline=offline)

        monkeypatch.setattr(Admin, "describe_quorum", quorum)
        monkeypatch.setattr(Admin, "describe_features", describe_features)
        monkeypatch.setattr(Admin, "describe_log_dirs", describe_log_dirs)

        async def story() -> None:
            async with Cluster(kafka.bootstrap) as cluster, asyncio.timeout(60):
                view = await look(Admin(cluster))
            assert not view.is_healthy
            assert view.names_of("no controller")
            assert view.names_of("log directories unknown") == ("node 2", "node 3")

        asyncio.run(story())
        assert max(timeout_s for _what, timeout_s in asked) <= 5

    def test_a_voter_that_has_not_registered_yet_is_not_called_ready(
        self, run: Run, kafka: FakeCluster
    ) -> None:
        kafka.board.gone = {3}
        for placed in kafka.board.partitions.values():
            placed.replicas = [1, 2]
            placed.in_sync = [1, 2]
            placed.leader = 1
        nodes = json.loads(run("cluster", "status", "--json").stdout)["nodes"]
        assert [(node["node"], node["state"]) for node in nodes] == [
            (1, "ready"), (2, "ready"), (3, "joining"),
        ]  # fmt: skip
        result = run("cluster", "status")
        assert result.exit_code == 1
        assert "not healthy" in result.stdout
        assert "voter joining\t1\tnode 3" in result.stdout

    def test_a_replica_that_was_shut_off_is_named(self, run: Run, kafka: FakeCluster) -> None:
        kafka.board.shut_off = {(3, tp("orders", 1))}
        result = run("cluster", "status")
        assert result.exit_code == 1
        assert "replica shut off\t1\torders-1 (node 3)" in result.stdout

    def test_a_directory_that_is_offline_is_named(self, run: Run, kafka: FakeCluster) -> None:
        kafka.board.offline_dirs = {2}
        result = run("cluster", "status")
        assert result.exit_code == 1
        assert "log directory offline\t1\tnode 2:/data: No space left on device" in result.stdout

    def test_damaged_offsets_are_named(self, run: Run, kafka: FakeCluster) -> None:
        kafka.board.damaged[3, tp("orders", 1)] = (7, 12)
        result = run("cluster", "status")
        assert result.exit_code == 1
        assert "damaged records\t1\torders-1 (node 3)" in result.stdout
        assert "node 3: orders-1: offsets 7 to 11 are damaged (wrong checksum); " in result.stdout

    def test_the_controllers_reason_is_told_for_a_fenced_node(
        self, run: Run, kafka: FakeCluster
    ) -> None:
        kafka.board.fenced = {3}
        kafka.board.fence_reasons[3] = "process-ended"
        result = run("cluster", "status")
        assert result.exit_code == 1
        assert "node 3 is fenced: its process has ended; its log says why" in result.stdout
        found = json.loads(run("cluster", "status", "--json").stdout)["findings"]
        (fenced,) = [one for one in found if one["kind"] == "fenced"]
        assert fenced["details"] == [
            "node 3 is fenced: its process has ended; its log says why; start it again"
        ]

    def test_writing_where_nobody_leads_ends_when_patience_does_and_says_why(
        self, run: Run, kafka: FakeCluster
    ) -> None:
        kafka.board.partitions[tp("orders", 1)].leader = -1
        result = run("produce", "orders", "a", "--partition", "1", "--timeout", "0.3")
        assert result.exit_code == 3
        assert "orders-1: not done in 0.3 s" in result.stderr

    def test_the_nodes_fit_a_narrow_terminal(self) -> None:
        drawn = io.StringIO()
        console = Console(width=80, file=drawn)
        nodes = [
            NodeView(
                node_id=number,
                address=f"127.0.0.1:1909{number}",
                rack="room-a",
                roles=("broker", "voter"),
                is_fenced=False,
                is_registered=True,
                is_known=True,
                leads_quorum=number == 1,
                metadata_lag=0,
                led=10,
                followed=20,
                out_of_sync=0,
            )
            for number in (1, 2)
        ]
        console.print(node_table(nodes))
        lines = drawn.getvalue().splitlines()
        assert [line.split() for line in lines if "127.0.0.1" in line] == [
            ["1", "127.0.0.1:19091", "room-a", "broker+voter", "*", "ready", "0", "10", "20", "0"],
            ["2", "127.0.0.1:19092", "room-a", "broker+voter", "ready", "0", "10", "20", "0"],
        ]

    def test_trouble_is_named_and_the_exit_code_says_so(self, run: Run, kafka: FakeCluster) -> None:
        board = kafka.board
        board.fenced = {3}
        board.ends[3] = 90
        board.partitions[tp("orders", 1)].in_sync = [2]
        board.partitions[tp("orders", 2)].in_sync = [3]
        board.partitions[tp("orders", 2)].leader = -1
        result = run("cluster", "status", "--json")
        assert result.exit_code == 1
        document = json.loads(result.stdout)
        assert document["healthy"] is False
        assert document["quorum"] == {
            "leader": 1, "epoch": 7, "high_watermark": 99, "voters": [1, 2, 3],
        }  # fmt: skip
        assert document["under_replicated"] == ["orders-1", "orders-2"]
        assert document["at_min_isr"] == ["orders-1", "orders-2"]
        assert document["under_min_isr"] == []
        assert document["offline"] == ["orders-2"]
        third = document["nodes"][2]
        assert (third["state"], third["metadata_lag"]) == ("fenced", 10)
        assert (third["leads"], third["follows"], third["out_of_sync"]) == (0, 2, 1)

    def test_a_factor_below_the_minimum_is_no_trouble_by_itself(
        self, run: Run, kafka: FakeCluster
    ) -> None:
        kafka.board.place("single", [1])
        kafka.board.settings[2, "single"] = {"min.insync.replicas": "2"}
        assert json.loads(run("cluster", "status", "--json").stdout)["under_min_isr"] == []


class TestNodes:
    def test_draining_moves_everything_away_and_elects(self, run: Run, kafka: FakeCluster) -> None:
        result = run("node", "drain", "3", "--throttle", "1000000")
        assert result.exit_code == 0, result.stderr
        assert "node 3: 2 partitions moved away" in result.stdout
        placed = kafka.board.partitions.values()
        assert [item.replicas for item in placed] == [[1, 2], [2, 1], [2, 1]]
        assert all(item.leader == item.replicas[0] for item in placed)

    def test_the_throttle_is_set_and_taken_back(self, run: Run, kafka: FakeCluster) -> None:
        run("node", "drain", "3", "--throttle", "1000000")
        seen = kafka.board.seen_settings
        assert (4, "3", "leader.replication.throttled.rate", "1000000") in seen
        assert (2, "orders", "follower.replication.throttled.replicas", "1:1,2:2") in seen
        kept = [value for _, values in kafka.board.settings.items() for value in values]
        assert kept == ["min.insync.replicas"]

    def test_a_dry_run_is_a_plan_for_kafkas_tool_and_moves_nothing(
        self, run: Run, kafka: FakeCluster
    ) -> None:
        result = run("node", "drain", "3", "--dry-run", "--json")
        assert json.loads(result.stdout)["partitions"][0]["replicas"] == [2, 1]
        assert kafka.asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS) == 0

    def test_what_cannot_be_drained_is_explained(self, run: Run, kafka: FakeCluster) -> None:
        kafka.board.place("wide", [1, 2, 3])
        result = run("node", "drain", "3")
        assert result.exit_code == 1
        assert "wide-0 has 3 replicas" in result.stderr
        assert "--leaders-only" in result.stderr
        assert run("node", "drain", "9").exit_code == 1

    def test_only_leaders(self, run: Run, kafka: FakeCluster) -> None:
        result = run("node", "drain", "3", "--leaders-only")
        assert result.exit_code == 0, result.stderr
        assert kafka.board.partitions[tp("orders", 2)].leader == 1
        assert sorted(kafka.board.partitions[tp("orders", 2)].replicas) == [1, 3]

    def test_a_node_leaves_when_it_is_empty_and_stopped(self, run: Run, kafka: FakeCluster) -> None:
        holds = run("node", "remove", "3")
        assert (holds.exit_code, "still holds 2 partitions" in holds.stderr) == (1, True)
        run("node", "drain", "3")
        runs = run("node", "remove", "3")
        assert (runs.exit_code, "is running" in runs.stderr) == (1, True)
        kafka.board.fenced = {3}
        gone = run("node", "remove", "3")
        assert gone.exit_code == 0, gone.stderr
        assert (sorted(kafka.board.voters), kafka.board.gone) == ([1, 2], {3})

    def test_a_node_that_has_just_stopped_leaves_when_the_controller_fences_it(
        self, run: Run, kafka: FakeCluster
    ) -> None:
        run("node", "drain", "3")
        kafka.board.stopping = {3: 3}
        gone = run("node", "remove", "3")
        assert gone.exit_code == 0, gone.stderr
        assert "waiting until the controller fences it" in gone.stderr
        assert (sorted(kafka.board.voters), kafka.board.gone) == ([1, 2], {3})

    def test_a_node_that_follows_gets_a_vote(self, run: Run, kafka: FakeCluster) -> None:
        del kafka.board.voters[3]
        result = run("node", "add", "3")
        assert result.exit_code == 0, result.stderr
        assert "node 3: votes now" in result.stdout
        assert sorted(kafka.board.voters) == [1, 2, 3]
        assert "has a vote already" in run("node", "add", "3").stdout
        unknown = run("node", "add", "8")
        assert (unknown.exit_code, "start it first" in unknown.stderr) == (1, True)

    def test_a_disk_that_was_removed_before_does_not_get_the_vote_of_the_new_one(
        self, run: Run, kafka: FakeCluster
    ) -> None:
        """A leader lists observers for minutes after their last fetch."""
        old, board = UUID(int=1), kafka.board
        board.observers = [(3, old)]
        board.fetched_ms[old] = NOW_MS - 60_000
        del board.voters[3]
        result = run("node", "add", "3")
        assert result.exit_code == 0, result.stderr
        assert board.voters[3] == kafka.directories[3]

    def test_a_replaced_disk_gets_the_vote_of_the_one_that_is_gone(
        self, run: Run, kafka: FakeCluster
    ) -> None:
        old, board = UUID(int=1), kafka.board
        board.voters[3] = old
        result = run("node", "add", "3")
        assert "has a vote already" in result.stdout, "both follow: it may be a second process"
        assert "a second process was started with this node.id" in result.stderr
        assert board.voters[3] == old

        board.fetched_ms[old] = NOW_MS - 60_000
        result = run("node", "add", "3")
        assert result.exit_code == 0, result.stderr
        assert f"its old directory {old} has no vote any more" in result.stdout
        assert board.voters[3] == kafka.directories[3]
        assert "has a vote already" in run("node", "add", "3").stdout

    def test_the_last_voter_stays(self, run: Run, kafka: FakeCluster) -> None:
        for other in (1, 2):
            del kafka.board.voters[other]
        result = run("node", "remove", "3", "--force")
        assert (result.exit_code, "only voter" in result.stderr) == (1, True)


class TestPartitions:
    def test_all_or_only_those_in_trouble(self, run: Run, kafka: FakeCluster) -> None:
        kafka.board.partitions[tp("orders", 1)].leader = 3
        every = run("partition", "list").stdout.splitlines()
        assert len(every) == 4
        some = json.loads(run("partition", "list", "--unhealthy", "--json").stdout)
        assert [item["partition"] for item in some] == [1]
        assert some[0]["states"] == ["not the preferred leader"]
        named = json.loads(run("partition", "list", "orders:0,2", "--json").stdout)
        assert [item["partition"] for item in named] == [0, 2]
        missing = run("partition", "list", "orders:7")
        assert (missing.exit_code, "orders-7" in missing.stderr) == (1, True)

    def test_moves_show_how_far_they_are(self, run: Run, kafka: FakeCluster) -> None:
        result = run("partition", "reassign", "orders", "--to", "1,3,2")
        assert result.exit_code == 0, result.stderr
        assert result.stdout.splitlines() == [
            "orders-0: moved to 1,3 (1 of 3)",
            "orders-1: moved to 3,2 (2 of 3)",
            "orders-2: moved to 2,1 (3 of 3)",
        ]
        again = run("partition", "reassign", "orders", "--to", "1,3,2")
        assert (again.exit_code, "so already" in again.stderr) == (0, True)

    def test_a_plan_of_kafkas_tool(self, run: Run, kafka: FakeCluster, tmp_path: Path) -> None:
        plan = tmp_path / "plan.json"
        plan.write_text(
            '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2,1]}]}'
        )
        result = run("partition", "reassign", "--plan", str(plan))
        assert result.stdout == "orders-0: moved to 3,2,1 (1 of 1)\n"
        assert kafka.board.partitions[tp("orders")].replicas == [3, 2, 1]

    def test_all_that_is_to_be_moved_must_be_there(
        self, run: Run, kafka: FakeCluster, tmp_path: Path
    ) -> None:
        before = kafka.board.partitions[tp("orders")].replicas
        plan = tmp_path / "plan.json"
        plan.write_text(
            '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2,1]},'
            '{"topic":"nowhere","partition":0,"replicas":[3]}]}'
        )
        named = run("partition", "reassign", "orders", "nowhere", "--to", "3,1")
        planned = run("partition", "reassign", "--plan", str(plan))
        for refused in (named, planned):
            assert refused.exit_code == 1
            assert "nowhere" in refused.stderr
            assert "nothing is moved" in refused.stderr
        assert kafka.board.partitions[tp("orders")].replicas == before

    def test_what_takes_too_long_goes_on_and_can_be_stopped(
        self, run: Run, kafka: FakeCluster
    ) -> None:
        kafka.board.stuck = True
        late = run("partition", "reassign", "orders:0", "--to", "3,1", "--timeout-move", "0.1")
        assert (late.exit_code, "the moves go on" in late.stderr) == (1, True)
        stopped = run("partition", "reassign", "--cancel")
        assert stopped.stdout == "orders-0: stays where it was\n"
        assert kafka.board.partitions[tp("orders")].target is None

    def test_preferred_leaders(self, run: Run, kafka: FakeCluster) -> None:
        kafka.board.partitions[tp("orders", 1)].leader = 3
        assert run("partition", "elect").stdout == "orders-1: elected\n"
        assert "led as it should be" in run("partition", "elect", "orders").stderr
        kafka.board.partitions[tp("orders", 1)].leader = 3
        kafka.board.partitions[tp("orders", 1)].in_sync = [3]
        refused = run("partition", "elect", "orders:1")
        assert (refused.exit_code, "PREFERRED_LEADER" in refused.stderr) == (1, True)

    @pytest.mark.parametrize(
        "arguments",
        [
            ["partition", "reassign", "orders"],
            ["partition", "reassign", "orders", "--to", "1", "--cancel"],
            ["partition", "elect", "--unclean"],
            ["partition", "list", "orders:x"],
        ],
    )
    def test_what_is_asked_wrongly(self, run: Run, arguments: list[str]) -> None:
        assert run(*arguments).exit_code == 2
