"""Network namespaces for the nodes of a cluster, so that the ways between them can be cut one by one.

Each node has a namespace with one interface; a bridge joins them with the test's own process, which is
number 0. A cut is silent, as a pulled cable is: packets leave for an address on the link that nobody has, so
neither side hears of it before its own time-outs. Needs root on Linux, and `ip`, `unshare` and `nsenter`.
"""

import contextlib
import functools
import secrets
import shutil
import subprocess
from collections.abc import Iterable
from types import TracebackType

# Locally administered, and nobody's.
NOBODY = "02:00:00:00:00:99"
OUTSIDE = 0


class NetSpaces:
    """`with NetSpaces([1, 2, 3]) as net:` makes them; `net.cut(1, 2)` and `net.heal()` change the ways."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self._nodes = list(nodes)
        self._tag = secrets.token_hex(3)
        self._subnet = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(250)}"
        self._holders: dict[int, subprocess.Popen[bytes]] = {}
        self._cuts: set[tuple[int, int]] = set()

    def address(self, node: int) -> str:
        """Where a node is; 0 is the test's own process."""
        return f"{self._subnet}.{10 + node if node else 1}"

    def prefix(self, node: int) -> list[str]:
        """What a command begins with to run in a node's namespace."""
        return ["nsenter", "-t", str(self._holders[node].pid), "-n"]

    def cut(self, one: int, other: int, *, both_ways: bool = True) -> None:
        """From now on nothing gets from one to the other (and back)."""
        ways = [(one, other), (other, one)] if both_ways else [(one, other)]
        for source, target in ways:
            if (source, target) not in self._cuts:
                self._cuts.add((source, target))
                neighbour = ["neigh", "replace", self.address(target), "lladdr", NOBODY]
                self._ip(source, *neighbour, "nud", "permanent", "dev", self._device(source))

    def isolate(self, node: int, *, clients_too: bool = False) -> None:
        """Cut a node off from all others, and from clients if asked."""
        others = [other for other in self._nodes if other != node]
        for other in [*others, OUTSIDE] if clients_too else others:
            self.cut(node, other)

    def heal(self) -> None:
        """Mend every cut."""
        for source, target in self._cuts:
            device = self._device(source)
            self._ip(source, "neigh", "del", self.address(target), "dev", device)
        self._cuts.clear()

    def __enter__(self) -> "NetSpaces":
        try:
            self._ip(OUTSIDE, "link", "add", self._bridge, "type", "bridge")
            self._ip(OUTSIDE, "addr", "add", f"{self.address(OUTSIDE)}/24", "dev", self._bridge)
            self._ip(OUTSIDE, "link", "set", self._bridge, "up")
            for node in self._nodes:
                self._add(node)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take everything away. A namespace goes when its last process has ended."""
        for node in self._holders:
            with contextlib.suppress(subprocess.CalledProcessError):
                self._ip(OUTSIDE, "link", "del", self._pair(node))
        for holder in self._holders.values():
            holder.kill()
            holder.wait()
        self._holders.clear()
        with contextlib.suppress(subprocess.CalledProcessError):
            self._ip(OUTSIDE, "link", "del", self._bridge)

    @property
    def _bridge(self) -> str:
        return f"mp{self._tag}"

    def _pair(self, node: int) -> str:
        return f"mp{self._tag}n{node}"

    def _device(self, node: int) -> str:
        return "eth0" if node else self._bridge

    def _add(self, node: int) -> None:
        # `exec` in the new namespace tells by its first line that the namespace is there.
        holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "echo; exec sleep 3600"], stdout=subprocess.PIPE
        )
        self._holders[node] = holder
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.stdout.close()
        pair = self._pair(node)
        peer = ["peer", "name", "eth0", "netns", str(holder.pid)]
        self._ip(OUTSIDE, "link", "add", pair, "type", "veth", *peer)
        self._ip(OUTSIDE, "link", "set", pair, "master", self._bridge, "up")
        self._ip(node, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
        self._ip(node, "link", "set", "eth0", "up")
        self._ip(node, "link", "set", "lo", "up")

    def _ip(self, node: int, *arguments: str) -> None:
        prefix = self.prefix(node) if node else []
        subprocess.run([*prefix, "ip", *arguments], check=True, capture_output=True, timeout=20)


@functools.cache
def missing_reason() -> str | None:
    """Why there can be no namespaces here, or None when there can."""
    for tool in ("ip", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    try:
        with NetSpaces([1]):
            return None
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or b""
        return f"not permitted here: {said.decode(errors='replace').strip() or error}"
