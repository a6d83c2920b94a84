"""Sizes that may not grow: methods of a class, lines of a file, lines of a function.

A part that is too large is split by responsibility, not cut in two. ``FILES`` and ``CLASSES`` name the parts
that were larger when the rule came. They only shrink: an entry goes when its part has been split.
"""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/millpond"
GENERATED = SOURCE / "wire/kafka/messages"  # by codegen

FILE_LINES_MAX = 600
CLASS_METHODS_MAX = 40
FUNCTION_LINES_MEDIAN_MAX = 8
FUNCTION_LINES_P95_MAX = 30

# Tables: one entry after the other, no logic to split.
TABLES = {
    "base/errors.py",
    "metadata/broker_configs.py",
}

# File → lines that it may have until it is split.
FILES = {
    "engine/quorum/quorum_host.py": 744,
    "log/log_dir.py": 732,
    "log/partition_log.py": 1024,
    "log/segment.py": 663,
    "raft/replica.py": 962,
}

# Class → methods that it may have until it is split.
CLASSES = {
    "client/consumer.py:Consumer": 46,
    "engine/quorum/quorum_host.py:QuorumHost": 62,
    "frontend/amqp/session.py:AmqpSession": 46,
    "frontend/kafka/session.py:KafkaSession": 43,
    "log/log_dir.py:LogDir": 43,
    "log/partition_log.py:PartitionLog": 65,
    "raft/replica.py:Replica": 66,
}


class Sizes(NamedTuple):
    """What one source file has."""

    lines: int
    classes: dict[str, int]
    functions: list[int]


def sizes_of(source: str) -> Sizes:
    """Measure a source text."""
    classes: dict[str, int] = {}
    functions: list[int] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            classes[node.name] = sum(
                isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body
            )
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            functions.append(node.end_lineno - node.lineno + 1)
    return Sizes(len(source.splitlines()), classes, functions)


def sources() -> Iterator[tuple[str, Sizes]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if GENERATED not in path.parents:
            yield path.relative_to(SOURCE).as_posix(), sizes_of(path.read_text())


@pytest.fixture(scope="module")
def measured() -> dict[str, Sizes]:
    return dict(sources())


def too_large(found: dict[str, int], limit: int, known: dict[str, int]) -> list[str]:
    """Return what is larger than the limit, or than its exception."""
    return [
        f"{name} has {size}, more than {known.get(name, limit)}: split it by responsibility"
        for name, size in found.items()
        if size > known.get(name, limit)
    ]


def test_files_are_short(measured: dict[str, Sizes]) -> None:
    lines = {name: sizes.lines for name, sizes in measured.items() if name not in TABLES}
    assert not too_large(lines, FILE_LINES_MAX, FILES)


def test_classes_have_few_methods(measured: dict[str, Sizes]) -> None:
    methods = {
        f"{name}:{cls}": count
        for name, sizes in measured.items()
        for cls, count in sizes.classes.items()
    }
    assert not too_large(methods, CLASS_METHODS_MAX, CLASSES)


def test_functions_are_short(measured: dict[str, Sizes]) -> None:
    lines = sorted(length for sizes in measured.values() for length in sizes.functions)
    assert statistics.median(lines) <= FUNCTION_LINES_MEDIAN_MAX
    assert lines[len(lines) * 95 // 100] <= FUNCTION_LINES_P95_MAX


def test_a_planted_class_is_too_large() -> None:
    source = "class Big:\n" + "".join(f"    def f{number}(self): ...\n" for number in range(41))
    sizes = sizes_of(source)
    assert sizes.lines == 42
    assert too_large(sizes.classes, CLASS_METHODS_MAX, {}) != []
    assert too_large(sizes.classes, CLASS_METHODS_MAX, {"Big": 41}) == []
    assert too_large(sizes.classes, CLASS_METHODS_MAX, {"Big": 40}) != []
