"""`python -m bench amqp`: Millpond beside RabbitMQ, with RabbitMQ's own load generator and with pika.

    python -m bench amqp                at most 18 minutes
    python -m bench amqp --quick        smaller, at most 8 minutes
    python -m bench amqp --only flow    cells whose name starts so or matches so; may be repeated
    python -m bench amqp --list         names of the cells
    python -m bench amqp --no-rabbitmq  Millpond alone

Both brokers run at the same time on loopback and idle while the other is measured. The table goes into
docs/benchmarks.md, between its own marks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from bench import amqp_perf_test, machine
from bench.amqp_brokers import DEFINITIONS, RabbitMqBroker, make_broker, wait_ready
from bench.amqp_cells import (
    FULL,
    QUICK,
    AmqpScale,
    Empty,
    backlog_cells,
    flow_cells,
    idle_cells,
    latency_cells,
    loaded_cells,
    publish_cells,
    routing_cells,
    routing_definitions,
    start_cells,
)
from bench.brokers import MILLPOND, RABBITMQ
from bench.model import Results
from bench.report import write_document, write_json
from bench.run import (
    REPOSITORY,
    ROUNDS_MIN,
    Group,
    Pair,
    Run,
    document_of,
    in_report_order,
    raise_descriptor_limit,
    rounds,
    shown,
    wanted,
)


def main(arguments: list[str]) -> None:
    options = _options(arguments)
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="millpond-bench-", dir=options.data) as scratch:
        directory = Path(scratch)
        groups = [
            replace(group, cells=chosen)
            for group in _groups(scale, directory)
            if (chosen := tuple(cell for cell in group.cells if wanted(cell, options.only)))
        ]
        if options.list:
            for group in groups:
                for cell in group.cells:
                    print(cell.name)
            return
        systems = [MILLPOND, RABBITMQ] if options.rabbitmq else [MILLPOND]
        for reason in (
            amqp_perf_test.missing_reason(),
            RabbitMqBroker.missing_reason() if options.rabbitmq else None,
        ):
            if reason:
                raise SystemExit(f"bench: {reason}")
        raise_descriptor_limit()
        # An installed package has its byte code beside it; a check-out must be allowed to keep it too.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        results = Results(
            scale=scale.name,
            rounds=options.rounds,
            systems=systems,
            machine=_facts(directory),
            peer=RABBITMQ,
        )
        pair = Pair(make=make_broker, wait_ready=wait_ready)
        Run(results, groups, directory, minutes_max=scale.minutes_max, pair=pair).everything()
        path = write_json(results, options.output)
    console = Console()
    console.print(f"Raw samples: {path}")
    document = document_of(options)
    if document is None:
        console.print("Not the whole benchmark: docs/benchmarks.md stays as it is.")
        return
    cells = in_report_order([cell for group in groups for cell in group.cells])
    write_document(results, cells, document, source=shown(path), suite="amqp")
    console.print(f"Table: {document}")


def _groups(scale: AmqpScale, directory: Path) -> list[Group]:
    empty: Empty = {}
    definitions = directory / "definitions.json"
    definitions.write_text(json.dumps(routing_definitions(scale)))
    return [
        Group(name="start", cells=tuple(start_cells(directory))),
        Group(
            name="amqp",
            cells=(
                *idle_cells(),
                *flow_cells(scale, empty),
                *latency_cells(scale),
                *publish_cells(scale),
                *backlog_cells(scale, empty),
                *loaded_cells(),
            ),
        ),
        Group(
            name="routing",
            cells=tuple(routing_cells(scale)),
            properties={DEFINITIONS: str(definitions)},
        ),
    ]


def _facts(directory: Path) -> dict[str, object]:
    facts = machine.facts(directory)
    facts["rabbitmq"] = _rabbitmq_version()
    facts["perf_test"] = amqp_perf_test.version()
    facts["pika"] = version("pika")
    facts["date"] = datetime.now(UTC).strftime("%Y-%m-%d")
    return facts


def _rabbitmq_version() -> str:
    try:
        done = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except OSError:
        return "of an unknown version"
    return done.stdout.strip() or "of an unknown version"


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench amqp", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="smaller, at most 8 minutes")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--rounds", type=rounds, default=ROUNDS_MIN, metavar="N")
    parser.add_argument("--rabbitmq", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--list", action="store_true", help="print the names of the cells and end")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "bench" / "results")
    parser.add_argument("--document", type=Path, help="where the table goes (docs/benchmarks.md)")
    parser.add_argument("--data", type=Path, help="parent of the temporary data directory")
    return parser.parse_args(arguments)
