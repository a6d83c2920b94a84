"""Celery's Flower, unmodified, beside a worker: what it shows of the broker comes from the management API."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.amqp.celery_app import BROKER, RESULTS, make_app
from tests.support.processes.broker_process import ROOT, MillpondProcess
from tests.support.processes.ports import free_port, wait_until

pytest.importorskip("flower", reason="Flower is not installed (pip install flower)")

QUEUE = "celery.story"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A broker's URL, and where its management API is."""
    amqp, management = free_port(), free_port()
    process = MillpondProcess(tmp_path)
    process.properties["listeners"] = (
        f"PLAINTEXT://127.0.0.1:{process.port},AMQP://127.0.0.1:{amqp},"
        f"MANAGEMENT://127.0.0.1:{management}"
    )
    with process:
        yield f"amqp://guest:guest@127.0.0.1:{amqp}//", f"http://127.0.0.1:{management}/api/"


def test_flower_shows_how_long_queues_are(place: tuple[str, str], tmp_path: Path) -> None:
    url, api = place
    port = free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "FLOWER_UNAUTHENTICATED_API": "true",
        BROKER: url,
        RESULTS: "rpc://",
    }
    application = make_app(url, "rpc://")
    for number in range(3):
        application.send_task("shop.add", (number, 1), ignore_result=True)
    command = [sys.executable, "-m", "celery", "-A", "tests.interop.amqp.celery_app", "flower"]
    words = [f"--port={port}", "--address=127.0.0.1", f"--broker-api={api}"]
    with (
        (tmp_path / "flower.log").open("wb") as log,
        subprocess.Popen(
            [*command, *words], cwd=tmp_path, env=environment, stdout=log, stderr=log
        ) as flower,
    ):
        try:
            wait_until(
                lambda: _lengths(port) == {QUEUE: 3}, timeout_s=60, what="Flower's page", poll_s=0.1
            )
            page = _get(port, "/broker")
        finally:
            flower.terminate()
    assert QUEUE in page
    application.close()


def _lengths(port: int) -> dict[str, int]:
    try:
        rows: Any = json.loads(_get(port, "/api/queues/length"))["active_queues"]
    except (OSError, ValueError):
        return {}  # it starts
    return {row["name"]: row["messages"] for row in rows}


def _get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        text: str = answer.read().decode()
    return text
