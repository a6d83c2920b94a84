"""The demo's broker and its files: they go at the end, or are kept for a look around."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

import millpond


def with_broker(work: Callable[[millpond.Broker, Path], bool], *, keep: bool) -> bool:
    """Do this with an embedded broker and a directory, which go afterwards, or later: by Ctrl-C."""
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
