"""`python -m bench`: Millpond beside Apache Kafka on this machine; `make bench` calls it.

    python -m bench                     the log and the wire, at most 25 minutes
    python -m bench groups              groups, transactions, commits, share groups, at most 6 minutes
    python -m bench --quick             a smaller everything, at most 4 minutes; writes no document
    python -m bench --only round-trip   cells whose name starts with or matches this; the same
    python -m bench --list              names of the cells
    python -m bench --no-kafka          Millpond alone
    python -m bench amqp                RabbitMQ's clients, beside RabbitMQ, at most 12 minutes
    python -m bench cluster             three nodes beside three, at most 11 minutes
    python -m bench faults              how long clients wait when a node fails, at most 12 minutes
    python -m bench timers              durable timers, alone, at most 4 minutes
    python -m bench spark               Spark's formats beside each other, at most 15 minutes

Both brokers run at the same time and idle while the other is measured; each cell is measured A, B, A, B ...
Groups of cells that measure memory or growth get fresh brokers. Everything is on loopback, the data is in a
temporary directory that is removed at the end, and only processes started here are stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from tests.support.processes import java_tools

from bench import groups as group_cells
from bench import growth, latency, machine, rdkafka, throughput
from bench.brokers import KAFKA, MILLPOND, KafkaBroker, first_produce, make_broker
from bench.model import FULL, QUICK, Results, Scale
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


def main() -> None:
    if sys.argv[1:2] == ["spark"]:
        from bench import spark

        spark.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["timers"]:
        from bench.timers import main as timers_main

        timers_main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["amqp"]:
        from bench.amqp import main as amqp_main

        amqp_main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["cluster"]:
        from bench import cluster

        cluster.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["faults"]:
        from bench import faults

        faults.main(sys.argv[2:])
        return
    options = _options()
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="millpond-bench-", dir=options.data) as scratch:
        directory = Path(scratch)
        groups = [
            replace(group, cells=chosen_cells)
            for group in _groups(options.suite, scale, directory)
            if (chosen_cells := tuple(cell for cell in group.cells if wanted(cell, options.only)))
        ]
        if options.list:
            for group in groups:
                for cell in group.cells:
                    print(cell.name)
            return
        chosen = {MILLPOND: options.millpond, KAFKA: options.kafka}
        systems = [system for system, run in chosen.items() if run]
        if KAFKA in systems and (reason := KafkaBroker.missing_reason()):
            raise SystemExit(f"bench: {reason}; or use --no-kafka")
        raise_descriptor_limit()
        # An installed package has its byte code beside it; a check-out must be allowed to keep it too.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        results = Results(
            scale=scale.name if options.suite == "all" else options.suite,
            rounds=options.rounds,
            systems=systems,
            machine=_facts(directory),
        )
        pair = Pair(make=make_broker, wait_ready=lambda one: first_produce(one, "bench-ready"))
        run = Run(results, groups, directory, minutes_max=scale.minutes_max, pair=pair)
        run.everything()
        path = write_json(results, options.output)
    cells = [cell for group in groups for cell in group.cells]
    console = Console()
    console.print(f"Raw samples: {path}")
    document = document_of(options)
    if document is None:
        console.print("Not the whole benchmark: docs/benchmarks.md stays as it is.")
        return
    suite = None if options.suite == "all" else options.suite
    write_document(results, in_report_order(cells), document, source=shown(path), suite=suite)
    console.print(f"Table: {document}")


def _groups(suite: str, scale: Scale, directory: Path) -> list[Group]:
    if suite == "groups":
        cells = tuple(group_cells.cells())
        return [Group(name="groups", cells=cells, properties=group_cells.PROPERTIES)]
    return all_groups(scale, directory)


def all_groups(scale: Scale, directory: Path) -> list[Group]:
    groups = [
        Group(name="start", cells=tuple(latency.start_cells(directory))),
        Group(name="round trips", cells=tuple(latency.cells(scale))),
        Group(name="throughput", cells=tuple(throughput.cells(scale))),
        Group(name="growth: topics", cells=tuple(growth.topic_cells(scale))),
        Group(name="growth: connections", cells=tuple(growth.connection_cells(scale))),
        Group(name="growth: log", cells=tuple(growth.log_cells(scale))),
    ]
    if scale.fresh_brokers:
        return groups
    together = tuple(cell for group in groups[1:] for cell in group.cells)
    return [groups[0], Group(name="all", cells=together)]


def _facts(directory: Path) -> dict[str, object]:
    facts = machine.facts(directory)
    facts["librdkafka"] = rdkafka.version()
    facts["kafka"] = next(
        (jar.stem.rpartition("-")[2] for jar in java_tools.jars().glob("kafka-server-[0-9]*.jar")),
        "not installed",
    )
    facts["date"] = datetime.now(UTC).strftime("%Y-%m-%d")
    return facts


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("suite", nargs="?", choices=("all", "groups"), default="all")
    parser.add_argument("--quick", action="store_true", help="smaller, at most 4 minutes")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--rounds", type=rounds, default=ROUNDS_MIN, metavar="N")
    parser.add_argument("--kafka", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--millpond", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--list", action="store_true", help="print the names of the cells and end")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "bench" / "results")
    parser.add_argument("--document", type=Path, help="where the table goes (docs/benchmarks.md)")
    parser.add_argument("--data", type=Path, help="parent of the temporary data directory")
    return parser.parse_args()


if __name__ == "__main__":
    main()
