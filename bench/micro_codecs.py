"""Measures checksums and compression of a batch, by library.

The payload is JSON of the kind that services log. crc32c is compared with the standard library's crc32 (a
different polynomial; only the speed is comparable). Libraries that are not installed are left out.

    python -m bench.micro_codecs [--rounds 7]
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import random
import time
import zlib
from collections.abc import Callable
from statistics import median
from typing import Any

import cramjam
import crc32c

BLOCK = 15_000


def payload() -> bytes:
    chance = random.Random(3)
    lines: list[bytes] = []
    while sum(map(len, lines)) < BLOCK:
        event = {
            "time": 1_700_000_000_000 + chance.randrange(10**6),
            "service": chance.choice(["cart", "search", "login", "payment"]),
            "path": f"/api/v1/item/{chance.randrange(10_000)}",
            "status": chance.choice([200, 200, 200, 201, 404, 500]),
            "took_ms": round(chance.expovariate(0.05), 3),
            "user": f"{chance.getrandbits(64):016x}",
        }
        lines.append(json.dumps(event).encode() + b"\n")
    return b"".join(lines)[:BLOCK]


def microseconds(work: Callable[[], object]) -> float:
    repeats, started = 0, time.perf_counter()
    while time.perf_counter() - started < 0.02:
        work()
        repeats += 1
    return 1e6 * (time.perf_counter() - started) / repeats


def interleaved(jobs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    samples: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            samples[name].append(microseconds(job))
    return {name: median(times) for name, times in samples.items()}


def optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def checksums(rounds: int) -> None:
    google = optional("google_crc32c")
    sizes = {"128 B": 128, "1 KB": 1024, "16 KB": 16 << 10, "1 MB": 1 << 20}
    print("| checksum of | crc32c | crc32c of a memoryview | zlib.crc32 | google-crc32c |")
    print("|---|--:|--:|--:|--:|")
    for name, size in sizes.items():
        data = random.Random(1).randbytes(size)
        view = memoryview(bytearray(data))
        jobs: dict[str, Callable[[], object]] = {
            "crc32c": lambda data=data: crc32c.crc32c(data),  # type: ignore[misc]
            "view": lambda view=view: crc32c.crc32c(view),  # type: ignore[misc]
            "zlib": lambda data=data: zlib.crc32(data),  # type: ignore[misc]
        }
        if google is not None:
            jobs["google"] = lambda data=data: google.value(data)  # type: ignore[misc]
        times = interleaved(jobs, rounds)
        row = [_speed(times.get(job), size) for job in ("crc32c", "view", "zlib", "google")]
        print(f"| {name} | {' | '.join(row)} |")


def _speed(microseconds_each: float | None, size: int) -> str:
    if microseconds_each is None:
        return "-"
    return f"{microseconds_each:.2f} µs, {size / microseconds_each / 1e3:.1f} GB/s"


def codecs() -> dict[str, tuple[Callable[[bytes], Any], Callable[[Any], Any]]]:
    found: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], Any]]] = {
        "gzip, standard library": (lambda data: gzip.compress(data, 6), gzip.decompress),
        "gzip, cramjam": (cramjam.gzip.compress, cramjam.gzip.decompress),
        "snappy raw, cramjam": (cramjam.snappy.compress_raw, cramjam.snappy.decompress_raw),
        "lz4, cramjam (its default level)": (cramjam.lz4.compress, cramjam.lz4.decompress),
        "lz4, cramjam level 1": (
            lambda data: cramjam.lz4.compress(data, level=1),
            cramjam.lz4.decompress,
        ),
        "zstd, cramjam": (cramjam.zstd.compress, cramjam.zstd.decompress),
        "zstd, cramjam level 3": (
            lambda data: cramjam.zstd.compress(data, level=3),
            cramjam.zstd.decompress,
        ),
    }
    lz4, zstandard = optional("lz4.frame"), optional("zstandard")
    if lz4 is not None:
        found["lz4, lz4"] = (lz4.compress, lz4.decompress)
    if zstandard is not None:
        found["zstd, zstandard"] = (
            zstandard.ZstdCompressor().compress,
            zstandard.ZstdDecompressor().decompress,
        )
    return found


def compression(rounds: int) -> None:
    data = payload()
    print(f"| {len(data):,} B of JSON | compress, µs | decompress, µs | ratio |")
    print("|---|--:|--:|--:|")
    jobs: dict[str, Callable[[], object]] = {}
    ratios = {}
    for name, (compress, decompress) in codecs().items():
        small = bytes(compress(data))
        assert bytes(decompress(small)) == data, name
        ratios[name] = len(data) / len(small)
        jobs[f"{name} c"] = lambda compress=compress: compress(data)  # type: ignore[misc]
        jobs[f"{name} d"] = lambda decompress=decompress, small=small: decompress(small)  # type: ignore[misc]
    times = interleaved(jobs, rounds)
    for name, ratio in ratios.items():
        print(f"| {name} | {times[f'{name} c']:.0f} | {times[f'{name} d']:.0f} | {ratio:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro_codecs")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    checksums(options.rounds)
    print()
    compression(options.rounds)


if __name__ == "__main__":
    main()
