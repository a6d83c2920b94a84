"""The demo's broker and its files: removed at the end, or kept for inspection."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

import millpond


def with_broker(work: Callable[[millpond.Broker, Path], bool], *, keep: bool) -> bool:
    """Run ``work`` with an embedded broker and a directory; remove them afterwards, or after Ctrl-C."""
    place = Path(tempfile.mkdtemp(prefix="millpond-demo-"))
    try:
        with millpond.Broker() as broker:
            is_well = work(broker, place)
            if keep:
                _wait(broker, place)
            return is_well
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _wait(broker: millpond.Broker, place: Path) -> None:
    click.echo(f"The broker goes on at {broker.bootstrap}; files are in {place}. Ctrl-C ends it.")
    try:
        while broker.is_running:
            time.sleep(1)
    except KeyboardInterrupt:
        return
