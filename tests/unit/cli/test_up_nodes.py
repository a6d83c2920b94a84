"""What `millpond up --nodes` shows: lines with their node, events in words, a table."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from millpond.cli.up_nodes import JsonLines, NodeState, PlainLines, Scene, _Witness, table
from millpond.server.local_cluster import LocalCluster, LocalNode


@pytest.fixture
def scene() -> Scene:
    nodes = tuple(
        LocalNode(node_id=number, host="127.0.0.1", port=9091 + number, data=Path(f"node-{number}"))
        for number in (1, 2)
    )
    plan = LocalCluster(cluster_id="x", listener="PLAINTEXT", nodes=nodes)
    return Scene(plan=plan, nodes={node.node_id: NodeState(node=node) for node in nodes})


def test_a_node_that_dies_is_said_in_words(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    observer = _Witness(scene, PlainLines())
    observer.started(1, 71)
    observer.said(1, "hello")
    observer.ended(1, "was ended by SIGKILL", 2.0)
    assert scene.nodes[1].state == "died"
    observer.started(1, 72)
    assert scene.nodes[1].state == "starting"
    observer.ended(1, "ended with 0", None)
    assert capsys.readouterr().out.splitlines() == [
        "node 1 | hello",
        "millpond | node 1 (pid 71) was ended by SIGKILL; it is started again in 2 s",
        "millpond | node 1: starting again, pid 72",
    ]


def test_lines_for_programs_are_objects(capsys: pytest.CaptureFixture[str]) -> None:
    lines = JsonLines()
    lines.line(2, '{"level": "info", "message": "ready"}')
    lines.line(2, "Traceback")
    lines.event("all nodes have stopped")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"node": 2, "level": "info", "message": "ready"},
        {"node": 2, "message": "Traceback"},
        {"message": "all nodes have stopped"},
    ]


def test_the_table_has_every_node(scene: Scene) -> None:
    scene.nodes[1].state, scene.nodes[1].role, scene.nodes[1].starts = "ready", "leader", 3
    scene.quorum = "node 1 leads the quorum in epoch 4"
    console = Console(file=io.StringIO(), width=120)
    console.print(table(scene))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "node 1 leads the quorum in epoch 4" in shown
    first = next(line.split() for line in shown.splitlines() if "127.0.0.1:9092" in line)
    assert first[:4] == ["1", "127.0.0.1:9092", "ready", "leader"]
    assert "2" in first
    assert not scene.is_ready
    scene.nodes[2].state = "ready"
    assert scene.is_ready
