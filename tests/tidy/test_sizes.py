"""Sizes that a reader can take in: no class over 40 methods, no file over 600 lines.

A tree joins ``KEPT`` when its last larger class or file is split. It only grows.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 600
METHODS_MAX = 40

KEPT = (
    "src/millpond/engine/forwarding",
    "src/millpond/engine/queues",
    "src/millpond/message",
    "src/millpond/queue",
    "src/millpond/rabbit",
)


def oversized(name: str, source: str) -> list[str]:
    """Return what is too large in a file, with what to do."""
    found = []
    lines = source.count("\n")
    if lines > LINES_MAX:
        found.append(f"{name} has {lines} lines; split it by what its parts are responsible for")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = sum(
                isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) for one in node.body
            )
            if methods > METHODS_MAX:
                found.append(
                    f"{name}: class {node.name} has {methods} methods; give some to a part"
                )
    return found


@pytest.mark.parametrize("tree", KEPT)
def test_classes_and_files_stay_small(tree: str) -> None:
    paths = sorted((ROOT / tree).rglob("*.py"))
    assert paths, f"{tree} is not there; correct KEPT"
    found = [
        line for path in paths for line in oversized(str(path.relative_to(ROOT)), path.read_text())
    ]
    assert not found, "\n".join(found)


def test_a_planted_giant_is_found() -> None:
    methods = "\n".join(f"    def verb_{number}(self): ..." for number in range(METHODS_MAX + 1))
    assert len(oversized("one.py", f"class Giant:\n{methods}\n")) == 1
    assert len(oversized("two.py", "x = 1\n" * (LINES_MAX + 1))) == 1
    assert oversized("three.py", f"class Fine:\n{methods.rsplit(chr(10), 1)[0]}\n") == []
