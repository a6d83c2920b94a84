"""The list of handlers says of each what its module says, which may not be loaded yet."""

import subprocess
import sys
from pathlib import Path

import pytest

from millpond.frontend.kafka import handlers
from millpond.frontend.kafka.handler import Handler
from millpond.frontend.kafka.handlers import HANDLERS, load_all
from tests.support.time.virtual_loop import run

LATER = [one for one in HANDLERS if one.load is not None]

PROGRAM = """
import sys
import millpond.server.app
import millpond.server.kafka_protocol  # which a node with a Kafka listener opens
print(*(name for name in sys.modules if "kafka.handlers." in name or "kafka.messages." in name))
"""


@pytest.mark.parametrize("listed", LATER, ids=lambda one: one.api_key.name)
def test_the_list_agrees_with_the_module(listed: Handler) -> None:
    assert listed.load is not None
    found = listed.load()
    assert (listed.api_key, listed.min_version, listed.max_version) == (
        found.api_key,
        found.min_version,
        found.max_version,
    )
    assert (listed.refuse is None) == (found.refuse is None)


def test_every_module_is_listed() -> None:
    package = Path(handlers.__file__).parent
    names = {one.stem for one in package.glob("*.py") if not one.stem.startswith("_")}
    run(load_all(after_s=0))
    loaded = {name.rpartition(".")[2] for name in sys.modules if name.startswith(handlers.__name__)}
    assert names <= loaded


def test_what_nobody_asked_for_is_not_loaded_at_the_start() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert "millpond.frontend.kafka.handlers.produce" in loaded
    assert "millpond.frontend.kafka.handlers.streams_group_describe" not in loaded
    assert "millpond.wire.kafka.messages.streams_group_describe" not in loaded
    assert len(loaded) < 80
