"""``millpond up --nodes N``: a cluster on this machine, one process for each node, shown while it runs.

On a terminal a table of the nodes stays at the bottom and the nodes' log lines pass above it; elsewhere every
line has its node's number in front, and what happens to a node is said in a line of its own.
"""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import click

from millpond import __version__
from millpond.client import Admin, ClientError, Cluster, QuorumInfo
from millpond.server.failures import ExitCode
from millpond.server.lifecycle import StopSignals, check_interpreter, new_event_loop
from millpond.server.local_cluster import LocalCluster, LocalNode, addresses_of
from millpond.server.protocols import WireProtocol, protocols
from millpond.server.supervisor import Hopeless, Supervisor

if TYPE_CHECKING:
    from rich.console import RenderableType

    from millpond.server.config import Settings

POLL_S = 0.5
CALM_S = 2.0
ASK_S = 2.0
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "bright_red")


@dataclass
class NodeState:
    """The state of a node as it is shown."""

    node: LocalNode
    state: str = "starting"
    role: str = ""
    pid: int = 0
    starts: int = 0


@dataclass
class Scene:
    """Everything that the screen shows."""

    plan: LocalCluster
    nodes: dict[int, NodeState] = field(default_factory=dict)
    quorum: str = "no leader yet"
    # Where each node serves protocols other than Kafka's.
    served: dict[int, dict[WireProtocol, str]] = field(default_factory=dict)
    # Whether it was said that all nodes are ready, and none has died since.
    is_announced: bool = False

    @property
    def is_ready(self) -> bool:
        """Return whether the cluster serves with every node."""
        return all(state.state == "ready" for state in self.nodes.values())


class Screen(Protocol):
    """A display of the nodes' states and of the lines that they write."""

    def line(self, node_id: int, text: str) -> None:
        """Show a line that a node has written."""
        ...

    def event(self, text: str) -> None:
        """Show an event of a node."""
        ...

    def refresh(self) -> None:
        """The scene has changed."""
        ...


def run_nodes(
    settings: "Settings", plan: LocalCluster, passed_on: Sequence[str], *, log_format: str
) -> int:
    """Run until a signal; the exit code."""
    check_interpreter()
    scene = Scene(plan=plan)
    for node in plan.nodes:
        scene.nodes[node.node_id] = NodeState(node=node)
        scene.served[node.node_id] = addresses_of(node, settings)
    commands = {
        node.node_id: [
            sys.executable, "-m", "millpond", "up", *passed_on, *plan.options_of(node, settings),
        ]
        for node in plan.nodes
    }  # fmt: skip
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        if log_format == "text" and sys.stdout.isatty():
            return runner.run(_with_table(scene, commands))
        screen = JsonLines() if log_format == "json" else PlainLines()
        return runner.run(_run(scene, commands, screen))


async def _run(scene: Scene, commands: dict[int, list[str]], screen: Screen) -> int:
    supervisor = Supervisor(commands, _Witness(scene, screen))
    signals = StopSignals(on_second=supervisor.kill)
    signals.install()
    for node in scene.plan.nodes:
        others = scene.served.get(node.node_id, {})
        also = "".join(f", {protocol.title} at {address}" for protocol, address in others.items())
        screen.event(f"node {node.node_id}: {node.address}{also}, data in {node.data}")
    try:
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(_watch(scene, screen))
            stopper = group.create_task(_stop_on(signals, supervisor, screen))
            try:
                clean = await supervisor.run()
            except Hopeless as trouble:
                screen.event(f"node {trouble.node_id} cannot start; the others were stopped")
                return trouble.code
            finally:
                watcher.cancel()
                stopper.cancel()
    finally:
        signals.remove()
    screen.event("all nodes have stopped" + ("" if clean else ", not all of them cleanly"))
    return ExitCode.OK if clean else ExitCode.FAILED


async def _stop_on(signals: StopSignals, supervisor: Supervisor, screen: Screen) -> None:
    name = await signals.wait()
    screen.event(f"{name}: stopping all nodes; a second one ends them at once")
    supervisor.stop()


async def _watch(scene: Scene, screen: Screen) -> None:
    """Ask the nodes how they are, and say when all are there, and when all are there again."""
    while True:
        changed = await _look(scene)
        if changed:
            screen.refresh()
        if scene.is_ready and not scene.is_announced:
            screen.event(f"cluster ready: {len(scene.nodes)} nodes, {scene.quorum}")
            screen.event(f"connect to {scene.plan.bootstrap}")
            for protocol in protocols():
                places = [one[protocol] for one in scene.served.values() if protocol in one]
                if known := [address for address in places if not address.endswith(":0")]:
                    screen.event(f"{protocol.title}: connect to any of {', '.join(known)}")
        scene.is_announced = scene.is_ready
        await asyncio.sleep(CALM_S if scene.is_announced else POLL_S)


async def _look(scene: Scene) -> bool:
    """Return whether anything has changed."""
    before = (scene.quorum, [(state.state, state.role) for state in scene.nodes.values()])
    async with asyncio.TaskGroup() as group:
        asked = {
            node_id: group.create_task(_ask(state.node))
            for node_id, state in scene.nodes.items()
            if state.pid
        }
    told = {node_id: quorum for node_id, task in asked.items() if (quorum := task.result())}
    newest = max(told.values(), key=lambda quorum: quorum.leader_epoch, default=None)
    scene.quorum = "the quorum has no leader"
    voters: set[int] = set()
    if newest is not None:
        voters = {voter.node_id for voter in newest.voters}
        scene.quorum = f"node {newest.leader_id} leads the quorum in epoch {newest.leader_epoch}"
    for node_id, state in scene.nodes.items():
        state.role = "voter" if node_id in voters else ""
        if newest is not None and node_id == newest.leader_id:
            state.role = "leader"
        if state.pid:
            state.state = "ready" if node_id in told else "starting"
    return before != (scene.quorum, [(state.state, state.role) for state in scene.nodes.values()])


async def _ask(node: LocalNode) -> QuorumInfo | None:
    """Return one node's description of the quorum; a node answers as soon as it takes part."""
    try:
        async with asyncio.timeout(ASK_S):
            async with Cluster(node.address, client_id="millpond-up", timeout_s=ASK_S) as cluster:
                return await Admin(cluster).describe_quorum()
    except (ClientError, TimeoutError):
        return None


class _Witness:
    """Hears the supervisor and keeps the scene."""

    def __init__(self, scene: Scene, screen: Screen) -> None:
        self._scene = scene
        self._screen = screen

    def said(self, node_id: int, line: str) -> None:
        self._screen.line(node_id, line)

    def started(self, node_id: int, pid: int) -> None:
        state = self._scene.nodes[node_id]
        state.pid, state.state = pid, "starting"
        state.starts += 1
        if state.starts > 1:
            self._screen.event(f"node {node_id}: starting again, pid {pid}")
        self._screen.refresh()

    def ended(self, node_id: int, how: str, pause_s: float | None) -> None:
        state = self._scene.nodes[node_id]
        pid, state.pid, state.role = state.pid, 0, ""
        # The node may be back before its state is looked at again.
        self._scene.is_announced = False
        state.state = "stopped" if pause_s is None else "died"
        if pause_s is not None:
            self._screen.event(
                f"node {node_id} (pid {pid}) {how}; it is started again in {pause_s:g} s"
            )
        elif how != "ended with 0":
            self._screen.event(f"node {node_id} (pid {pid}) {how}")
        self._screen.refresh()


class PlainLines:
    """For a pipe or a file."""

    def line(self, node_id: int, text: str) -> None:
        """With the node's number in front."""
        click.echo(f"node {node_id} | {text}")

    def event(self, text: str) -> None:
        """In a line of its own."""
        click.echo(f"millpond | {text}")

    def refresh(self) -> None:
        """Lines stay as they are."""


class JsonLines:
    """For programs: one object a line, with the node's number in it."""

    def line(self, node_id: int, text: str) -> None:
        """The node's own object with its number added."""
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            document = {"message": text}
        click.echo(json.dumps({"node": node_id, **document}, ensure_ascii=False))

    def event(self, text: str) -> None:
        """An object without a node."""
        click.echo(json.dumps({"message": text}, ensure_ascii=False))

    def refresh(self) -> None:
        """Lines stay as they are."""


async def _with_table(scene: Scene, commands: dict[int, list[str]]) -> int:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    console.print(f"\n[bold cyan]Millpond[/] {__version__}, {len(scene.nodes)} nodes\n")
    with Live(table(scene), console=console, auto_refresh=False) as live:

        class Terminal:
            def line(self, node_id: int, text: str) -> None:
                colour = _COLOURS[(node_id - 1) % len(_COLOURS)]
                live.console.print(Text(f"node {node_id} | ", style=colour) + Text(text))

            def event(self, text: str) -> None:
                live.console.print(Text(text, style="bold"))

            def refresh(self) -> None:
                live.update(table(scene), refresh=True)

        return await _run(scene, commands, Terminal())


def table(scene: Scene) -> "RenderableType":
    """The nodes and how to connect to them."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    nodes = Table(box=box.SIMPLE_HEAD)
    for name in ("Node", "Address", "State", "Quorum", "Pid", "Restarts", "Data"):
        nodes.add_column(name)
    for node_id, state in scene.nodes.items():
        colour = {"ready": "green", "died": "red"}.get(state.state, "yellow")
        nodes.add_row(
            Text(str(node_id), style=_COLOURS[(node_id - 1) % len(_COLOURS)]),
            state.node.address,
            Text(state.state, style=colour),
            state.role,
            str(state.pid or ""),
            str(max(0, state.starts - 1)),
            os.path.relpath(state.node.data),
        )
    first = scene.plan.nodes[0].address
    try_it = f"millpond cluster status -b {first}   in another terminal; Ctrl-C stops all nodes"
    return Group(nodes, Text(f"  {scene.quorum}; try {try_it}", style="dim"))
