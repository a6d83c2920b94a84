"""``millpond log``: look at the files of a log without a broker.

``dump`` shows what is in a file, a partition's directory or a data directory; ``verify`` reads all of it and
says what is wrong. Both only read. Exit codes: 0 done and sound, 1 something is wrong with the data, 2 asked
wrongly.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from millpond.cli.output import Exit, human_bytes, json_option, note, print_json, print_table

if TYPE_CHECKING:
    from millpond.log.verify import Verified

_PATH = click.Path(exists=True, path_type=Path)
_PATHS = click.argument("paths", nargs=-1, required=True, type=_PATH, metavar="PATH...")
_OPTIONAL_PATHS = click.argument("paths", nargs=-1, type=_PATH, metavar="[PATH]...")


@click.group()
def log() -> None:
    """Show and verify the files of a log.

    PATH is a data directory, a partition's directory or a single file. No broker is needed, and nothing is
    changed.
    """


@log.command()
@_PATHS
@click.option(
    "--records", "with_records", is_flag=True, help="Show the records of each batch, too."
)
@click.option("--from", "first_offset", type=int, metavar="OFFSET", help="Begin at this offset.")
@click.option(
    "--max", "batches_max", type=int, metavar="N", help="Stop after N batches or entries."
)
@json_option
def dump(
    paths: tuple[Path, ...],
    with_records: bool,
    first_offset: int | None,
    batches_max: int | None,
    as_json: bool,
) -> None:
    """Show what is in segments, indexes, snapshots and checkpoints.

    \b
    millpond log dump data/orders-0
    millpond log dump data/orders-0/00000000000000000000.log --records
    millpond log dump data/orders-0/00000000000000000000.snapshot --json
    """
    from millpond.cli.log_dump import dump_file, dumpable_files

    wrong = False
    for path in paths:
        for file in dumpable_files(path):
            if not as_json:
                click.secho(str(file), bold=True)
            for entry in dump_file(
                file, with_records=with_records, first_offset=first_offset, entries_max=batches_max
            ):
                wrong = wrong or entry.wrong
                if as_json:
                    print_json({"file": str(file), **entry.fields})
                else:
                    click.echo(entry.text)
    if wrong:
        click.get_current_context().exit(Exit.REFUSED)


@log.command()
@_OPTIONAL_PATHS
@click.option(
    "-d",
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A data directory, as PATH. [millpond-data, if no PATH is given]",
)
@json_option
def verify(paths: tuple[Path, ...], data: Path | None, as_json: bool) -> None:
    """Read every byte and say what is wrong.

    Without a PATH it reads the data directory that `millpond up` takes.

    Checks the checksum and the offsets of every batch, and every index, snapshot and checkpoint against them.
    Exit code 1 if there is a problem; notices do not count.
    """
    if data is not None:
        paths = (*paths, data)
    results = list(_verify_all(paths or _default_data(), quiet=as_json))
    sound = all(verified.sound for _, verified in results)
    if as_json:
        print_json(
            {
                "sound": sound,
                "partitions": [{"path": name, **asdict(verified)} for name, verified in results],
            }
        )
    else:
        _print_findings(results)
    if not sound:
        click.get_current_context().exit(Exit.REFUSED)


def _default_data() -> tuple[Path, ...]:
    """Return the data directory that `millpond up` uses without --data."""
    from millpond.cli.config import configured_log_dirs

    found = configured_log_dirs()
    missing = [path for path in found if not path.is_dir()]
    if missing:
        raise click.UsageError(
            f"there is no directory {missing[0]}; say which: millpond log verify --data DIR"
        )
    return found


def _print_findings(results: "list[tuple[str, Verified]]") -> None:
    rows = [
        (
            finding.severity.value,
            finding.path,
            finding.text
            + (f". {finding.advice[0].upper()}{finding.advice[1:]}" if finding.advice else ""),
        )
        for _, verified in results
        for finding in verified.findings
    ]
    if rows:
        print_table(["Severity", "File", "Finding"], rows)
    problems = sum(1 for severity, _, _ in rows if severity == "problem")
    total = human_bytes(sum(verified.bytes for _, verified in results))
    batches = sum(verified.batches for _, verified in results)
    segments = sum(verified.segments for _, verified in results)
    note(
        f"{len(results)} partition(s), {segments} segment(s), {batches} batch(es), {total}: "
        + (f"{problems} problem(s)" if problems else "sound")
    )


def _verify_all(paths: tuple[Path, ...], *, quiet: bool) -> "Iterator[tuple[str, Verified]]":
    from millpond.log.file_storage import FileStorage
    from millpond.log.verify import recovery_points, verify_partition, verify_segment

    partitions = [found for path in paths for found in _partitions(path)]
    total = sum(_log_bytes(path) for path in partitions)
    with _progress_bar(total, quiet=quiet) as advance:
        for path in partitions:
            storage = FileStorage(path.parent)
            if path.is_file():
                verified = verify_segment(storage, path.name, progress=advance)
            else:
                flushed = recovery_points(storage, "recovery-point-offset-checkpoint")
                verified = verify_partition(
                    storage, path.name, recovery_point=flushed.get(path.name), progress=advance
                )
            yield str(path), verified


def _partitions(path: Path) -> list[Path]:
    """The partitions' directories (or the one file) that a path means."""
    path = path.resolve()
    if path.is_file():
        if path.suffix != ".log" or not path.stem.isdecimal():
            raise click.BadParameter(
                f"{path.name} is no segment; give its .log file or a directory"
            )
        return [path]
    if any(path.glob("*.log")):
        return [path]
    found = sorted(child for child in path.iterdir() if child.is_dir() and any(child.glob("*.log")))
    if not found and (nodes := sorted(path.glob("node-*"))):
        # What `millpond up --nodes` makes.
        found = [partition for node in nodes if node.is_dir() for partition in _partitions(node)]
    if not found:
        raise click.BadParameter(f"there is no partition in {path}")
    return found


def _log_bytes(path: Path) -> int:
    files = [path] if path.is_file() else path.glob("*.log")
    return sum(file.stat().st_size for file in files)


class _progress_bar:  # noqa: N801 - used like a function
    """A bar on a terminal's standard error; nothing elsewhere."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        import sys

        self._bar: Any = None
        if sys.stderr.isatty() and not quiet and total > 0:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

            self._bar = Progress(
                "verifying",
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Callable[[int], None]:
        if self._bar is None:
            return lambda size: None
        self._bar.start()
        return lambda size: self._bar.advance(self._task, size)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
