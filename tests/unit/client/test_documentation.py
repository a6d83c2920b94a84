"""The examples of docs/client.md run, in their order, against a real broker."""

import ast
import asyncio
import re
from pathlib import Path
from typing import Any

import millpond
import millpond.client
from millpond.record import Compression, build_batch

DOCUMENT = Path(__file__).parents[3] / "docs" / "client.md"


def test_every_example_runs() -> None:
    examples = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(examples) >= 9
    with millpond.Broker() as broker:
        names: dict[str, Any] = {
            "bootstrap": broker.bootstrap,
            "build_batch": build_batch,
            "Compression": Compression,
            **{name: getattr(millpond.client, name) for name in millpond.client.__all__},
        }
        for number, example in enumerate(examples, 1):
            code = compile(
                example,
                f"{DOCUMENT.name}, example {number}",
                "exec",
                flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            )
            result = eval(code, names)
            if asyncio.iscoroutine(result):
                asyncio.run(asyncio.wait_for(result, 60))
