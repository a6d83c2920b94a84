"""Measures which event loop, and which kind of protocol, receives large frames most cheaply.

A client streams size-prefixed frames; the server must end up with each frame as one writable buffer (the
produce path patches offsets in place), and answers 20 bytes for each. Compared are `data_received` on a
Protocol, with a bytearray for each frame, and `BufferedProtocol`, which lets the loop write into it.

    python -m bench.micro_event_loop [--rounds 5] [--megabytes 200]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import socket
import struct
import time
from collections.abc import Callable
from statistics import median
from typing import cast

import uvloop

SIZES = {"100 B": 100, "16 KB": 16 << 10, "1 MB": 1 << 20}
ANSWER = bytes(20)
REPORT = struct.Struct(">d")
FRAMES_IN_FLIGHT = 5  # what Java allows itself
SMALL_BUFFER_BYTES = 64 << 10


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class DataReceived(asyncio.Protocol):
    """Received bytes are appended to the frame under construction; the rest starts the next one."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        buffer = self.buffer
        buffer += data
        while len(buffer) >= 4:
            size = int.from_bytes(buffer[:4], "big")
            if size == 0:
                del buffer[:4]
                self.transport.write(REPORT.pack(cpu_seconds()))
                continue
            if len(buffer) < 4 + size:
                return
            if len(buffer) == 4 + size:
                # The usual case with large frames: the buffer becomes the frame, nothing is copied.
                self.on_frame(buffer)
                self.buffer = buffer = bytearray()
            else:
                self.on_frame(buffer[: 4 + size])
                del buffer[: 4 + size]

    def on_frame(self, frame: bytearray) -> None:
        frame[4] = 1  # It must be writable.
        self.transport.write(ANSWER)


class ChunksReceived(DataReceived):
    """As above, but a frame's bytearray is created at its full size and filled by slices."""

    def __init__(self) -> None:
        super().__init__()
        self.frame: bytearray | None = None
        self.filled = 0

    def data_received(self, data: bytes) -> None:
        frame = self.frame
        if frame is None:
            if self.buffer or len(data) < 4:
                super().data_received(data)
                return
            size = 4 + int.from_bytes(data[:4], "big")
            if size <= len(data) or size <= SMALL_BUFFER_BYTES:
                super().data_received(data)
                return
            frame = self.frame = bytearray(size)
            self.filled = 0
        take = min(len(data), len(frame) - self.filled)
        frame[self.filled : self.filled + take] = data if take == len(data) else data[:take]
        self.filled += take
        if self.filled == len(frame):
            self.frame = None
            self.on_frame(frame)
            if take < len(data):
                self.data_received(data[take:])


class PiecesReceived(DataReceived):
    """As above, but the pieces of a large frame are kept as they came and joined once at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.missing = 0

    def data_received(self, data: bytes) -> None:
        if not self.pieces:
            size = 4 + int.from_bytes(data[:4], "big")
            if self.buffer or len(data) < 4 or size <= len(data):
                super().data_received(data)
                return
            self.pieces.append(data)
            self.missing = size - len(data)
            return
        if len(data) < self.missing:
            self.pieces.append(data)
            self.missing -= len(data)
            return
        rest = data[self.missing :]
        self.pieces.append(data[: self.missing] if rest else data)
        frame = bytearray().join(self.pieces)
        self.pieces = []
        self.on_frame(frame)
        if rest:
            self.data_received(rest)


class Buffered(asyncio.BufferedProtocol):
    """The loop reads into our buffer: a small one for heads, the frame's own once its size is known."""

    def __init__(self) -> None:
        self.small = bytearray(SMALL_BUFFER_BYTES)
        self.small_view = memoryview(self.small)
        self.start = self.end = 0
        self.frame: bytearray | None = None
        self.filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self.frame is not None:
            return memoryview(self.frame)[self.filled :]
        return self.small_view[self.end :]

    def buffer_updated(self, nbytes: int) -> None:
        if self.frame is not None:
            self.filled += nbytes
            if self.filled == len(self.frame):
                frame, self.frame = self.frame, None
                self.on_frame(frame)
            return
        self.end += nbytes
        while self.end - self.start >= 4:
            size = int.from_bytes(self.small[self.start : self.start + 4], "big")
            if size == 0:
                self.start += 4
                self.transport.write(REPORT.pack(cpu_seconds()))
                continue
            if self.end - self.start >= 4 + size:
                self.on_frame(self.small[self.start : self.start + 4 + size])
                self.start += 4 + size
                continue
            self.frame = bytearray(4 + size)
            self.filled = self.end - self.start
            self.frame[: self.filled] = self.small_view[self.start : self.end]
            self.start = self.end = 0
            return
        if self.start == self.end:
            self.start = self.end = 0
        elif self.start:
            self.small[: self.end - self.start] = self.small[self.start : self.end]
            self.start, self.end = 0, self.end - self.start

    def on_frame(self, frame: bytearray) -> None:
        frame[4] = 1
        self.transport.write(ANSWER)


PROTOCOLS: dict[str, Callable[[], asyncio.BaseProtocol]] = {
    "data_received, append": DataReceived,
    "data_received, sized frame": ChunksReceived,
    "data_received, joined once": PiecesReceived,
    "BufferedProtocol": Buffered,
}
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


def measure(loop_name: str, protocol: str, size: int, frames: int) -> tuple[float, float]:
    """Return server CPU and wall time for one frame, in microseconds."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        try:
            loop = LOOPS[loop_name]()
            loop.run_until_complete(loop.create_server(PROTOCOLS[protocol], sock=listener))
            loop.run_forever()
        finally:
            os._exit(1)
    try:
        with socket.create_connection(listener.getsockname(), timeout=30) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            frame = struct.pack(">i", size) + b"p" * size
            stream(link, frame, max(1, frames // 10))
            cpu, started = report(link), time.perf_counter()
            stream(link, frame, frames)
            wall = time.perf_counter() - started
            return 1e6 * (report(link) - cpu) / frames, 1e6 * wall / frames
    finally:
        listener.close()
        os.kill(child, 9)
        os.waitpid(child, 0)


def stream(link: socket.socket, frame: bytes, frames: int) -> None:
    sent = answered = 0
    while answered < frames * len(ANSWER):
        while sent < frames and sent - answered // len(ANSWER) < FRAMES_IN_FLIGHT:
            link.sendall(frame)
            sent += 1
        answered += len(link.recv(4096))


def report(link: socket.socket) -> float:
    link.sendall(bytes(4))
    (seconds,) = REPORT.unpack(link.recv(REPORT.size, socket.MSG_WAITALL))
    return float(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro_event_loop")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=200, help="moved in one measurement")
    options = parser.parse_args()
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for _ in range(options.rounds):
        for size_name, size in SIZES.items():
            frames = min(20_000, options.megabytes * 1_000_000 // size)
            for loop_name in LOOPS:
                for protocol in PROTOCOLS:
                    sample = measure(loop_name, protocol, size, frames)
                    found.setdefault((size_name, loop_name, protocol), []).append(sample)
    print("| frame | loop | " + " | ".join(PROTOCOLS) + " |")
    print("|---|---|" + "--:|" * len(PROTOCOLS))
    for size_name in SIZES:
        for loop_name in LOOPS:
            row = []
            for protocol in PROTOCOLS:
                samples = found[size_name, loop_name, protocol]
                cpu, wall = (median(column) for column in zip(*samples, strict=True))
                row.append(f"{cpu:.1f} / {wall:.1f}")
            print(f"| {size_name} | {loop_name} | {' | '.join(row)} |")
    print("\nServer CPU / wall time for one frame, µs, medians.")


if __name__ == "__main__":
    main()
