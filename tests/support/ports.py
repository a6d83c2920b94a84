"""Loopback ports and bounded waiting, for tests that start real processes."""

import contextlib
import random
import socket
import time
from collections.abc import Callable

# Below what outgoing connections are given, so that no client sits on a server's port while it restarts.
_PORTS = range(12_000, 32_000)


def free_port() -> int:
    """Answer a loopback port that was free a moment ago."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


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
