"""Ways to get bytes from a segment file to a socket: pread and write, sendfile, or a mapped view.

A server in its own process answers each request byte with one chunk of a file in the page cache, as a Fetch
does; the client reads it all. Printed are the server's CPU and the wall time for one chunk, medians of
interleaved rounds, on both event loops, with and without a CRC-32C over the chunk before it is sent.

    python -m bench.micro_read_path [--rounds 5] [--chunks 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import os
import resource
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import cast

import crc32c
import uvloop

SIZES = {"16 KB": 16 << 10, "64 KB": 64 << 10, "1 MB": 1 << 20}
FILE_BYTES = 64 << 20
REPORT = struct.Struct(">d")


class Server(asyncio.Protocol):
    """One request byte in, one chunk out. Byte 0xff asks for the CPU seconds used so far."""

    def __init__(self, chunk: int, check: bool, path: Path) -> None:
        self.chunk, self.check = chunk, check
        self.descriptor = os.open(path, os.O_RDONLY)
        self.position = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if data == b"\xff":
            usage = resource.getrusage(resource.RUSAGE_SELF)
            self.transport.write(REPORT.pack(usage.ru_utime + usage.ru_stime))
            return
        self.position = (self.position + self.chunk) % (FILE_BYTES - self.chunk)
        self.answer(self.position)

    def answer(self, position: int) -> None:
        raise NotImplementedError


class PreadServer(Server):
    def answer(self, position: int) -> None:
        data = os.pread(self.descriptor, self.chunk, position)
        if self.check:
            crc32c.crc32c(data)
        self.transport.write(data)


class MappedServer(Server):
    """Writes a view of the mapping: no copy by us, but page faults and the loop's copies."""

    def __init__(self, chunk: int, check: bool, path: Path) -> None:
        super().__init__(chunk, check, path)
        self.view = memoryview(mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ))

    def answer(self, position: int) -> None:
        data = self.view[position : position + self.chunk]
        if self.check:
            crc32c.crc32c(data)
        self.transport.write(data)


class SendfileServer(Server):
    """os.sendfile on a duplicate of the socket's descriptor; neither loop lends out its own."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.loop = asyncio.get_running_loop()
        self.out = os.dup(transport.get_extra_info("socket").fileno())

    def connection_lost(self, error: Exception | None) -> None:
        os.close(self.out)

    def answer(self, position: int) -> None:
        if self.check:
            crc32c.crc32c(os.pread(self.descriptor, self.chunk, position))
        self.send(position, self.chunk)

    def send(self, position: int, left: int) -> None:
        while left:
            try:
                sent = os.sendfile(self.out, self.descriptor, position, left)
            except BlockingIOError:
                self.loop.add_writer(self.out, self.resume, position, left)
                return
            position, left = position + sent, left - sent

    def resume(self, position: int, left: int) -> None:
        self.loop.remove_writer(self.out)
        self.send(position, left)


METHODS: dict[str, type[Server]] = {
    "pread + write": PreadServer,
    "sendfile on a dup": SendfileServer,
    "mapped view + write": MappedServer,
}
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


def start_server(
    loop_name: str, method: str, chunk: int, check: bool, path: Path
) -> tuple[int, int]:
    """Fork a server. Return its process id and port."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        try:
            loop = LOOPS[loop_name]()
            server = loop.create_server(lambda: METHODS[method](chunk, check, path), sock=listener)
            loop.run_until_complete(server)
            loop.run_forever()
        finally:
            os._exit(1)
    port = int(listener.getsockname()[1])
    listener.close()
    return child, port


def measure(
    loop_name: str, method: str, chunk: int, check: bool, path: Path, chunks: int
) -> tuple[float, float]:
    """Return server CPU and wall time for one chunk, in microseconds."""
    child, port = start_server(loop_name, method, chunk, check, path)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            buffer = bytearray(chunk)
            ask(link, buffer, chunks // 10)  # warm-up
            cpu, started = server_cpu(link), time.perf_counter()
            ask(link, buffer, chunks)
            wall = time.perf_counter() - started
            return 1e6 * (server_cpu(link) - cpu) / chunks, 1e6 * wall / chunks
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def ask(link: socket.socket, buffer: bytearray, times: int) -> None:
    view = memoryview(buffer)
    for _ in range(times):
        link.sendall(b"\x01")
        got = 0
        while got < len(buffer):
            got += link.recv_into(view[got:])


def server_cpu(link: socket.socket) -> float:
    link.sendall(b"\xff")
    (seconds,) = REPORT.unpack(link.recv(REPORT.size, socket.MSG_WAITALL))
    return float(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro_read_path")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=2_000, help="of 64 KB; fewer of 1 MB")
    options = parser.parse_args()
    found: dict[tuple[str, str, bool, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="millpond-micro-") as directory:
        path = Path(directory) / "segment.log"
        path.write_bytes(os.urandom(1 << 20) * (FILE_BYTES >> 20))
        for _ in range(options.rounds):
            for size_name, size in SIZES.items():
                chunks = max(50, options.chunks * (64 << 10) // max(size, 64 << 10))
                for check in (False, True):
                    for loop_name in LOOPS:
                        for method in METHODS:
                            sample = measure(loop_name, method, size, check, path, chunks)
                            key = (size_name, loop_name, check, method)
                            found.setdefault(key, []).append(sample)
    print("| chunk | loop | CRC | " + " | ".join(METHODS) + " |")
    print("|---|---|---|" + "--:|" * len(METHODS))
    for size_name in SIZES:
        for loop_name in LOOPS:
            for check in (False, True):
                row = []
                for method in METHODS:
                    samples = found[size_name, loop_name, check, method]
                    cpu, wall = (median(column) for column in zip(*samples, strict=True))
                    row.append(f"{cpu:.0f} / {wall:.0f}")
                print(
                    f"| {size_name} | {loop_name} | {'yes' if check else 'no'} | {' | '.join(row)} |"
                )
    print("\nServer CPU / wall time for one chunk, µs, medians.")


if __name__ == "__main__":
    main()
