"""amqplib, the client of JavaScript: confirms, consumers, field tables, errors, calls."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.amqp.conftest import Alike
from tests.interop.amqp.drivers import story_of

JS = Path(__file__).resolve().parents[1] / "js"

pytestmark = pytest.mark.timeout(300)


def node_modules() -> Path:
    """What fetch-deps fills for the present package-lock.json (it may not exist yet)."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("MILLPOND_CACHE") or Path(home) / "millpond")
    key = hashlib.sha256((JS / "package-lock.json").read_bytes()).hexdigest()[:12]
    return cache / f"node-clients-{key}" / "node_modules"


@pytest.fixture
def js(alike: Alike) -> Callable[[str], list[str]]:
    """What a story of the driver said, to both brokers alike."""
    node = shutil.which("node")
    if node is None or not (node_modules().parent / ".complete").exists():
        pytest.skip("node or amqplib is missing (make interop-deps)")
    command = ("env", f"NODE_PATH={node_modules()}", node, str(JS / "stories.js"))
    return lambda name: alike(story_of(command, name))


def test_confirms(js: Callable[[str], list[str]]) -> None:
    lines = js("js_confirms")
    assert lines[:3] == [
        "200 confirmed, 200 there",
        "returned 312 NO_ROUTE 'amq.topic' 'no.body' lost m-1",
        "fits: taken",
    ]
    assert lines[-2:] == ["purged 200", "deleted 0"]


def test_closing_with_much_on_its_way(js: Callable[[str], list[str]]) -> None:
    assert js("js_closing") == ["close without an error"] * 5


def test_consumer(js: Callable[[str], list[str]]) -> None:
    assert js("js_consumer")[:4] == [
        "mine: 1:0,2:1,3:2,4:3",
        "after ack up to the second 5:4,6:5",
        "after nack up to the fourth 7:2*,8:3*",
        "after reject 9:6",
    ]


def test_every_kind_of_field_comes_back(js: Callable[[str], list[str]]) -> None:
    lines = js("js_fields")
    assert 'list [1,"two",[3,{"four":4}],null,true]' in lines
    assert "big 1099511627776" in lines


def test_errors(js: Callable[[str], list[str]]) -> None:
    assert [line.split()[0] for line in js("js_errors")] == [
        *("404", "406", "406", "404", "404", "406", "still", "503")
    ]


def test_remote_calls_without_a_queue_for_answers(js: Callable[[str], list[str]]) -> None:
    assert js("js_remote_calls") == ["one! to one by ''", "two! to two by ''"]
