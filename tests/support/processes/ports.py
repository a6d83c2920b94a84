"""Loopback ports and bounded waiting, for tests that start real processes."""

import contextlib
import random
import socket
import sys
import time
from collections.abc import Callable

# Below what outgoing connections are given, so that no client sits on a server's port while it restarts.
_PORTS = range(12_000, 32_000)

# A name for each port that this process has given out, held until it ends: a server that is starting, or
# is down for a moment, has nothing bound, and no other test process may be given its port meanwhile.
_claims: dict[int, socket.socket | None] = {}


def free_port() -> int:
    """Answer a loopback port that is free and that no test on this machine was given before."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(_PORTS)
        if port not in _claims and _is_free(port) and _claim(port):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _claim(port: int) -> bool:
    """Take the port's name, which the kernel gives to one process at a time and takes back from the dead."""
    if sys.platform != "linux":
        _claims[port] = None
        return True
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f"\0millpond-test-port-{port}")
    except OSError:
        holder.close()
        return False
    _claims[port] = holder
    return True


def answers_api_versions(port: int, timeout_s: float = 1.0, *, host: str = "127.0.0.1") -> bool:
    """Tell whether a Kafka server on this port answers ApiVersions v0."""
    request = bytes.fromhex("0000000e 0012 0000 00000007 0004") + b"wait"
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as link:
            link.sendall(request)
            answer = _read_exactly(link, 10)
    except OSError:
        return False
    # size, correlation id, error code
    return answer[4:10] == bytes.fromhex("00000007 0000")


def wait_until(
    ready: Callable[[], bool], *, timeout_s: float, what: str, poll_s: float = 0.02
) -> None:
    """Poll until the condition holds; TimeoutError with the reason when it does not."""
    deadline = _now() + timeout_s
    while not ready():
        if _now() >= deadline:
            raise TimeoutError(f"{what}: not so after {timeout_s} s")
        time.sleep(poll_s)


def _read_exactly(link: socket.socket, size: int) -> bytes:
    data = b""
    with contextlib.suppress(TimeoutError):
        while len(data) < size:
            chunk = link.recv(size - len(data))
            if not chunk:
                break
            data += chunk
    return data


def _now() -> float:
    return time.perf_counter()
